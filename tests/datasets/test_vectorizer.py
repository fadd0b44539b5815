"""The vectorizer: a stored vocabulary gives the same bits, and highlighted terms are the terms of the row."""

import json
import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oal_engine.datasets.features import scripts, vectorizer
from oal_engine.datasets.features.vectorizer import TOKENIZERS, Vocabulary, count, fit

TWEETS = ["I'm so #happy today 😀", "so #happy with @Ann", "today was a state-of-the-art day", "I'm with @Ann 😀 😀"]


def test_tf_idf_by_hand():
    """A tf-idf value is the term's count (sublinear: 1 + its log) times the smooth idf log((1 + n) / (1 + df)) + 1."""
    texts = ["a b b", "a", "a c"]
    plain, sublinear = (fit(texts, min_df=1, sublinear=flag) for flag in (False, True))
    rare = math.log(4 / 2) + 1
    assert plain.terms == ["a", "b", "c"]
    assert plain.document_frequency.tolist() == [3, 1, 1]
    assert (plain.document_frequency.dtype, plain.documents) == (np.int64, 3)
    assert plain.transform(texts).toarray().tolist() == [[1, 2 * rare, 0], [1, 0, 0], [1, 0, rare]]
    assert sublinear.transform(["b b unknown"]).toarray() == pytest.approx(np.array([[0, (1 + math.log(2)) * rare, 0]]))


def test_vocabulary_is_rebuilt_from_what_is_stored():
    """A vocabulary rebuilt from its terms, frequencies, number of documents and settings gives the same bits."""
    known = fit(TWEETS, tokenizer="tweets", ngrams=2, min_df=1)
    stored = json.loads(json.dumps([known.terms, known.document_frequency.tolist(), known.documents, known.settings]))
    again = Vocabulary(stored[0], np.array(stored[1]), *stored[2:]).transform(TWEETS)
    rows = known.transform(TWEETS)
    assert rows.dtype == np.float64
    assert rows.has_sorted_indices
    assert [part.tobytes() for part in (again.indptr, again.indices, again.data)] == [
        part.tobytes() for part in (rows.indptr, rows.indices, rows.data)
    ]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefghijk"), max_size=40).map(" ".join), min_size=1, max_size=20))
def test_a_row_does_not_depend_on_its_neighbours(texts):
    known = fit(["a b c d e f g h i j", "a b c d e", "a b"], min_df=1)
    together = known.transform(texts).toarray()
    assert [known.transform([text]).toarray()[0].tobytes() for text in texts] == [row.tobytes() for row in together]


@pytest.mark.parametrize(("tokenizer", "tokens"), [
    ("words", ["I'm", "Happy", "at", "Bob_1", "s", "self", "made", "café", "4ever"]),
    ("tweets", ["I'm", "#Happy", "at", "@Bob_1", "s", "self-made", "café", "👩🏽‍🚀", "🇩🇪", "❤️", "4ever"]),
])  # fmt: skip
def test_tokens(tokenizer, tokens):
    """The tokenizer `words` keeps apostrophes; `tweets` also keeps hashtags, mentions, hyphens and whole emoji."""
    text = "I'm #Happy at @Bob_1 's self-made café! 👩🏽‍🚀 🇩🇪❤️ -- 4ever"
    known = fit([text], tokenizer=tokenizer, min_df=1, lowercase=False)
    assert [text[start:end] for start, end, _ in known.spans(text)] == tokens
    assert known.terms == sorted(tokens)


def test_rich_tokens():
    """A word gives these rich terms: itself, its five-letter prefix, its form with digits as zeros, and a mark for
    capitals. Punctuation gives its first three signs. Terms of more than half of the texts and single letters are left
    out."""
    known = fit(["RUNNING 5k!!!! now", "Run 12km, now"], tokenizer="rich", min_df=1)
    assert ["12km", "5k", "c:", "n:00km", "n:0k", "p:runni", "run", "running", "s:!!!", "s:,"] == known.terms
    assert ["12km", "5k", "WORDS IN CAPITALS", "00km (any digits)", "0k (any digits)", "runni…"] == [
        known.readable(column) for column in range(6)
    ]
    assert [(0, 7, "running"), (0, 7, "c:"), (0, 7, "p:runni")] == [
        (start, end, known.terms[column]) for start, end, column in known.spans("RUNNING")
    ]
    assert ["茶"] == fit(["a 茶", "a 茶", "a", "b", "c"], tokenizer="rich").terms
    assert ["s:!", "yes"] == fit(["yes!"] * 3, tokenizer="rich").terms  # unless nothing would be left
    assert ["a", "b"] == fit(["a b", "b a", "c"], tokenizer="rich").terms


def test_terms_without_a_column_share_some():
    """Terms outside the vocabulary share hash columns, except single letters and terms that most texts contain. They
    are highlighted in a text, and a hash column is named after the text's new terms."""
    texts = ["the cat", "the cat", "the dog", "the dog", "the cow x"]
    known = fit(texts, tokenizer="rich", new=64)
    assert (64, ["the"], ["cat", "dog"]) == (known.shared, known.settings["frequent"], known.terms[:2])
    row, text = known.transform(["the cow x cat"]), "the cow x cat"
    (cat, new), terms = row.indices.tolist(), known.new_terms(text)
    assert ([0], {new: "cow"}) == ([cat], terms)
    assert row.data[1] == pytest.approx(math.log(6 / 2) + 1)  # as if one text held it
    assert [(4, 7, new), (10, 13, cat)] == known.spans(text)
    assert ["cow", "new words"] == [known.readable(new, terms), known.readable(new)]
    assert [True, False] == [known.knows(word) for word in ("cat", "cow")]
    assert 2 == fit(texts, tokenizer="rich").transform(["cow dog"]).shape[1]
    with pytest.raises(ValueError, match=r"the shared columns must be <= 66, all there are\. Got 67\."):
        Vocabulary(known.terms, known.document_frequency, 5, known.settings | {"new": 67})


def test_the_words_of_texts_are_numbered_the_rarest_first():
    """Each word of a text is listed once; words that fewer of the vocabulary's texts contain come first. Prefixes and
    punctuation do not count as words. Single letters and words that most texts contain never count as new."""
    known = fit(["the cat sat", "the cat ran!", "the dog ran x", "the", "the"], tokenizer="rich", min_df=1, new=8)
    texts = ["The CATS ran, the cat: zebra zebra x 12", "", "the"]
    words = known.read(texts)[1]
    assert [[0, 0, 0, 2, 2, 5, 5], [], [5]] == [
        (words.numbers[first:end] >> 32).tolist() for first, end in zip(words.ends, words.ends[1:])
    ]
    assert [[7, 0, 1], [3, 0, 0]] == [each.tolist() for each in (words.counts(), words.new())]
    assert (8, 3) == known.word_counts(count(texts, known.settings))
    assert words.numbers.tolist() != known.read(["the cat sat x zebra 12 cats"])[1].numbers.tolist()
    assert 1 == len({known.read([text])[1].numbers.tobytes() for text in ("ran cat", "cat ran cat", "Cat RAN!")})


@settings(deadline=None)
@given(
    st.text(st.sampled_from("aAbİßΣσς#@'-’ 😀\u200d\n") | st.characters(exclude_categories=["Cs"])),
    st.sampled_from(sorted(TOKENIZERS)),
)
def test_spans_show_the_terms_of_the_row(text, tokenizer):
    """The highlighted spans of any text are exactly the terms of its row, even if lower case changes the length."""
    known = fit([text + " ab", "ab"], tokenizer=tokenizer, min_df=1)
    spans = known.spans(text)
    if tokenizer != "rich":
        assert all(text[start:end].lower() == known.terms[column] for start, end, column in spans)
    assert sorted({column for *_, column in spans}) == known.transform([text]).indices.tolist()


def test_the_most_frequent_terms_are_kept():
    """Of the terms in at least `min_df` texts, the `max_terms` most frequent are kept. Ties are broken alphabetically,
    and columns are in alphabetical order."""
    texts = ["d c b", "d c b", "d a", "z z z z"]
    assert fit(texts, min_df=2).terms == ["b", "c", "d"]
    assert fit(texts, min_df=1, max_terms=3).terms == ["b", "c", "d"]
    assert fit(texts, min_df=2, max_terms=2).terms == ["b", "d"]
    assert fit(texts, min_df=2, ngrams=2).terms == ["b", "c", "c b", "d", "d c"]
    assert [column for *_, column in fit(texts, min_df=2, ngrams=2).spans("d c")] == [3, 1]


@pytest.mark.parametrize("texts", [["one", "two"], ["!", "?"]])
def test_no_terms(texts):
    with pytest.raises(ValueError, match=r"^No term occurs in at least 2 of the 2 texts\.$"):
        fit(texts)
    with pytest.raises(ValueError, match=r"^The file has only 1 text; at least 2 are needed\.$"):
        fit(texts[:1])


def test_unknown_tokenizer():
    with pytest.raises(ValueError, match=r"tokenizer must be one of words, tweets, rich\. Got 'japanese'"):
        fit(["a"], tokenizer="japanese")


def test_progress(monkeypatch):
    """Fitting reports progress after every BLOCK_CHARACTERS characters and at the last text."""
    monkeypatch.setattr(vectorizer, "BLOCK_CHARACTERS", 100_000)
    calls = []
    texts = ["same words"] * 20_001
    fit(texts, progress=lambda *call: calls.append(call))
    assert calls == [(10_000, 20_001), (20_000, 20_001), (20_001, 20_001)]


@pytest.mark.parametrize(("text", "terms"), [
    ("我爱茶。", "s:。 t:我爱茶 爱 爱茶 我 我爱 茶"),
    ("お茶です", "t:お茶で t:茶です お お茶 す で です 茶 茶で"),
    ("ｶﾞｽ", "ガ ガス ス"),  # narrow kana
    ("กินน้ำ", "กิ กิน น นน้ น้ น้ำ ำ"),
    ("ກິນເຂົ້າ", "ກິ ກິນ ຂົ້ ຂົ້າ ນ ນເ າ ເ ເຂົ້"),
    ("བོད་ཡིག", "s:་ བོ བོད ད ཡི ཡིག ག"),
    ("ខ្មែរ", "ខ្ ខ្មែ មែ មែរ រ"),
    ("မြန်မာ", "န် န်မာ မာ မြ မြန်"),
    ("한국어를 배운다", "p:배운 p:한국 배운다 한국어를"),
    ("हिन्दी में लिखना", "p:हिन्द में लिखना हिन्दी"),
    ("தமிழில்", "p:தமிழி தமிழில்"),
    ("العربيّة", "p:العرب العربيّة"),
    ("أحمد إلى آخر", "أحمد آخر إلى"),
    ("می‌خواهم", "p:می‌خو می‌خواهم"),  # Persian, with a zero-width non-joiner
    ("שָׁלוֹם לכם", "p:שָׁלו לכם שָׁלוֹם"),
    ("Привет, МИР", "c: p:приве s:, мир привет"),
    ("Größe und Straße", "größe p:straß straße und"),
    ("Tiếng Việt", "tiếng việt"),
    ("iPhone手机2024年", "2024 iphone n:0000 p:iphon 年 手 手机 机"),
    ("１２３ ＡＢ ２回", "123 ab c: n:000 n:0 回"),
    ("٣٤ क़", "n:00 ٣٤ क़"),
    ("Å ≠", "s:≠ å"),
    ("ខ្មែរ\u200bកិន", "កិ កិន ខ្ ខ្មែ ន មែ មែរ រ"),  # with a zero-width space between the words
    ("\u200fאב\u200f!\u200b \u200b 1", "n:0 s:! אב"),
])  # fmt: skip
def test_tokens_of_all_scripts(text, terms):
    """In scripts without spaces, the terms are letters with their marks and pairs of these; Han and kana also give
    triples. A Hangul word also gives its first two syllables. Other scripts are tokenized like English. Composed and
    decomposed texts (NFC, NFD) have the same row, and all terms are highlighted in spans that do not overlap."""
    known = fit([text, "", ""], tokenizer="rich", min_df=1)
    assert sorted(terms.split(" ")) == known.terms
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, text)
        assert known.transform([text]).toarray().tolist() == known.transform([other]).toarray().tolist()
        places, columns = zip(*((span, column) for *span, column in known.spans(other)))
        assert {*range(len(known.terms))} == {*columns}
        ends = np.array(sorted({*map(tuple, places)}))
        assert (ends[:-1, 1] <= ends[1:, 0]).all()


@pytest.mark.parametrize(("text", "marked"), [
    ("cafe\u0301 ole\u0301", [["cafe\u0301"], ["ole\u0301"]]),
    ("１２３ Ａ回", [["１２３"], ["１２３"], ["回"]]),
    ("か\u3099ｶﾞ", [["か\u3099"], ["か\u3099", "ｶﾞ"], ["ｶﾞ"]]),
    ("กินน้ำ", [["กิ"], ["กิ", "น"], ["น"], ["น", "น้"], ["น้"], ["น้", "ำ"], ["ำ"]]),
    ("שלום 茶道", [["שלום"], ["茶"], ["茶", "道"], ["道"]]),
])  # fmt: skip
def test_spans_are_places_in_the_text_as_written(text, marked):
    known = fit([text, "", ""], tokenizer="rich", min_df=1)
    spans = dict[int, list[str]]()
    for start, end, column in known.spans(text):
        spans.setdefault(column, []).append(text[start:end])
    assert sorted(marked) == sorted(spans.values())


def test_older_data_sets_are_cut_as_before():
    """A vocabulary stored with the older token pattern keeps its terms: whole clauses, words that end at vowel signs,
    and different terms for different Unicode compositions."""
    known = fit(["x"], tokenizer="rich", min_df=1)
    older = Vocabulary(known.terms, known.document_frequency, 1, known.settings | {"pattern": vectorizer.PLAIN})
    text = "日本語は楽しい हिन्दी cafe\u0301 １２Ａ 한국어 RUNNING"
    expected = ["日本語は楽しい", "p:日本語は楽", "ह", "s:\u093f", "न", "s:\u094d", "द", "s:\u0940", "cafe", "s:\u0301"]
    expected += ["１２ａ", "c:", "n:00ａ", "한국어", "running", "p:runni"]
    assert expected == [*dict.fromkeys(count([text], older.settings).terms)]
    assert {"日", "हिन्दी", "café", "12a", "p:한국"} < {*count([text], known.settings).terms}
    assert count(["only English, 5k"], older.settings).terms == count(["only English, 5k"], known.settings).terms


@pytest.mark.parametrize(("text", "told"), [
    ("お茶を飲みます", "100 % of the letters are Japanese: their terms are characters, pairs and triples."),
    ("我喝茶 abc", "50 % of the letters are Chinese: their terms are characters, pairs and triples."),
    ("한국어", "100 % of the letters are Korean: their terms are words and their first two syllables."),
    ("กินน้ำ", "100 % of the letters are Thai: their terms are letters with their marks, and pairs of these."),
    ("only one 茶", ""), ("Привет", ""), ("12 !", ""),
])  # fmt: skip
def test_scripts_are_told(text, told):
    """An import reports how texts are tokenized if a quarter of the letters are not tokenized like English."""
    assert told == scripts.sentence([text])


def test_pairs_stand_for_words():
    """In scripts without spaces, single letters and pairs of letters count as words; triples, prefixes and signs do
    not. The names of pairs and triples are their characters."""
    known = fit(["我爱茶。", "", ""], tokenizer="rich", min_df=1)
    assert 5 == known.read(["我爱茶。"])[1].counts()[0]
    assert ["。", "我爱茶", "我", "我爱", "爱", "爱茶", "茶"] == [known.readable(column) for column in range(7)]

"""The vectorizer: a stored vocabulary gives the same bits, and highlighted terms are the terms of the row."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oal_engine.datasets.features import vectorizer
from oal_engine.datasets.features.vectorizer import TOKENIZERS, Vocabulary, count, fit

TWEETS = ["I'm so #happy today 😀", "so #happy with @Ann", "today was a state-of-the-art day", "I'm with @Ann 😀 😀"]


def test_tf_idf_by_hand():
    """A value is the term's count, or 1 + its log, times the smooth idf log((1 + n) / (1 + df)) + 1."""
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
    """A text gets the same row, bit for bit, alone and among others."""
    known = fit(["a b c d e f g h i j", "a b c d e", "a b"], min_df=1)
    together = known.transform(texts).toarray()
    assert [known.transform([text]).toarray()[0].tobytes() for text in texts] == [row.tobytes() for row in together]


@pytest.mark.parametrize(("tokenizer", "tokens"), [
    ("words", ["I'm", "Happy", "at", "Bob_1", "s", "self", "made", "café", "4ever"]),
    ("tweets", ["I'm", "#Happy", "at", "@Bob_1", "s", "self-made", "café", "👩🏽‍🚀", "🇩🇪", "❤️", "4ever"]),
])  # fmt: skip
def test_tokens(tokenizer, tokens):
    """Words keep their apostrophes; tweets also keep hashtags, mentions, hyphens, and an emoji with all its parts."""
    text = "I'm #Happy at @Bob_1 's self-made café! 👩🏽‍🚀 🇩🇪❤️ -- 4ever"
    known = fit([text], tokenizer=tokenizer, min_df=1, lowercase=False)
    assert [text[start:end] for start, end, _ in known.spans(text)] == tokens
    assert known.terms == sorted(tokens)


def test_rich_tokens():
    """The terms of a word are itself, its first five letters, its form with digits as zeros and a mark for capitals; of
    punctuation, its first three signs. Terms of more than half of the texts and single letters are left out."""
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
    """A term outside the vocabulary has a hash column, unless most texts contain it or it is a letter. It is
    highlighted, and named by the texts that contain it."""
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
    """A text has each of its words once, with the number of texts of the vocabulary that contain it. Parts and signs
    are not words; single letters and words of most texts are not new."""
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
    """The highlighted spans of any text are exactly the terms of its row, also where lower case changes the length."""
    known = fit([text + " ab", "ab"], tokenizer=tokenizer, min_df=1)
    spans = known.spans(text)
    if tokenizer != "rich":
        assert all(text[start:end].lower() == known.terms[column] for start, end, column in spans)
    assert sorted({column for *_, column in spans}) == known.transform([text]).indices.tolist()


def test_the_most_frequent_terms_are_kept():
    """Of all terms in min_df texts the max_terms in most texts stay, ties by the alphabet, columns in its order."""
    texts = ["d c b", "d c b", "d a", "z z z z"]
    assert fit(texts, min_df=2).terms == ["b", "c", "d"]
    assert fit(texts, min_df=1, max_terms=3).terms == ["b", "c", "d"]
    assert fit(texts, min_df=2, max_terms=2).terms == ["b", "d"]
    assert fit(texts, min_df=2, ngrams=2).terms == ["b", "c", "c b", "d", "d c"]
    assert [column for *_, column in fit(texts, min_df=2, ngrams=2).spans("d c")] == [3, 1]


@pytest.mark.parametrize("texts", [["one", "two"], ["!", "?"]])
def test_no_terms(texts):
    """Texts that share no term are refused, and so are too few texts."""
    with pytest.raises(ValueError, match=r"^No term occurs in at least 2 of the 2 texts\.$"):
        fit(texts)
    with pytest.raises(ValueError, match=r"^The file has only 1 text; at least 2 are needed\.$"):
        fit(texts[:1])


def test_unknown_tokenizer():
    """The message names the tokenizers that there are."""
    with pytest.raises(ValueError, match=r"tokenizer must be one of words, tweets, rich\. Got 'japanese'"):
        fit(["a"], tokenizer="japanese")


def test_progress(monkeypatch):
    """Fitting reports after every BLOCK_CHARACTERS and at the last text."""
    monkeypatch.setattr(vectorizer, "BLOCK_CHARACTERS", 100_000)
    calls = []
    texts = ["same words"] * 20_001
    fit(texts, progress=lambda *call: calls.append(call))
    assert calls == [(10_000, 20_001), (20_000, 20_001), (20_001, 20_001)]

"""Text to sparse rows through a stored vocabulary: tf-idf with the same bits wherever it is rebuilt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy import sparse

from ..reading.sources import Progress

_SYMBOL = "[\u203c\u2049\u2139-\u21aa\u231a-\u27bf\u2934-\u2b55\U0001f000-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]*"
_EMOJI = f"[\U0001f1e6-\U0001f1ff]{{2}}|{_SYMBOL}(?:\u200d{_SYMBOL})*"  # a flag is two letters; \u200d joins a family
TOKENIZERS: dict[str, str] = {
    "words": r"\w+(?:['’]\w+)*",
    "tweets": rf"[#@]?\w+(?:['’\-]\w+)*|{_EMOJI}",
    "rich": r"\w+|[^\w\s]+",
}
RICH_MAX_DF = 0.5  # share of the texts: what is in more of them says little of each
NEW = 4096  # columns of rich texts that all terms share which the vocabulary lacks
_DIGIT = re.compile(r"\d")
CHUNK = 2**20  # characters, about, that are cut into words at a time


class WordSets(NamedTuple):
    """The distinct words of texts as numbers, those of each text in order, the rarest first: how many texts of the
    vocabulary hold the word, 0 if it is new, in the upper 32 bits, and its checksum in the lower."""

    numbers: np.ndarray  # int64
    ends: np.ndarray  # of each text, behind a 0

    def counts(self) -> np.ndarray:
        """How many words each text has."""
        return np.diff(self.ends)

    def of(self, text: int) -> np.ndarray:
        """The words of a text."""
        return self.numbers[self.ends[text] : self.ends[text + 1]]

    def take(self, texts: np.ndarray) -> WordSets:
        """The words of some texts."""
        kept = np.isin(np.repeat(np.arange(self.ends.size - 1), self.counts()), texts)
        return WordSets(self.numbers[kept], np.append(0, np.cumsum(self.counts()[texts])))

    def new(self) -> np.ndarray:
        """How many words each text has that no text of the vocabulary holds."""
        return np.diff(np.append(0, np.cumsum(self.numbers >> 32 == 0))[self.ends])


class TermCounts(NamedTuple):
    """The distinct terms of texts, and how often (int32) each text (row) holds each of them."""

    terms: list[str]
    counts: sparse.csr_array

    def take(self, texts: np.ndarray) -> TermCounts:
        """The terms of some texts."""
        return TermCounts(self.terms, self.counts[texts])


class _Numbers(dict[str, int]):
    """Names by number, from 0 in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms (place = column), the number of documents that hold each (int64), and the settings that found them.

    The last `new` columns, if there are such, are shared by all terms that it lacks, by their checksums, so that words
    which come later can be learned; what is in most texts has none.
    """

    terms: list[str]
    document_frequency: np.ndarray
    documents: int
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        if self.shared > len(self.terms):  # columns before the first would be read beside the weights
            raise ValueError(f"the shared columns must be <= {len(self.terms):,}, all there are. Got {self.shared:,}.")

    def transform(self, texts: Sequence[str], progress: Progress | None = None) -> sparse.csr_array:
        """The tf-idf rows of texts: float64, not normalised, indices sorted; terms without a column are left out."""
        return self.rows(count(texts, self.settings, progress))

    def read(self, texts: Sequence[str]) -> tuple[sparse.csr_array, WordSets]:
        """The rows of texts, as `transform` makes them, and their words."""
        counted = count(texts, self.settings)
        return self.rows(counted), self.words(counted)

    def rows(self, texts: TermCounts) -> sparse.csr_array:
        """The rows of texts whose terms are counted already."""
        found = [self._column(term) for term in texts.terms]
        columns = np.array([-1 if column is None else column for column in found], np.int32)
        made = _regrouped(texts.counts, columns, len(self.terms))
        values: np.ndarray = made.data.astype(np.float64)
        if self.settings["sublinear"]:
            values = _logs(values) + 1
        values *= self._inverse_frequency[made.indices]
        return sparse.csr_array((values, made.indices, made.indptr), made.shape)

    def words(self, texts: TermCounts) -> WordSets:
        """The words of texts whose terms are counted already."""
        words, numbers = self._words(texts.terms)
        order = np.argsort(numbers, kind="stable")
        ranks = np.full(len(texts.terms), -1, np.int32)
        ranks[words[order]] = np.arange(words.size)
        made = _regrouped(texts.counts, ranks, words.size)
        return WordSets(numbers[order][made.indices], made.indptr.astype(np.int64))

    def word_counts(self, texts: TermCounts) -> tuple[int, int]:
        """How many words its own texts have, and how many of these would be new if their text had come later."""
        words, numbers = self._words(texts.terms)
        held = np.bincount(texts.counts.indices, minlength=len(texts.terms))[words]
        return int(held.sum()), int(held[numbers >> 32 <= self.settings["min_df"]].sum())

    def _words(self, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """The places of the terms that are words, and the numbers of these."""
        words = np.array([place for place, term in enumerate(terms) if _is_word(term)], int)
        numbers = (self._numbers.get(term) or self._number(term) for term in map(terms.__getitem__, words))
        return words, np.fromiter(numbers, np.int64, words.size)

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """(start, end, column) of each single-word term in a text that has a column, to highlight it; `rich` ones have
        several."""
        return [
            (*match.span(), column)
            for match in re.finditer(self.settings["pattern"], text)
            for term in _of_token(match[0], self.settings["tokenizer"], self.settings["lowercase"])
            if (column := self._column(term)) is not None
        ]

    def knows(self, text: str) -> bool:
        """Whether a term of a text has a column of its own."""
        return any(term in self._columns for term in _terms(text, self.settings))

    def new_terms(self, text: str) -> dict[int, str]:
        """The terms of a text that it lacks, by the columns that they share with others."""
        terms = _terms(text, self.settings) if self.shared else []
        new = {self._column(term): term for term in terms if term not in self._columns}
        return {column: term for column, term in new.items() if column is not None}

    def readable(self, column: int, new: Mapping[int, str] | None = None) -> str:
        """The term of a column as people read it; of a shared one the one that is in `new`."""
        term = (new or {}).get(column, self.terms[column])
        kind, colon, rest = term.partition(":")
        if self.settings["tokenizer"] != "rich" or not colon:
            return term
        return {"p": f"{rest}…", "n": f"{rest} (any digits)", "c": "WORDS IN CAPITALS", "s": rest, "new": "new words"}[
            kind
        ]

    def _column(self, term: str) -> int | None:
        """The column of a term: its own, or, where it has none, a shared one."""
        column = self._columns.get(term)
        if column is None and self.shared and term not in self._frequent and not _is_letter(term):
            column = len(self.terms) - self.shared + crc32(term.encode(errors="surrogatepass")) % self.shared
        return column

    def _number(self, word: str) -> int:
        """The number of a word without a column; single letters and what is in most texts are no news."""
        return _numbered(word, self.documents if word in self._frequent or _is_letter(word) else 0)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The numbers of words with columns, as WordSets have them."""
        held = zip(self.terms, np.asarray(self.document_frequency).tolist())
        return {term: _numbered(term, texts) for term, texts in held if _is_word(term)}

    @cached_property
    def _inverse_frequency(self) -> np.ndarray:
        return _logs((1 + self.documents) / (1 + np.asarray(self.document_frequency))) + 1

    @property
    def shared(self) -> int:
        """How many of the last columns are shared."""
        return self.settings.get("new", 0)

    @cached_property
    def _frequent(self) -> frozenset[str]:
        return frozenset(self.settings.get("frequent", ()))

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms)}


def fit(texts: Sequence[str], **settings: Any) -> Vocabulary:
    """The vocabulary of texts, under the settings of `fit_count`."""
    return fit_count(texts, **settings)[0]


def fit_count(
    texts: Sequence[str],
    *,
    tokenizer: str = "words",
    ngrams: int = 1,
    min_df: int = 2,
    max_terms: int = 100_000,
    sublinear: bool = True,
    lowercase: bool = True,
    new: int = 0,
    progress: Progress | None = None,
) -> tuple[Vocabulary, TermCounts]:
    """The vocabulary of texts, which is the `max_terms` most frequent of the terms that at least `min_df` of them hold;
    and their terms, for `Vocabulary.rows`.

    A term is up to `ngrams` words; `sublinear` takes 1 + log of a count; `new` columns are shared by all other terms.
    ValueError where no term is left.
    """
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"tokenizer must be one of {', '.join(TOKENIZERS)}. Got {tokenizer!r}.")
    settings = {
        "tokenizer": tokenizer,
        "pattern": TOKENIZERS[tokenizer],
        "ngrams": ngrams,
        "min_df": min_df,
        "max_terms": max_terms,
        "sublinear": sublinear,
        "lowercase": lowercase,
    }
    counted = count(texts, settings, progress)
    frequency = dict(zip(counted.terms, np.bincount(counted.counts.indices, minlength=len(counted.terms)).tolist()))
    often = [(-texts_with, term) for term, texts_with in frequency.items() if texts_with >= min_df]
    most_texts = RICH_MAX_DF * len(texts)
    if tokenizer == "rich":
        often = [each for each in often if -each[0] <= most_texts and not _is_letter(each[1])] or often
    most = sorted(often)[:max_terms]
    if not most:
        if len(texts) < min_df:
            raise ValueError(
                f"The file has only {len(texts):,} text{'s' * (len(texts) != 1)}; at least {min_df} are needed."
            )
        raise ValueError(f"No word occurs in at least {min_df} of the {len(texts):,} texts.")
    terms = sorted(term for _, term in most)
    if new:
        frequent = {term for term, texts_with in frequency.items() if texts_with > most_texts}
        settings |= {"new": new, "frequent": sorted(frequent.difference(terms))}
        terms += [f"new:{k}" for k in range(new)]
    return Vocabulary(terms, np.array([frequency.get(term, 1) for term in terms]), len(texts), settings), counted


def count(texts: Sequence[str], settings: dict[str, Any], progress: Progress | None = None) -> TermCounts:
    """The terms of texts, under the settings of a vocabulary."""
    import pyarrow as pa
    from pyarrow import compute

    find, of_token = re.compile(settings["pattern"]).findall, (settings["tokenizer"], settings["lowercase"])
    single, different, terms = settings["ngrams"] == 1, _Numbers(), _Numbers()
    found, sizes = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    chunks = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))) // CHUNK
    for start, end in pairwise([0, *np.flatnonzero(np.diff(chunks)) + 1, len(texts)] if texts else []):
        some = texts[start:end]
        if single:  # no word goes beyond a blank, and many come again with what stands around them
            lists = compute.ascii_split_whitespace(pa.array(some, pa.large_string()))
        else:
            lists = pa.array([_terms(text, settings) for text in some], pa.list_(pa.large_string()))
        encoded = lists.values.dictionary_encode()
        numbers = np.fromiter(map(different.__getitem__, encoded.dictionary.to_pylist()), np.int32)
        found.append(numbers[encoded.indices.to_numpy()])
        sizes.append(np.diff(lists.offsets.to_numpy()))
        if progress:
            progress(int(end), len(texts))
    if single:
        parts = [[term for token in find(part) for term in _of_token(token, *of_token)] for part in different]
    else:
        parts = [[term] for term in different]
    numbers = np.fromiter(map(terms.__getitem__, chain.from_iterable(parts)), np.int32)
    counts = _holding(np.concatenate(found), np.concatenate(sizes)) @ _holding(numbers, [*map(len, parts)])
    counts.sum_duplicates()
    return TermCounts([*terms], counts)


def _holding(numbers: np.ndarray, sizes: np.ndarray | list[int]) -> sparse.csr_array:
    """How often each row holds each number, of rows that have so many."""
    ends = np.append(0, np.cumsum(sizes)).astype(sparse.get_index_dtype(maxval=numbers.size))
    return sparse.csr_array((np.ones(numbers.size, np.int32), numbers, ends), (len(sizes), numbers.max(initial=-1) + 1))


def _regrouped(counts: sparse.csr_array, columns: np.ndarray, width: int) -> sparse.csr_array:
    """Counts whose columns are others, which may be the same for several; -1 leaves them out."""
    places = columns[counts.indices]
    kept = places >= 0
    before = np.zeros(kept.size + 1, counts.indptr.dtype)
    np.cumsum(kept, out=before[1:])
    made = sparse.csr_array((counts.data[kept], places[kept], before[counts.indptr]), (counts.shape[0], width))
    made.sum_duplicates()  # and sorts
    return made


def _terms(text: str, settings: dict[str, Any]) -> list[str]:
    """The words of a text, then its sequences of 2, 3, ... words."""
    tokenizer, lowercase = settings["tokenizer"], settings["lowercase"]
    words = [term for token in re.findall(settings["pattern"], text) for term in _of_token(token, tokenizer, lowercase)]
    return words + [
        " ".join(words[start : start + size])
        for size in range(2, settings["ngrams"] + 1)
        for start in range(len(words) - size + 1)
    ]


def _logs(numbers: np.ndarray) -> np.ndarray:
    """Return natural logarithms, rounded correctly: those of numpy differ in the last bit by machine."""
    distinct, places = np.unique(numbers, return_inverse=True)
    return np.array([exact_log(number) for number in distinct.tolist()])[places]


@lru_cache(2**16)
def exact_log(number: float) -> float:
    """The natural logarithm of a number, rounded correctly: the same bits on every machine."""
    return float(Context(prec=30).ln(Decimal(number)))


@lru_cache(2**18)
def _of_token(token: str, tokenizer: str, lowercase: bool) -> tuple[str, ...]:
    """The terms of a token: it, in lower case where that is set. `rich` gives a word, its first five letters, its
    digits as zeros and that it is in capitals; of punctuation the first three signs."""
    term = token.lower() if lowercase else token
    if tokenizer != "rich":
        return (term,)
    if not re.match(r"\w", token):
        return (f"s:{token[:3]}",)
    terms = [term]
    if len(token) >= 2 and token.isupper():
        terms.append("c:")
    if len(token) > 5:
        terms.append(f"p:{term[:5]}")
    if _DIGIT.search(term):
        terms.append(f"n:{_DIGIT.sub('0', term)[:12]}")
    return tuple(terms)


def _is_letter(term: str) -> bool:
    """Whether a term is a single letter or digit, which is a word in few languages that are written with these."""
    return len(term) == 1 and term.isascii()


def _is_word(term: str) -> bool:
    """Whether a term is a word: not a part or a sign of a text, nor several words."""
    return ":" not in term and " " not in term


def _numbered(word: str, texts: int) -> int:
    """The number of a word that so many texts hold."""
    return min(texts, 2**30) << 32 | crc32(word.encode(errors="surrogatepass"))

"""Turn texts into sparse tf-idf rows through a stored vocabulary, with the same bits on every machine."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from ..block_files import StoredMatrices, Strings, strings
from ..reading.parsed import plural
from ..reading.sources import Progress
from . import scripts

if TYPE_CHECKING:
    from scipy import sparse

_SYMBOL = "[\u203c\u2049\u2139-\u21aa\u231a-\u27bf\u2934-\u2b55\U0001f000-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]*"
_EMOJI = f"[\U0001f1e6-\U0001f1ff]{{2}}|{_SYMBOL}(?:\u200d{_SYMBOL})*"  # a flag has two letters; \u200d joins symbols
_BY_SCRIPT = rf"{scripts.WORD}|[^\w\s{scripts.INVISIBLE}]+"
PLAIN = r"\w+|[^\w\s]+"  # of the rich tokenizer in older data sets, which does not cut by script
TOKENIZERS: dict[str, str] = {
    "words": r"\w+(?:['’]\w+)*",
    "tweets": rf"[#@]?\w+(?:['’\-]\w+)*|{_EMOJI}",
    "rich": _BY_SCRIPT,
}
PATTERNS = {*TOKENIZERS.values(), PLAIN}  # patterns that a data set or a model may have stored
RICH_MAX_DF = 0.5  # share of the texts above which a term is left out as uninformative
HASH_COLUMNS = 4096  # of rich texts (feature hashing), shared by all terms outside the vocabulary
_DIGIT, _WORD = re.compile(r"\d"), re.compile(r"\w")
BLOCK_CHARACTERS = 2**21  # of texts whose terms are counted at a time
MAX_PARTS = 2**19  # distinct parts between spaces to keep in memory, roughly
MAX_PART_TERMS = 2**23  # terms of all these parts: in scripts without spaces, a part is a sentence


class WordSets(NamedTuple):
    """The distinct words of each text as numbers, the rarest first. The upper 32 bits of a number are the document
    frequency of the word in the vocabulary (0: a new word), the lower 32 bits its CRC-32 checksum."""

    numbers: np.ndarray  # int64, text by text
    ends: np.ndarray  # 0, then the end of each text

    def counts(self) -> np.ndarray:
        """Count the distinct words of each text."""
        return np.diff(self.ends)

    def of(self, text: int) -> np.ndarray:
        """Return the words of a text."""
        return self.numbers[self.ends[text] : self.ends[text + 1]]

    def take(self, texts: np.ndarray) -> WordSets:
        """Return the word sets of the texts at these ascending positions."""
        chosen = np.isin(np.repeat(np.arange(self.ends.size - 1), self.counts()), texts)
        return WordSets(self.numbers[chosen], np.append(0, np.cumsum(self.counts()[texts])))

    def new(self) -> np.ndarray:
        """Count the new words of each text: words whose document frequency in the vocabulary is 0."""
        return np.diff(np.append(0, np.cumsum(self.numbers >> 32 == 0))[self.ends])


def joined(parts: Sequence[WordSets]) -> WordSets:
    """Concatenate the word sets of several parts."""
    sizes = np.concatenate([part.counts() for part in parts])
    return WordSets(np.concatenate([part.numbers for part in parts]), np.append(0, np.cumsum(sizes)))


Matrices: TypeAlias = "list[sparse.csr_array] | StoredMatrices"
Places: TypeAlias = Sequence[tuple[int, int]]  # (start, end) of parts of a token, end exclusive


class TermCounts(NamedTuple):
    """The distinct terms of texts, and the count of each term in each text: sparse int32 blocks, shape (texts, terms).
    Later blocks may have more terms."""

    terms: Strings
    blocks: Matrices

    def frequency(self) -> np.ndarray:
        """Count the texts with each term (document frequency)."""
        frequency = np.zeros(len(self.terms), np.int64)
        for block in self.blocks:
            frequency += np.bincount(block.indices, minlength=frequency.size)
        return frequency


class _Numbers(dict[str, int]):
    """A dictionary that numbers names from 0, in the order of their first use."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A vocabulary: terms by column, their document frequencies (int64), the number of documents, and settings.

    The last `settings["new"]` columns are hash columns (feature hashing): all other terms share them, by checksum, so
    that words of later texts can be learned. Single letters and terms in most texts have no hash column.
    """

    terms: list[str]
    document_frequency: np.ndarray
    documents: int
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        if self.shared > len(self.terms):  # a negative column would be read outside the weights
            raise ValueError(f"the shared columns must be <= {len(self.terms):,}, all there are. Got {self.shared:,}.")

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Compute tf-idf rows: float64, not normalized, indices sorted, without terms that have no column."""
        return next(self.rows(count(texts, self.settings)))

    def read(self, texts: Sequence[str]) -> tuple[sparse.csr_array, WordSets]:
        """Return the rows of texts, as from `transform`, and their word sets."""
        counted = count(texts, self.settings)
        return next(self.rows(counted)), self.words(counted)

    def rows(self, texts: TermCounts) -> Iterator[sparse.csr_array]:
        """Yield the tf-idf rows of counted texts, one matrix per block."""
        from scipy import sparse

        places = map(self._column, texts.terms)
        columns = np.array([-1 if column is None else column for column in places], np.int32)
        for block in texts.blocks:
            counts = _regrouped(block, columns, len(self.terms))
            values: np.ndarray = counts.data.astype(np.float64)
            if self.settings["sublinear"]:
                values = _logs(values) + 1
            values *= self.inverse_frequency[counts.indices]
            yield sparse.csr_array((values, counts.indices, counts.indptr), counts.shape)

    def words(self, texts: TermCounts) -> WordSets:
        """Return the word sets of counted texts."""
        words, numbers = self._words(texts.terms)
        order = np.argsort(numbers, kind="stable")
        ranks = np.full(len(texts.terms), -1, np.int32)
        ranks[words[order]] = np.arange(words.size)
        regrouped = (_regrouped(block, ranks, words.size) for block in texts.blocks)
        return joined([WordSets(numbers[order][each.indices], each.indptr.astype(np.int64)) for each in regrouped])

    def word_counts(self, texts: TermCounts) -> tuple[int, int]:
        """Return two counts, each summed over the imported texts: the distinct words of a text, and the words among
        them that would be new if the text had been appended after the import."""
        words, numbers = self._words(texts.terms)
        counts = texts.frequency()[words]
        return int(counts.sum()), int(counts[numbers >> 32 <= self.settings["min_df"]].sum())

    def _words(self, terms: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the terms that are words, and the number of each word as in WordSets."""
        words = {place: term for place, term in enumerate(terms) if _is_word(term)}
        numbers = (self._numbers.get(term) or self._number(term) for term in words.values())
        return np.array([*words], int), np.fromiter(numbers, np.int64, len(words))

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """Return (start, end, column) of each single-word term with a column, to highlight it in the text. The rich
        tokenizer makes several terms of a word. In scripts without spaces, a term of several letters has one span per
        letter, so that two spans are either equal or disjoint."""
        pattern, lowercase = self.settings["pattern"], self.settings["lowercase"]
        return [
            (match.start() + start, match.start() + end, column)
            for match in re.finditer(pattern, text)
            for term, places in _placed(match[0], pattern, lowercase)
            if (column := self._column(term)) is not None
            for start, end in places
        ]

    def knows(self, text: str) -> bool:
        """Tell whether any term of a text has a column of its own."""
        return any(term in self._columns for term in _terms(text, self.settings))

    def shares(self, words: Iterable[str]) -> dict[str, float]:
        """Return {word: share of the documents that contain it}, for the words with a column of their own."""
        columns = {word: column for word in words if (column := self._columns.get(word)) is not None}
        return {word: float(self.document_frequency[column] / self.documents) for word, column in columns.items()}

    def new_terms(self, text: str) -> dict[int, str]:
        """Return the terms of a text that are outside the vocabulary, {hash column: term}."""
        terms = _terms(text, self.settings) if self.shared else []
        new = {self._column(term): term for term in terms if term not in self._columns}
        return {column: term for column, term in new.items() if column is not None}

    def readable(self, column: int, new: Mapping[int, str] | None = None) -> str:
        """Return a readable form of the term of a column. new: {hash column: term to show for it}."""
        term = (new or {}).get(column, self.terms[column])
        kind, colon, rest = term.partition(":")
        if self.settings["tokenizer"] != "rich" or not colon:
            return term
        names = {"p": f"{rest}…", "n": f"{rest} (any digits)", "c": "WORDS IN CAPITALS", "new": "new words"}
        return names.get(kind, rest)

    def _column(self, term: str) -> int | None:
        """Return the column of a term: its own, or else a hash column, or None."""
        column = self._columns.get(term)
        if column is None and self.shared and term not in self._frequent and not _is_letter(term):
            column = len(self.terms) - self.shared + crc32(term.encode(errors="surrogatepass")) % self.shared
        return column

    def _number(self, word: str) -> int:
        """Encode a word without a column as a number for WordSets. Its document frequency is taken to be the
        number of documents if it is a letter, a digit or a very frequent word, else 0."""
        return _numbered(word, self.documents if word in self._frequent or _is_letter(word) else 0)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The WordSets numbers of the words that have a column, {word: number}."""
        frequencies = zip(self.terms, np.asarray(self.document_frequency).tolist())
        return {term: _numbered(term, texts) for term, texts in frequencies if _is_word(term)}

    @cached_property
    def inverse_frequency(self) -> np.ndarray:
        """The inverse document frequency of each term: 1 + ln((1 + documents) / (1 + documents with the term))."""
        return _logs((1 + self.documents) / (1 + np.asarray(self.document_frequency))) + 1

    @property
    def shared(self) -> int:
        """The number of hash columns, which come last."""
        return self.settings.get("new", 0)

    @cached_property
    def _frequent(self) -> frozenset[str]:
        return frozenset(self.settings.get("frequent", ()))

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms)}


def fit(texts: Sequence[str], **settings: Any) -> Vocabulary:
    """Fit a vocabulary to texts, with the settings of `fit_count`."""
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
    folder: Path | None = None,
) -> tuple[Vocabulary, list[TermCounts]]:
    """Count the terms of texts and fit a vocabulary. Return the vocabulary, and the counts for `Vocabulary.rows`.

    Of the terms that are in at least `min_df` texts, it keeps the `max_terms` most frequent. ngrams: most words in a
    term. sublinear: replace counts with 1 + ln(count). new: number of hash columns, shared by all terms without a
    column of their own. folder: as in `count_all`. Raise ValueError if the tokenizer is unknown or no term is left.
    """
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"tokenizer must be one of {', '.join(TOKENIZERS)}. Got {tokenizer!r}.")
    settings = {
        "tokenizer": tokenizer, "pattern": TOKENIZERS[tokenizer], "ngrams": ngrams, "min_df": min_df,
        "max_terms": max_terms, "sublinear": sublinear, "lowercase": lowercase,
    }  # fmt: skip
    counted = count_all(texts, settings, progress, folder)
    frequency = Counter[str]()  # the number of texts with each term
    for part in counted:
        frequency.update(dict(zip(part.terms, part.frequency().tolist())))
    frequent_enough = [(-texts_with, term) for term, texts_with in frequency.items() if texts_with >= min_df]
    most_texts = RICH_MAX_DF * len(texts)
    if tokenizer == "rich":
        informative = [each for each in frequent_enough if -each[0] <= most_texts and not _is_letter(each[1])]
        frequent_enough = informative or frequent_enough
    if not (chosen := sorted(frequent_enough)[:max_terms]):
        if len(texts) < min_df:
            raise ValueError(f"The file has only {plural(len(texts), 'text')}; at least {min_df} are needed.")
        raise ValueError(f"No term occurs in at least {min_df} of the {len(texts):,} texts.")
    terms = sorted(term for _, term in chosen)
    if new:
        frequent = {term for term, texts_with in frequency.items() if texts_with > most_texts}
        settings |= {"new": new, "frequent": sorted(frequent.difference(terms))}
        terms += [f"new:{k}" for k in range(new)]
    return Vocabulary(terms, np.array([frequency.get(term, 1) for term in terms]), len(texts), settings), counted


def count_all(
    texts: Sequence[str], settings: dict[str, Any], progress: Progress | None = None, folder: Path | None = None
) -> list[TermCounts]:
    """Count the terms of texts, block by block. Many distinct words give several parts, in the order of the texts.

    folder: directory for temporary files with the counts (None: keep them in memory).
    """
    parts, counter, blocks = list[TermCounts](), _TermCounter(settings), matrices(folder)
    block, characters = list[str](), 0
    for done, text in enumerate(texts, 1):
        block.append(text)
        characters += len(text)
        if characters < BLOCK_CHARACTERS and done < len(texts):
            continue
        blocks.append(counter.count(block))
        block, characters = [], 0
        if progress:
            progress(done, len(texts))
        if counter.is_full or done == len(texts):
            parts.append(TermCounts(strings(folder, counter.terms), blocks))
            counter, blocks = _TermCounter(settings), matrices(folder)
    return parts


def subset(counted: Sequence[TermCounts], texts: np.ndarray, folder: Path | None = None) -> list[TermCounts]:
    """Return the counts of the texts at these ascending positions. folder: as in `count_all`."""
    parts, first = list[TermCounts](), 0
    for part in counted:
        blocks = matrices(folder)
        for block in part.blocks:
            after = first + block.shape[0]
            blocks.append(block[texts[slice(*np.searchsorted(texts, (first, after)))] - first])
            first = after
        parts.append(TermCounts(part.terms, blocks))
    return parts


def matrices(folder: Path | None) -> Matrices:
    """Create an empty sequence of matrices: in a temporary file in `folder` (None: in memory)."""
    return StoredMatrices(folder) if folder else []


def count(texts: Sequence[str], settings: dict[str, Any]) -> TermCounts:
    """Count the terms of texts in one block, with the settings of a vocabulary."""
    counter = _TermCounter(settings)
    counts = [counter.count(texts)]
    return TermCounts([*counter.terms], counts)


class _TermCounter:
    """A counter of the terms in blocks of texts. Texts are split at spaces, and each distinct piece is cut into terms
    only once, since many pieces repeat."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.terms, self._settings, self._parts = _Numbers(), settings, _Numbers()
        self._term_numbers, self._sizes = array("i"), array("i")  # of the terms of all parts; terms per part

    @property
    def is_full(self) -> bool:
        """Whether the stored parts have reached their limit, so that further texts need a new counter."""
        return len(self._parts) > MAX_PARTS or len(self._term_numbers) > MAX_PART_TERMS

    def count(self, texts: Sequence[str]) -> sparse.csr_array:
        """Count each term in each text: shape (texts, terms). New terms are added to `terms`."""
        import pyarrow as pa
        from pyarrow import compute

        cut = _cutter(self._settings)
        single, n_before = self._settings["ngrams"] == 1, len(self._parts)
        if single:
            encoded = [text.encode() for text in texts]
            ends = np.append(0, np.cumsum([*map(len, encoded)], dtype=np.int64))
            buffers = pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))  # pa.array would import pandas
            lists = compute.ascii_split_whitespace(pa.LargeStringArray.from_buffers(len(texts), *buffers))
        else:
            lists = pa.array([_terms(text, self._settings) for text in texts], pa.large_list(pa.large_string()))
        parts = lists.values.dictionary_encode()
        numbers = np.fromiter(map(self._parts.__getitem__, parts.dictionary.to_pylist()), np.int32)
        for part in islice(self._parts, n_before, None):
            terms = cut(part) if single else [part]
            self._term_numbers.extend(map(self.terms.__getitem__, terms))
            self._sizes.append(len(terms))
        in_texts = _count_matrix(
            numbers[np.from_dlpack(parts.indices)], np.diff(np.from_dlpack(lists.offsets)), len(self._parts)
        )
        counts = in_texts @ _count_matrix(np.array(self._term_numbers), np.array(self._sizes), len(self.terms))
        counts.sum_duplicates()
        return counts


def _count_matrix(numbers: np.ndarray, sizes: np.ndarray, width: int) -> sparse.csr_array:
    """Build a sparse matrix of the count of each number in each row. sizes: how many of `numbers` each row has."""
    from scipy import sparse

    ends = np.append(0, np.cumsum(sizes)).astype(sparse.get_index_dtype(maxval=numbers.size))
    return sparse.csr_array((np.ones(numbers.size, np.int32), numbers, ends), (len(sizes), width))


def _regrouped(counts: sparse.csr_array, columns: np.ndarray, width: int) -> sparse.csr_array:
    """Move column i of `counts` to columns[i], and add up columns that are moved to the same one; -1 drops a column."""
    from scipy import sparse

    places = columns[counts.indices]
    has_place = places >= 0
    before = np.zeros(has_place.size + 1, counts.indptr.dtype)
    np.cumsum(has_place, out=before[1:])
    moved = counts.data[has_place], places[has_place], before[counts.indptr]
    regrouped = sparse.csr_array(moved, (counts.shape[0], width))
    regrouped.sum_duplicates()  # and sorts
    return regrouped


def _terms(text: str, settings: dict[str, Any]) -> list[str]:
    """Return the words of a text, then its n-grams of 2, 3, ... words."""
    words = _cutter(settings)(text)
    return words + [
        " ".join(words[start : start + size])
        for size in range(2, settings["ngrams"] + 1)
        for start in range(len(words) - size + 1)
    ]


def _logs(numbers: np.ndarray) -> np.ndarray:
    """Compute natural logarithms, correctly rounded; the last bit of numpy differs between machines."""
    distinct, places = np.unique(numbers, return_inverse=True)
    return np.array([exact_log(number) for number in distinct.tolist()])[places]


@lru_cache(2**16)
def exact_log(number: float) -> float:
    """Compute a natural logarithm, rounded correctly: the same bits on every machine."""
    return float(Context(prec=30).ln(Decimal(number)))


def _cutter(settings: dict[str, Any]) -> Callable[[str], list[str]]:
    """Return a function that cuts a text into its terms, without n-grams of words."""
    find, of_token = re.compile(settings["pattern"]).findall, _of_token
    pattern, lowercase = settings["pattern"], settings["lowercase"]
    return lambda text: [term for token in find(text) for term in of_token(token, pattern, lowercase)]


@lru_cache(2**16)
def _of_token(token: str, pattern: str, lowercase: bool) -> tuple[str, ...]:
    """Return the terms of a token, which is a match of `pattern`."""
    if pattern == _BY_SCRIPT and not token.isascii():
        return tuple(term for term, _ in _by_script(token, lowercase))
    return _of_word(token, pattern in (_BY_SCRIPT, PLAIN), lowercase)


def _placed(token: str, pattern: str, lowercase: bool) -> Iterable[tuple[str, Places]]:
    """Return (term, places) for each term of a token. places: (start, end) in the token of each piece of the term."""
    if pattern == _BY_SCRIPT and not token.isascii():
        return _by_script(token, lowercase)
    return [(term, [(0, len(token))]) for term in _of_token(token, pattern, lowercase)]


def _by_script(token: str, lowercase: bool) -> Iterator[tuple[str, Places]]:
    """Yield the terms that the rich tokenizer makes of a token in any script, with places as in `_placed`."""
    if not _WORD.match(token):
        yield from ((term, [(0, len(token))]) for term in _of_word(scripts.same(token), True, lowercase))
        return
    for kind, units, places in scripts.parts(token):
        if beginning := scripts.BEGINNING.get(kind):
            yield from ((term, places) for term in _of_word(units[0], True, lowercase, beginning))
            continue
        for size in range(1, scripts.TOGETHER[kind] + 1):
            for first in range(len(units) - size + 1):
                term = "".join(units[first : first + size])
                yield f"t:{term}" if size == 3 else term, places[first : first + size]


def _of_word(token: str, rich: bool, lowercase: bool, beginning: int = scripts.BEGINNING["word"]) -> tuple[str, ...]:
    """Return the terms of a token in one script: the token itself, in lower case if `lowercase`. With `rich`, a word
    also gives its first `beginning` letters, a form with every digit as 0, and a mark if it is in capitals; punctuation
    is cut to three characters."""
    term = token.lower() if lowercase else token
    if not rich:
        return (term,)
    if not _WORD.match(token):
        return (f"s:{token[:3]}",)
    terms = [term]
    if len(token) >= 2 and token.isupper():
        terms.append("c:")
    if len(token) > beginning:
        terms.append(f"p:{term[:beginning]}")
    if _DIGIT.search(term):
        terms.append(f"n:{_DIGIT.sub('0', term)[:12]}")
    return tuple(terms)


def _is_letter(term: str) -> bool:
    """Tell whether a term is a single ASCII letter or digit, which is rarely a word."""
    return len(term) == 1 and term.isascii()


def _is_word(term: str) -> bool:
    """Tell whether a term is a whole word, and not a part of a word, punctuation or several words. In scripts without
    spaces, single letters and pairs of letters are words."""
    return ":" not in term and " " not in term


def _numbered(word: str, texts: int) -> int:
    """Encode a word as a number for WordSets. texts: its document frequency in the vocabulary."""
    return min(texts, 2**30) << 32 | crc32(word.encode(errors="surrogatepass"))

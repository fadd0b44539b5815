"""Text to sparse rows through a stored vocabulary: tf-idf with the same bits wherever it is rebuilt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .sources import Progress

_SYMBOL = "[\u203c\u2049\u2139-\u21aa\u231a-\u27bf\u2934-\u2b55\U0001f000-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]*"
_EMOJI = f"[\U0001f1e6-\U0001f1ff]{{2}}|{_SYMBOL}(?:\u200d{_SYMBOL})*"  # a flag is two letters; \u200d joins a family
TOKENIZERS: dict[str, str] = {
    "words": r"\w+(?:['’]\w+)*",
    "tweets": rf"[#@]?\w+(?:['’\-]\w+)*|{_EMOJI}",
}
CHUNK = 2000  # texts between two reports of progress


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms (place = column), the number of documents that hold each (int64), and the settings that found them."""

    terms: list[str]
    document_frequency: np.ndarray
    documents: int
    settings: dict[str, Any]

    def transform(self, texts: Sequence[str], progress: Progress | None = None) -> sparse.csr_array:
        """The tf-idf rows of texts: float64, not normalised, indices sorted; unknown terms are left out."""
        return sparse.csr_array(self._vectorizer.transform(_reported(texts, progress)))

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """(start, end, column) of each known single-word term in a text, to highlight it."""
        tokens = (
            (match.span(), self._columns.get(_term(match[0], self.settings)))
            for match in re.finditer(self.settings["pattern"], text)
        )
        return [(*span, column) for span, column in tokens if column is not None]

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms)}

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            vocabulary=self._columns, norm=None, sublinear_tf=self.settings["sublinear"], **_analysis(self.settings)
        )
        vectorizer.idf_ = np.log((1 + self.documents) / (1 + np.asarray(self.document_frequency))) + 1
        return vectorizer


def fit(
    texts: Sequence[str],
    *,
    tokenizer: str = "words",
    ngrams: int = 1,
    min_df: int = 2,
    max_terms: int = 100_000,
    sublinear: bool = True,
    lowercase: bool = True,
    progress: Progress | None = None,
) -> Vocabulary:
    """The vocabulary of texts: the `max_terms` most frequent of the terms that at least `min_df` of them hold.

    A term is up to `ngrams` words; `sublinear` takes 1 + log of a count. ValueError where no term is left.
    """
    from sklearn.feature_extraction.text import CountVectorizer

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
    counter = CountVectorizer(**_analysis(settings))
    nothing = ValueError(f"No term occurs in at least {min_df} of the {len(texts):,} texts.")
    try:
        counts = counter.fit_transform(_reported(texts, progress))
    except ValueError as error:  # so says scikit-learn where no text has a token
        raise nothing from error
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    # A stable sort breaks ties by the alphabet, where scikit-learn's max_features may differ between processors.
    keep = np.sort(np.argsort(-frequency, kind="stable")[: min(max_terms, (frequency >= min_df).sum())])
    if not keep.size:
        raise nothing
    terms = counter.get_feature_names_out()[keep].tolist()
    return Vocabulary(terms, frequency[keep], len(texts), settings)


def _analysis(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of scikit-learn's vectorizers. They would lower a whole text, which can move the places of spans."""
    find = re.compile(settings["pattern"]).findall
    return {
        "tokenizer": lambda text: [_term(token, settings) for token in find(text)],
        "token_pattern": None,
        "lowercase": False,
        "ngram_range": (1, settings["ngrams"]),
    }


def _term(token: str, settings: dict[str, Any]) -> str:
    return token.lower() if settings["lowercase"] else token


def _reported(texts: Sequence[str], progress: Progress | None) -> Iterator[str]:
    for done, text in enumerate(texts, 1):
        yield text
        if progress and (done % CHUNK == 0 or done == len(texts)):
            progress(done, len(texts))

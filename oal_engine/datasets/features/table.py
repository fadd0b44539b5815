"""Turn items into the rows that a stream runs over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from .. import reading, row_files
from ..reading.sources import PhaseProgress, Progress
from . import TEXT_FEATURES, duplicates, encoders, latent, scaling, text_vectors, vectorizer


@dataclass(frozen=True)
class FeatureTable:
    """The rows and labels that a stream runs over, with the items and the fitted features behind them.

    y: -1 and +1, or 1..K of `classes`; 0 = unknown. word_counts: distinct words per text, summed over the texts, and
    how many of them would be new if their text had been appended after the import. words: the word sets of the
    texts, None if near-duplicates are not searched for. copies: number of left-out near-duplicates of each text, None
    if all are kept. checksums: {array name: CRC-32} of the rows, if they are written to a folder.
    """

    rows: Rows
    y: np.ndarray
    items: reading.Items
    vocabulary: vectorizer.Vocabulary | None
    scaling: scaling.Scaling
    classes: tuple[str, ...] = ()
    projection: latent.Projection | None = None
    encoder: encoders.TextEncoder | None = None
    word_counts: tuple[int, int] = (0, 0)
    words: vectorizer.WordSets | None = None
    copies: np.ndarray | None = None
    checksums: dict[str, int] | None = None

    @property
    def feature_names(self) -> list[str]:
        """The names of the features of vectors."""
        return self.items.feature_names

    def transform(self, texts: Sequence[str]) -> Rows:
        """Turn new texts into rows with the vocabulary, scaling, projection and encoder. If the text vectors of the
        import came from a file, new texts have zero vectors."""
        matrix = cast(vectorizer.Vocabulary, self.vocabulary).transform(texts)
        vectors = self.encoder.vectors(texts) if self.encoder else None
        return made_rows(self.scaling, matrix, self.projection, vectors)

    def positions(self, ids: Collection[str]) -> dict[str, int]:
        """Return positions by id. Unknown ids are omitted."""
        return {id: position for position, id in enumerate(self.items.ids) if id in ids}


def phase_progress(progress: PhaseProgress | None, name: str) -> Progress | None:
    """Bind a progress callback to the name of one phase; None stays None."""
    return progress and partial(progress, name)


def table(
    items: reading.Items,
    scale: str = "l2",
    progress: PhaseProgress | None = None,
    vocabulary: vectorizer.Vocabulary | None = None,
    features: str | None = None,
    encoder: encoders.TextEncoder | None = None,
    near_duplicates: str = duplicates.KEEP,
    folder: Path | None = None,
    **settings: Any,
) -> FeatureTable:
    """Vectorize and scale items.

    vocabulary: None fits one, with `settings` of the vectorizer. features: for texts one of TEXT_FEATURES (None: words
    if there is a vocabulary or a tokenizer, else the richest that `scale` allows); for vectors one of VECTOR_FEATURES
    (None: plain). encoder: computes the text vectors (None: that of `features`, unless the items have vectors).
    near_duplicates: one of duplicates.KINDS; `once` leaves out texts that are nearly the same as an earlier text.
    folder: directory for the rows of texts and for temporary files (None: keep everything in memory).
    """
    duplicates.check(near_duplicates, items.texts is not None)
    if items.texts is None:
        return _vector_table(items, scale, features, encoder)
    if vocabulary is None:
        is_free = encoder is None and items.vectors is None
        features, settings = text_features(features, scale, settings, items.texts if is_free else None)
    if features in encoders.ENCODERS:
        if encoder:
            raise ValueError(f"texts have one encoder. Got both {features} and {encoder.name}.")
        encoder, features = encoders.ENCODERS[features], "rich+latent"
    texts, counting = cast(Sequence[str], items.texts), phase_progress(progress, "vocabulary")
    if vocabulary is None:
        vocabulary, counted = vectorizer.fit_count(texts, progress=counting, folder=folder, **settings)
    else:
        counted = vectorizer.count_all(texts, vocabulary.settings, counting, folder)
    words = copies = None
    if duplicates.compared(near_duplicates, len(texts)):
        words = vectorizer.joined([vocabulary.words(part) for part in counted])
    if words and near_duplicates == duplicates.ONCE:
        originals, copies = duplicates.counted(words)
        counted, words = vectorizer.subset(counted, originals, folder), words.take(originals)
        items = items.take(originals)
    vectors = cast("np.ndarray | None", items.vectors)
    fitted_on = counted if scale == "standardize+l2" else []  # no other scaling of texts is fitted
    scaled = scaling.fit(_matrix(vocabulary, fitted_on), scale)
    share = text_vectors.SHARE
    if encoder:
        if vectors is not None:
            raise ValueError(f"vectors of texts must come from a file or an encoder. Got both: {encoder.name}.")
        encoder, vectors = encoder.fit(items.texts or [], phase_progress(progress, "meaning"))
        if isinstance(encoder, encoders.Encoder):
            share = encoders.share(items.texts or [])
    if vectors is not None:
        if scale != "l2":
            raise ValueError(f"vectors of texts need the scaling l2. Got {scale}.")
        scaled["beside"] = text_vectors.fit(vectors, share) | ({"embedding": encoder.source} if encoder else {})
    projection = None
    if features == "rich+latent":
        some = vectorizer.subset(counted, latent.fitted_texts(len(items.ids)))
        terms = scaling.apply(scaled, _matrix(vocabulary, some))
        projection = latent.fit(terms, phase_progress(progress, "wording"), vocabulary.shared)
    first = 0
    with row_files.RowWriter(folder) if folder else nullcontext(list[Rows]()) as written:
        for terms in chain.from_iterable(map(vocabulary.rows, counted)):
            own, first = slice(first, first + terms.shape[0]), first + terms.shape[0]
            block = made_rows(scaled, cast(Matrix, terms), projection, None if vectors is None else vectors[own])
            written.append(block)
    word_counts = np.array([vocabulary.word_counts(part) for part in counted]).sum(axis=0)
    return FeatureTable(
        rows.joined(written) if isinstance(written, list) else row_files.load(written.folder, len(items.ids)),
        items.y, items, vocabulary, scaled, items.classes, projection, encoder, tuple(word_counts.tolist()), words,
        copies, None if isinstance(written, list) else written.checksums,
    )  # fmt: skip


def _vector_table(
    items: reading.Items, scale: str, features: str | None, encoder: encoders.TextEncoder | None
) -> FeatureTable:
    if encoder:
        raise ValueError(f"the encoder {encoder.name} is for texts. Got vectors.")
    if features in TEXT_FEATURES:
        raise ValueError(f"the features {features} are for texts. Got vectors.")
    matrix = cast(Matrix, items.vectors)
    scaled = scaling.fit(matrix, scale, features or "plain")
    return FeatureTable(made_rows(scaled, matrix), items.y, items, None, scaled, items.classes)


def _matrix(vocabulary: vectorizer.Vocabulary, counted: Sequence[vectorizer.TermCounts]) -> Matrix:
    """Stack the tf-idf rows of all texts into one sparse matrix."""
    from scipy import sparse

    parts = chain.from_iterable(map(vocabulary.rows, counted))
    return sparse.vstack([sparse.csr_array((0, len(vocabulary.terms))), *parts], format="csr")


def file_table(
    items: reading.Items,
    scale: str | None = None,
    progress: PhaseProgress | None = None,
    features: str | None = None,
    encoder: encoders.TextEncoder | None = None,
    **settings: Any,
) -> FeatureTable:
    """Vectorize and scale items like `table`. For vectors, a `scale` or `features` of None means a suitable one."""
    if items.texts is None:
        features = features or scaling.usual_features(cast(Matrix, items.vectors), scale)
        scale = scale or scaling.USUAL.get(features)
    return table(items, scale or "l2", progress, features=features, encoder=encoder, **settings)


def text_features(
    features: str | None, scale: str, settings: dict[str, Any], texts: Sequence[str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Choose the features of texts (None: the default). Return them with the settings of the vectorizer. Raise
    ValueError if the features do not fit `scale` or the tokenizer.

    texts: None if they have vectors from elsewhere.
    """
    if features is None and scale == "l2" and "tokenizer" not in settings:
        features = "rich+latent" if texts is None else encoders.usual(texts)
    elif features is None:
        features = "words" if "tokenizer" in settings else "rich"
    if features not in TEXT_FEATURES:
        raise ValueError(f"features of texts must be one of {', '.join(TEXT_FEATURES)}. Got {features}.")
    if features == "words":
        return features, {"tokenizer": "tweets"} | settings
    if "tokenizer" in settings:
        raise ValueError(f"a tokenizer is for the features words. Got {settings['tokenizer']} for {features}.")
    if features != "rich" and scale != "l2":
        raise ValueError(f"the features {features} need the scaling l2. Got {scale}.")
    return features, {"tokenizer": "rich", "new": vectorizer.HASH_COLUMNS} | settings


def made_rows(
    scaled: scaling.Scaling,
    matrix: Matrix,
    projection: latent.Projection | None = None,
    vectors: np.ndarray | None = None,
) -> Rows:
    """Scale a table into rows. If they were fitted, append Fourier features or, for texts, the latent part and vectors.

    vectors: vectors of the texts; None appends zeros if the scaling was fitted with text vectors.
    """
    fitted = scaled.get("beside")
    if not (projection or fitted):
        return scaling.made_rows(scaled, matrix)
    terms = scaling.apply(scaled, matrix)
    blocks, rest = [], 1.0
    if projection:
        weight = text_vectors.LATENT_WEIGHT if fitted else latent.WEIGHT
        blocks, rest = [projection.columns(terms, weight)], rest - weight
    if fitted:
        vectors = np.zeros((np.shape(terms)[0], len(fitted["means"]))) if vectors is None else vectors
        blocks, rest = [*blocks, text_vectors.columns(fitted, vectors)], rest - text_vectors.share_of(fitted)
    sparse = cast(SparseRows, rows.as_rows(terms))
    sparse = sparse._replace(values=rows.read_only(np.sqrt(rest) * sparse.values, np.float64))
    return rows.mixed_rows(sparse, np.hstack(blocks))


def relabelled(
    y: np.ndarray, classes: Sequence[str], names: Sequence[str] = (), positive: str | None = None
) -> np.ndarray:
    """Translate labels 1..K of `classes`; 0 stays 0. With `names`, a class becomes 1 + its index in `names`, or 0 if it
    is missing there. Without `names`, the class `positive` becomes +1 and all others -1. With neither, all become 0."""
    if names:
        meaning = [names.index(name) + 1 if name in names else 0 for name in classes]
    else:
        meaning = [0 if positive is None else 1 if name == positive else -1 for name in classes]
    return rows.read_only(np.array([0, *meaning])[y], np.int8)

"""Turn items into the rows that a stream runs over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...kernel import rows
from ...kernel.rows import Matrix, Rows, SparseRows
from .. import reading
from ..reading.sources import PhaseProgress, Progress
from . import beside, duplicates, embeddings, latent, scaling, vectorizer

if TYPE_CHECKING:
    pass


TEXT_FEATURES = {
    "rich+latent": "Words, parts, similar wording",
    "rich": "Words and parts",
    "words": "Words alone",
}  # what rows are made of texts


@dataclass(frozen=True)
class FeatureTable:
    """What a stream runs over: rows, labels y (-1, 0 unknown, +1, or 1..K of `classes`) and what made them."""

    rows: Rows
    y: np.ndarray
    items: reading.Items
    vocabulary: vectorizer.Vocabulary | None
    scaling: scaling.Scaling
    classes: tuple[str, ...] = ()
    projection: latent.Projection | None = None
    embedding: embeddings.Embedding | None = None
    word_counts: tuple[int, int] = (0, 0)  # of its texts, and those that would be new if their text had come later
    words: vectorizer.WordSets | None = None  # where near-duplicates are looked for
    copies: np.ndarray | None = None  # of each text, where its near-duplicates were left out

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns of vectors."""
        return self.items.feature_names

    def transform(self, texts: Sequence[str]) -> Rows:
        """Rows of new texts, through the vocabulary, the scaling, the projection and the embedding; vectors that are
        not made of texts are zeros."""
        matrix = cast(vectorizer.Vocabulary, self.vocabulary).transform(texts)
        vectors = self.embedding.vectors(texts) if self.embedding else None
        return made_rows(self.scaling, matrix, self.projection, vectors)

    def positions(self, ids: Collection[str]) -> dict[str, int]:
        """The positions of those items that there are, by their ids."""
        return {id: position for position, id in enumerate(self.items.ids) if id in ids}


def phase_progress(progress: PhaseProgress | None, name: str) -> Progress | None:
    """Return the progress callback of one phase."""
    return progress and partial(progress, name)


def table(
    items: reading.Items,
    scale: str = "l2",
    progress: PhaseProgress | None = None,
    vocabulary: vectorizer.Vocabulary | None = None,
    features: str | None = None,
    embedding: embeddings.Embedding | None = None,
    near_duplicates: str = duplicates.KEEP,
    **settings: Any,
) -> FeatureTable:
    """Vectorise and scale items read from a file; progress is a function of (phase, done, total).

    Texts get a vocabulary of their own, fitted with the vectorizer's settings, unless one is given. features: one of
    TEXT_FEATURES; None takes words if a vocabulary or a tokenizer is given, else the richest that the scale allows. Of
    vectors one of VECTOR_FEATURES; None takes plain ones. Vectors beside texts, those of the items or those that an
    embedding makes, go behind the terms. near_duplicates: one of duplicates.KINDS; `once` leaves out texts that are
    nearly the same as an earlier one.
    """
    duplicates.check(near_duplicates, items.texts is not None)
    vectors = words = copies = None
    word_counts = 0, 0
    if items.texts is not None:
        if vocabulary is None:
            features, settings = _text_features(features, scale, settings)
            vocabulary, counted = vectorizer.fit_count(
                items.texts, progress=phase_progress(progress, "vocabulary"), **settings
            )
        else:
            counted = vectorizer.count(items.texts, vocabulary.settings, phase_progress(progress, "vocabulary"))
        if duplicates.compared(near_duplicates, len(items.texts)):
            words = vocabulary.words(counted)
        if words and near_duplicates == duplicates.ONCE:
            kept, copies = duplicates.counted(words)
            counted, words, items = counted.take(kept), words.take(kept), items.take(kept)
        word_counts, matrix = vocabulary.word_counts(counted), cast(Matrix, vocabulary.rows(counted))
        del counted  # as large as the rows
        scaled, vectors = scaling.fit(matrix, scale), cast("np.ndarray | None", items.vectors)
        if embedding:
            if vectors is not None:
                raise ValueError(f"vectors beside texts must be given or made. Got both: {embedding.name} makes some.")
            embedding, vectors = embedding.fit(items.texts or [], phase_progress(progress, "meaning"))
        if vectors is not None:
            if scale != "l2":
                raise ValueError(f"vectors beside texts need the scaling l2. Got {scale}.")
            scaled["beside"] = beside.fit(vectors) | ({"embedding": embedding.source} if embedding else {})
    else:
        if embedding:
            raise ValueError(f"the embedding {embedding.name} is for texts. Got vectors.")
        if features in TEXT_FEATURES:
            raise ValueError(f"the features {features} are for texts. Got vectors.")
        matrix = cast(Matrix, items.vectors)
        scaled = scaling.fit(matrix, scale, features or "plain")
    projection = None
    if features == "rich+latent":
        shared = cast(vectorizer.Vocabulary, vocabulary).shared
        projection = latent.fit(scaling.apply(scaled, matrix), phase_progress(progress, "wording"), shared)
    made = made_rows(scaled, matrix, projection, vectors)
    return FeatureTable(
        made, items.y, items, vocabulary, scaled, items.classes, projection, embedding, word_counts, words, copies
    )  # fmt: skip


def file_table(
    items: reading.Items,
    scale: str | None = None,
    progress: PhaseProgress | None = None,
    features: str | None = None,
    embedding: embeddings.Embedding | None = None,
    **settings: Any,
) -> FeatureTable:
    """As `table`, where vectors get the features and the scaling that suit them unless others are named."""
    if items.texts is None:
        features = features or scaling.usual_features(cast(Matrix, items.vectors), scale)
        scale = scale or scaling.USUAL.get(features)
    return table(items, scale or "l2", progress, features=features, embedding=embedding, **settings)


def _text_features(features: str | None, scale: str, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The features of texts, and the settings of the vectorizer for them."""
    if features is None:
        features = "words" if "tokenizer" in settings else "rich+latent" if scale == "l2" else "rich"
    if features not in TEXT_FEATURES:
        raise ValueError(f"features of texts must be one of {', '.join(TEXT_FEATURES)}. Got {features}.")
    if features == "words":
        return features, {"tokenizer": "tweets"} | settings
    if "tokenizer" in settings:
        raise ValueError(f"a tokenizer is for the features words. Got {settings['tokenizer']} for {features}.")
    if features == "rich+latent" and scale != "l2":
        raise ValueError(f"the features rich+latent need the scaling l2. Got {scale}.")
    return features, {"tokenizer": "rich", "new": vectorizer.NEW} | settings


def made_rows(
    scaled: scaling.Scaling,
    matrix: Matrix,
    projection: latent.Projection | None = None,
    vectors: np.ndarray | None = None,
) -> Rows:
    """Rows of a table under a scaling, with its waves, or with the latent part of a projection and the vectors beside
    texts if there are such; vectors that are not given are zeros."""
    given = scaled.get("beside")
    if not (projection or given):
        return scaling.made_rows(scaled, matrix)
    terms = scaling.apply(scaled, matrix)
    blocks, rest = [], 1.0
    if projection:
        weight = beside.SIMILAR if given else latent.WEIGHT
        blocks, rest = [projection.columns(terms, weight)], rest - weight
    if given:
        vectors = np.zeros((np.shape(terms)[0], len(given["means"]))) if vectors is None else vectors
        blocks, rest = [*blocks, beside.columns(given, vectors)], rest - beside.WEIGHT
    sparse = cast(SparseRows, rows.as_rows(terms))
    sparse = sparse._replace(values=rows.read_only(np.sqrt(rest) * sparse.values, np.float64))
    return rows.mixed_rows(sparse, np.hstack(blocks))


def relabelled(
    y: np.ndarray, classes: Sequence[str], names: Sequence[str] = (), positive: str | None = None
) -> np.ndarray:
    """Labels 1 .. K of some classes as those of the same names elsewhere, or as +1 for the class `positive` and -1 for
    the others; 0 where they mean none of these."""
    if names:
        meaning = [names.index(name) + 1 if name in names else 0 for name in classes]
    else:
        meaning = [0 if positive is None else 1 if name == positive else -1 for name in classes]
    return rows.read_only(np.array([0, *meaning])[y], np.int8)

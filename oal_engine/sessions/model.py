"""The model that a session has learned: features and weights, and the predictions of new items."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np

from .. import __version__
from ..datasets import made_rows
from ..datasets.features import encoders, latent, vectorizer
from ..datasets.features.embeddings import Embedding
from ..datasets.features.encoders import Encoder, TextEncoder
from ..datasets.features.numbers import packed_row
from ..datasets.reading import details
from ..datasets.reading.codings import Coder, expanded
from ..datasets.reading.parsed import name_list
from ..datasets.reading.sources import DataError
from ..kernel import learners, rows, stream
from ..kernel.learners import Learner
from ..kernel.spending import FIND, representative
from ..output.tables import BLOCK_ROWS, FEATURES, SCORE, TEXT, OutputTable, block_rows, rows_of
from ..store import Row
from .insights import calibration
from .insights.calibration import Calibration
from .one_question import OneQuestion
from .session import Session

Rows = rows.Rows
# kinds: plain, similar wording, Fourier features, vectors of texts, leaves with Fourier features
FORMAT, LATENT, WAVES, BESIDE, LEAVES = 1, 2, 3, 4, 5


OF_QUESTION = ("labels", "classes", "calibration", "offset", "similar_weights")  # header keys that differ by question


class ModelError(ValueError):
    """A file that is not a valid model, or a session that cannot have one. The message is one sentence."""


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model, and everything that it needs to turn an item into a row.

    head: header (first line) of its file. names: names of the features. numbers: {kind of number, such as document
    frequency: array with a number for each feature}. weights: weights of the features, then of latent directions
    (similar wording) and vectors, or of leaves and Fourier features; shape (columns, 1), or (columns, K) with K
    classes. projection: computes the latent directions, or None. means: means of the vectors of the texts, or None.
    encoder: computes these vectors, or None.
    """

    head: Row
    names: list[str]
    numbers: dict[str, np.ndarray]
    weights: np.ndarray
    projection: latent.Projection | None = None
    means: np.ndarray | None = None
    encoder: TextEncoder | None = None

    @property
    def multiclass(self) -> bool:
        """Whether the model has K classes, not a positive and a negative one."""
        return bool(self.head["multiclass"])

    @cached_property
    def classes(self) -> dict[int, str]:
        """The name of each label: 1 and -1, or 1..K."""
        names = self.head["classes"]
        return dict(enumerate(names, 1)) if self.multiclass else dict(zip((1, -1), names))

    @cached_property
    def calibration(self) -> Calibration:
        """The calibration that turns margins into probabilities."""
        return Calibration(**self.head["calibration"])

    @property
    def learner(self) -> Learner:
        """A new learner that predicts with the model's weights. It has own scratch arrays, as threads share a model."""
        if self.multiclass:
            return learners.build("m-perceptron", 1, classes=len(self.classes))._replace(w=self.weights)
        return learners.build("perceptron", 1)._replace(w=self.weights[:, 0])

    @cached_property
    def vocabulary(self) -> vectorizer.Vocabulary | None:
        """The terms of texts; None for vectors."""
        if self.head["vectorizer"] is None:
            return None
        frequency, settings = self.numbers["document_frequency"], self.head["vectorizer"]
        return vectorizer.Vocabulary(self.names, frequency, self.head["documents"], settings)

    @property
    def text(self) -> bool:
        """Whether the items are texts, not vectors."""
        return self.vocabulary is not None

    @property
    def is_plain(self) -> bool:
        """Whether the features are the numbers of the columns, scaled."""
        return not (self.text or "fourier" in self.head or self.codings)

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of the columns of the vectors that came with the texts. Empty without any, or with an encoder."""
        return tuple(self.head.get("beside", {}).get("columns", ()))

    @property
    def has_numbered_columns(self) -> bool:
        """Whether the features are columns without names, numbered from 1."""
        return self.names == [str(k) for k in range(1, len(self.names) + 1)]

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The names of the columns, in a file of vectors, that become the features."""
        return tuple(self.head["table"]["columns"] if "table" in self.head else self.names)

    @property
    def codings(self) -> dict[str, Any]:
        """How words become numbers, {column with words: coding}."""
        codings: dict[str, Any] = self.head.get("table", {}).get("codings", {})
        return codings

    @property
    def width(self) -> int:
        """Number of values in the vector that came with each text, over all its columns; 0 without such vectors."""
        return self.head["beside"]["width"] if self.beside else 0

    def with_encoder(self, embedding: Embedding | None) -> "Model":
        """Return the model with the encoder that computes its vectors, one of ENCODERS or a given embedding. Raise
        ModelError if the model needs another embedding, or none."""
        wanted = self.head.get("beside", {}).get("embedding")
        got = f"{embedding.name} ({embedding.checksum})" if embedding else "none"
        if wanted is None or "encoder" in wanted:
            if embedding:
                raise ModelError(f"the model of {self.head['session']} needs no embedding. Got {got}.")
            return replace(self, encoder=encoders.by_source(wanted)) if wanted else self
        if embedding is None or embedding.checksum != wanted["checksum"]:
            raise ModelError(
                f"the model of {self.head['session']} needs the embedding {wanted['name']} ({wanted['checksum']}): "
                f"name its folder (--embed). Got {got}."
            )
        return replace(self, encoder=replace(embedding, counts=np.array(self.head["beside"]["tokens"], np.int64)))

    def rows(self, items: Any, vectors: np.ndarray | None = None) -> Rows:
        """Make the rows of new items in the same way as the session's own rows.

        items: texts, or vectors with the model's columns. vectors: of the texts, if it needs them.
        """
        matrix = self.vocabulary.transform(items) if self.vocabulary else items
        more: Row = {key: self.head[key] for key in ("fourier", "leaves") if key in self.head}
        if self.means is not None:
            more["beside"] = self.head["beside"] | {"means": self.means}
        if self.encoder:
            vectors = self.encoder.vectors(items)
        return made_rows({"name": self.head["scaling"]} | self.numbers | more, matrix, self.projection, vectors)

    def shares_rows(self, other: "Model") -> bool:
        """Tell whether this model and another one of the same session turn items into the same rows."""

        def words(model: Model) -> tuple[Row, list[str]]:
            return {key: value for key, value in model.head.items() if key not in OF_QUESTION}, model.names

        def numbers(model: Model) -> list[Any]:
            return [*model.numbers.values(), model.projection and model.projection.numbers, model.means]

        return words(self) == words(other) and all(map(np.array_equal, numbers(self), numbers(other)))

    def columns(self, matrix: Any) -> Any:
        """Select the columns of the model from a matrix with numbered columns. A sparse matrix with fewer columns is
        padded with zeros. Raise DataError if the columns do not fit."""
        wanted, is_sparse = len(self.names), bool(rows.is_sparse(matrix))
        if not self.has_numbered_columns:
            raise DataError(
                f"the model needs the columns {name_list(self.names, 5)}; the columns of the file have only numbers."
            )
        if is_sparse:
            matrix.resize(matrix.shape[0], wanted)
        elif matrix.shape[1] < wanted:
            raise DataError(f"the model needs {wanted:,} columns. Got {matrix.shape[1]:,}.")
        return matrix[:, :wanted]

    def scores(self, table: Rows) -> np.ndarray:
        """Return the margin of every row, shape (n, 1), or its score for each class, shape (n, K)."""
        scores = np.empty((rows.length(table), len(self.classes) if self.multiclass else 1))
        stream.scores(table, self.learner, self.head["theta"], scores)
        return scores + self.head["offset"]

    def decided(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn scores into margins and classes. With K classes, a margin is the gap between the two highest scores."""
        if not self.multiclass:
            return scores[:, 0], np.where(scores[:, 0] >= self.head["theta"], 1, -1)
        highest = np.sort(scores, axis=1)
        return highest[:, -1] - highest[:, -2], scores.argmax(axis=1) + 1

    @property
    def fields(self) -> dict[str, type]:
        """The columns of `predictions`, {name: type}. With K classes the probability is that of the predicted class."""
        scores: dict[str, type] = {f"{SCORE}{name}": float for name in self.classes.values()} if self.multiclass else {}
        probability = "probability" if self.multiclass else "positive_probability"
        return {"margin": float, "predicted": int, "predicted_class": str, probability: float} | scores

    def predictions(self, scores: np.ndarray) -> tuple[Any, ...]:
        """Return the columns `fields` for rows of scores: margins, predicted classes and their names, probabilities (or
        None), and with K classes every score."""
        margins, predicted = self.decided(scores)
        chances = self.calibration(margins)
        probabilities = [None] * margins.size if chances is None else chances
        names = np.array([None, *self.classes.values()])[predicted]  # label -1 takes the last name
        return margins, predicted, names, probabilities, *(scores.T if self.multiclass else ())

    # The methods of a scikit-learn classifier. items: texts, or a table with the columns of the model; the columns of a
    # DataFrame are taken by name. vectors: the vectors that came with the texts, if the model needs them.

    @property
    def classes_(self) -> np.ndarray:
        """The names of the classes, the negative one first."""
        return np.array([self.classes[label] for label in sorted(self.classes)])

    def predict(self, items: Any, vectors: Any = None) -> np.ndarray:
        """Predict the class of every item, by name. With two classes, theta decides, not which is more probable."""
        predicted = self.decided(self.scores(self._checked_rows(items, vectors)))[1]
        return self.classes_[np.searchsorted(sorted(self.classes), predicted)]

    def decision_function(self, items: Any, vectors: Any = None) -> np.ndarray:
        """Return the evidence for `classes_[1]`, shape (n,): the margin minus theta, or the difference of the scores if
        K = 2. With more classes, return the score of each, shape (n, K)."""
        scores = self.scores(self._checked_rows(items, vectors))
        if not self.multiclass:
            return scores[:, 0] - self.head["theta"]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, items: Any, vectors: Any = None) -> np.ndarray:
        """Return the probability of each of `classes_`, shape (n, 2). Raise ModelError if the model has none."""
        if self.multiclass:
            raise ModelError(
                f"the model of {self.head['session']} knows how likely its prediction is right, not how likely each of "
                "its classes is: use decision_function, or the probability that the command predict writes."
            )
        if self.calibration.reason:
            labels = f"{self.calibration.labels:,} labels ({self.calibration.hits:,} {self.calibration.hit})"
            raise ModelError(
                f"the model of {self.head['session']} has no probabilities after {labels}: {self.calibration.reason}. "
                "Use decision_function."
            )
        chances: Any = self.calibration(self.scores(self._checked_rows(items, vectors))[:, 0])
        return np.array([1 - chances, chances]).T

    def _checked_rows(self, items: Any, vectors: Any) -> Rows:
        """Check that items fit the model, and make their rows. Raise ModelError if they do not fit."""
        if self.beside and vectors is None:
            raise ModelError(f"the model needs the vectors of the texts, {name_list(self.beside, 5)}. Got none.")
        if vectors is not None:
            if not self.beside:
                raise ModelError("the model needs no vectors with its items. Got some.")
            vectors = self._table(vectors, self.beside, self.width)
        if not self.text:
            return self.rows(self._table(items, self.table_columns, len(self.names)))
        texts = items.tolist() if hasattr(items, "tolist") else items
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ModelError("the model needs a list of texts. Got something else.")
        if vectors is not None and len(texts) != len(vectors):
            raise ModelError(f"every text needs a vector. Got {len(texts):,} texts and {len(vectors):,} vectors.")
        return self.rows(texts, vectors)

    def _table(self, table: Any, columns: Sequence[str], width: int) -> Any:
        """Convert a table to numbers, shape (n, width): select `columns` if it has named columns, and encode words as
        numbers. Raise ModelError if it does not fit."""
        if hasattr(table, "columns"):
            if missing := [name for name in columns if name not in table.columns]:
                raise ModelError(f"the model needs the columns {name_list(missing, 5)}, which the table does not have.")
            table = table[[*columns]].to_numpy()
            if self.codings:
                coder = Coder(columns, self.codings, False)
                cells = [coder(row) for row in table.tolist()]
                table = expanded(np.array(cells, np.float64), columns, self.codings)
        try:
            numbers = table.tocsr() if hasattr(table, "tocsr") else np.asarray(table, np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"the model needs a table of numbers: {error}.") from None
        if numbers.ndim != 2 or numbers.shape[1] != width:
            raise ModelError(f"the model needs a table of {width:,} columns. Got the shape {numbers.shape}.")
        return numbers


def of_session(session: Session | OneQuestion) -> Model:
    """Return the current model of an open session. Raise ModelError if its learner is not linear."""
    settings, dataset, learner = session.settings, session.dataset, session.learner
    if not learners.linear(learner):
        raise ModelError(
            f"{settings.learner} predicts with a matrix over all pairs of features, which a list of terms and weights "
            "cannot express: it has no model file. Publish the session instead."
        )
    vocabulary, scaled = dataset.vocabulary, dataset.scaling
    if vocabulary is None:
        numbers: dict[str, Any] = {key: scaled[key] for key in ("mean", "deviation") if key in scaled}
    else:
        numbers = {"document_frequency": vocabulary.document_frequency}
    names = vocabulary.terms if vocabulary else dataset.feature_names
    weights = learners.weights(learner).reshape(dataset.rows.columns, -1).copy()
    projection, vector_scaling, encoder = dataset.projection, scaled.get("beside"), dataset.encoder
    kind = LEAVES if "leaves" in scaled else WAVES if "fourier" in scaled else FORMAT
    kind = BESIDE if vector_scaling else LATENT if projection else kind
    head = {
        "oal_model": kind, "engine": __version__,
        "session": settings.name, "dataset": dataset.name,
        "algorithm": settings.algorithm, "learner": settings.learner,
        "labels": len(session.labels) + session.state.known_items.size,
        "averaged": bool(settings.averaged), "multiclass": session.multiclass, "classes": list(session.names.values()),
        "theta": settings.theta, "scaling": scaled["name"], "vectorizer": vocabulary and vocabulary.settings,
        "documents": vocabulary and vocabulary.documents, "calibration": asdict(calibrated(session)),
        "features": len(names), "offset": learners.offset(learner).tolist(),
    }  # fmt: skip
    if dataset.codings:
        head["table"] = {"columns": dataset.columns["features"], "codings": dataset.codings}
    head |= {key: scaled[key] for key in ("fourier", "leaves") if key in scaled}
    if projection:
        head["similar_means"] = projection.numbers[-1].tolist()
        head["similar_weights"] = weights[len(names) :][: projection.numbers.shape[1]].tolist()
    if encoder:
        tokens = {} if isinstance(encoder, Encoder) else {"tokens": encoder.counts.tolist()}
        head["beside"] = {"embedding": encoder.source} | tokens
    elif vector_scaling:
        head["beside"] = {"columns": [*dataset.vector_columns], "width": dataset.vector_width}
    if vector_scaling and "share" in vector_scaling:
        head["beside"]["share"] = vector_scaling["share"]
    arrays = {key: np.array(values) for key, values in numbers.items()}
    means = np.array(vector_scaling["means"]) if vector_scaling else None
    return Model(head, list(names), arrays, weights, projection, means, encoder)


def calibrated(session: Session | OneQuestion) -> Calibration:
    """Fit the probability that an item is positive, given its margin. With K classes, fit the probability that the
    prediction is right, given the gap between the two highest scores."""
    log = [entry for entry in session.log if entry.label]
    if (plan := session.state.plan) and session.settings.goal == FIND and log:
        of_all, chosen = representative(plan, *np.array([(entry.probability, entry.audit) for entry in log]).T)
        log, weights = [entry for entry, is_one in zip(log, of_all) if is_one], chosen[of_all].tolist()
    else:
        weights = [1 / entry.probability for entry in log]
    margins = [entry.margin for entry in log]
    if session.multiclass:
        return calibration.fit(margins, [not entry.mistake for entry in log], weights, "right")
    return calibration.fit(margins, [entry.label == 1 for entry in log], weights)


def of_each(session: Session) -> dict[str, Model]:
    """Return the current model of each question, {name of the question: model}; the name is "" if the session asks a
    single question. Raise ModelError if the session audits a column."""
    if session.settings.audited:
        raise ModelError("a model that begins with a column needs it: export the audit or the predictions.")
    names = session.settings.question_names
    return {name: of_session(OneQuestion(session, name)) for name in names} or {"": of_session(session)}


# New items


def columns_of(models: Mapping[str, Model]) -> dict[str, type]:
    """Return the names and types of the columns of `predictions`. models: {name of the question: model}, as in
    `of_each`; if the question has a name, its columns are named like margin:NAME."""
    fields = ((name, *field) for name, each in models.items() for field in each.fields.items())
    return {f"{field}:{name}" if name else field: kind for name, field, kind in fields}


def predictions(models: Mapping[str, Model], table: Rows) -> Iterator[Any]:
    """Predict rows with models that turn items into the same rows. Yield the predictions column by column."""
    return chain.from_iterable(each.predictions(each.scores(table)) for each in models.values())


def predicted(
    models: Mapping[str, Model], table: Any, others: Sequence[str], entries: Iterable[tuple[int, Any, int]],
    skipped: dict[str, tuple[int, int]], texts: bool = False, lot: int = BLOCK_ROWS,
) -> OutputTable:  # fmt: skip
    """Predict new items. Return a table of the predictions, followed by further columns of the file (`others`).

    models: {name of the question: model}, which all turn items into the same rows; the columns are named like
    margin:NAME. A single model has the name "". table, others, entries: as returned by `reading.open_items`. skipped:
    is filled with the numbers of skipped entries, {reason: (count, first line)}. texts: whether the table includes the
    texts or the numbers of the items. lot: number of entries processed at a time.
    """
    model = next(iter(models.values()))
    if model.text and table.vectors is not None:
        raise DataError("the model needs texts; the file holds vectors.")
    vectors = None if table.vectors is None else model.columns(table.vectors)
    columns = {"line": int, "id": str} | columns_of(models)
    item_columns: dict[str, type] = {}
    if texts and (model.text or rows.is_sparse(vectors)):
        item_columns = {TEXT if model.text else FEATURES: str}
    elif texts:
        item_columns = dict.fromkeys(details.named(model.names, columns), float)
    other_columns = details.named(others, columns | item_columns)
    nothing, lot = json.dumps([""] * len(other_columns)), min(lot, block_rows(len(item_columns)))

    def predicted_rows() -> Iterator[tuple[Any, ...]]:
        left = iter(entries)
        while part := list(islice(left, lot)):
            for line, item, _ in part:
                if isinstance(item, str):  # the reason to skip it
                    count, first = skipped.get(item, (0, line))
                    skipped[item] = count + 1, first
            if not (good := [entry for entry in part if not isinstance(entry[1], str)]):
                continue
            items: Any = [item[1 if model.text else 3] for _, item, _ in good]
            if vectors is not None:
                items = vectors[[row for *_, row in good]]
            given_vectors = np.array([item[3] for _, item, _ in good]) if model.beside else None
            item_rows = model.rows(items, given_vectors)
            cells = zip(*(json.loads(item[4] or nothing) for _, item, _ in good))
            yield from rows_of(
                [line for line, *_ in good], [item[0] for _, item, _ in good], *predictions(models, item_rows),
                *(_contents(model, items) if texts else ()), *([word or None for word in column] for column in cells),
            )  # fmt: skip

    return OutputTable(columns | item_columns | dict.fromkeys(other_columns, str), predicted_rows(), block_rows=lot)


def _contents(model: Model, items: Any) -> list[Any]:
    """Return the texts or the numbers of items as columns of a table."""
    if model.text:
        return [items]
    if bool(rows.is_sparse(items)):  # bool(): not a type guard
        rows_of = (items[[k]] for k in range(items.shape[0]))
        return [[packed_row(model.names, row.indices, row.data) for row in rows_of]]
    columns: list[Any] = np.array(items).T.tolist()
    return columns

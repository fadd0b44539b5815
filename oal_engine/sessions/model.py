"""What a session has learned as a file: terms and weights in gzipped JSON lines, from which nothing is ever run.

The first line says where the model is from and how an item becomes a row; each further line is one feature: its name,
what its values are computed with (document frequency, or mean and deviation), and its weight, or one for each class.
Where similar wording counts, the first line also has the means and weights of its columns, and each feature what it
adds to them: little-endian float32 in base64. Where waves stand beside the columns, the first line says how they turn,
and the last lines are their weights. Where vectors stand beside the texts, the first line says which columns they are,
or which embedding makes them and how often each token came, and the last lines are their means and weights. The file
can be read with zcat. It is untrusted: every line is checked, and its size is bounded.
"""

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from .. import __version__
from ..datasets import made_rows
from ..datasets.features import fourier, latent, scaling, vectorizer
from ..datasets.features.embeddings import Embedding
from ..datasets.features.numbers import packed_row
from ..datasets.reading import details
from ..datasets.reading.readers import some
from ..datasets.reading.sources import DataError
from ..kernel import learners, rows, stream
from ..kernel.learners import Learner
from ..output.jsonlines import JsonLinesError, checked, lines, number, or_none, whole, words
from ..output.tables import BLOCK_ROWS, FEATURES, SCORE, TEXT, OutputTable, Part, block_rows
from ..store import Row
from .insights import calibration
from .insights.calibration import Calibration
from .session import Session
from .settings import MOST_CLASSES

Rows = rows.Rows
FORMAT, LATENT, WAVES, BESIDE = 1, 2, 3, 4  # of a file without more, with similar wording, waves, vectors beside texts
MOST_WORDS = 20  # of a term: with more a file from elsewhere could take any time


class ModelError(ValueError):
    """A file that is no model, or a session that cannot have one, in one sentence."""


@dataclass(frozen=True, eq=False)
class Model:
    """The head of a model file; for each feature its name and the numbers that its values are computed with; the
    weights of the features and then of similar wording and vectors, or of waves, shape (columns, 1), or (columns, K)
    where there are K classes; the projection of similar wording, if it counts; the means of vectors beside texts, if
    there are such, and the embedding that makes them, if one does."""

    head: Row
    names: list[str]
    numbers: dict[str, np.ndarray]
    weights: np.ndarray
    projection: latent.Projection | None = None
    means: np.ndarray | None = None
    embedding: Embedding | None = None

    @property
    def multiclass(self) -> bool:
        """Whether it tells K classes apart, not positive from negative."""
        return bool(self.head["multiclass"])

    @cached_property
    def classes(self) -> dict[int, str]:
        """The name of each label: 1 and -1, or 1..K."""
        names = self.head["classes"]
        return dict(enumerate(names, 1)) if self.multiclass else dict(zip((1, -1), names))

    @cached_property
    def calibration(self) -> Calibration:
        """What turns its margins into probabilities."""
        return Calibration(**self.head["calibration"])

    @property
    def learner(self) -> Learner:
        """A learner that predicts with the weights; with scratch arrays of its own, as threads may share a model."""
        if self.multiclass:
            return learners.build("m-perceptron", 1, classes=len(self.classes))._replace(w=self.weights)
        return learners.build("perceptron", 1)._replace(w=self.weights[:, 0])

    @cached_property
    def _vocabulary(self) -> vectorizer.Vocabulary | None:
        if self.head["vectorizer"] is None:
            return None
        frequency, settings = self.numbers["document_frequency"], self.head["vectorizer"]
        return vectorizer.Vocabulary(self.names, frequency, self.head["documents"], settings)

    @property
    def text(self) -> bool:
        """Whether its items are texts, not vectors."""
        return self._vocabulary is not None

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns of the vectors beside its texts, none where an embedding makes them."""
        return tuple(self.head.get("beside", {}).get("columns", ()))

    @property
    def width(self) -> int:
        """How many numbers these columns hold together."""
        return self.head["beside"]["width"] if self.beside else 0

    def with_embedding(self, given: Embedding | None) -> "Model":
        """The model with the embedding that makes its vectors; ModelError where it needs another, or none."""
        wanted = self.head.get("beside", {}).get("embedding")
        got = f"{given.name} ({given.checksum})" if given else "none"
        if wanted is None:
            if given:
                raise ModelError(f"the model of {self.head['session']} needs no embedding. Got {got}.")
            return self
        if given is None or given.checksum != wanted["checksum"]:
            raise ModelError(
                f"the model of {self.head['session']} needs the embedding {wanted['name']} ({wanted['checksum']}): "
                f"name its folder (--embed). Got {got}."
            )
        return replace(self, embedding=replace(given, counts=np.array(self.head["beside"]["tokens"], np.int64)))

    def rows(self, items: Any, vectors: np.ndarray | None = None) -> Rows:
        """The rows of texts, with vectors beside them if the model has columns of such, or of vectors whose columns are
        those of the model, as the session's own were made."""
        matrix = self._vocabulary.transform(items) if self._vocabulary else items
        more: Row = {"fourier": self.head["fourier"]} if "fourier" in self.head else {}
        if self.means is not None:
            more["beside"] = {"means": self.means}
        if self.embedding:
            vectors = self.embedding.vectors(items)
        return made_rows({"name": self.head["scaling"]} | self.numbers | more, matrix, self.projection, vectors)

    def columns(self, matrix: Any) -> Any:
        """The columns of the model out of a matrix with numbered columns; columns that a sparse one lacks are zeros."""
        wanted, is_sparse = len(self.names), bool(sparse.issparse(matrix))
        if self.names != [str(k) for k in range(1, wanted + 1)]:
            raise DataError(f"the model needs the columns {some(self.names, 5)}; those of the file have only numbers.")
        if is_sparse:
            matrix.resize(matrix.shape[0], wanted)
        elif matrix.shape[1] < wanted:
            raise DataError(f"the model needs {wanted:,} columns. Got {matrix.shape[1]:,}.")
        return matrix[:, :wanted]

    def scores(self, table: Rows) -> np.ndarray:
        """The margin of every row, shape (n, 1), or its score for each class, (n, K)."""
        scores = np.empty((rows.length(table), len(self.classes) if self.multiclass else 1))
        stream.scores(table, self.learner, self.head["theta"], scores)
        return scores + self.head["offset"]

    def decided(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Margins and predicted classes of scores: the margin of K classes is the gap between the two highest."""
        if not self.multiclass:
            return scores[:, 0], np.where(scores[:, 0] >= self.head["theta"], 1, -1)
        highest = np.sort(scores, axis=1)
        return highest[:, -1] - highest[:, -2], scores.argmax(axis=1) + 1

    @property
    def fields(self) -> dict[str, type]:
        """The names and types of what `predictions` gives of an item."""
        scores: dict[str, type] = {f"{SCORE}{name}": float for name in self.classes.values()} if self.multiclass else {}
        return {"margin": float, "predicted": int, "predicted_class": str, "probability": float} | scores

    def predictions(self, scores: np.ndarray) -> Part:
        """Of all rows of scores the margins, the predicted classes and their names, the probabilities or None, and, of
        K classes, every score."""
        margins, predicted = self.decided(scores)
        chances = self.calibration(margins)
        given = [None] * margins.size if chances is None else chances
        names = np.array([None, *self.classes.values()])[predicted]  # -1 is the last one
        return margins, predicted, names, given, *(scores.T if self.multiclass else ())


def of_session(session: Session) -> Model:
    """The model of an opened session as it is now."""
    settings, dataset, learner = session.settings, session.dataset, session.learner
    if not learners.linear(learner):
        raise ModelError(
            f"{settings.learner} predicts with a matrix over all pairs of features, which is no list of terms and "
            "weights: it has no model file. Publish the session instead."
        )
    vocabulary, scaled = dataset.vocabulary, dataset.scaling
    if vocabulary is None:
        numbers: dict[str, Any] = {key: scaled[key] for key in ("mean", "deviation") if key in scaled}
    else:
        numbers = {"document_frequency": vocabulary.document_frequency}
    names = vocabulary.terms if vocabulary else dataset.feature_names
    weights = learners.weights(learner).reshape(dataset.rows.columns, -1).copy()
    projection, given, embedding = dataset.projection, scaled.get("beside"), dataset.embedding
    kind = BESIDE if given else LATENT if projection else WAVES if "fourier" in scaled else FORMAT
    head = {
        "oal_model": kind, "engine": __version__,
        "session": settings.name, "dataset": dataset.name,
        "algorithm": settings.algorithm, "learner": settings.learner, "labels": len(session.labels),
        "averaged": bool(settings.averaged), "multiclass": session.multiclass, "classes": list(session.names.values()),
        "theta": settings.theta, "scaling": scaled["name"], "vectorizer": vocabulary and vocabulary.settings,
        "documents": vocabulary and vocabulary.documents, "calibration": asdict(calibrated(session)),
        "features": len(names), "offset": learners.offset(learner).tolist(),
    }  # fmt: skip
    if "fourier" in scaled:
        head["fourier"] = scaled["fourier"]
    if projection:
        head["similar_means"] = projection.numbers[-1].tolist()
        head["similar_weights"] = weights[len(names) :][: projection.numbers.shape[1]].tolist()
    if embedding:
        head["beside"] = {"embedding": embedding.source, "tokens": embedding.counts.tolist()}
    elif given:
        head["beside"] = {"columns": [*dataset.beside_columns], "width": dataset.beside}
    arrays = {key: np.array(values) for key, values in numbers.items()}
    return Model(head, list(names), arrays, weights, projection, np.array(given["means"]) if given else None, embedding)


def calibrated(session: Session) -> Calibration:
    """How likely an item is positive, by its margin, or, of K classes, its prediction right, by the gap of the best
    two."""
    log = [entry for entry in session.log if entry.label]
    margins, weights = [entry.margin for entry in log], [1 / entry.probability for entry in log]
    if session.multiclass:
        return calibration.fit(margins, [not entry.mistake for entry in log], weights, "right")
    return calibration.fit(margins, [entry.label == 1 for entry in log], weights)


# New items


def predicted(
    model: Model, table: Any, others: Sequence[str], entries: Iterable[tuple[int, Any, int]],
    skipped: dict[str, tuple[int, int]], texts: bool = False, lot: int = BLOCK_ROWS,
) -> OutputTable:  # fmt: skip
    """The predictions of entries as `formats.open_entries` gives them, so many worked on at a time, with their texts or
    numbers where these are wanted and the cells of the other columns; why some are skipped is counted in `skipped`,
    {reason: (count, first line)}."""
    if model.text and table.vectors is not None:
        raise DataError("the model needs texts; the file holds vectors.")
    vectors = None if table.vectors is None else model.columns(table.vectors)
    is_sparse, columns = bool(sparse.issparse(vectors)), {"line": int, "id": str} | model.fields
    made_of: dict[str, type] = {}
    if texts and (model.text or is_sparse):
        made_of = {TEXT if model.text else FEATURES: str}
    elif texts:
        made_of = dict.fromkeys(details.named(model.names, columns), float)
    kept = details.named(others, columns | made_of)
    nothing = json.dumps([""] * len(kept))

    def parts() -> Iterator[Part]:
        left = iter(entries)
        while part := list(islice(left, min(lot, block_rows(len(made_of))))):
            for line, item, _ in part:
                if isinstance(item, str):  # the reason why it is skipped
                    count, first = skipped.get(item, (0, line))
                    skipped[item] = count + 1, first
            good = [entry for entry in part if not isinstance(entry[1], str)]
            if not good:
                continue
            items: Any = [item[1 if model.text else 3] for _, item, _ in good]
            if vectors is not None:
                items = vectors[[row for *_, row in good]]
            given = np.array([item[3] for _, item, _ in good]) if model.beside else None
            scores = model.scores(model.rows(items, given))
            shown: list[Any] = []
            if texts and model.text:
                shown = [items]
            elif texts and is_sparse:
                rows_of = (items[[k]] for k in range(items.shape[0]))
                shown = [[packed_row(model.names, row.indices, row.data) for row in rows_of]]
            elif texts:
                shown = np.array(items).T.tolist()
            cells = zip(*(json.loads(item[4] or nothing) for _, item, _ in good))
            yield (
                [line for line, *_ in good], [item[0] for _, item, _ in good], *model.predictions(scores), *shown,
                *([word or None for word in column] for column in cells),
            )  # fmt: skip

    return OutputTable(columns | made_of | dict.fromkeys(kept, str), parts())


# Files


def write(model: Model, file: IO[bytes]) -> None:
    """Write a model to an open binary file; the same model gives the same bytes."""
    columns: dict[str, Iterable[Any]] = {"feature": model.names}
    columns |= {key: values.tolist() for key, values in model.numbers.items()}
    if model.projection:
        columns["similar"] = map(_packed, model.projection.numbers)
    columns["weights"] = model.weights.tolist()
    features = (dict(zip(columns, line)) for line in zip(*columns.values()))
    others = model.weights[len(model.names) :].tolist() if "fourier" in model.head else []
    waves = [{"wave": k, "weights": line} for k, line in enumerate(others, 1)]
    means = [] if model.means is None else model.means.tolist()
    others = model.weights[len(model.weights) - len(means) :].tolist()
    vectors = [{"vector": k, "mean": mean, "weights": line} for k, (mean, line) in enumerate(zip(means, others), 1)]
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for line in (model.head, *features, *waves, *vectors):
            packed.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), "<f4")


Check = Callable[[Any], bool]  # whether a value is allowed


def _numbers(count: int) -> Check:
    """So many numbers."""
    return lambda value: isinstance(value, list) and len(value) == count and all(map(number, value))


def _packed_numbers(count: int) -> Check:
    """So many numbers as `_packed` writes those of directions of length 1."""

    def are_packed(value: Any) -> bool:
        try:
            return len(value) == len(_packed(np.zeros(count))) and bool((abs(_unpacked(value)) < 2).all())
        except (TypeError, ValueError):
            return False

    return are_packed


def _one_of(names: Iterable[str]) -> Check:
    return lambda value: value in list(names)


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


VECTORIZER: dict[str, Check] = {
    "tokenizer": _one_of(vectorizer.TOKENIZERS),
    "pattern": _one_of(vectorizer.TOKENIZERS.values()),  # another one could run for ever
    "ngrams": whole(1, MOST_WORDS), "min_df": whole(0), "max_terms": whole(0),
    "sublinear": _is_bool, "lowercase": _is_bool,
}  # fmt: skip
SHARED: dict[str, Check] = {
    "new": whole(1), "frequent": lambda value: isinstance(value, list) and all(map(words(10_000), value))
}  # fmt: skip
CALIBRATION = {
    "slope": or_none(number), "intercept": or_none(number), "labels": whole(0), "hits": whole(0),
    "hit": words(20), "reason": or_none(words(200)),
}  # fmt: skip
SIMILAR: dict[str, Check] = {
    "similar_means": lambda value: isinstance(value, list) and 0 < len(value) <= latent.MOST
    and all(number(each) and abs(each) < 2 for each in value),
    "similar_weights": lambda value: isinstance(value, list),
}  # fmt: skip
HEAD: dict[str, Check] = {
    "oal_model": whole(FORMAT, BESIDE),
    **dict.fromkeys(("engine", "session", "dataset", "algorithm", "learner"), words(500)),
    "averaged": _is_bool, "multiclass": _is_bool, "labels": whole(0),
    "classes": lambda value: isinstance(value, list) and 2 <= len(value) <= MOST_CLASSES
    and all(map(words(500), value)) and len(set(value)) == len(value),
    "theta": number, "scaling": _one_of(scaling.SCALINGS), "documents": or_none(whole(0)), "features": whole(1),
    "vectorizer": lambda value: value is None or isinstance(value, dict),
    "calibration": lambda value: isinstance(value, dict),
    "offset": lambda value: number(value) or isinstance(value, list),
}  # fmt: skip


def _above_zero(value: Any) -> bool:
    return number(value) and value > 0


GIVEN: dict[str, Check] = {
    "columns": lambda value: isinstance(value, list) and bool(value) and all(map(words(500), value)), "width": whole(1)
}  # fmt: skip
MADE: dict[str, Check] = {
    "embedding": _is_dict, "tokens": lambda value: isinstance(value, list) and all(map(whole(0), value))
}  # fmt: skip
EMBEDDING: dict[str, Check] = {
    "name": words(500), "checksum": words(64), "dtype": _one_of(["float16", "float32"]), "tokens": whole(1),
    "width": whole(1), "tokenizer": whole(1),
}  # fmt: skip
FOURIER: dict[str, Check] = {"seed": whole(0), "bandwidth": _above_zero}
NUMBERS: dict[str, Check] = {"document_frequency": whole(0), "mean": number, "deviation": _above_zero}


def read(path: Path | str) -> Model:
    """The model in a file; ModelError says in one sentence what is wrong with a file that holds none."""
    try:
        with gzip.open(path, "rb") as file:
            return _read(lines(file))
    except JsonLinesError as error:
        raise ModelError(f"{path} is not a usable model: {error}") from None
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise ModelError(f"{path} is not a model, or is damaged: {str(error).rstrip('.')}.") from None


def _read(entries: Iterator[tuple[int, Row]]) -> Model:
    nothing: Row = {}
    first = next(entries, (1, nothing))[1]
    similar, waved, given = (first.get("oal_model") == kind for kind in (LATENT, WAVES, BESIDE))
    similar = similar or (given and "similar_means" in first)
    first.setdefault("offset", 0.0)  # files of version 0.2.0 have none
    parts = {"fourier": _is_dict} if waved else {"beside": _is_dict} if given else {}
    head = checked(first, HEAD | (SIMILAR if similar else {}) | parts, 1, "head of a model")
    checked(head["calibration"], CALIBRATION, 1, "calibration of a model")
    text, scaled = head["vectorizer"] is not None, head["scaling"] == "standardize+l2"
    if text:
        checked(
            head["vectorizer"], VECTORIZER | (SHARED if "new" in head["vectorizer"] else {}), 1, "vectorizer of a model"
        )
    if waved:
        checked(head["fourier"], FOURIER, 1, "head of waves")
    if given:
        checked(head["beside"], MADE if "embedding" in head["beside"] else GIVEN, 1, "head of vectors")
    size = len(head["classes"]) if head["multiclass"] else 1
    made_by = head.get("beside", {}).get("embedding")
    if made_by is not None:
        checked(made_by, EMBEDDING, 1, "embedding of a model")
    means, more = head.get("similar_means", []), head.get("similar_weights", [])
    fitted = [head["calibration"][key] is None for key in ("slope", "intercept")]
    if (
        text != (head["documents"] is not None)
        or (text and (scaled or waved))
        or ((similar or given) and not text)
        or (text and head["vectorizer"].get("new", 0) > head["features"])  # columns before the first
        or (made_by and made_by["tokens"] != len(head["beside"]["tokens"]))
        or len(more) != len(means)
        or not all(map(_numbers(size), more))
        or not (number(head["offset"]) or (head["multiclass"] and _numbers(size)(head["offset"])))
        or (not head["multiclass"] and len(head["classes"]) != 2)
        or fitted != [head["calibration"]["reason"] is not None] * 2
    ):
        raise JsonLinesError("the parts of its first line do not fit together.")
    wanted = ["document_frequency"] * text + ["mean", "deviation"] * (scaled or waved)
    weighed: dict[str, Check] = {"weights": _numbers(size)}
    feature = {"feature": words(10_000), **{key: NUMBERS[key] for key in wanted}} | weighed
    if similar:
        feature["similar"] = _packed_numbers(len(means))
    features: dict[str, Row] = {}
    waves: list[Row] = []
    vectors: list[Row] = []
    for at, line in entries:
        if given and "vector" in line:
            place = len(vectors) + 1
            vectors.append(checked(line, {"vector": whole(place, place), "mean": number} | weighed, at, "vector"))
            continue
        if waved and "wave" in line:
            place = len(waves) + 1
            waves.append(checked(line, {"wave": whole(place, place)} | weighed, at, "wave of this model"))
            continue
        checked(line, feature, at, "feature of this model")
        if line["feature"] in features:
            raise JsonLinesError(f"line {at} names the feature {line['feature'][:40]} again.")
        features[line["feature"]] = line
    for found, wanted_count, kind in (
        (features, head["features"], "features"), (waves, 2 * fourier.WAVES * waved, "waves"),
        (vectors, (made_by or head.get("beside", {})).get("width", 0), "vectors"),
    ):  # fmt: skip
        if len(found) != wanted_count:
            count = f"{len(found):,} of its {wanted_count:,} {kind}"
            raise JsonLinesError(f"it has {count}: it is cut short or altered.")
    numbers = {key: np.array([line[key] for line in features.values()]) for key in wanted}
    named, unnamed = ([line["weights"] for line in each] for each in (features.values(), (*waves, *vectors)))
    weights = np.array([*named, *more, *unnamed], dtype=np.float64)
    means_of_vectors = np.array([line["mean"] for line in vectors]) if given else None
    projection = None
    if similar:
        directions = [_unpacked(line["similar"]) for line in features.values()]
        projection = latent.Projection(rows.read_only(np.array([*directions, means]), np.float32))
    return Model(head, [*features], numbers, weights, projection, means_of_vectors)

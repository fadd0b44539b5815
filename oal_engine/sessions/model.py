"""What a session has learned as a file: terms and weights in gzipped JSON lines, from which nothing is ever run.

The first line says where the model is from and how an item becomes a row; each further line is one feature: its name,
what its values are computed with (document frequency, or mean and deviation), and its weight, or one for each class.
Whoever has no Python reads it with zcat. A file is untrusted: every line is checked, and its size is bounded.
"""

import gzip
import json
import zlib
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from scipy import sparse

from .. import __version__
from ..datasets import scaling, vectorizer
from ..datasets.readers import some
from ..datasets.sources import DataError
from ..kernel import learners, rows, stream
from ..output.jsonlines import JsonLinesError, checked, lines, number, or_none, whole, words
from ..output.tables import CHUNK, OutputTable
from . import calibration
from .calibration import Calibration
from .settings import MOST_CLASSES

FORMAT = 1
MOST_WORDS = 20  # of a term; more would let a file from elsewhere take any time


class ModelError(ValueError):
    """A file that is no model, or a session that has none, in one sentence."""


@dataclass(frozen=True, eq=False)
class Model:
    """The head of a model file; for each feature its name, the numbers that its values are computed with (a dictionary
    of arrays), and its weights, shape (features, 1), or (features, K) where there are K classes."""

    head: dict
    names: list
    numbers: dict
    weights: np.ndarray

    @property
    def multiclass(self):
        """Whether it tells K classes apart, not positive from negative."""
        return self.head["multiclass"]

    @cached_property
    def classes(self):
        """The words of each label: 1 and -1, or 1..K."""
        labels = range(1, len(self.head["classes"]) + 1) if self.multiclass else (1, -1)
        return dict(zip(labels, self.head["classes"]))

    @cached_property
    def calibration(self):
        """What turns its margins into probabilities."""
        return Calibration(**self.head["calibration"])

    @cached_property
    def learner(self):
        """A learner that predicts with the weights."""
        if self.multiclass:
            return learners.build("m-perceptron", 1, classes=len(self.classes))._replace(w=self.weights)
        return learners.build("perceptron", 1)._replace(w=self.weights[:, 0])

    @cached_property
    def _vocabulary(self):
        if self.head["vectorizer"] is None:
            return None
        frequency, settings = self.numbers["document_frequency"], self.head["vectorizer"]
        return vectorizer.Vocabulary(self.names, frequency, self.head["documents"], settings)

    @property
    def text(self):
        """Whether its items are texts, not vectors."""
        return self._vocabulary is not None

    def rows(self, items):
        """The rows of texts, or of vectors whose columns are those of the model, as the session's own were made."""
        matrix = self._vocabulary.transform(items) if self.text else items
        return rows.as_rows(scaling.apply({"name": self.head["scaling"]} | self.numbers, matrix))

    def columns(self, matrix):
        """The columns of the model out of a matrix, whose own have only numbers: those that a sparse one lacks are
        zeros."""
        wanted = len(self.names)
        if self.names != [str(k) for k in range(1, wanted + 1)]:
            raise DataError(f"the model needs the columns {some(self.names, 5)}; those of the file have only numbers.")
        if sparse.issparse(matrix):
            matrix.resize(matrix.shape[0], wanted)
        elif matrix.shape[1] < wanted:
            raise DataError(f"the model needs {wanted:,} columns. Got {matrix.shape[1]:,}.")
        return matrix[:, :wanted]

    def scores(self, table):
        """The margin of every row, shape (n, 1), or its score for each class, (n, K)."""
        found = np.empty((rows.length(table), len(self.classes) if self.multiclass else 1))
        stream.scores(table, self.learner._replace(**self._scratch), self.head["theta"], found)
        return found

    @property
    def _scratch(self):
        """Arrays of its own for whoever predicts, as threads may share a model."""
        return {"scores": np.zeros(len(self.classes))} if self.multiclass else {}

    def decided(self, scores):
        """Margins and predicted classes of scores: the margin of K classes is the gap between the two highest."""
        if not self.multiclass:
            return scores[:, 0], np.where(scores[:, 0] >= self.head["theta"], 1, -1)
        highest = np.sort(scores, axis=1)
        return highest[:, -1] - highest[:, -2], scores.argmax(axis=1) + 1

    @property
    def fields(self):
        """What `told` tells of an item, by name."""
        each = {f"score: {name}": float for name in self.classes.values()} if self.multiclass else {}
        return {"margin": float, "predicted": int, "predicted_class": str, "probability": float} | each

    def told(self, scores):
        """A tuple for each row of scores: margin, predicted class and its name, probability or None, and, of K classes,
        every score."""
        margins, predicted = self.decided(scores)
        chances = self.calibration(margins)
        chances = [None] * margins.size if chances is None else chances.tolist()
        each = scores.tolist() if self.multiclass else [()] * margins.size
        for margin, label, chance, more in zip(margins.tolist(), predicted.tolist(), chances, each):
            yield margin, label, self.classes[label], chance, *more


def of_session(session):
    """The model of an opened session as it is now."""
    settings, dataset, learner = session.settings, session.dataset, session.learner
    if not learners.linear(learner):
        raise ModelError(
            f"{settings.learner} predicts with a matrix over all pairs of features, which is no list of terms and "
            "weights: it has no model file. Publish the session instead."
        )
    vocabulary, scaled = dataset.vocabulary, json.loads(dataset.record["scaling"])
    if vocabulary is None:
        numbers = {key: scaled[key] for key in ("mean", "deviation") if key in scaled}
    else:
        numbers = {"document_frequency": vocabulary.document_frequency}
    head = {
        "oal_model": FORMAT,
        "engine": __version__,
        "session": settings.name,
        "dataset": dataset.name,
        "algorithm": settings.algorithm,
        "learner": settings.learner,
        "labels": len(session.labels),
        "averaged": bool(settings.averaged),
        "multiclass": session.multiclass,
        "classes": list(session.names.values()),
        "theta": settings.theta,
        "scaling": scaled["name"],
        "vectorizer": vocabulary and vocabulary.settings,
        "documents": vocabulary and vocabulary.documents,
        "calibration": asdict(calibrated(session)),
        "features": dataset.rows.columns,
    }
    names = vocabulary.terms if vocabulary else dataset.feature_names
    weights = learners.weights(learner).reshape(dataset.rows.columns, -1).copy()
    return Model(head, list(names), {key: np.array(values) for key, values in numbers.items()}, weights)


def calibrated(session):
    """How likely its predictions are right: of a positive class by the margin, of K by the gap of the best two."""
    log = [entry for entry in session.log if entry.label]
    margins, weights = [entry.margin for entry in log], [1 / entry.probability for entry in log]
    if session.multiclass:
        return calibration.fit(margins, [not entry.mistake for entry in log], weights, "right")
    return calibration.fit(margins, [entry.label > 0 for entry in log], weights)


# New items


def predicted(model, table, entries, skipped, texts=False, lot=CHUNK):
    """The Table of predictions of entries as `formats.open_entries` gives them, so many worked on at a time; why some
    are skipped is counted in `skipped`, {reason: (count, first line)}."""
    if model.text and table.vectors is not None:
        raise DataError("the model needs texts; the file holds vectors.")
    vectors = None if table.vectors is None else model.columns(table.vectors)

    def each():
        left = iter(entries)
        while some := list(islice(left, lot)):
            good = []
            for line, item, row in some:
                if isinstance(item, str):
                    count, first = skipped.get(item, (0, line))
                    skipped[item] = count + 1, first
                else:
                    good.append((line, item, row))
            if not good:
                continue
            if vectors is not None:
                items = vectors[[row for *_, row in good]]
            else:
                items = [item[1 if model.text else 3] for _, item, _ in good]
            told = model.told(model.scores(model.rows(items)))
            for (line, (id, text, *_), _), found in zip(good, told):
                yield line, id, *found, *([text] if texts else ())

    return OutputTable({"line": int, "id": str} | model.fields | ({"text": str} if texts else {}), each())


# Files


def write(model, file):
    """Write a model to an open binary file; the same model gives the same bytes."""
    columns = {"feature": model.names} | {key: values.tolist() for key, values in model.numbers.items()}
    features = (dict(zip((*columns, "weights"), line)) for line in zip(*columns.values(), model.weights.tolist()))
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for line in (model.head, *features):
            packed.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _one_of(names):
    return lambda value: value in list(names)


VECTORIZER = {
    "tokenizer": _one_of(vectorizer.TOKENIZERS),
    "pattern": _one_of(vectorizer.TOKENIZERS.values()),  # one from elsewhere could run for ever
    "ngrams": whole(1, MOST_WORDS),
    "min_df": whole(0),
    "max_terms": whole(0),
    **dict.fromkeys(("sublinear", "lowercase"), lambda value: type(value) is bool),
}
CALIBRATION = {
    "slope": or_none(number), "intercept": or_none(number), "labels": whole(0), "hits": whole(0),
    "hit": words(20), "reason": or_none(words(200)),
}  # fmt: skip
HEAD = {
    "oal_model": whole(FORMAT, FORMAT),
    **dict.fromkeys(("engine", "session", "dataset", "algorithm", "learner"), words(500)),
    **dict.fromkeys(("averaged", "multiclass"), lambda value: type(value) is bool),
    "labels": whole(0),
    "classes": lambda value: isinstance(value, list) and 2 <= len(value) <= MOST_CLASSES
    and all(map(words(500), value)) and len(set(value)) == len(value),
    "theta": number,
    "scaling": _one_of(scaling.SCALINGS),
    "vectorizer": lambda value: value is None or isinstance(value, dict),
    "documents": or_none(whole(0)),
    "calibration": lambda value: isinstance(value, dict),
    "features": whole(1),
}  # fmt: skip
NUMBERS = {
    "document_frequency": whole(0),
    "mean": number,
    "deviation": lambda value: number(value) and value > 0,
}


def read(path):
    """The model of a file; ModelError says in one sentence what is wrong with one that is damaged or none at all."""
    try:
        with gzip.open(path, "rb") as file:
            return _read(lines(file))
    except JsonLinesError as error:
        raise ModelError(f"{path} is no model that can be used: {error}") from None
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise ModelError(f"{path} is no model, or a damaged one: {str(error).rstrip('.')}.") from None


def _read(found):
    head = checked(next(found, (1, {}))[1], HEAD, 1, "head of a model")
    checked(head["calibration"], CALIBRATION, 1, "calibration of a model")
    text, scaled = head["vectorizer"] is not None, head["scaling"] == "standardize+l2"
    if text:
        checked(head["vectorizer"], VECTORIZER, 1, "vectorizer of a model")
    fitted = [head["calibration"][key] is None for key in ("slope", "intercept")]
    if (
        text != (head["documents"] is not None)
        or (text and scaled)
        or (not head["multiclass"] and len(head["classes"]) != 2)
        or fitted != [head["calibration"]["reason"] is not None] * 2
    ):
        raise JsonLinesError("the parts of its first line do not fit together.")
    size = len(head["classes"]) if head["multiclass"] else 1
    wanted = ["document_frequency"] * text + ["mean", "deviation"] * scaled
    feature = {
        "feature": words(10_000),
        **{key: NUMBERS[key] for key in wanted},
        "weights": lambda value: isinstance(value, list) and len(value) == size and all(map(number, value)),
    }
    table = {}
    for at, line in found:
        checked(line, feature, at, "feature of this model")
        name, *values, weights = (line[key] for key in feature)
        if name in table:
            raise JsonLinesError(f"line {at} names the feature {name[:40]} again.")
        table[name] = values, weights
    if len(table) != head["features"]:
        raise JsonLinesError(f"it has {len(table):,} of its {head['features']:,} features: it is cut short or altered.")
    values, weights = zip(*table.values())
    numbers = {key: np.array(column) for key, column in zip(wanted, zip(*values))}
    return Model(head, [*table], numbers, np.array(weights, dtype=np.float64))

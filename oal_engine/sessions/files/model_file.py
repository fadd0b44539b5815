"""Write and read a model as a file: JSON lines, plain or gzipped, that any program can read. Nothing in it is executed.

The first line (header) says where the model is from and how an item becomes a row. Each further line is one feature:
its name, the numbers that its values are computed with (document frequency, or mean and standard deviation), and its
weight, or one weight for each class. Some models have extra columns. For similar wording (latent directions), the
header has their means and weights, and each feature its components in them: little-endian float32 in base64. For
Fourier features ("waves"), the header has their seed, and the last lines their weights. Leaves of random trees come
with waves: the header has their seed and the numbers at which a tree may cut each column, and the lines before the
waves have their weights. For dense vectors of the texts, the header has the names of their columns, or else the
encoder that computes the vectors (of an embedding with the count of each token); the last lines have their means and
weights. A file is not trusted: every line is checked, and its size is bounded.
"""

import base64
import gzip
import json
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ...datasets.features import SCALINGS, embeddings, encoders, fourier, latent, leaves, vectorizer
from ...datasets.reading.archives import open_archive
from ...datasets.reading.codings import feature_names, is_coding
from ...datasets.reading.sources import LIMITS, DataError, Limits, Source
from ...kernel import rows
from ...output.jsonlines import Check, JsonLinesError, checked, lines, number, or_none, whole, words
from ...store import Row
from ...store.fields import MOST_QUESTIONS
from ..model import BESIDE, FORMAT, LATENT, LEAVES, WAVES, Model, ModelError
from ..settings import MOST_CLASSES

GZIP, ZIP = b"\x1f\x8b", b"PK\3\4"  # magic numbers: the first bytes of a file
MAX_TERM_WORDS = 20  # more in an untrusted file could take unlimited time


def write(model: Model, file: IO[bytes]) -> None:
    """Write a model, gzipped, to an open binary file. The same model gives the same bytes."""
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        write_plain(model, packed)


def write_plain(model: Model, file: IO[bytes] | gzip.GzipFile) -> None:
    """Write a model as uncompressed JSON lines to an open binary file."""
    columns: dict[str, Iterable[Any]] = {"feature": model.names}
    columns |= {key: values.tolist() for key, values in model.numbers.items()}
    if model.projection:
        columns["similar"] = map(_packed, model.projection.numbers)
    columns["weights"] = model.weights.tolist()
    features = (dict(zip(columns, line)) for line in zip(*columns.values()))
    others = model.weights[len(model.names) :].tolist() if "fourier" in model.head else []
    of_leaves = leaves.COLUMNS if "leaves" in model.head else 0
    reached = [{"leaf": k, "weights": line} for k, line in enumerate(others[:of_leaves], 1)]
    waves = [{"wave": k, "weights": line} for k, line in enumerate(others[of_leaves:], 1)]
    means = [] if model.means is None else model.means.tolist()
    others = model.weights[len(model.weights) - len(means) :].tolist()
    vectors = [{"vector": k, "mean": mean, "weights": line} for k, (mean, line) in enumerate(zip(means, others), 1)]
    for line in (model.head, *features, *reached, *waves, *vectors):
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), "<f4")


# Checks of single fields


def _numbers(count: int) -> Check:
    """Return a check for a list of `count` numbers."""
    return lambda value: isinstance(value, list) and len(value) == count and all(map(number, value))


def _packed_numbers(count: int) -> Check:
    """Return a check for `count` components of unit vectors, as encoded by `_packed`."""

    def are_packed(value: Any) -> bool:
        try:
            return len(value) == len(_packed(np.zeros(count))) and bool((abs(_unpacked(value)) < 2).all())
        except (TypeError, ValueError):
            return False

    return are_packed


def _list_of(check: Check, at_least: int = 0) -> Check:
    return lambda value: isinstance(value, list) and len(value) >= at_least and all(map(check, value))


def _one_of(names: Iterable[str]) -> Check:
    return lambda value: value in list(names)


def _of_type(kind: type) -> Check:
    return lambda value: type(value) is kind


def _above_zero(value: Any) -> bool:
    return number(value) and value > 0


def _is_share(value: Any) -> bool:
    return number(value) and 0 < value < 1


def _cuts(value: Any) -> bool:
    return _numbers(leaves.CUTS)(value) and value == sorted(value)


def _class_names(value: Any) -> bool:
    return _list_of(words(500), 2)(value) and len(value) <= MOST_CLASSES and len(set(value)) == len(value)


def _means(value: Any) -> bool:
    return _list_of(lambda mean: number(mean) and abs(mean) < 2, 1)(value) and len(value) <= latent.MAX_DIRECTIONS


VECTORIZER: dict[str, Check] = {
    "tokenizer": _one_of(vectorizer.TOKENIZERS),
    "pattern": _one_of(vectorizer.PATTERNS),  # any other regular expression could run forever
    "ngrams": whole(1, MAX_TERM_WORDS), "min_df": whole(0), "max_terms": whole(0),
    "sublinear": _of_type(bool), "lowercase": _of_type(bool),
}  # fmt: skip
NEW_TERMS: dict[str, Check] = {"new": whole(1), "frequent": _list_of(words(10_000))}
CALIBRATION = {
    "slope": or_none(number), "intercept": or_none(number), "labels": whole(0), "hits": whole(0),
    "hit": words(20), "reason": or_none(words(200)),
}  # fmt: skip
SIMILAR: dict[str, Check] = {"similar_means": _means, "similar_weights": _of_type(list)}
HEAD: dict[str, Check] = {
    "oal_model": whole(FORMAT, LEAVES),
    **dict.fromkeys(("engine", "session", "dataset", "algorithm", "learner"), words(500)),
    "averaged": _of_type(bool), "multiclass": _of_type(bool), "labels": whole(0), "classes": _class_names,
    "theta": number, "scaling": _one_of(SCALINGS), "documents": or_none(whole(0)), "features": whole(1),
    "vectorizer": or_none(_of_type(dict)), "calibration": _of_type(dict),
    "offset": lambda value: number(value) or isinstance(value, list),
}  # fmt: skip
COLUMNS: dict[str, Check] = {"columns": _list_of(words(500), 1), "width": whole(1)}
TABLE: dict[str, Check] = {
    "columns": _list_of(words(10_000), 1),
    "codings": lambda value: isinstance(value, dict) and all(map(is_coding, value.values())),
}  # fmt: skip
ENCODED: dict[str, Check] = {"embedding": _of_type(dict)}
EMBEDDED: dict[str, Check] = ENCODED | {"tokens": _list_of(whole(0))}
ENCODER: dict[str, Check] = {
    "encoder": _one_of(encoders.ENCODERS), "package": words(100), "width": whole(1),
    "checksums": _list_of(words(64), 1),
}  # fmt: skip
EMBEDDING: dict[str, Check] = {
    "name": words(500), "checksum": words(64), "dtype": _one_of(["float16", "float32"]), "tokens": whole(1),
    "width": whole(1), "tokenizer": whole(1),
}  # fmt: skip
FOURIER: dict[str, Check] = {"seed": whole(0), "bandwidth": _above_zero}
TREES: dict[str, Check] = {"seed": whole(0), "cuts": _list_of(_cuts)}
TYPES = {"document_frequency": "q", "similar": "f"}  # of numbers that are not float64
NUMBERS: dict[str, Check] = {"document_frequency": whole(0), "mean": number, "deviation": _above_zero}


def load_model(path: Path | str, embed: Path | str | None = None) -> Model:
    """Load the model in a file, together with the embedding that computes its vectors if it needs one.

    embed: folder of the embedding. Raise ModelError if the file has no model, or the embedding is not the model's.

    >>> model = load_model("model.json.gz")  # of `session.export("model.json.gz", "model")`
    >>> model.predict([[5, 0], [0, 1]]).tolist()
    ['sport', 'other']
    """
    return read(path).with_encoder(embeddings.read(embed) if embed else None)


def load_models(path: Path | str, embed: Path | str | None = None, limits: Limits = LIMITS) -> dict[str, Model]:
    """Load the models in an archive as {name of question: model}; all of them turn items into the same rows. A file
    with a single model gives {"": model}.

    embed, ModelError: as in `load_model`. Raise DataError if the archive exceeds `limits`.
    """
    embedding = embeddings.read(embed) if embed else None
    with Path(path).open("rb") as file:
        models = _of_questions(file, path, limits) if file.peek(4)[:4] == ZIP else {"": parse(file, path)}
    return {name: each.with_encoder(embedding) for name, each in models.items()}


def _of_questions(file: BufferedReader, path: Path | str, limits: Limits) -> dict[str, Model]:
    """Read the models in an open archive as {name of question: model}."""
    models: dict[str, Model] = {}
    try:
        source = Source(file, str(path), "utf-8", None, lambda: None, limits=limits, packed=Path(path).stat().st_size)
        archive, members = open_archive(source)
        if not 1 <= len(members) <= MOST_QUESTIONS:
            raise ModelError(f"{path} must hold 1 to {MOST_QUESTIONS} models. Got {len(members)} files.")
        for member in members:
            with archive.open(member) as content:
                model = parse(cast(BufferedReader, content), path)
            name, first = model.head["classes"][0], next(iter(models.values()), model)
            if model.multiclass or name in models or not model.shares_rows(first):
                raise ModelError(
                    f"{path} must hold models of different yes/no questions of one session. {member.filename} is not."
                )
            models[name] = replace(model, names=first.names, numbers=first.numbers, projection=first.projection)
    except (ModelError, DataError, MemoryError):
        raise
    except Exception as error:  # zipfile fails on a damaged archive in any way
        raise ModelError(f"{path} is not a model, or is damaged: {str(error).rstrip('.')}.") from None
    return models


def read(path: Path | str) -> Model:
    """Read the model in a file. Raise ModelError if the file has none."""
    with Path(path).open("rb") as file:
        return parse(file, path)


def parse(file: BufferedReader, path: Path | str) -> Model:
    """Read the model in an open binary file. path: name of the file in error messages."""
    start = file.peek(2)[:2]
    if start != GZIP and start[:1] != b"{":
        raise ModelError(
            f"{path} is not a model: it must be JSON lines, plain or gzipped. The command predict and load_models read "
            "archives of such files; other programs read .skops."
        )
    try:
        with gzip.open(file) if start == GZIP else nullcontext(file) as content:
            return _model(lines(content))
    except JsonLinesError as error:
        raise ModelError(f"{path} is not a usable model: {error}") from None
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise ModelError(f"{path} is not a model, or is damaged: {str(error).rstrip('.')}.") from None


def _model(entries: Iterator[tuple[int, Row]]) -> Model:
    nothing: Row = {}
    head = _head(next(entries, (1, nothing))[1])
    features, others = _read_lines(head, entries)
    names = [*features.names]
    if (table := head.get("table")) and feature_names(table["columns"], table["codings"]) != names:
        raise JsonLinesError("its features are not those of its table.")
    numbers = {key: features.numbers(key)[:, 0] for key in _numbers_of(head)}
    of_similar = np.array(head.get("similar_weights", []), np.float64).reshape(-1, _weights_each(head))
    weights = np.vstack([features.numbers("weights"), of_similar, *(each.numbers("weights") for each in others)])
    projection = None
    if "similar_means" in head:
        directions = [*features.numbers("similar"), head["similar_means"]]
        projection = latent.Projection(rows.read_only(np.array(directions), np.float32))
    means = others[0].numbers("mean")[:, 0] if "beside" in head else None
    return Model(head, names, numbers, weights, projection, means)


def _head(head: Row) -> Row:
    """Check the header (first line) of a file, fill in a missing offset, and return it."""
    kind = head.get("oal_model")
    head.setdefault("offset", 0.0)  # files of version 0.2.0 have none
    fields = dict(HEAD)
    for field, kinds in (("fourier", (WAVES, LEAVES)), ("leaves", (LEAVES,)), ("beside", (BESIDE,))):
        if kind in kinds:
            fields[field] = _of_type(dict)
    if kind == LATENT or (kind == BESIDE and "similar_means" in head):
        fields |= SIMILAR
    if "table" in head:
        fields["table"] = _of_type(dict)
    checked(head, fields, 1, "head of a model")
    vectors = head.get("beside", {})
    encoder = vectors["embedding"] if isinstance(vectors.get("embedding"), dict) else {}
    beside = ENCODED if "encoder" in encoder else EMBEDDED if encoder else COLUMNS
    terms = head["vectorizer"] or {}
    for part, own_fields, name in (
        (head["calibration"], CALIBRATION, "calibration of a model"),
        (head["vectorizer"], VECTORIZER | (NEW_TERMS if "new" in terms else {}), "vectorizer of a model"),
        (head.get("fourier"), FOURIER, "head of waves"),
        (head.get("leaves"), TREES, "head of leaves"),
        (head.get("table"), TABLE, "table of a model"),
        (head.get("beside"), beside | ({"share": _is_share} if "share" in vectors else {}), "head of vectors"),
        (encoder or None, ENCODER if "encoder" in encoder else EMBEDDING, "embedding of a model"),
    ):
        if part is not None:
            checked(part, own_fields, 1, name)
    if _contradicts(head):
        raise JsonLinesError("the parts of its first line do not fit together.")
    return head


def _contradicts(head: Row) -> bool:
    """Return whether the parts of the header, each of them valid, contradict each other."""
    text, vectors = head["vectorizer"] is not None, head.get("beside", {})
    encoder = vectors.get("embedding", {})
    similar_means, similar_weights = head.get("similar_means", []), head.get("similar_weights", [])
    has_line = [head["calibration"][key] is None for key in ("slope", "intercept")]
    per_class = _numbers(_weights_each(head))
    return bool(
        text != (head["documents"] is not None)
        or (text and (_is_standardized(head) or "fourier" in head))
        or ("leaves" in head and len(head["leaves"]["cuts"]) != head["features"])
        or (("similar_means" in head or vectors) and not text)
        or (text and head["vectorizer"].get("new", 0) > head["features"])  # more columns for new terms than features
        or ("tokens" in vectors and vectors["embedding"]["tokens"] != len(vectors["tokens"]))
        or ("encoder" in encoder and encoder["width"] != encoders.ENCODERS[encoder["encoder"]].width)
        or len(similar_weights) != len(similar_means)
        or not all(map(per_class, similar_weights))
        or not (number(head["offset"]) or (head["multiclass"] and per_class(head["offset"])))
        or (not head["multiclass"] and len(head["classes"]) != 2)
        or has_line != [head["calibration"]["reason"] is not None] * 2
    )


def _weights_each(head: Row) -> int:
    """Return the number of weights per feature."""
    return len(head["classes"]) if head["multiclass"] else 1


def _is_standardized(head: Row) -> bool:
    return bool(head["scaling"] == "standardize+l2")


def _numbers_of(head: Row) -> list[str]:
    """Return the names of the numbers that each feature has in addition to its weights."""
    standardized = _is_standardized(head) or "fourier" in head
    return ["document_frequency"] * (head["vectorizer"] is not None) + ["mean", "deviation"] * standardized


class _Lines:
    """The lines of one kind, checked and counted while read: of a hostile file, no more is kept than its header says.

    kind: "feature", "leaf", "wave" or "vector", the field that names a line. count: number of announced lines. fields:
    checks of the other fields. names: the names so far. columns: {other field: its numbers, one line after another}.
    """

    def __init__(self, kind: str, count: int, fields: dict[str, Check]) -> None:
        self.kind, self.count = kind, count
        self.fields = {kind: words(10_000) if kind == "feature" else self._is_next} | fields
        self.names: dict[Any, None] = {}
        self.columns = {field: array(TYPES.get(field, "d")) for field in fields}

    def _is_next(self, number: Any) -> bool:
        return type(number) is int and number == len(self.names) + 1

    def add(self, line: Row, at: int) -> None:
        """Add the line with the number `at`. Raise JsonLinesError if it is invalid or was not announced."""
        if len(self.names) == self.count:
            raise JsonLinesError(f"line {at} is a {self.kind} more than the {self.count:,} of the first line.")
        checked(line, self.fields, at, f"{self.kind} of this model")
        if (name := line[self.kind]) in self.names:
            raise JsonLinesError(f"line {at} names the feature {name[:40]} again.")
        self.names[name] = None
        for field, column in self.columns.items():
            value = _unpacked(line[field]).tolist() if field == "similar" else line[field]
            column.extend(value if isinstance(value, list) else [value])

    def numbers(self, field: str) -> np.ndarray:
        """Return the numbers of a field, in one row for each line."""
        return np.array(self.columns[field]).reshape(len(self.names), -1)

    def check_whole(self) -> None:
        """Raise JsonLinesError if lines are missing."""
        if len(self.names) < self.count:
            raise JsonLinesError(
                f"it has {len(self.names):,} of its {self.count:,} {self.kind}s: it is cut short or altered."
            )


def _read_lines(head: Row, entries: Iterator[tuple[int, Row]]) -> tuple[_Lines, list[_Lines]]:
    """Read the lines after the header: the features, and each kind of further lines: leaves, waves or vectors."""
    vectors = head.get("beside", {})
    weights: dict[str, Check] = {"weights": _numbers(_weights_each(head))}
    fields = {key: NUMBERS[key] for key in _numbers_of(head)}
    if "similar_means" in head:
        fields["similar"] = _packed_numbers(len(head["similar_means"]))
    features = _Lines("feature", head["features"], fields | weights)
    others = []
    if "leaves" in head:
        others.append(_Lines("leaf", leaves.COLUMNS, weights))
    if "fourier" in head:
        others.append(_Lines("wave", 2 * fourier.WAVES, weights))
    if vectors:
        others.append(_Lines("vector", vectors.get("embedding", vectors)["width"], {"mean": number} | weights))
    for at, line in entries:
        next((each for each in others if each.kind in line), features).add(line, at)
    for each in (features, *others):
        each.check_whole()
    return features, others

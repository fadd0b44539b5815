"""Write a model in the formats of other programs: skops (for scikit-learn) and ONNX."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED

import numpy as np

from ...datasets.features import vectorizer
from ...output.tables import Format
from ..model import Model, ModelError
from . import model_file

SAME_TOKENS = {vectorizer.TOKENIZERS[name] for name in ("words", "tweets")}  # scikit-learn finds the same tokens
OPSET, IR = 17, 8  # ONNX versions that runtimes from 2022 on can read


class SavedModel(Model):
    """A model that a .skops file stores as the bytes of its model file. Loading it parses and checks these bytes."""

    def __init__(self, content: bytes) -> None:
        vars(self).update(vars(model_file.parse(io.BufferedReader(io.BytesIO(content)), "the .skops file")))

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        return SavedModel, (_content(self),)


def _content(model: Model) -> bytes:
    model_file.write(model, file := io.BytesIO())
    return file.getvalue()


def estimator(model: Model) -> Any:
    """Return a pipeline of scikit-learn's own classes if it can compute the same results as the model, or else a
    SavedModel. Raise ModelError if the model needs vectors of its texts."""
    if model.means is not None:
        raise ModelError(f"the model of {model.head['session']} needs vectors of its texts, which .skops files lack.")
    if not (model.is_plain or _has_plain_words(model)):
        return SavedModel(_content(model))
    from sklearn.pipeline import make_pipeline

    steps = [*_features(model), _classifier(model)]
    if not model.text and not model.has_numbered_columns:  # so that a DataFrame with other columns is refused
        _fitted(getattr(steps[0], "estimator_", steps[0]), feature_names_in_=np.array(model.names, object))
    return make_pipeline(*steps)


def _has_plain_words(model: Model) -> bool:
    """Tell whether the features are only tf-idf values of words that scikit-learn tokenizes in the same way."""
    return model.text and model.projection is None and model.head["vectorizer"]["pattern"] in SAME_TOKENS


def _features(model: Model) -> Iterator[Any]:
    """Yield the scikit-learn transformers that turn items into rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import Normalizer, StandardScaler

    scaling, has_unit_length = model.head["scaling"], model.head["scaling"] != "none"
    if vocabulary := model.vocabulary:
        settings = vocabulary.settings
        terms = TfidfVectorizer(
            token_pattern=settings["pattern"], ngram_range=(1, settings["ngrams"]), lowercase=settings["lowercase"],
            sublinear_tf=settings["sublinear"], norm="l2" if has_unit_length else None,
            vocabulary={term: column for column, term in enumerate(vocabulary.terms)},
        )  # fmt: skip
        terms.idf_ = vocabulary.inverse_frequency
        yield terms
        return
    steps: list[Any] = []
    if scaling == "standardize+l2":
        mean, deviation = model.numbers["mean"], model.numbers["deviation"]
        steps.append(_fitted(StandardScaler(), mean_=mean, scale_=deviation, var_=deviation**2))
    if has_unit_length:
        steps.append(Normalizer())
    for step in steps:
        yield _fitted(step, n_features_in_=len(model.names))


def _classifier(model: Model) -> Any:
    """Return a scikit-learn classifier with the model's weights, and with probabilities if the model has them."""
    from sklearn.linear_model import Perceptron, SGDClassifier
    from sklearn.model_selection import FixedThresholdClassifier

    weights, offsets = _line(model)
    own = {"classes_": model.classes_, "n_features_in_": len(model.names)}
    if not _has_probabilities(model):
        if not model.multiclass:  # a margin of exactly theta predicts positive; a Perceptron requires more than 0
            offsets = np.nextafter(offsets, np.inf)
        return _fitted(Perceptron(), coef_=weights.T.copy(), intercept_=offsets, **own)
    slope, threshold = _log_odds(model)
    chances = _fitted(
        SGDClassifier(loss="log_loss"), coef_=slope * weights.T, intercept_=slope * offsets + threshold, **own
    )
    decides = FixedThresholdClassifier(chances, threshold=threshold, response_method="decision_function")
    return _fitted(decides, estimator_=chances)


def _fitted(learner: Any, **attributes: Any) -> Any:
    """Return a transformer or classifier with the attributes that `fit` would have set."""
    for name, value in attributes.items():
        setattr(learner, name, value)
    return learner


def _has_probabilities(model: Model) -> bool:
    return not (model.multiclass or model.calibration.reason)


def _log_odds(model: Model) -> tuple[float, float]:
    """Return the slope of the log odds over the decision value, and the log odds at a decision value of 0."""
    slope, intercept = float(model.calibration.slope or 0), float(model.calibration.intercept or 0)
    return slope, slope * model.head["theta"] + intercept


def _line(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and offsets that give the values of `Model.decision_function`: one column, or one per class."""
    weights = model.weights
    offsets = np.zeros(weights.shape[1]) + model.head["offset"]
    if not model.multiclass:
        return weights, offsets - model.head["theta"]
    return (np.diff(weights), np.diff(offsets)) if offsets.size == 2 else (weights, offsets)


def _skops(model: Model, file: BinaryIO) -> None:
    learned = estimator(model)
    with _needed("skops"):
        from skops import io as skops
    file.write(skops.dumps(learned, compression=ZIP_DEFLATED))


def _onnx(model: Model, file: BinaryIO) -> None:
    """Write a model of plain numbers as an ONNX graph from rows to labels, decision values and, if it has them,
    probabilities."""
    if not model.is_plain:
        features = "texts" if model.text else "waves" if "fourier" in model.head else "columns of words"
        raise ModelError(f"ONNX is for models of plain numbers. The model of {model.head['session']} has {features}.")
    with _needed("onnx"):
        from onnx import TensorProto, checker, helper, numpy_helper
    nodes, constants = list[Any](), list[Any]()

    def node(operation: str, *inputs: str | np.ndarray, result: str = "", **attributes: Any) -> str:
        """Add an operation to the graph, and return the name of its result. inputs: names of results, or constants."""
        names = list[str]()
        for each in inputs:
            if isinstance(each, np.ndarray):
                constants.append(numpy_helper.from_array(each, each := f"constant {len(constants)}"))
            names.append(each)
        result = result or f"result {len(nodes)}"
        nodes.append(helper.make_node(operation, names, [result], **attributes))
        return result

    rows, across, zero, one = "rows", np.array([1]), np.array(0.0), np.array(1.0)
    if model.head["scaling"] == "standardize+l2":
        rows = node("Div", node("Sub", rows, model.numbers["mean"]), model.numbers["deviation"])
    if model.head["scaling"] != "none":
        length = node("Sqrt", node("ReduceSum", node("Mul", rows, rows), across))
        rows = node("Div", rows, node("Where", node("Greater", length, zero), length, one))
    weights, offsets = _line(model)
    decisions, names = node("Add", node("MatMul", rows, weights), offsets), model.classes_.astype(object)
    if offsets.size == 1:
        flat = node("Squeeze", decisions, across, result="decisions")
        above = "Greater" if model.multiclass else "GreaterOrEqual"
        place = node("Cast", node(above, flat, zero), to=TensorProto.INT64)
    else:
        place = node("ArgMax", node("Identity", decisions, result="decisions"), axis=1, keepdims=0)
    node("Gather", names, place, result="labels")
    tensor = helper.make_tensor_value_info
    outputs = [
        tensor("labels", TensorProto.STRING, ["n"]),
        tensor("decisions", TensorProto.DOUBLE, ["n"] if offsets.size == 1 else ["n", offsets.size]),
    ]
    if _has_probabilities(model):
        odds = (np.array(number) for number in _log_odds(model))
        chances = node("Sigmoid", node("Add", node("Mul", decisions, next(odds)), next(odds)))
        node("Concat", node("Sub", one, chances), chances, result="probabilities", axis=1)
        outputs.append(tensor("probabilities", TensorProto.DOUBLE, ["n", 2]))
    inputs = [tensor("rows", TensorProto.DOUBLE, ["n", len(model.names)])]
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    about = {"session": model.head["session"], "columns": json.dumps(model.names), "classes": json.dumps([*names])}
    helper.set_model_props(proto, about)
    checker.check_model(proto, full_check=True)
    file.write(proto.SerializeToString())


@contextmanager
def _needed(package: str) -> Iterator[None]:
    """Turn a failed import of a package into a ModelError with the command that installs the package."""
    try:
        yield
    except ImportError:
        raise ModelError(f"a .{package} file needs the package {package}: pip install {package}.") from None


PACKAGES = ("skops", "onnx")  # packages that the formats of the same name need
# The only list of model formats
FORMATS = {
    "json.gz": Format((".json.gz", ".gz"), model_file.write, "JSON lines, compressed: for the command predict", True),
    "json": Format((".json", ".jsonl"), model_file.write_plain, "JSON lines: terms and weights for any language"),
    "skops": Format((".skops",), _skops, "skops: for scikit-learn", True),
    "onnx": Format((".onnx",), _onnx, "ONNX: numbers alone, for runtimes in any language", True),
}


def is_offered(kind: str, of_texts: bool) -> bool:
    """Tell whether to offer a format for a model of texts or of numbers: its package must be installed, and ONNX is for
    numbers."""
    return not (kind == "onnx" and of_texts) and (kind not in PACKAGES or find_spec(kind) is not None)

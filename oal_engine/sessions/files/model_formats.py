"""Write a model in the format of another program: skops, for scikit-learn."""

import io
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED

import numpy as np

from ...datasets.features import vectorizer
from ...datasets.features.encoders import Encoder
from ...output.tables import Format
from ..model import Model, ModelError
from . import model_file

SAME_TOKENS = {vectorizer.TOKENIZERS[name] for name in ("words", "tweets")}  # scikit-learn finds the same tokens


class SavedModel(Model):
    """A model that a .skops file stores as the bytes of its model file. Loading it parses and checks these bytes."""

    def __init__(self, content: bytes) -> None:
        model = model_file.parse(io.BufferedReader(io.BytesIO(content)), "the .skops file")
        vars(self).update(vars(model.with_encoder(None)))

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        return SavedModel, (_content(self),)


def _content(model: Model) -> bytes:
    model_file.write(model, file := io.BytesIO())
    return file.getvalue()


def estimator(model: Model) -> Any:
    """Return a pipeline of scikit-learn's own classes if it can compute the same results as the model, or else a
    SavedModel. Raise ModelError if the model needs vectors of its texts."""
    if model.means is not None and not isinstance(model.encoder, Encoder):
        raise ModelError(f"the model of {model.head['session']} needs vectors of its texts, which .skops files lack.")
    plain_words = (
        model.text
        and not model.encoder
        and model.projection is None
        and model.head["vectorizer"]["pattern"] in SAME_TOKENS
    )
    if not (model.is_plain or plain_words):
        return SavedModel(_content(model))
    from sklearn.pipeline import make_pipeline

    steps = [*_features(model), _classifier(model)]
    if not model.text and not model.has_numbered_columns:  # so that a DataFrame with other columns is refused
        _fitted(getattr(steps[0], "estimator_", steps[0]), feature_names_in_=np.array(model.names, object))
    return make_pipeline(*steps)


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
    if model.multiclass or model.calibration.reason:  # it has no probabilities
        if not model.multiclass:  # a margin of exactly theta predicts positive; a Perceptron requires more than 0
            offsets = np.nextafter(offsets, np.inf)
        return _fitted(Perceptron(), coef_=weights.T.copy(), intercept_=offsets, **own)
    slope, intercept = float(model.calibration.slope or 0), float(model.calibration.intercept or 0)
    threshold = slope * model.head["theta"] + intercept  # the log odds at a decision value of 0
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


def _line(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and offsets that give the values of `Model.decision_function`: one column, or one per class."""
    weights = model.weights
    offsets = np.zeros(weights.shape[1]) + model.head["offset"]
    if not model.multiclass:
        return weights, offsets - model.head["theta"]
    return (np.diff(weights), np.diff(offsets)) if offsets.size == 2 else (weights, offsets)


def _skops(model: Model, file: BinaryIO) -> None:
    learned = estimator(model)
    try:
        from skops import io as skops
    except ImportError:
        raise ModelError("a .skops file needs the package skops: pip install skops.") from None
    file.write(skops.dumps(learned, compression=ZIP_DEFLATED))


# The only list of model formats
FORMATS = {
    "json.gz": Format((".json.gz", ".gz"), model_file.write, "JSON lines, compressed: for the command predict", True),
    "json": Format((".json", ".jsonl"), model_file.write_plain, "JSON lines: terms and weights for any language"),
    "skops": Format((".skops",), _skops, "skops: for scikit-learn", True),
}


def offered() -> dict[str, Format]:
    """Return the formats whose package is installed."""
    return {kind: each for kind, each in FORMATS.items() if kind != "skops" or find_spec("skops")}

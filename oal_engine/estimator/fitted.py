"""A fitted classifier: its predictions, its weights, and the questions of the last stream."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernel import learners, rows, stream
from ..kernel.learners import Learner
from ..sessions.insights import calibration

INPUT = {"accept_sparse": "csr", "dtype": np.float64}


def with_arrays(parts: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Return a named tuple with `change` applied to each array."""
    return parts._make(change(part) if isinstance(part, np.ndarray) else part for part in parts)


def _for_prediction(learner: Learner) -> Learner:
    """Return a learner that is safe to predict with in several threads: its one-dimensional arrays, such as scratch
    arrays, are copies."""
    return with_arrays(learner, lambda part: part.copy() if part.ndim == 1 else part)


def _can_calibrate(model: "FittedClassifier") -> bool:
    """Return True if the model has probabilities. Raise AttributeError, with the reason, if it has none."""
    check_is_fitted(model)
    if learners.classes(model.learner_):
        raise AttributeError(f"{model.algorithm} has no probabilities: it distinguishes several classes.")
    if model.calibration_.reason:
        raise AttributeError(str(model.calibration_))
    return True


class FittedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that has learned. How it learns is in `OnlineActiveClassifier`."""

    algorithm: str
    classes_: np.ndarray
    learner_: Any
    rule_: Any
    objective_: stream.Objective
    rounds_: int
    _labels: dict[Any, int]  # the kernel's number of each class
    _log: list[tuple[float, ...]]  # the round, margin, probability and label of every question

    @available_if(_can_calibrate)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class of `classes_` for every row, shape (n, 2)."""
        positive = np.asarray(self.calibration_(self._scores(X)[:, 0]))
        both = np.column_stack([1 - positive, positive])
        return both if self._labels[self.classes_[1]] > 0 else both[:, ::-1]

    @property
    def calibration_(self) -> calibration.Calibration:
        """The function from a margin to the probability of the positive class, or the reason why there is none."""
        _, margins, chances, labels = np.reshape(self._log, (-1, 4)).T
        return calibration.fit(margins.tolist(), (labels > 0).tolist(), (1 / chances).tolist())

    @property
    def queried_(self) -> np.ndarray:
        """The row number of every question."""
        return np.reshape(self._log, (-1, 4))[:, 0].astype(np.int64)

    @property
    def margins_(self) -> np.ndarray:
        """The margin of every question when it was asked."""
        return np.reshape(self._log, (-1, 4))[:, 1]

    @property
    def probabilities_(self) -> np.ndarray:
        """The probability with which every question was asked."""
        return np.reshape(self._log, (-1, 4))[:, 2]

    @property
    def coef_(self) -> np.ndarray:
        """The weights of a linear learner, shape (1, features) for two classes, else (K, features)."""
        return self._line(learners.weights(self._linear()))

    @property
    def intercept_(self) -> np.ndarray:
        """The constants of a linear learner, shape (1,) for two classes, else (K,)."""
        learner = self._linear()
        size = (learners.classes(learner),) if learners.classes(learner) else ()
        return self._line(np.broadcast_to(learners.offset(learner), size) - self.objective_.theta * (not size))

    def _linear(self) -> Learner:
        check_is_fitted(self)
        if not learners.linear(self.learner_):
            raise AttributeError(f"{self.algorithm} has no weights: it is not linear.")
        return self.learner_

    def _line(self, numbers: np.ndarray) -> np.ndarray:
        """Convert weights or offsets to scikit-learn's form: one row per class, or, for two classes, a single row in
        favor of `classes_[1]`."""
        if not learners.classes(self.learner_):
            return self._labels[self.classes_[1]] * np.asarray(numbers)[np.newaxis]
        return (numbers[..., 1:] - numbers[..., :1]).T if self.classes_.size == 2 else numbers.T

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of all classes, shape (n, K), if there are more than two. With two classes, return the
        evidence for `classes_[1]`, shape (n,): for a multi-class learner the difference of two scores, else the margin
        minus theta, negated if `classes_[1]` is the negative class."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return self._labels[self.classes_[1]] * (scores[:, 0] - self.objective_.theta)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of every row."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            best = (scores[:, 0] >= self.objective_.theta) == (self._labels[self.classes_[1]] > 0)
        else:
            best = scores.argmax(1)
        return self.classes_[best.astype(int)]

    def query_probability(self, X: Any) -> np.ndarray:
        """Return the probability that the rule asks for the label of each row if it came next, ignoring the budget."""
        table = self._table(X)
        chances = np.empty(rows.length(table))
        stream.probabilities(table, _for_prediction(self.learner_), self.rule_, self.objective_, self.rounds_, chances)
        return chances

    def _table(self, X: Any) -> rows.Rows:
        check_is_fitted(self)
        return rows.as_rows(validate_data(self, X, reset=False, **INPUT))

    def _scores(self, X: Any) -> np.ndarray:
        table = self._table(X)
        scores = np.empty((rows.length(table), learners.classes(self.learner_) or 1))
        stream.scores(table, _for_prediction(self.learner_), self.objective_.theta, scores)
        return scores

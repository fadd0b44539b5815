"""The engine as a scikit-learn estimator: OnlineActiveClassifier."""

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .kernel import learners, metrics, rows, spending, stream
from .kernel.algorithms import ALGORITHMS, Strategy, strategy
from .kernel.learners import Learner
from .kernel.parameters import Parameter, Values

WHOLE = Parameter(0, "", low=0, whole=True)
INPUT = {"accept_sparse": "csr", "dtype": np.float64}


def _with_arrays(parts: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Return a named tuple with each array changed."""
    return parts._make(change(part) if isinstance(part, np.ndarray) else part for part in parts)


def _for_prediction(learner: Learner) -> Learner:
    """Return a learner to predict with. Its scratch arrays, which are one-dimensional, are copies, as threads may share
    a model."""
    return _with_arrays(learner, lambda part: part.copy() if part.ndim == 1 else part)


class OnlineActiveClassifier(ClassifierMixin, BaseEstimator):
    """A published algorithm, or "LEARNER + RULE", as a classifier that learns only from the labels it asks for.

    algorithm: a name of ALGORITHMS, or a learner and a rule as in "cspaa + asymmetric". Its own parameters are given by
    name (eta=0.1; None: the default), and can be tuned and cloned like all others.
    budget: most labels that may be asked (None: no limit). random_state: seed >= 0 of the draws.
    rho: weight of a positive: "laplace" estimates it from the labels asked, "auto" takes the class ratio of y (in
    `fit`), or a number. metric ("sum" or "cost"), alpha_p and c_p: the metric that rho is for. theta: smallest margin
    that predicts positive. averaged: once the budget is spent, predict with the mean of the weights.
    positive_class: the positive one of two labels (None: the second of `classes_`, which are sorted).

    Only auto, auto-sum and auto-classes have an intercept; for the others, append a column of ones. `fit` and
    `fit_stream` start anew, `partial_fit` continues. Fitted: classes_, learner_, rule_, objective_, rounds_ (rows
    seen), and from the last `fit` or `fit_stream` counts_ (a table as in `metrics`) and, for every question in turn,
    queried_ (row numbers), margins_ and probabilities_.
    """

    def __init__(
        self,
        algorithm: str = "OAAL",
        *,
        budget: int | None = None,
        rho: float | str = "laplace",
        metric: str = "sum",
        alpha_p: float = 0.5,
        c_p: float = 0.9,
        theta: float = 0.0,
        averaged: bool = False,
        positive_class: object = None,
        random_state: int = 0,
        **parameters: float | None,
    ) -> None:
        self.algorithm = algorithm
        self.budget = budget
        self.rho = rho
        self.metric = metric
        self.alpha_p = alpha_p
        self.c_p = c_p
        self.theta = theta
        self.averaged = averaged
        self.positive_class = positive_class
        self.random_state = random_state
        self._parameters = parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, and the algorithm's parameters that were given, by name."""
        return super().get_params(deep) | self._parameters

    def set_params(self, **params: Any) -> Self:
        """Change settings or parameters of the algorithm. Unknown parameters raise an error when it learns."""
        settings = super().get_params()
        self._parameters |= {name: value for name, value in params.items() if name not in settings}
        return super().set_params(**{name: value for name, value in params.items() if name in settings})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = self._strategy().multiclass
        return tags

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name in vars(self).keys() & {"learner_", "rule_", "objective_"}:  # joblib may map arrays read-only
            setattr(
                self, name, _with_arrays(getattr(self, name), lambda part: np.require(part, requirements=["W", "E"]))
            )

    def _plan(self, budget: int | None, rounds: int) -> spending.Plan | None:
        chosen = self._strategy()
        return spending.plan(chosen.rule, budget, rounds, values=chosen.rule_parameters)

    def fit(self, X: Any, y: Any) -> Self:
        """Stream the rows once in their order. Labels of y are read only if the rule asks for them, within the
        budget."""
        X, y = validate_data(self, X, y, **INPUT)
        check_classification_targets(y)
        self._start(np.unique(y), y)
        budget, seed = self._limits(self.budget, y.size)
        done = stream.replay(
            rows.as_rows(X), self._numbers(y), np.arange(y.size), self.learner_, self.rule_, self.objective_,
            budget=budget, seed=seed, averaged=self.averaged, log=True,
            plan=self._plan(budget, y.size),
        )  # fmt: skip
        return self._record(done.log, done.counts, y.size)

    def fit_stream(
        self, X: Any, oracle: Callable[[int], object], budget: int | None = None, classes: ArrayLike | None = None
    ) -> Self:
        """Stream the rows once in their order, and ask `oracle`, a function from a row number to its label.

        budget: most labels that may be asked (None: the estimator's). classes: all labels that the oracle may give
        (None: the classes of the last fit).
        """
        X = validate_data(self, X, **INPUT)
        self._start(self._classes(classes))
        table, learner = rows.as_rows(X), self.learner_
        n = rows.length(table)
        budget, seed = self._limits(self.budget if budget is None else budget, n)
        order, unknown = stream.checked_order(np.arange(n), table), rows.read_only(np.zeros(n), np.int8)
        state = learner, self.rule_, self.objective_
        mean, counts, t = stream.average(learner, self.averaged), metrics.empty(learners.classes(learner)), 0
        log: list[tuple[int, float, float]] = []
        plan = self._plan(budget, n)
        while True:
            if plan:
                plan.spent[0] = len(log)
            asking = plan or len(log) < budget
            asked = stream.until_query(table, unknown, order, *state, seed, t, n, asking, counts)
            if asked.t == n:
                return self._record(log, counts, n)
            (y,) = self._numbers([oracle(asked.t)])
            log.append((asked.t, asked.margin, asked.probability))
            stream.learn(table, order, *state, mean, asked, y, len(log) == budget)
            for label, change in ((0, -1), (y, 1)):
                i, j = learners.count_index(learner, asked.predicted, label)
                counts[i, j, 1] += change
            t = asked.t + 1

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn every row given. The first call needs `classes`, all labels that will occur.

        Raise ValueError for a learner that visits earlier rows again: its rows must all be in one table.
        """
        if getattr(learners.LEARNERS[learner := self._strategy().learner], "revisits", False):
            raise ValueError(f"{learner} has no partial_fit: it visits earlier rows again. Use fit or fit_stream.")
        first = not hasattr(self, "classes_")
        X, y = validate_data(self, X, y, reset=first, **INPUT)
        all_classes = self._classes(classes)
        if first:
            self._start(all_classes)
        elif not np.array_equal(all_classes, self.classes_):
            raise ValueError(
                f"classes must be the same as in the first call, {_list(self.classes_)}. Got {_list(all_classes)}."
            )
        table, order = rows.as_rows(X), np.arange(y.size)
        stream.teach(
            table, stream.checked_order(order, table), self._numbers(y), order, np.ones(y.size), self.learner_,
            self.rule_, self.objective_, stream.average(self.learner_, False), False,
        )  # fmt: skip
        self.rounds_ += y.size
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the evidence for `classes_[1]`, shape (n,): for two classes the margin minus theta. Else return
        scores, shape (n, K)."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return self._labels[self.classes_[1]] * (scores[:, 0] - self.objective_.theta)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of every row."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            best = (scores[:, 0] >= self.objective_.theta) == (self._labels[self.classes_[1]] > 0)
        else:
            best = scores.argmax(1)
        return self.classes_[best.astype(int)]

    def query_probability(self, X: Any) -> np.ndarray:
        """Return the probability that the rule would ask for the label of every row if it came next, ignoring the
        budget."""
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

    def _strategy(self, values: Values = ()) -> Strategy:
        learner, plus, rule = str(self.algorithm).partition(" + ")
        return strategy(None, learner, rule, values) if plus else strategy(self.algorithm, values=values)

    def _classes(self, classes: ArrayLike | None) -> np.ndarray:
        """Return the classes given, or the ones of the last fit."""
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("classes must be given at first: all labels that will occur. Got None.")
        return self.classes_ if classes is None else np.unique(classes)

    def _start(self, classes: np.ndarray, y: ArrayLike = ()) -> None:
        """Forget everything learned, and prepare for these classes. y: labels from which rho may be computed."""
        chosen = self._strategy({name: value for name, value in self._parameters.items() if value is not None})
        self._labels = _labels(classes.tolist(), chosen, self.positive_class)
        weights = metrics.Weights(self.alpha_p, self.c_p)
        rho = chosen.known_rho(self.rho, weights, self.metric, self._numbers(y))
        self.objective_ = stream.objective(self.theta, rho, weights.ratio("sum"))
        self.learner_, self.rule_ = chosen.build(self.n_features_in_, classes.size * chosen.multiclass)
        self.classes_, self.rounds_ = classes, 0  # set last, as they mark a fitted model

    def _numbers(self, labels: Any) -> np.ndarray:
        """Convert labels to the kernel's numbers: -1 and +1, or 1 .. K."""
        labels = np.asarray(labels).tolist()
        unknown = set(labels) - self._labels.keys()
        if unknown:
            raise ValueError(f"a label must be one of {_list(self._labels)}. Got {_list(unknown)}.")
        return rows.read_only([self._labels[label] for label in labels], np.int8)

    def _limits(self, budget: int | None, rounds: int) -> tuple[int, int]:
        """Return the budget and the seed of a run."""
        owner = type(self).__name__
        budget = rounds if budget is None else int(WHOLE.check(budget, "budget", owner))
        return budget, int(WHOLE.check(self.random_state, "random_state", owner))

    def _record(self, log: ArrayLike, counts: np.ndarray, rounds: int) -> Self:
        log = np.reshape(log, (-1, 3))
        self.queried_, self.margins_, self.probabilities_ = log[:, 0].astype(np.int64), log[:, 1], log[:, 2]
        self.counts_, self.rounds_ = counts, rounds
        return self


def _labels(names: list[Any], chosen: Strategy, positive: object) -> dict[Any, int]:
    """Return the kernel's number of every class."""
    most = np.iinfo(np.int8).max
    if not 2 <= len(names) <= most:
        raise ValueError(f"a classifier needs 2 to {most} classes. Got {len(names)} class{'es' * (len(names) != 1)}.")
    if chosen.multiclass:
        if positive is not None:
            raise ValueError(f"{chosen.algorithm} has no positive_class. Got {positive}.")
        return {name: number for number, name in enumerate(names, 1)}
    if len(names) > 2:
        several = ", ".join(name for name, entry in ALGORITHMS.items() if learners.is_multiclass(entry.learner))
        raise ValueError(
            f"Only binary classification is supported by {chosen.algorithm}, more classes by {several}. "
            f"Got {len(names)} classes."
        )
    positive = names[1] if positive is None else positive
    if positive not in names:
        raise ValueError(f"positive_class must be {' or '.join(map(str, names))}. Got {positive}.")
    return {name: 1 if name == positive else -1 for name in names}


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))

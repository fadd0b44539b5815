"""OnlineActiveClassifier: an algorithm as a scikit-learn estimator that learns only from the labels it asks for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..kernel import learners, metrics, rows, spending, stream
from ..kernel.algorithms import ALGORITHMS, Strategy, strategy
from ..kernel.parameters import Parameter, Values
from ..kernel.query_rules import QUERY_RULES
from .fitted import INPUT, FittedClassifier, with_arrays

WHOLE = Parameter(0, "", low=0, whole=True)
SEEDS = 2**63  # their number
UNKNOWN = rows.read_only(np.zeros(1), np.int8)  # the unknown label of a single row


def _writable(array: np.ndarray) -> np.ndarray:
    """Return a writable array, as a copy if needed: joblib may memory-map arrays read-only."""
    return np.require(array, requirements=["W", "E"])


def _joined(memory: rows.Rows, table: rows.Rows) -> rows.Rows:
    """Concatenate remembered rows and new rows. If one table is sparse and the other is not, the result is sparse."""
    if type(memory) is not type(table):
        memory, table = (rows.as_rows(csr_array(rows.matrix(part))) for part in (memory, table))
    return rows.joined([memory, table])


@dataclass
class _Stream:
    """A stream. Its rows come together, or one at a time.

    order, labels: item order and unknown labels of the rows. Where rows come one at a time, each is item 0 of its own
    table. asked: the question that waits for its label, and the row that it is about.
    """

    budget: float
    seed: int
    plan: spending.Plan | None
    mean: stream.Average
    t: int = 0
    order: np.ndarray = field(default_factory=lambda: np.zeros(64, np.int64))
    labels: np.ndarray = field(default_factory=lambda: UNKNOWN)
    asked: tuple[stream.Question, rows.Rows] | None = None


class OnlineActiveClassifier(FittedClassifier):
    """A published algorithm, or "LEARNER + RULE", as a classifier that learns only from the labels it asks for.

    algorithm: a name of ALGORITHMS, or a learner and a rule as in "cspaa + asymmetric". Parameters of the algorithm are
    given by name (eta=0.1; None: the default). Like all other settings they are attributes, and can be tuned and
    cloned. budget: most labels that may be asked for (None: no limit). random_state: seed of the random draws, an
    integer; a RandomState, a Generator or None (numpy's global RandomState) gives each fit a new seed. rho: weight of a
    positive: "laplace" estimates it from the labels received, "auto" takes the class ratio of y (in `fit`), or a
    number. metric ("sum" or "cost"), alpha_p and c_p: the metric that rho is for, and its weights. theta: smallest
    margin that predicts positive. averaged: once the budget is spent, predict with the mean of the weights.

    positive_class: which of two labels is the positive one. None: the larger one of numbers and booleans; otherwise the
    rarer one in the y of `fit` or of the first `partial_fit`. If both are as frequent, or y is unknown, as in
    `fit_stream` and `query`, it is the last one of `classes` as they were given (in `fit`, in alphabetical order).

    Only auto, auto-sum and auto-classes have an intercept; for the others, append a column of ones. `fit` and
    `fit_stream` start from scratch, `partial_fit` and `query` continue. Fitted attributes: classes_ (sorted),
    positive_class_ (None if the learner distinguishes several classes), learner_, rule_, objective_, rounds_ (number of
    rows seen), and coef_ and intercept_ of a linear learner. The last stream sets counts_ (a table as in `metrics`)
    and, with one entry per question, queried_ (row numbers), margins_ and probabilities_.

    With two classes, `predict_proba` exists after 20 answers of each class: Platt scaling of the margins of the
    questions, weighted by 1 / asking probability. `predict` compares the margin with theta, without Platt scaling.

    >>> X, y = [[2, 0], [0, 1], [3, 1], [1, 2]], ["sport", "other", "sport", "other"]
    >>> model = OnlineActiveClassifier("PAA-I", budget=3).fit_stream(X, y.__getitem__, classes=["other", "sport"])
    >>> model.queried_.tolist(), model.predict([[5, 1]]).tolist()
    ([0, 1, 2], ['sport'])
    """

    counts_: np.ndarray
    _memory: rows.Rows | None  # answered rows that the learner may learn again
    _stream: _Stream | None  # the stream whose rows come one at a time

    def __init__(
        self,
        algorithm: str = "auto",
        *,
        budget: int | None = None,
        rho: float | str = "laplace",
        metric: str = "sum",
        alpha_p: float = 0.5,
        c_p: float = 0.9,
        theta: float = 0.0,
        averaged: bool = False,
        positive_class: object = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
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
        self.__dict__.update(parameters)

    @property
    def _parameters(self) -> dict[str, Any]:
        """The parameters of the algorithm that were given, by name: all public attributes that are not settings."""
        settings = super().get_params()
        own = {name: value for name, value in vars(self).items() if not (name.startswith("_") or name.endswith("_"))}
        return {name: value for name, value in own.items() if name not in settings}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, and the parameters of the algorithm that were given, by name."""
        return super().get_params(deep) | self._parameters

    def set_params(self, **params: Any) -> Self:
        """Change settings, or parameters of the algorithm. An unknown parameter raises an error at the next fit."""
        settings = super().get_params()
        self.__dict__.update({name: value for name, value in params.items() if name not in settings})
        return super().set_params(**{name: value for name, value in params.items() if name in settings})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = self._strategy().multiclass
        return tags

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        run = vars(self).get("_stream")
        parts = [(self, name) for name in vars(self).keys() & {"learner_", "rule_", "objective_"}]
        for owner, name in [*parts, *((run, name) for name in ("mean", "plan") if getattr(run, name, None))]:
            setattr(owner, name, with_arrays(getattr(owner, name), _writable))
        if run:
            self.counts_ = _writable(self.counts_)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to the rows as a stream, once in their order. A label of y is learned only if the rule asks for it,
        within the budget. The classes and, for rho="auto", the class ratio are taken from all of y."""
        X, y = validate_data(self, X, y, **INPUT)
        check_classification_targets(y)
        self._start(np.unique(y), y, y)
        run, self._stream = self._begin(None, y.size), None
        done = stream.replay(
            rows.as_rows(X), self._numbers(y), np.arange(y.size), self.learner_, self.rule_, self.objective_,
            budget=int(run.budget), seed=run.seed, averaged=self.averaged, log=True, plan=run.plan,
        )  # fmt: skip
        labels = self._numbers(y)[done.log[:, 0].astype(np.int64)]
        self._keep(rows.as_rows(X))
        self._log = [*map(tuple, np.column_stack([done.log, labels]))]
        self.counts_, self.rounds_ = done.counts, y.size
        return self

    def fit_stream(
        self,
        X: Any,
        oracle: Callable[[int], object],
        budget: int | None = None,
        classes: ArrayLike | None = None,
        rounds: int | None = None,
        goal: str = spending.STREAM,
    ) -> Self:
        """Fit to the rows as a stream, once in their order. Call `oracle` with the number of each row that is asked.

        X: a table, or an iterator over rows or tables, which are then streamed one row at a time. budget: most labels
        that may be asked (None: `budget` of the estimator). classes: all labels that the oracle may give (None: the
        classes of the last fit). rounds: number of rows of an iterator, over which `auto` spreads its budget (None:
        unknown, and perhaps endless; it asks about one row in 40). goal: "stream", or "find" to choose the rows to ask
        about from the whole table.
        """
        if isinstance(X, Iterator):
            if goal != spending.STREAM:
                raise ValueError(f"the goal of an iterator must be stream: its rows are not all there. Got {goal}.")
            return self._fit_iterator(X, oracle, budget, classes, rounds)
        X = validate_data(self, X, **INPUT)
        self._start(self._classes(classes))
        table = rows.as_rows(X)
        n = rows.length(table)
        run, self._stream = self._begin(budget, n, goal), None
        run.order, run.labels = stream.checked_order(np.arange(n), table), rows.read_only(np.zeros(n), np.int8)
        if run.plan and goal == spending.FIND:
            run.plan = spending.joined(run.plan, run.order)
            run.order = run.plan.queue
        while asked := self._query(run, table, n):
            self._learn(run, asked, table, run.order, oracle(int(run.order[asked.t])))
        self._keep(table)
        return self

    def _fit_iterator(
        self,
        parts: Iterator[Any],
        oracle: Callable[[int], object],
        budget: int | None,
        classes: ArrayLike | None,
        rounds: int | None,
    ) -> Self:
        """Stream the rows of an iterator over rows or tables."""
        classes, begun = self._classes(classes), False
        for part in parts:
            table = validate_data(self, _table(part), reset=not begun, **INPUT)
            if not begun:
                self._start(classes)
                run = self._begin(budget, rounds)
                begun = True
            for k in range(table.shape[0]):
                row = rows.as_rows(table[[k]])
                if asked := self._query_row(run, row):
                    self._learn_row(run, asked, row, oracle(asked.t))
        if not begun:
            raise ValueError("a stream needs at least one row. Got none.")
        return self

    def query(self, x: Any, classes: ArrayLike | None = None, rounds: int | None = None) -> bool:
        """Take the next row of a stream. Return whether its label is asked; if so, call `learn` before the next row.
        Rows given one by one lead to the same questions as in `fit_stream`, bit for bit.

        classes: all labels that will occur, at the first call (see `positive_class`). rounds: as in `fit_stream`.

        >>> model = OnlineActiveClassifier("OAAL")
        >>> if model.query([2, 0], classes=["other", "sport"]):
        ...     model = model.learn([2, 0], "other")
        >>> model.coef_.tolist()
        [[-2.0, 0.0]]
        """
        row = self._one_row(x, classes)
        run = self._stream or self._begin(None, rounds)
        if run.asked:
            raise ValueError("the row before was asked about: learn its label first.")
        asked = self._query_row(run, row)
        run.asked = asked and (asked, row)
        return asked is not None

    def learn(self, x: Any, y: object) -> Self:
        """Learn the label of the row that `query` asked about."""
        row = self._one_row(x, None)
        if (run := self._stream) is None or run.asked is None:
            raise ValueError("learn needs a row that query asked about. Use partial_fit to learn other rows.")
        asked, row_asked = run.asked
        if rows.content(row, 0) != rows.content(row_asked, 0):
            raise ValueError("learn must get the row that query asked about. Got another row.")
        self._learn_row(run, asked, row, y)
        run.asked = None
        return self

    def _one_row(self, x: Any, classes: ArrayLike | None) -> rows.Rows:
        """Check that x is a single row, and set up the model at the first row."""
        first = not hasattr(self, "classes_")
        x = validate_data(self, _table(x), reset=first, **INPUT)
        if x.shape[0] != 1:
            raise ValueError(f"query and learn take one row at a time. Got {x.shape[0]} rows.")
        all_classes = self._classes(classes)
        if first:
            self._start(all_classes)
        self._check_classes(all_classes)
        return rows.as_rows(x)

    def _begin(self, budget: int | None, rounds: int | None, goal: str = spending.STREAM) -> _Stream:
        """Begin a stream. rounds: number of rows (None: unknown). goal: as in `spending.plan`."""
        chosen, owner = self._strategy(), type(self).__name__
        limit = self.budget if budget is None else budget
        pace = getattr(QUERY_RULES[chosen.rule], "pace", None)
        if rounds is not None:
            rounds = int(WHOLE.check(rounds, "rounds", owner))
        elif limit is not None and pace:  # an endless stream: as many rows as make it ask most slowly
            rounds = round(int(WHOLE.check(limit, "budget", owner)) * pace.rounds_per_label / pace.share)
        unlimited = limit is None and rounds is None
        most = (rounds or 0) if limit is None else int(WHOLE.check(limit, "budget", owner))
        values = chosen.rule_parameters
        plan = None if unlimited else spending.plan(chosen.rule, most, rounds or 0, values=values, goal=goal)
        mean = stream.average(self.learner_, self.averaged)
        self._stream = _Stream(inf if unlimited else most, _seed(self.random_state), plan, mean)
        self._log, self.counts_, self.rounds_ = [], metrics.empty(learners.classes(self.learner_)), 0
        return self._stream

    def _query(self, run: _Stream, table: rows.Rows, stop: int) -> stream.Question | None:
        """Run rounds of a stream up to round `stop`. Return the first question, or None if no label is asked."""
        if run.plan:
            run.plan.spent[0] = len(self._log)
        moves = run.plan is not None and run.order is run.plan.queue  # then questions change the order
        asked = stream.until_query(
            table, rows.read_only(run.labels, np.int8), run.order if moves else rows.read_only(run.order, np.int64),
            self.learner_, self.rule_, self.objective_, run.seed, run.t, stop,
            run.plan or len(self._log) < run.budget, self.counts_,
        )  # fmt: skip
        self.rounds_ += min(asked.t + 1, stop) - run.t
        run.t = asked.t
        return asked if asked.t < stop else None

    def _query_row(self, run: _Stream, row: rows.Rows) -> stream.Question | None:
        """Run one round of a stream whose rows come one at a time."""
        if run.t == run.order.size:
            run.order = np.zeros(2 * run.t, np.int64)
        return self._query(run, row, run.t + 1)

    def _learn(self, run: _Stream, asked: stream.Question, table: rows.Rows, order: np.ndarray, label: object) -> None:
        """Learn the label of a question about a row of a table."""
        (y,) = self._numbers([label])
        self._log.append((asked.t, asked.margin, asked.probability, y))
        stream.learn(
            table, order, self.learner_, self.rule_, self.objective_, run.mean, asked, y, len(self._log) == run.budget
        )
        for counted, change in ((0, -1), (y, 1)):  # the row was counted without a label
            i, j = learners.count_index(self.learner_, asked.predicted, counted)
            self.counts_[i, j, 1] += change
        run.t += 1

    def _learn_row(self, run: _Stream, asked: stream.Question, row: rows.Rows, label: object) -> None:
        """Learn the label of a row that came alone, with the answered rows that the learner may learn again."""
        table, order = row, run.order
        if self._memory is not None:
            table, order = _joined(self._memory, row), np.full(run.t + 1, rows.length(self._memory))
        self._learn(run, asked, table, rows.read_only(order, np.int64), label)
        self._keep(table)

    def _keep(self, table: rows.Rows) -> None:
        """Store the answered rows that the learner may learn again, and renumber them in the learner."""
        if getattr(type(self.learner_), "revisits", False):
            learner: Any = self.learner_
            numbers = learner.items[: learner.answers.sum()]  # fewer, if older ones were replaced
            places, numbers[:] = np.unique(numbers, return_inverse=True)
            self._memory = rows.take(table, places)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn the labels of all rows. The first call needs `classes`, all labels that will occur."""
        first = not hasattr(self, "classes_")
        X, y = validate_data(self, X, y, reset=first, **INPUT)
        all_classes = self._classes(classes)
        if first:
            self._start(all_classes, y)
        self._check_classes(all_classes)
        table, rounds = rows.as_rows(X), np.arange(y.size)
        items = rounds
        if self._memory is not None:
            items, table = rounds + rows.length(self._memory), _joined(self._memory, table)
        stream.teach(
            table, stream.checked_order(items, table), self._numbers(y), rounds, np.ones(y.size), self.learner_,
            self.rule_, self.objective_, stream.average(self.learner_, False), False,
        )  # fmt: skip
        self._keep(table)
        self.rounds_ += y.size
        return self

    def _check_classes(self, classes: np.ndarray) -> None:
        if not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be the same as in the first call, {_list(self.classes_)}. Got {_list(classes)}."
            )

    def _strategy(self, values: Values = ()) -> Strategy:
        learner, plus, rule = str(self.algorithm).partition(" + ")
        return strategy(None, learner, rule, values) if plus else strategy(self.algorithm, values=values)

    def _classes(self, classes: ArrayLike | None) -> np.ndarray:
        """Return the given classes, or the classes of the last fit, the positive one last."""
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("classes must be given at first: all labels that will occur. Got None.")
        if classes is not None:
            return np.asarray(classes)
        return self.classes_[np.argsort([self._labels[name] for name in self.classes_.tolist()])]

    def _start(self, classes: np.ndarray, seen: ArrayLike = (), y: ArrayLike = ()) -> None:
        """Reset the model, for these classes. seen: labels of which the rarer one is positive. y: labels for rho."""
        chosen = self._strategy({name: value for name, value in self._parameters.items() if value is not None})
        if (positive := self.positive_class) is None and not chosen.multiclass:
            positive = _positive(classes.tolist(), seen)
        self._labels = _labels(np.unique(classes).tolist(), chosen, positive)
        weights = metrics.Weights(self.alpha_p, self.c_p)
        rho = chosen.known_rho(self.rho, weights, self.metric, self._numbers(y))
        self.objective_ = stream.objective(self.theta, rho, weights.ratio("sum"))
        self.learner_, self.rule_ = chosen.build(self.n_features_in_, classes.size * chosen.multiclass)
        self._log, self._memory, self._stream = [], None, None
        self.positive_class_, self.rounds_ = positive, 0
        self.classes_ = np.unique(classes)  # set last, as it marks a fitted model

    def _numbers(self, labels: Any) -> np.ndarray:
        """Convert labels to the kernel's numbers: -1 and +1, or 1 .. K."""
        labels = np.asarray(labels).tolist()
        if unknown := set(labels) - self._labels.keys():
            raise ValueError(f"a label must be one of {_list(self._labels)}. Got {_list(unknown)}.")
        return rows.read_only([self._labels[label] for label in labels], np.int8)


def _table(part: Any) -> Any:
    """Convert a single row to a table of one row. Return a table unchanged."""
    return part if issparse(part) or np.ndim(part) > 1 else np.reshape(part, (1, -1))


def _seed(state: object) -> int:
    """Return the seed that a `random_state` gives, a whole number >= 0. Raise ValueError if it gives none."""
    if isinstance(state, Integral):
        return int(state) % SEEDS
    if isinstance(state, np.random.Generator):
        return int(state.integers(SEEDS))
    try:
        return int(check_random_state(state).randint(SEEDS, dtype=np.int64))
    except ValueError:
        allowed = "an integer, a RandomState, a Generator or None"
        raise ValueError(f"random_state of OnlineActiveClassifier must be {allowed}. Got {state}.") from None


def _positive(classes: list[Any], seen: ArrayLike) -> Any:
    """Return the positive one of two classes: of numbers the larger one, of others the rarer one in `seen`, or the last
    one if both are as frequent."""
    if all(isinstance(name, Real) for name in classes):
        return max(classes, default=None)
    return min(reversed(classes), key=Counter(np.asarray(seen).tolist()).__getitem__)


def _labels(names: list[Any], chosen: Strategy, positive: object) -> dict[Any, int]:
    """Return the kernel's number of every class: -1 and +1, or 1 .. K. Raise ValueError if the algorithm does not fit
    the number of classes."""
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
    if positive not in names:
        raise ValueError(f"positive_class must be {' or '.join(map(str, names))}. Got {positive}.")
    return {name: 1 if name == positive else -1 for name in names}


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))

"""The one loop over a stream: `until_query` runs to the next question; `replay` answers questions from known labels.

Sessions with people, replays and grids of replays all run these functions. The random draw of round t is a pure
function of (seed, t), so a run can be resumed at any round, and every rule sees the same draws.
"""

from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import jit
from .draws import draw, draws
from .jit import entrance, inlined
from .learners import (
    Learner,
    begin,
    classes,
    count_index,
    dense_update,
    note_chance,
    plain_seconds,
    predict,
    put,
    rows_per_answer,
    score,
    update,
    variance,
    weight,
    weights,
)
from .metrics import empty
from .query_rules import needs_variance, observe, probability
from .rows import (
    Row,
    Rows,
    add,
    entry,
    length,
    prefetch,
    read_only,
    span,
)
from .spending import CANDIDATES, KNOWN_LABEL, Plan, by_file, chances, choose, is_open, joined, spend, teaches


class Objective(NamedTuple):
    """The decision threshold and the weight of positives. A margin >= theta predicts positive. rho: the weight, > 0;
    0 estimates it by Laplace's rule from the labels `seen` (number of negatives, number of positives), multiplied by
    `ratio` = alpha_p / alpha_n."""

    theta: float
    rho: float
    ratio: float
    seen: np.ndarray


class Average(NamedTuple):
    """The running sum for the average of each weight: `total` is the sum over the first `since` rounds. Both are
    updated only when the weight may change."""

    total: np.ndarray
    since: np.ndarray


class Parts(NamedTuple):
    """The state that a replay changes."""

    learner: Learner
    rule: NamedTuple
    objective: Objective
    average: Average


class Question(NamedTuple):
    """A question about an item: the round t (0-based), the margin, the variance of the row, the probability of asking,
    the random draw (smaller than the probability), whether the question is an audit (1) or the rule's choice (0), and
    the predicted class: -1 or +1, or 1 .. K."""

    t: int
    margin: float
    variance: float
    probability: float
    draw: float
    audit: int
    predicted: int


BLOCK = 500  # most rounds in one call for the next question
NOTHING = 0.0, 0.0, 0.0, 0.0, 0, 0  # the fields after t of the Question that is returned if nothing is asked


def objective(theta: float = 0.0, rho: float = 0.0, ratio: float = 1.0) -> Objective:
    """Build an objective that has seen no labels yet. rho = 0: estimate rho from the labels."""
    if not np.isfinite(theta):
        raise ValueError(f"theta must be a finite number. Got {theta}.")
    if not (np.isfinite(rho) and rho >= 0):
        raise ValueError(f"rho must be > 0, or 0 for the Laplace estimate. Got {rho}.")
    return Objective(float(theta), float(rho), float(ratio), np.zeros(2, np.int64))


def average(learner: Learner, wanted: bool) -> Average:
    """Return sums, all 0, for averaging a learner's weights over the rounds; empty if averaging is not wanted.

    OAAL's option II, "the averaged model before the iteration T_B", is taken to be the mean of the weights that
    predicted in the rounds 1 .. T_B: each round counts once, asked or not, and the update with the last label is not
    included.
    """
    return Average(np.zeros(learner.w.size * wanted), np.zeros(learner.w.size * wanted, np.int64))


def shuffled(rounds: int, seed: int) -> np.ndarray:
    """Return a random item order: a permutation of 0 .. rounds - 1 that does not depend on any library's version."""
    return np.argsort(draws(seed ^ 0x5DEECE66D, rounds), kind="stable")


def sample(items: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draw a random sample of `size` items without replacement, independent of the item order `shuffled(_, seed)`."""
    return items[np.argsort(draws(seed ^ 0x2545F4914F6D, items.size), kind="stable")[:size]]


@inlined
def rho_of(objective):
    """Return the weight of positives: `rho` or, if it is 0, (alpha_p T_n) / (alpha_n T_p), estimated by Laplace's rule
    (ACOG section 4.4.4)."""
    if objective.rho > 0:
        return objective.rho
    return objective.ratio * (objective.seen[0] + 1) / (objective.seen[1] + 1)


@entrance(lambda rows, y, order, learner, rule, objective, seed, t, stop, *_: plain_seconds(rows, learner, stop - t))
def _until_query(rows, y, order, learner, rule, objective, seed, t, stop, asking, counts, every):
    """Run to the next question. If `every` is True, return the Question of round t whether it is asked or not."""
    rho, theta = rho_of(objective), objective.theta
    while t < stop:
        prefetch(rows, order, t)
        i = order[np.uintp(t)]
        if y[np.uintp(i)] == KNOWN_LABEL:
            t += 1
            continue
        x = Row(rows, i)
        p, predicted = predict(learner, x, theta)
        v = variance(learner, x) if needs_variance(rule) else 0.0
        check, pi = chances(asking, t, probability(rule, learner, x, p, v, rho, theta, t + 1), predicted)
        u = draw(seed, t)
        asked = u < pi
        a, b = count_index(learner, predicted, y[np.uintp(i)])
        counts[np.uintp(a), np.uintp(b), np.uintp(asked)] += 1
        if asked or every:
            return Question(t, p, v, pi, u, int(u < check), predicted)
        t += 1
    return Question(stop, *NOTHING)


@entrance(lambda rows, y, order, learner, *_: plain_seconds(rows, learner, min(CANDIDATES, order.size)))
def _choose(rows, y, order, learner, rule, objective, seed, t, stop, plan, counts):
    """Ask about an item of a file: `plan` moves it to round t of `order`, its own queue."""
    theta = objective.theta
    chance, u, audit = choose(plan, rows, y, learner, rule, rho_of(objective), theta, seed, t, objective.seen[1] > 0)
    if chance == 0:
        return Question(stop, *NOTHING)
    i = order[t]
    x = Row(rows, i)
    p, predicted = predict(learner, x, theta)
    v = variance(learner, x) if needs_variance(rule) else 0.0
    a, b = count_index(learner, predicted, y[i])
    counts[a, b, 1] += 1
    return Question(t, p, v, chance, u, audit, predicted)


@entrance(lambda rows, y, order, learner, objective, t, stop, counts: plain_seconds(rows, learner, stop - t))
def _predict(rows, y, order, learner, objective, t, stop, counts):
    """Run rounds t .. stop - 1 without asking, because the budget is spent, and count the predictions."""
    while t < stop:
        prefetch(rows, order, t)
        i = order[t]
        if y[i] != KNOWN_LABEL:
            a, b = count_index(learner, predict(learner, Row(rows, i), objective.theta)[1], y[i])
            counts[a, b, 0] += 1
        t += 1
    return Question(stop, *NOTHING)


@inlined
def _remember(average, learner, x, t, everything):
    """Update the running sums up to round t, for the weights that the update of this round may change. everything:
    whether to do this for all weights, not only for the weights of the row's columns."""
    if everything:
        for j in range(average.total.size):
            average.total[j] += (t + 1 - average.since[j]) * weight(learner, j)
            average.since[j] = t + 1
    else:
        for k in span(x.rows, x.i):
            j = entry(x.rows, x.i, k)[0]
            average.total[j] += (t + 1 - average.since[j]) * weight(learner, j)
            average.since[j] = t + 1


@inlined
def learn_label(x, t, p, predicted, chance, learner, rule, objective, average, v, y, last):
    """Learn the label y of a row (0: nothing to learn) in round t, given the row's margin p, predicted class, variance
    v and chance of being asked. After the last label of the budget, replace the weights with their averages if
    wanted."""
    if average.total.size:
        _remember(average, learner, x, t, last or dense_update(learner))
    if y != 0:
        observe(rule, predicted != y)
        objective.seen[int(y > 0)] += 1
        note_chance(learner, chance)
        update(learner, x, y, p, v, rho_of(objective) if y > 0 else 1.0, objective.theta)
    if last and average.total.size:
        for j in range(average.total.size):
            put(learner, j, average.total[j] / (t + 1))


def until_query(
    rows: Rows, y: np.ndarray, order: np.ndarray, learner: Learner, rule: NamedTuple, objective: Objective, seed: int,
    t: int, stop: int, asking: Plan | bool, counts: np.ndarray,
) -> Question:  # fmt: skip
    """Run rounds t .. stop - 1 until a label is asked for, and count every prediction. Return the Question, or, if
    nothing is asked, a Question with t = stop.

    y: label of each row: -1, 0 (unknown) or +1, or a class from 1; KNOWN_LABEL skips a round. asking: a spending plan,
    or whether to ask at all. order: for the plan of a file, its queue.
    """
    if not is_open(asking):
        return _predict(rows, y, order, learner, objective, t, stop, counts)
    if by_file(asking):
        return _choose(rows, y, order, learner, rule, objective, seed, t, stop, asking, counts)
    while True:  # in blocks: a question is usually near, and machine code may be there at the next block
        end = min(stop, t + BLOCK)
        asked = _until_query(rows, y, order, learner, rule, objective, seed, t, end, asking, counts, False)
        if asked.t < end or end == stop:
            return asked
        t = end


@entrance(lambda rows, y, order, learner, *rest: plain_seconds(rows, learner, rest[-1].shape[0]))
def inspect_rounds(rows, y, order, learner, rule, objective, seed, t, asking, counts, inspected):
    """Run the rounds from t on without learning, one for each row of `inspected`, and count the predictions. Fill each
    row with (margin, probability of asking, draw, predicted class). asking: True, or the spending plan in its state
    before round t."""
    for k in range(inspected.shape[0]):
        q = _until_query(rows, y, order, learner, rule, objective, seed, t + k, t + k + 1, asking, counts, True)
        inspected[k, 0], inspected[k, 1] = q.margin, q.probability
        inspected[k, 2], inspected[k, 3] = q.draw, q.predicted


@inlined
def _teach(x, t, chance, learner, rule, objective, average, y, last):
    p, predicted = predict(learner, x, objective.theta)
    learn_label(x, t, p, predicted, chance, learner, rule, objective, average, variance(learner, x), float(y), last)


@entrance(lambda rows, order, learner, *_: plain_seconds(rows, learner, rows_per_answer(learner)))
def learn(rows, order, learner, rule, objective, average, question, y, last):
    """Learn the answer y to a question (0: nothing to learn). last: whether this is the last label of the budget."""
    x = Row(rows, order[question.t])
    _teach(x, question.t, question.probability, learner, rule, objective, average, y, last)


def apply_prior(learner: Learner, prior: Mapping[int, float]) -> None:
    """Set the initial weights, {column: weight}, of an untrained two-class learner. Raise ValueError if the learner is
    multi-class or a column is out of range."""
    if classes(learner):
        raise ValueError("a prior is for a positive and a negative class. Got several classes.")
    wrong = [column for column in prior if not 0 <= column < weights(learner).size]
    if wrong:  # the compiled loop would write outside the weights
        raise ValueError(f"the columns of a prior must be >= 0 and < {weights(learner).size:,}. Got {wrong[0]:,}.")
    _apply_prior(learner, np.array([*prior], np.int64), np.array([*prior.values()], np.float64))


@entrance(lambda learner, columns, values: 0.0)
def _apply_prior(learner, columns, values):
    for k in range(columns.size):
        begin(learner, columns[k], values[k])


@entrance(lambda rows, items, factors, total: plain_seconds(rows, None, items.size))
def add_rows(rows, items, factors, total):
    """Add the rows `items`, each multiplied by its factor, to the vector `total`."""
    for k in range(items.size):
        add(total, factors[k], Row(rows, items[k]))


@entrance(
    lambda rows, items, y, rounds, chances, learner, *_: plain_seconds(
        rows, learner, items.size * rows_per_answer(learner)
    )
)
def teach(rows, items, y, rounds, chances, learner, rule, objective, average, last):
    """Learn the labels y (0: nothing to learn) of the rows `items` in turn, regardless of the query rule.

    rounds: round of each label, in ascending order. chances: chance with which each label was asked, 1 for known
    labels. last: whether the final label is the last of the budget.
    """
    for k in range(items.size):
        prefetch(rows, items, k)
        done = k == items.size - 1
        _teach(Row(rows, items[k]), rounds[k], chances[k], learner, rule, objective, average, y[k], last and done)


@entrance(lambda rows, order, learner, theta, t, stop, *_: plain_seconds(rows, learner, stop - t))
def predict_rounds(rows, order, learner, theta, t, stop, margins, predicted):
    """Write the margins and predicted classes of rounds t .. stop - 1, without learning."""
    while t < stop:
        prefetch(rows, order, t)
        margins[t], predicted[t] = predict(learner, Row(rows, order[t]), theta)
        t += 1


@entrance(lambda rows, learner, theta, out: plain_seconds(rows, learner, out.shape[0]))
def scores(rows, learner, theta, out):
    """Write the margin of every row, or its score for each class, into `out` of shape (n, 1) or (n, K)."""
    for i in range(out.shape[0]):
        p = predict(learner, Row(rows, i), theta)[0]
        for k in range(out.shape[1]):
            out[i, k] = score(learner, p, k)


@entrance(lambda rows, learner, rule, objective, t, out: plain_seconds(rows, learner, out.size))
def probabilities(rows, learner, rule, objective, t, out):
    """Write the rule's probability of asking about each row, if the row came in round t, into `out` of shape (n,)."""
    rho, theta = rho_of(objective), objective.theta
    for i in range(out.size):
        x = Row(rows, i)
        p = predict(learner, x, theta)[0]
        v = variance(learner, x) if needs_variance(rule) else 0.0
        out[i] = probability(rule, learner, x, p, v, rho, theta, t + 1)


@entrance(lambda rows, y, order, learner, *_: plain_seconds(rows, learner, order.size))
def _replay(rows, y, order, learner, rule, objective, average, seed, budget, planned, marks, log, decided, curve):
    spent, t = 0, 0
    for m in range(marks.size):
        while t < marks[m]:
            if spent == budget:
                t = _predict(rows, y, order, learner, objective, t, marks[m], curve[m]).t
                break
            if by_file(planned):
                asked = _choose(rows, y, order, learner, rule, objective, seed, t, marks[m], planned, curve[m])
            else:
                asked = _until_query(
                    rows, y, order, learner, rule, objective, seed, t, marks[m], planned, curve[m], False
                )
            t = asked.t
            if t < marks[m]:
                x = Row(rows, order[t])
                v = asked.variance if needs_variance(rule) else variance(learner, x)
                if spent < log.shape[0]:
                    log[spent, 0] = t
                    log[spent, 1] = asked.margin
                    log[spent, 2] = asked.probability
                    decided[spent, 0] = asked.audit
                    decided[spent, 1] = asked.predicted
                spent += 1
                spend(planned, asked.audit)
                y_t = float(y[order[t]]) if teaches(planned, asked.audit) else 0.0
                learn_label(
                    x, t, asked.margin, asked.predicted, asked.probability, learner, rule, objective, average, v, y_t,
                    spent == budget,
                )  # fmt: skip
                t += 1
    return spent


class Replay(NamedTuple):
    """The outcome of a replay. curve: table of counts at each mark (first axis). queried: number of labels asked for.
    log: (round, margin, probability) of each question. decided: (whether an audit, predicted class) of each question.
    learner: its state at the end. seconds: the duration. order: row number of each round."""

    curve: np.ndarray
    queried: int
    log: np.ndarray
    decided: np.ndarray
    learner: Learner
    seconds: float
    order: np.ndarray

    @property
    def asked(self) -> np.ndarray:
        """The row numbers of the questions of the log."""
        items: np.ndarray = self.order[self.log[:, 0].astype(np.int64)]
        return items

    @property
    def counts(self) -> np.ndarray:
        return self.curve[-1]


def replay(
    rows: Rows,
    y: ArrayLike,
    order: ArrayLike,
    learner: Learner,
    rule: NamedTuple,
    objective: Objective,
    *,
    budget: int | None = None,
    seed: int = 0,
    averaged: bool = False,
    marks: ArrayLike | None = None,
    log: bool = False,
    plan: Plan | None = None,
) -> Replay:
    """Run a stream with known labels up to the last mark. The learner, rule, objective and plan are modified in place.

    order: row numbers in the order in which the rows arrive. budget: most labels that may be asked for (None: no
    limit). averaged: once the budget is spent, predict with the mean of the weights over the rounds up to the last
    label. marks: numbers of rounds after which the counts are stored (None: at the end only). log: whether to keep a
    log of the questions. plan: how the budget is spent, from `spending.plan`.
    """
    visits = checked_order(order, rows)
    if plan and by_file(plan):
        plan = joined(plan, visits)
        visits = plan.queue
    rounds = visits.size
    budget = most_labels(plan.budget if plan else budget, rounds)
    truth = checked_labels(y, learner, visits)
    marks = np.array([rounds] if marks is None else marks, dtype=np.int64)
    curve = np.array([empty(classes(learner))] * marks.size)
    questions = np.zeros((min(budget, rounds) if log else 0, 3))
    decided = np.zeros((len(questions), 2), np.int8)
    start = perf_counter()
    with jit.whole_stream((type(rows), type(learner), type(rule)), plain_seconds(rows, learner, int(marks[-1]))):
        queried = _replay(
            rows, truth, visits, learner, rule, objective,
            average(learner, averaged), seed, budget, plan or True, marks, questions, decided, curve,
        )  # fmt: skip
    seconds = perf_counter() - start
    return Replay(curve.cumsum(0), queried, questions[:queried], decided[:queried], learner, seconds, visits)


def checked_order(order: ArrayLike, rows: Rows) -> np.ndarray:
    """Convert an item order to an array for the kernel. Raise ValueError if a row number is out of range."""
    order = read_only(order, np.int64)
    if order.size and (order.min() < 0 or order.max() >= length(rows)):
        raise ValueError(
            f"an order must hold row numbers from 0 to {length(rows) - 1}. Got {order.min()} to {order.max()}."
        )
    return order


def most_labels(budget: int | None, rounds: int) -> int:
    """Return the most labels that may be asked for: the budget, or one per round without a budget. Raise ValueError if
    the budget is negative."""
    if budget is not None and budget < 0:
        raise ValueError(f"budget must be >= 0. Got {budget}.")
    return rounds if budget is None else int(budget)


def checked_labels(y: ArrayLike, learner: Learner, order: np.ndarray) -> np.ndarray:
    """Convert labels to an array for the kernel. Raise ValueError if a label is not one of the learner's classes, or if
    a row of the order has none."""
    allowed, labels = [*range(1, classes(learner) + 1)] or [-1, 1], np.asarray(y)
    is_allowed = np.isin(labels, allowed)
    if labels.size <= order.max(initial=-1) or not is_allowed.all():
        words = f"{allowed[0]} {'to' if classes(learner) else 'or'} {allowed[-1]}"
        wrong = f"{labels.size} labels" if is_allowed.all() else labels[~is_allowed].min()
        raise ValueError(f"a replay needs a label {words} for every row. Got {wrong}.")
    return read_only(y, np.int8)

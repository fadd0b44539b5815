"""Several questions about each item. A person who reads an item answers all of them at once: this is a reading.

Each question has its own learner, rule and objective. One spending plan combines the questions' probabilities of
asking, pi_k, and one random draw per item decides whether it is read. A reading costs one label of the budget.

Rule `max`: the plan is given the largest pi_k, and treats it, bit for bit, like the probability of a single question.
Rule `rare`: the fewer positive answers a question has had so far, the more readings it gets. P_k is the number of
positive answers to question k, rho the rate, r_k the question's probability or its square root, and E(r, f) the result
of `spending._eased` for r and the factor f. With means over the last rounds s:

    w_k = max(0.2, (P_k + 1)^-1/2 / max_j (P_j + 1)^-1/2)
    f_k : mean_s E(r_k,s, f_k) = max(rho w_k, 1e-6)
    g   : mean_s max_k E(r_k,s, g f_k) = rho
    pi  = max_k E(r_k, g f_k)

E is monotone in r, so max_k E(r_k, g f_k) = E(r', g), where r' is the largest r_k after its odds were multiplied by
f_k. The plan is given r' and finds g as its own factor. The rule is not published; docs/many-questions.md has
measurements.

A question may be asked in some rounds only. In the other rounds its label is KNOWN_LABEL: it does not affect the
probability of a reading, and its prediction is not counted.

In a file that is all there (`spending`), a question that has a positive answer is drawn before each reading after the
beginning, and chooses the item by its own margins.

Given the past, the probability of a reading depends on the item alone. The estimates and guaranteed minima of each
question are therefore as valid as in a session of one question; they use this probability and the question's own
predictions.
"""

from collections.abc import Sequence
from math import sqrt
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import jit, stream
from .draws import draw
from .jit import entrance, inlined, method
from .learners import ROUND_SECONDS, classes, plain_seconds
from .metrics import empty
from .rows import Rows, read_only
from .runs import Parts, Run
from .spending import (
    CANDIDATES,
    KNOWN_LABEL,
    RECENT_ROUNDS,
    SURE,
    Plan,
    by_file,
    chances,
    factor_of,
    from_whole,
    is_open,
    joined,
    move,
    new_rate,
    next_for_rule,
    rule_labels,
    spend,
    teaches,
)

BLOCK = 64  # most rounds whose margins are computed ahead; a reading makes the rest of a block worthless
LEAST_WEIGHT = 0.2  # smallest w_k: with a smaller one, a question with many positives would hardly be asked
SMALLEST_MEAN = 1e-6  # smallest mean of a question's own probability
CHOSEN = 0x165667B1  # xor-ed with the seed: independent draws of the question that chooses an item
CLOSED = -1  # stored instead of the number of positives when a question is no longer asked


class Reading(NamedTuple):
    """A reading of an item: the round (`stop` if no item was read), the probability of the reading, the random draw
    (smaller than the probability), whether the reading is an audit, and for each question the margin and the predicted
    class (0: not asked in this round)."""

    t: int
    probability: float
    draw: float
    audit: int
    margins: np.ndarray
    predicted: np.ndarray


class Rare(NamedTuple):
    """The state of the rule `rare`. positives: number of positive answers to each question (CLOSED: no longer asked).
    recent: each question's probabilities, or their square roots, in the last rounds. factor: the factor by which the
    odds of each question are multiplied."""

    positives: np.ndarray
    recent: np.ndarray
    factor: np.ndarray

    def wish(self, plan, t, inspected, j):
        s = t % RECENT_ROUNDS
        for k in range(self.factor.size):
            pi = inspected[k, j, 1]
            self.recent[k, s] = min(sqrt(pi) if plan.power > 1 else pi, SURE)
        left = rule_labels(plan, t)
        rate = new_rate(plan, t, left) if left > 0 else 0.0
        if rate:
            _set_factors(self, plan, t, rate)
        largest = _largest(self, s)
        return largest * largest if plan.power > 1 else largest

    def note(self, y):
        self.positives[:] += y > 0

    def opened(self, plan: Plan, chances: np.ndarray, t: int) -> "Rare":
        """Return the state with one more question, which is open from round t on. chances: the probabilities with which
        it would have been asked in the rounds just before t, at most RECENT_ROUNDS values."""
        recent = np.zeros(RECENT_ROUNDS)
        roots = np.sqrt(chances) if plan.power > 1 else chances
        recent[np.arange(t - chances.size, t) % RECENT_ROUNDS] = np.minimum(roots, SURE)
        return Rare(np.append(self.positives, 0), np.vstack((self.recent, recent)), np.append(self.factor, 1.0))

    def close(self, k: int) -> None:
        """Stop weighing a question that is no longer asked."""
        self.positives[k], self.recent[k] = CLOSED, 0.0


@inlined
def _set_factors(rare, plan, t, rate):
    """Set the factor of each question, then update the recent probabilities, to which the plan fits its own factor."""
    fewest = np.int64(2**62)
    for k in range(rare.positives.size):
        if rare.positives[k] != CLOSED:
            fewest = min(fewest, rare.positives[k])
    for k in range(rare.positives.size):
        if rare.positives[k] != CLOSED:
            weight = max(LEAST_WEIGHT, sqrt((fewest + 1) / (rare.positives[k] + 1)))
            rare.factor[k] = factor_of(plan, rare.recent[k], t, rate, max(rate * weight, SMALLEST_MEAN))
    for s in range(min(t + 1, RECENT_ROUNDS)):
        plan.recent[s] = _largest(rare, s)


@inlined
def _largest(rare, s):
    """Return the largest probability (or square root) of any question in slot s of the recent rounds, after the odds of
    each question were multiplied by its factor."""
    largest = 0.0
    for k in range(rare.factor.size):
        odds = rare.factor[k] * rare.recent[k, s]
        largest = max(largest, odds / (odds + 1 - rare.recent[k, s]))
    return min(largest, SURE)


@inlined
def _largest_wish(inspected, j):
    """Return the largest probability of asking that any question has in inspected round j: the rule `max`."""
    largest = 0.0
    for k in range(inspected.shape[0]):
        largest = max(largest, inspected[k, j, 1])
    return largest


wish = method("wish", default=lambda self, plan, t, inspected, j: _largest_wish(inspected, j))
note = method("note", default=lambda self, y: None)


def shared(questions: int, plan: Plan | None, rare: bool = True) -> Rare | bool:
    """Return the initial state of the rule `rare`, or False for the rule `max`. A single question, or a plan without a
    pace, always gets `max`."""
    if not (rare and questions > 1 and plan and plan.paced):
        return False
    return Rare(np.zeros(questions, np.int64), np.zeros((questions, RECENT_ROUNDS)), np.ones(questions))


@entrance(lambda y, order, seed, t, asking, rule, inspected, counts: inspected.size * ROUND_SECONDS / 4)
def until_reading(y, order, seed, t, asking, rule, inspected, counts):
    """Run the inspected rounds from t on until an item is read, and count the predictions of every question. Return
    (round, probability, draw, whether an audit) or, if no item is read, the round after the last and zeros. In
    `inspected`, the probability of asking is replaced with the probability of a reading.

    y, inspected, counts: as in `stream.inspect_rounds`, with a first axis for the questions.
    """
    many = inspected.shape[0]
    for j in range(inspected.shape[1]):
        i = order[t + j]
        check, chance, asks, pushes, u = 0.0, 0.0, 0, 0, draw(seed, t + j)
        for k in range(many):
            if y[k, i] != KNOWN_LABEL:
                asks, pushes = asks + 1, pushes + (inspected[k, j, 3] > 0)
        if asks == 0:
            continue
        if is_open(asking):
            pi = wish(rule, asking, t + j, inspected, j)
            check, chance = chances(asking, t + j, pi, int(pushes == asks) - int(pushes == 0))
        for k in range(many):
            inspected[k, j, 1] = chance
            if y[k, i] != KNOWN_LABEL:
                counts[k, int(inspected[k, j, 3] > 0), y[k, i] + 1, int(u < chance)] += 1
        if u < chance:
            return t + j, chance, u, int(u < check)
    return t + inspected.shape[1], 0.0, 0.0, 0


def inspect_readings(
    rows: Rows, y: np.ndarray, order: np.ndarray, parts: Sequence[Parts], seed: int, t: int, asking: Plan | bool,
    rule: Rare | bool, counts: np.ndarray, inspected: np.ndarray,
) -> tuple[int, float, float, int]:  # fmt: skip
    """Run rounds from t on without learning until an item is read. Every question is inspected as in
    `stream.inspect_rounds`. Return the result of `until_reading`."""
    for truth, part, own in zip(y, parts, inspected):
        stream.inspect_rounds(rows, truth, order, *part, seed, t, True, empty(), own)
    reading: tuple[int, float, float, int] = until_reading(y, order, seed, t, asking, rule, inspected, counts)
    return reading


def next_reading(
    rows: Rows, y: np.ndarray, order: np.ndarray, parts: Sequence[Parts], seed: int, t: int, stop: int,
    asking: Plan | bool, rule: Rare | bool, counts: np.ndarray,
) -> Reading:  # fmt: skip
    """Run rounds t .. stop - 1 until an item is read, and count the predictions of every question.

    y, counts: as in `stream.until_query`, with a first axis for the questions. asking: a plan, or whether items are
    read at all. The result does not depend on where blocks of rounds begin: after a reading a new block is computed.
    """
    if isinstance(asking, Plan) and by_file(asking) and is_open(asking):
        return _reading_of_file(rows, y, order, parts, seed, t, stop, asking, rule, counts)
    size = BLOCK // 8
    while t < stop:
        size = min(2 * size, BLOCK) if is_open(asking) else stop - t
        block = np.zeros((len(parts), min(size, stop - t), 4))
        end, probability, u, audit = inspect_readings(rows, y, order, parts, seed, t, asking, rule, counts, block)
        if end < t + block.shape[1]:
            margins, predicted = block[:, end - t, 0], block[:, end - t, 3].astype(np.int8)
            return Reading(end, probability, u, audit, margins, predicted)
        t = end
    return Reading(stop, 0.0, 0.0, 0, np.zeros(len(parts)), np.zeros(len(parts), np.int8))


@entrance(lambda rows, y, free, learner, *_: plain_seconds(rows, learner, min(CANDIDATES, free.size)))
def _from_whole(rows, y, free, learner, theta, seed, t, plan, has_positive):
    return from_whole(plan, rows, y, free, learner, theta, seed, t, has_positive)


def _reading_of_file(
    rows: Rows, y: np.ndarray, order: np.ndarray, parts: Sequence[Parts], seed: int, t: int, stop: int, plan: Plan,
    rule: Rare | bool, counts: np.ndarray,
) -> Reading:  # fmt: skip
    """Choose an item of a file, and read it in round t."""
    place, chance, u, audit = -1, 0.0, 0.0, 0
    while place < 0 and (first := next_for_rule(plan, t)) >= 0:
        block = np.zeros((len(parts), min(BLOCK // 8, plan.paced - first, order.size - first), 4))
        ignored = np.array([empty()] * len(parts))
        end, chance, u, _ = inspect_readings(rows, y, order, parts, seed, first, plan, rule, ignored, block)
        is_read = end < first + block.shape[1]
        place, plan.seen[0] = (end if is_read else -1), end + is_read
    if place < 0:
        left = y[:, order[t:]] != KNOWN_LABEL
        able = [k for k, (_, _, goal) in enumerate(parts) if goal.seen[1] and left[k].any()]
        k = able[int(draw(seed ^ CHOSEN, t) * len(able))] if able else 0
        place, chance, u, audit = _from_whole(
            rows, y[k], y.max(axis=0), parts[k][0], parts[k][2].theta, seed, t, plan, bool(able)
        )
    if place < 0:
        return Reading(stop, 0.0, 0.0, 0, np.zeros(len(parts)), np.zeros(len(parts), np.int8))
    move(plan, place, t)
    now = np.zeros((len(parts), 1, 4))
    for truth, part, own in zip(y, parts, now):
        stream.inspect_rounds(rows, truth, order, *part, seed, t, True, empty(), own)
    margins, predicted, labels = now[:, 0, 0], now[:, 0, 3].astype(np.int8), y[:, order[t]]
    asked = np.flatnonzero(predicted)
    counts[asked, (predicted[asked] > 0).astype(int), labels[asked] + 1, 1] += 1
    return Reading(t, chance, u, audit, margins, predicted)


def replay(
    runs: Sequence[Run], rare: bool = True, parts: Sequence[Parts] | None = None, marks: ArrayLike | None = None
) -> list[stream.Replay]:
    """Replay several questions over one stream whose labels are known. Return one Replay per question. Its log contains
    the probabilities of the readings; its curve contains the counts at each mark or, without marks, after each reading
    and at the end.

    runs: one per question, with the same rows, order, seed, plan and budget (number of readings). rare: whether to use
    the rule `rare` instead of `max`. parts: states from `Run.start`, modified in place (None: new ones). marks: rounds,
    as in `stream.replay`.
    """
    first, parts = runs[0], parts or [run.start() for run in runs]
    if any(classes(learner) for learner, *_ in parts):
        raise ValueError("several questions need learners of positives and negatives. Got one of several classes.")
    order = stream.checked_order(first.order, first.rows)
    y = read_only([run.y for run in runs], np.int8)
    plan, budget = first.plan(), order.size if first.budget is None else first.budget
    if plan and by_file(plan):
        plan = joined(plan, order)
        order = plan.queue
    means = [stream.average(part[0], run.average) for run, part in zip(runs, parts)]
    rule, counts, curve, t = shared(len(runs), plan, rare), np.array([empty()] * len(runs)), [], 0
    readings: list[Reading] = []
    start = perf_counter()
    seconds = plain_seconds(first.rows, parts[0][0], len(runs) * order.size)
    with jit.whole_stream((type(first.rows), type(parts[0][0]), type(parts[0][1])), seconds):
        for end in [order.size] if marks is None else np.asarray(marks).tolist():
            while t < end:
                asking = plan or len(readings) < budget
                now = next_reading(first.rows, y, order, parts, first.seed, t, end, asking, rule, counts)
                t = min(now.t + 1, end)
                if now.t == end:
                    continue
                readings.append(now)
                if marks is None:
                    curve.append(counts.copy())
                if plan:
                    spend(plan, now.audit)
                answers = y[:, order[now.t]] * (plan is None or teaches(plan, now.audit))
                note(rule, answers)
                for part, mean, margin, predicted, label in zip(parts, means, now.margins, now.predicted, answers):
                    asked = stream.Question(now.t, margin, 0.0, now.probability, now.draw, now.audit, int(predicted))
                    stream.learn(first.rows, order, *part, mean, asked, int(label), len(readings) == budget)
            curve.append(counts.copy())
    return [
        stream.Replay(
            np.array([each[k] for each in curve]), len(readings),
            np.array([(now.t, now.margins[k], now.probability) for now in readings]).reshape(-1, 3),
            np.array([(now.audit, now.predicted[k]) for now in readings], np.int8).reshape(-1, 2),
            part[0], perf_counter() - start, order,
        )
        for k, part in enumerate(parts)
    ]  # fmt: skip

"""How a budget is spent along a stream: one share goes to random checks (audits), one share gives every item a minimum
probability of being asked about (the floor option), and the rest is spent at an even pace.

In a file that is all there, the first labels are spent like this along its first quarter. Each later question is about
the item nearest to the decision threshold, of all items that were not asked yet or of many drawn from them. Its item
moves forward to its round, so that the asked items are the first of the order, and no item passes before the end.

Runs without a plan do not depend on this module: the kernel takes a plan in place of the boolean `asking`, and is
compiled separately for it.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .draws import draw
from .jit import inlined, method, plain_form_of
from .learners import predict, variance
from .parameters import Values, checked, named
from .query_rules import QUERY_RULES, Pace, needs_variance, paceable, probability
from .rows import Row
from .vectors import in_order

STREAM, FIND = GOALS = "stream", "find"  # a session is for a model of a stream, or for the items of a file
KNOWN_LABEL = -128  # replaces the label of an item that is already known: nothing is asked about it

RECENT_ROUNDS = 256  # latest rounds whose probabilities set the pace
ROUNDS_PER_SETTING = 64  # between two settings of the pace; within the first and last 64 rounds it is set every round
FLOOR = 0.1  # smallest probability of any item, as a share of the rate: no weight 1 / pi exceeds 10 / rate
SURE = 1 - 2.0**-30  # replaces a probability of 1, so that its odds can be lowered
EASIEST = 2.0**60  # the largest factor of the odds; the smallest is its inverse
HALVINGS = 32  # steps of a bisection
PUSHED = 3.0  # smallest probability of a pushed item, as a multiple of the floor, while labels for these items last
PUSHES = 0.1  # share of the rounds in which an item is pushed, as planned for these labels
SPARE_DEVIATIONS = 2.0  # labels kept back for the floor, in standard deviations of the number that it will ask
BEGINNING = 60, 0.2  # labels that are spent along the beginning of a file: at least; as a share of the budget
INFORMED = 15, 0.1  # if the learner begins with words, texts or a model
CANDIDATES = 4000  # most items of a file that are compared before a question
PREFERRED = 1.4  # distance beyond the threshold that counts like 1 below it: positives are worth more than negatives
CHECKS = 0.1  # share of the later questions about a file that are random checks, unless another share is wished
DRAWS = 64  # most draws of a random item, if the labels of some are known
FIND_PACE = Pace(share=0.25, rounds_per_label=40, first=10)  # of the first labels, for rules without a pace
CHECKED, PLACE, CANDIDATE = 0x3C6EF372, 0x51ED270B, 0x27D4EB2F  # xor-ed with the seed: independent draws


class Plan(NamedTuple):
    """A budget with its plan: `audits` labels go to random checks, chosen evenly among the rounds up to `horizon`
    (selection sampling, Fan, Muller and Rezucha 1962). The rest is spread over the first `paced` rounds (0: the rule
    decides), except for the `reserve`, which is spread from there to the horizon. In the first `first` rounds, every
    item is asked about.

    floor: smallest probability, while labels are left, of asking about an item that is not pushed (0: no minimum).
    promised: smallest value that `floor` ever had. power: 1, or the power of a rule whose probability is a square; then
    its root is raised or lowered, and taken to this power. trains: whether the learner learns from the answers to
    audits. spent: number of labels spent, and number of audits among them. recent: the rule's probabilities (square
    roots if `power` > 1) in the last rounds. force: the factor by which the odds are multiplied, and the rate for which
    it was found.

    For a file, the `reserve` is not spent along its beginning. checks: share of these labels that go to random
    checks. queue: the order of the items; a question moves its item forward to its round. seen: number of items, from
    the first on, that the rule has decided about. For a stream, both are empty.
    """

    budget: int
    audits: int
    horizon: int
    paced: int
    first: int
    reserve: int
    floor: float
    promised: float
    power: int
    trains: bool
    spent: np.ndarray
    recent: np.ndarray
    force: np.ndarray
    checks: float
    queue: np.ndarray
    seen: np.ndarray

    def is_open(self):
        return self.spent[0] < self.budget

    def chances(self, t, pi, predicted):
        check, least, left = 0.0, 0.0, rule_labels(self, t)
        if t < self.horizon:
            check = min(1.0, max(0.0, (self.audits - self.spent[1]) / (self.horizon - t)))
        if self.floor:
            least = _floored(self, t, predicted)
            if self.paced:
                _noted(self, t, pi)  # in case the rule has labels again later
        if left <= 0:
            return check, check + (1 - check) * least
        if self.paced:
            pi = _paced(self, t, pi, left)
        if t < self.first:
            pi = 1.0
        return check, min(1.0, check + (1 - check) * (least + (1 - least) * pi))  # rounding could exceed 1

    def teaches(self, audit):
        return self.trains or not audit

    def spend(self, audit):
        self.spent[0] += 1
        self.spent[1] += audit

    def by_file(self):
        return self.seen.size > 0

    def choose(self, rows, y, learner, rule, rho, theta, seed, t, has_positive):
        audit = 0
        place, chance, u = _by_rule(self, rows, y, learner, rule, rho, theta, seed, t)
        if place < 0:
            place, chance, u, audit = from_whole(self, rows, y, y, learner, theta, seed, t, has_positive)
        if place >= 0:
            move(self, place, t)
        return chance, u, audit


is_open = method("is_open", default=lambda self: self)
chances = method("chances", default=lambda self, t, pi, predicted: (0.0, pi))  # of an audit; of asking at all
teaches = method("teaches", default=lambda self, audit: True)
spend = method("spend", default=lambda self, audit: None)
by_file = method("by_file", default=lambda self: False)
# Moves the item to ask about to round t of the queue. Returns its chance (0: no item is left), the draw, and whether it
# is a random check. has_positive: whether an answer was positive, without which all are random.
choose = method("choose", default=lambda self, rows, y, learner, rule, rho, theta, seed, t, has_positive: (0.0, 0.0, 0))


@inlined
def move(plan, place, t):
    """Exchange the item at a place of the queue with the item of round t."""
    item = plan.queue[place]
    plan.queue[place] = plan.queue[t]
    plan.queue[t] = item


@inlined
def next_for_rule(plan, t):
    """Return the place in the queue of the next item for the rule to decide about, and count it as seen; -1 if the
    labels for the beginning of the file, or its items, are used up. t: the round of the question."""
    place = max(plan.seen[0], t)
    if plan.spent[0] >= plan.budget - plan.reserve or place >= min(plan.paced, plan.queue.size):
        return -1
    plan.seen[0] = place + 1
    return place


@inlined
def _by_rule(plan, rows, y, learner, rule, rho, theta, seed, t):
    """Let the rule decide about the items of the beginning in turn, until it asks about one. Return the place of this
    item in the queue, or -1, with the chance and the draw."""
    place = next_for_rule(plan, t)
    while place >= 0:
        i = plan.queue[place]
        if y[i] != KNOWN_LABEL:
            x = Row(rows, i)
            p, predicted = predict(learner, x, theta)
            v = variance(learner, x) if needs_variance(rule) else 0.0
            pi = probability(rule, learner, x, p, v, rho, theta, place + 1)
            chance, u = chances(plan, place, pi, predicted)[1], draw(seed, place)
            if u < chance:
                return place, chance, u
        place = next_for_rule(plan, t)
    return -1, 0.0, 0.0


@inlined
def from_whole(plan, rows, y, free, learner, theta, seed, t, has_positive):
    """Choose an item of the whole file: at random, or the nearest to the threshold. Return its place in the queue (-1:
    no item is left), its chance, the draw, and whether it is a random check.

    y, free: labels with KNOWN_LABEL for items that the learner, or a random check, does not ask about.
    """
    n, u = plan.queue.size - t, draw(seed ^ CHECKED, t)
    if u < plan.checks or not has_positive:
        place, chance = _at_random(plan, free, seed, t), (plan.checks if has_positive else 1.0) / n
        return place, chance * (place >= 0), u / n, 1
    place = _nearest(plan, rows, y, learner, theta, seed, t)
    return place, (1 - plan.checks) * (place >= 0), 1 - u, 0  # the draw is smaller than the chance, as in a stream


@inlined
def _at_random(plan, y, seed, t):
    """Return the place in the queue of a random item that was not asked, -1 if no item is left."""
    n = plan.queue.size - t
    for k in range(DRAWS):
        place = t + int(draw(seed ^ PLACE, t * DRAWS + k) * n)
        if y[plan.queue[place]] != KNOWN_LABEL:
            return place
    for place in range(t, plan.queue.size):
        if y[plan.queue[place]] != KNOWN_LABEL:
            return place
    return -1


@inlined
def _nearest(plan, rows, y, learner, theta, seed, t):
    """Return the place in the queue of the item nearest to the threshold, -1 if all are known. If more than CANDIDATES
    items are left, this number of them is drawn and compared."""
    n, best, least = plan.queue.size - t, -1, inf
    for k in range(min(CANDIDATES, n)):
        place = t + (k if n <= CANDIDATES else int(draw(seed ^ CANDIDATE, t * CANDIDATES + k) * n))
        i = plan.queue[place]
        if y[i] != KNOWN_LABEL:
            p = predict(learner, Row(rows, i), theta)[0]
            far = (p - theta) / PREFERRED if p >= theta else theta - p
            if far < least:
                best, least = place, far
    return best


@inlined
def _reserved(plan, t):
    """Return two numbers: the labels that remain after enough are set aside for the minimum probability `floor`, and
    the labels among them that are planned for pushed items.

    The number set aside has a safety margin: these labels hardly ever run out before the horizon.
    """
    needed = plan.floor * max(0, plan.horizon - t)
    left = plan.budget - plan.audits - (plan.spent[0] - plan.spent[1])
    return left - needed - SPARE_DEVIATIONS * sqrt(needed), PUSHES * PUSHED * needed


@inlined
def rule_labels(plan, t):
    """Return how many of the remaining labels the rule may spend."""
    beyond, pushed = _reserved(plan, t)
    return int(beyond - pushed)


@inlined
def _floored(plan, t, predicted):
    """Return the smallest probability of asking about an item.

    predicted: +1 if the item is pushed, -1 if not. With several questions: +1 if all of them push the item, 0 if only
    some do. In the last case the result is never below `floor`, which was promised to the questions that do not push
    the item.
    """
    beyond, pushed = _reserved(plan, t)
    least = plan.floor
    if predicted >= 0:
        raised = PUSHED * (min(1.0, max(0.0, beyond) / pushed) if pushed else 1.0)
        least *= raised if predicted else max(1.0, raised)
    return min(1.0, least)


@inlined
def _noted(plan, t, pi):
    """Record the rule's probability, or its square root if the plan has a power, as a recent one, and return it."""
    plan.recent[t % RECENT_ROUNDS] = pi = min(sqrt(pi) if plan.power > 1 else pi, SURE)
    return pi


@inlined
def _eased(plan, pi, factor, rate):
    """Multiply the odds of pi, a probability or the square root of one, by `factor`. Return the new probability, which
    is at least FLOOR * rate.

    The result is FLOOR * rate + (1 - FLOOR * rate) * eased^power; eased = factor pi / (factor pi + 1 - pi).
    """
    odds = factor * pi
    eased = odds / (odds + 1 - pi)
    if plan.power > 1:
        chance = 1 - FLOOR * rate
        for _ in range(plan.power):
            chance = chance * eased
        return FLOOR * rate + chance
    # Not `* eased`: the stored logs of earlier versions have this rounding.
    return FLOOR * rate + (1 - FLOOR * rate) * odds / (odds + 1 - pi)


@inlined
def _paced(plan, t, pi, left):
    """Return the rule's probability, raised or lowered so that the remaining labels would be spent at an even rate.

    For pi = delta / (delta + |p|), or a power of this, multiplying the odds multiplies delta; for other rules
    multiplying the odds works, too. The factor is found by bisection, so that the mean probability over the last rounds
    equals the rate. A label left over after the paced rounds, because an answer was a skip, is asked for at once.
    """
    force = plan.force
    pi = _noted(plan, t, pi)
    rate = new_rate(plan, t, left)
    if rate:
        force[0], force[1] = factor_of(plan, plan.recent, t, rate, rate), rate
    return _eased(plan, pi, force[0], force[1])


@inlined
def new_rate(plan, t, left):
    """Return the rate, in labels per round, at which to spend `left` labels from round t on, or 0 if the rate is not
    set in this round."""
    end = plan.paced
    if t < end and left > plan.reserve:
        left -= plan.reserve
    elif plan.reserve or plan.floor:
        end = plan.horizon
    if t < ROUNDS_PER_SETTING or t % ROUNDS_PER_SETTING == 0 or t > end - ROUNDS_PER_SETTING or t == plan.paced:
        return min(1.0, left / max(1, end - t))
    return 0.0


def _total_eased_in_turn(plan, recent, factor, rate):
    total = 0.0
    for k in range(recent.size):
        total += _eased(plan, recent[k], factor, rate)
    return total


@plain_form_of(_total_eased_in_turn)
def _total_eased(plan, recent, factor, rate):
    """Return the sum of the recent probabilities after `_eased` changed them."""
    return in_order(_eased(plan, recent, factor, rate))


@inlined
def factor_of(plan, recent, t, rate, mean):
    """Find by bisection the factor with which `_eased` changes the recent probabilities so that they have this mean."""
    n_recent = min(t + 1, RECENT_ROUNDS)
    low, high = 1 / EASIEST, EASIEST
    for _ in range(HALVINGS):
        factor = sqrt(low * high)
        if _total_eased(plan, recent[:n_recent], factor, rate) < mean * n_recent:
            low = factor
        else:
            high = factor
    return sqrt(low * high)


def extended(plan: Plan, more: Plan, t: int, all_spent: bool) -> Plan:
    """Return a plan with more labels from round t on, spread over the remaining rounds like the labels of a new stream.

    While the reserve is being spent, the new labels are spent with it. The minimum probability `floor` is recomputed
    from the old and new labels that are set aside for it from round t on. all_spent: whether the old labels are spent.
    For a file, all new labels are spent on its whole.
    """
    if by_file(plan):
        return plan._replace(budget=plan.budget + more.budget, reserve=plan.reserve + more.budget)
    horizon = max(plan.horizon, t + more.horizon)
    floor_labels = 0.0 if all_spent else plan.floor * max(0, plan.horizon - t)
    floor = min(1.0, (floor_labels + more.floor * more.horizon) / (horizon - t))
    longer = plan._replace(
        budget=plan.budget + more.budget,
        audits=plan.audits + more.audits,
        horizon=horizon,
        floor=floor,
        promised=min(plan.promised, floor),
    )
    if not more.paced or (plan.reserve and t >= plan.paced and not all_spent):
        return longer
    reserve = more.reserve if all_spent else plan.reserve + more.reserve
    return longer._replace(paced=max(plan.paced, t + more.paced), reserve=reserve)


def expected(plan: Plan, rounds: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return how many audits and how many other labels a plan expects to have spent after `rounds` rounds; 0 other
    labels if it leaves them to the rule."""
    t, floor = np.asarray(rounds), plan.floor * (1 + PUSHES * PUSHED)
    early = plan.budget - plan.audits - plan.reserve - round(floor * plan.horizon)
    checks = plan.audits * np.minimum(1, t / plan.horizon)
    if not plan.paced:
        return checks, 0 * t
    spent = (0, min(plan.first, early), early, early + plan.reserve)
    ends = np.maximum.accumulate((0, min(plan.first, early), plan.paced, plan.horizon))
    others = np.interp(t, ends, spent) + floor * np.minimum(t, plan.horizon)
    return checks, np.minimum(others, np.maximum(0, t - np.floor(checks)))  # at most one per round


def plan(
    rule: str,
    budget: int | None,
    horizon: int,
    audit: float = 0.0,
    trains: bool = True,
    pace: float | None = None,
    values: Values = (),
    floor: float = 0.0,
    goal: str = STREAM,
    informed: bool = False,
) -> Plan | None:
    """Plan a budget over `horizon` rounds for a rule (by name). Return None if the rule alone decides.

    audit: share of the budget for random checks, >= 0 and < 1. trains: whether the learner learns from the answers to
    audits. pace: share of the horizon in which the rest is spent evenly, > 0 and <= 1 (None: as the rule spreads it).
    values: parameters of the rule. floor: share of the budget that gives every item a minimum probability of being
    asked about, >= 0; audit + floor < 1. goal: STREAM, or FIND for a file whose items the plan gets from `joined`;
    then audit is the share of the random checks after the beginning (0: CHECKS). informed: whether the learner begins
    with knowledge about the file.
    """
    if named(GOALS, goal, "goal") == FIND:
        beginning = INFORMED if informed else BEGINNING
        return _over_file(rule, budget, horizon, audit, trains, pace, values, floor, beginning)
    if not 0 <= audit < 1:
        raise ValueError(f"audit must be >= 0 and < 1: the share of the budget for random checks. Got {audit}.")
    if pace is not None and not 0 < pace <= 1:
        raise ValueError(f"pace must be > 0 and <= 1: the share of the horizon to spend the budget in. Got {pace}.")
    if pace is not None and rule not in paceable():
        raise ValueError(f"a pace needs a rule that draws: {', '.join(paceable())}. Got {rule}.")
    if not 0 <= floor < 1 - audit:
        raise ValueError(f"floor must be >= 0 and, with audit, < 1: the share of the budget for it. Got {floor}.")
    if budget is None and (audit or pace or floor):
        raise ValueError("audits, a pace and a floor need a budget. Got none.")
    own = getattr(QUERY_RULES[rule], "pace", None)
    if budget is None or not (audit or pace or floor or own):
        return None
    audits, values = round(audit * budget), checked(QUERY_RULES[rule], rule, values)
    paced, reserve, first = max(1, round(pace * horizon)) if pace else 0, 0, own.first if own else 0
    if own and not pace:
        labels = budget - audits - round(floor * budget)
        reserve = min(labels // 2, max(0, labels - int(values["early"])))
        paced = max(1, min(round(own.share * horizon), own.rounds_per_label * (labels - reserve)))
    least = min(1.0, floor * budget / (max(1, horizon) * (1 + PUSHES * PUSHED)))
    return Plan(
        budget,
        audits,
        horizon,
        paced,
        first,
        reserve,
        least,
        least,
        int(values.get("power", 1)),
        bool(trains),
        np.zeros(2, np.int64),
        np.zeros(RECENT_ROUNDS if paced else 0),
        np.zeros(2 if paced else 0),
        0.0,
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    )


def _over_file(
    rule: str, budget: int | None, horizon: int, audit: float, trains: bool, pace: float | None, values: Values,
    floor: float, beginning: tuple[int, float],
) -> Plan:  # fmt: skip
    """Plan a budget over a file of `horizon` items. beginning: labels along it, at least and as a share."""
    if budget is None:
        raise ValueError("the goal find needs a budget. Got none.")
    if pace is not None or floor:
        raise ValueError("a pace and a floor spread labels along a stream: the goal must be stream. Got find.")
    if rule not in paceable():
        raise ValueError(f"the goal find needs a rule that draws: {', '.join(paceable())}. Got {rule}.")
    own, (least, share) = getattr(QUERY_RULES[rule], "pace", FIND_PACE), beginning
    power = int(checked(QUERY_RULES[rule], rule, values).get("power", 1))
    early = min(budget, max(least, round(share * budget)))
    paced = max(1, min(round(own.share * horizon), own.rounds_per_label * early))
    return Plan(
        budget, 0, horizon, paced, own.first, budget - early, 0.0, 0.0, power, bool(trains),
        np.zeros(2, np.int64), np.zeros(RECENT_ROUNDS), np.zeros(2), audit or CHECKS,
        np.zeros(0, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


def representative(plan: Plan, chances: np.ndarray, audits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which answers about a file represent items that were not asked, and how many items each of them: 1 / its
    chance for the beginning, and the mean of these for a random check.

    An item that was asked because it was the nearest to the threshold represents nothing: it is harder than others with
    its margin. chances, audits: chance of each answer, and whether it is a random check.
    """
    nearest = (chances == 1 - plan.checks) & (audits == 0)
    beginning = ~nearest & (audits == 0)
    mean = np.mean(1 / chances[beginning]) if beginning.any() else 1.0
    return ~nearest, np.where(audits > 0, mean, 1 / chances)


def joined(plan: Plan, order: np.ndarray) -> Plan:
    """Return the plan of a file with more items: those of `order` after as many as it has already."""
    return plan._replace(queue=np.concatenate((plan.queue, order[plan.queue.size :])))

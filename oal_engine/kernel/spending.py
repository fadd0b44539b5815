"""How a budget is spent along a stream: a share of it on random checks (audits), a share on a floor under the chance of
every item, the rest at an even pace.

Sessions and replays without a plan do not know of it: the kernel takes a plan in place of the word that the budget
allows a question, and is compiled apart for it.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from .jit import METHOD, method
from .parameters import Values, checked
from .query_rules import QUERY_RULES, paceable

RECENT = 256  # rounds whose chances a pace is set by
EVERY = 64  # rounds between two settings of a pace; in as many at both ends it is set in every round
FLOOR = 0.1  # share of the rate that any item is asked with: no weight 1 / pi exceeds 10 / rate
SURE = 1 - 2.0**-30  # a rule's certainty, made a chance with odds that can be lowered
EASIEST = 2.0**60  # the largest factor of the odds; the smallest is its inverse
HALVINGS = 32
PUSHED = 3.0  # times the floor: the chance of an item that is pushed, as far as its labels last
PUSHES = 0.1  # share of the rounds that these labels are for
SPARE = 2.0  # standard deviations of what the floor will ask that are kept for it


class Plan(NamedTuple):
    """A budget of which `audits` labels are for checks up to round `horizon`, chosen evenly among its rounds (selection
    sampling, Fan, Muller and Rezucha 1962), and the rest is spread over the first `paced` rounds (0: asked as the rule
    wants) but for the `reserve`, which is spread from there to the horizon. In the `first` rounds everything is asked.
    floor: the chance that an item not pushed has at least while there are labels, 0 for none; promised: the least that
    it ever was.

    squared: whether the rule's chance is a square, whose root is eased or hardened. spent: labels given, and those of
    them that were audits. recent: the rule's chances in the last rounds. force: the factor of the odds, and the rate
    that it is for. trains: whether audits teach.
    """

    budget: int
    audits: int
    horizon: int
    paced: int
    first: int
    reserve: int
    floor: float
    promised: float
    squared: bool
    trains: bool
    spent: np.ndarray
    recent: np.ndarray
    force: np.ndarray

    def is_open(self):
        return self.spent[0] < self.budget

    def chances(self, t, pi, predicted):
        check, least = 0.0, 0.0
        if t < self.horizon:
            check = min(1.0, max(0.0, (self.audits - self.spent[1]) / (self.horizon - t)))
        left = self.budget - self.audits - (self.spent[0] - self.spent[1])
        if self.floor:
            least, left = _floored(self, t, left, predicted)
            if self.paced:
                _noted(self, t, pi)  # the rule may have labels again
        if left <= 0:
            return check, check + (1 - check) * least
        if self.paced:
            pi = _paced(self, t, pi, left)
        if t < self.first:
            pi = 1.0
        return check, min(1.0, check + (1 - check) * (least + (1 - least) * pi))  # rounding may exceed 1

    def teaches(self, audit):
        return self.trains or not audit

    def spend(self, audit):
        self.spent[0] += 1
        self.spent[1] += audit


is_open = method("is_open", default=lambda self: self)
chances = method("chances", default=lambda self, t, pi, predicted: (0.0, pi))  # of an audit, and of being asked at all
teaches = method("teaches", default=lambda self, audit: True)
spend = method("spend", default=lambda self, audit: None)


@njit(**METHOD)
def _floored(plan, t, left, predicted):
    """The least chance of an item, and how many of the labels left are the rule's: those that the floor will need, with
    some to spare, are kept, so that it ends before the horizon with a negligible chance only."""
    needed = plan.floor * max(0, plan.horizon - t)
    beyond = left - needed - SPARE * sqrt(needed)
    pushed = PUSHES * PUSHED * needed
    least = plan.floor
    if predicted > 0:
        least *= PUSHED * (min(1.0, max(0.0, beyond) / pushed) if pushed else 1.0)
    return min(1.0, least), int(beyond - pushed)


@njit(**METHOD)
def _noted(plan, t, pi):
    """Keep the rule's chance, or its root, among the recent ones; it is returned."""
    plan.recent[t % RECENT] = pi = min(sqrt(pi) if plan.squared else pi, SURE)
    return pi


@njit(**METHOD)
def _eased(plan, pi, factor, rate):
    """A chance (or the root of one) whose odds are multiplied, above the floor of a rate."""
    odds = factor * pi
    eased = odds / (odds + 1 - pi)
    if plan.squared:
        return FLOOR * rate + (1 - FLOOR * rate) * eased * eased
    return FLOOR * rate + (1 - FLOOR * rate) * odds / (odds + 1 - pi)  # rounded as the logs of earlier versions were


@njit(**METHOD)
def _paced(plan, t, pi, left):
    """The chance of a rule, eased or hardened so that the labels left would be spent at an even rate.

    For pi = delta / (delta + |p|), or the root of its square, multiplying the odds is multiplying every delta; odds
    serve every other rule too. The factor is set by bisection: over the last rounds the mean chance is the rate. A
    label that is left behind the paced rounds, because an answer there was a skip, is asked for at once.
    """
    recent, force = plan.recent, plan.force
    end = plan.paced
    if t < end and left > plan.reserve:
        left -= plan.reserve
    elif plan.reserve or plan.floor:
        end = plan.horizon
    pi = _noted(plan, t, pi)
    if t < EVERY or t % EVERY == 0 or t > end - EVERY or t == plan.paced:
        rate, known = min(1.0, left / max(1, end - t)), min(t + 1, RECENT)
        low, high = 1 / EASIEST, EASIEST
        for _ in range(HALVINGS):
            factor, total = sqrt(low * high), 0.0
            for k in range(known):
                total += _eased(plan, recent[k], factor, rate)
            if total < rate * known:
                low = factor
            else:
                high = factor
        force[0], force[1] = sqrt(low * high), rate
    return _eased(plan, pi, force[0], force[1])


def extended(plan: Plan, more: Plan, t: int, all_spent: bool) -> Plan:
    """A plan with more labels from round t on, spent over the rounds left as in a stream that begins there; where the
    reserve is being spent, they are spent with it. The floor is what its labels, old and new, allow from here on."""
    horizon = max(plan.horizon, t + more.horizon)
    kept = 0.0 if all_spent else plan.floor * max(0, plan.horizon - t)
    floor = min(1.0, (kept + more.floor * more.horizon) / (horizon - t))
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
    """How many checks and how many other labels a plan has spent after so many rounds, if all goes as planned; no other
    ones where it leaves them to the rule."""
    t, floor = np.asarray(rounds), plan.floor * (1 + PUSHES * PUSHED)
    early = plan.budget - plan.audits - plan.reserve - round(floor * plan.horizon)
    checks = plan.audits * np.minimum(1, t / plan.horizon)
    if not plan.paced:
        return checks, 0 * t
    spent = (0, min(plan.first, early), early, early + plan.reserve)
    ends = np.maximum.accumulate((0, min(plan.first, early), plan.paced, plan.horizon))
    others = np.interp(t, ends, spent) + floor * np.minimum(t, plan.horizon)
    return checks, np.minimum(others, np.maximum(0, t - np.floor(checks)))  # no more than rounds


def plan(
    rule: str,
    budget: int | None,
    horizon: int,
    audit: float = 0.0,
    trains: bool = True,
    pace: float | None = None,
    values: Values = (),
    floor: float = 0.0,
) -> Plan | None:
    """The plan of a budget over so many rounds for a rule (by name), or None where nothing is planned.

    audit: share of the budget for checks, >= 0 and < 1. pace: share of the horizon in which the rest is spent evenly,
    > 0 and <= 1, or None: as the rule does by itself. values: the parameters of the rule. floor: share of the budget
    that gives every item a least chance of being asked, >= 0; with audit < 1.
    """
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
    audits = round(audit * budget)
    paced, reserve, first = max(1, round(pace * horizon)) if pace else 0, 0, own.first if own else 0
    if own and not pace:
        labels = budget - audits - round(floor * budget)
        reserve = min(labels // 2, max(0, labels - int(checked(QUERY_RULES[rule], rule, values)["early"])))
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
        getattr(QUERY_RULES[rule], "squared", False),
        bool(trains),
        np.zeros(2, np.int64),
        np.zeros(RECENT if paced else 0),
        np.zeros(2 if paced else 0),
    )

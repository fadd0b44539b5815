"""A pool of two learners that learn every answer and predict together, weighted by past accuracy."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..jit import always, inlined
from ..parameters import Parameter, counter, from_parameters
from ..rows import Row, entry, span
from ..vectors import add_multiple, divide, exp
from . import attainable, dual
from .dual import BIAS, EXPONENT, MEMORY, REVISITED, C, answered, answers, biased, cost, numbers, visit, with_bias
from .first_order import SMALLEST

MEMBERS = 2
# Fields of a record: discounted counts of hits, false alarms and misses, discounted sum of |margin| and number of
# margins, and the weight of the member.
HIT, ALARM, MISS, SIZE, SEEN, SHARE = range(6)


@from_parameters
def members(features):
    """Return the initial weights: zeros, with a row per member, a column per feature, and a column for the bias."""
    return np.zeros((MEMBERS, features + 1))


@from_parameters
def variances(features):
    """Return the initial variances: an array of ones, one per feature and one for the bias."""
    return np.ones(features + 1)


@from_parameters
def records():
    """Return an empty record for each member. A record counts how well the member predicted the answered rows before it
    learned them."""
    return np.zeros((MEMBERS, SHARE + 1))


@inlined
def _judge(self, x, y):
    """Discount each member's record, and add the member's prediction for a row that just got the label y."""
    for m in range(MEMBERS):
        record, p = self.records[m], biased(self.members[m], x, self.bias)
        for k in range(SHARE):
            record[k] *= self.discount
        record[SIZE] += abs(p)
        record[SEEN] += 1
        if p >= 0:
            record[HIT if y > 0 else ALARM] += 1
        elif y > 0:
            record[MISS] += 1


@inlined
def _f1(record):
    hits = 2 * record[HIT]
    return hits / (hits + record[ALARM] + record[MISS]) if hits > 0 else 0.0


@inlined
def _step(self, w, rows, k):
    """Make a step of ACOG-II with a diagonal covariance, eta = gamma = 1, on the answer stored at place k."""
    x, y, last = Row(rows, self.items[k]), self.labels[k], w.size - 1
    if y * biased(w, x, self.bias) < 1:
        step = cost(self, y) * y
        for n in span(x.rows, x.i):
            j, x_j = entry(x.rows, x.i, n)
            self.s[j] /= 1 + self.s[j] * x_j * x_j
            w[j] += step * self.s[j] * x_j
        self.s[last] /= 1 + self.s[last] * self.bias * self.bias
        w[last] += step * self.s[last] * self.bias


@inlined
def _combine(self):
    """Set w to the mean of the members' weight vectors, each weighted by exp(F1 / temperature) / mean |margin|. With
    few positives the F1 counts less."""
    mean = (_f1(self.records[0]) + _f1(self.records[1])) / MEMBERS
    trust = self.answers[1] / (self.answers[1] + 1)  # with few positives the members get similar weights
    self.w[:] = 0.0
    total = 0.0
    for m in range(MEMBERS):
        record, own = self.records[m], self.members[m]
        share = exp(trust * (_f1(record) - mean) / self.temperature)
        if record[SIZE] > SMALLEST:
            share *= record[SEEN] / record[SIZE]
        record[SHARE] = share
        total += share
        add_multiple(self.w, share, own)
    divide(self.w, total)


@inlined
def _learn(self, rows, place, earlier):
    """Let both members learn the new answer, stored at `place`, and some earlier answers again; then combine both."""
    for k in range(-1, self.visits if earlier else 0):
        answer = place if k < 0 else dual.revisited(self, place, earlier, k)
        visit(self, self.members[0], rows, answer)
        _step(self, self.members[1], rows, answer)
    _combine(self)


def _begin(self, j, value):
    self.w[j] = self.members[0, j] = self.members[1, j] = value


def _member_weights(self):
    shares = self.records[:, SHARE]
    return dict(zip(("dual", "ACOG-II, diagonal"), (shares / shares.sum()).tolist())) if shares.any() else {}


TEMPERATURE = Parameter(0.05, above=0, help="A member whose F1 is better by this gets e times the weight.")
DISCOUNT = Parameter(0.99, above=0, high=1, help="Factor on a member's record at each new answer.")


class Pool(NamedTuple):
    """Two members, `dual` and ACOG-II with a diagonal covariance (eta = gamma = 1), learn each answer, and then the
    same earlier answers again. Positives are weighted as in `dual`. The mean of their weight vectors predicts, with
    each member weighted by exp(F1 / temperature) / mean |margin|. A member's F1 and margins come from its predictions
    for the answered items; each new answer multiplies the weight of the earlier ones by `discount`."""

    w: with_bias
    members: members
    s: variances
    items: answered
    labels: numbers
    alphas: numbers
    answers: answers
    records: records
    C: float = C
    bias: float = BIAS
    exponent: float = EXPONENT
    visits: int = REVISITED
    memory: int = replace(MEMORY, drifting=100)
    temperature: float = TEMPERATURE
    discount: float = DISCOUNT

    revisits = True
    dense_update = always
    margin, weights = dual.margin, dual.weights
    begin, member_weights = _begin, property(_member_weights)

    def update(self, x, y, p, v, rho, theta):
        _judge(self, x, y)
        place, earlier = dual.keep(self, x, y, int(y > 0))
        _learn(self, x.rows, place, earlier)


class PoolF1(NamedTuple):
    """Like `pool`, but a positive weighs at least (2 - F) / F. F is the best F1 that can be expected; it is reached by
    pushing the items that are positive with a probability of at least F / 2. These probabilities are fitted to the
    margins that the stored answers had when they were asked for, with each answer counted 1 / chance times. The bound
    (2 - F) / F is limited to 3; it is lower with few positives, and lower if less than a quarter of the items are
    positive, down to 1 at a tenth. The exponent is increased by 0.3 few / (few + positives)."""

    w: with_bias
    members: members
    s: variances
    items: answered
    labels: numbers
    alphas: numbers
    answers: answers
    records: records
    margins: numbers
    chances: numbers
    ranked: answered
    by_f1: counter
    positive: counter
    C: float = C
    bias: float = BIAS
    exponent: float = EXPONENT
    visits: int = REVISITED
    memory: int = replace(MEMORY, drifting=100)
    temperature: float = TEMPERATURE
    discount: float = DISCOUNT
    few: float = Parameter(5.0, low=0, help="Number of positives after which half of the higher exponent is left.")

    revisits = True
    dense_update = always
    margin, weights = dual.margin, dual.weights
    begin, member_weights = _begin, property(_member_weights)

    def cost(self, y):
        return self.positive[0] if y > 0 else 1.0

    def note_chance(self, chance):
        self.chances[dual.n_answers(self) % self.memory] = chance

    def update(self, x, y, p, v, rho, theta):
        _judge(self, x, y)
        place, earlier = dual.keep(self, x, y, int(y > 0))
        attainable.rank(self, place, earlier + 1, p)
        self.positive[0] = attainable.positive_weight(self, place, earlier + 1)
        _learn(self, x.rows, place, earlier)


LEARNERS = {"pool": Pool, "pool-f1": PoolF1}

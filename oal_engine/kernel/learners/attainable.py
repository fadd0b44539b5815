"""The weight of positives for the best attainable F1. This F1 is estimated from the margins of the answered items.

Powers and logarithms are computed here from sums, products and roots, which every processor rounds alike. The last bits
of a C library's functions differ between machines, and a fit to hundreds of answers would soon magnify this.
"""

from math import sqrt

from ..jit import inlined
from .dual import n_answers
from .first_order import SMALLEST

HALVINGS = 10  # times that the argument of a power is halved, and then the result squared
LARGEST = 1e150  # margins are clipped to this size, so that their sums and squares are finite
FIRST = 10  # first answers, left out once there are more than twice as many: the model knew nothing when they came
LEARNED = 300  # number of answers from which on margins are not scaled down any more
HUNDRED = 100  # later a fit follows each time that 1 % more answers came: it is slow, and one answer changes little
HEAVIEST = 100.0  # largest weight 1 / chance of an answer
STEPS, CLOSE = 25, 1e-6  # most steps of Newton's method, and the length of a step after which it stops
SLOPE, CERTAINTY = 3.0, 3.0  # prior: mean of the slope (its variance is 1), and 1 / variance of the offset
FLATTEST = 0.05  # smallest slope
MOST = 3.0  # largest weight of a positive by F1
RARE, COMMON = 0.10, 0.25  # shares of positives up to which the weight is 1, and from which it counts in full


@inlined
def exponential(x):
    """Return e^x for |x| up to 40, to ten digits."""
    x /= 2.0**HALVINGS
    power = 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x / 720)))))
    for _ in range(HALVINGS):
        power *= power
    return power


@inlined
def logarithm(x):
    """Return the natural logarithm of a number from 1e-9 to 1e9, to ten digits."""
    for _ in range(HALVINGS):
        x = sqrt(x)
    part = (x - 1) / (x + 1)
    square = part * part
    return 2.0 ** (HALVINGS + 1) * part * (1 + square * (1 / 3 + square / 5))


@inlined
def chance_of(logit):
    """Return the probability that has these log odds (the logistic function)."""
    return 1 / (1 + exponential(-min(max(logit, -40.0), 40.0)))


@inlined
def rank(self, place, size, margin):
    """Insert the answer stored at `place` into `ranked`, the places of all `size` stored answers by descending margin.
    If it replaced an older answer there, the place moves to its new rank. margin: the item's margin in its round."""
    k = size - 1
    if n_answers(self) > size:
        while self.ranked[k] != place:
            k -= 1
    self.margins[place] = margin = min(max(margin, -LARGEST), LARGEST)
    while k + 1 < size and self.margins[self.ranked[k + 1]] >= margin:
        self.ranked[k] = self.ranked[k + 1]
        k += 1
    while k > 0 and self.margins[self.ranked[k - 1]] < margin:
        self.ranked[k] = self.ranked[k - 1]
        k -= 1
    self.ranked[k] = place


@inlined
def _weight(self, k):
    """Return how many items the answer at place k represents: 1 / its chance of being asked for, at most HEAVIEST."""
    return min(1 / self.chances[k], HEAVIEST)


@inlined
def _fit(self, place, size, unit, start):
    """Fit a logistic regression to the answers by Newton's method: log odds of a positive = slope * margin / unit +
    offset. Return the most probable slope (at least FLATTEST) and offset. place: place of the latest answer. start:
    prior mean of the offset."""
    n, slope, offset = n_answers(self), SLOPE, start
    for _ in range(STEPS):
        to_slope, to_offset = SLOPE - slope, CERTAINTY * (start - offset)
        of_slope, of_both, of_offset = 1.0, 0.0, CERTAINTY
        for k in range(size):
            number = n - (place - k) % self.memory
            if number > FIRST or n <= 2 * FIRST:
                # Margins of a model that had learned little are weaker evidence.
                z = self.margins[k] / unit * sqrt(sqrt(min(1.0, number / min(n, LEARNED))))
                p = chance_of(slope * z + offset)
                rest, spread = (self.labels[k] > 0) - p, p * (1 - p)
                to_slope += rest * z
                to_offset += rest
                of_slope += spread * z * z
                of_both += spread * z
                of_offset += spread
        determinant = of_slope * of_offset - of_both * of_both
        step = (of_offset * to_slope - of_both * to_offset) / determinant
        shift = (of_slope * to_offset - of_both * to_slope) / determinant
        longest = max(abs(step), abs(shift))
        short = min(1.0, 2 / longest) if longest > 0 else 1.0
        slope += short * step
        offset += short * shift
        if longest < CLOSE:
            break
    return max(slope, FLATTEST), offset


@inlined
def _by_f1(self, place, size, start):
    """Return the weight of a positive for the best attainable F1, or 0 if there are too few answers to estimate it."""
    n, positives = n_answers(self), self.answers[1]
    if positives < 2 or n - positives < 2 or n <= FIRST:
        return 0.0
    items, unit = 0.0, 0.0
    for k in range(size):
        items += _weight(self, k)
        unit += _weight(self, k) * abs(self.margins[k])
    unit /= items
    if unit <= SMALLEST:
        return 0.0
    slope, offset = _fit(self, place, size, unit, start)
    expected = 0.0
    for k in range(size):
        expected += _weight(self, k) * chance_of(slope * self.margins[k] / unit + offset)
    pushed, hits, best = 0.0, 0.0, 0.0
    for at in range(size):  # push the items with the largest margins, one more each time
        k = self.ranked[at]
        pushed += _weight(self, k)
        hits += _weight(self, k) * chance_of(slope * self.margins[k] / unit + offset)
        best = max(best, 2 * hits / (pushed + expected))
    common = min(max((expected / items - RARE) / (COMMON - RARE), 0.0), 1.0)
    return 1 + (min(MOST, (2 - best) / best) - 1) * positives / (positives + 3) * common


@inlined
def positive_weight(self, place, size):
    """Return the weight of a positive: the weight of `_by_f1` or, if it is larger, a power of the ratio of negative to
    positive answers. place: place of the latest answer, for which `rank` must have been called."""
    n, positives = n_answers(self), self.answers[1]
    ratio = logarithm((self.answers[0] + 1) / (positives + 1))
    more = 0.3 * self.few / (self.few + positives) if self.few > 0 else 0.0
    if n <= LEARNED or n % (n // HUNDRED) == 0:
        self.by_f1[0] = _by_f1(self, place, size, -0.15 - 0.8 * ratio)
    return max(exponential((self.exponent + more) * ratio), self.by_f1[0])

"""Turn margins into probabilities by Platt scaling (Platt 1999) over the answers of a session, each weighted by 1 / its
asking probability.

It uses the margins at the time of asking, before the answer was learned: a model is surer of items that it has learned
than of others. Over 24 settings of the demo and of three real streams, the log loss on the items not asked about was
0.69 times the loss of always predicting their share of positives. It was 0.71 times with the final margins (above 1 in
four settings), and 0.88 times with isotonic regression, which needs more labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

FEWEST = 20  # hits, and other answers: with fewer of either, the probability is missing
STEPS, HALVINGS = 100, 50  # limits of Newton's method: about seven steps suffice, and none of them is halved
EXACT = 1e-12  # gradient of the log loss at which Newton's method stops
LN_2 = log(2)
TERMS = 14  # of the Taylor series of exp: enough up to half of ln 2, to 1e-17


@dataclass(frozen=True)
class Calibration:
    """The probability of a hit at margin p, 1 / (1 + exp(-(slope p + intercept))), or the reason why it is missing.

    hit: name of a hit: "positive", or "right" (a right prediction) with several classes. labels, hits: number of
    labels, and of hits among them.
    """

    slope: float | None
    intercept: float | None
    labels: int
    hits: int
    hit: str
    reason: str | None = None

    def __call__(self, margins: np.ndarray) -> np.ndarray | None:
        """Return the probability of a hit at each of these margins; None if this probability is missing."""
        if self.slope is None or self.intercept is None:
            return None
        with np.errstate(over="ignore"):
            return _logistic(np.clip(self.slope * margins + self.intercept, -500, 500))

    def __str__(self) -> str:
        fitted = f"{self.labels:,} labels ({self.hits:,} {self.hit})"
        if self.reason:
            return f"No probability after {fitted}: {self.reason}."
        return f"Probability by Platt scaling on {fitted}, each weighted by 1 / its chance of being asked."


def fit(margins: Sequence[float], hits: Sequence[bool], weights: Sequence[float], hit: str = "positive") -> Calibration:
    """Fit a calibration to answers: their margins, whether each was a hit, and their weights."""
    x, is_hit, w = np.asarray(margins, float), np.asarray(hits, bool), np.asarray(weights, float)
    alike = "the margins do not tell them apart"
    labels, good = is_hit.size, int(is_hit.sum())
    if min(good, labels - good) < FEWEST:
        return Calibration(None, None, labels, good, hit, f"it takes {FEWEST} that are {hit} and {FEWEST} that are not")
    if not np.ptp(x):
        return Calibration(None, None, labels, good, hit, alike)
    size = float(x.std())
    # Platt's targets: with 1 and 0 the slope diverges where a threshold separates the hits from the rest.
    targets = np.where(is_hit, (good + 1) / (good + 2), 1 / (labels - good + 2))
    slope, intercept = _line(x / size, w / w.sum(), targets)
    slope /= size
    if not slope > 0:
        return Calibration(None, None, labels, good, hit, alike)
    return Calibration(slope, intercept, labels, good, hit)


def _line(x: np.ndarray, w: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Fit the slope and the intercept that minimize the log loss, by Newton's method."""
    features = np.array([x, np.ones(x.size)])
    line, chances = np.zeros(2), np.full(x.size, 0.5)
    for _ in range(STEPS):
        down = (w * (targets - chances) * features).sum(axis=1)
        (a, b), (_, c) = ((w * chances * (1 - chances) * row * features).sum(axis=1) for row in features)
        if not (np.abs(down).max() > EXACT and a * c > b * b):
            break
        step = np.array([c * down[0] - b * down[1], a * down[1] - b * down[0]]) / (a * c - b * b)
        slope = (down * step).sum()
        for _ in range(HALVINGS):  # halve the step until the loss is less steep along it at its end
            tried = line + step
            chances = _logistic(tried[0] * x + tried[1])
            if abs((w * (targets - chances) * (step[0] * x + step[1])).sum()) < slope:
                break
            step, slope = step / 2, slope / 2
        line = tried
    return float(line[0]), float(line[1])


def _logistic(numbers: np.ndarray) -> np.ndarray:
    """Compute the logistic function 1 / (1 + exp(-z)) of each number z, with the same bits on every machine: in a fixed
    order, and without the math library of the machine, which may round differently."""
    doublings = np.floor(0.5 - numbers / LN_2)
    rest = -numbers - doublings * LN_2
    power = np.ones(numbers.size)
    for n in range(TERMS, 0, -1):
        power = 1 + rest / n * power
    with np.errstate(over="ignore"):
        return 1 / (1 + np.ldexp(power, doublings.astype(int)))

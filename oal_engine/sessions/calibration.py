"""From margins to probabilities: Platt scaling over the answers of a session, each weighted by 1/pi (Platt 1999).

The margins are those with which the items were asked, before the answer was learned: a model is surer of items that it
has learned than of others. Over 24 settings of the demo and of three real streams the log loss on the items that were
not asked was 0.69 times that of predicting their share of positives everywhere; it was 0.71 times with the final
margins (above 1 in four settings), and 0.88 times with isotonic regression, which needs more labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 20  # answers of either kind: with fewer no probability is given


@dataclass(frozen=True)
class Calibration:
    """The probability of a hit at margin p, 1 / (1 + exp(-(slope p + intercept))), or the reason why there is none, in
    words; fitted on so many labels, of which so many were hits. hit: what a hit is called, positive or right."""

    slope: float | None
    intercept: float | None
    labels: int
    hits: int
    hit: str
    reason: str | None = None

    def __call__(self, margins: np.ndarray) -> np.ndarray | None:
        """The probabilities at margins, or None where the calibration has none."""
        if self.slope is None or self.intercept is None:
            return None
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-np.clip(self.slope * margins + self.intercept, -500, 500)))

    def __str__(self) -> str:
        fitted = f"{self.labels:,} labels ({self.hits:,} {self.hit})"
        if self.reason:
            return f"No probability after {fitted}: {self.reason}."
        return f"Probability by Platt scaling on {fitted}, each weighted by 1 / its chance of being asked."


def fit(margins: Sequence[float], hits: Sequence[bool], weights: Sequence[float], hit: str = "positive") -> Calibration:
    """The calibration of margins with or without a hit, each answer with its weight."""
    x, is_hit, w = np.asarray(margins, float), np.asarray(hits, bool), np.asarray(weights, float)
    labels, good = is_hit.size, int(is_hit.sum())
    if min(good, labels - good) < FEWEST:
        return Calibration(None, None, labels, good, hit, f"it takes {FEWEST} that are {hit} and {FEWEST} that are not")
    from scipy.optimize import minimize
    from scipy.special import expit

    size = float(x.std()) or 1.0
    x, w = np.column_stack([x / size, np.ones(labels)]), w / w.sum()
    # Platt's targets: with 1 and 0 the slope diverges where a threshold separates the hits from the rest.
    targets = np.where(is_hit, (good + 1) / (good + 2), 1 / (labels - good + 2))

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        z = x @ line
        return w @ (np.logaddexp(0, z) - targets * z), (w * (expit(z) - targets)) @ x

    slope, intercept = (minimize(loss, [0, 0], jac=True, method="BFGS", tol=1e-8).x / [size, 1]).tolist()
    if not slope > 0:
        return Calibration(None, None, labels, good, hit, "the margins do not tell them apart")
    return Calibration(slope, intercept, labels, good, hit)

"""From margins to probabilities: Platt scaling over the answers of a session, each weighted by 1/pi (Platt 1999).

The margins are those of the moment each item was asked, before its answer was learned: of an item that it has learned
from, a model is surer than of others. Over 24 settings of the demo and of three real streams the log loss on the items
that were not asked was 0.69 of what their share of positives gives, 0.71 with the final margins (and worse than that
share in four of them), and 0.88 with isotonic regression, which needs more labels.
"""

from dataclasses import dataclass

import numpy as np

FEWEST = 20  # answers of either kind, under which no probability is told


@dataclass(frozen=True)
class Calibration:
    """The chance of a hit at margin p, 1 / (1 + exp(-(slope p + intercept))), or, in words, the reason why there is
    none; fitted on so many labels, of which so many were hits. hit: what they are called, positive or right."""

    slope: float | None
    intercept: float | None
    labels: int
    hits: int
    hit: str
    reason: str | None = None

    def __call__(self, margins):
        """The probabilities at margins, None where there are none."""
        if self.reason:
            return None
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-np.clip(self.slope * margins + self.intercept, -500, 500)))

    def __str__(self):
        fitted = f"{self.labels:,} labels ({self.hits:,} {self.hit})"
        if self.reason:
            return f"No probability after {fitted}: {self.reason}."
        return f"Probability by Platt scaling on {fitted}, each weighted by 1 / its chance of being asked."


def fit(margins, hits, weights, hit="positive"):
    """The Calibration of margins at which there was a hit (bool) or none, each answer with its weight."""
    margins, hits = np.asarray(margins, float), np.asarray(hits, bool)
    labels, good = hits.size, int(hits.sum())
    if min(good, labels - good) < FEWEST:
        return Calibration(None, None, labels, good, hit, f"it takes {FEWEST} that are {hit} and {FEWEST} that are not")
    from sklearn.linear_model import LogisticRegression

    weights = np.asarray(weights, float) / np.mean(weights)
    size = margins.std() or 1.0
    targets = np.where(hits, (good + 1) / (good + 2), 1 / (labels - good + 2))  # Platt's: else what separates diverges
    twice = np.tile(margins / size, 2)[:, None]
    found = LogisticRegression(C=1e6).fit(
        twice, np.repeat([1, 0], labels), np.concatenate([weights * targets, weights * (1 - targets)])
    )
    slope, intercept = float(found.coef_[0, 0] / size), float(found.intercept_[0])
    if not slope > 0:
        return Calibration(None, None, labels, good, hit, "the margins do not tell them apart")
    return Calibration(slope, intercept, labels, good, hit)

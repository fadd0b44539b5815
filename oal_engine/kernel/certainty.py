"""Lower bounds for recall, precision, F1 and sum that hold at all points in time at once (a confidence sequence). They
are computed from the answers and the probabilities with which these were asked for.

Consider the positives that are not pushed, each asked about with a probability pi >= q_0, and let q < q_0. The product
of (1 - q / pi) / (1 - q) over those asked about and of 1 / (1 - q) over the others is a martingale with mean 1,
whatever the model learned and however the stream drifts. By Ville's inequality (1939) it stays below 1 / risk in all
rounds with probability 1 - risk, which bounds the number of these positives from above. For positives that are pushed,
the factors (1 + s / pi) / (1 + s) and 1 / (1 + s) bound their number from below. Means of such martingales over several
q or s are martingales too (mixtures: Howard et al. 2021). docs/certainty.md explains this, with measurements.
"""

import numpy as np

from .metrics import EVALUATIONS, METRICS, Weights

RISK = 0.05  # probability that any bound is ever too high
OF_HIDDEN = 0.7  # share of the risk that is spent on the positives that were not pushed
HIDDEN = np.array([0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # values of q / q_0; the mixture weights each by its size
PUSHED = np.array([1.0, 2.0, 4.0, 8.0])  # values of s / q_0; the mixture gives all the same weight
BOUNDED = ("recall", "precision", "f1", "sum")
HALVINGS = 60  # steps of a bisection

Tables = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]  # evaluation -> tp, fp, tn, fn at each time
Floors = dict[str, dict[str, np.ndarray]]  # evaluation -> metric -> lower bound at each time


def most_hidden(
    chance: np.ndarray, count: np.ndarray, answers: np.ndarray, promised: float, risk: float = RISK
) -> np.ndarray:
    """Return an upper bound for the number of positives that were not pushed, at each point in time.

    chance: probability of asking, per answer. count: 1 for positive answers about items not pushed, else 0 (a forecast
    has fractions). answers: number of answers before each point in time. promised: smallest probability of asking (> 0)
    that an item not pushed had so far. risk: probability that this bound or `fewest_pushed` is ever wrong.
    """
    q = promised * HIDDEN
    steps = count[:, None] * np.log1p(-q / np.where(count, chance, 1.0)[:, None])
    logs = _until(steps, answers) + np.log(HIDDEN / HIDDEN.sum())
    return _crossing(logs, -np.log1p(-q), risk * OF_HIDDEN)


def fewest_pushed(
    chance: np.ndarray, count: np.ndarray, answers: np.ndarray, promised: float, risk: float = RISK
) -> np.ndarray:
    """Return a lower bound for the number of positives that were pushed, at each point in time. The arguments are as in
    `most_hidden`, but `count` is 1 for positive answers about pushed items."""
    s = promised * PUSHED
    steps = count[:, None] * np.log1p(s / np.where(count, chance, 1.0)[:, None])
    return _crossing(_until(steps, answers) - np.log(s.size), -np.log1p(s), risk * (1 - OF_HIDDEN))


def _until(steps: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the sum of the first n rows of `steps` for each n in `answers`."""
    return np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])[answers]


def _crossing(logs: np.ndarray, slopes: np.ndarray, risk: float) -> np.ndarray:
    """Solve sum(exp(logs + K slopes)) = 1 / risk for K >= 0 by bisection. The result is 0 if there is no solution. The
    sum is over the last axis, and all slopes have the same sign."""
    rising, spare = slopes[0] > 0, np.sign(slopes) * np.log(slopes.size)
    low, high = np.zeros(len(logs)), np.max((spare - np.log(risk) - logs) / slopes, axis=1).clip(0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = np.logaddexp.reduce(logs + middle[:, None] * slopes, axis=1) < -np.log(risk)
        low, high = np.where(below == rising, middle, low), np.where(below == rising, high, middle)
    return low


def tables(
    label: np.ndarray, pushed: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray,
    pushes: np.ndarray, promised: float, true_pushes: np.ndarray | None = None, risk: float = RISK,
) -> Tables:  # fmt: skip
    """Return the worst confusion counts that are consistent with the answers, at each point in time. The true counts
    are never worse, with probability 1 - risk.

    label: +1, -1, or 0 for a skip, which counts as not positive. pushed: whether each answered item was predicted
    positive. answers, rounds, pushes: number of each before each point in time. promised: smallest probability of
    asking (> 0) of any item not pushed. true_pushes: number of positives among the pushes before each point in time, if
    a person has read all pushed items (None: bounded from the answers).
    """
    hits, others = [], []
    for side in (pushed, ~pushed):
        hits.append(_until((side & (label > 0))[:, None], answers)[:, 0])
        others.append(_until((side & (label <= 0))[:, None], answers)[:, 0])
    hidden = np.floor(most_hidden(chance, ~pushed & (label > 0), answers, promised, risk))
    hidden = np.clip(hidden, hits[1], rounds - pushes - others[1])
    if true_pushes is None:
        true_pushes = np.ceil(fewest_pushed(chance, pushed & (label > 0), answers, promised, risk))
    true_pushes = np.clip(true_pushes, hits[0], pushes - others[0])
    return {
        "push": (true_pushes, pushes - true_pushes, rounds - pushes - hidden, hidden),
        "push_query": (
            true_pushes + hits[1], pushes - true_pushes + others[1],
            rounds - pushes - hidden - others[1], hidden - hits[1],
        ),
    }  # fmt: skip


def floors(tables: Tables, weights: Weights = Weights()) -> Floors:
    """Compute lower bounds for recall, precision, F1 and sum: their values for the worst confusion counts."""
    return {name: {metric: METRICS[metric](*tables[name], weights) for metric in BOUNDED} for name in EVALUATIONS}

"""Lower bounds for recall, precision, F1 and sum that hold at all looks at once, computed from the questions and their
probabilities.

Consider the positives that are not pushed, each asked with a probability pi >= q_0 > q. The product of (1 - q / pi) /
(1 - q) over those asked and 1 / (1 - q) over the others is a martingale with mean 1, whatever the model learned and
however the stream drifts. Ville's inequality (1939) bounds it by 1 / risk at all rounds at once, and thereby bounds the
number of these positives from above. For positives that are pushed, (1 + s / pi) / (1 + s) and 1 / (1 + s) bound their
number from below. Means of such martingales over several q and s are martingales too (mixtures: Howard et al. 2021).
docs/certainty.md explains this, with measurements of how tight and how safe the bounds are.
"""

import numpy as np

from .metrics import EVALUATIONS, METRICS, Weights

RISK = 0.05  # probability that any bound at any look is too high
OF_HIDDEN = 0.7  # share of the risk that is spent on the positives that were not pushed
HIDDEN = np.array([0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # q as a share of q_0; the mixture weights each by its size
PUSHED = np.array([1.0, 2.0, 4.0, 8.0])  # s as a multiple of q_0; the mixture weights all alike
BOUNDED = ("recall", "precision", "f1", "sum")
HALVINGS = 60  # steps of a bisection

Tables = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]  # evaluation -> tp, fp, tn, fn at each look
Floors = dict[str, dict[str, np.ndarray]]  # evaluation -> metric -> its lower bound at each look


def most_hidden(
    chance: np.ndarray, count: np.ndarray, answers: np.ndarray, promised: float, risk: float = RISK
) -> np.ndarray:
    """Return the largest number of positives that were not pushed, as far as the answers allow it, at each look.

    chance: probability of asking, per answer. count: 1 for answers about such a positive, else 0 (a forecast has
    fractions). answers: number of answers before each look. promised: smallest probability of asking, > 0, that any
    item not pushed had so far. risk: of both bounds together.
    """
    q = promised * HIDDEN
    steps = count[:, None] * np.log1p(-q / np.where(count, chance, 1.0)[:, None])
    logs = _until(steps, answers) + np.log(HIDDEN / HIDDEN.sum())
    return _crossing(logs, -np.log1p(-q), risk * OF_HIDDEN)


def fewest_pushed(
    chance: np.ndarray, count: np.ndarray, answers: np.ndarray, promised: float, risk: float = RISK
) -> np.ndarray:
    """Return the smallest number of positives that were pushed, as far as the answers allow it. The arguments are as in
    `most_hidden`."""
    s = promised * PUSHED
    steps = count[:, None] * np.log1p(s / np.where(count, chance, 1.0)[:, None])
    return _crossing(_until(steps, answers) - np.log(s.size), -np.log1p(s), risk * (1 - OF_HIDDEN))


def _until(steps: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the sums of the first `answers` rows of steps."""
    return np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])[answers]


def _crossing(logs: np.ndarray, slopes: np.ndarray, risk: float) -> np.ndarray:
    """Solve sum(exp(logs + K slopes)) = 1 / risk for K over the last axis; slopes have one sign. Return 0 if the sum is
    past it at K = 0."""
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
    """Return the worst confusion counts that the answers allow at each look. All of them hold together with probability
    1 - risk.

    label: +1, -1, or 0 for a skip, which counts as not positive. pushed: whether the item of an answer was predicted
    positive. answers, rounds, pushes: numbers of each before a look. promised: smallest probability of asking, > 0, of
    an item not pushed. true_pushes: positives among the pushes before a look, if a person has read them all.
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
    """Return the metrics of the worst counts. The true recall, precision, F1 and sum are never lower."""
    return {name: {metric: METRICS[metric](*tables[name], weights) for metric in BOUNDED} for name in EVALUATIONS}

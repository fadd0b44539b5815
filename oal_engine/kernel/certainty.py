"""Floors under recall, precision, F1 and sum that hold at every look at once, from the questions and their chances.

Over the positives that are not pushed, each asked with a chance pi >= q_0 > q, the product of (1 - q / pi) / (1 - q)
for those asked and 1 / (1 - q) for the others is a martingale with mean 1, whatever the model learned and however the
stream drifts. Ville's inequality (1939) bounds it by 1 / risk at all rounds at once, and so the number of these
positives from above. Over the positives that are pushed, (1 + s / pi) / (1 + s) and 1 / (1 + s) bound their number from
below. Means of such martingales over several q and s are martingales too (mixtures: Howard et al. 2021).
docs/certainty.md explains it, and has how sharp and how safe it is.
"""

import numpy as np

from .metrics import EVALUATIONS, METRICS, Weights

RISK = 0.05  # that any number shown at any look is too high
OF_HIDDEN = 0.7  # share of the risk for the positives that were not pushed
HIDDEN = np.array([0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # q, as shares of q_0; the mixture weighs them by their size
PUSHED = np.array([1.0, 2.0, 4.0, 8.0])  # s, in q_0, all alike
KNOWN = ("recall", "precision", "f1", "sum")
HALVINGS = 60

Tables = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]  # evaluation -> tp, fp, tn, fn at each look
Floors = dict[str, dict[str, np.ndarray]]  # evaluation -> metric -> its lower bound at each look


def most_hidden(chance: np.ndarray, count: np.ndarray, answers: np.ndarray, promised: float) -> np.ndarray:
    """The largest number of positives not pushed that the answers allow, at looks after so many answers.

    chance: of each answer. count: how many such positives it is about (0 or 1; a forecast has fractions). promised:
    the least chance, > 0, that any item not pushed had so far.
    """
    q = promised * HIDDEN
    steps = count[:, None] * np.log1p(-q / np.where(count, chance, 1.0)[:, None])
    logs = _until(steps, answers) + np.log(HIDDEN / HIDDEN.sum())
    return _crossing(logs, -np.log1p(-q), RISK * OF_HIDDEN)


def fewest_pushed(chance: np.ndarray, count: np.ndarray, answers: np.ndarray, promised: float) -> np.ndarray:
    """The smallest number of positives that were pushed that the answers allow, in the same form."""
    s = promised * PUSHED
    steps = count[:, None] * np.log1p(s / np.where(count, chance, 1.0)[:, None])
    return _crossing(_until(steps, answers) - np.log(s.size), -np.log1p(s), RISK * (1 - OF_HIDDEN))


def _until(steps: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """The sums of the first so many lines."""
    return np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])[answers]


def _crossing(logs: np.ndarray, slopes: np.ndarray, risk: float) -> np.ndarray:
    """Where the sum over the last axis of exp(logs + K slopes), with slopes of one sign, is 1 / risk; 0 if before."""
    rising, spare = slopes[0] > 0, np.sign(slopes) * np.log(slopes.size)
    low, high = np.zeros(len(logs)), np.max((spare - np.log(risk) - logs) / slopes, axis=1).clip(0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = np.logaddexp.reduce(logs + middle[:, None] * slopes, axis=1) < -np.log(risk)
        low, high = np.where(below == rising, middle, low), np.where(below == rising, high, middle)
    return low


def tables(
    label: np.ndarray, pushed: np.ndarray, chance: np.ndarray, answers: np.ndarray, rounds: np.ndarray,
    pushes: np.ndarray, promised: float, found: np.ndarray | None = None,
) -> Tables:  # fmt: skip
    """The worst counts that the answers allow at looks after so many of them, when so many rounds and pushes had
    passed; all hold together, at all looks, with a risk of RISK.

    label: +1, -1, or 0 for a skip, which counts as not positive. pushed: whether an answer is about an item that was
    predicted positive. promised: the least chance, > 0, of an item not pushed. found: the positives among the pushes,
    where a person has read them all.
    """
    hits, others = [], []
    for side in (pushed, ~pushed):
        hits.append(_until((side & (label > 0))[:, None], answers)[:, 0])
        others.append(_until((side & (label <= 0))[:, None], answers)[:, 0])
    hidden = np.floor(most_hidden(chance, ~pushed & (label > 0), answers, promised))
    hidden = np.clip(hidden, hits[1], rounds - pushes - others[1])
    if found is None:
        found = np.ceil(fewest_pushed(chance, pushed & (label > 0), answers, promised))
    found = np.clip(found, hits[0], pushes - others[0])
    return {
        "push": (found, pushes - found, rounds - pushes - hidden, hidden),
        "push_query": (
            found + hits[1], pushes - found + others[1], rounds - pushes - hidden - others[1], hidden - hits[1],
        ),
    }  # fmt: skip


def floors(tables: Tables, weights: Weights = Weights()) -> Floors:
    """The metrics of the worst counts: recall, precision, F1 and sum are never lower."""
    return {name: {metric: METRICS[metric](*tables[name], weights) for metric in KNOWN} for name in EVALUATIONS}

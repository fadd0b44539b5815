"""An alarm when the items of a stream change, with a stated false alarm rate and without labels.

If items come in random order, the rank of each item among the earlier ones is uniform and independent of the earlier
ranks, whatever the items are like. The capital of bets against that is a martingale with mean 1 (conformal test
martingale: Vovk, Nouretdinov and Gammerman 2003; the jumper that places the bets: Vovk et al. 2021). Items are ranked
by several scores each. The mean capital of all bets is a martingale too, so by Ville's inequality (1939) it ever
reaches 1 / RISK with probability RISK at most. docs/feeds.md has measurements of how soon it does when items change.
"""

import numpy as np
from numba import njit

from .draws import draw, draws
from .rows import MixedRows, Rows, matrix

RISK = 0.05  # probability that there is ever an alarm if items come in random order
SCORES = 12  # ranked numbers per item
SEED = 1  # of the draws that break ties, and of the random signs
BETS = np.array([-1.8, -1.0, -0.4, 0.0, 0.4, 1.0, 1.8])  # slopes between -2 and 2; slope 0 keeps its capital
JUMPS = np.array([1e-3, 1e-4])  # shares of the capital that are redistributed over all bets at each item


def scores(rows: Rows, items: np.ndarray) -> np.ndarray:
    """Return the numbers by which items are ranked, shape (items, SCORES).

    Mixed rows give the first columns of their dense block (for texts, similar wording); other rows give sums of all
    columns with random signs.
    """
    if isinstance(rows, MixedRows):
        return rows.block.reshape(-1, rows.width)[items, :SCORES].astype(float)
    signs = np.where(draws(SEED, rows.columns * SCORES) < 0.5, -1.0, 1.0)
    return np.asarray(matrix(rows)[items] @ signs.reshape(-1, SCORES))


def alarm(values: np.ndarray, limit: float = 1 / RISK) -> tuple[int | None, float]:
    """Return the item at which the mean capital reaches `limit`, or None, and the capital there or at the end.

    values: scores in the order of the items, shape (items, scores).
    """
    if not values.size:
        return None, 1.0
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in values.T])
    at, capital = _bet(ranks, limit, BETS, JUMPS)
    return (None if at < 0 else at), capital


@njit(cache=True, nogil=True, error_model="numpy")
def _bet(ranks, limit, bets, jumps):
    """Return the first item at which the mean capital reaches the limit, or -1, and the capital."""
    scores, items = ranks.shape
    counts = np.zeros((scores, ranks.max() + 2), np.int64)  # Fenwick trees of the counts by rank
    capital = np.full((scores, jumps.size, bets.size), 1.0 / bets.size)
    total = 1.0
    for t in range(items):
        total = 0.0
        for k in range(scores):
            below, upto = _below(counts[k], ranks[k, t]), _below(counts[k], ranks[k, t] + 1)
            uniform = (t - upto + draw(SEED + k, t) * (upto - below + 1)) / (t + 1)
            _count(counts[k], ranks[k, t])
            for j in range(jumps.size):
                mean = capital[k, j].sum() / bets.size
                for b in range(bets.size):
                    held = (1 - jumps[j]) * capital[k, j, b] + jumps[j] * mean
                    capital[k, j, b] = held * (1 + bets[b] * (uniform - 0.5))
                    total += capital[k, j, b]
        total /= scores * jumps.size
        if total >= limit:
            return t, total
    return -1, total


@njit(cache=True, nogil=True)
def _below(counts, rank):
    """Return the number of counted items with a smaller rank."""
    total = 0
    while rank > 0:
        total += counts[rank]
        rank -= rank & -rank
    return total


@njit(cache=True, nogil=True)
def _count(counts, rank):
    """Add an item to the counts of its rank."""
    rank += 1
    while rank < counts.size:
        counts[rank] += 1
        rank += rank & -rank

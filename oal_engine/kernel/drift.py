"""An alarm where the items of a stream change, with a stated risk of a false one, and without labels.

Where the order of items says nothing, the rank of each among those before it is uniform and independent of the ranks
before, whatever the items are like. Bets against that have a capital that is a martingale with mean 1 (conformal test
martingale: Vovk, Nouretdinov and Gammerman 2003; the jumper that places them: Vovk et al. 2021). Items are ranked by
several numbers each, and the mean capital of all bets is a martingale too, so that by Ville's inequality (1939) it
reaches 1 / RISK at any time with probability RISK at most. docs/feeds.md has how soon it does where items change.
"""

import numpy as np
from numba import njit

from .draws import draw, draws
from .rows import MixedRows, Rows, matrix

RISK = 0.05  # that there is ever an alarm where the order of items says nothing
SCORES = 12  # numbers of each item by which it is ranked
SEED = 1  # of what breaks ties, and of sums by chance
BETS = np.array([-1.8, -1.0, -0.4, 0.0, 0.4, 1.0, 1.8])  # slopes, between -2 and 2; 0 keeps the capital
JUMPS = np.array([1e-3, 1e-4])  # shares of the capital that change their bet with each item


def scores(rows: Rows, items: np.ndarray) -> np.ndarray:
    """The numbers by which items are ranked, shape (items, SCORES): the first columns of the dense block of mixed rows,
    of texts those of similar wording, or else sums of all columns with signs by chance."""
    if isinstance(rows, MixedRows):
        return rows.block.reshape(-1, rows.width)[items, :SCORES].astype(float)
    signs = np.where(draws(SEED, rows.columns * SCORES) < 0.5, -1.0, 1.0)
    return np.asarray(matrix(rows)[items] @ signs.reshape(-1, SCORES))


def alarm(values: np.ndarray, limit: float = 1 / RISK) -> tuple[int | None, float]:
    """The item at which the mean capital reaches a limit, or None, and the capital at the end or there.

    values: shape (items, scores), in the order of the items.
    """
    if not values.size:
        return None, 1.0
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in values.T])
    at, capital = _bet(ranks, limit, BETS, JUMPS)
    return (None if at < 0 else at), capital


@njit(cache=True, nogil=True, error_model="numpy")
def _bet(ranks, limit, bets, jumps):
    """The first item at which the mean capital reaches a limit, or -1, and the capital."""
    scores, items = ranks.shape
    counts = np.zeros((scores, ranks.max() + 2), np.int64)  # of each rank, as a Fenwick tree
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
    """How many counted items have a smaller rank."""
    total = 0
    while rank > 0:
        total += counts[rank]
        rank -= rank & -rank
    return total


@njit(cache=True, nogil=True)
def _count(counts, rank):
    """Count an item of a rank."""
    rank += 1
    while rank < counts.size:
        counts[rank] += 1
        rank += rank & -rank

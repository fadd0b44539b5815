"""Two detectors of drift in a stream: `alarm` uses the items, without labels, and `change` uses the answers. If the
items come in random order, the two detectors together raise a false alarm in at most a share RISK of the streams.

**Items.** If items come in random order, the rank of each item among the earlier ones is uniform and independent of the
earlier ranks, whatever the items are like. The capital of bets against uniform ranks is then a martingale with mean 1
(conformal test martingale: Vovk, Nouretdinov and Gammerman 2003; the jumper that places the bets: Vovk et al. 2021).
Items are ranked by several scores each. The mean capital of all bets is a martingale too, so by Ville's inequality
(1939) the probability that it ever reaches 1 / ITEMS_RISK is at most ITEMS_RISK.

**Answers.** The share of positives in a part of the stream is estimated without bias from its answers, each weighted by
1 / its chance of being asked for, and from its pushes (the difference estimator: Cassel, Sarndal and Wretman 1976).
After each quarter of the stream, the shares before and after the end of every earlier quarter are compared. The shares
of positives among the pushed items and among the others are compared, too. A model that learns moves these two shares
apart, and a model that pushes more, or less, moves them in the same direction. If they move towards each other, the
positives are no longer the same kind of items. docs/feeds.md has measurements of all alarms.
"""

from collections.abc import Iterator
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from .draws import draw, draws
from .jit import entrance, inlined
from .rows import MixedRows, Rows, matrix

RISK = 0.05  # probability that there is ever an alarm if items come in random order
ITEMS_RISK = 0.02  # the part of RISK for the detector that uses the items
SCORES = 12  # ranked numbers per item
SEED = 1  # of the draws that break ties, and of the random signs
BETS = np.array([-1.8, -1.0, -0.4, 0.0, 0.4, 1.0, 1.8])  # slopes between -2 and 2; slope 0 keeps its capital
JUMPS = np.array([1e-3, 1e-4])  # shares of the capital that are redistributed over all bets at each item
LIMIT = 2.9  # standard errors of a change: ever exceeded in 2.5 % of streams that do not change if errors are normal
RARER = 8  # factor by which false alarms become rarer each time that the stream doubles beyond its planned length
BET_SECONDS = 1e-6  # of plain Python
FEWEST = 1  # smallest effective number of positive and of negative answers: with fewer the error is far from normal
BOTH = 1  # standard errors by which each of two shares must move towards the other


def scores(rows: Rows, items: np.ndarray) -> np.ndarray:
    """Return the scores by which items are ranked, shape (items, SCORES).

    For mixed rows these are the first columns of the dense block (for texts, they describe the wording); for other rows
    they are sums of all columns with random signs.
    """
    if isinstance(rows, MixedRows):
        return rows.block.reshape(-1, rows.width)[items, :SCORES].astype(float)
    signs = np.where(draws(SEED, rows.columns * SCORES) < 0.5, -1.0, 1.0)
    return np.asarray(matrix(rows)[items] @ signs.reshape(-1, SCORES))


def alarm(values: np.ndarray, limit: float = 1 / ITEMS_RISK) -> tuple[int | None, float]:
    """Return the index of the item at which the mean capital of the bets reaches `limit`, and the capital at this item.
    If it never does, return None and the capital after the last item.

    values: scores in the order of the items, shape (items, scores).
    """
    if not values.size:
        return None, 1.0
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in values.T])
    counts = np.zeros((len(ranks), ranks.max() + 2), np.int64)  # Fenwick trees of the counts by rank
    capital = np.full((len(ranks), JUMPS.size, BETS.size), 1.0 / BETS.size)
    at, total = _bet(ranks, limit, BETS, JUMPS, counts, capital)
    return (None if at < 0 else at), total


@entrance(lambda ranks, limit, bets, jumps, *_: ranks.size * bets.size * jumps.size * BET_SECONDS)
def _bet(ranks, limit, bets, jumps, counts, capital):
    """Return the result of `alarm` for items given by their ranks, shape (scores, items), but -1 instead of None.

    counts, capital: of each score, before the first item.
    """
    scores, items = ranks.shape
    total = 1.0
    for t in range(items):
        total = 0.0
        for k in range(scores):
            below, upto = _below(counts[k], ranks[k, t]), _below(counts[k], ranks[k, t] + 1)
            uniform = (t - upto + draw(SEED + k, t) * (upto - below + 1)) / (t + 1)
            _count(counts[k], ranks[k, t])
            for j in range(jumps.size):
                mean = 0.0
                for b in range(bets.size):
                    mean += capital[k, j, b]
                mean /= bets.size
                for b in range(bets.size):
                    held = (1 - jumps[j]) * capital[k, j, b] + jumps[j] * mean
                    capital[k, j, b] = held * (1 + bets[b] * (uniform - 0.5))
                    total += capital[k, j, b]
        total /= scores * jumps.size
        if total >= limit:
            return t, total
    return -1, total


@inlined
def _below(counts, rank):
    """Return the number of items in a Fenwick tree whose rank is below `rank`."""
    total = 0
    while rank > 0:
        total += counts[rank]
        rank -= rank & -rank
    return total


@inlined
def _count(counts, rank):
    """Add an item with this rank to a Fenwick tree of counts."""
    rank += 1
    while rank < counts.size:
        counts[rank] += 1
        rank += rank & -rank


class Change(NamedTuple):
    """A change in the stream that was detected from the answers.

    look: number of answers when it was noticed. since: number of answers before the change. before, after: the share of
    positives before and after the change, as a tuple of one. If instead the shares among the pushed items and among the
    others moved towards each other: a tuple of these two shares.
    """

    look: int
    since: int
    before: tuple[float, ...]
    after: tuple[float, ...]


def change(
    positive: np.ndarray, pushed: np.ndarray, chance: np.ndarray, rounds: np.ndarray, pushes: np.ndarray,
    horizon: int, streamed: int,
) -> Change | None:  # fmt: skip
    """Detect the first significant change in the answers. Return None if there is none.

    positive, pushed, chance: for each answer, whether it is positive, whether its item was predicted positive, and the
    chance with which it was asked. rounds, pushes: number of rounds and of pushes before the first answer (0) and after
    every answer. horizon: planned number of rounds. streamed: number of rounds so far.
    """
    for ends, limit in _looks(horizon, streamed):
        edges = np.append(0, np.searchsorted(rounds, ends, side="right") - 1)
        look = edges[-1]
        if not look:
            continue
        parts = positive[:look], pushed[:look], 1 / chance[:look]
        items = _of_items(*parts, rounds[: look + 1], pushes[: look + 1])
        sides = np.array([*_of_sides(*parts)])
        for steps, shares in ((items[0], items[None, 1:]), (_towards(*sides[:, 0]), sides[:, 1:])):
            for k, split in enumerate(edges[1:-1], start=1):
                if 0 < split < look and abs(steps[split]) > limit:
                    near = np.arange(edges[k - 1], edges[k + 1] + 1)  # in the quarters on both sides
                    since = int(near[np.argmax(np.sign(steps[split]) * steps[near])])
                    before, after = shares[:, :, since].clip(0, 1).T.tolist()
                    return Change(int(look), since, tuple(before), tuple(after))
    return None


def _looks(horizon: int, streamed: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield (ends, limit) for each test of the answers. A test compares consecutive parts of the stream. ends: the last
    round of each part; the test takes place at the last of these rounds. limit: largest difference, in standard errors,
    that does not count as a change."""
    unit, first, squared = horizon / 4, 2, LIMIT**2
    while True:
        for parts in range(first, 5):
            if unit * parts > streamed:
                return
            yield unit * np.arange(1, parts + 1), sqrt(squared)
        unit, first, squared = 2 * unit, 3, squared + 2 * log(RARER)


def _of_items(
    positive: np.ndarray, pushed: np.ndarray, weight: np.ndarray, rounds: np.ndarray, pushes: np.ndarray
) -> np.ndarray:
    """Compare the shares of positives in the stream before and after each point at which the answers can be split.
    Return the result of `_steps`, shape (3, answers + 1). The first and last column have no meaning."""
    side = pushed.astype(int)
    sizes, hits = (np.bincount(side, values, 2) for values in (weight, weight * positive))
    rates = np.divide(hits, sizes, out=np.zeros(2), where=sizes > 0)
    rate = rates[side]
    positives = _until(weight * (positive - rate)) + rates[0] * (rounds - pushes) + rates[1] * pushes
    share = positives[-1] / rounds[-1]
    # The chance of a positive is estimated from all answers of its side (pushed or not), not from the few of a part.
    variance = _until(weight * (weight - 1) * rate * (1 - rate)) + share * (1 - share) * rounds
    return _steps(positives, rounds, variance)


def _of_sides(positive: np.ndarray, pushed: np.ndarray, weight: np.ndarray) -> Iterator[np.ndarray]:
    """Yield two arrays like the result of `_of_items`: for the pushed items alone, and for the others alone."""
    for own in (weight * pushed, weight * ~pushed):
        rate = np.sum(own * positive) / max(np.sum(own), 1)
        yield _steps(_until(own * positive), _until(own), _until(own**2 * rate * (1 - rate)))


def _steps(positives: np.ndarray, items: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Compare the answers before and after every point at which they can be split. Return three values per point: the
    increase of the share of positives in standard errors, the share before, and the share after. positives, items,
    variance: cumulative sums of positives, of items, and of the variance of the positives. The increase is 0 if fewer
    than FEWEST positive or negative answers are expected on one side of the split."""
    with np.errstate(divide="ignore", invalid="ignore"):
        before, after = positives / items, (positives[-1] - positives) / (items[-1] - items)
        old, new = variance / items**2, (variance[-1] - variance) / (items[-1] - items) ** 2
        share = positives[-1] / items[-1]
        fewest = min(share, 1 - share) * share * (1 - share) / np.maximum(old, new)
        step = np.where(fewest >= FEWEST, (after - before) / np.sqrt(old + new), 0.0)
    return np.array([step, before, after])


def _towards(pushed: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return by how many standard errors two shares move towards each other. pushed, others: increase of each share in
    standard errors. The result is 0 unless `pushed` falls, `others` rises, and both by more than BOTH."""
    return np.where((pushed < -BOTH) & (others > BOTH), (others - pushed) / sqrt(2), 0.0)


def _until(values: np.ndarray) -> np.ndarray:
    """Return the cumulative sums of values, with a 0 before the first."""
    return np.append(0.0, np.cumsum(values))

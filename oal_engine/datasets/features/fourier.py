"""Random Fourier features: cosines and sines ("waves") of random combinations of a few columns, with which a linear
learner separates classes that no plane separates (Rahimi, Recht 2007).

All sums have a fixed order, and the math library of the machine, which may round differently, is not used: rows have
the same bits on every machine.
"""

from functools import reduce
from typing import TypedDict

import numpy as np

from ...kernel.draws import draws

WAVES = 256  # each a cosine and a sine
SHARE = 0.7  # of the waves in the squared length of a row
LENGTH = np.sqrt(SHARE / WAVES)  # of each wave
NORMAL = 12  # uniform numbers: their sum minus 6 is almost normal, with standard deviation 1
PAIRS = 10_001  # of rows; of an odd number of distances, one is the median
CHUNK_ROWS = 10_000
TERMS = 12  # of the series of cosine and sine: accurate to 1e-11 over half a turn
COSINE = np.array([1 / (2 * k * (2 * k - 1)) for k in range(TERMS, 0, -1)])
SINE = np.array([1 / (2 * k * (2 * k + 1)) for k in range(TERMS, 0, -1)])


class Fourier(TypedDict):
    """The seed of the random combinations, and the bandwidth: the distance over which a wave turns about 1 radian."""

    seed: int
    bandwidth: float


def fit(table: np.ndarray, seed: int = 0) -> Fourier:
    """Fit Fourier features to standardized columns: the bandwidth is half the median distance between rows."""
    return {"seed": seed, "bandwidth": _bandwidth(table, seed)}


def waves(fourier: Fourier, table: np.ndarray) -> np.ndarray:
    """Compute the Fourier features of a table of standardized columns: float32, shape (rows, 2 * WAVES).

    Each row has squared length SHARE. They are not centered: their mean is an intercept for learners that have none.
    """
    frequencies = _frequencies(fourier["seed"], fourier["bandwidth"], table.shape[1])
    result = np.empty((len(table), 2 * WAVES), np.float32)
    for first in range(0, len(table), CHUNK_ROWS):
        chunk = table[first : first + CHUNK_ROWS]
        turns = np.zeros((len(chunk), WAVES))
        for column, frequency in zip(chunk.T, frequencies):
            turns += column[:, None] * frequency
        angle = 2 * np.pi * (turns - np.floor(turns + 0.5))
        square = angle * angle
        cosine, sine = np.ones_like(square), np.ones_like(square)
        for n in range(TERMS):
            cosine = 1 - square * COSINE[n] * cosine
            sine = 1 - square * SINE[n] * sine
        result[first : first + CHUNK_ROWS] = np.hstack([LENGTH * cosine, LENGTH * angle * sine])
    return result


def _bandwidth(table: np.ndarray, seed: int) -> float:
    """Compute half the median distance between random pairs of different rows. Raise ValueError if no pair differs."""
    pairs = (draws(seed + 1, 2 * PAIRS) * len(table)).astype(np.int64)
    apart = table[pairs[:PAIRS]] - table[pairs[PAIRS:]]
    distances = np.sqrt(reduce(np.add, (apart * apart).T))
    different = np.sort(distances[distances > 0])
    if not different.size:
        raise ValueError("waves need rows that differ. Got rows that are all the same.")
    return float(different[different.size // 2] / 2)


def _frequencies(seed: int, bandwidth: float, columns: int) -> np.ndarray:
    """Draw the random frequency of each wave along each column, in turns per unit: shape (columns, WAVES)."""
    uniform = draws(seed, NORMAL * columns * WAVES).reshape(NORMAL, columns, WAVES)
    return (reduce(np.add, uniform) - NORMAL / 2) / (2 * np.pi * bandwidth)

"""Random numbers as a pure function of (seed, t), which does not depend on the version of any library."""

import numpy as np
from numba import njit

from .jit import METHOD


@njit(**METHOD)
def draw(seed, t):
    """Return the uniform random number of round t, in [0, 1): splitmix64 of seed and t (Steele et al. 2014)."""
    z = np.uint64(seed) + np.uint64(t + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@njit(cache=True)
def draws(seed, count):
    """Return the random numbers of rounds 0 .. count - 1 as an array."""
    numbers = np.empty(count)
    for t in range(count):
        numbers[t] = draw(seed, t)
    return numbers

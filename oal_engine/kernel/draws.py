"""Random numbers as a pure function of (seed, t), which does not depend on the version of any library."""

import numpy as np

from .jit import inlined, plain_form_of


@inlined
def _uniform(z):
    """Return a random number in [0, 1) for a counter: splitmix64 (Steele et al. 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * 2.0**-53  # before numpy 2.4 np.float64 makes a scalar of an array of one number


def _draw(seed, t):
    return _uniform(np.uint64(seed) + np.uint64(t + 1) * np.uint64(0x9E3779B97F4A7C15))


@plain_form_of(_draw)
def draw(seed, t):
    """Return the random number of round t, in [0, 1)."""
    return float(draws(int(seed), 1, int(t))[0])


def draws(seed: int, count: int, first: int = 0) -> np.ndarray:
    """Return the random numbers of `count` rounds from round `first` on as an array."""
    rounds = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    return _uniform(np.uint64(seed) + rounds * np.uint64(0x9E3779B97F4A7C15))

"""Operations on vectors: loops in machine code, numpy in plain Python, and the same bits in both."""

import math

import numpy as np

from .jit import plain_form_of


def _add_multiple(out, a, v):
    for i in range(out.size):
        out[i] += a * v[i]


@plain_form_of(_add_multiple)
def add_multiple(out, a, v):
    """Add a v to a vector, in place."""
    out += a * v


def _scale(out, a):
    for i in range(out.size):
        out[i] *= a


@plain_form_of(_scale)
def scale(out, a):
    """Multiply a vector by a number, in place."""
    out *= a


def _divide(out, a):
    for i in range(out.size):
        out[i] /= a


@plain_form_of(_divide)
def divide(out, a):
    """Divide a vector by a number, in place."""
    out /= a


def _inner(w, u):
    total = 0.0
    for i in range(u.size):
        total += w[i] * u[i]
    return total


@plain_form_of(_inner)
def inner(w, u):
    """Return the inner product of two vectors, summed from the first to the last."""
    return in_order(w * u)


def in_order(values):
    """Return the sum of an array over its first axis in plain Python, added from the first value to the last."""
    return np.add.accumulate(np.concatenate((np.zeros((1, *values.shape[1:])), values)))[-1]


@plain_form_of(lambda x: math.exp(x))
def exp(x):
    """Return e^x; infinity if it is too large for a float."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf

"""Several settings of one learner and rule side by side, so that a row is read once for all of them.

A stack has the named tuples of a single replay, with one more axis for the settings: arrays gain it as their last axis,
and numbers become arrays. `setting` takes one setting out of a stack, with arrays that are views.
`dots` computes the margins of all settings, each summed in the order of a single replay, and so with the same bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .jit import inlined, instruction
from .rows import entry, span


@instruction
def setting(stack, s):
    """Return the named tuple of setting s; its arrays are views."""
    return type(stack)(*(setting(part, s) for part in stack)) if isinstance(stack, tuple) else stack[..., s]


@inlined
def dots(w, x, sums, out):
    """Write the inner products of a row with stacked weights to `out`, each summed as `rows.dot` does.

    sums: scratch, shape (4, settings).
    """
    start, stop = span(x.rows, x.i).start, span(x.rows, x.i).stop
    whole = stop - (stop - start) % 4
    sums[:] = 0.0
    for k in range(start, stop):
        j, x_j = entry(x.rows, x.i, k)
        total, w_j = sums[np.uintp((k - start) % 4 if k < whole else 0)], w[np.uintp(j)]
        for s in range(np.uintp(out.size)):  # the compiler makes vectors of this loop: nothing else happens in it
            total[s] += w_j[s] * x_j
    for s in range(np.uintp(out.size)):
        out[s] = (sums[0, s] + sums[1, s]) + (sums[2, s] + sums[3, s])


def stacked(tuples: Sequence[Any]) -> Any:
    """Stack named tuples of one type, with a new last axis."""
    if isinstance(tuples[0], tuple):
        return type(tuples[0])(*map(stacked, zip(*tuples)))
    return np.stack(tuples, axis=-1)

"""Several settings of one learner and rule side by side, so that a row is read once for all of them.

A stack has the named tuples of a single replay, with one more axis for the settings: arrays gain it as their last axis,
and numbers become arrays. In compiled code `setting` takes one setting out of a stack, with arrays that are views.
`dots` computes the margins of all settings, each summed in the order of a single replay, and so with the same bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from .jit import INLINE
from .rows import entry, span


def _type_of_setting(stack):
    """Return the type of one setting of a stack: its named tuples, with views in place of its arrays."""
    if isinstance(stack, types.BaseTuple):
        return types.NamedTuple([_type_of_setting(part) for part in stack], stack.instance_class)
    return stack.dtype if stack.ndim == 1 else types.Array(stack.dtype, 1, "A")


def _take(context, builder, stack, result, value, s):
    """Generate code that takes one setting out of a stack."""
    if isinstance(stack, types.BaseTuple):
        parts = [
            _take(context, builder, part, kind, builder.extract_value(value, k), s)
            for k, (part, kind) in enumerate(zip(stack, result))
        ]
        return context.make_tuple(builder, result, parts)
    array = context.make_array(stack)(context, builder, value)
    first = builder.gep(array.data, [s])
    if stack.ndim == 1:
        return builder.load(first)
    view = context.make_array(result)(context, builder)
    size, stride = (builder.extract_value(each, 0) for each in (array.shape, array.strides))
    populate_array(view, first, [size], [stride], array.itemsize, None)
    return view._getvalue()


@intrinsic
def setting(typing, stack, s):
    """Return the named tuple of setting s; its arrays are views."""
    result = _type_of_setting(stack)

    def codegen(context, builder, signature, arguments):
        return _take(context, builder, stack, result, *arguments)

    return result(stack, types.intp), codegen


@njit(**INLINE)
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

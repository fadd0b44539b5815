"""Machine code by numba: compilation, a cache on disk that several processes share safely, and processor instructions.

This module is imported when machine code is needed (`jit.py`), because importing numba takes most of a second."""

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any
from uuid import uuid4

import numba.experimental.function_type  # now: a later import adds types while other threads look them up
from llvmlite import ir
from numba import _dispatcher, njit, types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

# No fastmath, so that every machine gets the same bits.
COMMON: Any = {"_nrt": False, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
LANES = 16  # partial sums over a block, as in `rows.lane_sum`
INLINE = COMMON | {"forceinline": True, "no_cpython_wrapper": True}
_loaded: set[tuple[Callable[..., Any], Hashable]] = set()


def let_call(function: Callable[..., Any], resolve: Callable[..., Any]) -> None:
    """Let machine code call a function: it runs what `resolve` returns for the types of the arguments."""
    overload(function, strict=False, jit_options=INLINE)(resolve)


@cache
def dispatcher_of(function: Callable[..., Any]) -> Any:
    """Return numba's dispatcher of a function, whose machine code is kept in the cache on disk."""
    return njit(cache=True, **COMMON)(function)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the kernel as machine code, which is loaded or compiled at its first call."""

    def call(*arguments: Any) -> Any:
        result = dispatcher_of(function)(*arguments)
        _loaded.add((function, _dispatcher.compute_fingerprint(arguments)))
        return result

    return call


def is_loaded(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Return whether the machine code of a function for arguments of these types is in memory."""
    return (function, _dispatcher.compute_fingerprint(arguments)) in _loaded


def types_of(arguments: tuple[Any, ...]) -> tuple[types.Type, ...]:
    """Return the numba types of arguments."""
    return tuple(map(numba.typeof, arguments))


def is_on_disk(function: Callable[..., Any], signature: tuple[types.Type, ...]) -> bool:
    """Return whether the machine code of a function for arguments of these types is in the cache on disk."""
    dispatcher = dispatcher_of(function)
    files = dispatcher._cache
    if isinstance(files, NullCache):
        return False
    return files._index_key(signature, dispatcher.targetctx.codegen()) in files._cache_file._load_index()


def _save(self: Any, key: Any, data: Any) -> None:
    """Save machine code in numba's cache in a file with a unique name, then add the name to the index.

    Numba's own method numbers the files by the index. Two processes that compile at the same time can therefore give
    the code of two learners the same file name, and another process would then run the code of the wrong learner.
    """
    name = self._data_name(uuid4().int)
    self._save_data(name, data)
    self._save_index(self._load_index() | {key: name})


IndexDataCacheFile.save = _save  # type: ignore[method-assign]


@intrinsic
def _prefetch_line(typing, array, index):
    def codegen(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data_cache = (ir.Constant(number, k) for k in (0, 3, 1))
        builder.call(instruction, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def _lane_sum(typing, w, first, x, start, count, squares):
    def codegen(context, builder, signature, arguments):
        lanes = ir.VectorType(ir.DoubleType(), LANES)
        arrays = [context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 2)]
        total = cgutils.alloca_once_value(builder, ir.Constant(lanes, None))

        def loaded(data, place):
            kind = ir.VectorType(data.type.pointee, LANES)
            address = builder.bitcast(builder.gep(data, [place]), kind.as_pointer())
            vector = builder.load(address, align=data.type.pointee.get_abi_size(context.target_data))
            return vector if kind == lanes else builder.fpext(vector, lanes)

        zero, step = ir.Constant(arguments[4].type, 0), ir.Constant(arguments[4].type, LANES)
        with cgutils.for_range_slice(builder, zero, arguments[4], step) as (k, _):
            w_k, x_k = (loaded(data, builder.add(arguments[at], k)) for data, at in zip(arrays, (1, 3)))
            product = builder.fmul(w_k, x_k)
            product = builder.select(arguments[5], builder.fmul(product, x_k), product)
            builder.store(builder.fadd(builder.load(total), product), total)
        rest, size = builder.load(total), LANES
        while size > 1:
            size //= 2
            halves = (ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(k, k + size))) for k in (0, size))
            rest = builder.fadd(*(builder.shuffle_vector(rest, rest, half) for half in halves))
        return builder.extract_element(rest, ir.Constant(ir.IntType(32), 0))

    return types.float64(w, types.intp, x, types.intp, types.intp, types.boolean), codegen


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
def _setting(typing, stack, s):
    result = _type_of_setting(stack)

    def codegen(context, builder, signature, arguments):
        return _take(context, builder, stack, result, *arguments)

    return result(stack, types.intp), codegen


# Wrapped, since an intrinsic has no signature that `overload` could look up.
INSTRUCTIONS: dict[str, Any] = {
    "prefetch_line": lambda array, index: _prefetch_line(array, index),
    "lane_sum": lambda w, first, x, start, count, squares: _lane_sum(w, first, x, start, count, squares),
    "setting": lambda stack, s: _setting(stack, s),
}

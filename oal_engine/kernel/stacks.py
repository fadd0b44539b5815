"""Several settings of one learner and rule side by side, so that a row is read once for all of them.

A stack has the named tuples of a single replay with one more dimension, the last: arrays gain it, and numbers become
arrays. Compiled code takes one setting out of a stack, whose arrays are views, or `LANES` settings at once. Then every
number is a vector of the processor, and a formula without a branch, such as the margin's, is computed for each lane in
the order in which a single replay computes it, with the same bits.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model
from numba.np.arrayobj import populate_array

LANES = 8
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class Numbers(types.Type):
    """One number per lane. A single number is converted to the same number in every lane."""

    def can_convert_from(self, typingctx, other):
        return Conversion.safe if other == types.float64 else None

    def unify(self, typingctx, other):
        return self if other == types.float64 else None


class Columns(types.Type):
    """A stacked array from one setting on. Its element j is one number per lane."""

    def __init__(self, array):
        self.array = array
        super().__init__(f"Columns({array})")


NUMBERS = Numbers("Numbers")


@register_model(Numbers)
class NumbersModel(models.PrimitiveModel):
    """Numbers are stored as a vector of the processor."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, VECTOR)


@register_model(Columns)
class ColumnsModel(models.StructModel):
    """Columns are stored as the address of the first lane's first element, and the bytes between two elements."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("data", types.CPointer(kind.array.dtype)), ("stride", types.intp)])


@lower_cast(types.float64, NUMBERS)
def _everywhere(context, builder, source, target, number):
    place, nothing = ir.Constant(ir.IntType(32), 0), ir.Constant(VECTOR, ir.Undefined)
    first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    return builder.shuffle_vector(builder.insert_element(nothing, number, place), nothing, first)


def _root(builder, numbers):
    kind = ir.FunctionType(VECTOR, [VECTOR])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f64"), [numbers])


def _lane_by_lane(operation, operands, instruction):
    """Define an operation on numbers by an instruction that works on every lane."""
    kinds = [NUMBERS] * operands
    infer_global(operation)(type("Each", (ConcreteTemplate,), {"cases": [signature(NUMBERS, *kinds)]}))

    @lower_builtin(operation, *kinds)
    def lower(context, builder, signature, arguments):
        return instruction(builder, *arguments)


_lane_by_lane(math.sqrt, 1, _root)
for name in ("add", "sub", "mul", "truediv"):
    for in_place in ("", "i"):
        _lane_by_lane(getattr(operator, in_place + name), 2, getattr(ir.IRBuilder, "f" + name.removeprefix("true")))


@infer_global(operator.getitem)
class Element(AbstractTemplate):
    """The type of an element of columns."""

    def generic(self, args, kws):
        of_columns = isinstance(args[0], Columns) and isinstance(args[1], types.Integer)
        return signature(NUMBERS, args[0], types.uintp) if of_columns else None


@lower_builtin(operator.getitem, Columns, types.Integer)
def _element(context, builder, signature, arguments):
    columns = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
    data = builder.bitcast(columns.data, ir.IntType(8).as_pointer())
    place = builder.gep(data, [builder.mul(arguments[1], columns.stride)])
    return builder.load(builder.bitcast(place, VECTOR.as_pointer()), align=8)


def _extracted_type(stack, of_numbers, of_array):
    """Return the type of one or more settings of a stack: its named tuples, with other types in place of its arrays."""
    if isinstance(stack, types.BaseTuple):
        return types.NamedTuple([_extracted_type(each, of_numbers, of_array) for each in stack], stack.instance_class)
    return of_numbers(stack) if stack.ndim == 1 else of_array(stack)


def _extract(context, builder, stack, result, value, s, make):
    """Generate the value of one or more settings of a stack."""
    if isinstance(stack, types.BaseTuple):
        parts = [
            _extract(context, builder, each, part, builder.extract_value(value, k), s, make)
            for k, (each, part) in enumerate(zip(stack, result))
        ]
        return context.make_tuple(builder, result, parts)
    array = context.make_array(stack)(context, builder, value)
    return make(context, builder, array, builder.gep(array.data, [s]), result)


@intrinsic
def setting(typing, stack, s):
    """Return the named tuple of setting s; its arrays are views."""
    result = _extracted_type(stack, lambda kind: kind.dtype, lambda kind: types.Array(kind.dtype, 1, "A"))

    def view(context, builder, array, place, kind):
        if not isinstance(kind, types.Array):
            return builder.load(place)
        result_array = context.make_array(kind)(context, builder)
        size, stride = (builder.extract_value(each, 0) for each in (array.shape, array.strides))
        populate_array(result_array, place, [size], [stride], array.itemsize, None)
        return result_array._getvalue()

    def codegen(context, builder, signature, arguments):
        return _extract(context, builder, stack, result, *arguments, view)

    return result(stack, types.intp), codegen


@intrinsic
def lanes(typing, stack, s):
    """Return the named tuple of LANES settings from s on, with Numbers in place of every number."""
    result = _extracted_type(stack, lambda kind: NUMBERS, Columns)

    def view(context, builder, array, place, kind):
        if kind == NUMBERS:
            return builder.load(builder.bitcast(place, VECTOR.as_pointer()), align=8)
        columns = cgutils.create_struct_proxy(kind)(context, builder)
        columns.data, columns.stride = place, builder.extract_value(array.strides, 0)
        return columns._getvalue()

    def codegen(context, builder, signature, arguments):
        return _extract(context, builder, stack, result, *arguments, view)

    return result(stack, types.intp), codegen


@intrinsic
def write_lanes(typing, array, s, numbers):
    """Write the numbers of LANES settings into an array, from s on."""

    def codegen(context, builder, signature, arguments):
        place = builder.gep(context.make_array(array)(context, builder, arguments[0]).data, [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, NUMBERS), codegen


def stacked(tuples: Sequence[Any]) -> Any:
    """Stack named tuples of one type, repeating the last one up to a multiple of LANES."""
    if isinstance(tuples[0], tuple):
        return type(tuples[0])(*map(stacked, zip(*tuples)))
    return np.stack([*tuples, *[tuples[-1]] * (-len(tuples) % LANES)], axis=-1)

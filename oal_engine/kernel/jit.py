"""Methods of named tuples inside compiled code."""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

METHOD: Any = {
    "_nrt": False,
    "forceinline": True,
    "error_model": "numpy",
    "nogil": True,
}  # no fastmath: the same bits everywhere
INLINE = METHOD | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # compiled code calls these, Python does not


def always(self: object) -> bool:
    """A method that says yes."""
    return True


def never(self: object) -> bool:
    """A method that says no."""
    return False


def method(name: str, default: Any = None) -> Callable[..., Any]:
    """Return a function f(self, ...) that numba resolves to the method `name` of self's class at compile time.

    Plain Python code calls the same method; a class without it gets `default`.
    """

    def call(self: object, *arguments: Any) -> Any:
        return getattr(type(self), name, default)(self, *arguments)

    def resolve(self: object, *arguments: Any) -> Any:
        return getattr(getattr(self, "instance_class", None), name, default)

    overload(call, strict=False, jit_options=INLINE)(resolve)
    return call

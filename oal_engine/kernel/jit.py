"""Methods of named tuples inside compiled code."""

from collections.abc import Callable
from typing import Any

import numba.experimental.function_type  # noqa: F401  # as a late import adds types while other threads look them up
from numba.extending import overload

METHOD: Any = {
    "_nrt": False,
    "forceinline": True,
    "error_model": "numpy",
    "nogil": True,
}  # no fastmath, so that every machine gets the same bits
INLINE = METHOD | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called by compiled code only


def always(self: object) -> bool:
    """Return True: a trait that a class has."""
    return True


def never(self: object) -> bool:
    """Return False: a trait that a class does not have."""
    return False


def method(name: str, default: Any = None) -> Callable[..., Any]:
    """Return a function f(self, ...) that numba resolves to the method `name` of self's class at compile time.

    In plain Python it calls the same method. A class without the method gets `default`.
    """

    def call(self: object, *arguments: Any) -> Any:
        return getattr(type(self), name, default)(self, *arguments)

    def resolve(self: object, *arguments: Any) -> Any:
        return getattr(getattr(self, "instance_class", None), name, default)

    overload(call, strict=False, jit_options=INLINE)(resolve)
    return call

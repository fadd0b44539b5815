"""Methods of named tuples inside compiled code, and machine code on disk that several processes share."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numba.experimental.function_type  # noqa: F401  # as a late import adds types while other threads look them up
from numba.core.caching import IndexDataCacheFile
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


def _save(self: Any, key: Any, data: Any) -> None:
    """Write machine code into a file of its own, then its name into the index.

    Numba's own method numbers the files by the index, so that processes which compile at the same time can give the
    code of two learners the same name; others would then run the code of the wrong one.
    """
    name = self._data_name(uuid4().int)
    self._save_data(name, data)
    self._save_index(self._load_index() | {key: name})


IndexDataCacheFile.save = _save  # type: ignore[method-assign]

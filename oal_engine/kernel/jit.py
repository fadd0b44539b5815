"""Methods of named tuples in code compiled by numba, and a numba disk cache that several processes can share safely."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numba.experimental.function_type  # noqa: F401  # now: a later import adds types while other threads look them up
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
    """Return True. Classes use it to declare that they have a trait, as in `dense_update = always`."""
    return True


def never(self: object) -> bool:
    """Return False. Classes use it to declare that they do not have a trait, as in `has_sign = never`."""
    return False


def method(name: str, default: Any = None) -> Callable[..., Any]:
    """Return a function f(self, ...) that numba resolves to the method `name` of self's class at compile time.

    In plain Python f calls the same method. For a class without the method, f calls `default`.
    """

    def call(self: object, *arguments: Any) -> Any:
        return getattr(type(self), name, default)(self, *arguments)

    def resolve(self: object, *arguments: Any) -> Any:
        return getattr(getattr(self, "instance_class", None), name, default)

    overload(call, strict=False, jit_options=INLINE)(resolve)
    return call


def _save(self: Any, key: Any, data: Any) -> None:
    """Save machine code in numba's cache in a file with a unique name, then add the name to the index.

    Numba's own method numbers the files by the index. Two processes that compile at the same time can therefore give
    the code of two learners the same file name, and another process would then run the code of the wrong learner.
    """
    name = self._data_name(uuid4().int)
    self._save_data(name, data)
    self._save_index(self._load_index() | {key: name})


IndexDataCacheFile.save = _save  # type: ignore[method-assign]

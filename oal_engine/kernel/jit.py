"""Every function of the kernel in two forms with the same bits: plain Python, and machine code that numba compiles.

Plain Python begins at once; machine code is a thousand times faster, and takes seconds to compile. A function that
Python calls is marked `entrance`, and each call chooses: the machine code if it is in memory or in the cache on disk,
plain Python if not and the work so far is small, else it compiles. All other functions are marked `inlined`, and named
tuples have `method`s. numba is imported when it is needed, by `machine_code.py` alone.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

BRIEF_SECONDS = 0.05  # work in plain Python that is not worth importing numba and loading machine code
LONG_SECONDS = 4.0  # work in plain Python, at once or in sum, that is worth compiling

compiles_elsewhere = False  # True in a server: steps of a session wait for no compiler, whatever they take in sum

PLAIN, MACHINE = "plain", "machine"
_form: ContextVar[str | None] = ContextVar(
    "form", default=PLAIN if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" else None
)
_importing = threading.Lock()
_resolvers: list[tuple[Callable[..., Any], Callable[..., Any]]] = []  # of the functions that machine code may call
_spent: defaultdict[Hashable, float] = defaultdict(float)  # seconds of plain Python, by kind of work
_seen_on_disk: dict[tuple[str, Any], bool] = {}  # whether machine code was in the cache, by function and argument types


@contextmanager
def form(wanted: str | None) -> Iterator[None]:
    """Run the functions of the kernel in one form only, PLAIN or MACHINE, in this thread; None: each call chooses."""
    token = _form.set(wanted)
    try:
        yield
    finally:
        _form.reset(token)


@contextmanager
def whole_stream(kind: Hashable, seconds: float) -> Iterator[None]:
    """Run a whole stream, one of perhaps many of this kind: in machine code once they together are long.

    kind: None if it is the only one. seconds: how long plain Python takes for this one.
    """
    if kind:
        _spent[kind] = seconds = _spent[kind] + seconds
    with form(_form.get() or (MACHINE if seconds > LONG_SECONDS else None)):
        yield


@cache
def _imported() -> ModuleType:
    from . import machine_code

    for function, resolve in _resolvers:
        machine_code.let_call(function, resolve)
    return machine_code


def machine_code() -> ModuleType:
    """Import numba, and tell it which functions machine code may call. Two threads that import it at once may fail."""
    with _importing:
        return _imported()


def look_again() -> None:
    """Look for machine code on disk again, since another process has compiled some."""
    machine_code()
    _seen_on_disk.clear()


def in_machine_code(resolve: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that machine code may call. `resolve` gets the types of its arguments, and returns the
    function that is compiled in its place."""

    def decorate(function: Callable[..., Any]) -> Any:
        with _importing:
            _resolvers.append((function, resolve))
            if _imported.cache_info().currsize:
                _imported().let_call(function, resolve)
        return function

    return decorate


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a function that other functions of the kernel call, in either form."""
    return in_machine_code(lambda *arguments: function)(function)


def plain_form_of(loop: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate the plain form of a function: it does with numpy, to the bit, what `loop` does in machine code."""
    return in_machine_code(lambda *arguments: loop)


def instruction(function: Callable[..., Any]) -> Any:
    """Decorate the plain form of a function that `machine_code.INSTRUCTIONS` has under the same name."""
    return in_machine_code(lambda *arguments: machine_code().INSTRUCTIONS[function.__name__])(function)


def method(name: str, default: Any = None, plain: Any = None) -> Callable[..., Any]:
    """Return a function f(self, ...) that calls the method `name` of self's class or, if it has none, `default`.

    plain: function that replaces f in plain Python, for every class and to the bit.
    """

    def call(self: object, *arguments: Any) -> Any:
        return getattr(type(self), name, default)(self, *arguments)

    def resolve(self: Any, *arguments: Any) -> Any:
        return getattr(getattr(self, "instance_class", None), name, default)

    return in_machine_code(resolve)(plain or call)


def entrance(seconds: Callable[..., float]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that Python calls; other functions of the kernel may call it too.

    seconds: function of the same arguments that estimates how long plain Python takes.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            kind = function.__qualname__, *map(type, arguments)
            if _runs_as_machine_code(function, arguments, seconds, kind):
                return machine_code().compiled(function)(*arguments)
            begun = perf_counter()
            with form(PLAIN), np.errstate(all="ignore"):  # machine code knows no warnings
                result = function(*arguments)
            _spent[kind] += perf_counter() - begun
            return result

        return in_machine_code(lambda *arguments: function)(call)

    return decorate


def _runs_as_machine_code(
    function: Callable[..., Any], arguments: tuple[Any, ...], seconds: Callable[..., float], kind: Hashable
) -> bool:
    """Choose the form in which a function runs with these arguments."""
    if wanted := _form.get():
        return wanted == MACHINE
    is_imported = _imported.cache_info().currsize
    if is_imported and machine_code().is_loaded(function, arguments):
        return True
    expected = seconds(*arguments)
    if expected > LONG_SECONDS or (_spent[kind] > LONG_SECONDS and not compiles_elsewhere):
        return True
    if not is_imported and (expected < BRIEF_SECONDS or not any_on_disk()):
        return False
    key = function.__qualname__, machine_code().types_of(arguments)
    if key not in _seen_on_disk:
        _seen_on_disk[key] = machine_code().is_on_disk(function, key[1])
    return _seen_on_disk[key]


@cache
def any_on_disk() -> bool:
    """Return whether the cache had any machine code when this process first needed some."""
    folder = os.environ["NUMBA_CACHE_DIR"]
    return os.path.isdir(folder) and any(files for _, _, files in os.walk(folder))


def always(self: object) -> bool:
    """Return True. Classes use it to declare that they have a trait, as in `dense_update = always`."""
    return True


def never(self: object) -> bool:
    """Return False. Classes use it to declare that they do not have a trait, as in `has_sign = never`."""
    return False

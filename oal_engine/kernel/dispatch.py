"""Methods of named tuples inside compiled code."""

from numba.extending import overload

METHOD = {
    "_nrt": False,
    "forceinline": True,
    "error_model": "numpy",
    "nogil": True,
}  # no fastmath: the same bits everywhere
INLINE = METHOD | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # compiled code calls these, Python does not


def always(self):
    """A method that says yes."""
    return True


def method(name, default=None):
    """Return a function f(self, ...) that numba resolves to the method `name` of self's class at compile time.

    Plain Python code calls the same method; a class without it gets `default`.
    """

    def call(self, *arguments):
        return getattr(type(self), name, default)(self, *arguments)

    def resolve(self, *arguments):
        return getattr(getattr(self, "instance_class", None), name, default)

    overload(call, strict=False, jit_options=METHOD)(resolve)
    return call

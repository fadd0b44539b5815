import pytest

from oal_engine.kernel import jit


@pytest.fixture(autouse=True)
def machine_code_at_night(request):
    """Slow tests of the kernel run in machine code; in the quick ones each call chooses, since compiling takes
    seconds."""
    with jit.form(jit.MACHINE if request.node.get_closest_marker("slow") else None):
        yield

"""The tests, in folders after the wings; what several of them use stands in `harness`."""

import pytest

pytest.register_assert_rewrite("tests.harness")

"""The tests, in folders named after the parts of the project. Code that several folders use is in `harness`."""

import pytest

pytest.register_assert_rewrite("tests.harness")

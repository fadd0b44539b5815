"""Damaged files do no harm: every reader of foreign files reads them, or refuses them with a one-sentence error."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.mutations import ALONE, MAKERS, SECONDS, mutated, refusal, target

NAMES = [name for name in MAKERS if name not in ALONE]

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file:UserWarning")]


@pytest.fixture
def read_by(request, tmp_path_factory):
    """The fuzzing target with the name in the test's parameter: a reader of files, and valid files for it."""
    return target(request.param, tmp_path_factory.mktemp("target"))


@pytest.mark.parametrize("read_by", MAKERS, indirect=True)
def test_undamaged_files_are_read(read_by):
    assert [None] * len(read_by.files) == [refusal(read_by, file) for file in read_by.files]


@pytest.mark.parametrize("read_by", NAMES, indirect=True)
def test_a_damaged_file_is_read_or_refused_in_one_sentence(read_by):
    """Reading a damaged file succeeds or raises ValueError with a one-sentence message, within SECONDS of processor
    time."""

    @settings(deadline=None, max_examples=60, database=None)
    @given(st.randoms(use_true_random=False))
    def read_damaged(random):
        start = process_time()
        refusal(read_by, mutated(random.choice(read_by.files), read_by.files, random))
        assert process_time() - start < SECONDS

    read_damaged()

"""Whatever fails at any step, acknowledged events are stored exactly once; the session is verified and continues."""

from collections import Counter

import pytest

from tests.harness import faults

SEEDS = 200
EACH = 10  # seeds in each test


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return faults.prepared(tmp_path_factory.mktemp("template"))


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(EACH, SEEDS, EACH))]
)
def test_nothing_is_lost_or_doubled(template, tmp_path, first):
    """People answer, undo, skip, correct, mark, note, tag and append while processes are killed, the disk is full, the
    database is locked and the clock is wrong. No event is lost or duplicated. `python benchmarks/faults.py --seed N`
    replays a seed."""
    seeds = range(first, first + EACH)
    done = sum((faults.replay(seed, template, tmp_path / str(seed)) for seed in seeds), Counter())
    assert min(done[what] for what in ("events", "kills", "errors", "unsaved")) > EACH


def test_nothing_is_lost_or_doubled_where_processes_are_killed_by_a_signal(template, tmp_path):
    """The same holds for real processes that SIGKILL ends in the middle of an event."""
    done = sum((faults.replay(seed, template, tmp_path / str(seed), real=True) for seed in range(4)), Counter())
    assert done["real kills"] > 4

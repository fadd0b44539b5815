"""Whether the items of a stream have changed, from the items alone (`kernel.drift`); docs/feeds.md says what it means.

What was imported and what came later are two streams: rows are made by what was found in the first, so that the items
of the second differ from them by that alone.
"""

from weakref import WeakKeyDictionary

from ...datasets.features import duplicates
from ...kernel import drift
from ..fold import Run

GROWTH = 1.02  # of the rounds, after which it is looked again

_looks = WeakKeyDictionary[Run, tuple[int, int | None]]()  # the rounds that were looked at, and where the alarm came


def noticed(run: Run) -> int | None:
    """The round at which a change of the items was noticed, or None. Where their order says nothing, there is ever such
    a round in a share drift.RISK of the sessions at most.

    Where near-duplicates are left out it is always None: what is often said comes early, and its copies do not follow.
    """
    if run.dataset.record["near_duplicates"] == duplicates.ONCE:
        return None
    rounds = run.state.streamed
    looked, at = _looks.get(run, (0, None))
    if at is None and rounds > looked * GROWTH:
        at = _alarm(run, rounds)
        _looks[run] = rounds, at
    return at if at is not None and at < rounds else None


def _alarm(run: Run, rounds: int) -> int | None:
    settings, limit, capital = run.settings, 1 / drift.RISK, 1.0
    values = drift.scores(run.dataset.rows, run.order[:rounds])
    if settings.shuffled:  # the first items have no order that could say anything
        later = settings.items
    else:
        later, limit = _imported(run), 2 * limit  # the mean of two capitals is a martingale as well
        at, capital = drift.alarm(values[:later], limit - 1)
        if at is not None:
            return at
        limit -= capital
    at, _ = drift.alarm(values[later:], limit)
    return None if at is None else later + at


def _imported(run: Run) -> int:
    """How many items the import had; where an older version made it, how many there were when the session began."""
    batches = run.store.batches(run.settings.dataset)
    return int(batches[0]["items"]) if batches and not batches[0]["first"] else run.settings.items


def sentence(run: Run) -> str | None:
    """That the items have changed, in a sentence, or None."""
    at = noticed(run)
    if at is None:
        return None
    return (
        f"From about item {at + 1:,} the items differ from earlier ones (a false alarm in at most 1 session of 20). If "
        "you did not expect this, check some recent items."
    )

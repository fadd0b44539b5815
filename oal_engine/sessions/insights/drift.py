"""Detect whether the items of a stream have changed, from the items alone (`kernel.drift`); see docs/feeds.md.

Imported and later items are two streams: the features are fitted on the imported items, so that later ones differ from
them already for this reason.
"""

from weakref import WeakKeyDictionary

from ...datasets.features import duplicates
from ...kernel import drift
from ..fold import Run

GROWTH = 1.02  # factor of the rounds between two looks

_looks = WeakKeyDictionary[Run, tuple[int, int | None]]()  # number of rounds at the last look, and round of the alarm


def noticed(run: Run) -> int | None:
    """Return the round at which a change of the items was noticed, or None. If items come in random order, a false
    alarm occurs in at most `drift.RISK` of sessions.

    It is always None if near-duplicates are left out: frequent texts come early, and their copies do not follow.
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
    if settings.shuffled:  # the order of the first items is random
        later = settings.items
    else:
        later, limit = _imported(run), 2 * limit  # the mean of two capitals is a martingale, too
        at, capital = drift.alarm(values[:later], limit - 1)
        if at is not None:
            return at
        limit -= capital
    at, _ = drift.alarm(values[later:], limit)
    return None if at is None else later + at


def _imported(run: Run) -> int:
    """Return the number of imported items; for an import by an older version, of the items when the session began."""
    batches = run.store.batches(run.settings.dataset)
    return int(batches[0]["items"]) if batches and not batches[0]["first"] else run.settings.items


def sentence(run: Run) -> str | None:
    """Say in a sentence that the items have changed; None if no change was noticed."""
    at = noticed(run)
    if at is None:
        return None
    return (
        f"From about item {at + 1:,} the items differ from earlier ones (a false alarm in at most 1 session of 20). If "
        "you did not expect this, check some recent items."
    )

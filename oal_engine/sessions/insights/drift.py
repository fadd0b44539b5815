"""Detect drift, a change of the stream, from its items alone and from its answers (`kernel.drift`). See docs/feeds.md.

Imported items and items appended later are treated as two streams. The features are fitted on the imported items, so
later items differ from them even without drift.
"""

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np
import scipy

from ...datasets.features import duplicates
from ...kernel import drift, rows
from ...kernel.spending import FIND
from ..fold import Run
from ..one_question import OneQuestion
from ..session import Session
from . import estimates, top_terms
from .curves import percent

GROWTH = 1.02  # factor between the numbers of rounds at two checks
COMPARED, LATEST = 1000, 200  # maximum number of items compared, and of late items before the alarm
CLEAR = 5  # standard errors between the means of a column that differs
TERMS = 5  # terms named in each direction
RISK_WORDS = f"a false alarm in 1 session of {1 / drift.RISK:.0f}"

_looks = WeakKeyDictionary[Run, tuple[int, int | None]]()  # number of rounds at the last check, and round of the alarm


def noticed(run: Run) -> int | None:
    """Return the round at which a change of the items was noticed, or None. If items come in random order, at most a
    share `drift.ITEMS_RISK` of sessions has a false alarm.

    Always None if near-duplicates were left out, because frequent texts then come early, and never again; and in a
    file, whose order follows the questions.
    """
    if run.dataset.record["near_duplicates"] == duplicates.ONCE or run.settings.goal == FIND:
        return None
    rounds = run.state.streamed
    looked, at = _looks.get(run, (0, None))
    if at is None and rounds > looked * GROWTH:
        at = _alarm(run, rounds)
        _looks[run] = rounds, at
    return at if at is not None and at < rounds else None


def _alarm(run: Run, rounds: int) -> int | None:
    settings, limit, capital = run.settings, 1 / drift.ITEMS_RISK, 1.0
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
    """Return the number of imported items, without items appended later; for an import by an older version, the number
    of items when the session began."""
    batches = run.store.batches(run.settings.dataset)
    return int(batches[0]["items"]) if batches and not batches[0]["first"] else run.settings.items


def answered(run: Session | OneQuestion) -> tuple[int, drift.Change] | None:
    """Return the round from which the answers differ, and the change. None if no change was noticed, or if the session
    has several classes, several questions, or items that can never be asked."""
    if run.multiclass or run.several or run.settings.goal == FIND or (answers := estimates.Answers(run)).silent:
        return None
    settled = min(run.state.question.t, run.state.waits_since)  # rounds before the first waiting question
    changed = drift.change(
        answers.label > 0, answers.predicted > 0, answers.chance, answers.passed, answers.pushes,
        run.settings.horizon, settled - int(run.stream_of(run.state).is_known[run.order[:settled]].sum()),
    )  # fmt: skip
    return changed and (int(answers.rounds[changed.since]), changed)


def sentences(run: Session | OneQuestion) -> list[str]:
    """Describe each change that was noticed, in one text for each alarm."""
    at, changed, texts = noticed(run), answered(run), []
    if at is not None:
        differ = f"From about item {at + 1:,} the items differ from earlier ones ({RISK_WORDS})."
        texts.append(" ".join([differ, *_what_changed(run, at)]))
    if changed:
        texts.append(f"From about item {changed[0] + 1:,} {_in_words(changed[1], run.settings.positive_name)}")
    return [*texts[:-1], f"{texts[-1]} If you did not expect this, check some recent items."] if texts else []


def _in_words(changed: drift.Change, name: str) -> str:
    """Describe a change of the answers. name: name of the positive class."""
    before, after = (tuple(map(percent, shares)) for shares in (changed.before, changed.after))
    if len(before) == 2:
        return (
            f"the answers contradict the model more often: about {after[0]} of the pushed items are {name}, "
            f"{before[0]} before, and {after[1]} of the others, {before[1]} before ({RISK_WORDS})."
        )
    more = "more" if changed.after > changed.before else "fewer"
    return f"{more} items are {name} by the answers: about {after[0]}, {before[0]} before ({RISK_WORDS})."


def _what_changed(run: Run, at: int) -> Iterator[str]:
    """Say which terms or columns differ most between the latest items and early ones. The alarm (round `at`) comes some
    time after the change. So the latest items begin LATEST items before it, and the early ones end halfway to it."""
    middle = at // 2 + 1
    parts = run.order[:middle][-COMPARED:], run.order[max(middle, at - LATEST) : run.state.streamed][-COMPARED:]
    data = run.dataset.rows
    table = rows.matrix(data.sparse_part() if isinstance(data, rows.MixedRows) else data)  # type: ignore[no-untyped-call]
    (old, old_error), (new, new_error) = (
        _mean(scipy.sparse.csr_array(table[part])[:, : run.dataset.named]) for part in parts
    )
    error = np.sqrt(old_error + new_error)
    changes = np.divide(new - old, error, out=np.zeros_like(error), where=error > 0)
    clear = np.flatnonzero(np.abs(changes) > CLEAR)
    names = top_terms.whole_words(run, ((int(column), changes[[column]]) for column in clear))
    more, less = ("More often", "Less often") if run.dataset.vocabulary else ("Higher", "Lower")
    for words, sign in ((more, 1), (less, -1)):
        if own := sorted((-sign * change, name) for name, (change,) in names if sign * change > 0)[:TERMS]:
            yield f"{words} since then: {', '.join(name for _, name in own)}."


def _mean(table: "scipy.sparse.csr_array") -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each column, and its squared standard error."""
    mean, squares = (np.asarray(part.mean(axis=0)).ravel() for part in (table, table.multiply(table)))
    return mean, np.maximum(squares - mean**2, 0) / max(1, table.shape[0])

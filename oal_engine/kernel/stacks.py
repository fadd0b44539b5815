"""Several settings of one learner and rule side by side, so that a row is read once for all of them.

A stack has the named tuples of a single replay, with one more axis for the settings: arrays gain it as their last axis,
and numbers become arrays. `setting` takes one setting out of a stack, with arrays that are views.
`dots` computes the margins of all settings, each summed in the order of a single replay, and so with the same bits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import jit
from .draws import draw
from .jit import entrance, inlined, instruction
from .learners import Learner, count_index, plain_seconds, variance
from .metrics import empty
from .query_rules import needs_variance, probability
from .rows import MeasuredRow, MixedRows, Row, Rows, entry, prefetch, span, squared
from .stream import Objective, Parts, average, checked_labels, checked_order, learn_label, most_labels, rho_of

MOST_COLUMNS = 2**17  # most columns of rows in a shared pass: a weight array of 32 settings takes 32 MB


@instruction
def setting(stack, s):
    """Return the named tuple of setting s; its arrays are views."""
    return type(stack)(*(setting(part, s) for part in stack)) if isinstance(stack, tuple) else stack[..., s]


@inlined
def dots(w, x, sums, out):
    """Write the inner products of a row with stacked weights to `out`, each summed as `rows.dot` does.

    sums: scratch, shape (4, settings).
    """
    start, stop = span(x.rows, x.i).start, span(x.rows, x.i).stop
    whole = stop - (stop - start) % 4
    sums[:] = 0.0
    for k in range(start, stop):
        j, x_j = entry(x.rows, x.i, k)
        total, w_j = sums[np.uintp((k - start) % 4 if k < whole else 0)], w[np.uintp(j)]
        for s in range(np.uintp(out.size)):  # the compiler makes vectors of this loop: nothing else happens in it
            total[s] += w_j[s] * x_j
    for s in range(np.uintp(out.size)):
        out[s] = (sums[0, s] + sums[1, s]) + (sums[2, s] + sums[3, s])


def stacked(tuples: Sequence[Any]) -> Any:
    """Stack named tuples of one type, with a new last axis."""
    if isinstance(tuples[0], tuple):
        return type(tuples[0])(*map(stacked, zip(*tuples)))
    return np.stack(tuples, axis=-1)


class Pass(NamedTuple):
    """The outcome of one pass over the rows for several settings. The tables of counts and the numbers of labels asked
    for have the settings as first axis; the states at the end are stacked."""

    counts: np.ndarray
    queried: np.ndarray
    parts: Parts


@entrance(lambda rows, y, order, parts, seed, budget, spent, *_: plain_seconds(rows, None, order.size * spent.size))
def _replay_settings(rows, y, order, parts, seed, budget, spent, sums, margins, variances, asked, counts):
    asking = budget > 0
    for t in range(order.size):
        prefetch(rows, order, t)
        i = order[t]
        x, u = MeasuredRow(rows, i, squared(Row(rows, i))), draw(seed, t)
        dots(parts.learner.w, x, sums, margins)
        waiting = False
        for s in range(spent.size):
            one = setting(parts, s)
            theta = one.objective.theta
            asked[s] = 0
            if asking and spent[s] < budget:
                rho = rho_of(one.objective)
                variances[s] = variance(one.learner, x) if needs_variance(one.rule) else 0.0
                asked[s] = u < probability(one.rule, one.learner, x, margins[s], variances[s], rho, theta, t + 1)
                waiting |= asked[s] > 0
            a, b = count_index(one.learner, 1 if margins[s] >= theta else -1, y[i])
            counts[s, a, b, asked[s]] += 1
        if waiting:
            asking = False
            for s in range(spent.size):
                if asked[s]:
                    learner, rule, objective, average = setting(parts, s)
                    p, predicted = margins[s], 1 if margins[s] >= objective.theta else -1
                    v = variances[s] if needs_variance(rule) else variance(learner, x)
                    spent[s] += 1
                    last = spent[s] == budget
                    learn_label(x, t, p, predicted, 1.0, learner, rule, objective, average, v, float(y[i]), last)
                asking |= spent[s] < budget


def share_a_pass(learner: type[NamedTuple], rows: Rows) -> bool:
    """Return whether several settings of a learner can share one pass over the rows.

    They can if the margin is the inner product of the row and the weights, an update changes only the weights of the
    row's columns and does not need the chance of asking, the rows are not mixed, and the weights of many settings fit
    into memory.
    """
    own = any(hasattr(learner, name) for name in ("multiclass", "margin", "dense_update", "note_chance"))
    return not own and not isinstance(rows, MixedRows) and rows.columns <= MOST_COLUMNS


def replay_settings(
    rows: Rows,
    y: ArrayLike,
    order: ArrayLike,
    settings: Sequence[tuple[Learner, NamedTuple, Objective]],
    *,
    budget: int | None = None,
    seed: int = 0,
    averaged: bool = False,
    held: ArrayLike | None = None,
) -> Pass:
    """Replay a whole stream in one pass for several settings of a learner, a rule and an objective. The results have
    the same bits as single replays.

    held: row numbers of a held-out test set; if given, the counts are of the predictions for these rows after the pass.
    The other arguments are as in `replay`.
    """
    visits = checked_order(order, rows)
    truth = checked_labels(y, settings[0][0], visits)
    parts: Parts = stacked([Parts(*each, average(each[0], averaged)) for each in settings])
    n = len(settings)
    work = np.zeros((4, n)), np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    spent = np.zeros(n, np.int64)

    def run(visits: np.ndarray, budget: int) -> np.ndarray:
        counts = np.zeros((n, *empty(0).shape), np.int64)
        kind = type(rows), *map(type, parts)
        with jit.whole_stream(kind, plain_seconds(rows, None, n * visits.size)):
            _replay_settings(rows, truth, visits, parts, seed, budget, spent, *work, counts)
        return counts

    counts = run(visits, most_labels(budget, visits.size))
    return Pass(counts if held is None else run(checked_order(held, rows), 0), spent, parts)

"""A session as one page of HTML: what was asked and answered, what it is worth, what was learned, and with what.

Curves are exact where every item of the data has a label of its own; else they are estimates from the answers, drawn
dashed with their interval, and said to be estimates.
"""

import html
import json
from collections import Counter
from dataclasses import asdict
from datetime import datetime
from statistics import median

import numpy as np

from ..kernel import learners, metrics
from ..output.page import INK, document, figure_cell, head_cell, html_table, inline, sentence, word_cell
from ..output.plots import NAMES, ON_PAGE, STYLES, TITLES, drawn, number, plain
from ..versions import versions
from . import estimates, top_terms

STRONGEST = 15  # terms of each class
SHOWN = 500  # corrections and notes; all of them are in the table of labels
MOST_CLASSES = 8  # in one figure
POINTS = 200
TWO = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy")
MANY = ("accuracy", "macro_f1", "macro_recall")


def page(session):
    """The page of an opened session, which needs neither scripts nor a network, as bytes."""
    parts = [
        _summary(session),
        *_worth(session),
        *_answers(session),
        *_learned(session),
        *_corrections(session),
        *_notes(session),
        *_settings(session),
    ]
    return document(session.settings.name, parts)


def _heading(words):
    return f'<h2 dir="auto">{html.escape(words)}</h2>'


def _figures(files):
    return f"<figure>{''.join(map(inline, files))}</figure>"


def _drawn(title, unit, lines):
    return drawn("svg", _draw, unit, title, lines, size=ON_PAGE, ink=INK)


def _draw(axes, unit, title, lines):
    """Lines (name, x, y, interval or None), those with an interval dashed."""
    for (name, x, y, interval), (color, *_, mark) in zip(lines, STYLES):
        dash = {"linestyle": "--" if interval else "-", "marker": mark, "markevery": 0.15, "markersize": 4}
        axes.plot(x, y, color=color, label=plain(name), **dash)
        if interval:
            axes.fill_between(x, *interval, color=color, alpha=0.12, linewidth=0)
    axes.set(xlabel=unit, ylim=(0, None))
    axes.set_title(plain(title), fontsize=9)
    axes.legend(fontsize=8)


def _summary(session):
    settings, progress = session.settings, session.place.progress
    pushed = "" if progress.pushed is None else f", of which {progress.pushed:,} were pushed"
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    return sentence(
        f"{settings.algorithm} on {settings.dataset_name}: {progress.labels:,} of {progress.budget:,} labels "
        f"used{skipped}; {progress.streamed:,} of {progress.stream:,} items streamed{pushed}."
    )


# What it is worth


def _worth(session):
    """The curves and the table of the metrics, exact or estimated, or the reason why there are none."""
    wanted = MANY if session.multiclass else TWO
    rounds, counts = session.curve(POINTS)
    done = np.maximum(rounds, 1)
    shares = [("asked", rounds, counts[..., 1].sum((1, 2)) / done, None)]
    if not session.multiclass:
        shares.append(("pushed", rounds, counts[:, 1].sum((1, 2)) / done, None))
    share = _drawn("Share of the stream", "items streamed", shares)
    yield _heading("How good it is")
    if not session.labelled:
        yield from _estimated(session, share)
        return
    curves = {name: session.evaluate(counts, name) for name in metrics.EVALUATIONS}
    final = {name: session.evaluate(session.counts, name) for name in metrics.EVALUATIONS}
    yield sentence("Exact: every item of the data has a label of its own, which the session has never seen.")
    yield _figures([
        *(
            _drawn(TITLES[metric], "items streamed",
                   [(NAMES[name], rounds, curves[name][metric], None) for name in metrics.EVALUATIONS])
            for metric in wanted[:2]
        ),
        share,
    ])  # fmt: skip
    yield html_table(
        ["", *NAMES.values()],
        [
            [head_cell(TITLES[metric]), *(figure_cell(number(metric, final[name][metric])) for name in NAMES)]
            for metric in wanted
        ],
    )


def _estimated(session, share):
    """The estimates of a session over data without labels, or the reason why there are none."""
    unknown = "The data has no labels of its own: its truth is not known."
    found = estimates.of_session(session)
    if found.reason:
        yield sentence(f"{unknown} {found.reason}")
        yield _figures([share])
        return
    closed = (
        f" They are of the items up to round {found.closed:,}, behind which nothing could be asked, and understate the "
        "model as it is now."
        if found.closed is not None
        else ""
    )
    yield sentence(
        f"Estimated, not exact, from the answers, each weighted by 1 / its chance of being asked, with intervals of "
        f"95 %. {unknown}{closed}"
    )
    points, known = estimates.curve(session), list(found.metrics["push"])
    yield _figures([*(_drawn(f"{TITLES[metric]} (estimated)", "items streamed", [*_bands(points, metric)])
                      for metric in known[:2]), share])  # fmt: skip
    yield html_table(
        ["Estimated", *NAMES.values()],
        [
            [head_cell(TITLES[metric]), *(figure_cell(_interval(found.metrics[name][metric])) for name in NAMES)]
            for metric in known
        ],
    )


def _bands(points, metric):
    """The lines of a metric along `estimates.curve`, as far as it is known."""
    for name, title in NAMES.items():
        known = [(rounds, each) for rounds, _, found in points if (each := found[name].get(metric))]
        rounds, values = [rounds for rounds, _ in known], [each for _, each in known]
        yield title, rounds, [each.value for each in values], ([e.low for e in values], [e.high for e in values])


def _interval(estimate):
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})" if estimate else "not known"


# Answers, and what was learned


def _answers(session):
    """The answers of each class, and who gave them."""
    log = [entry for entry in session.history if entry.label is not None]
    counts = Counter(entry.label for entry in log)
    most = [label for label, _ in counts.most_common() if label][:MOST_CLASSES]
    yield _heading("Answers")
    if most:
        given = [entry for entry in log if entry.label]
        labels, items = (np.array([getattr(entry, key) for entry in given]) for key in ("label", "round"))
        lines = [(name, items + 1, (labels == k).cumsum(), None) for k, name in session.names.items() if k in most]
        yield _figures([_drawn("Answers of each class", "items streamed", lines)])
    yield html_table(
        ["", "Answers", "Share"],
        [
            [head_cell(name), figure_cell(f"{counts[label]:,}"), figure_cell(f"{counts[label] / max(1, len(log)):.1%}")]
            for label, name in (session.names | {0: "skipped"}).items()
        ],
    )
    people = {}
    for entry in log:
        people.setdefault(entry.annotator or "nobody named", []).append(entry)
    yield _heading("Annotators")
    yield html_table(
        ["", "Answers", "Corrected", "Median seconds", "First", "Last"],
        [
            [
                head_cell(name),
                figure_cell(f"{len(own):,}"),
                figure_cell(f"{sum(entry.corrected for entry in own):,}"),
                figure_cell(_seconds(own)),
                figure_cell(_when(min(entry.answered_at for entry in own))),
                figure_cell(_when(max(entry.answered_at for entry in own))),
            ]
            for name, own in people.items()
        ],
    )


def _seconds(entries):
    known = [entry.seconds for entry in entries if entry.seconds is not None]
    return f"{median(known):.1f}" if known else ""


def _when(time):
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M} UTC"


def _learned(session):
    """The terms that speak most for each class."""
    weights = learners.weights(session.learner)
    yield _heading("What was learned")
    yield sentence(f"The {STRONGEST} features that speak most for each class, as the model is now.")
    found = {
        name: ", ".join(
            f"{top_terms.term(session.dataset, column)} ({weight:.3g})"
            for column, weight in top_terms.strongest(weights, label, STRONGEST)
        )
        for label, name in session.names.items()
    }
    yield html_table(
        ["", "Words"], [[head_cell(name), word_cell(told or "nothing yet")] for name, told in found.items()]
    )


def _corrections(session):
    """The labels that were corrected."""
    words = session.names | {0: "skipped"}
    ids = _ids(session)
    changed = [entry for entry in session.history if entry.corrected]
    yield _heading("Corrections")
    if not changed:
        yield sentence("No label was corrected.")
        return
    yield sentence(f"Labels that are not those first given: {len(changed):,}.{_first(changed)}")
    yield html_table(
        ["", "Question", "First label", "Now", "By", "At"],
        [
            [
                head_cell(ids[entry.item]),
                figure_cell(f"{entry.number:,}"),
                word_cell(words[entry.first]),
                word_cell(words[entry.label]),
                word_cell(entry.annotator),
                figure_cell(_when(entry.answered_at)),
            ]
            for entry in changed[:SHOWN]
        ],
    )


def _notes(session):
    """The notes that stand."""
    if notes := session.notes:
        ids = _ids(session)
        yield _heading("Notes")
        if len(notes) > SHOWN:
            yield sentence(_first(notes).strip())
        yield html_table(
            ["", "Words"], [[head_cell(ids[item]), word_cell(text)] for item, text in list(notes.items())[:SHOWN]]
        )


def _first(lines):
    return f" The first {SHOWN:,} are shown; the table of labels has all." if len(lines) > SHOWN else ""


def _ids(session):
    """The ids of the items that the log and the notes are about."""
    places = {entry.item for entry in session.history} | session.notes.keys()
    found = session.store.items(session.dataset.id, sorted(places))
    return {position: item["id"] for position, item in found.items()}


def _settings(session):
    """Everything that a session was made with, and the versions that made this page."""
    known = asdict(session.settings) | {"page": versions()}
    yield _heading("Settings and versions")
    yield f"<pre>{html.escape(json.dumps(known, indent=1, ensure_ascii=False))}</pre>"

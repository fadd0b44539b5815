"""The report of a session as one HTML page: answers, quality, learned terms, and settings.

Curves are exact if every item of the data has a label. Otherwise they are estimates from the answers, drawn dashed with
their intervals and called estimates.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ...kernel import learners, metrics
from ...kernel.certainty import BOUNDED, RISK
from ...kernel.estimates import BINARY
from ...kernel.spending import FIND
from ...output.page import INK, WORDS, document, figure_cell, head_cell, html_table, inline, sentence, word_cell
from ...output.plots import METRICS, NAMES, ON_PAGE, STYLES, TITLES, drawn, number, plain
from ...versions import versions
from ..insights import agreement, answer_checks, certainty, drift, estimates, outcome, top_terms
from ..insights.answer_checks import AnswerCheck
from ..insights.curves import percent
from ..labels import SKIP
from ..log import Entry
from ..one_question import OneQuestion
from ..session import Session
from . import methods

STRONGEST = 15  # terms of each class
MAX_ROWS = 500  # corrections and notes; all of them are in the table of labels
MOST_CLASSES = 8  # in one figure
MAX_CHECKS = 15  # answers in a list of answers to check
POINTS = 200  # of a curve
HEADING = re.compile(r"(</?)h2\b")
DEPTHS = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2)  # of the list of positives, relative to its length


class Curve(NamedTuple):
    """A line of a figure. It is dashed if it has an interval: (lower ends, upper ends)."""

    name: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    interval: Sequence[np.ndarray] | None = None


def page(session: Session | OneQuestion) -> bytes:
    """Return the report of an open session, or of one question of a session that asks several, as an HTML page that
    needs neither scripts nor a network."""
    sections: list[Callable[[Any], Iterator[str]]] = [_progress]
    if isinstance(session, OneQuestion):
        sections += [_span, _result, quality, _certain, _answers, _learned, _checks, _corrections]
    elif session.several:
        sections += [_questions, _next_steps, _answers, _tags, _notes, _methods]
    else:
        sections += [_result, _next_steps, quality, _certain, _answers, _learned, _checks, _corrections]
        sections += [_tags, _notes, _methods]
    return document(session.title, [*_all([*sections, _settings], session)])


def _all(sections: Iterable[Callable[[Any], Iterator[str]]], run: Session | OneQuestion) -> Iterator[str]:
    """Yield the HTML of several sections about a session, or about one of its questions."""
    return chain.from_iterable(section(run) for section in sections)


def _questions(session: Session) -> Iterator[str]:
    """Yield a table of the questions, their mean and the worst of them, then the sections of each question."""
    parts = {name: OneQuestion(session, name) for name in session.settings.question_names}
    by_question = {name: estimates.of_session(part) for name, part in parts.items()}
    columns = [(evaluation, metric) for metric in METRICS[False][:2] for evaluation in NAMES]
    _, *yeses = outcome.yeses(session)
    rows = [
        [name, words, *(_interval(by_question[name].metrics[evaluation][metric]) for evaluation, metric in columns)]
        for name, words in yeses
    ]
    overall = [each for evaluation, metric in columns if (each := estimates.over(by_question, evaluation, metric))]
    if overall:
        rows.append(["Mean", "", *(_interval(mean) for mean, *_ in overall)])
        rows.append(["Worst", "", *(f"{_interval(worst)}, {name}" for _, worst, name in overall)])
    if session.settings.audited:
        yield _heading("Audit")
        yield _table(["", ""], outcome.table(session))
    yield _heading("Deciders" if session.settings.audited else "Questions")
    yield sentence(
        "Estimated from the answers, with intervals of 95 %; the mean and the worst are of the questions that have an "
        "estimate."
    )
    yield _table(["", "Answers", *(f"{TITLES[metric]} under {NAMES[key]}" for key, metric in columns)], rows)
    if floors := certainty.in_words(certainty.all_at_once(session)):
        yield sentence(floors)
    for name, part in parts.items():
        yield _heading(name)
        for text in _all([_span, _result, quality, _certain, _learned, _checks, _corrections], part):
            yield HEADING.sub(r"\1h3", text)


def _span(part: OneQuestion) -> Iterator[str]:
    """Yield a sentence on the items that a question is asked about, if it was added later or closed."""
    if part.span_in_words:
        yield sentence(part.span_in_words)


def _heading(words: str) -> str:
    return f'<h2 dir="auto">{html.escape(words)}</h2>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table. Its first column names the rows. Columns named in WORDS contain text, others numbers."""
    cells = [head_cell, *(word_cell if head in WORDS else figure_cell for head in heads[1:])]
    return html_table(heads, [[cell(text) for cell, text in zip(cells, row)] for row in rows])


def _figures(files: Iterable[bytes]) -> str:
    return f"<figure>{''.join(map(inline, files))}</figure>"


def _drawn(title: str, lines: Sequence[Curve]) -> bytes:
    return drawn("svg", _draw, title, lines, size=ON_PAGE, ink=INK)


def _draw(axes: Any, title: str, lines: Sequence[Curve]) -> None:
    for (name, x, y, interval), (color, *_, mark) in zip(lines, STYLES):
        dash = {"linestyle": "--" if interval else "-", "marker": mark, "markevery": 0.15, "markersize": 4}
        axes.plot(x, y, color=color, label=plain(name), **dash)
        if interval:
            axes.fill_between(x, *interval, color=color, alpha=0.12, linewidth=0)
    axes.set(xlabel="items streamed", ylim=(0, None))
    axes.set_title(plain(title), fontsize=9)
    axes.legend(fontsize=8)


def _progress(session: Session) -> Iterator[str]:
    """Yield a sentence on the session's progress, with the changes of the stream that were noticed."""
    settings, progress = session.settings, session.place.progress
    streamed = f"; {progress.streamed:,} of {progress.stream:,} items streamed"
    pushed = "" if progress.pushed is None else f", of which {progress.pushed:,} were pushed"
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    began = f" {settings.all_priors}".rstrip()
    changed = "".join(f" {text}" for text in drift.sentences(session))
    yield sentence(
        f"{settings.algorithm} on {settings.dataset_name}: {progress.labels:,} of {progress.budget:,} labels "
        f"used{skipped}{'' if settings.goal == FIND else streamed + pushed}.{began}{changed}"
    )


def _result(session: Session) -> Iterator[str]:
    """Yield the report's section on the result of the session and the quality of its list of positives."""
    yield _heading("Result")
    yield from map(sentence, outcome.summary(session))
    yield from _list(session)


def _next_steps(session: Session) -> Iterator[str]:
    """Yield HTML that suggests next steps with the session."""
    yield _heading("Next steps")
    yield from map(sentence, outcome.next_steps(session))


def _list(session: Session) -> Iterator[str]:
    """Yield a table of the precision and recall of the list of positives at several depths, if they are known."""
    if session.multiclass or not learners.linear(session.learner):
        return
    ranking = outcome.of_session(session).ranking
    sizes = sorted({max(1, min(ranking.rounds.size, int(part * ranking.listed))) for part in DEPTHS})
    if ranking.listed and (depths := ranking.depths(sizes)):
        yield _heading("The list of positives")
        name = session.settings.positive_name
        heads = ["Items, the surest first", "Share that is right", f"Share of all that are {name}"]
        yield _table(heads, [(f"{each.items:,}", _interval(each.precision), _interval(each.recall)) for each in depths])


# How good it is


def quality(session: Session) -> Iterator[str]:
    """Yield the curves and the table of the metrics, exact or estimated, or the reason why they are missing. Nothing
    for the list of a file, whose quality has a section of its own."""
    if session.settings.goal == FIND and not session.multiclass:
        return
    rounds, counts = session.curve(POINTS)
    done = np.maximum(counts.sum((1, 2, 3)), 1)
    shares = [Curve("asked", rounds, counts[..., 1].sum((1, 2)) / done)]
    if not session.multiclass:
        shares.append(Curve("pushed", rounds, metrics.pushed(counts) / done))
    share = _drawn("Share of the stream", shares)
    yield _heading("How good it is")
    if not session.labelled:
        yield from _estimated(session, share)
        return
    wanted = METRICS[True] if session.multiclass else BINARY
    curves = {name: session.evaluate(counts, name) for name in metrics.EVALUATIONS}
    final = {name: session.evaluate(session.place.counts, name) for name in metrics.EVALUATIONS}
    yield sentence("Exact: every item of the data has a label of its own, which the session has never seen.")
    lines = {metric: [Curve(NAMES[name], rounds, curves[name][metric]) for name in curves] for metric in wanted[:2]}
    yield _figures([*(_drawn(TITLES[metric], lines[metric]) for metric in lines), share])
    rows = ([TITLES[metric], *(number(metric, final[name][metric]) for name in NAMES)] for metric in wanted)
    yield _table(["", *NAMES.values()], rows)


def _estimated(session: Session, share: bytes) -> Iterator[str]:
    """Yield the estimates of a session over data without labels, or the reason why they are missing."""
    unknown = "The data has no labels of its own: the truth is not known."
    now, _, points = estimates.look(session)
    if not now.available:
        yield sentence(f"{unknown} {now.reason}")
        yield _figures([share])
        return
    closed = (
        f" They cover the items up to round {now.closed:,}, after which nothing could be asked, and understate the "
        "current model."
        if now.closed is not None
        else ""
    )
    yield sentence(
        f"Estimated, not exact, from the answers, each weighted by 1 / its chance of being asked, with intervals of "
        f"95 %. {unknown}{closed}{f' {now.reason}' if now.reason else ''}"
    )
    figures = (_drawn(f"{TITLES[metric]} (estimated)", [*_bands(points, metric)]) for metric in now.available[:2])
    yield _figures([*figures, share])
    rows = ([TITLES[metric], *(_interval(now.metrics[name][metric]) for name in NAMES)] for metric in now.available)
    yield _table(["Estimated", *NAMES.values()], rows)


def _bands(points: Sequence[estimates.Point], metric: str) -> Iterator[Curve]:
    """Yield the lines of an estimated metric with their intervals, over the rounds at which it has an estimate."""
    for name, title in NAMES.items():
        rounds, (values, *band) = estimates.line(points, name, metric)
        yield Curve(title, rounds, values, band)


def _interval(estimate: estimates.Estimate | None) -> str:
    if estimate and estimate.low == estimate.high:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})" if estimate else "not known"


def _certain(session: Session) -> Iterator[str]:
    """Yield the guaranteed minimum of each metric, if the session has such guarantees."""
    if certain := certainty.of_session(session):
        yield _heading("Guaranteed minimum")
        if not certain.says_something:
            yield sentence(str(certain))
            return
        yield sentence(
            f"Except for a risk of {percent(RISK)}, all numbers are below the truth of the first {certain.rounds:,} "
            f"items at every look, whatever the data: {certain.labels:,} labels were asked with stored chances."
        )
        titles = TITLES | {"recall": "Recall"}
        rows = ([titles[metric], *(f"{certain.floors[name][metric]:.3f}" for name in NAMES)] for metric in BOUNDED)
        yield _table(["At least", *NAMES.values()], rows)


# Answers and learned terms


def _answers(session: Session) -> Iterator[str]:
    """Yield the number of answers of each class and of each annotator, and how far two people agree."""
    log = [entry for entry in session.log if entry.label is not None]
    counts = Counter(entry.label for entry in log)
    most = [label for label, _ in counts.most_common() if label][:MOST_CLASSES]
    yield _heading("Answers")
    if most:
        labelled = [entry for entry in log if entry.label]
        labels, rounds = (np.array([getattr(entry, key) for entry in labelled]) for key in ("label", "round"))
        lines = [Curve(name, rounds + 1, (labels == k).cumsum()) for k, name in session.names.items() if k in most]
        yield _figures([_drawn("Answers of each class", lines)])
    words, all_answers = session.names | {SKIP: "skipped"}, max(1, len(log))
    rows = [[name, f"{counts[label]:,}", percent(counts[label] / all_answers)] for label, name in words.items()]
    yield _table(["", "Answers", "Share"], rows)
    people: dict[str, list[Entry]] = {}
    for entry in log:
        people.setdefault(entry.annotator or "nobody named", []).append(entry)
    yield _heading("Annotators")
    rows = []
    for name, own in people.items():
        times = sorted(str(entry.answered_at) for entry in own)
        corrected = sum(entry.corrected for entry in own)
        rows.append([name, f"{len(own):,}", f"{corrected:,}", _seconds(own), _minute(times[0]), _minute(times[-1])])
    yield _table(["", "Answers", "Corrected", "Median seconds", "First", "Last"], rows)
    if session.settings.overlap:
        yield sentence(agreement.of_session(session))


def _seconds(entries: Iterable[Entry]) -> str:
    seconds = [entry.seconds for entry in entries if entry.seconds is not None]
    return f"{median(seconds):.1f}" if seconds else ""


def _minute(time: str) -> str:
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M} UTC"


def _learned(session: Session) -> Iterator[str]:
    """Yield a table of the terms that speak most for each class."""
    weights = learners.weights(session.learner)
    yield _heading("Learned terms")
    yield sentence(f"The {STRONGEST} features that speak most for each class in the current model.")
    terms = {
        name: ", ".join(
            f"{top_terms.term(session, column)} ({weight:.3g})"
            for column, weight in top_terms.strongest(weights, label, STRONGEST, latent=session.dataset.latent)
        )
        for label, name in session.names.items()
    }
    yield _table(["", "Words"], [(name, words or "nothing yet") for name, words in terms.items()])


def _checks(session: Session) -> Iterator[str]:
    """Yield the tables of answers that deserve a second look."""
    checks = answer_checks.of_session(session)
    words, items = session.settings.answers, checks.items
    ids = _ids(session, (each.entry.item for each in checks.at_odds + checks.decisive))

    def table(listed: Sequence[AnswerCheck]) -> str:
        rows = (
            [ids[each.entry.item], f"{each.entry.number:,}", words[each.entry.label], words[each.other],
             f"{each.margin:.2f}", f"{each.without:,}", f"{each.corrected:,}"]
            for each in listed[:MAX_CHECKS]
        )  # fmt: skip
        return _table(["", "Question", "Answer", "Others", "Margin", "Without it", "Corrected"], rows)

    yield _heading("Answers to check")
    if not (checks.at_odds or checks.decisive):
        yield sentence("No answer is at odds with the others, and none changes the predicted class of an item.")
        return
    earlier = f" {checks.earlier:,} earlier ones were not looked at." if checks.earlier else ""
    yield sentence(
        f"A model was trained on the {checks.answers:,} latest answers at once, leaving each of them out in "
        f"turn.{earlier} The last columns count, of {items:,} items, how many would change their class without the "
        "answer, and with the others' answer in its place."
    )
    for title, listed in (
        ("At odds with the other answers", checks.at_odds), ("The model depends on these", checks.decisive)
    ):  # fmt: skip
        if listed:
            first = f" The first {MAX_CHECKS} are shown." * (len(listed) > MAX_CHECKS)
            yield sentence(f"{title}: {len(listed):,}.{first}")
            yield table(listed)


def _corrections(session: Session) -> Iterator[str]:
    """Yield a table of the corrected labels."""
    changed = [entry for entry in session.log if entry.corrected]
    words, ids = session.settings.answers, _ids(session, (entry.item for entry in changed))
    yield _heading("Corrections")
    if not changed:
        yield sentence("No label was corrected.")
        return
    yield sentence(f"Corrected labels: {len(changed):,}.{_first(changed)}")
    rows = [
        [ids[e.item], f"{e.number:,}", words[e.first], words[e.label], e.annotator, _minute(str(e.answered_at))]
        for e in changed[:MAX_ROWS]
    ]
    yield _table(["", "Question", "First label", "Now", "By", "At"], rows)


def _tags(session: Session) -> Iterator[str]:
    """Yield a table with the number of items with each tag."""
    if tags := session.tags:
        yield _heading("Tags")
        counts = Counter(tag for each in tags.values() for tag in each)
        yield _table(["", "Items"], [(tag, f"{count:,}") for tag, count in counts.most_common()])


def _notes(session: Session) -> Iterator[str]:
    """Yield a table of the current notes."""
    if notes := session.notes:
        ids = _ids(session, notes)
        yield _heading("Notes")
        if len(notes) > MAX_ROWS:
            yield sentence(_first(notes).strip())
        yield _table(["", "Words"], [(ids[item], text) for item, text in list(notes.items())[:MAX_ROWS]])


def _first(lines: Collection[object]) -> str:
    return f" The first {MAX_ROWS:,} are shown; the table of labels has all." if len(lines) > MAX_ROWS else ""


def _ids(session: Session, places: Iterable[int]) -> dict[int, str]:
    """Return the ids of the items at these positions, {position: id}."""
    items = session.store.items(session.dataset.id, sorted({*places}))
    return {position: item["id"] for position, item in items.items()}


def _methods(session: Session) -> Iterator[str]:
    """Yield a text for a methods section."""
    yield _heading("Text for a methods section")
    yield from map(sentence, methods.paragraphs(session))


def _settings(session: Session) -> Iterator[str]:
    """Yield the settings of the session, and the software versions that created this page."""
    settings = asdict(session.settings) | {"page": versions()}
    yield _heading("Settings and versions")
    yield f"<pre>{html.escape(json.dumps(settings, indent=1, ensure_ascii=False))}</pre>"

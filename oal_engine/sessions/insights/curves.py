"""The curves of a session and the table rows of its metrics, independent of the code that draws them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernel import metrics
from ...kernel.spending import Plan, expected
from ...output.plots import NAMES, TITLES
from ..fold import Run
from ..labels import SKIP
from . import estimates

POINTS = 200  # of a curve: more cost time in the browser and are not visible
COLORS = {"push": "#26988b", "push_query": "#d9822b"}
HEADLINES = {
    False: {"sum": "Weighted sum", "f1": "F1"},
    True: {"accuracy": "Accuracy", "macro_f1": "Macro F1"},
}  # multiclass -> the metrics that are drawn and listed first
LISTED = {
    False: ("sum", "f1", "sensitivity", "specificity", "precision"),
    True: ("accuracy", "macro_f1", "macro_recall"),
}
PALETTE = ("#26988b", "#d9822b", "#8d6fc0", "#4a86c8", "#c0587e", "#7a9a3a", "#8a8f98")
FRACTION = ".2f"  # format of values whose axis always ends at 1
COUNT = ",.0f"


@dataclass(frozen=True)
class Line:
    """A line of a chart. band: the lower and upper ends of its intervals, if the line is estimated."""

    name: str
    color: str
    x: np.ndarray
    y: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Chart:
    """A line chart over items or labels. key: name of the chart on a page. unit, end: unit and end of the x axis."""

    key: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    format: str
    end: int

    @property
    def estimated(self) -> bool:
        """Whether any line is estimated, with intervals."""
        return any(line.band for line in self.lines)

    @property
    def now(self) -> list[str]:
        """The last value of each line, as text."""
        return [_in_words(line.y[-1], self.format) if len(line.y) else "" for line in self.lines]

    @property
    def alt(self) -> str:
        """The alternative text of the chart: a sentence with its last values."""
        last = ", ".join(f"{line.name} {now}" for line, now in zip(self.lines, self.now) if now)
        return f"{self.title} over {self.unit}: now {last or 'nothing yet'}."

    def as_json(self) -> dict[str, Any]:
        """Return the chart as a JSON object for replay.js."""
        highest = max((float(y) for line in self.lines for y in line.y), default=0)
        reached = max((float(line.x[-1]) for line in self.lines if len(line.x)), default=0)
        nice = (0.05, 0.1, 0.2, 0.5, 1) if self.format != COUNT else [k * 10**p for p in range(8) for k in (1, 2, 5)]
        return {
            "title": self.title,
            "unit": self.unit,
            "lines": [
                {"name": line.name, "color": line.color, "x": _short(line.x), "y": _short(line.y),
                 "band": [_short(end) for end in line.band or ()]}
                for line in self.lines
            ],
            "end": max(1.0, reached),
            "top": 1 if self.format == FRACTION else next((top for top in nice if top >= highest), highest),
            "percent": self.format == ".0%",
            "alt": self.alt,
        }  # fmt: skip


def of_session(session: Run) -> list[Chart]:
    """Return the charts of a session: its metrics if the data has labels, else the answers; then the shares of the
    stream that were asked about and pushed, and the pace if the budget is paced."""
    rounds, counts = session.curve(POINTS)
    charts = []
    if session.labelled:
        metrics_by_evaluation = {key: session.evaluate(counts, key) for key in metrics.EVALUATIONS}
        for name, title in HEADLINES[session.multiclass].items():
            lines = [Line(NAMES[key], COLORS[key], rounds, each[name]) for key, each in metrics_by_evaluation.items()]
            charts.append(_chart(name, title, lines, FRACTION, session.rounds))
    else:
        charts.append(answers(session))
    done = np.maximum(counts.sum((1, 2, 3)), 1)
    lines = [Line("asked", PALETTE[2], rounds, counts[..., 1].sum((1, 2)) / done)]
    if not session.multiclass:
        lines.append(Line("pushed", COLORS["push"], rounds, metrics.pushed(counts) / done))
    charts.append(_chart("rates", "Share of the stream", lines, ".0%", session.rounds))
    if session.state.plan and session.state.plan.paced:
        charts.append(_pace(session, session.state.plan))
    return charts


def _pace(session: Run, plan: Plan) -> Chart:
    """Return the chart of the labels used along the stream and of the labels planned."""
    rounds, _ = session.curve(POINTS)
    labelled = [lesson.round for lesson in session.state.lessons if lesson.label != SKIP and not lesson.is_known]
    lines = [
        Line("planned", PALETTE[-1], rounds, np.sum(expected(plan, rounds), axis=0)),
        Line("used", PALETTE[2], rounds, np.searchsorted(labelled, rounds)),
    ]
    return _chart("pace", "Labels", lines, COUNT, session.rounds)


def estimated(session: Run, points: list[estimates.Point]) -> list[Chart]:
    """Return the charts of the estimated metrics of a session. points: from `estimates.look`."""
    charts = []
    for name, title in HEADLINES[session.multiclass].items():
        rounds = np.array(estimates.line(points, "push", name)[0])
        if rounds.size:
            ends = {key: estimates.line(points, key, name)[1] for key in COLORS}
            lines = [Line(NAMES[key], COLORS[key], rounds, y, (low, high)) for key, (y, low, high) in ends.items()]
            charts.append(_chart(f"{name}-estimated", f"{title}, estimated", lines, FRACTION, session.rounds))
    return charts


def finds(session: Run, total: estimates.Estimate | None) -> Chart:
    """Return the chart of the positives among the answers. total: number of positives in the file (None: unknown)."""
    labels = np.array(session.labels, dtype=int)
    steps = np.arange(labels.size + 1)
    lines = [Line("met by your answers", PALETTE[0], steps, np.append(0, (labels == 1).cumsum()))]
    if total:
        value, low, high = (np.full(2, end) for end in total)
        lines.append(Line("in all", PALETTE[-1], steps[[0, -1]], value, (low, high)))
    return _chart("found", "Found", lines, COUNT, session.state.budget, "answers")


def answers(session: Run) -> Chart:
    """Return the chart of the answers of each class, as labels are spent; with many classes, of the most frequent."""
    labels = np.array(session.labels, dtype=int)
    steps, most = np.arange(1, labels.size + 1), list(session.names)
    if len(most) > len(PALETTE):
        most = sorted(most, key=lambda label: -(labels == label).sum())[: len(PALETTE)]
    colors = PALETTE if session.multiclass else (PALETTE[0], PALETTE[-1])
    lines = [Line(session.names[k], color, steps, (labels == k).cumsum()) for k, color in zip(most, colors)]
    return _chart("answers", "Answers of each class", lines, COUNT, session.state.budget, "labels")


def _chart(key: str, title: str, lines: list[Line], format: str, end: int, unit: str = "items") -> Chart:
    """Return a chart whose x axis ends after the last value, at 2, 5 or 10 times a power of ten, not after `end`."""
    reached = max((line.x[-1] for line in lines if len(line.x)), default=0)
    end = next((step * 10**n for n in range(1, 9) for step in (2, 5, 10) if reached < step * 10**n < end), end)
    return Chart(key, title, unit, tuple(lines), format, end)


def _in_words(value: float, format: str) -> str:
    """Write a value in the format of a chart."""
    return percent(value) if format == ".0%" else f"{value:{format}}"


def percent(share: float) -> str:
    """Write a share or a chance as a percentage, with two digits if it is small: 18 %, 0.33 %."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.2g} %"


def _short(numbers: Iterable[float]) -> list[float]:
    """Round numbers to the digits that a screen shows."""
    return [round(float(number), 5) for number in numbers]


def metric_lines(run: Run, counts: np.ndarray) -> list[tuple[Any, ...]]:
    """Return table rows (title, push, push-and-query) of the metrics of a table of counts; with K classes also of the
    recall of each class."""
    values = [run.evaluate(counts, name) for name in metrics.EVALUATIONS]
    lines = [(TITLES[name], *(float(each[name]) for each in values)) for name in LISTED[run.multiclass]]
    if run.multiclass:
        recalls = zip(run.names.values(), *(each["recall"].tolist() for each in values))
        lines += [(f"Recall of {name}", *values) for name, *values in recalls]
    return lines


def estimate_lines(values: Mapping[str, Mapping[str, estimates.Estimate | None]]) -> list[tuple[Any, ...]]:
    """Return table rows (title, push, push-and-query) of estimates with their intervals.

    values: {evaluation: {metric: estimate or None}}.
    """
    return [
        (TITLES[name], *(_interval(values[key][name]) for key in metrics.EVALUATIONS))
        for name in (*LISTED[False], *LISTED[True])
        if values["push"].get(name)
    ]


def _interval(guess: estimates.Estimate | None) -> str:
    return "" if guess is None else f"{guess.value:.2f} ({guess.low:.2f}–{guess.high:.2f})"

"""The live curves of a session, as plotly figures."""

import html
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import streamlit as st
from plotly.basedatatypes import BaseFigure

from oal_engine.kernel import metrics
from oal_engine.kernel.spending import Plan, expected
from oal_engine.sessions import estimates
from oal_engine.sessions.fold import Run
from oal_engine.sessions.settings import SKIP

from .meanings import explained

POINTS = 200  # more cost time in the browser and show nothing more
COLORS = {"push": "#26988b", "push_query": "#d9822b"}
NAMES = {"push": "push", "push_query": "push-and-query"}
HEADLINES = {
    False: {"sum": "Weighted sum", "f1": "F1"},
    True: {"accuracy": "Accuracy", "macro_f1": "Macro F1"},
}  # whether there are K classes -> the metrics that are drawn and told first
PALETTE = ("#26988b", "#d9822b", "#8d6fc0", "#4a86c8", "#c0587e", "#7a9a3a", "#8a8f98")
FRACTION = {"range": [0, 1.02], "tickvals": [0, 0.25, 0.5, 0.75, 1]}  # a fixed axis does not jump
HEIGHT = 128  # pixels: the charts fit beside the card


ESTIMATED = "4px 3px"  # dashes of a line that is estimated, not exact


@dataclass(frozen=True)
class Chart:
    """A figure of plotly as a dict; its key on the page, its title, unit and legend (name, color), and what it shows in
    words. bands: the lower and upper ends of the lines where they are estimated."""

    key: str
    title: str
    unit: str
    legend: list
    figure: dict
    alt: str
    now: tuple  # the last value of each line, in words
    bands: tuple = ()


def of_session(session: Run) -> list[Chart]:
    """The charts of a session: its metrics where the data has labels, else the answers; then shares of the stream."""
    rounds, counts = session.curve(POINTS)
    charts = []
    if session.labelled:
        metrics_by_evaluation = {key: session.evaluate(counts, key) for key in metrics.EVALUATIONS}
        for name, title in HEADLINES[session.multiclass].items():
            lines = [(NAMES[key], COLORS[key], values[name]) for key, values in metrics_by_evaluation.items()]
            charts.append(_chart(name, title, rounds, lines, ".2f", session.rounds, y=FRACTION))
    else:
        charts.append(_answers(session))
    done = np.maximum(rounds, 1)
    lines = [("asked", "#8d6fc0", counts[..., 1].sum((1, 2)) / done)]
    if not session.multiclass:
        lines.append(("pushed", COLORS["push"], metrics.pushed(counts) / done))
    charts.append(_chart("rates", "Share of the stream", rounds, lines, ".0%", session.rounds))
    if session.state.plan and session.state.plan.paced:
        charts.append(_pace(session, session.state.plan))
    return charts


def _pace(session: Run, plan: Plan) -> Chart:
    """The labels used along the stream, beside those that the plan would have used."""
    rounds, _ = session.curve(POINTS)
    labelled = [lesson.round for lesson in session.state.lessons if lesson.label != SKIP]
    lines = [
        ("planned", PALETTE[-1], sum(expected(plan, rounds))),
        ("used", PALETTE[2], np.searchsorted(labelled, rounds)),
    ]
    return _chart("pace", "Labels", rounds, lines, ",.0f", session.rounds)


def estimated(session: Run, points: list) -> list[Chart]:
    """The charts of the metrics of a session as `estimates.look` has them."""
    charts = []
    for name, title in HEADLINES[session.multiclass].items():
        rounds = np.array(estimates.line(points, "push", name)[0])
        if rounds.size:
            lines = [(NAMES[key], color, *estimates.line(points, key, name)[1]) for key, color in COLORS.items()]
            charts.append(
                _chart(f"{name}-estimated", f"{title}, estimated", rounds, lines, ".2f", session.rounds, y=FRACTION)
            )
    return charts


def _answers(session: Run) -> Chart:
    """The answers of each class over the labels; of many classes those that are most."""
    labels = np.array(session.labels, dtype=int)
    steps, most = np.arange(1, labels.size + 1), list(session.names)
    if len(most) > len(PALETTE):
        most = sorted(most, key=lambda label: -(labels == label).sum())[: len(PALETTE)]
    lines = [(session.names[k], color, (labels == k).cumsum()) for k, color in zip(most, _colors(session))]
    return _chart("answers", "Answers of each class", steps, lines, "d", session.state.budget, "labels")


def _colors(session: Run) -> tuple[str, ...]:
    return PALETTE if session.multiclass else (PALETTE[0], PALETTE[-1])


def _chart(
    key: str,
    title: str,
    x: np.ndarray,
    lines: list[tuple],
    format: str,
    end: int,
    unit: str = "items",
    y: dict | None = None,
) -> Chart:
    """A figure whose x axis ends at the next round number, or where the stream does."""
    reached = x[-1] if len(x) else 0
    end = next(
        (step * 10**power for power in range(1, 9) for step in (2, 5, 10) if reached < step * 10**power < end), end
    )
    hover = f"%{{y:{'.3f' if format == '.2f' else format}}}"
    bands = [band for _, _, _, *band in lines if band]
    figure = {
        "data": [
            *(_band(x, color, *band) for _, color, _, *band in lines if band),
            *(
                {
                    "type": "scatter",
                    "x": x,
                    "y": values,
                    "name": html.escape(name),
                    "mode": "lines",
                    "line": {"color": color, "width": 2, "dash": ESTIMATED if bands else "solid"},
                    "hovertemplate": hover,
                }
                for name, color, values, *_ in lines
            ),
        ],
        "layout": {
            "height": HEIGHT,
            "margin": {"l": 44, "r": 12, "t": 9, "b": 22, "autoexpand": False},
            "hovermode": "x unified",
            "uirevision": key,
            "showlegend": False,
            "xaxis": {"range": [0, end], "fixedrange": True, "nticks": 6},
            "yaxis": {"rangemode": "tozero", "tickformat": format, "fixedrange": True, "nticks": 4} | (y or {}),
        },
    }
    legend = [(name, color) for name, color, *_ in lines]
    now = tuple(_now(values[-1], format) if len(values) else "" for _, _, values, *_ in lines)
    last = ", ".join(f"{name} {value}" for (name, _), value in zip(legend, now) if value)
    alt = f"{title} over {unit}: now {last or 'nothing yet'}."
    return Chart(key, title, unit, legend, figure, alt, now, tuple(bands))


def _now(value: float, format: str) -> str:
    """A value in words; a small share keeps a digit behind the point."""
    return f"{value:{'.1%' if format == '.0%' and value < 0.1 else format}}"


def _band(x: np.ndarray, color: str, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """The area between two lines."""
    return {
        "type": "scatter",
        "x": np.concatenate((x, x[::-1])),
        "y": np.concatenate((high, low[::-1])),
        "mode": "none",  # else a band of few points has a dot at each
        "fill": "toself",
        "fillcolor": f"rgba({', '.join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))}, 0.16)",
        "hoverinfo": "skip",
    }


class _AsItIs(BaseFigure):  # type: ignore[misc]
    """A figure that plotly neither checks nor copies: twenty people's charts cost half of a server's time otherwise.
    That plotly would accept it is tested."""

    def __init__(self, figure: dict[str, Any]) -> None:
        self._figure = figure

    def to_dict(self) -> dict[str, Any]:
        return self._figure


def show(chart: Chart) -> None:
    """Draw a chart under a line with its title and legend."""
    names = "".join(
        f'<span><i style="display:inline-block;width:.9rem;margin-right:.3rem;'
        f'vertical-align:middle;border-top:3px {"dotted" if chart.bands else "solid"} {color}"></i>{explained(name)} '
        f'<b style="font-variant-numeric:tabular-nums">{now or ""}</b></span>'
        for (name, color), now in zip_longest(chart.legend, chart.now)
    )
    unit = "" if chart.bands else f"over {chart.unit}"
    st.html(
        '<div style="position:relative;display:flex;flex-wrap:wrap;gap:0 .8rem;justify-content:space-between;'
        'margin-bottom:-.7rem;font-size:.85rem">'
        f'<span><b style="font-size:.95rem">{explained(chart.title)}</b> <span style="opacity:.75">{unit}</span></span>'
        f'<span style="display:flex;flex-wrap:wrap;gap:0 .8rem">{names}</span></div>'
    )
    st.plotly_chart(_AsItIs(chart.figure), key=f"chart-{chart.key}", alt=chart.alt, config={"displayModeBar": False})

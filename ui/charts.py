"""The live curves of a session, as plotly figures."""

import html
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from oal_engine import metrics

POINTS = 400  # more cost time in the browser and show nothing more
COLORS = {"push": "#26988b", "push_query": "#d9822b"}
NAMES = {"push": "push", "push_query": "push-and-query"}
HEADLINES = {
    False: {"sum": "Weighted sum", "f1": "F1"},
    True: {"accuracy": "Accuracy", "macro_f1": "Macro F1"},
}  # whether there are K classes -> the metrics that are drawn and told first
PALETTE = ("#26988b", "#d9822b", "#8d6fc0", "#4a86c8", "#c0587e", "#7a9a3a", "#8a8f98")
FRACTION = {"range": [0, 1.02], "tickvals": [0, 0.25, 0.5, 0.75, 1]}  # a fixed axis does not jump
HEIGHT = 148  # pixels: three charts and the result fit beside the card


@dataclass(frozen=True)
class Chart:
    """A figure, its key on the page, its title, unit and legend (name, color), and what it shows in words."""

    key: str
    title: str
    unit: str
    legend: list
    figure: go.Figure
    alt: str


def of_session(session):
    """The charts of a session: its metrics where the data has labels, else the answers; then shares of the stream."""
    rounds, counts = session.curve(POINTS)
    charts = []
    if session.labelled:
        found = {key: session.evaluate(counts, key) for key in metrics.EVALUATIONS}
        for name, title in HEADLINES[session.multiclass].items():
            lines = [(NAMES[key], COLORS[key], values[name]) for key, values in found.items()]
            charts.append(_chart(name, title, rounds, lines, ".2f", session.rounds, y=FRACTION))
    else:
        charts.append(_answers(session))
    done = np.maximum(rounds, 1)
    lines = [("asked", "#8d6fc0", counts[..., 1].sum((1, 2)) / done)]
    if not session.multiclass:
        lines.append(("pushed", COLORS["push"], counts[:, 1].sum((1, 2)) / done))
    charts.append(_chart("rates", "Share of the stream", rounds, lines, ".0%", session.rounds))
    return charts


def _answers(session):
    """The answers of each class over the labels; of many classes those that are most."""
    labels = np.array(session.labels, dtype=int)
    steps, most = np.arange(1, labels.size + 1), session.names
    if len(most) > len(PALETTE):
        most = sorted(most, key=lambda label: -(labels == label).sum())[: len(PALETTE)]
    lines = [(session.names[k], color, (labels == k).cumsum()) for k, color in zip(most, _colors(session))]
    return _chart("answers", "Answers of each class", steps, lines, "d", session.about["budget"], "labels")


def _colors(session):
    return PALETTE if session.multiclass else (PALETTE[0], PALETTE[-1])


def _chart(key, title, x, lines, format, end, unit="items streamed", y=None):
    """A figure whose x axis ends at the next round number, or where the stream does."""
    reached = x[-1] if len(x) else 0
    end = next(
        (step * 10**power for power in range(1, 9) for step in (2, 5, 10) if reached < step * 10**power < end), end
    )
    hover = f"%{{y:{'.3f' if format == '.2f' else format}}}"
    figure = go.Figure(
        [
            go.Scatter(
                x=x,
                y=values,
                name=html.escape(name),
                mode="lines",
                line={"color": color, "width": 2},
                hovertemplate=hover,
            )
            for name, color, values in lines
        ],
        {
            "height": HEIGHT,
            "margin": {"l": 44, "r": 12, "t": 9, "b": 22, "autoexpand": False},
            "hovermode": "x unified",
            "uirevision": key,
            "showlegend": False,
            "xaxis": {"range": [0, end], "fixedrange": True, "nticks": 6},
            "yaxis": {"rangemode": "tozero", "tickformat": format, "fixedrange": True, "nticks": 4} | (y or {}),
        },
    )
    legend = [(name, color) for name, color, _ in lines]
    last = ", ".join(f"{name} {values[-1]:{format}}" for name, _, values in lines if len(values))
    return Chart(key, title, unit, legend, figure, f"{title} over {unit}: now {last or 'nothing yet'}.")


def show(chart):
    """Draw a chart under a line with its title and legend."""
    names = "".join(
        f'<span style="margin-left:.9rem"><i style="display:inline-block;width:.9rem;height:.2rem;margin-right:.35rem;'
        f'vertical-align:middle;border-radius:1px;background:{color}"></i>{html.escape(name)}</span>'
        for name, color in chart.legend
    )
    st.html(
        '<div style="display:flex;flex-wrap:wrap;justify-content:space-between;margin-bottom:-.7rem;font-size:.85rem">'
        f'<span><b style="font-size:.95rem">{chart.title}</b> <span style="opacity:.75">over {chart.unit}</span></span>'
        f"<span>{names}</span></div>"
    )
    st.plotly_chart(chart.figure, key=f"chart-{chart.key}", alt=chart.alt, config={"displayModeBar": False})

"""The live curves of a session, drawn by plotly."""

import html
from importlib import import_module
from typing import Any

import numpy as np
import streamlit as st
from plotly.basedatatypes import BaseFigure

from oal_engine.sessions.insights.curves import COUNT, FRACTION, Chart, Line

from .meanings import explained

AXIS = {"range": [0, 1.02], "tickvals": [0, 0.25, 0.5, 0.75, 1]}  # for fractions: a fixed axis does not jump
COUNTS = {"autorangeoptions": {"include": 4}}  # otherwise an axis that ends at 1 has ticks between whole numbers
HEIGHT = 128  # pixels, so that the charts fit next to the card
DASHES = "4px 3px"  # for estimated lines


def figure(chart: Chart) -> dict[str, Any]:
    """Return a chart as a plotly figure."""
    hover = f"%{{y:{'.3f' if chart.format == FRACTION else chart.format}}}"
    return {
        "data": [
            *(_band(line.x, line.color, *line.band) for line in chart.lines if line.band),
            *(_trace(line, hover, chart.estimated) for line in chart.lines),
        ],
        "layout": {
            "height": HEIGHT,
            "margin": {"l": 44, "r": 12, "t": 9, "b": 22, "autoexpand": False},
            "hovermode": "x unified",
            "uirevision": chart.key,
            "showlegend": False,
            "xaxis": {"range": [0, chart.end], "fixedrange": True, "nticks": 6},
            "yaxis": {"rangemode": "tozero", "tickformat": chart.format, "fixedrange": True, "nticks": 4}
            | (AXIS if chart.format == FRACTION else COUNTS if chart.format == COUNT else {}),
        },
    }


def _trace(line: Line, hover: str, dashed: bool) -> dict[str, Any]:
    return {
        "type": "scatter",
        "x": line.x,
        "y": line.y,
        "name": html.escape(line.name),
        "mode": "lines",
        "line": {"color": line.color, "width": 2, "dash": DASHES if dashed else "solid"},
        "hovertemplate": hover,
    }


def _band(x: np.ndarray, color: str, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Return the plotly trace that fills the area between the curves `low` and `high`."""
    return {
        "type": "scatter",
        "x": np.concatenate((x, x[::-1])),
        "y": np.concatenate((high, low[::-1])),
        "mode": "none",  # otherwise plotly draws dots at the points of a short band
        "fill": "toself",
        "fillcolor": f"rgba({', '.join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))}, 0.16)",
        "hoverinfo": "skip",
    }


class _AsItIs(BaseFigure):  # type: ignore[misc]
    """A figure that plotly neither validates nor copies: doing both took half of the server's time with twenty people.
    A test makes sure that plotly would accept it."""

    def __init__(self, figure: dict[str, Any]) -> None:
        self._figure = figure

    def to_dict(self) -> dict[str, Any]:
        return self._figure


def show(chart: Chart) -> None:
    """Draw a chart below its title and legend."""
    names = "".join(
        f'<span><i style="display:inline-block;width:.9rem;margin-right:.3rem;'
        f'vertical-align:middle;border-top:3px {"dotted" if chart.estimated else "solid"} {line.color}"></i>'
        f'{explained(line.name)} <b style="font-variant-numeric:tabular-nums">{now}</b></span>'
        for line, now in zip(chart.lines, chart.now)
    )
    unit = "" if chart.estimated else f"over {chart.unit}"
    st.html(
        '<div style="position:relative;display:flex;flex-wrap:wrap;gap:0 .8rem;justify-content:space-between;'
        'margin-bottom:-.7rem;font-size:.85rem">'
        f'<span><b style="font-size:.95rem">{explained(chart.title)}</b> <span style="opacity:.75">{unit}</span></span>'
        f'<span style="display:flex;flex-wrap:wrap;gap:0 .8rem">{names}</span></div>'
    )
    draw(_AsItIs(figure(chart)), f"chart-{chart.key}", chart.alt)


def draw(plotted: BaseFigure, key: str, alt: str) -> None:
    """Draw a plotly figure without its bar of tools."""
    import_module("pandas")  # plotly would use it while another thread has imported half of it
    st.plotly_chart(plotted, key=key, alt=alt, config={"displayModeBar": False})

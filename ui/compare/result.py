"""The result of a comparison: curves, values at the end, tables, and the files to download."""

import html
import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from oal_engine import experiments
from oal_engine.experiments import Comparison, figures, report
from oal_engine.experiments.figures import AXES, ResultView, budget_name
from oal_engine.experiments.specifications import Limit
from oal_engine.kernel import metrics
from oal_engine.output.page import TABLE_STYLE
from oal_engine.output.plots import NAMES, TITLES, drawn, number
from oal_engine.store import Store

from ..address import BOUND, check_choice
from ..charts import draw
from ..meanings import listed
from ..page import note, small_note

NOTHING_SHARED = (
    "They have no result in common: no algorithm ran on the same data with the same budget in both comparisons."
)

MAX_BANDS = 6  # lines with bands; more cannot be told apart
PHONE_CHARACTERS = 45  # of a legend in one row on a phone
STYLE = """<style>
.st-key-compare-ranks { overflow-x: auto; }
.st-key-compare-ranks img { min-width: 36rem; }
@media (max-width: 640px) {
  .st-key-compare-view [data-testid="stColumn"] { min-width: calc(50% - .5rem); flex: 1 1 calc(50% - .5rem); }
}
</style>"""


def show_result(store: Store, row: dict[str, Any]) -> None:
    """Show the results of a comparison that are complete so far, with controls that choose which of them are shown."""
    st.html(STYLE)
    version = _version(store, row)
    result = _loaded(version, store)
    view = _view(result)
    names = ", ".join(view.names)
    curves = f"{TITLES[view.metric]} over {figures.axes(result)[view.axis]} of {names}."
    if view.axis not in AXES:
        _chart("points", _curves(result, view), curves)
    for sweep in figures.sweeps(result, view):
        what = f"{TITLES[view.metric]} of {sweep.algorithm} over {' and '.join(sweep.values)}."
        if level := sweep.flat(view.metric):
            note(f"{what[:-1]}: {level}.")
        else:
            _chart(f"sweep-{sweep.algorithm}", _sweep(sweep, view), what)
    if view.axis in AXES:
        left, right = st.columns([3, 2], gap="medium")
        with left:
            _chart("curves", _curves(result, view), curves)
        with right:
            _chart("ends", _ends(result, view), f"{TITLES[view.metric]} at the end for each budget of {names}.")
    st.html(f"<style>{TABLE_STYLE}</style>" + _table(version, view.data, view.budget, view.evaluation, result))
    small_note(report.caption(result, view.evaluation))
    _details(store, result, view)


def _version(store: Store, row: dict[str, Any]) -> tuple[str, int, str, tuple]:
    """Return the cache key of a result, which changes whenever results are added."""
    return str(store.path), row["id"], row["name"], tuple(line["jobs"][0] for line in row["lines"])


@st.cache_resource(max_entries=16, show_spinner=False)
def _loaded(version: tuple[str, int, str, tuple], _store: Store) -> Comparison:
    return experiments.load(_store, version[1])


@st.cache_resource(max_entries=64, show_spinner=False)
def _table(version: tuple, data: str, budget: Limit, evaluation: str, _result: Comparison) -> str:
    return report.block_table(report.table(_result, data, budget, evaluation))


def _view(result: Comparison) -> ResultView:
    """Show the controls: data and budget, metric, evaluation, axis, lines, downloads. Return the chosen view."""
    blocks = result.blocks()
    with st.container(key="compare-view"):
        columns = st.columns([7, 4, 4, 4, 3, 4], vertical_alignment="bottom")
    names = {block: f"{block[0]}, {budget_name(block[1])}" for block in blocks}
    check_choice("block", "Data and budget", names.values())
    block = columns[0].selectbox("Data and budget", names, format_func=names.__getitem__, key="block", bind=BOUND)
    criteria = figures.metrics(result)
    check_choice("metric", "Metric", (TITLES[each] for each in criteria))
    metric = columns[1].selectbox(
        "Metric", criteria, criteria.index(result.spec.criterion), format_func=TITLES.__getitem__, key="metric",
        help=listed(TITLES[each] for each in criteria), bind=BOUND,
    )  # fmt: skip
    kinds = [*metrics.EVALUATIONS]
    check_choice("evaluation", "Evaluation", NAMES.values())
    evaluation = columns[2].selectbox(
        "Evaluation", kinds, kinds.index(result.spec.evaluation), format_func=NAMES.__getitem__, key="evaluation",
        help=listed(NAMES.values()), bind=BOUND,
    )  # fmt: skip
    axes = figures.axes(result)
    check_choice("over", "Curves over", axes.values())
    axis = columns[3].selectbox("Curves over", axes, format_func=axes.__getitem__, key="over", bind=BOUND)
    view = figures.view(result, *block, metric=metric, evaluation=evaluation, axis=axis)
    with columns[4].popover("Lines", width="stretch"):
        lines = figures.drawable(result, view)
        place = [*blocks].index(block) + 1 if axis in AXES else axis
        key = f"lines-{place}-{len(lines)}"  # another set of lines gets another widget
        check_choice(key, "Lines", lines)
        drawn_lines = st.multiselect("Lines that are drawn", lines, view.names, key=key, bind=BOUND)
        bands = st.toggle("One standard deviation", len(view.names) <= MAX_BANDS, key="bands", bind=BOUND)
    view = replace(view, names=tuple(drawn_lines), bands=bands)
    with columns[5].popover("Download", width="stretch"):
        _downloads(result, view)
    return view


def _details(store: Store, result: Comparison, view: ResultView) -> None:
    """Show the buttons under the table: each opens one kind of details about the result."""
    kinds = {"p-values": _p_values, "Average ranks": _ranks}
    if result.spec.tune != "none":
        kinds["Settings tried"] = _trials
    kinds |= {"Compare with …": _differences, "Specification": _specification}
    check_choice("details", "Details", kinds)
    kind = st.segmented_control("Details", kinds, key="details", label_visibility="collapsed", bind=BOUND)
    if kind:
        kinds[kind](store, result, view)


def _p_values(store: Store, result: Comparison, view: ResultView) -> None:
    st.html(report.test_table(result, view.data, view.budget, view.metric, view.evaluation))


def _ranks(store: Store, result: Comparison, view: ResultView) -> None:
    ranks = result.ranks(view.metric, view.evaluation)
    if ranks["critical_difference"] is None:
        note("Ranks need at least two algorithms on at least two data sets or budgets.")
        return
    ink = "#fafafa" if st.context.theme.type == "dark" else "#1c2024"
    svg = drawn("svg", figures.draw_ranks, result, ranks, size=figures.RANKS_INCHES, ink=ink).decode()
    words = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks["ranks"].items())
    with st.container(key="compare-ranks"):
        st.image(svg[svg.index("<svg") :], width=760, alt=f"Average ranks: {words}")
    note(f"{TITLES[view.metric]}, {NAMES[view.evaluation]}. {report.ranks_caption(ranks)}")


def _trials(store: Store, result: Comparison, view: ResultView) -> None:
    title = f"{TITLES[result.spec.criterion]} ({NAMES[result.spec.evaluation]})"
    rows = [
        {"algorithm": each["algorithm"], "settings": figures.settings(each["settings"]), title: each["score"]}
        for each in result.trials()
        if (each["data"], each["budget"]) == (view.data, view.budget)
    ]
    st.dataframe(rows, hide_index=True, height=min(420, 38 + 35 * len(rows)))


def _differences(store: Store, result: Comparison, view: ResultView) -> None:
    data = {*result.spec.data}
    rows = [row for row in store.comparisons() if row["has_lines"] and row["name"] != result.name]
    others = {row["id"]: row for row in sorted(rows, key=lambda row: data.isdisjoint(row["specification"]["data"]))}
    if not others:
        note("No other comparison has a result.")
        return
    names = {key: row["name"] for key, row in others.items()}
    check_choice("with", "Compare with", names.values())
    chosen = st.selectbox("Compare with", names, format_func=names.__getitem__, key="with", bind=BOUND)
    other = _loaded(_version(store, store.comparison(chosen)), store)
    if len(other.lines[0].classes) != len(result.lines[0].classes) or not report.differences(
        result, other, view.metric, view.evaluation
    ):
        note(NOTHING_SHARED)
        return
    st.html(report.difference_table(result, other, view.metric, view.evaluation))


def _specification(store: Store, result: Comparison, view: ResultView) -> None:
    st.code(json.dumps(result.spec.values | {"versions": result.versions}, indent=1), language=None)


def _downloads(result: Comparison, view: ResultView) -> None:
    base = re.sub(r"[^\w.-]+", "-", result.name).strip("-")[:60] or "comparison"
    for suffix, (make, kind, words) in report.FILES.items():
        file, name, key = partial(make, result, view), f"{base}.{suffix}", f"compare-download-{suffix}"
        st.download_button(words, file, name, kind, key=key, on_click="ignore", width="stretch")


# ---- Charts


def _chart(key: str, figure: go.Figure, what: str) -> None:
    figure.update_layout(
        margin={"l": 8, "r": 8, "t": 8, "b": 8}, uirevision=key, hoverlabel={"namelength": -1},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "itemwidth": 50},
    )  # fmt: skip
    draw(figure, f"compare-chart-{key}", what)


def _height(view: ResultView) -> int:
    """Return the height of a chart in pixels, with room for its legend on a phone, where a long name fills a row."""
    in_row = max(1, PHONE_CHARACTERS // (10 + max(map(len, view.names), default=0)))
    return 350 + 20 * -(-len(view.names) // in_row)


def _curves(result: Comparison, view: ResultView) -> go.Figure:
    traces, places, points = [], list[np.ndarray](), view.axis not in AXES
    for name, x, mean, low, high, (color, dash, _, mark, _) in figures.curves(result, view):
        shared = {"legendgroup": name, "name": html.escape(name)}
        places.append(x)
        words = [html.escape(figures.amount(result, view.axis, each)) for each in x]
        bars = {"array": high - mean, "arrayminus": mean - low, "thickness": 1, "width": 3, "visible": view.bands}
        if view.bands and not points:
            traces.append(go.Scatter(
                x=[*x, *x[::-1]], y=[*high, *low[::-1]], fill="toself", fillcolor=color, opacity=0.1, mode="none",
                hoverinfo="skip", showlegend=False, **shared,
            ))  # fmt: skip
        traces.append(go.Scatter(
            x=x, y=mean, mode="lines+markers", line={"color": color, "dash": dash, "width": 2},
            marker={"symbol": mark, "size": 7, "maxdisplayed": 0 if points else 8}, customdata=words,
            error_y=bars if points else None, hovertemplate="%{y:.3f} at %{customdata}" if points else "%{y:.3f}",
            **shared,
        ))  # fmt: skip
        if points:
            continue
        traces.append(go.Scatter(
            x=x[-1:], y=mean[-1:], mode="markers", marker={"symbol": mark, "size": 12, "color": color},
            hoverinfo="skip", showlegend=False, cliponaxis=False, **shared,
        ))  # fmt: skip
    axis: dict[str, Any] = {"title": html.escape(figures.axis_title(result, view.axis))}
    if view.axis in figures.AXIS_TITLES:
        axis["rangemode"] = "tozero"
    if points and places:
        kind, marks, words = figures.scale(result, view.axis, np.concatenate(places))
        axis |= {"type": kind, "tickformat": "~%" if view.axis == "share" else ",~r"}
        axis |= {"tickvals": marks, "ticktext": [*map(html.escape, words)]} if words else {}
    return go.Figure(traces, {
        "height": _height(view), "hovermode": "closest" if points else "x unified",
        "yaxis": {"title": TITLES[view.metric]}, "xaxis": axis,
    })  # fmt: skip


def _ends(result: Comparison, view: ResultView) -> go.Figure:
    """Draw the values at the end of each budget, with the standard deviation over the runs."""
    blocks = {budget: lines for (data, budget), lines in result.blocks().items() if data == view.data}
    styles, traces = figures.styles(result, figures.drawable(result, view)), []
    for name in view.names:
        budgets = [budget for budget, lines in blocks.items() if name in lines]
        values = [result.values(blocks[budget][name], view.metric, view.evaluation) for budget in budgets]
        means = np.array([each.mean() for each in values])
        spreads = np.array([each.std(ddof=1) if len(each) > 1 else 0 for each in values])
        bars = {"array": spreads, "arrayminus": np.minimum(spreads, means), "thickness": 1.3}  # no metric is negative
        color, _, _, mark, _ = styles[name]
        traces.append(go.Scatter(
            x=[*map(budget_name, budgets)], y=[*means], error_y=bars, mode="markers",
            name=html.escape(name), marker={"color": color, "symbol": mark, "size": 10}, offsetgroup=name,
            cliponaxis=False, hovertemplate="%{y:.3f} ± %{error_y.array:.3f}",
        ))  # fmt: skip
    return go.Figure(traces, {
        "height": _height(view), "scattermode": "group", "scattergap": 0.35, "xaxis": {"type": "category"},
        "yaxis": {"title": f"{TITLES[view.metric]} at the end"},
    })  # fmt: skip


def _sweep(sweep: figures.Sweep, view: ResultView) -> go.Figure:
    """Draw a heat map over two parameters with a ring around the best cell."""
    (above, rows), (key, columns) = sweep.values.items()
    title = f"{TITLES[view.metric]} of {sweep.algorithm}"
    row, column = sweep.best(view.metric)
    heat = go.Heatmap(
        z=sweep.mean, x=columns, y=rows, colorscale="Viridis",
        colorbar={"title": {"text": title, "side": "top"}, "orientation": "h", "y": 1, "yanchor": "bottom",
                  "thickness": 10},
        hovertemplate=f"{above} %{{y}}, {key} %{{x}}: %{{z:.4f}}<extra></extra>",
    )  # fmt: skip
    dark = sweep.mean < (np.nanmin(sweep.mean) + np.nanmax(sweep.mean)) / 2
    values = go.Scatter(
        x=columns * len(rows), y=np.repeat(rows, len(columns)), mode="text", hoverinfo="skip", showlegend=False,
        text=["" if np.isnan(each) else number(view.metric, each) for each in sweep.mean.flat],
        textfont={"color": np.where(dark, "#fff", "#000").ravel()},
    )  # fmt: skip
    ring = go.Scatter(
        x=[columns[column]], y=[rows[row]], mode="markers", hoverinfo="skip",
        marker={"symbol": "square-open", "size": 34, "color": "#e00000", "line": {"width": 3}}, showlegend=False,
    )  # fmt: skip
    return go.Figure([heat, values, ring], {
        "height": 440, "xaxis": {"type": "category", "title": key},
        "yaxis": {"type": "category", "title": above},
    })  # fmt: skip

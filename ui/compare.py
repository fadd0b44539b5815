"""The Compare page: what to compare, the job that does it, and its result."""

import html
import json
import re
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from oal_engine import datasets, experiments
from oal_engine.datasets.demo import DEMOS
from oal_engine.experiments import Comparison, figures, jobs, report, specifications
from oal_engine.experiments.figures import AXES, ResultView, budget_name
from oal_engine.experiments.specifications import PROTOCOLS
from oal_engine.kernel import metrics
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.kernel.learners import is_multiclass
from oal_engine.kernel.query_rules import QUERY_RULES, partners
from oal_engine.output.page import TABLE_STYLE
from oal_engine.output.plots import METRICS, NAMES, STYLES, TITLES, drawn, number
from oal_engine.store import Store

from .forms import AIMS
from .page import complain, entry, guarded, literal, note, one_row, owns

PAGE = "pages/2_Compare.py"
FIRST = {False: ["OAAL", "PAA-I", "CSOAL", "OA3-diag", "RPA-I"], True: ["MPAA-I", "MD-AMD-I", "MRPA-I"]}
BUDGETS = "100, 300"
WEIGHTS = {
    "alpha_p": ("Weight of sensitivity", "0.5"),
    "c_p": ("Cost of a miss", "0.9"),
    "rho": ("Weight of positives in learning (ρ)", "auto"),
}
BANDS = 6  # lines; more bands are mud
TELEPHONE = 45  # letters of a legend in a row
STYLE = """<style>
[class*="st-key-compare-link"] { gap: .1rem; }
[class*="st-key-compare-link"] a:not(:hover) { background: none; }
[class*="st-key-compare-link"] a { padding-left: 0; }
[class*="st-key-compare-link-"] a p { font-size: 1rem; font-weight: 600; white-space: normal; overflow-wrap: anywhere;
  line-height: 1.35; }
.st-key-compare-ranks { overflow-x: auto; }
.st-key-compare-ranks img { min-width: 36rem; }
@media (max-width: 640px) {
  .st-key-compare-view [data-testid="stColumn"] { min-width: calc(50% - .5rem); flex: 1 1 calc(50% - .5rem); }
}
</style>"""
STATES = {
    "running": "running", "finished": "finished", "failed": "failed", "cancelled": "cancelled",
    "lost": "lost its process", "stopped": "not finished",
}  # fmt: skip


def compare(store: Store) -> None:
    """The comparison in the address, or a form of a new one beside those that are kept."""
    st.html(STYLE)
    asked = st.query_params.get("comparison", "")
    if not asked:
        st.query_params.from_dict(st.query_params.to_dict())  # a link from here to here leaves the old address standing
        left, right = st.columns([3, 2], gap="large")
        with left:
            _new(store)
        with right:
            _saved(store)
    elif asked.isdigit() and store.one("SELECT 1 FROM comparisons WHERE id = ?", int(asked)):
        _shown(store, int(asked))
    else:
        complain(f"Comparison {asked} does not exist.")
        st.page_link(PAGE, label="All comparisons")


def _open(comparison: int) -> None:
    st.query_params["comparison"] = str(comparison)
    st.rerun()


# ---- A new one


def _new(store: Store) -> None:
    st.header("New comparison", anchor=False)
    data, many = _data(store)
    protocols = "\n".join(f"- {literal(f'{_tuning(key)}: {words}.')}" for key, words in PROTOCOLS.items())
    tune = st.selectbox("Parameters", PROTOCOLS, 1, format_func=_tuning, key="compare-tune", help=protocols)
    _small(f"{PROTOCOLS[tune].capitalize()}.")
    left, middle, right = st.columns([2, 1, 2])
    budgets = left.text_input(
        "Budgets", BUDGETS, key="compare-budgets", help="Labels, separated by commas; empty for no limit."
    )
    permutations = middle.number_input("Runs", 1, 10_000, 10, key="compare-runs", help="Each over an order of its own.")
    criteria = [*METRICS[many]]
    criterion = right.selectbox(
        "Criterion",
        criteria,
        criteria.index("macro_f1" if many else "f1"),
        format_func=TITLES.__getitem__,
        key=f"compare-criterion-{many}",
    )
    algorithms = st.multiselect(
        "Algorithms",
        _fitting(many),
        FIRST[many],
        key=f"compare-algorithms-{many}",
        help="Published names, or a learner + a query rule.",
    )
    try:
        with st.expander("Values of parameters"):
            chosen = {name: _parameters(name, tune) for name in algorithms}
        with st.expander("More settings"):
            more = _more(tune, many)
        swept = {key: more.pop(key) for key in WEIGHTS if isinstance(more.get(key), list) and len(more[key]) > 1}
        if swept and tune != "none":
            raise experiments.ExperimentError(
                "Several weights are a sweep, which needs parameters as given, not tuned."
            )
        chosen = {name: values | swept for name, values in chosen.items()}
        more = {key: value[0] if isinstance(value, list) else value for key, value in more.items()}
        name = st.text_input("Name", placeholder="its algorithms", max_chars=120, key="compare-name").strip()
        spec = experiments.specification(
            {"data": data, "algorithms": chosen, "tune": tune, "budgets": _budgets(budgets)}
            | {"permutations": permutations, "criterion": criterion} | more
        )  # fmt: skip
    except ValueError as error:
        complain(error)
        return
    unread: list[Any] = [None] * len(data)  # how many replays there are does not depend on what the data hold
    replays = sum(run.work() for run in experiments.planned_runs(spec, unread))
    with st.container(horizontal=True, vertical_alignment="center"):
        sent = st.button("Compare", type="primary", key="compare-send")
        st.text(f"about {replays:,} replays")
    if sent:
        try:
            comparison = experiments.begin(spec, store, name)
            jobs.start(store, comparison)
        except (ValueError, OSError) as error:
            complain(error)
        else:
            _open(comparison)


def _small(words: str) -> None:
    """A sentence on what stands above it."""
    st.html(f'<p style="opacity:.8;font-size:.88rem;margin:-.5rem 0 0">{html.escape(words)}</p>')


def _tuning(key: str) -> str:
    return "As given" if key == "none" else f"Tuned, {key}"


def _data(store: Store) -> tuple[list[str], bool]:
    """The data sets as a specification names them, and whether they have several classes."""
    words, several = {}, set()
    for row in store.datasets():
        if datasets.labelled(cast(datasets.DatasetRecord, row)):
            kinds = f"{len(row['classes'])} classes" if row["classes"] else f"{row['positives']:,} positive"
            words[row["name"]] = f"{row['name']} ({row['items']:,} items, {kinds})"
            if row["classes"]:
                several.add(row["name"])
            words |= {f"{row['name']}={one}": f"{row['name']}: {one} against the rest" for one in row["classes"] or ()}
    words |= {f"demo:{key}": each.name for key, each in DEMOS.items() if each.name not in words}
    data = st.multiselect("Labeled data", words, [*words][:1], format_func=words.__getitem__, key="compare-data")
    many = {each in several for each in data}
    if len(many) > 1:
        complain("Data with several classes and data with one rare class need different algorithms: choose one kind.")
        st.stop()
    return data, many == {True}


def _fitting(many: bool) -> list[str]:
    """The names of algorithms, and every learner + rule, for two or for several classes."""
    own = [
        f"{learner} + {rule}" for rule in QUERY_RULES for learner in partners(rule) if is_multiclass(learner) == many
    ]
    return [name for name, entry in ALGORITHMS.items() if is_multiclass(entry.learner) == many] + own


def _parameters(name: str, tune: str) -> dict[str, Any]:
    """What is typed for the parameters of an algorithm; what is left empty is its default, or tuned."""
    defaults, usual = experiments.chosen(name).parameters, experiments.grid(name, {}, tune)
    fixed = getattr(ALGORITHMS.get(name), "fixed", {})
    free = {key: value for key, value in defaults.items() if key not in fixed}
    st.html(f"<b>{html.escape(name)}</b>" + ("" if free else " has none."))
    typed = {}
    for column, (key, value) in zip(st.columns(max(3, len(free))), free.items()):
        text = column.text_input(
            key,
            placeholder="tuned" if key in usual else f"{value:g}",
            key=f"compare-{name}-{key}",
            help=literal(f"A number, several (1, 10), or powers ({specifications.TENS}). Default {value:g}."),
        ).strip()
        if text:
            typed[key] = specifications.typed(text, f"{key} of {name}")
    return (usual | typed) if typed else {}


def _more(tune: str, many: bool) -> dict[str, Any]:
    left, middle, right = st.columns(3)
    settings = {
        "evaluation": left.selectbox("Evaluation", NAMES, format_func=NAMES.__getitem__, key="compare-evaluation"),
        "seed": middle.number_input("First seed", 0, 2**31, 0, key="compare-seed"),
        "average": right.selectbox("After the budget", ["Last weights", "Averaged weights"], key="compare-average")
        == "Averaged weights",
    }
    hit = left.text_input(
        "Labels to hit",
        key="compare-hit",
        help="A share or a number of labels that each query rule is scaled to. Empty: rules ask as they do.",
    )
    if hit.strip():
        try:
            settings["hit"] = float(hit)
        except ValueError:
            raise experiments.ExperimentError(f"Labels to hit must be a share, or their number. Got {hit}.") from None
    if tune == "2:1":
        settings["trials"] = middle.number_input("Streams to tune on", 1, 100, 3, key="compare-trials")
    if not many:
        settings["metric"] = right.selectbox(
            "Learners aim at", AIMS, format_func=AIMS.__getitem__, key="compare-metric"
        )
        for column, (key, (label, usual)) in zip((left, middle, right), WEIGHTS.items()):
            text = column.text_input(label, usual, key=f"compare-{key}", help="Several values (0.5, 0.9) are a sweep.")
            settings[key] = text.strip() if text.strip() in ("auto", "laplace") else specifications.typed(text, label)
    return settings


def _budgets(text: str) -> list[int | None]:
    """Budgets out of what is typed; none is no limit."""
    try:
        return [None if part.strip() in ("", "none") else int(part) for part in text.split(",")]
    except ValueError:
        raise experiments.ExperimentError(
            f"Budgets must be whole numbers >= 1 separated by commas, or none. Got {text}."
        ) from None


# ---- Those that are kept


def _saved(store: Store) -> None:
    st.header("Comparisons", anchor=False)
    rows = store.comparisons()
    if not rows:
        note("None yet. Start the one on this page: it takes seconds.")
    removable = owns()
    for row in rows:
        state = jobs.status(store, row["id"])["state"]
        with one_row(f"compare-{row['id']}"):
            with st.container(key=f"compare-link-{row['id']}"):
                st.page_link(PAGE, label=literal(row["name"]), query_params={"comparison": str(row["id"])})
                details = html.escape(_details_line(row, state))
                st.html(f'<div class="oal-entry"><span>{details}</span></div>')
            if removable:
                _more_menu(store, row["id"])


def _details_line(row: dict[str, Any], state: str) -> str:
    spec = row["specification"]
    data = ", ".join(experiments.data_name(each) for each in spec["data"])
    when = datetime.fromisoformat(row["created_at"]).strftime("%d %b %Y %H:%M UTC")
    return " · ".join([STATES[state], data, when])


def _more_menu(store: Store, comparison: int) -> None:
    with st.popover("", icon=":material/more_horiz:", help="More"):
        if st.button("Delete this comparison", key=f"compare-delete-{comparison}"):
            jobs.remove(store, comparison)
            st.query_params.pop("comparison", None)
            st.rerun()


# ---- One of them


def _shown(store: Store, comparison: int) -> None:
    row, state = store.comparison(comparison), jobs.status(store, comparison)["state"]
    with one_row("compare"):
        with st.container(key="compare-link"):
            st.page_link(PAGE, label="← All comparisons")
            st.html(entry(row["name"], _details_line(row, state)))
        if state == "running":
            if owns() and st.button("Cancel", key="compare-cancel"):
                jobs.cancel(store, comparison)
                st.rerun()
        elif state != "finished" and st.button("Resume", type="primary", key="compare-go-on"):
            jobs.start(store, comparison)
            st.rerun()
        if owns():
            _more_menu(store, comparison)
    st.fragment(guarded()(_progress), run_every=1.0 if state == "running" else None)(store, comparison, state)


def _progress(store: Store, comparison: int, state: str) -> None:
    """How the job is, and the result as far as it is known."""
    job = jobs.status(store, comparison)
    if job["state"] != state:
        st.rerun()
    if job["state"] == "running":
        done, total = job["done"] or 0, job["total"]
        st.progress(min(1.0, done / total) if total else 0.0, _remaining(done, total, job["remaining"]))
    elif job["message"]:
        complain(f"It {STATES[state]}: {job['message']}")
    elif state in ("cancelled", "stopped"):
        note("It was stopped before its end. What is finished is kept; Resume runs the rest.")
    row = store.comparison(comparison)
    if row["lines"]:
        _show_result(store, row, _loaded(str(store.path), *_version(row), store))
    elif state == "running":
        note("Curves appear here as soon as the first of them is complete.")


def _remaining(done: int, total: int | None, remaining: float | None) -> str:
    if not total:
        return "Starting…"
    left = "" if remaining is None else f", about {_duration(remaining)} left"
    return f"{done:,} of {total:,} replays{left}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _version(row: dict[str, Any]) -> tuple[int, str, tuple]:
    """What tells a result from the same one with more lines."""
    return row["id"], row["name"], tuple(line["jobs"][0] for line in row["lines"])


@st.cache_resource(max_entries=16, show_spinner=False)
def _loaded(path: str, comparison: int, name: str, jobs: tuple, _store: Store) -> Comparison:
    return experiments.load(_store, comparison)


@st.cache_resource(max_entries=64, show_spinner=False)
def _table(
    path: str,
    comparison: int,
    name: str,
    jobs: tuple,
    data: str,
    budget: int | None,
    evaluation: str,
    _result: Comparison,
) -> str:
    return report.block_table(report.table(_result, data, budget, evaluation))


def _show_result(store: Store, row: dict[str, Any], result: Comparison) -> None:
    view = _view(result)
    for sweep in figures.sweeps(result, view):
        what = f"{TITLES[view.metric]} of {sweep.algorithm} over {' and '.join(sweep.values)}."
        _chart(f"sweep-{sweep.algorithm}", _sweep(sweep, view), what)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _chart("curves", _curves(result, view), f"{TITLES[view.metric]} over {AXES[view.axis]} of {_names(view)}.")
    with right:
        _chart("ends", _ends(result, view), f"{TITLES[view.metric]} at the end for each budget of {_names(view)}.")
    st.html(
        f"<style>{TABLE_STYLE}</style>"
        + _table(str(store.path), *_version(row), view.data, view.budget, view.evaluation, result)
    )
    _small(report.caption(result, view.evaluation))
    _details(store, result, view)


def _names(view: ResultView) -> str:
    return ", ".join(view.names)


def _view(result: Comparison) -> ResultView:
    """The controls of a result: which block, metric, evaluation, axis and lines are looked at, and as which file."""
    blocks = result.blocks()
    with st.container(key="compare-view"):
        columns = st.columns([8, 4, 4, 4, 2, 3], vertical_alignment="bottom")
    block = columns[0].selectbox(
        "Data and budget", blocks, format_func=lambda each: f"{each[0]}, {budget_name(each[1])}", key="compare-block"
    )
    lines = blocks[block]
    criteria = METRICS[bool(next(iter(lines.values())).classes)]
    metric = columns[1].selectbox(
        "Metric", criteria, criteria.index(result.spec.criterion), format_func=TITLES.__getitem__, key="compare-shown"
    )
    kinds = [*metrics.EVALUATIONS]
    evaluation = columns[2].selectbox(
        "Evaluation",
        kinds,
        kinds.index(result.spec.evaluation),
        format_func=NAMES.__getitem__,
        key="compare-shown-evaluation",
    )
    axis = columns[3].selectbox("Curves over", AXES, format_func=AXES.__getitem__, key="compare-axis")
    view = figures.view(result, *block, metric=metric, evaluation=evaluation, axis=axis)
    with columns[4].popover("Lines", width="stretch"):
        names = st.multiselect("Lines that are drawn", lines, view.names, key=f"compare-lines-{block}-{len(lines)}")
        bands = st.toggle("Bands of one standard deviation", len(view.names) <= BANDS, key="compare-bands")
    view = replace(view, names=tuple(names), bands=bands)
    with columns[5].popover("Download", width="stretch"):
        _downloads(result, view)
    return view


def _details(store: Store, result: Comparison, view: ResultView) -> None:
    """What is shown on demand under the table."""
    kinds = {"p-values": _tests, "Average ranks": _ranks}
    if result.spec.tune != "none":
        kinds["Settings tried"] = _trials
    kinds |= {"Compare with …": _beside, "Specification": _specification}
    kind = st.segmented_control("Details", kinds, key="compare-details", label_visibility="collapsed")
    if kind:
        kinds[kind](store, result, view)


def _tests(store: Store, result: Comparison, view: ResultView) -> None:
    st.html(report.test_table(result, view.data, view.budget, view.metric, view.evaluation))


def _ranks(store: Store, result: Comparison, view: ResultView) -> None:
    ranks = result.ranks(view.metric, view.evaluation)
    if ranks["critical_difference"] is None:
        note("Ranks need at least two algorithms on at least two data sets or budgets.")
        return
    ink = "#fafafa" if st.context.theme.type == "dark" else "#1c2024"
    svg = drawn("svg", figures.draw_ranks, result, ranks, size=figures.RANKS, ink=ink).decode()
    words = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks["ranks"].items())
    with st.container(key="compare-ranks"):
        st.image(svg[svg.index("<svg") :], width=760, alt=f"Average ranks: {words}")
    note(f"{TITLES[view.metric]}, {NAMES[view.evaluation]}. {report.ranks_caption(ranks)}")


def _trials(store: Store, result: Comparison, view: ResultView) -> None:
    tried = [each for each in result.trials() if (each["data"], each["budget"]) == (view.data, view.budget)]
    title = f"{TITLES[result.spec.criterion]} ({NAMES[result.spec.evaluation]})"
    rows = [
        {"algorithm": each["algorithm"], "settings": figures.settings(each["settings"]), title: each["score"]}
        for each in tried
    ]
    st.dataframe(rows, hide_index=True, height=min(420, 38 + 35 * len(rows)))


def _beside(store: Store, result: Comparison, view: ResultView) -> None:
    data = {*result.spec.data}
    rows = [row for row in store.comparisons() if row["has_lines"] and row["name"] != result.name]
    others = {row["id"]: row for row in sorted(rows, key=lambda row: data.isdisjoint(row["specification"]["data"]))}
    if not others:
        note("There is no other comparison with a result.")
        return
    chosen = st.selectbox("Compare with", others, format_func=lambda key: others[key]["name"], key="compare-other")
    other = _loaded(str(store.path), *_version(store.comparison(chosen)), store)
    if len(other.lines[0].classes) != len(result.lines[0].classes) or not report.differences(
        result, other, view.metric, view.evaluation
    ):
        note("They share no line: no algorithm ran on the same data with the same budget in both.")
        return
    st.html(report.difference_table(result, other, view.metric, view.evaluation))


def _specification(store: Store, result: Comparison, view: ResultView) -> None:
    st.code(json.dumps(asdict(result.spec) | {"versions": result.versions}, indent=1), language=None)


def _downloads(result: Comparison, view: ResultView) -> None:
    base = re.sub(r"[^\w.-]+", "-", result.name).strip("-")[:60] or "comparison"
    for suffix, (make, kind, words) in report.FILES.items():
        st.download_button(
            words,
            partial(make, result, view),
            f"{base}.{suffix}",
            kind,
            key=f"compare-download-{suffix}",
            on_click="ignore",
            width="stretch",
        )


# ---- Charts


def _chart(key: str, figure: go.Figure, what: str) -> None:
    figure.update_layout(
        margin={"l": 8, "r": 8, "t": 8, "b": 8}, uirevision=key, hoverlabel={"namelength": -1},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "itemwidth": 50},
    )  # fmt: skip
    st.plotly_chart(figure, key=f"compare-chart-{key}", alt=what, config={"displayModeBar": False})


def _height(view: ResultView) -> int:
    """Pixels of a chart whose legend leaves the lines room on a telephone too, where a long name fills a row."""
    in_row = max(1, TELEPHONE // (10 + max(map(len, view.names), default=0)))
    return 350 + 20 * -(-len(view.names) // in_row)


def _curves(result: Comparison, view: ResultView) -> go.Figure:
    traces = []
    for name, x, mean, low, high, (color, dash, _, mark, _) in figures.curves(result, view):
        shared = {"legendgroup": name, "name": html.escape(name)}
        if view.bands:
            traces.append(go.Scatter(
                x=[*x, *x[::-1]], y=[*high, *low[::-1]], fill="toself", fillcolor=color, opacity=0.1, mode="none",
                hoverinfo="skip", showlegend=False, **shared,
            ))  # fmt: skip
        traces.append(go.Scatter(
            x=x, y=mean, mode="lines+markers", line={"color": color, "dash": dash, "width": 2},
            marker={"symbol": mark, "size": 7, "maxdisplayed": 8}, hovertemplate="%{y:.3f}", **shared,
        ))  # fmt: skip
    return go.Figure(traces, {
        "height": _height(view), "hovermode": "x unified", "xaxis": {"title": AXES[view.axis], "rangemode": "tozero"},
        "yaxis": {"title": TITLES[view.metric]},
    })  # fmt: skip


def _bars(mean: np.ndarray, spread: np.ndarray) -> dict[str, Any]:
    """Bars of a standard deviation; no metric is below 0."""
    return {"array": spread, "arrayminus": np.minimum(spread, mean), "symmetric": False, "thickness": 1.3}


def _ends(result: Comparison, view: ResultView) -> go.Figure:
    """The value at the end of each budget, with the standard deviation over the runs."""
    blocks = {budget: lines for (data, budget), lines in result.blocks().items() if data == view.data}
    styles, traces = figures.styles(result, blocks[view.budget]), []
    for name in view.names:
        values = {
            budget_name(budget): result.values(lines[name], view.metric, view.evaluation)
            for budget, lines in blocks.items()
            if name in lines
        }
        color, _, _, mark, _ = styles[name]
        traces.append(go.Scatter(
            x=[*values], y=[each.mean() for each in values.values()], mode="markers", name=html.escape(name),
            error_y=_bars(
                np.array([each.mean() for each in values.values()]),
                np.array([each.std(ddof=1) if len(each) > 1 else 0 for each in values.values()]),
            ),
            marker={"color": color, "symbol": mark, "size": 10}, offsetgroup=name, cliponaxis=False,
            hovertemplate="%{y:.3f} ± %{error_y.array:.3f}",
        ))  # fmt: skip
    return go.Figure(traces, {
        "height": _height(view), "scattermode": "group", "scattergap": 0.35, "xaxis": {"type": "category"},
        "yaxis": {"title": f"{TITLES[view.metric]} at the end"},
    })  # fmt: skip


def _sweep(sweep: figures.Sweep, view: ResultView) -> go.Figure:
    """A line over one parameter, or a heat map over two with a ring around the best."""
    *above, key = sweep.values
    title = f"{TITLES[view.metric]} of {sweep.algorithm}"
    if not above:
        axis = {"type": sweep.scale(key), "title": key, "tickvals": sweep.values[key], "ticktext": sweep.labels(key)}
        line = go.Scatter(
            x=sweep.values[key], y=sweep.mean, error_y=_bars(sweep.mean, sweep.spread), mode="lines+markers",
            line={"color": STYLES[0][0]}, hovertemplate=f"{key} %{{x}}: %{{y:.3f}}<extra></extra>",
        )  # fmt: skip
        return go.Figure(line, {"height": 340, "xaxis": axis, "yaxis": {"title": title}})
    row, column = sweep.best(view.metric)
    columns, rows = sweep.labels(key), sweep.labels(above[0])
    heat = go.Heatmap(
        z=sweep.mean, x=columns, y=rows, colorscale="Viridis",
        colorbar={"title": {"text": title, "side": "top"}, "orientation": "h", "y": 1, "yanchor": "bottom",
                  "thickness": 10},
        hovertemplate=f"{above[0]} %{{y}}, {key} %{{x}}: %{{z:.4f}}<extra></extra>",
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
        "yaxis": {"type": "category", "title": above[0]},
    })  # fmt: skip

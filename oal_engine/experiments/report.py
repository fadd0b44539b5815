"""The result of a comparison as files: tables (CSV, Parquet, LaTeX), JSON, figures, and one page of HTML."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..kernel.metrics import EVALUATIONS
from ..output.page import INK, document, figure_cell, head_cell, html_table, inline, sentence, word_cell
from ..output.plots import METRICS, NAMES, ON_PAGE, TITLES, drawn, number, plain
from ..output.tables import guarded
from . import figures
from .figures import ResultView, budget_name
from .significance import Ranks
from .specifications import PROTOCOLS, Hit, Limit
from .tuned_runs import Result

if TYPE_CHECKING:
    import pandas

    from .comparison import Comparison

Cell: TypeAlias = tuple[float, float | None, str]  # mean, spread, mark


@dataclass(frozen=True)
class Row:
    """A line of a table: its settings in words, mean labels asked, and (mean, spread, mark) of each metric.

    mark: best; level, where a paired t-test does not tell it from the best; or "". floors: the mean recall and F1 that
    runs with a floor are certain of, by title.
    """

    name: str
    algorithm: str
    setting: str
    asked: float
    cells: dict[str, Cell]
    floors: dict[str, float]


FLOORS = {"recall": "Sensitivity ≥", "f1": "F1 ≥"}


def table(comparison: Comparison, data: str, budget: Limit, evaluation: str) -> list[Row]:
    """The Rows of a data set and budget, marked for each metric."""
    lines = comparison.blocks()[data, budget]
    metrics = METRICS[bool(next(iter(lines.values())).classes)]
    tests = {metric: comparison.test(lines, metric, evaluation) for metric in metrics}

    def cell(name: str, line: Result, metric: str) -> Cell:
        values, test = comparison.values(line, metric, evaluation), tests[metric][name]
        mark = "best" if test["best"] else "level" if test["level"] and len(values) > 1 else ""
        return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None, mark

    return [
        Row(
            name,
            line.algorithm,
            figures.settings(line.setting),
            float(line.counts[:, -1][..., 1].sum((1, 2)).mean()),
            {metric: cell(name, line, metric) for metric in metrics},
            {
                FLOORS[key]: float(values.mean())
                for key, values in comparison.floors(line, evaluation).items()
                if key in FLOORS
            },
        )
        for name, line in lines.items()
    ]


def runs(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One dictionary for each line and run: what ran, and every metric of both evaluations at its end."""
    for line in comparison.as_json()["results"]:
        ran = {key: line[key] for key in ("data", "algorithm", "budget", "hit", "tuned") if key in line}
        ran |= {f"parameter_{key}": value for key, value in (line["parameters"] | line["settings"]).items()}
        for run in line["runs"]:
            yield (
                ran
                | {"seed": run["seed"], "queried": run["queried"]}
                | {
                    f"{evaluation}_{metric}": value
                    for evaluation in EVALUATIONS
                    for metric, value in run[evaluation].items()
                    if not isinstance(value, dict)
                }
                | {
                    f"floor_{evaluation}_{metric}": value
                    for evaluation, floors in run.get("floor", {}).items()
                    for metric, value in floors.items()
                }
            )


def frame(comparison: Comparison) -> pandas.DataFrame:
    """The runs as a pandas table."""
    import pandas

    table = pandas.DataFrame(runs(comparison))
    return table.astype({"budget": "Int64"}) if len(table) else table


def csv(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """The runs as CSV."""
    return frame(comparison).map(guarded).to_csv(index=False).encode()


def parquet(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """The runs as Parquet."""
    file = io.BytesIO()
    frame(comparison).to_parquet(file, index=False)
    return file.getvalue()


def as_json(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """Everything as JSON."""
    return json.dumps(comparison.as_json(), ensure_ascii=False, indent=1).encode()


LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "≥": r"$\geq$", "|": r"\textbar{}",
})  # fmt: skip


def escaped(words: str) -> str:
    """Words as LaTeX prints them, on one line."""
    return plain(words).translate(LATEX)


def latex(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """All blocks as one table of the package booktabs: the best in bold, what is level with it underlined."""
    evaluation = view.evaluation if view else comparison.spec.evaluation
    blocks, body = comparison.blocks(), []
    columns = [TITLES[metric] for metric in METRICS[bool(comparison.lines[0].classes)]]
    columns += [escaped(title) for title in FLOORS.values()] if comparison.has_floors else []
    for data, budget in blocks:
        body.append(rf"\midrule \multicolumn{{{len(columns) + 2}}}{{l}}"
                    rf"{{\emph{{{escaped(data)}, {escaped(budget_name(budget))}}}}} \\")  # fmt: skip
        for row in table(comparison, data, budget, evaluation):
            cells = [_latex(metric, *cell) for metric, cell in row.cells.items()]
            cells += [number("f1", floor) for floor in row.floors.values()]
            body.append(" & ".join([escaped(row.name), f"{row.asked:.0f}", *cells]) + r" \\")
    head = " & ".join(["", "Labels", *columns])
    return "\n".join([
        r"% \usepackage{booktabs}", r"\begin{table}", r"\centering\small",
        rf"\caption{{{escaped(comparison.name)}: {caption(comparison, evaluation, escaped)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(columns) + 1)}}}", r"\toprule", rf"{head} \\", *body, r"\bottomrule",
        r"\end{tabular}", r"\end{table}", "",
    ]).encode()  # fmt: skip


def _latex(metric: str, mean: float, spread: float | None, mark: str) -> str:
    words = number(metric, mean)
    words = {"best": rf"\textbf{{{words}}}", "level": rf"\underline{{{words}}}"}.get(mark, words)
    return words + ("" if spread is None else rf" {{\scriptsize$\pm${number(metric, spread)}}}")


def caption(comparison: Comparison, evaluation: str, literal: Callable[[str], str] = str) -> str:
    """What a table of a comparison shows, in a sentence or two."""
    spec = comparison.spec
    marks = "bold: best; underlined: not significantly different from the best (paired t-test, Holm, 5 %)"
    runs = f"Mean and standard deviation of {spec.permutations} runs" if spec.permutations > 1 else "One run"
    if comparison.has_floors:
        marks += "; ≥ is what the answers of a run alone make certain (5 % risk)"
    tuned = "Parameters as given" if spec.tune == "none" else f"Parameters tuned, {spec.tune}"
    return literal(f"{runs} under {NAMES[evaluation]} evaluation; {marks}. {tuned}: {PROTOCOLS[spec.tune]}.")


def ranks_caption(ranks: Ranks) -> str:
    """What a critical-difference diagram shows, in a sentence or two."""
    friedman = "" if ranks["friedman"] is None else f" Friedman's test of no difference: p = {ranks['friedman']:.4f}."
    return (
        f"Average ranks over {ranks['blocks']} data sets and budgets, 1 is best; joined names are closer than the "
        f"critical difference of Nemenyi's test at 5 %.{friedman}"
    )


def block_table(rows: list[Row]) -> str:
    """The Rows of a data set and budget as HTML: the best bold, what is level with it underlined."""

    def cell(metric: str, mean: float, spread: float | None, mark: str) -> str:
        words = number(metric, mean)
        words = {"best": f"<b>{words}</b>", "level": f"<u>{words}</u>"}.get(mark, words)
        below = "" if spread is None else f" <small>± {number(metric, spread)}</small>"
        return f'<td class="{mark}">{words}{below}</td>'

    return html_table(
        ["", "Labels", *(TITLES[metric] for metric in rows[0].cells), *rows[0].floors, "Settings"],
        [
            [
                head_cell(row.algorithm),
                figure_cell(f"{row.asked:,.0f}"),
                *(cell(metric, *values) for metric, values in row.cells.items()),
                *(figure_cell(number("f1", floor)) for floor in row.floors.values()),
                word_cell(row.setting),
            ]
            for row in rows
        ],
    )


def test_table(comparison: Comparison, data: str, budget: Limit, metric: str, evaluation: str) -> str:
    """The p-values of a data set and budget against the best, as HTML."""
    tests = comparison.test(comparison.blocks()[data, budget], metric, evaluation)

    def p(value: float | None) -> str:
        return "" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"

    return html_table(
        ["", TITLES[metric], "paired t-test", "Wilcoxon", ""],
        [
            [
                head_cell(name),
                figure_cell(number(metric, each["mean"])),
                figure_cell(p(each["t"])),
                figure_cell(p(each["wilcoxon"])),
                word_cell("best" if each["best"] else "not distinguishable" if each["level"] else "worse"),
            ]
            for name, each in tests.items()
        ],
    )


def trial_table(trials: Iterable[Mapping[str, Any]]) -> str:
    """What was tried when settings were tuned, as HTML."""
    return html_table(
        ["", "Data", "Budget", "Settings", "Criterion"],
        [
            [
                head_cell(each["algorithm"]),
                word_cell(each["data"]),
                word_cell(budget_name(Hit(each["hit"]) if "hit" in each else each["budget"])),
                word_cell(figures.settings(each["settings"])),
                figure_cell(f"{each['score']:.4f}"),
            ]
            for each in trials
        ],
    )


def differences(
    one: Comparison, other: Comparison, metric: str, evaluation: str
) -> list[tuple[str, Limit, str, float, float]]:
    """(data, budget, name, mean of one, mean of the other) for the lines that two comparisons share."""

    def mean(comparison: Comparison, line: Result) -> float:
        return float(comparison.values(line, metric, evaluation).mean())

    others = other.blocks()
    return [
        (*block, name, mean(one, lines[name]), mean(other, others[block][name]))
        for block, lines in one.blocks().items()
        for name in lines
        if name in others.get(block, ())
    ]


def difference_table(one: Comparison, other: Comparison, metric: str, evaluation: str) -> str:
    """What two comparisons share, side by side, as HTML."""
    return html_table(
        ["", one.name, other.name, "Difference"],
        [
            [
                head_cell(f"{name} · {data}, {budget_name(budget)}"),
                *(figure_cell(number(metric, mean)) for mean in (left, right)),
                figure_cell(("+" if right >= left else "−") + number(metric, abs(right - left))),
            ]
            for data, budget, name, left, right in differences(one, other, metric, evaluation)
        ],
    )


# ---- Files


def png(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """The figure of a view."""
    return figures.figure("png", comparison, view or figures.view(comparison))


def svg(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """The figure of a view, with its text as text."""
    return figures.figure("svg", comparison, view or figures.view(comparison))


def _other_metrics(comparison: Comparison, view: ResultView) -> list[ResultView]:
    """A view by each other metric of the tables."""
    columns = METRICS[bool(comparison.lines[0].classes)]
    return [replace(view, metric=metric) for metric in columns if metric != view.metric]


def _figures(comparison: Comparison, views: list[ResultView], sweeps_of: Iterable[ResultView] = ()) -> str:
    """The curves of views, and the sweeps of others, as HTML."""
    curves = [drawn("svg", figures.draw_curves, comparison, view, size=ON_PAGE, ink=INK) for view in views]
    swept = [
        drawn("svg", figures.draw_sweep, comparison, view, sweep, size=ON_PAGE, ink=INK)
        for view in sweeps_of
        for sweep in figures.sweeps(comparison, view)
    ]
    return f"<figure>{''.join(map(inline, curves + swept))}</figure>"


SHOWN_TRIALS = 200  # of the page; the file of JSON has none of them


def page(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """One page of HTML with tables, figures and the specification, which needs neither scripts nor a network."""
    spec, evaluation = comparison.spec, view.evaluation if view else comparison.spec.evaluation
    parts, drawn_over = [sentence(caption(comparison, evaluation))], set[str]()
    over = next((axis for axis in figures.AMOUNTS if axis in figures.axes(comparison)), None)
    for block in comparison.blocks():
        if over and block[0] not in drawn_over:
            drawn_over.add(block[0])
            first = figures.view(comparison, *block, evaluation=evaluation, axis=over)
            parts.append(f'<h2 dir="auto">{html.escape(block[0])}, over the {figures.AMOUNTS[over]}</h2>')
            parts.append(_figures(comparison, [first, *_other_metrics(comparison, first)]))
        shown = figures.view(comparison, *block, evaluation=evaluation, axis="labels")
        parts.append(f'<h2 dir="auto">{html.escape(block[0])}, {budget_name(block[1])}</h2>')
        rows = table(comparison, *block, evaluation)
        parts.append(block_table(rows))
        views = [replace(shown, axis=axis) for axis in figures.AXES]
        if not isinstance(block[1], Hit):  # of several hits there are many, and their curves over them say it all
            views += _other_metrics(comparison, shown)
        if comparison.has_seconds:
            views.append(replace(shown, metric="seconds", axis="rounds"))
        swept = [shown] if spec.held_out else [shown, replace(shown, metric="query_ratio")]
        parts.append(_figures(comparison, views, swept))
        tests = test_table(comparison, *block, shown.metric, evaluation)
        parts.append(f"<details><summary>p-values against the best</summary>{tests}</details>")
    ranks = comparison.ranks(None, evaluation)
    if ranks["critical_difference"]:
        parts.append(f"<h2>Average ranks over {ranks['blocks']} data sets and budgets</h2>")
        diagram = drawn("svg", figures.draw_ranks, comparison, ranks, size=figures.RANKS, ink=INK)
        parts.append(f'<div class="wide" tabindex="0">{inline(diagram)}</div>')
        parts.append(sentence(ranks_caption(ranks)))
    if trials := comparison.trials():
        parts.append(
            f"<details><summary>Settings that were tried</summary>{trial_table(trials[:SHOWN_TRIALS])}</details>"
        )
    specification = json.dumps(spec.values | {"versions": comparison.versions}, indent=1, ensure_ascii=False)
    parts.append(f"<h2>Specification</h2><pre>{html.escape(specification)}</pre>")
    return document(comparison.name, parts)


FILES = {
    "csv": (csv, "text/csv", "CSV: a row for each line and run"),
    "parquet": (parquet, "application/vnd.apache.parquet", "Parquet: the same"),
    "tex": (latex, "text/x-tex", "LaTeX table"),
    "png": (png, "image/png", "PNG: the figure as shown"),
    "svg": (svg, "image/svg+xml", "SVG: the figure as shown"),
    "json": (as_json, "application/json", "JSON: everything"),
    "html": (page, "text/html", "HTML report"),
}  # suffix -> what makes the bytes out of a comparison and a view, its type, and what it is

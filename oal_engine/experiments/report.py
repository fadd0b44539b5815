"""The result of a comparison as files: tables (CSV, Parquet, LaTeX), JSON, figures, and a self-contained HTML page."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..kernel.metrics import EVALUATIONS, LIST
from ..output.page import INK, document, figure_cell, head_cell, html_table, inline, sentence, word_cell
from ..output.plots import METRICS, NAMES, OF_THE_LIST, ON_PAGE, TITLES, drawn, number, plain
from ..output.tables import guarded
from . import figures, significance
from .figures import ResultView, budget_name
from .significance import Ranks
from .specifications import PROTOCOLS, Hit, Limit
from .tuned_runs import Result

if TYPE_CHECKING:
    import pandas

    from .comparison import Comparison

Cell: TypeAlias = tuple[float, float | None, str]  # mean, spread, mark


@dataclass(frozen=True)
class TableRow:
    """A row of a table: its setting in words, the mean number of labels used, and (mean, spread, mark) of each metric.

    mark: "best", "level" if a paired t-test of enough runs finds no difference from the best, or "". further: more
    columns, {title: mean}, if the comparison has them: F1 of the final list, guaranteed minimums of recall and F1, and
    sum and F1 of the worst question.
    """

    name: str
    algorithm: str
    setting: str
    asked: float
    cells: dict[str, Cell]
    further: dict[str, float]


FLOORS = {"recall": "Sensitivity ≥", "f1": "F1 ≥"}
WORST = "{} of the worst question"
LIST_METRIC = {False: "f1", True: "macro_f1"}  # by whether there are K classes


def table(comparison: Comparison, data: str, budget: Limit, evaluation: str) -> list[TableRow]:
    """Return the rows of the table for a data set and budget. The best values of each metric are marked."""
    lines = comparison.blocks()[data, budget]
    metrics = METRICS[bool(next(iter(lines.values())).classes)]
    tests = {metric: comparison.test(lines, metric, evaluation) for metric in metrics}

    def cell(name: str, line: Result, metric: str) -> Cell:
        values, test = comparison.values(line, metric, evaluation), tests[metric][name]
        verdict = significance.verdict(test, len(values))
        mark = verdict if verdict in ("best", "level") else ""
        return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None, mark

    rows = []
    for name, line in lines.items():
        cells = {metric: cell(name, line, metric) for metric in metrics}
        bounds, f1 = comparison.floors(line, evaluation), LIST_METRIC[bool(line.classes)]
        further = {OF_THE_LIST.format(TITLES[f1]): comparison.values(line, f1, LIST)} if comparison.has_list else {}
        further |= {FLOORS[key]: bounds[key] for key in bounds if key in FLOORS}
        for metric in ("sum", "f1") * bool(comparison.spec.questions):
            further[WORST.format(TITLES[metric])] = comparison.values(line, metric, evaluation, np.min)
        means = {title: float(values.mean()) for title, values in further.items()}
        setting = figures.settings(line.setting)
        rows.append(TableRow(name, line.algorithm, setting, float(line.asked.mean()), cells, means))
    return rows


def runs(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a flat dictionary for each run of each result line or, if the comparison has questions, for each question
    of each run. It holds the settings, and the final value of every metric of each evaluation."""
    for line in comparison.as_json()["results"]:
        settings = {key: line[key] for key in ("data", "algorithm", "budget", "hit", "tuned") if key in line}
        settings |= {f"parameter_{key}": value for key, value in (line["parameters"] | line["settings"]).items()}
        every = [each for run in line["runs"] for each in of_questions(run)]
        for run in every:
            row = settings | {key: run[key] for key in ("question", "seed", "queried") if key in run}
            for name in (*EVALUATIONS, LIST):
                values = run.get(name, {})
                row |= {f"{name}_{key}": value for key, value in values.items() if not isinstance(value, dict)}
            for name, floors in run.get("floor", {}).items():
                row |= {f"floor_{name}_{key}": value for key, value in floors.items()}
            yield row


def of_questions(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a run of the comparison's JSON into one dictionary per question. If it has no questions, return [run]."""
    parts = run.get("questions", {})
    return [{"question": name, "seed": run["seed"], **part} for name, part in parts.items()] or [run]


def frame(comparison: Comparison) -> pandas.DataFrame:
    """Return the runs as a pandas DataFrame."""
    import pandas

    table = pandas.DataFrame(runs(comparison))
    return table.astype({"budget": "Int64"}) if len(table) else table


def csv(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """Return the runs as CSV."""
    return frame(comparison).map(guarded).to_csv(index=False).encode()


def parquet(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """Return the runs as Parquet."""
    file = io.BytesIO()
    frame(comparison).to_parquet(file, index=False)
    return file.getvalue()


def as_json(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """Return the comparison as JSON."""
    return json.dumps(comparison.as_json(), ensure_ascii=False, indent=1).encode()


LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "≥": r"$\geq$", "|": r"\textbar{}",
})  # fmt: skip


def escaped(words: str) -> str:
    """Escape a text for LaTeX, on one line."""
    return plain(words).translate(LATEX)


def latex(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """Return the results for all data sets and budgets as one LaTeX table (booktabs). Best values are bold; values that
    do not differ significantly from the best are underlined."""
    evaluation = view.evaluation if view else comparison.spec.evaluation
    tables = {block: table(comparison, *block, evaluation) for block in comparison.blocks()}
    body, [first, *_] = [], next(iter(tables.values()))
    columns = [*(TITLES[metric] for metric in first.cells), *map(escaped, first.further)]
    for (data, budget), rows in tables.items():
        body.append(rf"\midrule \multicolumn{{{len(columns) + 2}}}{{l}}"
                    rf"{{\emph{{{escaped(data)}, {escaped(budget_name(budget))}}}}} \\")  # fmt: skip
        for row in rows:
            cells = [_latex(metric, *cell) for metric, cell in row.cells.items()]
            cells += [number("f1", mean) for mean in row.further.values()]
            body.append(" & ".join([escaped(row.name), f"{row.asked:.0f}", *cells]) + r" \\")
    head = " & ".join(["", "Labels", *columns])
    return "\n".join([
        r"% \usepackage{booktabs}", r"\begin{table}", r"\centering\small",
        rf"\caption{{{escaped(comparison.name)}: {caption(comparison, evaluation, escaped)}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9]+', '-', comparison.name).strip('-')}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(columns) + 1)}}}", r"\toprule", rf"{head} \\", *body, r"\bottomrule",
        r"\end{tabular}", r"\end{table}", "",
    ]).encode()  # fmt: skip


def _latex(metric: str, mean: float, spread: float | None, mark: str) -> str:
    words = number(metric, mean)
    words = {"best": rf"\textbf{{{words}}}", "level": rf"\underline{{{words}}}"}.get(mark, words)
    return words + ("" if spread is None else rf" {{\scriptsize$\pm${number(metric, spread)}}}")


def caption(comparison: Comparison, evaluation: str, literal: Callable[[str], str] = str) -> str:
    """Describe a table of a comparison in a sentence or two."""
    spec = comparison.spec
    marks = "bold: best; underlined: not significantly different from the best (paired t-test, Holm, 5 %)"
    if spec.permutations < significance.FEWEST_RUNS:
        marks = "bold: best; too few runs to tell which are level with it"
    runs = f"Mean and standard deviation of {spec.permutations} runs" if spec.permutations > 1 else "One run"
    if spec.questions:
        marks += f"; mean over {len(spec.questions)} questions that each reading answers, and the worst of them"
    if comparison.has_list:
        marks += "; of the list: by the final model, and items that were asked as answered"
    if comparison.has_floors:
        marks += "; ≥: lower bound from the answers of a run alone (5 % risk)"
    tuned = "Parameters as given" if spec.tune == "none" else f"Parameters tuned, {spec.tune}"
    return literal(f"{runs} under {NAMES[evaluation]} evaluation; {marks}. {tuned}: {PROTOCOLS[spec.tune]}.")


def ranks_caption(ranks: Ranks) -> str:
    """Describe a critical-difference diagram in a sentence or two."""
    friedman = "" if ranks["friedman"] is None else f" Friedman's test of no difference: p = {ranks['friedman']:.4f}."
    return (
        f"Average ranks over {ranks['blocks']} data sets and budgets, 1 is best; joined names are closer than the "
        f"critical difference of Nemenyi's test at 5 %.{friedman}"
    )


def block_table(rows: list[TableRow]) -> str:
    """Return the table of a data set and budget as HTML. Best values are bold; values that do not differ significantly
    from the best are underlined."""

    def cell(metric: str, mean: float, spread: float | None, mark: str) -> str:
        words = number(metric, mean)
        words = {"best": f"<b>{words}</b>", "level": f"<u>{words}</u>"}.get(mark, words)
        below = "" if spread is None else f" <small>± {number(metric, spread)}</small>"
        return f'<td class="{mark}">{words}{below}</td>'

    head = ["", "Labels", *(TITLES[metric] for metric in rows[0].cells), *rows[0].further, "Settings"]
    table = []
    for row in rows:
        cells = [cell(metric, *values) for metric, values in row.cells.items()]
        cells += [figure_cell(number("f1", mean)) for mean in row.further.values()]
        table.append([head_cell(row.algorithm), figure_cell(f"{row.asked:,.0f}"), *cells, word_cell(row.setting)])
    return html_table(head, table)


def test_table(comparison: Comparison, data: str, budget: Limit, metric: str, evaluation: str) -> str:
    """Return the mean of each result line of a data set and budget, and its p-values against the best, as HTML."""
    tests = comparison.test(comparison.blocks()[data, budget], metric, evaluation)

    def p(value: float | None) -> str:
        return "" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"

    table = []
    for name, each in tests.items():
        numbers = [number(metric, each["mean"]), p(each["t"]), p(each["wilcoxon"])]
        verdict = significance.verdict(each, comparison.spec.permutations)
        table.append([head_cell(name), *map(figure_cell, numbers), word_cell(verdict)])
    return html_table(["", TITLES[metric], "paired t-test", "Wilcoxon", ""], table)


def trial_table(trials: Iterable[Mapping[str, Any]]) -> str:
    """Return the settings tried while tuning, as HTML."""
    table = []
    for each in trials:
        budget = budget_name(Hit(each["hit"]) if "hit" in each else each["budget"])
        words = [each["data"], budget, figures.settings(each["settings"])]
        table.append([head_cell(each["algorithm"]), *map(word_cell, words), figure_cell(f"{each['score']:.4f}")])
    return html_table(["", "Data", "Budget", "Settings", "Criterion"], table)


def differences(
    one: Comparison, other: Comparison, metric: str, evaluation: str
) -> list[tuple[str, Limit, str, float, float]]:
    """Return (data, budget, name, mean in `one`, mean in `other`) for each result line that two comparisons share."""

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
    """Return the result lines that two comparisons share, with their differences, as an HTML table."""
    table = []
    for data, budget, name, left, right in differences(one, other, metric, evaluation):
        gap = ("+" if right >= left else "−") + number(metric, abs(right - left))
        numbers = [number(metric, left), number(metric, right), gap]
        table.append([head_cell(f"{name} · {data}, {budget_name(budget)}"), *map(figure_cell, numbers)])
    return html_table(["", one.name, other.name, "Difference"], table)


# ---- Files


png, svg, pdf = (partial(figures.figure, kind) for kind in ("png", "svg", "pdf"))


def _other_metrics(comparison: Comparison, view: ResultView) -> list[ResultView]:
    """Return copies of a view, one for each metric of the tables that is not the view's own."""
    columns = METRICS[bool(comparison.lines[0].classes)]
    return [replace(view, metric=metric) for metric in columns if metric != view.metric]


def _figures(comparison: Comparison, views: list[ResultView], sweeps_of: Iterable[ResultView] = ()) -> str:
    """Draw the curves of some views, and the parameter sweeps of others, as HTML."""
    curves = [drawn("svg", figures.draw_curves, comparison, view, size=ON_PAGE, ink=INK) for view in views]
    swept = [
        drawn("svg", figures.draw_sweep, comparison, view, sweep, size=ON_PAGE, ink=INK)
        for view in sweeps_of
        for sweep in figures.sweeps(comparison, view)
    ]
    return f"<figure>{''.join(map(inline, curves + swept))}</figure>"


MOST_TRIALS = 200  # on the page; the JSON file has none of them


def page(comparison: Comparison, view: ResultView | None = None) -> bytes:
    """Return a self-contained HTML page with tables, figures and the specification, without scripts."""
    spec, evaluation = comparison.spec, view.evaluation if view else comparison.spec.evaluation
    parts, drawn_over = [sentence(caption(comparison, evaluation))], set[str]()
    over = next((axis for axis in figures.AMOUNTS if axis in figures.axes(comparison)), None)
    for block in comparison.blocks():
        if over and block[0] not in drawn_over:
            drawn_over.add(block[0])
            first = figures.view(comparison, *block, evaluation=evaluation, axis=over)
            parts.append(f'<h2 dir="auto">{html.escape(block[0])}, over the {figures.AMOUNTS[over]}</h2>')
            parts.append(_figures(comparison, [first, *_other_metrics(comparison, first)]))
        block_view = figures.view(comparison, *block, evaluation=evaluation, axis="labels")
        parts.append(f'<h2 dir="auto">{html.escape(block[0])}, {budget_name(block[1])}</h2>')
        parts.append(block_table(table(comparison, *block, evaluation)))
        views = [replace(block_view, axis=axis) for axis in figures.AXES]
        if not isinstance(block[1], Hit):  # several hits have one curve over all of them, drawn above
            views += _other_metrics(comparison, block_view)
        if comparison.has_seconds:
            views.append(replace(block_view, metric="seconds", axis="rounds"))
        swept = [block_view] if spec.held_out else [block_view, replace(block_view, metric="query_ratio")]
        for key in figures.varied(spec):
            axis = figures.view(comparison, *block, evaluation=evaluation, axis=key)
            views += [replace(axis, metric=each.metric) for each in swept]
        parts.append(_figures(comparison, views, swept))
        tests = test_table(comparison, *block, block_view.metric, evaluation)
        parts.append(f"<details><summary>p-values against the best</summary>{tests}</details>")
    ranks = comparison.ranks(None, evaluation)
    if ranks["critical_difference"]:
        parts.append(f"<h2>Average ranks over {ranks['blocks']} data sets and budgets</h2>")
        diagram = drawn("svg", figures.draw_ranks, comparison, ranks, size=figures.RANKS_INCHES, ink=INK)
        parts.append(f'<div class="wide" tabindex="0">{inline(diagram)}</div>')
        parts.append(sentence(ranks_caption(ranks)))
    if trials := comparison.trials():
        parts.append(
            f"<details><summary>Settings that were tried</summary>{trial_table(trials[:MOST_TRIALS])}</details>"
        )
    specification = json.dumps(spec.values | {"versions": comparison.versions}, indent=1, ensure_ascii=False)
    parts.append(f"<h2>Specification</h2><pre>{html.escape(specification)}</pre>")
    return document(comparison.name, parts)


FILES: dict[str, tuple[Callable[[Comparison, ResultView | None], bytes], str, str]] = {
    "csv": (csv, "text/csv", "CSV: a row for each line and run"),
    "parquet": (parquet, "application/vnd.apache.parquet", "Parquet: the same"),
    "tex": (latex, "text/x-tex", "LaTeX table"),
    "png": (png, "image/png", "PNG: the figure as shown"),
    "svg": (svg, "image/svg+xml", "SVG: the figure as shown"),
    "pdf": (pdf, "application/pdf", "PDF: the figure as shown"),
    "json": (as_json, "application/json", "JSON: everything"),
    "html": (page, "text/html", "HTML report"),
}  # suffix -> function of a comparison and a view that returns the bytes, media type, description

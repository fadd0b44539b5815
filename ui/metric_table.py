"""The metrics of a run in numbers: which are shown, in which order, and as a table."""

import html
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import streamlit as st

from oal_engine.kernel import metrics
from oal_engine.kernel.algorithms import ALGORITHMS, Strategy
from oal_engine.output.plots import TITLES
from oal_engine.sessions.estimates import Estimate
from oal_engine.sessions.fold import Run

from .meanings import explained

SHOWN = {
    False: ("sum", "f1", "sensitivity", "specificity", "precision"),
    True: ("accuracy", "macro_f1", "macro_recall"),
}


def metric_lines(run: Run, counts: np.ndarray) -> list[tuple]:
    """Lines (title, push, push-and-query) of a table of counts; with K classes also the recall of each."""
    values = [run.evaluate(counts, name) for name in metrics.EVALUATIONS]
    lines = [(TITLES[name], *(float(each[name]) for each in values)) for name in SHOWN[run.multiclass]]
    if run.multiclass:
        recalls = zip(run.names.values(), *(each["recall"].tolist() for each in values))
        lines += [(f"Recall of {name}", *values) for name, *values in recalls]
    return lines


def estimate_lines(estimates: Mapping[str, Mapping[str, Estimate | None]]) -> list[tuple]:
    """Lines (title, push, push-and-query) of what is known by evaluation and metric, each with its interval."""
    return [
        (TITLES[name], *(_interval(estimates[key][name]) for key in metrics.EVALUATIONS))
        for name in (*SHOWN[False], *SHOWN[True])
        if estimates["push"].get(name)
    ]


def _interval(guess: Estimate | None) -> str:
    return "" if guess is None else f"{guess.value:.2f} ({guess.low:.2f}–{guess.high:.2f})"


def table(heads: Sequence[str], lines: Iterable[Sequence], height: str = "19rem") -> None:
    """Show lines (title, cells: numbers or words) under their heads; all words are literal."""
    head_cells = "".join(f'<th dir="auto">{explained(head)}</th>' for head in heads)
    rows = "".join(
        f'<tr><th dir="auto">{explained(title)}</th>' + "".join(f"<td>{_cell(value)}</td>" for value in values)
        + "</tr>"
        for title, *values in lines
    )  # fmt: skip
    st.html(
        "<style>.oal-result{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}"
        ".oal-result th{font-weight:400;text-align:left;overflow-wrap:anywhere}"
        ".oal-result td,.oal-result thead th:not(:first-child)"
        "{text-align:right}.oal-result td,.oal-result th{padding:.18rem .3rem;"
        "border-bottom:1px solid rgba(128,128,128,.25)}"
        ".oal-result thead{position:sticky;top:0;z-index:1;backdrop-filter:blur(9px)}"
        f'</style><div style="position:relative;max-height:{height};overflow-y:auto" tabindex="0">'
        f'<table class="oal-result">'
        f"<thead><tr>{head_cells}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def describe(chosen: Strategy) -> str:
    """A strategy and its parameters in a line, without those that its algorithm fixes."""
    fixed = ALGORITHMS[chosen.algorithm].fixed if chosen.algorithm in ALGORITHMS else {}
    values = ", ".join(f"{key} {value:g}" for key, value in chosen.parameters.items() if key not in fixed)
    return f"{chosen.algorithm}{values and f' ({values})'}"


def _cell(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else html.escape(str(value))

"""The figures of a comparison: what the app and files draw, and how files do.

A view says what of a result is looked at; figures on a page of the app and in a file take it from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel.metrics import more_is_better
from ..output.plots import NAMES, STYLES, TITLES, Style, drawn, plain
from .significance import Ranks
from .specifications import Setting
from .tuned_runs import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from . import Comparison

AXES = {"labels": "labels spent", "rounds": "items streamed"}
AXIS_TITLES = AXES | {"labels": "labels spent (large mark: the end of the stream)"}
LONG = 20  # letters of a name: a legend of longer ones stands below the axes, where it hides no line
RANKS = (7.2, 2.4)  # inches of a critical-difference diagram
WIDE = 20  # times the smallest value: an axis of larger ones is logarithmic
MOST = 8  # lines in one figure


@dataclass(frozen=True)
class ResultView:
    """What of a result is looked at: one data set and budget, a metric of an evaluation, an x axis, and some lines."""

    data: str
    budget: int | None
    metric: str
    evaluation: str
    axis: str = "labels"
    names: tuple[str, ...] = ()
    bands: bool = True


def view(comparison: Comparison, data: str | None = None, budget: int | None = None, **values: Any) -> ResultView:
    """A view with what is not said taken from the specification: its first block and criterion, its best lines."""
    block = next(each for each in comparison.blocks() if data is None or each == (data, budget))
    lines = comparison.blocks()[block]
    spec = comparison.spec
    usual = {"metric": spec.criterion, "evaluation": spec.evaluation, "names": leading(comparison, lines)}
    return ResultView(*block, **usual | values)


def leading(comparison: Comparison, lines: Mapping[str, Result], most: int = MOST) -> tuple[str, ...]:
    """The names of the lines that are best by the criterion, in the order of the specification."""
    best = sorted(
        lines,
        key=lambda name: comparison.values(lines[name]).mean(),
        reverse=more_is_better(comparison.spec.criterion),
    )[:most]
    return tuple(name for name in lines if name in best)


def budget_name(budget: int | None) -> str:
    """A budget in words."""
    return "no limit of labels" if budget is None else f"{budget:,} labels"


def settings(values: Setting) -> str:
    """The settings of a line in words."""
    words = (
        f"{key} {value:g}" if isinstance(value, float | int) else f"{key} {value}" for key, value in values.items()
    )
    return ", ".join(words) or "defaults"


def styles(comparison: Comparison, lines: Mapping[str, Result]) -> dict[str, Style]:
    """The style of each name of a block, the same whichever of them are drawn: by its place among the best."""
    names = [*leading(comparison, lines), *lines]
    return {name: STYLES[list(dict.fromkeys(names)).index(name) % len(STYLES)] for name in lines}


# ---- What is drawn


def curves(
    comparison: Comparison, view: ResultView
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Style]]:
    """(name, x, mean, low, high, style) of the curves of a view; each ends with the value at the end of the stream."""
    lines = comparison.blocks()[view.data, view.budget]
    style_of = styles(comparison, lines)
    for name in view.names:
        items, asked, mean, spread = comparison.curve(lines[name], view.metric, view.evaluation, view.axis)
        low, high = np.maximum(mean - spread, 0), mean + spread
        if view.metric != "cost":
            high = np.minimum(high, 1)
        yield name, asked if view.axis == "labels" else items, mean, low, high, style_of[name]


@dataclass(frozen=True)
class Sweep:
    """What an algorithm gives over one or two of its parameters: mean and spread, of shape (values of each key)."""

    algorithm: str
    values: dict[str, list[float | str]]
    mean: np.ndarray
    spread: np.ndarray

    def best(self, metric: str) -> tuple[int, ...]:
        """The place of the best mean."""
        place = (np.nanargmin if metric == "cost" else np.nanargmax)(self.mean)
        return tuple(map(int, np.unravel_index(place, self.mean.shape)))

    def scale(self, key: str) -> str:
        """The kind of axis that the values of a key need: log for powers, category where some are words."""
        values = [each for each in self.values[key] if not isinstance(each, str)]
        if len(values) < len(self.values[key]):
            return "category"
        return "log" if min(values) > 0 and max(values) / min(values) >= WIDE else "linear"

    def labels(self, key: str) -> list[str]:
        """The values of a key in words."""
        return [each if isinstance(each, str) else f"{each:g}" for each in self.values[key]]


def sweeps(comparison: Comparison, view: ResultView) -> Iterator[Sweep]:
    """The Sweeps of the algorithms of a view that ran with several values of one or two parameters."""
    by_algorithm: dict[str, list[Result]] = {}
    for line in comparison.blocks()[view.data, view.budget].values():
        by_algorithm.setdefault(line.algorithm, []).append(line)
    for algorithm, lines in by_algorithm.items():
        values = {key: sorted({line.setting[key] for line in lines}, key=_order) for key in lines[0].setting}
        values = {key: each for key, each in values.items() if len(each) > 1}
        if len(values) not in (1, 2):
            continue
        mean = np.full([len(each) for each in values.values()], np.nan)
        spread = mean.copy()
        for line in lines:
            place = tuple(each.index(line.setting[key]) for key, each in values.items())
            runs = comparison.values(line, view.metric, view.evaluation)
            mean[place], spread[place] = runs.mean(), runs.std(ddof=1) if len(runs) > 1 else 0
        yield Sweep(algorithm, values, mean, spread)


def _order(value: float | str) -> tuple[bool, float | str]:
    return (isinstance(value, str), value)


def level_groups(ranks: Ranks) -> list[list[str]]:
    """The groups of names, best first, whose average ranks lie within the critical difference; none inside another."""
    order, apart = sorted(ranks["ranks"], key=ranks["ranks"].__getitem__), ranks["critical_difference"] or 0.0
    groups: list[list[str]] = []
    reached = 0
    for first, name in enumerate(order):
        last = max(k for k, each in enumerate(order) if ranks["ranks"][each] - ranks["ranks"][name] <= apart)
        if last > first and last > reached:
            groups.append(order[first : last + 1])
            reached = last
    return groups


# ---- Figures as files


def draw_curves(axes: Axes, comparison: Comparison, view: ResultView) -> None:
    """The curves of a view with bands of one standard deviation."""
    for name, x, mean, low, high, (color, _, dash, _, mark) in curves(comparison, view):
        axes.plot(x, mean, color=color, linestyle=dash, marker=mark, markevery=0.15, markersize=4, label=plain(name))
        axes.plot(x[-1], mean[-1], color=color, marker=mark, markersize=8)
        if view.bands:
            axes.fill_between(x, low, high, color=color, alpha=0.1, linewidth=0)
    axes.set(xlabel=AXIS_TITLES[view.axis], ylabel=f"{TITLES[view.metric]} ({NAMES[view.evaluation]})")
    axes.set_title(plain(f"{view.data}, {budget_name(view.budget)}"), fontsize=9)
    if max(map(len, view.names), default=0) <= LONG:
        axes.legend(fontsize=8)
    else:
        figure = cast("Figure", axes.figure)
        figure.set_figheight(figure.get_figheight() + 0.16 * len(view.names))
        figure.legend(fontsize=8, loc="outside lower center")


def draw_sweep(axes: Axes, comparison: Comparison, view: ResultView, sweep: Sweep) -> None:
    """A line over one parameter, or a heat map over two with a ring around the best."""
    *above, key = sweep.values
    even = above or sweep.scale(key) == "category"
    place = np.arange(len(sweep.values[key])) if even else sweep.values[key]
    if above:
        shown, best = axes.imshow(sweep.mean, cmap="viridis", origin="lower", aspect="auto"), sweep.best(view.metric)
        axes.figure.colorbar(shown)
        axes.plot(
            best[1], best[0], "o", markersize=12, markerfacecolor="none", markeredgecolor="#c00", markeredgewidth=2
        )
        axes.set_ylabel(plain(above[0]))
        axes.set_yticks(range(len(sweep.mean)), sweep.labels(above[0]))
        axes.grid(False)
    else:
        axes.errorbar(place, sweep.mean, sweep.spread, color=STYLES[0][0], marker="o", capsize=3)
        axes.set_ylabel(f"{TITLES[view.metric]} ({NAMES[view.evaluation]})")
        axes.set_xscale("linear" if even else sweep.scale(key))
    axes.set_title(plain(f"{sweep.algorithm}: {TITLES[view.metric]} ({NAMES[view.evaluation]})\n"
                         f"{view.data}, {budget_name(view.budget)}"), fontsize=9)  # fmt: skip
    axes.set_xlabel(plain(key))
    axes.set_xticks(place, sweep.labels(key))
    axes.minorticks_off()


def draw_ranks(axes: Axes, comparison: Comparison, ranks: Ranks) -> None:
    """A critical-difference diagram (Demsar 2006): names at their average ranks, groups that do not differ joined."""
    order = sorted(ranks["ranks"], key=ranks["ranks"].__getitem__)
    half = (len(order) + 1) // 2
    low, high, ink = 1, len(order), axes.xaxis.label.get_color()
    for k, name in enumerate(order):
        left, rank = k < half, ranks["ranks"][name]
        y = -1 - (k if left else len(order) - 1 - k) * 0.7 - 0.25 * len(level_groups(ranks))
        axes.plot([rank, rank, low - 0.15 if left else high + 0.15], [0, y, y], color=ink, linewidth=0.8)
        axes.text(low - 0.2 if left else high + 0.2, y, plain(f"{name}  {rank:.2f}"),
                  ha="right" if left else "left", va="center")  # fmt: skip
    for k, group in enumerate(level_groups(ranks)):
        ends = [ranks["ranks"][group[0]] - 0.04, ranks["ranks"][group[-1]] + 0.04]
        axes.plot(ends, [-0.35 - 0.25 * k] * 2, color=ink, linewidth=3, solid_capstyle="butt")
    apart = ranks["critical_difference"] or 0.0
    axes.plot([low, low + apart], [1.1, 1.1], color=ink, marker="|")
    axes.text(low + apart / 2, 1.25, f"critical difference {apart:.2f}", ha="center", va="bottom")
    axes.xaxis.set_ticks_position("top")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set(visible=True, position=("data", 0))
    axes.set(xlim=(low - 0.2, max(high, low + apart) + 0.2), xticks=range(low, high + 1), yticks=[], ylim=(None, 2))
    axes.grid(False)


def figure(kind: str, comparison: Comparison, view: ResultView) -> bytes:
    """The figure of a view: its sweep where it has one that is all there is, else its curves."""
    swept = [*sweeps(comparison, view)]
    alone = len(swept) == 1 and len({line.algorithm for line in comparison.lines}) == 1
    return drawn(kind, draw_sweep, comparison, view, swept[0]) if alone else drawn(kind, draw_curves, comparison, view)

"""The figures of a comparison: their data, which the app uses too, and the drawing of image files.

Each figure shows a part of the result, which a view selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel.metrics import more_is_better
from ..output.plots import EFFORTS, METRICS, NAMES, STYLES, TITLES, Style, drawn, plain
from .significance import Ranks
from .specifications import Hit, Limit, Setting, outlined, smoothing
from .tuned_runs import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .comparison import Comparison

AXES = {"labels": "labels spent", "rounds": "items streamed"}
AMOUNTS = {"budget": "budget", "share": "share of labels asked"}  # axes with a point for each budget, hit or smoothing
AXIS_TITLES = AXES | AMOUNTS | {"labels": "labels spent (large mark: the end of the stream)"}
LONG_NAME = 20  # characters; a legend with longer names is placed below the axes, where it hides no line
RANKS_INCHES = (7.2, 2.4)  # size of a critical-difference diagram
WIDE_RATIO = 20  # an axis is logarithmic if its largest value is at least this many times the smallest
MOST_LINES = 8  # in one figure


@dataclass(frozen=True)
class ResultView:
    """The part of a result that a figure shows: a data set and budget, a metric of an evaluation, an x axis, and the
    names of the curves. bands: whether to draw bands of one standard deviation."""

    data: str
    budget: Limit
    metric: str
    evaluation: str
    axis: str = "labels"
    names: tuple[str, ...] = ()
    bands: bool = True


def view(comparison: Comparison, data: str | None = None, budget: Limit = None, **values: Any) -> ResultView:
    """Build a view of a comparison. By default it shows the first data set and budget, the criterion, the first axis
    and the best curves."""
    block = next(each for each in comparison.blocks() if data is None or each == (data, budget))
    usual = {
        "metric": comparison.spec.criterion,
        "evaluation": comparison.spec.evaluation,
        "axis": next(iter(axes(comparison))),
    }
    view = ResultView(*block, **usual | values)
    return view if view.names else replace(view, names=leading(comparison, drawable(comparison, view)))


def axes(comparison: Comparison) -> dict[str, str]:
    """Return the x axes that the curves of a comparison can have, {axis: title}. If there are several targets (`hit`)
    and no held-out fold, the share of labels asked comes first."""
    titles = dict(AXES)
    if len(comparison.spec.budgets) > 1:
        titles["budget"] = AMOUNTS["budget"]
    several = len(comparison.spec.hits) > 1
    curves = _amounts(comparison, *next(iter(comparison.blocks())), "share")
    if comparison.spec.held_out or not (several or any(len(lines) > 1 for lines in curves.values())):
        return titles
    share = {"share": AMOUNTS["share"]}
    return share | titles if several else titles | share


def metrics(comparison: Comparison) -> tuple[str, ...]:
    """Return the metrics that the figures of a comparison can show."""
    columns = METRICS[bool(comparison.lines[0].classes)]
    asked = () if comparison.spec.held_out else ("query_ratio",)
    return columns + asked + ("seconds",) * comparison.has_seconds


def drawable(comparison: Comparison, view: ResultView) -> dict[str, list[Result]]:
    """Return the result lines from which each curve of a view is drawn, {name: lines}. If the x axis is the budget or
    the share of labels asked for, a curve has one line for each point. Else it has a single line."""
    if view.axis in AMOUNTS:
        return _amounts(comparison, view.data, view.budget, view.axis)
    return {name: [line] for name, line in comparison.blocks()[view.data, view.budget].items()}


def leading(comparison: Comparison, lines: Mapping[str, Sequence[Result]], most: int = MOST_LINES) -> tuple[str, ...]:
    """Return the names of the `most` best curves by the criterion, in the order of the specification."""
    best = sorted(
        lines,
        key=lambda name: np.mean([comparison.values(line).mean() for line in lines[name]]),
        reverse=more_is_better(comparison.spec.criterion),
    )[:most]
    return tuple(name for name in lines if name in best)


def budget_name(budget: Limit) -> str:
    """Describe a limit in words: a budget, or a target number of labels (`hit`)."""
    if isinstance(budget, Hit):
        labels = budget.labels
        return f"{100 * labels:.3g} % of labels asked" if labels <= 1 else f"about {labels:,.6g} labels asked"
    return "no limit of labels" if budget is None else f"{budget:,} labels"


def measure(metric: str, evaluation: str) -> str:
    """Describe a metric in words, and name the evaluation if the metric depends on it."""
    return TITLES[metric] if metric in EFFORTS else f"{TITLES[metric]} ({NAMES[evaluation]})"


def settings(values: Setting) -> str:
    """Describe the settings of a result line in words."""
    return outlined(values).replace("=", " ") or "defaults"


def styles(comparison: Comparison, lines: Mapping[str, Sequence[Result]]) -> dict[str, Style]:
    """Return the style of each curve, {name: style}. The best curves get the first styles, no matter which curves a
    figure shows."""
    names = [*leading(comparison, lines), *lines]
    return {name: STYLES[list(dict.fromkeys(names)).index(name) % len(STYLES)] for name in lines}


# ---- Data of the figures


def curves(
    comparison: Comparison, view: ResultView
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Style]]:
    """Yield (name, x, mean, low, high, style) for each curve of a view. If the x axis is the labels spent or the items
    streamed, a curve ends at the end of the stream. If it is the budget or the share of labels asked for, each point is
    the value at the end of a stream."""
    lines = drawable(comparison, view)
    style_of = styles(comparison, lines)
    points = {name: _points(comparison, view, lines[name]) for name in view.names}
    for name, (x, mean, spread) in points.items():
        if view.axis == "share" and len(x) > 1 and (x == 1).all():  # fully supervised: a level line
            x = np.array([min(each.min() for each, *_ in points.values()), *x[1:]])
        low, high = np.maximum(mean - spread, 0), mean + spread
        if view.metric not in ("cost", "seconds"):
            high = np.minimum(high, 1)
        yield name, x, mean, low, high, style_of[name]


def _points(
    comparison: Comparison, view: ResultView, lines: Sequence[Result]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the x values of a curve, and the mean and standard deviation of the metric at each of them."""
    if view.axis not in AMOUNTS:
        items, asked, mean, spread = comparison.curve(lines[0], view.metric, view.evaluation, view.axis)
        return asked if view.axis == "labels" else items, mean, spread
    values = np.array([comparison.values(line, view.metric, view.evaluation) for line in lines])
    if view.axis == "share":
        x = np.array([comparison.values(line, "query_ratio").mean() for line in lines])
    else:
        x = np.array([float(line.budget or line.items) for line in lines])
    order = np.argsort(x, kind="stable")
    spread = values.std(1, ddof=1) if values.shape[1] > 1 else np.zeros(len(lines))
    return x[order], values.mean(1)[order], spread[order]


def _amounts(comparison: Comparison, data: str, budget: Limit, axis: str) -> dict[str, list[Result]]:
    """Return the result lines of each curve whose x axis is the budget or the share of labels asked for, {name: lines}.

    The lines of a curve differ in their budget, in their target number of labels (`hit`), or in the smoothing of their
    query rule. If they differ in the smoothing, only lines with the given budget are used.
    """
    tuned = comparison.spec.tune != "none"

    def name(line: Result) -> str:
        return line.named(without=line.setting if tuned else smoothing(line.algorithm) if axis == "share" else ())

    lines = [line for line in comparison.lines if line.data == data]
    if axis == "share" and len({(line.limit, name(line)) for line in lines}) < len(lines):
        lines = [line for line in lines if line.limit == budget]
    alone = len({name(line) for line in lines}) == len({line.algorithm for line in lines})
    curves: dict[str, list[Result]] = {}
    for line in lines:
        curves.setdefault(line.algorithm if alone else name(line), []).append(line)
    return curves


def is_wide(x: np.ndarray) -> bool:
    """Return whether these values span so wide a range that their axis should be logarithmic."""
    return bool(x.size and x.min() > 0 and x.max() / x.min() >= WIDE_RATIO)


@dataclass(frozen=True)
class Sweep:
    """The results of an algorithm over one or two parameters. values: {parameter: its values}. mean, spread: mean and
    standard deviation of a metric over the runs, as arrays with an axis for each parameter."""

    algorithm: str
    values: dict[str, list[float | str]]
    mean: np.ndarray
    spread: np.ndarray

    def best(self, metric: str) -> tuple[int, ...]:
        """Return the index in `mean` of the best value of a metric."""
        place = (np.nanargmax if more_is_better(metric) else np.nanargmin)(self.mean)
        return tuple(map(int, np.unravel_index(place, self.mean.shape)))

    def scale(self, key: str) -> str:
        """Return the kind of axis that the values of a parameter need: "category" if some are words, "log" over a wide
        range, else "linear"."""
        values = [each for each in self.values[key] if not isinstance(each, str)]
        if len(values) < len(self.values[key]):
            return "category"
        return "log" if is_wide(np.array(values)) else "linear"

    def labels(self, key: str) -> list[str]:
        """Return the values of a parameter as texts."""
        return [each if isinstance(each, str) else f"{each:g}" for each in self.values[key]]


def sweeps(comparison: Comparison, view: ResultView) -> Iterator[Sweep]:
    """Yield a sweep for each algorithm of a view that ran with several values of one or two parameters."""
    by_algorithm: dict[str, list[Result]] = {}
    for line in comparison.blocks()[view.data, view.budget].values():
        by_algorithm.setdefault(line.algorithm, []).append(line)
    for algorithm, lines in by_algorithm.items():
        keys = [key for key in lines[0].setting if comparison.spec.hit is None or key not in smoothing(algorithm)]
        values = {
            key: sorted({line.setting[key] for line in lines}, key=lambda value: (isinstance(value, str), value))
            for key in keys
        }
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


def level_groups(ranks: Ranks) -> list[list[str]]:
    """Return the groups of names whose average ranks differ by at most the critical difference, best first. No group
    contains another."""
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
    """Draw the curves of a view, with bands of one standard deviation if the view has bands."""
    amounts, places = view.axis in AMOUNTS, list[np.ndarray]()
    for name, x, mean, low, high, (color, _, dash, _, mark) in curves(comparison, view):
        places.append(x)
        every = None if amounts else 0.15
        axes.plot(x, mean, color=color, linestyle=dash, marker=mark, markevery=every, markersize=4, label=plain(name))
        if not amounts:
            axes.plot(x[-1], mean[-1], color=color, marker=mark, markersize=8)
        if view.bands:
            axes.fill_between(x, low, high, color=color, alpha=0.1, linewidth=0)
    if amounts and places:
        _scale_amounts(axes, view.axis, np.unique(np.concatenate(places)))
    axes.set(xlabel=AXIS_TITLES[view.axis], ylabel=measure(view.metric, view.evaluation))
    axes.set_title(plain(view.data if amounts else f"{view.data}, {budget_name(view.budget)}"), fontsize=9)
    if max(map(len, view.names), default=0) <= LONG_NAME:
        axes.legend(fontsize=8)
    else:
        figure = cast("Figure", axes.figure)
        figure.set_figheight(figure.get_figheight() + 0.16 * len(view.names))
        figure.legend(fontsize=8, loc="outside lower center")


def _scale_amounts(axes: Axes, axis: str, x: np.ndarray) -> None:
    """Make the x axis logarithmic if its values span a wide range, and format its ticks as numbers or percentages."""
    if is_wide(x):
        axes.set_xscale("log")
        axes.set_xticks(ticks(x))
        axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: amount(axis, value))


def amount(axis: str, value: float) -> str:
    """Format a value on the x axis: a share of labels asked as a percentage, a budget as a number."""
    return f"{100 * value:.3g} %" if axis == "share" else f"{value:,.6g}"


def ticks(x: np.ndarray) -> np.ndarray:
    """Return logarithmic ticks: 1, 2 and 5 times the powers of ten, or the powers alone if there are more than four."""
    powers = np.arange(np.floor(np.log10(x.min())), np.ceil(np.log10(x.max())) + 1)
    steps = np.array([1.0, 2.0, 5.0] if powers.size <= 4 else [1.0])
    places = np.outer(10.0**powers, steps).ravel()
    return places[(places >= 0.9 * x.min()) & (places <= 1.1 * x.max())]


def draw_sweep(axes: Axes, comparison: Comparison, view: ResultView, sweep: Sweep) -> None:
    """Draw a line over one parameter, or a heat map over two parameters with a ring around the best setting."""
    *above, key = sweep.values
    even = above or sweep.scale(key) == "category"
    place = np.arange(len(sweep.values[key])) if even else sweep.values[key]
    if above:
        image, best = axes.imshow(sweep.mean, cmap="viridis", origin="lower", aspect="auto"), sweep.best(view.metric)
        axes.figure.colorbar(image)
        axes.plot(
            best[1], best[0], "o", markersize=12, markerfacecolor="none", markeredgecolor="#c00", markeredgewidth=2
        )
        axes.set_ylabel(plain(above[0]))
        axes.set_yticks(range(len(sweep.mean)), sweep.labels(above[0]))
        axes.grid(False)
    else:
        axes.errorbar(place, sweep.mean, sweep.spread, color=STYLES[0][0], marker="o", capsize=3)
        axes.set_ylabel(measure(view.metric, view.evaluation))
        axes.set_xscale("linear" if even else sweep.scale(key))
    axes.set_title(plain(f"{sweep.algorithm}: {measure(view.metric, view.evaluation)}\n"
                         f"{view.data}, {budget_name(view.budget)}"), fontsize=9)  # fmt: skip
    axes.set_xlabel(plain(key))
    axes.set_xticks(place, sweep.labels(key))
    axes.minorticks_off()


def draw_ranks(axes: Axes, comparison: Comparison, ranks: Ranks) -> None:
    """Draw a critical-difference diagram (Demsar 2006): names at their average ranks, and bars that join names without
    a significant difference."""
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
    """Draw the figure of a view as a file of this kind, and return its bytes. If the only algorithm has a parameter
    sweep, and the x axis is the labels spent or the items streamed, draw the sweep. Else draw the curves."""
    swept = [] if view.axis in AMOUNTS else [*sweeps(comparison, view)]
    alone = len(swept) == 1 and len({line.algorithm for line in comparison.lines}) == 1
    return drawn(kind, draw_sweep, comparison, view, swept[0]) if alone else drawn(kind, draw_curves, comparison, view)

"""The figures of a comparison: their data, which the app uses too, and the drawing of image files.

Each figure shows a part of the result, which a view selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel.metrics import more_is_better
from ..output.plots import EFFORTS, METRICS, NAMES, STYLES, TITLES, Style, drawn, number, plain
from .significance import Ranks
from .specifications import Hit, Limit, Setting, Specification, outlined, smoothing
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
    names of the curves. axis: "labels", "rounds", "budget", "share", or a parameter. bands: whether to draw one
    standard deviation: as a band around a curve, or as a bar at a point."""

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
    spec, axis = comparison.spec, next(iter(axes(comparison)))
    usual = {"metric": spec.criterion, "evaluation": spec.evaluation, "axis": axis}
    view = ResultView(*block, **usual | values)
    return view if view.names else replace(view, names=leading(comparison, drawable(comparison, view)))


def axes(comparison: Comparison) -> dict[str, str]:
    """Return the x axes that the curves of a comparison can have, {axis: title}. If there are several targets (`hit`)
    and no held-out fold, the share of labels asked comes first. If all algorithms vary in one parameter and in no
    other, this parameter comes first."""
    spec, keys, several = comparison.spec, [*varied(comparison.spec)], len(comparison.spec.hits) > 1
    curves = _amounts(comparison, *next(iter(comparison.blocks())), "share")
    share = ["share"] * (not spec.held_out and (several or any(len(lines) > 1 for lines in curves.values())))
    alone = len(keys) == 1 and all(keys == [*varied(spec, name)] for name in spec.algorithms)
    order = [*share * several, *keys * alone, *AXES, *["budget"] * (len(spec.budgets) > 1), *share, *keys]
    return {axis: (AXES | AMOUNTS).get(axis, axis) for axis in order}


def varied(spec: Specification, *names: str) -> dict[str, list[float | str]]:
    """Return the parameters of which an algorithm runs and shows several values, {parameter: its values in ascending
    order, then its words}. names: which algorithms (default: all)."""
    grids = [
        {key: values for key, values in spec.grids[name].items() if spec.hit is None or key not in smoothing(name)}
        for name in (names or spec.grids)
        if spec.tune == "none"
    ]
    keys = dict.fromkeys(key for grid in grids for key in grid if len(grid[key]) > 1)
    values = {key: {value for grid in grids for value in grid.get(key, ())} for key in keys}
    return {key: sorted(each, key=lambda value: (isinstance(value, str), value)) for key, each in values.items()}


def axis_title(comparison: Comparison, axis: str) -> str:
    """Return the title of an x axis. That of a parameter says which other parameters are the best at each point."""
    others = [key for key in varied(comparison.spec) if key != axis and axis not in AXES | AMOUNTS]
    best = measure(comparison.spec.criterion, comparison.spec.evaluation)
    return AXIS_TITLES.get(axis, axis) + f", with the best {', '.join(others)} by {best}" * bool(others)


def metrics(comparison: Comparison) -> tuple[str, ...]:
    """Return the metrics that the figures of a comparison can show."""
    asked = () if comparison.spec.held_out else ("query_ratio",)
    return METRICS[bool(comparison.lines[0].classes)] + asked + ("seconds",) * comparison.has_seconds


def drawable(comparison: Comparison, view: ResultView) -> dict[str, list[Result]]:
    """Return the result lines from which each curve of a view is drawn, {name: lines}. If the x axis is the labels
    spent or the items streamed, a curve has a single line. Else it has one line for each point."""
    if view.axis in AMOUNTS:
        return _amounts(comparison, view.data, view.budget, view.axis)
    block = comparison.blocks()[view.data, view.budget]
    return {name: [line] for name, line in block.items()} if view.axis in AXES else _over(comparison, view)


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
    """Return the style of each curve, {name: style}. The best curves get the first styles, whichever a figure shows."""
    names = [*leading(comparison, lines), *lines]
    return {name: STYLES[list(dict.fromkeys(names)).index(name) % len(STYLES)] for name in lines}


# ---- Data of the figures


def curves(
    comparison: Comparison, view: ResultView
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Style]]:
    """Yield (name, x, mean, low, high, style) for each curve of a view. If the x axis is the labels spent or the items
    streamed, a curve ends at the end of the stream. Else each point is the value at the end of a stream."""
    lines = drawable(comparison, view)
    style_of = styles(comparison, lines)
    points = {name: _points(comparison, view, lines[name]) for name in view.names}
    for name, (x, mean, spread) in points.items():
        if view.axis == "share" and len(x) > 1 and (x == 1).all():  # fully supervised: a level line
            x = np.array([min(each.min() for each, *_ in points.values()), *x[1:]])
        low, high = np.maximum(mean - spread, 0), mean + spread
        if view.metric not in ("cost", "seconds"):
            high = np.minimum(high, np.maximum(mean, 1))
        yield name, x, mean, low, high, style_of[name]


def _points(
    comparison: Comparison, view: ResultView, lines: Sequence[Result]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the x values of a curve, and the mean and standard deviation of the metric at each of them."""
    if view.axis in AXES:
        items, asked, mean, spread = comparison.curve(lines[0], view.metric, view.evaluation, view.axis)
        return asked if view.axis == "labels" else items, mean, spread
    values = np.array([comparison.values(line, view.metric, view.evaluation) for line in lines])
    if view.axis == "share":
        x = np.array([comparison.values(line, "query_ratio").mean() for line in lines])
    elif view.axis == "budget":
        x = np.array([float(line.budget or line.items) for line in lines])
    else:
        words, levels = categories(comparison, view.axis), [line.setting[view.axis] for line in lines]
        x = np.array([words.index(_text(each)) if words else each for each in levels], float)
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


def _over(comparison: Comparison, view: ResultView) -> dict[str, list[Result]]:
    """Return the result lines of each algorithm over a parameter: for each value the best by the criterion. A line
    without the parameter is at every value: its curve is level, unless the parameter is a weight of the metric."""
    key, block = view.axis, comparison.blocks()[view.data, view.budget].values()
    lines = [
        replace(line, setting=line.setting | {key: value})
        for line in block
        for value in ([line.setting[key]] if key in line.setting else varied(comparison.spec)[key])
    ]
    curves: dict[str, dict[float | str, Result]] = {line.algorithm: {} for line in lines}
    best_last = not more_is_better(comparison.spec.criterion)
    for line in sorted(lines, key=lambda line: comparison.values(line).mean(), reverse=best_last):
        curves[line.algorithm][line.setting[key]] = line
    return {name: [*points.values()] for name, points in curves.items()}


def categories(comparison: Comparison, axis: str) -> list[str]:
    """Return the values of a parameter as texts if some of them are words. Else return []."""
    values = varied(comparison.spec).get(axis, [])
    return [*map(_text, values)] if any(isinstance(each, str) for each in values) else []


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


@dataclass(frozen=True)
class Sweep:
    """The results of an algorithm over two parameters. values: {parameter: its values as texts}. mean: mean of a metric
    over the runs, as an array with an axis for each parameter."""

    algorithm: str
    values: dict[str, list[str]]
    mean: np.ndarray

    def best(self, metric: str) -> tuple[int, ...]:
        """Return the index in `mean` of the best value of a metric."""
        place = (np.nanargmax if more_is_better(metric) else np.nanargmin)(self.mean)
        return tuple(map(int, np.unravel_index(place, self.mean.shape)))

    def flat(self, metric: str) -> str:
        """Say in words that every setting gives the same value of a metric. Return "" if the values differ."""
        low, high = (number(metric, each(self.mean)) for each in (np.nanmin, np.nanmax))
        return f"every setting gives {low}" if low == high else ""


def sweeps(comparison: Comparison, view: ResultView) -> Iterator[Sweep]:
    """Yield a sweep for each algorithm of a view that ran with several values of two parameters."""
    block = comparison.blocks()[view.data, view.budget].values()
    for algorithm in comparison.spec.algorithms:
        values = {key: [*map(_text, each)] for key, each in varied(comparison.spec, algorithm).items()}
        lines = [line for line in block if line.algorithm == algorithm]
        if len(values) != 2 or not lines:
            continue
        mean = np.full([len(each) for each in values.values()], np.nan)
        for line in lines:
            place = tuple(each.index(_text(line.setting[key])) for key, each in values.items())
            mean[place] = comparison.values(line, view.metric, view.evaluation).mean()
        yield Sweep(algorithm, values, mean)


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
    """Draw the curves of a view, with one standard deviation if the view has bands."""
    points, places = view.axis not in AXES, list[np.ndarray]()
    for name, x, mean, low, high, (color, _, dash, _, mark) in curves(comparison, view):
        places.append(x)
        every = None if points else 0.15
        axes.plot(x, mean, color=color, linestyle=dash, marker=mark, markevery=every, markersize=4, label=plain(name))
        if not points:
            axes.plot(x[-1], mean[-1], color=color, marker=mark, markersize=8)
        if view.bands and points:
            axes.errorbar(x, mean, (mean - low, high - mean), fmt="none", ecolor=color, elinewidth=0.8, capsize=2)
        elif view.bands:
            axes.fill_between(x, low, high, color=color, alpha=0.1, linewidth=0)
    if points and places:
        kind, marks, words = scale(comparison, view.axis, np.concatenate(places))
        axes.set_xscale(kind)
        axes.xaxis.set_major_formatter(lambda value, _: amount(comparison, view.axis, value))
        if words:
            axes.set_xticks(marks, words)
            axes.minorticks_off()
    axes.set(xlabel=plain(axis_title(comparison, view.axis)), ylabel=measure(view.metric, view.evaluation))
    limit = "" if view.axis in AMOUNTS else f", {budget_name(view.budget)}"
    axes.set_title(plain(view.data + limit), fontsize=9)
    if max(map(len, view.names), default=0) <= LONG_NAME:
        axes.legend(fontsize=8)
    else:
        figure = cast("Figure", axes.figure)
        figure.set_figheight(figure.get_figheight() + 0.16 * len(view.names))
        figure.legend(fontsize=8, loc="outside lower center")


def scale(comparison: Comparison, axis: str, x: np.ndarray) -> tuple[str, np.ndarray, list[str]]:
    """Return the kind of an x axis, "log" over a wide range and else "linear", and the places and texts of its ticks.
    It needs none if it is linear, unless the values of a parameter are words."""
    words = categories(comparison, axis)
    wide = not words and x.max() >= WIDE_RATIO * x.min() > 0
    marks = ticks(x) if wide else np.arange(float(len(words)))
    return "log" if wide else "linear", marks, words or [amount(comparison, axis, each) for each in marks]


def amount(comparison: Comparison, axis: str, value: float) -> str:
    """Format a value on the x axis: a share of labels as a percentage, a budget or parameter as a number or word."""
    words = categories(comparison, axis)
    return words[int(value)] if words else f"{100 * value:.3g} %" if axis == "share" else f"{value:,.6g}"


def ticks(x: np.ndarray) -> np.ndarray:
    """Return logarithmic ticks: 1, 2 and 5 times the powers of ten, or the powers alone if there are more than four."""
    powers = np.arange(np.floor(np.log10(x.min())), np.ceil(np.log10(x.max())) + 1)
    steps = np.array([1.0, 2.0, 5.0] if powers.size <= 4 else [1.0])
    places = np.outer(10.0**powers, steps).ravel()
    return places[(places >= 0.9 * x.min()) & (places <= 1.1 * x.max())]


def draw_sweep(axes: Axes, comparison: Comparison, view: ResultView, sweep: Sweep) -> None:
    """Draw a heat map over two parameters with a ring around the best setting, or say that all give the same value."""
    (above, rows), (key, columns) = sweep.values.items()
    if words := sweep.flat(view.metric):
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5))
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center")
    else:
        axes.figure.colorbar(axes.imshow(sweep.mean, cmap="viridis", origin="lower", aspect="auto"))
        y, x = sweep.best(view.metric)
        axes.plot(x, y, "o", markersize=12, markerfacecolor="none", markeredgecolor="#c00", markeredgewidth=2)
    axes.grid(False)
    axes.set_title(plain(f"{sweep.algorithm}: {measure(view.metric, view.evaluation)}\n"
                         f"{view.data}, {budget_name(view.budget)}"), fontsize=9)  # fmt: skip
    axes.set(xlabel=plain(key), ylabel=plain(above))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
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


def figure(kind: str, comparison: Comparison, part: ResultView | None = None) -> bytes:
    """Draw the figure of a view (by default `view(comparison)`) as a file of this kind, and return its bytes. If the
    only algorithm varies in two parameters, and the x axis is the labels spent or the items streamed, draw them as a
    heat map. Else draw the curves."""
    part = part or view(comparison)
    alone = len(comparison.spec.algorithms) == 1 and part.axis in AXES
    for sweep in sweeps(comparison, part) if alone else ():
        return drawn(kind, draw_sweep, comparison, part, sweep)
    return drawn(kind, draw_curves, comparison, part)

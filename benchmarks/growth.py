"""Measure how time and peak memory of a replay grow with rounds T, features d, non-zeros in a row, and classes K: run
`python benchmarks/growth.py`. The exponents are fitted: with exponent 1, time or memory grows linearly.

Every label is asked, so that the learner learns in each round. Each point is measured in a process of its own. The
script also checks the promise that a replay takes at most 50 MB in addition to the rows and the learner's state.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from common import Shape, fastest, fitting, machine, number, ours, synthetic, table

ALLOWED = 50  # MB above the rows and the state
PAGE = 2**-8  # MB of one page of memory, the smallest peak: the fit takes logarithms and cannot use 0
STATUS = Path("/proc/self/status")


class Curve(NamedTuple):
    """A curve to measure: a learner, and the shapes of the streams that it replays. axis: the field of Shape that
    varies."""

    axis: str
    learner: str
    shapes: list


AXES = {"count": "rounds T", "features": "features d", "filled": "non-zeros a row", "classes": "classes K"}


def curves():
    """Yield all curves to measure; curves over K are for multi-class learners."""
    for name in ("pa-i", "acog-ii-diag", "ssacog-ii"):
        yield Curve("count", name, [Shape(T, 10, 10) for T in (50_000, 200_000, 1_000_000, 5_000_000)])
    for name in ("pa-i", "acog-ii-diag", "ssacog-ii"):
        yield Curve("features", name, [Shape(20_000, 10**k, 60) for k in (3, 4, 5, 6)])
    yield Curve("features", "sacog-ii", [Shape(200, 10**k, 60) for k in (3, 4, 5, 6)])
    yield Curve("features", "acog-ii", [Shape(200, d, 60) for d in (500, 1_000, 2_000, 4_000)])
    for name in ("pa-i", "acog-ii-diag", "ssacog-ii"):
        yield Curve("filled", name, [Shape(10_000, 10_000, s) for s in (10, 30, 100, 300, 1_000)])
    for name in fitting(Shape(0, 0, 0, classes=2))[::2]:
        yield Curve("classes", name, [Shape(20_000, 100_000, 60, K) for K in (2, 4, 8, 16, 32)])


def memory(kind):
    """Return the memory of this process in MB: the current one (kind VmRSS), or the peak since `forget` (VmHWM;
    getrusage would return the parent's peak)."""
    return int(re.search(rf"{kind}:\s+(\d+) kB", STATUS.read_text())[1]) / 1024


def forget():
    """Reset the peak memory of this process to its current value."""
    Path("/proc/self/clear_refs").write_text("5")


def point(shape, learner, times):
    """Measure time and memory of one replay; the shortest of `times` runs counts. Call it in a fresh process. It
    compiles the kernel, and touches every array of rows and state, before it counts memory."""
    ours(synthetic(shape._replace(count=10)), learner, "all")()()
    empty = memory("VmRSS")
    data = synthetic(shape)
    run = ours(data, learner, "all")()
    state = [array for array in run.args[3] if isinstance(array, np.ndarray)]
    for array in state:
        array += 0
    before = memory("VmRSS")
    forget()
    run()
    peak = memory("VmHWM")
    own = [array for array in (*data.rows, data.y, data.order) if isinstance(array, np.ndarray)]
    return {
        "microseconds": 1e6 * min(fastest(ours(data, learner, "all"), 0)[1] for _ in range(times)) / shape.count,
        "rows_mb": sum(array.nbytes for array in own) / 2**20,
        "state_mb": sum(array.nbytes for array in state) / 2**20,
        "excess_mb": peak - before,
        "peak_mb": max(peak - empty, PAGE),
    }


def in_fresh_process(shape, learner, times=3):
    """Run `point` in a fresh process, and return its result."""
    job = json.dumps([shape, learner, times])
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # freed memory returns to the system at once
    child = subprocess.run([sys.executable, __file__, "--point", job], env=environment, capture_output=True, text=True)
    if child.returncode:
        raise SystemExit(child.stderr)
    return json.loads(child.stdout)


def exponent(x, y):
    """Return the fitted exponent: the slope of a line through the points on logarithmic axes, by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def measure(quick=False):
    """Return all curves with their points and exponents, and whether the promise on memory holds."""
    if not STATUS.exists():
        raise SystemExit("growth.py reads the memory of a process from /proc, which only Linux has.")
    measured = []
    for axis, learner, shapes in curves():
        if quick:
            shapes = [shape._replace(count=min(shape.count, 100 * (k + 1))) for k, shape in enumerate(shapes[:2])]
        points = [shape._asdict() | in_fresh_process(shape, learner, 1 if quick else 3) for shape in shapes]
        values = [point[axis] for point in points]
        time = [point["microseconds"] * (point["count"] if axis == "count" else 1) for point in points]
        measured.append(
            {"axis": axis, "learner": learner, "points": points, "time_exponent": exponent(values, time),
             "memory_exponent": exponent(values, [point["peak_mb"] for point in points])}
        )  # fmt: skip
    worst = max(point["excess_mb"] for curve in measured for point in curve["points"])
    notes = [
        f"No learner fits the axis {AXES[axis]} yet: not run." for axis in AXES.keys() - {c["axis"] for c in measured}
    ]
    promise = {"allowed_mb": ALLOWED, "worst_mb": worst, "met": worst <= ALLOWED}
    return {"machine": machine(), "curves": measured, "promise": promise, "notes": notes}


def sections(results):
    """Yield the results as lines of Markdown."""
    yield from ("## Growth of time and memory, every label asked", "")
    for axis, title in AXES.items():
        curves = [curve for curve in results["curves"] if curve["axis"] == axis]
        if not curves:
            continue
        yield from (f"### {title[0].upper()}{title[1:]}", "")
        yield from table(
            ("learner", title, "microseconds a round", "rows MB", "state MB", "the replay's own MB"),
            ((curve["learner"], f"{point[axis]:,}", number(point["microseconds"]),
              *(f"{point[key]:,.1f}" for key in ("rows_mb", "state_mb", "excess_mb")))
             for curve in curves for point in curve["points"]),
        )  # fmt: skip
        grown = (
            f"{curve['learner']} {curve['time_exponent']:.2f} and {curve['memory_exponent']:.2f}" for curve in curves
        )
        yield from (f"Fitted exponents of the time {'of a replay' if axis == 'count' else 'a round'} and of the memory "
                    f"for rows, state and replay: {', '.join(grown)}.", "")  # fmt: skip
    promise, verdict = results["promise"], {True: "kept", False: "**broken**"}
    yield (f"Beyond the rows and the learner's state a replay took at most {promise['worst_mb']:.1f} MB: "
           f"the promise of {promise['allowed_mb']} MB is {verdict[promise['met']]}.")  # fmt: skip
    yield from ("", *results["notes"], "")


def plot(results, path):
    """Draw time and memory against each axis, on logarithmic axes."""
    from matplotlib.figure import Figure

    axes = [axis for axis in AXES if any(curve["axis"] == axis for curve in results["curves"])]
    figure = Figure(figsize=(4 * len(axes), 7), layout="constrained")
    charts = figure.subplots(2, len(axes), sharex="col")
    for k, axis in enumerate(axes):
        for curve in (curve for curve in results["curves"] if curve["axis"] == axis):
            values = [point[axis] for point in curve["points"]]
            for chart, key, fitted in zip(charts[:, k], ("microseconds", "peak_mb"), ("time", "memory")):
                label = f"{curve['learner']} {curve[f'{fitted}_exponent']:.2f}"
                chart.loglog(values, [point[key] for point in curve["points"]], marker="o", label=label)
                chart.legend(fontsize=8)
        charts[1, k].set_xlabel(AXES[axis])
    charts[0, 0].set_ylabel("microseconds a round")
    charts[1, 0].set_ylabel("MB of rows, state and replay")
    figure.savefig(path)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few and small points, for a trial.")] = False,
    plot_path: Annotated[Path | None, typer.Option("--plot", help="Draw the curves here (.png or .svg).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    point_job: Annotated[str | None, typer.Option("--point", hidden=True)] = None,
):
    """Measure how a replay's time and memory grow."""
    if point_job:
        shape, learner, times = json.loads(point_job)
        print(json.dumps(point(Shape(*shape), learner, times)))
        return
    results = measure(quick)
    if plot_path:
        plot(results, plot_path)
    print(json.dumps(results) if as_json else "\n".join(sections(results)))


if __name__ == "__main__":
    typer.run(main)

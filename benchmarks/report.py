"""Run throughput.py, growth.py and label_latency.py, and write docs/benchmarks.md with its chart:
`python benchmarks/report.py`."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import growth
import label_latency
import throughput
import typer
from common import machine

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def heading(host, seconds):
    """Return the heading of docs/benchmarks.md, with the date, the seconds that everything took, the machine, and the
    versions of the packages."""
    versions = ", ".join(f"{name} {version}" for name, version in host["packages"].items())
    return f"""# Benchmarks

Written by `python benchmarks/report.py` in {seconds:.0f} seconds on {host["date"]}: {host["processor"]},
{host["cores"]} cores (load {host["load"]} at the start), {host["memory_gib"]} GiB, {host["system"]}, Python
{host["python"]}, {versions}. Times of labeling are clock times. All others are processor times without compilation:
ours and the others take turns, and the best turn of each counts. Look at the ratios: the seconds differ by machine.
"""


def labeling(quick):
    """Measure labeling. Yield two results: abstracts in all tools, and a long stream of many terms in OAL Studio
    alone."""
    with label_latency.chromium() as browser:
        yield label_latency.run(browser, labels=5 if quick else 60, strategies=("OA3-diag", "CSPAA"), alone=quick)
        long = {"items": 5000, "vocabulary": 1000} if quick else {"items": 500_000, "vocabulary": 100_000}
        yield label_latency.run(
            browser, labels=5 if quick else 60, strategies=("OA3-diag", "CSPAA"), alone=True, first=False, **long
        )


def main(
    page: Annotated[Path, typer.Option(help="The page to write; its chart is laid beside it.")] = PAGE,
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds and small points, for a trial.")] = False,
):
    """Measure everything again and write the page."""
    start, host = perf_counter(), machine()
    labelled = list(labeling(quick))
    rates = throughput.measure(passes=1 if quick else 3, rounds=200 if quick else None)
    grown = growth.measure(quick)
    chart = page.with_name("growth.png")
    growth.plot(grown, chart)
    seconds = perf_counter() - start
    picture = f"![Growth of time and memory]({chart.name})"
    sections = *label_latency.sections(labelled), *throughput.sections(rates), *growth.sections(grown)
    lines = heading(host, seconds), *sections, picture, ""
    page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)

"""Measure the cost of an installation in seconds and megabytes: `python benchmarks/installation.py`.

The wheel is built and installed, with everything that it requires, into an empty environment, and the app is started
there in an empty folder until it answers. The megabytes of a requirement are given alone, and together with packages
that only it requires.
"""

import json
import re
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import table

from tests.harness import package
from tests.harness.browser import Server

OURS = "oal-studio"


def plain(name):
    """Normalize the name of a distribution as the package index does (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(folder):
    """Return the distributions in a folder: {name: (size on the disk in bytes, names of its requirements)}."""
    found = {}
    for each in distributions(path=[str(folder)]):
        paths = (Path(each.locate_file(file)) for file in each.files or ())
        required = map(Requirement, each.requires or ())
        needs = {plain(one.name) for one in required if one.marker is None or one.marker.evaluate({"extra": ""})}
        found[plain(each.metadata["Name"])] = sum(path.stat().st_size for path in paths if path.exists()), needs
    return found


def reached(found, start, without=None):
    """Return the names of the distribution `start` and of its direct and indirect requirements. `without` is left out,
    and with it all requirements that only it leads to."""
    names, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in found and name != without and name not in names:
            names.add(name)
            waiting += found[name][1]
    return names


def shares(found):
    """Return (name, own MB, MB including all packages that only it requires) of each direct requirement, the largest
    first."""
    everything = reached(found, OURS)
    lines = []
    for name in found[OURS][1]:
        alone = everything - reached(found, OURS, without=name)
        lines.append((name, found[name][0] / 2**20, sum(found[each][0] for each in alone) / 2**20))
    return sorted(lines, key=lambda line: -line[2])


def measure(extra=""):
    """Install the package into an empty environment, start the app, and return the seconds and megabytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, programs = package.wheel(folder / "built"), package.environment(folder / "environment")
        start = perf_counter()
        package.install(programs, f"{wheel}{extra}")
        seconds = perf_counter() - start
        found = installed(package.packages(programs))
        home = folder / "home"
        home.mkdir()
        start = perf_counter()
        own = {"HOME": str(home), "OAL_DB": "", "PYTHONPATH": "", "XDG_CACHE_HOME": "", "XDG_DATA_HOME": ""}
        server = Server(home, home, command=(programs / "oal-studio", "--port"), **own)
        answered = perf_counter() - start
        server.kill()
        return {
            "seconds": seconds,
            "distributions": len(found),
            "megabytes": sum(size for size, _ in found.values()) / 2**20,
            "wheel_megabytes": wheel.stat().st_size / 2**20,
            "answers_after": answered,
            "requirements": shares(found),
        }


def main(
    extra: Annotated[str, typer.Option(help="Extras to install, such as [auth].")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Install the package into an empty environment, and print the time and the disk space that it takes."""
    result = measure(extra)
    if as_json:
        print(json.dumps(result))
        return
    lines = [(name, f"{own:,.0f}", f"{alone:,.0f}") for name, own, alone in result["requirements"]]
    print("\n".join(table(("requirement", "MB", "MB with what it alone requires"), lines)))
    for name in ("distributions", "megabytes", "wheel_megabytes", "seconds", "answers_after"):
        print(f"{name}: {result[name]:,.1f}")


if __name__ == "__main__":
    typer.run(main)

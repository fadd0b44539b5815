"""The project does not grow beyond the sizes below. A change that needs more room lowers another number, or raises one
and gives the reason in its commit. `make check` prints today's sizes."""

import re

from tests.harness import ROOT

CEILING = {  # part of the project: its files, and the most lines (of docs: words) that they have together
    "kernel": ("oal_engine/kernel/**/*.py", 5_870),
    "store": ("oal_engine/store/**/*.py", 1_995),
    "datasets": ("oal_engine/datasets/**/*.py", 10_395),
    "sessions": ("oal_engine/sessions/**/*.py", 9_440),
    "experiments": ("oal_engine/experiments/**/*.py", 3_745),
    "output, cli, Python": (
        "oal_engine/output/**/*.py oal_engine/cli/*.py oal_engine/estimator/*.py oal_engine/*.py", 4_120
    ),
    "ui and pages": ("ui/**/*.py pages/*.py app.py home.py", 7_130),
    "scripts and styles": ("ui/**/*.js ui/**/*.css oal_engine/**/*.js oal_engine/**/*.css", 5_320),
    "tests": ("tests/**/*.py", 39_535),
    "benchmarks": ("benchmarks/*.py", 3_235),
    "docs, words": ("docs/*.md *.md benchmarks/README.md data/README.md", 37_970),
}  # fmt: skip
GENERATED = ("reproduction.md", "reference.md", "CHANGELOG.md")  # by commands, or one line a change
MOST_MODULES, MOST_LINES = 216, 500  # of the product: modules, and lines of the longest one


def paths(patterns):
    """Return the files that match any of the patterns, without those of environments."""
    return [path for pattern in patterns.split() for path in ROOT.glob(pattern) if ".venvs" not in path.parts]


def size(name, path):
    """Return the lines of a file, or the words of a page without its tables."""
    text = path.read_text(encoding="utf-8")
    if not name.startswith("docs"):
        return len(text.splitlines())
    return 0 if path.name in GENERATED else len(re.sub(r"^\|.*$", "", text, flags=re.MULTILINE).split())


def sizes():
    """Return {part of the project: size}."""
    return {name: sum(size(name, path) for path in paths(patterns)) for name, (patterns, _) in CEILING.items()}


def test_no_part_of_the_project_grows_beyond_its_ceiling(capsys):
    found = sizes()
    with capsys.disabled():
        print("".join(f"\n{name:22}{found[name]:8,} of {most:7,}" for name, (_, most) in CEILING.items()))
    assert {name: found[name] for name, (_, most) in CEILING.items() if found[name] > most} == {}


def test_no_module_is_too_long_and_there_are_not_too_many():
    """The product has a limited number of modules, and none of them is longer than the ceiling."""
    product = [path for name in ("oal_engine", "ui", "pages") for path in (ROOT / name).rglob("*.py")]
    assert [path.name for path in product if len(path.read_text().splitlines()) > MOST_LINES] == []
    assert len(product) <= MOST_MODULES

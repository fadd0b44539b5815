"""Rules of the source code: imports go down the levels, nothing is pickled, public names have docstrings, and no text
file names a folder of one machine."""

import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.harness import ROOT

LEVELS = [  # of wings, lowest first; a wing imports only from lower levels
    {"kernel", "output", "places", "versions"},
    {"store"},
    {"datasets"},
    {"sessions", "experiments"},
    {"cli", "cluster", "estimator"},
    {"__main__", "studio", "ui"},
    {"home", "pages"},
    {"app"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
OURS = {"oal_engine", "ui", "app", "home", "pages"}
FOLDERS = ("oal_engine", "ui", "pages")
SOURCES = [ROOT / "app.py", ROOT / "home.py", *(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))]
PATHS = sorted(str(path.relative_to(ROOT)) for path in SOURCES)
ENGINE = [path for path in PATHS if path.startswith("oal_engine")]


@cache
def tree(path):
    """Return the syntax tree of a file."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def module_name(path):
    """Return the dotted name with which a file is imported."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def wing(module):
    """Return the wing to which a module belongs, given its dotted name. A wing is a folder or file of the engine, or
    ui, app, home or pages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "oal_engine" and len(parts) > 1 else parts[0]


@cache
def imported(path):
    """Return the dotted names of all modules that a file imports, at its top or inside functions."""
    modules, folders = set(), Path(path).parent.parts
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = folders[: len(folders) - node.level + 1] if node.level else ()
            start = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            inside = ROOT.joinpath(*start.split("."))
            for name in node.names:  # `from . import rows` imports a module, `from .rows import dot` a name of one
                is_module = (inside / name.name).exists() or (inside / f"{name.name}.py").exists()
                modules.add(f"{start}.{name.name}" if is_module else start)
    return modules


def importing(paths, names):
    """Return (file, imported module) for each import in the files whose top-level package is in `names`."""
    return [(path, module) for path in paths for module in imported(path) if module.split(".")[0] in names]


def test_imports_go_down():
    """Every wing (part of the project) has a level. No wing imports another one of its own or of a higher level."""
    assert {wing(module_name(path)) for path in PATHS} - {"oal_engine"} == set(LEVEL)
    wrong = []
    for path, module in importing(PATHS, OURS):
        here, there = wing(module_name(path)), wing(module)
        if "oal_engine" not in (here, there) and here != there and LEVEL[there] >= LEVEL[here]:
            wrong.append((path, module))
    assert [] == wrong


def test_the_engine_imports_nothing_at_first():
    """`import oal_engine` imports only the places of its files, and nothing outside the standard library."""
    command = [sys.executable, "-S", "-c", "import sys, oal_engine; print(*sys.modules)"]  # -S: no site hooks
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    foreign = [name for name in names if name.partition(".")[0] not in sys.stdlib_module_names]
    assert {"oal_engine", "oal_engine.places", "__main__"} == {*foreign}


@pytest.mark.parametrize("folder", sorted({str(Path(path).parent) for path in PATHS} - {"."}))
def test_no_wing_has_a_circle(folder):
    """The modules in each folder of the project have no circular imports among them."""
    paths = {path for path in PATHS if path.startswith(f"{folder}/")} - {"oal_engine/__init__.py"}  # imports lazily
    modules = {module_name(path): imported(path) for path in paths}
    inside = {module: imports & modules.keys() - {module} for module, imports in modules.items()}
    assert list(TopologicalSorter(inside).static_order())


def test_no_test_module_imports_another():
    line = re.compile(r"^ *(?:from|import) [^\n(]*(?:\([^)]*\))?", re.MULTILINE)
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    lines = [(path, found) for path, text in texts.items() for found in line.findall(text)]
    assert [] == [(path, found) for path, found in lines if re.search(r"\b(test_\w+|conftest)\b", found)]


def test_the_engine_does_not_import_streamlit():
    assert [] == importing(ENGINE, {"streamlit", "plotly", *OURS} - {"oal_engine"})


def test_nothing_is_pickled():
    """No module that can run code from files is imported, and arrays are loaded with allow_pickle=False."""
    unsafe = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    assert [] == importing(PATHS, unsafe)
    for path in PATHS:
        for call in (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            allowed = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "allow_pickle"]
            if name in ("np.load", "numpy.load") or name.endswith(("read_array", "NpzFile")) or allowed:
                assert allowed == ["False"], f"{path}:{call.lineno}"


def test_everything_public_has_a_docstring():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    bare = []
    for path in {*ENGINE} - {"oal_engine/__main__.py"}:
        public = (node for node in tree(path).body if isinstance(node, kinds) and not node.name.startswith("_"))
        bare += [(path, getattr(node, "name", "")) for node in (tree(path), *public) if not ast.get_docstring(node)]
    assert [] == bare


def test_no_path_of_a_machine():
    machine = re.compile(r"(?<![\w.~/])/(?:work|home|root|tmp)\b")
    generated = re.compile(r"\.(?!ci$|streamlit$)|__pycache__$|build$|.*\.(rows|backups|egg-info)$|findings$")
    binary = (".png", ".gif", ".webp", ".npy", ".npz", ".parquet", ".db", ".xz", ".gz")
    lines = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not generated.match(name)]
        for path in (Path(folder, name) for name in files if not name.startswith("studio.db")):
            if path.suffix not in binary:
                text = path.read_text(encoding="utf-8")
                lines += [f"{path}: {line.strip()[:80]}" for line in text.splitlines() if machine.search(line)]
    assert [] == lines


HEAVY = ("numba", "sklearn", "pandas", "pyarrow", "streamlit", "plotly", "matplotlib", "dask", "distributed")
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({!r})); {}"
COMMANDS = "from oal_engine.cli import backups, comparisons, data, replays, sessions"
READING = """
from pathlib import Path
from oal_engine.datasets import reading
from oal_engine.datasets.reading import preview
Path("texts.csv").write_text("text,label\\n" + "a word,1\\nanother word,0\\n" * 20)
assert ["text", "label"] == reading.peek("texts.csv").columns
assert reading.read("texts.csv", reading.Columns(text=("text",), label="label")).y.any()
"""
CHEAP = [
    (HEAVY, COMMANDS), ((*HEAVY, "scipy"), READING),
    ((*HEAVY, "scipy", "rich.table", "oal_engine.experiments"), "from oal_engine.cli import replays"),
    (("numba", "sklearn", "pandas", "scipy.special", "scipy.sparse"), "import ui.api.server, ui.home.sessions"),
]  # fmt: skip


@pytest.mark.parametrize(("without", "program"), CHEAP)
def test_nothing_heavy_is_imported_before_it_computes(tmp_path, without, program):
    """The command line and Home start, and a file is looked at and read, without modules that take long to import."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITHOUT.format(without, program.strip().replace("\n", "; "))]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


REPLAY = """
from oal_engine.kernel import jit, learners, query_rules, rows, stream
parts = learners.build("perceptron", 3), query_rules.build("all", "perceptron"), stream.objective(theta=1)
table = rows.as_rows([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
with jit.form(jit.MACHINE):
    print(stream.replay(table, [1, 1, -1], [0, 1, 2], *parts).learner.w.tolist())
"""


@pytest.mark.slow
def test_an_edited_learner_runs_at_once(tmp_path):
    """Machine code is cached between processes, and compiled again when the source of a learner changes."""
    shutil.copytree(ROOT / "oal_engine", tmp_path / "oal_engine", ignore=shutil.ignore_patterns("__pycache__"))
    learner = tmp_path / "oal_engine" / "kernel" / "learners" / "first_order.py"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def weights_errors_and_cached_versions():
        done = subprocess.run(
            [sys.executable, "-c", REPLAY], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        versions = [path for path in (tmp_path / "cache" / "oal-studio").rglob("*.nbc") if "replay" in path.name]
        return done.stdout.strip(), done.stderr, len(versions)

    assert ("[1.0, 1.0, 0.0]", "", 1) == weights_errors_and_cached_versions()
    assert ("[1.0, 1.0, 0.0]", "", 1) == weights_errors_and_cached_versions()
    source = learner.read_text()
    perceptron = source.index("class Perceptron")
    changed = source[perceptron:].replace("add(self.w, y, x)", "add(self.w, 2 * y, x)", 1)
    learner.write_text(source[:perceptron] + changed)
    assert ("[2.0, 2.0, 0.0]", "", 2) == weights_errors_and_cached_versions()

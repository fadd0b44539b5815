"""Rules of the project: imports go down, nothing is pickled, public names have docstrings, no stale machine code."""

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

from oal_engine import __version__
from tests.harness import ROOT

ENGINE = ROOT / "oal_engine"
LEVELS = [  # of wings, the lowest first; a wing imports from lower levels only
    {"kernel", "output", "places", "versions"},
    {"store"},
    {"datasets", "estimator"},
    {"sessions", "experiments", "reproduction"},
    {"cli", "cluster"},
    {"__main__", "ui"},
    {"home", "pages"},
    {"app"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
OURS = {"oal_engine", "ui", "app", "home", "pages"}
FOLDERS = ("oal_engine", "ui", "pages")
SOURCES = [ROOT / "app.py", ROOT / "home.py", *(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))]
PATHS = sorted(str(path.relative_to(ROOT)) for path in SOURCES)


@cache
def tree(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def dotted(path):
    """The dotted name of a file as it is imported."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def wing(module):
    """The wing of a module, given its dotted name: a folder or a file of the engine, or ui, app, home, pages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "oal_engine" and len(parts) > 1 else parts[0]


def imported(path):
    """The dotted names of all modules that a file imports, at its top or inside functions."""
    module = list(Path(path).with_suffix("").parts)
    package = module[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            inside = ROOT.joinpath(*start.split("."))
            for name in node.names:  # `from . import rows` imports a module, `from .rows import dot` a name of one
                below = (inside / name.name).exists() or (inside / f"{name.name}.py").exists()
                yield f"{start}.{name.name}" if below else start


def test_every_wing_has_its_level():
    """Every wing has a place in the order of imports."""
    assert {wing(dotted(path)) for path in PATHS} - {"oal_engine"} == set(LEVEL)


@pytest.mark.parametrize("path", PATHS)
def test_imports_go_down(path):
    """No wing imports from its own level or from one above."""
    here = wing(dotted(path))
    for name in imported(path):
        if name.split(".")[0] in OURS and name != "oal_engine" and wing(name) != here:
            assert path != "oal_engine/__init__.py"
            assert LEVEL[wing(name)] < LEVEL[here], f"{path} imports {name}"


@pytest.mark.parametrize("folder", sorted({str(Path(path).parent) for path in PATHS} - {"."}))
def test_no_wing_has_a_circle(folder):
    """The modules of a wing import each other in one direction."""
    modules = {dotted(path) for path in PATHS}
    inside = {
        dotted(path): {name for name in imported(path) if name in modules and name != dotted(path)}
        for path in PATHS
        if path.startswith(f"{folder}/")
    }
    assert list(TopologicalSorter(inside).static_order())


def test_no_test_module_imports_another():
    """Code that several test modules use belongs in tests/harness, or as a fixture in a conftest.py."""
    paths = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")]
    wrong = [(path, name) for path in paths for name in imported(path) if re.search(r"\b(test_\w+|conftest)$", name)]
    assert [] == wrong


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("oal_engine")])
def test_the_engine_does_not_import_streamlit(path):
    """The engine imports neither the app's frameworks nor the app."""
    assert not {name.split(".")[0] for name in imported(path)} & {"streamlit", "plotly", "ui", "home", "pages", "app"}


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_pickled(path):
    """No module that executes code from files is imported, and arrays are loaded with allow_pickle=False."""
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for call in (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        allowed = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "allow_pickle"]
        if name in ("np.load", "numpy.load") or name.endswith(("read_array", "NpzFile")) or allowed:
            assert allowed == ["False"], f"{path}:{call.lineno}"


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("oal_engine") and "__main__" not in path])
def test_everything_public_has_a_docstring(path):
    """Every module of the engine, and every public function and class in it, has a docstring."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    public = [node for node in tree(path).body if isinstance(node, kinds) and not node.name.startswith("_")]
    assert ast.get_docstring(tree(path))
    assert [] == [node.name for node in public if not (ast.get_docstring(node) or "").strip()]


def texts():
    """The path and text of every text file of the project, except those that tools generate."""
    for folder, folders, files in os.walk(ROOT):
        kept = {".ci", ".streamlit"}
        folders[:] = [
            name
            for name in folders
            if name in kept or not re.match(r"\.|__pycache__$|build$|.*\.(rows|backups|egg-info)$|findings$", name)
        ]
        for path in (Path(folder, name) for name in files if not name.startswith("studio.db")):
            try:
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                binary = (".png", ".gif", ".webp", ".npy", ".npz", ".parquet", ".db", ".xz", ".gz")
                assert path.suffix in binary, f"{path} is no text"


def test_no_path_of_a_machine():
    """No file contains an absolute path of a developer's machine."""
    machine = re.compile(r"(?<![\w.~/])/(?:work|home|root|tmp)\b")
    lines = [
        f"{path}: {line.strip()[:80]}" for path, text in texts() for line in text.splitlines() if machine.search(line)
    ]
    assert [] == lines


def test_the_documents_name_this_version():
    """The commands in the documents name the current version of the engine."""
    versions = [
        (path.name, version)
        for path in (ROOT / "docs").glob("*.md")
        for version in re.findall(r"(?:oal-studio:|image\.tag=)([\d.]+)", path.read_text(encoding="utf-8"))
    ]
    assert [("cluster.md", __version__)] * 3 == versions


HEAVY = ("sklearn", "pandas", "pyarrow", "streamlit", "plotly", "matplotlib", "dask", "distributed")
IMPORT = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))
from oal_engine.cli import backups, comparisons, data, replays, sessions
print(1)
"""


def test_the_command_line_starts_without_heavy_modules():
    """The command line starts without importing any module that takes long to import."""
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=ROOT, capture_output=True, text=True)
    assert ("1\n", "") == (done.stdout, done.stderr)


REPLAY = """
from oal_engine.kernel import learners, query_rules, rows, stream
parts = learners.build("perceptron", 3), query_rules.build("all", "perceptron"), stream.objective(theta=1)
print(stream.replay(rows.as_rows([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), [1, 1, -1], [0, 1, 2], *parts).learner.w.tolist())
"""


@pytest.mark.slow
def test_an_edited_learner_runs_at_once(tmp_path):
    """Machine code is cached between processes, but not for sources that have changed since."""
    shutil.copytree(ENGINE, tmp_path / "oal_engine", ignore=shutil.ignore_patterns("__pycache__"))
    learner = tmp_path / "oal_engine" / "kernel" / "learners" / "first_order.py"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def weights():
        done = subprocess.run(
            [sys.executable, "-c", REPLAY], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        kept = [path for path in (tmp_path / "cache" / "oal-studio").rglob("*.nbc") if "replay" in path.name]
        return done.stdout.strip(), done.stderr, len(kept)

    assert ("[1.0, 1.0, 0.0]", "", 1) == weights()
    assert ("[1.0, 1.0, 0.0]", "", 1) == weights()
    source = learner.read_text()
    perceptron = source.index("class Perceptron")
    changed = source[perceptron:].replace("add(self.w, y, x)", "add(self.w, 2 * y, x)", 1)
    learner.write_text(source[:perceptron] + changed)
    assert ("[2.0, 2.0, 0.0]", "", 2) == weights()

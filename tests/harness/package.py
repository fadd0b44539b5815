"""The project as users install it: its wheel, and virtual environments that contain nothing else of it."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.harness import ROOT

FOLDERS = "oal_engine", "pages", "ui", "data", "docs", "papers", ".streamlit"
FILES = "app.py", "home.py", "pyproject.toml", "README.md", "LICENSE", "requirements.txt"
PRIVATE = shutil.ignore_patterns("__pycache__", "secrets.toml")


def wheel(folder):
    """Build the wheel from the sdist of a copy of the sources, because a build writes next to them. Return its path."""
    source = folder / "source"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=PRIVATE)
    for path in (path for name in FILES for path in ROOT.glob(name)):
        shutil.copy(path, source)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", source)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def environment(folder):
    """Create an empty virtual environment. Return the folder of its programs."""
    venv.create(folder, with_pip=False)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


def install(programs, *arguments):
    """Install packages into the environment with this folder of programs. arguments: further arguments of `pip
    install`."""
    run(sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", *arguments)


def packages(programs):
    """Return the site-packages folder of the environment with this folder of programs."""
    done = run(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    return Path(done.stdout.strip())


def run(*command, **options):
    """Run a program to its end. If it fails, raise AssertionError with its output."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done

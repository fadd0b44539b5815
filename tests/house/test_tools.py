"""The linters of scripts and styles, the type checker and the site generator find no problem."""

import shutil
import subprocess
import sys

import pytest

from tests.harness import ROOT
from tests.harness.documents import NAMES

COMMANDS = ["prettier --check ui/components oal_engine/output/browser", "biome lint", "tsc --project jsconfig.json"]


@pytest.mark.parametrize("command", COMMANDS)
def test_scripts_and_styles_pass(command):
    """Each tool that checks scripts and styles exits with 0. The test is skipped if the tool is not on the PATH."""
    tool, *arguments = command.split()
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool} on the PATH")
    done = subprocess.run([tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr


def test_types_pass():
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr), done.stdout


@pytest.mark.rare
def test_the_site_is_made_without_a_warning(tmp_path):
    """Sphinx builds every page of the documentation without a warning: no link is dead, and no page is unlisted."""
    arguments = ["-q", "-W", "--keep-going", "-d", tmp_path / "doctrees", "-c", "docs", ".", tmp_path / "site"]
    done = subprocess.run([sys.executable, "-m", "sphinx", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    assert all((tmp_path / "site" / name).with_suffix(".html").exists() for name in NAMES)

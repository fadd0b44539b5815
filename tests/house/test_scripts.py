"""The scripts and styles of the browser pass prettier, biome and tsc, where these are on the PATH."""

import shutil
import subprocess

import pytest

from tests.harness import ROOT

COMMANDS = ["prettier --check ui/components oal_engine/output/browser", "biome lint", "tsc --project jsconfig.json"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_tool_objects_to_the_scripts(command):
    """Each tool exits with 0; without it on the PATH the test is skipped."""
    tool, *arguments = command.split()
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool} on the PATH")
    done = subprocess.run([tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr

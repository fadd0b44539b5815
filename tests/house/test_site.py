"""The pages make a static site: every link between them leads somewhere, and each is in the list beside the pages."""

import subprocess
import sys

import pytest

from tests.harness import ROOT
from tests.harness.documents import NAMES

pytestmark = pytest.mark.rare


def test_the_site_is_made_without_a_warning(tmp_path):
    """Sphinx makes every page of the documentation; a dead link or a page that nothing lists would be a warning."""
    arguments = ["-q", "-W", "--keep-going", "-d", tmp_path / "doctrees", "-c", "docs", ".", tmp_path / "site"]
    done = subprocess.run([sys.executable, "-m", "sphinx", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    made = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.html")}
    assert {name.replace(".md", ".html") for name in NAMES} <= made

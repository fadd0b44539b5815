"""Configure Sphinx, which builds a site from the pages: python -m sphinx -E -W --keep-going -c docs . build/site"""

import re
from pathlib import Path

HERE = Path(__file__).parent

project = "OAL Studio"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "data/*.md", "benchmarks/*.md"]
exclude_patterns = [".*", "**/.*", "build", "findings", "oal_engine", "pages", "studio.*", "tests", "ui"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = project


def add_navigation(app, name, source):
    """Add the navigation bar to the source of the first page: a toctree for each section of the index
    docs/README.md."""
    if name != root_doc:
        return
    index = "## Overview\n[Index](README.md)\n" + (HERE / "README.md").read_text(encoding="utf-8")
    for heading, below in re.findall(r"^## (.+)\n((?:(?!## ).*\n)+)", index, re.MULTILINE):
        pages = ((HERE / page).resolve() for page in re.findall(r"\]\(([^)#]+)\.md\)", below))
        names = "\n".join(page.relative_to(HERE.parent).as_posix() for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{names}\n```\n"


def setup(app):
    """Connect `add_navigation` to Sphinx, which calls this function once."""
    app.connect("source-read", add_navigation)

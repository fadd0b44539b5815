"""docs/python.md leads to a labeled session, and docs/python.ipynb has the same content."""

import json

import pandas
import pytest

from docs import make_notebook
from oal_engine import Studio
from tests.harness import ROOT


def test_the_notebook_is_up_to_date():
    """docs/python.ipynb equals the output of python -m docs.make_notebook."""
    assert make_notebook.notebook() == (ROOT / "docs" / "python.ipynb").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    """Every cell runs in order, with simulated input, and leaves a labeled session and its files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "builtins.input", lambda text: "sport" if text.split()[0] in ("ran", "swam", "played") else "other"
    )
    names = {}
    for cell in json.loads(make_notebook.notebook())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    with Studio("python.db") as studio:
        assert 12 == studio.sessions.set_index("name")["labels"]["moments"]
    assert {"sport", "other"} == {*pandas.read_csv("labels.csv")["class"]}
    assert {"model.json.gz", "report.html", "comparison.html"} < {path.name for path in tmp_path.iterdir()}

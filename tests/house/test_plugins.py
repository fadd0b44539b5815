"""A plugin (a module outside the package with a learner and a rule) runs wherever the engine's own learners run."""

import os
import re
import subprocess
import sys

import pytest

from tests.harness import ROOT
from tests.harness.documents import page

pytestmark = pytest.mark.slow
SECTION = page("docs/researchers.md").split("## A learner of your own")[1]
MODULE = re.search(r"```python\n(# halving\.py\n.*?)```", SECTION, re.DOTALL)[1]
LABEL = """
from oal_engine import Studio
session = Studio("studio.db").new_session("texts", "HALVING", budget=10)
for question in session:
    session.answer(question, "Relevant" if "good" in question.text else "Not relevant")
"""
WEIGHTS = """
from oal_engine import OnlineActiveClassifier
from oal_engine.kernel import jit
with jit.form(jit.MACHINE):
    print(OnlineActiveClassifier("halving + all", step=1).fit([[1.0], [2.0]], [1, 0]).coef_.tolist())
"""


@pytest.fixture
def run(tmp_path):
    """A function that runs Python in a folder with the plugin from the documentation, and returns (exit code, output,
    errors)."""
    (tmp_path / "halving.py").write_text(MODULE)
    lines = (f"{'good' if k % 3 == 0 else 'other'} word{k % 7} day{k % 5},{int(k % 3 == 0)}" for k in range(60))
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *lines]))

    def run(*arguments, plugins="halving"):
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "OAL_DB": "studio.db"}
        environment |= {"OAL_PLUGINS": plugins, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    return run


def test_a_learner_of_ones_own_runs_everywhere(run):
    """Replays, comparisons in worker processes, and sessions run the learner of a plugin. Without the plugin, the
    session says in one sentence what is missing."""
    engine = ("-m", "oal_engine")
    assert 0 == run(*engine, "import", "texts.csv", "--name", "texts")[0]
    assert run(*engine, "replay", "texts", "--algorithm", "HALVING", "--budget", "20")[1].startswith("HALVING: halving")
    compared = ("compare", "texts", "--budget", "20", "--permutations", "2", "--json", "--algorithms", "HALVING,PA-I")
    threads, processes = run(*engine, *compared), run(*engine, *compared, "--save", "again", "--processes")
    assert (0, "") == (threads[0], threads[2])
    assert threads == processes
    assert '"plugins": "halving (' in threads[1]
    assert (0, "", "") == run("-c", LABEL)
    assert "reproduced" in run(*engine, "verify", "1")[1]
    code, _, errors = run(*engine, "verify", "1", plugins="")
    assert 1 == code
    assert re.fullmatch(
        r"error: session 1 \(texts\) needs the learner halving, which OAL Studio [\d.]+ does not have\.", errors
    )


def test_an_edited_plugin_runs_at_once(run, tmp_path):
    """The machine code of a plugin is compiled again when its source changes."""
    assert (0, "[[-2.0]]", "") == run("-c", WEIGHTS)
    (tmp_path / "halving.py").write_text(MODULE.replace("self.step * y", "3 * self.step * y"))
    assert (0, "[[-6.0]]", "") == run("-c", WEIGHTS)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("", "the plugin halving must define LEARNERS, QUERY_RULES or ALGORITHMS. It has none of them yet."),
        ("LEARNERS = {'pa': None}", "pa in LEARNERS of the plugin halving exists already: choose another name."),
        ("import nowhere", "OAL_PLUGINS names halving, which cannot be imported: No module named 'nowhere'."),
    ],
)
def test_a_wrong_plugin_stops_with_a_sentence(run, tmp_path, module, sentence):
    """A plugin that defines nothing, reuses a name or cannot be imported stops the command with an error message."""
    (tmp_path / "halving.py").write_text(module)
    assert (1, "", f"error: {sentence}") == run("-m", "oal_engine", "algorithms")

"""The text for a methods section has the numbers of its session, in sessions of every kind."""

import docx
import pytest

from oal_engine.kernel.query_rules import leaves_out
from oal_engine.sessions.files import export, methods, report
from oal_engine.sessions.insights import outcome
from tests.harness.sessions import PEOPLE, begin, labelled, reply, say, truth


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm"), [("sparse", "PAA-I"), ("classes", "MPAA-I"), ("sparse", "auto")])
def test_its_numbers_are_those_of_the_session(store, data, algorithm):
    """The text has the session's numbers of items, rounds, labels, skips and corrections, each sentence of its summary,
    its seed, and the algorithm."""
    opened, _ = labelled(store, data, algorithm, audit=0.2, seed=7)
    text, progress = "\n".join(methods.paragraphs(opened)), opened.place.progress
    for part in (
        f"{progress.stream:,} items of {opened.settings.dataset_name} came",
        f"{progress.streamed:,} of them had passed",
        f"{progress.labels:,} of {progress.budget:,} labels were used; {progress.skipped:,} items were skipped",
        f"{sum(entry.corrected for entry in opened.log)} answers were corrected",
        "20 % of the labels went to items drawn at random",
        "every item of the data had a label",
        f"seed {opened.settings.seed}.",
        *outcome.summary(opened),
    ):
        assert part in text
    assert ("PAA" in text.split("with the learner")[0]) == (algorithm != "auto")
    assert all(part in report.page(opened).decode() for part in ("Text for a methods section", "verify"))


def test_names_are_never_markup(store):
    opened = begin(store, "sparse", "auto", name="<b>a</b>", positive_name="x *y* [z](w)")
    text = methods.markdown(opened)
    assert text.startswith("# \\<b\\>a\\</b\\>\n")
    assert r"x \*y\* \[z\](w)" in text


def test_it_is_written_for_word(store, tmp_path):
    """The Word document has the title and paragraphs of the text; characters that XML does not allow are replaced."""
    opened = begin(store, "sparse", "auto", name="a <b> & \x01_x0041_")
    export.export(store, opened.id, "methods", "word", tmp_path / "methods.docx")
    written = docx.Document(tmp_path / "methods.docx")
    title, *others = (each.text for each in written.paragraphs)
    assert title == written.core_properties.title == "a <b> & \ufffd_x0041_"
    assert others == methods.lines(opened)[1:]
    assert written.core_properties.author == ""


def test_people_and_chances_are_named(store):
    """The text says how many people answered, how far they agree, the risk of the guaranteed minimum metrics, and
    whether the rule leaves items out."""
    opened = begin(store, "sparse", "auto", budget=40, overlap=0.5, people=2, floor=0.5)
    for turn in range(80):
        if opened.held(PEOPLE[turn % 2]):
            reply(opened, PEOPLE[turn % 2])
    text = methods.markdown(opened)
    assert "2 people answered" in text
    assert "answered twice got the same answer" in text
    assert "50 % of the labels gave each item a minimum probability" in text
    assert "Their risk is 5 %" in text
    assert leaves_out(opened.settings.rule) == ("and was 0 for some" in text)
    first = begin(store, "sparse", "Q_D")
    say(first, truth(first))
    assert leaves_out(first.settings.rule) == ("and was 0 for some" in methods.markdown(first))

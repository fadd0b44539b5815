"""One menu, on Replay and at the end of a session, offers the session's files with their formats and purposes."""

import pytest

from oal_engine import datasets
from oal_engine.output import tables, tools
from oal_engine.sessions.files import export, methods, model_formats
from oal_engine.sessions.session import Session
from tests.harness.examples import add_texts, answer
from tests.harness.pages import run
from tests.harness.sessions import begin, label_until_the_end, stream_of
from ui import downloads

REPLAY, LABEL = "pages/3_Replay.py", "pages/1_Label.py"


@pytest.mark.slow
@pytest.mark.parametrize("page", [REPLAY, LABEL])
def test_each_choice_tells_what_it_is_for(store, tmp_path, page):
    """The menu on Replay and at the end of a session states the purpose of each choice, and offers the formats that can
    be written."""
    session = answer(store, add_texts(store, tmp_path), budget=12)
    at = run(page, session=str(session), annotator="Ann")
    what = at.selectbox(key="download-what")
    assert [*downloads.CHOICES.values()] == what.options
    all_formats = tables.FORMATS | tools.TOOLS
    assert [each.purpose for each in all_formats.values()] == at.selectbox(
        key=f"download-as-{len(all_formats)}"
    ).options
    assert all(": " in words for words in [*what.options, *(each.purpose for each in all_formats.values())])
    for choice in [*downloads.CHOICES][1:]:
        assert not at.selectbox(key="download-what").set_value(choice).run().exception
        formats = [each.options for each in at.selectbox if each.key.startswith("download-as-")]
        offered = {"model": ["json.gz", "json", "skops"], "report": None, "methods": [*methods.FORMATS]}.get(
            choice, [*tables.FORMATS]
        )
        kinds = tables.FORMATS | model_formats.FORMATS | methods.FORMATS
        assert ([] if offered is None else [[kinds[kind].purpose for kind in offered]]) == formats


def test_numbers_are_not_offered_to_tools_for_texts(store):
    """Tools that show texts are left out of the menu of a session over numbers."""
    datasets.add(store, "sparse", datasets.table(stream_of()[1]), "made.svmlight")
    opened = begin(store, budget=5)
    label_until_the_end(opened)
    at = run(REPLAY, session=str(opened.id))
    formats = at.selectbox(key=f"download-as-{len(tables.FORMATS) + 1}").options
    assert tools.TOOLS["hugging-face"].purpose == formats[-1]
    assert not {each.purpose for each in tools.TOOLS.values() if each.needs_texts} & {*formats}


@pytest.mark.slow
def test_the_text_for_a_paper_is_shown_to_be_copied(store, tmp_path):
    """A button of the menu shows the description of the methods as plain text that can be copied."""
    session = answer(store, add_texts(store, tmp_path), budget=12)
    at = run(REPLAY, session=str(session), annotator="Ann")
    at.selectbox(key="download-what").set_value("methods").run()
    next(button for button in at.button if button.label == "Show it here").click().run()
    assert ["\n\n".join(methods.lines(Session(store, session)))] == [each.value for each in at.code]


def test_models_are_offered_in_formats_that_can_be_written(store, monkeypatch):
    """The model of a session over numbers is offered in every format, except formats whose package is missing."""
    datasets.add(store, "sparse", datasets.table(stream_of()[1]), "made.svmlight")
    opened = begin(store, budget=5)
    assert [*model_formats.FORMATS] == [*downloads._formats(store, opened.id, "model")]
    monkeypatch.setattr(model_formats, "find_spec", lambda name: None)
    assert ["json.gz", "json"] == [*downloads._formats(store, opened.id, "model")]


def test_a_file_is_made_once_until_its_session_changes(store, monkeypatch):
    """A second download does no work. After an answer, a note or a correction the file is made anew. Another format,
    or another choice, is another file."""
    datasets.add(store, "sparse", datasets.table(stream_of()[1]), "made.svmlight")
    opened = begin(store, budget=20)
    made = []
    write = export.export
    monkeypatch.setattr(export, "export", lambda *given, **more: made.append(given) or write(*given, **more))
    monkeypatch.setattr(downloads, "output", None)  # no other process

    def downloaded(what="labels", *options):
        content, before = downloads.export(store.path, opened.id, what, [*options]), len(made)
        assert content == downloads.export(store.path, opened.id, what, [*options])
        assert before == len(made)
        return content

    first = opened.place.asked
    for act in (
        lambda: opened.answer("a", first.id, 1, "anna"),
        lambda: opened.note("n", first.item, "odd", "anna"),
        lambda: opened.correct("c", first.id, -1, "anna"),
        lambda: opened.answer("b", opened.place.asked.id, -1, "anna"),
    ):
        before = downloaded()
        act()
        assert before != downloaded()
    assert 5 == len(made)
    assert downloaded("labels", "--format", "jsonl") != downloaded("decisions", "--format", "jsonl")
    assert 7 == len(made)


def test_an_open_session_is_not_opened_again(store, monkeypatch):
    """A table of a session that the server has open is that of the session opened anew, also after a change by another
    process; the log is not read from its beginning."""
    datasets.add(store, "sparse", datasets.table(stream_of()[1]), "made.svmlight")
    opened = begin(store, budget=20)
    label_until_the_end(opened)
    Session(store, opened.id).correct("c", opened.log[3].id, -opened.log[3].label)
    wanted = downloads.export(store.path, opened.id, "predictions", ["--format", "csv"])
    downloads._files.clear()
    monkeypatch.setattr(export, "Session", None)
    assert wanted == downloads.export(store.path, opened.id, "predictions", ["--format", "csv"], opened)


def test_few_bytes_are_kept(store, monkeypatch):
    """Of the files that were made, the oldest are forgotten as soon as all of them together are too large."""
    datasets.add(store, "sparse", datasets.table(stream_of()[1]), "made.svmlight")
    session, made = begin(store, budget=20).id, []

    def downloaded(name):
        downloads.cached_file(store.path, session, [name], lambda: made.append(name) or bytes(40))

    monkeypatch.setattr(downloads, "KEPT_BYTES", 100)
    for name in "abbaccab":
        downloaded(name)
    assert [*"abcab"] == made


def test_a_large_table_is_made_by_another_process(store, monkeypatch):
    """The table of a large data set is written by a subprocess, so that no answer waits for it."""
    datasets.add(store, "sparse", datasets.table(stream_of()[1]), "made.svmlight")
    session = begin(store, budget=20).id
    monkeypatch.setattr(downloads, "MOST_CELLS", 10)
    monkeypatch.setattr(downloads, "output", lambda path, command: " ".join(command).encode())
    wanted = f"export {session} --what decisions --texts".encode()
    assert wanted == downloads.export(store.path, session, "decisions", ["--texts"])

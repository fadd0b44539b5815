"""Tags and other columns of an item on the pages: choose, show, filter and search them."""

import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions.settings import create
from tests.harness.markup import MARKUP
from tests.harness.pages import BINARY, beside, listed, press, run, words
from ui.label import messages
from ui.label.card_server import CardServer, with_keys
from ui.label.panels import history

TAGS = ["ask a colleague", f"a {MARKUP[:40]}"]


@pytest.fixture
def path(tmp_path):
    """The path of a file of texts with further columns."""
    path = tmp_path / "papers.csv"
    lines = [f'i{k},"Title {k} {MARKUP.replace(chr(34), "")}",text {k} of many that is longer than any title,{2000 + k},n{k},https://x.org/{k},'
             f"{int(k % 4 == 0)}" for k in range(60)]  # fmt: skip
    path.write_text("id,title,text,year,grade,url,label\n" + "\n".join(lines))
    return path


@pytest.fixture
def papers(app_store, path):
    """The card server of a session over the file `path`, with two tags and six answers."""
    columns = reading.Columns(("text",), "label", "id")
    dataset = datasets.import_file(app_store, path, "papers", columns, min_df=1)[0]
    server = CardServer(create(app_store, dataset, **BINARY, budget=40, tags=TAGS))
    for k in range(6):
        server.session.answer(f"a{k}", server.session.place.asked.id, 1 if k % 4 == 0 else -1, "anna")
    return server


def question(server):
    return server.payload(annotator="anna")["place"]["question"]


def panel(server, name):
    at = run("pages/1_Label.py", session=str(server.session.id), annotator="anna")
    return beside(at, name)


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "shown"), [(None, ["title", "year", "url"]), (["grade"], ["grade"])])
def test_what_is_shown_is_chosen_at_the_import(store, path, chosen, shown):
    """The import form offers further columns for display with the items, and preselects title, year and link. Every
    column is stored, displayed or not."""
    at = run("pages/4_Data.py")
    at.segmented_control(key="way").set_value("File on the server").run()
    at.text_input(key="path").set_value(str(path)).run()
    assert ["title", "year", "url"] == at.multiselect(key="shown").value
    if chosen:
        at.multiselect(key="shown").set_value(chosen).run()
    press(at, "import")
    dataset = datasets.Dataset(store, "papers")
    assert (("title", "year", "grade", "url"), tuple(shown)) == (dataset.details, dataset.shown_columns)
    assert "With each item: title, year, grade, url" in words(at)


def test_the_card_has_what_is_shown_now(app_store, papers):
    """The card and the lists show title, facts and links from the columns chosen for display. A new choice by the owner
    takes effect at once."""
    shown = question(papers)
    k = shown["item"]
    assert f"Title {k} {MARKUP.replace(chr(34), '')}" == shown["heading"][0][0]
    address = f"https://x.org/{k}"
    assert [("", str(2000 + k), None), ("", address, address)] == shown["facts"]
    at = panel(papers, "Guidelines")
    at.multiselect(key=f"details-{papers.session.id}").set_value(["grade"]).run()
    press(at, "details-save")
    assert ["grade"] == app_store.shown_columns(papers.session.id)
    assert ([], [("grade", f"n{k}", None)]) == (question(papers)["heading"], question(papers)["facts"])
    assert [("grade", f"n{papers.log[-2].item}", None)] == history.page(papers, messages.View())["rows"][0]["facts"]


def test_a_title_that_belongs_to_the_text_is_set_apart(app_store, tmp_path):
    """If a text is joined from title and abstract, its first line is shown as the heading, and terms are marked in
    either part."""
    path = tmp_path / "abstracts.csv"
    lines = [f'"good title {k % 3}","some words {k % 4}\nand good ones",{int(k % 2 == 0)}' for k in range(40)]
    path.write_text("title,abstract,label\n" + "\n".join(lines))
    dataset = datasets.import_file(app_store, path, "abstracts")[0]
    server = CardServer(create(app_store, dataset, learner="pa-i", rule="all", budget=40))
    for k in range(4):
        server.session.answer(f"a{k}", server.session.place.asked.id, 1 if k % 2 else -1)
    app_store.put_preferences("anna", {"highlight": True})
    shown = question(server)
    text = server.session.dataset.item(shown["item"])["text"]
    heading, rest = ("".join(words for words, _ in shown[name]) for name in ("heading", "parts"))
    assert text == f"{heading}\n{rest}"
    assert heading.startswith("good title")
    assert any(weight for name in ("heading", "parts") for _, weight in shown[name])


def test_tags_are_named_where_the_guidelines_are_written(app_store, papers):
    """Tags are entered one per line. Blank lines and repetitions are dropped, and an invalid tag cannot be saved."""
    at = panel(papers, "Guidelines")
    assert at.text_area(key="tags").value == "\n".join(TAGS)
    at.text_area(key="tags").set_value("later\n\n <b>x</b> \nlater")
    at.button(key="tags-save").click().run()
    assert ["later", "<b>x</b>"] == app_store.session(papers.session.id)["tags"]
    at.text_area(key="tags").set_value("a|b").run()
    assert not at.exception
    assert "tags-save" not in [button.key for button in at.button]
    assert "A tag must have 60 characters at most and no |. Got a|b." in words(at)
    assert ["later", "<b>x</b>"] == app_store.session(papers.session.id)["tags"]
    assert [tag["name"] for tag in papers.payload()["tags"]] == ["later", "<b>x</b>"]


@pytest.mark.parametrize(("taken", "keys"), [
    ([["a", "1"], ["x", "0"]], ["2", "3"]), ([[str(k)] for k in range(1, 10)], ["0", None]),
    ([["q"], ["1"], ["2"]], ["3", "4"]),
])  # fmt: skip
def test_tags_have_the_digits_that_no_class_has(taken, keys):
    """Tags get, in order, the digits that are not keys of classes. Once the digits run out, a tag has no key."""
    assert keys == [next(iter(tag["keys"]), None) for tag in with_keys(TAGS, taken)]


def titles(server, **view):
    return [row["title"] for row in history.page(server, messages.View(**view))["rows"]]


def test_history_is_filtered_and_searched_by_what_items_have(papers):
    """History can be filtered by a tag, even one that is no longer offered, and its search finds tags, titles and other
    shown columns."""
    items = [entry.item for entry in papers.log if entry.label is not None]
    papers.session.tag("1", items[1], TAGS[0], True)
    papers.session.tag("2", items[3], TAGS[0], True)
    papers.session.tag("3", items[3], TAGS[1], True)
    expected = [f"i{items[3]}", f"i{items[1]}"]
    assert expected == titles(papers, show=f"tag {TAGS[0]}")
    assert expected[:1] == titles(papers, show=f"tag {TAGS[1]}")
    assert expected == titles(papers, search="COLLEAGUE")
    assert [f"i{items[2]}"] == titles(papers, search=f"title {items[2]} <img")
    assert [] == titles(papers, search=f"n{items[2]}")
    papers.session.store.update_session(papers.session.id, {"tags": None})
    shows = dict(history.page(papers, messages.View())["shows"])
    assert [f"Tag: {tag}" for tag in TAGS] == [shows[f"tag {tag}"] for tag in TAGS]


@pytest.mark.slow
def test_tags_are_changed_in_the_history(app_store, papers):
    """A tag set in History is stored once with its annotator. A tag on an unanswered item, or an unknown tag, is
    refused with a one-sentence error."""
    session, entry = papers.session.id, papers.log[2]
    event = {"id": "t1", "row": entry.id, "tag": TAGS[0], "given": True}
    at = listed(session, "history", events=[event])
    at.run()
    assert not at.exception
    (row,) = app_store.events(session, "tagged")
    assert ("t1", entry.item, "carla") == (row["id"], row["item"], row["annotator"])
    assert {"tag": TAGS[0], "given": 1} == row["data"]
    waiting = papers.session.place.asked.id
    for problem, change in (
        ("only an item that was answered can be tagged here.", {"row": waiting}), ("a tag must be", {"tag": "odd"}),
    ):  # fmt: skip
        at = listed(session, "history", events=[event | {"id": "t2"} | change])
        assert at.session_state[f"history-{session}-problem"].startswith(f"Not stored: {problem}")
    assert 1 == len(app_store.events(session, "tagged"))

"""The Find panel: a search that covers the whole stream, known labels, the list of positives, and a second pass."""

import pytest

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP
from tests.harness.pages import BINARY, listed, press, run
from ui.label import messages
from ui.label.panels import find


@pytest.fixture
def server(work):
    """The card server of a session that began with 30 known labels."""
    return work(20, known_labels=30, **BINARY)


def page(server, **view):
    """Return one page of the Find panel's list. view: fields of messages.View."""
    return find.page(server, messages.View(**view))


def test_known_items_are_listed_and_corrected(app_store, server):
    """The list of known items has every known item, the newest first, with its label and origin. A correction of a
    known label is stored once with its annotator."""
    rows = page(server, show="known")["rows"]
    assert [*reversed(server.session.known_labels)] == [row["id"] for row in rows]
    assert {"from: file"} == {row["by"] for row in rows}
    session, (item, row) = server.session.id, next(iter(server.session.known_labels.items()))
    listed(session, "find", events=[{"id": "k1", "row": item, "action": -row["label"]}]).run()
    corrected = app_store.known_labels(session)[item]
    assert (-row["label"], "carla", {"origin": "correction"}) == tuple(
        corrected[key] for key in ("label", "annotator", "data")
    )
    assert 31 == len(app_store.events(session, "known"))


def test_what_is_found_is_labeled(app_store, server):
    """A search covers the whole stream. A label given to a found item becomes a known label and can be removed."""
    late = server.session.dataset.item(int(server.session.order[-31]))
    (row,) = page(server, search=f'"{late["text"]}"')["rows"]
    assert (late["id"], [], [1, -1]) == (row["title"], row["chips"], [value for value, *_ in row["actions"]])
    find.label(server.session, messages.RowEvent(id="f1", row=row["id"], action=1, annotator="anna"), "anna")
    (row,) = page(server, search=late["id"])["rows"][:1]
    assert ([("Relevant", "positive")], "from: search") == (row["chips"], row["by"])
    assert {"origin": "search"} == app_store.known_labels(server.session.id)[row["id"]]["data"]
    find.label(server.session, messages.RowEvent(id="f2", row=row["id"], action=SKIP, annotator="anna"), "anna")
    assert row["id"] not in server.session.known_labels


def test_an_item_that_was_asked_is_not_labeled_by_a_search(server):
    """An item that was answered or is waiting has no buttons in the results of a search. A label sent for an answered
    item is refused."""
    session = server.session
    answered, waiting = session.log[0], session.place.asked
    for item, words in ((answered.item, find.ANSWERED), (waiting.item, find.WAITING)):
        wanted = session.dataset.item(item)
        row = next(row for row in page(server, search=f'"{wanted["text"]}"')["rows"] if row["id"] == item)
        assert (words, []) == (row["means"], row["actions"])
    at = listed(session.id, "find", events=[{"id": "k2", "row": answered.item, "action": 1}])
    assert find.ASKED in at.session_state[f"find-{session.id}-problem"]


def test_the_list_is_gone_through(server):
    """The list to check has the unlabeled items that the model predicts as positive, the surest first. The full list of
    positives also has labeled items. Neither has the item that is being asked about."""
    session = server.session
    check, whole = ([row["id"] for row in page(server, show=show)["rows"]] for show in ("all", "list"))
    labels = find.labels_of(session)
    assert check
    assert not labels[check].any()
    assert (0, 1) == (labels[whole].min(), labels[whole].max())
    assert session.place.asked.item not in {*check, *whole}
    find.label(session, messages.RowEvent(id="f1", row=check[0], action=-1, annotator=""), "")
    assert check[0] not in {row["id"] for show in ("all", "list") for row in page(server, show=show)["rows"]}


def test_another_pass_is_one_click(app_store, work, keep):
    """One click at the end of the stream opens a session over the skipped item, with all answers as known labels."""
    server = work(16, keep("few", 16), learner="pa-i", rule="all", budget=200)
    at = run("pages/1_Label.py", session=str(server.session.id), annotator="anna")
    assert ["Another pass over the 1 item without an answer"] == [
        button.label for button in at.button if button.key == "another-pass"
    ]
    press(at, "another-pass")
    following = Session(app_store, app_store.sessions()[0]["id"])
    assert "few, pass 2" == following.settings.name
    assert 15 == following.place.progress.known_items
    assert server.session.skipped[0].item == following.place.asked.item


def test_who_owes_a_second_answer_does_not_find_the_first(work, monkeypatch):
    server = work(8, overlap=1.0, **BINARY)
    entry = server.session.log[0]
    words = server.session.dataset.item(entry.item)["text"]
    for who, chips, means in ((entry.annotator, 1, find.ANSWERED), ("carla", 0, find.WAITING)):
        monkeypatch.setattr(find, "annotator", lambda who=who: who)
        row = next(row for row in page(server, search=f'"{words}"')["rows"] if row["id"] == entry.item)
        assert (chips, means) == (len(row["chips"]), row["means"])

"""The pages of a session with known labels: the list of known items, and another pass."""

import pytest

from oal_engine.sessions.session import Session
from tests.harness.pages import BINARY, listed, press, run
from ui.label import messages
from ui.label.panels import known_labels


@pytest.fixture
def server(work):
    """The card server of a session that begins with 30 labels."""
    return work(20, known_labels=30, **BINARY)


def test_known_items_are_listed_with_their_origin(server):
    """The list has every known item, its label and where it comes from, by class or all."""
    page = known_labels.page(server.session, messages.View())
    known = server.session.known_labels
    assert list(reversed(known)) == [row["id"] for row in page["rows"]]
    assert {"from: file"} == {row["by"] for row in page["rows"]}
    positives = known_labels.page(server.session, messages.View(show="1"))["rows"]
    assert {item for item, row in known.items() if row["label"] == 1} == {row["id"] for row in positives}


def test_a_known_label_is_corrected_on_the_page(app_store, server):
    """A correction is stored once with its annotator, and trains the model; an item that is not known is refused."""
    session, (item, row) = server.session.id, next(iter(server.session.known_labels.items()))
    at = listed(session, "known", events=[{"id": "k1", "row": item, "action": -row["label"]}])
    at.run()
    corrected = app_store.known_labels(session)[item]
    assert (-row["label"], "carla", {"origin": "correction"}) == tuple(
        corrected[key] for key in ("label", "annotator", "data")
    )
    assert 31 == len(app_store.events(session, "known"))
    free = int(server.session.order[400])
    at = listed(session, "known", events=[{"id": "k2", "row": free, "action": 1}])
    assert "only a label that is known can be corrected here." in at.session_state[f"known-{session}-problem"]
    assert 31 == len(app_store.events(session, "known"))


def test_another_pass_is_one_click(app_store, work, keep):
    """At the end of the stream one click opens a session over the skipped item, which knows all answers."""
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

"""A session exported as a self-contained page: its content, without texts unless they are asked for, and the same bytes
each time."""

import pytest

from oal_engine.sessions import look_back
from oal_engine.sessions.files import player
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness.examples import add_texts, answer
from tests.harness.markup import MARKUP
from tests.harness.published import held, is_sealed
from tests.harness.sessions import labelled

PLACE = {"item", "why", "answered", "progress", "passed", "moved", "tables", "figures"}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A database with a session of 40 labels by Ann, over texts of which the first has markup."""
    folder = tmp_path_factory.mktemp("here")
    store = Store(folder / "studio.db")
    answer(store, add_texts(store, folder, f"texts {MARKUP}"), 80, budget=40, name=f"a session {MARKUP}")
    return store


def test_every_question_is_in_the_page_as_the_app_shows_it(here):
    """The log and the questions in a page equal those in the player, up to rounding for display, and name no
    annotator."""
    trace = look_back.Trace(here, 1)
    page = player.page(trace, texts=True)
    data, opened = held(page), player.Player(trace)
    assert [f"q{number}" for number in range(1, trace.steps + 1)] == [*data["places"]]
    for number in (1, 17, trace.steps):
        place, shown = data["places"][f"q{number}"], opened.place(f"q{number}")
        assert place.keys() >= PLACE - {"answered"}
        assert shown["tables"] == place["tables"]
        assert [list(line) for line in shown["moved"]] == [
            [term, label, pytest.approx(old, rel=1e-5), pytest.approx(now, rel=1e-5)]
            for term, label, old, now in place["moved"]
        ]
    item = opened.place("q17")["item"]
    assert {name: item[name] for name in data["places"]["q17"]["item"]} == data["places"]["q17"]["item"]
    assert {"title", "heading", "facts", "parts", "features"} == {*data["places"]["q17"]["item"]}
    assert pytest.approx([entry.margin for entry in trace.log], rel=1e-5) == data["log"]["margins"]
    assert b"Ann" not in page


def test_nothing_of_the_items_is_in_the_page_unless_it_is_asked_for(here):
    """Without texts the page has no words, ids or terms of the data, but all decisions."""
    trace = look_back.Trace(here, 1)
    page, full = player.page(trace), held(player.page(trace, texts=True))
    for words in (b"word3", b"good word", b"i17"):
        assert words not in page
    data = held(page)
    assert len(trace.log) == sum(place["item"] == {} for place in data["places"].values())
    assert [] == [place["moved"] for place in data["places"].values() if place["moved"]]
    assert full["log"] | {"without": player.WITHOUT} == data["log"]
    assert len(page) < len(player.page(trace, texts=True))


def test_the_page_runs_its_own_script_alone(here):
    """The content security policy of a page allows only its own script and no external address; names are shown
    literally, never as markup."""
    page = player.page(look_back.Trace(here, 1), texts=True)
    assert is_sealed(page)
    assert b"<img" not in page
    assert f"<title>a session {MARKUP}".replace("<img", "&lt;img").split("&lt;")[0].encode() in page


def test_the_same_session_gives_the_same_page(here):
    """A page has the same bytes if it is made again, even from the reopened database."""
    first = player.page(look_back.Trace(here, 1))
    assert first == player.page(look_back.Trace(Store(here.path, read_only=True), 1))


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm"), [("unlabelled", "PAA-I"), ("classes", "MPAA-I"), ("dense", "PAA-I")])
def test_every_kind_of_session_has_its_page(store, data, algorithm):
    """Sessions over vectors, sessions with several classes, and sessions over data without labels have pages, too."""
    opened, places = labelled(store, data, algorithm)
    page = player.page(look_back.Trace(store, opened.id), texts=True)
    assert is_sealed(page)
    assert len(places) == held(page)["log"]["questions"]
    assert held(page)["places"]["q1"]["item"]["features"]


def test_the_command_line_writes_pages(here, tmp_path, command):
    """`publish` writes a page if the suffix or --format is html, with texts if --texts is given; invalid options are
    refused."""
    trace, file = look_back.Trace(here, 1), tmp_path / "session.html"
    assert (0, "", "") == command("publish", 1, "--out", file, "--db", here.path)
    assert player.page(trace) == file.read_bytes()
    code, out, err = command("publish", 1, "--format", "html", "--texts", "--db", here.path)
    assert (0, player.page(trace, texts=True).decode(), "") == (code, out, err)
    for options, sentence in (
        (("--format", "pdf"), "--format must be one of jsonl, html. Got pdf."),
        (("--texts",), "--texts is for pages: a published log never holds them. Got it with --format jsonl."),
    ):
        assert (1, "", f"error: {sentence}\n") == command("publish", 1, *options, "--db", here.path)
    dataset = here.session(1)["dataset"]
    new = create(here, dataset, "PAA-I", name="new")
    sentence = "new has no question yet, so it has no page."
    assert (1, "", f"error: {sentence}\n") == command("publish", new, "--format", "html", "--db", here.path)

"""The routes under api/: a program with a token can do as much as a page, and no more."""

import json
import logging
from datetime import timedelta

import numpy as np
import pytest
from openapi_spec_validator import validate
from starlette.testclient import TestClient

from oal_engine.datasets import demo, reading
from oal_engine.sessions import asking, look_back, model
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import ROLES
from tests.harness.examples import imported
from tests.harness.pages import ADMIN, BINARY
from ui import access
from ui.api import routes
from ui.api import server as api
from ui.api.routes import DATA_BYTES, EVENT_BYTES, ROUTES
from ui.label.card_server import card_server

ANNA, BEN, EVE = (f"{name}@example.org" for name in ("anna", "ben", "eve"))
JSON, LINES = "application/json", "application/jsonl"
LOWEST = {
    "session": "reader", "question": "annotator", "events": "annotator", "items": "owner", "labels": "reader",
    "decisions": "reader", "estimates": "reader", "predict": "reader", "openapi.json": "reader",
}  # fmt: skip


@pytest.fixture
def session(app_store, keep):
    """The id of a session that asks about every item."""
    return create(app_store, keep(items=60), learner="pa-i", rule="all", budget=30, tags=("odd",), owner=ANNA)


def event(asked, id="e", action="label", **more):
    """Return an event about the question `asked`, as a client sends it."""
    return {"id": id, "action": action, "question": asked["id"], "item": asked["item"]} | more


def call(client, path, asked):
    """Call a route with a valid message. Return the status."""
    sent = {
        "events": {"json": event(asked, label=1)},
        "items": {"content": '{"text": "new"}', "headers": {"Content-Type": LINES}},
        "predict": {"json": {"texts": ["good"]}},
    }.get(path)
    return (client.post(path, **sent) if sent else client.get(path)).status_code


def answers(store, session):
    return [(row["label"], row["annotator"]) for row in store.answers(session) if row["label"] is not None]


@pytest.fixture
def log_in(monkeypatch):
    """Require a log-in with an address at example.org, with ADMIN as the owner of the studio."""
    monkeypatch.setattr(access, "_rules", lambda: (True, ("@example.org",), (ADMIN,)))


def test_a_program_labels_as_a_card_does(app_store, session, program):
    """A program's events are stored like the events of a card, and each response has the next question."""
    client = program(session, "annotator", "bot")
    place = client.get("question").json()
    shown = card_server(session).payload(annotator="bot")["place"]["question"]
    assert shown == {name: place["question"][name] for name in shown}
    first = place["question"]
    assert first["text"] == Session(app_store, session).dataset.item(first["item"])["text"]
    second = client.post("events", json=event(first, "1", label=1, seconds=1.5, highlighted=False)).json()["question"]
    client.post("events", json=event(second, "2", "skip"))
    client.post("events", json={"id": "3", "action": "undo", "question": second["id"]})
    client.post("events", json=event(second, "4", label=-1))
    client.post("events", json=event(first, "5", "correct", was=1, label=-1))
    client.post("events", json={"id": "6", "action": "note", "item": first["item"], "text": "look again"})
    client.post("events", json={"id": "7", "action": "tag", "item": first["item"], "tag": "odd", "given": True})
    kinds = ["answered", "answered", "undone", "answered", "corrected", "noted", "tagged"]
    assert kinds == [row["kind"] for row in app_store.events(session)][1:]
    assert [(-1, "bot"), (-1, "bot")] == answers(app_store, session)
    place = client.get("question").json()
    for _ in range(28):
        place = client.post("events", json=event(place["question"], f"q{place['question']['id']}", label=1)).json()
    assert ("budget", 30) == (place["end"], place["counters"]["labels"])
    assert look_back.verify(app_store, session).verified
    state = client.get("session").json()
    assert ("bot", "annotator", "budget", 0) == (
        state["annotator"], state["role"], state["end"], state["counters"]["left"],
    )  # fmt: skip
    assert [{"label": 1, "name": "Relevant"}, {"label": -1, "name": "Not relevant"}] == state["classes"]


def test_nothing_of_a_question_reveals_the_opinion_of_the_model(session, program):
    """A question has the fields that the card shows, and neither margin nor asking probability before the answer."""
    client = program(session)
    asked = client.get("question").json()["question"]
    for _ in range(3):
        place = client.post("events", json=event(asked, str(asked["id"]), label=1)).json()
        asked = place["question"]
    assert place["verdict"]["margin"]
    assert {
        "id", "number", "item", "title", "heading", "facts", "parts", "features", "why", "old", "note", "tags", "text",
    } == {*asked}  # fmt: skip
    assert {1, 2, 3} == {row["number"] for row in client.get("labels").json()["labels"]}
    assert [1, 2, 3] == [row["round"] for row in client.get("decisions").json()["decisions"]]


def test_an_event_is_stored_once(app_store, session, program):
    """An event that is sent again changes nothing. With other content the same id is refused, while other tokens and
    pages may use it."""
    client, other = program(session), program(session, name="other")
    asked = client.get("question").json()["question"]
    first, again = (client.post("events", json=event(asked, label=1)) for _ in range(2))
    assert (200, first.json()["question"]) == (again.status_code, again.json()["question"])
    for other_content in (
        event(asked, label=-1),
        NOTE | {"text": "a note"},
        {"id": "e", "action": "undo", "question": asked["id"]},
    ):
        told = client.post("events", json=other_content)
        assert (409, "Another event has this id") == (told.status_code, told.json()["error"][:25])
    app_store.put_event(session, "noted", "n", "anna", item=0, data={"text": "of a page"})
    note = {"id": "n", "action": "note", "item": 0, "text": "of a program"}
    assert [200, 200] == [each.post("events", json=note).status_code for each in (client, other)]
    assert [(1, "bot")] == answers(app_store, session)
    assert ["anna", "bot", "other"] == [row["annotator"] for row in app_store.events(session, "noted")]


def test_only_an_answer_is_taken_back(session, program, monkeypatch):
    """An undo of a question that has no answer, or does not exist, is refused, even if several people label."""
    monkeypatch.setattr(asking, "JOIN_WAIT_SECONDS", 0)
    clients = program(session), program(session, name="other")
    asked, waiting = (client.get("question").json()["question"] for client in clients)
    clients[0].post("events", json=event(asked, label=1))
    for question in (waiting["id"], 10**6):
        told = clients[0].post("events", json={"id": f"undo {question}", "action": "undo", "question": question})
        assert (409, {"error": "Only the last answer can be taken back."}) == (told.status_code, told.json())


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_its_routes(app_store, session, program, role):
    """A route answers a token whose role is high enough, and refuses other tokens without a change."""
    opened = card_server(session).session
    asked, client = {"id": opened.held("bot")[0].id, "item": 0}, program(session, role)
    for path, lowest in LOWEST.items():
        before = app_store.fingerprint(session)
        is_allowed = ROLES.index(role) >= ROLES.index(lowest)
        assert (path, 200 if is_allowed else 403) == (path, call(client, path, asked))
        assert is_allowed or before == app_store.fingerprint(session)
    assert {path: route.lowest for path, methods in ROUTES.items() for route in methods.values()} == LOWEST


def test_without_a_token_there_is_nothing(app_store, session, program):
    """While any token exists, a request without one gets the status 401 at every address. Once the last token is
    removed, every request gets 404."""
    client = program(session)
    stranger = TestClient(client.app, "http://127.0.0.1/api/")
    for path in ("session", "openapi.json", "nothing", "../api/session"):
        assert (401, "Bearer") == ((told := stranger.get(path)).status_code, told.headers["www-authenticate"])
    app_store.remove_token(1)
    for path in ("session", "openapi.json", "nothing"):
        assert [404, 404] == [each.get(path).status_code for each in (client, stranger)]


def test_a_token_is_sent_exactly(session, program):
    """A request without the exact bearer token in its header gets 401 and one sentence, which does not quote the
    token."""
    client = program(session)
    secret = client.headers.pop("Authorization").removeprefix("Bearer ")
    for header in ("", "Bearer", "Bearer x", "Basic {}", "{}", "Bearer {}x", "Bearer {} {}", "bearer\t{}", "Bearer é"):
        told = client.get("session", headers={"Authorization": header.format(secret, secret).encode()})
        assert (header, 401, ["error"]) == (header, told.status_code, [*told.json()])
        assert secret not in told.text
    assert 401 == client.get("session", params={"token": secret, "access_token": secret}).status_code


def test_a_token_ends(app_store, session, program):
    """A token is refused from the next request on once it is removed or expired, or its session is removed."""
    client, _, of_removed = program(session), program(session), program(create(app_store, 1, **BINARY))
    assert 200 == client.get("session").status_code == of_removed.get("session").status_code
    app_store.remove_session(2)
    assert 401 == of_removed.get("session").status_code
    app_store.restore_session(2)
    assert 200 == of_removed.get("session").status_code
    _, secret = app_store.add_token(session, "owner", "", timedelta(seconds=-1))
    assert 401 == client.get("session", headers={"Authorization": f"Bearer {secret}"}).status_code
    app_store.remove_token(1)
    assert 401 == client.get("session").status_code


def test_a_token_is_of_one_session(app_store, session, program):
    other = create(app_store, 1, **BINARY, name="other")
    client = program(session, "owner")
    for path in (f"session/{other}", f"sessions/{other}", f"{other}", f"session?session={other}", "session#2"):
        told = client.get(path)
        assert told.status_code == 404 or told.json()["session"] == session
    asked = client.get("question").json()["question"]
    assert 200 == client.post("events", json=event(asked, label=1, session=other)).status_code
    assert [] == answers(app_store, other)


@pytest.mark.parametrize(
    ("who", "role", "expected"),
    [
        (EVE, None, {}),
        ("bot", None, {}),
        ("eve@elsewhere.org", "owner", {}),
        (BEN, "reader", {"session", "labels"}),
        (BEN, "annotator", {"session", "labels", "events"}),
        (ANNA, "owner", {"session", "labels", "events"}),
        (ADMIN, None, {"session", "labels", "events", "items"}),
    ],
)
def test_with_a_log_in_a_token_has_the_role_of_its_person(app_store, session, program, log_in, who, role, expected):
    """If people must log in, an owner's token gives no more rights than the current role of the person that the token
    names, and only owners of the studio add items."""
    if role:
        app_store.put_role(session, who, role, ANNA)
    asked = {"id": Session(app_store, session).current.id, "item": 0}
    client = program(session, "owner", who)
    assert {path: 200 if path in expected else 403 for path in ("session", "labels", "events", "items")} == {
        path: call(client, path, asked) for path in ("session", "labels", "events", "items")
    }
    if role and expected:
        app_store.put_role(session, ADMIN, "owner", ANNA)
        app_store.put_role(session, who, None, ADMIN)
        assert 403 == client.get("session").status_code


def test_an_event_has_the_name_of_the_token(app_store, session, program, log_in):
    """An event in another annotator's name is refused. The e-mail address of the token's annotator is stored in the
    spelling that a log-in gives it."""
    client = program(session, "owner", ANNA.title())
    asked = client.get("question").json()["question"]
    assert 403 == client.post("events", json=event(asked, label=1, annotator=BEN)).status_code
    assert 200 == client.post("events", json=event(asked, label=1, annotator=None)).status_code
    assert [(1, ANNA)] == answers(app_store, session)


GOOD = {"id": "e", "action": "label", "question": 1, "label": 1}
NOTE, TAG = ({"id": "e", "action": action, "item": 0} for action in ("note", "tag"))
BAD = {
    "no object": "[]", "no JSON": "{", "empty": "", "deep": "[" * 50_000, "deep object": '{"id":' * 10_000,
    "not UTF-8": b'{"id": "\xff"}', "surrogate": '{"id": "\\ud800", "action": "undo", "question": 1}',
    "huge number": '{"id": "e", "action": "undo", "question": %s}' % ("9" * 5000),
    "infinite": '{"id": "e", "action": "undo", "question": 1e999}',
}  # fmt: skip
BAD |= {name: json.dumps(message) for name, message in {
    "beyond the database": GOOD | {"question": 2**63}, "unknown action": GOOD | {"action": "remove"},
    "preferences": {"id": "e", "action": "preferences", "changes": {}},
}.items()}  # fmt: skip


def test_a_body_that_is_not_valid_is_refused(app_store, session, program):
    """An invalid body gets the status 400 with one short sentence, and nothing is stored."""
    client, before = program(session), app_store.fingerprint(session)
    for name, body in BAD.items():
        told = client.post("events", content=body, headers={"Content-Type": JSON})
        assert (name, 400, ["error"]) == (name, told.status_code, [*told.json()])
        assert len(told.text) < 400
        assert "\n" not in told.json()["error"]
    assert before == app_store.fingerprint(session)


REQUESTS = {
    "a class that the session does not have": (409, "POST", "events", {"json": GOOD | {"label": 7}}),
    "an item that the stream does not have": (409, "POST", "events", {"json": NOTE | {"item": 2**62, "text": ""}}),
    "another item": (409, "POST", "events", {"json": GOOD | {"item": 5}}),
    "a tag that does not exist": (409, "POST", "events", {"json": TAG | {"tag": "x", "given": True}}),
    "a form": (415, "POST", "events", {"data": GOOD}),
    "no type": (415, "POST", "events", {"content": json.dumps(GOOD)}),
    "text": (415, "POST", "events", {"content": json.dumps(GOOD), "headers": {"Content-Type": "text/plain"}}),
    "JSON in place of lines": (415, "POST", "items", {"json": {"text": "x"}}),
    "a large event": (413, "POST", "events", {"content": b" " * (EVENT_BYTES + 1), "headers": {"Content-Type": JSON}}),
    "many lines": (413, "POST", "items", {"content": b"\n" * (DATA_BYTES + 1), "headers": {"Content-Type": LINES}}),
    "another method": (405, "DELETE", "session", {}),
    "a preflight": (405, "OPTIONS", "events", {}),
    "an unknown route": (404, "GET", "sessions", {}),
    "a number before the first": (400, "GET", "labels?after=-1", {}),
    "a huge number": (400, "GET", f"decisions?after={'9' * 5000}", {}),
    "a number beyond the last": (200, "GET", f"decisions?after={2**62}", {}),
    "a word": (400, "GET", "labels?after=x", {}),
    "rows for texts": (400, "POST", "predict", {"json": {"rows": [[1.0]]}}),
    "nothing to predict": (400, "POST", "predict", {"json": {}}),
    "many texts": (400, "POST", "predict", {"json": {"texts": ["x"] * 1001}}),
    "no texts": (200, "POST", "predict", {"json": {"texts": []}}),
}


def test_a_request_has_its_status(app_store, session, program):
    """Each request gets the expected status. A refused request gets one sentence and changes nothing, and no response
    allows CORS."""
    client = program(session, "owner")
    client.get("question")
    before = app_store.fingerprint(session)
    for name, (status, method, path, sent) in REQUESTS.items():
        told = client.request(method, path, **sent)
        assert (name, status) == (name, told.status_code)
        assert status == 200 or ["error"] == [*told.json()]
        assert (JSON, "no-store") == (told.headers["content-type"], told.headers["cache-control"])
        assert not any(header.startswith("access-control") for header in told.headers)
    assert before == app_store.fingerprint(session)


def test_a_large_body_is_not_read_to_its_end(session, program):
    """A body of unknown length is refused when it exceeds the limit, and before that if the role does not suffice."""
    for role, status in (("annotator", 413), ("reader", 403)):
        parts = iter([b" " * EVENT_BYTES] * 100)
        told = program(session, role).post("events", content=parts, headers={"Content-Type": JSON})
        assert status == told.status_code


def test_the_requests_of_a_token_are_limited(session, program, monkeypatch):
    """Requests above the rate limit of a token get the status 429 for a second; other tokens are not affected."""
    client, other = program(session), program(session)
    monkeypatch.setattr(api, "CALLS_PER_SECOND", 2.0)
    told = [client.get("openapi.json") for _ in range(20)]
    assert {200, 429} == {each.status_code for each in told}
    assert {"1"} == {each.headers["retry-after"] for each in told if each.status_code == 429}
    assert 200 == other.get("openapi.json").status_code


def test_a_failure_is_one_sentence(session, program, monkeypatch, caplog):
    """An unexpected error gets the status 500 with one sentence. The log has the reason, and neither the log nor the
    response has the token."""
    client = program(session)
    monkeypatch.setattr(api, "card_server", lambda session: 1 / 0)
    with caplog.at_level(logging.DEBUG):
        told = client.get("session")
    assert (500, "The server failed (ZeroDivisionError); its log says why.") == (told.status_code, told.json()["error"])
    assert "ZeroDivisionError" in caplog.text
    assert client.headers["Authorization"].split()[1] not in caplog.text + told.text


def test_labels_are_read_on(app_store, session, program):
    """A request for the labels after `last` returns those changed since the response that gave `last`: new labels,
    corrections, and null for an undone answer."""
    client = program(session)
    asked = client.get("question").json()["question"]
    place = client.post("events", json=event(asked, "1", label=1)).json()
    told = client.get("labels").json()
    assert [("Relevant", 1, "bot", "2")] == [
        (row["class"], row["label"], row["annotator"], row["id"]) for row in told["labels"]
    ]
    assert [] == client.get("labels", params={"after": told["last"]}).json()["labels"]
    client.post("events", json=event(asked, "2", "correct", was=1, label=-1))
    client.post("events", json=event(place["question"], "3", label=1))
    client.post("events", json={"id": "4", "action": "undo", "question": place["question"]["id"]})
    rows = client.get("labels", params={"after": told["last"]}).json()["labels"]
    assert [(asked["id"], -1), (place["question"]["id"], None)] == [(row["question"], row["label"]) for row in rows]
    assert {"question", "label"} == {*rows[1]}, "a question that waits again reveals nothing"


def test_answers_are_withheld_from_who_gives_second_ones(app_store, keep, program):
    """Answers and predictions are withheld, as on the pages, from annotators who may be asked for a second answer, but
    not from readers."""
    session = create(app_store, keep(items=60), learner="pa-i", rule="all", budget=30, overlap=1.0)
    opened = Session(app_store, session)
    opened.answer("e", opened.held("anna")[0].id, 1, "anna")
    for path in ("labels", "decisions"):
        assert 403 == program(session, "annotator").get(path).status_code
        assert 200 == program(session, "reader").get(path).status_code
    assert 403 == program(session, "annotator").post("predict", json={"texts": ["good"]}).status_code


@pytest.mark.parametrize("labelled", [True, False])
def test_estimates_are_those_of_the_page(app_store, work, labelled, program):
    """The route for estimates returns exact values if every item is labeled, and otherwise estimates or null."""
    server = work(40)
    server.session.labelled = labelled
    card_server(server.session.id).session.labelled = labelled
    told = program(server.session.id, "reader").get("estimates").json()
    assert labelled == (told["exact"] is not None) == (told["estimated"] is None)
    if labelled:
        counts = server.session.place.counts
        assert float(server.session.evaluate(counts, "push")["f1"]) == told["exact"]["push"]["f1"]


def test_predictions_are_those_of_the_model(work, program):
    """The route for predictions gives a text the same margin, class and probability as the exported model."""
    server, texts = work(60), ["<b>n1</b> good", "other0"]
    learned = model.of_session(server.session)
    told = program(server.session.id, "reader").post("predict", json={"texts": texts}).json()["predictions"]
    margins, predicted, names, probabilities = learned.predictions(learned.scores(learned.rows(texts)))
    assert [*zip(margins, predicted, names, probabilities)] == [tuple(row.values()) for row in told]


def test_rows_are_predicted(app_store, tmp_path, program):
    """Rows of numbers, in the order of the features, are predicted as the exported model predicts them; invalid rows
    are refused."""
    session = create(app_store, imported(app_store, tmp_path), "PAA-I", budget=20)
    client = program(session)
    asked = client.get("question").json()["question"]
    client.post("events", json=event(asked, label=1))
    rows = [[0.5, -1.0], [2.0, 3.0]]
    told = client.post("predict", json={"rows": rows}).json()["predictions"]
    learned = model.of_session(card_server(session).session)
    assert learned.scores(learned.rows(np.array(rows)))[:, 0].tolist() == [row["margin"] for row in told]
    for wrong in ([[1.0]], [[1.0, 2.0], [1.0]], [[1.0, None]], [[1.0, "2"]]):
        assert 400 == client.post("predict", json={"rows": wrong}).status_code
    assert 400 == client.post("predict", content='{"rows": [[1e999, 1]]}', headers={"Content-Type": JSON}).status_code


def test_items_are_appended(app_store, session, program):
    """New items are appended to the end of the stream, duplicates are dropped, and bad lines are counted."""
    client = program(session, "owner")
    lines = '{"text": "one"}\n{"text": "two"}\nno object\n{"text": "one"}\n' + "[" * 10_000
    headers = {"Content-Type": LINES + "; charset=utf-8"}
    told, again = (client.post("items", content=lines, headers=headers).json() for _ in range(2))
    assert (2, 1, 0, 3) == (told["appended"], told["duplicates"], again["appended"], again["duplicates"])
    assert 2 == sum(number for number, _ in told["skipped"].values())
    assert 62 == client.get("session").json()["counters"]["stream"]


ONE, ALL = (reading.Columns(("text",), "label", **more) for more in ({"positive": ("good",)}, {"multiclass": True}))
KINDS = {  # columns of the data set, or a demo; settings of the session
    "classes": (ALL, {"algorithm": "auto-classes"}),
    "find": (ONE, {"algorithm": "auto", "goal": "find"}),
    "questions": (ONE, {"algorithm": "auto", "questions": ("good", "other0")}),
    "an audit": ("judged", demo.DEMOS["judged"].session),
}


@pytest.mark.slow
@pytest.mark.parametrize(("data", "settings"), KINDS.values(), ids=KINDS)
def test_every_kind_of_session_answers_as_described(app_store, keep, program, data, settings):
    """In every kind of session, from its first question to its end, the answer of every route has its schema: the test
    client checks each of them."""
    dataset = demo.dataset(app_store, data) if isinstance(data, str) else keep(items=60, columns=data)
    client = program(create(app_store, dataset, **settings | {"budget": 3}), "owner")
    label = {"labels": [1, -1]} if client.get("session").json()["questions"] else {"label": 1}
    while asked := client.get("question").json()["question"]:
        for path in ("session", "labels", "decisions", "estimates"):
            assert 200 == client.get(path).status_code
        assert 200 == client.post("events", json=event(asked, str(asked["id"]), **label)).status_code
        client.post("predict", json={"texts": ["good"]})
    assert client.get("question").json()["found"]


def test_an_answer_that_is_not_as_described_is_a_failure(session, program, monkeypatch, caplog):
    """An answer that does not fit the schema of its route is not sent: it is an error of the server."""
    client = program(session)
    monkeypatch.setattr(routes, "choice", lambda settings: None)
    told = client.get("session")
    assert (500, "The server failed (ValidationError); its log says why.") == (told.status_code, told.json()["error"])
    assert "chosen" in caplog.text


def test_the_description_is_valid(session, program):
    told = program(session, "reader").get("openapi.json").json()
    validate(told)
    assert {(f"/{path}", method.lower()) for path, methods in ROUTES.items() for method in methods} == {
        (path, method) for path, methods in told["paths"].items() for method in methods
    }
    assert {"after"} == {each["name"] for each in told["paths"]["/labels"]["get"]["parameters"]}
    assert {"id", "action", "question", "was"} <= {*told["components"]["schemas"]["Correction"]["properties"]}

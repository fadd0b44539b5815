import json
from datetime import timedelta
from functools import cache

import pytest
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions.settings import SKIP, create
from tests.harness.pages import ADMIN, BINARY
from ui import access
from ui.api import server as api
from ui.api.routes import openapi
from ui.components import card
from ui.gate import Gate
from ui.label import card_server
from ui.label.card_server import CardServer


@pytest.fixture(autouse=True)
def exact_panels(monkeypatch):
    """Switch off the reuse of recent panels, so that a page opened right after an answer shows the answer."""
    monkeypatch.setattr(card_server, "CACHE_SECONDS", 0.0)


@pytest.fixture
def store(app_store, tmp_path, monkeypatch):
    """The store of a fresh app, which may import files from the test's folder."""
    monkeypatch.setenv("OAL_FILES", str(tmp_path))
    return app_store


@pytest.fixture
def keep(app_store, tmp_path):
    """A function that imports texts with markup, every fourth of class `good`, and returns the id of the data set."""

    def add(name="texts", items=600, columns=reading.Columns(("text",), "label", positive=("good",))):
        path = tmp_path / f"{name}.csv"
        kinds = ["good" if k % 4 == 0 else f"other{k % 2}" for k in range(items)]
        path.write_text(
            "text,label\n" + "".join(f"<b>n{k}</b> Straße{k % 7} {kind},{kind}\n" for k, kind in enumerate(kinds))
        )
        request = datasets.ImportRequest(features="rich+latent")  # an encoder would take most of the time of a test
        return datasets.import_file(app_store, path, name, columns, request)[0]

    return add


@pytest.fixture
def work(app_store, keep):
    """A function that answers questions of a new session, every `noise`th wrongly and every tenth with a skip, and
    returns the card server of the session."""

    def make(answers=60, dataset=None, noise=None, **settings):
        session = create(app_store, dataset or keep(), **{"budget": 200} | (settings or BINARY))
        server = CardServer(session)
        numbers = {name: label for label, name in server.session.names.items()}
        for k in range(answers):
            asked = server.session.place.asked
            kind = server.session.dataset.item(asked.item)["text"].split()[-1]
            label = numbers.get(kind, 1 if kind == "good" else -1)
            label *= -1 if noise and k % noise == 0 else 1
            server.session.answer(
                f"e{k} of {session}", asked.id, SKIP if k % 10 == 9 else label, "anna" if k % 2 else "ben", 1.25
            )
        with app_store.transaction():  # as if anna and ben had left long ago
            app_store.db.execute("UPDATE leases SET leased_at = '2000'")
        return server

    return make


@pytest.fixture
def become(monkeypatch):
    """A function that makes a person the current user of every page, as a log-in would."""

    def as_somebody(who):
        standing = access.Standing(enters=True, owns=who == ADMIN, mail=who)
        monkeypatch.setattr(access, "standing", lambda person: standing)
        for module in ("ui.components.card", "ui.page"):
            monkeypatch.setattr(f"{module}.who_labels", lambda: (who, True))
        monkeypatch.setattr("ui.page.logged_in", lambda: True)

    return as_somebody


def behind_the_gate(*routes):
    """Return an app with these routes behind the gate, as app.py makes it."""
    return Starlette(routes=routes, middleware=[Middleware(Gate, routes=routes)])


@pytest.fixture
def card_client(app_store):
    """A test client for the routes under card/."""
    return TestClient(behind_the_gate(card.route(), card.pictures()), "http://127.0.0.1/card/")


@pytest.fixture
def sent(card_client):
    """A function that sends events as the card of a session does, and returns the response, parsed as strict JSON."""

    def send(session, *events, annotator="carla", status=200, **more):
        body = json.dumps({"annotator": annotator, "events": events} | more)
        told = card_client.post(str(session), content=body, headers={"Content-Type": "application/json"})
        assert status == told.status_code, told.text
        return json.loads(told.text, parse_constant=pytest.fail)

    return send


@cache
def description():
    """Return the OpenAPI description of all routes."""
    return openapi(None)


def check_as_described(response):
    """Check the JSON of a response against the schema that the OpenAPI description has for it."""
    path, method = response.request.url.path.removeprefix("/api"), response.request.method.lower()
    if operation := description()["paths"].get(path, {}).get(method):
        told = operation["responses"].get(str(response.status_code), operation["responses"]["default"])
        schema = told["content"]["application/json"]["schema"] | {"components": description()["components"]}
        response.read()
        Draft202012Validator(schema).validate(response.json())


@pytest.fixture
def program(app_store, monkeypatch):
    """A function that makes an API token for a session, and returns a test client that sends the token and checks every
    response against the OpenAPI description."""
    monkeypatch.setattr(api, "_turns", {})
    monkeypatch.setattr(api, "CALLS_PER_SECOND", 1000.0)
    app = behind_the_gate(api.route())

    def made(session, role="annotator", name="bot"):
        _, secret = app_store.add_token(session, role, name, timedelta(days=1))
        headers = {"Authorization": f"Bearer {secret}"}
        client = TestClient(app, "http://127.0.0.1/api/", headers=headers, raise_server_exceptions=False)
        client.event_hooks["response"].append(check_as_described)
        return client

    return made

"""Programs and browsers use one real server at once: no answer is lost or stored twice."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import timedelta
from importlib import import_module

import httpx
import pytest

from oal_engine.sessions import look_back
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import PATIENCE, program
from tests.harness.documents import page

GENERATOR = "{post_hooks: [], content_type_overrides: {application/jsonl: application/octet-stream}}"
ALONE = 3  # answers of the person before the program joins


@pytest.fixture
def client(tmp_path):
    """The path of a file with the Python client from the documentation."""
    (code,) = re.findall(r"```python\n(.*?)```", page("docs/http.md"), re.DOTALL)
    assert len(code.splitlines()) <= 30
    path = tmp_path / "client.py"
    path.write_text(code)
    return path


@pytest.mark.slow
def test_a_program_labels_to_the_end_while_a_person_does(app, store, label, client):
    """If a program and a person label together, every item is answered once. The session passes verification, and the
    server's log does not contain the program's token."""
    session, card = label(budget=300)
    _, secret = store.add_token(session, "annotator", "bot", timedelta(days=1))
    given = 0
    running = None
    while card.question:
        if given == ALONE:
            environment = os.environ | {"ADDRESS": app.url(""), "TOKEN": secret, "no_proxy": "*"}
            running = subprocess.Popen([sys.executable, client], env=environment, stderr=subprocess.PIPE, text=True)
        card.press("a" if "good" in card("text").inner_text() else "x")
        card.saved()
        given += 1
    assert ("", 0) == (running.communicate(timeout=PATIENCE)[1], running.returncode)
    rows = [row for row in store.answers(session) if row["label"] is not None]
    assert 300 == len(rows) == len({row["item"] for row in rows})
    by = {name: sum(row["annotator"] == name for row in rows) for name in ("", "bot")}
    assert {"": given, "bot": 300 - given} == by
    assert by["bot"] > ALONE < given
    assert [] == store.opinions(session)
    opened = Session(store, session)
    assert all(row["label"] == opened.y[row["item"]] for row in rows)
    assert look_back.verify(store, session).verified
    assert secret not in app.log.read_text()


@pytest.mark.slow
def test_a_generated_client_labels(app, store, texts, tmp_path, monkeypatch):
    """A typed client that a generator makes from the OpenAPI description labels ten items and appends one."""
    place = tmp_path / "generator"  # apart: it needs other versions of packages than the app
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", place, "openapi-python-client>=0.29"]
    if subprocess.run(pip, capture_output=True).returncode:
        pytest.skip("needs an index from which pip installs the generator")
    session = create(store, texts, learner="pa-i", rule="all")
    _, secret = store.add_token(session, "owner", "bot", timedelta(days=1))
    answer = httpx.get(app.url("/api/openapi.json"), headers={"Authorization": f"Bearer {secret}"}, trust_env=False)
    (tmp_path / "openapi.json").write_text(answer.text)
    (tmp_path / "settings.yml").write_text(GENERATOR)
    command = "openapi_python_client generate --path openapi.json --config settings.yml --meta none --output-path bot"
    made = subprocess.run(
        [sys.executable, "-m", *command.split(), "--fail-on-warning"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(place)},
    )  # fmt: skip
    assert 0 == made.returncode, made.stdout + made.stderr
    monkeypatch.syspath_prepend(tmp_path)
    bot, models, types = (import_module(name) for name in ("bot", "bot.models", "bot.types"))
    event, items, question = (import_module(f"bot.api.default.{name}") for name in ("event", "items", "question"))
    with bot.AuthenticatedClient(app.url("/api"), secret, httpx_args={"trust_env": False}) as client:
        turn = question.sync(client=client)
        for number in range(10):
            assert isinstance(turn, models.Turn)
            assert isinstance(turn.question, models.Asked)
            own = {"id": f"e{number}", "question": turn.question.id, "item": turn.question.item}
            label = 1 if "good" in turn.question.text else -1
            turn = event.sync(client=client, body=models.Answer(action=models.AnswerAction.LABEL, label=label, **own))
        assert 10 == turn.counters.labels == turn.counters.budget - turn.counters.left
        assert isinstance(event.sync(client=client, body=models.Undo("u", "undo", 10**6)), models.Problem)
        assert 1 == items.sync(client=client, body=types.File(io.BytesIO(b'{"text": "later"}'))).appended


def test_every_line_of_the_documentation_is_answered(app, store, texts, tmp_path):
    program("curl")
    session = create(store, texts, learner="pa-i", rule="all", tags=("odd",))
    _, secret = store.add_token(session, "owner", "bot", timedelta(days=1))
    (tmp_path / "bot.txt").write_text(f"Authorization: Bearer {secret}")
    first = Session(store, session).current.id
    for line in re.findall(r"^curl .+$", page("docs/http.md"), re.MULTILINE):
        line = line.replace("http://127.0.0.1:8501", app.url("")).replace('"question": 1', f'"question": {first}')
        words = [*shlex.split(line), "--silent", "--noproxy", "*", "--write-out", "\n%{http_code}"]
        body, _, status = subprocess.check_output(words, cwd=tmp_path, text=True).rpartition("\n")
        assert (line, "200") == (line, status), body
        json.loads(body)

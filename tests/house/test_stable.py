"""docs/stable.md holds: what 1.0 answered is compared with what this version answers. Names may be added; none goes.

stable_1_0.json has the names and kinds of the answers of 1.0; databases and published sessions of 1.0 are tested in
tests/store/test_old_versions.py.
"""

import inspect
import json
import re
from datetime import timedelta
from inspect import Parameter

import pytest
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.testclient import TestClient

import oal_engine
from oal_engine import Studio
from oal_engine.cli import main as cli
from oal_engine.sessions.model import Model
from oal_engine.studio import Compared, OpenSession, Question
from tests.harness import ROOT
from tests.harness.examples import topics
from ui.api import server
from ui.api.routes import ROUTES

RECORDED = json.loads((ROOT / "tests" / "house" / "stable_1_0.json").read_text())
KINDS = {bool: "yes or no", int: "number", float: "number", str: "text"}
CLASSES = Studio, OpenSession, Question, Compared, Model, oal_engine.OnlineActiveClassifier
COMMANDS = (
    "import small.csv --name words --text text --label kind --positive yes --features words --json",
    "append small more.jsonl --json",
    "datasets --json",
    "algorithms --json",
    "replay small --algorithm PAA-I --budget 20 --seed 3 --json",
    "replay small --questions yes,no --algorithm PAA-I --budget 20 --json",
    "compare small --algorithms PAA-I --budget 20 --save compared --json",
    "results --json",
    "results compared --json",
    "tune small --algorithm PAA-I --budget 20 --json",
    "reproduce --json",
    "sessions --json",
    "token list --json",
    "verify 1 --json",
    "answers-to-check 1 --json",
    "check --json",
)
REPLAY = "replay small --algorithm PAA-I --budget 20 --seed 3 --permutations 1 --json"


@pytest.fixture
def here(app_store, tmp_path, monkeypatch):
    """The folder of the test's database and files, in which commands run."""
    monkeypatch.chdir(tmp_path)
    lines = [f'"{text}",{"yes" if k % 3 == 0 else "no"}' for k, text in enumerate(topics(60))]
    (tmp_path / "small.csv").write_text("\n".join(["text,kind", *lines]))
    (tmp_path / "more.jsonl").write_text('{"text": "goal on a new day", "kind": "yes"}\n')
    return tmp_path


@pytest.fixture
def session(here, app_store, capsys):
    """The id of a session with five answers, of a program with a token."""
    studio = Studio(app_store.path)
    studio.add(here / "small.csv", "small", text="text", label="kind", positive="yes", features="words")
    session = studio.new_session("small", learner="pa-i", rule="all", budget=20)
    for question in session:
        session.answer(question, session.classes[question.number % 2])
        if question.number == 5:
            return session.id


def shape(value):
    """Return a JSON value with the kinds of its cells in place of the cells, and of each list the first entry."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return KINDS.get(type(value))


def lost(recorded, found, place=""):
    """Yield each place where an answer of 1.0 has a name or a kind that today's answer lacks."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, each in recorded.items():
            yield from lost(each, found[key], f"{place}/{key}") if key in found else [f"{place}/{key}"]
    elif isinstance(recorded, list) and isinstance(found, list):
        yield from (line for old, new in zip(recorded, found) for line in lost(old, new, place))
        yield from [place] * (len(recorded) > len(found))
    elif recorded not in (None, found):
        yield f"{place}: {recorded}, now {found}"


def test_lost_names_are_found():
    """A name that is missing, a value of another kind, and an empty list are lost; a new name is not."""
    old = {"a": "number", "b": [{"c": "text"}], "d": ["text"], "e": None}
    assert [] == [*lost(old, old | {"f": "text"})]
    assert ["/a: number, now text", "/b/c", "/d", "/e"] == [*lost(old, {"a": "text", "b": [{}], "d": []})]


def parameters(function):
    """Return the names of the parameters of a function in their order; "=" follows one that may be left out."""
    given = inspect.signature(function).parameters.values()
    free = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    return [f"{each.name}{'=' * (each.kind in free or each.default is not each.empty)}" for each in given]


def python_names():
    """Return the public functions, classes, methods and properties of the package: {name: parameters}. A property, and
    a field of a data class, has None."""
    found = {name: parameters(getattr(oal_engine, name)) for name in oal_engine.MODULES}
    for each in CLASSES:
        for name in (*inspect.get_annotations(each), *dir(each)):
            member = getattr(each, name, None)
            found[f"{each.__name__}.{name}"] = parameters(member) if inspect.isfunction(member) else None
    return found


def fields(kind):
    """Return the fields of a message that the server takes: of each of its variants, {field: "needed" or "free"}."""
    if kind is bytes:
        return {}
    schema = TypeAdapter(kind).json_schema(ref_template="{model}")
    variants = schema.pop("$defs", {}) | ({"message": schema} if "properties" in schema else {})
    return {
        name: {key: "needed" if key in variant.get("required", ()) else "free" for key in variant["properties"]}
        for name, variant in variants.items()
    }


def routes(store, session):
    """Return for each route under api/ who may call it, what it takes, and the shape of its answer."""
    _, secret = store.add_token(session, "owner", "bot", timedelta(days=1))
    headers = {"Authorization": f"Bearer {secret}"}
    client = TestClient(Starlette(routes=[server.route()]), "http://127.0.0.1/api/", headers=headers)
    asked = client.get("question").json()["question"]
    label = {"id": "e", "action": "label", "question": asked["id"], "item": asked["item"], "label": 1}
    more = {"content": '{"text": "goal"}', "headers": {"Content-Type": "application/jsonl"}}
    sent = {"events": {"json": label}, "items": more, "predict": {"json": {"texts": ["goal"]}}}
    found = {}
    for path, methods in ROUTES.items():
        for method, route in methods.items():
            answer = client.request(method, path, **sent.get(path, {}))
            known = answer.json() if path != "openapi.json" else {"openapi": "", "paths": {}}
            assert 200 == answer.status_code
            found[f"{method} {path}"] = {"role": route.lowest, "takes": fields(route.kind), "gives": shape(known)}
    return found


def test_no_python_name_goes():
    """Every name of 1.0 is there, with the same parameters in the same order. New parameters may be left out."""
    found = python_names()
    assert [] == [name for name in RECORDED["python"] if name not in found]
    for name, old in RECORDED["python"].items():
        new = found[name] or []
        assert (name, old or []) == (name, [each for each in new if each in (old or ())])
        assert [] == [f"{name} needs {each}" for each in new if each not in (old or ()) and not each.endswith("=")]


def test_no_key_of_a_command_goes(here, session, command):
    for line in COMMANDS:
        code, out, errors = command(*line.split())
        assert (0, line) == (code, line), errors
        assert [] == [*lost(RECORDED["commands"][line], shape(json.loads(out)), line)]


def test_no_option_goes():
    found = {name: [option for each in cli.command(name).params for option in each.opts] for name in cli.MODULES}
    assert [] == [name for name, old in RECORDED["options"].items() if not {*old} <= {*found.get(name, ())}]


def test_no_route_goes(app_store, session):
    """Every route of 1.0 is there, for the same role, takes the same messages, and answers with the same fields."""
    assert [] == [*lost(RECORDED["http"], routes(app_store, session))]


def test_no_column_goes(app_store, session):
    """Every table that `export` writes, and `frame` returns, has the columns that it had in 1.0, in the same order."""
    opened = Studio(app_store.path).session(session)
    found = {what: [*opened.frame(what).columns] for what in RECORDED["columns"]}
    assert RECORDED["columns"] == {
        what: [c for c in found[what] if c in old] for what, old in RECORDED["columns"].items()
    }


def test_a_seed_gives_the_bits_of_1_0(here, session, command):
    _, out, _ = command(*REPLAY.split())
    (run,) = json.loads(out)["runs"]
    assert RECORDED["replay"] == {name: run["push"][name] for name in ("tp", "fp", "tn", "fn")}


def test_exit_codes_tell_what_happened(here, command):
    """A command ends with 0 if it is done, 1 with one sentence if it refuses, and 2 if its words are no command."""
    for words, code in (("datasets", 0), ("verify 99", 1), ("datasets --nonsense", 2), ("nonsense", 2)):
        assert (words, code) == (words, command(*words.split())[0])


def test_the_page_says_it_in_500_words():
    """docs/stable.md can be read in three minutes, and names every kind of thing that is compared here."""
    page = (ROOT / "docs" / "stable.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 500
    assert {"Database", "Published sessions", "Commands", "HTTP", "Python", "Seeds"} <= {
        *re.findall(r"\*\*(.+?)\.\*\*", page)
    }

"""The table of the API's routes: the handler and the type of message of each. The OpenAPI description comes from it."""

from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from io import BytesIO
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, FiniteFloat, TypeAdapter

from oal_engine import __version__
from oal_engine.datasets import Dataset, feeds
from oal_engine.kernel.metrics import EVALUATIONS
from oal_engine.sessions import model
from oal_engine.sessions.insights import estimates
from oal_engine.sessions.items import choice
from oal_engine.sessions.one_question import part_of
from oal_engine.sessions.session import Session
from oal_engine.store import Row

from ..label import messages
from ..label.card_server import CardServer
from ..label.messages import MessageError
from ..page import reason_to_withhold

MOST_ROWS = 1000  # rows in an answer, or rows to predict
EVENT_BYTES, DATA_BYTES = 2**16, 2**22  # largest size of a body
LONGEST_TEXT, WIDEST_ROW = 100_000, 65_536  # characters, numbers
REFERENCE = "#/components/schemas/{model}"
JSON, LINES = "application/json", "application/jsonl"


class Refusal(Exception):
    """Raised to refuse a request, with the HTTP status of the answer, one sentence, and headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


class Call(NamedTuple):
    """A request that is allowed. sent: its validated message, or the bytes of its body."""

    server: CardServer
    name: str
    role: str
    token: Row
    sent: Any

    @property
    def session(self) -> Session:
        return self.server.session


class Route(NamedTuple):
    """A route. act: its handler. lowest: the lowest role that may call it. kind: the type of the message in its query
    or body, or bytes for a body of lines. most_bytes: largest size of the body; 0 if it has none."""

    act: Callable[..., Any]
    lowest: str
    kind: Any
    most_bytes: int


class Nothing(messages.Message):
    """An empty message."""


class Since(messages.Message):
    """A cursor: the number of the last row that the program already has."""

    after: messages.Row = 0


class Unpredicted(messages.Message):
    """Items to predict: texts, or rows of numbers in the order of the features, or both if the texts have vectors."""

    texts: Annotated[list[Annotated[str, Field(max_length=LONGEST_TEXT)]], Field(max_length=MOST_ROWS)] | None = None
    rows: (
        Annotated[list[Annotated[list[FiniteFloat], Field(max_length=WIDEST_ROW)]], Field(max_length=MOST_ROWS)] | None
    ) = None


OneEvent = Annotated[
    messages.Answer | messages.Undo | messages.Correction | messages.Note | messages.Tag, Field(discriminator="action")
]
ROUTES: dict[str, dict[str, Route]] = {}  # by path and method


def route(method: str, path: str, lowest: str, kind: Any = Nothing, most_bytes: int = 0) -> Callable:
    def register(act: Callable[[Call], Any]) -> Callable[[Call], Any]:
        ROUTES.setdefault(path, {})[method] = Route(act, lowest, kind, most_bytes)
        return act

    return register


@route("GET", "session", "reader")
def state(call: Call) -> Row:
    """Return the settings of the session, its classes, its questions if it asks several about each item, its progress,
    and the role of the token."""
    call.server.refresh()
    session, settings, progress = call.session, call.session.settings, call.session.place.progress
    names = ("name", "dataset_name", "algorithm", "metric", "theta", "audit", "overlap", "people", "quota", "repeat")
    return {name: getattr(settings, name) for name in (*names, "lease", "guidelines")} | {
        "session": session.id,
        "classes": [{"label": label, "name": name} for label, name in session.names.items()],
        "questions": None if settings.audited else settings.plain_questions or None,
        "tags": session.store.session(session.id)["tags"] or [],
        "chosen": choice(settings),
        "counters": asdict(progress) | {"left": progress.left},
        "end": progress.end,
        "annotator": call.name,
        "role": call.role,
    }


@route("GET", "question", "annotator")
def question(call: Call) -> Row:
    """Return the annotator's current question, or why there is none (`end`), and the counters.

    The question is leased to the annotator as on the card. `verdict` is the prediction for the item answered last, and
    `previous` the question that an undo takes back.
    """
    frame = call.server.payload(annotator=call.name)
    place = frame["place"]
    if asked := place["question"]:
        asked["text"] = "".join(words for words, _ in [*asked["heading"], *asked["parts"]]) or None
    return place | {"previous": frame["previous"], "verdict": frame["verdict"]}


@route("POST", "events", "annotator", OneEvent, EVENT_BYTES)
def event(call: Call) -> Row:
    """Store an answer, a skip, an undo, a correction, a note or a tag, and return the next question.

    Sending an event again is idempotent: the same id with the same content, sent by the same token, is the same event.
    The same id with other content is refused.
    """
    if call.sent.annotator not in (None, call.name):
        raise Refusal(403, f"annotator must be {call.name}, whom the token names. Got {call.sent.annotator}.")
    own = sha256(f"{call.token['digest']} {call.sent.id}".encode()).hexdigest()  # no page and no other token has it
    call.server.handle(call.sent.model_copy(update={"id": own}), call.name)
    return question(call)


@route("POST", "items", "owner", bytes, DATA_BYTES)
def items(call: Call) -> Row:
    """Append items, a JSON object on each line, to the data set. Exact duplicates are dropped.

    If the app has a log-in, only owners of the studio may do this.
    """
    dataset = Dataset(call.session.store, call.session.dataset.id)
    counts = sum(feeds.append_lines(dataset, BytesIO(call.sent), reader="jsonl"), feeds.AppendCounts())
    return asdict(counts) | {"report": feeds.report(dataset, counts)}


@route("GET", "labels", "reader", Since)
def labels(call: Call) -> Row:
    """Return the current labels of the questions that were answered, corrected or undone after event `after`, at most
    1,000. `last` is the event to continue after. A label that was undone is null."""
    _refuse_withheld(call)
    session, log = call.session, {entry.id: entry for entry in call.server.log if entry.label is not None}
    events = session.store.events(session.id, "answered", "corrected", "undone", after=call.sent.after)[:MOST_ROWS]
    questions = dict.fromkeys(row["question"] for row in events)
    stored = session.store.items(session.dataset.id, [log[id].item for id in questions if id in log])
    rows = [
        asdict(entry) | {
            "question": id, "id": stored[entry.item]["id"], "round": entry.round + 1,
            "class": session.settings.answers[entry.label],
        } if (entry := log.get(id)) else {"question": id, "label": None}
        for id in questions
    ]  # fmt: skip
    return {"labels": rows, "last": events[-1]["number"] if events else call.sent.after}


@route("GET", "decisions", "reader", Since)
def decisions(call: Call) -> Row:
    """Return the decisions of at most 1,000 rounds after round `after`: the margin and the predicted class of the item
    (a list of each if several questions are asked about each item), and whether it was asked about. The list ends
    before a question that waits for its answer."""
    _refuse_withheld(call)
    call.server.refresh()
    session, after = call.session, call.sent.after
    waiting = min((entry.round for entry in session.log if entry.label is None), default=session.rounds)
    part = slice(after, min(after + MOST_ROWS, waiting))
    margins, predicted, asked = (values[..., part].T.tolist() for values in session.decided)
    places = session.order[part].tolist()
    stored = session.store.items(session.dataset.id, places)
    rows = [
        {"round": number, "id": stored[item]["id"], "item": item, "margin": margin, "predicted": label, "asked": was}
        for number, (item, margin, label, was) in enumerate(zip(places, margins, predicted, asked), after + 1)
    ]
    return {"decisions": rows, "last": after + len(rows)}


@route("GET", "estimates", "reader")
def quality(call: Call) -> Row:
    """Return the outcome in words, and the metrics of the decisions so far: exact if the data has all labels, else
    estimated with 95 % intervals (null: too few answers). If several questions are asked about each item, the estimates
    are by name of the question."""
    call.server.refresh()
    session = call.session
    outcome, remarks = call.server.outcome
    values: Row = {"outcome": dict(outcome), "remarks": remarks, "exact": None, "estimated": None}
    if session.labelled:
        metrics = {
            name: {key: np.asarray(each).tolist() for key, each in session.evaluate(session.place.counts, name).items()}
            for name in EVALUATIONS
        }
        return values | {"exact": metrics}
    names: list[Any] = session.settings.question_names or [None]
    by_name = call.server.cached(
        "estimates", lambda: {name: asdict(estimates.of_session(part_of(session, name))) for name in names}
    )
    return values | {"estimated": by_name.get(None, by_name)}


@route("POST", "predict", "reader", Unpredicted, DATA_BYTES)
def predict(call: Call) -> Row:
    """Predict texts or rows. Return for each the margin, the predicted class and its probability (null: too few
    answers). If several questions are asked about each item, return these for every question, as `margin:NAME`."""
    _refuse_withheld(call)
    call.server.refresh()
    models = call.server.cached("model", lambda: model.of_each(call.session))
    learned = next(iter(models.values()))  # the models of all questions take the same rows
    texts, numbers = call.sent.texts, call.sent.rows
    width = learned.width or len(learned.names)
    wanted = {"texts": learned.text, "rows": bool(learned.beside or not learned.text)}
    if wanted != {"texts": texts is not None, "rows": numbers is not None}:
        raise MessageError(
            f"the model predicts {' with '.join(name for name in wanted if wanted[name])}, and nothing else."
        )
    if learned.codings:
        raise MessageError("the model needs words in some columns: predict with its file (`predict --model`).")
    if numbers is not None and ({*map(len, numbers)} > {width} or len(numbers) != len(texts or numbers)):
        raise MessageError(f"rows must be lists of {width:,} numbers, one for each text if there are texts.")
    vectors = None if numbers is None else np.array(numbers, float).reshape(-1, width)
    table = learned.rows(vectors if texts is None else texts, None if texts is None else vectors)
    columns = (np.asarray(column).tolist() for column in model.predictions(models, table))
    return {"predictions": [dict(zip(model.columns_of(models), row)) for row in zip(*columns)]}


def _refuse_withheld(call: Call) -> None:
    """Raise Refusal if the annotator must not see answers, because they still have to give second answers."""
    if reason := reason_to_withhold(call.session.store, call.session.id, call.name, call.role):
        raise Refusal(403, reason)


@route("GET", "openapi.json", "reader")
def openapi(call: Call) -> Row:
    """Return this OpenAPI description of all routes."""
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    schemas: dict[str, Any] = {"Error": error}
    paths = {
        f"/{path}": {method.lower(): _operation(path, route, schemas) for method, route in methods.items()}
        for path, methods in ROUTES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "OAL Studio", "version": __version__},
        "servers": [{"url": "."}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
    }


def _operation(path: str, route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    """Describe a route as an OpenAPI operation, and add the schemas of its message to `schemas`."""
    words = " ".join((route.act.__doc__ or "").split())
    summary, _, more = words.partition(". ")
    operation: dict[str, Any] = {
        "operationId": route.act.__name__, "summary": summary.removesuffix("."),
        "description": f"{more} For every {route.lowest}.".strip(),
        "responses": {
            "200": {"description": "Done", "content": {JSON: {"schema": {"type": "object"}}}},
            "default": {
                "description": "Refused, in one sentence",
                "content": {JSON: {"schema": {"$ref": REFERENCE.format(model="Error")}}},
            },
        },
    }  # fmt: skip
    if route.kind is bytes:
        return operation | {"requestBody": _body(LINES, {"type": "string"})}
    schema = TypeAdapter(route.kind).json_schema(ref_template=REFERENCE)
    schemas |= schema.pop("$defs", {})
    if route.most_bytes:
        return operation | {"requestBody": _body(JSON, schema)}
    fields = schema.get("properties", {})
    return operation | {"parameters": [{"name": name, "in": "query", "schema": fields[name]} for name in fields]}


def _body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": schema}}}

"""The table of the API's routes: the handler, the type of message and the type of answer of each. The OpenAPI
description comes from it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256
from inspect import signature
from io import BytesIO
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter
from pydantic.dataclasses import dataclass

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
    """A route. act: its handler, annotated with the type of its answer. lowest: the lowest role that may call it. kind:
    the type of the message in its query or body, or bytes for a body of lines. most_bytes: largest size of the body; 0
    if it has none."""

    act: Callable[..., Any]
    lowest: str
    kind: Any
    most_bytes: int

    @property
    def answer(self) -> Any:
        """The type of its answer."""
        return signature(self.act).return_annotation


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


class Problem(BaseModel):
    """The answer to a refused request: the reason in one sentence."""

    error: str


class NamedClass(BaseModel):
    label: int
    name: str


class AskedOfEach(BaseModel):
    """One of several questions about each item. parent: the question that needs a yes before it is asked."""

    name: str
    guidelines: str = ""
    parent: str = ""


class Counters(BaseModel):
    """How far a session has come. labels: current labels. answers: their number by label. streamed: rounds so far, of
    `stream` in all. pushed: items predicted positive and not asked. left: labels that may still be given."""

    labels: int
    budget: int
    answers: dict[int, int]
    skipped: int
    streamed: int | None
    stream: int
    pushed: int | None
    waiting: bool
    others: bool
    known_items: int
    left: int


class State(BaseModel):
    """The settings and the progress of a session. questions: null if it asks a single one about each item. chosen: how
    items are chosen. end: why no question waits."""

    session: int
    name: str
    dataset_name: str
    algorithm: str
    metric: str
    theta: float
    audit: float
    overlap: float
    people: int
    quota: int
    repeat: float
    lease: float
    guidelines: str
    classes: list[NamedClass]
    questions: list[AskedOfEach] | None
    tags: list[str]
    chosen: str
    counters: Counters
    end: str | None
    annotator: str
    role: str


Mark = bool | int  # whether a term or feature is marked


class Asked(BaseModel):
    """A question. title: id of the item. heading, parts: the text in pieces with their marks. facts: name of a column,
    cell, and web address. features: name, value and mark, if there is no text. old: the answer that is replaced. asks:
    the places, from 0, of the questions about this item."""

    id: int
    number: int
    item: int
    title: str
    heading: list[tuple[str, Mark]]
    facts: list[tuple[str, str, str | None]]
    parts: list[tuple[str, Mark]]
    features: list[tuple[str, str, Mark]] | None
    why: str
    old: int | list[int] | None
    note: str
    tags: list[str]
    text: str | None
    asks: list[int] = []


class Verdict(BaseModel):
    """The prediction for the item answered last: class and margin or, of several questions, how many were right."""

    question: int
    asked: str
    label: int | None = None
    margin: str | None = None
    agreed: int | None = None
    of: int | None = None


class Turn(BaseModel):
    """The question of an annotator or, in `end` and `result`, why there is none. previous: the question that an undo
    takes back. outcome: as a table, at the end."""

    question: Asked | None
    end: Literal["budget", "stream", "quota", "others", "joining"] | None
    counters: Counters
    result: str | None
    previous: int | None
    verdict: Verdict | None
    outcome: Annotated[list[tuple[str, str]], Field(alias="found")] = []


@dataclass(kw_only=True, config=ConfigDict(json_schema_serialization_defaults_required=True))
class Appended(feeds.AppendCounts):
    """Counts of new items. skipped: unreadable lines by reason, each with the first one. report: all in sentences."""

    report: str


class Undone(BaseModel):
    """A question whose label was undone."""

    question: int
    label: None


class Label(BaseModel):
    """The current label of a question, as of the export of the log. id: of the item. first: the label given first."""

    question: int
    label: int
    id: str
    number: int
    round: int
    item: int
    margin: float
    probability: float
    draw: float
    audit: int
    predicted: int
    asked_at: str
    first: int | None
    annotator: str | None
    answered_at: str | None
    seconds: float | None
    parts: list[list[float]] | None
    labels: list[int] | None
    firsts: list[int] | None
    note: str
    tags: list[str]
    class_: Annotated[str, Field(alias="class")]


class Labels(BaseModel):
    labels: list[Label | Undone]
    last: int


class Decision(BaseModel):
    """The decision of a round; margin and predicted class are lists if there are several questions."""

    round: int
    id: str
    item: int
    margin: float | list[float] | None
    predicted: int | list[int]
    asked: bool


class Decisions(BaseModel):
    decisions: list[Decision]
    last: int


class Quality(BaseModel):
    """The outcome in words, and the metrics by evaluation, of which one kind is null. estimated: by name of the
    question if there are several; an estimate is its value and the ends of its interval."""

    outcome: dict[str, str]
    remarks: list[str]
    exact: dict[str, dict[str, float | list[float]]] | None = None
    estimated: estimates.Estimates | dict[str, estimates.Estimates] | None = None


class Predictions(BaseModel):
    """The predictions, each with the columns of the command `predict`."""

    predictions: list[dict[str, str | int | float | None]]


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
def state(call: Call) -> State:
    """Return the settings of the session, its classes, its questions if it asks several about each item, its progress,
    and the role of the token."""
    call.server.refresh()
    session, settings, progress = call.session, call.session.settings, call.session.place.progress
    own: Row = {
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
    return State(**own, **{name: getattr(settings, name) for name in State.model_fields.keys() - own.keys()})


@route("GET", "question", "annotator")
def question(call: Call) -> Turn:
    """Return the annotator's current question, or why there is none (`end`), and the counters.

    The question is leased to the annotator as on the card. `verdict` is the prediction for the item answered last, and
    `previous` the question that an undo takes back.
    """
    frame = call.server.payload(annotator=call.name)
    place = frame["place"]
    if asked := place["question"]:
        asked["text"] = "".join(words for words, _ in [*asked["heading"], *asked["parts"]]) or None
    return Turn(**place, previous=frame["previous"], verdict=frame["verdict"])


@route("POST", "events", "annotator", OneEvent, EVENT_BYTES)
def event(call: Call) -> Turn:
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
def items(call: Call) -> Appended:
    """Append items, a JSON object on each line, to the data set. Exact duplicates are dropped.

    If the app has a log-in, only owners of the studio may do this.
    """
    dataset = Dataset(call.session.store, call.session.dataset.id)
    counts = sum(feeds.append_lines(dataset, BytesIO(call.sent), reader="jsonl"), feeds.AppendCounts())
    return Appended(**asdict(counts), report=feeds.report(dataset, counts))


@route("GET", "labels", "reader", Since)
def labels(call: Call) -> Labels:
    """Return the current labels of the questions that were answered, corrected or undone after event `after`, at most
    1,000. `last` is the event to continue after. A label that was undone is null."""
    _refuse_withheld(call)
    session, log = call.session, {entry.id: entry for entry in call.server.log if entry.label is not None}
    events = session.store.events(session.id, "answered", "corrected", "undone", after=call.sent.after)[:MOST_ROWS]
    questions = dict.fromkeys(row["question"] for row in events)
    stored = session.store.items(session.dataset.id, [log[id].item for id in questions if id in log])
    rows = [
        Label(**asdict(entry) | {
            "question": id, "id": stored[entry.item]["id"], "round": entry.round + 1,
            "class": session.settings.answers[entry.label],
        }) if (entry := log.get(id)) else Undone(question=id, label=None)
        for id in questions
    ]  # fmt: skip
    return Labels(labels=rows, last=events[-1]["number"] if events else call.sent.after)


@route("GET", "decisions", "reader", Since)
def decisions(call: Call) -> Decisions:
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
        Decision(round=number, id=stored[item]["id"], item=item, margin=margin, predicted=label, asked=was)
        for number, (item, margin, label, was) in enumerate(zip(places, margins, predicted, asked), after + 1)
    ]
    return Decisions(decisions=rows, last=after + len(rows))


@route("GET", "estimates", "reader")
def quality(call: Call) -> Quality:
    """Return the outcome in words, and the metrics of the decisions so far: exact if the data has all labels, else
    estimated with 95 % intervals (null: too few answers). If several questions are asked about each item, the estimates
    are by name of the question."""
    call.server.refresh()
    session = call.session
    outcome, remarks = call.server.outcome
    exact = estimated = None
    if session.labelled:
        exact = {
            name: {key: np.asarray(each).tolist() for key, each in session.evaluate(session.place.counts, name).items()}
            for name in EVALUATIONS
        }
    else:
        names: list[Any] = session.settings.question_names or [None]
        by_name = call.server.cached(
            "estimates", lambda: {name: estimates.of_session(part_of(session, name)) for name in names}
        )
        estimated = by_name.get(None, by_name)
    return Quality(outcome=dict(outcome), remarks=remarks, exact=exact, estimated=estimated)


@route("POST", "predict", "reader", Unpredicted, DATA_BYTES)
def predict(call: Call) -> Predictions:
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
    return Predictions(predictions=[dict(zip(model.columns_of(models), row)) for row in zip(*columns)])


def _refuse_withheld(call: Call) -> None:
    """Raise Refusal if the annotator must not see answers, because they still have to give second answers."""
    if reason := reason_to_withhold(call.session.store, call.session.id, call.name, call.role):
        raise Refusal(403, reason)


@route("GET", "openapi.json", "reader")
def openapi(call: Call) -> Row:
    """Return this OpenAPI description of all routes."""
    kinds: list[Any] = [(Refusal, "serialization", TypeAdapter(Problem))]
    for route in (route for methods in ROUTES.values() for route in methods.values()):
        kinds.append((route.act, "serialization", TypeAdapter(route.answer)))
        kinds.append((route.act, "validation", TypeAdapter(route.kind)))
    schemas, shared = TypeAdapter.json_schemas(kinds, ref_template=REFERENCE)
    paths = {
        f"/{path}": {method.lower(): _operation(route, schemas) for method, route in methods.items()}
        for path, methods in ROUTES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "OAL Studio", "version": __version__},
        "servers": [{"url": "."}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": shared["$defs"],
        },
    }


def _operation(route: Route, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe a route as an OpenAPI operation. schemas: {(handler, direction): schema}."""
    summary, _, more = " ".join((route.act.__doc__ or "").split()).partition(". ")
    operation: dict[str, Any] = {
        "operationId": route.act.__name__, "summary": summary.removesuffix("."),
        "description": f"{more} For every {route.lowest}.".strip(),
        "responses": {
            "200": {"description": "Done", "content": {JSON: {"schema": schemas[route.act, "serialization"]}}},
            "default": {
                "description": "Refused", "content": {JSON: {"schema": schemas[Refusal, "serialization"]}},
            },
        },
    }  # fmt: skip
    if route.most_bytes:
        content = {LINES if route.kind is bytes else JSON: {"schema": schemas[route.act, "validation"]}}
        return operation | {"requestBody": {"required": True, "content": content}}
    fields = route.kind.model_json_schema().get("properties", {})
    return operation | {"parameters": [{"name": name, "in": "query", "schema": fields[name]} for name in fields]}

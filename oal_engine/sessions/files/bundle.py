"""Publish a session as one file of JSON lines, and adopt (import) such a file. It holds the settings, questions, events
and digests, and a fingerprint of the data. Any database with the same data reproduces the session bit for bit.

A file is not trusted: every line is checked, nothing in it is executed, and a refused file changes nothing.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from ... import __version__
from ...datasets import Dataset, demo
from ...datasets.given import stored_column
from ...datasets.prior import Prior
from ...kernel.algorithms import stored
from ...output.jsonlines import Check, JsonLinesError, checked, lines, number, or_none, time, whole, words
from ...store import ConflictError, History, Row, Store
from ...store.fields import (
    ADDED,
    EVENTS,
    HEAD,
    LONGEST_ANNOTATOR,
    LONGEST_ID,
    MOST_QUESTIONS,
    MOST_TAGS_EVER,
    READ,
    REMARKS,
    SOURCE,
    event_problem,
    is_count,
    is_flag,
    is_label,
    is_labels,
    is_seconds,
    is_title,
)
from .. import look_back
from ..labels import SessionError, plain, summary
from ..log import ANSWERS, asks, checked_event, lasting
from ..settings import create, stored_options

FORMATS = 3, 4  # version 3, of OAL Studio 0.3.0, has no digest of texts
DATASET = ("name", "items", "features")
MEANING = {
    "rows": "rows", "vocabulary": "terms", "labels": "labels of its own", "texts": "ids, texts or kept columns",
}  # fmt: skip


def fingerprint(dataset: Dataset) -> dict[str, str]:
    """Return SHA-256 digests of a data set's rows, its terms or feature names, its labels with their classes, and the
    ids, texts and kept columns of its items."""
    terms = dataset.vocabulary.terms if dataset.vocabulary else dataset.feature_names
    arrays = [value for value in dataset.rows if isinstance(value, np.ndarray)]
    items = hashlib.sha256()
    for item in dataset.contents(0, dataset.y.size):
        items.update(json.dumps(item).encode() + b"\n")
    return {
        "rows": _digest([dataset.rows.columns], *arrays),
        "vocabulary": _digest(terms),
        "labels": _digest(dataset.classes, dataset.y),
        "texts": items.hexdigest(),
    }


def _digest(names: Iterable[object], *arrays: np.ndarray) -> str:
    digest = hashlib.sha256(json.dumps(list(names)).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def publish(store: Store, session: int, file: IO[str]) -> None:
    """Write a session as JSON lines to an open text file, without notes and tags that cannot be read."""
    with store.snapshot():
        settings, history = store.session(session), store.history(session)
        store.check_settings(session, {*HEAD, *ADDED, "prior"})
        dataset, priors = Dataset(store, settings["dataset"]), store.prior_weights(session)
    weights = {k: [*each.items()] for k, each in priors.items()}
    prior = settings["prior"] and settings["prior"] | {"weights": weights.get(0, [])}
    own_priors = [
        {"texts": [], "part": k, "weights": weights.get(k, [])} | each.pop("prior")
        for k, each in enumerate(settings["questions"] or ()) if "prior" in each
    ]  # fmt: skip
    place = {0: 0} | {sign * row["id"]: sign * k for k, row in enumerate(history.questions, 1) for sign in (1, -1)}
    readable = [row for row in history.events if row["kind"] not in REMARKS or not event_problem(row, READ)]
    events = [checked_event(row, EVENTS) | {"data": row["data"] or None} for row in readable]
    numbers = {row["number"]: number for number, row in enumerate(events, 1)}
    parts = {
        "question": history.questions,
        "event": events,
        "digest": [{"number": numbers[number], "digest": digest} for number, digest in history.digests.items()],
    }
    parts |= {"prior": own_priors} if own_priors else {}
    for question in history.questions:
        if question["parent"] not in place:  # its parent was never answered, so it is not in the file
            question["parent"] = -question["id"]
    head = {
        "oal_session": FORMATS[-1],
        "engine": __version__,
        "dataset": {key: value for key, value in dataset.record.items() if key in DATASET} | fingerprint(dataset),
        "settings": {key: settings[key] for key in HEAD}
        | ({"prior": prior} if prior else {})
        | {name: settings[name] for name, (usual, _) in ADDED.items() if settings[name] != usual},
    }
    rows = (
        {
            key: place[row[key]] if row[key] and key in PLACED[kind] else row[key]
            for key in KINDS[kind]
            if key not in OMITTED or row[key]
        }
        for kind, part in parts.items()
        for row in part
    )
    end = {f"{kind}s": len(part) for kind, part in parts.items()}
    file.writelines(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in (head, *rows, end))


# Reading


def is_data(value: Any) -> bool:
    """Return whether a value is valid as the data of an event."""
    return (
        isinstance(value, dict) and len(value) <= 4
        and all(isinstance(each, (int, str)) or is_labels(each) for each in value.values())
    )  # fmt: skip


def is_parts(value: Any) -> bool:
    """Return whether a value is a valid list of [margin, predicted class] pairs, one for each of several questions."""
    return (
        isinstance(value, list) and 2 <= len(value) <= MOST_QUESTIONS
        and all(isinstance(each, list) and len(each) == 2 and number(each[0]) for each in value)
        and all(side in (-1, 0, 1) for _, side in value)
    )  # fmt: skip


# Fields that refer to questions, which are numbered from 1 in a file
PLACED = {"question": ("id", "parent"), "event": ("question",), "digest": (), "prior": ()}
QUESTION = {
    "id": whole(1), "number": or_none(whole(1)), "parent": whole(-(2**53)), "branch": is_label, "round": is_count,
    "item": is_count, "margin": number, "probability": number, "draw": number, "audit": is_flag,
    "predicted": is_label, "asked_at": time, "overlap": is_flag, "repeat": is_flag, "parts": or_none(is_parts),
}  # fmt: skip
EVENT = {
    "id": or_none(words(LONGEST_ID)), "kind": words(20), "at": time, "annotator": words(LONGEST_ANNOTATOR),
    "question": or_none(whole(1)), "item": or_none(is_count), "label": or_none(is_label),
    "seconds": or_none(is_seconds), "data": or_none(is_data),
}  # fmt: skip
DIGEST = {"number": whole(1), "digest": words(64)}
PRIOR = SOURCE | {"weights": lambda value: isinstance(value, list) and all(map(_is_weight, value))}
# Kinds of lines: the parts of `History`, and priors of questions, whose number the last line omits if it is 0
KINDS: dict[str, Mapping[str, Check]] = {
    "question": QUESTION, "event": EVENT, "digest": DIGEST, "prior": {"part": whole(0, MOST_QUESTIONS - 1)} | PRIOR,
}  # fmt: skip
OMITTED = {"parts": None}  # a field of a question; omitted if the session asks one question about each item
BOUND = {"name": is_title, "items": is_count, "features": is_count, **dict.fromkeys(MEANING, words(64))}


def _is_weight(value: Any) -> bool:
    """Return whether a value is a pair [column, weight]."""
    return isinstance(value, list) and len(value) == 2 and whole(0)(value[0]) and number(value[1])


def read(file: IO[str] | IO[bytes]) -> tuple[Row, History]:
    """Read the header (first line) and the history of a published session. Each line is checked on its own."""
    entries, nothing = lines(file), dict[str, Any]()
    _, head = next(entries, (1, nothing))
    if head.get("oal_session") not in FORMATS:
        raise JsonLinesError(
            "the first line must say that this is a published session of version "
            f"{' or '.join(map(str, FORMATS))}, which OAL Studio 0.3.0 and later write."
        )
    _check_head(head)
    parts = _parts(entries)
    questions = () if head["settings"]["audited"] else head["settings"]["questions"] or ()
    for row in parts["prior"]:
        if (k := row.pop("part")) >= len(questions) or "prior" in questions[k]:
            raise JsonLinesError("the file has a prior of a question twice, or without the question.")
        questions[k]["prior"] = _prior(row, head["dataset"]["features"])
    events = [row | {"number": place, "data": row["data"] or {}} for place, row in enumerate(parts["event"], 1)]
    return head, History(parts["question"], events, {row["number"]: row["digest"] for row in parts["digest"]})


def _check_head(head: Row) -> None:
    """Check the settings and the data set in the header, and fill in the default settings in place."""
    settings = head.get("settings")
    own = settings if isinstance(settings, dict) else {}
    prior = own.pop("prior", None)
    added = {name: own.pop(name, usual) for name, (usual, _) in ADDED.items()}
    settings = checked(settings, HEAD, 1, "head of a session")
    settings |= checked(added, {name: allowed for name, (_, allowed) in ADDED.items()}, 1, "head of a session")
    fields = {name: check for name, check in BOUND.items() if name != "texts" or head["oal_session"] != FORMATS[0]}
    bound = checked(head.get("dataset"), fields, 1, "head of a session")
    if prior is not None:
        settings["prior"] = _prior(prior, bound["features"])
    if settings["items"] > bound["items"]:
        raise JsonLinesError(f"invalid value for items in the settings. Got {settings['items']}.")


def _parts(entries: Iterable[tuple[int, Row]]) -> dict[str, list[Row]]:
    """Read the lines after the header, grouped by kind."""
    at, end = 1, None
    parts: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    all_kinds = KINDS | {"end": {f"{kind}s": is_count for kind in KINDS}}
    for at, line in entries:
        if end is not None:
            raise JsonLinesError(f"line {at} comes after the end of the session.")
        if "questions" in line:
            line = {"priors": 0} | line
        elif "branch" in line:
            line = OMITTED | line
        kind = next((kind for kind, fields in all_kinds.items() if fields.keys() == line.keys()), None)
        if kind is None:
            raise JsonLinesError(f"line {at} must be a {', '.join(KINDS)} or the end of a session.")
        checked(line, all_kinds[kind], at, f"{kind} of a session")
        if kind == "end":
            end = line
        else:
            parts[kind].append(line)
    if end != {f"{kind}s": len(part) for kind, part in parts.items()}:
        raise JsonLinesError(f"the file is cut short or altered: its last line, {at}, does not count those before it.")
    return parts


def _prior(values: object, features: int) -> Prior:
    """Check the prior knowledge that a published session began with, and return it."""
    written = {"texts": []} | values if isinstance(values, dict) else values  # a file omits the key without texts
    source = checked(written, PRIOR, 1, "prior of a session")
    weights = {column: float(weight) for column, weight in source["weights"]}
    if max(weights, default=0) >= features:
        raise JsonLinesError(f"the prior of a session must have columns below {features:,}. Got {max(weights):,}.")
    words, items, unknown, texts = (tuple(source[key]) for key in ("words", "items", "unknown", "texts"))
    return Prior(words, items, source["model"], source["scores"], unknown, texts, weights)


def _match(store: Store, wanted: Row, among: Collection[int] | None) -> int:
    """Return the id of the local data set that a published session ran over, once its rows are checked.

    wanted: data set as described in the file's header. among: ids of the data sets to choose from (None: all).
    """
    items, present = wanted["items"], [row for row in store.datasets() if among is None or row["id"] in among]
    problem = "it is not here"
    for row in present:
        if row["name"] == wanted["name"]:
            problem = f"the data set {row['name']} here has {'fewer items' if row['items'] < items else 'other rows'}"
    for row in present:
        if row["features"] == wanted["features"] and row["items"] >= items:
            own = fingerprint(dataset := Dataset(store, row["id"], items))
            if not (wrong := [key for key in MEANING if key in wanted and own[key] != wanted[key]]):
                Dataset(store, dataset.id).check()
                return dataset.id
            if "rows" not in wrong:
                problem = f"the data set {row['name']} here has the same rows but other {MEANING[wrong[0]]}"
    raise JsonLinesError(
        f"the session runs over the data set {wanted['name']} ({items:,} items, {wanted['features']:,} features): "
        f"{problem}. Import the same file with the same settings, then open this session again."
    )


def adopt(store: Store, file: IO[str] | IO[bytes], owner: str = "", among: Collection[int] | None = None) -> int:
    """Store a published session, from an open file, over the same data set here. Return its id. Raise JsonLinesError,
    and store nothing, if the file is invalid, its session cannot be reproduced, or the data set is missing.

    owner: owner of the stored session. among: ids of the data sets that it may run over (None: all).
    """
    head, history = read(file)
    settings, items = head["settings"], head["dataset"]["items"]
    allowed = range(len(settings["classes"]) + 1) if settings["classes"] else (-1, 0, 1)
    _check_questions(history.questions, items, allowed)
    _check_events(history, items, allowed)
    _check_parts(history, settings["questions"] or (), settings["audited"] is not None)
    wanted, demos = head["dataset"], {each.name: which for which, each in demo.DEMOS.items()}
    is_missing_demo = wanted["name"] in demos and not store.has_dataset(wanted["name"])
    dataset = None if is_missing_demo else _match(store, wanted, among)  # before the lock, as hashing takes long
    try:
        with store.transaction():
            dataset = dataset or _match(store, wanted, {demo.dataset(store, demos[wanted["name"]])})
            if any(store.event(row["id"]) for row in history.events if row["id"]):
                raise JsonLinesError("this session is here already; if it was removed, its owner can restore it.")
            session = _create(store, dataset, settings, owner)
            store.put_history(session, history)
            if not (report := look_back.Trace(store, session).report).verified:
                raise JsonLinesError(f"its session cannot be reproduced. {report}")
    except ConflictError:
        raise JsonLinesError("the file names a question, a number or an event twice.") from None
    except OverflowError:
        raise JsonLinesError("the file holds a number that is too large for the database.") from None
    return session


def _check_questions(questions: list[Row], items: int, allowed: Sequence[int]) -> None:
    """Check the questions against each other and against the items of the data set."""
    for place, question in enumerate(questions, 1):
        if question["id"] != place or not (question["parent"] == -place or 0 <= question["parent"] < place):
            raise JsonLinesError(f"the questions are not in order at question {place}.")
        if max(question["item"], question["round"]) >= items:
            raise JsonLinesError(f"question {place} is about an item that the data set does not have.")
        if question["predicted"] not in allowed or question["branch"] not in allowed:
            raise JsonLinesError(f"question {place} has a class that the session does not have.")
    numbers = sorted(question["number"] for question in questions if question["number"])
    if numbers != list(range(1, len(numbers) + 1)):
        raise JsonLinesError("the numbers of the questions have gaps.")


def _check_events(history: History, items: int, allowed: Sequence[int]) -> None:
    """Check the events against the questions and against each other."""
    numbers = {row["id"]: row["number"] for row in history.questions}
    try:
        counting = lasting(checked_event(row, EVENTS) for row in history.events)
    except SessionError as error:
        raise JsonLinesError(str(error)) from None
    for row in history.events:
        if row["question"] is not None and row["question"] not in numbers:
            raise JsonLinesError(f"event {row['number']:,} names a question that the session does not have.")
        if row["label"] is not None and row["label"] not in allowed:
            raise JsonLinesError(f"the label of event {row['number']:,} is not one of the session.")
        if (row["item"] or 0) >= items or row["data"].get("rounds", 0) > items:
            raise JsonLinesError(f"event {row['number']:,} is about an item that the data set does not have.")
    if (many := len({row["data"]["tag"] for row in history.events if row["kind"] == "tagged"})) > MOST_TAGS_EVER:
        raise JsonLinesError(f"a session can have {MOST_TAGS_EVER:,} different tags over time. Got {many:,}.")
    answered = set[int]()
    for row in counting:
        if row["kind"] in ("answered", "corrected"):
            if (row["question"] in answered) != (row["kind"] == "corrected") or numbers[row["question"]] is None:
                raise JsonLinesError(f"event {row['number']:,} does not fit its question, {row['question']}.")
            answered.add(row["question"])
    waiting = [number for id, number in numbers.items() if number and id not in answered]
    if waiting not in ([], [max(filter(None, numbers.values()), default=0)]) and not any(
        row["kind"] == "asked" for row in history.events
    ):
        raise JsonLinesError(f"question {waiting[0]} has no answer, but later ones have.")
    if any(number > len(history.events) for number in history.digests):
        raise JsonLinesError("a digest is of an event that the session does not have.")


def _check_parts(history: History, several: Sequence[Row], audited: bool) -> None:
    """Check the records of a session that asks several questions about each item. A stored query must have a pair
    [margin, predicted class], and its answer a label, for every question that the session asked at that time. Questions
    added later must come last. All labels of an answer to an audit must be equal."""
    added = [bool(question.get("added")) for question in several]
    first = len(added) - sum(added)
    own_names = [question["name"] for question in several[:first]]
    parents = [parent for question in several[:first] if (parent := question.get("parent"))]
    if added != sorted(added) or 0 < len(added) < 2 + sum(added) or not {*parents} <= {*own_names}:
        raise JsonLinesError("the questions that were added later must be the last ones of the session.")
    opened = [row["data"]["part"] for row in history.events if row["kind"] == "opened"]
    if opened != [*range(first, len(added))]:
        raise JsonLinesError("the log does not open each question that was added, in their order.")
    parts = {row["id"]: row["parts"] or () for row in history.questions}
    for question, own in parts.items():
        if not first <= len(own) <= len(added):
            raise JsonLinesError(f"question {question} does not have the parts of the session's questions.")
    many = first
    for row in history.events:
        many += row["kind"] == "opened"
        if row["kind"] not in (*ANSWERS, "known"):
            continue
        labels = row["data"].get("labels") or ()
        own = parts[row["question"]] if row["kind"] in ANSWERS else [(0.0, 1)] * many
        if (
            len(labels) != len(own) or (labels and summary(labels) != row["label"])
            or any(label and not asks(own, k) for k, label in enumerate(labels))
            or (audited and len({*labels}) > 1)
        ):  # fmt: skip
            raise JsonLinesError(f"event {row['number']:,} does not have the labels of the session's questions.")


def _create(store: Store, dataset: int, settings: Row, owner: str) -> int:
    """Create a session with these settings, after the same checks as for any new session. Return its id."""
    ran = stored(settings["algorithm"], settings["learner"], settings["rule"], settings["parameters"])
    settings["parameters"] = {"learner": ran.learner_parameters, "rule": ran.rule_parameters}
    options = stored_options(settings) | {"owner": owner, "cap": False}
    for question, each in zip(options["questions"], settings["questions"] or ()):
        if own := each.pop("prior", None):
            question["prior"], each["prior"] = own, own.source
    session = create(store, dataset, **options)
    names = {"created_at", "engine", "items"} | ({"algorithm"} if ran.tunes_itself else set())
    store.update_session(session, {key: settings[key] for key in names})
    created = store.session(session)
    if plain(created["questions"]) == plain(settings["questions"]) != []:
        store.update_session(session, {"questions": json.dumps(settings["questions"])})
        created = store.session(session)
    if audited := settings["audited"]:  # of the items when the session began: others may have been appended since
        data = Dataset(store, dataset, settings["items"])
        column = stored_column(data, audited["column"], None, audited["cut"], settings["positive_name"])
        if column.checksum != audited["checksum"]:
            raise JsonLinesError(f"column {column.name} is not the one that was audited: cells differ.")
        created["audited"]["checksum"] = column.checksum
        store.update_session(session, {"audited": json.dumps(created["audited"])})
    if wrong := [key for key in (*HEAD, *ADDED) if (created[key] or None) != (settings[key] or None)]:
        got = json.dumps(settings[wrong[0]])[:80]
        raise JsonLinesError(f"invalid value for {wrong[0]} in the settings. Got {got}.")
    return session

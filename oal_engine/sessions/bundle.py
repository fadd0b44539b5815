"""A session as one file of JSON lines, and back: settings, questions, labels and digests, bound to the fingerprint of
its data. In another database with the same data it verifies bit for bit.

The file is untrusted: every line is checked, nothing in it is interpreted, and a file that is refused leaves nothing.
"""

import hashlib
import json

import numpy as np

from .. import __version__
from ..datasets import Dataset
from ..kernel import metrics
from ..kernel.algorithms import ALGORITHMS, Strategy
from ..output.jsonlines import LONGEST_LINE, JsonLinesError, checked, lines, number, or_none, time, whole, words
from ..store import ConflictError
from .settings import create

FORMAT = 2
DATASET = ("name", "items", "features")
MEANING = {"rows": "rows", "vocabulary": "terms", "labels": "labels of its own"}


def fingerprint(dataset):
    """Digests of a data set's rows, of its terms or feature names, and of its labels with their classes."""
    terms = dataset.vocabulary.terms if dataset.vocabulary else dataset.feature_names
    arrays = [value for value in dataset.rows if isinstance(value, np.ndarray)]
    return {
        "rows": _digest([dataset.rows.columns], *arrays),
        "vocabulary": _digest(terms),
        "labels": _digest(dataset.classes, dataset.y),
    }


def _digest(told, *arrays):
    found = hashlib.sha256(json.dumps(list(told)).encode())
    for array in arrays:
        found.update(np.ascontiguousarray(array))
    return found.hexdigest()


def publish(store, session, file):
    """Write a session to an open text file."""
    with store.snapshot():
        about, digests = store.session(session), store.digests(session)
        questions, labels, notes, marks = store.history(session)
        dataset = Dataset(store, about["dataset"])
    place = {0: 0} | {sign * question["id"]: sign * k for k, question in enumerate(questions, 1) for sign in (1, -1)}
    told = [
        {
            "oal_session": FORMAT,
            "engine": __version__,
            "dataset": {key: dataset.record[key] for key in DATASET} | fingerprint(dataset),
            "settings": {key: about[key] for key in HEAD},
        },
        *({key: _placed(key, row[key], place) for key in QUESTION} for row in questions),
        *({key: _placed(key, row[key], place) for key in LABEL} for row in labels),
        *({key: row[key] for key in NOTE} for row in notes),
        *({key: row[key] for key in MARK} for row in marks),
        *({"answers": answers, "digest": digest} for answers, digest in sorted(digests.items())),
    ]
    parts = questions, labels, notes, marks, digests
    told.append(dict(zip(END, map(len, parts))))
    file.writelines(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in told)


def _placed(key, value, place):
    return place[value] if key in ("id", "parent", "question") else value


# Reading


QUESTION = {
    "id": whole(1), "number": or_none(whole(1)), "parent": whole(-(2**53)), "branch": whole(-1, 127),
    "round": whole(0), "item": whole(0), "margin": number, "probability": number, "draw": number,
    "audit": whole(0, 1), "predicted": whole(-1, 127), "asked_at": time,
}  # fmt: skip
LABEL = {
    "event": words(200), "question": whole(1), "label": whole(-1, 127), "annotator": words(200),
    "answered_at": time, "seconds": or_none(number), "undone_at": or_none(time),
    "undone_by": or_none(words(200)), "position": or_none(whole(0)), "at_end": or_none(whole(0)),
    "highlighted": or_none(whole(0, 1)),
}  # fmt: skip
NOTE = {
    "event": words(200),
    "item": whole(0),
    "text": words(LONGEST_LINE),
    "annotator": words(200),
    "written_at": time,
}
MARK = {
    "event": words(200), "item": whole(0), "wrong": whole(0, 1), "position": or_none(whole(0)),
    "at_end": or_none(whole(0)), "annotator": words(200), "given_at": time,
}  # fmt: skip
DIGEST = {"answers": whole(1), "digest": words(64)}
KINDS = {"question": QUESTION, "label": LABEL, "note": NOTE, "mark": MARK, "digest": DIGEST}
END = {f"{kind}s": whole(0) for kind in KINDS}
HEAD = {
    "name": words(500), "budget": whole(1), "seed": whole(0), "items": whole(0), "horizon": whole(1),
    **dict.fromkeys(("shuffled", "averaged", "audit_trains"), whole(0, 1)),
    "audit": number, "pace": or_none(number),
    "positive_name": words(500), "negative_name": words(500), "engine": words(40), "created_at": time,
    **dict.fromkeys(("alpha_p", "c_p", "theta", "rho"), number),
    **dict.fromkeys(("algorithm", "learner", "rule", "metric"), words(200)),
    "positive_class": or_none(words(500)),
    "classes": or_none(lambda value: isinstance(value, list) and all(map(words(500), value))),
    "parameters": lambda value: isinstance(value, dict) and value.keys() == {"learner", "rule"}
    and all(isinstance(part, dict) and all(map(number, part.values())) for part in value.values()),
}  # fmt: skip
BOUND = {"name": words(500), "items": whole(0), "features": whole(0), **dict.fromkeys(MEANING, words(64))}


def read(file):
    """The head, the questions, labels, notes, marks and digests of a published session, each line checked by itself."""
    entries = lines(file)
    at, head = next(entries, (1, {}))
    if head.get("oal_session") != FORMAT:
        raise JsonLinesError(f"this is no published session of version {FORMAT}: the first line must say so.")
    settings = checked(head.get("settings"), HEAD, 1, "head of a session")
    bound = checked(head.get("dataset"), BOUND, 1, "head of a session")
    if settings["items"] > bound["items"]:
        raise JsonLinesError(f"invalid value for items in the settings. Got {settings['items']}.")
    found, end = {kind: [] for kind in KINDS}, None
    for at, line in entries:
        if end is not None:
            raise JsonLinesError(f"line {at} is behind the end of the session.")
        kinds = KINDS | {"end": END}
        kind = next((kind for kind, fields in kinds.items() if fields.keys() == line.keys()), None)
        if kind is None:
            raise JsonLinesError(f"line {at} is no {', '.join(KINDS)} or end of a session.")
        checked(line, kinds[kind], at, f"{kind} of a session")
        if kind == "end":
            end = line
        else:
            found[kind].append(line)
    if end != {f"{kind}s": len(values) for kind, values in found.items()}:
        raise JsonLinesError(f"the file is cut short or altered: it ends in line {at} without its right last line.")
    digests = {line["answers"]: line["digest"] for line in found.pop("digest")}
    return head, *found.values(), digests


def _match(store, wanted):
    """The data set here that is the one of a published session."""
    items = wanted["items"]
    near = [row for row in store.datasets() if row["features"] == wanted["features"] and row["items"] >= items]
    problem = None
    for row in near:
        own = fingerprint(Dataset(store, row["id"], items))
        wrong = [key for key in MEANING if own[key] != wanted[key]]
        if not wrong:
            return row["id"]
        if "rows" not in wrong:
            problem = f"the data set {row['name']} here has the same rows but other {MEANING[wrong[0]]}"
    named = [row for row in store.datasets() if row["name"] == wanted["name"]]
    if problem is None and named:
        less = named[0]["items"] < items
        problem = f"the data set {wanted['name']} here has {'fewer items' if less else 'other rows'}"
    raise JsonLinesError(
        f"the session runs over the data set {wanted['name']} ({wanted['items']:,} items, {wanted['features']:,} "
        f"features): {problem or 'it is not here'}. Import it as it was imported there, then this file again."
    )


def adopt(store, file):
    """Keep a published session, read from an open file, over the same data set here; its id.

    All or nothing. Whether it verifies is `retrace.verify`'s to say.
    """
    head, questions, labels, notes, marks, digests = read(file)
    dataset = _match(store, head["dataset"])
    _checked_log(head["dataset"]["items"], questions, labels, notes + marks, head["settings"])
    try:
        with store.transaction():
            here = [known["question"] for label in labels[:1] if (known := store.event(label["event"]))]
            if here:
                raise JsonLinesError(f"this session is here already: it is session {store.session_of(here[0])}.")
            session = _create(store, dataset, head["settings"])
            store.put_history(session, questions, labels, notes, marks, digests)
            if store.length(dataset) > head["dataset"]["items"]:
                store.drop_last_digests("id", session)
    except ConflictError:
        raise JsonLinesError("the file names a question, a number or an event twice.") from None
    return session


def _checked_log(items, questions, labels, noted, settings):
    """What lines say of each other, and of the items of their data set."""
    allowed = range(len(settings["classes"]) + 1) if settings["classes"] else (-1, 0, 1)
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
    if any(line["item"] >= items for line in noted):
        raise JsonLinesError("a note or a mark is about an item that the data set does not have.")
    for label in labels:
        if label["question"] > len(questions) or label["label"] not in allowed:
            raise JsonLinesError(f"the label of question {label['question']} is not one of the session.")
        if (label["undone_at"] is None) != (label["undone_by"] is None):
            raise JsonLinesError(f"the label of question {label['question']} is half taken back.")
    replaced = {label["undone_by"]: label["question"] for label in labels if label["undone_by"] is not None}
    for label in labels:
        corrects = replaced.get(label["event"]) if label["position"] is not None else label["question"]
        if corrects != label["question"] or (label["position"] is None and label["event"] in replaced):
            raise JsonLinesError(f"the label of question {label['question']} corrects none that it had.")
    standing = {label["question"] for label in labels if label["undone_at"] is None}
    waiting = [question["number"] for question in questions if question["number"] and question["id"] not in standing]
    if waiting not in ([], numbers[-1:]):
        raise JsonLinesError(f"question {waiting[0]} has no answer, and others behind it have.")
    if any(question["number"] is None and question["id"] in standing for question in questions):
        raise JsonLinesError("a label stands for a question that is not in the log.")


def _create(store, dataset, settings):
    """A new session with these settings, through the checks of every new session."""
    own = settings["parameters"]
    parts = Strategy(settings["algorithm"], settings["learner"], settings["rule"], own["learner"], own["rule"], None)
    published = ALGORITHMS.get(settings["algorithm"])
    fixed = published.fixed if published else {}
    named = {"algorithm": settings["algorithm"]} if published else {key: settings[key] for key in ("learner", "rule")}
    taken = (
        "budget", "seed", "positive_name", "negative_name", "positive_class", "name", "metric", "theta", "rho",
        "horizon", "audit", "pace",
    )  # fmt: skip
    session = create(
        store,
        dataset,
        **named,
        parameters={key: value for key, value in parts.parameters.items() if key not in fixed},
        shuffled=bool(settings["shuffled"]),
        averaged=bool(settings["averaged"]),
        audit_trains=bool(settings["audit_trains"]),
        classes=settings["classes"] or (),
        weights=metrics.Weights(settings["alpha_p"], settings["c_p"]),
        **{key: settings[key] for key in taken},
    )
    store.made_at(session, settings["created_at"], settings["engine"], settings["items"])
    made = store.session(session)
    wrong = [key for key in HEAD if made[key] != settings[key]]
    if wrong:
        raise JsonLinesError(
            f"invalid value for {wrong[0]} in the settings. Got {json.dumps(settings[wrong[0]])[:80]}."
        )
    return session

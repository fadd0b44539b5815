"""Sessions over a small random stream, and helpers to answer their questions."""

import io
import json
from itertools import count

import numpy as np
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.sessions.files.bundle import adopt, publish
from oal_engine.sessions.look_back import verify
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, create
from oal_engine.store import Store

PEOPLE = ("anna", "ben", "carla")
EVENTS = (f"event {number}" for number in count())
RUNS = [  # data, algorithm, more settings; shared, so that each pair of data and algorithm is compiled only once
    ("sparse", "PAA-I", {}),
    ("sparse", "PAA-I", {"shuffled": True, "seed": 5}),
    ("sparse", "OA3-diag", {"parameters": {"eta": 0.3}}),
    ("sparse", "PAA-I", {"audit": 0.25, "pace": 0.5, "horizon": 280, "shuffled": True}),
    ("sparse", "OAAL", {"audit": 0.5, "audit_trains": False, "averaged": True}),
    ("sparse", "D-AMD", {"shuffled": True}),
    ("sparse", "SSOA3", {"averaged": True}),
    ("sparse", "SEL-ada", {"shuffled": True}),
    ("sparse", "OAAL", {"averaged": True}),
    ("classes", "PAA-I", {"positive_class": "b"}),
    ("classes", "MD-AMD", {"shuffled": True}),
    ("classes", "MPAA-I", {"averaged": True}),
    ("classes", "auto-classes", {}),
    ("dense", "OA3", {"seed": 2, "averaged": True}),
]


def stream_of(n=300, d=8, seed=0, density=0.6, labels=(-1, 1)):
    """Return random sparse rows, and items with these rows: two linearly separable classes, one item in five
    positive."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=density, rng=rng, data_sampler=rng.normal).tocsr()
    score = X @ rng.normal(size=d)
    y = np.where(score > np.quantile(score, 0.8), labels[1], labels[0]).astype(np.int8)
    return X, reading.Items([f"i{k}" for k in range(n)], None, X, [f"f{j}" for j in range(d)], ["word"] * n, y, {})


_SCORES = stream_of()[0] @ np.random.default_rng(7).normal(size=(8, 4))
# The true labels of four questions about each item of the stream, as 1 and -1: [question, item].
TRUTHS = np.where(_SCORES > np.quantile(_SCORES, (0.5, 0.8, 0.95, 0.9), axis=0).diagonal(), 1, -1).T


def begin(store, data="sparse", algorithm="PAA-I", **more):
    """Create a session and open it."""
    return Session(store, create(store, data, algorithm, **{"budget": 40} | more))


def truth(opened):
    """Return the true label of the item that the current question asks about."""
    return int(opened.y[opened.place.asked.item])


def reply(opened, who, label=None, place=0):
    """Answer one of the questions that a person holds, and return it. place: its index among them. label: the answer;
    the true label if it is None."""
    asked = opened.held(who)[place]
    opened.answer(next(EVENTS), asked.id, int(opened.y[asked.item]) if label is None else label, who)
    return asked


def leave(store, who):
    """Let the leases of a person expire."""
    with store.transaction():
        store.db.execute("UPDATE leases SET leased_at = '2000' WHERE annotator = ?", [who])


def say(opened, label, event=None, **more):
    """Answer the current question. Return the id of the event."""
    event = event or next(EVENTS)
    opened.answer(event, opened.place.asked.id, label, **more)
    return event


def take_back(opened, event=None):
    """Undo the last answer. Return the id of the event."""
    event = event or next(EVENTS)
    opened.undo(event, opened.previous)
    return event


def label_truly(opened, count):
    """Give true answers to the next `count` questions."""
    for _ in range(count):
        say(opened, truth(opened))


def label_until_the_end(opened):
    """Give true answers until the session asks no more questions."""
    while opened.place.asked:
        say(opened, truth(opened))


def give(opened, count=1, truths=TRUTHS):
    """Give true answers about `count` items, one to each question that is asked about the item. Return the last item's
    question id."""
    for _ in range(count):
        asked = opened.current
        labels = [int(truths[k, asked.item]) if predicted else SKIP for k, (_, predicted) in enumerate(asked.parts)]
        opened.answer(next(EVENTS), asked.id, labels)
    return asked.id


def standing(store, opened):
    """Return the labels that were not undone, in order, read directly from the tables."""
    return [
        row["label"]
        for row in store.query(
            "SELECT labels.label FROM labels JOIN questions ON questions.id = question"
            " WHERE session = ? ORDER BY number",
            opened.id,
        )
    ]


def twin(store, opened, labels):
    """Create a session with the settings of another one, and answer its questions with these labels. Return it."""
    settings = store.session(opened.id)
    again = Session(
        store,
        store.add_session(
            {key: settings[key] for key in settings.keys() - {"id", "dataset_name", "created_at", "parameters"}}
            | {"parameters": json.dumps(settings["parameters"]), "classes": json.dumps(settings["classes"])}
        ),
    )
    for label in labels:
        say(again, label)
    return again


def bits(opened):
    """Return the bytes of each array in a session's state."""
    return [array.tobytes() for array in opened.state.arrays()]


def labelled(store, data="sparse", algorithm="PAA-I", **more):
    """Label a new session to its end, with skips, an undo, and every ninth answer wrong. Return the session, and
    (question, progress, weights, counts) for each question that it showed."""
    opened = begin(store, data, algorithm, **more)
    places = []
    while opened.place.asked:
        place = opened.place
        places.append((place.asked, place.progress, place.weights.copy(), place.counts.copy()))
        number, label = len(places), truth(opened)
        if number % 9 == 0:
            label = 1 + label % 4 if opened.multiclass else -label
        say(opened, 0 if number % 11 == 0 else label)
        if number == 5:
            take_back(opened)
            places.pop()
            places.append((place.asked, place.progress, place.weights.copy(), place.counts.copy()))
            say(opened, label)
    return opened, places


def database(path, name, **changes):
    """Create a database that holds a stream twice: as data set `name`, with two classes, and as `classes`, with four
    class names."""
    store = Store(path)
    items = stream_of(**changes)[1]
    datasets.add(store, name, datasets.table(items), "made.npz")
    items.classes, items.y = tuple("abcd"), 1 + (items.y > 0)
    datasets.add(store, "classes", datasets.table(items), "made.npz")
    return store


def text_of(store, session):
    """Publish a session. Return its file as text."""
    file = io.StringIO()
    publish(store, session, file)
    return file.getvalue()


def travelled(store, session, there):
    """Publish a session and adopt it in another database. Check that it verifies there and is published as the same
    file, except for the name of its data set. Return the adopted session, opened."""
    text = text_of(store, session)
    adopted = adopt(there, io.StringIO(text))
    assert verify(there, adopted).verified
    files = [each.split("\n") for each in (text, text_of(there, adopted))]  # a name may have other line ends
    assert len({json.dumps(json.loads(head)["settings"]) for head, *_ in files}) == 1
    assert files[0][1:] == files[1][1:]
    return Session(there, adopted)


def erase(store, session):
    """Delete a session for good."""
    with store.transaction():
        store.db.execute("DELETE FROM sessions WHERE id = ?", [session])

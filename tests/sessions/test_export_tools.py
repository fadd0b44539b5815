"""The table of all items, and the files for other tools: their own loaders read them, and they come back unchanged."""

import json
from dataclasses import replace

import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.output import tables, tools
from oal_engine.sessions.files import export
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, create
from oal_engine.store import Store

EVIL = [
    "=1+1",
    "a 'quote', \"two\"",
    "<b>bold</b> & co",
    "{{name}}",
    "שלום 😀",
    "- a list",
    "ER  - ",
    "key: value",
    "#N/A",
]
KINDS = {**tables.FORMATS, **tools.TOOLS}
POSITIVE = 'A "boat" & <more>'
DATA = ("papers", "texts", "classes", "numbers")


def lines(data):
    """Return the rows of a data set: papers with title and abstract, texts, texts of several classes, or numbers."""
    for k in range(60):
        evil = EVIL[k % len(EVIL)]
        text = f"{evil} word{k % 7} about boats and harbours, number {k}"
        if data == "papers":
            authors = "Roe, R; Doe, J"
            yield {"id": f"p{k}", "title": f"Study {k} of {evil}", "abstract": text, "authors": authors,
                   "year": str(1990 + k), "journal": "Boats & Ships", "doi": f"10.1/{k}", "included": k % 3 == 0}  # fmt: skip
        elif data == "numbers":
            yield {"id": f"n{k}", "a": k / 7, "b": -k, "kind": "xyz"[k % 3], "note": evil, "label": k % 2}
        else:
            label = ("ham", "spam")[k % 2] if data == "texts" else "abc"[k % 3]
            yield {"id": f"t{k}", "text": text, "source": f"{evil} {k % 4}", "label": label}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """A session over each kind of data, with answers, skips, a known label, and a question that waits."""
    folder = tmp_path_factory.mktemp("tools")
    store, opened = Store(folder / "studio.db"), {}
    for data in DATA:
        path = folder / f"{data}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in lines(data)))
        columns = reading.peek(path).guess
        if data == "texts":
            columns = replace(columns, positive=("spam",))
        if data == "classes":
            columns = replace(columns, multiclass=True)
        key = datasets.import_file(store, path, data, columns, min_df=1)[0]
        strategy = {"algorithm": "auto-classes" if data == "classes" else "PAA-I"}
        names = {"positive_name": POSITIVE, "negative_name": "Not <a> boat"}
        more = {"budget": 40, "shuffled": True, "name": f"session of {data}"}
        session = Session(store, create(store, key, **more, **strategy, **(names if data == "texts" else {})))
        for k in range(20):
            if asked := session.place.asked:
                label = SKIP if k == 5 else int(session.y[asked.item])
                session.answer(f"{data} {k}", asked.id, label, "Ann", 1.5)
        unasked = {*range(60)} - {entry.item for entry in session.log}
        session.know(f"{data} known", {min(unasked): 1}, "search")
        opened[data] = session
    return opened


def expected(session):
    """Return the label and the asking probability of each item by its id, as the log has them."""
    log = {entry.item: entry for entry in session.log}
    known = {item: row["label"] for item, row in session.known_labels.items()}
    return {
        session.dataset.item(item)["id"]: (
            known.get(item) or (log[item].label if item in log else 0) or 0,
            log[item].probability if item in log else None,
        )
        for item in range(session.order.size)
    }


def imported(session, kind, folder):
    """Import the table of all items, with the name of the positive class where it has no obvious meaning."""
    path = written(session, kind, folder)
    columns = reading.peek(path).guess
    if session.multiclass:
        columns = replace(columns, multiclass=True)
    elif session.dataset.name == "texts" and kind not in ("ris", "prodigy"):
        columns = replace(columns, positive=(POSITIVE if kind in tools.TOOLS else "spam",))
    return reading.read(path, columns)


def asking_probabilities(items):
    """Return the asking probability of each imported item."""
    at = next(at for at, name in enumerate(items.columns.details) if name.endswith("asking_probability"))
    cells = (json.loads(each)[at] if each else "" for each in items.details)
    return [float(cell) if cell else None for cell in cells]


def written(session, kind, folder):
    """Write the table of all items, and return the path."""
    path = folder / f"out{KINDS[kind].suffixes[0]}"
    export.export(session.store, session.id, "table", kind, path)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", DATA)
def test_all_items_come_back(sessions, tmp_path, data, kind):
    """Every format is imported with the same items, ids, labels and asking probabilities; numbers to the last bit."""
    session = sessions[data]
    if data == "numbers" and kind in tools.TOOLS and kind != "hugging-face":
        with pytest.raises(ValueError, match=f"^the format {kind} is for texts. The items of session of numbers are n"):
            written(session, kind, tmp_path)
        assert [] == [*tmp_path.iterdir()]
        return
    items = imported(session, kind, tmp_path)
    assert expected(session) == dict(zip(items.ids, zip(items.y.tolist(), asking_probabilities(items))))
    originals = [session.dataset.item(k) for k in range(session.order.size)]
    assert [item["id"] for item in originals] == [*items.ids]
    if data == "numbers":
        datasets.import_file(Store(tmp_path / "studio.db"), tmp_path / f"out{KINDS[kind].suffixes[0]}", "again")
        cells = [session.dataset.numbers.cells(k) for k in range(session.order.size)]
        again = datasets.Dataset(Store(tmp_path / "studio.db"), 1)
        assert cells == [again.numbers.cells(k) for k in range(session.order.size)]
    else:
        texts = [item["text"] for item in originals]
        assert [reference(text) for text in texts] == items.texts if kind == "ris" else texts == items.texts
    assert {} == items.skipped


def reference(text):
    """Return a text as references keep it: in one line, or in two of which the first is the title."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))

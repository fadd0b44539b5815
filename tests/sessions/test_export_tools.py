"""The table of all items and the files for other tools: the tools' own loaders read them, and importing them gives the
same items."""

import itertools
import json
import re
import tracemalloc
from dataclasses import replace
from zipfile import ZipFile

import pytest
import rispy
import yaml

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.output import tables, tools
from oal_engine.sessions.files import export
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, create
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.exports import rows_of
from tests.harness.sessions import begin, label_truly

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
    """Yield 60 example rows of one kind: papers with title and abstract, texts, texts with several classes, or
    numbers."""
    for k in range(60):
        evil = EVIL[k % len(EVIL)]
        text = f"{evil} word{k % 7} about boats and harbours, number {k}"
        if data == "papers":
            yield {"id": f"p{k}", "title": f"Study {k} of {evil}", "abstract": text, "authors": "Roe, R; Doe, J",
                   "year": f"{1990 + k}", "journal": "Ships", "doi": f"10.1/{k}", "included": k % 3 == 0}  # fmt: skip
        elif data == "numbers":
            yield {"id": f"n{k}", "a": k / 7, "b": -k, "kind": "xyz"[k % 3], "note": evil, "label": k % 2}
        else:
            label = ("ham", "spam")[k % 2] if data == "texts" else "abc"[k % 3]
            yield {"id": f"t{k}", "text": text, "source": f"{evil} {k % 4}", "label": label}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """Sessions over each kind of data, {kind: session}, each with answers, a skip, a known label, and a waiting
    question."""
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
        strategy = {"algorithm": "MPAA-I" if data == "classes" else "PAA-I"}
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
    """Return {item id: (label or 0, asking probability or None)}, from the log and the known labels."""
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
    """Export the table of all items and import it, naming the positive class if the file leaves it open. Return the
    items."""
    path = written(session, kind, folder)
    columns = reading.peek(path).guess
    if session.multiclass:
        columns = replace(columns, multiclass=True)
    elif session.dataset.name == "texts" and kind not in ("ris", "prodigy"):
        columns = replace(columns, positive=(POSITIVE if kind in tools.TOOLS else "spam",))
    return reading.read(path, columns)


def asking_probabilities(items):
    """Return the asking probability of each imported item, or None if it was not asked."""
    at = next(at for at, name in enumerate(items.columns.details) if name.endswith("asking_probability"))
    cells = (json.loads(each)[at] if each else "" for each in items.details)
    return [float(cell) if cell else None for cell in cells]


def written(session, kind, folder):
    """Write the table of all items in a format, and return the path."""
    path = folder / f"out{KINDS[kind].suffixes[0]}"
    export.export(session.store, session.id, "table", kind, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", DATA)
def test_all_items_come_back(sessions, tmp_path, data, kind):
    """An exported file of each format is imported as the same items, ids, labels and asking probabilities, with numbers
    equal to the bit. Formats that are only for texts refuse a session over numbers."""
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
    """Collapse the whitespace in each line of a text, as files of references (RIS) do."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


# Each tool reads its file with its own loader


def written_tasks(session, folder):
    """Write the table for Label Studio. Return its labeling config and its tasks."""
    with ZipFile(written(session, "label-studio", folder)) as archive:
        return archive.read("labeling_config.xml").decode(), json.loads(archive.read("tasks.json"))


def test_references_are_read_by_rispy(sessions, tmp_path):
    """rispy reads each reference with its title, abstract, authors and id, and its label as a note and a keyword."""
    session = sessions["papers"]
    entries = rispy.loads(written(session, "ris", tmp_path).read_text())
    decision = {1: "ASReview_relevant", -1: "ASReview_irrelevant", 0: "ASReview_not_seen"}
    keyword = {1: ["OAL label: Relevant"], -1: ["OAL label: Not relevant"], 0: None}
    rows = [*lines("papers")]
    assert len(rows) == len(entries) == 60
    for entry, row, (id, (label, _)) in zip(entries, rows, expected(session).items()):
        parts = [" ".join(row[name].split()) for name in tables.TITLE_AND_ABSTRACT]
        assert [id, *parts] == [entry["accession_number"], entry["title"], entry["abstract"]]
        assert (["Roe, R", "Doe, J"], row["doi"], row["year"]) == (entry["authors"], entry["doi"], entry["year"])
        assert (decision[label], keyword[label]) == (entry["notes"][0], entry.get("keywords"))


def test_tags_and_keywords_are_keywords_of_references(store, tmp_path):
    """Tags of a session and keywords of a file become keywords of references; a keyword in the form of our labels is
    left out."""
    lines = "".join(f"i{k},word some {k},x; OAL label: y\n" for k in range(9))
    (tmp_path / "a.csv").write_text(f"id,text,keywords\n{lines}")
    key = datasets.import_file(store, tmp_path / "a.csv", "keywords", min_df=1)[0]
    session = Session(store, create(store, key, "PAA-I", tags=["p", "q"]))
    session.tag("t1", 0, "p", True)
    session.tag("t2", 0, "q", True)
    first, second, *_ = rispy.loads(written(session, "ris", tmp_path).read_text())
    assert (["p", "q", "x"], ["x"]) == (first["keywords"], second["keywords"])
    assert [0] * 9 == reading.read(tmp_path / "out.ris").y.tolist()


@pytest.mark.parametrize("data", ["texts", "classes"])
@pytest.mark.filterwarnings("ignore")
def test_tasks_are_valid_in_label_studio(sessions, tmp_path, data):
    LabelInterface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface
    config, tasks = written_tasks(sessions[data], tmp_path)
    interface = LabelInterface(config)
    interface.validate()
    assert [*sessions[data].names.values()] == [*interface.get_control("label").labels]
    for task in tasks:
        assert interface.validate_task({"data": task["data"]})
        assert all(interface.validate_annotation(each) for each in task["annotations"] if not each["was_cancelled"])
        assert all(map(interface.validate_prediction, task["predictions"]))


@pytest.mark.parametrize("data", ["texts", "classes", "numbers"])
@pytest.mark.filterwarnings("ignore")
def test_the_folder_is_read_by_hugging_face(sessions, tmp_path, data):
    """The `datasets` library of Hugging Face reads the class names from the folder, and each item's id, label and
    asking probability."""
    library, session = pytest.importorskip("datasets"), sessions[data]
    with ZipFile(written(session, "hugging-face", tmp_path)) as archive:
        archive.extractall(tmp_path / "folder")
    loaded = library.load_dataset(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))["train"]
    classes = loaded.features["label"]
    assert {*session.names.values()} == {*classes.names}
    labels = [0 if row["label"] is None else classes.int2str(row["label"]) for row in loaded]
    truth = expected(session)
    assert [session.names.get(label, 0) for label, _ in truth.values()] == labels
    assert [probability for _, probability in truth.values()] == loaded["asking_probability"][:]
    assert [*truth] == loaded["id"][:]


def test_the_head_of_the_card_is_yaml(sessions, tmp_path):
    """The YAML header of the data set card keeps quotes and markup in names, and states the file's rows and bytes."""
    with ZipFile(written(sessions["texts"], "hugging-face", tmp_path)) as archive:
        head = yaml.safe_load(archive.read("README.md").decode().split("---")[1])["dataset_info"]
        size = archive.getinfo(tools.DATA_FILE).file_size
    features = {each["name"]: each["dtype"] for each in head["features"]}
    assert {"0": "Not <a> boat", "1": POSITIVE} == features["label"]["class_label"]["names"]
    assert [{"name": "train", "num_bytes": size, "num_examples": 60}] == head["splits"]


@pytest.mark.parametrize("data", ["texts", "classes"])
def test_examples_of_prodigy_have_an_answer(sessions, tmp_path, data):
    """A Prodigy example is accepted or rejected by its label, or its class is chosen; without a label it is ignored."""
    session = sessions[data]
    examples = [json.loads(line) for line in written(session, "prodigy", tmp_path).read_text().splitlines()]
    for example, (id, (label, probability)) in zip(examples, expected(session).items()):
        assert (id, probability) == (example["meta"]["id"], example["meta"]["asking_probability"])
        if session.multiclass:
            chosen = [session.names[label]] if label else []
            assert (chosen, "accept" if label else "ignore") == (example["accept"], example["answer"])
            assert [*session.names.values()] == [option["id"] for option in example["options"]]
        else:
            assert {1: "accept", -1: "reject", 0: "ignore"}[label] == example["answer"]
            assert POSITIVE == example["label"]


def test_a_skipped_item_is_a_cancelled_annotation(sessions, tmp_path):
    """A skip is written for Label Studio as a cancelled annotation, which is how it stores its own skips."""
    session = sessions["texts"]
    skipped = {session.dataset.item(entry.item)["id"] for entry in session.log if entry.label == SKIP}
    _, tasks = written_tasks(session, tmp_path)
    cancelled = {task["data"]["id"] for task in tasks for each in task["annotations"] if each["was_cancelled"]}
    assert skipped == cancelled != set()
    assert all(not each["result"] for task in tasks for each in task["annotations"] if each["was_cancelled"])


def test_the_table_has_the_words_of_the_data(sessions, tmp_path):
    """Labels and predictions are words of the file, or 1 and 0 if it has none; title and abstract are two columns."""
    words = {}
    for data, session in sessions.items():
        rows = rows_of("jsonl", written(session, "jsonl", tmp_path).read_bytes())
        words[data] = {row["label"] for row in rows if row["label"] is not None}
        assert words[data] == {row["predicted"] for row in rows} | words[data]
        assert {"answer", "model", "known: search"} == {row["origin"] for row in rows}
        contents = {"papers": [*tables.TITLE_AND_ABSTRACT], "numbers": ["a", "b", "kind", "note"]}.get(data, ["text"])
        assert ["id", *contents, *tables.LABELED] == [*rows[0]][: len(contents) + 6]
    assert {"papers": {"true", "false"}, "texts": {"spam", "ham"}, "classes": {*"abc"}, "numbers": {"1", "0"}} == words


@pytest.mark.slow
def test_every_format_of_a_tool_streams(sessions, tmp_path):
    session = sessions["texts"]
    made, _ = export.labeled_items(session)
    first = next(iter(made.items))
    rows = 20_000
    for kind, tool in tools.TOOLS.items():
        wide = (first._replace(cells=first.cells | {"id": f"{k}", "text": "word " * 100}) for k in range(rows))
        with (tmp_path / kind).open("wb") as file:
            tracemalloc.start()
            tool.write(made._replace(items=wide, total=rows), file)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 6e6 < rows * 500


def test_the_commands_of_the_table_in_the_docs_work(sessions, tmp_path, monkeypatch, command):
    """For each external tool, the table in docs/data.md has a working command that exports a file for the tool, and one
    that imports this file without options."""
    page = (ROOT / "docs" / "data.md").read_text().partition("## From and to other tools")[2]
    rows = re.findall(r"^\| [^|]+ \| `(export [^`]+)` \| `(import [^`]+)` \|", page, re.MULTILINE)
    assert len(rows) == 8
    monkeypatch.chdir(tmp_path)
    session, formats = sessions["papers"], set()
    for line in itertools.chain.from_iterable(rows):
        words = line.replace("export 1 ", f"export {session.id} ").split()
        code, _, errors = command(*words, "--db", session.store.path)
        assert code == 0, errors
        formats |= {kind for kind in tools.TOOLS if f" {kind} " in line or line.endswith(f".{kind}")}
        if line.startswith("import"):
            again = datasets.Dataset(session.store, words[-1])
            known = {each["id"]: each["y"] for each in map(again.item, range(60))}
            assert {id: label for id, (label, _) in expected(session).items()} == known
    assert {*tools.TOOLS} == formats


@pytest.mark.slow
def test_labels_without_predictions_are_written(store, tmp_path):
    """If the learner cannot be stored as a model file (second-order perceptron), the table of all items is exported
    without predictions, and the message gives the reason."""
    opened = begin(store, "dense", None, learner="sop", rule="all")
    label_truly(opened, 5)
    sentence = export.export(store, opened.id, "table", "jsonl", tmp_path / "out.jsonl")
    assert sentence.startswith("Written without predictions: sop predicts with a matrix over all pairs of features")
    rows = rows_of("jsonl", (tmp_path / "out.jsonl").read_bytes())
    assert {None} == {row["predicted"] for row in rows} == {row["score"] for row in rows}
    assert 5 == sum(row["label"] is not None for row in rows)
    export.export(store, opened.id, "table", "hugging-face", tmp_path / "out.zip")
    assert 5 == (reading.read(tmp_path / "out.zip").y != 0).sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "ris"), "--format ris is for the table of all items (--what table). Got labels."),
        (("--what", "table", "--out", "x.zip"),
         "the name of the file to write must end in .csv, .csv.gz, .tsv, .jsonl, .parquet, .xlsx or .ris. Got x.zip."),
        (("--what", "table", "--format", "prodigy", "--out", "x.json"),
         "the name of the file to write must end in .jsonl. Got x.json."),
    ],
)  # fmt: skip
def test_a_format_that_does_not_fit_is_refused(sessions, command, options, message):
    """A format for another tool is refused in three cases: for a table other than the table of all items, with a wrong
    file suffix, or if --format is missing and several formats share the suffix."""
    session = sessions["papers"]
    assert (1, "", f"error: {message}\n") == command("export", session.id, *options, "--db", session.store.path)

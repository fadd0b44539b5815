"""Exports of a session can be imported unchanged, are written whole or not at all, and stream any number of rows."""

import io
import json
import tracemalloc
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from oal_engine import datasets
from oal_engine.cli import main as cli
from oal_engine.datasets import reading
from oal_engine.datasets.reading import readers
from oal_engine.experiments.replays import ReplayOptions, replay
from oal_engine.kernel import stream
from oal_engine.kernel.learners import linear
from oal_engine.output import tables
from oal_engine.sessions import model
from oal_engine.sessions.files import export
from oal_engine.sessions.insights import outcome
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, create
from oal_engine.store import Store
from tests.harness.exports import TYPED, plain, rows_of
from tests.harness.sessions import EVENTS, RUNS, begin, give, label_truly, label_until_the_end, say

EVIL = [
    'a "quote", a comma', "two\nlines", "two\r\nlines", "one\rreturn", "=1+1", "@SUM(A1)", "-2+3|cmd", "שלום עולם",
    "مرحبا, 123",
    "😀👩‍👩‍👧 flag 🇩🇪", " a leading blank", "a trailing one ", "tab\there", ";", "'", '"', "\u2028 line", "1",
    "None", "null", "NaN", "<b>bold</b>", "漢字",
]  # fmt: skip

USUAL = [what for what in export.TABLES if what != "audit"]  # only sessions that audit a column have this table


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A session over texts that are hard to export, all but the last answered, with a skip, a correction and a note."""
    store = Store(tmp_path_factory.mktemp("export") / "studio.db")
    y = np.array([1, -1] * 20, np.int8)[: len(EVIL) + 1]
    words = [f"{text} word" for text in EVIL] + ["word"]
    items = reading.Items(
        [f"=id{k},1" for k in range(len(words))], words, None, [], [""] * len(words), np.zeros_like(y), {}
    )
    datasets.add(store, "evil", datasets.table(items, min_df=1), "made.csv")
    opened = Session(store, create(store, "evil", learner="pa-i", rule="all", budget=100, positive_name='=A, "b"'))
    for k in range(len(EVIL)):
        opened.answer(f"e{k}", opened.place.asked.id, SKIP if k == 5 else int(y[k]), 'Ann, "A"', 0.5)
    corrected, noted = opened.history[2], opened.history[3]
    opened.correct("c0", corrected.id, -corrected.label, "=Bob")
    opened.note("n0", noted.item, '=a "note",\n😀')
    return opened


def written(table, kind):
    file = io.BytesIO()
    tables.write(table, kind, file)
    return file.getvalue()


def table(opened, what):
    if what == "labels":
        return export.labels(opened.store, opened.id)[0]
    return export.TABLES[what](opened, True)[0]


@pytest.mark.parametrize("kind", tables.FORMATS)
@pytest.mark.parametrize("what", ["labels", "decisions"])
def test_labels_and_texts_come_back_as_they_are(texts, tmp_path, what, kind):
    file = tmp_path / f"out{tables.FORMATS[kind].suffixes[0]}"
    export.export(texts.store, texts.id, what, kind, file, texts=True)
    items = reading.read(file)
    log = texts.history
    assert [texts.dataset.item(entry.item)["text"] for entry in log] == items.texts
    assert [texts.dataset.item(entry.item)["id"] for entry in log] == items.ids
    assert [entry.label or 0 for entry in log] == items.y.tolist()
    assert {} == items.skipped


def table_file(path):
    """Write a table of numbers with columns named as in an export or like a formula, and with further columns."""
    lines = ["margin,=1+1,height,text,features,label,year,title", *(
        f"{k / 7!r},{-k},{1e100 / (k + 1)!r},{k % 3},{-1 / (k + 3)!r},{k % 2},{2000 + k},=A {k}" for k in range(30)
    )]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return reading.Columns(label="label", features=("margin", "=1+1", "height", "text", "features"))


def sparse_file(path):
    """Write sparse lines with columns numbered from 0. The first column occurs only in the first item, and the last
    column only in the last item."""
    middle = [f"{(k % 2) * 2 - 1} {k}:{k / 3!r} {k + 7}:-{k / 9!r}" for k in range(1, 29)]
    path.write_text("\n".join(["1 0:0.5 3:2", *middle, "-1 1:1 400:1e-300"]) + "\n")


def array_file(path):
    """Write an array without column names and without labels."""
    with path.open("wb") as file:
        np.save(file, np.random.default_rng(1).normal(size=(30, 300)))


FILES = {"a.csv": table_file, "a.svmlight": sparse_file, "a.npy": array_file}


@pytest.mark.slow
@pytest.mark.parametrize("kind", tables.FORMATS)
@pytest.mark.parametrize("name", FILES)
def test_numbers_come_back_as_they_are(tmp_path, name, kind):
    """An export of a session over numbers can be imported without options. The import has the same ids, labels, column
    names and further columns, and the same numbers, bit for bit."""
    store, file = Store(tmp_path / "studio.db"), tmp_path / name
    columns = FILES[name](file)
    data = datasets.Dataset(store, datasets.import_file(store, file, "numbers", columns)[0])
    opened = Session(store, create(store, "numbers", learner="pa-i", rule="all", budget=100, shuffled=True))
    for k in range(20):
        say(opened, SKIP if k == 5 else 1 - 2 * (k % 2))
    renamed = {each: f"item_{each}" for each in ("margin", "text", "features")}
    for what in ("labels", "decisions", "predictions", "positives"):
        out = tmp_path / f"{what}{tables.FORMATS[kind].suffixes[0]}"
        export.export(store, opened.id, what, kind, out, texts=True)
        again = datasets.Dataset(store, datasets.import_file(store, out, what)[0])
        order = [int(row["position"]) for row in rows_of(kind, out.read_bytes())]
        assert [renamed.get(each, each) for each in data.feature_names] == again.feature_names
        numbers = [data.numbers.of_item(position) for position in order]
        assert [[*map(bytes, each)] for each in numbers] == [
            [*map(bytes, again.numbers.of_item(k))] for k in range(len(order))
        ]
        assert type(data.rows) is type(again.rows)
        items = [again.item(k) for k in range(len(order))]
        assert [data.item(position)["id"] for position in order] == [item["id"] for item in items]
        answers = {entry.item: entry.label for entry in opened.history}
        assert [answers.get(position) or 0 for position in order] == [item["y"] for item in items]
        kept = [store.details(data.id, [position]).get(position) for position in order]
        assert data.details == again.details[len(again.details) - len(data.details) :]
        for k, words in enumerate(kept):
            assert words is None or words == store.details(again.id, [k])[k][-len(words) :]


def test_an_export_without_its_items_says_so(store, tmp_path):
    """Decisions that were exported without the texts or numbers of their items cannot be imported, and the error says
    so."""
    opened = begin(store)
    say(opened, 1)
    export.export(store, opened.id, "decisions", "csv", tmp_path / "out.csv")
    with pytest.raises(reading.DataError, match=r"^out\.csv was exported without its texts or numbers: .*--texts"):
        reading.read(tmp_path / "out.csv")


def test_labels_are_exported_where_the_numbers_cannot_be_read(tmp_path):
    """If the rows of a session's data set are lost, its labels are still exported, with a message that the numbers are
    missing."""
    store = Store(tmp_path / "studio.db")
    array_file(tmp_path / "a.npy")
    datasets.import_file(store, tmp_path / "a.npy", "lost")
    opened = Session(store, create(store, "lost", learner="pa-i", rule="all", budget=100))
    say(opened, 1)
    (opened.dataset.folder / "numbers.npy").unlink()
    sentence = export.export(store, opened.id, "labels", "jsonl", tmp_path / "out.jsonl")
    assert sentence.startswith("Written without the numbers of the items: the rows of the data set lost cannot be read")
    assert [1, None] == [row["label"] for row in rows_of("jsonl", (tmp_path / "out.jsonl").read_bytes())]


@pytest.mark.parametrize("what", USUAL)
def test_no_cell_of_csv_for_spreadsheets_is_a_formula(texts, what):
    """In the format csv-guarded no text begins with a character that starts a spreadsheet formula, and numbers stay
    numbers."""
    exported = table(texts, what)
    for row in rows_of("csv-guarded", written(exported, "csv-guarded")):
        for name, kind in exported.columns.items():
            if kind is str:
                assert row[name][:1] not in tuple("=+-@\t\r\n")
            else:
                assert row[name] == "" or float(row[name]) is not None


@pytest.mark.parametrize("data", ["sparse", "classes"])
def test_an_import_knows_every_table_that_is_written_here(store, data):
    """An import recognizes each exported table by its first columns, and so removes the apostrophes before formulas."""
    opened = begin(store, data, "MPAA-I" if data == "classes" else "PAA-I")
    exported = [table(opened, what) for what in USUAL if not (opened.multiclass and what == "positives")]
    exported.append(model.predicted({"": model.of_session(opened)}, readers.ParsedFile([], []), [], [], {}))
    assert [] == [[*each.columns] for each in exported if not tables.is_own([*each.columns])]


FORMULAS = st.text(
    st.sampled_from("'=+-@\t\r\n＝1") | st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)


@pytest.mark.parametrize("kind", ["csv", "csv-guarded"])
@settings(deadline=None)
@given(st.lists(FORMULAS, min_size=1))
def test_any_text_comes_back_from_csv(kind, words):
    """A text that begins like a formula, with or without an apostrophe before it, is read back unchanged."""
    columns = export.DECISIONS | {"text": str}
    rows = [(k, f"n{k}", k, -0.5, -1, 1, 0, -1, "no", "answer", word) for k, word in enumerate(words)]
    file = io.BytesIO(written(tables.OutputTable(columns, rows), kind))
    file.name = "x.csv"
    expected = {f"n{k}": word for k, word in enumerate(words) if word.strip()}
    if expected:
        items = reading.read(file, reading.Columns(("text",), id="id"))
        assert expected == dict(zip(items.ids, items.texts))
        file.seek(0)
        assert {"margin", "predicted"} <= set(reading.peek(file).numeric)


@pytest.mark.parametrize("what", USUAL)
def test_every_format_holds_the_same_table(texts, what):
    """All formats hold the same values, except that CSV has only text, and only the formats for spreadsheets put
    apostrophes before formulas."""
    by_format = {kind: rows_of(kind, written(table(texts, what), kind)) for kind in tables.FORMATS}
    for kind, rows in by_format.items():
        assert (by_format["jsonl"] if kind in TYPED else plain(by_format["jsonl"], kind)) == rows


def test_a_workbook_has_the_numbers_of_every_question(store):
    """If a session asks several questions, the margins of each are numbers in a workbook, the same as in JSON lines."""
    opened = begin(store, "unlabelled", questions=["half", "third"])
    give(opened, 5)
    rows, cells = (rows_of(kind, written(table(opened, "decisions"), kind)) for kind in ("jsonl", "xlsx"))
    assert plain(rows, "xlsx") == cells


def test_labels_have_corrections_notes_and_annotators(texts):
    rows = rows_of("jsonl", written(table(texts, "labels"), "jsonl"))
    assert list(export.LABELS) == list(rows[0])
    assert [3] == [row["number"] for row in rows if row["corrected"]]
    assert ('=A, "b"', "Not relevant", -1, "=Bob") == tuple(
        rows[2][key] for key in ("first", "class", "label", "annotator")
    )
    assert {4: '=a "note",\n😀'} == {row["number"]: row["note"] for row in rows if row["note"] is not None}
    assert (None, "skipped") == (rows[5]["label"], rows[5]["class"])
    assert (None, None, None) == tuple(rows[-1][key] for key in ("label", "class", "annotator"))


def test_decisions_are_those_of_every_round(store):
    """The exported decisions have the margin and prediction of each round, and its answer if there is one, in the order
    of the stream."""
    opened = begin(store, shuffled=True, seed=4)
    label_truly(opened, 12)
    decisions, _ = export.decisions(opened)
    rows = [dict(zip(decisions.columns, row)) for row in decisions.rows]
    margins, predicted, asked = opened.decided
    assert margins.tolist() == [row["margin"] for row in rows]
    assert predicted.tolist() == [row["predicted"] for row in rows]
    assert asked.tolist() == [bool(row["asked"]) for row in rows]
    assert opened.order[: len(rows)].tolist() == [row["position"] for row in rows]
    answers = {entry.round + 1: entry.label for entry in opened.history}
    assert [answers.get(row["round"]) for row in rows] == [row["label"] for row in rows]
    assert [f"i{row['position']}" for row in rows] == [row["id"] for row in rows]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_classes_come_back_by_their_names(store, tmp_path, kind):
    """Exports of a multi-class session can be imported without options, and keep the class names. Skipped and waiting
    items have no class."""
    opened = begin(store, "classes", "auto-classes")
    for k in range(20):
        say(opened, SKIP if k == 5 else 1 + k % 4)
    expected = {opened.dataset.item(entry.item)["id"]: "-abcd"[entry.label or 0] for entry in opened.history}
    for what in ("labels", "decisions", "predictions"):
        export.export(store, opened.id, what, kind, tmp_path / f"out{tables.FORMATS[kind].suffixes[0]}", texts=True)
        items = reading.read(tmp_path / f"out{tables.FORMATS[kind].suffixes[0]}")
        assert tuple("abcd") == items.classes
        made = {id: ("-", *items.classes)[y] for id, y in zip(items.ids, items.y.tolist())}
        assert made == dict.fromkeys(items.ids, "-") | expected


def test_an_edited_cell_of_sparse_numbers_is_a_broken_line(store, tmp_path):
    opened = begin(store)
    label_truly(opened, 20)
    export.export(store, opened.id, "labels", "jsonl", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for line, cell in zip(lines[3:], (None, "", "1:2 3", "1:0 x:1", "1:0\n2:0 9:1", "1:0 2:nan", 5)):
        line["features"] = cell
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    items = reading.read(tmp_path / "out.jsonl")
    assert {"broken line": (5, 4), "non-finite row": (1, 9)} == items.skipped
    kept = [line["id"] for k, line in enumerate(lines) if k not in (3, 4, 5, 6, 8, 9)]
    assert kept == items.ids
    ends = items.vectors[[3]].toarray().ravel().tolist()
    assert ([0] * 8 + [1], 9) == (ends, len(items.feature_names))


@pytest.mark.parametrize(("data", "algorithm"), [
    ("sparse", "PAA-I"), ("classes", "MPAA-I"), ("classes", "auto-classes"), ("dense", "PAA-I"),
])  # fmt: skip
def test_predictions_are_those_of_the_model_with_the_surest_first(store, data, algorithm):
    """The exported predictions list every item once, pushed items first, by falling margin, with its label if it was
    answered."""
    opened = begin(store, data, algorithm, shuffled=True)
    label_truly(opened, 20)
    predictions, message = export.predictions(opened)
    rows = [dict(zip(predictions.columns, row)) for row in predictions.rows]
    assert message.startswith("No probability after 20 labels")
    assert sorted(opened.order.tolist()) == sorted(row["position"] for row in rows)
    margins = [row["margin"] for row in rows]
    assert sorted(margins, reverse=True) == margins
    fitted = model.of_session(opened)
    scores = fitted.scores(opened.dataset.rows)
    for row in rows:
        assert row["position"] == opened.order[row["round"] - 1]
        margin, predicted = (values[0] for values in fitted.decided(scores[[row["position"]]]))
        assert (margin, predicted) == (row["margin"], row["predicted"])
        assert fitted.classes[predicted] == row["predicted_class"]
        if opened.multiclass:
            assert scores[row["position"]].tolist() == [row[f"score: {name}"] for name in fitted.classes.values()]
    if not opened.multiclass:
        assert sorted((row["predicted"] for row in rows), reverse=True) == [row["predicted"] for row in rows]
    answers = {entry.item: entry.label for entry in opened.history}
    assert answers == {row["position"]: row["label"] for row in rows if row["asked"]}


def taken_home(opened):
    """Return the answer of each item, or its exported prediction if it was not answered, in the order of positions."""
    exported, _ = export.predictions(opened)
    rows = [dict(zip(exported.columns, row)) for row in exported.rows]
    return [row["label"] or row["predicted"] for row in sorted(rows, key=itemgetter("position"))]


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
def test_the_list_of_a_replay_is_what_a_session_exports(store, data, algorithm, more):
    """Take the answers of a session, and its exported predictions for all other items. Scikit-learn's metrics of this
    list equal the `list` metrics of a replay with the same settings. Its F1 also equals the one stated for the list of
    positives, even if an answer is wrong."""
    opened = begin(store, data, algorithm, **more)
    label_until_the_end(opened)
    listed, settings = taken_home(opened), opened.settings
    options = ReplayOptions(
        positive=settings.positive_class and [settings.positive_class], rho="laplace", budget=40, seed=settings.seed,
        average=settings.averaged, audit=settings.audit, audit_trains=settings.audit_trains, pace=settings.pace,
    )  # fmt: skip
    if settings.horizon is None:
        found = replay(opened.strategy, opened.dataset, [opened.order], options)["runs"][0]["list"]
        if opened.multiclass:
            assert sk.accuracy_score(opened.y, listed) == pytest.approx(found["accuracy"])
            assert sk.f1_score(opened.y, listed, average="macro") == pytest.approx(found["macro_f1"])
        else:
            assert sk.f1_score(opened.y, listed) == pytest.approx(found["f1"])
            assert sk.recall_score(opened.y, listed, pos_label=-1) == pytest.approx(found["specificity"])
    if not opened.multiclass and linear(opened.learner):
        wrong = opened.history[0]
        opened.correct(next(EVENTS), wrong.id, -wrong.label, "")
        ranking = outcome.of_session(opened).ranking
        assert sk.f1_score(opened.y, taken_home(opened)) == pytest.approx(ranking.depths([ranking.listed])[0].f1.value)


def test_the_positives_are_what_was_answered_or_is_predicted_so(store):
    """The list of positives has the items answered or (if unanswered) predicted as positive, by falling margin."""
    opened = begin(store, "sparse", "PAA-I", shuffled=True)
    label_truly(opened, 20)
    predictions, positives = (
        [dict(zip(exported.columns, row)) for row in exported.rows]
        for exported, _ in (export.predictions(opened), export.positives(opened))
    )
    expected = [row["position"] for row in predictions if (row["label"] or row["predicted"]) > 0]
    assert 0 < len(expected) < len(predictions)
    assert expected == [row["position"] for row in positives]
    assert [*range(1, len(expected) + 1)] == [row["rank"] for row in positives]
    more = [dict(zip(further.columns, row)) for further in [export.positives(opened, first=len(expected) + 5)[0]]
            for row in further.rows]  # fmt: skip
    assert positives == more[:-5]
    negative = [row["position"] for row in predictions if row["label"] == -1]
    assert not {*negative} & {row["position"] for row in more}


@pytest.mark.parametrize(("data", "algorithm"), [("sparse", "PAA-I"), ("sparse", "auto"), ("unlabelled", "PAA-I")])
def test_the_outcome_by_hand(store, data, algorithm):
    """The outcome has the numbers of labels, of positives, and of positives that random questions would have given. The
    last one is exact if the data has labels, else an estimate with an interval. The list has the answered positives,
    and the unanswered items that are predicted as positive."""
    opened = begin(store, data, algorithm, shuffled=True, budget=100)
    assert [] == outcome.of_session(opened).sentences("Good")
    for k in range(30):
        say(opened, 1 if k % 3 == 0 else -1)
    reached, log = outcome.of_session(opened), [entry for entry in opened.log if entry.label]
    weights = [1 / entry.probability for entry in log]
    share = sum(weight for weight, entry in zip(weights, log) if entry.label > 0) / sum(weights)
    value, low, high = reached.share
    assert (30, 10) == reached[:2]
    first, second = reached.sentences("Good")
    assert first.startswith("10 of 30 answers are Good (33 %). Random questions would have given about ")
    if data == "unlabelled":
        assert pytest.approx(share) == value
        assert low < value < high
        assert "; 95 % interval: " in first
    else:
        assert value == low == high == (opened.y > 0).mean()
        assert first.endswith(f"about {30 * value:.0f} ({100 * value:.0f} %).")
    assert len(list(export.positives(opened)[0].rows)) == reached.listed.sum()
    scores = np.empty((opened.rounds, 1))
    stream.scores(opened.dataset.rows, opened.learner, 0.0, scores)
    listed = scores[opened.order, 0] >= 0
    listed[[entry.round for entry in log]] = [entry.label > 0 for entry in log]
    assert listed.tolist() == reached.listed.tolist()
    (depth,) = reached.ranking.depths([reached.listed.sum()])
    assert second == f"The list of positives has {depth.items} of {opened.rounds} items: {depth.sentence}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", tables.FORMATS)
@given(st.lists(st.tuples(st.none() | st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.integers(-9, 9),
                          st.none() | st.floats(allow_nan=False, allow_infinity=False)), max_size=8))  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_any_table_comes_back_unchanged(kind, rows):
    """Texts, whole numbers, floats and missing values are unchanged after writing and reading them, in every format."""
    columns = {"text": str, "whole": int, "number": float}
    result = rows_of(kind, written(tables.OutputTable(columns, rows), kind))
    expected = [dict(zip(columns, row)) for row in rows]
    if kind == "xlsx":  # a workbook does not tell an empty row from none
        expected, result = ([row for row in plain(each, kind) if any(row.values())] for each in (expected, result))
    assert (expected if kind in TYPED else plain(expected, kind)) == result


@pytest.mark.slow
@pytest.mark.parametrize("kind", tables.FORMATS)
def test_a_table_is_streamed(kind, tmp_path):
    """Writing a table keeps few blocks of rows in memory at a time, and reports its progress after each block."""

    def rows(count):
        return ((k, f"{k:0500}", k / 7) for k in range(count))

    columns, calls = {"a": int, "b": str, "c": float}, []
    with (tmp_path / "small").open("wb") as file:  # so that all imports are done
        tables.write(tables.OutputTable(columns, rows(10), 10), kind, file)
    tracemalloc.start()
    with (tmp_path / "large").open("wb") as file:
        tables.write(tables.OutputTable(columns, rows(20_000), 20_000), kind, file, lambda *done: calls.append(done))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e6 < 20_000 * 500
    assert [(done, 20_000) for done in range(tables.BLOCK_ROWS, 20_001, tables.BLOCK_ROWS)] == calls


def test_a_workbook_is_never_cut():
    """A text that is too long for a cell of a workbook stops the export, and the error suggests another format."""
    text = "=" + "a" * tables.MAX_CELL_CHARACTERS
    message = (
        f"^a cell of a workbook has at most 32,767 characters. Got 32,769: '={'a' * 39}'... Choose another format.$"
    )
    with pytest.raises(ValueError, match=message):
        written(tables.OutputTable({"text": str}, [(text,)]), "xlsx")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    """A failure halfway through leaves the old content of a file and no other file; a symbolic link stays a link."""
    (tmp_path / "kept.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("kept.csv")
    with pytest.raises(ZeroDivisionError), tables.whole(tmp_path / "kept.csv") as file:
        file.write(b"half" * (1 // (file.write(b"half") - 4)))
    assert "old" == (tmp_path / "kept.csv").read_text()
    assert ["kept.csv", "link.csv"] == sorted(each.name for each in tmp_path.iterdir())
    with tables.whole(tmp_path / "link.csv") as file:
        file.write(b"new")
    assert "new" == (tmp_path / "kept.csv").read_text()
    assert (tmp_path / "link.csv").is_symlink()
    with tables.whole("/dev/null") as file:
        file.write(b"gone")


@pytest.mark.parametrize(
    ("options", "kind"),
    [(("--format", "parquet"), "parquet"), (("--what", "model"), "json.gz"), (("--format", "csv"), "")],
)
def test_bytes_are_never_written_to_a_terminal(texts, monkeypatch, options, kind):
    """A binary export to a terminal is refused, and the error suggests a file or a pipe. A text export is shown."""
    monkeypatch.setattr("sys.argv", ["oal_engine", "export", str(texts.id), "--db", str(texts.store.path), *options])
    shown, errors = Screen(), Screen()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setattr("sys.stderr", errors)
    with pytest.raises(SystemExit):
        cli.main()
    refusal = f"error: {kind} is not text: name a file (--out FILE), or send it to another program."
    assert (kind != "") == (refusal in errors.buffer.getvalue().decode())
    assert (kind == "") == (shown.buffer.getvalue() != b"")


class Screen(io.TextIOWrapper):
    """A fake terminal that records its output."""

    def __init__(self):
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self):
        """Return True, as for a terminal."""
        return True


@pytest.mark.slow
def test_the_command_line_names_what_it_can_export(texts, tmp_path, monkeypatch, capsysbinary):
    """`export` writes the same content to a file and to standard output, in every format. It refuses unknown formats
    and contents, and names the known ones."""

    def run(*arguments):
        monkeypatch.setattr(
            "sys.argv", ["oal_engine", "export", str(texts.id), "--db", str(texts.store.path), *arguments]
        )
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsysbinary.readouterr()

    for what in (*USUAL, "model", "report", "methods"):
        for kind in (
            tables.FORMATS
            if what in export.TABLES
            else ({"model": "json.gz", "report": "html", "methods": "md"}[what],)
        ):
            out = tmp_path / f"{what}{tables.FORMATS[kind].suffixes[0] if what in export.TABLES else f'.{kind}'}"
            options = ("--format", kind) if what in export.TABLES else ()
            code, stdout, stderr = run("--what", what, "--output", str(out), *options)
            assert (0, b"") == (code, stdout)
            assert (what in ("predictions", "positives", "table")) == (b"No probability after 22 labels" in stderr)
            code, printed = run("--what", what, *options)[:2]
            assert code == 0
            if kind == "xlsx":  # a workbook has the time in it
                assert rows_of(kind, out.read_bytes()) == rows_of(kind, printed)
            else:
                assert out.read_bytes() == printed
    message = f"error: --what must be one of {', '.join(export.TABLES)}, model, report, methods. Got all.\n".encode()
    assert (1, b"", message) == run("--what", "all")
    for what in ("report", "model", "methods"):
        message = f"error: --texts is for tables: {', '.join(export.TABLES)}. Got {what}.\n".encode()
        assert (1, b"", message) == run("--what", what, "--texts")
    message = b"error: --format must be one of markdown, word, text. Got csv.\n"
    assert (1, b"", message) == run("--what", "methods", "--format", "csv")
    message = b"error: --format must be one of json.gz, json, skops. Got csv.\n"
    assert (1, b"", message) == run("--what", "model", "--format", "csv")
    message = f"error: --format must be one of {', '.join(tables.FORMATS)}. Got xml.\n".encode()
    assert (1, b"", message) == run("--format", "xml")

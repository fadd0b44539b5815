"""Appended items are stored once and reach open sessions, and sessions over them are rebuilt bit for bit."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from threading import Event

import numpy as np
import pytest
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import scaling
from oal_engine.datasets.feeds import AppendCounts
from oal_engine.kernel import rows
from oal_engine.output.jsonlines import JsonLinesError
from oal_engine.sessions.files import bundle
from oal_engine.sessions.look_back import Trace, verify
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import POSITIVE
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.sessions import begin, label_until_the_end, say, stream_of, truth

FIRST, LATER = 120, 180  # items of a stream that are imported first, and items that are appended later
TEXTS = [("t1", "so #happy today", "pos"), ("t2", "a sad day today", "neg"), ("t3", "so #happy a day", "pos")]
COLUMNS = reading.Columns(("text",), "label", "id", positive=("pos",))


def part(items, some):
    """Return the items of a stream at the indices `some`, with their labels as words."""
    words = [str(y) for y in items.y[some]]
    return reading.Items(
        items.ids[some], None, items.vectors[some], items.feature_names, words, items.y[some], {}
    )  # fmt: skip


@pytest.fixture
def stream(store):
    """The items of a stream, stored as two data sets: `whole` has all of them, `first` only the first FIRST items."""
    items = stream_of(FIRST + LATER)[1]
    datasets.add(store, "whole", datasets.table(part(items, slice(None))), "made.npz")
    datasets.add(store, "first", datasets.table(part(items, slice(FIRST))), "made.npz")
    return items


def later(store, items, first=FIRST, stop=FIRST + LATER, name="first"):
    """Append items of the stream over a separate connection, as another process would. Return the AppendCounts."""
    other = Store(store.path)
    taken = feeds.append(Dataset(other, name), part(items, slice(first, stop)))
    other.close()
    return taken


@pytest.fixture
def texts(store, tmp_path):
    """The data set `texts`: three texts with ids and labels, and a vocabulary of all their words."""
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(dict(zip(("id", "text", "label"), line))) + "\n" for line in TEXTS))
    return Dataset(store, datasets.import_file(store, path, "texts", COLUMNS, min_df=1, tokenizer="tweets")[0])


def fed(dataset, *lines, **more):
    """Append lines as if from a pipe. Return the total AppendCounts."""
    file = io.BytesIO(b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines))
    return sum(feeds.append_lines(dataset, file, **more), AppendCounts())


def stored(store, dataset, columns="id, text, label, y"):
    records = store.query(f"SELECT {columns} FROM items WHERE dataset = ? ORDER BY position", dataset.id)
    return [tuple(row.values()) for row in records]


def array(dataset):
    return np.asarray(rows.matrix(dataset.rows) @ np.eye(dataset.rows.columns))


# Appended items


def test_lines_of_json_become_items(store, texts):
    """Appended JSON lines are read with the import's columns and vocabulary, and earlier rows stay unchanged."""
    before = array(texts)
    taken = fed(texts, '{"id": 7, "text": "so sad", "label": "neg", "more": 1}', '{"text": "a day unheardof"}')
    assert AppendCounts(appended=2) == taken
    assert [*((i, t, w, 1 if w == "pos" else -1) for i, t, w in TEXTS), ("7", "so sad", "neg", -1),
            ("5", "a day unheardof", "", 0)] == stored(store, texts)  # fmt: skip
    reopened = Dataset(Store(store.path), "texts")
    assert (5, 2, 2) == tuple(reopened.record[key] for key in ("items", "positives", "negatives"))
    assert array(reopened)[3:].tolist() == array(texts)[3:].tolist()
    assert before.tolist() == array(texts)[:3].tolist()
    first, end = reopened.rows.indptr[3:5]
    assert texts.transform(["so sad"]).values.tolist() == reopened.rows.values[first:end].tolist()
    assert [1, -1, 1, -1, 0] == reopened.y.tolist()
    assert 3 == reopened.vocabulary.documents


def test_exact_duplicates_are_dropped_and_counted(store, texts):
    """An appended text is dropped if the same text was imported or appended before, even under another id or in the
    same append."""
    again = ('{"id": "x", "text": "so #happy today"}', '{"text": "new"}', '{"text": "new"}', '{"text": "New"}')
    assert AppendCounts(appended=2, duplicates=2, near_duplicates=1) == fed(texts, *again)
    assert AppendCounts(duplicates=4) == fed(texts, *again)
    assert ["new", "New"] == [text for _, text, *_ in stored(store, texts)][3:]


def test_labels_that_come_later_are_stored(store, texts):
    """If an exact duplicate of a stored item without a label is appended with a label, the item takes this label, but
    only the first one. Labels of all other duplicates are counted as unused."""
    fed(texts, '{"text": "new"}')
    before = stored(store, texts), texts.y.tolist()
    taken = fed(texts, '{"text": "new", "label": "pos"}', '{"text": "so #happy today", "label": "neg"}',
                '{"text": "new"}')  # fmt: skip
    assert AppendCounts(duplicates=3, unused_labels=1, later_labels=1) == taken
    assert [(3, 1)] == [(row["item"], row["y"]) for row in store.later_labels(texts.id)]
    assert before == (stored(store, texts), texts.y.tolist())
    assert str(taken).endswith("dropped 3 exact duplicates (1 with a label, which was not taken: stored items keep "
                               "theirs), took labels for 1 item that had none")  # fmt: skip
    assert AppendCounts(duplicates=1, unused_labels=1) == fed(texts, '{"text": "new", "label": "neg"}')


def test_unknown_label_words_stop_a_file(texts, tmp_path):
    """An appended file with a label word that the data set does not have is refused. The error names the word and the
    option that appends the file without labels."""
    path = tmp_path / "more.csv"
    path.write_text("text,label\nwords of one,pos\nwords of another,doubtful\nand of a third,NA\n")
    with pytest.raises(
        reading.DataError, match=r"does not have: doubtful \(1\)\. The data set has neg, pos\..*--label ''"
    ):
        list(feeds.append_file(texts, path))
    assert 3 == sum(each.appended for each in feeds.append_file(texts, path, {"label": ""}))


def test_a_label_word_may_be_spelled_otherwise(store, texts, tmp_path):
    path = tmp_path / "more.csv"
    path.write_text("text,label\nwords of one,POS\nwords of another,Neg\nof a third,pos \n")
    assert 3 == sum(each.appended for each in feeds.append_file(texts, path))
    assert [(1,), (-1,), (1,)] == stored(store, texts, "y")[-3:]


@pytest.mark.parametrize(("columns", "later", "signs"), [
    ({"positive": ("exercise",), "contains": True}, ("exercise", "Exercise|rest", "food; rest", ""), [1, 1, -1, -1]),
    ({"positive": ("Running",), "headings": True}, ("Running/*TH.", "Food; Running", "Rest", ""), [1, 1, -1, -1]),
])  # fmt: skip
def test_new_sets_of_labels_have_a_meaning(store, tmp_path, columns, later, signs):
    """If an appended label cell holds several labels in a combination that the import did not have, the import's rule
    decides whether the item is positive."""
    first, more = tmp_path / "first.csv", tmp_path / "more.csv"
    first.write_text("text,labels\n" + "the first,exercise|food; Running\nthe second,food\n" * 3)
    more.write_text("text,labels\n" + "".join(f"new {k},{label}\n" for k, label in enumerate(later)))
    datasets.import_file(store, first, "sets", reading.Columns(("text",), "labels", **columns))
    assert 4 == sum(each.appended for each in feeds.append_file(Dataset(store, "sets"), more))
    assert signs == Dataset(store, "sets").y[-4:].tolist()
    line = json.dumps({"text": "newest", "labels": later[0]})
    assert [1] == [each.appended for each in feeds.append_lines(Dataset(store, "sets"), io.BytesIO(line.encode()))]
    assert 1 == Dataset(store, "sets").y[-1]


def test_an_id_that_is_taken_gets_the_number_of_its_item(store, texts):
    """An appended item whose id exists already gets its item number as a suffix (t1#4). A generated id never repeats an
    existing one."""
    lines = ('{"id": "t1", "text": "edited"}', '{"id": "6", "text": "six"}', '{"text": "made"}', '{"text": "two"}')
    assert AppendCounts(appended=4, renamed=1) == fed(texts, *lines)
    assert ["t1#4", "6", "6#6", "7"] == [id for (id,) in stored(store, texts, "id")][3:]


def test_new_words_are_counted_by_batch(store, texts):
    """Each batch stores how many words of its appended texts are outside the vocabulary. For the import, a word counts
    as new if only one text has it. A feed makes batches of about 1,000 items."""
    expected = "0.0 % of the words are new to the vocabulary; 9.1 % at the import."
    assert expected == feeds.report(texts, fed(texts, "so #happy day", "so #happy today")).partition(". ")[2]
    lines = [f"Zebra zebra {k} day" for k in range(1002)]
    taken = fed(texts, *lines, "new " + TEXTS[0][1])
    assert (1002 * 3 + 4, 1002 + 992 + 1) == (taken.words, taken.new_words)  # a digit does not count as new
    first, second, *rest = (tuple(batch.values())[:-1] for batch in store.batches(texts.id))
    assert ([(0, 3, 11, 1), (3, 1, 3, 0)], 4) == ([first, second], rest[0][0])
    assert [1003, taken.words, taken.new_words] == np.sum(rest, axis=0)[1:].tolist()
    assert len(rest) <= 2


def test_a_line_that_cannot_be_read_is_counted_with_its_number(store, texts):
    """A feed skips and counts lines with broken JSON, no text, invalid UTF-8 or an unpaired surrogate."""
    lines = ['{"text": "one"}', "", "broken {", '{"text": "two"}', b"\xff\n", '{"x": 1}', '{"text": "\\ud800"}']
    skipped = {"broken line": (2, 3), "empty text": (1, 6), "half a character": (1, 7)}
    taken = fed(texts, *lines, '{"text": "3"}')
    assert AppendCounts(appended=3, skipped=skipped) == taken
    assert (
        "appended 3, dropped 0 exact duplicates, 4 lines could not be read "
        "(2 broken lines (first at line 3), 1 empty text (line 6), 1 half a character (line 7))"
    ) == str(taken)
    assert ["one", "two", "3"] == [text for _, text, *_ in stored(store, texts)][3:]


def test_plain_lines_are_texts(store, texts):
    assert AppendCounts(appended=2) == fed(texts, "so #happy @ann", '{"text": "an object"}')
    assert [("4", "so #happy @ann", "", 0), ("5", '{"text": "an object"}', "", 0)] == stored(store, texts)[3:]


@pytest.mark.parametrize(("suffix", "content"), [
    ("csv", "label,text\nneg,so new\nNA,a day\n"),
    ("tsv", "label\ttext\nneg\tso new\nNA\ta day\n"),
    ("jsonl", '{"label": "neg", "text": "so new"}\n{"label": "NA", "text": "a day"}\n'),
    ("txt", "so new\na day\n"),
])  # fmt: skip
def test_files_of_any_format_are_appended(store, texts, tmp_path, suffix, content):
    """Columns of an appended table are matched by name. Each line of an appended text file is an unlabeled text."""
    path = tmp_path / f"more.{suffix}"
    path.write_text(content)
    assert AppendCounts(appended=2) == sum(feeds.append_file(texts, path), AppendCounts())
    labels = [("", 0), ("", 0)] if suffix == "txt" else [("neg", -1), ("NA", 0)]
    assert [("so new", *labels[0]), ("a day", *labels[1])] == stored(store, texts, "text, label, y")[3:]


@pytest.mark.parametrize("old", ["dense", "sparse"])
@pytest.mark.parametrize("new", ["dense", "sparse"])
@pytest.mark.parametrize("scale", ["none", "l2", "standardize+l2"])
def test_rows_are_scaled_as_at_the_import(store, old, new, scale):
    """Appended rows get the scaling and the dense or sparse form of the import, and duplicate rows are dropped."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 4)) * (rng.random((9, 4)) < 0.7)
    make = {"dense": np.asarray, "sparse": sparse.csr_array}

    def items(X):
        n = len(X)
        return reading.Items([""] * n, None, X, list("abcd"), [""] * n, np.zeros(n, np.int8), {})

    first = items(X[:6])
    first.ids, first.vectors = list(map(str, range(6))), make[old](X[:6])
    table = datasets.table(first, scale)
    dataset = Dataset(store, datasets.add(store, "numbers", table, "x.npy"))
    more = items(X[[6, 7, 0, 8, 6]])
    more.vectors = make[new](more.vectors)
    assert AppendCounts(appended=3, duplicates=2) == feeds.append(dataset, more)
    scaled = rows.as_rows(scaling.apply(table.scaling, make[old](X)))
    assert type(table.rows) is type(dataset.rows)
    assert [part.tolist() for part in scaled[:-1]] == [part.tolist() for part in dataset.rows[:-1]]


def test_classes_keep_their_names_and_are_counted(store, tmp_path):
    """An appended label that names a class is counted for this class. Any other label leaves the item unlabeled and
    adds no class."""
    path = tmp_path / "kinds.csv"
    path.write_text("text,kind\n" + "".join(f"word{k % 3} number{k},{'abc'[k % 3]}\n" for k in range(9)))
    columns = reading.Columns(("text",), "kind", multiclass=True)
    dataset = Dataset(store, datasets.import_file(store, path, "kinds", columns)[0])
    fed(dataset, '{"text": "x", "kind": "b"}', '{"text": "y", "kind": "d"}')
    assert {"a": 3, "b": 4, "c": 3} == store.dataset("kinds")["classes"]
    assert [2, 0] == dataset.y[9:].tolist()


@pytest.mark.parametrize(("name", "content", "columns", "sentence"), [
    ("more.csv", "words,label\nso new,pos\n", {}, "more.csv has no column 'text'; its columns are words, label."),
    ("more.csv", "text,x\nso new,1\n", {"label": "kind"}, "more.csv has no column 'kind'; its columns"),
    ("more.svm", "1 1:2 3:4\n", {}, "the data set texts holds text: only such can be appended."),
    ("more.csv", "", {}, "more.csv has no items, read as csv."),
])  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_in_one_sentence(store, texts, tmp_path, name, content, columns, sentence):
    """An appended file is refused if it holds another kind of data than the data set, lacks a column, or has no items.
    Nothing is stored."""
    (tmp_path / name).write_text(content)
    with pytest.raises(reading.DataError) as error:
        list(feeds.append_file(texts, tmp_path / name, columns))
    assert sentence in str(error.value)
    assert 3 == store.length(texts.id)


def test_numbers_that_do_not_fit_are_refused(store, stream):
    """A data set of numbers refuses appended plain texts and rows with too many features, and skips incomplete rows."""
    first = Dataset(store, "first")
    wide = part(stream_of(3, d=9)[1], slice(None))
    with pytest.raises(reading.DataError, match=r"^the data set first has 8 features. Got 9\.$"):
        feeds.append(first, wide)
    with pytest.raises(reading.DataError, match="holds vectors: its feed must be lines of JSON objects"):
        fed(first, "a text")
    assert AppendCounts(appended=1, skipped={"non-numeric row": (1, 2)}) == fed(
        first, json.dumps({f"f{k}": k for k in range(8)}), json.dumps({"f0": 1})
    )


# Files


def test_a_crash_leaves_a_tail_that_the_next_append_overwrites(store, stream, monkeypatch):
    first = Dataset(store, "first")
    before = array(first)

    def interrupted(*_):  # everything is written, and nothing is committed
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "put_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        feeds.append(first, part(stream, slice(FIRST + 50, FIRST + 90)))
    monkeypatch.undo()
    assert before.tolist() == array(Dataset(store, "first")).tolist()
    assert AppendCounts(appended=LATER) == later(store, stream)
    assert array(Dataset(store, "whole")).tolist() == array(Dataset(store, "first")).tolist()


def test_an_open_data_set_stays_as_it_was(store, stream):
    """An append does not change a data set that is open. After a refresh it maps the new rows, and its fingerprint
    covers them."""
    first = Dataset(store, "first")
    before = array(first).tobytes(), first.y.tobytes(), first.rows.indptr.size, first.fingerprint
    later(store, stream)
    assert before == (array(first).tobytes(), first.y.tobytes(), first.rows.indptr.size, first.fingerprint)
    first.refresh()
    assert Dataset(store, "whole").fingerprint == first.fingerprint != before[-1]
    assert Dataset(store, "first", FIRST).rows.indptr.size == FIRST + 1


def test_two_appends_at_once_wait_for_each_other(store, stream):
    """Every item of two simultaneous appends is stored once, and the row files match the database."""
    halves, problems = (FIRST, FIRST + 90), []

    def work(first):
        try:
            for k in range(first, first + 90, 5):
                later(store, stream, k, k + 5)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == problems
    dataset = Dataset(store, "first")
    ids = [int(id[1:]) for (id,) in stored(store, dataset, "id")]
    assert sorted(ids) == list(range(FIRST + LATER))
    assert array(Dataset(store, "whole"))[ids].tolist() == array(dataset).tolist()
    assert stream.y[ids].tolist() == dataset.y.tolist()


# Sessions


@pytest.fixture
def ended(store, stream):
    """A session at the end of the data set `first`, with labels left in its budget."""
    opened = begin(store, "first", budget=200)
    label_until_the_end(opened)
    return opened


def grown_up(store, opened, stream):
    """Answer all questions of a session while its data set grows in three steps."""
    for first, stop in ((FIRST, FIRST + 1), (FIRST + 1, FIRST + 70), (FIRST + 70, FIRST + LATER)):
        label_until_the_end(opened)
        later(store, stream, first, stop)
        opened.refresh()
    label_until_the_end(opened)


def test_in_order_it_equals_a_session_over_the_whole(store, stream):
    """A session that takes items in stored order asks about appended items, and learns from the answers, as if they had
    been there from the start."""
    opened, whole = begin(store, "first", budget=200), begin(store, "whole", budget=200)
    grown_up(store, opened, stream)
    label_until_the_end(whole)
    assert (opened.digest(), opened.labels) == (whole.digest(), whole.labels)


def test_an_append_keeps_the_current_question_and_updates_the_prepared_ones(store, stream):
    opened = begin(store, "first", budget=200)
    while any(branch.asked for branch in opened.branches.values()):
        say(opened, truth(opened))
    asked = opened.place.asked
    assert asked
    later(store, stream)
    opened.refresh()
    assert asked == opened.place.asked
    prepared = opened.branches
    assert all(branch.asked.item >= FIRST for branch in prepared.values())
    say(opened, POSITIVE)
    assert opened.place == prepared[POSITIVE]


def test_with_a_spent_budget_appended_items_are_predicted(store, stream):
    opened = begin(store, "first", budget=5)
    label_until_the_end(opened)
    later(store, stream)
    opened.refresh()
    progress = opened.place.progress
    assert ("budget", FIRST + LATER, FIRST + LATER) == (progress.end, progress.streamed, int(opened.counts.sum()))


def test_an_append_keeps_the_digest_of_the_end(store, stream, ended):
    """The digest stored at the end of a stream stays valid when the stream grows: an open and a reopened session agree,
    and the log verifies with all its digests."""
    end = store.events(ended.id)[-1]["number"]
    store.put_digest(ended.id, end, ended.digest())
    before = store.digests(ended.id)
    later(store, stream)
    ended.refresh()
    assert ("grown", end + 1) == (store.events(ended.id)[-1]["kind"], store.events(ended.id)[-1]["number"])
    assert before == store.digests(ended.id)
    assert ended.digest() == Session(store, ended.id).digest() != before[end]
    report = verify(store, ended.id)
    assert (True, len(before)) == (report.verified, report.digests)


def test_a_replay_opens_between_an_append_and_the_next_question(store, stream, ended):
    """The log of a session verifies even if items were appended after the session's last refresh."""
    later(store, stream)
    assert verify(store, ended.id).verified
    assert len(ended._ids) == Trace(store, ended.id).steps


@pytest.mark.parametrize("there", [0, 60, LATER])
def test_a_published_session_goes_where_the_items_are(store, stream, tmp_path, there):
    """A published session is adopted only over a data set that begins with all its items, and continues over further
    items."""
    opened = begin(store, "first", shuffled=True, budget=100)
    label_until_the_end(opened)
    later(store, stream, FIRST, FIRST + 60)
    opened.refresh()
    label_until_the_end(opened)
    file = io.StringIO()
    bundle.publish(store, opened.id, file)
    file.seek(0)
    other = Store(tmp_path / "other.db")
    datasets.add(other, "first", datasets.table(part(stream, slice(FIRST))), "made.npz")
    if there:
        later(other, stream, FIRST, FIRST + there)
    else:
        with pytest.raises(JsonLinesError, match="the data set first here has fewer items"):
            bundle.adopt(other, file)
        return
    again = Session(other, bundle.adopt(other, file))
    assert verify(other, again.id).verified
    later(store, stream)
    later(other, stream)
    opened.refresh(), again.refresh()
    assert opened.digest() == again.digest()


# Feeds


def test_lines_count_as_they_come(store, texts):
    ends = os.pipe()
    with os.fdopen(ends[0], "rb") as file, os.fdopen(ends[1], "wb", buffering=0) as pipe:
        lots = feeds.append_lines(texts, file)
        for number in range(3):
            pipe.write(b'{"text": "line %d"}\n' % number)
            assert AppendCounts(appended=1) == next(lots)
            assert 4 + number == store.length(texts.id)
        pipe.write(b'{"text": "without an end"}')
        pipe.close()
        assert [AppendCounts(appended=1)] == list(lots)


def test_a_feed_that_is_stopped_keeps_what_it_read(texts, store):
    stopped, read = Event(), []

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            if len(read) == 2500:
                stopped.set()
            read.append(b"line %d\n" % len(read))
            buffer[: len(read[-1])] = read[-1]
            return len(read[-1])

    taken = sum(feeds.append_lines(texts, io.BufferedReader(Endless()), stopped=stopped), AppendCounts())
    assert 2500 < len(read) < 10_000
    assert len(read) - taken.appended in (0, 1)  # the last line may not have been appended yet
    assert 3 + taken.appended == store.length(texts.id)


@pytest.mark.slow
def test_the_command_line_takes_a_feed_until_ctrl_c(store, texts):
    """Each line is in the database while the feed runs; Ctrl-C ends it with a summary and keeps everything."""
    command = [sys.executable, "-m", "oal_engine", "append", "texts", "-", "--db", str(store.path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=-1, stdout=-1, stderr=-1, text=True, bufsize=1) as process:
        process.stdin.write('{"text": "one"}\nbroken\n')
        assert "skipped 1 broken line (line 2)\n" == process.stderr.readline()
        assert 4 == store.length(texts.id)
        process.stdin.write('{"text": "two"}\n{"text": "two"}\nbroken\n')
        assert "skipped 1 broken line (line 5)\n" == process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert (
            "texts: appended 2, dropped 1 exact duplicate, 2 lines could not be read "
            "(2 broken lines (first at line 2)). "
            "100.0 % of the words are new to the vocabulary; 9.1 % at the import.\n"
        ) == process.stdout.read()
        assert (0, "") == (process.wait(), process.stderr.read())

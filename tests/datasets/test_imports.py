"""The app runs each import in a separate process with limited memory. A stopped process leaves nothing behind."""

import errno
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from threading import Event, Thread

import numpy as np
import pytest

from oal_engine import datasets
from oal_engine.datasets import ImportRequest, cage, import_process, importing, reading
from tests.harness import ROOT
from tests.harness.examples import write_embedding
from tests.harness.files import named

COLUMNS = reading.Columns(("text",), "label", None, (), positive=("pos",))


def lines(count):
    return "text,label\n" + "".join(
        f"words of text {k} kind{k % 5},{'pos' if k % 3 else 'neg'}\n" for k in range(count)
    )


def upload(count):
    return named(lines(count), "x.csv"), "x.csv"


def children():
    """Return the import processes that this process has started and that still run, as lines of `ps`."""
    output = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout
    return [line for line in output.splitlines() if "oal_engine.datasets.import_process" in line]


def test_an_import_tells_how_texts_are_cut(store):
    """An import reports a writing system that is not tokenized like English, unless the features are `words`."""
    file = b"text\n" + "".join(f"お茶を 飲みます {k}\n" for k in range(9)).encode()
    for features, told in (("rich", True), ("words", False)):
        made = datasets.import_file(
            store, io.BytesIO(file), features, reading.Columns(("text",)), ImportRequest(features=features),
            file_name="tea.csv",
        )  # fmt: skip
        assert told == datasets.report(store, *made).endswith(
            "Japanese: their terms are characters, pairs and triples."
        )


@pytest.mark.slow
def test_a_file_becomes_a_data_set(store, tmp_path):
    """A file gives the same data set by its path and as an upload, and its import reports progress in phases."""
    calls = []
    path = tmp_path / "x.csv"
    path.write_text(lines(30))
    read = (
        "Read as csv (encoding utf-8, delimiter comma, header yes); texts in text; labels in label; lines are numbered."
    )
    request = ImportRequest(scale="l2", features="rich+latent")
    assert f"30 items (20 positive, 10 negative). {read}" == import_process.import_file(
        store, (path, "x.csv"), "a path", COLUMNS, request, progress=lambda *each: calls.append(each)
    )
    assert ["reading", "vocabulary", "wording"] == list(dict.fromkeys(phase for phase, *_ in calls))
    words = ImportRequest(reader="csv", features="rich+latent")
    import_process.import_file(store, upload(30), "an upload", COLUMNS, words)
    first, second = store.datasets()
    for key in ("items", "positives", "negatives", "source", "columns", "features"):
        assert first[key] == second[key]
    taken = import_process.append(store, upload(40), first["id"], ImportRequest())
    new = "20.0 % of the words are new to the vocabulary; 13.3 % at the import."
    assert f"appended 10, dropped 30 exact duplicates. {new}" == taken


@pytest.mark.slow
def test_vectors_come_beside_an_upload(store):
    """Uploads of texts and of their vectors can be checked, imported as one data set, and appended to it."""
    vectors = io.BytesIO()
    np.save(vectors, np.random.default_rng(0).normal(size=(30, 3)))
    checked = import_process.check(upload(30), COLUMNS, ImportRequest(), vectors=(vectors, "v.npy"))
    assert checked.startswith("30 items (20 positive, 10 negative). Read as csv; texts in text; 1 column of numbers;")
    report = import_process.import_file(
        store, upload(30), "texts", COLUMNS, ImportRequest(), vectors=(vectors, "v.npy")
    )
    assert (checked, 3) == (report, datasets.Dataset(store, "texts").vector_width)
    np.save(short := io.BytesIO(), np.eye(3))
    file = named("text,label\nnew words,pos\nnew kind1,pos\nnew text,neg\n", "y.csv")
    taken = import_process.append(store, (file, "y.csv"), 1, ImportRequest(), vectors=(short, "w.npy"))
    assert taken.startswith("appended 3, dropped 0 exact duplicates. ")
    with pytest.raises(reading.DataError, match=r"w\.npy must have one vector for each of the 30 rows of x\.csv"):
        import_process.check(upload(30), COLUMNS, ImportRequest(), vectors=(short, "w.npy"))


@pytest.mark.slow
def test_an_embedding_comes_from_a_folder(store, tmp_path):
    """The import process makes vectors of texts with the embedding in a folder, and reports a missing file."""
    pytest.importorskip("tokenizers", reason="needs tokenizers: pip install .[embed]")
    write_embedding(tmp_path / "tiny")
    request = ImportRequest(encoder=tmp_path / "tiny")
    import_process.import_file(store, upload(30), "texts", COLUMNS, request)
    assert "tiny" == datasets.Dataset(store, "texts").encoder.name
    (tmp_path / "none").mkdir()
    request = ImportRequest(encoder=tmp_path / "none")
    with pytest.raises(reading.DataError, match=r"^none must have one file \*\.safetensors, or model\.safetensors\."):
        import_process.import_file(store, upload(30), "other", COLUMNS, request)


def test_a_preview_is_that_of_the_formats():
    """A preview equals the result of `reading.peek`, except that long cells and rows of many columns are cut."""
    content = "id,text,a\n1,some words,2.5\n2,more words,3\n"
    assert reading.peek(named(content, "x.csv")) == import_process.peek(named(content, "x.csv"), "x.csv")
    wide = ",".join(f"c{k}" for k in range(300)) + "\n" + ",".join(["x" * 900] * 300) + "\n"
    preview = import_process.peek(named(wide, "x.csv"), "x.csv")
    assert (300, 100, {500}) == (
        len(preview.columns),
        len(preview.rows[0]),
        {len(cell) for cell in preview.rows[0].values()},
    )


@pytest.mark.slow
def test_an_unreadable_file_is_refused_in_one_sentence():
    """A reader's error in the import process is raised in this process, for a preview and for a MeSH tree."""
    with pytest.raises(reading.DataError, match=r"^x.bin is empty; the readers are "):
        import_process.peek(named("", "x.csv"), "x.bin")
    with pytest.raises(reading.DataError, match=r"tree\.bin has no tree number 'C15'"):
        import_process.mesh_terms(named("Heart Diseases;C14.280\n", "x.csv"), "tree.bin", "C15")
    assert ("Heart Diseases",) == import_process.mesh_terms(
        named("Heart Diseases;C14.280\n", "x.csv"), "tree.bin", "C14"
    )


def test_a_path_that_is_no_file_is_refused(tmp_path):
    """The path of a pipe is refused at once, so that the page does not wait for something to write to the pipe."""
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(reading.DataError, match=r"^x.csv is a pipe, not a file\.$"):
        import_process.peek(tmp_path / "x.csv", "x.csv")


def test_an_import_that_needs_too_much_memory_is_refused(store, monkeypatch, tmp_path):
    monkeypatch.setenv("OAL_IMPORT_MEMORY", str(2**30))
    np.save(tmp_path / "x.npy", np.ones((10**6, 100), np.int8))
    columns = reading.Columns(features=())
    message = r"^x.npy (does not fit in memory|needs more memory than the 1\.0 GiB .* OAL_IMPORT_MEMORY \(bytes\))\.$"
    with pytest.raises(reading.DataError, match=message):
        import_process.check((tmp_path / "x.npy", "x.npy"), columns, ImportRequest())
    assert [] == children()


class Left(Exception):
    """The exception that Streamlit raises when a user leaves a page."""


@pytest.mark.slow
def test_leaving_the_page_ends_the_process_and_leaves_nothing(store, tmp_path, monkeypatch):
    """If the progress callback raises, the process ends, and neither a data set nor a file of the upload is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    observed = []

    def leave(phase, done, total):
        if total > 1:  # the process is at work
            observed.append((len(children()), os.listdir(tmp_path / "temporary")))
            raise Left

    with pytest.raises(Left):
        import_process.import_file(
            store, upload(300_000), "left", COLUMNS, ImportRequest(features="words"), progress=leave
        )
    assert [(1, [])] == observed
    assert [] == children()
    assert [] == store.datasets()


PARENT = """
import io, os, sys
from oal_engine.datasets import ImportRequest, import_process, reading
from oal_engine.store import Store
file = io.BytesIO(b"text,label\\n" + b"".join(b"words of text %d,%d\\n" % (k, k % 2) for k in range(300_000)))
columns = reading.Columns(("text",), "label", None, ())
import_process.import_file(Store(sys.argv[1]), (file, "x.csv"), "x", columns, ImportRequest(features="words"),
                           progress=lambda *progress: print(*progress, flush=True))
"""


@pytest.mark.slow
def test_the_process_ends_with_a_server_that_is_killed(store, tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(store.path)], cwd=ROOT, stdout=subprocess.PIPE)
    parent.stdout.readline()
    output = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent.pid)], capture_output=True, text=True).stdout
    (child,) = map(int, output.split())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")
    assert [] == store.datasets()


def test_few_files_are_read_at_once(monkeypatch):
    """If all places for imports are taken, another import waits and reports this. It ends if its page is left."""
    monkeypatch.setattr(cage.IMPORTS, "places", 1)
    check, told = partial(import_process.check, upload(3), COLUMNS, ImportRequest()), []

    def leave(*progress):
        told.append((*progress, children()))
        raise Left

    def other(phase, *_):
        if phase == "reading" and not told:
            with pytest.raises(Left):
                check(progress=leave)

    assert check(progress=other).startswith("3 items")
    [(*waiting, running)] = told
    assert ["waiting", 0, 1] == waiting
    assert len(running) <= 1  # the first process may have ended meanwhile
    assert check().startswith("3 items")


def slow_file(entries=3000):
    """Return references whose LaTeX takes minutes."""
    title = '{\\"a} ' * 300
    lines = "".join(f"@article{{k{k}, title = {{{title}}}}}\n" for k in range(entries))
    return named(lines, "x.bib"), "x.bib"


@pytest.mark.slow
def test_slow_files_of_others_do_not_keep_a_person_waiting(monkeypatch):
    """While the files of four people take minutes, a fifth gets a preview as soon as the patience with one of them is
    over. When their pages are left, no process is left."""
    monkeypatch.setenv("OAL_IMPORT_MEMORY", str(2**33))  # so that only the patience ends a look
    left, ended, waiting = Event(), [], []

    def until_left(phase, done, total):
        if left.is_set():
            raise Left

    def look(person):
        try:
            import_process.peek(*slow_file(), person=person, progress=until_left)
        except (Left, reading.DataError) as error:
            ended.append(str(error))

    pages = [Thread(target=look, args=(f"person {k}",)) for k in range(4)]
    for page in pages:
        page.start()
    while len(cage.LOOKS.turns) < cage.LOOKS.places:
        time.sleep(0.05)
    head = import_process.peek(
        *upload(9), person="person 5", progress=lambda phase, *_: waiting.append(phase == "waiting")
    )
    late = [*ended]
    left.set()
    for page in pages:
        page.join()
    assert "words of text 0 kind0" == head.rows[0]["text"]
    wait = sum(waiting) * cage.PAUSE_SECONDS
    assert 1 < wait < cage.LOOKS.patience + 2
    end = (
        "4 seconds that a look at a file may take while other files wait: try again, or import it on the command line."
    )
    assert {f"x.bib takes longer than the {end}"} == {*late}
    assert (4, {*late, ""}) == (len(ended), {*ended})
    assert [] == children()


@pytest.mark.slow
def test_one_file_is_looked_at_for_a_person_at_a_time():
    """A second page of a person waits for the first, although others could look at their files."""
    held, looks = cage.LOOKS.turn("Ann", lambda *_: None), []

    def leave(phase, *_):
        looks.append(phase)
        raise Left

    with held:
        with pytest.raises(Left):
            import_process.peek(*upload(3), person="Ann", progress=leave)
        assert import_process.peek(*upload(3), person="Ben").rows
    assert ["waiting"] == looks
    assert import_process.peek(*upload(3), person="Ann").rows


def test_a_process_that_takes_too_long_ends_with_a_sentence(monkeypatch):
    """A look or an import has limits of processor time and of time, and the error names them."""
    monkeypatch.setattr(cage.IMPORTS, "clock_minutes", 0)
    message = "takes longer than the {} that {} may take: import it on the command line."
    with pytest.raises(reading.DataError) as late:
        import_process.check(upload(3), COLUMNS, ImportRequest())
    assert f"x.csv {message.format('0 minutes', 'an import of this page')}" == str(late.value)
    ended = str(cage.LOOKS.crashed("x.csv", -signal.SIGXCPU))
    assert f"x.csv {message.format('3 minutes of processor time', 'a look at a file')}" == ended
    assert [] == children()


def test_an_import_that_is_given_up_leaves_no_error(monkeypatch):
    """The thread that reads the output of a canceled import ends, even if it starts after the output was closed."""
    late = []
    monkeypatch.setattr(import_process.Thread, "start", lambda thread: late.append(thread))

    def leave(*_):
        raise Left

    with pytest.raises(Left):
        import_process.check(upload(3), COLUMNS, ImportRequest(), progress=leave)
    [reader] = late
    reader.run()


def test_a_full_disk_leaves_no_mark_of_an_import(tmp_path, monkeypatch):

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(importing.fcntl, "flock", fail)
    with pytest.raises(OSError, match="No space left"), importing.import_in_progress(tmp_path / "rows", "studio.db"):
        pytest.fail("The import begins without its mark.")
    assert [] == os.listdir(tmp_path)


def test_a_file_that_ends_the_process_is_refused_in_one_sentence():
    path = ROOT / "tests/datasets/ends_pyarrow.parquet"
    with pytest.raises(reading.DataError) as refused:
        import_process.check((path, path.name), COLUMNS, ImportRequest())
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)
    assert [] == children()

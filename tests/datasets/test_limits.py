"""The limits of imports: no small file fills the memory, no line ends a feed, no quote swallows rows silently."""

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from threading import Event
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from oal_engine.datasets import feeds, reading
from oal_engine.datasets.reading import Columns, DataError, read
from oal_engine.datasets.reading.sources import LIMITED, LIMITS, Limits
from tests.harness import ROOT
from tests.harness.files import fails, named, zipped
from tests.harness.shapes import SHAPES, workbook

MEMORY = 250 * 2**20  # bytes that a refusal may take
SECONDS = 30  # of processor time: far more than a refusal takes
TEXT, FED = Columns(("text",)), Columns(("text",), features=())


def saved(save, *arguments, **options):
    """Return the bytes that a function writes to an open file."""
    file = io.BytesIO()
    save(*arguments[:0], file, *arguments, **options)
    return file.getvalue()


def table(**columns):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def header(shape, dtype="<f8"):
    """Return the header of a .npy file, without its data."""
    fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    return saved(lambda file: np.lib.format.write_array_header_1_0(file, fields))


def coo(rows, columns):
    return saved(np.savez, format=b"coo", shape=[rows, columns], data=[1.0], row=[0], col=[0])


def distinct_keys():
    return "".join(json.dumps({f"k{row * 600 + k}": 1 for k in range(600)}) + "\n" for row in range(1000)).encode()


def far_row():
    """Return a workbook whose second row is numbered 20 billion."""
    book = ZipFile(io.BytesIO(workbook(("Mail", [("text",), ("words",)]))))
    parts = {name: book.read(name).replace(b'<row r="2"', b'<row r="20000000000"') for name in book.namelist()}
    return zipped(parts, ZIP_STORED)


def sparse_rows():
    """Return an ARFF file of 20,000 columns whose rows have one number each."""
    names = b"".join(b"@attribute a%d numeric\n" % k for k in range(20_000))
    return b"@relation r\n" + names + b"@data\n" + b"{1 1}\n" * 5000


def declared(size):
    """Return an archive whose only member declares a wrong size: `size`."""
    content = bytearray(zipped({"a.csv": b"text\n" + b"some words\n" * 10**6}))
    for at in (22, content.index(b"PK\1\2") + 24):
        content[at : at + 4] = min(size, 2**32 - 2).to_bytes(4, "little")
    return bytes(content)


def entities():
    """Return a workbook whose entities grow a thousandfold at each of eight steps (a billion laughs)."""
    steps = b"".join(b"<!ENTITY %c '%s'>" % (ord("a") + k, b"&%c;" % (ord("a") + k - 1) * 1000) for k in range(1, 9))
    book = ZipFile(io.BytesIO(workbook(("Mail", [("text",), ("words",)]))))
    parts = {name: book.read(name) for name in book.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].replace(b"words", b"&i;")
    parts["xl/worksheets/sheet1.xml"] = b"<!DOCTYPE x [<!ENTITY a 'words'>" + steps + b"]>" + sheet
    return zipped(parts)


def nulls():
    """Return an Arrow file of a few hundred bytes with a billion empty values."""
    file, made = io.BytesIO(), pyarrow.table({"text": pyarrow.nulls(10**9)})
    with pyarrow.ipc.new_file(file, made.schema) as writer:
        writer.write_table(made)
    return file.getvalue()


def unclosed():
    return b'text,label\n"a,1\n' + b"word word,0\n" * 2**17


# ---- Hostile files

HOSTILE = {
    "index.svmlight": (lambda: b"1 1:1 500000000:1\n", "features"),
    "second.svmlight": (lambda: b"1 1:1\n-1 4194305:1\n", "Line 2 of second.svmlight has more than 4,194,304 features"),
    "columns.csv": (lambda: b",".join([b"1"] * 10**6) + b"\n", "more than 65,536 columns"),
    "columns.tsv": (lambda: b"\t".join([b"1"] * 10**6) + b"\n", "columns"),
    "keys.jsonl": (distinct_keys, "columns"),
    "one.jsonl": (lambda: json.dumps({f"k{k}": 1 for k in range(10**5)}).encode() + b"\n", "columns"),
    "line.txt": (lambda: b"x" * (100 << 20), "Line 1 of line.txt has more than 4,194,304 characters"),
    "quotes.csv": (lambda: b"a,b\n" + b'"x\n",' * 2**20, "characters in a line or row"),
    "line.csv.xz": (lambda: lzma.compress(bytes(64 << 20), preset=0), "ratio"),
    "lines.csv.gz": (lambda: gzip.compress(b"text\n" + b"some words\n" * 10**6), "more than 200 times its size"),
    "lines.txt.bz2": (lambda: bz2.compress(b"some words of a text\n" * 10**5), "ratio"),
    "lines.jsonl.xz": (lambda: lzma.compress(b'{"text": "some words"}\n' * 10**5, preset=0), "ratio"),
    "zeros.npy.gz": (lambda: gzip.compress(header((2**23,)) + bytes(2**26), 1), "ratio"),
    "zeros.npz.gz": (lambda: gzip.compress(b"PK\3\4" + bytes(2**26), 1), "ratio"),
    "header.npy": (lambda: header((10**9, 10**3)), "more than 2,147,483,648 bytes"),
    "cut.npy": (lambda: header((10**5, 10**3)) + bytes(800), "truncated: its header declares shape (100000, 1000)"),
    "wide.npy": (lambda: header((1, 2**22 + 1), "|i1") + bytes(2**22 + 1), "features"),
    "header.npz": (lambda: zipped({"X.npy": header((10**6, 10**3)) + bytes(100)}), "size"),
    "ids.npz": (lambda: zipped({"X.npy": header((2, 2)) + bytes(32), "ids.npy": header((2,), "<U400000000")}), "size"),
    "zeros.npz": (lambda: saved(np.savez_compressed, X=np.zeros((1, 2**22))), "ratio"),
    "wide.npz": (lambda: coo(1, 5 * 10**8), "features"),
    "long.npz": (lambda: coo(10**9, 1), "bytes when it is unpacked"),
    "pickle.npz": (lambda: saved(np.savez, X=np.array([[{}]], dtype=object)), "allow_pickle=False"),
    "sparse.arff": (sparse_rows, "ratio"),
    "nulls.arrow": (nulls, "times its size"),
    "nulls.parquet": (lambda: table(text=pyarrow.nulls(5_000_000, pyarrow.string())), "times its size"),
    "shared.parquet": (lambda: table(text=["x" * 500_000] * 500), "ratio"),
    "list.parquet": (lambda: table(text=pyarrow.array([[None] * 10**7], pyarrow.list_(pyarrow.int8()))), "ratio"),
    "row.xlsx": (far_row, "row number exceeds the sheet limit of 1,048,576"),
    "ratio.zip": (lambda: zipped({"a.csv": b"text\n" + b"some words\n" * 10**6}), "ratio"),
    "files.zip": (lambda: zipped(dict.fromkeys(map(str, range(2**17 + 1)), b""), ZIP_STORED), "files"),
    "declared.zip": (lambda: declared(2**33), "size"),
    "lies.zip": (lambda: declared(100), "lies.zip cannot be read: Bad CRC-32"),
    "members.zip": (lambda: zipped({"a.csv.gz": gzip.compress(b"text\n" + b"some words\n" * 10**6)}), "ratio"),
    "itself.zip": (lambda: zipped({"a.zip": zipped({"b.zip": b"PK\3\4"})}), "holds no file that can be imported"),
    "outside.zip": (lambda: zipped({"../../etc/passwd": b"\0\1\2", "/etc/shadow": b"\0"}), "holds no file"),
    "entities.xlsx": (entities, "EntitiesForbidden"),
    "deep.json": (lambda: b'[{"text": ' + b"[" * 10**6, "its values are nested too deeply"),
    "cut.csv.gz": (
        lambda: gzip.compress(b"text\n" + b"".join(b"a %d\n" % k for k in range(99_999)))[:-30],
        "cannot be read",
    ),
    "twice.csv.gz.gz": (lambda: gzip.compress(gzip.compress(b"text\n" * 10**6)), "is compressed"),
    "deep.jsonl": (
        lambda: b'{"text": ' + b"[" * 10**6 + b"]" * 10**6 + b"}\n",
        "no items, read as jsonl",
    ),
    "swallowed.csv": (unclosed, "opens a quote that swallows the next 131,072 lines"),
}
READ = """
import json, os, resource, sys, time
from oal_engine.datasets import reading
import pyarrow.parquet, sklearn.datasets
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
for path in sys.argv[1:]:
    if os.fork() == 0:
        before, begun = most(), time.process_time()
        try:
            message = reading.read(path).report()
        except reading.DataError as error:
            message = f"refused: {error}"
        print(json.dumps([os.path.basename(path), most() - before, time.process_time() - begun, message]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """{name of a hostile file: [memory, processor time, message]} of the processes that read the files."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, (make, _) in HOSTILE.items():
        (folder / name).write_bytes(make())
    command = [sys.executable, "-c", READ, *(str(folder / name) for name in HOSTILE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=limit_memory)
    assert "" == done.stderr
    return {name: refusal for name, *refusal in map(json.loads, done.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_neither_memory_nor_time(refusals, name):
    """A file that would fill the memory is refused with a one-sentence error, after little memory and time."""
    words = HOSTILE[name][1]
    memory, seconds, message = refusals[name]
    assert (True, True) == (memory < MEMORY, seconds < SECONDS), refusals[name]
    assert message.startswith("refused: ")
    assert message.endswith(".")
    assert "\n" not in message
    assert (f"--limit {words}=NUMBER" if words in LIMITED else words) in message


# ---- Time in proportion to the size

RUNS = [*" \n\t,\"'[{(<@\\a1", "a ", "1 000 ", "- ", "a\n", "[]", "<!--a-->"]
RUN_CHARACTERS = 10_000
NAMES = (
    "comma.csv", "tab.csv", "plain.txt", "lines.jsonl", "pretty.json", "weka-texts.arff", "references.ris",
    "pubmed.nbib", "savedrecs.txt", "one-based.svm", "digits.txt", "numbers.csv",
)  # fmt: skip
MESSAGES = '{{"messages": [{{"role": "user", "content": "Is {0}?"}}, {{"role": "assistant", "content": "{1}"}}]}}\n'
TIMED = {shape.name: shape.make().decode() for shape in SHAPES if shape.name in NAMES} | {
    "x.bib": "".join(f"@article{{k{k},\n  title = {{Title {k} of it}},\n  year = {{2019}}\n}}\n" for k in range(40)),
    "chat.jsonl": "".join(MESSAGES.format(k, k % 2) for k in range(40)),
    "lists.csv": "text,label\n" + "".join(f"\"['some', 'words {k}']\",{k % 2}\n" for k in range(40)),
    "prices.csv": "price,rooms,label\n" + "".join(f"$ 1,{200 + k}.50,{k},{k % 2}\n" for k in range(40)),
}


def seconds(name, content, at=0, run=""):
    """Return the processor time that it takes to look at a file with a run at a place, and to read the file."""
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    with suppress(DataError):
        made = content[:at] + run + content[at:]
        read(named(made, name), reading.peek(named(made, name)).guess)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - begun


@pytest.fixture
def alarm():
    """Fail a test whose timer has expired."""
    before = signal.signal(signal.SIGVTALRM, lambda *_: pytest.fail("A reader does not end."))
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("name", TIMED)
def test_reading_takes_time_in_proportion_to_the_size(name):
    """A file with a run of a delimiter or of any other characters, in a cell or as its start, takes at most twice as
    much time for each character if the run is four times as long. (If it takes the square, it is 16 times as much.)"""
    content = TIMED[name]
    seconds(name, content)  # imports the libraries
    end = content.index("\n", len(content) // 2)  # of a line
    for at, part in product((0, end - 12, end - 4), RUNS):
        if not at and part in ",\t":
            continue  # each of 40,000 columns takes its time
        run = part * (RUN_CHARACTERS // len(part))
        tries = ((seconds(name, content, at, 4 * run), seconds(name, content, at, run)) for _ in range(3))
        assert any(long < 8 * short + 0.3 for long, short in tries), (at, part)


def limit_memory():
    """Limit the memory of a process, in case a limit of the reader is missing."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a socket", "a device"])
def test_anything_but_a_file_is_refused_by_its_kind(tmp_path, monkeypatch, kind):
    """A pipe, folder, socket or device is refused at once, and the error says which of these it is."""
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = "x.csv"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        os.mkdir(path)
    elif kind == "a socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.close()
    else:
        path = os.devnull
    assert f"{os.path.basename(path)} is {kind}, not a file." == fails(path, reader="csv")


# ---- The limits


@pytest.mark.parametrize(
    ("limit", "number", "name", "data"),
    [
        ("line", 30, "x.txt", b"short\n" + b"x" * 31 + b"\n"),
        ("line", 30, "x.csv", b'a,b\n"one\ntwo\nthree\nfour\nfive\nsix\nseven\n",2\n'),
        ("columns", 2, "x.csv", b"a,b,text\n1,2,x\n"),
        ("columns", 2, "x.jsonl", b'{"a": 1, "text": "x"}\n{"b": 1}\n'),
        ("columns", 2, "x.parquet", table(a=[1], b=[2], text=["x"])),
        ("features", 2, "x.svm", b"1 3:1\n-1 1:1\n"),
        ("features", 2, "x.npy", saved(np.save, np.eye(3))),
        ("items", 2, "x.txt", b"a\nb\nc\n"),
        ("items", 2, "x.svm", b"1 1:1\n1 1:1\n-1 1:1\n"),
        ("size", 100, "x.txt", b"word\n" * 21),
        ("size", 100, "x.txt.gz", gzip.compress(b"word\n" * 21, mtime=0)),
        ("ratio", 10, "x.txt.gz", gzip.compress(b"words\n" * 200_000, mtime=0)),
        ("quoted", 3, "x.csv", b'a,b\n1,"x\n1,2\n3,4\n5,6\n7,8"\n9,9\n'),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else None,
)
def test_each_limit_is_reported_with_its_number_and_its_option(limit, number, name, data):
    message = fails(named(data, name), limits=Limits(**{limit: number}))
    assert f"--limit {limit}=NUMBER allows more" in message
    assert limit == "quoted" or f"more than {number:,} " in message
    assert reading.peek(named(data, name), limits=Limits(ratio=1000)).rows


def test_the_limits_are_declared_once():
    assert LIMITED.keys() == vars(LIMITS).keys()


def test_the_command_line_raises_a_limit(tmp_path, command, monkeypatch):
    """The option that an error names raises the limit, the help shows its defaults, and an unknown limit is refused."""
    path, db = tmp_path / "x.csv", ("--db", tmp_path / "studio.db")
    path.write_text("text,label\n" + "".join(f"some words {k},1\n" for k in range(30)))
    message = "error: x.csv has more than 20 items; on the command line --limit items=NUMBER allows more.\n"
    assert (1, "", message) == command("import", path, "--name", "x", "--limit", "items=20", *db)
    assert 0 == command("import", path, "--name", "x", "--limit", "items=30", *db)[0]
    wrong = command("import", path, "--name", "y", "--limit", "rows=30", *db)[2]
    assert (
        wrong
        == "error: --limit has no rows. It has line, columns, features, items, size, ratio, quoted, broken, files.\n"
    )
    monkeypatch.setenv("COLUMNS", "300")
    assert "line=4,194,304, columns=65,536, features=4,194,304" in command("import", "--help")[1]


# ---- Odd cells


@pytest.mark.parametrize(("cell", "skipped"), [
    ("[" * 900 + "]" * 900, "broken line"),
    ("9" * 5000, "broken line"),
    ('"\\ud800"', "half a character"),
])  # fmt: skip
def test_an_odd_cell_is_a_skipped_line(cell, skipped):
    items = read(named(f'{{"text": {cell}}}\n{{"text": "a b"}}\n', "x.jsonl"), TEXT)
    assert (["a b"], {skipped: (1, 1)}) == (items.texts, items.skipped)


@pytest.mark.parametrize(("cell", "skipped"), [("1e999", "non-finite row"), ("9" * 4000, "non-finite row")])
def test_a_number_out_of_range_is_a_skipped_line(cell, skipped):
    items = read(named(f'{{"a": 1, "b": {cell}}}\n{{"a": 2, "b": 3}}\n', "x.jsonl"), Columns((), features=("a", "b")))
    assert {skipped: (1, 1)} == items.skipped


def test_a_time_out_of_range_is_a_skipped_row():
    times = pyarrow.array([0, 2**62, 5], pyarrow.timestamp("us"))
    items = read(named(table(text=["a b", "c d", "e f"], when=times), "x.parquet"), TEXT)
    assert (["a b", "e f"], {"broken line": (1, 2)}) == (items.texts, items.skipped)


# ---- Quotes


def messages(count):
    return [f"{k},words of message {k},{k % 2}\n" for k in range(count)]


def test_an_unclosed_quote_stops_the_import():
    """An unclosed quote that would swallow rows stops the import. The error names its line and counts the swallowed
    lines."""
    lines = messages(1582)
    lines[30] = '30,"words without an end,0\n'
    content = "id,text,label\n" + "".join(lines)
    message = fails(named(content, "x.csv"), TEXT)
    assert message.startswith(
        "Line 32 of x.csv opens a quote that swallows the next 1,551 lines, which look like rows: "
    )
    with pytest.raises(DataError, match="csv-unquoted"):
        reading.peek(named(content, "x.csv"))
    items = read(named(content, "x.csv"), TEXT, reader="csv-unquoted")
    assert (1582, '"words without an end') == (len(items.texts), items.texts[30])


def test_a_quote_that_another_one_closes_far_below_stops_the_import():
    """A well-formed cell that swallows rows between two stray quotes is refused."""
    lines = messages(1000)
    lines[30] = '30,"words without an end,0\n'
    lines[600] = '600,words that end",0\n'
    message = fails(named("id,text,label\n" + "".join(lines), "x.csv"), TEXT)
    assert message.startswith("Line 32 of x.csv opens a quote that swallows the next 570 lines")


def test_the_lines_of_a_short_unclosed_quote_are_counted():
    lines = messages(60)
    lines[50] = '50,"words without an end,0\n'
    items = read(named("id,text,label\n" + "".join(lines), "x.csv"), TEXT)
    assert (50, {"unclosed-quote line": (10, 52)}) == (len(items.texts), items.skipped)
    assert "skipped 10: 10 unclosed-quote lines (first at line 52)." in items.report()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.text(st.sampled_from("ab, .'\n")).filter(lambda s: s.count(",") != 2), min_size=20,
                         max_size=80), min_size=1, max_size=4))  # fmt: skip
def test_abstracts_of_many_lines_come_in_as_they_are(abstracts):
    """A quoted cell of many lines that do not look like rows is read unchanged."""
    texts = ["x " + "\n".join(line.replace("\n", " ") for line in lines) for lines in abstracts]
    quoted = "".join(f'{k},"{text}",{k % 2}\n' for k, text in enumerate(texts))
    assert texts == read(named("id,text,label\n" + quoted, "x.csv"), Columns(("text",), id="id")).texts


# ---- Feeds


def fed(data, columns=FED, as_json=True, encoding="utf-8", limits=LIMITS):
    """Read a feed, and return the items of each batch."""
    feed = feeds.feed_lines(io.BytesIO(data), "the feed", encoding, limits)
    return [reading.read_lines(batch, columns, {}, as_json) for batch in feeds.batches(feed, Event())]


ODD = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"").replace(b"\0", b"")),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.just(10**400),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: json.dumps({"text": value, "a": value, "label": value}).encode()),
    st.integers(1, 2000).map(lambda depth: b'{"text":' + b"[" * depth + b"]" * depth + b"}"),
    st.integers(300, 6000).map(lambda digits: b'{"a": %s, "text": %s}' % ((b"9" * digits,) * 2)),
    st.sampled_from([b'{"text": "\\ud800"}', b'{"a": 1e999}', b'{"a": NaN}', b"x" * 5000, b'{"text": "a\\u0000b"}']),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(ODD, max_size=8), st.booleans())
def test_no_line_ends_a_feed(odd, numbers):
    """Good lines between odd ones are kept, and every line that is not kept is counted."""
    good = [b'{"text": "good %d", "a": %d}' % (k, k) for k in range(len(odd) + 1)]
    lines = [line for pair in zip(good, odd) for line in pair] + good[-1:]
    columns = Columns((), features=("a",)) if numbers else FED
    read = fed(b"\n".join(lines), columns, limits=Limits(line=4500))
    kept = sum(len(items.ids) for items in read)
    assert len(lines) == kept + sum(count for items in read for count, _ in items.skipped.values())
    if numbers:
        assert set(range(len(good))) <= {value for items in read for value in items.vectors[:, 0]}
    else:
        assert {f"good {k}" for k in range(len(good))} <= {text for items in read for text in items.texts}


def test_a_feed_in_another_encoding():
    """The error for a UTF-16 feed names the option that reads it, and with this option the feed is read."""
    data = "one\ntwo\n".encode("utf-16")
    with pytest.raises(DataError, match=r"Line 1 of the feed is not utf-8.*--encoding utf-16"):
        fed(data, as_json=False)
    assert [["one", "two"]] == [items.texts for items in fed(data, as_json=False, encoding="utf-16")]


@pytest.mark.slow
def test_no_length_of_a_line_ends_a_feed(tmp_path, command):
    path, db = tmp_path / "x.csv", ("--db", tmp_path / "studio.db")
    path.write_text("text,label\n" + "some words,1\n" * 3)
    assert 0 == command("import", path, "--name", "x", *db)[0]
    append = [sys.executable, "-m", "oal_engine", "append", "x", "-", "--db", db[1]]
    how = {"cwd": ROOT, "preexec_fn": limit_memory, "text": True}
    done = subprocess.run(append, input="a new one\n" + "x" * 2**27 + "\nanother", capture_output=True, **how)
    assert (0, "skipped 1 overlong line (line 2)\n") == (done.returncode, done.stderr)
    assert done.stdout.startswith("x: appended 2, ")
    with (
        open("/dev/zero", "rb") as zeros,
        subprocess.Popen(append, stdin=zeros, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how) as feed,
    ):
        assert "skipped 1 overlong line (line 1)\n" == feed.stderr.readline()
        feed.send_signal(signal.SIGINT)
        assert (0, "") == (feed.wait(), feed.stderr.read())

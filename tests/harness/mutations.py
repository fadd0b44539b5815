"""Damage valid files at random (fuzzing), and check that each is read or refused with a one-sentence error."""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow
from pyarrow import parquet
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets.reading import Columns, Items, read
from oal_engine.sessions import look_back, model
from oal_engine.sessions.files import bundle, model_file
from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness import shapes
from tests.harness.files import OHSUMED, PACK, arrays, named, zipped
from tests.harness.sessions import EVENTS, begin, database, erase, give, labelled, text_of

SECONDS = 5.0  # limit of processor time for reading a file of a few kilobytes
MEMORY = 2 * 2**30  # limit of memory, in bytes, that reading may map in addition to the process's own
EDGES = (
    *(b"0", b"-1", b"1e999", b"nan", b"null", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b'"'),
    *(b"9" * 30, b"[" * 999),
)
NUMBER = re.compile(rb"-?\d+(\.\d+)?")
NUMBERS = (b"0", b"-1", b"1", b"2", b"3", b"7", b"0.5", b"-0.0", b"99", b"1e308", b"5e-324", b"2147483648", b"9" * 19)
COLUMNS = {
    "jsonl": Columns(("text",), "label", "id", contains=True, positive=("x",)),
    "ohsumed": Columns(("title", "abstract"), "mesh", positive=("Atrial Fibrillation",), headings=True),
}  # of formats whose columns are not guessed
ALONE = {"parquet", "arrow"}  # pyarrow may crash the process, so the pages read files in a separate process
SHEET = "xl/worksheets/sheet1.xml"


class Target(NamedTuple):
    """A reader to fuzz: its name, valid files for it, and a function that reads the bytes of a file."""

    name: str
    files: list[bytes]
    read: Callable[[bytes], object]


def mutated(content, others, random):
    """Return a copy of a file with one to four random changes: a flipped bit; a part deleted, repeated, moved, or
    replaced with an edge case or with a part of another file; a line moved or repeated; or a changed number."""
    data = bytearray(content)
    for _ in range(random.randint(1, 4)):
        start = random.randint(0, len(data))
        stop = min(len(data), start + int(2 ** (random.random() * 9)))
        match random.randint(0, 7):
            case 0 if start < len(data):
                data[start] ^= 1 << random.randint(0, 7)
            case 1:
                del data[start:stop]
            case 2:
                data[start:start] = data[start:stop] * random.randint(1, 20)
            case 3:
                part = bytes(data[start:stop])
                del data[start:stop]
                to = random.randint(0, len(data))
                data[to:to] = part
            case 4:
                data[start : random.choice((start, stop))] = random.choice(EDGES)
            case 5:
                lines = data.split(b"\n")
                line = random.choice(lines)
                if random.random() < 0.5:
                    lines.remove(line)
                lines.insert(random.randint(0, len(lines)), line)
                data = bytearray(b"\n".join(lines))
            case 6 if numbers := [*NUMBER.finditer(data)]:
                place = random.choice(numbers)
                data[place.start() : place.end()] = random.choice(NUMBERS)
            case _:
                other = random.choice(others)
                at = random.randint(0, len(other))
                data[start:stop] = other[at : at + stop - start]
    return bytes(data)


def refusal(target, content):
    """Return the sentence with which a file is refused, or None if it is read. Raise AssertionError if the message is
    not a sentence on one line."""
    try:
        target.read(content)
    except ValueError as error:
        sentence = str(error)
        assert sentence.endswith("."), sentence
        assert "\n" not in sentence, sentence
        return sentence
    return None


def _files():
    """Return valid files of each format, as bytes: {suffix of the format: files}."""
    vectors = io.BytesIO(), io.BytesIO()
    np.save(vectors[0], np.eye(4))
    np.save(vectors[1], np.arange(12, dtype=np.float32).reshape(4, 3))
    table, compressed = io.BytesIO(), io.BytesIO()
    columns = {"text": ["a b", None, "c"], "label": [1, 0, 1], "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
    parquet.write_table(pyarrow.table(columns), table)
    parquet.write_table(pyarrow.table(columns), compressed, compression="none", use_dictionary=False)
    matrix = io.BytesIO()
    sparse.save_npz(matrix, sparse.eye_array(5, format="csr"), compressed=False)
    lines = b'id,text,label\n1,"a, b",yes\n2,"two\nlines",no\n3,c,yes\n'
    return {
        "csv": [lines, lines.replace(b",", b";")],
        "tsv": [b"id\ttext\tlabel\n1\ta b\tyes\n2\tc\tno\n"],
        "jsonl": [b'{"id": 1, "text": "a b", "label": ["x", "y"]}\n{"id": 2, "text": "c", "v": [1, 2.5]}\n'],
        "svmlight": [b"1 1:1 3:0.5\n-1 2:3 # c\n1 qid:1 4:1e-3\n"],
        "ohsumed": [OHSUMED.encode()],
        "txt": ["a\nbä\n\n日本\n".encode()],
        "npy": [file.getvalue() for file in vectors],
        "npz": [arrays(X=np.eye(3), y=[1, -1, 1]).getvalue(), matrix.getvalue()],
        "parquet": [table.getvalue(), compressed.getvalue()],
        "arrow": [shapes.arrow("arrow"), shapes.arrow("feather")],
        "json": [json.dumps(value).encode() for value in (shapes.records(), shapes.columns(), shapes.TEXTS)],
        "arff": [shapes.arff().encode(), shapes.arff_texts().encode()],
        "ris": [shapes.ris().encode()],
        "medline": [shapes.references(shapes.MEDLINE).encode()],
        "wos": [shapes.references(shapes.WOS, "FN Clarivate\nVR 1.0\n", "EF\n").encode()],
        "bib": [b"@article{a, title={A {b} \\'e}, year=2020, abstract={5% of c}}\n@misc{d, title={e}}\n"],
        "zip": [
            zipped({"a.csv": lines, "b.csv": lines}, zipfile.ZIP_STORED),
            zipped({"pos/1.txt": "a b", "pos/2.txt": "c", "neg/3.txt": "d"}, zipfile.ZIP_STORED),
        ],
    }


def _reader(suffix, folder):
    plain, _, pack = suffix.partition(".")
    files = [PACK["." * bool(pack) + pack](file) for file in _files()[plain]]
    columns = COLUMNS.get(suffix)
    return Target(suffix, files, lambda content: read(named(content, f"x.{suffix}"), columns).report())


def _workbook(name, folder):
    """Return a target whose files are sheets of Excel workbooks. A sheet is damaged before it is zipped, because the
    checksum of the archive would reveal any later damage."""
    books = [
        zipfile.ZipFile(io.BytesIO(shapes.workbook(("Mail", rows)))) for rows in (shapes.messages(), shapes.table())
    ]
    members = {member: books[0].read(member) for member in books[0].namelist()}

    def report(sheet):
        return read(named(zipped(members | {SHEET: sheet}, zipfile.ZIP_STORED), "x.xlsx")).report()

    return Target(name, [book.read(SHEET) for book in books], report)


def _session(name, folder):
    store = database(folder / "bundles.db", "sparse")
    opened = [labelled(store)[0], labelled(store, "classes", "MPAA-I")[0], begin(store, questions=["a", "b"])]
    give(opened[-1], 9)
    for each in opened:
        each.correct(next(EVENTS), each.log[2].id, 0)
        each.add_labels(next(EVENTS), 2)
        each.note(next(EVENTS), 7, "a note")
    files = [text_of(store, each.id).encode() for each in opened]
    for each in opened:
        erase(store, each.id)

    def adopt(content):
        """Adopt a session. Raise ValueError if it is refused, and AssertionError unless it can be opened, verified, and
        published and adopted again."""
        session = bundle.adopt(store, io.BytesIO(content))
        try:
            assert look_back.verify(store, session).verified
            assert session == Session(store, session).id
            text = text_of(store, session)
            erase(store, session)
            session = bundle.adopt(store, io.StringIO(text))
            assert text == text_of(store, session)
        except ValueError as error:
            raise AssertionError(f"an adopted session is not sound: {error}") from error
        finally:
            erase(store, session)

    return Target(name, files, adopt)


def _model(name, folder):
    store = Store(folder / "models.db")
    items = Items(
        [*map(str, range(60))], [f"word{k % 7} and word{k % 5}" for k in range(60)], None, [], ["x"] * 60,
        np.where(np.arange(60) % 7 == 0, 1, -1).astype(np.int8), {},
    )  # fmt: skip
    datasets.add(store, "texts", datasets.table(items), "x.csv")
    database(folder / "vectors.db", "sparse").close()
    written = []
    for opened in (labelled(store, "texts")[0], labelled(Store(folder / "vectors.db"))[0]):
        model_file.write(model.of_session(opened), file := io.BytesIO())
        written.append(gzip.decompress(file.getvalue()))
    path = folder / name

    def load(content):
        path.write_bytes(gzip.compress(content, 1) if name == "model" else content)
        return model_file.read(path)

    return Target(name, written, load)


MAKERS = dict.fromkeys((*_files(), "csv.gz", "csv.bz2", "csv.xz"), _reader)
MAKERS |= {"xlsx": _workbook, "session": _session, "model": _model, "model.json": _model}


def target(name, folder):
    """Make the target of this name. The files and databases that it needs are stored in a folder."""
    return MAKERS[name](name, Path(folder))

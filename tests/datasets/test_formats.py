"""Files of each format are read completely, and lines that cannot be read are reported by number."""

import csv
import gzip
import io
import json
import lzma
import re
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse

from oal_engine.datasets.reading import READERS, Columns, DataError, open_source, peek, read, read_lines, reader_for
from oal_engine.datasets.reading.sources import Layout, Opening
from tests.harness import SHARED
from tests.harness.files import LABELLED, OHSUMED, PACK, arrays, fails, imported, named, upload, zipped
from tests.harness.shapes import workbook

TEXTS = st.lists(st.text(st.sampled_from("a\",;|\t\r\n'\0 ") | st.characters(exclude_categories=["Cs"])), min_size=1)


# ---- Each format


@settings(deadline=None)
@given(TEXTS, st.sampled_from(sorted(PACK)))
def test_any_text_comes_back_from_csv(texts, suffix):
    """Any text written as CSV is read unchanged, with quotes and line ends. Blank texts are skipped and counted."""
    file = io.StringIO()
    csv.writer(file).writerows([("id", "text", "number"), *((f"n{k}", text, k) for k, text in enumerate(texts))])
    expected = {f"n{k}": text for k, text in enumerate(texts) if text.strip()}
    source = upload(file.getvalue(), f"x.csv{suffix}")
    if expected:
        items = read(source, Columns(("text",), id="id"))
        assert dict(zip(items.ids, items.texts)) == expected
        assert items.skipped.get("empty text", (0, 0))[0] == len(texts) - len(expected)
    else:
        assert "no item that can be imported" in fails(source, Columns(("text",), id="id"))
    assert not source.closed


def test_an_apostrophe_of_another_program_stays():
    """Apostrophes before formulas are removed only from tables that were exported by this program."""
    words = ["'=1+1", "'@ann said", "'tis", "'-' is a minus"]
    file = io.StringIO()
    csv.writer(file).writerows([("id", "text"), *enumerate(words)])
    assert words == read(upload(file.getvalue(), "x.csv"), Columns(("text",))).texts


@settings(deadline=None)
@given(TEXTS, st.sampled_from(sorted(PACK)))
def test_any_text_comes_back_from_json_lines(texts, suffix):
    """Any text written as JSON lines is read unchanged, and an item without an id gets its line number as its id."""
    expected = {str(number): text for number, text in enumerate(texts, 1) if text.strip()}
    source = upload("".join(json.dumps({"text": text, "k": 1}) + "\n" for text in [*texts, "last"]), f"x.jsonl{suffix}")
    items = read(source, Columns(("text",)))
    assert dict(zip(items.ids, items.texts)) == expected | {str(len(texts) + 1): "last"}


FEATURES = st.dictionaries(st.integers(1, 9), st.floats(allow_nan=False, allow_infinity=False))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, -1]), FEATURES), min_size=1), st.randoms())
def test_any_rows_come_back_from_svmlight(rows, random):
    """Column k of an svmlight file becomes column k - 1. Rows of zeros stay; comments and blank lines are ignored."""
    lines, expected, ids = ["# made up"], np.zeros((len(rows), 9)), []
    for at, (label, features) in enumerate(rows):
        lines += random.choice([[], [""], ["# 1 2:3"]])
        pairs = " ".join(f"{column}:{value!r}" for column, value in sorted(features.items()))
        lines.append(f"{label:+} {pairs} # the end")
        ids.append(str(len(lines)))
        expected[at, [column - 1 for column in features]] = list(features.values())
    items = read(upload("\n".join(lines), "x.libsvm"))
    width = items.vectors.shape[1]
    assert (items.ids, items.y.tolist()) == (ids, [label for label, _ in rows])
    assert items.feature_names == [str(number) for number in range(1, width + 1)]
    assert np.array_equal(items.vectors.toarray(), expected[:, :width])
    assert not expected[:, width:].any()


def test_each_line_of_a_text_file_is_a_text():
    """Each line of a plain text file is a text, whatever its line end."""
    items = read(upload("one\r\ntwo, too\n\n  three", "x.txt"))
    assert (items.ids, items.texts) == (["1", "2", "4"], ["one", "two, too", "  three"])
    assert items.skipped == {"empty text": (1, 3)}
    assert items.labels == ["", "", ""]
    assert items.y.tolist() == [0, 0, 0]


def test_a_text_of_a_million_characters_is_read_whole():
    items = read(upload(f"text\n{'x' * 1_000_000}\n", "x.csv"), Columns(("text",)))
    assert [len(text) for text in items.texts] == [1_000_000]


@pytest.mark.parametrize(
    ("word", "sign"),
    [("tab", "\t"), ("comma", ","), ("semicolon", ";"), ("pipe", "|"), ("spaces", " "), ("#", "#")],
)
def test_a_delimiter_has_a_sign_and_a_name(word, sign):
    file = sign.join(("text", "label")) + "\n" + "".join(f"word{k}{sign}{k % 2}\n" for k in range(9))
    items = read(upload(file, "x.txt"), LABELLED, reader="csv", layout=Layout(delimiter=word))
    assert ("word0", "word8", 9) == (items.texts[0], items.texts[-1], len(items.texts))


def test_a_delimiter_without_a_name_is_refused_with_those_that_have_one():
    assert fails(upload("text,label\nword,1\n", "x.csv"), LABELLED, layout=Layout(delimiter="dash")) == (
        "--delimiter must be characters such as ; or ::, or tab, semicolon, pipe, comma, spaces, \\t, space. "
        "Got 'dash'."
    )


@pytest.mark.parametrize(("name", "content"), [
    ("x.csv", "a,kind,b,id\n1,yes,2.5,r1\n3,no,-4e2,r2\n"),
    ("x.csv", "a;kind;b;id\n1;yes;2.5;r1\n3;no;-4e2;r2\n"),
    ("x.tsv", "a\tkind\tb\tid\n1\tyes\t2.5\tr1\n3\tno\t-4e2\tr2\n"),
    ("x.jsonl", '{"a": 1, "kind": true, "b": 2.5, "id": "r1"}\n{"a": "3", "kind": false, "b": -4e2, "id": "r2"}\n'),
])  # fmt: skip
def test_columns_of_numbers_are_the_features(name, content):
    """All numeric columns but id and label are the features, unless feature columns are named."""
    columns = Columns(label="kind", id="id")
    items = read(upload(content, name), columns)
    assert (items.ids, items.texts, items.feature_names, items.y.tolist()) == (["r1", "r2"], None, ["a", "b"], [1, -1])
    assert items.vectors.tolist() == [[1, 2.5], [3, -400]]
    assert read(upload(content, name), replace(columns, features=("b",))).vectors.tolist() == [[2.5], [-400]]
    both = read(upload(content, name), replace(columns, text=("id",), features=("b", "a")))
    assert (both.texts, both.vectors.tolist()) == (["r1", "r2"], [[2.5, 1], [-400, 3]])


def test_parquet_is_read_as_csv_is(tmp_path):
    """Texts, numbers and labels are read from Parquet as from CSV, with rows numbered from 1."""
    path = tmp_path / "x.parquet"
    table = {"text": ["one", None, "three"], "label": [1.0, 0.0, None], "a": [1, 2, 3], "b": [0.5, 1.5, float("nan")]}
    parquet.write_table(pyarrow.table(table), path)
    texts, numbers = read(path), read(path, Columns(label="label", missing="skip"))
    assert (texts.ids, texts.texts, texts.labels, texts.y.tolist()) == (["1", "3"], ["one", "three"], ["1", ""], [1, 0])
    assert (numbers.vectors.tolist(), numbers.labels) == ([[1, 0.5], [2, 1.5]], ["1", "0"])
    assert numbers.skipped == {"non-numeric row": (1, 3)}
    assert read(upload(path.read_bytes(), "x.parquet.gz")).texts == texts.texts


def test_an_array_is_read_as_unlabeled_vectors():
    """A 2-D array in a .npy file is read as unlabeled vectors and converted to float64."""
    file = io.BytesIO()
    np.save(file, np.array([[1, 2], [np.inf, 4], [5, 6]], np.float32))
    items = read(file, name="x.npy")
    assert (items.ids, items.vectors.tolist(), items.y.tolist()) == (["1", "3"], [[1, 2], [5, 6]], [0, 0])
    assert items.vectors.dtype == np.float64
    assert items.report() == "2 items (no labels); skipped 1: 1 non-finite row (line 2)."


@pytest.mark.parametrize("keys", [("X", "y", "ids"), ("x", "labels", "ids")])
def test_arrays_are_read_with_labels_and_ids(keys):
    """From an .npz file the arrays X (or x), y (or labels) and ids are read. Labels may be words."""
    items = read(arrays(**dict(zip(keys, (np.eye(3), np.array(["no", "Yes", ""]), np.array(["a", "b", "a"]))))))
    assert (items.ids, items.y.tolist(), items.vectors.tolist()) == (["a", "b"], [-1, 1], [[1, 0, 0], [0, 1, 0]])
    assert items.skipped == {"duplicate id": (1, 3)}


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_sparse_matrices_of_scipy_are_read(kind):
    """A matrix from scipy.sparse.save_npz is read as CSR, and rows with NaN are dropped."""
    dense = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [np.nan, 0, 0, 3], [4, 0, 0, 0]])
    file = io.BytesIO()
    sparse.save_npz(file, sparse.csr_array(dense).asformat(kind))
    items = read(file, name="x.npz")
    assert isinstance(items.vectors, sparse.csr_array)
    assert items.vectors.toarray().tolist() == dense[[0, 1, 3]].tolist()
    assert (items.vectors.nnz, items.vectors.dtype, items.ids) == (3, np.float64, ["1", "2", "4"])
    assert peek(file, name="x.npz").rows[0] == {"features": "2:1 4:2"}


def test_a_sparse_matrix_in_disorder_is_put_in_order():
    """In a sparse matrix that is read, columns are sorted, duplicates are summed, and stored zeros are removed."""
    file, columns = named(b"", "x.npz"), [3, 0, 3, 1]
    sparse.save_npz(file, sparse.csr_array(([1.0, 2.0, 4.0, 0.0], columns, [0, 4]), shape=(1, 5)))
    vectors = read(file).vectors
    assert (vectors.indices.tolist(), vectors.data.tolist(), vectors.shape) == ([0, 3], [2, 5], (1, 5))


@pytest.mark.parametrize(("file", "words"), [
    (arrays(data=np.eye(2)), "x.npz must have an array X; it has data"),
    (arrays(X=np.eye(2), y=np.ones(3)), "x.npz needs one label for each of the 2 rows of X"),
    (arrays(X=np.ones(3)), "must be a table of numbers, not float64 of shape (3,)"),
    (arrays(X=np.array([["a"]])), "must be a table of numbers, not <U1"),
    (arrays(X=np.array([[{}]], dtype=object)), "allow_pickle=False"),
    (arrays(format=b"csr", shape=[1, 2], data=[1.0], indices=[9], indptr=[0, 1]), "must be < 2"),
    (upload("not a zip", "x.npz"), "x.npz cannot be read: File is not a zip file."),
    (upload("not an array", "x.npy"), "x.npy cannot be read"),
    (upload("not a table", "x.parquet"), "x.parquet cannot be read"),
    (named(lzma.compress(b"text\n" * 9999)[:-40], "x.csv.xz"), "x.csv.xz cannot be read: Compressed file ended"),
    (named(b"text\n" * 9999, "x.csv.gz"), "x.csv.gz cannot be read: Not a gzipped file"),
])  # fmt: skip
def test_unsafe_and_damaged_files_are_refused(file, words):
    """A file that is damaged, lacks the array X, needs pickle or has indices out of range is refused."""
    assert words in fails(file)


MAIL = "Return-Path: <ann@x.example>\nReceived: by x\n\tfor bob\nFrom: ann@x.example\nTo: bob@x.example\n\nHello\n"
PAGE = "<!DOCTYPE html><html><table><tr><th>text<th>label<tr><td>a b<td>1</table></html>"
NOT_READ = [
    ("mail", (".eml", ".mbox"), MAIL),
    ("mail", (".mbox",), f"From ann@x.example Mon Jan  1 10:00:00 2024\n{MAIL}"),
    ("web page", (".html", ".htm", ".xhtml", ".xls"), PAGE),
    ("web page", (".html",), "\ufeff\n" + "<!-- a note -->\n" * 9 + PAGE),
    ("database", (".sqlite", ".sqlite3", ".db"), b"SQLite format 3\0" + bytes(99)),
    ("old Excel", (".xls", ".xlsx"), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)),
    ("OpenDocument", (".ods",), zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet"}, 0)),
    ("Reuters-21578", (".sgm", ".sgml"), '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n<REUTERS NEWID="1">\n</REUTERS>\n'),
    ("EndNote", (".enw",), "%0 Journal Article\n%T A title\n%X Words\n"),
    ("XML", (".xml",), '<?xml version="1.0"?><xml><records><record><titles/></record></records></xml>'),
    ("Web of Science", (".tsv", ".csv"), "PT\tAU\tTI\tAB\nJ\tRoe, R\tA title\tWords\t\n".encode("utf-16")),
    ("fastText", (".csv",), "__label__a __label__b Some words\n__label__b More, words\n"),
    ("Vowpal Wabbit", (".vw",), "1 1.0 'one|t Some words\n-1 |t more words\n"),
    ("Vowpal Wabbit", (".vw",), "1 |f a:0.5 b:1\n-1 | a:0.25\n"),
    ("CoNLL", (".conll", ".tsv"), "-DOCSTART- -X- O\n\nthe DT O\nharbour NN B-PLACE\n\nAnn NN B-PERSON\nsaw VB O\n"),
    ("CoNLL", (".conllu",), "# text = Ann\n" + "1\tAnn\tAnn\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 2),
    (
        "WebAnno",
        (".tsv",),
        "#FORMAT=WebAnno TSV 3.2\n\n\n#Text=the bottle\n1-1\t0-3\tthe\t_\t\n1-2\t4-10\tbottle\t_\t\n",
    ),
]


@pytest.mark.parametrize(("what", "suffixes", "content"), NOT_READ)
def test_a_format_that_is_not_read_is_refused_with_a_way_out(what, suffixes, content):
    """Such a file is never taken for a text file, whether its suffix or its content tells what it is. The error names
    its format and one to save it as; `--reader txt` reads it as lines."""
    content = content if isinstance(content, bytes) else content.encode()
    ways = r" is an? .*: .*(\.xlsx|CSV|RIS)"
    for suffix in ("", ".txt", ".csv", *suffixes):
        message = fails(named(content, f"x{suffix}"))
        assert (True, True) == (what in message, re.match(f"x{suffix}{ways}", message) is not None), message
    for suffix in {*suffixes} - {".tsv", ".csv", ".xlsx"}:
        assert re.match(f"x{suffix}{ways}", fails(upload("whatever\n", f"x{suffix}")))
        assert ["whatever"] == read(upload("whatever\n", f"x{suffix}"), reader="txt").texts


def test_a_known_format_with_the_suffix_of_another_is_read():
    """A workbook of today's Excel is read even if its suffix is that of an old one, and so is Parquet."""
    rows = [("text", "label"), ("some words", 1), ("more words", 0)]
    assert ["some words", "more words"] == imported(workbook(("Mail", rows)), "x.xls").texts
    assert ["a b"] == read(named(PARQUET.getvalue(), "x.db"), Columns(("text",))).texts


PARQUET = named(b"", "x.parquet")
parquet.write_table(pyarrow.table({"text": ["a b", None], "label": [1, 0]}), PARQUET)
SPARSE = named(b"", "x.npz")
sparse.save_npz(SPARSE, sparse.eye_array(3, format="csc"), compressed=False)
ARRAY = named(b"", "x.npy")
np.save(ARRAY, np.eye(3))
VALID = [
    PARQUET,
    SPARSE,
    ARRAY,
    arrays(X=np.eye(3), y=[1, -1, 1]),
    upload("1 1:1\n-1 2:3 # c\n", "x.svm"),
    upload('id,text\n1,"a, b"\n', "x.csv"),
    upload('{"a": 1, "text": ["b"]}\n', "x.jsonl"),
    upload("a\tb\n", "x.txt.gz"),
    upload(".I 1\n.U\n7\n.T\nA title\n.M x\n.I 2\n", "x.ohsumed"),
]


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(VALID), st.floats(0, 1), st.integers(0, 9), st.binary(max_size=9))
def test_any_bytes_are_read_or_refused_in_one_line(file, place, cut, put):
    """A randomly altered file gives items or a DataError of one line, never another exception."""
    data = file.getvalue()
    at = int(place * len(data))
    try:
        items = read(named(data[:at] + put + data[at + cut :], file.name))
        message = items.report()
        assert len(items.ids) == len(set(items.ids)) == len(items.labels) == items.y.size > 0
    except DataError as error:
        message = str(error)
    assert message.endswith(".")
    assert "\n" not in message


# ---- Skipped lines and refused files


def test_what_is_skipped_is_reported_with_its_first_line():
    """Broken lines, empty texts and duplicate ids are skipped, and reported with their count and first line."""
    lines = 'id,text,label\n1,good,1\n2,"two\nlines",0\n3\n4, ,0\n1,again,1\n6,"bad"quote,0\n\n7,fine,\n5,x,y,z\n'
    items = read(upload(lines, "x.csv"), replace(LABELLED, id="id"))
    assert items.texts == ["good", "two\nlines", "fine"]
    assert items.ids == ["1", "2", "7"]
    assert items.skipped == {"broken line": (3, 5), "empty text": (1, 6), "duplicate id": (1, 7)}
    assert items.report() == (
        "3 items (1 positive, 1 negative, 1 unlabelled); skipped 5: 3 broken lines (first at "
        "line 5), 1 empty text (line 6), 1 duplicate id (line 7)."
    )


TABLE = Columns(label="label", features=("a", "b"), missing="skip")


@pytest.mark.parametrize(("name", "content", "columns", "count", "skipped"), [
    ("x.jsonl", '{"text": "a"}\n{"text": \n[1]\n\n{"text": "b"}\n{"other": "b"}\n', Columns(text=("text",)), 2,
     {"broken line": (2, 2), "empty text": (1, 6)}),
    ("x.libsvm", "1 1:1\n1 2:\n-1 2:nan\n-1 1:1 # good\nspam 1:1\n1 2:1 1:1\n1 0:1\n1 99999999999:1\n", None, 3,
     {"non-finite row": (1, 3), "broken line": (4, 2)}),
    ("x.csv", "a,b,label\n1,2,1\n,2,1\n3,inf,1\n4,no,0\n5,6,0\n", TABLE, 2,
     {"non-numeric row": (2, 3), "non-finite row": (1, 4)}),
])  # fmt: skip
def test_broken_lines_are_skipped_and_good_ones_stay(name, content, columns, count, skipped):
    """Each format skips its own kinds of broken lines and keeps the good ones. Column 0 is valid in svmlight."""
    items = read(upload(content, name), columns)
    assert (count, skipped) == (len(items.ids), items.skipped)


def test_broken_svmlight_lines_are_counted_in_every_block():
    broken = {17, 4999, 5000, 5001, 12000}
    lines = ["1 oops" if number in broken else f"1 {number}:1" for number in range(1, 12001)]
    items = read(upload("\n".join(lines), "x.svm"))
    assert items.skipped == {"broken line": (5, 17)}
    assert [int(id) for id in items.ids] == (items.vectors.indices + 1).tolist()
    assert len(items.ids) == 12000 - 5


def test_a_column_that_a_file_does_not_have_is_named():
    file = upload("id,text\n1,hello you\n", "x.csv")
    assert fails(file, Columns(("text",), label="spam")) == "x.csv has no column 'spam'; its columns are id, text."
    assert fails(file, Columns(id="id")) == "x.csv has no columns of numbers: name its text (--text) among id, text."
    unnamed = Columns(("text",), positive=("x",))
    assert fails(file, unnamed) == "Positive labels need a label column (--label); x.csv has id, text."
    assert fails(upload("1 1:1\n", "x.svm"), Columns(("text",))) == "x.svm has no column 'text'; its columns are label."
    many = upload(",".join(f"n{k}" for k in range(50)) + "\n" + ",".join("1" * 50), "x.csv")
    assert fails(many, Columns(("n50",))).endswith("n18, n19 and 30 more.")


@pytest.mark.parametrize(("content", "words"), [
    ("", "x.csv has no items, read as csv."),
    ("id,text\n", "x.csv has no items below its header."),
    ("id,text\n1,\n2, \n", "x.csv holds no item that can be imported; skipped 2: 2 empty texts (first at line 2)."),
])  # fmt: skip
def test_a_file_without_items_is_refused(content, words):
    assert words in fails(upload(content, "x.csv"), Columns(("text",)))


def test_a_file_or_a_reader_that_does_not_exist_is_named(tmp_path):
    assert fails(tmp_path / "x.csv") == "x.csv cannot be read: No such file or directory."
    assert fails(tmp_path / "x.csv", reader="word").startswith("There is no reader 'word'; choose from ")


# ---- Encodings, readers, guesses, progress


@pytest.mark.parametrize(("encoding", "line"), [("cp1252", 3), ("latin-1", 6001)])
def test_a_wrong_encoding_is_refused_with_its_line(tmp_path, encoding, line):
    """The error for a file that is not UTF-8 names the first wrong line. With the right encoding the file is read."""
    path, columns = tmp_path / "x.csv", Columns(("text",))
    path.write_text("text\n" + "plain\n" * (line - 2) + "café\n" * 2, encoding)
    assert fails(path, columns).startswith(f"Line {line:,} of x.csv is not utf-8")
    assert read(path, columns, encoding=encoding).texts[-1] == "café"


def test_a_byte_order_mark_is_no_part_of_a_name():
    """A byte order mark is not part of the first column's name. The error for an unknown encoding names it."""
    assert peek(upload("text\ncafé\n", "x.csv", "utf-8-sig")).columns == ["text"]
    assert "There is no encoding 'utf-9'" in fails(upload("text\nx\n", "x.csv"), encoding="utf-9")
    assert fails(upload("text\nx\n", "x.csv"), encoding="utf-16").startswith("Line 1 of x.csv is not utf-16")


@pytest.mark.parametrize(("name", "content", "reader"), [
    ("x.CSV", "whatever", "csv"),
    ("x.ndjson", "whatever", "jsonl"),
    ("x.libsvm.xz", "whatever", "svmlight"),
    ("x.txt", "-1 3:1 11:1 # c\n+1\n# 4\n1 2:0.5\n", "svmlight"),
    ("x.dat", '{"a": 1, "b": 2}\n{"a": 3}\n', "jsonl"),
    ("x.txt", "ham\tone, two\nspam\tthree\n", "tsv"),
    ("x.txt", "a\tb\n1\t2\n".encode("utf-16"), "tsv"),
    ("x", 'a,b\n1,"x, y"\n', "csv"),
    ("x.data.bz2", "1;2\n3;4\n", "csv"),
    ("x.txt", "One line.\n", "txt"),
    ("x.txt", "Hello, you\nAnd you, too\n", "txt"),
    ("x.txt", "At 10:30 we met\n", "txt"),
    ("x.txt", "1 1:0.25 2:0.5 \n" * 5000, "svmlight"),
    ("x.txt", f'{{"text": "{"x" * 5000}"}}\n' * 50, "jsonl"),
    ("ohsumed.87", ".I 1\r\n.U\r\n87049087\r\n.S\r\nJ, K\r\n", "ohsumed"),
    ("ohsumed.88-91.gz", ".I 54711\n.U\n88000001\n", "ohsumed"),
    ("x.ohsumed.bz2", "whatever", "ohsumed"),
    ("x.bin", "PAR1....", "parquet"),
    ("x.bin", b"\x93NUMPY\1\0", "npy"),
    ("x.bin", "PK\3\4....", "zip"),
    ("x.bin", b"PK\3\4" + bytes(26) + b"X.npy....", "npz"),
])  # fmt: skip
def test_the_reader_fits_the_suffix_or_the_content(name, content, reader):
    """A named reader takes precedence. Otherwise the reader is chosen by the file suffix, ignoring a suffix such as
    .xz, and if this does not decide, by the content."""
    with open_source(upload(content, name), Opening()) as source:
        assert reader == reader_for(source)
        assert "npy" == reader_for(source, "npy")


def test_a_file_in_no_known_format_is_refused():
    """An empty or binary file with an unknown suffix is refused and not read as text."""
    assert fails(upload("", "x.bin")) == f"x.bin is empty; the readers are {', '.join(READERS)}."
    assert fails(upload("\0\1\2\n\3", "x.bin")).startswith("x.bin is in no known format")


C123 = ["c1", "c2", "c3"]


@pytest.mark.parametrize(("name", "content", "columns", "guess"), [
    ("x.csv", "hmid,moment,concepts\n7,I was here,a\n8,You were there,b\n", None,
     Columns(("moment",), "concepts", "hmid")),
    ("x.csv", "record_id,title,abstract,label_included\n1,A b,C d,1\n2,E f,G h,0\n", None,
     Columns(("title", "abstract"), "label_included", "record_id")),
    ("x.tsv", "ham\tGo there now\nspam\tWin a prize\nham\tSee you\n", ["c1", "c2"], Columns(("c2",), "c1")),
    ("x.csv", "3.5,2,7\n1.5,2,7\n2.5,3,8\n8.5,2,7\n", C123, Columns((), "c3", features=("c1", "c2"))),
    ("x.csv", "1,2.5,7.5\n0,2.1,7.2\n1,3.2,8.1\n0,2.3,7.7\n", C123, Columns((), "c1", features=("c2", "c3"))),
    ("x.csv", "A.1,A.2,spam\n1,2,spam\n3,4,email\n", None, Columns((), "spam", features=("A.1", "A.2"))),
    ("x.csv", "0,1,label\n1,2,ham\n3,4,spam\n", None, Columns((), "label", features=("0", "1"))),
    ("x.csv", "T,2,8\nI,5,12\nT,4,11\n", C123, Columns((), "c1", features=("c2", "c3"))),
    ("x.csv", ",name,name\nx,a b,c\ny,d e,f\n", ["c1", "name", "c3"], Columns(("name",), "c3")),
    ("x.csv", "note,story\na b,a long story\nc d,a longer story\n", None, Columns(("story",), "note")),
    ("x.txt", "To be\nor not to be\n", ["text"], Columns(("text",))),
    ("ohsumed.87", OHSUMED[: OHSUMED.index(".I 4")],
     "sequence medline_id source mesh title publication_type abstract authors".split(),
     Columns(("title", "abstract"), "mesh", "medline_id")),
    ("x.svm", "1 2:1\n-1 1:3\n", ["label"], Columns((), "label", features=())),
])  # fmt: skip
def test_the_columns_of_a_file_are_guessed(name, content, columns, guess):
    """A header is distinguished from data, and the columns for text, label, id and features are guessed."""
    preview = peek(upload(content, name))
    assert preview.columns == (columns or content.partition("\n")[0].split(","))
    assert preview.guess == guess


def test_a_preview_has_the_first_rows():
    """A preview has the first rows, each as {column: text}, without broken lines."""
    file = upload('{"text": "x", "n": [1, 2.0]}\noops\n{"text": null, "ok": true}\n{"text": "z"}\n', "x.jsonl")
    preview = peek(file, 2)
    assert (preview.reader, preview.columns, preview.numeric) == ("jsonl", ["text", "n", "ok"], ())
    assert preview.rows == [{"text": "x", "n": "1|2", "ok": ""}, {"text": "", "n": "", "ok": "true"}]
    rows = peek(upload("1 3:0.5\n-1\n", "x.svm")).rows
    assert [("1", "3:0.5"), ("-1", "")] == [(row["label"], row["features"]) for row in rows]


def test_progress_ends_at_the_size_of_the_file(tmp_path):
    """Progress is reported in bytes of the compressed file, increases, and ends at the file's size."""
    path, calls = tmp_path / "x.csv.gz", []
    path.write_bytes(gzip.compress(b"text\n" + b"".join(b"line %d\n" % number**9 for number in range(20_000))))
    read(path, progress=lambda *call: calls.append(call))
    size = path.stat().st_size
    assert len(calls) == 5
    assert calls == sorted(calls)
    assert {total for _, total in calls} == {size}
    assert 0 < calls[0][0] < calls[-1][0] == size


# ---- Real files


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes", "counts"), [
    ("happymoments.csv.xz", {"positive": ("exercise",), "contains": True}, (27775, 1393, None)),
    ("sms_spam_collection.tsv.xz", {"positive": ("spam",)}, (5574, 747, None)),
    ("ohsumed_single23.jsonl.xz", {"positive": ("C14",)}, (7400, 1175, None)),
    ("sysrev_Nagtegaal_2019.csv.xz", {}, (2019, 101, None)),
    ("german.libsvm.xz", {}, (1000, 300, (1000, 24))),
    ("w8a.libsvm.xz", {}, (64700, 1933, (64700, 300))),
    ("spambase.csv.xz", {"positive": ("spam",)}, (4601, 1813, (4601, 57))),
    ("svmguide1.csv.xz", {}, (7089, 4000, (7089, 4))),
    ("covtype_sample20k.csv.xz", {"positive": ("2",)}, (20000, 9687, (20000, 54))),
    ("mlbench_LetterRecognition.csv.xz", {"positive": ("A",)}, (20000, 789, (20000, 16))),
])  # fmt: skip
def test_every_row_of_real_files_is_read(name, changes, counts):
    """The guess of a real file's columns is right, and every one of its rows is read."""
    if not (SHARED / name).exists():
        pytest.skip(f"../shared/data/{name} is missing")
    items = read(SHARED / name, replace(peek(SHARED / name).guess, **changes))
    shape = None if items.vectors is None else items.vectors.shape
    assert (len(items.ids), (items.y == 1).sum(), shape) == counts
    assert items.skipped == {}
    assert (items.y != 0).all()


@pytest.mark.parametrize(
    ("record", "label"),
    [
        ({"text": "x", "answer": "reject", "_input_hash": 1}, "no"),
        ({"text": "x", "answer": "ignore"}, ""),
        ({"text": "x", "cats": {"A": 0.1, "B": 1.0}}, "B"),
        ({"id": 1, "data": {"text": "x"}, "annotations": []}, ""),
        ({"data": {"text": "x"}, "meta": {"label": "yes"}}, "yes"),
    ],
)
def test_records_of_labeling_tools(record, label):
    """The text and the label inside records of labeling tools are found, even in lines that are appended later."""
    lines = [json.dumps(record)] * 3
    head = peek(upload("\n".join(lines), "x.jsonl"))
    words = {row[next(name for name in row if name.rpartition(".")[2] == "label")] for row in head.rows}
    texts = {row[next(name for name in row if name.rpartition(".")[2] == "text")] for row in head.rows}
    assert ({label}, {"x"}) == (words, texts)
    wanted = Columns(text=head.guess.text or ("text",), label="meta.label" if "meta" in record else "label")
    later = read_lines([(1, lines[0])], wanted, {"yes": 1, "no": -1, "B": 1, "": 0}, True)
    assert (["x"], [label]) == (later.texts, later.labels)

"""Archives, folders and groups of files are read by their contents; tables are read from Parquet and Arrow."""

import bz2
import gzip
import io
import json

import pyarrow
import pytest
from pyarrow import parquet

from oal_engine.datasets.reading import Columns, DataError, layout_sentence, peek, read
from oal_engine.datasets.reading.archives import one_file
from oal_engine.datasets.reading.sources import LIMITS, Layout
from tests.harness.files import fails, imported, named, zipped
from tests.harness.shapes import workbook

COUNT = 24
TEXTS = [f"Note {k} is about the harbour" for k in range(COUNT)]
LABELS = [k % 3 == 0 for k in range(COUNT)]
SIGNS = [1 if label else -1 for label in LABELS]


def table(rows=range(COUNT), columns=("id", "text", "label"), end="\n"):
    cells = {"id": lambda k: f"n{k}", "text": lambda k: TEXTS[k], "label": lambda k: int(LABELS[k]), "n": lambda k: k}
    return end.join([",".join(columns), *(",".join(str(cells[each](k)) for each in columns) for k in rows), ""])


HALF = COUNT // 2
CLASSES = {f"data/{'pos' if LABELS[k] else 'neg'}/{k}.txt": TEXTS[k] for k in range(COUNT)}
OF_TEXTS = {f"texts/{k}.txt": f"{TEXTS[k]}\n" for k in range(COUNT)}
ARCHIVES = {
    "a table": {"data.csv": table()},
    "a table beside junk": {
        "__MACOSX/._data.csv": b"\0\5\x16\7", ".DS_Store": b"\0\0\0\1Bud1", "Thumbs.db": b"\xd0\xcf\x11\xe0",
        "README.md": "About it.\n", "LICENSE": "Free.\n", "photo.png": b"\x89PNG\r\n", "data.csv": table(),
        "settings.json": '{"a": 1, "b": {"c": 2}}',
    },
    "a table in a folder": {"a/": "", "a/b/": "", "a/b/data.csv": table(end="\r\n")},
    "a packed table": {"data.csv.gz": gzip.compress(table().encode())},
    "a table in another encoding": {"data.csv": table().encode("utf-16")},
    "parts of a table": {
        "part-1.csv": table(range(HALF)), "part-2.csv": table(range(HALF, COUNT), ("label", "id", "text")),
    },
    "parts in folders": {
        "train/a.csv": table(range(HALF)), "test/a.csv.bz2": bz2.compress(table(range(HALF, COUNT)).encode()),
    },
    "a table and its labels": {
        "texts.csv": table(columns=("id", "text")), "labels.csv": table(columns=("id", "label")),
    },
    "texts and their labels": OF_TEXTS | {
        "labels.csv": "file,label\n" + "".join(f"{k}.txt,{int(label)}\n" for k, label in enumerate(LABELS))
    },
    "a workbook": {"data.xlsx": workbook(("Mail", [each.split(",") for each in table().splitlines()]))},
    "objects": {"data.jsonl": "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in zip(TEXTS, LABELS))},
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_read_by_what_is_in_it(name):
    """Every text in an archive gets its label, and files of operating systems, notes and pictures are ignored."""
    items = imported(zipped(ARCHIVES[name]))
    found = sorted(zip(items.texts, items.y.tolist()), key=lambda pair: TEXTS.index(pair[0]))
    assert [*zip(TEXTS, SIGNS)] == found


@pytest.mark.parametrize(("members", "classes"), [
    (CLASSES, ""),
    ({f"set/{'test' if k % 2 else 'train'}/{path[5:]}": text for k, (path, text) in enumerate(CLASSES.items())}, ""),
    (CLASSES | {"data/unsup/99.txt": "Without a label", "data/words.vocab": "the\n"}, "unlabelled"),
    ({f"{'relevant' if LABELS[k] else 'irrelevant'}/{k:04}.7a": TEXTS[k] for k in range(COUNT)}, ""),
])  # fmt: skip
def test_a_folder_per_class_is_a_label(members, classes):
    """If an archive has a folder for each class, the folder's name is the label of its texts. Folders named train or
    test are not labels. The report names ignored files."""
    items = imported(zipped(members))
    labels = dict(zip(items.texts, items.y.tolist()))
    assert dict(zip(TEXTS, SIGNS)) == {text: y for text, y in labels.items() if y}
    assert len(items.ids) == COUNT + bool(classes)
    assert ("ignored data/words.vocab" in layout_sentence(items.description)) == bool(classes)


def test_texts_without_folders_have_no_labels():
    """If an archive has many text files and no folders, each file is a text, in numeric order, and its name is its
    id."""
    items = imported(zipped(OF_TEXTS))
    assert ([*map(str, range(COUNT))], TEXTS, [0] * COUNT) == (items.ids, items.texts, items.y.tolist())


def test_documents_of_a_folder_are_items():
    items = imported(zipped({f"{k}.json": json.dumps({"key": k, "text": text}) for k, text in enumerate(TEXTS)}))
    assert TEXTS == items.texts


DIFFERENT = {
    "a.csv": table(columns=("id", "text", "label")),
    "b/b.csv": table(columns=("n", "text")).replace("text", "comment"),
}


def test_different_tables_are_asked_about():
    """The import asks which of several unrelated tables to read, and the answer may be a name or a path."""
    head = peek(named(zipped(DIFFERENT), "data.zip"))
    (doubt,) = head.doubts
    assert ("member", ("a.csv", "b/b.csv")) == (doubt.about, doubt.answers)
    assert doubt.question.endswith("say which to read (--member NAME).")
    for member in ("b/b.csv", "b.csv", "b"):
        assert TEXTS == imported(zipped(DIFFERENT), layout=Layout(member=member)).texts
    wrong = fails(named(zipped(DIFFERENT), "data.zip"), layout=Layout(member="c.csv"))
    assert wrong == "data.zip has no member 'c.csv'; it has a.csv, b/b.csv."


def test_few_texts_of_several_lines_are_asked_about():
    content = zipped({"pos.txt": "good\nbetter\n", "neg.txt": "bad\nworse\nworst\n"})
    with pytest.raises(DataError, match=r"--each file or --each line"):
        imported(content)
    assert 2 == len(read(named(content, "x.zip"), Columns(("text",)), layout=Layout(each="file")).texts)
    rows = peek(named(content, "x.zip"), layout=Layout(each="line")).rows
    assert [("bad", "neg.txt"), ("good", "pos.txt")] == [(row["text"], row["source"]) for row in rows[::3]]


def test_labels_of_other_items_are_not_joined():
    """A table of labels is not joined to a table of texts if its ids repeat or belong to other items. The archive is
    refused, and the error names the option that chooses a file."""
    for labels in ("id,label\nm1,1\nm2,0\n", "id,label\nn1,1\nn1,0\n"):
        content = zipped({"texts.csv": table(columns=("id", "text")), "labels.csv": labels})
        with pytest.raises(DataError, match="--member NAME"):
            imported(content)


def test_labels_may_lack_for_some_texts():
    content = zipped({"texts.csv": table(columns=("id", "text")), "labels.csv": table(range(5), ("id", "label"))})
    assert SIGNS[:5] + [0] * (COUNT - 5) == imported(content).y.tolist()


def encrypted():
    content = bytearray(zipped({"data.csv": table()}))
    for at in (6, content.index(b"PK\1\2") + 8):
        content[at] |= 1
    return bytes(content)


@pytest.mark.parametrize(("content", "sentence"), [
    (zipped({}), "data.zip holds no file that can be imported; it has none."),
    (zipped({"a.png": b"\x89PNG", "b.zip": zipped({"data.csv": table()})}), "can be imported; it has a.png, b.zip."),
    (zipped({f"in/{k}": "From: a@b.example\nTo: c\nDate: today\n\nWords\n" for k in range(COUNT)}),
     "data.zip/in/0 is a mail: save its texts as CSV or .xlsx."),
    (encrypted(), "is encrypted: unpack it with its password"),
    (zipped({"data.csv": table()})[:-30], "data.zip cannot be read: "),
    (zipped({"data.csv": table()}).replace(b"PK\1\2", b"PK\1\3"), "data.zip cannot be read: "),
])  # fmt: skip
def test_an_archive_that_cannot_be_read_is_refused(content, sentence):
    assert sentence in fails(named(content, "data.zip"))


def test_a_reader_is_not_named_for_an_archive():
    """Naming a reader for an archive is an error, because its files have formats of their own."""
    message = fails(named(zipped({"data.csv": table()}), "data.zip"), reader="csv")
    assert message == "data.zip is an archive, whose files have formats of their own: leave out --reader."


def test_a_folder_and_several_files_are_read_like_an_archive(tmp_path):
    for path, content in (CLASSES | {"data/.git/x.txt": "hidden", "data/pos/.x.txt": "hidden"}).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "data/neg/link.txt").symlink_to(tmp_path / "data/neg/1.txt")
    with one_file([tmp_path / "data"], LIMITS) as path:
        head = peek(path)
        assert (path.name, dict(zip(TEXTS, SIGNS))) == (
            "data",
            dict(zip((items := read(path, head.guess)).texts, items.y)),
        )
    parts = tmp_path / "part-1.csv", tmp_path / "part-2.csv"
    for path, rows in zip(parts, (range(HALF), range(HALF, COUNT))):
        path.write_text(table(rows))
    with one_file(parts, LIMITS) as path:
        assert ("part-1 and 1 more", TEXTS) == (path.name, read(path).texts)
    with one_file(parts[:1], LIMITS) as path:
        assert parts[0] == path


def test_the_command_line_takes_folders_and_several_files(tmp_path, command):
    parts, db = [tmp_path / "part-1.csv", tmp_path / "part-2.csv"], ("--db", tmp_path / "studio.db")
    for path, rows in zip(parts, (range(HALF), range(HALF, COUNT))):
        path.write_text(table(rows))
    assert "24 items (8 positive, 16 negative)" in command("import", *parts, "--name", "x", *db)[1]
    (tmp_path / "more").mkdir()
    (tmp_path / "more/part-3.csv").write_text("id,text,label\nm1,A new note,1\n")
    assert "appended 1" in command("append", "x", tmp_path / "more", *db)[1]
    code, _, error = command("import", tmp_path / "none.csv", parts[0], "--name", "y", *db)
    assert (1, "error: none.csv cannot be read: No such file or directory.\n") == (code, error)


# ---- Tables of Parquet and Arrow


def streamed():
    file, made = io.BytesIO(), pyarrow.table({"text": TEXTS, "label": LABELS})
    with pyarrow.ipc.new_stream(file, made.schema) as writer:
        writer.write_table(made, max_chunksize=7)
    return file.getvalue()


def with_class_names(names, values, kind=None):
    feature = {"names": names, "_type": "ClassLabel"}
    about = {"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, "label": kind or feature}}}
    made = pyarrow.table({"text": pyarrow.array(TEXTS).dictionary_encode(), "label": values})
    file = io.BytesIO()
    parquet.write_table(made.replace_schema_metadata({"huggingface": json.dumps(about)}), file)
    return file.getvalue()


TABLES = {
    "data-00000-of-00001.arrow": streamed(),
    "train.parquet": with_class_names(["no", "yes"], [int(label) for label in LABELS]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_only_table_of_a_file_is_read(name):
    """If a file has only one table, every row is an item with its text and label, whatever program wrote it."""
    items = imported(TABLES[name], name)
    assert (TEXTS, SIGNS) == (items.texts, items.y.tolist())


@pytest.mark.parametrize(("kind", "values", "words"), [
    (None, [0, 1, -1] * 8, ["ham", "spam", ""]),
    ({"feature": {"names": ["ham", "spam"], "_type": "ClassLabel"}, "_type": "Sequence"}, [[0], [0, 1], []] * 8,
     ["ham", "ham|spam", ""]),
    ([{"names": ["ham", "spam"], "_type": "ClassLabel"}], [[0], [0, 1], []] * 8, ["ham", "ham|spam", ""]),
    ({"names": "broken", "_type": "ClassLabel"}, [0, 1, 5] * 8, ["0", "1", "5"]),
])  # fmt: skip
def test_numbers_of_classes_become_their_names(kind, values, words):
    """Class numbers become the class names that Hugging Face stores with a table; without names the numbers stay."""
    rows = peek(named(with_class_names(["ham", "spam"], values, kind), "x.parquet")).rows
    assert words == [row["label"] for row in rows[:3]]

"""MEDLINE records are read whole, and their MeSH headings decide which items are positive."""

import json
import lzma
from dataclasses import replace

import pytest

from oal_engine.datasets.reading import READERS, Columns, DataError, peek, read
from oal_engine.datasets.reading.readers import mesh_terms
from oal_engine.datasets.reading.sources import Opening, open_source
from tests.harness.files import LABELLED, OHSUMED, PACK, fails, upload

TREE = """\
Cardiovascular Diseases;C14
Heart Diseases;C14.280
Arrhythmias, Cardiac;C14.280.067
Atrial Fibrillation;C14.280.067.198
Heart Arrest;C14.280.383
Induction;C14.2801
Atrial Fibrillation;C23.550.073.198
Heart Arrest, Induced;E04.100.376
"""


HEART = ("Heart Diseases", "Arrhythmias, Cardiac", "Atrial Fibrillation", "Heart Arrest")


MEDLINE = Columns(("title", "abstract"), "mesh", "medline_id", positive=HEART, headings=True)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "\n", "stray words\n"])
def test_ohsumed(end, before):
    """All fields of a record are read, on the tag's line or below it. Broken records are reported with the first of
    their lines."""
    file = upload((before + OHSUMED).replace("\n", end), "x.ohsumed.xz")
    preview, stray = peek(file), "stray" in before
    assert preview.rows[0] == {
        "sequence": "1",
        "medline_id": "87000001",
        "source": "J Made Up 8703; 1(2):3-5",
        "mesh": "Adult; Heart Arrest, Induced/*; Human; Support, U.S. Gov't, P.H.S..",
        "title": "Cooling of the heart.",
        "publication_type": "JOURNAL ARTICLE.",
        "abstract": "The first line of an invented abstract, .05 of which begins with a dot, and a third one.",
        "authors": "Doe J; Roe R.",
    }
    items = read(file, MEDLINE)
    assert dict(zip(items.ids, items.y.tolist())) == {"87000001": -1, "87000002": 1, "87000003": -1, "87000008": 1}
    assert dict(zip(items.ids, items.texts)) == {
        "87000001": f"{preview.rows[0]['title']}\n{preview.rows[0]['abstract']}",
        "87000002": "A rhythm without an abstract.",
        "87000003": "A letter without headings, in two lines.",
        "87000008": "An abstract without a title.",
    }
    lines = {reason: line for reason, (_, line) in items.skipped.items()}
    at = {row: before.count("\n") + OHSUMED[: OHSUMED.index(row)].count("\n") + 1 for row in (".I 4", ".I 7", ".I 9")}
    expected = {"broken line": 1 if stray else at[".I 4"], "duplicate id": at[".I 7"], "empty text": at[".I 9"]}
    assert lines == expected
    assert [count for count, _ in items.skipped.values()] == [2 + stray, 1, 1]


def test_ohsumed_is_streamed():
    """The first record is parsed before a tenth of the file has been read."""
    file = upload(OHSUMED * 1000, "x.ohsumed")
    with open_source(file, Opening()) as source:
        line, cells = next(iter(READERS["ohsumed"].parse(source).rows))
        assert (line, cells[1]) == (1, "87000001")
        assert file.tell() < len(file.getvalue()) / 10


@pytest.mark.parametrize(("label", "y"), [
    ("Heart Diseases", 1),
    ("Human; *heart diseases/TH/*DI.", 1),
    ("Human;Arrhythmias, Cardiac/*.", 1),
    ("Heart Arrest, Induced", -1),
    ("Arrhythmias; Cardiac", -1),
    ("Heart Diseases, Other", -1),
    ("", -1),
])  # fmt: skip
def test_headings(label, y):
    """A MeSH heading must match whole, ignoring qualifiers, stars, final dot and case; no heading means negative."""
    content = json.dumps({"text": "x", "label": label}) + '\n{"text": "y", "label": "Heart Arrest"}\n'
    items = read(upload(content, "x.jsonl"), replace(LABELLED, positive=HEART, headings=True))
    assert items.y.tolist() == [y, 1]


def test_headings_of_which_none_occurs():
    file = upload(OHSUMED, "x.ohsumed")
    none = "None of the 2 positive MeSH terms occurs in column 'mesh' of x.ohsumed, which holds "
    assert fails(file, replace(MEDLINE, positive=("Liver", "Heart"))).startswith(none + "Adult; Heart Arrest")
    bare = "text,label\nx,\n"
    assert "which holds none." in fails(upload(bare, "x.csv"), replace(LABELLED, positive=HEART, headings=True))
    assert fails(file, replace(MEDLINE, positive=())) == (
        "MeSH headings need the terms that are positive: give a tree file and a tree number."
    )


@pytest.mark.parametrize("suffix", sorted(PACK))
def test_mesh_terms(suffix):
    """A tree number selects its descriptor and all below it, each once. C14.280 does not select C14.2801."""
    tree = upload(TREE, f"tree.bin{suffix}")
    assert mesh_terms(tree, "C14.280") == mesh_terms(tree, " c14.280. ") == HEART
    assert mesh_terms(tree, "C14") == ("Cardiovascular Diseases", *HEART, "Induction")
    assert mesh_terms(tree, "C23.550.073.198") == ("Atrial Fibrillation",)
    with pytest.raises(DataError) as caught:
        mesh_terms(tree, "C14.28")
    assert str(caught.value) == (
        f"tree.bin{suffix} has no tree number 'C14.28': its lines must be such as Heart Diseases;C14.280."
    )


def test_heart_diseases_of_mesh(shared):
    """In the MeSH tree of 2019, C14.280 and the numbers below it have 226 lines and 180 descriptors."""
    path = shared("mesh_mtrees2019.bin.xz")
    with lzma.open(path, "rt") as file:
        lines = [line.strip() for line in file if line.partition(";C14.280")[1]]
    assert len(lines) == 226
    terms = mesh_terms(path, "C14.280")
    assert (len(terms), set(terms)) == (180, {line.partition(";")[0] for line in lines})

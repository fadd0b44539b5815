"""Label words become positive, negative, unknown, or one of several classes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from oal_engine.datasets.reading import Columns, peek, read
from tests.harness.files import LABELLED, arrays, fails, upload, zipped


@pytest.mark.parametrize(("labels", "y"), [
    ("1 -1 +1 1.0", [1, -1, 1, 1]),
    ("0 1 1 0", [-1, 1, 1, -1]),
    ("True false TRUE False", [1, -1, 1, -1]),
    ("yes no  yes", [1, -1, 0, 1]),
    ("Positive negative", [1, -1]),
    ("relevant irrelevant", [1, -1]),
    ("included excluded", [1, -1]),
    ("0 0", [-1, -1]),
    ("1 1", [1, 1]),
    (" ", [0, 0]),
])  # fmt: skip
def test_well_known_labels(labels, y):
    """Well-known pairs of label words, such as yes and no, need no settings. An empty cell means no label."""
    words = labels.split(" ")
    items = read(upload("text,label\n" + "".join(f"some text,{word}\n" for word in words), "x.csv"), LABELLED)
    assert (items.labels, items.y.tolist()) == (words, y)
    assert items.y.dtype == np.int8


@pytest.mark.parametrize(("positive", "contains", "y"), [
    (("spam",), False, [1, -1, -1, -1, 0, -1]),
    (("SPAM",), False, [-1, 1, -1, -1, 0, -1]),
    (("sPaM",), False, [1, 1, -1, -1, 0, -1]),
    (("spam", "2"), False, [1, -1, -1, -1, 0, 1]),
    (("ham",), True, [-1, -1, 1, 1, -1, -1]),
    (("spam|ham",), False, [-1, -1, 1, -1, 0, -1]),
    (("food",), True, [-1, -1, -1, 1, -1, -1]),
])  # fmt: skip
def test_positive_labels(positive, contains, y):
    """A positive label matches case-sensitively if the file contains it in exactly this case, otherwise ignoring case.
    With `contains` it matches one of several labels in a cell."""
    labels = ["spam", "SPAM", "spam|ham", "eggs; food,ham", "", "2.0"]
    content = "".join(json.dumps({"text": "x", "label": label}) + "\n" for label in labels)
    items = read(upload(content, "x.jsonl"), replace(LABELLED, positive=positive, contains=contains))
    assert items.y.tolist() == y


def test_lists_as_labels():
    lines = '{"text": "x", "label": ["a", "b"]}\n{"text": "y", "label": ["c"]}\n{"text": "z", "label": []}\n'
    items = read(upload(lines, "x.jsonl"), replace(LABELLED, positive=("b",), contains=True))
    assert (items.labels, items.y.tolist()) == (["a|b", "c", ""], [1, -1, -1])


@pytest.mark.parametrize("cell", ["['b, c', \"a\"]", "['b, c' 'a']", '["b, c", "a"]', '{"choices": ["b, c", "a"]}'])
def test_written_lists_as_labels(cell):
    """A list that Python, numpy, JSON or Label Studio has written into a cell is split into its words. A bare word in
    brackets is not a list."""
    content = "".join(json.dumps({"text": "x", "label": each}) + "\n" for each in [cell, "a", "[]", "[a]", "c [a] b"])
    items = read(upload(content, "x.jsonl"), replace(LABELLED, positive=("a",), contains=True))
    assert [1, 1, -1, 1, -1] == items.y.tolist()
    assert [1, -1, -1, -1, -1] == read(
        upload(content, "x.jsonl"), replace(LABELLED, positive=("b, c",), contains=True)
    ).y.tolist()


def test_unknown_labels():
    """The error for label words that are not a known pair lists them with counts. If words of two pairs are mixed, it
    names the first line that does not fit."""
    ham = upload("text,label\n" + "x,ham\n" * 3 + "x,spam\n", "x.csv")
    ways = (
        ". Pick the labels of the rare class (--positive), make each word a class (--multiclass), name the "
        "words that mean no label (--unknown), or import no labels (--label '')."
    )
    assert fails(ham, LABELLED) == f"Column 'label' of x.csv has 2 labels: ham (3), spam (1){ways}"
    unknown = "The positive label 'eggs' does not occur in column 'label' of x.csv, which holds ham (3), spam (1)."
    assert fails(ham, replace(LABELLED, positive=("eggs",))) == unknown
    mixed = upload("text,label\nx,1\nx,0\nx,yes\nx,0\n", "x.csv")
    labels = "3 labels: 0 (2), 1 (1), yes (1); 'yes' at line 4 does not pair with the others"
    assert fails(mixed, LABELLED) == f"Column 'label' of x.csv has {labels}{ways}"
    assert "'0' at line 3 does not pair with the others" in fails(upload("-1 1:1\n1 1:1\n0 1:1\n", "x.svm"))


EACH_WORD = replace(LABELLED, multiclass=True)


def test_each_word_is_a_class():
    """If each label word is a class, classes are numbered from 1 in the order of their names, an empty label is 0, and
    the report counts the items of each class."""
    content = "text,label\n" + "".join(f"x,{word}\n" for word in ["C10", "b", "C2", "", "A", "C2", "C2"])
    items = read(upload(content, "x.csv"), EACH_WORD)
    assert (items.classes, items.y.tolist()) == (("A", "b", "C2", "C10"), [4, 2, 3, 0, 1, 3, 3])
    assert items.y.dtype == np.int8
    assert items.counts() == {"A": 1, "b": 1, "C2": 3, "C10": 1}
    assert items.report() == "7 items (1 unlabelled) in 4 classes: C2 (3), A (1), b (1), C10 (1)."


def test_the_report_names_the_largest_classes():
    """The report names the six largest classes, with long names cut, and then the skipped lines."""
    long = f"text,label\nx,{'long ' * 20}\ny,short\n"
    assert f"2 items in 2 classes: {'long ' * 8}(1), short (1)." == read(upload(long, "x.csv"), EACH_WORD).report()
    content = "text,label\n" + "".join(f"x {k},{k}\n" for k in range(30)) + "x,7\n,8\n"
    assert read(upload(content, "x.csv"), EACH_WORD).report() == (
        "31 items in 30 classes: 7 (2), 0 (1), 1 (1), 2 (1), 3 (1), 4 (1) and 24 more; "
        "skipped 1: 1 empty text (line 33)."
    )


@pytest.mark.parametrize(("words", "classes"), [
    ("10 9 1.5 -1 1 1.0", ("-1", "1", "1.5", "9", "10")),
    ("b10 B9 10 a b 2", ("2", "10", "a", "b", "B9", "b10")),
    ("x x2y10 x2y9 x10 X", ("X", "x", "x2y9", "x2y10", "x10")),
    ("nan 2 1", ("1", "2")),
    ("spam Spam", ("Spam", "spam")),
    (f"a{'9' * 5000} a1 a²", ("a1", f"a{'9' * 5000}", "a²")),
])  # fmt: skip
def test_the_order_of_classes(words, classes):
    """Classes are in natural order: numbers, then words ignoring case. Digits in words are compared as numbers."""
    content = "text,label\n" + "".join(f"x,{word}\n" for word in words.split())
    assert read(upload(content, "x.csv"), EACH_WORD).classes == classes


def test_classes_of_a_format_that_brings_its_labels():
    """Labels of svmlight lines and of arrays can be classes too, and labels of skipped rows are not counted."""
    lines = "".join(f"{1 + k % 26} {k + 1}:1\n" for k in range(52)) + "7 1:nan\n"
    items = read(upload(lines, "x.libsvm"), Columns(multiclass=True))
    assert items.classes == tuple(map(str, range(1, 27)))
    assert items.y.tolist() == [*range(1, 27)] * 2
    file = arrays(X=np.eye(3), y=np.array([2, 0, 1]))
    assert read(file, Columns(multiclass=True)).y.tolist() == [3, 1, 2]


@pytest.mark.parametrize(("content", "columns", "message"), [
    ("x,1\n", EACH_WORD, "Column 'label' of x.csv must hold 2 to 127 classes. Got 1: 1 (1)."),
    ("x,\n", EACH_WORD, "Column 'label' of x.csv must hold 2 to 127 classes. Got 0."),
    ("".join(f"x,{k}\n" for k in range(128)), EACH_WORD, "must hold 2 to 127 classes. Got 128: 0 (1), 1 (1), "),
    ("x,1\n", replace(EACH_WORD, positive=("1",)), "With multiclass each label word is a class of its own: "),
    ("x,1\n", replace(EACH_WORD, contains=True), "give no positive words and no contains."),
    ("x,1\n", replace(EACH_WORD, label=None), "Classes need a label column (--label); x.csv has text, label."),
])  # fmt: skip
def test_invalid_classes(content, columns, message):
    """Classes are refused if there are too few or too many, if positive words or `contains` are given too, or without a
    label column."""
    assert message in fails(upload("text,label\n" + content, "x.csv"), columns)


def test_as_many_classes_as_fit():
    items = read(upload("text,label\n" + "".join(f"x {k},{k}\n" for k in range(127)), "x.csv"), EACH_WORD)
    assert items.y.tolist() == list(range(1, 128))


@pytest.mark.parametrize(
    ("words", "y"),
    [
        (["1", "0", "NA", "?", "unlabeled", "0"], [1, -1, 0, 0, 0, -1]),
        (["1", "0", "skip", "maybe", "", "0"], [1, -1, 0, 0, 0, -1]),
        (["yes", "no", "unsure", "None", "n/a", "no"], [1, -1, 0, 0, 0, -1]),
        (["accept", "reject", "ignore", "reject", "-", "accept"], [1, -1, 0, -1, 0, 1]),
        (["1", "-1", "1", "-1", "nan", "-1"], [1, -1, 1, -1, 0, -1]),
        (["+", "-", "+", "-", "?", "-"], [1, -1, 1, -1, 0, -1]),
    ],
)
def test_words_for_no_label_are_no_labels(words, y):
    """Words such as NA mean that an item has no label; so do words such as unsure next to a pair such as yes and no."""
    content = "".join(json.dumps({"text": "x", "label": word}) + "\n" for word in words)
    assert y == read(upload(content, "x.jsonl"), LABELLED).y.tolist()
    positive = next(word for word, sign in zip(words, y) if sign > 0)
    assert y == read(upload(content, "x.jsonl"), replace(LABELLED, positive=(positive,))).y.tolist()


def test_a_word_that_can_be_a_class_stays_one():
    """Beside labels that are no known pair such as yes and no, `none` is a class like any other. NA means no label."""
    content = "".join(json.dumps({"text": "x", "label": word}) + "\n" for word in ("hate", "none", "insult", "NA"))
    items = read(upload(content, "x.jsonl"), replace(LABELLED, multiclass=True))
    assert (("hate", "insult", "none"), [1, 3, 2, 0]) == (items.classes, items.y.tolist())


def test_a_column_with_one_word_is_no_label():
    for word in ("", "todo"):
        rows = "".join(f"a text of some words {k},{word}\n" for k in range(5))
        assert peek(upload(f"text,label\n{rows}", "x.csv")).guess.label is None


def test_decisions_of_a_screening_are_labels():
    """Decisions that ASReview and Rayyan wrote into a reference's notes are its label, unless they conflict."""
    notes = ["ASReview_relevant", "ASReview_irrelevant", "ASReview_not_seen", "x"]
    notes += ['RAYYAN-INCLUSION: {"Ann"=>"Included"}', 'RAYYAN-INCLUSION: {"Ann"=>"Included", "Bo"=>"Excluded"}']
    content = "".join(
        f"TY  - JOUR\nTI  - Study {k}\nAB  - It is.\nN1  - {note}\nER  - \n" for k, note in enumerate(notes)
    )
    assert [1, -1, 0, 0, 1, 0] == read(upload(content, "x.ris")).y.tolist()


def test_single_labels_are_counted_for_cells_that_hold_several():
    rows = ["food|family"] * 3 + ["food"] * 2 + ["family; work"] + ["work"] * 2
    head = peek(upload("text,label\n" + "".join(f"some words {k},{cell}\n" for k, cell in enumerate(rows)), "x.csv"))
    assert {"label": {"food": 5, "family": 4, "work": 3}} == head.part_words


def test_label_words_are_counted_beyond_the_first_rows(tmp_path):
    path = tmp_path / "sorted.csv"
    lines = (f"words {k},class {k // 500},{'food' if k % 2 else 'food|work'}\n" for k in range(2_000))
    path.write_text("text,label,topics\n" + "".join(lines))
    whole = peek(path)
    assert ({f"class {k}": 500 for k in range(4)}, True) == (whole.label_words["label"], whole.whole)
    assert {"food": 2_000, "work": 1_000} == whole.part_words["topics"]


def tables(*names):
    """Return a ZIP archive with a table of texts under each name."""
    return zipped(
        {name: "text\n" + "".join(f"a text of words {k} in {name[:2]}\n" for k in range(9)) for name in names}
    )


@pytest.mark.parametrize(("name", "content", "pairs"), [
    ("twice.csv", "text,label,label\n" + "".join(f"a text {k},{k % 2},{k % 3}\n" for k in range(9)), ("label", "c3")),
    ("rated.csv", "Text;Bewertung\n" + "".join(f"ein Text {k};{1 + k % 5}\n" for k in range(20)), ("Bewertung",)),
    ("classes.zip", tables("party.csv", "sport.csv"), ("source",)),
    ("parts.zip", tables("train.csv", "test-2.csv"), ()),
])  # fmt: skip
def test_what_could_be_the_label_is_asked(name, content, pairs):
    """The import asks whether the label is one of two columns with the same name, the only column next to the texts, or
    the name of each row's file. It does not ask if the files are parts of a split."""
    head = peek(upload(content, name))
    assert (None, pairs) == (head.guess.label, head.pairs)


def test_two_texts_in_a_row_are_one(tmp_path):
    """Two columns whose names differ only in 1 and 2 are both guessed as texts."""
    lines = (f"the first one of {k},the other one of {k},{k % 2}\n" for k in range(9))
    head = peek(upload("sentence1,sentence2,label\n" + "".join(lines), "pairs.csv"))
    assert (("sentence1", "sentence2"), "label") == (head.guess.text, head.guess.label)


def test_long_numbers_without_a_name_are_ids():
    """If a file has no header, a first column of long numbers that all differ is guessed as the id, not as a
    feature."""
    lines = (f"{1_000_025 + 7 * k},{k % 9},{k % 4},{'MB'[k % 2]}\n" for k in range(20))
    guess = peek(upload("".join(lines), "tumors.data")).guess
    assert ("c1", "c4", ("c2", "c3")) == (guess.id, guess.label, guess.features)

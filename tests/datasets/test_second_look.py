"""Whatever rule guessed wrong, an import compares what it read with itself, and stops with the option that answers."""

import csv
import io
import json
from random import Random

import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, import_process
from oal_engine.datasets.reading import DataError, read, tables
from oal_engine.datasets.reading.sources import Layout
from tests.harness.files import imported, named

RANDOM = Random(7)
NOUNS = "kettle ladder window carpet mirror pillow curtain bottle".split()
TEXTS = [f"the {RANDOM.choice(NOUNS)} waits beside the {RANDOM.choice(NOUNS)} in case {k}" for k in range(1500)]
RARE = [int(k % 4 == 0) for k in range(1500)]
LATE = 1100  # the row from which a file shows something new


def table(head, row, count=40):
    """Return a CSV file with these names. row: function from the number of a row to its cells."""
    file = io.StringIO()
    csv.writer(file).writerows([head.split(","), *map(row, range(count))])
    return file.getvalue().encode()


def lines(record, count=1500):
    return "".join(json.dumps(record(k)) + "\n" for k in range(count)).encode()


def late(value, k):
    return value if k >= LATE else {}


STOPS = {  # a file, the options of its import, and words of the sentence that stops it
    "all texts are one": (table("text,label", lambda k: ("the same words", RARE[k])), "", "--text"),
    "most texts are one": (
        table("comment,label", lambda k: (TEXTS[k] if k % 4 == 0 else "nothing to say", RARE[k])), "", "Most texts",
    ),
    "one text, named": (table("word,group", lambda k: (f"w{k}", "north")), "--text group", "(--feature NAME)"),
    "an empty label, named": (table("text,flag", lambda k: (TEXTS[k], "")), "--label flag", "--label ''"),
    "one label, named": (table("text,flag", lambda k: (TEXTS[k], 0)), "--label flag", "--positive WORD"),
    "a missing label, named": (lines(lambda k: {"text": TEXTS[k]}, 40), "--label flag", "its columns are text"),
    "no feature varies": (table("a,b,label", lambda k: (3, 7, RARE[k])), "", "--feature NAME"),
    "a copy of the label": (
        table("a,code,label", lambda k: (k * 0.5, RARE[k] + 1, ["no", "yes"][RARE[k]])), "", "--feature 'a'",
    ),
    "a copy of three classes": (
        table("a,code,label", lambda k: (k * 0.5, "xyz"[k % 3], "abc"[k % 3])), "--multiclass", "--feature 'a'",
    ),
    "two labels": (
        table("text,label,gold_label", lambda k: (TEXTS[k], RARE[k], k % 2)), "", "label, gold_label",
    ),
    "a label among the columns": (
        table("id,text,offensive,likes", lambda k: (k, TEXTS[k], ["none", "offensive"][RARE[k]], k * 3)), "",
        "--label 'offensive'",
    ),
    "a mark among the columns": (
        table("id,text,hate,likes", lambda k: (k, TEXTS[k], "x" * RARE[k], k * 3)), "", "--label 'hate'",
    ),
    "one column of classes": (
        table("id,text,ward,remark", lambda k: (k, TEXTS[k], ["eye", "ear", "heart"][k % 3], TEXTS[k][:9] + str(k))),
        "", "--label 'ward'",
    ),
    "a pair beside classes": (
        table("text,harm,checked", lambda k: (TEXTS[k], ["none", "mild", "bad"][k % 3], ["yes", "no"][k % 2])), "",
        "checked, harm:",
    ),
    "two targets": (
        table("text,target_risk,target_speed", lambda k: (TEXTS[k], RARE[k], k % 2)), "", "target_risk, target_speed:",
    ),
    "a late pair": (table("text,spam", lambda k: (TEXTS[k], int(k >= LATE)), 1500), "", "--label 'spam'"),
    "late labels of another name": (
        lines(lambda k: {"text": TEXTS[k]} | late({"spam": k % 2}, k)), "", "--label 'spam'",
    ),
    "late sets of labels": (
        table("text,label", lambda k: (TEXTS[k], "a" if k < LATE else ["a|b", "b|c"][k % 2]), 1500), "", "--contains",
    ),
    "a language": (table("text,language", lambda k: (TEXTS[k], ["en", "nl", "fr"][k % 3])), "", "--label 'language'"),
    "numbers as labels": (table("a,target", lambda k: (k, k * 1.5)), "", "from 0.0 to 58.5: say from which on an item"),
    "one word as label": (table("text,label", lambda k: (TEXTS[k], "x" * RARE[k])), "", "--contains"),
    "a model's labels": (
        table("text,llm_label", lambda k: (TEXTS[k], RARE[k])), "",
        "llm_label: labels that a person gave (--label 'llm_label'), labels that a model made (audit them) "
        "(--label ''), or ignore (--label '')?",
    ),
    "a model's scores": (table("text,trust", lambda k: (TEXTS[k], k / 40)), "", "labels that a model made"),
}  # fmt: skip


def run(command, tmp_path, content, options, name="x"):
    """Import a file on the command line. Return the exit code, and its output and errors as one line."""
    path = tmp_path / f"{name}.{'jsonl' if content[:1] == b'{' else 'csv'}"
    path.write_bytes(content)
    words = [word.strip("'") for word in options.split()]
    code, output, errors = command("import", path, "--name", name, "--db", tmp_path / "studio.db", *words)
    return code, " ".join((output + errors).split())


@pytest.mark.parametrize("case", STOPS)
def test_what_contradicts_itself_stops_with_the_option_that_answers(case, tmp_path, command):
    content, options, words = STOPS[case]
    code, sentence = run(command, tmp_path, content, options)
    assert (1, True) == (code, words in sentence), sentence


COMES = {  # a file, the options of its import, and words of its report
    "prose that is constant": (
        table("term,note,label", lambda k: (f"term{k}", "a note that is always the same", RARE[k])), "",
        ["texts in term", "10 positive, 30 negative"],
    ),
    "the text of a constant column": (table("text,body", lambda k: ("n/a", TEXTS[k])), "", ["texts in body"]),
    "many texts are one, named": (
        table("comment,reply,label", lambda k: (TEXTS[k] if k % 4 == 0 else "no comment", "ok", RARE[k])),
        "--text comment", ["texts in comment", "10 positive"],
    ),
    "a late label, named": (
        lines(lambda k: {"text": TEXTS[k]} | late({"flag": k % 2}, k)), "--label flag --features words",
        ["200 positive, 200 negative"],
    ),
    "a late category": (
        table("a,job,label", lambda k: (k * 0.5, "cook" if k < LATE else "nurse", k % 2), 1500), "", ["2 features"],
    ),
    "a copy of the label beside a text": (
        table("text,label,label_text", lambda k: (TEXTS[k], RARE[k], ["ham", "spam"][RARE[k]])), "",
        ["labels in label;", "kept with the items: label_text"],
    ),
    "a copy, named": (table("a,b,label", lambda k: (k, RARE[k], RARE[k])), "--feature a --feature b", ["2 columns of"]),
    "a feature that does not vary": (table("a,b,label", lambda k: (k, 7, RARE[k])), "", ["2 columns of numbers"]),
    "a person beside a model": (
        table("text,llm_label,human_label", lambda k: (TEXTS[k], k % 2, RARE[k])), "", ["labels in human_label"],
    ),
    "the guessed label is free": (
        table("edible,size,class", lambda k: (["no", "yes"][k % 2], k * 0.5, "gpdu"[k % 4 * (k % 3) % 4])),
        "--label edible", ["1 column of numbers; 1 column of words, which are 4 features"],
    ),
    "one text beside numbers, named": (
        table("group,a,b,label", lambda k: ("north", k * 0.5, k * 0.2, RARE[k])),
        "--text group --feature a --feature b", ["texts in group", "10 positive, 30 negative"],
    ),
    "a pair beside its copy": (
        table("text,word,checked", lambda k: (TEXTS[k], ["a", "b"][k % 2], ["yes", "no"][k % 2])), "",
        ["labels in checked"],
    ),
    "a category called a comment": (
        table("id,comment,narrative,label", lambda k: (k, ["ok", "bad", "meh"][k % 3], TEXTS[k], RARE[k])), "",
        ["texts in narrative", "kept with the items: comment"],
    ),
    "names of files called documents": (
        table("document,sentence,label", lambda k: (f"doc_{k}.txt", TEXTS[k], RARE[k])), "", ["texts in sentence"],
    ),
    "days beside texts without blanks": (
        table("sent,zh,label", lambda k: (f"2020-01-{k % 28 + 1:02d} 10:00:00", "天气" * (k % 5) + "好" * k, RARE[k])),
        "", ["texts in zh"],
    ),
    "coordinates": (table("text,x,y", lambda k: (TEXTS[k], k * 0.7, -k * 0.3)), "", ["no labels", "items: x, y"]),
    "ids that repeat": (table("user_id,a,b", lambda k: (NOUNS[k % 3], k * 0.5, k * 0.2)), "", ["no labels", "2 col"]),
    "a language beside other columns": (
        table("id,text,lang,likes", lambda k: (k, TEXTS[k], ["en", "nl"][k % 2], k)), "", ["no labels"],
    ),
    "from a number on": (
        table("text,score", lambda k: (TEXTS[k], k)), "--label score --positive >=30", ["10 positive, 30 negative"],
    ),
    "a word that looks like a comparison": (
        table("a,readmitted", lambda k: (k, ["NO", ">30", "<30"][k % 3])), "--label readmitted --positive <30",
        ["13 positive, 27 negative"],
    ),
    "one word, and none": (
        table("text,label", lambda k: (TEXTS[k], "x" * RARE[k])), "--positive x --contains", ["10 positive, 30 neg"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COMES)
def test_what_is_clear_comes_in_without_a_question(case, tmp_path, command):
    """A file of the same kind that is clear, or whose roles are named, is imported with the right text and labels."""
    content, options, words = COMES[case]
    code, report = run(command, tmp_path, content, options)
    assert (0, []) == (code, [each for each in words if each not in report]), report


def test_a_header_that_became_an_item_is_seen_whatever_rule_failed(monkeypatch):
    """If the first row was taken for an item although it holds names, the import asks, until an option says so."""
    monkeypatch.setattr(tables, "_is_header", lambda *_: (False, ""))
    file = table("message,yes", lambda k: (TEXTS[k], ["yes", "no"][k % 2]))
    with pytest.raises(DataError, match=r"first item of x\.csv is 'message'.*\(--header\).*\(--no-header\)\.$"):
        imported(file, "x.csv", layout=Layout())
    assert TEXTS[:40] == imported(file, "x.csv", layout=Layout(header=True)).texts


def test_a_read_without_roles_asks_about_the_header_too():
    """A file whose first row may be names or an item is not read on a guess."""
    file = named(b"1999,2000,2001\n" + b"3,4,5\n6,7,8\n" * 10, "x.csv")
    with pytest.raises(DataError, match=r"counts from 1999 to 2001: .*\(--header or --no-header\)\.$"):
        read(file)


def test_appended_items_are_looked_at_too(store, tmp_path):
    """Items whose texts are all the same are not appended; items without labels, or with one label, are."""
    path = tmp_path / "x.csv"
    path.write_bytes(table("text,label", lambda k: (TEXTS[k], RARE[k])))
    data = Dataset(store, datasets.import_file(store, path, "x")[0])
    for cells, appended in (("the same,1", None), ("", 20), (",1", 20)):
        own = table("text,label", lambda k, cells=cells: (cells.split(",")[0] or f"{TEXTS[k]} {cells}", cells[-1:]), 20)
        path.write_bytes(own)
        if appended is None:
            with pytest.raises(DataError, match=r"All texts of x\.csv are the same"):
                [*feeds.append_file(data, path)]
        else:
            assert appended == sum(each.appended for each in feeds.append_file(data, path))


def test_numbers_that_come_later_are_compared_too(store, tmp_path):
    """A data set whose labels are numbers from a threshold on gives appended numbers the same meaning."""
    path = tmp_path / "x.csv"
    path.write_bytes(table("text,score", lambda k: (TEXTS[k], k / 8)))
    columns = datasets.reading.Columns(("text",), "score", positive=(">=4",))
    data = Dataset(store, datasets.import_file(store, path, "x", columns)[0])
    path.write_bytes(table("text,score", lambda k: (TEXTS[k + 60], k / 7), 40))
    [*feeds.append_file(data, path)]
    assert [1 if k / 7 >= 4 else -1 for k in range(40)] == data.y[40:].tolist()


def test_the_page_is_told_the_same(tmp_path):
    """The process that reads files for the pages raises the same sentence before anything is stored."""
    file = table("a,code,label", lambda k: (k * 0.5, RARE[k] + 1, RARE[k]))
    head = import_process.peek(named(file, "x.csv"), "x.csv")
    request = datasets.ImportRequest()
    with pytest.raises(DataError, match=r"'code' of x\.csv says the same as the label 'label'"):
        import_process.check((named(file, "x.csv"), "x.csv"), head.guess, request)


def test_a_class_meets_its_cells_in_any_case():
    """A positive label is found in cells that are written in another case or with other blanks."""
    file = named(table("text,label", lambda k: (TEXTS[k], ["other", "lost  luggage "][RARE[k]])), "x.csv")
    columns = datasets.reading.Columns(("text",), "label", positive=("Lost luggage",))
    assert [1 if rare else -1 for rare in RARE[:40]] == read(file, columns).y.tolist()

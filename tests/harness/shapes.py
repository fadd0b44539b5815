"""Invented files in layouts that people use, each with the expected result: its items, or why its import stops."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow
from pyarrow import feather, parquet
from scipy import sparse

from tests.harness.files import zipped

COUNT = 40
LABELS = [int(k % 5 == 0) for k in range(COUNT)]
TEXTS = [f"Message {k}, sent by {'Zoë' if k % 3 else 'Jürgen'} about lunch; all of it" for k in range(COUNT)]
PLAIN = [text.replace("ë", "e").replace("ü", "u") for text in TEXTS]
NUMBERS = [(k * 1.25 - 9, (k * 7) % 11 + 0.5, k % 4) for k in range(COUNT)]
BOTH = (COUNT, COUNT // 5, COUNT - COUNT // 5)
UNKNOWN = (COUNT, 0, 0)
FEW = "sport food travel".split()


class Shape(NamedTuple):
    """A file and the expected result of its import: `counts` (items, positives, negatives) and `first`, the first text
    or row of numbers. If the import must fail, `stops` has words of its error message instead."""

    name: str
    make: Callable[[], bytes]
    counts: tuple[int, int, int] = BOTH
    first: object = TEXTS[0]
    stops: str = ""
    words: str = ""  # words that the report about the file must contain


def joined(delimiter=",", rows=None, head=("id", "text", "label"), end="\n", **dialect):
    """Return rows as delimited text (CSV)."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, **dialect)
    writer.writerows([head] if head else [])
    writer.writerows(messages() if rows is None else rows)
    return file.getvalue()


def messages(labels=LABELS, texts=TEXTS):
    return [(f"m{k}", text, label) for k, (text, label) in enumerate(zip(texts, labels))]


def table(labels=LABELS):
    """Return rows of three numbers and a label."""
    return [(*numbers, label) for numbers, label in zip(NUMBERS, labels)]


NAMES = ("height", "weight", "rooms", "label")
ROW = list(NUMBERS[0])


def lines(rows, delimiter):
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


def records():
    return [{"id": id, "text": text, "label": label} for id, text, label in messages()]


def columns():
    return {name: [record[name] for record in records()] for name in ("id", "text", "label")}


def svmlight(base, delimiter=" ", labels=LABELS):
    """Return sparse rows of three numbers in svmlight format. base: index of the first column."""
    rows = [
        [label, *(f"{column + base}:{value!r}" for column, value in enumerate(numbers) if value)]
        for numbers, label in zip(NUMBERS, labels)
    ]
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


def arff(missing=False):
    head = "% made up\n@relation mail\n@attribute height numeric\n@attribute 'the weight' real\n"
    head += "@attribute class {yes,no}\n@data\n"
    rows = (f"{a},{'?' if missing and k == 7 else b},{'yes' if label else 'no'}\n"
            for k, ((a, b, _), label) in enumerate(zip(NUMBERS, LABELS)))  # fmt: skip
    return head + "".join(rows)


def arff_texts():
    rows = (f"'{text}',{'yes' if label else 'no'}\n" for text, label in zip(TEXTS, LABELS))
    return "@RELATION mail\n@ATTRIBUTE text string\n@ATTRIBUTE class {yes,no}\n@DATA\n" + "".join(rows)


def ris():
    return "".join(
        f"TY  - JOUR\nTI  - Title {k}\nAB  - {text}\nAU  - Roe, R.\nPY  - 2019\nDO  - 10.1/{k}\nER  - \n\n"
        for k, text in enumerate(TEXTS)
    )


def references(record, head="", tail=""):
    """Return references as text. record: template with a number, a title and the two lines of an abstract."""
    return head + "".join(record.format(k, f"Title {k}", *text.split("; ")) for k, text in enumerate(TEXTS)) + tail


MEDLINE = "PMID- {0}\nTI  - {1}\nAB  - {2};\n      {3}\nAU  - Roe R\nDP  - 2019 May\n\n"
WOS = "PT J\nAU Roe, R\nTI {1}\nAB {2};\n   {3}\nCR Doe J, 1990\n   Roe R, 1991\nPY 2019\nER\n\n"


def saved(save, *arguments, **options):
    file = io.BytesIO()
    save(*arguments, file, **options)
    return file.getvalue()


def workbook(*sheets):
    """Return an Excel file with these sheets, each (name, rows)."""
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return saved(book.save)


def arrow(kind):
    made = pyarrow.table(columns())
    if kind == "parquet":
        return saved(lambda file: parquet.write_table(made, file))
    if kind == "feather":
        return saved(lambda file: feather.write_feather(made, file))
    file = io.BytesIO()
    with pyarrow.ipc.new_file(file, made.schema) as writer:
        writer.write_table(made, max_chunksize=7)
    return file.getvalue()


def text(make, *arguments, encoding="utf-8", **options):
    """Return a function that returns the bytes of a text file. make: the text, or a function that returns the text."""
    return lambda: (make if isinstance(make, str) else make(*arguments, **options)).encode(encoding)


def tagged(separator="|"):
    cells = (separator.join([FEW[k % 3]] + [FEW[(k + 1) % 3]] * (k % 4 == 0)) for k in range(COUNT))
    return joined(rows=messages([*cells]))


def repeated():
    """Return a table whose ids start again at 0 after 1,200 rows."""
    return joined(rows=[(k % 1200, f"text {k} is here", int(k % 5 == 0)) for k in range(3000)])


def gapped(word, rows=(7,), head=True):
    cells = [[*row] for row in table()]
    for row in rows:
        cells[row][1] = word
    return joined(rows=cells, head=NAMES if head else None)


def tweets():
    """Return a table with the columns of a well-known data set of tweets about airlines."""
    head = ("tweet_id", "airline_sentiment", "airline_sentiment_confidence", "airline", "text", "tweet_created",
            "user_timezone")  # fmt: skip
    rows = [(5 + 3 * k, "no" if k % 3 else "yes", 0.5 + k / 100, "United", TEXTS[k], f"2015-02-{k % 28 + 1:02}",
             "Eastern Time" if k % 2 else "Quito") for k in range(COUNT)]  # fmt: skip
    return joined(rows=rows, head=head)


def no_label():
    head = ("tweet_id", "airline", "text", "user_timezone")
    return joined(rows=[(5 + 3 * k, "Air", TEXTS[k], "Quito" if k % 2 else "Eastern") for k in range(COUNT)], head=head)


def commas():
    """Return numbers with decimal commas, separated by semicolons."""
    rows = [[str(cell).replace(".", ",") for cell in row] for row in table()]
    return lines([NAMES, *rows], ";")


def broken():
    """Return a CSV table in which every third row lacks the quotes around a text with commas."""
    return "text,label\n" + "".join(
        f'"{text}",{label}\n' if k % 3 else f"{text}, and, so,{label}\n"
        for k, (text, label) in enumerate(zip(TEXTS, LABELS))
    )


SPOKEN = [f'He said "no", {k}' for k in range(COUNT)]
SPLIT = [f"Story of line {k}\nand\tof another" for k in range(COUNT)]
WORDS = ["yes" if label else "no" for label in LABELS]
KINDS = ["spam" if label else "ham" for label in LABELS]

SHAPES = [
    # Delimited texts
    Shape("comma.csv", text(joined), words="delimiter comma"),
    Shape("semicolon.csv", text(joined, ";"), words="delimiter semicolon"),
    Shape("tab.csv", text(joined, "\t"), words="delimiter tab"),
    Shape("pipe.csv", text(joined, "|"), words="delimiter pipe"),
    Shape("pipe.txt", text(joined, "|"), words="delimiter pipe"),
    Shape("semicolon.txt", text(joined, ";")),
    Shape("sep.csv", text(lambda: "sep=;\n" + joined(";"))),
    Shape("sep-tab.csv", text(lambda: "sep=\t\r\n" + joined("\t", end="\r\n"))),
    Shape("quoted.tsv", text(joined, "\t", quoting=csv.QUOTE_ALL)),
    Shape("quoted-lines.tsv", text(joined, "\t", messages(texts=SPLIT)), first=SPLIT[0]),
    Shape("stray.tsv", text(lambda: lines([("label", "text"), (1, '"Go there'), (0, 'say "x"'), (0, 'end"')], "\t")),
          (3, 1, 2), '"Go there'),
    Shape("quotation.tsv", text(lambda: lines([("label", "text"), (1, '"To be or not"'), (0, "say it")], "\t")),
          (2, 1, 1), '"To be or not"'),
    Shape("all-quoted.csv", text(joined, quoting=csv.QUOTE_ALL)),
    Shape("lines-in-cells.csv", text(joined, rows=messages(texts=SPLIT)), first=SPLIT[0]),
    Shape("escaped.csv", text(joined, rows=messages(texts=SPOKEN), escapechar="\\", doublequote=False),
          first=SPOKEN[0]),
    Shape("spaced.csv", text(lambda: "id, text, label\n" + "".join(
        f'm{k}, "{text}", {label}\n' for k, (text, label) in enumerate(zip(TEXTS, LABELS))))),
    Shape("mac-roman.csv", text(joined, end="\r")),
    Shape("windows.csv", text(joined, end="\r\n")),
    Shape("blank-lines.csv", text(joined, end="\n\n")),
    Shape("trailing.csv", text(lambda: joined(end=",\n"))),
    Shape("trailing-rows.csv", text(lambda: "id,text,label\n" + joined(head=None, end=",,\n"))),
    Shape("empty-rows.csv", text(lambda: joined() + ",,\n,,\n")),
    Shape("comments.csv", text(lambda: "# exported on Monday\n# by Ann\n" + joined()), words="header yes"),
    Shape("title.csv", text(lambda: "Messages of March\n\n" + joined())),
    Shape("title-cells.csv", text(lambda: "Messages of March,,\n,,\n" + joined())),
    Shape("suffixless", text(joined)),
    Shape("empty-column.csv", text(joined, rows=[(each, "", label) for each, label in zip(TEXTS, LABELS)],
                                   head=("text", "", "label"))),
    Shape("unlabelled.csv", text(joined, rows=messages([""] * COUNT)), UNKNOWN),
    Shape("todo.csv", text(joined, rows=messages(["todo"] * COUNT)), UNKNOWN),
    Shape("no-header.csv", text(joined, head=None), words="header no"),
    Shape("no-header.tsv", text(lambda: lines(zip(WORDS, TEXTS), "\t")), words="header no"),
    Shape("one-column.csv", text(lambda: "text\n" + "\n".join(TEXTS) + "\n"), UNKNOWN),
    Shape("one-column-quoted.csv", text(joined, rows=[(text,) for text in TEXTS], head=("story",)), UNKNOWN),
    Shape("first-row.csv", text(joined, rows=[(text,) for text in TEXTS], head=None), stops="--no-header"),
    Shape("two-ways.csv", text(lambda: "".join(f"{k},red|green{k}\n" for k in range(1, COUNT))), stops="--delimiter"),
    Shape("unquoted.csv", text(broken), stops="lines of unquoted.csv cannot be read as csv"),
    Shape("swallowed.csv", text(lambda: 'id,text,label\n0,"open,1\n' + lines([(k, "x y", 1) for k in range(99)], ",")),
          stops="opens a quote that swallows"),
    Shape("plain.txt", text("\n".join(TEXTS)), UNKNOWN),
    Shape("compressed.csv.gz", lambda: gzip.compress(joined().encode())),
    Shape("compressed.tsv.bz2", lambda: bz2.compress(joined("\t").encode())),
    Shape("compressed.json.xz", lambda: lzma.compress(json.dumps(records()).encode())),
    # Encodings
    Shape("mark.csv", text(joined, encoding="utf-8-sig")),
    Shape("utf-16.csv", text(joined, encoding="utf-16"), words="encoding utf-16"),
    Shape("utf-16.txt", text("\n".join(TEXTS), encoding="utf-16"), UNKNOWN),
    Shape("utf-16-tab.csv", text(joined, "\t", encoding="utf-16")),
    Shape("utf-32.csv", text(joined, encoding="utf-32")),
    Shape("utf-16-le.csv", text(joined, encoding="utf-16-le"), words="encoding utf-16-le"),
    Shape("utf-32-be.txt", text("\n".join(TEXTS), encoding="utf-32-be"), UNKNOWN, words="encoding utf-32-be"),
    Shape("pounds.csv", text(joined, rows=messages(texts=[f"It costs £{k} – or more" for k in range(COUNT)]),
                             encoding="cp1252"), stops="'m0,It costs £0 – or more,1' (--encoding cp1252) or"),
    Shape("mac-french.csv", text(joined, rows=messages(texts=["Déjà vu, l’été à la façade"] * COUNT),
                                 encoding="mac_roman"), stops="--encoding mac_roman"),
    Shape("polish.csv", text(joined, rows=messages(texts=["żółw w łodzi, święto i ćma"] * COUNT), encoding="cp1250"),
          stops="--encoding cp1250"),
    Shape("late-letter.csv", lambda: joined().encode() + joined(rows=messages() * 50).encode() + b"m9,caf\xe9,1\n",
          stops="of late-letter.csv"),
    Shape("twice.csv", lambda: joined().encode().decode("cp1252").encode(), first=TEXTS[0].encode().decode("cp1252"),
          words="encoded twice, such as JÃ¼rgen for Jürgen"),
    Shape("cp1252.csv", text(joined, ";", encoding="cp1252"), stops="--encoding cp1252"),
    Shape("cp1251.csv", text(joined, rows=messages(texts=["Привет, как дела сегодня"] * COUNT), encoding="cp1251"),
          stops="--encoding cp1251"),
    Shape("shift_jis.csv", text(joined, rows=messages(texts=["今日は天気がいいですね"] * COUNT), encoding="shift_jis"),
          stops="--encoding shift_jis"),
    Shape("gb18030.csv", text(joined, rows=messages(texts=["今天天气很好，明天也会晴"] * COUNT), encoding="gb18030"),
          stops="--encoding gb18030"),
    Shape("damaged.csv", lambda: joined().encode() + b"m99,caf\xe9,1\n", stops="(--encoding utf-8-cp1252) or"),
    # Separators and lines
    Shape("bang.txt", text(lambda: "".join(f"{label}_!_{each}\n" for label, each in zip(LABELS, TEXTS)))),
    Shape("colons.csv", text(lambda: "text::label\n" + lines(zip(TEXTS, LABELS), "::")), words="delimiter ::"),
    Shape("emotions.txt", text(lambda: "".join(f"{each.replace(';', ',')};{kind}\n"
                                               for kind, each in zip(WORDS, TEXTS))),
          first=TEXTS[0].replace(";", ","), words="delimiter semicolon"),
    Shape("digits.dat", text(lambda: lines([(label, *row[:2]) for label, row in zip(LABELS, table())], " ")),
          first=ROW[:2]),
    Shape("paragraphs.txt", text(lambda: "\n\n".join(f"{each}\nIt goes on." for each in TEXTS)), stops="--paragraphs"),
    Shape("apart.txt", text("\n\n".join(TEXTS)), UNKNOWN),
    Shape("pluses.txt", text(lambda: "".join(f"{label} +++$+++ {each}\n" for label, each in zip(LABELS, TEXTS)))),
    Shape("film.vtt", text(lambda: "WEBVTT\n\n" + "\n\n".join(f"00:{k:02}.000 --> 00:{k:02}.900\n{each}"
                                                              for k, each in enumerate(TEXTS))), stops="subtitles"),
    Shape("film.srt", text(lambda: "".join(f"{k}\n00:00:{k:02},000 --> 00:00:{k:02},900\n{each}\n\n"
                                           for k, each in enumerate(TEXTS))), stops="subtitles"),
    Shape("program.py", text("import os\nprint(os)\n"), stops="--reader txt"),
    # Numbers
    Shape("numbers.csv", text(joined, rows=table(), head=NAMES), first=ROW),
    Shape("headless.csv", text(joined, rows=table(), head=None), first=ROW),
    Shape("commas.csv", text(commas), first=ROW, words="decimals comma"),
    Shape("commas-headless.csv", text(lambda: commas().partition("\n")[2]), first=ROW),
    Shape("spaces.txt", text(lambda: lines(table(), "   ")), first=ROW),
    Shape("spaces-header.dat", text(lambda: lines([NAMES, *table()], " ")), first=ROW),
    Shape("aligned.txt", text(lambda: "".join("".join(f"{cell:>9}" for cell in row) + "\n" for row in table())),
          first=ROW),
    Shape("spaced.data", text(lambda: lines(table(WORDS), ", ")), first=ROW),
    Shape("counting.csv", text(joined, rows=[row[1:] for row in table()], head=range(3)), stops="--header"),
    Shape("frame.csv", text(joined, rows=[(k, *row) for k, row in enumerate(table())], head=("", *NAMES)), first=ROW),
    Shape("r.csv", text(joined, rows=[(k + 1, *row) for k, row in enumerate(table())], head=NAMES), first=ROW),
    Shape("question-mark.csv", text(gapped, "?"), stops="--missing"),
    Shape("na.csv", text(gapped, "NA", (3, 9, 12)), stops="--missing"),
    Shape("blank-cell.csv", text(gapped, ""), stops="--missing"),
    Shape("odd-word.csv", text(gapped, "about 7", (30,)), stops="--missing"),
    Shape("nan.csv", text(gapped, "nan"), stops="--missing"),
    Shape("late-gap.csv", text(lambda: joined(rows=[*table() * 50, (1, "?", 2, 0)], head=NAMES)), stops="--missing"),
    Shape("total.csv", text(lambda: joined(rows=[(f"r{k}", *row) for k, row in enumerate(table())],
                                           head=("id", *NAMES)) + "Total,12,,99,\n"), first=ROW),
    Shape("vectors.npy", lambda: saved(lambda file: np.save(file, np.array(NUMBERS))), UNKNOWN, ROW),
    Shape("vectors.npz", lambda: saved(lambda file: np.savez(file, X=NUMBERS, y=np.array(LABELS))), first=ROW),
    Shape("sparse.npz", lambda: saved(lambda file: sparse.save_npz(file, sparse.csr_array(NUMBERS))), UNKNOWN, ROW),
    Shape("one-based.svm", text(svmlight, 1), first=ROW),
    Shape("zero-based.svm", text(svmlight, 0), first=ROW),
    Shape("zero-later.libsvm", text(lambda: "".join(f"{k % 2} {max(1, 9000 - k)}:1\n" for k in range(9000))
                                    + "1 0:1\n"), (9001, 4501, 4500), None, words="9,001 columns"),
    Shape("tabs", text(svmlight, 1, "\t"), first=ROW),
    Shape("tabs.txt", text(svmlight, 0, "\t", [2 * label - 1 for label in LABELS]), first=ROW),
    Shape("several.svm", text(lambda: "".join(f"1,{k % 3} 1:1 2:{k}\n" for k in range(COUNT))), stops="several labels"),
    # Other formats
    Shape("array.json", text(lambda: json.dumps(records()))),
    Shape("pretty.json", text(lambda: json.dumps(records(), indent=2, ensure_ascii=False))),
    Shape("pretty", text(lambda: json.dumps(records(), indent=4))),
    Shape("columns.json", text(lambda: json.dumps(columns()))),
    Shape("pandas.json", text(lambda: json.dumps({name: dict(enumerate(cells)) for name, cells in columns().items()}))),
    Shape("split.json", text(lambda: json.dumps({"columns": [*columns()], "index": [*range(COUNT)],
                                                 "data": [[*row.values()] for row in records()]}))),
    Shape("wrapped.json", text(lambda: json.dumps({"count": COUNT, "data": records()}))),
    Shape("lines.json", text(lambda: "".join(json.dumps(record) + "\n" for record in records()))),
    Shape("lines.jsonl", text(lambda: "".join(json.dumps(record) + "\n" for record in records()))),
    Shape("rows.json", text(lambda: json.dumps([["id", "text", "label"], *messages()]))),
    Shape("texts.json", text(lambda: json.dumps(TEXTS)), UNKNOWN),
    Shape("cut.json", text(lambda: json.dumps(records())[:-30]), stops="cut.json cannot be read"),
    Shape("settings.json", text('{"name": "x", "size": 3}'), stops="settings.json is one JSON object"),
    Shape("weka.arff", text(arff), first=ROW[:2]),
    Shape("weka-texts.arff", text(arff_texts)),
    Shape("weka-gap.arff", text(arff, True), stops="--missing"),
    Shape("references.ris", text(ris), UNKNOWN, f"Title 0\n{TEXTS[0]}"),
    Shape("references.txt", text(ris), UNKNOWN, f"Title 0\n{TEXTS[0]}"),
    Shape("digits.txt", text(lambda: "".join(f"{label}::{each}\n" for label, each in zip(LABELS, TEXTS)))),
    Shape("pubmed.nbib", text(references, MEDLINE), UNKNOWN, f"Title 0\n{TEXTS[0]}"),
    Shape("pubmed.txt", text(references, MEDLINE), UNKNOWN, f"Title 0\n{TEXTS[0]}"),
    Shape("savedrecs.txt", text(references, WOS, "FN Clarivate\nVR 1.0\n", "EF\n"), UNKNOWN, f"Title 0\n{TEXTS[0]}"),
    Shape("mail.xlsx", lambda: workbook(("Mail", [("id", "text", "label"), *messages()])), words="sheet Mail"),
    Shape("numbers.xlsx", lambda: workbook(("Table", [NAMES, *table()]), ("Notes", [])), first=ROW),
    Shape("titled.xlsx", lambda: workbook(("Mail", [("Messages",), (), ("id", "text", "label"), *messages()]))),
    Shape("ragged.xlsx", lambda: workbook(("Mail", [("id", "text", "label", "remark"), *messages()]))),
    Shape("sheets.xlsx", lambda: workbook(("Mail", messages()), ("Codes", [("a", "b"), (1, 2)])), stops="--sheet"),
    Shape("renamed.csv", lambda: workbook(("Mail", [("id", "text", "label"), *messages()]))),
    Shape("table.parquet", lambda: arrow("parquet")),
    Shape("table.feather", lambda: arrow("feather")),
    Shape("table.arrow", lambda: arrow("arrow")),
    # Exports of chats and comments
    Shape("telegram.json", text(lambda: json.dumps({"name": "Chat", "id": 1, "messages": [
        {"id": k, "type": "message", "text": each} for k, each in enumerate(TEXTS)]})), UNKNOWN),
    Shape("discord.json", text(lambda: json.dumps({"guild": {"id": "1"}, "messageCount": COUNT, "messages": [
        {"id": str(k), "content": each, "author": {"id": "3"}} for k, each in enumerate(TEXTS)]})), UNKNOWN),
    Shape("youtube.json", text(lambda: json.dumps({"kind": "youtube#commentThreadListResponse", "items": [
        {"id": f"c{k}", "snippet": {"topLevelComment": {"snippet": {"textDisplay": each, "likes": k}}}}
        for k, each in enumerate(TEXTS)]})), UNKNOWN),
    # Labels and ids
    Shape("words.csv", text(joined, rows=messages(WORDS))),
    Shape("true.csv", text(joined, rows=messages(["True" if label else "False" for label in LABELS]))),
    Shape("spam.csv", text(joined, rows=messages(KINDS)), stops="Pick the labels of the rare class"),
    Shape("several.csv", text(tagged), stops="--contains"),
    Shape("several-semicolons.csv", text(tagged, "; "), stops="--contains"),
    Shape("tweets.csv", text(tweets), (COUNT, 14, 26), words="labels in airline_sentiment;"),
    Shape("time-zones.csv", text(no_label), UNKNOWN, words="no labels"),
    Shape("repeated.csv", text(repeated), (3000, 600, 2400), "text 0 is here", words="lines are numbered"),
    Shape("paid.csv", text(joined, rows=[(k, *NUMBERS[k], LABELS[k]) for k in range(COUNT)], head=("paid", *NAMES)),
          first=[0, *ROW]),
    Shape("beside.csv", text(joined, rows=[(*row, k, 7) for k, row in enumerate(messages())],
                             head=("id", "text", "label", "age", "size")), words="kept with the items: age, size"),
    # Files that hold no items
    Shape("archive.zip", lambda: zipped({"a.csv": "text\nx\n", "folder/b.csv": "words\ny\n"}), stops="--member NAME"),
    Shape("letter.docx", lambda: zipped({"word/document.xml": "<w/>"}), stops="is a Word document"),
    Shape("picture.png", lambda: b"\x89PNG\r\n\x1a\n" + bytes(99), stops="is an image"),
    Shape("picture.csv", lambda: b"\xff\xd8\xff\xe0" + bytes(99), stops="is an image"),
    Shape("paper.pdf", lambda: b"%PDF-1.7\n%\xe2\xe3\n", stops="is a PDF document"),
    Shape("packed.csv", lambda: gzip.compress(b"text\nx\n"), stops=".gz"),
    Shape("data.xml", text('<?xml version="1.0"?><a/>'), stops="is an XML file"),
    Shape("abstract-set.txt", text("1. J Boats. 2020 Jan;1(2):3-4. doi: 10.1/x.\n\nA title.\n\nRoe R.\n\nPMID: 123\n"),
          stops="is a list of abstracts of PubMed"),
    Shape("objects.pkl", lambda: b"\x80\x04\x95" + bytes(9), stops="is a pickle"),
    Shape("empty.csv", lambda: b"", stops="empty.csv"),
    Shape("empty.txt", lambda: b"\n\n", stops="empty.txt is empty"),
]  # fmt: skip

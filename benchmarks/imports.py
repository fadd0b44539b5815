"""Import generated files in the formats and layouts that people bring: `python benchmarks/imports.py`. Count how many
are imported correctly without a question (*right*), how many stop with a question (*asked*) or a refusal (*refused*),
and how many are silently imported wrong (*wrong*)."""

import csv
import gzip
import io
import json
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from common import SEED, table
from public_files import ITEMS, NOUNS, Case, PublicFile, Row, delimited, public_shapes, sentences

from oal_engine.datasets.reading import DataError, peek, read
from oal_engine.datasets.reading.sources import Layout

VARIANTS = 3

SHAPES: dict[str, Callable[[Random], Case]] = public_shapes()


def shape(make):
    """Register a function, which makes a case from a random generator, as a shape under the function's own name."""
    SHAPES[make.__name__] = make
    return make


def worded(yes, no, gap="", text="text", label="label", known=1.0, delimiter=",", suffix="csv", head=True, **more):
    """Return a function that makes a case: a table with a text column and a label column whose cells are `yes`, `no` or
    `gap`."""

    def make(random):
        rows = sentences(random, known=known)
        words = {True: yes, False: no, None: gap}
        lines = [(f"m{k}", row.text, words[row.label]) for k, row in enumerate(rows)]
        names = ("id", text, label) if head else None
        return Case(f"data.{suffix}", delimited(names, lines, delimiter, **more), rows)

    return make


PAIRS = {
    "yes_no": ("yes", "no"), "Y_N": ("Y", "N"), "true_false": ("TRUE", "FALSE"), "pos_neg": ("pos", "neg"),
    "include_exclude": ("include", "exclude"), "included_excluded": ("Included", "Excluded"),
    "relevant_irrelevant": ("relevant", "irrelevant"), "toxic_non_toxic": ("toxic", "non-toxic"),
    "accept_reject": ("accept", "reject"), "one_minus_one": ("1", "-1"), "floats": ("1.0", "0.0"),
    "x_blank": ("x", ""),
}  # fmt: skip
for name, (yes, no) in PAIRS.items():
    SHAPES[f"labels_{name}"] = worded(yes, no)
for name, gap in {"NA": "NA", "NULL": "NULL", "question": "?", "dash": "-", "empty": "", "unlabeled": "unlabeled",
                  "unknown": "unknown", "maybe": "maybe", "ignore": "ignore",
                  "none": "None", "nan": "nan", "na_slash": "n/a"}.items():  # fmt: skip
    SHAPES[f"gap_{name}"] = worded("1", "0", gap, known=0.4)
SHAPES["gap_minus_one"] = worded("1", "0", "-1", known=0.4)  # 1, 0, -1: or positive, neutral, negative
SHAPES["gap_words_yes_no_unsure"] = worded("yes", "no", "unsure", known=0.5)
for delimiter, suffix in ((";", "csv"), ("|", "csv"), (";", "txt")):
    SHAPES[f"delimiter_{ord(delimiter)}_{suffix}"] = worded("1", "0", delimiter=delimiter, suffix=suffix)
SHAPES["crlf"] = worded("1", "0", end="\r\n")
SHAPES["bom"] = worded("1", "0", encoding="utf-8-sig")
SHAPES["utf16"] = worded("1", "0", encoding="utf-16")
SHAPES["quote_all"] = worded("1", "0", quoting=csv.QUOTE_ALL)


@shape
def excel_empty_column_in_between(random):
    rows = sentences(random)
    return Case("a.csv", delimited(("text", "", "label"), [(row.text, "", int(row.label)) for row in rows]), rows)


@shape
def empty_label_column(random):
    rows = [row._replace(label=None) for row in sentences(random)]
    return Case("a.csv", delimited(("id", "text", "label"), [(k, row.text, "") for k, row in enumerate(rows)]), rows)


@shape
def one_word_label_column(random):
    rows = [row._replace(label=None) for row in sentences(random)]
    return Case("a.csv", delimited(("text", "label"), [(row.text, "todo") for row in rows]), rows)


@shape
def no_label_column(random):
    rows = [row._replace(label=None) for row in sentences(random)]
    return Case("a.csv", delimited(("id", "text"), [(k, row.text) for k, row in enumerate(rows)]), rows)


def encoded(encoding, letters):
    def make(random):
        rows = [
            row._replace(text=f"{row.text} {random.choice(letters)} {random.choice(letters)}")
            for row in sentences(random)
        ]
        lines = [(row.text, int(row.label)) for row in rows]
        return Case("a.csv", delimited(("text", "label"), lines, encoding=encoding), rows, asks=True)

    return make


SHAPES["cp1252_english"] = encoded("cp1252", ["costs £5", "it’s fine", "“well”", "a dash – here", "5 €"])
SHAPES["cp1252_french"] = encoded("cp1252", ["déjà vu", "façade", "l’été", "œuvre", "où"])
SHAPES["latin1_german"] = encoded("latin-1", ["Grüße", "Straße", "schön", "Äpfel"])
SHAPES["mac_roman_french"] = encoded("mac_roman", ["déjà", "été", "façade", "où"])
SHAPES["cp1250_polish"] = encoded("cp1250", ["żółw", "łódź", "święto", "ćma"])
SHAPES["cp1251_russian"] = encoded("cp1251", ["привет мир", "сегодня", "хорошо", "вопрос"])
SHAPES["shift_jis"] = encoded("shift_jis", ["東京の天気", "ありがとう", "電車が遅れる"])
SHAPES["gb18030"] = encoded("gb18030", ["今天天气", "非常满意", "服务不好"])
SHAPES["cp1254_turkish"] = encoded("cp1254", ["güzel şehir", "çok ığdır", "İstanbul"])
SHAPES["koi8_r_russian"] = encoded("koi8_r", ["привет мир", "сегодня", "хорошо", "вопрос"])
SHAPES["cp1253_greek"] = encoded("cp1253", ["καλημέρα κόσμε", "πώς είστε", "σήμερα"])
SHAPES["cp850_french"] = encoded("cp850", ["déjà", "été", "façade"])
for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
    SHAPES[f"unmarked_{encoding}"] = worded("1", "0", encoding=encoding)


@shape
def damaged_utf8(random):
    rows = [row._replace(text=f"{row.text} déjà vu") for row in sentences(random)]
    content = delimited(("text", "label"), [(row.text, int(row.label)) for row in rows])
    return Case("a.csv", content + b"caf\xe9 noir,1\n", rows, asks=True)


@shape
def late_cp1252(random):
    rows = sentences(random, 3000)
    content = delimited(("text", "label"), [(row.text, int(row.label)) for row in rows])
    return Case("a.csv", content + b"it costs \xa35,1\n", rows, asks=True)


def references(title, abstract, more=(), suffix="csv", delimiter=","):
    def make(random):
        rows, lines = [], []
        for k, row in enumerate(sentences(random)):
            head = f"A study of {random.choice(NOUNS)} {k}"
            body = "" if k % 9 == 5 else row.text
            rows.append(Row(f"{head}\n{body}".strip(), row.label))
            lines.append((k, head, body, int(row.label), *(f"{name} {k}" for name in more)))
        return Case(f"refs.{suffix}", delimited(("id", title, abstract, "included", *more), lines, delimiter), rows)

    return make


for name, (title, abstract) in {
    "ti_ab": ("TI", "AB"), "document_title": ("Document Title", "Abstract"),
    "article_title": ("Article Title", "Abstract"), "item_title": ("Item Title", "Abstract Note"),
    "blanks": (" Title ", " Abstract "), "upper": ("TITLE", "ABSTRACT"),
    "primary_title": ("primary_title", "notes_abstract"),
}.items():  # fmt: skip
    SHAPES[f"references_{name}"] = references(title, abstract)
SHAPES["references_with_authors"] = references("Title", "Abstract", ("Authors", "Source title", "References"))
SHAPES["references_tsv"] = references("TI", "AB", ("AU", "SO", "CR"), "tsv", "\t")


def records(make_one, name, join="\n", head="", tail="", label=False):
    """Return a function that makes a case: a file of reference records, each returned by make_one(number, title,
    abstract, label)."""

    def make(random):
        rows, made = [], []
        for k, row in enumerate(sentences(random)):
            title = f"A study of {random.choice(NOUNS)} {k}"
            rows.append(Row(f"{title}\n{row.text}", row.label if label else None))
            made.append(make_one(k, title, row.text, row.label))
        return Case(name, (head + join.join(made) + tail).encode(), rows)

    return make


SHAPES["ris"] = records(lambda k, t, a, y: f"TY  - JOUR\nTI  - {t}\nAB  - {a}\nPY  - 2020\nER  - \n", "a.ris")
SHAPES["ris_asreview"] = records(
    lambda k, t, a, y: f"TY  - JOUR\nTI  - {t}\nAB  - {a}\nN1  - ASReview_{'' if y else 'ir'}relevant\nER  - \n",
    "a.ris", label=True,
)  # fmt: skip
SHAPES["ris_rayyan"] = records(
    lambda k, t, a, y: f"TY  - JOUR\nTI  - {t}\nAB  - {a}\nN1  - RAYYAN-INCLUSION: "
    f'{{"Ann"=>"{"In" if y else "Ex"}cluded"}}\nER  - \n',
    "a.ris", label=True,
)  # fmt: skip
SHAPES["nbib"] = records(lambda k, t, a, y: f"PMID- {k + 1000}\nTI  - {t}\nAB  - {a}\nLA  - eng\n", "a.nbib")
SHAPES["medline_txt"] = records(lambda k, t, a, y: f"PMID- {k + 1000}\nTI  - {t}\nAB  - {a}\nLA  - eng\n", "pubmed.txt")
SHAPES["wos_plain"] = records(
    lambda k, t, a, y: f"PT J\nAU Roe, R\nTI {t}\nAB {a}\nCR Doe J, 1990, NATURE\n   Roe R, 1991, SCIENCE\nER\n",
    "savedrecs.txt", head="FN Clarivate Analytics Web of Science\nVR 1.0\n", tail="\nEF",
)  # fmt: skip
SHAPES["bibtex"] = records(
    lambda k, t, a, y: f"@article{{k{k},\n  title = {{{t}}},\n  abstract = {{{a}}},\n  year = {{2020}}\n}}\n", "a.bib"
)


def jsons(make_one, name="a.jsonl", whole=False, label=True, nest=None):
    """Return a function that makes a case: JSON objects, each returned by make_one(number, row), one per line or, if
    `whole`, as one document."""

    def make(random):
        rows = sentences(random)
        made = [make_one(k, row) for k, row in enumerate(rows)]
        content = json.dumps(nest(made) if nest else made) if whole else "\n".join(map(json.dumps, made))
        return Case(name, content.encode(), rows if label else [row._replace(label=None) for row in rows])

    return make


SHAPES["jsonl"] = jsons(lambda k, r: {"id": k, "text": r.text, "label": int(r.label)})
SHAPES["jsonl_bool"] = jsons(lambda k, r: {"text": r.text, "label": r.label})
SHAPES["json_array"] = jsons(lambda k, r: {"text": r.text, "label": int(r.label)}, "a.json", True)
SHAPES["json_data_key"] = jsons(
    lambda k, r: {"text": r.text, "label": int(r.label)}, "a.json", True, nest=lambda m: {"data": m}
)
SHAPES["json_orient_index"] = jsons(
    lambda k, r: {"text": r.text, "label": int(r.label)},
    "a.json",
    True,
    nest=lambda m: {str(k): each for k, each in enumerate(m)},
)
SHAPES["json_orient_columns"] = jsons(
    lambda k, r: {"text": r.text, "label": int(r.label)}, "a.json", True,
    nest=lambda m: {key: {str(k): each[key] for k, each in enumerate(m)} for key in m[0]},
)  # fmt: skip
SHAPES["json_orient_split"] = jsons(
    lambda k, r: [r.text, int(r.label)], "a.json", True,
    nest=lambda m: {"columns": ["text", "label"], "index": [*range(len(m))], "data": m},
)  # fmt: skip
SHAPES["label_studio"] = jsons(
    lambda k, r: {"id": k, "data": {"text": r.text}, "annotations": [{"result": [
        {"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": ["yes" if r.label else "no"]}}
    ]}]},
    "export.json", True,
)  # fmt: skip
SHAPES["label_studio_min"] = jsons(
    lambda k, r: {"id": k, "text": r.text, "label": "yes" if r.label else "no", "annotator": 1}, "export.json", True
)
SHAPES["prodigy"] = jsons(
    lambda k, r: {"text": r.text, "label": "SPAM", "answer": "accept" if r.label else "reject", "_input_hash": k}
)
SHAPES["spacy_cats"] = jsons(
    lambda k, r: {"text": r.text, "cats": {"POSITIVE": float(r.label), "NEGATIVE": float(not r.label)}}
)
SHAPES["doccano"] = jsons(lambda k, r: {"id": k, "text": r.text, "label": ["spam"] if r.label else ["ham"]})
SHAPES["argilla"] = jsons(
    lambda k, r: {"id": k, "fields": {"text": r.text}, "responses": {
        "label": [{"value": "yes" if r.label else "no", "user_id": "u", "status": "submitted"}]
    }},
    "a.json", True,
)  # fmt: skip
SHAPES["nested_text"] = jsons(lambda k, r: {"data": {"text": r.text}, "meta": {"label": int(r.label)}})
SHAPES["tweets_v2"] = jsons(
    lambda k, r: {"id": str(k), "text": r.text, "public_metrics": {"like_count": 3}},
    "a.json",
    True,
    label=False,
    nest=lambda m: {"data": m, "meta": {}},
)
SHAPES["twitter_archive"] = jsons(
    lambda k, r: {"tweet": {"id": str(k), "full_text": r.text}}, "tweets.json", True, label=False
)
SHAPES["prodigy_choice"] = jsons(
    lambda k, r: {"text": r.text, "options": [{"id": "yes", "text": "Yes"}, {"id": "no", "text": "No"}],
                  "accept": ["yes" if r.label else "no"], "answer": "accept"}
)  # fmt: skip
SHAPES["spacy_one_category"] = jsons(lambda k, r: {"text": r.text, "cats": {"SPAM": float(r.label)}})
SHAPES["twitter_archive_js"] = lambda random: (
    lambda case: case._replace(name="tweets.js", content=b"window.YTD.tweets.part0 = " + case.content)
)(SHAPES["twitter_archive"](random))
SHAPES["openai_messages"] = jsons(
    lambda k, r: {
        "messages": [
            {"role": "user", "content": r.text},
            {"role": "assistant", "content": "spam" if r.label else "ham"},
        ]
    }
)


def lined(write, name="a.txt", label=True):
    """Return a function that makes a case: a text file whose lines are returned by write(row)."""

    def make(random):
        rows = sentences(random)
        return Case(
            name,
            "".join(f"{write(row)}\n" for row in rows).encode(),
            rows if label else [row._replace(label=None) for row in rows],
        )

    return make


SHAPES["label_space_text"] = lined(lambda r: f"{int(r.label)} {r.text}")
SHAPES["text_semicolon_emotion"] = lined(lambda r: f"{r.text.replace(';', ',')};{'joy' if r.label else 'sadness'}")
SHAPES["underscore_bang"] = lined(lambda r: f"k_!_{int(r.label)}_!_{r.text}")
SHAPES["underscore_bang_two"] = lined(lambda r: f"{int(r.label)}_!_{r.text}")
SHAPES["double_colon_last"] = lined(lambda r: f"{r.text}::{int(r.label)}", "a.csv")
SHAPES["cornell"] = lined(lambda r: f"{int(r.label)} +++$+++ {r.text}")
SHAPES["sep_token"] = lined(lambda r: f"{r.text} [SEP] {int(r.label)}")
SHAPES["digit_stars"] = lined(lambda r: f"{5 if r.label else 1} {r.text}")
SHAPES["double_colon"] = lined(lambda r: f"{int(r.label)}::{r.text}")
SHAPES["plain_lines"] = lined(lambda r: r.text, label=False)
SHAPES["markdown_lines"] = lined(lambda r: r.text, "a.md", label=False)


@shape
def subtitles(random):
    rows = [row._replace(label=None) for row in sentences(random)]
    lines = "".join(f"{k + 1}\n00:00:{k:02d},000 --> 00:00:{k:02d},900\n{row.text}\n\n" for k, row in enumerate(rows))
    return Case("a.srt", lines.encode(), rows, refuses=True)


@shape
def webvtt(random):
    rows = [row._replace(label=None) for row in sentences(random)]
    lines = "WEBVTT\n\n" + "".join(f"00:{k:02d}.000 --> 00:{k:02d}.900\n{row.text}\n\n" for k, row in enumerate(rows))
    return Case("a.vtt", lines.encode(), rows, refuses=True)


@shape
def conll(random):
    rows = sentences(random)
    return Case(
        "a.conll",
        "\n\n".join("\n".join(f"{word}\tO" for word in row.text.split()) for row in rows).encode(),
        rows,
        refuses=True,
    )


@shape
def conllu(random):
    rows = sentences(random)
    blocks = (
        "".join(f"{n}\t{word}\t{word}\tNOUN\t_\t_\t0\troot\t_\t_\n" for n, word in enumerate(row.text.split(), 1))
        for row in rows
    )
    return Case("a.conllu", "\n".join(f"# sent_id = {k}\n{block}" for k, block in enumerate(blocks)).encode(), rows,
                refuses=True)  # fmt: skip


@shape
def source_code(random):
    return Case("a.py", b"import os\n\n\ndef main():\n    print(os.getcwd())\n", [], refuses=True)


@shape
def vowpal_numbers(random):
    lines = "".join(f"{(-1) ** k} |f a:{random.random():.2f} b:{k % 4}\n" for k in range(ITEMS))
    return Case("a.vw", lines.encode(), [], refuses=True)


@shape
def blank_lines_between(random):
    rows = [row._replace(label=None) for row in sentences(random)]
    return Case("a.txt", "\n\n".join(row.text for row in rows).encode(), rows)


@shape
def paragraphs(random):
    rows = [row._replace(label=None, text=f"{row.text}\nIt goes on in a second line.") for row in sentences(random)]
    return Case("a.txt", "\n\n".join(row.text for row in rows).encode(), rows, asks=True)


@shape
def multilabel_cells(random):
    rows = sentences(random)
    lines = [
        (row.text, "exercise|food" if row.label else random.choice(["food", "travel", "food|travel"])) for row in rows
    ]
    return Case("a.csv", delimited(("text", "labels"), lines), rows, asks=True)


@shape
def partly_labelled(random):
    rows = sentences(random, 100, known=0.1)
    return Case(
        "a.csv",
        delimited(("text", "label"), [(row.text, "" if row.label is None else int(row.label)) for row in rows]),
        rows,
    )


@shape
def asreview_csv(random):
    rows, lines = [], []
    for k, row in enumerate(sentences(random, known=0.5)):
        rows.append(Row(f"Study {k}\n{row.text}", row.label))
        lines.append(
            (k, f"Study {k}", row.text, "" if row.label is None else int(row.label), "" if row.label is None else k)
        )
    return Case(
        "asreview.csv", delimited(("record_id", "title", "abstract", "included", "asreview_ranking"), lines), rows
    )


def numbers(make_cells, names, columns, label="label", words=("1", "0")):
    """Return a function that makes a case: a table of numbers with cells from make_cells(random). columns: number of
    columns that must be used."""

    def make(random):
        rows = [row._replace(text="") for row in sentences(random)]
        lines = [(*make_cells(random), words[not row.label]) for row in rows]
        return Case("table.csv", delimited((*names, label), lines), rows, vectors=columns)

    return make


SHAPES["numbers_thousands"] = numbers(lambda r: (f"{r.randint(1000, 99999):,}", r.random()), ("income", "b"), 2)
SHAPES["numbers_money"] = numbers(lambda r: (f"${r.randint(5, 900)}", r.random()), ("price", "b"), 2)
SHAPES["numbers_percent"] = numbers(lambda r: (f"{r.randint(0, 100)}%", r.random()), ("rate", "b"), 2)
SHAPES["numbers_decimal_comma"] = lambda random: Case(
    "table.csv",
    delimited(
        ("a", "b", "label"),
        [(f"{random.random():.3f}".replace(".", ","), random.randint(1, 9), int(k % 4 == 0)) for k in range(ITEMS)],
        ";",
    ),
    [Row("", k % 4 == 0) for k in range(ITEMS)], vectors=2,
)  # fmt: skip
SHAPES["numbers_grouped_tab"] = lambda random: Case(
    "table.tsv",
    delimited(
        ("price", "b", "label"),
        [(f"{random.randint(100, 9999):,}", random.random(), int(k % 4 == 0)) for k in range(ITEMS)],
        "\t",
    ),
    [Row("", k % 4 == 0) for k in range(ITEMS)], vectors=2,
)  # fmt: skip


def wrapped(file_name, key, make_item, **around):
    """Return a function that makes a case: a JSON object around an array of messages, each returned by
    make_item(number, text)."""

    def make(random):
        rows = [row._replace(label=None) for row in sentences(random)]
        items = [make_item(k, row.text) for k, row in enumerate(rows)]
        return Case(file_name, json.dumps(around | {key: items}).encode(), rows)

    return make


SHAPES["telegram"] = wrapped(
    "result.json", "messages", lambda k, text: {"id": k, "type": "message", "text": text}, name="Chat", id=1
)
SHAPES["discord"] = wrapped(
    "chat.json", "messages", lambda k, text: {"id": str(k), "content": text, "author": {"id": "3", "name": "anna"}},
    guild={"id": "1"}, messageCount=60,
)  # fmt: skip
SHAPES["youtube_comments"] = wrapped(
    "comments.json", "items",
    lambda k, text: {"id": f"c{k}", "snippet": {"topLevelComment": {"snippet": {"textDisplay": text, "likes": k}}}},
    kind="youtube#commentThreadListResponse",
)  # fmt: skip
SHAPES["labels_oui_non"] = worded("oui", "non")
SHAPES["labels_ja_nein"] = worded("ja", "nein")


def archived(name, pack):
    def make(random):
        case = worded("1", "0")(random)
        return Case(name, pack(case.content), case.rows)

    return make


def zipped(content, inside="data.csv"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(inside, content)
    return file.getvalue()


SHAPES["gzip"] = archived("data.csv.gz", lambda content: gzip.compress(content, mtime=0))
SHAPES["zip_of_one"] = archived("data.zip", zipped)


def zipped_members(members):
    """Return a function that makes a case: a ZIP archive. members: function from the rows to {path: content}."""

    def make(random):
        rows, file = sentences(random), io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in members(rows).items():
                archive.writestr(path, content)
        return Case("data.zip", file.getvalue(), rows)

    return make


def part(rows):
    return delimited(("text", "label"), [(row.text, int(row.label)) for row in rows])


JUNK = {"__MACOSX/._a.csv": b"\0\5", ".DS_Store": b"\0\1", "README.md": "About it.\n", "LICENSE": "Free.\n"}
SHAPES["zip_of_one_beside_junk"] = zipped_members(lambda rows: JUNK | {"a.csv": part(rows)})
SHAPES["zip_of_parts"] = zipped_members(lambda rows: {"1.csv": part(rows[:20]), "2.csv": part(rows[20:])})
SHAPES["zip_of_texts_and_labels"] = zipped_members(
    lambda rows: (
        {f"texts/{k}.txt": row.text for k, row in enumerate(rows)}
        | {"labels.csv": delimited(("file", "label"), [(f"{k}.txt", int(row.label)) for k, row in enumerate(rows)])}
    )
)
SHAPES["zip_of_texts_by_id"] = zipped_members(
    lambda rows: {
        "texts.csv": delimited(("id", "text"), [(f"n{k}", row.text) for k, row in enumerate(rows)]),
        "labels.csv": delimited(("id", "label"), [(f"n{k}", int(row.label)) for k, row in enumerate(rows)]),
    }
)
SHAPES["zip_of_documents"] = zipped_members(
    lambda rows: {f"{k}.json": json.dumps({"text": row.text, "label": int(row.label)}) for k, row in enumerate(rows)}
)


@shape
def zip_of_class_folders(random):
    rows, file = sentences(random), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for k, row in enumerate(rows):
            archive.writestr(f"data/{'pos' if row.label else 'neg'}/{k}.txt", row.text)
    return Case("data.zip", file.getvalue(), sorted(rows, key=lambda row: bool(row.label)))


def framed(name, write):
    def make(random):
        import pandas

        rows = sentences(random)
        frame = pandas.DataFrame({"text": [row.text for row in rows], "label": [int(row.label) for row in rows]})
        with tempfile.TemporaryDirectory() as folder:
            write(frame, Path(folder, name))
            return Case(name, Path(folder, name).read_bytes(), rows)

    return make


SHAPES["xlsx"] = framed("a.xlsx", lambda frame, path: frame.to_excel(path, index=False))
SHAPES["xlsx_index"] = framed("a.xlsx", lambda frame, path: frame.to_excel(path))
SHAPES["parquet"] = framed("a.parquet", lambda frame, path: frame.to_parquet(path))
SHAPES["feather"] = framed("a.feather", lambda frame, path: frame.to_feather(path))


@shape
def arrow_stream(random):
    import pyarrow

    rows = sentences(random)
    made = pyarrow.table({"text": [row.text for row in rows], "label": [int(row.label) for row in rows]})
    file = io.BytesIO()
    with pyarrow.ipc.new_stream(file, made.schema) as writer:
        writer.write_table(made)
    return Case("data-00000-of-00001.arrow", file.getvalue(), rows)


@shape
def parquet_class_label(random):
    import pyarrow
    from pyarrow import parquet

    rows, file = sentences(random), io.BytesIO()
    about = {
        "info": {
            "features": {
                "text": {"dtype": "string", "_type": "Value"},
                "label": {"names": ["ham", "spam"], "_type": "ClassLabel"},
            }
        }
    }
    made = pyarrow.table({"text": [row.text for row in rows], "label": [int(row.label) for row in rows]})
    parquet.write_table(made.replace_schema_metadata({"huggingface": json.dumps(about)}), file)
    return Case("train.parquet", file.getvalue(), rows)


def answered(case, answer):
    """Import a case as a person does who answers every question about it. Return the items."""
    options = {"name": case.name, "layout": Layout(header=answer.header)}
    roles = {"label": answer.label} | ({"text": answer.text} if answer.text else {})
    head = peek(io.BytesIO(case.content), named=roles, **options)
    head.settle(head.guess.label, None, named=True)
    positive = (answer.positive,) if answer.label else ()
    return read(io.BytesIO(case.content), replace(head.guess, positive=positive), **options)


def judged(case):
    """Import a case without any option. Return the outcome ("right", "asked", "refused" or "wrong") and the reason for
    it. A question must have an answer that gives the right items."""
    try:
        head = peek(io.BytesIO(case.content), name=case.name)
        head.settle(head.guess.label, None)
        items = read(io.BytesIO(case.content), head.guess, name=case.name)
    except DataError as error:
        why = str(error)
        if case.refuses or not (case.asks or "?" in why or "--" in why):
            return "refused", why
        trouble = case.answer and trouble_with(answered(case, case.answer), case)
        return ("wrong", f"answered, {trouble}, after {why}") if trouble else ("asked", why)
    if case.refuses:
        return "wrong", f"{len(items.ids)} items of a file that holds no rows"
    if case.asks and items.y.any():
        return "wrong", f"taken without a question: {items.report()}"
    trouble = trouble_with(items, case)
    return ("wrong", trouble) if trouble else ("right", "")


def trouble_with(items, case):
    """Tell in which way items differ from those that a case holds ("": they are right)."""
    if len(items.ids) != len(case.rows):
        return f"{len(items.ids)} items, not {len(case.rows)}"
    used = items.columns.features or items.feature_names  # a categorical column gives several features
    if case.vectors:
        wrong = len(used) != case.vectors if case.vectors > 0 else case.answer.label in used or len(used) < 2
        if wrong or items.vectors is None or items.texts is not None:
            return f"{len(used)} columns ({used[:4]})"
    else:
        shown = [" ".join(text.split()) for text in items.texts or []]
        if shown != [" ".join(row.text.split()) for row in case.rows]:
            return f"the first text is {(shown or ['none'])[0][:60]!r}"
    labels = [{1: True, -1: False, 0: None}[y] for y in items.y.tolist()]
    return "" if case.asks or labels == [row.label for row in case.rows] else f"labels: {items.report()}"


def measure(variants=VARIANTS, only=""):
    """Import `variants` files of each shape whose name contains `only`. Return a list of outcomes: {shape, outcome,
    why}."""
    found = []
    for name, make in SHAPES.items():
        count = min(variants, 1) if isinstance(make, PublicFile) else variants  # their headers are what varies
        for variant in range(count if only in name else 0):
            try:
                outcome, why = judged(make(Random(f"{SEED} {name} {variant}")))
            except Exception as error:
                outcome, why = "wrong", f"{type(error).__name__}: {error}"
            found.append({"shape": name, "outcome": outcome, "why": why})
    return found


def main(
    variants: Annotated[int, typer.Option(min=1, help="Files of each shape.")] = VARIANTS,
    only: Annotated[str, typer.Option(help="A part of the names of the shapes to import.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome of every file.")] = False,
):
    """Import generated files of every shape without options, and count the outcomes."""
    found = measure(variants, only)
    if as_json:
        json.dump(found, sys.stdout)
        return
    shown = {line["shape"]: line for line in reversed(found)}
    for line in reversed(shown.values()):
        if line["outcome"] != "right":
            print(f"{line['shape']}: {line['outcome']}: {line['why'][:150]}")
    counts = Counter(line["outcome"] for line in found)
    print(f"\n{len(found)} files in {len(SHAPES)} shapes\n")
    print(
        "\n".join(
            table(
                ["outcome", "files", "share"],
                [
                    (name, counts[name], f"{counts[name] / len(found):.1%}")
                    for name in ("right", "asked", "refused", "wrong")
                ],
            )
        )
    )


if __name__ == "__main__":
    typer.run(main)

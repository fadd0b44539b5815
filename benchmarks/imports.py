"""Import generated files without an option: `python benchmarks/imports.py`. Count how many are imported correctly
without a question (*right*), stop with a question (*asked*) or a refusal (*refused*), or are silently wrong (*wrong*).

The files have the headers, label words and orders of the public data sets in public_headers.csv, and more label words
and headers. The names of a header are separated by |. A column that is not the text, the label or the id says after =
what its cells are: one of CELLS, or some of its words, separated by slashes.
"""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

import typer
from common import SEED, table

from oal_engine.datasets.reading import DataError, peek, read
from oal_engine.datasets.reading.sources import Layout

VARIANTS = 3
OUTCOMES = ("right", "asked", "refused", "wrong")
ITEMS = 60
LATE = 1040  # rows before the first one of the rare class, more than the product looks at first
NOUNS = "lunch garden train budget meeting river concert deadline recipe bicycle storm museum harvest ticket".split()
VERBS = "opens closes delays improves replaces explains cancels repairs reviews collects surprises follows".split()
NAMES = "Ann Lopez|Ben Okafor|Chloé Martin|Dan Wu|Eva Novak|Femi Ade".split("|")


class Row(NamedTuple):
    """One item of a generated file: its text and its label (None: it has no label)."""

    text: str
    label: bool | None


class Answer(NamedTuple):
    """The roles of the columns, whether there is a header, and the positive word: what a person who knows the file
    answers to any question."""

    text: tuple[str, ...]
    label: str | None
    positive: str
    header: bool | None


class Case(NamedTuple):
    """A generated file and the items that it holds. numbers: whether it is a table of numbers. answer: what must give
    these items if a question is asked."""

    name: str
    content: bytes
    rows: list[Row]
    numbers: bool = False
    answer: Answer | None = None


def sentence(random, end):
    nouns = [random.choice(NOUNS) for _ in range(3)]
    return f"The {nouns[0]} {random.choice(VERBS)} the {nouns[1]} and the {nouns[2]}, says note {end}."


def sentences(random, count=ITEMS, known=1.0):
    """Generate rows of random sentences, a quarter of them positive. known: share of the rows with a label."""
    rows = []
    for k in range(count):
        text = sentence(random, k)
        rows.append(Row(text, random.random() < 0.25 if random.random() < known else None))
    rows[0] = rows[0]._replace(label=True)
    rows[1] = rows[1]._replace(label=False)
    return rows


def delimited(head, lines, delimiter=",", **dialect):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", **dialect)
    if head:
        writer.writerow(head)
    writer.writerows(lines)
    return file.getvalue().encode()


def headline(random, _=0):
    return f"About the {random.choice(NOUNS)} and the {random.choice(NOUNS)}"


CELLS: dict[str, Callable[[Random, int], Any]] = {
    "id": lambda random, k: k + 1,
    "int": lambda random, k: random.randint(0, 60),
    "long": lambda random, k: 10**17 + random.randrange(10**16),
    "real": lambda random, k: round(random.gauss(0, 3), 4),
    "unit": lambda random, k: round(random.random(), 4),
    "code": lambda random, k: f"{random.randrange(16**10):010x}",
    "day": lambda random, k: f"2020-{random.randint(1, 12):02d}-{random.randint(1, 28):02d} 10:{k % 60:02d}:00",
    "url": lambda random, k: f"https://example.org/{random.choice(NOUNS)}/{k}",
    "name": lambda random, k: random.choice(NAMES),
    "title": headline,
    "prose": lambda random, k: sentence(random, -k),
    "gappy": lambda random, k: sentence(random, -k) if random.random() < 0.5 else "",
    "gaptitle": lambda random, k: headline(random) if random.random() < 0.5 else "",
    "words": lambda random, k: ",".join(random.sample(NOUNS, 2)),
    "numbers": lambda random, k: "\t".join(str(9 * 10**17 + random.randrange(10**16)) for _ in range(k % 5)),
    "objects": lambda random, k: [{"input": "", "output": sentence(random, -k)}],
    "none": lambda random, k: "",
    "zero": lambda random, k: 0,
}


def chat(text):
    return [{"role": "user", "content": text}, {"role": "assistant", "content": "Thank you."}]


def turns(text):
    return [{"from": "human", "value": text}, {"from": "gpt", "value": "Thank you."}]


def ordered(rows, order):
    """Sort rows by their label (the rare class first), in three blocks, or with the rare class at the end."""
    if order == "shuffled":
        return rows
    if order == "late":
        return sorted(rows, key=lambda row: row.label)
    parts = [rows] if order == "sorted" else [rows[at::3] for at in range(3)]
    return [row for part in parts for row in sorted(part, key=lambda row: not row.label)]


class PublicFile:
    """A function that makes a case like a public data set. order: of its rows ("": its own)."""

    def __init__(self, entry, order=""):
        self.entry, self.order = entry, order or entry["order"]
        self.layout = entry["layout"].split()
        cells = [column.partition("=") for column in entry["columns"].split("|")]
        self.names, kinds = [name for name, _, _ in cells], [kind for _, _, kind in cells]
        self.texts = [*filter(None, entry["text"].split("|"))]
        self.rare, *self.others = entry["words"].split("|")
        self.kinds = dict(zip(self.names, kinds)) if len({*self.names}) == len(self.names) else None
        self.cells = [*zip(self.names, kinds)]

    def __call__(self, random):
        late = self.order == "late"
        rows = sentences(random, LATE + ITEMS if late else ITEMS)
        if late:
            rows = [Row(row.text, k >= LATE) for k, row in enumerate(rows)]
        rows = ordered(rows, self.order)
        lines = [[self.cell(name, kind, random, k, row) for name, kind in self.cells] for k, row in enumerate(rows)]
        shown = [Row(self.text(line, row), row.label if self.others else None) for line, row in zip(lines, rows)]
        named = "no" not in self.layout and self.layout[0] not in ("lines", "array", "splits")
        names = [name if name and "no" not in self.layout else f"c{at}" for at, name in enumerate(self.names, 1)]
        role = dict(zip(self.names, names)).get
        header = named if self.layout[0] in (",", ";", "tab") else None
        answer = Answer((*map(role, self.texts),), role(self.entry["label"]) or None, self.rare, header)
        return Case(self.entry["file"], self.written(lines), shown, not self.texts, answer)

    def cell(self, name, kind, random, k, row):
        if name == self.entry["label"] and self.others:
            word = self.rare if row.label else self.others[k % len(self.others)]
            is_json = self.layout[0] in ("lines", "array")
            return json.loads(word) if is_json and word in ("0", "1", "true", "false") else word
        if kind == "copy":
            return int(row.label)
        if kind in ("chat", "turns") or (name in self.texts and not kind):
            return {"chat": chat, "turns": turns}.get(kind, str)(row.text)
        kind = kind or "id"
        return CELLS[kind](random, k) if kind in CELLS else random.choice(kind.split("/"))

    def text(self, line, row):
        if {"chat", "turns"} & {kind for _, kind in self.cells}:
            return f"user: {row.text}\nassistant: Thank you."
        return "\n".join(str(line[self.names.index(name)]) for name in self.texts)

    def written(self, lines):
        """Return the bytes of the file."""
        form, *flags = self.layout
        if form in ("lines", "array"):
            objects = [dict(zip(self.names, line)) for line in lines]
            return ("\n".join(map(json.dumps, objects)) if form == "lines" else json.dumps(objects)).encode()
        if form == "splits":
            return json.dumps({"oos_val": lines[:20], "val": lines[20:40], "train": lines[40:]}, indent=4).encode()
        dialect = {"quotechar": "'"} if "apostrophes" in flags else {}
        if {"quoted", "apostrophes"} & {*flags}:
            dialect["quoting"] = csv.QUOTE_ALL
        head = None if "no" in flags else self.names
        return delimited(head, lines, "\t" if form == "tab" else form, **dialect)


def public_shapes():
    """Return {name: function that makes a case}: each public data set in its own order, sorted by label, and with the
    rare class at its end."""
    with Path(__file__).with_name("public_headers.csv").open(encoding="utf-8", newline="") as file:
        entries = [*csv.DictReader(file)]
    return {
        f"public: {entry['name']}, {order or 'own order'}": PublicFile(entry, order)
        for entry in entries
        for order in ("", *(("sorted", "late") if entry["label"] else ()))
    }


SHAPES: dict[str, Callable[[Random], Case]] = public_shapes()


def worded(yes, no, gap="", known=1.0):
    """Return a function that makes a case: a table with a text column and a label column whose cells are `yes`, `no` or
    `gap`."""

    def make(random):
        rows = sentences(random, known=known)
        words = {True: yes, False: no, None: gap}
        lines = [(f"m{k}", row.text, words[row.label]) for k, row in enumerate(rows)]
        return Case("data.csv", delimited(("id", "text", "label"), lines), rows)

    return make


PAIRS = {
    "yes_no": ("yes", "no"), "Y_N": ("Y", "N"), "true_false": ("TRUE", "FALSE"), "pos_neg": ("pos", "neg"),
    "include_exclude": ("include", "exclude"), "included_excluded": ("Included", "Excluded"),
    "relevant_irrelevant": ("relevant", "irrelevant"), "toxic_non_toxic": ("toxic", "non-toxic"),
    "accept_reject": ("accept", "reject"), "one_minus_one": ("1", "-1"), "floats": ("1.0", "0.0"),
    "oui_non": ("oui", "non"), "ja_nein": ("ja", "nein"), "x_blank": ("x", ""),
}  # fmt: skip
for name, (yes, no) in PAIRS.items():
    SHAPES[f"labels_{name}"] = worded(yes, no)
for name, gap in {"NA": "NA", "NULL": "NULL", "question": "?", "dash": "-", "empty": "", "unlabeled": "unlabeled",
                  "unknown": "unknown", "maybe": "maybe", "ignore": "ignore",
                  "none": "None", "nan": "nan", "na_slash": "n/a"}.items():  # fmt: skip
    SHAPES[f"gap_{name}"] = worded("1", "0", gap, known=0.4)
SHAPES["gap_minus_one"] = worded("1", "0", "-1", known=0.4)  # 1, 0, -1: or positive, neutral, negative
SHAPES["gap_words_yes_no_unsure"] = worded("yes", "no", "unsure", known=0.5)


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
        if not ("?" in why or "--" in why):
            return "refused", why
        trouble = case.answer and trouble_with(answered(case, case.answer), case)
        return ("wrong", f"answered, {trouble}, after {why}") if trouble else ("asked", why)
    trouble = trouble_with(items, case)
    return ("wrong", trouble) if trouble else ("right", "")


def trouble_with(items, case):
    """Tell in which way items differ from those that a case holds ("": they are right)."""
    if len(items.ids) != len(case.rows):
        return f"{len(items.ids)} items, not {len(case.rows)}"
    if case.numbers:
        used = items.columns.features or items.feature_names  # a categorical column gives several features
        if case.answer.label in used or len(used) < 2 or items.vectors is None or items.texts is not None:
            return f"{len(used)} columns ({used[:4]})"
    else:
        shown = [" ".join(text.split()) for text in items.texts or []]
        if shown != [" ".join(row.text.split()) for row in case.rows]:
            return f"the first text is {(shown or ['none'])[0][:60]!r}"
    labels = [{1: True, -1: False, 0: None}[y] for y in items.y.tolist()]
    return "" if labels == [row.label for row in case.rows] else f"labels: {items.report()}"


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
    print(f"\n{len(found)} files in {len(SHAPES)} shapes\n")
    counts = Counter(line["outcome"] for line in found)
    shares = [(name, counts[name], f"{counts[name] / len(found):.1%}") for name in OUTCOMES]
    print("\n".join(table(["outcome", "files", "share"], shares)))


if __name__ == "__main__":
    typer.run(main)

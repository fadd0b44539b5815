"""Make files of sentences with the headers, label words and orders of the public data sets in public_headers.csv.

The names of a header are separated by |. A column that is not the text, the label or the id says after = what its
cells are: one of CELLS, or some of its words, separated by slashes."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

ITEMS = 60
LATE = 1040  # rows before the first one of the rare class, more than the product looks at first
ORDERS = ("shuffled", "sorted", "blocks", "late")
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
    """A generated file and the items that it holds. asks: whether a question is the right outcome, because the file is
    ambiguous. refuses: whether a refusal is right, because the file has no items. vectors: number of columns that must
    be used if the file is a table of numbers (-1: some). answer: what must give these items if a question is asked."""

    name: str
    content: bytes
    rows: list[Row]
    asks: bool = False
    refuses: bool = False
    vectors: int = 0
    answer: Answer | None = None


def sentence(random, end):
    nouns = [random.choice(NOUNS) for _ in range(3)]
    return f"The {nouns[0]} {random.choice(VERBS)} the {nouns[1]} and the {nouns[2]}, says note {end}."


def sentences(random, count=ITEMS, share=0.25, known=1.0):
    """Generate rows of random sentences. share: share of positives. known: share of the rows with a label."""
    rows = []
    for k in range(count):
        text = sentence(random, k)
        rows.append(Row(text, random.random() < share if random.random() < known else None))
    rows[0] = rows[0]._replace(label=True)
    rows[1] = rows[1]._replace(label=False)
    return rows


def delimited(head, lines, delimiter=",", encoding="utf-8", end="\n", **dialect):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, **dialect)
    if head:
        writer.writerow(head)
    writer.writerows(lines)
    return file.getvalue().encode(encoding)


def title(random, _=0):
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
    "title": title,
    "prose": lambda random, k: sentence(random, -k),
    "gappy": lambda random, k: sentence(random, -k) if random.random() < 0.5 else "",
    "gaptitle": lambda random, k: title(random) if random.random() < 0.5 else "",
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
        vectors = 0 if self.texts else -1
        return Case(self.entry["file"], self.written(lines), shown, vectors=vectors, answer=answer)

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

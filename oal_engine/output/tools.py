"""Files for other tools: every item of a session with its label, its prediction and its asking probability.

Each tool is an entry of TOOLS. The import reads its file back with the same items, ids, labels and probabilities.
"""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from operator import itemgetter
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from .tables import LABEL, LABELED, PREDICTED, TEXT, TITLE_AND_ABSTRACT, Format, OutputTable, parquet
from .tables import text as text_file

UNIX_EPOCH_OF_ZIP = (1980, 1, 1, 0, 0, 0)  # time of files in an archive, so that the same session gives the same bytes
FIELD = "label"  # the name of the question in a tool
OWN = "OAL"  # begins the notes and keywords of references that this module writes
NOT_IN_YAML = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
RIS_TAGS = {  # {name of a further column, in lower case: tag}
    "authors": "AU", "author": "AU", "year": "PY", "journal": "JO", "doi": "DO", "url": "UR", "keywords": "KW",
    "tags": "KW",
}  # fmt: skip
SEPARATORS = {"AU": "; ", "KW": "; ", "UR": "; ", "tags": "|"}
DATA_FILE = "data/train-00000-of-00001.parquet"


class LabeledItem(NamedTuple):
    """An item of a session.

    cells: {name of column: cell} of its row in the table of all items, with class numbers as label and prediction.
    confidence: probability that the prediction is right, or None if unknown.
    """

    cells: dict[str, Any]
    confidence: float | None
    was_skipped: bool


class LabeledItems(NamedTuple):
    """The items of a session in the order of its data.

    model: description of the model. names: names of the classes by class number: 1 and -1, or 1..K. words: the data
    set's own label of each class, by class number. contents: columns of the text (`text`, or `title` and `abstract`) or
    of the feature values, {name: type}. details: names of the further columns. total: number of items.
    """

    session: str
    model: str
    names: Mapping[int, str]
    words: Mapping[int, str] | Mapping[int, int]
    contents: dict[str, type]
    details: tuple[str, ...]
    items: Iterable[LabeledItem]
    total: int

    @property
    def has_texts(self) -> bool:
        """Whether the items are texts."""
        return tuple(self.contents) in ((TEXT,), TITLE_AND_ABSTRACT)

    @property
    def classes(self) -> list[int]:
        """The class numbers, in the order in which tools number the classes from 0: the negative class first."""
        return sorted(self.names)

    @property
    def has_two(self) -> bool:
        """Whether the classes are a positive and a negative one."""
        return -1 in self.names

    def details_of(self, item: LabeledItem) -> dict[str, str]:
        """Return the item's non-empty cells in the columns `details`: {column: cell}."""
        return {name: word for name in self.details if (word := item.cells[name])}

    def contents_of(self, item: LabeledItem) -> list[str]:
        """Return the text of an item: [text], or [title, abstract]."""
        return [item.cells[name] for name in self.contents]

    def name(self, label: int | None) -> str | None:
        """Return the name of a class."""
        return self.names.get(label or 0)

    def table(self, words: Mapping[int, str] | Mapping[int, int]) -> OutputTable:
        """Return the items as a table. words: {class number: word or number to write}."""
        kind = type(next(iter(words.values())))
        label, predicted, score, origin, asking_probability = LABELED
        columns = {"id": str, **self.contents, label: kind, predicted: kind, score: float, origin: str}
        columns |= {asking_probability: float, **dict.fromkeys(self.details, str)}
        in_words = (
            item.cells | {name: words.get(item.cells[name] or 0) for name in (label, predicted)} for item in self.items
        )
        return OutputTable(columns, map(itemgetter(*columns), in_words), self.total)


def _joined(items: LabeledItems, item: LabeledItem) -> str:
    """Return the text of an item, with its title on a line of its own."""
    return "\n".join(filter(None, items.contents_of(item)))


def _filled(**cells: Any) -> dict[str, Any]:
    """Return the cells that are not None."""
    return {name: cell for name, cell in cells.items() if cell is not None}


# ---- References


def _ris(items: LabeledItems, file: BinaryIO) -> None:
    """Write items as references in RIS, with screening decisions in ASReview's notation, and keywords for Zotero."""
    with text_file(file) as lines:
        for item in items.items:
            for tag, value in _reference(items, item):
                if words := " ".join(value.split()):
                    lines.write(f"{tag}  - {words}\r\n")
            lines.write("ER  - \r\n\r\n")


def _reference(items: LabeledItems, item: LabeledItem) -> Iterator[tuple[str, str]]:
    """Yield (tag, value) for each line of a reference in RIS."""
    details, cells, contents = items.details_of(item), item.cells, items.contents_of(item)
    title, *rest = contents if len(contents) > 1 else (details.get("title", ""), *contents)
    yield "TY", "JOUR" if "journal" in details else "GEN"
    yield "TI", title
    yield "AB", " ".join(filter(None, rest))
    yield "AN", cells["id"]
    for name, word in details.items():
        column = name.casefold()
        tag = RIS_TAGS.get(column, "")
        separator = SEPARATORS.get(column, SEPARATORS.get(tag))
        parts = word.split(separator) if separator else [word]
        yield from ((tag, part) for part in parts if tag and not part.startswith(f"{OWN} "))
    if (label := items.name(cells[LABEL])) is not None:
        yield "KW", f"{OWN} {FIELD}: {label}"
    if label is None or items.has_two:
        yield "N1", "ASReview_" + {None: "not_seen", 1: "relevant"}.get(cells[LABEL], "irrelevant")
    facts = _filled(
        predicted=items.name(cells[PREDICTED]), score=cells["score"], origin=cells["origin"],
        asking_probability=cells["asking_probability"],
    )  # fmt: skip
    yield from (("N1", f"{OWN} {name}: {value}") for name, value in facts.items())


# ---- Tools for labeling: every record has the asking probability: a reader may infer the columns from a few records


def _label_studio(items: LabeledItems, file: BinaryIO) -> None:
    """Write a zip archive for Label Studio: the tasks, and the labeling config, which names the classes."""
    with ZipFile(file, "w") as archive:
        with new_file(archive, "labeling_config.xml") as config:
            config.write(_labeling_config(items).encode())
        with new_file(archive, "tasks.json") as tasks, text_file(tasks) as words:
            before = "[\n"
            for item in items.items:
                words.write(before + json.dumps(_task(items, item), ensure_ascii=False))
                before = ",\n"
            words.write("\n]\n" if items.total else "[]\n")


def _labeling_config(items: LabeledItems) -> str:
    choices = "".join(f'    <Choice value="{escape(name)}"/>\n' for name in items.names.values())
    return (
        f'<View>\n  <Text name="text" value="$text"/>\n  <Choices name="{FIELD}" toName="text" choice="single">\n'
        f"{choices}  </Choices>\n</View>\n"
    )


def _task(items: LabeledItems, item: LabeledItem) -> dict[str, Any]:
    """Return an item as a task of Label Studio. A skipped item has a canceled annotation."""
    facts = {name: item.cells[name] for name in ("id", "asking_probability", "origin")}
    label, predicted = item.cells[LABEL], item.cells[PREDICTED]
    task: dict[str, Any] = {"data": {"id": facts["id"], "text": _joined(items, item)} | facts | items.details_of(item)}
    task["annotations"] = []
    if label or item.was_skipped:
        result = _choice(items.name(label))
        task["annotations"] = [{"result": result, "was_cancelled": label is None, "ground_truth": False}]
    if predicted is not None:
        prediction = {"model_version": items.model, "result": _choice(items.name(predicted))}
        task["predictions"] = [prediction | _filled(score=item.confidence)]
    return task


def _choice(name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    return [{"from_name": FIELD, "to_name": "text", "type": "choices", "value": {"choices": [name]}}]


def _prodigy(items: LabeledItems, file: BinaryIO) -> None:
    """Write examples for Prodigy: yes-or-no questions for two classes, else choices between the classes."""
    options = [{"id": name, "text": name} for name in items.names.values()]
    with text_file(file) as words:
        words.writelines(json.dumps(_example(items, item, options), ensure_ascii=False) + "\n" for item in items.items)


def _example(items: LabeledItems, item: LabeledItem, options: list[dict[str, str]]) -> dict[str, Any]:
    """Return an item as an example for Prodigy. Without a label its answer is `ignore`, because Prodigy would take any
    other answer for a label."""
    details, label = items.details_of(item), item.cells[LABEL]
    meta: dict[str, Any] = {name: item.cells[name] for name in ("id", "asking_probability", "origin")}
    meta |= _filled(predicted=items.name(item.cells[PREDICTED]), score=item.confidence)
    meta |= {"details": details} if details else {}
    example: dict[str, Any] = {"text": _joined(items, item), "meta": meta}
    if items.has_two:
        answer = {None: "ignore", 1: "accept"}.get(label, "reject")
        return example | {"label": items.names[1], "answer": answer}
    chosen = [] if label is None else [items.names[label]]
    return example | {"options": options, "accept": chosen, "answer": "accept" if chosen else "ignore"}


# ---- A folder for Hugging Face


def _hugging_face(items: LabeledItems, file: BinaryIO) -> None:
    """Write an archive of a folder for `load_dataset`: data in Parquet, and a dataset card."""
    numbers = {label: number for number, label in enumerate(items.classes)}
    names = [items.names[label] for label in items.classes]
    table = items.table(numbers)
    features = {name: _feature(name, kind, names) for name, kind in table.columns.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    with TemporaryFile() as data, ZipFile(file, "w") as archive:
        parquet(table, data, metadata)
        size = data.tell()
        data.seek(0)
        with new_file(archive, DATA_FILE) as member:
            shutil.copyfileobj(data, member)
        with new_file(archive, "README.md") as card:
            card.write(_card(items, features, names, size).encode())


def _feature(column: str, kind: type, names: list[str]) -> dict[str, Any]:
    if column in LABELED[:2]:
        return {"names": names, "_type": "ClassLabel"}
    return {"dtype": {int: "int64", float: "float64", str: "string"}[kind], "_type": "Value"}


def _card(items: LabeledItems, features: dict[str, dict[str, Any]], names: list[str], size: int) -> str:
    """Return the dataset card (README.md), whose YAML header describes the columns."""
    class_names = "".join(f"\n          '{number}': {_yaml(name)}" for number, name in enumerate(names))
    classes = f"\n      class_label:\n        names:{class_names}"
    types = {name: f" {feature['dtype']}" if "dtype" in feature else classes for name, feature in features.items()}
    lines = (f"  - name: {_yaml(name)}\n    dtype:{dtype}\n" for name, dtype in types.items())
    return (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n"
        f"dataset_info:\n  features:\n{''.join(lines)}  splits:\n  - name: train\n    num_bytes: {size}\n"
        f"    num_examples: {items.total}\n  dataset_size: {size}\n---\n\n"
        "Items that were labeled with OAL Studio. `asking_probability` is the probability with which an item was "
        "asked; its inverse is the item's weight in an estimate. `origin` tells where a label comes from. `score` is "
        "the margin of the prediction.\n"
    )


def _yaml(words: str) -> str:
    """Quote words as a scalar of YAML."""
    return NOT_IN_YAML.sub(lambda match: f"\\U{ord(match[0]):08x}", json.dumps(words, ensure_ascii=False))


@contextmanager
def new_file(archive: ZipFile, name: str) -> Iterator[BinaryIO]:
    """Open a new compressed file in a zip archive, with a fixed modification time."""
    about = ZipInfo(name, UNIX_EPOCH_OF_ZIP)
    about.compress_type = ZIP_DEFLATED
    with archive.open(about, "w", force_zip64=True) as member:
        yield member  # type: ignore[misc]  # a file of zipfile that is open for writing


# The only list of formats for tools.
TOOLS = {
    "ris": Format((".ris",), _ris, "RIS: references for Zotero, EndNote and ASReview", needs_texts=True),
    "label-studio": Format((".zip",), _label_studio, "Label Studio: tasks and their labeling config", True, True),
    "prodigy": Format((".jsonl",), _prodigy, "Prodigy: examples, also for spaCy", needs_texts=True),
    "hugging-face": Format((".zip",), _hugging_face, "Hugging Face: a folder for datasets", True),
}


def write(items: LabeledItems, kind: str, file: BinaryIO) -> None:
    """Write items to an open binary file in the format of one of TOOLS. Raise ValueError if the tool needs texts, but
    the items are numbers."""
    if TOOLS[kind].needs_texts and not items.has_texts:
        raise ValueError(f"the format {kind} is for texts. The items of {items.session} are numbers.")
    TOOLS[kind].write(items, file)

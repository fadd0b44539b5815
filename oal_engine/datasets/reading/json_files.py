"""Read JSON: lines, arrays and objects. One rule finds the items: walk down while there is one list of objects, pairs
or strings. The keys of several such lists, such as train and test, or spam and ham, become a column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from json import JSONDecodeError, JSONDecoder
from typing import Any, TypeAlias

from ...output.tables import LABEL
from . import foreign
from .codings import MAX_WORDS
from .conversations import CHATS, conversation, is_conversation, is_message
from .guesses import LABEL_NAMES, PARTS, SOURCE, TEXT_NAMES
from .labels import MORE_PAIRS, PAIRS, plain
from .parsed import BROKEN, Doubt, ParsedFile, cell_text, is_whole, name_list
from .sources import HEAD_BYTES, DataError, Source
from .tables import kind_of_name, to_table

Flatten: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
Objects: TypeAlias = Iterator[tuple[int, dict[str, Any] | None]]  # each with its number; None: a broken one
ARCHIVED_TWEETS = re.compile(r"\s*window\.YTD\.\w+\.part\d+ *= *")  # before the array in an archive of X or Twitter
SPREAD = re.compile(rb"(\xef\xbb\xbf)?\s*(\[|\{\s*[\r\n])")  # begins an array, or an object over several lines
ITEMS = ("data", "items", "records", "results", "rows", "documents", "examples")  # keys of a JSON object around items
NO_TEXTS = re.compile(r"(.*[_ .])?(titles?|names?|headings?|topics?|urls?|links?|ids?|dates?|authors?)")
LATE_COLUMNS, SHAPES = 200, 10_000  # keys after the first objects that become columns; forms of objects that are known
FIRST_OBJECTS = 100  # from which it is told whether a list holds texts or labels
LABEL_WORDS = 5  # at most, in a reply that is a label
PROSE_WORDS = 4  # mean number of words of a text


def looks_jsonl(lines: list[str]) -> bool:
    """Tell whether lines are JSON objects. A single object of lists or objects does not count: it may hold columns."""
    records = [each for each in map(record, lines) if each]
    if len(records) < len(lines):
        return False
    return len(records) > 1 or not all(isinstance(each, list | dict) for each in records[0].values())


def looks_json(lines: list[str]) -> bool:
    """Tell whether lines begin a JSON array or object."""
    return re.match(r'\[\s*[\[{"\]]|\{\s*"', _without_mark("".join(lines[:3])).lstrip()) is not None


def _without_mark(text: str) -> str:
    """Return a text without the assignment at the beginning of an archive of X or Twitter."""
    mark = ARCHIVED_TWEETS.match(text[:HEAD_BYTES])
    return text[mark.end() :] if mark else text


def jsonl(source: Source) -> ParsedFile:
    """Parse lines that are JSON objects."""
    if again := source.again():
        columns, flatten = _columns(source, _records(again._replace(tick=lambda: None)))
        return _rows(columns, flatten, _records(again.again() or again))
    lines = _records(source)  # of a pipe, whose rows are yielded as they arrive
    first = [*islice(lines, source.ahead)]
    return _rows(*_columns(source, iter(first)), chain(first, lines))


def _records(source: Source) -> Objects:
    return ((number, record(line)) for number, line in enumerate(source.lines(), 1) if not line.isspace())


def _rows(columns: list[str], flatten: Flatten, objects: Objects) -> ParsedFile:
    rows = ((n, BROKEN if values is None else [*map(flatten(values).get, columns)]) for n, values in objects)
    return ParsedFile(columns, rows)


def _columns(source: Source, objects: Objects) -> tuple[list[str], Flatten]:
    """Return the columns of a table of objects, and the function that flattens an object to its cells. The columns are
    the keys of the first objects, and some later ones."""
    first = [*islice(objects, FIRST_OBJECTS)]
    flatten = with_reply if _have_replies([values for _, values in first if values]) else flat_record
    columns, late, shapes = dict[str, None](), dict[str, None](), set[Any]()
    for place, (_, values) in enumerate(chain(first, objects)):
        if (shape := _shape(values or {})) in shapes:
            continue
        if len(shapes) < SHAPES:
            shapes.add(shape)
        keys = dict.fromkeys(filter(is_whole, flatten(values or {})))
        if place < source.ahead:
            columns |= keys
            source.limits.check("columns", len(columns), source.name)
        elif len(late) < LATE_COLUMNS:
            late |= keys
    return [*columns, *islice((key for key in late if key not in columns), LATE_COLUMNS)], flatten


def _shape(value: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the keys of an object and of the objects in it."""
    return tuple((key, _shape(inner)) if isinstance(inner, dict) else key for key, inner in value.items())


def _have_replies(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the messages of objects are questions with a reply each that is a label, to fine-tune a model."""
    asked = [with_reply(values) for values in objects if {"messages", "completion"} & {*values}]
    replies = [each["label"] for each in asked if not {"messages", "completion"} & {*each}]
    few = len({*replies}) <= max(2, len(replies) / 2)
    are_short = not any(
        reply.rstrip().endswith((".", "!", "?")) or "\n" in reply or len(reply.split()) > LABEL_WORDS
        for reply in replies
    )
    return 0 < len(replies) == len(asked) and few and are_short


@foreign.foreign
def json_file(source: Source) -> ParsedFile:
    """Parse a JSON array of objects, rows or texts; objects around such arrays; an object of columns; or several values
    after one another, such as JSON lines."""
    text = _without_mark(source.text())
    start = len(text) - len(text.lstrip())
    line, _, rest = text[start:].partition("\n")
    if rest.lstrip()[:1] in ("[", "{") and _loaded(line) is not None:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        return _array(source, lambda: ((number, _loaded(line)) for number, line in lines))
    if text[start : start + 1] == "[":
        return _array(source, lambda: enumerate(_elements(text, start + 1), 1))
    value, end = JSONDecoder().raw_decode(text, start)
    if not text[end:].strip():
        return _walk(source, value)
    values = [value]
    while (end := _next(text, end, ",")) < len(text):
        value, end = JSONDecoder().raw_decode(text, end)
        values.append(value)
    return _walk(source, values)


def _loaded(line: str) -> Any:
    """Parse a line as a JSON array or object. Return None if it is neither."""
    try:
        value = JSONDecoder().decode(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _next(text: str, at: int, skipped: str = "") -> int:
    """Return the index of the next character, from an index on, that is neither a blank nor one of those skipped."""
    while (character := text[at : at + 1]) and (character.isspace() or character in skipped):
        at += 1
    return at


def _elements(text: str, at: int) -> Iterator[Any]:
    """Yield the elements of a JSON array. Raise JSONDecodeError if it is cut off. at: index after its first bracket."""
    decoder, at = JSONDecoder(), _next(text, at)
    while text[at : at + 1] != "]":
        value, at = decoder.raw_decode(text, at)
        yield value
        at = _next(text, at)
        if text[at : at + 1] not in (",", "]"):
            raise JSONDecodeError("the array is cut or not separated by commas", text, at)
        at = _next(text, at + (text[at] == ","))
    if text[at + 1 :].strip():
        raise JSONDecodeError("more than one array", text, at)


def _array(source: Source, numbered: Callable[[], Iterator[tuple[int, Any]]]) -> ParsedFile:
    """Turn the elements of an array into a table. The first element tells whether they are objects, rows or texts."""
    _, first = next(numbered(), (0, None))
    if isinstance(first, str):
        return ParsedFile(["text"], ((n, [each] if isinstance(each, str) else BROKEN) for n, each in numbered()))
    if isinstance(first, list) and is_conversation(first):
        return ParsedFile(["conversation"], ((n, [each]) for n, each in numbered()))
    if isinstance(first, list) and not annotated(first):
        cells = ((n, [*map(cell_text, each)] if isinstance(each, list) else BROKEN) for n, each in numbered())
        return to_table(source, cells, {})

    def objects() -> Objects:
        pairs = ((number, annotated(each) or each) for number, each in numbered())
        return ((number, each if isinstance(each, dict) else None) for number, each in pairs)

    if (key := _inner_list([values for _, values in islice(objects(), FIRST_OBJECTS) if values])) is None:
        return _rows(*_columns(source, objects()), objects())
    return _array(source, lambda: enumerate(_unfolded(objects(), key), 1))


def _inner_list(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the key of the one list of objects with texts, or of texts with one label, in objects without a text."""
    lists: dict[str, list[Any]] = {}
    for key, inner in chain.from_iterable(each.items() for each in objects):
        if _kind(inner, key) in (dict, str):
            lists.setdefault(key, []).extend(inner)
    if len(lists) != 1:
        return None
    [(key, inner)] = lists.items()
    outer = [{name: each[name] for name in each if name != key} for each in objects]
    if isinstance(inner[0], str):
        is_found = _are_prose(inner) and any(map(_is_label, outer[0]))
    else:
        is_found = _has_text(inner[:FIRST_OBJECTS])
    return key if is_found and not _has_text(outer) else None


def _is_label(key: str) -> bool:
    return LABEL_NAMES[0].fullmatch(key.casefold()) is not None or kind_of_name(key) == "label"


def _has_text(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether objects hold a text, which is more than a title or a name."""
    strings: dict[str, list[str]] = {}
    for each in objects:
        for key, cell in flat_record(each).items():
            if isinstance(cell, str) and not NO_TEXTS.fullmatch(key.casefold()):
                strings.setdefault(key, []).append(cell)
    return any(re.fullmatch(TEXT_NAMES, key.casefold()) or _are_prose(texts) for key, texts in strings.items())


def _are_prose(texts: Sequence[str]) -> bool:
    return sum(len(text.split()) for text in texts) >= PROSE_WORDS * len(texts)


def _unfolded(objects: Objects, key: str) -> Iterator[dict[str, Any]]:
    """Yield the objects or texts in a list of each object, with the other values of the outer one."""
    for _, values in objects:
        outer = {name: each for name, each in (values or {}).items() if name != key}
        for inner in (values or {}).get(key) or ():
            yield outer | (inner if isinstance(inner, dict) else {key: inner})


def _kind(value: Any, key: str = "") -> type | None:
    """Return whether a value is a list of objects (dict), of rows (list) or of texts (str); else None. A conversation
    is a value of its own."""
    first = value[:FIRST_OBJECTS] if isinstance(value, list) else []
    if not first or is_conversation(first, CHATS.fullmatch(key) is not None):
        return None
    kinds = {type(each) for each in first}
    return kinds.pop() if len(kinds) == 1 and kinds <= {dict, list, str} else None


def _walk(source: Source, value: Any) -> ParsedFile:
    """Find the items in a JSON value, and turn them into a table."""
    if isinstance(value, list):
        return _array(source, lambda: enumerate(value, 1))
    if not isinstance(value, dict):
        raise DataError(f"{source.name} must hold an array or an object. Got {str(value)[:60]!r}.")
    if {"features", "rows"} <= {*value}:  # rows from the data set server of Hugging Face
        return _hugging_face(source, value)
    if {"columns", "data"} <= {*value}:  # the "split" layout of pandas
        rows = ([*map(cell_text, row)] if isinstance(row, list) else BROKEN for row in value["data"])
        header = [*map(cell_text, value["columns"])]
        layout = replace(source.layout, header=True)
        return to_table(source._replace(layout=layout), chain([(1, header)], enumerate(rows, 1)), {})
    if is_conversation(value, any_roles=False):
        return _walk(source, [value])
    parts = {key: inner for key, inner in value.items() if inner not in ([], {}, None)}
    if parts and (table := _of_parts(source, parts)):
        return table
    if (items := _wrapped(value)) is not None:
        return _walk(source, items)
    columns = {name: list(cells.values()) if isinstance(cells, dict) else cells for name, cells in value.items()}
    lengths = {len(cells) if isinstance(cells, list) else -1 for cells in columns.values()}
    if len(lengths) == 1 and -1 not in lengths:
        return ParsedFile(list(columns), enumerate(map(list, zip(*columns.values())), 1))
    lists = [each for each in value.values() if _kind(each)]
    if len(lists) == 1:
        return _walk(source, lists[0])
    if len(value) > 1 and all(isinstance(each, str) for each in value.values()) and _are_prose([*value.values()]):
        return ParsedFile(["id", "text"], enumerate(map(list, value.items()), 1))
    raise DataError(
        f"{source.name} is one JSON object in which no items are found: it must hold one array of them, which may be "
        f"called {', '.join(ITEMS)}, or columns of one length. It has {name_list(value) or 'nothing'}."
    )


def _wrapped(value: dict[str, Any]) -> Any:
    """Return the items that an object wraps: a list, an object that holds one, or objects under their keys.
    Return None if it is an object of columns."""
    inner = [*value.values()]
    items = next((value[name] for name in ITEMS if isinstance(value.get(name), list)), None)
    if items is None:  # the longest list of objects, such as the messages of a chat
        lists = sorted((each for each in inner if _kind(each) is dict), key=len, reverse=True)
        items = lists[0] if lists and len(lists[0]) > max(map(len, lists[1:]), default=-1) else None
    if items is not None and (not all(isinstance(each, list) for each in inner) or _kind(items) is dict):
        return items
    objects = [each for each in inner if isinstance(each, dict)]
    if 0 < len(objects) == len(inner) > len(inner[0]):  # the "index" layout of pandas
        return inner
    if any(isinstance(cell, str) and re.fullmatch(TEXT_NAMES, name.casefold()) for name, cell in value.items()):
        return [value]  # a document in a file of its own
    holders = [each for each in objects if _holds_items(each)]
    are_columns = len(objects) > 1 and len({tuple(each) for each in objects}) == 1
    return holders[0] if len(holders) == 1 and not are_columns else None


def _holds_items(value: Mapping[str, Any]) -> bool:
    """Tell whether an object holds a list of objects or rows, or an object that does."""
    return any(_holds_items(each) if isinstance(each, dict) else _kind(each) in (dict, list) for each in value.values())


def _of_parts(source: Source, parts: dict[str, Any]) -> ParsedFile | None:
    """Turn an object whose values all are lists of objects, of rows or of texts into one table, in which the keys are a
    column. Return None for another object, and for one of columns."""
    kinds = {_kind(part) for part in parts.values()}
    if len(kinds) != 1 or None in kinds:
        return None
    are_rows = kinds == {dict} or (kinds == {list} and all(" " in cell_text(part[0]) for part in parts.values()))
    if len(parts) == 1 and are_rows:
        return _walk(source, *parts.values())
    names, rows = [key for key, part in parts.items() for _ in part], chain.from_iterable(parts.values())
    are_classes = 1 < len(parts) <= MAX_WORDS and not any(PARTS.match(key.casefold()) for key in parts)
    column = LABEL if are_classes else SOURCE
    if kinds == {dict}:
        keys = [{*part[0]} for part in parts.values()]
        if not set.intersection(*keys):
            return None  # lists of different things
        if any(each != keys[0] for each in keys) or any(map(_is_label, keys[0])):
            column = SOURCE
        return _walk(source, [each | {column: name} for each, name in zip(rows, names)])
    if kinds == {list} and are_rows:
        cells = ((number, [*map(cell_text, each)]) for number, each in enumerate(rows, 1))
        return to_table(source, cells, {}).with_cells([column], lambda line, _: [names[line - 1]])
    return _of_lists(source, parts, names, column) if kinds == {str} and len(parts) > 1 else None


def _of_lists(source: Source, lists: dict[str, list[str]], names: list[str], column: str) -> ParsedFile | None:
    """Turn lists of texts into a table: of two columns, the texts and the keys of their lists; or of one column each.
    If this cannot be told, it is asked whether the keys are a header. Return None if they are one beyond doubt."""
    is_header, doubts = source.layout.header, tuple[Doubt, ...]()
    lengths, pairs = {*map(len, lists.values())}, [{*pair} for pair in (*PAIRS, *MORE_PAIRS)]
    if is_header is None and len(lengths) == 1 and column == LABEL and {*map(plain, lists)} not in pairs:
        if any(_names_a_column(key, texts) for key, texts in lists.items()):
            return None
        question = (
            f"The keys of {source.name} ({name_list(lists, 4)}) could be columns or labels: say whether they name "
            "columns (--header) or label their texts (--no-header)."
        )
        is_header, doubts = True, (Doubt("header", question, ("--header", "--no-header")),)
    detected = {"header": "yes" if is_header else "no"}
    if is_header and len(lengths) == 1:
        return ParsedFile([*lists], enumerate(map(list, zip(*lists.values())), 1), detected=detected, doubts=doubts)
    return ParsedFile(
        ["text", column], enumerate(map(list, zip(chain.from_iterable(lists.values()), names)), 1), detected=detected
    )


def _names_a_column(key: str, texts: Sequence[str]) -> bool:
    """Tell whether a key is the name of a column that holds these texts, or the texts are categories."""
    kind, are_categories = kind_of_name(key), len(texts) > 2 and 2 * len({*texts}) <= len(texts)
    return are_categories or kind == "text" or (kind is not None and not _are_prose(texts))


def _hugging_face(source: Source, value: dict[str, Any]) -> ParsedFile:
    """Turn rows from the data set server of Hugging Face into a table. Class names replace class numbers."""
    classes = {each["name"]: foreign.class_names(each["type"]) for each in value["features"]}
    rows = [
        {name: foreign.named_class(cell, classes.get(name, ())) for name, cell in each["row"].items()}
        for each in value["rows"]
    ]
    return _walk(source, rows)


# ---- Objects of labeling tools


MAX_DEPTH = 4  # of nested objects whose values become columns
VERDICTS = {"accept": "yes", "reject": "no", "ignore": ""}  # {answer in Prodigy: label}


def record(line: str) -> dict[str, Any] | None:
    """Parse a line as a JSON object. Return None if it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _cells(value: Mapping[str, Any], before: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and the values of an object and of its nested objects, down to MAX_DEPTH. An object
    {"choices": [...]}, as in Label Studio's short format, is one value: its list. So is a message with a role."""
    for name, inner in value.items():
        if isinstance(inner, dict) and [*inner] == ["choices"]:
            yield f"{before}{name}", inner["choices"]
        elif isinstance(inner, dict) and is_message(inner):
            yield f"{before}{name}", inner
        elif isinstance(inner, dict) and depth < MAX_DEPTH:
            yield from _cells(inner, f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}", inner


def flat_record(value: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a JSON object: nested names become `outer.inner`, and the label of a labeling tool becomes `label`."""
    if isinstance(value.get("mapping"), dict) and (words := conversation(value)):  # ChatGPT
        value = {name: cell for name, cell in value.items() if name != "mapping"} | {"conversation": words}
    flat = dict(_cells(value))
    match value:
        case {"annotations": list(annotations), "data": dict()}:  # Label Studio
            return _without(flat, "annotations", "predictions") | {"label": _choices(annotations)}
        case {"text": str(), "options": list(), "answer": str(answer)}:  # Prodigy, with several options
            return _without(flat, "options") | {"label": value.get("accept", "") if answer == "accept" else ""}
        case {"text": str(), "answer": "accept" | "reject" | "ignore" as answer}:  # Prodigy
            return flat | {"label": VERDICTS[answer]}
        case {"text": str(), "cats": dict(cats)}:  # spaCy
            return _without(flat, *(f"cats.{name}" for name in cats)) | {"label": _categories(cats)}
        case {"fields": dict(), "responses": dict(responses)}:  # Argilla
            return _without(flat, *(f"responses.{name}" for name in responses)) | {
                "label": _response(chain.from_iterable(filter(None, responses.values())))
            }
        case {"status": str()} if questions := [
            name for name in value if f"{name}.users" in value
        ]:  # Argilla, as a table
            parts = [name for name in flat if name.partition(".")[0] == questions[0].partition(".")[0]]
            return _without(flat, *parts) | {"label": value[questions[0]] or ""}
    return flat


def with_reply(value: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten an object of a fine-tuning format of OpenAI: the message of the user becomes `text`, the reply to it
    `label`. An object with more messages, or with a text or a label of its own, is flattened as any other."""
    flat = flat_record(value)
    match value:
        case {"text": _} | {"label": _}:
            return flat
        case {"prompt": str(text), "completion": str(word)}:  # the older format
            return _without(flat, "prompt", "completion") | {"text": text, "label": word.strip()}
        case {
            "messages": [*before, {"role": "user", "content": str(text)}, {"role": "assistant", "content": str(word)}]
        } if all(each.get("role") == "system" for each in before):
            return _without(flat, "messages") | {"text": text, "label": word}
    return flat


def annotated(value: Any) -> dict[str, Any] | None:
    """Merge a pair of text and annotations, as spaCy stores it, into one object. Return None for anything else."""
    match value:
        case [str(text), {"cats": dict()} as annotations]:
            return {"text": text, **annotations}
    return None


def _choices(annotations: Iterable[Any]) -> list[str] | str:
    """Return the choices in the first annotation of Label Studio that was not skipped ("": none)."""
    submitted = [each for each in annotations if isinstance(each, dict) and not each.get("was_cancelled")]
    results = submitted[0].get("result") if submitted else ()
    values = [each.get("value") for each in results or () if isinstance(each, dict)]
    words = [value.get("choices") or () for value in values if isinstance(value, dict)]
    return [*chain.from_iterable(words)] or ""


def _categories(cats: Mapping[str, Any]) -> list[str] | str:
    """Return the spaCy categories that score at least 0.5, or "yes" or "no" if there is only one category."""
    chosen = [name for name, score in cats.items() if isinstance(score, int | float) and score >= 0.5]
    return chosen if len(cats) > 1 else "yes" if chosen else "no" if cats else ""


def _response(responses: Iterable[Any]) -> Any:
    """Return the value of the first submitted Argilla response, or "" if there is none."""
    valid = (each for each in responses if isinstance(each, dict) and each.get("status") not in ("draft", "discarded"))
    return next((each.get("value", "") for each in valid), "")


def _without(cells: dict[str, Any], *columns: str) -> dict[str, Any]:
    return {name: cell for name, cell in cells.items() if name not in columns}

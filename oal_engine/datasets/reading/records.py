"""Flatten JSON objects, and find the text and the label that labeling tools store in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from .conversations import conversation, is_message

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
    {"choices": [...]}, as Label Studio exports several choices in its short format, is one value: its list. So is a
    message with a role."""
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
    submitted = (
        each for each in responses if isinstance(each, dict) and each.get("status") not in ("draft", "discarded")
    )
    return next((each.get("value", "") for each in submitted), "")


def _without(cells: dict[str, Any], *columns: str) -> dict[str, Any]:
    return {name: cell for name, cell in cells.items() if name not in columns}

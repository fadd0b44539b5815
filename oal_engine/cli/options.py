"""The options that all commands have, and how values of options are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..store import Store

Db = Annotated[
    Path | None, typer.Option("--db", help="The database (default: OAL_DB, or studio.db in the working directory).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that have a value."""
    return {key: value for key, value in options.items() if value is not None}


def number(text: str, name: str, allowed: str) -> float:
    """The number that a text stands for; the error names the option and what it allows."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be {allowed}. Got {text}.") from None


def pairs(option: str, settings: list[str] | None) -> Iterator[tuple[str, str]]:
    """The keys and values of an option that is given as KEY=VALUE."""
    for setting in settings or ():
        key, equals, value = map(str.strip, setting.partition("="))
        if not equals or not key:
            raise ValueError(f"{option} must be KEY=VALUE. Got {setting}.")
        yield key, value


def undamaged(store: Store) -> Store:
    """The store, unless it is damaged: a command may happen to read only what is whole."""
    problems = store.problems()
    if problems:
        raise ValueError(f"{store.path} is damaged: {problems[0]}. The command `check` lists all damage.")
    return store

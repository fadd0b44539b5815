"""What the commands print: tables, JSON and bars of progress."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

WIDEST = 10_000  # characters of a line that is not for a terminal


def show(lists: dict[str, list[dict[str, Any]]], as_json: bool, *columns: str) -> None:
    """Print {name: rows} as JSON, or as a table of some columns."""
    if as_json:
        print(json.dumps(lists, ensure_ascii=False))
        return
    for rows in lists.values():
        table = Table(*columns, box=box.SIMPLE)
        for row in rows:
            table.add_row(*(escape(_cell(row.get(column))) for column in columns))
        draw(table)


def draw(table: Table) -> None:
    """Print a table; its lines are not cut where a program reads them."""
    Console(width=None if sys.stdout.isatty() else WIDEST).print(table)


def _cell(value: Any) -> str:
    return "" if value is None else str(len(value) if isinstance(value, dict) else value)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A function (phase, done, total) that draws a bar with the remaining time for each phase, on a terminal."""
    console, tasks = Console(stderr=True), {}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def progress(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield progress

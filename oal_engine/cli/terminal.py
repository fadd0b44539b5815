"""What the commands share: common options, what was said, tables and bars of progress."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

Db = Annotated[Path | None, typer.Option("--db", help="The database (default: OAL_DB, or studio.db here).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
WIDEST = 10_000  # characters of a line that is not for a terminal


def said(**options):
    """What was given on the command line."""
    return {key: value for key, value in options.items() if value is not None}


def number(text, name, allowed):
    """The number that a text says; else a sentence on what is `allowed` for the option of this name."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be {allowed}. Got {text}.") from None


def show(found, as_json, *columns):
    """Print {name: rows} as JSON, or as a table of some columns."""
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    for rows in found.values():
        table = Table(*columns, box=box.SIMPLE)
        for row in rows:
            table.add_row(*(escape(_cell(row.get(column))) for column in columns))
        draw(table)


def draw(table):
    """Print a table, whole where a program reads it."""
    Console(width=None if sys.stdout.isatty() else WIDEST).print(table)


def _cell(value):
    return "" if value is None else str(len(value) if isinstance(value, dict) else value)


@contextmanager
def progress_bar():
    """A function (phase, done, total) that draws a bar with the remaining time for each phase, on a terminal."""
    console, tasks = Console(stderr=True), {}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def progress(phase, done, total):
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield progress

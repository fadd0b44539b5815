"""Shared parts of the commands: common options, and the output of tables, JSON and progress bars."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from .. import did_you_mean
from ..store import Store

if TYPE_CHECKING:
    from rich.table import Column

Db = Annotated[
    Path | None,
    Option("--db", help="The database (default: OAL_DB, or studio.db in this folder; installed, in your data folder)."),
]
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]
Questions = Annotated[
    str | None,
    Option(
        metavar="NAME,NAME",
        help="Several questions that one reading answers: label words (cells may hold several, a|b), or columns of "
        "1 and 0 that are kept with the items. The budget counts readings.",
    ),
]
Goal = Annotated[
    str | None,
    Option(
        help="stream: labels are asked along it (default); find: after the beginning, where they help most in the file."
    ),
]
Formats = Mapping[str, Iterable[str]]  # the suffixes of each format
PAGE: Formats = {"html": (".html", ".htm")}  # the suffixes of a file that holds a page
WIDEST = 10_000  # width in characters if the output is not a terminal


@dataclass(frozen=True)
class Learning:
    """Options of every run: its seed, and the weight of errors. None leaves the engine's default."""

    seed: Annotated[int | None, Option(min=0, help="Seed of the first run; the next adds 1 (default: 0).")] = None
    metric: Annotated[str | None, Option(help="sum or cost: the metric that rho is for (default: sum).")] = None
    rho: Annotated[str | None, Option(help="Weight of positives: auto (default), laplace, or a number.")] = None
    alpha_p: Annotated[float | None, Option(help="Weight of sensitivity in sum (default: 0.5).")] = None
    c_p: Annotated[float | None, Option(help="Cost of a missed positive (default: 0.9).")] = None
    average: Annotated[bool | None, Option("--average", help="Average the weights once the budget is spent.")] = None

    def values(self) -> dict[str, Any]:
        """Return the options that were set."""
        values = set_options(**asdict(self))
        if self.rho not in (None, "auto", "laplace"):
            values["rho"] = number(str(self.rho), "--rho", "auto, laplace or a number")
        return values


@dataclass(frozen=True)
class Knowing:
    """Prior knowledge about the positives."""

    seed_words: Annotated[str | None, Option(metavar="WORD,WORD", help="Words that point to positives.")] = None
    seed_items: Annotated[str | None, Option(metavar="ID,ID", help="Ids of items known to be positive.")] = None
    seed_texts: Annotated[Path | None, Option(help="A file of example texts that are positive, one a line.")] = None

    @property
    def lists(self) -> dict[str, list[str]]:
        """The seed words, the ids of the seed items, and the example texts."""
        words, items = (text.split(",") if text else [] for text in (self.seed_words, self.seed_items))
        texts = self.seed_texts.read_text(encoding="utf-8-sig").splitlines() if self.seed_texts else []
        return {"words": words, "items": items, "texts": texts}


@dataclass(frozen=True)
class Workers:
    """The workers that run a command: threads, processes, or a Dask cluster."""

    workers: Annotated[int | None, Option(min=1, help="Number of threads or processes (default: one per core).")] = None
    processes: Annotated[bool, Option("--processes", help="Use processes instead of threads.")] = False
    scheduler: Annotated[str | None, Option(metavar="tcp://HOST:PORT", help="A Dask cluster to run on.")] = None

    def executor(self, sources: Callable[[], list[Any]] = list) -> AbstractContextManager[futures.Executor]:
        """Return an executor with the chosen workers. sources: returns the rows that a Dask cluster needs."""
        if self.scheduler:
            try:
                from ..experiments import cluster  # imported late: Dask is optional
            except ModuleNotFoundError:
                raise ValueError("--scheduler needs Dask: pip install distributed.") from None
            return cluster.executor(self.scheduler, sources())
        if self.processes:  # Ctrl-C reaches the workers too, but only the parent may act on it
            from multiprocessing import get_context

            deaf = signal.signal, (signal.SIGINT, signal.SIG_IGN)
            return futures.ProcessPoolExecutor(self.workers, get_context("spawn"), *deaf)
        return futures.ThreadPoolExecutor(self.workers or os.cpu_count())


def set_options(**options: Any) -> dict[str, Any]:
    """Return the options that have a value."""
    return {key: value for key, value in options.items() if value is not None}


def number(text: str, name: str, allowed: str) -> float:
    """Parse a number. If `text` is not one, raise ValueError, which says that the option `name` must be `allowed`."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be {allowed}. Got {text}.") from None


def n_runs(number: int) -> str:
    """Return a number of runs in words."""
    return f"{number} run{'s' * (number > 1)}"


def question_names(questions: str | None) -> list[str]:
    """Split the value of --questions into names. Raise ValueError if it is set without a name."""
    names = [*dict.fromkeys(filter(None, map(str.strip, (questions or "").split(","))))]
    if questions is not None and not names:
        raise ValueError(f"--questions must be names, separated by commas. Got {questions!r}.")
    return names


def pairs(option: str, settings: list[str] | None) -> Iterator[tuple[str, str]]:
    """Parse a repeated option KEY=VALUE. Yield the keys and values."""
    for setting in settings or ():
        key, equals, value = map(str.strip, setting.partition("="))
        if not equals or not key:
            raise ValueError(f"{option} must be KEY=VALUE. Got {setting}.")
        yield key, value


def format_of(out: Path | None, formats: Formats, format: str | None = None) -> str:
    """Return the format of a file: `format`, or else the format of the file's suffix, or else the first format.

    formats: {format: suffixes}. Raise ValueError if the file has another suffix, or if `format` is not a format.
    """
    if format and format not in formats:
        raise ValueError(f"--format must be one of {', '.join(formats)}. Got {format}.{did_you_mean(format, formats)}")
    allowed = {format: formats[format]} if format else formats
    if not (out and out.suffix):
        return next(iter(allowed))
    fitting = (each for each, suffixes in allowed.items() if out.name.lower().endswith(tuple(suffixes)))
    if (first := next(fitting, None)) is None:
        *others, last = dict.fromkeys(chain.from_iterable(allowed.values()))
        listed = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"the name of the file to write must end in {listed}. Got {out.name}.")
    return first


def refuse_terminal(out: Path | None, kind: str, is_binary: bool) -> None:
    """Raise ValueError if a binary format would be printed on a terminal."""
    if is_binary and out is None and sys.stdout.isatty():
        raise ValueError(f"{kind} is not text: name a file (--out FILE), or send it to another program.")


def undamaged(store: Store) -> Store:
    """Check the whole database, because a command may miss the damaged parts. Return the store, or raise ValueError."""
    if problems := store.problems():
        raise ValueError(f"{store.path} is damaged: {problems[0]}. The command `check` lists all damage.")
    return store


def show(lists: dict[str, list[dict[str, Any]]], as_json: bool, *columns: str) -> None:
    """Print {name: rows} as JSON, or as a table of some columns."""
    if as_json:
        print(json.dumps(lists, ensure_ascii=False))
        return
    for rows in lists.values():
        draw(columns, ([_cell(row.get(column)) for column in columns] for row in rows))


def draw(columns: "Iterable[str | Column]", rows: Iterable[Iterable[str]]) -> None:
    """Print a table. Its lines are not cut or wrapped if the output is not a terminal."""
    from rich import box, console, markup, table  # late: an error need not wait for them

    drawn = table.Table(*columns, box=box.SIMPLE)
    for row in rows:
        drawn.add_row(*map(markup.escape, row))
    console.Console(width=None if sys.stdout.isatty() else WIDEST).print(drawn)


def _cell(value: Any) -> str:
    return "" if value is None else str(len(value) if isinstance(value, dict) else value)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function (phase, done, total) that draws a progress bar for each phase, if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console, tasks = Console(stderr=True), {}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def progress(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield progress

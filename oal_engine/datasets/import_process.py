"""Files that come through the page: looked at, imported and appended in a process of their own.

Whoever labels does not wait for it, and it may take so much memory and no more. The file is handed over open and an
upload has no name on the disk, so that nothing is left of it; the process ends with whoever waits for it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from threading import BoundedSemaphore, Thread
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from . import reading
from .features import duplicates
from .reading import readers, sources
from .reading.parsed import Doubt
from .reading.sources import FileOrPath, Layout, PhaseProgress

if TYPE_CHECKING:
    from ..store import Store

NamedFile: TypeAlias = tuple[FileOrPath, str]  # something to read, and its name

MEMORY = 4 * 2**30  # bytes that the process may map; the environment's OAL_IMPORT_MEMORY overrides it
NICE = 10  # whoever labels goes first
PAUSE = 0.2  # seconds without a word, after which progress is told again: a page that was left ends by it
# So many files are read at once for this server, and so many looked at; others wait.
READ, LOOKED_AT = BoundedSemaphore(2), BoundedSemaphore(4)
PREVIEW, WIDEST, LONGEST = 20, 100, 500  # rows, columns and characters of a cell that are shown
# Threads reserve much memory.
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "RAYON_NUM_THREADS": "1"}


@contextmanager
def opened(source: FileOrPath) -> Iterator[BinaryIO]:
    """A path, or an upload, as an open file that a process can be given."""
    if isinstance(source, str | Path):
        with sources.open_file(source) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        source.seek(0)
        shutil.copyfileobj(source, file)
        file.flush()
        yield file


def peek(
    source: FileOrPath, name: str, reader: str | None = None, encoding: str = "utf-8", layout: Layout = Layout()
) -> reading.Peek:
    """The first rows of a file, each cell cut, and a guess of its columns; as `reading.peek`."""
    head = _run("peek", source, name=name, reader=reader, encoding=encoding, layout=asdict(layout))
    kept = {key: tuple(head[key]) for key in ("numeric", "lists")}
    doubts = tuple(Doubt(about, question, tuple(answers)) for about, question, answers in head["doubts"])
    return reading.Peek(**head | kept | {"guess": _columns(head["guess"]), "doubts": doubts})


def mesh_terms(source: FileOrPath, name: str, number: str) -> tuple[str, ...]:
    """The terms of a MeSH tree at a number or below it; as `readers.mesh_terms`."""
    return tuple(_run("mesh", source, name=name, number=number))


def check(
    source: FileOrPath,
    name: str,
    columns: reading.Columns,
    reader: str | None,
    encoding: str,
    progress: PhaseProgress,
    vectors: NamedFile | None = None,
    layout: Layout = Layout(),
) -> str:
    """A sentence on what a file holds, with the vectors of another beside it, of which nothing is kept."""
    return _run(
        "check", source, progress, vectors, name=name, columns=asdict(columns), reader=reader, encoding=encoding,
        layout=asdict(layout),
    )  # fmt: skip


def import_file(
    store: Store,
    source: FileOrPath,
    name: str,
    columns: reading.Columns,
    reader: str | None,
    encoding: str,
    title: str,
    scale: str | None,
    features: str | None,
    progress: PhaseProgress,
    vectors: NamedFile | None = None,
    embed: Path | None = None,
    near_duplicates: str = duplicates.KEEP,
    owner: str = "",
    layout: Layout = Layout(),
) -> str:
    """Keep a file as a data set of an owner, with vectors beside its texts from another file or from the embedding in a
    folder; a sentence on what it holds."""
    return _run(
        "import", source, progress, vectors, name=name, columns=asdict(columns), reader=reader, encoding=encoding,
        layout=asdict(layout), title=title, scale=scale, features=features, database=str(store.path.resolve()),
        embed=embed and str(embed), near_duplicates=near_duplicates, owner=owner,
    )  # fmt: skip


def append(
    store: Store,
    source: FileOrPath,
    name: str,
    dataset: int,
    progress: PhaseProgress,
    vectors: NamedFile | None = None,
    reader: str | None = None,
    encoding: str = "utf-8",
    layout: Layout = Layout(),
) -> str:
    """Append the items of a file to a data set, with the vectors of another; a sentence on what became of them."""
    return _run(
        "append", source, progress, vectors, name=name, dataset=dataset, database=str(store.path.resolve()),
        reader=reader, encoding=encoding, layout=asdict(layout),
    )  # fmt: skip


def _run(
    work: str,
    source: FileOrPath,
    progress: PhaseProgress | None = None,
    vectors: NamedFile | None = None,
    **settings: Any,
) -> Any:
    """What a process of its own makes of a file, and of one with vectors; progress is a function of (phase, done,
    total), and where it raises, the process ends."""
    answer: dict[str, Any] = {}
    done = "reading", 0, 1
    with (
        _turn(READ if progress else LOOKED_AT, progress),
        opened(source) as file,
        opened(vectors[0]) if vectors else nullcontext() as beside,
    ):
        if vectors and beside:
            settings["vectors"] = beside.fileno(), vectors[1]
        handed = [each.fileno() for each in (file, beside) if each]
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(file.fileno())], cwd=Path(__file__).parents[2],
            env=os.environ | ALONE, pass_fds=handed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                with suppress(BrokenPipeError):
                    print(json.dumps([work, settings]), file=process.stdin, flush=True)
                lines: Queue[str] = Queue()
                Thread(target=_put, args=(cast(IO[str], process.stdout), lines), daemon=True).start()
                while not answer:
                    with suppress(Empty):
                        if not (line := lines.get(timeout=PAUSE)):
                            break
                        answer = json.loads(line)
                        done = answer.pop("progress", done)
                    if progress:
                        progress(*done)
            finally:
                process.kill()
    if "made" not in answer:
        raise reading.DataError(answer.get("error") or _lost(settings["name"], process.returncode))
    return answer["made"]


@contextmanager
def _turn(places: BoundedSemaphore, progress: PhaseProgress | None) -> Iterator[None]:
    """Wait for one of so many places, and hold it; while it waits progress is told, and may raise to give up."""
    while not places.acquire(timeout=PAUSE):
        if progress:
            progress("waiting", 0, 1)
    try:
        yield
    finally:
        places.release()


def _put(output: IO[str], lines: Queue[str]) -> None:
    for line in output:
        lines.put(line)
    lines.put("")


def _too_large(name: str) -> str:
    return (
        f"{name} needs more memory than the {_memory() / 2**30:.1f} GiB that an import of this page may take: "
        "import it on the command line, or raise OAL_IMPORT_MEMORY (bytes)."
    )


def _lost(name: str, code: int | None) -> str:
    """What is said where the process exited unexpectedly: libraries end it so where they get no memory."""
    return (
        f"The process that read {name} exited unexpectedly (exit code {code}), perhaps for want of memory: "
        f"it may take {_memory() / 2**30:.1f} GiB (OAL_IMPORT_MEMORY); what the server prints may say more."
    )


def _memory() -> int:
    return int(os.environ.get("OAL_IMPORT_MEMORY", MEMORY))


def _columns(columns: Mapping[str, Any]) -> reading.Columns:
    """Columns as they were before they went through JSON."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in columns.items()}
    return reading.Columns(**values)


# In the process. What is heavy is imported where it is needed: a preview is quick


def _peek(
    file: BinaryIO, progress: PhaseProgress, name: str, reader: str | None, encoding: str, layout: Mapping[str, Any]
) -> dict[str, Any]:
    head = reading.peek(file, PREVIEW, name=name, reader=reader, encoding=encoding, layout=Layout(**layout))
    rows = [{column: row[column][:LONGEST] for column in list(row)[:WIDEST]} for row in head.rows]
    return head._asdict() | {"rows": rows, "guess": asdict(head.guess)}


def _mesh(file: BinaryIO, progress: PhaseProgress, name: str, number: str) -> tuple[str, ...]:
    return readers.mesh_terms(file, number, name=name)


def _items(
    file: BinaryIO,
    progress: PhaseProgress,
    name: str,
    columns: Mapping[str, Any],
    reader: str | None,
    encoding: str,
    layout: Mapping[str, Any],
    vectors: tuple[int, str] | None = None,
) -> reading.Items:
    return reading.read(
        file,
        _columns(columns),
        name=name,
        reader=reader,
        encoding=encoding,
        layout=Layout(**layout),
        progress=lambda done, total: progress("reading", done, total),
        vectors=_vectors(vectors),
    )


def _vectors(handed: tuple[int, str] | None) -> reading.Vectors | None:
    """The vectors of an open file, by its number and its name."""
    if handed is None:
        return None
    number, name = handed
    with open(number, "rb") as file:
        return reading.read_vectors(file, name=name)


def _check(file: BinaryIO, progress: PhaseProgress, **settings: Any) -> str:
    items = _items(file, progress, **settings)
    return f"{items.report()} {reading.spoken(items.said)}"


def _import(
    file: BinaryIO,
    progress: PhaseProgress,
    database: str,
    title: str,
    scale: str | None,
    features: str | None,
    embed: str | None,
    near_duplicates: str,
    owner: str,
    **settings: Any,
) -> str:
    from ..store import Store
    from . import importing
    from .features import embeddings, table

    embedding = embeddings.read(embed) if embed else None
    items = _items(file, progress, **settings)
    made = table.file_table(items, scale, progress, features, embedding, near_duplicates=near_duplicates)
    store = Store(database)
    dataset = importing.add(store, title, made, settings["name"], items.columns, owner)
    return f"{importing.report(store, dataset, made.items)} {reading.spoken(items.said)}"


def _append(
    file: BinaryIO,
    progress: PhaseProgress,
    database: str,
    name: str,
    dataset: int,
    reader: str | None,
    encoding: str,
    layout: Mapping[str, Any],
    vectors: tuple[int, str] | None = None,
) -> str:
    from ..store import Store
    from . import feeds, stored

    grown = stored.Dataset(Store(database), dataset)
    lots = feeds.append_file(
        grown, file, name=name, reader=reader, encoding=encoding, layout=Layout(**layout), progress=progress,
        vectors=_vectors(vectors),
    )  # fmt: skip
    return feeds.report(grown, sum(lots, feeds.Taken()))


WORK: dict[str, Callable[..., Any]] = {
    "peek": _peek,
    "mesh": _mesh,
    "check": _check,
    "import": _import,
    "append": _append,
}


def main(number: int) -> None:
    """Do what the first line of standard input says with the open file of a number; the result is a line of JSON."""
    out, sys.stdout = sys.stdout, sys.stderr  # whatever libraries print is no word of ours

    def say(**message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    work, settings = json.loads(os.fdopen(0, closefd=False).readline())
    Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_memory(), _memory()))
    try:
        with open(number, "rb") as file:
            say(made=WORK[work](file, lambda *done: say(progress=done), **settings))
    except MemoryError:
        say(error=_too_large(settings["name"]))
    except (ValueError, OSError) as error:
        say(error=str(error))


def _end_with_parent() -> None:
    """End the process when its standard input ends."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))

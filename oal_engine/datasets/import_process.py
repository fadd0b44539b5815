"""Preview, import and append files for the web page, in a child process.

Labeling does not wait for it, and an import cannot exceed its memory limit. The child process inherits the open file;
an upload has no name on the disk, so that nothing of it remains. The child exits together with its parent.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import BoundedSemaphore, Thread
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from . import importing, reading
from .importing import ImportRequest
from .reading import archives, proposals, readers, sources
from .reading.archives import Files
from .reading.parsed import Doubt, without_options
from .reading.proposals import FirstItem
from .reading.sources import FileOrPath, Layout, PhaseProgress

if TYPE_CHECKING:
    from ..store import Store

NamedFile: TypeAlias = tuple[FileOrPath | Files, str]  # a path or open files, and their name

MEMORY_BYTES = 4 * 2**30  # that the process may map, unless the environment sets OAL_IMPORT_MEMORY
NICE = 10  # labeling has priority
PAUSE_SECONDS = (
    0.2  # without a message, until progress is reported again, so that an abandoned page can stop its process
)
READ_SLOTS, PREVIEW_SLOTS = BoundedSemaphore(2), BoundedSemaphore(4)  # files that this server reads at once
PREVIEW_ROWS, PREVIEW_COLUMNS, CELL_CHARACTERS = 20, 100, 500
COUNTED_LINES = 1_000_000  # lines in which label words are counted
# Each thread of a library reserves much memory.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "RAYON_NUM_THREADS": "1"}


@contextmanager
def _open(source: FileOrPath | Files) -> Iterator[BinaryIO]:
    """Open a path, or copy one or more uploads to a temporary file, so that a child process can inherit the file."""
    if isinstance(source, str | Path):
        with sources.open_file(source) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        if isinstance(source, Files):
            archives.pack(source.files, cast(BinaryIO, file))
        else:
            source.seek(0)
            shutil.copyfileobj(source, file)
        file.flush()
        yield file


def peek(
    source: FileOrPath | Files, name: str, reader: str | None = None, encoding: str = "utf-8", layout: Layout = Layout()
) -> reading.Peek:
    """Read the first rows of a file like `reading.peek`, with each cell cut to CELL_CHARACTERS."""
    head = _run("peek", source, name, reader=reader, encoding=encoding, layout=asdict(layout))
    tuples = {key: tuple(head[key]) for key in ("numeric", "lists", "pairs")}
    doubts = tuple(Doubt(about, question, *map(tuple, answers)) for about, question, *answers in head["doubts"])
    return reading.Peek(**head | tuples | {"guess": _columns(head["guess"]), "doubts": doubts})


def first_items(
    file: NamedFile, columns: reading.Columns, reader: str | None, encoding: str, layout: Layout
) -> tuple[list[FirstItem], str]:
    """Preview an import: return the first items of a file, and a sentence on how it is read. Nothing is stored."""
    request = ImportRequest(reader, encoding, layout)
    items, sentence = _run("items", *file, columns=asdict(columns), request=_packed(request))
    return [FirstItem(*item) for item in items], sentence


def more_first_items(
    store: Store, file: NamedFile, dataset: int, request: ImportRequest, vectors: NamedFile | None = None
) -> tuple[list[FirstItem], str]:
    """Preview an append: return the first items of a file, and a sentence on how it is read. Nothing is stored."""
    items, sentence = _run(
        "more items", *file, None, vectors, database=str(store.path.resolve()), dataset=dataset,
        request=_packed(request),
    )  # fmt: skip
    return [FirstItem(*item) for item in items], sentence


def mesh_terms(source: FileOrPath | Files, name: str, number: str) -> tuple[str, ...]:
    """Return the terms at a MeSH tree number or below it, like `readers.mesh_terms`. source: file of the MeSH tree."""
    return tuple(_run("mesh", source, name, number=number))


def check(
    file: NamedFile,
    columns: reading.Columns,
    request: ImportRequest,
    progress: PhaseProgress,
    vectors: NamedFile | None = None,
) -> str:
    """Read a file without storing anything. Report its contents. vectors: a file with the vectors of its texts."""
    return _run("check", *file, progress, vectors, columns=asdict(columns), request=_packed(request))


def import_file(
    store: Store,
    file: NamedFile,
    title: str,
    columns: reading.Columns,
    request: ImportRequest,
    progress: PhaseProgress,
    vectors: NamedFile | None = None,
) -> str:
    """Import a file as the data set `title`. Report its contents. vectors: a file with the vectors of its texts."""
    return _run(
        "import", *file, progress, vectors, database=str(store.path.resolve()), title=title, columns=asdict(columns),
        request=_packed(request),
    )  # fmt: skip


def append(
    store: Store,
    file: NamedFile,
    dataset: int,
    request: ImportRequest,
    progress: PhaseProgress,
    vectors: NamedFile | None = None,
) -> str:
    """Append the items of a file to a data set. Return the report. vectors: a file with the vectors of its texts."""
    return _run(
        "append", *file, progress, vectors, database=str(store.path.resolve()), dataset=dataset,
        request=_packed(request),
    )  # fmt: skip


def _run(
    work: str,
    source: FileOrPath | Files,
    name: str,
    progress: PhaseProgress | None = None,
    vectors: NamedFile | None = None,
    **settings: Any,
) -> Any:
    """Run WORK[work] in a child process, and return its result. If `progress` raises an error, the child is killed."""
    answer: dict[str, Any] = {}
    done = "reading", 0, 1
    settings["name"] = name
    with (
        _slot(READ_SLOTS if progress else PREVIEW_SLOTS, progress),
        _open(source) as file,
        _open(vectors[0]) if vectors else nullcontext() as vectors_file,
    ):
        if vectors and vectors_file:
            settings["vectors"] = vectors_file.fileno(), vectors[1]
        inherited = [each.fileno() for each in (file, vectors_file) if each]
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(file.fileno())], cwd=Path(__file__).parents[2],
            env=os.environ | ONE_THREAD, pass_fds=inherited, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                with suppress(BrokenPipeError):
                    print(json.dumps([work, settings]), file=process.stdin, flush=True)
                lines: Queue[str] = Queue()
                Thread(target=_put, args=(cast(IO[str], process.stdout), lines), daemon=True).start()
                while not answer:
                    with suppress(Empty):
                        if not (line := lines.get(timeout=PAUSE_SECONDS)):
                            break
                        answer = json.loads(line)
                        done = answer.pop("progress", done)
                    if progress:
                        progress(*done)
            finally:
                process.kill()
    if "result" not in answer:
        raise reading.DataError(answer.get("error") or _crashed(name, process.returncode))
    return answer["result"]


@contextmanager
def _slot(slots: BoundedSemaphore, progress: PhaseProgress | None) -> Iterator[None]:
    """Wait for a semaphore slot, and hold it for the body. `progress`, called meanwhile, may raise an error to stop."""
    while not slots.acquire(timeout=PAUSE_SECONDS):
        if progress:
            progress("waiting", 0, 1)
    try:
        yield
    finally:
        slots.release()


def _put(output: IO[str], lines: Queue[str]) -> None:
    """Put each line of the output of a process into a queue, then ""."""
    with suppress(ValueError):  # the output is closed while it is read if nobody waits for the process any more
        for line in output:
            lines.put(line)
    lines.put("")


def _too_large(name: str) -> str:
    return (
        f"{name} needs more memory than the {_memory() / 2**30:.1f} GiB that an import of this page may take: "
        "import it on the command line, or raise OAL_IMPORT_MEMORY (bytes)."
    )


def _crashed(name: str, code: int | None) -> str:
    """Return the error message for a process that exited unexpectedly: some libraries end the process when memory runs
    out."""
    return (
        f"The process that read {name} exited unexpectedly (exit code {code}), probably out of memory: its limit is "
        f"{_memory() / 2**30:.1f} GiB (OAL_IMPORT_MEMORY). See the server log."
    )


def _memory() -> int:
    return int(os.environ.get("OAL_IMPORT_MEMORY", MEMORY_BYTES))


def _packed(request: ImportRequest) -> dict[str, Any]:
    """Convert an import request to values for JSON."""
    return asdict(request) | {"embedding": request.embedding and str(request.embedding)}


# In the child process. `settings` are the keyword arguments of `_run`, decoded from JSON


def _request(settings: Mapping[str, Any]) -> ImportRequest:
    """Rebuild an import request from JSON, and read the file of vectors if there is one."""
    values = dict(settings["request"])
    values |= {"layout": Layout(**values["layout"]), "limits": sources.Limits(**values["limits"])}
    values["embedding"] = values["embedding"] and Path(values["embedding"])
    if "vectors" in settings:
        number, name = settings["vectors"]
        with open(number, "rb") as file:
            values["vectors"] = reading.read_vectors(file, name=name)
    return ImportRequest(**values)


def _columns(columns: Mapping[str, Any]) -> reading.Columns:
    """Rebuild column roles from JSON, which has lists in place of tuples."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in columns.items()}
    return reading.Columns(**values)


def _peek(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> dict[str, Any]:
    head = reading.peek(file, PREVIEW_ROWS, COUNTED_LINES, **settings | {"layout": Layout(**settings["layout"])})
    rows = [{column: row[column][:CELL_CHARACTERS] for column in list(row)[:PREVIEW_COLUMNS]} for row in head.rows]
    return head._asdict() | {"rows": rows, "guess": asdict(head.guess)}


def _items(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> tuple[list[FirstItem], str]:
    columns, options = _columns(settings["columns"]), _request(settings).reading
    items, description = proposals.first_items(file, columns, name=settings["name"], **options)
    sentences = reading.layout_sentence(description), _size(file, settings["name"], options)
    return _cut(items), " ".join(filter(None, sentences))


def _more_items(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> tuple[list[FirstItem], str]:
    from ..store import Store
    from . import feeds, stored

    data, options = stored.Dataset(Store(settings["database"]), settings["dataset"]), _request(settings).reading
    items, description = feeds.first_items(data, file, name=settings["name"], **options)
    return _cut(items), reading.layout_sentence(description)


def _cut(items: Sequence[FirstItem]) -> list[FirstItem]:
    return [
        item._replace(
            text=item.text[:CELL_CHARACTERS],
            fields={name: cell[:CELL_CHARACTERS] for name, cell in list(item.fields.items())[:PREVIEW_COLUMNS]},
        )
        for item in items
    ]


def _size(file: BinaryIO, name: str, options: Mapping[str, Any]) -> str:
    """Report the size of a large file in a sentence, as `size_sentence` does. Return "" for a compressed file, whose
    lines cannot be counted without unpacking it."""
    if Path(name).suffix.lower() in sources.COMPRESSIONS:
        return ""
    return reading.size_sentence(file, name=name, **{key: options[key] for key in ("reader", "encoding", "layout")})


def _mesh(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> tuple[str, ...]:
    return readers.mesh_terms(file, settings["number"], name=settings["name"])


def _check(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> str:
    columns, options = _columns(settings["columns"]), _request(settings).reading
    items = reading.read(
        file, columns, name=settings["name"], progress=partial(progress, "reading"), folder=Path(tempfile.gettempdir()),
        **options,
    )  # fmt: skip
    return f"{items.report()} {without_options(reading.layout_sentence(items.description))}"


def _import(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> str:
    from ..store import Store

    store, columns = Store(settings["database"]), _columns(settings["columns"])
    dataset, items = importing.import_file(
        store, file, settings["title"], columns, _request(settings), progress, file_name=settings["name"]
    )
    return f"{importing.report(store, dataset, items)} {without_options(reading.layout_sentence(items.description))}"


def _append(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> str:
    from ..store import Store
    from . import feeds, stored

    data, options = stored.Dataset(Store(settings["database"]), settings["dataset"]), _request(settings).reading
    chunks = feeds.append_file(data, file, name=settings["name"], progress=progress, **options)
    return feeds.report(data, sum(chunks, feeds.AppendCounts()))


WORK: dict[str, Callable[[BinaryIO, PhaseProgress, dict[str, Any]], Any]] = {
    "peek": _peek, "items": _items, "more items": _more_items, "mesh": _mesh, "check": _check, "import": _import,
    "append": _append,
}  # fmt: skip


def main(number: int) -> None:
    """Do the work named in the first line of standard input, on the open file with descriptor `number`. Print the
    progress and the result as lines of JSON."""
    out, sys.stdout = sys.stdout, sys.stderr  # keeps library output out of our protocol on stdout

    def say(**message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    work, settings = json.loads(os.fdopen(0, closefd=False).readline())
    Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_memory(), _memory()))
    try:
        with open(number, "rb") as file:
            say(result=WORK[work](file, lambda *done: say(progress=done), settings))
    except MemoryError:
        say(error=_too_large(settings["name"]))
    except (ValueError, OSError) as error:
        say(error=str(error))


def _end_with_parent() -> None:
    """Exit the process when standard input ends, which means that the parent process has ended."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Preview, import and append files for the web page, in a child process with limits on memory and time.

Labeling does not wait for it. The child process inherits the open file; an upload has no name on the disk, so that
nothing of it remains. The child ends with its page, and with its parent.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, is_dataclass
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypedDict, Unpack, cast

from . import reading
from .cage import IMPORTS, LOOKS, PAUSE_SECONDS, Cage, Turn, end_with_parent
from .reading import archives, readers, sources
from .reading.archives import Files
from .reading.parsed import Doubt, without_options
from .reading.preview import FirstItem, shown_items
from .reading.sources import SAMPLE_ROWS, FileOrPath, Layout, Opening, PhaseProgress

if TYPE_CHECKING:
    from ..store import Store
    from .importing import ImportRequest
    from .stored import Dataset

NamedFile: TypeAlias = tuple[FileOrPath | Files, str]  # a path or open files, and their name

PREVIEW_ROWS, PREVIEW_COLUMNS, CELL_CHARACTERS = 20, 100, 500
LONG_WORK = ("check", "import", "append")  # the works that read a file whole
COUNTED_LINES = 1_000_000  # lines in which label words are counted
# Each thread of a library reserves much memory.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "RAYON_NUM_THREADS": "1"}


class Page(TypedDict, total=False):
    """For whom a child process works. It does one work of a kind for a person at a time ("": for anybody). progress:
    called several times a second with (phase, done, total); it may raise an error to end the process. vectors: a file
    with the vectors of the texts."""

    person: str
    progress: PhaseProgress
    vectors: NamedFile | None


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
    source: FileOrPath | Files,
    name: str,
    reader: str | None = None,
    encoding: str = "utf-8",
    layout: Layout = Layout(),
    **page: Unpack[Page],
) -> reading.Peek:
    """Read the first rows of a file like `reading.peek`, with each cell cut to CELL_CHARACTERS."""
    head = _run("peek", (source, name), page, request=Opening(name, reader, encoding, layout=layout))
    tuples = {key: tuple(head[key]) for key in ("numeric", "lists", "pairs")}
    doubts = tuple(Doubt(about, question, *map(tuple, answers)) for about, question, *answers in head["doubts"])
    return reading.Peek(**head | tuples | {"guess": _columns(head["guess"]), "doubts": doubts})


def first_items(
    file: NamedFile, columns: reading.Columns, reader: str | None, encoding: str, layout: Layout, **page: Unpack[Page]
) -> tuple[list[FirstItem], str]:
    """Preview an import: return the first items of a file, and a sentence on how it is read. Nothing is stored."""
    opening = Opening(reader=reader, encoding=encoding, layout=layout)
    items, sentence = _run("items", file, page, columns=columns, request=opening)
    return [FirstItem(*item) for item in items], sentence


def more_first_items(
    store: Store, file: NamedFile, dataset: int, request: ImportRequest, **page: Unpack[Page]
) -> tuple[list[FirstItem], str]:
    """Preview an append: return the first items of a file, and a sentence on how it is read. Nothing is stored."""
    items, sentence = _run("more items", file, page, database=store.path.resolve(), dataset=dataset, request=request)
    return [FirstItem(*item) for item in items], sentence


def mesh_terms(source: FileOrPath | Files, name: str, number: str, **page: Unpack[Page]) -> tuple[str, ...]:
    """Return the terms at a MeSH tree number or below it, like `readers.mesh_terms`. source: file of the MeSH tree."""
    return tuple(_run("mesh", (source, name), page, number=number, request=Opening()))


def check(file: NamedFile, columns: reading.Columns, request: ImportRequest, **page: Unpack[Page]) -> str:
    """Read a file without storing anything. Report its contents."""
    return _run("check", file, page, columns=columns, request=request)


def import_file(
    store: Store,
    file: NamedFile,
    title: str,
    columns: reading.Columns,
    request: ImportRequest,
    **page: Unpack[Page],
) -> str:
    """Import a file as the data set `title`. Report its contents."""
    from .importing import sweep

    settings = {"database": store.path.resolve(), "title": title, "columns": columns, "request": request}
    try:
        return _run("import", file, page, **settings)
    except BaseException:
        sweep(store)  # a process that was killed could not remove its rows
        raise


def append(store: Store, file: NamedFile, dataset: int, request: ImportRequest, **page: Unpack[Page]) -> str:
    """Append the items of a file to a data set. Return the report."""
    return _run("append", file, page, database=store.path.resolve(), dataset=dataset, request=request)


def _run(work: str, named: NamedFile, page: Page, /, **settings: Any) -> Any:
    """Run WORK[work] in a child process, and return its result. If `progress` raises an error, the child is killed."""
    source, name = named
    cage, settings["name"] = IMPORTS if work in LONG_WORK else LOOKS, name
    person, progress, vectors = page.get("person", ""), page.get("progress", lambda *_: None), page.get("vectors")
    with (
        cage.turn(person, progress) as turn,
        _open(source) as file,
        _open(vectors[0]) if vectors else nullcontext() as vectors_file,
    ):
        if vectors and vectors_file:
            settings["vectors"] = vectors_file.fileno(), vectors[1]
        inherited = [each.fileno() for each in (file, vectors_file) if each]
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(file.fileno()), str(os.getpid())], cwd=Path(__file__).parents[2],
            env=os.environ | ONE_THREAD, pass_fds=inherited, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                with suppress(BrokenPipeError):
                    print(json.dumps([work, settings], default=plain), file=process.stdin, flush=True)
                answer = _answer(process, progress, cage, turn, name)
            finally:
                process.kill()
    if "error" in answer:
        raise reading.DataError(answer["error"])
    if "result" not in answer:
        raise cage.crashed(name, process.returncode)
    return answer["result"]


def _answer(child: subprocess.Popen[str], progress: PhaseProgress, cage: Cage, turn: Turn, name: str) -> dict[str, Any]:
    """Wait for the result or the error of a child process, and report its progress. Return {} if it ends without."""
    lines: Queue[str] = Queue()
    Thread(target=_put, args=(cast(IO[str], child.stdout), lines), daemon=True).start()
    done = "reading", 0, 1
    while True:
        with suppress(Empty):
            if not (line := lines.get(timeout=PAUSE_SECONDS)):
                return {}
            answer = json.loads(line)
            if "progress" not in answer:
                return dict(answer)
            done = answer["progress"]
        progress(*done)
        cage.check(turn, name)


def _put(output: IO[str], lines: Queue[str]) -> None:
    """Put each line of the output of a process into a queue, then ""."""
    with suppress(ValueError):  # the output is closed while it is read if nobody waits for the process any more
        for line in output:
            lines.put(line)
    lines.put("")


def plain(value: Any) -> Any:
    """Convert a data class or a path to values for JSON."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


# In the child process. `settings` are the keyword arguments of `_run`, decoded from JSON


def rebuilt(settings: dict[str, Any]) -> dict[str, Any]:
    """Rebuild from JSON the roles of the columns, and the options with which the file is read. Read the file of
    vectors if there is one."""
    opening = {name: settings["request"][name] for name in ("reader", "encoding")} | {"name": settings["name"]}
    opening["layout"] = Layout(**settings["request"]["layout"])
    opening["limits"] = sources.Limits(**settings["request"]["limits"])
    if "vectors" in settings:
        number, name = settings["vectors"]
        with open(number, "rb") as file:
            opening["vectors"] = reading.read_vectors(file, name=name)
    return settings | {"options": opening, "columns": _columns(settings.get("columns", {}))}


def _columns(columns: Mapping[str, Any]) -> reading.Columns:
    """Rebuild column roles from JSON, which has lists in place of tuples."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in columns.items()}
    return reading.Columns(**values)


def _peek(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> dict[str, Any]:
    head = reading.peek(file, PREVIEW_ROWS, COUNTED_LINES, **settings["options"])
    rows = [{column: row[column][:CELL_CHARACTERS] for column in list(row)[:PREVIEW_COLUMNS]} for row in head.rows]
    return head._asdict() | {"rows": rows, "guess": asdict(head.guess)}


def _items(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> tuple[list[FirstItem], str]:
    items = reading.read(file, settings["columns"], limit=SAMPLE_ROWS, **settings["options"])
    sentences = reading.layout_sentence(items.description), _size(file, **settings)
    return _cut(shown_items(items, items.classes)), " ".join(filter(None, sentences))


def _more_items(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> tuple[list[FirstItem], str]:
    from . import feeds

    items, description = feeds.first_items(_dataset(settings), file, **settings["options"])
    return _cut(items), reading.layout_sentence(description)


def _dataset(settings: dict[str, Any]) -> Dataset:
    from ..store import Store
    from . import stored

    return stored.Dataset(Store(settings["database"]), settings["dataset"])


def _cut(items: Sequence[FirstItem]) -> list[FirstItem]:
    return [
        item._replace(
            text=item.text[:CELL_CHARACTERS],
            fields={name: cell[:CELL_CHARACTERS] for name, cell in list(item.fields.items())[:PREVIEW_COLUMNS]},
        )
        for item in items
    ]


def _size(file: BinaryIO, name: str, columns: reading.Columns, options: Mapping[str, Any], **_: Any) -> str:
    """Report the size of a large file in a sentence, as `size_sentence` does. Return "" for a compressed file, whose
    lines cannot be counted without unpacking it."""
    if Path(name).suffix.lower() in sources.COMPRESSIONS:
        return ""
    from .features.encoders import usual_seconds

    return reading.size_sentence(file, usual_seconds(columns), **options)


def _check(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> str:
    folder, columns = Path(tempfile.gettempdir()), settings["columns"]
    items = reading.read(file, columns, progress=partial(progress, "reading"), folder=folder, **settings["options"])
    return f"{items.report()} {without_options(reading.layout_sentence(items.description))}"


def _import(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> str:
    from ..store import Store
    from . import importing

    store, asked, options = Store(settings["database"]), settings["request"], settings["options"]
    asked |= {"encoder": asked["encoder"] and Path(asked["encoder"])}
    name = options.pop("name")
    dataset, items = importing.import_file(
        store, file, settings["title"], settings["columns"], importing.ImportRequest(**asked | options), progress, name
    )
    return f"{importing.report(store, dataset, items)} {without_options(reading.layout_sentence(items.description))}"


def _append(file: BinaryIO, progress: PhaseProgress, settings: dict[str, Any]) -> str:
    from . import feeds

    data = _dataset(settings)
    chunks = feeds.append_file(data, file, progress=progress, **settings["options"])
    return feeds.report(data, sum(chunks, feeds.AppendCounts()))


WORK: dict[str, Callable[[BinaryIO, PhaseProgress, dict[str, Any]], Any]] = {
    "peek": _peek, "items": _items, "more items": _more_items, "check": _check, "import": _import, "append": _append,
    "mesh": lambda file, progress, settings: readers.mesh_terms(file, settings["number"], **settings["options"]),
}  # fmt: skip


def main(number: int, parent: int) -> None:
    """Do the work named in the first line of standard input, on the open file with descriptor `number`, for the process
    `parent`. Print the progress and the result as lines of JSON."""
    out, sys.stdout = sys.stdout, sys.stderr  # keeps library output out of our protocol on stdout

    def say(**message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    work, settings = json.loads(os.fdopen(0, closefd=False).readline())
    end_with_parent(parent)  # its thread reads the input, too
    cage = IMPORTS if work in LONG_WORK else LOOKS
    cage.enter()
    try:
        with open(number, "rb") as file:
            say(result=WORK[work](file, lambda *done: say(progress=done), rebuilt(settings)))
    except MemoryError:
        say(error=cage.too_large(settings["name"]))
    except RecursionError:
        say(error=f"{settings['name']} cannot be read: {sources.TOO_DEEP}.")
    except (ValueError, OSError) as error:
        say(error=str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

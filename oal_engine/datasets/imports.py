"""Files that come through the page: looked at, imported and appended in a process of their own.

Whoever labels does not wait for it, and it may take so much memory and no more. The file is handed over open and an
upload has no name on the disk, so that nothing is left of it; the process ends with whoever waits for it.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from . import formats, readers, sources

MEMORY = 4 * 2**30  # bytes that the process may map; the environment's OAL_IMPORT_MEMORY overrides it
NICE = 10  # whoever labels goes first
PAUSE = 0.2  # seconds without a word, after which progress is told again: a page that was left ends by it
PREVIEW, WIDEST, LONGEST = 20, 100, 500  # rows, columns and characters of a cell that are shown
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}  # threads reserve much memory


@contextmanager
def opened(source):
    """A path, or an upload, as an open file that a process can be given."""
    if not hasattr(source, "read"):
        with sources.open_file(source) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        source.seek(0)
        shutil.copyfileobj(source, file)
        file.flush()
        yield file


def peek(source, name, reader=None, encoding="utf-8"):
    """The first rows of a file, each cell cut, and a guess of its columns; as `formats.peek`."""
    found = _run("peek", source, name=name, reader=reader, encoding=encoding)
    return formats.Peek(**found | {"guess": _columns(found["guess"]), "numeric": tuple(found["numeric"])})


def mesh_terms(source, name, number):
    """The terms of a MeSH tree at a number or below it; as `readers.mesh_terms`."""
    return tuple(_run("mesh", source, name=name, number=number))


def check(source, name, columns, reader, encoding, progress):
    """A sentence on what a file holds, of which nothing is kept."""
    return _run("check", source, progress, name=name, columns=asdict(columns), reader=reader, encoding=encoding)


def import_file(store, source, name, columns, reader, encoding, title, scale, tokenizer, progress):
    """Keep a file as a data set; a sentence on what it holds."""
    return _run(
        "import", source, progress, name=name, columns=asdict(columns), reader=reader, encoding=encoding, title=title,
        scale=scale, tokenizer=tokenizer, database=str(store.path.resolve()),
    )  # fmt: skip


def append(store, source, name, dataset, progress):
    """Append the items of a file to a data set; a sentence on what became of them."""
    return _run("append", source, progress, name=name, dataset=dataset, database=str(store.path.resolve()))


def _run(work, source, progress=None, **settings):
    """What a process of its own makes of a file; progress is a function of (phase, done, total), and where it raises,
    the process ends."""
    found, told = {}, ("reading", 0, 1)
    with opened(source) as file:
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(file.fileno())], cwd=Path(__file__).parents[2],
            env=os.environ | ALONE, pass_fds=[file.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                with suppress(BrokenPipeError):
                    print(json.dumps([work, settings]), file=process.stdin, flush=True)
                lines = Queue()
                Thread(target=lambda: [lines.put(line) for line in chain(process.stdout, [""])], daemon=True).start()
                while not found:
                    with suppress(Empty):
                        if not (line := lines.get(timeout=PAUSE)):
                            break
                        found = json.loads(line)
                        told = found.pop("progress", told)
                    if progress:
                        progress(*told)
            finally:
                process.kill()
    if "made" not in found:
        raise formats.DataError(found.get("error") or _lost(settings["name"], process.returncode))
    return found["made"]


def _too_large(name):
    return (
        f"{name} needs more memory than the {_memory() / 2**30:.1f} GiB that an import of this page may take: "
        "import it on the command line, or raise OAL_IMPORT_MEMORY (bytes)."
    )


def _lost(name, code):
    """What is said where the process exited unexpectedly: libraries end it so where they get no memory."""
    return (
        f"The process that read {name} exited unexpectedly (exit code {code}), perhaps for want of memory: "
        f"it may take {_memory() / 2**30:.1f} GiB (OAL_IMPORT_MEMORY); what the server prints may say more."
    )


def _memory():
    return int(os.environ.get("OAL_IMPORT_MEMORY", MEMORY))


def _columns(found):
    """Columns as they were before they went through JSON."""
    return formats.Columns(**{key: tuple(value) if isinstance(value, list) else value for key, value in found.items()})


# In the process. What is heavy is imported where it is needed: a preview is quick


def _peek(file, progress, name, reader, encoding):
    head = formats.peek(file, PREVIEW, name=name, reader=reader, encoding=encoding)
    rows = [{column: row[column][:LONGEST] for column in list(row)[:WIDEST]} for row in head.rows]
    return head._replace(rows=rows, guess=asdict(head.guess))._asdict()


def _mesh(file, progress, name, number):
    return readers.mesh_terms(file, number, name=name)


def _items(file, progress, name, columns, reader, encoding):
    return formats.read(
        file,
        _columns(columns),
        name=name,
        reader=reader,
        encoding=encoding,
        progress=lambda done, total: progress("reading", done, total),
    )


def _check(file, progress, **settings):
    return _items(file, progress, **settings).report()


def _import(file, progress, database, title, scale, tokenizer, **settings):
    from .. import datasets
    from ..store import Store

    items = _items(file, progress, **settings)
    words = {} if items.texts is None else {"tokenizer": tokenizer}
    made = datasets.table(items, scale, progress, **words)
    datasets.add(Store(database), title, made, settings["name"], _columns(settings["columns"]))
    return items.report()


def _append(file, progress, database, name, dataset):
    from .. import datasets
    from ..store import Store
    from . import feeds

    found = datasets.Dataset(Store(database), dataset)
    return str(sum(feeds.append_file(found, file, name=name, progress=progress), feeds.Taken()))


WORK = {"peek": _peek, "mesh": _mesh, "check": _check, "import": _import, "append": _append}


def main(number):
    """Do what the first line of standard input says with the open file of a number; the result is a line of JSON."""
    out, sys.stdout = sys.stdout, sys.stderr  # whatever libraries print is no word of ours

    def say(**message):
        print(json.dumps(message), file=out, flush=True)

    work, settings = json.loads(os.fdopen(0, closefd=False).readline())
    Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_memory(), _memory()))
    try:
        with open(number, "rb") as file:
            say(made=WORK[work](file, lambda *told: say(progress=told), **settings))
    except MemoryError:
        say(error=_too_large(settings["name"]))
    except (ValueError, OSError) as error:
        say(error=str(error))


def _end_with_parent():
    """End the process when its standard input ends."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))

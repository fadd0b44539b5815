"""Files as they are opened: unpacked, decoded, and within limits, so that a small file cannot fill the memory."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1251", "gb18030", "shift_jis")  # offered; any of Python's works
COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNREADABLE = (OSError, EOFError, ValueError, OverflowError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
SAMPLE = 1000  # rows that decide on a header and on the guess of the columns
CHUNK = 5000  # lines parsed at a time, and between two reports of progress
HARMLESS = 2**20  # bytes that any file may unpack to
HEAD = 2**16  # bytes at the start of a file that its format is recognised by
ENDLESS = 16  # times the longest line: what has no end by then has none

# A line of a feed that cannot be decoded gets half a character, which no other line has, and is told by it.
codecs.register_error("half", lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


FileOrPath: TypeAlias = str | Path | BinaryIO
Progress: TypeAlias = Callable[[int, int], object]  # is told how much is done, and how much there is
PhaseProgress: TypeAlias = Callable[[str, int, int], object]  # the same, of a phase


class DataError(ValueError):
    """A file that cannot be imported as asked; the message is one sentence for the person who asked."""


@dataclass(frozen=True)
class Limits:
    """What a file may hold at most; the command line sets each by --limit NAME=NUMBER."""

    line: int = 2**22
    columns: int = 2**16
    features: int = 2**22
    items: int = 2**22
    size: int = 2**31
    ratio: int = 200
    quoted: int = 20

    def check(self, limit: str, came: float, where: str) -> None:
        """DataError where more came than is allowed."""
        if came > getattr(self, limit):
            raise DataError(f"{where} has more than {getattr(self, limit):,} {LIMITED[limit]}; {allow_more(limit)}.")


LIMITED = {
    "line": "characters in a line or row",
    "columns": "columns",
    "features": "features",
    "items": "items",
    "size": "bytes when it is unpacked",
    "ratio": "times its size when it is unpacked",
    "quoted": "lines in a quoted cell that look like rows",
}  # what each of the limits counts
LIMITS = Limits()


def allow_more(limit: str) -> str:
    """How a limit is raised, in words."""
    return f"on the command line --limit {limit}=NUMBER allows more"


class Source(NamedTuple):
    """An open, decompressed file; `limit` is the number of lines that are wanted, None for all, and `ahead` how many
    rows may be read before the first is given out."""

    binary: BinaryIO
    name: str
    encoding: str
    limit: int | None
    tick: Callable[[], object]
    ahead: int = SAMPLE
    limits: Limits = LIMITS

    def lines(self) -> Iterator[str]:
        """The lines with their ends as they stand in the file."""
        encoding, done = "utf-8-sig" if self.encoding == "utf-8" else self.encoding, 0
        text = text_of(self.binary, encoding, newline="")
        try:
            for done, line in enumerate(islice(lines_of(text, self.limits), self.limit), 1):
                if done <= 2 or len(line) > self.limits.line:
                    check_line(line, done, self.name, self.encoding, self.limits)
                if done % CHUNK == 0:
                    self.tick()
                yield line
        except UnicodeError as error:  # it comes for a whole block, of which no line was yielded yet
            good = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
            number = done + 1 + good.decode(encoding, "ignore").count("\n")
            raise DataError(
                f"Line {number} of {self.name} is not {self.encoding}: choose the encoding of the file, "
                f"such as {', '.join(ENCODINGS)}."
            ) from error
        finally:
            if not self.binary.closed:
                text.detach()  # or the wrapper would close an upload, which is not ours

    def head(self) -> bytes:
        """The first bytes, which stay to be read."""
        if not self.binary.seekable():
            return cast(io.BufferedReader, self.binary).peek(HEAD)[:HEAD]
        head = self.binary.read(HEAD)
        self.binary.seek(0)
        return head

    def whole(self) -> BinaryIO:
        """The file as one that can be read from any place on."""
        return self.binary if self.binary.seekable() else io.BytesIO(self.binary.read())


def text_of(binary: BinaryIO, encoding: str, errors: str | None = None, newline: str | None = None) -> io.TextIOWrapper:
    """An open file as text."""
    try:
        return io.TextIOWrapper(binary, encoding, errors, newline)
    except LookupError:
        raise DataError(f"There is no encoding {encoding!r}; choose from {', '.join(ENCODINGS)}.") from None


def lines_of(text: io.TextIOWrapper, limits: Limits) -> Iterator[str]:
    """The lines of an open text; of one that is too long so much that `check_line` knows it."""
    return iter(partial(text.readline, limits.line + 1), "")


def check_line(line: str, number: int, name: str, encoding: str, limits: Limits) -> None:
    """DataError where a line is too long, or one of the first two shows that the file is UTF-16."""
    if len(line) > limits.line:
        limits.check("line", len(line), f"Line {number:,} of {name}")
    # In UTF-16 a zero stands before or behind the end of a line.
    if number <= 2 and "\0" in line and "\0" in (line.lstrip("\udcff")[0], line.rstrip("\r\n")[-1:]):
        raise DataError(
            f"Line {number} of {name} is not {encoding}, for it holds zeros as UTF-16 does: choose the encoding, "
            "such as utf-16 (--encoding utf-16)."
        )


def feed_lines(binary: BinaryIO, name: str, encoding: str, limits: Limits) -> Iterator[tuple[int, str]]:
    """The lines of an open binary file with their numbers, as they come; one that is too long is "", and one that
    cannot be decoded holds half a character."""
    text = text_of(binary, encoding, errors="half", newline="\n")
    pieces = lines_of(text, limits)
    try:
        for number, line in enumerate(pieces, 1):
            length = len(line)
            if length > limits.line:
                while not line.endswith("\n") and (line := next(pieces, "\n")):
                    length += len(line)
                    if length > ENDLESS * limits.line:
                        limits.check("line", length, f"Line {number:,} of {name}, which does not end,")
                line = ""
            else:
                check_line(line, number, name, encoding, limits)
            yield number, line.removeprefix("\ufeff")
    finally:
        if not binary.closed:
            text.detach()  # or the wrapper would close what is not ours


class _Unpacked(io.RawIOBase):
    """What a decompressor gives, up to so many bytes."""

    def __init__(self, packed: BinaryIO, size: int, name: str, limits: Limits) -> None:
        self.packed, self.size, self.name, self.limits, self.done = packed, size, name, limits, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.packed.read(len(buffer))
        got = len(content)
        buffer[:got] = content
        self.done += got
        self.limits.check("size", self.done, self.name)
        if self.done > HARMLESS:
            self.limits.check("ratio", self.done / self.size, self.name)
        return got


@contextmanager
def open_source(
    path: FileOrPath,
    name: str | None,
    encoding: str = "utf-8",
    limit: int | None = None,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> Iterator[Source]:
    """Open a path, or an open binary file and its name, decompressed."""
    name = name_of(path, name)
    decompress = COMPRESSIONS.get(Path(name).suffix.lower())
    try:
        with open_file(path) if isinstance(path, str | Path) else nullcontext(path) as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            limits.check("size", size, name)
            with decompress(raw) if decompress else nullcontext(raw) as binary:
                if decompress:
                    binary = io.BufferedReader(_Unpacked(binary, size, name, limits), HEAD)
                tick = lambda: progress and progress(raw.tell(), size)  # noqa: E731
                yield Source(binary, name, encoding, limit, tick, limits=limits)
    except (DataError, BrokenPipeError):  # a pipe is what is written to meanwhile
        raise
    except MemoryError:
        raise DataError(f"{name} needs more memory than there is.") from None
    except UNREADABLE as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(f"{name} cannot be read: {reason.rstrip('. ')}.") from error
    if progress:
        progress(size, size)


def open_file(path: str | Path) -> BinaryIO:
    """An open file of bytes; whatever else has a path is refused, for to open a pipe waits for who writes into it."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise DataError(f"{name_of(path, None)} is {KINDS.get(stat.S_IFMT(mode), 'a device')}, not a file.")
    return open(path, "rb")


def name_of(path: FileOrPath, name: str | None) -> str:
    """What a file is called in messages: the name given, or the path's."""
    return Path(name or getattr(path, "name", None) or str(path)).name

"""Open files: unpack and decode them, within limits, so that a small file cannot fill the memory."""

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

ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1251", "gb18030", "shift_jis")  # suggested; any works
COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNREADABLE = (OSError, EOFError, ValueError, OverflowError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
SAMPLE_ROWS = 1000  # decide on the header and the roles of the columns
CHUNK_LINES = 5000  # parsed at a time, and between two reports of progress
HARMLESS_BYTES = 2**20  # that any file may unpack to
HEAD_BYTES = 2**16  # at the start of a file, from which its format is recognized

MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # encodings by byte order mark, longer ones first
OTHER_ENCODINGS = (*ENCODINGS[2:], "cp1250", "iso8859_2", "koi8_r", "euc_jp", "euc_kr", "big5")  # tried if not UTF-8
GUESS_BYTES = 2**14  # from which an encoding is guessed

# Undecodable lines are marked with an unpaired surrogate, which valid text cannot contain.
codecs.register_error("half", lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


FileOrPath: TypeAlias = str | Path | BinaryIO
Progress: TypeAlias = Callable[[int, int], object]  # called with (done, total)
PhaseProgress: TypeAlias = Callable[[str, int, int], object]  # called with (phase, done, total)


class DataError(ValueError):
    """A file that cannot be imported as asked. The message is one sentence for the user."""


class NotDecoded(DataError):
    """A file in another encoding than the assumed one; `encoding` is a better guess, if there is one."""

    def __init__(self, message: str, encoding: str | None) -> None:
        super().__init__(message)
        self.encoding = encoding


@dataclass(frozen=True)
class Layout:
    """The layout of a table, as far as the user named it; None is detected."""

    delimiter: str | None = None
    header: bool | None = None
    sheet: str | None = None


DETECTED = Layout()


@dataclass(frozen=True)
class Limits:
    """Limits on a file, in the units of LIMITED; the command line sets them with --limit NAME=NUMBER."""

    line: int = 2**22
    columns: int = 2**16
    features: int = 2**22
    items: int = 10**9
    size: int = 2**31
    ratio: int = 200
    quoted: int = 20
    broken: int = 10

    def check(self, limit: str, amount: float, where: str) -> None:
        """Raise DataError if `amount` exceeds the limit."""
        if amount > getattr(self, limit):
            raise DataError(f"{where} has more than {getattr(self, limit):,} {LIMITED[limit]}; {allow_more(limit)}.")


LIMITED = {
    "line": "characters in a line or row",
    "columns": "columns",
    "features": "features",
    "items": "items",
    "size": "bytes when it is unpacked",
    "ratio": "times its size when it is unpacked",
    "quoted": "lines in a quoted cell that look like rows",
    "broken": "percent of lines that cannot be read",
}  # the unit of each limit
LIMITS = Limits()


def allow_more(limit: str) -> str:
    """Tell in words how to raise a limit."""
    return f"on the command line --limit {limit}=NUMBER allows more"


@dataclass(frozen=True)
class Opening:
    """How a file is opened. name: of an open file in messages. reader: the format (None: detected)."""

    name: str | None = None
    reader: str | None = None
    encoding: str = "utf-8"
    limits: Limits = LIMITS
    layout: Layout = DETECTED


class Source(NamedTuple):
    """An open, decompressed file. `limit` is the number of lines to read (None: all), `ahead` how many rows may be read
    before the first is yielded, and `tick` reports progress."""

    binary: BinaryIO
    name: str
    encoding: str
    limit: int | None
    tick: Callable[[], object]
    ahead: int = SAMPLE_ROWS
    limits: Limits = LIMITS
    layout: Layout = Layout()

    def lines(self) -> Iterator[str]:
        """Yield the lines with their original line ends."""
        encoding, done = "utf-8-sig" if self.encoding == "utf-8" else self.encoding, 0
        text = text_of(self.binary, encoding, newline="")
        try:
            for done, line in enumerate(islice(lines_of(text, self.limits), self.limit), 1):
                if done <= 2 or len(line) > self.limits.line:
                    check_line(line, done, self.name, self.encoding, self.limits)
                if done % CHUNK_LINES == 0:
                    self.tick()
                yield line
        except UnicodeError as error:  # raised for a whole block, before any of its lines was yielded
            raise self._not_decoded(error, encoding, done) from error
        finally:
            if not self.binary.closed:
                text.detach()  # or the wrapper would close the caller's file

    def _not_decoded(self, error: UnicodeError, encoding: str, done: int) -> NotDecoded:
        """Return the error for a block that follows `done` lines, with the encoding that it seems to have."""
        block, start = b"", 0
        if isinstance(error, UnicodeDecodeError):
            block, start = error.object, error.start
        before = block[:start].decode(encoding, "ignore")
        where = f"Line {done + 1 + before.count(chr(10)):,} of {self.name} is not {self.encoding}"
        if self.encoding == "utf-8" and not before.isascii():
            return NotDecoded(f"{where}, which the text before it is: mend that line, or choose the encoding.", None)
        likely = likely_encoding(block)
        if likely is None:
            return NotDecoded(f"{where}: choose the encoding of the file, such as {', '.join(ENCODINGS)}.", None)
        words = block[block.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0].decode(likely, "replace").split()
        return NotDecoded(
            f"{where}: choose the encoding of the file, such as {likely}, in which that line reads "
            f"{' '.join(words)[:60]!r} (--encoding {likely}).",
            likely,
        )

    def text(self) -> str:
        """Read the whole file as one text."""
        content = self.binary.read(self.limits.size + 1)
        self.limits.check("size", len(content), self.name)
        encoding = "utf-8-sig" if self.encoding == "utf-8" else self.encoding
        try:
            return content.decode(encoding)
        except UnicodeError as error:
            raise self._not_decoded(error, encoding, 0) from error
        except LookupError:
            raise _no_encoding(encoding) from None

    def head(self) -> bytes:
        """Return the first bytes without consuming them."""
        if not self.binary.seekable():
            return cast(io.BufferedReader, self.binary).peek(HEAD_BYTES)[:HEAD_BYTES]
        head = self.binary.read(HEAD_BYTES)
        self.binary.seek(0)
        return head

    def whole(self) -> tuple[BinaryIO, int]:
        """Return the file in a seekable form, and its size in bytes."""
        binary = self.binary if self.binary.seekable() else io.BytesIO(self.binary.read())
        return binary, binary.seek(0, io.SEEK_END)


def text_of(binary: BinaryIO, encoding: str, errors: str | None = None, newline: str | None = None) -> io.TextIOWrapper:
    """Open a binary file as text."""
    try:
        return io.TextIOWrapper(binary, encoding, errors, newline)
    except LookupError:
        raise _no_encoding(encoding) from None


def _no_encoding(encoding: str) -> DataError:
    return DataError(f"There is no encoding {encoding!r}; choose from {', '.join(ENCODINGS)}.")


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding of a byte order mark at the start of a file."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)


def likely_encoding(content: bytes) -> str | None:
    """Guess the encoding of bytes that are not UTF-8."""
    zeros = [content[first::2].count(0) for first in (0, 1)]  # in many languages every second byte of UTF-16 is 0
    if 4 * sum(zeros) > len(content):
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    from charset_normalizer import from_bytes

    best = from_bytes(content[:GUESS_BYTES], cp_isolation=list(OTHER_ENCODINGS)).best()
    return next((each for each in OTHER_ENCODINGS if best and each in best.could_be_from_charset), None)


def lines_of(text: io.TextIOWrapper, limits: Limits) -> Iterator[str]:
    """Yield the lines of an open text, each cut one character above the limit, so that `check_line` refuses it."""
    return iter(partial(text.readline, limits.line + 1), "")


def check_line(line: str, number: int, name: str, encoding: str, limits: Limits) -> None:
    """Raise DataError if a line is too long, or if one of the first two shows that the file is UTF-16."""
    if len(line) > limits.line:
        limits.check("line", len(line), f"Line {number:,} of {name}")
    # In UTF-16 a zero precedes or follows the end of a line.
    if number <= 2 and "\0" in line and "\0" in (line.lstrip("\udcff")[0], line.rstrip("\r\n")[-1:]):
        raise DataError(
            f"Line {number} of {name} is not {encoding}, for it holds zeros as UTF-16 does: choose the encoding, "
            "such as utf-16 (--encoding utf-16)."
        )


def feed_lines(binary: BinaryIO, name: str, encoding: str, limits: Limits) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of an open binary file as they arrive.

    A line that is too long is "", yielded before its end arrives. An undecodable line contains an unpaired surrogate.
    """
    text = text_of(binary, encoding, errors="half", newline="\n")
    pieces = lines_of(text, limits)
    try:
        for number, line in enumerate(pieces, 1):
            if len(line) > limits.line:
                yield number, ""
                while line and not line.endswith("\n"):
                    line = next(pieces, "")
                continue
            check_line(line, number, name, encoding, limits)
            yield number, line.removeprefix("\ufeff")
    finally:
        if not binary.closed:
            text.detach()  # or the wrapper would close the caller's file


class _Unpacked(io.RawIOBase):
    """The output of a decompressor, within the limits on size and ratio. `size`: bytes of the packed file."""

    def __init__(self, packed: BinaryIO, size: int, name: str, limits: Limits) -> None:
        self.packed, self.size, self.name, self.limits, self.done = packed, size, name, limits, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.packed.read(len(buffer))
        buffer[: len(content)] = content
        self.done += len(content)
        self.limits.check("size", self.done, self.name)
        if self.done > HARMLESS_BYTES:
            self.limits.check("ratio", self.done / self.size, self.name)
        return len(content)


@contextmanager
def open_source(
    path: FileOrPath, opening: Opening, limit: int | None = None, progress: Progress | None = None
) -> Iterator[Source]:
    """Open a path, or an open binary file, decompressed. limit: of the lines to read (None: all)."""
    name, limits = name_of(path, opening.name), opening.limits
    decompress = COMPRESSIONS.get(Path(name).suffix.lower())
    try:
        with open_file(path) if isinstance(path, str | Path) else nullcontext(path) as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            limits.check("size", size, name)
            with decompress(raw) if decompress else nullcontext(raw) as binary:
                if decompress:
                    binary = io.BufferedReader(_Unpacked(binary, size, name, limits), HEAD_BYTES)
                tick = lambda: progress and progress(raw.tell(), size)  # noqa: E731
                source = Source(binary, name, opening.encoding, limit, tick, limits=limits, layout=opening.layout)
                if opening.encoding == "utf-8" and (marked := marked_encoding(source.head())):
                    source = source._replace(encoding=marked)
                yield source
    except (DataError, BrokenPipeError):  # the broken pipe is the one that the caller writes to
        raise
    except MemoryError:
        raise DataError(f"{name} does not fit in memory.") from None
    except UNREADABLE as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(f"{name} cannot be read: {reason.rstrip('. ')}.") from error
    if progress:
        progress(size, size)


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading bytes. Refuse pipes, whose opening blocks until somebody writes, and devices."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise DataError(f"{name_of(path, None)} is {KINDS.get(stat.S_IFMT(mode), 'a device')}, not a file.")
    return open(path, "rb")


def name_of(path: FileOrPath, name: str | None) -> str:
    """Return the name of a file for messages: `name`, or that of its path."""
    return Path(name or getattr(path, "name", None) or str(path)).name

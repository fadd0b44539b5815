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

MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # the encoding that the first bytes of a file give away, longer ones first
LIKELY = (*ENCODINGS[2:], "cp1250", "iso8859_2", "koi8_r", "euc_jp", "euc_kr", "big5")  # what else a file may be in
GUESSED = 2**14  # bytes that an encoding is guessed by

# A line of a feed that cannot be decoded gets half a character, which no other line has, and is told by it.
codecs.register_error("half", lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


FileOrPath: TypeAlias = str | Path | BinaryIO
Progress: TypeAlias = Callable[[int, int], object]  # is told how much is done, and how much there is
PhaseProgress: TypeAlias = Callable[[str, int, int], object]  # the same, of a phase


class DataError(ValueError):
    """A file that cannot be imported as asked; the message is one sentence for the person who asked."""


class NotDecoded(DataError):
    """A file that is not in the encoding it was read in; `encoding` is a better guess."""

    def __init__(self, message: str, encoding: str | None) -> None:
        super().__init__(message)
        self.encoding = encoding


@dataclass(frozen=True)
class Layout:
    """How a table is laid out, as far as it was said; None is detected."""

    delimiter: str | None = None
    header: bool | None = None
    sheet: str | None = None


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
    broken: int = 10

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
    "broken": "percent of lines that cannot be read",
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
    layout: Layout = Layout()

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
            raise self._not_decoded(error, encoding, done) from error
        finally:
            if not self.binary.closed:
                text.detach()  # or the wrapper would close an upload, which is not ours

    def _not_decoded(self, error: UnicodeError, encoding: str, done: int) -> NotDecoded:
        """The error for a block behind so many lines, with the encoding that it seems to have."""
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
        shown = " ".join(words)
        return NotDecoded(
            f"{where}: choose the encoding of the file, such as {likely}, in which that line reads "
            f"{shown[:60]!r} (--encoding {likely}).",
            likely,
        )

    def text(self) -> str:
        """All of the file as a text."""
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
        raise _no_encoding(encoding) from None


def _no_encoding(encoding: str) -> DataError:
    return DataError(f"There is no encoding {encoding!r}; choose from {', '.join(ENCODINGS)}.")


def marked_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark at the start of a file gives away."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)


def likely_encoding(content: bytes) -> str | None:
    """The encoding that bytes seem to have, which are not UTF-8."""
    zeros = [content[first::2].count(0) for first in (0, 1)]  # as every second byte of UTF-16 is in many languages
    if 4 * sum(zeros) > len(content):
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    from charset_normalizer import from_bytes

    found = from_bytes(content[:GUESSED], cp_isolation=list(LIKELY)).best()
    return next((each for each in LIKELY if found and each in found.could_be_from_charset), None)


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
    """The lines of an open binary file with their numbers, as they come; one that is too long is "", at once, whether
    it ever ends or not, and one that cannot be decoded holds half a character."""
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
    layout: Layout = Layout(),
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
                source = Source(binary, name, encoding, limit, tick, limits=limits, layout=layout)
                if encoding == "utf-8" and (marked := marked_encoding(source.head())):
                    source = source._replace(encoding=marked)
                yield source
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

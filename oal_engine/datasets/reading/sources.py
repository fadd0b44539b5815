"""Open, decompress and decode files, within limits, so that a small file cannot fill the memory (zip bombs)."""

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

from .encodings import DAMAGED, codec_of, decoded, encoding_excerpts, sure_encoding

# fmt: off
ENCODINGS = (
    "utf-8", "utf-16", "cp1252", "latin-1", "cp1250", "mac_roman", "cp1251", "gb18030", "shift_jis", *DAMAGED,
)  # suggested; any works
# fmt: on
COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNREADABLE = (OSError, EOFError, ValueError, OverflowError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
TOO_DEEP = "its values are nested too deeply"
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
SAMPLE_ROWS = 1000  # first rows, from which the header and the roles of columns are guessed
CHUNK_LINES = 5000  # lines that are parsed at a time, and between two reports of progress
HARMLESS_BYTES = 2**20  # unpacked size up to which any compression ratio is allowed
HEAD_BYTES = 2**16  # at the start of a file, from which its format is recognized

CHECKED_BYTES = 2**25  # at the start of a file, decoded to check its encoding

# Undecodable lines are marked with an unpaired surrogate, which valid text cannot contain.
codecs.register_error("half", lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


FileOrPath: TypeAlias = str | Path | BinaryIO
Progress: TypeAlias = Callable[[int, int], object]  # called with (done, total)
PhaseProgress: TypeAlias = Callable[[str, int, int], object]  # called with (phase, done, total)


class DataError(ValueError):
    """Raised if a file or other input cannot be used. The message is one sentence for the user."""


class NotDecoded(DataError):
    """Raised if a file is not in the assumed encoding. excerpts: {likely encoding: excerpt decoded with it}."""

    def __init__(self, where: str, excerpts: dict[str, str]) -> None:
        choices = [f"{excerpt!r} (--encoding {encoding})" for encoding, excerpt in excerpts.items()]
        what = f"in which it reads right: {' or '.join(choices)}" if choices else f"such as {', '.join(ENCODINGS[1:])}"
        super().__init__(f"{where}: choose the encoding {what}{'' if choices else ' (--encoding NAME)'}.")
        self.excerpts = excerpts


@dataclass(frozen=True)
class Layout:
    """The layout of a table or text as set by the user. None: detect it.

    sheet, member: which part of a workbook, or of an archive or folder, to read.
    each: whether each text file of an archive is one text ("file"), or each of its lines ("line").
    paragraphs: whether each text in a file of lines is a paragraph between blank lines, instead of a line.
    """

    delimiter: str | None = None
    header: bool | None = None
    sheet: str | None = None
    member: str | None = None
    each: str | None = None
    paragraphs: bool | None = None


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
    files: int = 2**17

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
    "files": "files in an archive or folder",
}  # the unit of each limit
LIMITS = Limits()


def allow_more(limit: str) -> str:
    """Return the part of an error message that tells how to raise a limit."""
    return f"on the command line --limit {limit}=NUMBER allows more"


@dataclass(frozen=True)
class Opening:
    """How to open a file. name: name of an open file in messages. reader: the format (None: detect it)."""

    name: str | None = None
    reader: str | None = None
    encoding: str = "utf-8"
    limits: Limits = LIMITS
    layout: Layout = DETECTED


class Source(NamedTuple):
    """An open, decompressed file. `limit` is the number of lines to read (None: all), `ahead` how many rows may be read
    before the first is yielded, `tick` reports progress, and `packed` is the size of the file on disk (0: unknown)."""

    binary: BinaryIO
    name: str
    encoding: str
    limit: int | None
    tick: Callable[[], object]
    ahead: int = SAMPLE_ROWS
    limits: Limits = LIMITS
    layout: Layout = DETECTED
    packed: int = 0

    def lines(self) -> Iterator[str]:
        """Yield the lines with their original line ends."""
        done = 0
        text = text_of(self.binary, self.encoding, newline="")
        try:
            for done, line in enumerate(islice(lines_of(text, self.limits), self.limit), 1):
                if done <= 2 or len(line) > self.limits.line:
                    check_line(line, done, self.name, self.encoding, self.limits)
                if done % CHUNK_LINES == 0:
                    self.tick()
                yield line
        except UnicodeError as error:  # raised for a whole block, before any of its lines was yielded
            raise self._not_decoded(error, done) from error
        finally:
            if not self.binary.closed:
                text.detach()  # or the wrapper would close the caller's file

    def check_encoding(self) -> None:
        """Decode the first CHECKED_BYTES of the file. Raise NotDecoded if they are not in its encoding."""
        codec, errors = codec_of(self.encoding)
        decoder, n_lines = codecs.getincrementaldecoder(codec)(errors), 0
        for _ in range(CHECKED_BYTES // HEAD_BYTES):
            if not (block := self.binary.read(HEAD_BYTES)):
                break
            try:
                n_lines += decoder.decode(block).count("\n")
            except UnicodeError as error:
                raise self._not_decoded(error, n_lines) from error

    def _not_decoded(self, error: UnicodeError, done: int) -> NotDecoded:
        """Make the error for a block that cannot be decoded, with encodings that fit. done: lines before it."""
        block, start = b"", 0
        if isinstance(error, UnicodeDecodeError):
            block, start = error.object, error.start
        before = decoded(block[:start], self.encoding)
        where = f"Line {done + 1 + before.count(chr(10)):,} of {self.name} is not {self.encoding}"
        return NotDecoded(where, encoding_excerpts(block, start))

    def text(self) -> str:
        """Read the whole file as one text."""
        content = whole_content(self.binary, self.limits, self.name)
        try:
            return content.decode(*codec_of(self.encoding))
        except UnicodeError as error:
            raise self._not_decoded(error, 0) from error
        except LookupError:
            raise _no_encoding(self.encoding) from None

    def head(self) -> bytes:
        """Return the first bytes without consuming them."""
        if not self.binary.seekable():
            return cast(io.BufferedReader, self.binary).peek(HEAD_BYTES)[:HEAD_BYTES]
        head = self.binary.read(HEAD_BYTES)
        self.binary.seek(0)
        return head

    def again(self) -> Source | None:
        """Return the source from its start, or None if it is a pipe, which can be read once."""
        if isinstance(self.binary, io.BufferedReader) and isinstance(self.binary.raw, _Unpacked):
            unpacked = cast(_Unpacked, self.binary.detach())  # or its end would close the file
            return self._replace(binary=unpacked.restarted())
        return self if self.binary.seekable() and self.ahead > 1 and self.binary.seek(0) == 0 else None

    def marked(self) -> Source:
        """Return the source with the encoding that its first bytes make certain, if the assumed one is UTF-8."""
        sure = sure_encoding(self.head()) if self.encoding == "utf-8" else None
        return self._replace(encoding=sure) if sure else self

    def member(self, binary: BinaryIO, name: str, size: int) -> Source:
        """Return the source of this file, or of one inside it, decompressed. size: its bytes before decompression."""
        if decompress := COMPRESSIONS.get(Path(name).suffix.lower()):
            binary = io.BufferedReader(_Unpacked(decompress(binary), size, name, self.limits), HEAD_BYTES)
        return self._replace(binary=binary, name=name, packed=size).marked()

    def check_size(self, size: int) -> None:
        """Raise DataError if `size` bytes, which the contents of the file take, are more than the limits allow."""
        if size > HARMLESS_BYTES and self.packed:
            self.limits.check("size", size, self.name)
            self.limits.check("ratio", size / self.packed, self.name)

    def whole(self) -> BinaryIO:
        """Return the file in a seekable form, at its start."""
        binary = self.binary if self.binary.seekable() else io.BytesIO(self.binary.read())
        binary.seek(0)
        return binary


def whole_content(binary: BinaryIO, limits: Limits, name: str) -> bytearray:
    """Read a whole file. Raise DataError if it is larger than the limits allow."""
    content = bytearray()
    while block := binary.read(HEAD_BYTES):  # read(most) would reserve memory for the most
        limits.check("size", len(content) + len(block), name)
        content += block
    return content


def text_of(binary: BinaryIO, encoding: str, errors: str | None = None, newline: str | None = None) -> io.TextIOWrapper:
    """Open a binary file as text. errors: error handler for bytes that cannot be decoded (None: as in `codec_of`)."""
    codec, usual = codec_of(encoding)
    try:
        return io.TextIOWrapper(binary, codec, errors or usual, newline)
    except LookupError:
        raise _no_encoding(encoding) from None


def _no_encoding(encoding: str) -> DataError:
    return DataError(f"There is no encoding {encoding!r}; choose from {', '.join(ENCODINGS)}.")


def lines_of(text: io.TextIOWrapper, limits: Limits) -> Iterator[str]:
    """Yield the lines of an open text. A line that is too long is cut when it is one character over the limit, so that
    `check_line` still refuses it."""
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

    A line that is too long is yielded as "" before it ends. An undecodable line is yielded with an unpaired surrogate.
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
    """The stream of a decompressor, which enforces the limits on size and ratio. `size`: bytes of the packed file."""

    def __init__(self, packed: BinaryIO, size: int, name: str, limits: Limits) -> None:
        self.packed, self.size, self.name, self.limits, self.done = packed, size, name, limits, 0

    def readable(self) -> bool:
        return True

    def restarted(self) -> io.BufferedReader:
        """Return a reader of the stream from its start."""
        self.done = self.packed.seek(0)
        return io.BufferedReader(self, HEAD_BYTES)

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
    """Open and decompress a path or an open binary file. limit: number of lines to read (None: all)."""
    name, limits = name_of(path, opening.name), opening.limits
    try:
        with open_file(path) if isinstance(path, str | Path) else nullcontext(path) as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            limits.check("size", size, name)
            tick = lambda: progress and progress(raw.tell(), size)  # noqa: E731
            source = Source(raw, name, opening.encoding, limit, tick, limits=limits, layout=opening.layout)
            yield source.member(raw, name, size)
    except (DataError, BrokenPipeError):  # the broken pipe is the one that the caller writes to
        raise
    except MemoryError:
        raise DataError(f"{name} does not fit in memory.") from None
    except RecursionError:
        raise DataError(f"{name} cannot be read: {TOO_DEEP}.") from None
    except UNREADABLE as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(f"{name} cannot be read: {reason.rstrip('. ')}.") from error
    if progress:
        progress(size, size)


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading bytes. Raise DataError for other files: opening a pipe, for instance, blocks."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise DataError(f"{name_of(path, None)} is {KINDS.get(stat.S_IFMT(mode), 'a device')}, not a file.")
    return open(path, "rb")


def name_of(path: FileOrPath, name: str | None) -> str:
    """Return the name of a file for messages, without folders: `name`, or else from the path."""
    return Path(name or getattr(path, "name", None) or str(path)).name

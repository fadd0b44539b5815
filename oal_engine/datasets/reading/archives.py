"""Read a ZIP archive by its contents: a table, tables with the same columns, texts, or texts in a folder per class."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple, cast
from zipfile import ZipFile, ZipInfo

from .parsed import Doubt, Line, ParsedFile, cell_text, name_list
from .refusals import NotRead
from .sources import COMPRESSIONS, DataError, FileOrPath, Limits, NotDecoded, Source, open_file

JUNK = ("__macosx", "thumbs.db", "desktop.ini")  # files and folders of operating systems
DIGITS = re.compile(r"(\d+)")  # 2.txt comes before 10.txt
ABOUT = re.compile(r"(?i)(.*[-_ ])?(read.?me|licen[cs]e|copying|notice|changelog|citation|croissant)(\.\w+)?")
SPLITS = {"train", "training", "test", "testing", "dev", "val", "valid", "validation", "eval"}
WITHOUT_LABEL = {"unsup", "unlabeled", "unlabelled"}  # folders of texts without a label
MANY_FILES = 20  # from this number on, text files hold one text each, and have one format
ENCRYPTED = 1  # bit in the flags of a member
ARCHIVE = "zip"  # the reader of archives; nested archives are not opened, because they could be nested without end
TEXT = "txt"  # the reader of files that are items


class Formats(NamedTuple):
    """How the files of an archive are read. recognize: returns the name of the reader for a source. binary: the readers
    that need a seekable file."""

    recognize: Callable[[Source], str]
    parse: Callable[[Source, str], ParsedFile]
    binary: Collection[str]


class _Archive(NamedTuple):
    source: Source
    zip: ZipFile
    formats: Formats

    def open(self, member: ZipInfo) -> Source:
        name = f"{self.source.name}/{_path(member)}"
        return self.source.member(cast(BinaryIO, self.zip.open(member)), name, max(1, member.file_size))

    def parse(self, member: ZipInfo, reader: str) -> ParsedFile:
        source = self.open(member)
        if reader in self.formats.binary:
            source = source._replace(binary=io.BytesIO(source.binary.read()))
        parsed = self.formats.parse(source, reader)
        if reader not in self.formats.binary:
            parsed = parsed._replace(detected={"encoding": source.encoding, **parsed.detected})
        return parsed


def archive(source: Source, formats: Formats) -> ParsedFile:
    """Read an archive. If its tables do not belong together, a `Doubt` asks which to read. Unused files are listed."""
    content, members = open_archive(source)
    opened = _Archive(source, content, formats)
    chosen = _named(members, source) if source.layout.member else _without_notes(members)
    readers = _readers(opened, chosen)
    texts = [each for each in chosen if readers[_path(each)] == TEXT]
    tables = [each for each in chosen if readers[_path(each)] not in ("", TEXT)]
    if tables:
        parsed, used = _tables(opened, tables, texts, readers)
    elif texts:
        parsed, used = _texts(opened, texts)
    else:
        refusals = [_refusal(opened, each) for each in chosen[:MANY_FILES]]
        if refusals and all(refusals):
            raise DataError(refusals[0])
        raise DataError(f"{source.name} holds no file that can be imported; it has {_paths(members) or 'none'}.")
    unused = [] if source.layout.member else [each for each in members if each not in used]
    member = source.layout.member or (_path(used[0]) if len(used) == 1 else None)
    files = {"member": member} if member else {"files": f"{len(used):,}"}
    files |= {"each": source.layout.each} if source.layout.each and not tables else {}
    return parsed._replace(detected=files | {**parsed.detected} | ({"ignored": _paths(unused)} if unused else {}))


def open_archive(source: Source) -> tuple[ZipFile, list[ZipInfo]]:
    """Open an archive. Return it with its sorted files, without files that operating systems add. Raise DataError if it
    exceeds the limits or is encrypted."""
    content = ZipFile(source.whole())
    members = sorted(
        (each for each in content.infolist() if not each.is_dir() and not any(map(is_junk, _path(each).split("/")))),
        key=lambda each: in_order(_path(each)),
    )
    source.limits.check("files", len(members), source.name)
    source.check_size(sum(each.file_size for each in members))
    if any(each.flag_bits & ENCRYPTED for each in members):
        raise DataError(f"{source.name} is encrypted: unpack it with its password.")
    return content, members


def is_junk(name: str) -> bool:
    """Tell whether a file or folder is hidden, or made by an operating system or an office program."""
    return name.casefold() in JUNK or (name.startswith((".", "~$")) and name not in (".", ".."))


def in_order(path: str) -> list[tuple[int, str]]:
    """Return a key that sorts paths in natural order: 2.txt before 10.txt."""
    return [(len(part), part) if part.isdigit() else (0, part) for part in DIGITS.split(path)]


def _path(member: ZipInfo) -> str:
    return member.filename.replace("\\", "/")


def _paths(members: Iterable[ZipInfo]) -> str:
    return name_list(map(_path, members), 5)


def _named(members: Sequence[ZipInfo], source: Source) -> list[ZipInfo]:
    """Return the member that the user named, or the members of a folder of that name. Raise DataError if there is
    none."""
    wanted = (source.layout.member or "").strip("/")
    chosen = [each for each in members if _path(each) == wanted or _path(each).startswith(f"{wanted}/")]
    chosen = chosen or [each for each in members if PurePosixPath(_path(each)).name == wanted]
    if not chosen:
        raise DataError(f"{source.name} has no member {wanted!r}; it has {_paths(members) or 'none'}.")
    return chosen


def _without_notes(members: list[ZipInfo]) -> list[ZipInfo]:
    """Leave out files such as README, unless there are no other files."""
    return [each for each in members if not ABOUT.fullmatch(PurePosixPath(_path(each)).name)] or members


def _readers(opened: _Archive, members: Sequence[ZipInfo]) -> dict[str, str]:
    """Return {path: name of the reader}, "" for a file that is left out. MANY_FILES or more files with the same suffix
    get the same reader, for which the first MANY_FILES are examined. If these need different readers, all files are
    read as texts if any of the examined files is a text; otherwise all are left out."""
    groups: dict[str, list[ZipInfo]] = {}
    for each in members:
        suffixes = [suffix for suffix in PurePosixPath(_path(each).lower()).suffixes if suffix not in COMPRESSIONS]
        suffix = (suffixes or [""])[-1]
        groups.setdefault("" if suffix == "." or suffix[1:].isdigit() else suffix, []).append(each)
    readers: dict[str, str] = {}
    for group in groups.values():
        names = [_reader(opened, each) for each in group[:MANY_FILES]]
        if len(group) >= MANY_FILES:
            names = [names[0] if len({*names}) == 1 else TEXT if TEXT in names else ""] * len(group)
        readers |= dict(zip(map(_path, group), names))
    return readers


def _reader(opened: _Archive, member: ZipInfo) -> str:
    try:
        reader = opened.formats.recognize(source := opened.open(member))
    except DataError:
        return ""
    zeros = reader not in opened.formats.binary and source.encoding == "utf-8" and b"\0" in source.head()
    return "" if zeros or reader == ARCHIVE else reader  # zeros: a file of another program


def _refusal(opened: _Archive, member: ZipInfo) -> str:
    """Return the sentence on a member of a kind that cannot be imported, or "" for any other member."""
    try:
        opened.formats.recognize(opened.open(member))
    except NotRead as error:
        return str(error)
    except DataError:
        pass
    return ""


# ---- Tables


class _Table(NamedTuple):
    member: ZipInfo
    reader: str
    parsed: ParsedFile  # its rows can be read only once


def _tables(
    opened: _Archive, members: Sequence[ZipInfo], texts: Sequence[ZipInfo], readers: dict[str, str]
) -> tuple[ParsedFile, Sequence[ZipInfo]]:
    """Read one table, tables with the same columns, or a table and the texts or labels that belong to it. If the tables
    do not belong together, read the largest and add a doubt, which asks what to read. Also return the members that were
    read."""
    tables, errors = list[_Table](), list[DataError]()
    for member in members:
        try:
            tables.append(_Table(member, readers[_path(member)], opened.parse(member, readers[_path(member)])))
        except NotDecoded:
            raise
        except (DataError, ValueError) as error:  # such as a file of settings
            errors.append(error if isinstance(error, DataError) else DataError(_unreadable(opened, member, error)))
    if not tables:
        raise errors[0]
    groups: dict[tuple[str, ...], list[_Table]] = {}
    for table in tables:
        groups.setdefault(tuple(sorted(table.parsed.columns)), []).append(table)
    joined = None
    if texts and len(tables) == 1:
        joined = _with_table(opened, texts, tables[0])
    elif len(groups) == len(tables) == 2:
        joined = _with_labels(opened, *sorted(tables, key=lambda table: -table.member.file_size))
    if joined:
        return joined, [*texts, *(table.member for table in tables)]
    many_texts = len(texts) >= MANY_FILES
    largest = max(tables, key=lambda table: table.member.file_size)
    if len(tables) == 1 and not many_texts:
        return largest.parsed, [largest.member]
    if len(groups) > 1 or many_texts or largest.parsed.vectors is not None:
        answers = [*map(_path, (table.member for table in tables)), *(_folders(texts) if many_texts else ())]
        question = (
            f"{opened.source.name} has the tables {name_list(answers)}, which do not belong together: "
            "say which to read (--member NAME)."
        )
        return largest.parsed._replace(doubts=(Doubt("member", question, tuple(answers)),)), [largest.member]
    return _stacked(opened, tables), [table.member for table in tables]


def _unreadable(opened: _Archive, member: ZipInfo, error: Exception) -> str:
    return f"{opened.source.name}/{_path(member)} cannot be read: {' '.join(str(error).split()).rstrip('. ')}."


def _folders(members: Sequence[ZipInfo]) -> list[str]:
    """Return a list of one folder, the one that holds the most members."""
    return [Counter(str(PurePosixPath(_path(each)).parent) for each in members).most_common(1)[0][0]]


def _stacked(opened: _Archive, tables: Sequence[_Table]) -> ParsedFile:
    """Concatenate tables with the same columns. A further column names the file of each row (`source`) or, for texts
    in a folder per class, the class (`label`)."""
    columns = tables[0].parsed.columns
    items = all(table.reader == TEXT for table in tables)
    paths = [_path(table.member) for table in tables]
    further = (_classes(table.member for table in tables) if items else {}) or dict(zip(paths, paths))
    name = "source" if further.keys() == {*further.values()} else "label"

    def rows() -> Iterator[Line]:
        before = last = 0
        for table in (each for each in tables if _path(each.member) in further):
            parsed = opened.parse(table.member, table.reader)
            places = [parsed.columns.index(column) for column in columns]
            for line, cells in parsed.rows:
                last = before + line
                more = further[_path(table.member)]
                yield last, cells if isinstance(cells, str) else [*(cells[at] for at in places), more]
            before = last

    doubts = next((table.parsed.doubts for table in tables if table.parsed.doubts), ())
    return tables[0].parsed._replace(columns=[*columns, name], rows=rows(), doubts=doubts)


def _with_labels(opened: _Archive, items: _Table, labels: _Table) -> ParsedFile | None:
    """Left-join a table of items with a table of their labels on the only column that both have. Items without labels
    get empty cells. Return None unless the cells are unique ids in both tables, and every label belongs to an item."""
    shared = [column for column in items.parsed.columns if column in labels.parsed.columns]
    if len(shared) != 1 or items.parsed.vectors is not None or labels.parsed.vectors is not None:
        return None
    whole = opened._replace(source=opened.source._replace(limit=None))
    table = whole.parse(items.member, items.reader)
    at = table.columns.index(shared[0])
    ids = [cell_text(cells[at]) for _, cells in table.rows if not isinstance(cells, str)]
    others, more = _by_id(whole.parse(labels.member, labels.reader), shared[0])
    if len({*ids}) < len(ids) or not more or not {*more} <= {*ids}:
        return None
    rows = opened.parse(items.member, items.reader).rows
    empty = [""] * len(others)
    return items.parsed._replace(
        columns=[*items.parsed.columns, *others],
        rows=(
            (line, cells if isinstance(cells, str) else [*cells, *more.get(cell_text(cells[at]), empty)])
            for line, cells in rows
        ),
    )


def _by_id(parsed: ParsedFile, column: str) -> tuple[list[str], dict[str, list[object]]]:
    """Index a table by its ids in `column`. Return the other columns and {id: their cells}; the dictionary is empty if
    an id repeats."""
    at = parsed.columns.index(column)
    rows = [cells for _, cells in parsed.rows if not isinstance(cells, str)]
    by_id = {cell_text(cells[at]): [*cells[:at], *cells[at + 1 :]] for cells in rows}
    return [name for name in parsed.columns if name != column], by_id if len(by_id) == len(rows) else {}


# ---- Texts


def _texts(opened: _Archive, members: Sequence[ZipInfo]) -> tuple[ParsedFile, Sequence[ZipInfo]]:
    """Read text files, each as one text or with one text per line. Also return the members that were read."""
    if len(members) == 1 and opened.source.layout.each != "file":
        return opened.parse(members[0], TEXT), members
    classes = _classes(members)
    members = [each for each in members if not classes or _path(each) in classes]
    each, doubts = opened.source.layout.each, tuple[Doubt, ...]()
    if each is None and len(members) < MANY_FILES and any(len(_lines(opened, member)) > 1 for member in members):
        question = (
            f"Each of the {len(members)} text files of {opened.source.name} could be one text, or hold one "
            "text in each line: say which (--each file or --each line)."
        )
        doubts = (Doubt("each", question, ("file", "line")),)
    if each == "line":
        lines = [_Table(member, TEXT, opened.parse(member, TEXT)) for member in members]
        return _stacked(opened, lines), members
    ids = _ids(members)

    def rows() -> Iterator[Line]:
        for number, member in enumerate(members, 1):
            text, label = opened.open(member).text(), classes.get(_path(member))
            yield number, [ids[_path(member)], text.strip(), *([] if label is None else [label])]

    return ParsedFile(["id", "text", *["label"] * bool(classes)], rows(), doubts=doubts), members


def _lines(opened: _Archive, member: ZipInfo) -> list[bytes]:
    """Return the nonblank lines at the start of a member."""
    return [line for line in opened.open(member).head().splitlines() if line.strip()]


def _ids(members: Iterable[ZipInfo]) -> dict[str, str]:
    """Return {path: id}. The ids are the file names without suffix if these are unique, else the paths."""
    paths = [_path(each) for each in members]
    stems = [PurePosixPath(path).stem for path in paths]
    return dict(zip(paths, stems if len({*stems}) == len(stems) else paths))


def _classes(members: Iterable[ZipInfo]) -> dict[str, str]:
    """Return {path: label} if the folders are classes, else {}. Members outside these folders are left out."""
    parts = {_path(each): PurePosixPath(_path(each)).parts for each in members}
    depth = Counter(map(len, parts.values())).most_common(1)[0][0]
    folders = {path: each[-2] for path, each in parts.items() if len(each) == depth > 1}
    names = {*folders.values()}
    if not 1 < len(names) <= len(folders) / 2 or {name.casefold() for name in names} <= SPLITS:
        return {}
    return {path: "" if name.casefold() in WITHOUT_LABEL else name for path, name in folders.items()}


def _with_table(opened: _Archive, texts: Sequence[ZipInfo], table: _Table) -> ParsedFile | None:
    """Join text files with a table in which one column names them, by path, by file name, or by file name without
    suffix. Return None if there is no such column."""
    parsed = opened._replace(source=opened.source._replace(limit=None)).parse(table.member, table.reader)
    if parsed.vectors is not None:
        return None
    parsed = parsed._replace(rows=[*parsed.rows])
    paths = {PurePosixPath(_path(each)): each for each in texts}
    for name_of in (str, lambda path: path.name, lambda path: path.stem):
        members = {name_of(path): member for path, member in paths.items()}
        for column in parsed.columns if len(members) == len(texts) else ():
            others, more = _by_id(parsed, column)
            if more and {*more} <= {*members} and not {"id", "text"} & {*others}:
                empty = [""] * len(others)
                rows = (
                    (number, [name, opened.open(member).text().strip(), *more.get(name, empty)])
                    for number, (name, member) in enumerate(members.items(), 1)
                )
                return ParsedFile(["id", "text", *others], rows)
    return None


# ---- Several files as one


class Files(NamedTuple):
    """Several files that are read as one, each (name, file). `file_id` identifies the group among other uploads."""

    files: tuple[tuple[str, FileOrPath], ...]
    file_id: str = ""


def pack(files: Iterable[tuple[str, FileOrPath]], target: BinaryIO) -> None:
    """Write files, each (path in the archive, file), into an uncompressed ZIP archive."""
    with ZipFile(target, "w") as packed:
        for path, file in files:
            opening = open_file(file) if isinstance(file, str | Path) else nullcontext(file)
            if not isinstance(file, str | Path):
                file.seek(0)
            with opening as content, packed.open(path, "w", force_zip64=True) as member:
                shutil.copyfileobj(content, member)


@contextmanager
def one_file(paths: Sequence[Path], limits: Limits) -> Iterator[Path]:
    """Yield the path of a single file, or of a temporary archive of several files or of a folder."""
    if len(paths) == 1 and not paths[0].is_dir():
        yield paths[0]
        return
    whole = [Path(os.path.abspath(path)) for path in paths]
    common = whole[0] if len(whole) == 1 else Path(os.path.commonpath([path.parent for path in whole]))
    name = common.name if len(whole) == 1 else several_name([path.name for path in whole])
    with TemporaryDirectory() as folder:
        packed = Path(folder, name or "folder")
        try:
            files = [(str(file.relative_to(common)), file) for path in whole for file in _files(path, name, limits)]
            with packed.open("wb") as target:
                pack(files, target)
        except OSError as error:
            raise DataError(f"{Path(error.filename or name).name} cannot be read: {error.strerror}.") from None
        yield packed


def several_name(names: Sequence[str]) -> str:
    """Return a name for several files, such as "a and 2 more"."""
    return f"{PurePosixPath(names[0]).stem} and {len(names) - 1} more"


def _files(path: Path, name: str, limits: Limits) -> list[Path]:
    """List a single file, or recursively the files of a folder, sorted by name. Raise DataError if they exceed the
    limits."""
    if not path.is_dir():
        return [path]
    files, size = list[Path](), 0
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if not is_junk(each))
        for file in (Path(folder, each) for each in sorted(names) if not is_junk(each)):
            if stat.S_ISREG((about := file.lstat()).st_mode):  # a link could lead anywhere
                files.append(file)
                size += about.st_size
                limits.check("files", len(files), name)
                limits.check("size", size, name)
    return files

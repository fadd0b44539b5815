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
    members: dict[str, ZipInfo]  # by path
    formats: Formats

    def open(self, path: str) -> Source:
        member = self.members[path]
        name = f"{self.source.name}/{path}"
        return self.source.member(cast(BinaryIO, self.zip.open(member)), name, max(1, member.file_size))

    def parse(self, path: str, reader: str, whole: bool = False) -> ParsedFile:
        """Parse a member. whole: all of its lines, even if only the first ones of the archive are wanted."""
        source = self.open(path)
        if whole:
            source = source._replace(limit=None)
        if reader in self.formats.binary:
            source = source._replace(binary=io.BytesIO(source.binary.read()))
        parsed = self.formats.parse(source, reader)
        if reader not in self.formats.binary:
            parsed = parsed._replace(detected={"encoding": source.encoding, **parsed.detected})
        return parsed


def archive(source: Source, formats: Formats) -> ParsedFile:
    """Read an archive. If its tables do not belong together, a `Doubt` asks which to read. Unused files are listed."""
    content, members = open_archive(source)
    opened = _Archive(source, content, {_path(each): each for each in members}, formats)
    paths = [*opened.members]
    if source.layout.member:
        chosen = _named(paths, source)
    else:
        chosen = [path for path in paths if not ABOUT.fullmatch(PurePosixPath(path).name)] or paths
    readers = _readers(opened, chosen)
    texts = [path for path in chosen if readers[path] == TEXT]
    if tables := {path: readers[path] for path in chosen if readers[path] not in ("", TEXT)}:
        parsed, used = _tables(opened, tables, texts)
    elif texts:
        parsed, used = _texts(opened, texts)
    else:
        if (refusals := [_reader(opened, path)[1] for path in chosen[:MANY_FILES]]) and all(refusals):
            raise DataError(refusals[0])
        names = name_list(paths, 5) or "none"
        raise DataError(f"{source.name} holds no file that can be imported; it has {names}.")
    unused = [] if source.layout.member else [path for path in paths if path not in used]
    member = source.layout.member or (used[0] if len(used) == 1 else None)
    files = {"member": member} if member else {"files": f"{len(used):,}"}
    files |= {"each": source.layout.each} if source.layout.each and not tables else {}
    ignored = {"ignored": name_list(unused, 5)} if unused else {}
    return parsed._replace(detected=files | {**parsed.detected} | ignored)


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


def _named(paths: Sequence[str], source: Source) -> list[str]:
    """Return the member that the user named, or those of a folder of that name. Raise DataError if there is none."""
    wanted = (source.layout.member or "").strip("/")
    chosen = [path for path in paths if path == wanted or path.startswith(f"{wanted}/")]
    chosen = chosen or [path for path in paths if PurePosixPath(path).name == wanted]
    if not chosen:
        raise DataError(f"{source.name} has no member {wanted!r}; it has {name_list(paths, 5) or 'none'}.")
    return chosen


def _readers(opened: _Archive, paths: Sequence[str]) -> dict[str, str]:
    """Return {path: name of the reader}, "" for a file that is left out. MANY_FILES or more files with the same suffix
    get the same reader, for which the first MANY_FILES are examined. If these need different readers, all files are
    read as texts if any of the examined files is a text; otherwise all are left out."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        suffixes = [suffix for suffix in PurePosixPath(path.lower()).suffixes if suffix not in COMPRESSIONS]
        suffix = (suffixes or [""])[-1]
        groups.setdefault("" if suffix == "." or suffix[1:].isdigit() else suffix, []).append(path)
    readers: dict[str, str] = {}
    for group in groups.values():
        names = [_reader(opened, path)[0] for path in group[:MANY_FILES]]
        if len(group) >= MANY_FILES:
            names = [names[0] if len({*names}) == 1 else TEXT if TEXT in names else ""] * len(group)
        readers |= dict(zip(group, names))
    return readers


def _reader(opened: _Archive, path: str) -> tuple[str, str]:
    """Return the name of the reader for a member ("": it is left out), and the sentence on a member of a kind that
    cannot be imported ("": it is of no such kind)."""
    try:
        reader = opened.formats.recognize(source := opened.open(path))
    except DataError as error:
        return "", str(error) if isinstance(error, NotRead) else ""
    zeros = reader not in opened.formats.binary and source.encoding == "utf-8" and b"\0" in source.head()
    return "" if zeros or reader == ARCHIVE else reader, ""  # zeros: a file of another program


# ---- Tables


class _Table(NamedTuple):
    path: str
    reader: str
    parsed: ParsedFile  # its rows can be read only once


def _tables(opened: _Archive, readers: dict[str, str], texts: Sequence[str]) -> tuple[ParsedFile, Sequence[str]]:
    """Read one table, tables with the same columns, or a table and the texts or labels that belong to it. If the tables
    do not belong together, read the largest and add a doubt, which asks what to read. Also return the paths of the
    members that were read. readers: {path of a table: name of its reader}."""
    tables, errors = list[_Table](), list[DataError]()
    for path, reader in readers.items():
        try:
            tables.append(_Table(path, reader, opened.parse(path, reader)))
        except NotDecoded:
            raise
        except (DataError, ValueError) as error:  # such as a file of settings
            why = f"{opened.source.name}/{path} cannot be read: {' '.join(str(error).split()).rstrip('. ')}."
            errors.append(error if isinstance(error, DataError) else DataError(why))
    if not tables:
        raise errors[0]
    tables_with = {tuple(sorted(table.parsed.columns)): table for table in tables}
    by_size = sorted(tables, key=lambda table: -opened.members[table.path].file_size)
    joined, largest = None, by_size[0]
    if texts and len(tables) == 1:
        joined = _texts_with_table(opened, texts, tables[0])
    elif len(tables_with) == len(tables) == 2:
        joined = _table_with_labels(opened, *by_size)
    if joined:
        return joined, [*texts, *readers]
    many_texts = len(texts) >= MANY_FILES
    if len(tables) == 1 and not many_texts:
        return largest.parsed, [largest.path]
    if len(tables_with) > 1 or many_texts or largest.parsed.vectors is not None:
        answers = [table.path for table in tables]
        if many_texts:  # in the folder that holds the most of them
            answers += [Counter(str(PurePosixPath(path).parent) for path in texts).most_common(1)[0][0]]
        question = (
            f"{opened.source.name} has the tables {name_list(answers)}, which do not belong together: "
            "say which to read (--member NAME)."
        )
        return largest.parsed._replace(doubts=(Doubt("member", question, tuple(answers)),)), [largest.path]
    return _stacked(opened, tables), [table.path for table in tables]


def _stacked(opened: _Archive, tables: Sequence[_Table]) -> ParsedFile:
    """Concatenate tables with the same columns. A further column names the file of each row (`source`) or, for texts
    in a folder per class, the class (`label`)."""
    columns = tables[0].parsed.columns
    paths = [table.path for table in tables]
    classes = _classes(paths) if all(table.reader == TEXT for table in tables) else {}
    further = classes or dict(zip(paths, paths))

    def rows() -> Iterator[Line]:
        before = last = 0
        for table in (each for each in tables if each.path in further):
            parsed = opened.parse(table.path, table.reader)
            places = [parsed.columns.index(column) for column in columns]
            for line, cells in parsed.rows:
                last = before + line
                yield last, cells if isinstance(cells, str) else [*(cells[at] for at in places), further[table.path]]
            before = last

    doubts = next((table.parsed.doubts for table in tables if table.parsed.doubts), ())
    return tables[0].parsed._replace(columns=[*columns, "label" if classes else "source"], rows=rows(), doubts=doubts)


def _table_with_labels(opened: _Archive, items: _Table, labels: _Table) -> ParsedFile | None:
    """Join a table of items with a table of their labels on the only column that both have."""
    shared = [column for column in items.parsed.columns if column in labels.parsed.columns]
    if len(shared) != 1 or items.parsed.vectors is not None or labels.parsed.vectors is not None:
        return None
    at = items.parsed.columns.index(shared[0])
    rows = opened.parse(items.path, items.reader, whole=True).rows
    ids = [cell_text(cells[at]) for _, cells in rows if not isinstance(cells, str)]
    again = items.parsed._replace(rows=opened.parse(items.path, items.reader).rows)
    return _joined(again, at, ids, opened.parse(labels.path, labels.reader, whole=True), shared[0])


def _texts_with_table(opened: _Archive, paths: Sequence[str], table: _Table) -> ParsedFile | None:
    """Join text files with a table in which one column names them, by path, file name, or file name without suffix."""
    other = opened.parse(table.path, table.reader, whole=True)
    if other.vectors is not None:
        return None
    other = other._replace(rows=[*other.rows])
    for name_of in (str, lambda path: path.name, lambda path: path.stem):
        named = {name_of(PurePosixPath(path)): path for path in paths}
        texts = ((n, [name, opened.open(path).text().strip()]) for n, (name, path) in enumerate(named.items(), 1))
        for column in other.columns if len(named) == len(paths) else ():
            if joined := _joined(ParsedFile(["id", "text"], texts), 0, [*named], other, column):
                return joined
    return None


def _joined(table: ParsedFile, at: int, ids: Sequence[str], other: ParsedFile, column: str) -> ParsedFile | None:
    """Add the columns of another table to a table; rows that the other one does not have get empty cells.

    Return None unless the ids are unique in both, and every row of the other table belongs to one of the first.
    at: index of the column of ids. ids: its cells. column: the column of ids of the other table.
    """
    place, others = other.columns.index(column), [name for name in other.columns if name != column]
    rows = [cells for _, cells in other.rows if not isinstance(cells, str)]
    more = {cell_text(cells[place]): [*cells[:place], *cells[place + 1 :]] for cells in rows}
    are_unique = len({*ids}) == len(ids) and len(more) == len(rows) > 0
    if not are_unique or not more.keys() <= {*ids} or {*others} & {*table.columns}:
        return None
    empty = [""] * len(others)
    return table.with_cells(others, lambda _, cells: more.get(cell_text(cells[at]), empty))


# ---- Texts


def _texts(opened: _Archive, paths: Sequence[str]) -> tuple[ParsedFile, Sequence[str]]:
    """Read text files, each as one text or with one text per line. Also return the paths of the files read."""
    each, doubts = opened.source.layout.each, tuple[Doubt, ...]()
    if len(paths) == 1 and each != "file":
        return opened.parse(paths[0], TEXT), paths
    classes = _classes(paths)
    paths = [path for path in paths if not classes or path in classes]
    if each is None and len(paths) < MANY_FILES:
        heads = (opened.open(path).head().splitlines() for path in paths)
        if any(sum(not line.isspace() for line in lines if line) > 1 for lines in heads):
            question = (
                f"Each of the {len(paths)} text files of {opened.source.name} could be one text, or hold one "
                "text in each line: say which (--each file or --each line)."
            )
            doubts = (Doubt("each", question, ("file", "line")),)
    if each == "line":
        return _stacked(opened, [_Table(path, TEXT, opened.parse(path, TEXT)) for path in paths]), paths
    ids = [PurePosixPath(path).stem for path in paths]
    if len({*ids}) < len(ids):
        ids = [*paths]

    def rows() -> Iterator[Line]:
        for number, (id, path) in enumerate(zip(ids, paths), 1):
            text = opened.open(path).text().strip()
            yield number, [id, text, classes[path]] if classes else [id, text]

    return ParsedFile(["id", "text", *["label"] * bool(classes)], rows(), doubts=doubts), paths


def _classes(paths: Iterable[str]) -> dict[str, str]:
    """Return {path: label} if the folders are classes, else {}. Members outside these folders are left out."""
    parts = {path: PurePosixPath(path).parts for path in paths}
    depth = Counter(map(len, parts.values())).most_common(1)[0][0]
    folders = {path: each[-2] for path, each in parts.items() if len(each) == depth > 1}
    names = {*folders.values()}
    if not 1 < len(names) <= len(folders) / 2 or {name.casefold() for name in names} <= SPLITS:
        return {}
    return {path: "" if name.casefold() in WITHOUT_LABEL else name for path, name in folders.items()}


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
    """List a file, or recursively the files of a folder, sorted by name. Raise DataError if they exceed the limits."""
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

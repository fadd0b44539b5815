"""Recognize files that cannot be imported by their first bytes or their suffix, and say what to do instead."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .encodings import MARKS, WIDE
from .sources import COMPRESSIONS, DataError

SAVE = "save it as CSV or .xlsx"
SAVE_TEXTS = "save its texts as CSV or .xlsx"
REFERENCES = "export them as RIS"
PACKED = "compressed: give its name the suffix of its compression,"
TABLE = "a file of another program: export its table as CSV or Parquet"
CODE = "if each of its lines is a text, say so (--reader txt)"
HEAD_LINES = 500  # of a file, in which each must have the form of a format of lines
MAIL_FIELD = re.compile(r"(?i)(from|to|cc|subject|date|message-id|received|return-path|delivered-to|path|xref): ?\S")
MAIL_FIELDS = 3  # different ones, which make the start of a file a mail
COMMENT = re.compile(rb"\s*<!--.*?-->", re.DOTALL)  # of HTML
OFFICE = (b"[Content_Types]", b"_rels/", b"docProps/", b"mimetype", b"xl/", b"word/", b"ppt/")  # names of first members
TWEETS = re.compile(rb"\s*window\.YTD\.")  # begins each file of an archive of X (Twitter), whose suffix is .js
TAGGED_WORD = r".*\S[ \t]+(O|[BIESLU]-\S+)"  # in CoNLL
NUMBERED_WORD = r"\d+(-\d+)?(\t[^\t]+){9}"  # in CoNLL-U
PLACED_WORD = r"\d+-\d+\t\d+-\d+\t.*"  # in WebAnno


class NotRead(DataError):
    """Raised for a file of a kind that cannot be imported. The message says what to do instead."""


def is_office(head: bytes) -> bool:
    """Tell from the name of its first member whether a ZIP archive is an office document."""
    return head.startswith(b"PK\3\4") and head[30:].startswith(OFFICE)


def _holds(name: bytes) -> Callable[[bytes], bool]:
    """Return a function that tells whether an office document begins with a member of this name or kind."""
    return lambda head: is_office(head) and name in head


def _begins(pattern: bytes) -> Callable[[bytes], bool]:
    """Return a function that tells whether a file begins with a pattern."""
    compiled = re.compile(pattern, re.DOTALL | re.IGNORECASE)
    return lambda head: compiled.match(head) is not None


def _lines(pattern: str, apart: bool = False) -> Callable[[bytes], bool]:
    """Return a function that tells whether each line at the start of a file has a form. Blank lines and comments do not
    count. apart: there must be a blank line, such as between sentences."""
    compiled = re.compile(pattern)

    def are(head: bytes) -> bool:
        lines = [line.strip() for line in _text(head).splitlines()[:HEAD_LINES]]
        lines = lines[:-1] or lines  # the last may be cut
        full = [line for line in lines if line and not line.startswith("#")]
        if not full or (apart and "" not in lines[lines.index(full[0]) :]):
            return False
        return all(map(compiled.fullmatch, full))

    return are


def _text(head: bytes) -> str:
    return head.decode("utf-8", "replace")


def _is_mail(head: bytes) -> bool:
    """Tell whether a file begins with an email, or with the line `From ...` of a mailbox and an email."""
    lines = [line for line in _text(head).splitlines() if line.strip()][:50]
    if lines and re.match(r"From \S+ ", lines[0]):
        return MAIL_FIELD.match("".join(lines[1:2])) is not None
    names = {match[1].lower() for match in map(MAIL_FIELD.match, lines) if match}
    return len(names) >= MAIL_FIELDS and MAIL_FIELD.match(lines[0]) is not None


def _is_web_page(head: bytes) -> bool:
    """Tell whether a file begins like a web page or an HTML table, perhaps after comments."""
    at = 0
    while comment := COMMENT.match(head, at):
        at = comment.end()
    return _begins(rb"\s*<(!doctype html|html|head|body|table)\b")(head[at:])


class Kind(NamedTuple):
    """A kind of files that are not read: its name and the way out, how its start is recognized, and its suffixes."""

    sentence: str
    recognizes: Callable[[bytes], bool] = lambda head: False
    suffixes: tuple[str, ...] = ()


KINDS = (
    Kind("a PDF document: copy its texts into a spreadsheet or a text file", _begins(rb"%PDF")),
    Kind(
        "an image: only texts and numbers can be imported",
        _begins(rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*|RIFF....WEBP|BM....\0\0\0\0"),
    ),
    Kind(
        "an old Excel or Word file, or one with a password: save it as .xlsx or .csv",
        _begins(rb"\xd0\xcf\x11\xe0"),
        (".xls",),
    ),
    Kind(f"a workbook of OpenDocument: {SAVE}", _holds(b"opendocument.spreadsheet"), (".ods",)),
    Kind("a Word document: save its table as .xlsx or .csv, or its text as .txt", _holds(b"word/")),
    Kind("a presentation: save its table as .xlsx or .csv, or its text as .txt", _holds(b"ppt/")),
    Kind("a document: save its table as .xlsx or .csv, or its text as .txt", _holds(b"opendocument.text")),
    Kind("a presentation: save its text as .txt", _holds(b"opendocument.presentation")),
    Kind("an electronic book: save its text as .txt", _holds(b"epub")),
    Kind(f"{PACKED} .gz", _begins(rb"\x1f\x8b")),
    Kind(f"{PACKED} .bz2", _begins(rb"BZh\d1AY")),
    Kind(f"{PACKED} .xz", _begins(rb"\xfd7zXZ")),
    Kind(
        "an archive: unpack it and import one of its files",
        _begins(rb"7z\xbc\xaf|Rar!\x1a|\x28\xb5\x2f\xfd|.{257}ustar"),
    ),
    Kind(
        "a database: export its table as CSV or .xlsx", _begins(rb"SQLite format 3\0"), (".sqlite", ".sqlite3", ".db")
    ),
    Kind(TABLE, _begins(rb"\x89HDF|\$FL[23]|<stata_dta>|MATLAB 5|RDX[23]\n|(OB|Obj)\x01")),
    Kind(
        "a pickle, which may hold a program: save it as CSV, .npy or Parquet",
        _begins(rb"\x80[\x02-\x05][\x95c}\]]"),
    ),
    Kind(
        "subtitles: save their texts as lines of a text file",
        _begins(rb"WEBVTT|\[Script Info\]|\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ -->|\{\d+\}\{\d+\}"),
    ),
    Kind("a document with formatting (RTF): save it as plain text", _begins(rb"\{\\rtf")),
    Kind(f"a mail: {SAVE_TEXTS}", _is_mail, (".eml", ".mbox")),
    Kind("a web page: save its table as CSV or .xlsx", _is_web_page, (".html", ".htm", ".xhtml")),
    Kind(
        f"a file of SGML, such as of Reuters-21578: {SAVE_TEXTS}",
        lambda head: b"<REUTERS " in head,
        (".sgm", ".sgml"),
    ),
    Kind("an XML file: export it as CSV, JSON or RIS", _begins(rb"\s*<(\?xml|xml\b|records\b)"), (".xml",)),
    Kind(f"a file of references of EndNote: {REFERENCES}", _begins(rb"%0 \w"), (".enw",)),
    Kind(f"a table of references of Web of Science: {REFERENCES}", _begins(rb"PT\tAU\t")),
    Kind(
        "a list of abstracts of PubMed: save it as PubMed (.nbib)",
        _begins(rb"\s*1\. [^\n]{9,300}\n.{1,20000}\nPMID: \d+"),
    ),
    Kind(f"a file of fastText: {SAVE}", _lines(r"(__label__[^\s,;|]+ +)+\S.*")),
    Kind(
        "a file of Vowpal Wabbit: save it as CSV, or numbers as svmlight",
        _lines(r"[-+]?\d[\d.]*( [\d.]+)*( '[^\s|]*)? ?\|(\w+\s|\s*\w+:[\d.]).*"),
        (".vw",),
    ),
    Kind(
        "a list of words, as in CoNLL or WebAnno: labels are for whole texts, so save each sentence with its label as "
        "a row of a CSV file",
        lambda head: _lines(PLACED_WORD)(head) or _lines(f"{TAGGED_WORD}|{NUMBERED_WORD}", apart=True)(head),
        (".conll", ".conllu"),
    ),
    Kind(
        f"source code: {CODE}",
        _begins(rb"#!"),
        (".py", ".js", ".ts", ".java", ".c", ".h", ".cpp", ".cs", ".go", ".rs", ".rb", ".php", ".r", ".sh"),
    ),
    Kind(
        f"source code or settings: {CODE}",
        suffixes=(".ipynb", ".css", ".sql", ".tex", ".yaml", ".yml", ".toml", ".ini"),
    ),
)


def check(head: bytes, name: str, encoding: str, by_suffix: bool = False) -> None:
    """Raise NotRead if a file is of a kind that cannot be imported: by its first bytes, or its suffix (`by_suffix`)."""
    if encoding in (*WIDE, *MARKS.values()):
        head = head.decode(encoding, "replace").encode()
    head = head.removeprefix(codecs.BOM_UTF8)
    kind = next((kind for kind in KINDS if kind.recognizes(head)), None)
    suffixes = [suffix for suffix in map(str.lower, Path(name).suffixes) if suffix not in COMPRESSIONS]
    if kind is None and by_suffix and suffixes and not TWEETS.match(head):
        kind = next((kind for kind in KINDS if suffixes[-1] in kind.suffixes), None)
    if kind:
        raise NotRead(f"{name} is {kind.sentence}.")

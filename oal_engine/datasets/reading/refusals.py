"""Recognize files that cannot be imported, mostly from their first bytes, and say what to do instead."""

import re
from pathlib import Path

from .sources import DataError

PACKED = "compressed: give its name the suffix of its compression,"
TABLE = "a file of another program: export its table as CSV or Parquet"
BEGINNINGS = {
    rb"%PDF": "a PDF document: copy its texts into a spreadsheet or a text file",
    rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*|RIFF....WEBP|BM....\0\0\0\0": "an image: "
    "only texts and numbers can be imported",
    rb"\xd0\xcf\x11\xe0": "an old Excel or Word file, or one with a password: save it as .xlsx or .csv",
    rb"\x1f\x8b": f"{PACKED} .gz",
    rb"BZh\d1AY": f"{PACKED} .bz2",
    rb"\xfd7zXZ": f"{PACKED} .xz",
    rb"7z\xbc\xaf|Rar!\x1a|\x28\xb5\x2f\xfd|.{257}ustar": "an archive: unpack it and import one of its files",
    rb"\x89HDF|\$FL[23]|<stata_dta>|MATLAB 5|RDX[23]\n|(OB|Obj)\x01": TABLE,
    rb"\x80[\x02-\x05][\x95c}\]]": "a pickle, which may hold a program: save it as CSV, .npy or Parquet",
    rb"(\xef\xbb\xbf)?(WEBVTT|\[Script Info\]|\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ -->|\{\d+\}\{\d+\})": "subtitles: save "
    "their texts as lines of a text file",
    rb"[-+]?[\d.]+ (\S+ )?\|\w* (\S+ )*\S+:[\d.]": "a file of Vowpal Wabbit with numbers: save it as svmlight or CSV",
    rb"\s*1\. [^\n]{9,300}\n.{1,20000}\nPMID: \d+": "a list of abstracts of PubMed: save it as PubMed (.nbib)",
    rb"\{\\rtf": "a document with formatting (RTF): save it as plain text",
    rb"(?i)\s*<\?xml(?!.*(<REUTERS |<titles>|<html))": "an XML file: export it as CSV, JSON or RIS",
}
OFFICE = (b"[Content_Types]", b"_rels/", b"docProps/", b"mimetype", b"xl/", b"word/", b"ppt/")  # names of first members
DOCUMENTS = {
    b"word/": "a Word document",
    b"ppt/": "a presentation",
    b"opendocument.text": "a text document",
    b"opendocument.presentation": "a presentation",
    b"epub": "an electronic book",
}  # by the name of a member at the start of the ZIP archive


CODE = {
    **dict.fromkeys((".py", ".js", ".ts", ".java", ".c", ".h", ".cpp", ".cs", ".go", ".rs", ".rb", ".php", ".r", ".sh"),
                    "source code"),
    **dict.fromkeys((".ipynb", ".css", ".sql", ".tex", ".yaml", ".yml", ".toml", ".ini"), "source code or settings"),
}  # fmt: skip
TWEETS = re.compile(rb"\s*window\.YTD\.")  # begins each file of an archive of X (Twitter), whose suffix is .js
TOKEN = re.compile(r"\S+([ \t]+\S+)*[ \t]+(O|[BIESLU]-\S+)")  # a word with its tag, in CoNLL
CONLL_U = re.compile(r"\d+(-\d+)?(\t[^\t]+){9}")  # a numbered word with its properties


def is_office(head: bytes) -> bool:
    """Tell from the name of its first member whether a ZIP archive is an office document."""
    return head.startswith(b"PK\3\4") and head[30:].startswith(OFFICE)


def check(head: bytes, name: str) -> None:
    """Raise DataError if a file is of a type that cannot be imported."""
    for beginning, what in BEGINNINGS.items():
        if re.match(beginning, head, re.DOTALL):
            raise DataError(f"{name} is {what}.")
    for inside, what in DOCUMENTS.items():
        if is_office(head) and inside in head:
            raise DataError(f"{name} is {what}: save its table as .xlsx or .csv, or its text as .txt.")
    if head.startswith(b"#!") or (Path(name).suffix.lower() in CODE and not TWEETS.match(head)):
        what = CODE.get(Path(name).suffix.lower(), "source code")
        raise DataError(f"{name} is {what}: if each of its lines is a text, say so (--reader txt).")
    if _is_conll(head.decode("utf-8", "replace")):
        raise DataError(
            f"{name} has one word with its tag in each line, as in CoNLL: labels are for whole texts, so join each "
            "sentence into a line, with its label."
        )


def _is_conll(text: str) -> bool:
    """Tell whether a text is in a CoNLL format: a tagged word in each line, and blank lines between sentences."""
    lines = [line.strip() for line in text.splitlines()[:500]][:-1]
    full = [line for line in lines if line and not line.startswith("#")]
    apart = bool(full) and "" in lines[lines.index(full[0]) :]
    return apart and any(all(map(pattern.fullmatch, full)) for pattern in (TOKEN, CONLL_U))

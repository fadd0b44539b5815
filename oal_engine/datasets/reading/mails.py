"""Read emails and mailboxes."""

from __future__ import annotations

import email
import email.policy
import html
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .foreign import foreign
from .parsed import Line, ParsedFile
from .sources import CHUNK_LINES, Source

COLUMNS = ("subject", "body", "from", "date")
HEADER = re.compile(r"(from|to|cc|subject|date|message-id|received|return-path|delivered-to|path|xref): ?\S", re.I)
HEADERS = 3  # number of different header fields that make the start of a file a mail


def looks_mailed(lines: list[str]) -> bool:
    """Tell whether lines are the beginning of an email or a mailbox."""
    if re.match(r"From \S+ ", lines[0]):
        return HEADER.match("".join(lines[1:2])) is not None
    names = {match[1].lower() for match in map(HEADER.match, lines) if match}
    return HEADER.match(lines[0]) is not None and len(names) >= HEADERS


@foreign
def mails(source: Source) -> ParsedFile:
    """Read an email (.eml), or a mailbox (.mbox) in which a line `From ...` begins each email."""
    return ParsedFile(list(COLUMNS), (_row(number, content, source.encoding) for number, content in _contents(source)))


def _contents(source: Source) -> Iterator[tuple[int, bytes]]:
    """Split a mailbox into emails. Yield the number of the first line and the bytes of each email."""
    start, lines = 1, list[bytes]()
    for number, line in enumerate(islice(source.binary, source.limit), 1):
        if number % CHUNK_LINES == 0:
            source.tick()
        if not line.startswith(b"From "):
            lines.append(line)
        elif lines:
            yield start, b"".join(lines)
            start, lines = number, []
    if lines:
        yield start, b"".join(lines)


def _row(number: int, content: bytes, encoding: str) -> Line:
    mail = email.message_from_bytes(content.removeprefix(b"\xef\xbb\xbf"), policy=email.policy.default)
    body = mail.get_body(("plain", "html"))
    words = "" if body is None else _decoded(body, encoding)
    if body and body.get_content_subtype() == "html":
        words = html.unescape(re.sub(r"<[^>]*>", " ", words))
    return number, [words.strip() if name == "body" else str(mail.get(name, "")) for name in COLUMNS]


def _decoded(body: Any, encoding: str) -> str:
    """Decode the body of an email in its declared charset, else in the encoding of the file, else as cp1252."""
    content = body.get_payload(decode=True) or b""
    for charset in (body.get_content_charset(), encoding):
        try:
            return str(content, charset or encoding)
        except (UnicodeError, LookupError):
            pass
    return str(content, "cp1252", "replace")

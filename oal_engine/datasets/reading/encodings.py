"""Guess the encoding of a text from zero bytes, or from how plausible its non-ASCII characters look when decoded."""

from __future__ import annotations

import codecs
import re
import unicodedata
from functools import partial
from typing import cast

MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # encodings by byte order mark, longer ones first
WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")  # texts in these contain zero bytes
WESTERN = ("cp1252", "cp1250", "mac_roman", "cp1254", "cp850")  # for texts that are mostly ASCII, by likelihood
FOREIGN_WORD = re.compile(rb"[\x80-\xff]{4}")  # in a text that is mostly ASCII, a word of another script
OTHERS = (
    "cp1252", "cp1251", "gb18030", "shift_jis", "cp1250", "cp1253", "cp1255", "cp1256", "koi8_r", "cp866", "euc_jp",
    "euc_kr", "big5",
)  # fmt: skip
DAMAGED = {"utf-8-cp1252": "as-cp1252", "utf-8-replace": "replace"}  # UTF-8 with invalid bytes: the error handler
GUESS_BYTES = 2**14  # from which an encoding is guessed
MAX_CHOICES = 3
MAX_OTHERS = 0.3  # share of the bytes that may be beyond ASCII in a text that is mostly ASCII
MAX_ODD = 0.4  # share of the non-ASCII characters that may be odd in a plausible encoding
EXCERPT_CHARACTERS = 25  # on each side of the doubtful character
IN_WORDS = "'’-–·"  # punctuation between two letters


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    part = cast(UnicodeDecodeError, error)
    return part.object[part.start : part.end].decode("cp1252", "replace"), part.end


codecs.register_error("as-cp1252", _as_cp1252)


def codec_of(encoding: str) -> tuple[str, str]:
    """Return the Python codec of an encoding, and the error handler for bytes that it cannot decode."""
    return "utf-8-sig" if encoding == "utf-8" or encoding in DAMAGED else encoding, DAMAGED.get(encoding, "strict")


def sure_encoding(head: bytes) -> str | None:
    """Return the encoding of a file if a byte order mark or zero bytes at its start make it certain, else None."""
    marked = next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)
    if marked or b"\0" not in head:
        return marked
    whole = head[: len(head) // 4 * 4]
    return next((each for each in WIDE if _is_text(whole.decode(each, "replace"))), None)


def _is_text(text: str) -> bool:
    """Tell whether a text was decoded well: over 2 % white space, no control, unassigned or replacement characters."""
    odd = any(unicodedata.category(each) in ("Cc", "Cn", "Co", "Cs") and each not in "\t\r\n" for each in text)
    return not odd and 50 * sum(map(str.isspace, text)) > len(text) and "\ufffd" not in text[:-2]


def encoding_excerpts(content: bytes, start: int) -> dict[str, str]:
    """Guess the encoding of bytes that are not UTF-8. Return {encoding: excerpt of a line}, the likeliest first; in the
    middle of the excerpts is a character on which the encodings disagree.

    start: index of the first byte that is not UTF-8.
    """
    here = content[content.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0]
    lines = [here, *(line for line in content[start:].split(b"\n")[1:] if not line.isascii())]
    text = content.decode("utf-8", "replace")
    is_damaged = sum(not each.isascii() and each != "\ufffd" for each in text) > text.count("\ufffd")
    likely = [*DAMAGED] if is_damaged else _plausible(b"\n".join(lines)[:GUESS_BYTES])
    if not likely:
        return {}
    line = max(lines[:100], key=lambda each: len({decoded(each, encoding) for encoding in likely}))
    texts = [decoded(line, encoding) for encoding in likely]
    doubtful = (at for at, characters in enumerate(zip(*texts)) if not characters[0].isascii())
    at = next((at for at, characters in enumerate(zip(*texts)) if len({*characters}) > 1), next(doubtful, 0))
    return {encoding: _excerpt(text, at) for encoding, text in zip(likely, texts)}


def decoded(content: bytes, encoding: str) -> str:
    """Decode a part of a text. The last character of the part may be incomplete."""
    codec, errors = codec_of(encoding)
    return content.decode(codec, "replace" if errors == "strict" else errors)


def _excerpt(text: str, at: int) -> str:
    """Cut an excerpt out of a text, around the index `at`, and put it on one line."""
    start, end = max(0, at - EXCERPT_CHARACTERS), at + EXCERPT_CHARACTERS
    return f"{'…' * (start > 0)}{' '.join(text[start:end].split())}{'…' * (end < len(text))}"


def _plausible(content: bytes) -> list[str]:
    """Return up to MAX_CHOICES plausible encodings of bytes, the likeliest first. They decode to different texts."""
    odds = {each: _odd_share(content, each) for each in WESTERN}
    likely = sorted((each for each in WESTERN if odds[each] <= MAX_ODD), key=odds.__getitem__)
    if sum(each >= 128 for each in content) > MAX_OTHERS * len(content):
        likely = _detected(content) or likely
    elif FOREIGN_WORD.search(content):
        foreign = (each for each in _detected(content) if each not in WESTERN)
        scripts = [each for each in foreign if _odd_share(content, each) <= MAX_ODD]
        likely = [*sorted(scripts[:3], key=partial(_capital_share, content))[:2], *likely]
    different: dict[str, str] = {}
    for encoding in likely:
        different.setdefault(decoded(content, encoding), encoding)
    return [*different.values()][:MAX_CHOICES]


def _odd_share(content: bytes, encoding: str) -> float:
    """Compute the share of the non-ASCII characters that are odd (see `_is_odd`), rounded to 1/20. Return 1 if bytes
    cannot be decoded."""
    text = f" {content.decode(encoding, 'replace')} "
    others = [at for at, each in enumerate(text) if not each.isascii()]
    if "\ufffd" in text[:-3] or any(unicodedata.category(text[at]) in ("Cc", "Cn", "Co") for at in others):
        return 1.0
    return round(20 * sum(_is_odd(text[at - 1], text[at], text[at + 1]) for at in others) / max(1, len(others))) / 20


def _capital_share(content: bytes, encoding: str) -> float:
    """Compute the share of capitals among the non-ASCII characters, rounded to 1/10. It is high in a wrong encoding."""
    others = [each for each in content.decode(encoding, "replace") if not each.isascii()]
    return round(10 * sum(map(str.isupper, others)) / max(1, len(others))) / 10


def _detected(content: bytes) -> list[str]:
    from charset_normalizer import from_bytes

    matches = from_bytes(content, cp_isolation=list(OTHERS))
    return [each for match in matches for each in OTHERS if each in match.could_be_from_charset]


def _is_odd(before: str, character: str, after: str) -> bool:
    """Tell whether a character is rare between its neighbors, like a capital or a sign between lower-case letters."""
    if character.isalpha():
        inside = before.islower() or (after.islower() and before.isupper() and not before.isascii())
        return (character.isupper() and inside) or before.isdigit() or after.isdigit()
    return before.isalpha() and after.isalpha() and character not in IN_WORDS


def encoded_twice(words: str) -> tuple[str, str] | None:
    """Find a word that was encoded as UTF-8 twice (mojibake), such as cafÃ©. Return it and its mended form, or None."""
    for word in words.split():
        if not word.isascii():
            try:
                return word, word.encode("cp1252").decode("utf-8")
            except UnicodeError:
                continue
    return None

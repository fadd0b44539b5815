"""Recognize scripts (writing systems), and split words where the script changes. Some scripts have no spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, cast
from unicodedata import normalize

_IDEOGRAPHS = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\uac00-\ud7a3\u1100-\u11ff"
_THAI, _LAO, _TIBETAN, _KHMER = "\u0e00-\u0e7f", "\u0e80-\u0eff", "\u0f00-\u0fff", "\u1780-\u17ff\u19e0-\u19ff"
_BURMESE = "\u1000-\u109f\u1950-\u19df\ua9e0-\ua9ff\uaa60-\uaa7f"  # and related scripts
UNSPACED = _IDEOGRAPHS + _KANA + _THAI + _LAO + _TIBETAN + _KHMER + _BURMESE
# Combining marks and joiners, in ranges that may include letters; no variation selectors, which belong to symbols.
# A fixed text, because data sets store the pattern, and Python's tables of characters change with its version.
_MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    r"\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711-\u07f3\u07fd\u0816-\u082d\u0859-\u085b\u0898-\u08e1\u08e3-\u0963"
    r"\u0981-\u09e3\u09fe-\u0a75\u0a81-\u0ae3\u0afa-\u0b63\u0b82-\u0bd7\u0c00-\u0c63\u0c81-\u0c83\u0cbc-\u0d4d"
    r"\u0d57-\u0d63\u0d81-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ecd\u0f18-\u0f19\u0f35\u0f37\u0f39\u0f3e-\u0f84"
    r"\u0f86-\u0fbc\u0fc6\u102b-\u103e\u1056-\u109d\u135d-\u135f\u1712-\u1734\u1752-\u17d3\u17dd\u1885-\u193b"
    r"\u1a17-\u1a1b\u1a55-\u1a7f\u1ab0-\u1b44\u1b6b-\u1b73\u1b80-\u1bf3\u1c24-\u1c37\u1cd0-\u1cd2\u1cd4-\u1dff"
    r"\u200c-\u200d\u20d0-\u20f0\u2cef-\u2cf1\u2d7f-\u2dff\u302a-\u302f\u3099-\u309a\ua66f-\ua672\ua674-\ua67d"
    r"\ua69e-\ua6f1\ua802-\ua827\ua82c\ua880-\ua8c5\ua8e0-\ua8f1\ua8ff-\ua92d\ua947-\ua953\ua980-\ua9c0\ua9e5-\uaa4d"
    r"\uaa7b-\uaac1\uaaeb-\uaaef\uaaf5-\uaaf6\uabe3-\uabea\uabec-\uabed\ufb1e\ufe20-\ufe2f\U000101fd-\U0001037a"
    r"\U00010a01-\U00010a3f\U00010ae5-\U00010ae6\U00010d24-\U00010eac\U00010f46-\U00010f50\U00010f82-\U00010f85"
    r"\U00011000-\U00011046\U00011070-\U000110ba\U000110c2\U00011100-\U00011134\U00011145-\U00011173"
    r"\U00011180-\U000111c0\U000111c9-\U000111cc\U000111ce-\U000111cf\U0001122c-\U00011237\U0001123e"
    r"\U000112df-\U00011446\U0001145e-\U000114c3\U000115af-\U000115c0\U000115dc-\U00011640\U000116ab-\U000116b7"
    r"\U0001171d-\U0001172b\U0001182c-\U0001183a\U00011930-\U00011943\U000119d1-\U000119e0\U000119e4-\U00011a3e"
    r"\U00011a47-\U00011a99\U00011c2f-\U00011c3f\U00011c92-\U00011ef6\U00016af0-\U00016af4\U00016b30-\U00016b36"
    r"\U00016f4f-\U00016f92\U00016fe4-\U00016ff1\U0001bc9d-\U0001bc9e\U0001cf00-\U0001cf46\U0001d165-\U0001d169"
    r"\U0001d16d-\U0001d172\U0001d17b-\U0001d182\U0001d185-\U0001d18b\U0001d1aa-\U0001d1ad\U0001d242-\U0001d244"
    r"\U0001da00-\U0001da36\U0001da3b-\U0001da6c\U0001da75\U0001da84\U0001da9b-\U0001e136\U0001e2ae-\U0001e2ef"
    r"\U0001e8d0-\U0001e94a"
)
WORD = rf"\w[\w{_MARKS}]*"
INVISIBLE = r"\u200b\u200e-\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # zero-width spaces, direction marks: a word ends
_RUN = re.compile(
    rf"(?P<characters>(?:[{_IDEOGRAPHS}{_KANA}]\W*)+)|(?P<clusters>(?:[{_THAI}{_LAO}{_TIBETAN}{_KHMER}{_BURMESE}]\W*)+)"
    rf"|(?P<syllables>(?:[{_HANGUL}]\W*)+)|(?P<word>(?:[^\W{UNSPACED}{_HANGUL}]\W*)+)"
)  # a run of a word in scripts of one kind; \W inside a word is a mark
_LETTER = re.compile(r"\w[\W\uff9e\uff9f]*")  # a letter and its marks, even voicing marks of half-width kana
_WIDE_OR_NARROW = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f]+")
TOGETHER = {"characters": 3, "clusters": 2}  # the most letters of a term, in scripts without spaces
BEGINNING = {"word": 5, "syllables": 2}  # first letters of a word that are a term, in other scripts
_CHARACTERS, _SYLLABLES = "characters, pairs and triples", "words and their first two syllables"
_CLUSTERS = "letters with their marks, and pairs of these"
_LANGUAGES = {
    "Chinese": (_IDEOGRAPHS, _CHARACTERS), "Japanese": (_IDEOGRAPHS + _KANA, _CHARACTERS),
    "Korean": (_HANGUL, _SYLLABLES), "Thai": (_THAI, _CLUSTERS), "Lao": (_LAO, _CLUSTERS),
    "Tibetan": (_TIBETAN, _CLUSTERS), "Khmer": (_KHMER, _CLUSTERS), "Burmese": (_BURMESE, _CLUSTERS),
}  # fmt: skip
_TOLD_FROM, _MOST_KANJI = 0.25, 0.95  # smallest share of a script to report; largest of kanji in Japanese
_LOOKED_AT, _BEGINNING = 1_000, 1_000  # texts, and characters of each, to recognize the script
# Vowel signs of Arabic and Hebrew, which few people type, zero-width joiners, and variation selectors of symbols
OPTIONAL = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u06e7-\u06e8\u06ea-\u06ed\u200d\ufe00-\ufe0f]"
)


class Part(NamedTuple):
    """A part of a word whose letters are all cut alike. kind: a key of TOGETHER or BEGINNING. units: for a key of
    TOGETHER, the letters with their marks; else the whole part. places: (start, end) of each unit in the word."""

    kind: str
    units: list[str]
    places: list[tuple[int, int]]


def same(text: str) -> str:
    """Normalize Unicode: compose marks with letters (NFC), unify full-width digits and letters and half-width kana."""
    return normalize("NFC", _WIDE_OR_NARROW.sub(lambda match: normalize("NFKC", match[0]), text))


def parts(word: str) -> Iterator[Part]:
    """Cut a word where its script changes."""
    for run in _RUN.finditer(word):
        kind, whole = cast(str, run.lastgroup), run.span()
        units = [each.span() for each in _LETTER.finditer(word, *whole)] if kind in TOGETHER else [whole]
        yield Part(kind, [same(word[start:end]) for start, end in units], units)


def sentence(texts: Iterable[str]) -> str:
    """Describe how terms are cut if at least 25 % of the letters are Chinese, Thai or the like, else return ""."""
    beginnings = (text[:_BEGINNING] for text in islice(texts, _LOOKED_AT))
    letters = "".join(re.findall(r"[^\W\d_]+", " ".join(beginnings)))
    counts = {name: len(re.findall(f"[{own}]", letters)) for name, (own, _) in _LANGUAGES.items()}
    if counts["Chinese"] > _MOST_KANJI * counts["Japanese"]:
        del counts["Japanese"]
    name = max(counts, key=counts.__getitem__)
    share = counts[name] / max(1, len(letters))
    if share < _TOLD_FROM:
        return ""
    return f"{100 * share:.0f} % of the letters are {name}: their terms are {_LANGUAGES[name][1]}."

"""The rules that turn label words into -1 and +1, or into 1..K."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import NamedTuple

import numpy as np

from .parsed import Columns, Skipped, cell_text, counted, is_number
from .sources import DataError

PAIRS = (
    ("1", "-1"),
    ("1", "0"),
    ("true", "false"),
    ("yes", "no"),
    ("positive", "negative"),
    ("relevant", "irrelevant"),
    ("relevant", "not relevant"),
    ("included", "excluded"),
    ("include", "exclude"),
    ("accept", "reject"),
    ("accepted", "rejected"),
    ("pos", "neg"),
    ("y", "n"),
    ("t", "f"),
    ("+", "-"),
    ("toxic", "non-toxic"),
    ("relevant", "non-relevant"),
    ("ja", "nein"),
    ("ja", "nee"),
    ("ja", "nej"),
    ("oui", "non"),
    ("sí", "no"),
    ("si", "no"),
    ("sì", "no"),
    ("sim", "não"),
    ("tak", "nie"),
    ("ano", "ne"),
    ("evet", "hayır"),
    ("да", "нет"),
    ("是", "否"),
    ("はい", "いいえ"),
    ("예", "아니요"),
)  # (positive, negative)
MORE_PAIRS = (("spam", "ham"), ("fake", "real"), ("malignant", "benign"))  # proposed, but never used without asking
GAPS = {"", "?", "na", "n/a", "#n/a", "nan", "null", "unlabeled", "unlabelled"}  # always "no label"
WEAK_GAPS = {"-", "--", ".", "none", "unknown", "unsure", "not sure", "maybe", "undecided", "ignore", "skip", "todo"}
MOST_NUMBERS = 10  # different numbers of a label column, up to which they are listed
COMPARISONS = {">=": ge, ">": gt, "<=": le, "<": lt}
THRESHOLD = re.compile(r"([<>]=?)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")  # a positive label such as >=0.5
LIST, QUOTED = re.compile(r'(?:\{"choices": ?)?\[([^\[\]]*)\]\}?'), re.compile(r"""(["'])(.*?)\1""")
HASH = r"#(?=\w)"  # before a label, but not at the end of one, as in C#
NEGATIONS = ("non", "not", "no", "un", "ir", "in", "dis")  # before a word that is positive
CLASSES = range(2, np.iinfo(np.int8).max + 1)  # allowed numbers of classes


class Proposal(NamedTuple):
    """The likely meaning of label words: which are positive, whether each is a class, and which mean "no label"."""

    positive: tuple[str, ...]
    each_word: bool
    unknown: tuple[str, ...]


def meanings(words: Skipped, columns: Columns, classes: tuple[str, ...], name: str) -> dict[str, int]:
    """Map label words to y: +1 or -1 (with classes: 1..K), or 0 for no label. words: {word: (count, first line)}."""
    unlabeled = dict.fromkeys(_gaps(words, columns), 0)
    words = _known_words(words, columns)
    if not classes:
        return _signs(words, columns, name) | unlabeled
    numbered = {"": 0} | {word: k for k, word in enumerate(classes, 1)}
    return {word: numbered[_canonical(word)] for word in words} | unlabeled


def later_meanings(words: Iterable[str], columns: Columns, imported: dict[str, int]) -> dict[str, int]:
    """Return {label word: y} for appended items. A word keeps its meaning from the import; a new set of labels is
    positive if one of its labels is, a new number if it is beyond the threshold."""
    if not has_rule(columns, imported):
        return spelled_otherwise(words, imported) | imported
    if columns.headings:
        signs = _signs_of_headings(words, columns)
    elif is_beyond := threshold(columns.positive, imported):
        signs = {word: 1 if is_beyond(word) else -1 for word in words if is_number(plain(word))}
    else:
        wanted = set(map(plain, columns.positive))
        signs = {word: -1 if wanted.isdisjoint(map(plain, label_parts([word]))) else 1 for word in words}
    return signs | imported


def spelled_otherwise(words: Iterable[str], imported: dict[str, int]) -> dict[str, int]:
    """Return {label word: y} for words that differ from imported ones only in case, blanks or the notation of a number,
    unless these have several meanings."""
    meanings_of: dict[str, set[int]] = {}
    for word, y in imported.items():
        meanings_of.setdefault(plain(word), set()).add(y)
    return {word: min(ys) for word in words if len(ys := meanings_of.get(plain(word), set())) == 1}


def has_rule(columns: Columns, words: Collection[str]) -> bool:
    """Tell whether a label word that is not among `words`, those of the import, has a meaning, too."""
    return columns.holds_sets or threshold(columns.positive, words) is not None


def threshold(positive: Sequence[str], words: Collection[str] = ()) -> Callable[[str], bool] | None:
    """Return the comparison that a single positive label such as >=0.5 means, unless it is one of the words."""
    match = THRESHOLD.fullmatch(positive[0].strip()) if len(positive) == 1 and positive[0] not in words else None
    return match and (lambda word: COMPARISONS[match[1]](float(word), float(match[2])))


def matching(wanted: str, words: Iterable[str]) -> set[str]:
    """Return the words that are the wanted one: in its own spelling, else in any case and with any blanks."""
    words = {*words}
    return {wanted} & words or {word for word in words if plain(word) == plain(wanted)}


def _gaps(words: Skipped, columns: Columns) -> set[str]:
    return gaps_among(words, columns.positive) if columns.unknown is None else {*columns.unknown}


def _known_words(words: Skipped, columns: Columns) -> Skipped:
    gaps = _gaps(words, columns)
    return {word: counts for word, counts in words.items() if word not in gaps}


def gaps_among(words: Iterable[str], positive: Collection[str] = ()) -> set[str]:
    """Return the label words that mean "no label", such as NA. A word that can also be a label, such as unknown, is
    included only if all other words are a pair such as 1 and 0."""
    gaps = {word for word in words if word and plain(word) in GAPS and word not in positive}
    rest = {plain(word) for word in words if word and word not in gaps}
    weak = rest & WEAK_GAPS
    if any({*pair} == rest - weak for pair in PAIRS):
        gaps |= {word for word in words if plain(word) in weak and word not in positive}
    return gaps


def parts(cell: str, separators: str = "") -> set[str]:
    """Split a cell into its different labels. They are separated by `separators` ("": by | ; or , else by # between
    words), or written as a Python, NumPy or JSON
    list, or as Label Studio choices."""
    separators = separators or ("[|;,]" if re.search("[|;,]", cell) else HASH)
    listed = LIST.fullmatch(cell)
    quoted = [word for _, word in QUOTED.findall(listed[1])] if listed else []
    return {*map(str.strip, quoted or re.split(separators, listed[1] if listed else cell))} - {""}


def label_parts(cells: Iterable[str]) -> Iterator[str]:
    """Yield the labels of cells that may hold several. A label that a cell repeats is yielded once for this cell."""
    for cell in cells:
        yield from parts(cell)


def may_be_gap(word: str) -> bool:
    """Tell whether a label word often means "no label"."""
    return plain(word) in GAPS | WEAK_GAPS


def are_clear(cells: Sequence[str], columns: Columns) -> bool:
    """Tell whether the meaning of these labels is clear without asking the user."""
    words = {word: (count, 0) for word, count in Counter(map(str.strip, cells)).items()}
    try:
        meanings(words, columns, classes_of(words, columns, "") if columns.multiclass else (), "")
    except DataError:
        return False
    return True


def answers(cells: Sequence[str], columns: Columns, name: str, gaps: bool = False) -> np.ndarray:
    """Convert the cells of a column to the labels +1 and -1 of a yes/no question. columns: `label` names the column;
    `positive` lists its positive words (not needed for a pair such as 1 and 0). gaps: use 0 for items without a label.
    Otherwise raise DataError for them."""
    words = {word: (count, 0) for word, count in Counter(map(str.strip, cells)).items()}
    signs = meanings(words, columns, (), name)
    y = np.array([signs[cell.strip()] for cell in cells], np.int8)
    if not (gaps or y.all()):
        raise DataError(
            f"Every item of {name} must have a label in column {columns.label!r}. {int((y == 0).sum()):,} have none."
        )
    return y


def classes_of(words: Skipped, columns: Columns, name: str) -> tuple[str, ...]:
    """Return the class names in natural order: numbers by value, then words (C2 before C10). Raise DataError if there
    are too few or too many."""
    counts: dict[str, int] = {}
    for word, (count, _) in _known_words(words, columns).items():
        counts[_canonical(word)] = counts.get(_canonical(word), 0) + count
    counts.pop("", None)
    if len(counts) not in CLASSES:
        raise DataError(
            f"Column {columns.label!r} of {name} must hold {CLASSES[0]} to {CLASSES[-1]} classes. Got {len(counts):,}"
            f"{': ' + counted(counts) if counts else ''}. Name another --label, or the rare class (--positive)."
        )
    return tuple(sorted(counts, key=natural))


def natural(word: str) -> tuple[int, float | str, str]:
    """Return a key for sorting in natural order: numbers by value, then words (C2 before C10)."""
    padded = re.sub(r"\d+", lambda digits: digits[0].zfill(20), word.casefold())
    return (0, float(word), word) if is_number(word) else (1, padded, word)


def _signs(words: Skipped, columns: Columns, name: str) -> dict[str, int]:
    """Map label words {word: (count, first line)} to +1, -1 or 0. Raise DataError if the meaning is unclear."""
    counts = {word: count for word, (count, _) in words.items() if word}
    holds = f"column {columns.label!r} of {name}, which holds {counted(counts)}."
    if columns.headings:
        signs = _signs_of_headings(counts, columns)
        if 1 not in signs.values():
            raise DataError(
                f"None of the {len(columns.positive):,} positive MeSH terms occurs in column {columns.label!r} of "
                f"{name}, which holds {counted(counts, 3) or 'none'}."
            )
        return {"": -1} | signs
    if counts and (is_beyond := threshold(columns.positive, counts)):
        if odd := next((word for word in counts if not is_number(word)), None):
            raise DataError(
                f"{columns.positive[0]} compares numbers. Got {odd!r} (--unknown {odd!r} means no label) in {holds}"
            )
        signs = {word: 1 if is_beyond(word) else -1 for word in counts}
        if 1 not in signs.values():
            raise DataError(f"No number is {columns.positive[0]} in {holds}")
        return {"": 0} | signs
    if columns.positive and counts:
        words_of = {word: {word, *(parts(word) if columns.contains else ())} for word in counts}
        occurring, wanted = set[str]().union(*words_of.values()), set[str]()
        for value in columns.positive:
            if not (same := matching(value, occurring)):
                raise DataError(f"The positive label {value!r} does not occur in {holds}")
            wanted |= same
        return {"": -1 if columns.contains else 0} | {word: 1 if words_of[word] & wanted else -1 for word in counts}
    pairs: Sequence[tuple[str, str]] = PAIRS
    for word in counts:
        if not (fitting := [pair for pair in pairs if plain(word) in pair]):
            odd = f"; {word!r} at line {words[word][1]:,} does not pair with the others" if pairs is not PAIRS else ""
            raise DataError(f"Column {columns.label!r} of {name} {_unclear(counts, odd)}")
        pairs = fitting
    return {"": 0} | {word: 1 if plain(word) == pairs[0][0] else -1 for word in counts}


def _unclear(counts: dict[str, int], odd: str) -> str:
    """Say which label words have no clear meaning, and how to give them one."""
    numbers = sorted((word for word in counts if is_number(word)), key=float)
    if len(numbers) == len(counts) > MOST_NUMBERS:
        start = f"{float(numbers[len(numbers) * 3 // 4]):.3g}"
        classes = ", make each number a class (--multiclass)" if len(counts) in CLASSES else ""
        return (
            f"holds {len(counts):,} different numbers, from {numbers[0]} to {numbers[-1]}: say from which on an item "
            f"is positive (--positive '>={start}'){classes}, or import no labels (--label '')."
        )
    if len(counts) == 1:
        [word] = counts
        return (
            f"has 1 label: {counted(counts)}. Say that it is the rare class (--positive {word!r}) and that empty cells "
            "are not (--contains), or import no labels (--label '')."
        )
    return (
        f"has {len(counts):,} labels: {counted(counts)}{odd}. Pick the labels of the rare class (--positive), "
        "make each word a class (--multiclass), name the words that mean no label (--unknown), or import no labels "
        "(--label '')."
    )


def _signs_of_headings(words: Iterable[str], columns: Columns) -> dict[str, int]:
    wanted = set(map(_heading, columns.positive))
    return {word: -1 if wanted.isdisjoint(map(_heading, word.split(";"))) else 1 for word in words}


def _heading(text: str) -> str:
    return text.partition("/")[0].strip(" *.").casefold()


def plain(word: str) -> str:
    """Normalize the case and the blanks of a label word, and the notation of a number."""
    return " ".join(_canonical(word.strip()).split()).casefold()


def _canonical(word: str) -> str:
    """Normalize the notation of a number: "1" for 1.0, "" for NaN. Return other words as they are."""
    return cell_text(float(word)) if is_number(word) else word


def propose(counts: Mapping[str, int]) -> Proposal:
    """Propose the meaning of label words {word: count}. Three or more words are classes. Of two words, the positive one
    is taken from a list of known pairs, else it is the word that the other one negates, else the rarer word."""
    gaps = gaps_among(counts)
    forms: dict[str, int] = {}
    for word in counts.keys() - gaps - {""}:
        forms[plain(word)] = forms.get(plain(word), 0) + counts[word]
    pair = next((each for each in (*PAIRS, *MORE_PAIRS) if forms and forms.keys() <= {*each}), None)
    if len(forms) > 2 or not forms:
        return Proposal((), len(forms) > 2, tuple(sorted(gaps)))
    negated = (
        each
        for each in forms
        for other in forms
        if other.endswith(each) and other.removesuffix(each).strip(" -_") in NEGATIONS
    )
    positive = pair[0] if pair else next(negated, min(forms, key=lambda each: (forms[each], each)))
    return Proposal(tuple(word for word in counts if plain(word) == positive), False, tuple(sorted(gaps)))

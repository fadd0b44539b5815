"""Encode the words in the columns of a table as numbers: categories, yes/no, money, percentages, grouped digits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .labels import GAPS as NO_WORD
from .labels import natural, plain
from .parsed import Cells, cell_text

if TYPE_CHECKING:
    from scipy import sparse

Coding: TypeAlias = str | Sequence[str]  # POINT, COMMA, one of BOOLEANS, or the words of a category
Codings: TypeAlias = Mapping[str, Coding]  # {column: coding}; columns of plain numbers have none

POINT, COMMA = "point", "comma"  # the decimal mark of formatted numbers
BOOLEANS = ("yes/no", "true/false", "t/f", "y/n")  # coded as 1 and 0
MAX_WORDS, MAX_CHARACTERS = 50, 100  # of a category, and of each of its words
MAX_DENSE_COLUMNS = 256  # up to which a coded table is dense, as Fourier features need it
NUMBER_SHARE = 0.9  # of the cells of a column of numbers must be numbers; the others may be any words
NO_NUMBER = {"", "?", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "."}  # words of an empty cell
UNITS = (
    r"(?:US\$|R\$|[$€£¥₹]|EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|HUF|RUB|BRL|MXN|ZAR|KRW|TRY|kr|zł)"
)
SPACE = r"[\s'’]"  # \s matches also the no-break spaces between groups of digits
DIGITS = {
    POINT: rf"(?:[1-9]\d{{0,2}}(?:(?:,|{SPACE})\d{{3}})+|\d+)(?:\.\d*)?|\.\d+",
    COMMA: rf"(?:[1-9]\d{{0,2}}(?:(?:\.|{SPACE})\d{{3}})+|\d+)(?:,\d*)?|,\d+",
}
FORMATTED = {
    mark: re.compile(rf"(\(?)\s*+([-+−]?)\s*+{UNITS}?\s*+([-+−]?)\s*+({digits})\s*+(?:%|{UNITS})?\s*+(\)?)")
    for mark, digits in DIGITS.items()
}
DATE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}(\1\d{1,4})?([T ].*)?|\d{1,2}:\d{2}(:\d{2}.*)?|\d{1,2}[- ][A-Za-z]{3,9}[- ,].*"
)


class ManyWordsError(Exception):
    """Raised if columns that looked like categories in the first rows have too many words in the whole file."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__()
        self.columns = columns


def formatted_number(cell: str, mark: str) -> float | None:
    """Parse a cell such as $1,234.50, (5) for -5, or 12% for 12. Return None for other cells. mark: POINT or COMMA."""
    if not (match := FORMATTED[mark].fullmatch(cell.strip())):
        return None
    opened, sign, inner_sign, digits, closed = match.groups()
    if bool(opened) != bool(closed) or (sign and inner_sign):
        return None
    number = re.sub(SPACE if mark == POINT else rf"\.|{SPACE}", "", digits)
    number = number.replace(",", "" if mark == POINT else ".")
    return -float(number) if opened or (sign or inner_sign) in {"-", "−"} else float(number)


def number_format(cells: Iterable[str]) -> str | None:
    """Detect the decimal mark of a column of formatted numbers. Return None if the mark is ambiguous, or if the column
    does not hold formatted numbers."""
    cells = [cell.strip() for cell in cells if cell.strip().casefold() not in NO_NUMBER]
    numbers = {mark: [formatted_number(cell, mark) for cell in cells] for mark in FORMATTED}
    fitting = [mark for mark in FORMATTED if sum(n is not None for n in numbers[mark]) >= NUMBER_SHARE * len(cells)]
    if len(fitting) < 2 or not cells:
        return fitting[0] if cells and fitting else None
    differing = [cell for cell, point, comma in zip(cells, *numbers.values()) if point != comma]
    return None if any("." in cell for cell in differing) else POINT  # 1,234 is a thousand, 1.234 could be one


def is_category(cells: Sequence[str]) -> bool:
    """Tell whether a column is a category: a few short words, not dates, that occur again and again."""
    filled = [word for cell in cells if plain(word := cell.strip()) not in NO_WORD]
    words = {*filled}
    fewest = 1 if len(filled) < len(cells) else 2  # a single word is a category only next to gaps
    if not fewest <= len(words) <= min(MAX_WORDS, max(2, len(cells) / 2)) or len(words) == len(filled):
        return False
    return max(map(len, words)) <= MAX_CHARACTERS and not are_dates(words)


def are_dates(words: Iterable[str]) -> bool:
    """Tell whether words are dates or times."""
    return all(DATE.fullmatch(word.strip()) for word in words)


def coding_of(cells: Sequence[str]) -> Coding | None:
    """Detect how the words of a column become numbers. Return the number format, () for a category (the import collects
    its words), or None if the words cannot become numbers."""
    return number_format(cells) or (() if is_category(cells) else None)


def _categories(columns: Sequence[str], codings: Codings) -> Iterator[tuple[str, Sequence[str] | None]]:
    """Yield each column with the words of its category; None if it is one number."""
    for column in columns:
        coding = codings.get(column)
        yield column, None if isinstance(coding, str) else coding


def feature_names(columns: Sequence[str], codings: Codings) -> list[str]:
    """Return the feature names: the name of each column, or, for a category, one per word, such as `job = admin`."""
    pairs = _categories(columns, codings)
    return [
        name
        for column, words in pairs
        for name in ([column] if words is None else [f"{column} = {word}" for word in words])
    ]


class OriginalCell(NamedTuple):
    """A decoded cell: its column, the index of its feature (for a category, of its word), and its word or number."""

    column: str
    feature: int
    value: str | float


def original_cells(columns: Sequence[str], codings: Codings, row: Mapping[int, float]) -> Iterator[OriginalCell]:
    """Decode a row {feature index: number} into cells. The value of a category is "" if its cell was empty or had a
    word that the import did not have."""
    first = 0
    for column, words in _categories(columns, codings):
        if words is None:
            number, coding = row.get(first, 0.0), str(codings.get(column))
            yield OriginalCell(column, first, coding.split("/")[number != 1] if coding in BOOLEANS else number)
            first += 1
            continue
        chosen = next((k for k in range(len(words)) if row.get(first + k)), None)
        yield OriginalCell(column, first + (chosen or 0), "" if chosen is None else words[chosen])
        first += len(words)


@dataclass
class Coder:
    """Encode the cells of the coded columns of a table as numbers.

    A word becomes its index in the list of words of its category, -1 for a gap or an unknown word. is_import: add new
    words to their category. n_unknown: number of cells with a word that the import did not have.
    """

    columns: Sequence[str]
    codings: Codings
    is_import: bool
    n_unknown: int = 0
    _places: dict[int, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._coded = [(at, self.codings[column]) for at, column in enumerate(self.columns) if column in self.codings]
        for at, coding in self._coded:
            if not isinstance(coding, str):
                self._places[at] = {word: k for k, word in enumerate(coding)}

    def __call__(self, cells: list[Any]) -> Cells:
        """Encode the coded cells of a row in place, and return the row. In a column of formatted numbers, a cell that
        is not a number stays as it is."""
        for at, coding in self._coded:
            if not isinstance(coding, str):
                cells[at] = self._place(self._places[at], cells[at])
            elif coding in BOOLEANS:
                cells[at] = self._is_yes(coding, cells[at])
            elif isinstance(cells[at], str):
                number = formatted_number(cells[at], coding)
                cells[at] = cells[at] if number is None else number
        return cells

    def _place(self, places: dict[str, int], cell: Any) -> int:
        word = cell_text(cell).strip()
        if word in places:
            return places[word]
        if plain(word) in NO_WORD:
            return -1
        if self.is_import and len(places) <= MAX_WORDS:
            return places.setdefault(word, len(places))
        same = next((place for other, place in places.items() if plain(other) == plain(word)), -1)
        self.n_unknown += same < 0
        return same

    def _is_yes(self, coding: str, cell: Any) -> float:
        word, (yes, no) = plain(cell_text(cell)), coding.split("/")
        self.n_unknown += word not in (yes, no) and word not in NO_WORD
        return float(word == yes)

    def finished(self, vectors: np.ndarray) -> tuple[np.ndarray, dict[str, Coding]]:
        """Sort the words that an import collected, so that their indices do not depend on the order of rows; a category
        of yes and no becomes 1 and 0. Return the vectors with the new numbers, and all codings. Raise ManyWordsError if
        a category has too many words."""
        if many := [self.columns[at] for at, places in self._places.items() if len(places) > MAX_WORDS]:
            raise ManyWordsError(many)
        vectors, codings = vectors.copy(), dict(self.codings)
        for at, places in self._places.items():
            words, numbers = sorted(places, key=natural), vectors[:, at].astype(int)
            pair = next((pair for pair in BOOLEANS if {*map(plain, words)} == {*pair.split("/")}), None)
            if pair and len(words) == 2 and (numbers >= 0).all():
                codings[self.columns[at]] = pair
                vectors[:, at] = [plain(word) == pair.split("/")[0] for word in places] @ (
                    numbers == np.arange(2)[:, None]
                )
                continue
            codings[self.columns[at]] = words
            new_places = np.array([*(words.index(word) for word in places), -1])
            vectors[:, at] = new_places[numbers]
        return vectors, codings


def expanded(vectors: np.ndarray, columns: Sequence[str], codings: Codings) -> np.ndarray | sparse.csr_array:
    """One-hot encode the categories: each word gets its own feature, which is 1 for the items with that word."""
    from scipy import sparse

    parts = [
        numbers[:, None] if words is None else numbers[:, None] == np.arange(len(words))
        for numbers, (_, words) in zip(vectors.T, _categories(columns, codings))
    ]
    if sum(part.shape[1] for part in parts) <= MAX_DENSE_COLUMNS:
        return np.hstack(parts).astype(np.float64, copy=False)
    return sparse.csr_array(sparse.hstack([sparse.csr_array(part, dtype=np.float64) for part in parts]))


def expanded_row(numbers: Sequence[float], columns: Sequence[str], codings: Codings) -> list[float]:
    """One-hot encode the categories of one row, as `expanded` does for a table."""
    row = list[float]()
    for number, (_, words) in zip(numbers, _categories(columns, codings)):
        row += [number] if words is None else [float(k == number) for k in range(len(words))]
    return row


def is_coding(value: Any) -> bool:
    """Tell whether a value from an untrusted file is a valid coding."""
    if isinstance(value, str):
        return value in (POINT, COMMA, *BOOLEANS)
    words = value if isinstance(value, list) else []
    return 0 < len(words) <= MAX_WORDS and all(isinstance(word, str) for word in words) and len({*words}) == len(words)

"""The roles of a table's columns, named by the user or guessed."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Columns:
    """The role of each column, and the label words that are positive.

    text: joined by a newline. label, id: None without such a column.
    features: columns of numbers (None: every numeric column of a file without texts). Next to a text a cell may hold a
        list, such as [0.5, -1]; all of them together are the vector of the text.
    positive: label words of the positive class.
    contains: a cell such as `exercise|food` is a set, cut at | ; and , and positive if one of its words is. An empty
        cell is negative.
    multiclass: each label word is a class of its own.
    unknown: label words that mean "no label" (None: NA, NULL and the like).
    headings: a cell holds MeSH headings such as `Heart Diseases/*TH; Human.`, and is positive if one of them is, apart
        from its qualifiers. An empty cell is negative, and positive words need not occur.
    missing: what to do about feature cells without a number, one of MISSING (None: refuse the file).
    fills: the numbers for such cells in later files.
    codings: how the words of feature columns become numbers, by column (see `codings`); empty: found in the file.
    guessed_id: if the ids repeat, items take their line numbers instead.
    details: further columns that are stored with the items (None: the first unused ones).
    shown_columns: details that are shown with an item (None: chosen by their names).
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    features: tuple[str, ...] | None = None
    positive: tuple[str, ...] = ()
    contains: bool = False
    multiclass: bool = False
    unknown: tuple[str, ...] | None = None
    headings: bool = False
    missing: str | None = None
    fills: dict[str, float] = field(default_factory=dict, compare=False)
    codings: dict[str, Any] = field(default_factory=dict, compare=False)
    guessed_id: bool = field(default=False, compare=False)
    details: tuple[str | None, ...] | None = None
    shown_columns: tuple[str, ...] | None = None

    @property
    def holds_sets(self) -> bool:
        """Whether a label cell is a set, so that a new cell has a meaning, too."""
        return self.contains or self.headings

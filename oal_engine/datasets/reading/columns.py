"""The roles of a table's columns, named by the user or guessed."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Columns:
    """The role of each column, and the label words that are positive.

    text: columns whose cells, joined by newlines, are the text. label, id: a column, or None if there is none.
    features: columns of numbers (None: every numeric column of a file without texts). In a file with texts, a cell may
        also hold a list, such as [0.5, -1]; the numbers of all these cells are the vector of the text.
    positive: label words of the positive class.
    contains: a label cell such as `exercise|food` is a set of labels, separated by | ; or , and is positive if one of
        its labels is. An empty cell is negative.
    multiclass: each label word is a class of its own.
    unknown: label words that mean "no label" (None: NA, NULL and the like).
    headings: a label cell holds MeSH headings such as `Heart Diseases/*TH; Human.`, and is positive if one of them,
        without its qualifiers, is. An empty cell is negative, and not all positive words need to occur.
    missing: treatment of feature cells without a number, one of MISSING (None: refuse the file).
    fills: {column: number} for such cells in later files.
    codings: {column: how its words become numbers} for feature columns, see codings.py (empty: detect it in the file).
    guessed: the roles that are guesses, not named by a user. If the cells of a guessed id repeat, the ids of the items
        are their line numbers instead.
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
    guessed: tuple[str, ...] = field(default=(), compare=False)
    details: tuple[str | None, ...] | None = None
    shown_columns: tuple[str, ...] | None = None

    @property
    def holds_sets(self) -> bool:
        """Whether a label cell is a set of labels, so that a new combination of labels has a meaning, too."""
        return self.contains or self.headings

"""Which columns of a table hold what, as it is said or guessed."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, and which label words are positive.

    `text` columns are joined by a newline; `features` are numbers (None: every numeric column where there is no text).
    Beside a text a cell of them may be a list, such as [0.5, -1]; all together are the vector of the text. With
    `contains` a cell such as `exercise|food` is a set, cut at | ; and , of which one must be positive. With `headings`
    it holds MeSH headings such as `Heart Diseases/*TH; Human.`, of which one must be positive without its qualifiers;
    not every positive word need occur. In both an empty cell is negative, else its label is unknown. With `multiclass`
    each label word is a class of its own. `unknown` are label words that say nothing. `missing` says what becomes of
    cells of features that hold no number, one of MISSING (None: such a file is refused); `fills` are the numbers for
    them in later files. `details` are other columns that are kept with the items (None: the first that are left), and
    `shown` those that are shown with them (None: those whose names say what they are).
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    features: tuple[str, ...] | None = None
    positive: tuple[str, ...] = ()
    contains: bool = False
    multiclass: bool = False
    unknown: tuple[str, ...] = ()
    headings: bool = False
    missing: str | None = None
    fills: dict[str, float] = field(default_factory=dict, compare=False)
    guessed_id: bool = field(default=False, compare=False)  # where it repeats, lines are numbered instead
    details: tuple[str | None, ...] | None = None
    shown: tuple[str, ...] | None = None

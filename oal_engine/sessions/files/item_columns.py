"""Columns of exported tables that describe the items: texts or numbers, tags, and other columns of their file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ...datasets import Dataset, columns_of
from ...datasets.reading import details
from ...output.tables import FEATURES, LABEL, TEXT, TITLE_AND_ABSTRACT, OutputTable, block_rows, blocks
from ...store import Row, Store
from ..log import Remarks
from ..session import Session
from ..settings import Settings

TAGS = "tags"
ANSWER, MODEL = "answer", "model"  # origins of a label, besides known labels


def seen(session: Session, item: int) -> Row:
    """Return the cells of an item that annotators may see, {name of column: cell}: all but those of audited columns."""
    columns = ItemColumns(session.store, session.settings, {"id": str}, True)
    cells, audited = next(columns.items([item])), session.settings.audited_columns
    hidden = [name for name, column in zip(columns.details, session.dataset.details) if column in audited]
    return {name: cells[name] for name in columns.columns if name not in hidden}


def text_of(cells: Row) -> str:
    """Return the text of an item or, if it has none, its cells with the names of their columns."""
    return cells.get(TEXT) or ", ".join(f"{name} = {cell}" for name, cell in cells.items())


def origin(row: Row) -> str:
    """Describe the origin of a known label, given its row of the log."""
    return f"known: {row['data']['origin']}"


class ItemColumns:
    """The columns of a table that describe the items. The texts or numbers (if `with_contents`) come before the label
    column. The tags, if the session has any, and further columns of the imported file come last.

    own: other columns of the table, {name: type}. titles: whether the first line of a text, its title, gets a column of
    its own. columns: all columns, {name: type}; contents: those of the texts or numbers. lot: rows made at a time.
    """

    def __init__(
        self, store: Store, settings: Settings, own: Mapping[str, type], with_contents: bool, titles: bool = False
    ) -> None:
        self.store, self.dataset, self.tags = store, settings.dataset, Remarks(store, settings.id).read()[1]
        record = store.dataset(self.dataset)
        self.texts = with_contents and record["kind"] == "text"
        self.tagged = {TAGS: str} if settings.tags or self.tags else dict[str, type]()
        self.titles, self.numbers = titles, None
        self.contents = dict[str, type]()
        reserved = {*own, *self.tagged, TEXT, FEATURES}
        if self.texts:
            self.contents = dict.fromkeys(TITLE_AND_ABSTRACT if titles else (TEXT,), str)
        elif with_contents:
            self.numbers = Dataset(store, self.dataset).numbers
            kinds = self.numbers.table_columns
            is_packed = kinds == {FEATURES: str}
            self.contents = kinds if is_packed else dict(zip(details.named(kinds, reserved), kinds.values()))
        self.details = details.named(columns_of(record).get("details", ()), reserved | {*self.contents})
        columns = [(name, kind) for name, kind in own.items() if name != TEXT]
        before = [*(name for name, _ in columns), LABEL].index(LABEL)
        columns[before:before] = self.contents.items()
        self.columns = dict(columns) | self.tagged | dict.fromkeys(self.details, str)
        self.lot = block_rows(len(self.contents))

    def items(self, positions: Sequence[int]) -> Iterator[Row]:
        """Yield the item at each position, in the given order, as {name of column: cell}."""
        for block in blocks(len(positions), self.lot):
            part = [*positions[block.start : block.stop]]
            items = self.store.items(self.dataset, part, self.texts)
            stored = self.store.details(self.dataset, part) if self.details else {}
            for position in part:
                item = items[position]
                words = details.title_and_abstract(item[TEXT]) if self.titles else (item.get(TEXT),)
                contents = self.numbers.cells(position) if self.numbers else words
                tags = dict.fromkeys(self.tagged, "|".join(self.tags.get(position, ())) or None)
                cells = dict(zip(self.details, (word or None for word in stored.get(position, ()))))
                item = {"id": item["id"], "position": position} | dict(zip(self.contents, contents))
                yield item | tags | dict.fromkeys(self.details) | cells

    def table(self, positions: Sequence[int], others: Iterable[Row]) -> OutputTable:
        """Return a table with a row for each item at `positions`. others: the other cells of each row, {name of column:
        cell}; further keys are ignored."""
        rows = (other | item for other, item in zip(others, self.items(positions)))
        return OutputTable(self.columns, map(itemgetter(*self.columns), rows), len(positions), self.lot)

"""Columns of exported tables that describe the items: texts or numbers, tags, and other columns of their file."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ...datasets import Dataset, columns_of
from ...datasets.reading import details
from ...output.tables import FEATURES, LABEL, TEXT, TITLE_AND_ABSTRACT, OutputTable, block_rows
from ...store import Row, Store
from ..remarks import Remarks
from ..settings import Settings

TAGS = "tags"
ANSWER, MODEL = "answer", "model"  # origins of a label, besides known labels


def origin(row: Row) -> str:
    """Describe the origin of a known label, given its row of the log."""
    return f"known: {row['data']['origin']}"


class ItemColumns:
    """The columns of a table that describe the items. The texts or numbers (if `with_contents`) come before the label
    column. The tags, if the session has any, and further columns of the imported file come last.

    own: other columns of the table, {name: type}. titles: whether to put the first line of each text, its title, into a
    column of its own. columns: all columns, {name: type}. lot: number of rows made at a time.
    """

    def __init__(
        self, store: Store, settings: Settings, own: Mapping[str, type], with_contents: bool, titles: bool = False
    ) -> None:
        self.store, self.dataset, self.tags = store, settings.dataset, Remarks(store, settings.id).tags
        record = store.dataset(self.dataset)
        self.texts = with_contents and record["kind"] == "text"
        self.tagged = {TAGS: str} if settings.tags or self.tags else dict[str, type]()
        self.titles = titles
        reserved = {*own, *self.tagged, TEXT, FEATURES}
        self.file, self.numbers = None, dict[str, type]()
        if with_contents and not self.texts:
            self.file = Dataset(store, self.dataset).numbers
            kinds = self.file.table_columns
            is_packed = kinds == {FEATURES: str}
            self.numbers = kinds if is_packed else dict(zip(details.named(kinds, reserved), kinds.values()))
        self.details = details.named(columns_of(record).get("details", ()), reserved | {*self.numbers})
        texts = TITLE_AND_ABSTRACT if titles else (TEXT,)
        self.contents: dict[str, type] = dict.fromkeys(texts, str) if self.texts else self.numbers
        columns = [(name, kind) for name, kind in own.items() if name != TEXT]
        before = [*(name for name, _ in columns), LABEL].index(LABEL)
        columns[before:before] = self.contents.items()
        self.columns = dict(columns) | self.tagged | dict.fromkeys(self.details, str)
        self.lot = block_rows(len(self.contents))

    def items(self, positions: Collection[int]) -> Iterator[Row]:
        """Yield the item at each position, in the given order, as {name of column: cell}."""
        by_position = self.store.items(self.dataset, positions, self.texts)
        stored = self.store.details(self.dataset, positions) if self.details else {}
        for position in positions:
            numbers = zip(self.numbers, self.file.cells(position)) if self.file else ()
            tags = dict.fromkeys(self.tagged, "|".join(self.tags.get(position, ())) or None)
            cells = dict(zip(self.details, (word or None for word in stored.get(position, ()))))
            item = by_position[position]
            titles = zip(TITLE_AND_ABSTRACT, details.title_and_abstract(item[TEXT])) if self.titles else ()
            yield item | dict(titles) | dict(numbers) | tags | dict.fromkeys(self.details) | cells

    def table(self, rows: Iterable[Row], size: int) -> OutputTable:
        """Return a table of `size` rows. Each row is {name of column: cell}; other keys are ignored."""
        cells = (tuple(row[name] for name in self.columns) for row in rows)
        return OutputTable.of_rows(self.columns, cells, size, self.lot)

"""OAL Studio from Python and in notebooks: data sets, sessions and comparisons behind one object, Studio.

It has no logic of its own. Files are imported by the command `import`. An open session wraps a `Session`, so that its
log, its replays and a browser see the same events. Tables are the tables of the exports.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import uuid4
from zipfile import ZipFile

import numpy as np
from scipy import sparse

from . import datasets, did_you_mean, experiments
from .cli import main as cli
from .cli.comparisons import Showing, write
from .cli.lists import DATASET, SESSION
from .datasets.search import Search
from .experiments import figures
from .experiments import report as results
from .kernel import metrics
from .kernel.estimates import BINARY
from .output import page
from .output.plots import METRICS
from .sessions.files import export as exports
from .sessions.files import report
from .sessions.files.item_columns import ItemColumns, seen, text_of
from .sessions.insights import estimates, outcome
from .sessions.log import StoredQuestion, asks
from .sessions.one_question import OneQuestion
from .sessions.session import Session
from .sessions.settings import SKIP, Options, SessionError, create
from .store import Store, StoreError

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

ORIGIN = "Python"  # origin of the labels that `know` stores


class Html(str):
    """A piece of HTML that a notebook displays."""

    _repr_html_ = str.__str__


@dataclass(frozen=True)
class Question:
    """A question of a session: its number, the probability with which it was asked, and the item: {column: cell}."""

    number: int
    probability: float
    item: dict[str, Any]
    stored: StoredQuestion

    @property
    def text(self) -> str:
        """The text of the item or, if it has none, its cells with the names of their columns."""
        return text_of(self.item)

    def _repr_html_(self) -> str:
        cells = [[page.head_cell(name), page.word_cell(cell)] for name, cell in self.item.items()]
        return page.html_table([f"Question {self.number:,}", ""], cells)


class OpenSession:
    """An open session. `for question in session` yields questions one by one; each needs an `answer` before the next.

    >>> session.answer(session.question, "sport")
    >>> session.answer(session.question, None)  # a skip
    >>> session.undo()
    >>> session.correct(1, "other")
    >>> session.know({"5": "sport"})
    []
    >>> session
    Session 1, days: 1 of 4 labels
    """

    def __init__(self, store: Store, session: int, annotator: str = "python") -> None:
        self._session, self.annotator = Session(store, session), annotator
        self.id, self.name = session, self._session.settings.name
        settings = self._session.settings
        self.classes = (not settings.audited and settings.question_names) or [*settings.names.values()]
        self._search = Search(self._session.dataset)

    def __iter__(self) -> Iterator[Question]:
        number = 0
        while question := self.question:
            if question.number == number:
                raise SessionError(f"question {number} has no answer yet: answer it, or skip it with None.")
            number = question.number
            yield question

    @property
    def question(self) -> Question | None:
        """The question that waits for this annotator, or None if there is none."""
        asked = next(iter(self._session.held(self.annotator)), None)
        return Question(asked.number, asked.probability, seen(self._session, asked.item), asked) if asked else None

    def answer(self, question: Question, word: str | Collection[str] | None) -> None:
        """Answer a question with the name of a class, or skip it with None; the answer is stored and learned. word: if
        the session asks several questions, the names of the questions whose answer is yes."""
        self._session.answer(uuid4().hex, question.stored.id, self._label(word, question.stored.parts), self.annotator)

    def correct(self, question: Question | int, word: str | Collection[str] | None) -> None:
        """Replace an earlier answer. question: the question, or its number in `labels`. word: as in `answer`."""
        number = question if isinstance(question, int) else question.number
        if (entry := next((each for each in self._session.log if each.number == number), None)) is None:
            raise SessionError(f"session {self.id} has no question {number}.")
        self._session.correct(uuid4().hex, entry.id, self._label(word, entry.parts), self.annotator)

    def undo(self) -> None:
        """Take back the last answer of this annotator."""
        if (previous := self._session.previous_of(self.annotator)) is None:
            raise SessionError("there is no answer to take back.")
        self._session.undo(uuid4().hex, previous, self.annotator)

    def add_question(self, name: str, guidelines: str = "", parent: str = "", **seeds: Sequence[str]) -> None:
        """Add a question, about all later items, to a session that asks several questions about each item. parent: the
        question that needs a yes before the new one is asked. seeds: `seed_words`, `seed_items` or `seed_texts`, with
        which its model begins."""
        self._session.add_question(uuid4().hex, name, guidelines, parent, self.annotator, **seeds)
        self.classes = self._session.settings.question_names

    def close_question(self, name: str) -> None:
        """Stop asking a question about later items, if the session asks several questions about each item."""
        self._session.close_question(uuid4().hex, name, self.annotator)

    def know(self, labels: Mapping[str, str | bool | None], question: str | None = None) -> list[str]:
        """Learn labels {item id: word} that are known from elsewhere and cost nothing; None makes an item unknown
        again. Return the ids of the items that were refused, because they were asked about or marked. question: if the
        session asks several questions about each item, the one that the labels answer, with True or False as words."""
        places = self._session.dataset.positions([*labels])
        if unknown := [item for item in labels if item not in places]:
            raise SessionError(f"{self._session.dataset.name} has no item {unknown[0]}.")
        label_of: Callable[[Any], Any] = self._label if question is None else partial(_yes_or_no, question)
        by_place = {places[item]: label_of(word) for item, word in labels.items()}
        refused = {*self._session.know(uuid4().hex, by_place, ORIGIN, self.annotator, question)} if by_place else set()
        return [item for item in labels if places[item] in refused]

    def add_labels(self, labels: int) -> None:
        """Add labels to the budget."""
        self._session.add_labels(uuid4().hex, labels, self.annotator)

    def find(self, words: str) -> pandas.DataFrame:
        """Return the items with all words, the best match first, then those nearest in meaning (see `Search.find`)."""
        import pandas

        columns = ItemColumns(self._session.store, self._session.settings, {"id": str}, True)
        return pandas.DataFrame(columns.items(self._search.find(words)), columns=[*columns.columns])

    def frame(self, what: str = "labels", texts: bool = True) -> pandas.DataFrame:
        """Return one of the tables of `export`: labels, decisions, predictions, positives, opinions or table."""
        if what not in exports.TABLES:
            allowed = ", ".join(exports.TABLES)
            raise ValueError(f"a frame must be one of {allowed}. Got {what}.{did_you_mean(what, exports.TABLES)}")
        self._session.refresh()
        if what == "labels":
            return exports.labels(self._session.store, self.id)[0].frame
        return exports.TABLES[what](self._session, texts)[0].frame

    labels = property(frame, doc="Every question with its answer, then the known labels, as `export` writes them.")

    @property
    def predictions(self) -> pandas.DataFrame:
        """The predictions of the current model for all items, with their probabilities, the highest margin first."""
        return self.frame("predictions")

    @property
    def metrics(self) -> pandas.DataFrame:
        """The metrics of both evaluations: exact if every item of the data has a label, else estimates with their 95 %
        intervals; attrs["reason"] says why an estimate is missing. If the session asks several questions, these are the
        estimates of each question, then their mean and the worst of them; if it audits a column, those of the column,
        alone, with the answers, and corrected."""
        import pandas

        self._session.refresh()
        names, keys = METRICS[self._session.multiclass], metrics.EVALUATIONS
        if self._session.settings.audited:
            judged = [(name, *each) for name, figures in outcome.judged(self._session) for each in figures.items()]
            lines = [(name, metric, *(value or [None] * 3)) for name, metric, value in judged]
            return pandas.DataFrame(lines, columns=["column", "metric", "value", "low", "high"])
        if questions := self._session.settings.question_names:
            return self._of_questions(questions)
        if self._session.labelled:
            exact = {key: self._session.evaluate(self._session.place.counts, key) for key in keys}
            rows = [(name, key, float(exact[key][name]), None, None) for name in names for key in keys]
            reason = None
        else:
            now = estimates.of_session(self._session)
            rows = [(name, key, *(now.metrics[key][name] or ())) for name in now.available for key in keys]
            reason = now.reason
        frame = pandas.DataFrame(rows, columns=["metric", "evaluation", "value", "low", "high"])
        frame.attrs["reason"] = reason
        return frame

    def _of_questions(self, questions: Sequence[str]) -> pandas.DataFrame:
        """Return the metrics of a session that asks several questions: for each metric a row per question, one for the
        mean, one for the worst question."""
        import pandas

        by_question = {name: estimates.of_session(OneQuestion(self._session, name)) for name in questions}
        rows: list[tuple[Any, ...]] = []
        for metric in BINARY:
            for key in metrics.EVALUATIONS:
                each = [(name, metric, key, *(now.metrics[key][metric] or ())) for name, now in by_question.items()]
                rows += [row for row in each if len(row) > 3]
                if overall := estimates.over(by_question, key, metric):
                    mean, worst, name = overall
                    rows += [("mean", metric, key, *mean), (f"worst: {name}", metric, key, *worst)]
        frame = pandas.DataFrame(rows, columns=["question", "metric", "evaluation", "value", "low", "high"])
        reasons = [f"{name}: {now.reason}" for name, now in by_question.items() if now.reason]
        frame.attrs["reason"] = " ".join(reasons) or None
        return frame

    @property
    def curves(self) -> Html:
        """The curves and metrics of the report, exact or estimated."""
        self._session.refresh()
        return Html("".join(report.quality(self._session)))

    def export(self, path: Path | str, what: str = "labels", texts: bool = True, **more: Any) -> None:
        """Write an export to a file, in the format of its suffix. more: options of `export`, such as format."""
        options = {"texts": texts} if what in exports.TABLES else {}
        cli.call("export", **options, **more, session=self.id, what=what, out=Path(path), db=self._session.store.path)

    def _label(self, word: str | Collection[str] | None, parts: Sequence[Sequence[float]] | None = None) -> Any:
        """Convert the name of a class to its label, or the names of the questions answered with yes to the labels of
        all questions. A yes to a question with a parent is also a yes to the parent."""
        several = self._session.several and not self._session.settings.audited
        if several and not isinstance(word, str) and {*(word or ())} <= {*self.classes}:
            records = self._session.settings.questions or ()
            yes = {*(word or ()), *(each.get("parent") for each in records if each["name"] in (word or ()))}
            return [
                SKIP if word is None or not asks(parts or (), k) else 1 if name in yes else -1
                for k, name in enumerate(self.classes)
            ]
        if word is not None and (several or word not in self.classes):
            raise SessionError(f"an answer must be {', '.join(self.classes)}, or None to skip. Got {word}.")
        return SKIP if word is None else [*self._session.names][self.classes.index(word)]

    def __repr__(self) -> str:
        progress = self._session.place.progress
        return f"Session {self.id}, {self.name}: {progress.labels:,} of {progress.budget:,} labels"

    def _repr_html_(self) -> str:
        self._session.refresh()
        rows = [[page.head_cell(name), page.word_cell(words)] for name, words in outcome.table(self._session)]
        return page.sentence(repr(self)) + page.html_table(["Until now", ""], rows)


def _yes_or_no(question: str, word: str | bool | None) -> int:
    """Convert True, False or None to the label of a question. Raise SessionError for any other answer."""
    if not (word is None or isinstance(word, bool)):
        raise SessionError(f"a label of {question} must be True, False, or None if it is not known. Got {word}.")
    return {True: 1, False: -1, None: SKIP}[word]


class Compared(experiments.Comparison):
    """A finished comparison, which a notebook displays as one table for each data set and budget."""

    @property
    def frame(self) -> pandas.DataFrame:
        """The results as a DataFrame: a row for each run of each line (see `Comparison`), with every metric."""
        return results.frame(self)

    def figure(self, **view: Any) -> Html:
        """Draw the curves. view: as in `export`."""
        with cli.errors_as_of_python():
            return Html(page.inline(results.svg(self, Showing(**view).view(self))))

    def export(self, path: Path | str, **view: Any) -> None:
        """Write the figure, a table or the report to a file; the suffix decides which. view: the options data, budget,
        metric, evaluation and over, as in the command `results`."""
        with cli.errors_as_of_python():
            write(self, Path(path), Showing(**view))

    def _repr_html_(self) -> str:
        parts = [page.sentence(results.caption(self, self.spec.evaluation))]
        for data, budget in self.blocks():
            parts.append(page.sentence(f"{data}, {figures.budget_name(budget)}"))
            parts.append(results.block_table(results.table(self, data, budget, self.spec.evaluation)))
        return "".join(parts)


class Studio:
    """A database with its data sets, sessions and comparisons.

    path: path of the database (None: the database of the app and the command line; ":memory:": a temporary database).

    >>> studio = Studio(":memory:")
    >>> days = studio.add({"km": [5, 0, 3, 0], "loaves": [0, 2, 0, 1]}, name="days")
    Read as parquet; 2 columns of numbers; no labels; lines are numbered.
    days: 4 items (no labels).
    >>> session = studio.new_session(days, budget=3, positive_name="sport", negative_name="other")
    >>> for question in session:
    ...     session.answer(question, "sport" if question.item["km"] else "other")
    >>> session.labels["class"].tolist()
    ['sport', 'other', 'sport']
    """

    def __init__(self, path: Path | str | None = None) -> None:
        if path == ":memory:":
            folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder, "studio.db")
        self.store = Store(path)
        datasets.sweep(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()

    def add(self, data: Any, name: str, labels: Sequence[Any] | None = None, **options: Any) -> datasets.Dataset:
        """Import a file, several files, or data in memory: a table of pandas, polars or pyarrow, a matrix of numpy or
        scipy.sparse, or a list of texts.

        labels: a label for each row or text of data in memory, or None for no label. options: options of the command
        `import`, such as text, label, id, positive, multiclass or delimiter.
        """
        with _files(data, labels) as files:
            cli.call("import", **options, files=files, name=name, db=self.store.path)
        return datasets.Dataset(self.store, name.strip())

    def audit(self, data: Any, judge: str, label: int, name: str, truth: str = "", **options: Any) -> OpenSession:
        """Import a file or data in memory with a column that a model made (`judge`), judge it by some answers (`label`:
        how many), and print how good it is. The column `truth` answers, or the terminal asks. options: options of the
        command `audit`."""
        with _files(data, None) as files:
            own = {"file": files[0], "name": name, "judge": judge, "labels": label, "label": truth}
            cli.call("audit", **own, **options, db=self.store.path)
        return self.session(name.strip())

    @property
    def data_sets(self) -> pandas.DataFrame:
        """The data sets, newest first."""
        return _frame(self.store.datasets(), DATASET)

    @property
    def sessions(self) -> pandas.DataFrame:
        """The sessions with their progress, the most recently worked on first."""
        return _frame(self.store.sessions(), SESSION)

    def new_session(
        self, data: datasets.Dataset | str | int, algorithm: str = "auto", budget: int = 100, *,
        annotator: str = "python", **settings: Any,
    ) -> OpenSession:  # fmt: skip
        """Create a session and open it. data: a data set, its name or id, or demo:NAME. settings: further settings of
        the session, as in docs/settings.md."""
        if isinstance(data, str) and data.startswith("demo:"):
            data = experiments.labeled_data(self.store, data)[0]
        key = data.id if isinstance(data, datasets.Dataset) else data
        allowed = signature(create).parameters.keys() | {each.name for each in fields(Options)}
        allowed -= {"store", "dataset", "options"}
        if wrong := settings.keys() - allowed:
            has, hint = ", ".join(sorted(allowed)), did_you_mean(min(wrong), allowed)
            raise SessionError(f"a session has no setting {min(wrong)}. It has {has}.{hint}")
        if algorithm == "auto" and self.store.dataset(key)["classes"] and "positive_class" not in settings:
            algorithm = "auto-classes"
        chosen = None if settings.keys() & {"learner", "rule"} else algorithm
        return OpenSession(self.store, create(self.store, key, chosen, budget=budget, **settings), annotator)

    def session(self, key: int | str, annotator: str = "python") -> OpenSession:
        """Open a session by its number, or by its name."""
        if isinstance(key, str):
            rows = self.store.sessions()
            ids = [row["id"] for row in rows if row["name"] == key]
            if len(ids) != 1:
                close = did_you_mean(key, [row["name"] for row in rows]) if not ids else ""
                raise StoreError(f"{len(ids) or 'no'} sessions are called {key}: give a number of `sessions`.{close}")
            key = int(ids[0])
        return OpenSession(self.store, key, annotator)

    def compare(
        self, data: str | Sequence[str], algorithms: Sequence[str] | Mapping[str, Any], *, name: str | None = None,
        executor: Any = None, **specification: Any,
    ) -> Compared:  # fmt: skip
        """Compare algorithms over labeled data. specification: settings as in docs/comparing.md, e.g. budgets=[100].

        >>> found = studio.compare("days", ["PA", "OAAL"], budgets=[3], permutations=2)
        >>> found.frame.groupby("algorithm")["push_f1"].mean().round(2).to_dict()
        {'OAAL': 0.76, 'PA': 1.0}
        """
        values = {"data": [data] if isinstance(data, str) else [*data], **specification}
        values["algorithms"] = dict(algorithms) if isinstance(algorithms, Mapping) else {key: {} for key in algorithms}
        return Compared(**vars(experiments.compare(experiments.specification(values), self.store, name, executor)))


@contextmanager
def _files(data: Any, labels: Sequence[Any] | None) -> Iterator[list[Path]]:
    """Yield the paths of the files to import, for `Studio.add`. Data in memory are written to a temporary file."""
    paths = [Path(data)] if isinstance(data, str | Path) else data
    if isinstance(paths, list | tuple) and paths and all(isinstance(each, Path) for each in paths):
        if labels is not None:
            raise ValueError("labels are for data in memory: name the column of a file with label='NAME'.")
        yield [*paths]
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, type(data).__name__)
        if sparse.issparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "biufc"):
            yield [_matrix_file(data, labels, path.with_suffix(".npz"))]
        else:
            yield [_table_file(data, labels, path.with_suffix(".parquet"))]


def _matrix_file(matrix: Any, labels: Sequence[Any] | None, path: Path) -> Path:
    """Write a matrix, dense or sparse, with the labels of its rows, if there are any. Return the path."""
    if sparse.issparse(matrix):
        sparse.save_npz(path, cast(Any, matrix).tocsr(), compressed=False)
    else:
        np.savez(path, X=matrix)
    if labels is not None:
        words = np.array(["" if each is None else str(each) for each in _as_many(labels, matrix.shape[0], "rows")])
        with ZipFile(path, "a") as archive, archive.open("y.npy", "w") as file:
            np.lib.format.write_array(file, words)
    return path


def _table_file(data: Any, labels: Sequence[Any] | None, path: Path) -> Path:
    """Write a table, or texts, with the labels of the rows, if there are any, as their last column. Return the path."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = _table(data)
        names = table.column_names
        if len({*names}) < len(names) or (labels is not None and "label" in names):
            raise ValueError(f"a column must have a name of its own. Got {', '.join(names)}.")
        if labels is not None:
            rows = "texts" if names == ["text"] else "rows"
            table = table.append_column("label", pa.array([*_as_many(labels, table.num_rows, rows)], from_pandas=True))
        parquet.write_table(table, path)
    except pa.ArrowException as error:
        raise ValueError(f"the cells of a column must have one type: {str(error).removesuffix('.')}.") from None
    return path


def _table(data: Any) -> pa.Table:
    """Return a table of pandas, polars, pyarrow or the like, a mapping of columns, or texts as a table of pyarrow."""
    import pandas
    import pyarrow as pa

    if isinstance(data, Mapping) or (isinstance(data, np.ndarray) and (data.ndim == 2 or data.dtype.names)):
        data = pandas.DataFrame(data)
    if isinstance(data, pandas.DataFrame):
        columns = [pa.array(data.iloc[:, k], from_pandas=True) for k in range(data.shape[1])]
        return pa.Table.from_arrays(columns, [str(name) for name in data.columns])
    if not hasattr(data, "__arrow_c_stream__") and hasattr(data, "to_arrow"):
        data = data.to_arrow()
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        column = pa.chunked_array(data if hasattr(data, "__arrow_c_stream__") else [pa.array(data)])
        if pa.types.is_struct(column.type):
            return pa.Table.from_struct_array(column)
        data = column.to_pylist()
    if not isinstance(data, Iterable):
        raise ValueError(f"data must be a file, a table, a matrix, or a list of texts. Got {type(data).__name__}.")
    texts = [*data]
    if wrong := [each for each in texts if not isinstance(each, str)]:
        raise ValueError(f"a list must hold texts, or paths of files. Got {type(wrong[0]).__name__}.")
    return pa.table({"text": pa.array(texts, pa.string())})


def _as_many(labels: Sequence[Any], number: int, what: str) -> Sequence[Any]:
    """Return the labels. Raise ValueError if they are not `number`, one for each of the texts or rows (`what`)."""
    if len(labels) != number:
        raise ValueError(f"labels must be as many as the {what}, {number:,}. Got {len(labels):,}.")
    return labels


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(rows, columns=[*columns]).set_index("id")

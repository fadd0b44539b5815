"""Run the tables and figures of the papers again. Each is a file `papers/PAPER/NAME.toml`, run as comparisons.

A file holds `title`, `protocol` and `note` (texts), `data` (see `read`), `columns`, and the claims `ahead`. All other
settings in it are settings of a comparison (`Specification`), and so are the settings in `papers/PAPER/paper.toml`,
which hold for all files of the paper. A column of a table is a comparison too, and overrides them. It has in addition:

- `factor`, `digits`: the criterion is shown times `factor`, rounded to `digits` decimals.
- `printed`: {algorithm: numbers of the paper}: mean and standard deviation of the criterion, then of sensitivity and of
  specificity in percent. All but the mean may be missing.
- `settings`: {algorithm: its settings in the paper, or the settings that come nearest to the printed numbers}.
- `algorithms`: names, if other algorithms run than the printed ones. `grids` of the paper has their values.

The text T_n/T_p is replaced by the class ratio of the data, and sqrt(T_n/T_p) by its root.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import groupby
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import datasets, places
from ..datasets import reading
from ..datasets.reading.sources import PhaseProgress
from ..kernel.metrics import more_is_better
from ..kernel.runs import class_ratio
from .comparison import Comparison
from .figures import budget_name
from .running import compare
from .significance import FEWEST_RUNS
from .specifications import FOLDS, ExperimentError, Setting, Specification, specification
from .tuned_runs import Result, asked_of, evaluate

if TYPE_CHECKING:
    from ..store import Store

DATA = places.PAPERS.parents[1] / "shared" / "data"
SHARED_FILE = "paper.toml"
PROSE = ("paper", "protocol")  # settings of SHARED_FILE that the page has once
OF_A_COMPARISON = {each.name for each in fields(Specification)}
NEEDS = {"counts": "texts", "standardize": "numbers"}  # scales that imports do not have
RATES = ("sensitivity", "specificity")
WITHIN = 2.0  # standard deviations that count as agreement
VERDICTS = ("exact", "agrees", "other rates", "better", "worse")  # the nearest to the paper first
TUNED, AS_PUBLISHED = "tuned", "as published"


@dataclass(frozen=True)
class Column:
    """A column of a published table: its figure, the numbers in the paper, and the settings of its comparison."""

    name: str
    specification: dict[str, Any]
    factor: float = 1.0
    digits: int = 3
    printed: Mapping[str, Sequence[float]] = ()  # type: ignore[assignment]
    settings: Mapping[str, Setting] = ()  # type: ignore[assignment]


@dataclass(frozen=True)
class Block:
    """A published table or figure on one data set. ahead: [algorithm, rivals ...] for each claim of the paper that the
    algorithm is ahead of them. within: largest difference from a printed number that counts as agreement (None: WITHIN
    standard deviations)."""

    name: str
    title: str
    protocol: str
    data: dict[str, Any]
    columns: list[Column]
    note: str = ""
    ahead: Sequence[Sequence[str]] = ()
    within: float | None = None

    @property
    def files(self) -> list[str]:
        """The names of the files that the block reads."""
        return [self.data[key] for key in ("file", "orders") if key in self.data]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: our numbers and the printed ones. numbers: mean and standard deviation of the criterion,
    of sensitivity and of specificity, as far as they exist. asked: share of the labels."""

    setting: Setting
    asked: float
    numbers: list[float]
    printed: Sequence[float]
    verdict: str | None


def names() -> dict[str, Path]:
    """Return the files of all tables and figures, by name: the name of the folder, then the name of the file."""
    paths = sorted(path for path in places.PAPERS.glob("*/*.toml") if path.name != SHARED_FILE)
    return {f"{path.parent.name}-{path.stem}": path for path in paths}


def block(name: str) -> Block:
    """Read the file of a table or figure. Raise ExperimentError if there is none of this name."""
    paths = names()
    if name not in paths:
        raise ExperimentError(f"a table or figure must be all or one of {', '.join(paths)}. Got {name}.")
    shared, own = _paper(paths[name].parent), tomllib.loads(paths[name].read_text(encoding="utf-8"))
    values = {"protocol": ""} | {key: value for key, value in shared.items() if key not in PROSE} | own
    grids = values.pop("grids")
    compared = {key: values.pop(key) for key in [*values] if key in OF_A_COMPARISON - {"data"}}
    columns = []
    for title, column in values.pop("columns").items():
        spec = {"points": 1} | compared | {key: column.pop(key) for key in [*column] if key in OF_A_COMPARISON}
        algorithms = spec.get("algorithms", column.get("printed", ()))
        spec["algorithms"] = {each: grids.get(each, {}) for each in algorithms}
        columns.append(Column(title, spec, **column))
    return Block(name, **values | {"columns": columns})


def _paper(folder: Path) -> dict[str, Any]:
    """Read the settings that all tables and figures of a paper share, such as its title `paper`."""
    return tomllib.loads((folder / SHARED_FILE).read_text(encoding="utf-8"))


def reproduce(
    name: str,
    store: Store,
    path: Path | str | None = None,
    positive: Sequence[str] = (),
    permutations: int | None = None,
    progress: PhaseProgress | None = None,
) -> dict[str, Any]:
    """Run a table or figure again. Return its description, cells, claims and summary as JSON.

    Comparisons and data are kept in the store, from which a run that was stopped is resumed. path: the folder of the
    published data, or a file of one's own to run on instead, whose rare class has the labels `positive`. permutations:
    number of orders (None: as published).
    """
    wanted, path = block(name), Path(path or DATA)
    own = path.is_file()
    if missing := [file for file in wanted.files if not own and not (path / file).is_file()]:
        raise ExperimentError(f"{name} needs the file {missing[0]}, which is not in {path}: say where with --data.")
    entry, ratio = _stored(store, wanted, path, positive)
    cells: dict[str, dict[str, Cell]] = {}
    column_of: dict[str, Column] = {}
    for column in wanted.columns:
        for kind, spec in _specifications(column, entry, ratio, permutations):
            run = f"{entry['name']} {column.name}{'' if kind == TUNED else f', {kind}'}"
            run += f", {permutations} orders" if permutations else ""
            result = compare(spec, store, run, folder=path, progress=progress and partial(progress, run))
            for title, row, cell in _cells(wanted, replace(column, printed={}) if own else column, kind, result):
                column_of[title] = column
                cells.setdefault(title, {})[row] = cell
    first = wanted.columns[0].specification
    orders = permutations or first["permutations"] // (FOLDS if first.get("held_out") else 1)
    claims = [_claim(ahead, cells, column_of, orders) for ahead in wanted.ahead]
    files = [path.name] if own else wanted.files
    return {
        "name": name, "title": wanted.title, "files": files, "protocol": wanted.protocol,
        "note": "" if own else wanted.note, "orders": orders,
        "digits": {title: column.digits for title, column in column_of.items()},
        "columns": {title: {row: vars(cell) for row, cell in rows.items()} for title, rows in cells.items()},
        "claims": claims, "summary": " ".join([*_agreement(cells), *map(_claimed, claims)]),
    }  # fmt: skip


# ---- Data


def _stored(store: Store, block: Block, path: Path, positive: Sequence[str] = ()) -> tuple[dict[str, Any], float]:
    """Import the data of a block, or a file of one's own, unless it is stored. Return its entry in a specification, and
    its class ratio T_n / T_p."""
    own = path.is_file()
    how = {key: value for key, value in block.data.items() if key not in ("file", "orders", "zero_rows")}
    of_run = {"zero_rows": block.data["zero_rows"]} if "zero_rows" in block.data else {}
    if own:
        how = {key: how[key] for key in ("scale", "multiclass") if key in how} | (
            {"positive": positive} if positive else {}
        )
    elif "orders" in block.data:
        of_run["orders"] = block.data["orders"]
    file = path if own else path / block.data["file"]
    name = block.name
    if own:  # a changed file, or another rare class, is not taken for data that are stored
        digest = hashlib.sha256(path.read_bytes() + repr(positive).encode()).hexdigest()[:8]
        name = f"{block.name} on {path.name} {digest}"
    if not store.has_dataset(name):
        datasets.add(store, name, read(file, **how), file)
    return {"name": name, "file": file.name} | of_run, class_ratio(datasets.Dataset(store, name).y)


def read(
    path: Path,
    scale: str = "l2",
    first: int | None = None,
    among: Sequence[str] = (),
    vocabulary: Mapping[str, Any] | tuple[()] = (),
    **columns: Any,
) -> datasets.FeatureTable:
    """Read a data file, or only its `first` rows, or only the items with one of the labels `among`.

    scale: a scaling of imports; `standardize` makes every column of standard deviation 1, and of mean 0 unless the rows
    are sparse; `counts` counts the words of texts, without the most common English ones. vocabulary: settings of the
    tf-idf rows or, with `counts`, of CountVectorizer. columns: as in `reading.Columns`.
    """
    columns = {key: tuple(value) if isinstance(value, list) else value for key, value in columns.items()}
    items = reading.read(path, replace(reading.peek(path).guess, features=None, **columns))
    if first and items.vectors is not None:
        items = replace(items, vectors=items.vectors[:first], y=items.y[:first])
    if among:
        items = items.take(np.flatnonzero(np.isin(items.labels, among)))
    if scale in NEEDS and (items.texts is None) == (scale == "counts"):
        raise ExperimentError(f"the scale {scale} needs {NEEDS[scale]}. Got {path.name}.")
    if scale == "counts":
        return _table_of(items, _word_counts(items.texts or (), **dict(vocabulary)))
    if scale == "standardize":
        from scipy import sparse
        from sklearn.preprocessing import StandardScaler

        return _table_of(
            items, StandardScaler(with_mean=not sparse.issparse(items.vectors)).fit_transform(items.vectors)
        )
    return datasets.table(items, scale, **{"tokenizer": "words"} | dict(vocabulary))


def _table_of(items: reading.Items, matrix: Any) -> datasets.FeatureTable:
    """Return these rows, unchanged, as the rows of the items."""
    return datasets.table(replace(items, texts=None, vectors=matrix), "none")


def _word_counts(texts: Sequence[str], **settings: Any) -> Any:
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(stop_words="english", token_pattern="[a-z]{3,}", **settings)  # noqa: S106
    return sparse.csr_array(words.fit_transform(texts).astype(np.float64))


# ---- Comparisons


def _specifications(
    column: Column, entry: Mapping[str, Any], ratio: float, permutations: int | None
) -> Iterator[tuple[str, Specification]]:
    """Yield the comparisons of a column by kind: the algorithms with tuned settings, and those with published ones."""
    values = column.specification | {"data": [dict(entry)]}
    if permutations:
        values["permutations"] = permutations * FOLDS if values.get("held_out") else permutations
    if values["algorithms"]:
        yield TUNED, specification(_with_ratio(values, ratio))
    if column.settings:
        yield AS_PUBLISHED, specification(_with_ratio(values | {"algorithms": column.settings, "tune": "none"}, ratio))


def _with_ratio(value: Any, ratio: float) -> Any:
    """Replace the texts T_n/T_p and sqrt(T_n/T_p) by numbers, however deep they are."""
    if isinstance(value, Mapping):
        return {key: _with_ratio(each, ratio) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_ratio(each, ratio) for each in value]
    return {"T_n/T_p": ratio, "sqrt(T_n/T_p)": sqrt(ratio)}.get(value, value) if isinstance(value, str) else value


def _cells(block: Block, column: Column, kind: str, comparison: Comparison) -> Iterator[tuple[str, str, Cell]]:
    """Yield (title of the column, row, cell) for each result line of a comparison."""
    blocks = comparison.blocks()
    for (_, limit), lines in blocks.items():
        title = column.name if len(blocks) == 1 else f"{column.name}, {budget_name(limit)}"
        for name, line in lines.items():
            row = name if kind == TUNED else f"{line.algorithm}, {kind}"
            yield title, row, _cell(block, column, comparison.spec, line)


def _cell(block: Block, column: Column, spec: Specification, line: Result) -> Cell:
    counts = line.counts[:, -1]
    if spec.held_out:  # five runs test each item once: together they are one run
        counts = counts.reshape(-1, FOLDS, *counts.shape[1:]).sum(1)
    measured = evaluate(spec, line.classes, line.setting, counts, spec.evaluation)
    values = [column.factor * measured[spec.criterion]]
    if not line.classes and spec.criterion in ("sum", "cost"):
        values += [100 * measured[rate] for rate in RATES]
    numbers = [part for each in values for part in (float(each.mean()), float(each.std(ddof=min(1, each.size - 1))))]
    printed = column.printed.get(line.algorithm, ()) if column.printed else ()
    verdict = _verdict(block, column, spec, numbers, printed) if printed else None
    return Cell(line.setting, float(asked_of(counts).sum() / counts.sum()), numbers, printed, verdict)


def _verdict(block: Block, column: Column, spec: Specification, ours: Sequence[float], printed: Sequence[float]) -> str:
    """Compare our numbers with the printed ones: exact to the last digit, agrees, better, worse, or, if only
    sensitivity or specificity is not as printed, other rates."""
    verdicts = []
    for at in range(0, len(printed), 2):
        (mean, spread), (theirs, *their_spread) = ours[at : at + 2], printed[at : at + 2]
        digits = column.digits if at == 0 else 3
        rounded = [round(mean, digits), round(spread, digits)]
        is_near = abs(mean - theirs) <= (block.within or WITHIN * (sum(their_spread) or spread or 1))
        verdicts.append("exact" if rounded[: 1 + len(their_spread)] == [theirs, *their_spread] else is_near)
    if not verdicts[0]:
        return "better" if (ours[0] - printed[0]) * spec.sign > 0 else "worse"
    if not all(verdicts):
        return "other rates"
    return "exact" if {"exact"} == {*verdicts} else "agrees"


# ---- Summary and page


def _verdicts(cells: Mapping[str, Cell]) -> dict[str, str]:
    """Return the verdict of each printed algorithm: of its tuned or its published settings, whichever is nearer."""
    verdicts: dict[str, str] = {}
    for row, cell in cells.items():
        if cell.verdict:
            name = row.removesuffix(f", {AS_PUBLISHED}")
            verdicts[name] = min(cell.verdict, verdicts.get(name, cell.verdict), key=VERDICTS.index)
    return verdicts


def _agreement(cells: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """Say how many cells agree with the printed numbers, and name all others."""
    by_verdict: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for title, rows in cells.items():
        for name, verdict in _verdicts(rows).items():
            by_verdict[verdict].append(f"{name} ({title})")
    if count := sum(map(len, by_verdict.values())):
        exact, near = (len(by_verdict[verdict]) for verdict in VERDICTS[:2])
        yield f"Of {count} published figures {exact} are exact and {near} agree."
    for verdict in VERDICTS[2:]:
        if by_verdict[verdict]:
            yield f"{verdict.capitalize()}: {', '.join(by_verdict[verdict])}."


def _claim(
    ahead: Sequence[str], cells: Mapping[str, Mapping[str, Cell]], column_of: Mapping[str, Column], orders: int
) -> dict[str, Any]:
    """Say for each column whether an algorithm is ahead of, level with or behind the best of its rivals, by more than
    the larger of their standard deviations."""
    name, *rivals = ahead
    verdicts = {}
    for title, rows in cells.items():
        if {name, *rivals} <= rows.keys():
            sign = 1 if more_is_better(column_of[title].specification["criterion"]) else -1
            best = max((rows[rival].numbers for rival in rivals), key=lambda numbers: sign * numbers[0])
            by, spread = sign * (rows[name].numbers[0] - best[0]), max(rows[name].numbers[1], best[1])
            verdict = "ahead" if by > spread else "behind" if by < -spread else "level"
            verdicts[title] = verdict if orders >= FEWEST_RUNS else "too few runs to tell"
    return {"ahead": name, "of": rivals, "verdicts": verdicts}


def _claimed(claim: Mapping[str, Any]) -> str:
    counts = Counter(claim["verdicts"].values())
    counted = ", ".join(f"{verdict} in {count}" for verdict, count in sorted(counts.items())) or "not run"
    return f"{claim['ahead']} against {' and '.join(claim['of'])}: {counted}."


def listed() -> list[dict[str, Any]]:
    """Describe each table and figure: its name, title, files and protocol."""
    blocks = map(block, names())
    return [{key: getattr(each, key) for key in ("name", "title", "files", "protocol")} for each in blocks]


def markdown(result: Mapping[str, Any]) -> str:
    """Format the result of `reproduce` as a section of Markdown."""
    section = [
        f"## {result['name']}", f"{result['title']}. Data: {', '.join(result['files'])}. {result['orders']} orders.",
        f"**{result['summary']}**" if result["summary"] else "", result["protocol"], result["note"], _table(result),
    ]  # fmt: skip
    return "\n\n".join(filter(None, section)) + "\n"


def _table(result: Mapping[str, Any]) -> str:
    """Format all cells as one table of Markdown, a line each; a published setting comes after the tuned one."""
    lines = []
    for title, cells in result["columns"].items():
        first = dict.fromkeys(row.removesuffix(f", {AS_PUBLISHED}") for row in cells)
        for row in (row for each in first for row in (each, f"{each}, {AS_PUBLISHED}") if row in cells):
            tuned = cells.get(row.removesuffix(f", {AS_PUBLISHED}"), {})
            if row not in first and cells[row]["setting"] == tuned.get("setting"):
                continue  # it is the tuned one
            lines.append({"": title, "algorithm": row} | _words(cells[row], result["digits"][title]))
    heads = [head for head in lines[0] if any(line[head] for line in lines)] if lines else []
    table = [heads, ["---"] * len(heads), *([line[head] for head in heads] for line in lines)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table)


def _words(cell: Mapping[str, Any], digits: int) -> dict[str, str]:
    """Return the texts of a cell, by the heads of the table."""
    printed = cell["printed"]
    return {
        "ours": _numbers(cell["numbers"], digits), "published": _numbers(printed, digits) if printed else "",
        "verdict": cell["verdict"] or "", "asked": f"{cell['asked']:.2%}" if 0 < cell["asked"] < 1 else "",
        "setting": ", ".join(f"{key} = {_short(value)}" for key, value in cell["setting"].items()),
    }  # fmt: skip


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _numbers(numbers: Sequence[float], digits: int) -> str:
    """Format mean ± standard deviation, with sensitivity and specificity in brackets."""
    mean, *spread = (f"{number:.{digits}f}" for number in numbers[:2])
    rates = " / ".join(f"{number:.1f}" for number in numbers[2::2])
    return " ± ".join([mean, *spread]) + (f" ({rates})" if rates else "")


def sections(page: str) -> dict[str, str]:
    """Split a page into its sections: {name of the table or figure: section}."""
    parts = re.split(r"^(?=##? )", page, flags=re.MULTILINE)
    return {part.split()[1]: part for part in parts if part.startswith("## ")}


def page(sections: Mapping[str, str]) -> str:
    """Join sections into a page of Markdown, after the prose of `papers/README.md` and of each paper."""
    page = [(places.PAPERS / "README.md").read_text(encoding="utf-8").strip()]
    for folder, of_paper in groupby(names().items(), lambda each: each[1].parent):
        parts = [sections[name].strip() for name, _ in of_paper if name in sections]
        paper = _paper(folder)
        page += [f"# {paper['paper']}", paper["protocol"], *parts] if parts else []
    return "\n\n".join(page) + "\n"

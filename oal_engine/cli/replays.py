"""The command that replays labelled data."""

import json
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from .. import datasets, experiments
from ..datasets import formats
from ..experiments import replays
from ..kernel import metrics
from ..kernel.algorithms import Strategy, strategy
from ..reproduction.protocols import recorded
from ..store import Store
from .files import Importing, Reading
from .options import Db, Json, number, pairs
from .terminal import draw


@dataclass(frozen=True)
class Running:
    """How a strategy is run and measured."""

    budget: Annotated[int | None, typer.Option(min=0, help="Maximum number of labels (default: no limit).")] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of random draws and orders.")] = 0
    permutations: Annotated[
        int | None, typer.Option(min=1, help="Number of runs, each in a random order (default: one in stored order).")
    ] = None
    rho: Annotated[
        str, typer.Option(help="Weight of positives: auto (from all labels), laplace (from those asked), or a number.")
    ] = "auto"
    metric: Annotated[str, typer.Option(help="The metric that rho is chosen for: sum or cost.")] = "sum"
    alpha_p: Annotated[float, typer.Option(help="Weight of sensitivity in sum.")] = 0.5
    c_p: Annotated[float, typer.Option(help="Cost of a missed positive.")] = 0.9
    theta: Annotated[float, typer.Option(help="Margins from here on predict positive.")] = 0.0
    average: Annotated[bool, typer.Option("--average", help="Average the weights once the budget is spent.")] = False
    audit: Annotated[float, typer.Option(help="Share of the budget for random checks along the stream.")] = 0.0
    audit_trains: Annotated[bool, typer.Option(help="Whether the learner trains on random checks.")] = True
    pace: Annotated[
        float | None, typer.Option(help="Share of the stream over which the rest of the budget is spread evenly.")
    ] = None


def replay(
    source: Annotated[str, typer.Argument(metavar="DATA", help="A data set, demo:NAME, NAME=CLASS, or a file.")],
    *,
    algorithm: Annotated[str | None, typer.Option(help="A published algorithm; `algorithms` lists them.")] = None,
    learner: Annotated[str | None, typer.Option(help="A learner, together with --rule.")] = None,
    rule: Annotated[str | None, typer.Option(help="A query rule, together with --learner.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter; repeatable.")
    ] = None,
    orders: Annotated[Path | None, typer.Option(help="A file with one order per line, rows counted from 1.")] = None,
    running: Running,
    importing: Importing,
    reading: Reading,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Run an algorithm over data whose labels are known, and print its metrics under both evaluations."""
    values = {key: number(value, key, "a number") for key, value in pairs("--set", settings)}
    chosen = strategy(algorithm, learner, rule, values)
    if orders and running.permutations:
        raise ValueError("--orders FILE and --permutations NUMBER cannot be given together.")
    data: datasets.Table | datasets.Dataset
    if Path(source).is_file():
        data, positive = _read(source, chosen, importing, reading), importing.positive
    else:
        data, positive = _stored(source, chosen, importing, reading, db)
    visits = recorded(orders, data.y.size) if orders else None
    result = replays.replay(chosen, data, visits, positive=positive, **asdict(running))
    print(json.dumps(result)) if as_json else _print(result)


def _read(path: str, chosen: Strategy, importing: Importing, reading: Reading) -> datasets.Table:
    """The rows and labels of a file, which is read for this replay only."""
    columns = importing.columns(path, reading)
    if chosen.multiclass and not importing.positive:
        columns = replace(columns, multiclass=True)
    items = formats.read(path, columns, **reading.arguments)
    return datasets.table(items, importing.scale or "l2", tokenizer=importing.tokenizer)


def _stored(
    name: str, chosen: Strategy, importing: Importing, reading: Reading, db: Path | None
) -> tuple[datasets.Dataset, list[str] | None]:
    """A stored data set, and the class that is set against the rest, if any."""
    store = Store(db, read_only=not name.startswith("demo:"))  # a demo is imported at its first use
    data, positive = experiments.labelled_data(store, name)
    if positive is not None and (importing.positive or chosen.multiclass):
        raise ValueError(
            f"{name} sets one class against the rest: it needs an algorithm for two classes, and no --positive. "
            f"Got {chosen.algorithm}{' with --positive' * bool(importing.positive)}."
        )
    scale = json.loads(data.about["scaling"])["name"]
    if importing.scale not in (None, scale):
        raise ValueError(f"--scale of the data set {name} was set at its import: {scale}. Got {importing.scale}.")
    allowed = {"--scale"} | ({"--positive"} if data.classes and not chosen.multiclass else set())
    for option in importing.changed() + reading.changed():
        if option not in allowed:
            raise ValueError(f"{option} is for files: the data set {name} has been imported already.")
    return data, importing.positive if positive is None else [positive]


def _print(result: dict[str, Any]) -> None:
    runs, spread = result["runs"], result["std"]
    asked = f"{result['mean']['queried']:,.1f}".removesuffix(".0")
    print(
        f"{result['algorithm']}: {result['learner']} + {result['rule']}, {len(runs)} run{'s' * (len(runs) > 1)}, "
        f"{asked} labels asked"
    )
    table = Table("", *metrics.EVALUATIONS, box=box.SIMPLE)
    two = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy", "cost")
    many = ("accuracy", "macro_f1", "macro_recall")
    paths = [(name,) for name in (many if result["classes"] else two)]
    for path in [*paths, *(("recall", name) for name in result["classes"] or ())]:
        cells = []
        for evaluation in metrics.EVALUATIONS:
            mean, std = (part and reduce(getitem, path, part[evaluation]) for part in (result["mean"], spread))
            cells.append(f"{mean:.5f}" + ("" if std is None else f" ± {std:.5f}"))
        table.add_row(escape(" of ".join(path)), *cells)
    draw(table)

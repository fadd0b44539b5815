"""The commands on algorithms: algorithms, replay."""

import json
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from .. import datasets, did_you_mean, experiments
from ..datasets import prior
from ..datasets.given import BOTH, decided_column, stored_column
from ..datasets.reading import Columns, peek, read
from ..experiments import replays
from ..experiments.sources import column_questions, stored_questions, word_questions
from ..kernel import metrics
from ..kernel.algorithms import ALGORITHMS, Strategy, alias_of, declared, strategy
from ..kernel.learners import LEARNERS, is_multiclass
from ..kernel.parameters import Parameter, parameters
from ..kernel.query_rules import QUERY_RULES, partners
from ..reproduction.protocols import recorded
from ..sessions.files import model_file
from ..sessions.settings import capped_words
from ..store import Store
from .files import Importing, Reading
from .terminal import Db, Json, Knowing, Learning, Questions, draw, number, pairs, question_names, show


@dataclass(frozen=True)
class Running:
    """How a strategy is run and measured."""

    budget: Annotated[int | None, Option(min=0, help="Maximum number of labels (default: no limit).")] = None
    permutations: Annotated[int | None, Option(min=1, help="Runs in random orders (default: one, as stored).")] = None
    theta: Annotated[float, Option(help="Margins of at least this predict positive.")] = 0.0
    audit: Annotated[float, Option(help="Share of the budget for random checks along the stream.")] = 0.0
    audit_trains: Annotated[bool, Option(help="Whether the learner trains on random checks.")] = True
    pace: Annotated[float | None, Option(help="Share of the stream in which to spend the rest evenly.")] = None
    floor: Annotated[
        float | None,
        Option(
            help="Share of the budget for a minimum chance of every item, which guarantees recall and F1 "
            "(default: 0, and 0.5 with --column)."
        ),
    ] = None
    known_share: Annotated[
        float,
        Option("--known", help="Share of the items whose labels are learned before the stream, which the others are."),
    ] = 0.0


def replay(
    source: Annotated[str, Argument(metavar="DATA", help="A data set, demo:NAME, NAME=CLASS, or a file.")],
    *,
    algorithm: Annotated[str | None, Option(help="A published algorithm; `algorithms` lists them.")] = None,
    learner: Annotated[str | None, Option(help="A learner, together with --rule.")] = None,
    rule: Annotated[str | None, Option(help="A query rule, together with --learner.")] = None,
    settings: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="A parameter; repeatable.")] = None,
    questions: Questions = None,
    plain: Annotated[
        bool, Option("--max", help="With --questions: rare questions get no more readings than they ask for.")
    ] = False,
    column: Annotated[
        str | None, Option(help="A column of labels or scores by something else, such as a language model, to audit.")
    ] = None,
    cut: Annotated[
        float | None,
        Option(
            help="With --column: the smallest score that says positive (default: 0.5 of scores from 0 to 1, 0 if some "
            "are negative)."
        ),
    ] = None,
    orders: Annotated[Path | None, Option(help="A file with one order per line, rows counted from 1.")] = None,
    running: Running,
    knowing: Knowing,
    seed_model: Annotated[Path | None, Option(help="A model that `export --what model` wrote, to begin with.")] = None,
    seed_scores: Annotated[
        Path | None, Option(help="A table with columns id and score; a high score points to a positive.")
    ] = None,
    learning: Learning,
    importing: Importing,
    reading: Reading,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Run an algorithm over data with known labels, and print its metrics under both evaluations (push, push_query)."""
    values = {key: number(value, key, "a number") for key, value in pairs("--set", settings)}
    names = question_names(questions)
    chosen = _strategy(algorithm, learner, rule, values, len(names) > 1)
    if names and (chosen.multiclass or importing.positive or importing.multiclass or importing.mesh_tree):
        raise ValueError(
            "--questions needs an algorithm for two classes, and no --positive, --multiclass, --mesh-tree."
        )
    if plain and not names:
        raise ValueError("--max is for --questions. Got none.")
    if cut is not None and not column:
        raise ValueError(f"--cut is for --column. Got {cut:g} without one.")
    if column and (names or chosen.multiclass or importing.multiclass or running.budget is None):
        raise ValueError("--column needs a --budget and an algorithm for two classes, and no --questions.")
    floor, pace = running.floor, running.pace
    if column:
        floor, pace = 0.5 if floor is None else floor, pace or 1.0
    running = replace(running, floor=floor or 0.0, pace=pace)
    if orders and running.permutations:
        raise ValueError("--orders FILE and --permutations NUMBER cannot be given together.")
    data: datasets.FeatureTable | datasets.Dataset
    labels: dict[str, np.ndarray] = {}
    if Path(source).is_file() and names:
        data, labels = _file_questions(source, names, chosen, importing, reading)
        positive = None
    elif names:
        data = datasets.Dataset(Store(db, read_only=True), source)
        _check_options(source, importing, reading)
        labels = stored_questions(data, names)
        positive = None
    elif Path(source).is_file():
        more = {"details": (column,), "features": importing.feature and tuple(importing.feature)} if column else {}
        data, positive = _file_data(source, chosen, importing, reading, **more), importing.positive
    else:
        data, positive = _stored_data(source, chosen, importing, reading, db)
    visits = recorded(orders, data.y.size) if orders else None
    learned = _weights(seed_model) if seed_model else None
    scores = _scores(seed_scores) if seed_scores else None
    start = prior.make_prior(data, **knowing.lists, model=learned, scores=scores)
    if start and start.unknown:
        print(f"Not in the data: {', '.join(start.unknown)}.", file=sys.stderr)
    items = data.y.size - round(running.known_share * data.y.size)
    if running.budget is not None and (words := capped_words(running.budget, items)):
        print(words, file=sys.stderr)
        running = replace(running, budget=items)
    options = replays.ReplayOptions(positive=positive, prior=start, **asdict(running), **learning.values())
    if names and start:
        raise ValueError("seeds are for one question: --questions takes none.")
    if names:
        result = replays.replay_questions(chosen, data, labels, visits, options, not plain)
        print(json.dumps(result)) if as_json else _print_questions(result)
        return
    if column:
        if isinstance(data, datasets.Dataset):
            decisions = stored_column(data, column, positive, cut)
        else:
            own = Columns(label=column, positive=tuple(positive or ()), contains=bool(importing.contains))
            decisions = decided_column(_cells(data, column), own, cut, Path(source).name)
        result = replays.replay_column(chosen, data, decisions, visits, options)
        print(json.dumps(result)) if as_json else _print_column(result)
        return
    result = replays.replay(chosen, data, visits, options)
    print(json.dumps(result)) if as_json else _print(result)


def _strategy(
    algorithm: str | None, learner: str | None, rule: str | None, values: dict[str, float], several: bool
) -> Strategy:
    """Return the strategy that the options name. If they name none, raise ValueError with a hint, such as similar
    names.

    several: whether several questions are asked about each item.
    """
    if not algorithm and not (learner and rule):
        raise ValueError("Give --algorithm NAME, or --learner and --rule.")
    if algorithm and algorithm.casefold() not in map(str.casefold, ALGORITHMS):
        hint = did_you_mean(algorithm, ALGORITHMS) or " `algorithms` lists them."
        raise ValueError(f"--algorithm must be a published algorithm. Got {algorithm}.{hint}")
    return strategy(algorithm, learner, rule, values, several)


def _file_data(
    path: str, chosen: Strategy, importing: Importing, reading: Reading, **more: Any
) -> datasets.FeatureTable:
    """Read the rows and labels of a file for a replay, without importing it. more: values that replace fields of
    `Columns`."""
    columns = replace(importing.columns(path, reading), **{"details": ()} | more)
    if chosen.multiclass and not importing.positive:
        columns = replace(columns, multiclass=True)
    items = read(path, columns, vectors=reading.vectors(importing.vectors), **reading.arguments)
    options = importing.vectorizer
    if not options.keys() & {"features", "tokenizer"} and not chosen.tunes_itself:  # as in the papers
        options["features"] = "plain" if items.texts is None else "words"
    return datasets.file_table(items, importing.scale, **options)


def _check_options(name: str, importing: Importing, reading: Reading, allowed: Collection[str] = ()) -> None:
    """Raise ValueError if an option for files, other than the `allowed` ones, is set for a stored data set."""
    for option in importing.changed() + reading.changed():
        if option not in allowed:
            raise ValueError(f"{option} is for files: the data set {name} has been imported already.")


def _file_questions(
    path: str, names: list[str], chosen: Strategy, importing: Importing, reading: Reading
) -> tuple[datasets.FeatureTable, dict[str, np.ndarray]]:
    """Read the rows of a file, and the labels for each question, {name: labels}."""
    file = Path(path).name
    if {*names} <= {*peek(path, **reading.arguments).columns}:
        features = importing.feature and tuple(importing.feature)
        importing = replace(importing, label="")
        data = _file_data(path, chosen, importing, reading, details=tuple(names), features=features)
        details = [json.loads(cells or "[]") for cells in data.items.details or ()]
        return data, column_questions(names, names, details, file)
    importing = replace(importing, contains=True)
    data = _file_data(path, chosen, importing, reading, positive=(names[0],), multiclass=False)
    return data, word_questions(names, [*data.items.labels], data.items.columns.label, file)


def _cells(data: datasets.FeatureTable, column: str) -> list[str]:
    """Return the cells of a column that was read with the items of a file."""
    assert data.items
    return [json.loads(cells or '[""]')[0] for cells in data.items.details or ()]


def _stored_data(
    name: str, chosen: Strategy, importing: Importing, reading: Reading, db: Path | None
) -> tuple[datasets.Dataset, list[str] | None]:
    """Return a stored data set, and its positive classes if the options or NAME=CLASS name any."""
    store = Store(db, read_only=not name.startswith("demo:"))  # a demo is imported at its first use
    data, positive = experiments.labeled_data(store, name)
    if positive is not None and (importing.positive or chosen.multiclass):
        raise ValueError(
            f"{name} sets one class against the rest: it needs an algorithm for two classes, and no --positive. "
            f"Got {chosen.algorithm}{' with --positive' * bool(importing.positive)}."
        )
    scale = data.scaling["name"]
    if importing.scale not in (None, scale):
        raise ValueError(f"--scale of the data set {name} was set at its import: {scale}. Got {importing.scale}.")
    allowed = {"--scale"} | ({"--positive"} if data.classes and not chosen.multiclass else set())
    _check_options(name, importing, reading, allowed)
    return data, importing.positive if positive is None else [positive]


def _weights(path: Path) -> tuple[str, dict[str, float]]:
    """Read a model file. Return its session and its weights, {feature: weight}. Raise ValueError if it is
    multiclass."""
    learned = model_file.read(path)
    if learned.multiclass:
        raise ValueError(f"--seed-model must be a model of positives and negatives. {path} has several classes.")
    return learned.head["session"], dict(zip(learned.names, learned.weights[:, 0].tolist()))


def _scores(path: Path) -> dict[str, float]:
    """Read the scores of a table, {item id: score}."""
    items = read(path, Columns(id="id", features=("score",)))
    if not isinstance(items.vectors, np.ndarray) or items.feature_names != ["score"]:
        raise ValueError(f"--seed-scores must be a table with columns id and score. Got {path}.")
    return dict(zip(items.ids, items.vectors[:, 0].tolist()))


def _print(result: dict[str, Any]) -> None:
    runs, spread = result["runs"], result["std"]
    asked = f"{result['mean']['queried']:,.1f}".removesuffix(".0")
    print(
        f"{result['algorithm']}: {result['learner']} + {result['rule']}, {len(runs)} run{'s' * (len(runs) > 1)}, "
        f"{asked} labels asked" + (f" after {result['known']:,} known ones" if "known" in result else "")
    )
    evaluations = (*metrics.EVALUATIONS, metrics.LIST)
    table = Table("", *evaluations, box=box.SIMPLE)
    two = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy", "cost")
    many = ("accuracy", "macro_f1", "macro_recall")
    paths = [(name,) for name in (many if result["classes"] else two)]
    for path in [*paths, *(("recall", name) for name in result["classes"] or ())]:
        cells = []
        for evaluation in evaluations:
            mean, std = (part and reduce(getitem, path, part[evaluation]) for part in (result["mean"], spread))
            cells.append(f"{mean:.5f}" + ("" if std is None else f" ± {std:.5f}"))
        table.add_row(escape(" of ".join(path)), *cells)
    draw(table)


def _print_column(result: dict[str, Any]) -> None:
    """Print the metrics of the audited column (labels or scores made by something else), alone and with the answers:
    true values (means over the runs), and estimates and guaranteed minimums (from the answers of the first run)."""
    run, runs, cut = result["runs"][0], len(result["runs"]), result["column"]["cut"]
    print(
        f"Column {result['column']['name']}{'' if cut is None else f', positive from {cut:g} on'}, and "
        f"{result['algorithm']}, {runs} run{'s' * (runs > 1)}, {result['mean']['readings']:,.1f}".removesuffix(".0")
        + " answers"
    )
    table = Table("", "true", "by the answers", "at least", box=box.SIMPLE)
    for name, figures in result["mean"]["deciders"].items():
        own = run["deciders"][name]
        for metric in ("precision", "recall", "f1", "sum"):
            ends = own["estimates"]["push"]["sensitivity" if metric == "recall" else metric]
            estimate = "" if ends is None else "{:.3f} ({:.3f} to {:.3f})".format(*ends)
            least = f"{own['floor']['push'][metric]:.3f}" if own["floor"] else ""
            table.add_row(f"{name}: {metric}", f"{figures['push'][metric]:.3f}", estimate, least)
    number_of = run["deciders"][BOTH]["estimates"]["positives"]
    if number_of:
        true = sum(run["deciders"][BOTH]["push"][key] for key in ("tp", "fn"))
        table.add_row("positives", f"{true:,}", "{:,.0f} ({:,.0f} to {:,.0f})".format(*number_of), "")
    draw(table)


def _print_questions(result: dict[str, Any]) -> None:
    """Print a line for each question, and lines for the mean and the worst of the questions."""
    mean, runs = result["mean"], len(result["runs"])
    print(
        f"{result['algorithm']}: {result['learner']} + {result['rule']}, {result['reading']} of "
        f"{len(mean['questions'])} questions, {runs} run{'s' * (runs > 1)}, {mean['readings']:,.1f}".removesuffix(".0")
        + " readings"
    )
    columns = [(name, evaluation) for evaluation in metrics.EVALUATIONS for name in ("sum", "f1")]
    table = Table("", "positives", *(f"{name}\n{evaluation}" for name, evaluation in columns), box=box.SIMPLE)
    for name, each in (*mean["questions"].items(), *mean["all"].items()):
        positives = f"{each['positives']:,.1f}".removesuffix(".0") if "positives" in each else ""
        table.add_row(escape(name), positives, *(f"{each[evaluation][metric]:.3f}" for metric, evaluation in columns))
    draw(table)


def algorithms(as_json: Json = False) -> None:
    """List the published algorithms with their parameters and aliases (with --json also learners and query rules)."""
    published: list[dict[str, Any]] = [
        {
            "name": name,
            "alias_of": alias_of(name),
            **asdict(entry),
            "multiclass": is_multiclass(entry.learner),
            "parameters": [
                _parameter(key, declaration)
                for key, declaration in declared(entry.learner, entry.rule).items()
                if key not in entry.fixed
            ],
        }
        for name, entry in ALGORITHMS.items()
    ]
    lists = {"algorithms": published}
    if as_json:
        lists["learners"] = [_part(name, kind) | {"multiclass": is_multiclass(name)} for name, kind in LEARNERS.items()]
        lists["rules"] = [_part(name, kind) | {"learners": partners(name)} for name, kind in QUERY_RULES.items()]
    else:
        for entry in published:
            entry["parameters"] = ", ".join(f"{each['name']}={each['default']:g}" for each in entry["parameters"])
    show(lists, as_json, "name", "alias_of", "learner", "rule", "parameters", "paper")


def _part(name: str, kind: type) -> dict[str, Any]:
    """Return the name, docstring and parameters of a learner or query rule as JSON."""
    return {"name": name, "help": kind.__doc__, "parameters": [_parameter(*each) for each in parameters(kind).items()]}


def _parameter(name: str, declaration: Parameter) -> dict[str, Any]:
    return {"name": name, "default": declaration.default, "range": declaration.range, "help": declaration.help}

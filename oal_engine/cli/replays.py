"""The commands on algorithms: algorithms, replay."""

import json
import sys
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from typer import Argument, Option

from .. import datasets, did_you_mean
from ..datasets.reading import Columns, peek, read
from ..kernel import metrics
from ..kernel.algorithms import ALGORITHMS, Strategy, alias_of, declared, strategy
from ..kernel.learners import LEARNERS, is_multiclass
from ..kernel.parameters import Parameter, parameters
from ..kernel.query_rules import QUERY_RULES, partners
from ..kernel.spending import STREAM
from ..store import Store
from .files import Cut, Importing, Reading
from .terminal import Db, Goal, Json, Knowing, Learning, Questions, draw, n_runs, number, pairs, question_names, show

if TYPE_CHECKING:
    from ..datasets import prior as priors

Drawn: TypeAlias = tuple[str, list[str], list[list[str]]]  # a sentence, and the columns and rows of a table


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
    goal: Goal = None
    known_share: Annotated[
        float,
        Option("--known", help="Share of the items whose labels are learned before the stream, which the others are."),
    ] = 0.0

    def values(self, items: int, is_audit: bool) -> dict[str, Any]:
        """Return the options of a replay over some number of items. A larger budget is reduced, and this is printed.

        is_audit: whether a column is audited, which by default has a floor and a pace.
        """
        values = asdict(self) | {"floor": self.floor or 0.0, "goal": self.goal or STREAM}
        if is_audit:
            values |= {"floor": 0.5 if self.floor is None else self.floor, "pace": self.pace or 1.0}
        streamed = items - round(self.known_share * items)
        from ..sessions.settings import capped_words

        if self.budget is not None and (words := capped_words(self.budget, streamed)):
            print(words, file=sys.stderr)
            values["budget"] = streamed
        return values


@dataclass(frozen=True)
class Choosing:
    """The strategy to run."""

    algorithm: Annotated[str | None, Option(help="An algorithm; `algorithms` lists them (default: auto).")] = None
    learner: Annotated[str | None, Option(help="A learner, together with --rule.")] = None
    rule: Annotated[str | None, Option(help="A query rule, together with --learner.")] = None
    settings: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="A parameter; repeatable.")] = None

    def strategy(self, several: bool, multiclass: bool) -> Strategy:
        """Return the strategy. If there is none by its name, raise ValueError with a hint, such as similar names.

        several: whether several questions are asked about each item. multiclass: whether each class is predicted.
        """
        values = {key: number(value, key, "a number") for key, value in pairs("--set", self.settings)}
        if not self.algorithm and bool(self.learner) != bool(self.rule):
            raise ValueError("Give --algorithm NAME, or --learner and --rule.")
        algorithm = self.algorithm or (None if self.learner else "auto-classes" if multiclass else "auto")
        if self.algorithm and self.algorithm.casefold() not in map(str.casefold, ALGORITHMS):
            hint = did_you_mean(self.algorithm, ALGORITHMS) or " `algorithms` lists them."
            raise ValueError(f"--algorithm must be a published algorithm. Got {self.algorithm}.{hint}")
        return strategy(algorithm, self.learner, self.rule, values, several)


@dataclass(frozen=True)
class Asking:
    """The questions about each item, and the orders of the items."""

    questions: Questions = None
    plain: Annotated[
        bool, Option("--max", help="With --questions: rare questions get no more readings than they ask for.")
    ] = False
    column: Annotated[
        str | None, Option(help="A column of labels or scores by something else, such as a language model, to audit.")
    ] = None
    cut: Cut = None
    orders: Annotated[Path | None, Option(help="A file with one order per line, rows counted from 1.")] = None

    @property
    def names(self) -> list[str]:
        """The names of the questions."""
        return question_names(self.questions)

    def check(self, chosen: Strategy, importing: Importing, running: Running) -> None:
        """Raise ValueError if other options do not fit these."""
        names, labels = self.names, importing.positive or importing.multiclass or importing.mesh_tree
        if names and (chosen.multiclass or labels):
            raise ValueError(
                "--questions needs an algorithm for two classes, and no --positive, --multiclass, --mesh-tree."
            )
        if self.plain and not names:
            raise ValueError("--max is for --questions. Got none.")
        if self.cut is not None and not self.column:
            raise ValueError(f"--cut is for --column. Got {self.cut:g} without one.")
        if self.column and (names or chosen.multiclass or importing.multiclass or running.budget is None):
            raise ValueError("--column needs a --budget and an algorithm for two classes, and no --questions.")
        if self.orders and running.permutations:
            raise ValueError("--orders FILE and --permutations NUMBER cannot be given together.")


@dataclass(frozen=True)
class Beginning(Knowing):
    """Prior knowledge with which a model begins."""

    seed_model: Annotated[Path | None, Option(help="A model that `export --what model` wrote, to begin with.")] = None
    seed_scores: Annotated[
        Path | None, Option(help="A table with columns id and score; a high score points to a positive.")
    ] = None

    def prior(self, data: "datasets.FeatureTable | datasets.Dataset") -> "priors.Prior | None":
        """Return the prior, and print the words and items that the data do not have."""
        learned = scores = None
        if self.seed_model:
            from ..sessions.files import model_file

            model = model_file.read(self.seed_model)
            if model.multiclass:
                raise ValueError(
                    f"--seed-model must be a model of positives and negatives. {self.seed_model} has several classes."
                )
            learned = model.head["session"], dict(zip(model.names, model.weights[:, 0].tolist()))
        if self.seed_scores:
            items = read(self.seed_scores, Columns(id="id", features=("score",)))
            if not isinstance(items.vectors, np.ndarray) or items.feature_names != ["score"]:
                raise ValueError(f"--seed-scores must be a table with columns id and score. Got {self.seed_scores}.")
            scores = dict(zip(items.ids, items.vectors[:, 0].tolist()))
        from ..datasets import prior as priors

        if (start := priors.make_prior(data, **self.lists, model=learned, scores=scores)) and start.unknown:
            print(f"Not in the data: {', '.join(start.unknown)}.", file=sys.stderr)
        return start


def replay(
    source: Annotated[str, Argument(metavar="DATA", help="A data set, demo:NAME, NAME=CLASS, or a file.")],
    choosing: Choosing,
    asking: Asking,
    running: Running,
    beginning: Beginning,
    learning: Learning,
    importing: Importing,
    reading: Reading,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Run an algorithm over data with known labels, and print its metrics under both evaluations (push, push_query)."""
    chosen = choosing.strategy(len(asking.names) > 1, bool(importing.multiclass))
    asking.check(chosen, importing, running)
    from ..experiments import replays  # late: a wrong name need not wait for it
    from ..experiments.worker import recorded

    data: datasets.FeatureTable | datasets.Dataset
    if Path(source).is_file():
        data, asked = _file_data(source, chosen, asking, importing, reading)
        positive = importing.positive
    else:
        data, positive, asked = _stored_data(source, chosen, asking, importing, reading, db)
    visits = recorded(asking.orders, data.y.size) if asking.orders else None
    start = beginning.prior(data)
    own = running.values(data.y.size, is_audit=bool(asking.column))
    options = replays.ReplayOptions(positive=positive, prior=start, **own, **learning.values())
    if asking.names and start:
        raise ValueError("seeds are for one question: --questions takes none.")
    if asking.names:
        result = replays.replay_questions(chosen, data, asked, visits, options, not asking.plain)
    elif asking.column:
        result = replays.replay_column(chosen, data, asked, visits, options)
    else:
        result = replays.replay(chosen, data, visits, options)
    if as_json:
        print(json.dumps(result))
        return
    head, columns, rows = (_of_questions if asking.names else _of_column if asking.column else _of_metrics)(result)
    print(head)
    draw(columns, rows)


def _file_data(
    path: str, chosen: Strategy, asking: Asking, importing: Importing, reading: Reading
) -> "tuple[datasets.FeatureTable, Any]":
    """Read the rows and labels of a file, without importing it. Return them with the labels for each question, {name:
    labels}, or with the decisions of the column, or with None."""
    from ..datasets.given import decided_column
    from ..experiments.sources import column_questions, word_questions

    file, names, own = Path(path).name, asking.names, tuple(importing.feature or ()) or None
    changes: dict[str, Any] = {"details": ()}
    are_columns = bool(names) and {*names} <= {*peek(path, **reading.arguments).columns}
    if are_columns:
        importing, changes = replace(importing, label=""), {"details": tuple(names), "features": own}
    elif names:
        importing, changes = replace(importing, contains=True), changes | {"positive": (names[0],), "multiclass": False}
    elif asking.column:
        changes = {"details": (asking.column,), "features": own}
    columns = replace(importing.columns(path, reading), **changes)
    if chosen.multiclass and not importing.positive:
        columns = replace(columns, multiclass=True)
    items = read(path, columns, vectors=reading.vectors(importing.vectors), **reading.arguments)
    options = importing.vectorizer
    if not options.keys() & {"features", "tokenizer"} and not chosen.tunes_itself:  # as in the papers
        options["features"] = "plain" if items.texts is None else "words"
    data = datasets.file_table(items, importing.scale, **options)
    details = [json.loads(cells or "[]") for cells in items.details or ()]
    if are_columns:
        return data, column_questions(names, names, details, file)
    if names:
        return data, word_questions(names, [*items.labels], items.columns.label, file)
    if asking.column:
        rule = Columns(label=asking.column, positive=tuple(importing.positive or ()), contains=bool(importing.contains))
        return data, decided_column([row[0] if row else "" for row in details], rule, asking.cut, file)
    return data, None


def _stored_data(
    name: str, chosen: Strategy, asking: Asking, importing: Importing, reading: Reading, db: Path | None
) -> "tuple[datasets.Dataset, list[str] | None, Any]":
    """Return a stored data set; its positive classes, if the options or NAME=CLASS name any; and labels or decisions as
    `_file_data` does."""
    from ..datasets.given import stored_column
    from ..experiments import labeled_data
    from ..experiments.sources import stored_questions

    store = Store(db, read_only=bool(asking.names) or not name.startswith("demo:"))  # a demo is imported at first use
    if asking.names:
        data = datasets.Dataset(store, name)
        _check_options(name, importing, reading)
        return data, None, stored_questions(data, asking.names)
    data, positive = labeled_data(store, name)
    if positive is not None and (importing.positive or chosen.multiclass):
        raise ValueError(
            f"{name} sets one class against the rest: it needs an algorithm for two classes, and no --positive. "
            f"Got {chosen.algorithm}{' with --positive' * bool(importing.positive)}."
        )
    scale = data.scaling["name"]
    if importing.scale not in (None, scale):
        raise ValueError(f"--scale of the data set {name} was set at its import: {scale}. Got {importing.scale}.")
    _check_options(name, importing, reading, "--scale", *["--positive"] * bool(data.classes and not chosen.multiclass))
    words = importing.positive if positive is None else [positive]
    return data, words, stored_column(data, asking.column, words, asking.cut) if asking.column else None


def _check_options(name: str, importing: Importing, reading: Reading, *allowed: str) -> None:
    """Raise ValueError if an option for files, other than the `allowed` ones, is set for a stored data set."""
    for option in importing.changed() + reading.changed():
        if option not in allowed:
            raise ValueError(f"{option} is for files: the data set {name} has been imported already.")


def _number(value: float) -> str:
    """Format a mean with one decimal, or none if it is a whole number."""
    return f"{value:,.1f}".removesuffix(".0")


def _of_metrics(result: dict[str, Any]) -> Drawn:
    """Return a sentence about the result of a replay, and the columns and rows of a table of its metrics."""
    evaluations = (*metrics.EVALUATIONS, metrics.LIST)
    two = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy", "cost")
    many = ("accuracy", "macro_f1", "macro_recall")
    rows = []
    paths = [(name,) for name in (many if result["classes"] else two)]
    for path in [*paths, *(("recall", name) for name in result["classes"] or ())]:
        cells = []
        for evaluation in evaluations:
            mean, std = (part and reduce(getitem, path, part[evaluation]) for part in (result["mean"], result["std"]))
            cells.append(f"{mean:.5f}" + ("" if std is None else f" ± {std:.5f}"))
        rows.append([" of ".join(path), *cells])
    asked = f"{_number(result['mean']['queried'])} labels asked"
    after = f" after {result['known']:,} known ones" if "known" in result else ""
    rule = f"{result['algorithm']}: {result['learner']} + {result['rule']}"
    return f"{rule}, {n_runs(len(result['runs']))}, {asked}{after}", ["", *evaluations], rows


def _of_column(result: dict[str, Any]) -> Drawn:
    """Return a sentence about the audit of a column (labels or scores made by something else), and a table of its
    metrics, alone and with the answers: true values (means over the runs), and estimates and guaranteed minimums (from
    the answers of the first run)."""
    from ..datasets.given import BOTH

    run, column = result["runs"][0], result["column"]
    rows = []
    for name, figures in result["mean"]["deciders"].items():
        own = run["deciders"][name]
        for metric in ("precision", "recall", "f1", "sum"):
            ends = own["estimates"]["push"]["sensitivity" if metric == "recall" else metric]
            estimate = "" if ends is None else "{:.3f} ({:.3f} to {:.3f})".format(*ends)
            least = f"{own['floor']['push'][metric]:.3f}" if own["floor"] else ""
            rows.append([f"{name}: {metric}", f"{figures['push'][metric]:.3f}", estimate, least])
    if number_of := run["deciders"][BOTH]["estimates"]["positives"]:
        true = sum(run["deciders"][BOTH]["push"][key] for key in ("tp", "fn"))
        rows.append(["positives", f"{true:,}", "{:,.0f} ({:,.0f} to {:,.0f})".format(*number_of), ""])
    cut = "" if column["cut"] is None else f", positive from {column['cut']:g} on"
    answers = f"{_number(result['mean']['readings'])} answers"
    head = f"Column {column['name']}{cut}, and {result['algorithm']}, {n_runs(len(result['runs']))}, {answers}"
    return head, ["", "true", "by the answers", "at least"], rows


def _of_questions(result: dict[str, Any]) -> Drawn:
    """Return a sentence about the replay of several questions, and a table with a line for each question, and lines for
    the mean and the worst of them."""
    mean = result["mean"]
    columns = [(name, evaluation) for evaluation in metrics.EVALUATIONS for name in ("sum", "f1")]
    rows = []
    for name, each in (*mean["questions"].items(), *mean["all"].items()):
        positives = _number(each["positives"]) if "positives" in each else ""
        rows.append([name, positives, *(f"{each[evaluation][metric]:.3f}" for metric, evaluation in columns)])
    what = f"{result['reading']} of {len(mean['questions'])} questions"
    runs, rule = n_runs(len(result["runs"])), f"{result['algorithm']}: {result['learner']} + {result['rule']}"
    head = f"{rule}, {what}, {runs}, {_number(mean['readings'])} readings"
    return head, ["", "positives", *map("\n".join, columns)], rows


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

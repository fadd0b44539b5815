"""The command line: python -m oal_engine COMMAND."""

import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from . import bundle, formats, metrics, readers, retrace, stream
from . import datasets as data
from . import reproduce as reproduction
from .algorithms import ALGORITHMS, declared, strategy
from .export import export as write_export
from .learners import LEARNERS, is_multiclass
from .parameters import parameters
from .query_rules import QUERY_RULES, partners
from .scaling import SCALINGS
from .store import Store

app = typer.Typer(
    help="OAL Studio: label imbalanced streams under a budget, and replay labelled ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Db = Annotated[Path | None, typer.Option("--db", help="The database (default: OAL_DB, or studio.db here).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Text = Annotated[list[str] | None, typer.Option("--text", help="Column of text; several are joined.")]
Label = Annotated[str | None, typer.Option("--label", help="Column of labels.")]
Positive = Annotated[list[str] | None, typer.Option("--positive", help="Label word that is positive; several may be.")]
Contains = Annotated[bool, typer.Option("--contains", help="A label cell such as a|b holds several words.")]
Multiclass = Annotated[bool, typer.Option("--multiclass", help="Each label word is a class of its own.")]
MeshTree = Annotated[Path | None, typer.Option("--mesh-tree", help="File of lines descriptor;tree number.")]
MeshNumber = Annotated[
    str | None, typer.Option("--mesh-number", help="A MeSH heading at this tree number or below it is positive.")
]
Identity = Annotated[str | None, typer.Option("--id", help="Column of ids (default: guessed; empty: the line number).")]
Feature = Annotated[list[str] | None, typer.Option("--feature", help="Column of numbers (default: all that are).")]
Reader = Annotated[str | None, typer.Option("--reader", help=f"Format: {', '.join(readers.READERS)}.")]
Encoding = Annotated[str, typer.Option("--encoding", help=f"Encoding: {', '.join(readers.ENCODINGS)}.")]
Tokenizer = Annotated[str, typer.Option("--tokenizer", help="words, or tweets (keeps #, @ and emoji).")]
Scale = Annotated[str | None, typer.Option("--scale", help=f"Scaling of rows: {', '.join(SCALINGS)} (default: l2).")]
DATASET = ("id", "name", "kind", "items", "features", "positives", "negatives", "classes")
SEVERAL = ("--text", "--positive", "--feature", "--set")


def show(found, as_json, *columns):
    """Print {name: rows} as JSON, or as a table of some columns."""
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    for rows in found.values():
        table = Table(*columns, box=box.SIMPLE)
        for row in rows:
            table.add_row(*(escape(_cell(row.get(column))) for column in columns))
        Console().print(table)


def _cell(value):
    return "" if value is None else str(len(value) if isinstance(value, dict) else value)


def columns_of(
    path,
    text,
    label,
    identity,
    feature,
    positive,
    contains,
    reader,
    encoding,
    multiclass=False,
    mesh_tree=None,
    mesh_number=None,
):
    """The columns named on the command line, completed by what the file seems to hold."""
    if bool(mesh_tree) != bool(mesh_number):
        raise ValueError("--mesh-tree FILE and --mesh-number NUMBER must be given together.")
    if mesh_tree and (positive or contains or multiclass):
        raise ValueError("--mesh-tree says which labels are positive: no --positive, --contains or --multiclass then.")
    guess = formats.peek(path, reader=reader, encoding=encoding).guess
    return formats.Columns(
        tuple(text) if text else () if feature else guess.text,
        label or guess.label,
        guess.id if identity is None else identity or None,
        tuple(feature) if feature else guess.features,
        readers.mesh_terms(mesh_tree, mesh_number) if mesh_tree else tuple(positive or ()),
        contains,
        multiclass,
        mesh_tree is not None,
    )


@app.command(name="import")
def import_(
    file: Path,
    name: Annotated[str, typer.Option(help="Name of the data set.")],
    text: Text = None,
    label: Label = None,
    positive: Positive = None,
    contains: Contains = False,
    multiclass: Multiclass = False,
    mesh_tree: MeshTree = None,
    mesh_number: MeshNumber = None,
    identity: Identity = None,
    feature: Feature = None,
    scale: Scale = None,
    reader: Reader = None,
    encoding: Encoding = "utf-8",
    tokenizer: Tokenizer = "tweets",
    db: Db = None,
    as_json: Json = False,
):
    """Import a file of texts or vectors as a data set."""
    columns = columns_of(
        file, text, label, identity, feature, positive, contains, reader, encoding, multiclass, mesh_tree, mesh_number
    )
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=(console := Console(stderr=True)),
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        tasks = {}

        def progress(phase, done, total):
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        dataset, items = data.import_file(
            Store(db), file, name, columns, scale or "l2", progress, reader, encoding, tokenizer=tokenizer
        )
    if as_json:
        skipped = {reason: {"count": count, "first_line": line} for reason, (count, line) in items.skipped.items()}
        about = Store(db).dataset(dataset)
        print(json.dumps({key: about[key] for key in DATASET} | {"skipped": skipped}))
    else:
        print(f"{name}: {items.report()}")


@app.command()
def datasets(db: Db = None, as_json: Json = False):
    """List the data sets."""
    found = [{key: row[key] for key in (*DATASET, "sessions", "source", "created_at")} for row in Store(db).datasets()]
    show({"datasets": found}, as_json, *DATASET, "sessions")


@app.command()
def sessions(db: Db = None, as_json: Json = False):
    """List the sessions with their progress."""
    found = [row | {"parameters": json.loads(row["parameters"])} for row in Store(db).sessions()]
    show(
        {"sessions": found}, as_json, "id", "name", "algorithm", "labels", "budget", "positives", "skipped", "worked_at"
    )


def _spec(key, spec):
    return {"name": key, "default": spec.default, "range": spec.range, "help": spec.help}


@app.command()
def algorithms(as_json: Json = False):
    """List the published algorithms, the learners and the rules with their parameters."""
    published = [
        {
            "name": name,
            "learner": entry.learner,
            "rule": entry.rule,
            "multiclass": is_multiclass(entry.learner),
            "paper": entry.paper,
            "rho": entry.rho,
            "fixed": entry.fixed,
            "parameters": [
                _spec(key, spec) for key, spec in declared(entry.learner, entry.rule).items() if key not in entry.fixed
            ],
        }
        for name, entry in ALGORITHMS.items()
    ]
    found = {"algorithms": published}
    if as_json:
        for title, registry in (("learners", LEARNERS), ("rules", QUERY_RULES)):
            found[title] = [
                {"name": name, "help": kind.__doc__, "parameters": [_spec(*item) for item in parameters(kind).items()]}
                for name, kind in registry.items()
            ]
        for learner in found["learners"]:
            learner["multiclass"] = is_multiclass(learner["name"])
        for rule in found["rules"]:
            rule["learners"] = partners(rule["name"])
    else:
        for entry in published:
            entry["parameters"] = ", ".join(f"{spec['name']}={spec['default']:g}" for spec in entry["parameters"])
    show(found, as_json, "name", "learner", "rule", "parameters", "paper")


def _known_rho(y, weights, metric):
    positives, negatives = int((y > 0).sum()), int((y < 0).sum())
    if metric == "cost":
        return weights.ratio("cost")
    if not positives or not negatives:
        raise ValueError("rho auto needs items of both classes. Use --rho laplace or a number.")
    return weights.ratio("sum") * negatives / positives


def _number(text, name, allowed):
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be {allowed}. Got {text}.") from None


@app.command()
def replay(
    source: Annotated[str, typer.Argument(metavar="DATA", help="An imported data set's name, or a file.")],
    algorithm: Annotated[str | None, typer.Option(help="A published name; `algorithms` lists them.")] = None,
    learner: Annotated[str | None, typer.Option(help="A learner, together with --rule.")] = None,
    rule: Annotated[str | None, typer.Option(help="A query rule, together with --learner.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter.")] = None,
    budget: Annotated[int | None, typer.Option(min=0, help="Labels that may be asked (default: no limit).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws and permutations.")] = 0,
    orders: Annotated[Path | None, typer.Option(help="File with one order a line, rows counted from 1.")] = None,
    permutations: Annotated[int | None, typer.Option(min=1, help="Runs over orders shuffled by the seed.")] = None,
    rho: Annotated[str, typer.Option(help="auto (from the labels of the data), laplace, or a number.")] = "auto",
    metric: Annotated[str, typer.Option(help="sum or cost: what rho is for.")] = "sum",
    alpha_p: Annotated[float, typer.Option(help="Weight of sensitivity in sum.")] = 0.5,
    c_p: Annotated[float, typer.Option(help="Cost of a missed positive.")] = 0.9,
    theta: Annotated[float, typer.Option(help="Margins from here on predict positive.")] = 0.0,
    average: Annotated[bool, typer.Option("--average", help="Average the weights when the budget is spent.")] = False,
    text: Text = None,
    label: Label = None,
    positive: Positive = None,
    contains: Contains = False,
    multiclass: Multiclass = False,
    mesh_tree: MeshTree = None,
    mesh_number: MeshNumber = None,
    identity: Identity = None,
    feature: Feature = None,
    scale: Scale = None,
    reader: Reader = None,
    encoding: Encoding = "utf-8",
    tokenizer: Tokenizer = "tweets",
    db: Db = None,
    as_json: Json = False,
):
    """Replay a labelled data set through an algorithm and print both evaluations."""
    values = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set must be KEY=VALUE. Got {setting}.")
        values[key.strip()] = _number(value, key.strip(), "a number")
    chosen = strategy(algorithm, learner, rule, values)
    if metric not in ("sum", "cost"):
        raise ValueError(f"--metric must be sum or cost. Got {metric}.")
    weights = metrics.Weights(alpha_p, c_p)
    if Path(source).is_file():
        multiclass = multiclass or (chosen.multiclass and not positive)
        columns = columns_of(
            source,
            text,
            label,
            identity,
            feature,
            positive,
            contains,
            reader,
            encoding,
            multiclass,
            mesh_tree,
            mesh_number,
        )
        items = formats.read(source, columns, reader=reader, encoding=encoding)
        table = data.table(items, scale or "l2", tokenizer=tokenizer)
    else:
        table = data.Dataset(Store(db), source)
        stored = json.loads(table.about["scaling"])["name"]
        if scale not in (None, stored):
            raise ValueError(f"--scale of the data set {source} was set at its import: {stored}. Got {scale}.")
    classes, y = table.classes, table.y
    if classes and not chosen.multiclass:
        y, classes = _against(positive, classes, chosen.algorithm, table.y), ()
    size = len(classes)
    rounds = table.y.size
    if chosen.rho is not None or chosen.multiclass:
        known = chosen.rho or 1.0
    elif rho == "laplace":
        known = weights.ratio("cost") if metric == "cost" else 0.0
    else:
        known = _known_rho(y, weights, metric) if rho == "auto" else _number(rho, "--rho", "auto, laplace or a number")
    if orders:
        visits = reproduction.recorded(orders, rounds)
    else:
        visits = [stream.shuffled(rounds, seed + k) for k in range(permutations or 0)] or [np.arange(rounds)]

    def run(number):
        parts = chosen.build(table.rows.columns, size)
        goal = stream.objective(theta, known, weights.ratio("sum"))
        done = stream.replay(
            table.rows, y, visits[number], *parts, goal, budget=budget, seed=seed + number, averaged=average
        )
        found = {name: _evaluated(done.counts, name, weights, classes) for name in metrics.EVALUATIONS}
        return {"order": number + 1, "queried": int(done.queried), **found, "seconds": done.seconds}

    stream.replay(table.rows, y, [], *chosen.build(table.rows.columns, size), stream.objective())  # compiles: not timed
    with ThreadPoolExecutor() as threads:
        runs = list(threads.map(run, range(len(visits))))
    result = {
        "algorithm": chosen.algorithm,
        "learner": chosen.learner,
        "rule": chosen.rule,
        "params": chosen.parameters,
        "runs": runs,
        "mean": _over(runs, np.mean),
        "std": _over(runs, lambda x: np.std(x, ddof=1)) if len(runs) > 1 else None,
        "classes": list(classes) or None,
    }
    if as_json:
        print(json.dumps(result))
    else:
        _print_replay(result)


def _against(positive, classes, algorithm, y):
    """The labels of K classes for an algorithm of two: one class against the rest."""
    if not positive or len(positive) > 1 or positive[0] not in classes:
        raise ValueError(
            f"{algorithm} tells two classes apart: --positive must be one of {', '.join(classes)}. "
            f"Got {' '.join(positive or ()) or 'none'}."
        )
    return data.relabelled(y, classes, positive=positive[0])


def _evaluated(counts, evaluation, weights, classes):
    """The metrics of one evaluation as JSON has them: those of each class by its name."""
    if not classes:
        return {name: value.item() for name, value in metrics.evaluate(counts, evaluation, weights).items()}
    found = metrics.evaluate_classes(counts, evaluation)
    return {key: dict(zip(classes, value.tolist())) if np.ndim(value) else value.item() for key, value in found.items()}


def _over(runs, statistic):
    """A statistic over runs of everything that they measured, however it is nested."""
    if isinstance(runs[0], dict):
        keys = [key for key in runs[0] if key not in ("order", "seconds")]
        return {key: _over([run[key] for run in runs], statistic) for key in keys}
    return float(statistic(runs))


def _print_replay(result):
    runs, spread = result["runs"], result["std"]
    print(
        f"{result['algorithm']}: {result['learner']} + {result['rule']}, {len(runs)} run{'s' * (len(runs) > 1)}, "
        f"{result['mean']['queried']:,.1f} labels asked"
    )
    table = Table("", *metrics.EVALUATIONS, box=box.SIMPLE)
    two = ("sum", "f1", "sensitivity", "specificity", "precision", "accuracy", "cost")
    many = ("accuracy", "macro_f1", "macro_recall")
    lines = [(name,) for name in (many if result["classes"] else two)]
    for path in lines + [("recall", name) for name in result["classes"] or ()]:
        cells = []
        for evaluation in metrics.EVALUATIONS:
            mean, std = (part and reduce(getitem, path, part[evaluation]) for part in (result["mean"], spread))
            cells.append(f"{mean:.5f}" + ("" if std is None else f" ± {std:.5f}"))
        table.add_row(escape(" of ".join(path)), *cells)
    Console().print(table)


@app.command()
def export(
    session: int,
    kind: Annotated[str, typer.Option("--format", help="csv or jsonl.")] = "csv",
    out: Annotated[Path | None, typer.Option(help="The file to write (default: standard output).")] = None,
    db: Db = None,
):
    """Write every question of a session with its label, margin, probability, times and annotator."""
    _write(out, lambda file: write_export(Store(db), session, kind, file))


def _write(out, work):
    """Write a file, or to standard output, only after all of it is made."""
    text = io.StringIO(newline="")
    work(text)
    with nullcontext(sys.stdout) if out is None else out.open("w", encoding="utf-8", newline="") as file:
        file.write(text.getvalue())


@app.command()
def verify(session: int, db: Db = None, as_json: Json = False):
    """Run a session again from its log and check every question and digest."""
    _report(retrace.verify(Store(db), session), as_json)


def _report(report, as_json):
    """Print a report; the exit code says whether it is a good one."""
    print(json.dumps(report.as_dict(), ensure_ascii=False) if as_json else f"{report.name}: {report}")
    if not report.verified:
        raise typer.Exit(1)


@app.command()
def publish(
    session: int,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: standard output).")] = None,
    db: Db = None,
):
    """Write a session as one file of JSON lines, settings, questions, labels and digests, for `adopt` elsewhere."""
    _write(out, lambda file: bundle.publish(Store(db), session, file))


@app.command()
def adopt(file: Path, db: Db = None, as_json: Json = False):
    """Keep a published session over the same data set here, and verify it."""
    store = Store(db)
    with file.open("rb") as lines:
        session = bundle.adopt(store, lines)
    _report(retrace.verify(store, session), as_json)


def spread(arguments):
    """Repeat an option that takes several values before each of them: --text a b becomes --text a --text b.

    Only behind the command's own argument, which would be swallowed otherwise.
    """
    found, option = [], None
    for argument in arguments:
        if argument.startswith("--"):
            option = argument if argument in SEVERAL else None
        elif option and found[-1] != option and len(found) > 1 and not found[1].startswith("-"):
            found.append(option)
        found.append(argument)
    return found


@app.command()
def reproduce(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="A block of --list, or all.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the blocks, their files and their protocols.")] = False,
    write: Annotated[Path | None, typer.Option(help="Run the table, or all, and write this page.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data (default: ../shared/data).")] = None,
    orders: Annotated[int | None, typer.Option(min=2, help="Orders to run (default: as published).")] = None,
    zero_rows_as_mistakes: Annotated[
        bool, typer.Option("--count-zero-rows-as-mistakes", help="oa3-w8a: the published protocol alone.")
    ] = False,
    as_json: Json = False,
):
    """Run published tables with their protocols, ours beside the published figures."""
    if list_:
        print(json.dumps({"blocks": reproduction.listed()}) if as_json else reproduction.outline())
        return
    if not (table or write):
        raise ValueError("reproduce needs the name of a table, all, --list or --write.")
    results = []
    for name in reproduction.BLOCKS if table in (None, "all") else [table]:
        results.append(reproduction.reproduce(name, data_dir, orders, zero_rows_as_mistakes))
        if not as_json:
            print(reproduction.markdown(results[-1]), flush=True)
        if write:
            write.parent.mkdir(parents=True, exist_ok=True)
            write.write_text(reproduction.page(results), encoding="utf-8")
    if as_json:
        print(json.dumps({"blocks": results}))


def main():
    """Run the command line; what is wrong is said in one sentence, without a traceback."""
    try:
        app(spread(sys.argv[1:]))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)

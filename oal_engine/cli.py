"""The command line: python -m oal_engine COMMAND."""

import json
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial, reduce
from multiprocessing import get_context
from operator import getitem, itemgetter
from pathlib import Path
from threading import Event
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from . import bundle, experiments, feeds, formats, metrics, readers, retrace, specifications, spending, stream, tables
from . import datasets as data
from . import model as models
from . import reproduce as reproduction
from .algorithms import ALGORITHMS, declared, strategy
from .export import WHATS
from .export import export as write_export
from .jsonlines import LinesError
from .learners import LEARNERS, is_multiclass
from .parameters import parameters
from .protocols import recorded
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


@contextmanager
def progress_bar():
    """A function (phase, done, total) that draws a bar with the remaining time for each phase, on a terminal."""
    console, tasks = Console(stderr=True), {}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def progress(phase, done, total):
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield progress


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
    with progress_bar() as progress:
        dataset, items = data.import_file(
            Store(db), file, name, columns, scale or "l2", progress, reader, encoding, tokenizer=tokenizer
        )
    if as_json:
        about = Store(db).dataset(dataset)
        print(json.dumps({key: about[key] for key in DATASET} | {"skipped": _skipped(items.skipped)}))
    else:
        print(f"{name}: {items.report()}")


@app.command()
def append(
    name: Annotated[str, typer.Argument(help="An imported data set.")],
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A file, or - for the lines of standard input.")],
    text: Text = None,
    label: Label = None,
    identity: Annotated[str | None, typer.Option("--id", help="Column of ids.")] = None,
    reader: Reader = None,
    encoding: Encoding = "utf-8",
    db: Db = None,
    as_json: Json = False,
):
    """Append items to a data set, in the columns of its import; running sessions go on with them.

    Lines of standard input are JSON objects or plain texts, and count as they come.
    """
    dataset = data.Dataset(Store(db), name)
    named = _said(text=text, label=label, id=identity)
    taken = feeds.Taken()
    with progress_bar() as progress, _stoppable() as stopped:
        if file == "-":
            lines = os.fdopen(0, "rb", closefd=False)  # not sys.stdin, at which a waiting thread may not be left behind
            lots = feeds.append_lines(dataset, lines, named, reader=reader, stopped=stopped)
        else:
            lots = feeds.append_file(
                dataset, file, named, reader=reader, encoding=encoding, progress=progress, stopped=stopped
            )
        for lot in lots:
            taken += lot
            if file == "-" and lot.skipped:
                print(f"not read: {formats.reasons(lot.skipped)}", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(asdict(taken) | {"skipped": _skipped(taken.skipped), "items": dataset.about["items"]}))
    else:
        print(f"{name}: {taken}.")


@contextmanager
def _stoppable():
    """An Event that Ctrl-C sets, so that what is at work is finished."""
    stopped = Event()
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _skipped(skipped):
    return {reason: {"count": count, "first_line": line} for reason, (count, line) in skipped.items()}


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
    audit: Annotated[float, typer.Option(help="Share of the budget for random checks along the stream.")] = 0.0,
    audit_trains: Annotated[bool, typer.Option(help="Whether their labels are learned.")] = True,
    pace: Annotated[float | None, typer.Option(help="Share of the stream to spend the rest in evenly.")] = None,
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
        if not equals or not key.strip():
            raise ValueError(f"--set must be KEY=VALUE. Got {setting}.")
        values[key.strip()] = _number(value, key.strip(), "a number")
    chosen = strategy(algorithm, learner, rule, values)
    if metric not in ("sum", "cost"):
        raise ValueError(f"--metric must be sum or cost. Got {metric}.")
    if orders and permutations:
        raise ValueError("--orders FILE and --permutations NUMBER cannot be given together.")
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
        fixed = {"--text": text, "--label": label, "--contains": contains, "--mesh-tree": mesh_tree, "--id": identity,
                 "--feature": feature, "--reader": reader, "--multiclass": multiclass,
                 "--positive": positive and (chosen.multiclass or not table.classes)}  # fmt: skip
        for option in filter(fixed.get, fixed):
            raise ValueError(f"{option} is for a file: of the data set {source} it was set at its import.")
        if not data.labelled(table.about):
            raise ValueError(f"a replay needs a label for every item, and {source} has some without.")
    classes, y = table.classes, table.y
    if classes and not chosen.multiclass:
        y, classes = _against(positive, classes, chosen.algorithm, table.y), ()
    size = len(classes)
    rounds = table.y.size
    known = chosen.known_rho(rho, weights, metric, y)
    if orders:
        visits = recorded(orders, rounds)
    else:
        visits = [stream.shuffled(rounds, seed + k) for k in range(permutations or 0)] or [np.arange(rounds)]

    planned = partial(spending.plan, chosen.rule, budget, rounds, audit, audit_trains, pace)

    def run(number):
        parts = chosen.build(table.rows.columns, size)
        goal = stream.objective(theta, known, weights.ratio("sum"))
        done = stream.replay(
            table.rows, y, visits[number], *parts, goal, budget=budget, seed=seed + number, averaged=average,
            plan=planned(),
        )  # fmt: skip
        found = {name: metrics.told(done.counts, name, weights, classes) for name in metrics.EVALUATIONS}
        return {"order": number + 1, "queried": int(done.queried), **found, "seconds": done.seconds}

    compiling = *chosen.build(table.rows.columns, size), stream.objective()  # is not timed
    stream.replay(table.rows, y, [], *compiling, plan=planned())
    with ThreadPoolExecutor() as threads:
        runs = list(threads.map(run, range(len(visits))))
    measured = [{key: run[key] for key in (*metrics.EVALUATIONS, "queried")} for run in runs]
    plan = {"audit": audit, "audit_trains": audit_trains, "pace": pace} if planned() else None
    result = {
        "algorithm": chosen.algorithm,
        "learner": chosen.learner,
        "rule": chosen.rule,
        "params": chosen.parameters,
        "runs": runs,
        "mean": metrics.over(measured, np.mean),
        "std": metrics.spread(measured),
        "classes": list(classes) or None,
        "plan": plan,
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


What = Annotated[str, typer.Option("--what", help=f"{', '.join(WHATS)}.")]
Format = Annotated[
    str | None, typer.Option("--format", help=f"{', '.join(tables.FORMATS)} (default: as the file is called, or csv).")
]
Output = Annotated[Path | None, typer.Option("--output", "--out", help="The file to write (default: standard output).")]


@app.command()
def export(
    session: int,
    what: What = "labels",
    kind: Format = None,
    out: Output = None,
    texts: Annotated[bool, typer.Option("--texts", help="Each decision or prediction with its text.")] = False,
    db: Db = None,
):
    """Write a session's labels, every decision of its stream so far, predictions for every item of it, the model, or a
    report as one page of HTML."""
    with progress_bar() as progress:
        said = write_export(Store(db), session, what, _format(kind, out), out, texts, partial(progress, what))
    if said:
        print(said, file=sys.stderr)


def _format(kind, out):
    """The format asked for, or the one that a file is called by, or csv."""
    suffix = out.suffix[1:].lower() if out else ""
    if kind and kind not in tables.FORMATS:
        raise ValueError(f"--format must be one of {', '.join(tables.FORMATS)}. Got {kind}.")
    return kind or (suffix if suffix in tables.FORMATS else "csv")


@app.command()
def predict(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Texts or vectors in any format; - is standard input.")],
    model: Annotated[Path, typer.Option("--model", help="The model that `export --what model` wrote.")],
    kind: Format = None,
    out: Output = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
    text: Text = None,
    identity: Identity = None,
    texts: Annotated[bool, typer.Option("--texts", help="Each prediction with its text.")] = False,
    reader: Reader = None,
    encoding: Encoding = "utf-8",
):
    """Predict new texts or vectors with a model that a session has learned, line by line."""
    made, live, skipped = models.read(model), file == "-", {}
    columns = formats.Columns(tuple(text or ()), id=identity, features=() if made.text else tuple(made.names))
    kind, lot = "jsonl" if as_json else _format(kind, out), 1 if live else tables.CHUNK
    with progress_bar() as progress, tables.whole(out) if out else nullcontext(sys.stdout.buffer) as target:
        bar = None if live else partial(progress, "reading")
        source = sys.stdin.buffer if live else file
        with formats.open_entries(source, columns, reader=reader, encoding=encoding, progress=bar) as opened:
            tables.write(models.predicted(made, *opened, skipped, texts, lot), kind, target, lot=lot)
    if skipped:
        print(f"skipped {formats.reasons(skipped)}", file=sys.stderr)


Data = Annotated[list[str] | None, typer.Argument(metavar="DATA", help="Data sets, demo:NAME, NAME=CLASS, or files.")]
Algorithms = Annotated[str | None, typer.Option(help="Names, or learner+rule, separated by commas.")]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUES", help="A number, several (1,10), or powers (10^-5..10^5); A:KEY= for one."
    ),
]
Budgets = Annotated[
    list[int] | None, typer.Option("--budget", min=1, help="Labels; several may be (default: no limit).")
]
PROTOCOL = typer.Option(help=f"{', '.join(specifications.PROTOCOLS)}: how settings are chosen.")
Criterion = Annotated[str | None, typer.Option(help="The metric that decides (default: f1).")]
Evaluation = Annotated[str | None, typer.Option(help=f"{' or '.join(metrics.EVALUATIONS)} (default: push).")]
Permutations = Annotated[int | None, typer.Option(min=1, help="Runs, each with an order of its own (default: 10).")]
Trials = Annotated[int | None, typer.Option(min=1, help="Streams that settings are tuned over in 2:1 (default: 3).")]
Seed = Annotated[int | None, typer.Option(min=0, help="The first seed of orders and draws (default: 0).")]
Hit = Annotated[float | None, typer.Option(help="Share or number of labels that the query rule is scaled to.")]
Metric = Annotated[str | None, typer.Option(help="sum or cost: what rho is for (default: sum).")]
Rho = Annotated[str | None, typer.Option(help="auto (from the labels of the data), laplace, or a number.")]
Spec = Annotated[Path | None, typer.Option(help="A specification in TOML or JSON; what else is said goes before it.")]
Name = Annotated[str | None, typer.Option("--save", help="The name that the comparison is kept under.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads or processes (default: one a core).")]
Processes = Annotated[bool, typer.Option("--processes", help="Processes as workers, not threads.")]
Scheduler = Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="A Dask cluster as workers.")]


@app.command()
def compare(
    sources: Data = None,
    algorithms: Algorithms = None,
    settings: Grid = None,
    budget: Budgets = None,
    tune: Annotated[str | None, PROTOCOL] = None,
    criterion: Criterion = None,
    evaluation: Evaluation = None,
    permutations: Permutations = None,
    trials: Trials = None,
    seed: Seed = None,
    hit: Hit = None,
    metric: Metric = None,
    rho: Rho = None,
    alpha_p: Annotated[float | None, typer.Option(help="Weight of sensitivity in sum (default: 0.5).")] = None,
    c_p: Annotated[float | None, typer.Option(help="Cost of a missed positive (default: 0.9).")] = None,
    average: Annotated[bool | None, typer.Option("--average", help="Average the weights after the budget.")] = None,
    held_out: Annotated[
        bool | None, typer.Option("--held-out", help="Measure the final model on a fold that it has not seen.")
    ] = None,
    spec: Spec = None,
    save: Name = None,
    workers: Workers = None,
    processes: Processes = False,
    scheduler: Scheduler = None,
    db: Db = None,
    as_json: Json = False,
):
    """Compare algorithms over the same streams, tuned the same way; a second run goes on where one was stopped."""
    base = specifications.contents(spec) if spec else {}
    base |= _said(
        data=sources, budgets=budget, tune=tune, criterion=criterion, evaluation=evaluation, permutations=permutations,
        trials=trials, seed=seed, hit=hit, metric=metric, rho=rho and _rho(rho), alpha_p=alpha_p, c_p=c_p,
        average=average, held_out=held_out,
    )  # fmt: skip
    known = base.get("algorithms", {})
    if algorithms:
        known = {name: known.get(name, {}) for name in map(str.strip, algorithms.split(","))}
    if not known:
        raise ValueError("compare needs --algorithms NAME,NAME or a --spec that has some. Got none.")
    base["algorithms"] = _gridded(known, settings or ())
    folder = spec.parent if spec else Path()
    found = _compared(experiments.specification(base), db, save, folder, workers, processes, scheduler)
    print(json.dumps(found.told())) if as_json else _print_comparison(found)


@app.command()
def tune(
    source: Annotated[str, typer.Argument(metavar="DATA", help="A data set, demo:NAME, NAME=CLASS, or a file.")],
    algorithm: Annotated[str, typer.Option(help="A name, or learner+rule.")],
    settings: Grid = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Labels that may be asked (default: no limit).")] = None,
    tune: Annotated[str, PROTOCOL] = "2:1",
    criterion: Criterion = None,
    evaluation: Evaluation = None,
    permutations: Permutations = None,
    trials: Trials = None,
    seed: Seed = None,
    hit: Hit = None,
    metric: Metric = None,
    rho: Rho = None,
    save: Name = None,
    workers: Workers = None,
    processes: Processes = False,
    scheduler: Scheduler = None,
    db: Db = None,
    as_json: Json = False,
):
    """Find the best settings of an algorithm: what was tried, the best first, and how the best does in the test."""
    if tune == "none":
        raise ValueError("--tune must be 2:1, cv or hindsight. Got none.")
    wanted = _said(
        data=[source], budgets=budget and [budget], tune=tune, criterion=criterion, evaluation=evaluation,
        permutations=permutations, trials=trials, seed=seed, hit=hit, metric=metric, rho=rho and _rho(rho),
        algorithms=_gridded({algorithm: {}}, settings or ()),
    )  # fmt: skip
    found = _compared(experiments.specification(wanted), db, save, Path(), workers, processes, scheduler)
    if as_json:
        told = found.told()
        trials = [{key: trial[key] for key in ("settings", "score")} for trial in found.trials()]
        print(json.dumps({key: told[key] for key in ("specification", "versions")} | {"trials": trials}
                         | {"result": told["results"][0]}))  # fmt: skip
    else:
        _print_trials(found.trials(), "settings", found.spec.criterion)
        _print_comparison(found)


def _said(**options):
    """What was given on the command line."""
    return {key: value for key, value in options.items() if value is not None}


def _rho(text):
    return text if text in specifications.ESTIMATES else _number(text, "--rho", "auto, laplace or a number")


def _gridded(algorithms, settings):
    """The parameters of each algorithm with those of --set, which are for every one that has them, or for A:KEY."""
    found = dict(specifications.tables(algorithms))
    for setting in settings:
        key, equals, value = setting.partition("=")
        owner, colon, key = key.strip().rpartition(":")
        if not equals or not key or (colon and owner not in found):
            raise ValueError(f"--set must be KEY=VALUES, or A:KEY=VALUES of an algorithm compared. Got {setting}.")
        values = specifications.typed(value, key)
        homes = [owner] if colon else [name for name in found if specifications.has(name, key)]
        if not homes:
            raise ValueError(f"none of {', '.join(found)} has a parameter {key}.")
        found |= {name: found[name] | {key: values} for name in homes}
    return found


def _compared(wanted, db, save, folder, workers, processes, scheduler):
    """Run a comparison with a bar of progress, and keep it."""
    store = Store(db)
    with progress_bar() as progress, _executor(wanted, store, folder, workers, processes, scheduler) as executor:
        try:
            return experiments.compare(
                wanted, store, save, executor, folder=folder, progress=partial(progress, "replays")
            )
        except KeyboardInterrupt:
            raise ValueError("stopped; what is finished is kept, and the same command goes on from there.") from None


def _executor(wanted, store, folder, workers, processes, scheduler):
    """The workers that options name: threads, processes, or a Dask cluster."""
    if scheduler:
        try:
            from . import cluster
        except ModuleNotFoundError:
            raise ValueError("--scheduler needs Dask: pip install -r requirements-dask.txt.") from None
        return cluster.executor(scheduler, experiments.sources(wanted, store, folder))
    if processes:  # Ctrl-C reaches them too, and only the parent shall act on it
        deaf = signal.signal, (signal.SIGINT, signal.SIG_IGN)
        return ProcessPoolExecutor(workers, get_context("spawn"), *deaf)
    return ThreadPoolExecutor(workers or os.cpu_count())


def _print_comparison(found):
    spec = found.spec
    print(f"{found.name}: {spec.permutations} runs; {specifications.PROTOCOLS[spec.tune]}")
    tests = found.tests()
    for (source, budget), lines in found.blocks().items():
        print(f"\n{source}, {f'{budget:,} labels' if budget else 'no limit of labels'}")
        table = Table("", Column("settings", no_wrap=True), "labels", *_columns(lines), "", box=box.SIMPLE)
        for name, line in lines.items():
            cells = []
            for metric, evaluation in _columns(lines, pairs=True):
                values = found.values(line, metric, evaluation)
                spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
                cells.append(f"{values.mean():.3f}{spread}")
            verdict = tests[source, budget][name]
            mark = "best" if verdict["best"] else "level" if verdict["level"] else ""
            asked = "" if spec.held_out else f"{line.asked.mean():,.0f}"
            table.add_row(
                escape(line.algorithm), specifications.outlined(line.setting).replace(", ", "\n"), asked, *cells, mark
            )
        Console().print(table)
    print(f"best and level (paired t-test, Holm, 5 %) are by {spec.criterion} under {spec.evaluation}.")
    ranks = found.ranks()
    if ranks["critical_difference"]:
        told = ", ".join(f"{name} {rank:.2f}" for name, rank in sorted(ranks["ranks"].items(), key=itemgetter(1)))
        print(
            f"average ranks: {told}; those less than {ranks['critical_difference']:.2f} apart do not differ (Nemenyi)."
        )


def _print_trials(trials, *columns):
    shown = [
        row | {"settings": specifications.outlined(row["settings"]), columns[-1]: f"{row['score']:.4f}"}
        for row in trials
    ]
    show({"trials": shown}, False, *columns)


def _columns(lines, pairs=False):
    many = next(iter(lines.values())).classes
    chosen = [
        (name, each) for each in metrics.EVALUATIONS for name in (("accuracy", "macro_f1") if many else ("sum", "f1"))
    ]
    return chosen if pairs else [f"{name}\n{each}" for name, each in chosen]


@app.command()
def results(
    name: Annotated[str | None, typer.Argument(help="A comparison that was kept (default: list them).")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="What was tried when settings were tuned.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Delete it.")] = False,
    db: Db = None,
    as_json: Json = False,
):
    """List the comparisons that were kept, or show one again."""
    store = Store(db)
    if name is None:
        if trials or remove:
            raise ValueError("--trials and --remove need the name of a comparison. Got none.")
        keys = ("id", "name", "replays", "created_at", "finished_at")
        show({"comparisons": [{key: row[key] for key in keys} for row in store.comparisons()]}, as_json, *keys)
        return
    if remove:
        store.remove_comparison(store.comparison(name)["id"])
        return
    found = experiments.load(store, name)
    if not found.lines:
        raise ValueError(f"{name} is not finished. Run its compare again: it goes on from what is kept.")
    if not trials:
        print(json.dumps(found.told())) if as_json else _print_comparison(found)
    elif as_json:
        print(json.dumps({"trials": found.trials()}))
    else:
        _print_trials(found.trials(), "data", "budget", "algorithm", "settings", found.spec.criterion)


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
    with tables.whole(out) as file, tables.text(file) as lines:
        bundle.publish(Store(db), session, lines)


@app.command()
def adopt(file: Path, db: Db = None, as_json: Json = False):
    """Keep a published session over the same data set here, and verify it."""
    store = Store(db)
    with file.open("rb") as lines:
        try:
            session = bundle.adopt(store, lines)
        except LinesError as error:
            raise ValueError(f"{file} cannot be adopted: {error}") from None
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
    write: Annotated[Path | None, typer.Option(help="Run the table, or all, and write it into this page.")] = None,
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
    results, sections = [], {}
    if write and write.exists():
        sections = reproduction.sections(write.read_text(encoding="utf-8"))
    for name in reproduction.BLOCKS if table in (None, "all") else [table]:
        results.append(reproduction.reproduce(name, data_dir, orders, zero_rows_as_mistakes))
        sections[name] = reproduction.markdown(results[-1])
        if not as_json:
            print(sections[name], flush=True)
        if write:
            write.parent.mkdir(parents=True, exist_ok=True)
            write.write_text(reproduction.page(sections), encoding="utf-8")
    if as_json:
        print(json.dumps({"blocks": results}))


def main():
    """Run the command line; what is wrong is said in one sentence, without a traceback."""
    try:
        app(spread(sys.argv[1:]))
    except BrokenPipeError:  # nobody reads on, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        named = getattr(error, "filename", None)
        print(f"error: {named} cannot be opened: {error.strerror}." if named else f"error: {error}", file=sys.stderr)
        sys.exit(1)

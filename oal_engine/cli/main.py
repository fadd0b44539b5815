"""The command line: python -m oal_engine COMMAND."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial, reduce
from operator import getitem
from pathlib import Path
from threading import Event
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from .. import datasets as data
from .. import experiments
from ..datasets import feeds, formats, readers, sources
from ..datasets.scaling import SCALINGS
from ..kernel import metrics, spending, stream
from ..kernel.algorithms import ALGORITHMS, declared, strategy
from ..kernel.learners import LEARNERS, is_multiclass
from ..kernel.parameters import parameters
from ..kernel.query_rules import QUERY_RULES, partners
from ..output import tables
from ..output.jsonlines import JsonLinesError
from ..reproduction.protocols import recorded
from ..sessions import bundle, look_back
from ..sessions import model as models
from ..sessions.export import TABLES, WHATS
from ..sessions.export import export as write_export
from ..store import Store
from . import backups as cli_backups
from . import comparisons as cli_comparisons
from .terminal import Db, Json, draw, number, progress_bar, said, show

app = typer.Typer(
    help="OAL Studio: label imbalanced streams under a budget, and replay labelled ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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
Encoding = Annotated[str, typer.Option("--encoding", help=f"Encoding: {', '.join(sources.ENCODINGS)}.")]
DEFAULTS = ", ".join(f"{name}={number:,}" for name, number in asdict(sources.LIMITS).items())
Limit = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=NUMBER", help=f"What a file may hold at most; several may be ({DEFAULTS})."),
]
Tokenizer = Annotated[str, typer.Option("--tokenizer", help="words, or tweets (keeps #, @ and emoji).")]
Scale = Annotated[str | None, typer.Option("--scale", help=f"Scaling of rows: {', '.join(SCALINGS)} (default: l2).")]
DATASET = ("id", "name", "kind", "items", "features", "positives", "negatives", "classes")
SEVERAL = ("--text", "--positive", "--feature", "--set")


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
    limits=sources.LIMITS,
):
    """The columns named on the command line, completed by what the file seems to hold."""
    if bool(mesh_tree) != bool(mesh_number):
        raise ValueError("--mesh-tree FILE and --mesh-number NUMBER must be given together.")
    if mesh_tree and (positive or contains or multiclass):
        raise ValueError("--mesh-tree says which labels are positive: no --positive, --contains or --multiclass then.")
    guess = formats.peek(path, reader=reader, encoding=encoding, limits=limits).guess
    return formats.Columns(
        tuple(text) if text else () if feature else guess.text,
        label or guess.label,
        guess.id if identity is None else identity or None,
        tuple(feature) if feature else guess.features,
        readers.mesh_terms(mesh_tree, mesh_number, limits=limits) if mesh_tree else tuple(positive or ()),
        contains,
        multiclass,
        mesh_tree is not None,
    )


def limits_of(settings):
    """The limits of a file with those that were set on the command line."""
    values = {key: int(number(value, f"--limit {key}", "a number")) for key, value in _pairs("--limit", settings)}
    for key, value in values.items():
        if key not in asdict(sources.LIMITS):
            raise ValueError(f"--limit has no {key}. It has {', '.join(asdict(sources.LIMITS))}.")
        if value < 1:
            raise ValueError(f"--limit {key} must be >= 1. Got {value}.")
    return replace(sources.LIMITS, **values)


def _pairs(option, settings):
    """The keys and values of an option that is given as KEY=VALUE."""
    for setting in settings or ():
        key, equals, value = map(str.strip, setting.partition("="))
        if not equals or not key:
            raise ValueError(f"{option} must be KEY=VALUE. Got {setting}.")
        yield key, value


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
    limit: Limit = None,
    tokenizer: Tokenizer = "tweets",
    db: Db = None,
    as_json: Json = False,
):
    """Import a file of texts or vectors as a data set."""
    limits = limits_of(limit)
    columns = columns_of(
        file, text, label, identity, feature, positive, contains, reader, encoding, multiclass, mesh_tree, mesh_number,
        limits,
    )  # fmt: skip
    store = Store(db)
    data.sweep(store)
    with progress_bar() as progress:
        dataset, items = data.import_file(
            store, file, name, columns, scale or "l2", progress, reader, encoding, limits, tokenizer=tokenizer
        )
    if as_json:
        about = store.dataset(dataset)
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
    limit: Limit = None,
    db: Db = None,
    as_json: Json = False,
):
    """Append items to a data set, in the columns of its import; running sessions go on with them.

    Lines of standard input are JSON objects or plain texts, and count as they come.
    """
    store = Store(db)
    _check(store)
    data.sweep(store)
    dataset = data.Dataset(store, name)
    named = said(text=text, label=label, id=identity)
    options = {"reader": reader, "encoding": encoding, "limits": limits_of(limit)}
    taken = feeds.Taken()
    with progress_bar() as progress, _stoppable() as stopped:
        if file == "-":
            lines = os.fdopen(0, "rb", closefd=False)  # not sys.stdin, at which a waiting thread may not be left behind
            lots = feeds.append_lines(dataset, lines, named, stopped=stopped, **options)
        else:
            lots = feeds.append_file(dataset, file, named, progress=progress, stopped=stopped, **options)
        for lot in lots:
            taken += lot
            if file == "-" and lot.skipped:
                print(f"not read: {formats.reasons(lot.skipped)}", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(asdict(taken) | {"skipped": _skipped(taken.skipped), "items": dataset.record["items"]}))
    else:
        print(f"{name}: {taken}.")


def _check(store):
    """Refuse a damaged database, of which a command may happen to read only what is whole."""
    problems = store.problems()
    if problems:
        raise ValueError(f"{store.path} is damaged: {problems[0]}. The command check tells of all that is.")


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
    store = Store(db, read_only=True)
    found = [{key: row[key] for key in (*DATASET, "sessions", "source", "created_at")} for row in store.datasets()]
    show({"datasets": found}, as_json, *DATASET, "sessions")


@app.command()
def sessions(db: Db = None, as_json: Json = False):
    """List the sessions with their progress."""
    found = [row | {"parameters": json.loads(row["parameters"])} for row in Store(db, read_only=True).sessions()]
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


@app.command()
def replay(
    source: Annotated[str, typer.Argument(metavar="DATA", help="A data set, demo:NAME, NAME=CLASS, or a file.")],
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
    limit: Limit = None,
    tokenizer: Tokenizer = "tweets",
    db: Db = None,
    as_json: Json = False,
):
    """Replay a labelled data set through an algorithm and print both evaluations."""
    values = {key: number(value, key, "a number") for key, value in _pairs("--set", settings)}
    chosen = strategy(algorithm, learner, rule, values)
    if metric not in ("sum", "cost"):
        raise ValueError(f"--metric must be sum or cost. Got {metric}.")
    if orders and permutations:
        raise ValueError("--orders FILE and --permutations NUMBER cannot be given together.")
    weights = metrics.Weights(alpha_p, c_p)
    if Path(source).is_file():
        multiclass, limits = multiclass or (chosen.multiclass and not positive), limits_of(limit)
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
            limits,
        )
        items = formats.read(source, columns, reader=reader, encoding=encoding, limits=limits)
        table = data.table(items, scale or "l2", tokenizer=tokenizer)
    else:
        store = Store(db, read_only=not source.startswith("demo:"))  # a demo is imported at its first use
        table, against = experiments.labelled_data(store, source)
        if against is not None and (positive or chosen.multiclass):
            raise ValueError(
                f"{source} sets one class against the rest, for an algorithm of two classes without --positive. "
                f"Got {chosen.algorithm}{' with --positive' * bool(positive)}."
            )
        stored = json.loads(table.record["scaling"])["name"]
        if scale not in (None, stored):
            raise ValueError(f"--scale of the data set {source} was set at its import: {stored}. Got {scale}.")
        fixed = {"--text": text, "--label": label, "--contains": contains, "--mesh-tree": mesh_tree, "--id": identity,
                 "--feature": feature, "--reader": reader, "--multiclass": multiclass,
                 "--positive": positive and (chosen.multiclass or not table.classes)}  # fmt: skip
        for option in filter(fixed.get, fixed):
            raise ValueError(f"{option} is for a file: of the data set {source} it was set at its import.")
        positive = positive if against is None else [against]
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
        found = {name: metrics.as_json(done.counts, name, weights, classes) for name in metrics.EVALUATIONS}
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
    asked = f"{result['mean']['queried']:,.1f}".removesuffix(".0")
    print(
        f"{result['algorithm']}: {result['learner']} + {result['rule']}, {len(runs)} run{'s' * (len(runs) > 1)}, "
        f"{asked} labels asked"
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
    draw(table)


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
    if what in WHATS and what not in TABLES and (kind or texts):
        raise ValueError(f"{'--format' if kind else '--texts'} is for tables: {', '.join(TABLES)}. Got {what}.")
    with progress_bar() as progress:
        store = Store(db, read_only=True)
        said = write_export(store, session, what, _format(kind, out), out, texts, partial(progress, what))
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
    limit: Limit = None,
):
    """Predict new texts or vectors with a model that a session has learned, line by line."""
    made, live, skipped = models.read(model), file == "-", {}
    columns = formats.Columns(tuple(text or ()), id=identity, features=() if made.text else tuple(made.names))
    kind, lot = "jsonl" if as_json else _format(kind, out), 1 if live else tables.CHUNK
    options = {"reader": reader, "encoding": encoding, "limits": limits_of(limit)}
    with progress_bar() as progress, tables.whole(out) if out else nullcontext(sys.stdout.buffer) as target:
        bar = None if live else partial(progress, "reading")
        source = sys.stdin.buffer if live else file
        with formats.open_entries(source, columns, progress=bar, **options) as opened:
            tables.write(models.predicted(made, *opened, skipped, texts, lot), kind, target, lot=lot)
    if skipped:
        print(f"skipped {formats.reasons(skipped)}", file=sys.stderr)


for command in (cli_comparisons.compare, cli_comparisons.tune, cli_comparisons.results):
    app.command()(command)


@app.command()
def verify(session: int, db: Db = None, as_json: Json = False):
    """Run a session again from its log and check every question and digest."""
    store = Store(db, read_only=True)
    _check(store)
    data.Dataset(store, store.session(session)["dataset"]).check()
    _report(look_back.verify(store, session), as_json)


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
        bundle.publish(Store(db, read_only=True), session, lines)


@app.command()
def adopt(file: Path, db: Db = None, as_json: Json = False):
    """Keep a published session over the same data set here, and verify it."""
    store = Store(db)
    with file.open("rb") as lines:
        try:
            session = bundle.adopt(store, lines)
        except JsonLinesError as error:
            raise ValueError(f"{file} cannot be adopted: {error}") from None
    _report(look_back.verify(store, session), as_json)


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


for command in (cli_comparisons.reproduce, cli_backups.backup, cli_backups.check, cli_backups.restore):
    app.command()(command)


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

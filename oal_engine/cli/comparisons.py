"""The commands of comparisons: compare, tune, results, reproduce."""

import json
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from .. import experiments
from ..experiments import specifications
from ..kernel import metrics
from ..reproduction import reproduce as reproduction
from ..store import Store
from .terminal import Db, Json, draw, number, progress_bar, said, show

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
Spec = Annotated[Path | None, typer.Option(help="A specification in TOML or JSON; command-line options override it.")]
Name = Annotated[str | None, typer.Option("--save", help="The name that the comparison is kept under.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads or processes (default: one a core).")]
Processes = Annotated[bool, typer.Option("--processes", help="Processes as workers, not threads.")]
Scheduler = Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="A Dask cluster as workers.")]


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
    base |= said(
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
    print(json.dumps(found.as_json())) if as_json else _print_comparison(found)


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
    wanted = said(
        data=[source], budgets=budget and [budget], tune=tune, criterion=criterion, evaluation=evaluation,
        permutations=permutations, trials=trials, seed=seed, hit=hit, metric=metric, rho=rho and _rho(rho),
        algorithms=_gridded({algorithm: {}}, settings or ()),
    )  # fmt: skip
    found = _compared(experiments.specification(wanted), db, save, Path(), workers, processes, scheduler)
    if as_json:
        told = found.as_json()
        trials = [{key: trial[key] for key in ("settings", "score")} for trial in found.trials()]
        print(json.dumps({key: told[key] for key in ("specification", "versions")} | {"trials": trials}
                         | {"result": told["results"][0]}))  # fmt: skip
    else:
        _print_trials(found.trials(), "settings", found.spec.criterion)
        _print_comparison(found)


def _rho(text):
    return text if text in specifications.ESTIMATES else number(text, "--rho", "auto, laplace or a number")


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
            from ..experiments import cluster
        except ModuleNotFoundError:
            raise ValueError("--scheduler needs Dask: pip install -r requirements-dask.txt.") from None
        return cluster.executor(scheduler, experiments.sources(wanted, store, folder))
    if processes:  # Ctrl-C reaches them too, and only the parent shall act on it
        deaf = signal.signal, (signal.SIGINT, signal.SIG_IGN)
        return ProcessPoolExecutor(workers, get_context("spawn"), *deaf)
    return ThreadPoolExecutor(workers or os.cpu_count())


def _print_comparison(found):
    spec = found.spec
    runs = f"{spec.permutations} run{'s' * (spec.permutations > 1)}"
    print(f"{found.name}: {runs}; {specifications.PROTOCOLS[spec.tune]}")
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
        draw(table)
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


def results(
    name: Annotated[str | None, typer.Argument(help="A comparison that was kept (default: list them).")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="What was tried when settings were tuned.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Delete it.")] = False,
    db: Db = None,
    as_json: Json = False,
):
    """List the comparisons that were kept, or show one again."""
    if name is None and (trials or remove):
        raise ValueError("--trials and --remove need the name of a comparison. Got none.")
    store = Store(db, read_only=not remove)
    if name is None:
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
        print(json.dumps(found.as_json())) if as_json else _print_comparison(found)
    elif as_json:
        print(json.dumps({"trials": found.trials()}))
    else:
        _print_trials(found.trials(), "data", "budget", "algorithm", "settings", found.spec.criterion)


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

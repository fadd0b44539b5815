"""The commands of comparisons: compare, tune, results, reproduce, race."""

import json
from dataclasses import asdict, dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from rich.table import Column
from typer import Argument, Option

from .. import experiments
from ..experiments import figures, papers, report, significance, specifications
from ..experiments import race as races
from ..kernel import metrics
from ..kernel.parameters import named
from ..output import tables
from ..store import Store
from .terminal import (
    PAGE,
    Db,
    Goal,
    Json,
    Knowing,
    Learning,
    Questions,
    Workers,
    draw,
    format_of,
    n_runs,
    progress_bar,
    question_names,
    set_options,
    show,
)

MOST_TRIALS = 5  # that `tune` prints
Data = Annotated[list[str] | None, Argument(metavar="DATA", help="Data sets, demo:NAME, NAME=CLASS, or files.")]
Grid = Annotated[
    list[str] | None,
    Option(
        "--set", metavar="KEY=VALUES", help="Number, list (1,10) or powers (10^-5..10^5); A:KEY= sets it for A only."
    ),
]


@dataclass(frozen=True)
class Measuring:
    """How algorithms are run and measured. Options that are not set leave the specification unchanged."""

    criterion: Annotated[str | None, Option(help="The metric that decides (default: f1).")] = None
    evaluation: Annotated[str | None, Option(help=f"{' or '.join(metrics.EVALUATIONS)} (default: push).")] = None
    permutations: Annotated[int | None, Option(min=1, help="Number of runs in random orders (default: 10).")] = None
    trials: Annotated[int | None, Option(min=1, help="Streams on which 2:1 tries each setting (default: 3).")] = None
    hit: Annotated[
        str | None,
        Option(
            metavar="VALUES", help="Share or number of labels that query rules are scaled to; 0.05,0.1 or 2^-6..2^0."
        ),
    ] = None
    theta: Annotated[float | None, Option(help="Margins of at least this predict positive (default: 0).")] = None
    points: Annotated[int | None, Option(min=1, help="Number of marks on the curves (default: 100).")] = None
    times: Annotated[bool | None, Option("--times", help="Also measure the processor time along the stream.")] = None

    def values(self) -> dict[str, Any]:
        """Return the options that were set."""
        values = set_options(**asdict(self))
        return values | ({"hit": specifications.typed_hits(self.hit, "hit")} if self.hit else {})


@dataclass(frozen=True)
class Showing:
    """Options for the contents of a figure, with the same choices as on the Compare page."""

    data: Annotated[str | None, Option(help="The data set of a figure (default: the first).")] = None
    budget: Annotated[int | None, Option(min=1, help="The budget of a figure (default: the first).")] = None
    hit: Annotated[float | None, Option(help="The hit of a figure, if there are several.")] = None
    metric: Annotated[str | None, Option(help="A metric, query_ratio or seconds (default: the criterion).")] = None
    evaluation: Annotated[str | None, Option(help="push or push_query (default: as compared).")] = None
    over: Annotated[
        str | None, Option(help=f"The x axis: {', '.join(figures.AXES | figures.AMOUNTS)}, or a parameter.")
    ] = None

    def view(self, comparison: experiments.Comparison) -> figures.ResultView:
        """Return the view that the options describe. Raise ValueError with the choices if a value is unknown."""
        blocks = [*comparison.blocks()]
        data = named([each for each, _ in blocks], self.data or blocks[0][0], "--data")
        limits = [limit for each, limit in blocks if each == data]
        asked = self.budget if self.hit is None else specifications.Hit(self.hit)
        words = {figures.budget_name(limit): limit for limit in limits}
        limit = words[named(words, figures.budget_name(asked if asked else limits[0]), "--budget or --hit")]
        chosen = set_options(
            metric=self.metric and named(figures.metrics(comparison), self.metric, "--metric"),
            evaluation=self.evaluation and named(metrics.EVALUATIONS, self.evaluation, "--evaluation"),
            axis=self.over and named(figures.axes(comparison), self.over, "--over"),
        )
        return figures.view(comparison, data, limit, **chosen)


@dataclass(frozen=True)
class Running:
    """The name under which a comparison is stored, and the database."""

    save: Annotated[str | None, Option(help="The name under which the comparison is kept.")] = None
    db: Db = None


def compare(
    sources: Data = None,
    *,
    algorithms: Annotated[str | None, Option(help="Names, or learner+rule, separated by commas.")] = None,
    settings: Grid = None,
    budget: Annotated[list[int] | None, Option(min=1, help="Number of labels; repeatable (default: no limit).")] = None,
    tune: Annotated[str | None, Option(help=f"How settings are chosen: {', '.join(specifications.PROTOCOLS)}.")] = None,
    measuring: Measuring,
    knowing: Knowing,
    learning: Learning,
    held_out: Annotated[bool | None, Option("--held-out", help="Measure the final model on an unseen fold.")] = None,
    floor: Annotated[float | None, Option(help="Share of each budget for floors under recall and F1.")] = None,
    goal: Goal = None,
    questions: Questions = None,
    spec: Annotated[Path | None, Option(help="A specification in TOML or JSON; other options override it.")] = None,
    workers: Workers,
    running: Running,
    as_json: Json = False,
) -> None:
    """Compare algorithms over the same streams, tuned the same way. Repeat the command to resume an interrupted run."""
    values = specifications.contents(spec) if spec else {}
    values |= set_options(data=sources, budgets=budget, tune=tune, held_out=held_out, floor=floor, goal=goal)
    values |= measuring.values() | learning.values()
    values |= {"questions": names} if (names := question_names(questions)) else {}
    values |= {f"seed_{name}": texts for name, texts in knowing.lists.items() if texts}
    compared = values.get("algorithms", {})
    if algorithms:
        compared = {name: compared.get(name, {}) for name in map(str.strip, algorithms.split(","))}
    if not compared:
        raise ValueError("compare needs --algorithms NAME,NAME or a --spec that names some. Got neither.")
    values["algorithms"] = _with_settings(compared, settings or [])
    result = _run(values, workers, running, spec.parent if spec else Path())
    print(json.dumps(result.as_json())) if as_json else _print_comparison(result)


def tune(
    source: Annotated[str, Argument(metavar="DATA", help="A data set, demo:NAME, NAME=CLASS, or a file.")],
    algorithm: Annotated[str, Option(help="A name, or learner+rule.")],
    *,
    settings: Grid = None,
    budget: Annotated[int | None, Option(min=1, help="Maximum number of labels (default: no limit).")] = None,
    tune: Annotated[str, Option(help="How settings are chosen: 2:1, cv or hindsight.")] = "2:1",
    measuring: Measuring,
    learning: Learning,
    workers: Workers,
    running: Running,
    as_json: Json = False,
) -> None:
    """Find the best settings of an algorithm: try all in a grid, list the best of them, and test the best."""
    if tune == "none":
        raise ValueError("--tune must be 2:1, cv or hindsight. Got none.")
    values = {"data": [source], "tune": tune, "algorithms": _with_settings({algorithm: {}}, settings or [])}
    values |= set_options(budgets=budget and [budget]) | measuring.values() | learning.values()
    result = _run(values, workers, running, Path())
    if as_json:
        everything = result.as_json()
        report = {key: everything[key] for key in ("specification", "versions")}
        report["trials"] = [{key: trial[key] for key in ("settings", "score")} for trial in result.trials()]
        print(json.dumps(report | {"result": everything["results"][0]}))
    else:
        tried = result.trials()
        _print_trials(tried[:MOST_TRIALS], "settings", result.spec.criterion)
        if more := len(tried[MOST_TRIALS:]):
            print(f"{more:,} more settings were tried; --json lists them all.")
        _print_comparison(result)


def race(
    source: Annotated[
        str | None, Argument(metavar="DATA", help="A data set of two classes, or demo:NAME (default: two clouds).")
    ] = None,
    *,
    algorithms: Annotated[
        str | None, Option(help="Up to four names, separated by commas (default: the strategies of the Race page).")
    ] = None,
    settings: Grid = None,
    budget: Annotated[int, Option(min=1, help="Labels of each.")] = races.BUDGET,
    seed: Annotated[int, Option(min=0, help="Seed of the order, and of the draws.")] = races.SEED,
    texts: Annotated[bool, Option("--texts", help="Put the texts of the items asked about into the page.")] = False,
    out: Annotated[Path | None, Option(help="The file to write (default: standard output).")] = None,
    db: Db = None,
) -> None:
    """Write a race of several strategies over one stream as an HTML page, for any browser."""
    names = [*map(str.strip, algorithms.split(","))] if algorithms else [*races.TUNED]
    for name in names:
        if name not in races.choices():
            raise ValueError(f"--algorithms must be of {', '.join(races.choices())}. Got {name}.")
    format_of(out, PAGE)
    parameters = _with_settings({name: {} for name in names}, settings or [])
    store = Store(db, read_only=not (source or "demo:").startswith("demo:"))  # a demo is imported at its first use
    data = experiments.labeled_data(store, source)[0] if source else None
    scale = races.overlap(data.rows) if data else races.OVERLAP
    lanes = [(name, races.tuned(name, scale) | _single(values)) for name, values in parameters.items()]
    with tables.whole(out) as file:
        file.write(races.page(data, lanes, budget, seed, texts))


def _single(values: dict[str, Any]) -> dict[str, float]:
    """Return {parameter: number}. Raise ValueError if the value of a parameter is not a single number."""
    for key, value in values.items():
        if not (isinstance(value, list) and len(value) == 1 and isinstance(value[0], float)):
            raise ValueError(f"--set of a race must be one number for each parameter. Got {value} for {key}.")
    return {key: value for key, (value,) in values.items()}


def _with_settings(algorithms: Any, settings: list[str]) -> dict[str, dict[str, Any]]:
    """Add the parameters of --set to the algorithms: KEY to every algorithm that has it, A:KEY only to algorithm A."""
    tables = dict(specifications.tables(algorithms))
    for setting in settings:
        key, equals, value = setting.partition("=")
        owner, colon, key = key.strip().rpartition(":")
        if not equals or not key or (colon and owner not in tables):
            raise ValueError(f"--set must be KEY=VALUES, or A:KEY=VALUES of an algorithm compared. Got {setting}.")
        values = specifications.typed(value, key)
        owners = [owner] if colon else [name for name in tables if specifications.has(name, key)]
        if not owners:
            raise ValueError(f"none of {', '.join(tables)} has a parameter {key}.")
        tables |= {name: tables[name] | {key: values} for name in owners}
    return tables


def _run(values: dict[str, Any], workers: Workers, running: Running, folder: Path) -> experiments.Comparison:
    """Run a comparison with a progress bar, and store it."""
    spec, store = specifications.specification(values), Store(running.db)
    with progress_bar() as progress, workers.executor(partial(experiments.sources, spec, store, folder)) as executor:
        try:
            bar = partial(progress, "replays")
            return experiments.compare(spec, store, running.save, executor, folder=folder, progress=bar)
        except KeyboardInterrupt:
            raise ValueError("stopped. Finished replays are kept; run the same command again to resume.") from None


def _print_comparison(comparison: experiments.Comparison) -> None:
    spec = comparison.spec
    print(f"{comparison.name}: {n_runs(spec.permutations)}; {specifications.PROTOCOLS[spec.tune]}")
    if spec.questions:
        print(f"mean over the questions that each reading answers: {', '.join(spec.questions)}")
    tests = comparison.tests()
    for (source, budget), lines in comparison.blocks().items():
        print(f"\n{source}, {figures.budget_name(budget)}")
        names = ("accuracy", "macro_f1") if next(iter(lines.values())).classes else ("sum", "f1")
        columns = [(metric, evaluation) for evaluation in metrics.EVALUATIONS for metric in names]
        columns += [(names[1], metrics.LIST)] * comparison.has_list
        spent = "readings" if spec.questions else "labels"
        rows = []
        for name, line in lines.items():
            cells = []
            for metric, evaluation in columns:
                values = comparison.values(line, metric, evaluation)
                spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
                cells.append(f"{values.mean():.3f}{spread}")
            verdict = significance.verdict(tests[source, budget][name], spec.permutations)
            asked = "" if spec.held_out else f"{line.asked.mean():,.0f}"
            settings = specifications.outlined(line.setting).replace(", ", "\n")
            rows.append([line.algorithm, settings, asked, *cells, verdict])
            if spec.questions:
                worst = (comparison.values(line, *each, over=np.min).mean() for each in columns)
                rows.append(["worst question", "", "", *(f"{value:.3f}" for value in worst)])
        draw(["", Column("settings", no_wrap=True), spent, *map("\n".join, columns), ""], rows)
    print(f"best and level are by {spec.criterion} under {spec.evaluation}.")
    print("level: no significant difference from the best (paired t-test, Holm, 5 %).")
    if (ranks := comparison.ranks())["critical_difference"]:
        listed = ", ".join(f"{name} {rank:.2f}" for name, rank in sorted(ranks["ranks"].items(), key=itemgetter(1)))
        apart = f"ranks less than {ranks['critical_difference']:.2f} apart"
        print(f"average ranks: {listed}; {apart} do not differ significantly (Nemenyi).")


def _print_trials(trials: list[dict[str, Any]], *columns: str) -> None:
    rows = [
        row | {"settings": specifications.outlined(row["settings"]), columns[-1]: f"{row['score']:.4f}"}
        for row in trials
    ]
    show({"trials": rows}, False, *columns)


def results(
    name: Annotated[str | None, Argument(help="A comparison that was kept (default: list all).")] = None,
    *,
    trials: Annotated[bool, Option("--trials", help="Show every setting that was tried in tuning.")] = False,
    remove: Annotated[bool, Option("--remove", help="Delete the comparison.")] = False,
    out: Annotated[
        Path | None, Option(help=f"Write it to a file: {', '.join(f'.{kind}' for kind in report.FILES)}.")
    ] = None,
    showing: Showing,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List the stored comparisons, show one of them, or write its figure, table or report to a file."""
    if name is None and (trials or remove or out):
        raise ValueError("--trials, --remove and --out need the name of a comparison. Got none.")
    if not out and showing != Showing():
        raise ValueError("--data, --budget, --hit, --metric, --evaluation and --over are for --out FILE.")
    store = Store(db, read_only=not remove)
    if name is None:
        keys = ("id", "name", "replays", "created_at", "finished_at")
        show({"comparisons": [{key: row[key] for key in keys} for row in store.comparisons()]}, as_json, *keys)
        return
    if remove:
        store.remove_comparison(store.comparison(name)["id"])
        return
    comparison = experiments.load(store, name)
    if not comparison.lines:
        raise ValueError(f"{name} is not finished. Run the same compare command again to resume it.")
    if out:
        write(comparison, out, showing)
    elif not trials:
        print(json.dumps(comparison.as_json())) if as_json else _print_comparison(comparison)
    elif as_json:
        print(json.dumps({"trials": comparison.trials()}))
    else:
        _print_trials(comparison.trials(), "data", "budget", "algorithm", "settings", comparison.spec.criterion)


def write(comparison: experiments.Comparison, out: Path, showing: Showing) -> None:
    """Write a figure, table or report of a comparison to a file. The suffix of the file decides which."""
    kind = named(report.FILES, out.suffix[1:].lower(), "the suffix of --out")
    content = report.FILES[kind][0](comparison, showing.view(comparison))
    with tables.whole(out) as file:
        file.write(content)


def reproduce(
    name: Annotated[
        str | None, Argument(help="A published table or figure, or all (default: list them with their files).")
    ] = None,
    data: Annotated[
        Path | None, Option(help="Folder of the papers' data (default: ../shared/data), or a file of your own.")
    ] = None,
    positive: Annotated[list[str] | None, Option(help="A label of the rare class of your file; repeatable.")] = None,
    permutations: Annotated[
        int | None, Option(min=2, max=specifications.MOST_RUNS, help="Number of orders (default: as published).")
    ] = None,
    write: Annotated[Path | None, Option(help="Write the sections into this page of Markdown, too.")] = None,
    db: Annotated[Path | None, Option(help="Keep data and comparisons here; a stopped run is resumed from it.")] = None,
    as_json: Json = False,
) -> None:
    """Run published tables and figures again, on their data or on yours, and compare with the published numbers."""
    if name is None:
        rows = papers.listed()
        rows = rows if as_json else [row | {"files": ", ".join(row["files"])} for row in rows]
        show({"published": rows}, as_json, "name", "title", "files")
        return
    format_of(write, {"Markdown": (".md",)})
    results, sections = [], papers.sections(write.read_text(encoding="utf-8")) if write and write.exists() else {}
    with TemporaryDirectory() as folder, progress_bar() as progress:
        store = Store(db or Path(folder) / "papers.db")
        for each in papers.names() if name == "all" else [name]:
            results.append(papers.reproduce(each, store, data, positive or (), permutations, progress))
            sections[each] = papers.markdown(results[-1])
            if not as_json:
                print(sections[each], flush=True)
            if write:
                write.parent.mkdir(parents=True, exist_ok=True)
                write.write_text(papers.page(sections), encoding="utf-8")
    if as_json:
        print(json.dumps({"results": results}))

"""The commands on a session: export, predict, add-labels, answers-to-check, verify, publish, adopt."""

import json
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from typer import Argument, Option

from ..datasets.reading import reasons
from ..output import tables, tools
from ..output.jsonlines import JsonLinesError
from ..sessions import look_back
from ..sessions.files import bundle, methods, model_formats, player, predicting
from ..sessions.files import export as exports
from ..sessions.insights import answer_checks, estimates
from ..sessions.one_question import QuestionTrace
from ..sessions.session import Session as Opened
from ..sessions.settings import Settings
from ..store import Store
from .files import Embed, Id, Reading, Text, Texts, Vectors
from .terminal import PAGE, Db, Formats, Json, Workers, format_of, progress_bar, refuse_terminal, show, undamaged

Session = Annotated[int, Argument(help="The number of a session; `sessions` lists them.")]
What = Annotated[str, Option("--what", help=f"{', '.join(exports.WHATS)}.")]
FORMATS_OF_TABLES = f"{', '.join(tables.FORMATS)} (default: by the file's suffix, or csv)"
Format = Annotated[str | None, Option("--format", help=f"{FORMATS_OF_TABLES}.")]
ToolFormat = Annotated[
    str | None,
    Option(
        "--format",
        help=f"{FORMATS_OF_TABLES}; for --what table also {', '.join(tools.TOOLS)}; for --what model "
        f"{', '.join(model_formats.FORMATS)}; for --what methods {', '.join(methods.FORMATS)} (default: by the suffix, "
        "or the first).",
    ),
]
TABLES: Formats = {name: each.suffixes for name, each in tables.FORMATS.items()}
TOOLS: Formats = {name: each.suffixes for name, each in tools.TOOLS.items()}
SUFFIXES: dict[str, Formats] = {
    "model": {name: each.suffixes for name, each in model_formats.FORMATS.items()},
    "report": PAGE,
    "methods": {name: each.suffixes for name, each in methods.FORMATS.items()},
}  # of other exports
OWN_SUFFIX: Formats = {"ris": TOOLS["ris"]}  # tools that need no --format, because no other format has their suffix
ALL_FORMATS = tables.FORMATS | tools.TOOLS | model_formats.FORMATS | methods.FORMATS
BINARY = [name for name, each in ALL_FORMATS.items() if each.is_binary]
Output = Annotated[Path | None, Option("--output", "--out", help="The file to write (default: standard output).")]


def export(
    session: Session,
    what: What = "labels",
    format: ToolFormat = None,
    out: Output = None,
    texts: Texts = False,
    first: Annotated[
        int | None, Option(min=1, metavar="N", help="Items of the positives, the surest first (default: the list).")
    ] = None,
    question: Annotated[
        str | None,
        Option(
            help="One of several questions, by its name (default for a model or a report: all, models in a ZIP "
            "archive)."
        ),
    ] = None,
    db: Db = None,
) -> None:
    """Write a table of a session, its model, a report, or a text for a methods section.

    Tables: labels, decisions, predictions for all items, positives, second opinions, all items (also for other tools).
    """
    if texts and what in exports.WHATS and what not in exports.TABLES:
        raise ValueError(f"--texts is for tables: {', '.join(exports.TABLES)}. Got {what}.")
    if first and what != "positives":
        raise ValueError(f"--first is for positives. Got {what}.")
    if format in TOOLS and what != "table":
        raise ValueError(f"--format {format} is for the table of all items (--what table). Got {what}.")
    formats = {**TABLES, **(TOOLS if format else OWN_SUFFIX)} if what == "table" else SUFFIXES.get(what, TABLES)
    is_archive = what == "model" and not question and bool(Settings.read(Store(db, read_only=True), session).questions)
    format = format_of(out, dict.fromkeys(formats, (".zip",)) if is_archive else formats, format)
    refuse_terminal(out, "an archive" if is_archive else format, is_archive or format in BINARY)
    with progress_bar() as progress:
        store, bar, more = Store(db, read_only=True), partial(progress, what), {"first": first} if first else {}
        note = exports.export(store, session, what, format, out, texts, bar, question, **more)
    if note:
        print(note, file=sys.stderr)


def predict(
    file: Annotated[str, Argument(metavar="FILE", help="Texts or vectors in any format; - is standard input.")],
    model_file: Annotated[Path, Option("--model", help="A model, or an archive of models, of `export --what model`.")],
    *,
    format: Format = None,
    out: Output = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per line.")] = False,
    text: Text = None,
    identity: Id = None,
    texts: Texts = False,
    vectors: Vectors = None,
    embed: Embed = None,
    reading: Reading,
    parts: Annotated[
        bool, Option("--parts", help="FILE and --out are folders: a worker predicts each file, to a file of its own.")
    ] = False,
    workers: Workers,
) -> None:
    """Predict new texts or vectors with the model of a session, line by line."""
    live = file == "-"
    format = format_of(None if parts else out, TABLES, "jsonl" if as_json else format or ("parquet" if parts else None))
    how = predicting.Prediction(model_file, format, tuple(text or ()), identity, texts, embed, reading.arguments)
    if parts:
        if vectors or live or out is None:
            raise ValueError("--parts needs a folder, --out with another folder, and no --vectors.")
        with progress_bar() as progress, workers.executor() as executor:
            before, skipped = predicting.predict_parts(how, Path(file), out, executor, partial(progress, "predicting"))
        print(f"{before:,} files were predicted before." if before else "", end="\n" * bool(before), file=sys.stderr)
    elif workers != Workers():
        raise ValueError("--workers, --processes and --scheduler are for --parts.")
    else:
        refuse_terminal(out, format, format in BINARY)
        own = {"vectors": reading.vectors(vectors)} if vectors else {}
        with progress_bar() as progress, tables.whole(out) if out else nullcontext(sys.stdout.buffer) as target:
            bar = None if live else partial(progress, "reading")
            skipped = predicting.predict_file(how, sys.stdin.buffer if live else file, target, bar, live, **own)
    if skipped:
        print(f"skipped {reasons(skipped)}", file=sys.stderr)


def add_labels(
    session: Session,
    labels: Annotated[int, Argument(help="How many labels to add to the budget.")],
    horizon: Annotated[
        int | None, Option(min=1, help="Items to plan for, if more will come (default: the items of the data set).")
    ] = None,
    db: Db = None,
) -> None:
    """Add labels to the budget of a session. Labeling continues at the item where the budget ran out."""
    opened = Opened(Store(db), session)
    if horizon is None and labels > (most := opened.room) > 0:
        words = f"The items left have room for {most:,} more labels, so {most:,} are added, not {labels:,}."
        print(words, file=sys.stderr)
        labels = most
    opened.add_labels(uuid4().hex, labels, horizon=horizon)
    progress = opened.place.progress
    print(f"{opened.settings.name}: {progress.labels:,} of {progress.budget:,} labels used.")
    if not opened.labelled:
        print(estimates.forecast(progress.budget, opened.multiclass))


def answers_to_check(
    session: Session,
    most: Annotated[int, Option(min=1, help="Answers of each list.")] = 20,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List answers that contradict a model trained on all other answers, and answers that influence the model most."""
    opened = Opened(Store(db, read_only=True), session)
    checks, words = answer_checks.of_session(opened), opened.settings.answers
    first = {"at odds": checks.at_odds[:most], "decisive": checks.decisive[:most]}
    items = opened.store.items(opened.dataset.id, [each.entry.item for part in first.values() for each in part])
    lists = {
        name: [
            {
                "number": each.entry.number, "id": items[each.entry.item]["id"], "answer": words[each.entry.label],
                "others": words[each.other], "margin": round(each.margin, 3), "without": each.without,
                "corrected": each.corrected,
            }
            for each in part
        ]
        for name, part in first.items()
    }  # fmt: skip
    show(lists, as_json, "number", "id", "answer", "others", "margin", "without", "corrected")


def verify(session: Session, db: Db = None, as_json: Json = False) -> None:
    """Rebuild a session from its log and check every question and digest."""
    _report(look_back.verify(undamaged(Store(db, read_only=True)), session), as_json)


def _report(report: look_back.Report, as_json: bool) -> None:
    """Print a report. Exit with code 1 if the session fails verification."""
    print(json.dumps(report.as_dict(), ensure_ascii=False) if as_json else f"{report.name}: {report}")
    if not report.verified:
        raise typer.Exit(1)


def publish(
    session: Session,
    format: Annotated[
        str | None, Option("--format", help="jsonl or html (default: by the file's suffix, or jsonl).")
    ] = None,
    out: Annotated[Path | None, Option(help="The file to write (default: standard output).")] = None,
    texts: Annotated[bool, Option("--texts", help="Put the items, and the terms learned, into the page.")] = False,
    question: Annotated[
        str | None, Option(help="One of several questions, by its name: a page is about one of them.")
    ] = None,
    db: Db = None,
) -> None:
    """Write a session as JSON lines, for `adopt` in another database, or as an HTML page with a player."""
    format = format_of(out, {"jsonl": (".jsonl",), **PAGE}, format)
    if texts and format != "html":
        raise ValueError("--texts is for pages: a published log never holds them. Got it with --format jsonl.")
    if question and format != "html":
        raise ValueError("--question is for pages: a published log has all questions. Got it with --format jsonl.")
    store = Store(db, read_only=True)
    with tables.whole(out) as file:
        if format == "html":
            trace = look_back.Trace(store, session)
            file.write(player.page(QuestionTrace(trace, question) if question else trace, texts))
            return
        with tables.text(file) as lines:
            bundle.publish(store, session, lines)


def adopt(
    file: Annotated[Path, Argument(help="A session that `publish` wrote.")], db: Db = None, as_json: Json = False
) -> None:
    """Add a published session to this database, and verify it. The database must contain the session's data set."""
    store = Store(db)
    with file.open("rb") as lines:
        try:
            session = bundle.adopt(store, lines)
        except JsonLinesError as error:
            raise ValueError(f"{file} cannot be adopted: {error}") from None
    _report(look_back.verify(store, session), as_json)

"""Files of a session to download, each written on request, once, and kept until the session changes."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

import streamlit as st

from oal_engine.cli.main import command as parser
from oal_engine.output import tables, tools
from oal_engine.sessions.files import export as exports
from oal_engine.sessions.files import methods, model_formats
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, Settings
from oal_engine.store import Store

from . import access
from .page import NO_ROLE, annotator, error_in_words, reason_to_withhold

CHOICES = {
    "table": "All items: your data, with labels and predictions",
    "labels": "Labels: every question with its answer",
    "decisions": "Decisions: every item that was streamed, asked or not",
    "predictions": "Predictions: every item of the stream, the surest first",
    "positives": "Positives: items answered or predicted as positive",
    "model": "Model: predicts new items, here or in other programs",
    "report": "Report: one page of HTML",
    "methods": "Methods: a text for a paper",
}
OF_AUDIT = {"audit": "Audit: the column, corrected by the answers, its likely errors first"}
OF_ALL, OF_ONE = (
    ("labels", "decisions", "report", "methods"),
    ("predictions", "positives", "model"),
)  # exports if a session asks several questions: of all questions, of one question
OF_EITHER = {"model": "All questions, in a ZIP archive", "report": "All questions"}  # names of the choice ""
WIDTH = 440  # pixels, in which every choice fits
MAX_EXPORTS, WAIT_SECONDS = 2, 60  # exports that run at the same time, and how long another one waits for them
EXPORTS = BoundedSemaphore(MAX_EXPORTS)
MOST_CELLS, TEXT_CELLS = 10**6, 50  # cells that this process exports itself, and how many of them a text counts as
KEPT_BYTES = 2**26  # of all files that are kept
PAGE_BUTTON = "Download as a page (HTML)"


def downloads_button(store: Store, settings: Settings, opened: Session | None = None) -> None:
    """Show a button that opens the downloads of a session. opened: the session, if this server has opened it."""
    session, questions = settings.id, settings.question_names
    choices = [what for what in CHOICES if not (settings.strategy.multiclass and what == "positives")]
    if questions:
        choices = [*OF_ALL, *OF_ONE]
    if settings.audited:
        choices = [*OF_AUDIT, *(what for what in choices if what != "model")]
    with st.popover("Download", icon=":material/download:"):
        what = st.selectbox(
            "What", choices, format_func=(CHOICES | OF_AUDIT).__getitem__, key="download-what", width=WIDTH
        )
        kind, texts, options = None, False, list[str]()
        if questions and what in (*OF_ONE, *OF_EITHER):
            offered = [*[""] * (what in OF_EITHER), *questions]
            key = f"download-question-{session}-{len(offered)}"
            names = settings.decider_names | {"": OF_EITHER.get(what, "")}
            question = st.selectbox(
                "Question", offered, format_func=lambda name: names.get(name, name), key=key, width=WIDTH
            )
            options = [f"--question={question}"] * bool(question)
        if what != "report":
            formats = _formats(store, session, what)
            key = f"download-as-{len(formats)}"  # keeps the choice until other formats are offered
            words = {kind: each.purpose for kind, each in formats.items()}
            kind = st.selectbox("Format", [*formats], format_func=words.__getitem__, key=key, width=WIDTH)
        if what in ("decisions", "predictions", "positives", "audit"):
            texts = st.checkbox("With texts or numbers", key="download-texts")
        suffix = ".zip" if questions and what == "model" and not options else None
        options += ["--texts"] * texts
        _export_button("Download", store, session, what, kind, options, "download", suffix, opened)
        if what == "methods" and st.button("Show it here"):
            text = partial(export, store.path, session, what, ["--format", "text"])
            try:
                st.code(with_access_check(store, session, text)().decode(), None, wrap_lines=True, height=300)
            except ValueError as error:
                st.error(error_in_words(error))
        st.text("Prepared on request; labeling is not interrupted.")


def _formats(store: Store, session: int, what: str) -> dict[str, tables.Format]:
    """Return the formats in which an export can be written, by name. what: the export, such as "labels"."""
    if what == "methods":
        return methods.FORMATS
    if what == "model":
        return model_formats.offered()
    if what != "table":
        return tables.FORMATS
    has_texts = store.dataset(store.session(session)["dataset"])["kind"] == "text"
    return tables.FORMATS | {kind: each for kind, each in tools.TOOLS.items() if has_texts or not each.needs_texts}


def csv_button(words: str, opened: Session, what: str, *options: str) -> None:
    """Show a button that downloads a table of an open session as CSV. options: as in `export`."""
    _export_button(words, opened.store, opened.id, what, "csv", [*options], f"download-{what}", opened=opened)


def _export_button(
    words: str, store: Store, session: int, what: str, kind: str | None, options: list[str], key: str,
    suffix: str | None = None, opened: Session | None = None,
) -> None:  # fmt: skip
    """Show a button that downloads an export. kind: name of the format, None for a report. suffix: suffix of the file,
    None for the suffix of the format. opened: as in `downloads_button`."""
    options = (["--format", kind] if kind else []) + options
    file = with_access_check(store, session, partial(export, store.path, session, what, options, opened))
    formats = tables.FORMATS | tools.TOOLS | model_formats.FORMATS | methods.FORMATS
    suffix = suffix or (formats[kind].suffixes[0] if kind else ".html")
    name = f"session-{session}-{kind if kind in tools.TOOLS else what}{suffix}"
    st.download_button(words, file, name, type="primary", on_click="ignore", key=key)


def page_button(store: Store, session: int, question: str | None) -> None:
    """Show a button that downloads the player of a session as an HTML page. question: the question to play, if several
    are asked about each item."""
    texts = st.checkbox("With the texts, and the terms learned from them", key="page-texts")
    options = ["--texts"] * texts + [f"--question={question}"] * bool(question)
    command = ["publish", str(session), "--format", "html", *options]
    make = partial(cached_file, store.path, session, command, partial(output, store.path, command))
    file = with_access_check(store, session, make)
    st.download_button(PAGE_BUTTON, file, f"session-{session}.html", on_click="ignore", key="publish-page")


def with_access_check(store: Store, session: int, make: Callable[[], bytes]) -> Callable[[], bytes]:
    """Wrap the function that makes a file: it first checks again that the user may read the session and its answers."""
    person, name = st.user.to_dict(), annotator()  # read here: the thread in which Streamlit makes the file cannot

    def checked_again() -> bytes:
        Settings.read(store, session)
        if not (own := access.role(store, session, access.standing(person))):
            raise SessionError(NO_ROLE)
        if problem := reason_to_withhold(store, session, name, own):
            raise SessionError(problem)
        return make()

    return checked_again


class _File:
    """A file that is kept. version: version of the session when it was made (None: it is not made yet)."""

    def __init__(self) -> None:
        self.lock, self.content = Lock(), b""
        self.version: tuple[str, int] | None = None


_files: dict[tuple[Any, ...], _File] = {}  # by database and command, the oldest first
_writing = Lock()  # one export at a time in this process


def cached_file(database: Path, session: int, command: list[str], make: Callable[[], bytes]) -> bytes:
    """Return the file that a command writes about a session. It is made once, and used until the session changes."""
    file = _files.setdefault((database, *command), _File())
    with file.lock, closing(Store(database, read_only=True)) as store:
        version = store.fingerprint(session), store.last_later_label(store.session(session)["dataset"])
        if file.version != version:
            file.content, file.version = make(), version
        content = file.content
    size = 0
    for name, each in reversed([*_files.items()]):
        if (size := size + len(each.content)) > KEPT_BYTES:
            _files.pop(name, None)
    return content


def export(database: Path, session: int, what: str, options: list[str], opened: Session | None = None) -> bytes:
    """Return the bytes of an export of a session. options: options of the command `export`, such as --texts. opened: as
    in `downloads_button`."""
    command = ["export", str(session), "--what", what, *options]
    return cached_file(database, session, command, partial(_exported, database, session, command, opened))


def _exported(database: Path, session: int, command: list[str], opened: Session | None) -> bytes:
    """Write an export: in this process, which has imported and compiled everything that it takes, or in a subprocess if
    it is so large that answers would wait for it. Most of the time would go to opening the session, if it is not."""
    with closing(Store(database, read_only=True)) as store, store.snapshot():
        data = store.dataset(store.session(session)["dataset"])
        if data["items"] * (TEXT_CELLS if data["kind"] == "text" else data["features"]) > MOST_CELLS:
            return output(database, command)
        options = parser("export").make_context(*command[:1], command[1:]).params
        opened = opened if options["what"] in exports.TABLES else None  # others take longer than an answer may wait
        with _writing, opened.still() if opened else nullcontext(), tempfile.TemporaryDirectory() as folder:
            file, source, kind = Path(folder) / "output", opened or session, options["format"] or "csv"
            more = {"question": options["question"]} | ({"first": options["first"]} if options["first"] else {})
            exports.export(store, source, options["what"], kind, file, options["texts"], **more)
            return file.read_bytes()


def output(database: Path, command: list[str]) -> bytes:
    """Run a command of the engine in a subprocess, and return the bytes of the file that it writes. Raise ValueError if
    it fails, or if it cannot begin within WAIT_SECONDS."""
    if not EXPORTS.acquire(timeout=WAIT_SECONDS):
        raise ValueError(f"the server is writing {MAX_EXPORTS} other files. Try again in a minute.")
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "output"
            engine = [sys.executable, "-m", "oal_engine", *command, "--out", str(file), "--db", str(database.resolve())]
            root = Path(__file__).parent.parent
            result = subprocess.run(engine, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if result.returncode:
                raise ValueError(result.stderr)
            return file.read_bytes()
    finally:
        EXPORTS.release()

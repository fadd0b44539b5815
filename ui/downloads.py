"""What comes out of a session, as files to download, each made when it is asked for."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore

import streamlit as st

from oal_engine.output import tables
from oal_engine.sessions.settings import SessionError, Settings
from oal_engine.store import Store

from .access import role
from .page import annotator, withheld

CHOICES = {
    "labels": "Labels: every question with its answer",
    "decisions": "Decisions: every item that was streamed, asked or not",
    "predictions": "Predictions: every item of the stream, the surest first",
    "positives": "Positives: what was answered or is predicted as positive",
    "model": "Model: terms and weights, for `predict`",
    "report": "Report: one page of HTML",
}
SUFFIXES = {"model": "gz", "report": "html"}
AT_ONCE, PATIENCE = 2, 60  # files that the server makes at once, and seconds that another one waits
PLACES = BoundedSemaphore(AT_ONCE)
PAGE_BUTTON = "Download as a page (HTML)"


def downloads(store: Store, session: int, multiclass: bool) -> None:
    """A button behind which the files of a session are."""
    choices = [what for what in CHOICES if not (multiclass and what == "positives")]
    with st.popover("Download", icon=":material/download:", help="Labels, decisions, predictions, model, report"):
        what = st.selectbox("What", choices, format_func=CHOICES.__getitem__, key="download-what")
        kind = texts = None
        if what not in SUFFIXES:
            kind = st.segmented_control("Format", list(tables.FORMATS), default="csv", required=True, key="download-as")
        if what in ("decisions", "predictions", "positives"):
            texts = st.checkbox("With texts or numbers", key="download-texts")
        suffix = SUFFIXES.get(what, kind)
        st.download_button(
            "Download",
            checked(store, session, partial(exported, store.path, session, what, kind, texts)),
            f"session-{session}-{what}.{suffix}",
            type="primary",
            on_click="ignore",
            key="download",
        )
        st.text("Prepared on request; labeling is not interrupted.")


def positives(store: Store, session: int) -> None:
    """A button for the list that a session was made for."""
    st.download_button(
        "Download the list of positives",
        checked(store, session, partial(exported, store.path, session, "positives", "csv", True)),
        f"session-{session}-positives.csv",
        type="primary",
        on_click="ignore",
        key="download-positives",
    )


def page(store: Store, session: int) -> None:
    """A button for the player of a session as a page of its own."""
    texts = st.checkbox("With the texts, and the terms learned from them", key="page-texts")
    make = partial(made, store.path, ["publish", str(session), "--format", "html"] + ["--texts"] * texts)
    file = checked(store, session, make)
    st.download_button(PAGE_BUTTON, file, f"session-{session}.html", on_click="ignore", key="publish-page")


def checked(store: Store, session: int, make: Callable[[], bytes]) -> Callable[[], bytes]:
    """What makes a file, asking once more, when it is wanted, whether the session is open to who is here now, and its
    answers too."""
    person, name = st.user.to_dict(), annotator()  # which nobody knows where Streamlit makes the file

    def checked_again() -> bytes:
        Settings.read(store, session)
        own = role(store, session, person)
        if not own:
            raise SessionError("you have no role in this session any more.")
        if problem := withheld(store, session, name, own):
            raise SessionError(problem)
        return make()

    return checked_again


def exported(database: Path, session: int, what: str, kind: str | None, texts: bool | None) -> bytes:
    """The bytes of an export of a session."""
    options = (["--format", kind] if kind else []) + ["--texts"] * bool(texts)
    return made(database, ["export", str(session), "--what", what, *options])


def made(database: Path, command: list[str]) -> bytes:
    """The bytes of a file, made by a command of the command line into a temporary one; few are made at once."""
    if not PLACES.acquire(timeout=PATIENCE):
        raise ValueError(f"the server makes {AT_ONCE} other files. Try again in a minute.")
    try:
        return _made(database, command)
    finally:
        PLACES.release()


def _made(database: Path, command: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "made"
        engine = [sys.executable, "-m", "oal_engine", *command, "--out", str(file), "--db", str(database.resolve())]
        root = Path(__file__).parent.parent
        done = subprocess.run(engine, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr)
        return file.read_bytes()

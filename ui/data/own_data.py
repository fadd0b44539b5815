"""Data of one's own on the Home page: a file that is dropped, or pasted texts, kept with the columns that are guessed,
and a look at some of the items before labeling begins."""

import html
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any

import streamlit as st

from oal_engine.datasets import Dataset, ImportRequest, import_process, reading
from oal_engine.datasets.reading import readers, sources
from oal_engine.datasets.reading.parsed import without_options
from oal_engine.sessions.items import file_numbers
from oal_engine.store import Store

from ..page import complain, mail, note
from .file_questions import PROBLEMS, Described, File, choose_columns, describe, looked_at, progress_bar, show_rows

SHOWN = 10  # items
LONGEST, FEATURES = 300, 12  # characters, or numbers of a vector, that are shown of each
STYLE = """<style>
.oal-look { max-height: 16rem; margin: 0; padding-left: 2rem; overflow-y: auto; font-size: .92rem; }
.oal-look li { unicode-bidi: plaintext; overflow-wrap: anywhere; }
</style>"""


class _Pasted(BytesIO):
    """Texts that were pasted, as an upload."""

    def __init__(self, words: str) -> None:
        super().__init__(words.encode("utf-8", "replace"))
        self.file_id = words


def bring(store: Store) -> None:
    """Let a file be dropped or texts be pasted, and open the form of a new session with what they hold. Where something
    is doubtful, it is asked as on the Data page."""
    state = st.session_state
    brought = state.get("brought", 0)  # what is imported is not chosen any more
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    kinds = ", ".join(readers.READERS)
    upload: Any = left.file_uploader("Or label your own: drop a file here", key=f"own-{brought}", help=f"{kinds}.")
    with right.popover("Paste texts", width="stretch"):
        words = st.text_area("Texts, one a line", key=f"pasted-{brought}", height=200)
        if st.button("Use these texts", type="primary", key="paste"):
            state["own-pasted"] = words
    if upload:
        file = upload, upload.name
    elif words.strip() and words == state.get("own-pasted"):
        file = _Pasted(words), "Pasted texts.txt"
    else:
        return
    refused, problem = state.get("own-problem", ("", ""))
    if file[0].file_id != refused:
        problem = ""
    described = None if problem else _clear(file)
    if described := described or _asked(file, problem):
        try:
            dataset, report = _imported(store, file, *described)
        except PROBLEMS as error:
            state["own-problem"] = file[0].file_id, without_options(str(error))
        else:
            state.update({"brought": brought + 1, "form": True, "new-dataset": dataset, "own-report": report})
        st.rerun()


def _clear(file: File) -> tuple[reading.Columns, Described] | None:
    """How a file is read, and what its columns are, if nothing about that is doubtful."""
    plain = None, "utf-8", sources.Layout()
    with suppress(*PROBLEMS):
        peek = looked_at(file, *plain)
        if not peek.doubtful:
            return peek.guess, Described(peek, *plain)
    return None


def _asked(file: File, problem: str) -> tuple[reading.Columns, Described] | None:
    """The same as a person says it, once it is said; problem: why it could not be imported as it was said before."""
    with st.container(border=True):
        st.text("Not everything about this file is clear: say how to read it, and what it holds.")
        if not (described := describe(file, "own-")):
            return None
        note(reading.layout_sentence(described.peek.description))
        show_rows(described.peek)
        columns = choose_columns(described.peek)
        sent = st.button("Import", type="primary", key="own-import")
        if problem:
            complain(problem)
        return (columns, described) if sent else None


def _imported(store: Store, file: File, columns: reading.Columns, described: Described) -> tuple[int, str]:
    """Keep a file as a data set; its id, and a sentence on it."""
    stem, taken = file[1].split(".")[0] or "My data", {row["name"] for row in store.datasets()}
    title = next(each for n in range(1, len(taken) + 2) if (each := stem if n == 1 else f"{stem} {n}") not in taken)
    _, reader, encoding, layout = described
    with progress_bar() as bar:
        request = ImportRequest(reader, encoding, layout, owner=mail())
        report = import_process.import_file(store, file, title, columns, request, bar)
    return store.dataset(title)["id"], f"{title}: {report}"


def look(store: Store, row: dict[str, Any]) -> None:
    """Show some items of a data set by chance, and others where these are not enough."""
    if report := st.session_state.pop("own-report", None):
        note(report)
    with st.expander(f"Look at {SHOWN} random items", expanded=not row["sessions"]):
        draw, data = st.session_state.get("look", 0), Dataset(store, row["id"])
        places = Random(f"{data.id} {draw}").sample(range(row["items"]), min(SHOWN, row["items"]))
        items = store.items(data.id, places, texts=True)
        st.html(
            f'{STYLE}<ol class="oal-look" tabindex="0">{"".join(_line(data, items[place]) for place in places)}</ol>'
        )
        if st.button("Others", key="look-again"):
            st.session_state["look"] = draw + 1
            st.rerun()


def _line(data: Dataset, item: dict[str, Any]) -> str:
    """The beginning of an item as a line of the list."""
    words = item["text"]
    if words is None:
        words = ", ".join(f"{name} {value}" for _, name, value in file_numbers(data, item["position"], FEATURES))
    words = " ".join(words.split())
    return f'<li dir="auto">{html.escape(words[:LONGEST])}{"…" * (len(words) > LONGEST)}</li>'

"""The user's own data on the Home page: drop a file or paste texts, import them with the guessed columns, and look at
some items before labeling begins."""

import html
from contextlib import suppress
from functools import partial
from io import BytesIO
from random import Random
from typing import Any

import streamlit as st

from oal_engine.datasets import Dataset, ImportRequest, import_process, reading
from oal_engine.datasets.reading import readers, sources
from oal_engine.sessions.items import file_numbers
from oal_engine.store import Store

from ..page import mail, note, person
from . import file_questions as ask

DROP = "Drop a file of texts or rows"
OTHERS = "Show {} other random items"

SAMPLE_ITEMS = 10
ITEM_CHARACTERS, ITEM_NUMBERS = 300, 12  # shown: characters of a text, numbers of a vector
STYLE = """<style>
.oal-look { max-height: 24rem; margin: 0; padding-left: 2rem; overflow-y: auto; font-size: .92rem; }
.oal-look li { unicode-bidi: plaintext; overflow-wrap: anywhere; }
</style>"""


class _Pasted(BytesIO):
    """Pasted texts as a file-like object, which can be read like an upload."""

    def __init__(self, words: str) -> None:
        super().__init__(words.encode("utf-8", "replace"))
        self.file_id = words


def own_data_form(store: Store) -> None:
    """Let the user drop a file or paste texts, import them, and open the form of a new session on them.

    Nothing of a dropped file is stored until its first items were shown and the user confirmed them.
    """
    state = st.session_state
    nth = state.get("brought", 0)  # a new key after an import empties the fields
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    kinds = ", ".join(readers.READERS)
    uploads: Any = left.file_uploader(DROP, key=f"own-{nth}", help=f"{kinds}.", accept_multiple_files=True)
    with right.popover("Paste texts", width="stretch"):
        words = st.text_area("Texts, one a line", key=f"pasted-{nth}", height=200)
        if st.button("Use these texts", type="primary", key="paste"):
            state["own-pasted"] = words
    file = ask.one_upload(uploads)
    if not file and words.strip() and words == state.get("own-pasted"):
        file = _Pasted(words), "Pasted texts.txt"
    if not file:
        return
    if (confirmed := _confirm(file)) and (imported := ask.attempt(partial(_import, store, file, *confirmed))):
        dataset, report = imported
        state.update({"brought": nth + 1, "form": True, "new-dataset": dataset, "own-report": report})
        if column := state.pop(ask.AUDITED, None):
            state[f"new-column-{dataset}"] = [column]
        st.rerun()


def _confirm(file: ask.File) -> tuple[reading.Columns, ask.Described] | None:
    """Show how a file is read, and ask about doubtful parts. Return the columns and the layout once they are confirmed,
    else None. Pasted lines of text need no confirmation."""
    if isinstance(file[0], _Pasted) and (guessed := _plain_texts(file)):
        return guessed
    with st.container(border=True, key="own-file"):
        if not (described := ask.describe(file, "own-")):
            return None
        left, right = st.columns([3, 2], gap="medium")
        with left:
            columns = ask.choose_columns(described.peek, file)
        if columns is None:
            return None
        with right:
            ask.show_first_items(file, described, columns)
            sent = st.button("Import", type="primary", key="own-import")
        return (columns, described) if sent else None


def _plain_texts(file: ask.File) -> tuple[reading.Columns, ask.Described] | None:
    plain = None, "utf-8", sources.Layout()
    with suppress(*ask.PROBLEMS):
        peek = ask.looked_at(file, *plain)
        if peek.reader == "txt" and not peek.doubtful:
            return peek.guess, ask.Described(peek, *plain)
    return None


def _import(
    store: Store, file: ask.File, columns: reading.Columns, described: ask.Described, progress: sources.PhaseProgress
) -> tuple[int, str]:
    """Import a file as a data set with an unused name. Return the id of the data set and a report."""
    stem, names = file[1].split(".")[0] or "My data", {row["name"] for row in store.datasets()}
    title = next(each for n in range(1, len(names) + 2) if (each := stem if n == 1 else f"{stem} {n}") not in names)
    _, reader, encoding, layout = described
    request = ImportRequest(reader, encoding, layout, owner=mail())
    report = import_process.import_file(store, file, title, columns, request, progress=progress, person=person())
    return store.dataset(title)["id"], f"{title}: {report}"


def show_sample(store: Store, row: dict[str, Any]) -> None:
    """Show the report of the last import, and random items of a data set with a button that draws other items."""
    if report := st.session_state.pop("own-report", None):
        note(report)
    draw, data = st.session_state.get("look", 0), Dataset(store, row["id"])
    with st.container(border=True):
        places = Random(f"{data.id} {draw}").sample(range(row["items"]), min(SAMPLE_ITEMS, row["items"]))
        items = store.items(data.id, places, texts=True)
        lines = "".join(_line(data, items[place]) for place in places)
        st.html(f'{STYLE}<ol class="oal-look" tabindex="0">{lines}</ol>')
        if st.button(OTHERS.format(len(places)), key="look-again"):
            st.session_state["look"] = draw + 1
            st.rerun()


def _line(data: Dataset, item: dict[str, Any]) -> str:
    """Return the beginning of an item as an HTML list item."""
    if (words := item["text"]) is None:
        words = ", ".join(f"{name} {value}" for _, name, value in file_numbers(data, item["position"], ITEM_NUMBERS))
    words = " ".join(words.split())
    return f'<li dir="auto">{html.escape(words[:ITEM_CHARACTERS])}{"…" * (len(words) > ITEM_CHARACTERS)}</li>'

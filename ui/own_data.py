"""Data of one's own on the Home page: a file that is dropped, or pasted texts, kept with the columns that are guessed,
and a look at some of the items before labeling begins."""

import html
from dataclasses import replace
from io import BytesIO
from random import Random
from typing import Any

import streamlit as st

from oal_engine.datasets import Dataset, formats, imports, readers
from oal_engine.sessions.items import file_numbers
from oal_engine.store import Store

from .page import complain, mail, note

SHOWN = 10  # items
LONGEST, FEATURES = 300, 12  # characters, or numbers of a vector, that are shown of each
STYLE = """<style>
.oal-look { max-height: 16rem; margin: 0; padding-left: 2rem; overflow-y: auto; font-size: .92rem; }
.oal-look li { unicode-bidi: plaintext; overflow-wrap: anywhere; }
</style>"""


def bring(store: Store) -> None:
    """Let a file be dropped or texts be pasted, and open the form of a new session with what they hold."""
    brought = st.session_state.get("brought", 0)  # what is imported is not chosen any more
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    kinds = ", ".join(readers.READERS)
    file: Any = left.file_uploader("Or label your own: drop a file here", key=f"own-{brought}", help=f"{kinds}.")
    name, said = (file.name, file.file_id) if file else ("", "")
    with right.popover("Paste texts", width="stretch"):
        words = st.text_area("Texts, one a line", key=f"pasted-{brought}", height=200)
        if st.button("Use these texts", type="primary", key="paste") and words.strip():
            file, name, said = BytesIO(words.encode("utf-8", "replace")), "Pasted texts.txt", words
    refused, problem = st.session_state.get("own-problem", ("", ""))
    if file and said != refused:
        try:
            dataset, report = _imported(store, file, name)
        except (ValueError, OSError) as error:
            refused, problem = st.session_state["own-problem"] = said, str(error)
        else:
            st.session_state.update({"brought": brought + 1, "form": True})
            st.session_state.update({"new-dataset": dataset, "own-report": report})
            st.rerun()
    if file and said == refused:
        complain(problem)


def _imported(store: Store, file: Any, name: str) -> tuple[int, str]:
    """Keep a file as a data set with the columns that are guessed; its id, and a sentence on it. A label column whose
    words could mean anything is left out."""
    stem, taken = name.split(".")[0] or "My data", {row["name"] for row in store.datasets()}
    title = next(each for n in range(1, len(taken) + 2) if (each := stem if n == 1 else f"{stem} {n}") not in taken)
    head = imports.peek(file, name)
    for doubt in head.doubts:
        raise formats.DataError(f"{doubt.on_a_page} The Data page asks for it.")
    guess = head.guess
    bar = st.progress(0.0, "Importing…")

    def keep(columns: formats.Columns) -> str:
        return imports.import_file(
            store, file, name, columns, None, "utf-8", title, None, None,
            lambda _, done, total: bar.progress(min(1.0, done / max(1, total)), "Importing…"), owner=mail(),
        )  # fmt: skip

    several = guess.label in head.several
    try:
        report = keep(replace(guess, label=None) if several else guess)
    except formats.DataError:
        if not guess.label or several:
            raise
        several, report = True, keep(replace(guess, label=None))
    if several:
        report += (
            f" The column {guess.label} was left out: on the Data page you can say which of its words are positive."
        )
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

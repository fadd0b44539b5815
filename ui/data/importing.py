"""Import a file or add items on the Data page, and list the data sets."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from oal_engine import datasets
from oal_engine.datasets import feeds, import_process, reading
from oal_engine.datasets.features import SCALINGS, TEXT_FEATURES, VECTOR_FEATURES, duplicates
from oal_engine.datasets.reading import details
from oal_engine.store import Store

from ..access import files_folder, served
from ..page import complain, counted, entry, literal, mail, note, one_row, owns, person, remove_after_asking
from ..page import datasets as shown_datasets
from . import file_questions as ask

ROWS = "The first rows of the file"
NEW, MORE = "New data set", "Add to existing"
FEATURES_HELP = {
    "texts": "Meaning: an encoder of sentences in 16 languages, so that a label also counts for texts in other words. "
    "Parts: the beginnings of words, digits, capitals and punctuation. Similar wording: which words go together in "
    "these texts.",
    "vectors": "Waves: cosines and sines of combinations of the columns, so that a linear model can separate classes "
    "that no plane separates. Leaves: ranges of some columns together, as in a decision tree.",
}
VECTORS = "Vectors with the texts"
VECTORS_HELP = (
    "Embeddings, for example, which represent the meaning of each text: items are shown as texts, and the model learns "
    "from both."
)
NEAR = {duplicates.KEEP: "Keep all", duplicates.ONCE: "Show once"}
NEAR_HELP = (
    "Texts that share four fifths of their words count as near-duplicates. *Show once* shows the first with the number "
    "of its copies, and estimates count it as one item."
)
SHOW_HELP = (
    f"The first {details.MAX_COLUMNS} other columns are stored with the items, and exported. These are also shown."
)

MAX_BATCHES = 20  # batches listed of a data set
MAX_GROUPS, GROUP_CHARACTERS = 10, 200  # groups of near-duplicates in a list, and the start of each text


def vectors_with_texts(peek: reading.Peek, columns: reading.Columns) -> tuple[reading.Columns, dict[str, Any]]:
    """Ask for vectors that accompany the texts: columns, a file, or embeddings. Return `columns` with the chosen
    columns, and keyword arguments of the import."""
    more: dict[str, Any] = {}
    with st.expander(VECTORS):
        note(VECTORS_HELP)
        offered = [each for each in (*peek.lists, *peek.numeric) if each not in (columns.label, columns.id)]
        if offered:
            chosen = st.multiselect("Columns of numbers, or of lists of numbers", offered, key="beside")
            columns = replace(columns, features=tuple(chosen) or None)
        if file := vectors_file("beside-"):
            more["vectors"] = file
        if (folder := files_folder()) and (
            path := st.text_input(f"Folder of embeddings in {literal(folder.name)}", key="embed").strip()
        ):
            try:
                more["encoder"] = served(path, "folder")
            except ValueError as error:
                complain(error)
    return columns, more


def shown_with(peek: reading.Peek, columns: reading.Columns) -> reading.Columns:
    """Ask which of the remaining columns are shown with each item. Return the columns with that choice."""
    numbers = () if columns.text else columns.features or peek.numeric
    used = {*columns.text, columns.label, columns.id, *(columns.features or ()), *numbers, *peek.lists}
    if not (left := details.unused_columns(peek.columns, used)):
        return columns
    usual = details.usually_shown(left, {column: [row.get(column, "") for row in peek.rows] for column in left})
    chosen = st.multiselect("Show with each item", left, usual, key="shown", help=SHOW_HELP)
    return replace(columns, shown_columns=tuple(chosen))


def vectors_file(key: str) -> ask.File | None:
    """Ask for a file of vectors. Return the upload and its name, or None."""
    nth = st.session_state.get("imports", "")
    upload = st.file_uploader("A file of vectors, one for each row (.npy, .parquet)", key=f"{key}vectors{nth}")
    return (upload, upload.name) if upload else None


def import_form(store: Store) -> None:
    """Show the form that imports a file: choose it, confirm its layout, name its columns."""
    file = ask.chosen_file("Where is the file?", ask.USUAL_FORMATS)
    if not (file and (described := ask.describe(file))):
        return
    peek, reader, encoding, layout = described
    columns, more = ask.choose_columns(peek, file), dict[str, Any]()
    if columns is None:
        ask.show_rows(peek)
        return
    ask.show_first_items(file, described, columns)
    with st.expander(ROWS):
        ask.show_rows(peek)
    if columns.text:
        columns, more = vectors_with_texts(peek, columns)
        more["near_duplicates"] = st.segmented_control(
            "Texts that are nearly the same", list(NEAR), default=duplicates.KEEP, required=True,
            format_func=NEAR.__getitem__, key="near", help=NEAR_HELP,
        )  # fmt: skip
    columns = shown_with(peek, columns)
    left, middle, right = st.columns(3)
    title = left.text_input("Name of the data set", file[1].split(".")[0], max_chars=120, key="name")
    scalings = {ask.AUTOMATIC: ask.AUTOMATIC} | {name: f"{name}: {words}" for name, words in SCALINGS.items()}
    scale = middle.selectbox("Scaling", scalings, format_func=scalings.__getitem__, key="scale")
    kinds = TEXT_FEATURES if columns.text else {ask.AUTOMATIC: ask.AUTOMATIC} | VECTOR_FEATURES
    kind = "texts" if columns.text else "vectors"
    features = right.selectbox(
        "Features", kinds, format_func=kinds.__getitem__, key=f"features-of-{kind}", help=FEATURES_HELP[kind]
    )
    usual = ask.AUTOMATIC if features == next(iter(kinds)) else features  # whichever suits the texts and their vectors
    scale_and_features = {"scale": scale, "features": usual}
    more |= {key: None if choice == ask.AUTOMATIC else choice for key, choice in scale_and_features.items()}
    vectors = more.pop("vectors", None)
    request = datasets.ImportRequest(reader, encoding, layout, owner=mail(), **more)
    with st.container(horizontal=True):
        sent = st.button("Import", type="primary", key="import")
        checked = columns.label and st.button("Check the labels", key="check")
    also = {"vectors": vectors, "person": person()}
    if checked and (report := ask.attempt(partial(import_process.check, file, columns, request, **also))):
        note(report)
    if sent and (
        report := ask.attempt(partial(import_process.import_file, store, file, title, columns, request, **also))
    ):
        _finish(f"{title}: {report}")


def _finish(report: str) -> None:
    """Redraw the page with a report, and with empty file fields."""
    st.session_state["imported"] = report
    st.session_state["imports"] = st.session_state.get("imports", 0) + 1
    st.rerun()


def append_form(store: Store) -> None:
    """Show the form that adds the items of a file to a data set."""
    names = {row["id"]: row["name"] for row in shown_datasets(store)}
    which = st.selectbox("Data set", names, format_func=names.__getitem__, key="more-dataset")
    if not (file := ask.chosen_file("Where are the new items?", ask.USUAL_FORMATS, "more-")):
        return
    if not (described := ask.describe(file, "more-")):
        return
    peek, reader, encoding, layout = described
    vectors = vectors_file("more-") if datasets.Dataset(store, which).vector_width else None
    request = datasets.ImportRequest(reader, encoding, layout)
    fits = ask.show_more_items(store, file, which, request, vectors)
    with st.expander(ROWS, expanded=not fits):
        ask.show_rows(peek)
    append = partial(import_process.append, store, file, which, request, vectors=vectors, person=person())
    if st.button("Add items", type="primary", key="append", disabled=not fits) and (report := ask.attempt(append)):
        _finish(f"{names[which]}: {report}")


def show_dataset(row: dict[str, Any]) -> None:
    """Show a data set: its size, the columns shown with each item, and its classes or the share of positives."""
    counts = counted(row["items"], "item"), counted(datasets.named_features(row), "feature")
    st.html(entry(row["name"], row["source"], *counts))
    labelled = row["positives"] + row["negatives"]
    if columns := datasets.columns_of(row).get("details"):
        st.text(f"With each item: {', '.join(columns)}")
    if row["classes"]:
        st.text(f"{len(row['classes'])} classes: {reading.counted(row['classes'], 6)}")
    elif labelled:
        share = row["positives"] / labelled
        odds = f", 1 in {1 / share:.1f}" if share else ""
        st.progress(share, f"{row['positives']:,} positive, {row['negatives']:,} negative{odds}")
    else:
        st.text("no labels")


def show_batches(batches: list[dict[str, Any]]) -> None:
    """Show the share of words that were new to the vocabulary, for each batch of items that was added."""
    if not (later := [batch for batch in batches if batch["first"] and batch["words"]]):
        return
    st.text(f"Added last: {feeds.novelty(later[-1]['words'], later[-1]['new_words'], batches)}")
    with st.expander("Batches"):
        for batch in [*reversed(later[-MAX_BATCHES:]), *batches[: not batches[0]["first"]]]:
            items = f"{batch['first'] + 1:,} to {batch['first'] + batch['items']:,}"
            new = f"{100 * batch['new_words'] / max(1, batch['words']):.1f} % new words"
            st.text(f"{batch['added_at'][:10]}: items {items}, {new}")


def show_near_duplicates(store: Store, row: dict[str, Any]) -> None:
    """Show the number of near-duplicates in a data set, and their largest groups."""
    if count := store.copies(row["id"]):
        st.text(duplicates.sentence(count, row["near_duplicates"]))
        with st.expander("Nearly the same"):
            for group in store.most_copied(row["id"], MAX_GROUPS):
                st.text(f"{1 + group['copies']:,} × {' '.join(group['text'].split())[:GROUP_CHARACTERS]}")


def list_datasets(store: Store) -> None:
    """List the data sets, each with a button that removes it."""
    removable, n_removed = owns(), Counter(row["dataset"] for row in store.removed_sessions())
    for row in shown_datasets(store):
        with one_row(f"data-{row['id']}"):
            with st.container():
                show_dataset(row)
                show_batches(store.batches(row["id"]))
                show_near_duplicates(store, row)
            used = row["sessions"] > 0
            removed = removable and st.button(
                "Remove", key=f"remove-{row['id']}", disabled=used, help="A session uses it." if used else None
            )
        if removed:
            parts = counted(row["items"], "item")
            if removed_sessions := n_removed[row["id"]]:
                parts += f" and the {counted(removed_sessions, 'removed session')} on it"
            remove = partial(datasets.remove, store, row["id"])
            remove_after_asking(f"the data set {row['name']} with its {parts}", owns, remove)

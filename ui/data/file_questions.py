"""Questions about a file on a page: its place, its layout, and the meaning of its columns and labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from oal_engine.datasets import import_process, reading
from oal_engine.datasets.reading import readers, sources
from oal_engine.datasets.reading.parsed import Doubt, without_options
from oal_engine.places import COMMAND

from ..access import files_folder, served_file
from ..page import complain, literal, small_note

UPLOAD, SERVER = "Upload", "File on the server"
AUTOMATIC = "Detect automatically"
USUAL_FORMATS = "text, CSV, Excel, JSON, Parquet, svmlight and others"
ONE_RARE, EACH_WORD, HEADINGS = "One rare class", "Each word is a class", "MeSH headings"
PROBLEMS = (ValueError, OSError)
PHASES = {
    "waiting": "Waiting until other files are read",
    "reading": "Reading",
    "vocabulary": "Finding the vocabulary",
    "wording": "Finding similar wording",
    "meaning": "Embedding texts",
    "items": "Adding items",
}
LARGER = "Up to {} MB. Import a larger file {}on the command line: {} import FILE --name NAME"
SERVER_FILES = f"as a {SERVER}, or "
LOOKING = "Looking at the file…"
PATH = "Path in {}"
GAPS = "Some cells hold no number ({}). What becomes of them?"
POSITIVE_HELP = "Separate several by a comma. Not needed for 1/-1, 1/0, yes/no and the like."
MAYBE = "Does {} hold the labels? Choose it above, or leave it if nothing is labeled yet."
SEVERAL = "Cells may hold several labels ({})"
MESH_FILE = "Where is the MeSH tree?", "lines such as Heart Diseases;C14.280"
HEADER_ANSWERS = {"--header": "It names the columns", "--no-header": "It is an item"}

NONE = "none"  # no column
File = tuple[Any, str]  # something to read, and its name


class Described(NamedTuple):
    """The first rows of a file, and the layout in which it is read."""

    peek: reading.Peek
    reader: str | None
    encoding: str
    layout: sources.Layout


def chosen_file(question: str, kinds: str, key: str = "") -> File | None:
    """Ask for a file: an upload, or a file on the server. Return it as (something to read, name), or None."""
    folder, nth = files_folder(), st.session_state.get("imports", "")  # a new key after an import empties the field
    way: str | None = UPLOAD
    if folder:
        way = st.segmented_control(question, [UPLOAD, SERVER], default=UPLOAD, key=f"{key}way")
    if folder is None or way == UPLOAD:
        upload = st.file_uploader(f"A file ({kinds}), also as .gz, .bz2 or .xz", key=f"{key}upload{nth}")
        small_note(LARGER.format(f"{st.get_option('server.maxUploadSize'):,}", SERVER_FILES if folder else "", COMMAND))
        return (upload, upload.name) if upload else None
    path = st.text_input(PATH.format(literal(folder.name)), key=f"{key}path{nth}").strip()
    try:
        file = served_file(path) if path else None
    except ValueError as error:
        complain(error)
        return None
    return (file, file.name) if file else None


def describe(file: File, key: str = "") -> Described | None:
    """Read the first rows of a file, and ask about doubtful parts of its layout. None until all is answered."""
    left, right = st.columns(2)
    format = left.selectbox("Format", [AUTOMATIC, *readers.READERS], key=f"{key}reader")
    encoding = right.selectbox("Encoding", sources.ENCODINGS, key=f"{key}encoding")
    reader = None if format == AUTOMATIC else format
    layout = sources.Layout()
    try:
        peek = looked_at(file, reader, encoding, layout)
        while peek.doubts and (settled := settle(peek.doubts[0], layout, encoding, key)):
            layout, encoding = settled
            peek = looked_at(file, reader, encoding, layout)
    except PROBLEMS as error:
        complain(error)
        return None
    if peek.doubts:
        show_rows(peek)
        return None
    return Described(peek, reader, encoding, layout)


def show_rows(peek: reading.Peek) -> None:
    """Show the first rows of a file."""
    st.dataframe(peek.rows, hide_index=True, height=min(250, 38 + 35 * len(peek.rows)))


def looked_at(file: File, reader: str | None, encoding: str, layout: sources.Layout) -> reading.Peek:
    """Read the first rows of a file, and guess its contents."""
    source, name = file
    with st.spinner(LOOKING):
        settings = reader, encoding, layout
        return once("peek", file, *settings, make=lambda: import_process.peek(source, name, *settings))


def settle(doubt: Doubt, layout: sources.Layout, encoding: str, key: str) -> tuple[sources.Layout, str] | None:
    """Ask about a doubtful part of the layout. Return the confirmed layout and encoding, or None while unanswered."""
    names = HEADER_ANSWERS if doubt.about == "header" else {}
    answer = st.radio(literal(doubt.on_a_page), doubt.answers, index=None, key=f"{key}doubt-{doubt.about}",
                      format_func=lambda option: names.get(option) or literal(option))  # fmt: skip
    if answer is None:
        return None
    if doubt.about == "encoding":
        return layout, answer
    value: Any = answer == "--header" if doubt.about == "header" else answer
    return replace(layout, **{doubt.about: value}), encoding


def choose_columns(peek: reading.Peek) -> reading.Columns:
    """Ask for the meaning of the columns, beginning with the guesses."""
    columns, guess = peek.columns, peek.guess
    left, right = st.columns(2)
    text = left.multiselect("Text (several are joined)", columns, list(guess.text), key="text")
    label = right.selectbox(
        "Label", [NONE, *columns], index=1 + columns.index(guess.label) if guess.label else 0,
        format_func=lambda column: "none: nothing is labeled yet" if column == NONE else column, key="label",
    )  # fmt: skip
    if label == NONE and peek.pairs:
        right.caption(literal(MAYBE.format(" or ".join(peek.pairs))))
    features = None
    if not text and peek.numeric:
        guessed = peek.numeric if guess.features is None else guess.features
        features = left.multiselect("Columns of numbers", peek.numeric, guessed, key="features")
    missing = None
    if features and (gaps := {each: peek.gaps[each] for each in features if each in peek.gaps}):
        cells = "; ".join(f"{each}: {words}" for each, words in gaps.items())
        missing = left.radio(
            literal(GAPS.format(cells)), reading.MISSING, index=None, key="missing",
            format_func=lambda key: f"{key}: {reading.MISSING[key]}",
        )  # fmt: skip
    identity = left.selectbox("Id", [NONE, *columns], index=1 + columns.index(guess.id) if guess.id else 0, key="id")
    with right:
        words = [str(row.get(label, "")) for row in peek.rows]
        rule: dict[str, Any] = {}
        if label != NONE:
            each_word = label == guess.label and guess.multiclass
            rule = label_rule(words, label, peek.several.get(label), each_word)
            rule["unknown"] = guess.unknown if label == guess.label else ()
    return reading.Columns(
        tuple(text),
        None if label == NONE else label,
        None if identity == NONE else identity,
        None if features is None else tuple(features),
        missing=missing,
        guessed_id=identity == guess.id and guess.guessed_id,
        **rule,
    )


def label_rule(words: list[str], label: str, several: str | None, each_word: bool) -> dict[str, Any]:
    """Ask how the words of the label column become classes. Return arguments of `Columns`.

    several: a cell that seems to hold several labels. each_word: whether to begin with a class for each word.
    """
    kinds = [HEADINGS, ONE_RARE] if label == readers.OHSUMED[".M"] else [ONE_RARE, EACH_WORD]
    kind = st.segmented_control("Labels mean", kinds, default=kinds[each_word], required=True, key=f"kind-{label}")
    if kind == EACH_WORD:
        return {"multiclass": True}
    if kind == HEADINGS:
        return {"positive": mesh_terms(), "headings": True}
    example = "e.g. " + ", ".join(sorted(set(words) - {""})[:2])
    positive = st.text_input("Positive label words", key="positive", placeholder=example, help=POSITIVE_HELP)
    contains = st.checkbox(literal(SEVERAL.format(several or "a|b")), bool(several), key=f"contains-{label}")
    return {"positive": tuple(word.strip() for word in positive.split(",") if word.strip()), "contains": contains}


def mesh_terms() -> tuple[str, ...]:
    """Ask for a MeSH tree file and a tree number. Return the terms at and below it, or () until both are there."""
    tree = chosen_file(*MESH_FILE, "tree-")
    number = st.text_input("Positive at and below the tree number", placeholder="e.g. C14.280", key="number").strip()
    if not (tree and number):
        return ()
    try:
        return once("terms", tree, number, make=lambda: import_process.mesh_terms(*tree, number))
    except PROBLEMS as error:
        complain(error)
        return ()


def once(what: str, file: File, *settings: Any, make: Callable[[], Any]) -> Any:
    """Return the result of `make`, cached in the browser session by file and settings."""
    source, name = file
    key: tuple = name, getattr(source, "file_id", None)
    if isinstance(source, Path):
        key = *key, source, source.stat().st_mtime_ns, source.stat().st_size
    if st.session_state.get(what, (None,))[0] != key:
        st.session_state[what] = key, {}
    results = st.session_state[what][1]
    if settings not in results:
        results[settings] = make()
    return results[settings]


def attempt(work: Callable[[Callable], Any]) -> Any:
    """Run long work under a progress bar. If it fails, show the error and return None."""
    try:
        with progress_bar() as bar:
            return work(bar)
    except PROBLEMS as error:
        complain(without_options(str(error)))
        return None


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], object]]:
    """Show a bar during long work, which reports its progress as (phase, done, total)."""
    bar = st.progress(0.0, "Reading…")
    try:
        yield lambda phase, done, total: bar.progress(min(1.0, done / max(1, total)), f"{PHASES[phase]}…")
    finally:
        bar.empty()

"""The questions that a page asks about a file: where it is, its layout, and the meaning of its columns and labels."""

import html
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from oal_engine import datasets
from oal_engine.datasets import import_process, reading
from oal_engine.datasets.reading import archives, labels, preview, readers, sources
from oal_engine.datasets.reading.parsed import Doubt, without_options
from oal_engine.places import COMMAND
from oal_engine.store import Store

from ..access import files_folder, served
from ..page import complain, counted, literal, person, small_note

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
GAPS = "Some cells are not numbers ({}). What should be done with them?"
RARE_HELP = "Separate several by a comma. Of numbers: from which on, such as >=5. Not needed for yes/no and the like."
LABEL, ONE_PAIR, SEVERAL_PAIRS = "Label", "Is {} the label?", "Which of these columns is the label?"
POSITIVE, UNKNOWN = "Which words are the rare class?", "Which words mean no label?"
SEVERAL = "Cells may hold several labels ({})"
FIRST_ROW = "The first row"
PREVIEW, PREVIEW_MORE = "The first items, as they will be imported", "The first items, as they will be added"
YES_NO = {
    "--header": "names the columns", "--no-header": "is an item",
    "--paragraphs": "Each paragraph is a text", "--no-paragraphs": "Each line is a text",
    "file": "Each file is a text", "line": "Each line of each file is a text",
}  # fmt: skip
AUDITED = "audited-column"  # in the state of a browser session: a column that a model made, to be audited
OPEN_DOUBTS = ("sheet", "member")  # doubts without a preselected answer

NONE, OTHER = "\0none", "\0other"  # options: no column; a column that is chosen from a list
MAX_CHIPS, MAX_CLASS_CHIPS, MAX_CANDIDATES = 30, 12, 8
File = tuple[Any, str]  # something to read, and its name
ITEM_CHARACTERS = 240  # shown of a text, or of all fields of an item together
STYLE = """<style>
.oal-first { font-size: .92rem; overflow-wrap: anywhere; }
.oal-first p { margin: 0 0 .3rem; font-size: .875rem; }
.oal-first div { padding: .45rem 0; border-top: 1px solid rgba(128, 128, 128, .3); unicode-bidi: plaintext; }
.oal-first b { float: right; margin-left: .8rem; padding: 0 .5rem; border-radius: .5rem; font-weight: 500;
  background: rgba(60, 130, 120, .18); }
.oal-first small { display: block; opacity: .8; }
</style>"""


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
        words = f"A file ({kinds}), also as .gz, .bz2, .xz or .zip, or several that belong together"
        uploads = st.file_uploader(words, key=f"{key}upload{nth}", accept_multiple_files=True)
        way = f"as a {SERVER}, or " if folder else ""
        small_note(f"Import a larger file {way}on the command line: {COMMAND} import FILE --name NAME")
        return one_upload(uploads)
    path = st.text_input(f"Path in {literal(folder.name)}", key=f"{key}path{nth}").strip()
    try:
        file = served(path) if path else None
    except ValueError as error:
        complain(error)
        return None
    return (file, file.name) if file else None


def suffix(file: File, *columns: str) -> str:
    """Return a suffix for the keys of widgets about a file, or about some of its columns, so that answers do not carry
    over to another file or to other columns."""
    numbers = st.session_state.setdefault("asked-about-columns" if columns else "asked-about", {})
    number = numbers.setdefault(hash((_identity(file), columns)), len(numbers) + 1)
    return f"-{number}" if number > 1 else ""


def one_upload(uploads: Sequence[Any]) -> File | None:
    """Combine uploads into one file. Return (file, name), or None if there are no uploads."""
    if len(uploads) < 2:
        return next(((upload, upload.name) for upload in uploads), None)
    names = [upload.name for upload in uploads]
    paths = names if len({*names}) == len(names) else [f"{number}/{name}" for number, name in enumerate(names, 1)]
    files = archives.Files(tuple(zip(paths, uploads)), " ".join(upload.file_id for upload in uploads))
    return files, archives.several_name(names)


def describe(file: File, key: str = "") -> Described | None:
    """Read the first rows of a file, and ask about doubtful parts of its layout. Return None until all are settled."""
    end = suffix(file)
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row.popover("Format and encoding"):
        format = st.selectbox("Format", [AUTOMATIC, *readers.READERS], key=f"{key}reader{end}")
        encoding = st.selectbox("Encoding", sources.ENCODINGS, key=f"{key}encoding{end}")
    reader = None if format == AUTOMATIC else format
    layout = sources.Layout()
    try:
        peek = looked_at(file, reader, encoding, layout)
        while doubts := [each for each in peek.doubts if each.about != "header"]:
            if not (settled := settle(doubts[0], layout, encoding, key, end)):
                show_rows(peek)
                return None
            layout, encoding = settled
            peek = looked_at(file, reader, encoding, layout)
        with row:
            layout, changed = ask_header(peek, layout, f"{key}header{end}")
        if changed:
            peek = looked_at(file, reader, encoding, layout)
    except PROBLEMS as error:
        complain(without_options(str(error)))
        return None
    return Described(peek, reader, encoding, layout)


def ask_header(peek: reading.Peek, layout: sources.Layout, key: str) -> tuple[sources.Layout, bool]:
    """Ask whether the first row of a table names the columns, with the guess preselected. Return the layout, and
    whether it differs from the detected one."""
    if "header" not in peek.detected:
        return layout, False
    doubt = next((each for each in peek.doubts if each.about == "header"), None)
    guess = "--header" if peek.detected["header"] == "yes" else "--no-header"
    answer = st.segmented_control(
        literal(doubt.on_a_page if doubt else FIRST_ROW), ["--header", "--no-header"], default=guess, required=True,
        format_func=YES_NO.__getitem__, key=key,
    )  # fmt: skip
    return replace(layout, header=answer == "--header"), doubt is not None or answer != guess


def show_rows(peek: reading.Peek) -> None:
    """Show the first rows of a file."""
    st.dataframe(peek.rows, hide_index=True, height=min(250, 38 + 35 * len(peek.rows)))


def looked_at(file: File, reader: str | None, encoding: str, layout: sources.Layout) -> reading.Peek:
    """Read the first rows of a file, and guess its contents."""
    make = partial(import_process.peek, *file, reader, encoding, layout)
    return once("peek", file, reader, encoding, layout, make=make)


def settle(
    doubt: Doubt, layout: sources.Layout, encoding: str, key: str, end: str
) -> tuple[sources.Layout, str] | None:
    """Ask about a doubtful part of the layout. Return the confirmed layout and encoding, or None while unanswered."""
    answer = st.radio(
        literal(doubt.on_a_page), doubt.answers, index=None if doubt.about in OPEN_DOUBTS else 0, horizontal=True,
        format_func=lambda option: YES_NO.get(option) or literal(option), key=f"{key}doubt-{doubt.about}{end}",
        captions=[literal(each) for each in doubt.excerpts] or None,
    )  # fmt: skip
    if answer is None:
        return None
    if doubt.about == "encoding":
        return layout, answer
    value: Any = answer == f"--{doubt.about}" if answer.startswith("--") else answer
    return replace(layout, **{doubt.about: value}), encoding


def choose_columns(peek: reading.Peek, file: File) -> reading.Columns | None:
    """Ask for the meaning of the columns and of the label words, with the guesses preselected. Return None until it is
    clear which column holds the labels, and which of several labels in a cell count."""
    columns, guess, end = peek.columns, peek.guess, suffix(file, *peek.columns)
    left, right = st.columns([3, 2])
    text = left.multiselect("Text (several are joined)", columns, list(guess.text), key=f"text{end}")
    identity = right.selectbox(
        "Id", [NONE, *columns], index=1 + columns.index(guess.id) if guess.id else 0, key=f"id{end}",
        format_func=lambda column: "none: lines are numbered" if column == NONE else column,
    )  # fmt: skip
    if not (label := choose_label(peek, end)):
        return None
    rule = {} if label == NONE else label_rule(peek, label, end)
    if rule.get("contains") and not rule["positive"]:
        return None
    features = missing = None
    usable = [column for column in columns if (column in peek.numeric or column in peek.coded) and column != label]
    guessed = [each for each in usable if guess.features is None or each in (*guess.features, guess.label)]
    if not text and usable:  # the column that was guessed as the label is free if another one is
        features = st.multiselect("Columns to learn from", usable, guessed, key=f"features-{label}{end}")
    if features and (gaps := {each: peek.gaps[each] for each in features if each in peek.gaps}):
        cells = "; ".join(f"{each}: {words}" for each, words in gaps.items())
        missing = st.radio(
            literal(GAPS.format(cells)), reading.MISSING, key=f"missing{end}",
            format_func=lambda key: f"{key}: {reading.MISSING[key]}",
        )  # fmt: skip
    kept_guesses = {"id": identity == guess.id and "id" in guess.guessed, "features": features == guessed}
    return reading.Columns(
        tuple(text),
        None if label == NONE else label,
        None if identity == NONE else identity,
        None if features is None else tuple(features),
        missing=missing,
        guessed=tuple(role for role, is_kept in kept_guesses.items() if is_kept),
        **rule,
    )


def choose_label(peek: reading.Peek, end: str) -> str | None:
    """Ask which column holds the labels. Return its name, NONE for no labels, or None until one is chosen."""
    doubt, model_column = peek.label_doubt, peek.model_column
    candidates = [*(doubt.answers[:MAX_CANDIDATES] if doubt else filter(None, [peek.guess.label]))]
    question = (ONE_PAIR if len(candidates) == 1 else SEVERAL_PAIRS).format(*candidates) if doubt else LABEL
    others = [column for column in peek.columns if column not in candidates]
    options = [*candidates, *([] if model_column else [NONE]), *([OTHER] if others else [])]
    names = {NONE: "no labels", OTHER: "another column"}
    chosen = st.pills(
        literal(doubt.on_a_page if doubt and model_column else question), options,
        default=None if len(candidates) > 1 else options[0], required=len(candidates) < 2, wrap=True,
        format_func=lambda option: names.get(option) or literal(option), key=f"label{end}",
    )  # fmt: skip
    if model_column:
        st.session_state[AUDITED] = model_column if chosen == preview.MODEL else None
        answers = {preview.PERSON: model_column, preview.MODEL: NONE, preview.IGNORE: NONE}
        chosen = answers.get(str(chosen), chosen)
    return st.selectbox("Column of labels", others, key=f"other-label{end}") if chosen == OTHER else chosen


def label_rule(peek: reading.Peek, label: str, end: str) -> dict[str, Any]:
    """Ask how the words of the label column become classes. Return the answers as keyword arguments of `Columns`."""
    guess, several = peek.guess, peek.several.get(label)
    counts = dict(peek.label_words.get(label, {}))
    proposal = labels.propose(counts)
    kinds = [HEADINGS, ONE_RARE] if label == readers.OHSUMED[".M"] else [ONE_RARE, EACH_WORD]
    if label == guess.label and not peek.unclear:
        each_word = guess.multiclass
    else:
        each_word = proposal.each_word and EACH_WORD in kinds and not several
    kind = st.segmented_control("Labels mean", kinds, default=kinds[each_word], required=True, key=f"kind-{label}{end}")
    if kind == HEADINGS:
        return {"positive": mesh_terms(), "headings": True}
    rule: dict[str, Any] = {"multiclass": True} if kind == EACH_WORD else {}
    if kind == ONE_RARE and several:
        rule["contains"] = st.checkbox(literal(SEVERAL.format(several)), True, key=f"contains-{label}{end}")
        if rule["contains"]:
            counts = dict(peek.part_words.get(label, {}))
    if kind == ONE_RARE:
        rule["positive"] = _positive_words(peek, label, counts, proposal.positive, end)
    if not rule.get("contains"):
        rule["unknown"] = _unknown_words(peek, label, counts, proposal, rule.get("positive", ()), end)
    if rule.get("positive") == proposal.positive and not peek.unclear and label == guess.label:
        rule["positive"] = ()  # these words are understood without a choice
    return rule


def _positive_words(
    peek: reading.Peek, label: str, counts: dict[str, int], proposed: tuple[str, ...], end: str
) -> tuple[str, ...]:
    """Ask for the words of the rare class: as chips with their counts, or in a field if there are too many."""
    words = [word for word in counts if word and word not in reading.gaps_among(counts)]
    if words and len(words) <= MAX_CHIPS:
        return tuple(_chips(POSITIVE, words, counts, proposed, f"positive-{label}{end}"))
    example = "e.g. " + ", ".join(sorted({row.get(label, "") for row in peek.rows} - {""})[:2])
    typed = st.text_input("Positive label words", key=f"positive{end}", placeholder=example, help=RARE_HELP)
    return tuple(word.strip() for word in typed.split(",") if word.strip())


def _unknown_words(
    peek: reading.Peek, label: str, counts: dict[str, int], proposal: labels.Proposal, positive: tuple[str, ...],
    end: str,
) -> tuple[str, ...] | None:  # fmt: skip
    """Ask which words mean "no label", and tell how many items have none. Return None if these are the usual words."""
    usual = peek.guess.unknown if label == peek.guess.label else None
    proposed = proposal.unknown if usual is None else usual
    others = [word for word in counts if word and word not in positive]
    are_few = proposal.each_word and len(others) <= MAX_CLASS_CHIPS
    words = [word for word in others if are_few or reading.may_be_gap(word)]
    chosen: list[str] = [*proposed]
    if words and len(words) <= MAX_CHIPS:
        chosen = _chips(UNKNOWN, words, counts, [each for each in proposed if each in words], f"unknown-{label}{end}")
    unlabeled, rows = sum(counts[word] for word in {*chosen, ""} if word in counts), sum(counts.values())
    if unlabeled:
        first = "" if peek.whole else "the first "
        small_note(f"{unlabeled:,} of {first}{counted(rows, 'row')} without a label.")
    return usual if {*chosen} == {*proposed} else tuple(chosen)


def _chips(question: str, words: list[str], counts: dict[str, int], default: Sequence[str], key: str) -> list[str]:
    """Show words with their counts as chips that can be toggled. Return the chosen words."""
    return st.pills(
        question, words, selection_mode="multi", default=[*default], key=key, wrap=True,
        format_func=lambda word: literal(f"{word} ({counts[word]:,})"),
    )  # fmt: skip


def show_first_items(file: File, described: Described, columns: reading.Columns) -> None:
    """Show how a file is read, and a few items as they will be imported: text, label, and other fields."""
    settings = columns, *described[1:]
    make = partial(import_process.first_items, file, *settings)
    _show_items(PREVIEW, columns.label, make, file, *settings)


def show_more_items(
    store: Store, file: File, dataset: int, request: datasets.ImportRequest, vectors: File | None
) -> bool:
    """Show a few items as they will be added to a data set. Return whether they can be added."""
    make = partial(import_process.more_first_items, store, file, dataset, request, vectors=vectors)
    return _show_items(PREVIEW_MORE, "label", make, file, dataset, request, vectors and vectors[1])


def _show_items(title: str, label: str | None, make: Callable[..., Any], file: File, *settings: Any) -> bool:
    """Show the items and the sentence that `make` returns, or the error that it raises. Return whether it succeeded.

    settings: the settings on which the items depend, as the key of a cache.
    """
    try:
        items, sentence = once(title, file, repr(settings), make=make)
    except PROBLEMS as error:
        complain(without_options(str(error)))
        return False
    listed = "".join(_item_html(item, label) for item in items)
    st.html(f"{STYLE}<div class='oal-first'><p>{title}</p>{listed}</div>")
    small_note(sentence)
    return True


def _item_html(item: preview.FirstItem, label: str | None) -> str:
    """Return an item as HTML: its label if there is a column of labels, its text, and its other fields."""
    meaning = item.meaning or "no label"
    words = meaning if item.label in ("", meaning) else f"{item.label}: {meaning}"
    fields = " · ".join(f"{name} {cell}" for name, cell in item.fields.items() if cell)[:ITEM_CHARACTERS]
    text = " ".join(item.text.split())[:ITEM_CHARACTERS]
    parts = (("b", words if label else ""), ("span", text), ("small", fields))
    return "<div>" + "".join(f"<{tag} dir='auto'>{html.escape(part)}</{tag}>" for tag, part in parts if part) + "</div>"


def mesh_terms() -> tuple[str, ...]:
    """Ask for a MeSH tree file and a tree number. Return the terms at and below it, or () until both are given."""
    tree = chosen_file("Where is the MeSH tree?", "lines such as Heart Diseases;C14.280", "tree-")
    number = st.text_input("Positive tree number, with all below it", placeholder="e.g. C14.280", key="number").strip()
    if not (tree and number):
        return ()
    try:
        return once("terms", tree, number, make=partial(import_process.mesh_terms, *tree, number))
    except PROBLEMS as error:
        complain(error)
        return ()


def _identity(file: File) -> tuple:
    """Return a key that differs for each upload, and for each version of a file on the server."""
    source, name = file
    key: tuple = name, getattr(source, "file_id", None)
    if isinstance(source, Path):
        key = *key, source, source.stat().st_mtime_ns, source.stat().st_size
    return key


def once(what: str, file: File, *settings: Any, make: Callable[..., Any]) -> Any:
    """Return the result of `make`, which looks at the file, cached in the browser under `what` by file and settings."""
    key = _identity(file)
    if st.session_state.get(what, (None,))[0] != key:
        st.session_state[what] = key, {}
    results = st.session_state[what][1]
    if settings not in results:
        with st.spinner("Looking at the file…"):
            stop = lambda *_: st.session_state[what]  # noqa: E731  # raises an error if the page is left or drawn anew
            results[settings] = make(person=person(), progress=stop)
    return results[settings]


def attempt(work: Callable[..., Any]) -> Any:
    """Run long work under a progress bar, which its argument `progress` (phase, done, total) updates. If it fails, show
    the error and return None."""
    bar = st.progress(0.0, "Reading…")
    try:
        show = lambda phase, done, total: bar.progress(min(1.0, done / max(1, total)), f"{PHASES[phase]}…")  # noqa: E731
        return work(progress=show)
    except PROBLEMS as error:
        complain(without_options(str(error)))
        return None
    finally:
        bar.empty()

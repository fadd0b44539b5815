"""Files in common layouts are read correctly without an option, or refused with a sentence that says what to do."""

import numpy as np
import pytest
from scipy import sparse

from oal_engine.datasets.reading import DataError, layout_sentence, read
from oal_engine.datasets.reading.sources import Layout
from tests.harness.files import imported, named
from tests.harness.shapes import SHAPES, joined


@pytest.mark.parametrize("shape", [each for each in SHAPES if not each.stops], ids=lambda shape: shape.name)
def test_a_file_comes_in_right_without_an_option(shape):
    """Without any option, every row of a file becomes an item with its text or numbers and its label. The report names
    the layout."""
    items = imported(shape.make(), shape.name)
    assert shape.counts == (len(items.ids), (items.y == 1).sum(), (items.y == -1).sum()), items.report()
    if items.texts:
        assert shape.first == items.texts[0]
    elif shape.first:
        row = items.vectors[[0]]
        assert shape.first == np.ravel(row.toarray() if sparse.issparse(row) else row).tolist()
    assert shape.words in layout_sentence(items.description)


@pytest.mark.parametrize("shape", [each for each in SHAPES if each.stops], ids=lambda shape: shape.name)
def test_a_doubtful_file_stops_with_what_to_do(shape):
    """A doubtful file is refused. The one-sentence error names the option that settles the doubt, or another way
    out."""
    with pytest.raises(DataError) as stopped:
        imported(shape.make(), shape.name)
    message = str(stopped.value)
    assert shape.stops in message
    assert message.endswith(".")
    assert "\n" not in message


def test_a_percent_sign_in_a_damaged_file_is_no_format():
    """If a library's error message quotes a damaged file, a percent sign in it is not taken for a format specifier."""
    damaged = b"@relation r\n@attribute a numeric\n@attribu,75,0.5\n-5yes,no}\n@data\n-9.0,0.%,yes\n"
    with pytest.raises(DataError, match=r"^x.arff cannot be read: .*\.$"):
        read(named(damaged, "x.arff"))


NOTES = [
    f"the {noun} waits beside the door, case {k}" for k, noun in enumerate("kettle ladder window carpet".split() * 6)
]
POSITIVE = [k % 4 == 0 for k in range(len(NOTES))]


def note_table(head, yes="1", no="0", delimiter=",", extra="", text='"{}"'):
    """Return a table of the notes and their labels. extra: added to the end of each row. text: template of a text."""
    rows = (f"{text.format(note)}{delimiter}{yes if y else no}{extra}" for note, y in zip(NOTES, POSITIVE))
    return "\n".join([*filter(None, [head]), *rows]) + "\n"


INDEX = "".join(f'{k},"{note}"\n' for k, note in enumerate(NOTES))
TOKENS = {note: note.replace(",", "").split() for note in NOTES}
HEADERS = {
    "a label word names the label column": note_table("message,relevant", "relevant", "irrelevant"),
    "the same with tabs": note_table("comment\ttoxic", "toxic", "non-toxic", "\t", text="{}"),
    "in German": note_table("Kommentar;relevant", "relevant", "irrelevant", ";"),
    "concatenated parts": note_table("text,label").replace('\n"the carpet', '\ntext,label\n"the carpet', 2),
    "rows end with a delimiter": note_table("text,label", extra=","),
    "rows end with two tabs": note_table("text\tlabel", delimiter="\t", extra="\t\t", text="{}"),
    "a name too many": note_table("text,label,remarks"),
    "row names of R": '"text" "label"\n'
    + "".join(f'"{k}" "{note}" {int(y)}\n' for k, (note, y) in enumerate(zip(NOTES, POSITIVE), 1)),
    "apostrophes as quotes": note_table("'text','label'", "'1'", "'0'", text="'{}'"),
    "each row in one quoted cell": "".join(
        '"' + line.replace('"', '""') + '"\n' for line in note_table("text,label").splitlines()
    ),
    "without a header": note_table(""),
    "words without a header": note_table("", "relevant", "irrelevant", "\t", text="{}"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_neither_an_item_nor_lost(name):
    items = imported(HEADERS[name], "notes.csv")
    assert (NOTES, POSITIVE) == (items.texts, (items.y == 1).tolist())


@pytest.mark.parametrize("header", [None, True])
@pytest.mark.parametrize("head", [",text", '"",TEXT', "\ufeff,Kommentar"])
def test_a_header_may_begin_with_a_blank_name(head, header):
    """A first row with a blank name and a word is a header, also if the user says so; the numbers below are ids."""
    items = imported(f"{head}\n{INDEX}", "notes.csv", layout=Layout(header=header))
    assert (NOTES, [*map(str, range(len(NOTES)))]) == (items.texts, items.ids)


@pytest.mark.parametrize(("content", "numbers"), [
    (note_table("text,label", text="{}"), "2 names, the lines have 3 cells"),
    (note_table("id,text,label", text="7,{0},{0}", extra=",x"), "3 names, the lines have 7 cells"),
    (note_table("nr,utterance", extra=",x", text="{}").replace(", case", " case"), "2 names, the lines have 3 cells"),
])  # fmt: skip
def test_names_that_do_not_fit_the_cells_are_a_question(content, numbers):
    """If names and cells differ in number and it cannot be told how they belong together, the question names both
    numbers and the option that answers."""
    with pytest.raises(DataError, match=f"has {numbers}: .*--no-header"):
        imported(content, "notes.csv")


@pytest.mark.parametrize("written", [
    repr, lambda tokens: "[" + ",".join(f'"{token}"' for token in tokens) + "]", lambda tokens: str(np.array(tokens)),
])  # fmt: skip
def test_cells_that_are_lists_of_tokens_are_texts(written):
    rows = ((" ".join(written(tokens).split()), int(y)) for tokens, y in zip(TOKENS.values(), POSITIVE))
    items = imported(joined(rows=rows, head=("tokens", "label")), "notes.csv")
    assert [*map(" ".join, TOKENS.values())] == items.texts

"""Words of files and people that look like markup: no widget on any page shows them as a picture or bold text."""

from collections.abc import Iterator

import pytest

from oal_engine import experiments
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.pages import listed, press, run
from tests.harness.shapes import workbook

PICTURE = "![x](http://host/p.png)"  # that a browser would fetch
WORD = f"{PICTURE}<u>"
# Fields that Streamlit shows literally, or that a browser never shows; it renders all other fields as Markdown.
PLAIN = {
    ("Text", "body"), ("Html", "body"), ("Code", "code_text"), ("Selectbox", "options"), ("MultiSelect", "options"),
    ("Selectbox", "raw_value"), ("Selectbox", "default"), ("TextInput", "placeholder"), ("TextInput", "default"),
    ("TextInput", "value"), ("TextArea", "default"), ("TextArea", "placeholder"), ("TextArea", "value"),
    ("PageLink", "query_string"), ("BidiComponent", "json"), ("PlotlyChart", "spec"), ("DownloadButton", "url"),
}  # fmt: skip
SERVER = "File on the server"


def interpreted(at):
    """Yield every string in the elements of a page: (kind of element, field, text)."""
    left = [at._tree]
    while left:
        node = left.pop()
        left += getattr(node, "children", {}).values()
        if (proto := getattr(node, "proto", None)) is not None:
            yield from fields(proto)


def fields(message) -> Iterator[tuple[str, str, str]]:
    for field, value in message.ListFields():
        parts = value if field.is_repeated else [value]
        for part in parts:
            if field.message_type and field.message_type.GetOptions().map_entry:
                continue
            if field.message_type:
                yield from fields(part)
            elif isinstance(part, str) and not field.name.endswith("id"):
                yield message.DESCRIPTOR.name, field.name, part


def check(at, seen=True):
    """Check that a page shows WORD literally wherever it occurs, and, if `seen`, that it occurs."""
    assert not at.exception
    found = [*interpreted(at)]
    assert [] == [each for each in found if PICTURE in each[2] and each[:2] not in PLAIN]
    assert [] == [text for kind, _, text in found if kind == "Html" and WORD in text]
    assert not seen or any("host" in words for *_, words in found)


@pytest.fixture
def chosen(store, tmp_path):
    """A function that writes a file and opens it on the Data page."""

    def look(content, name="a.csv", **kind):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        at = run("pages/4_Data.py")
        if kind:
            at.segmented_control(key="kind").set_value(kind["kind"]).run()
        key = "more-" if kind else ""
        at.segmented_control(key=f"{key}way").set_value(SERVER).run()
        return at.text_input(key=f"{key}path").set_value(name).run()

    return look


ROWS = [("text", f"label {WORD}"), *((f"{WORD} word{k % 5} is here", f"{WORD}|{k % 3}") for k in range(40))]
QUOTED = "".join(f'"{text}","{label}"\n' for text, label in ROWS)
NUMBERS = [("a", f"b {PICTURE}", "label"), *((k / 2, PICTURE if k == 7 else k, k % 2) for k in range(40))]


@pytest.mark.slow
def test_sheets_are_literal(chosen):
    sheets = [(name, [("text", "label"), *((f"word {k}", k % 2) for k in range(20))]) for name in ("one", "!(x)(y)")]
    at = chosen(workbook(*sheets), "b.xlsx")
    assert ["one", "\\!\\(x\\)\\(y\\)"] == at.radio(key="doubt-sheet").options
    check(at, seen=False)


@pytest.mark.slow
def test_columns_and_labels_are_literal(chosen):
    at = chosen(QUOTED)
    check(at)
    assert "\\!\\[x\\]" in at.checkbox(key=f"contains-label {WORD}").label
    at.segmented_control(key=f"kind-label {WORD}").set_value("Each word is a class").run()
    check(at)
    at.button(key="check").click().run()
    check(at)


@pytest.mark.slow
def test_cells_without_a_number_are_literal(chosen):
    at = chosen("".join(",".join(map(str, row)) + "\n" for row in NUMBERS))
    at.multiselect(key="features-label").set_value(["a", f"b {PICTURE}"]).run()
    assert "\\!\\[x\\]" in at.radio(key="missing").label
    check(at)


@pytest.fixture
def session(store, chosen):
    """The id of a session whose names, data, classes, tags and people all contain text that looks like markup. So does
    the name of a comparison on the same data."""
    at = chosen(QUOTED)
    at.segmented_control(key=f"kind-label {WORD}").set_value("Each word is a class").run()
    at.text_input(key="name").set_value(f"data {WORD}").run()
    press(at, "import")
    (dataset,) = store.datasets()
    classes = [*dataset["classes"]]
    names = {"positive_name": f"p {WORD}", "negative_name": f"n {WORD}", "name": f"session {WORD}"}
    session = create(
        store, dataset["id"], "PAA-I", positive_class=classes[0], budget=2, **names, guidelines=WORD,
        tags=(f"t {WORD}",), owner=WORD, overlap=1.0,
    )  # fmt: skip
    opened = Session(store, session)
    for who in (f"anna {WORD}", f"ben {WORD}"):
        for number, asked in enumerate(opened.held(who)[:2]):
            opened.answer(f"{who} {number}", asked.id, 1, who)
    opened.note("noted", 0, WORD)
    opened.tag("tagged", 0, f"t {WORD}", True)
    experiments.begin(
        experiments.specification({"data": [f"data {WORD}={classes[0]}"], "algorithms": {"PAA-I": {}}, "tune": "none"}),
        store, f"compared {WORD}",
    )  # fmt: skip
    return session


@pytest.mark.slow
def test_every_page_is_literal(session, chosen):
    who = {"annotator": f"anna {WORD}"}
    for query in ({}, {"new": 1}):
        at = run("home.py", **who, **query)
        check(at)
    at.segmented_control(key="new-kind-1").set_value("One rare class").run()
    check(at)
    at = run("home.py", **who)
    at.button(key=f"remove-{session}").click().run()
    check(at)
    for panel in ("Progress", "History", "Pushed", "Check", "Learned", "Guidelines", "Team"):
        check(listed(session, panel.lower(), at=run("pages/1_Label.py", session=session, **who)))
    check(run("pages/3_Replay.py", session=session, **who))
    check(run("pages/1_Label.py", session=WORD, **who))
    at = run("pages/2_Compare.py", **who)
    check(at)
    at.button(key="compare-remove-1").click().run()
    check(at)
    check(run("pages/2_Compare.py", comparison=1, **who))
    check(run("pages/2_Compare.py", view="race", **who))
    at = run("pages/4_Data.py", **who)
    check(at)
    check(chosen(QUOTED, "more.csv", kind="Add to existing"))

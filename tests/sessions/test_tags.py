"""Tags are added to items and removed, logged, published and exported; further columns are exported, too."""

import json

import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.datasets.reading import details
from oal_engine.output import tables
from oal_engine.sessions import look_back
from oal_engine.sessions.files import export
from oal_engine.sessions.labels import POSITIVE, SessionError, checked_tags
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store, StoreError
from oal_engine.store.fields import MOST_TAGS
from tests.harness.exports import GUARDED, TYPED, rows_of
from tests.harness.sessions import EVENTS, begin, say

ASK, WRONG = "ask a colleague", "wrong <b>population</b>"


@pytest.fixture
def opened(store):
    """A session that offers two tags."""
    return begin(store, tags=[ASK, WRONG])


def test_tags_stand_by_item_and_touch_nothing_else(opened):
    """An item has the tags that were added and not removed. An event that is sent again counts once, and tags do not
    change the session's state."""
    say(opened, POSITIVE)
    item, digest, version = opened.history[0].item, opened.digest(), opened.version
    for event, tag, given in (("t1", WRONG, True), ("t2", ASK, True), ("t3", WRONG, False), ("t2", ASK, True)):
        opened.tag(event, item, tag, given, "Ann")
    assert ({item: [ASK]}, (ASK,)) == (opened.tags, opened.history[0].tags)
    opened.tag("t4", item, WRONG, True, "Ben")
    assert [WRONG, ASK] == opened.tags[item]
    rows = opened.store.events(opened.id, "tagged")
    assert [(WRONG, 1, "Ann"), (ASK, 1, "Ann"), (WRONG, 0, "Ann"), (WRONG, 1, "Ben")] == [
        (row["data"]["tag"], row["data"]["given"], row["annotator"]) for row in rows
    ]
    assert (digest, version) == (opened.digest(), opened.version)
    assert look_back.verify(opened.store, opened.id).verified


def refused(opened, item, tag):
    """Return the error message with which a tag is refused."""
    with pytest.raises(SessionError) as caught:
        opened.tag(next(EVENTS), item, tag, True)
    return str(caught.value)


def test_a_tag_that_the_session_does_not_have_is_refused(store, opened):
    one_of = "a tag must be a tag of the session:"
    assert f"{one_of} {ASK}, {WRONG}. Got odd." == refused(opened, 0, "odd")
    assert "a tag must be on an item of the stream. Got 300." == refused(opened, 300, ASK)
    with pytest.raises(SessionError, match=r"^a note must be on an item of the stream\. Got 300\.$"):
        opened.note(next(EVENTS), 300, "nowhere")
    opened.tag(next(EVENTS), 0, ASK, True)
    store.update_session(opened.id, {"tags": None})
    assert f"{one_of} none. Got {ASK}." == refused(opened, 1, ASK)
    opened.tag(next(EVENTS), 0, ASK, False)
    assert {} == opened.tags
    store.remove_session(opened.id)
    with pytest.raises(StoreError, match="does not exist"):
        opened.tag(next(EVENTS), 0, ASK, False)


@pytest.mark.parametrize(("names", "sentence"), [
    (map(str, range(MOST_TAGS + 1)), f"a session has {MOST_TAGS} tags at most. Got {MOST_TAGS + 1}."),
    (["a|b"], "a tag must have 60 characters at most and no |. Got a|b."),
    (["x" * 61], f"a tag must have 60 characters at most and no |. Got {'x' * 61}."),
])  # fmt: skip
def test_names_that_no_tag_can_have_are_refused(names, sentence):
    """Too many tags, and tags that are too long or contain |, are refused; blank and repeated tags are left out."""
    assert ["two words", "a"] == checked_tags(["  two \t words", "", "a", "two words", " "])
    with pytest.raises(SessionError) as caught:
        checked_tags(names)
    assert sentence == str(caught.value)


# Exports


@pytest.fixture
def papers(tmp_path):
    """A session over texts with further columns, one of which has the name of a column of the exports."""
    path = tmp_path / "papers.csv"
    lines = [f'i{k},word{k % 3} some,{2000 + k},"=a, b",{k % 2 or ""},{k % 2}' for k in range(12)]
    path.write_text("id,text,year,source,number,label\n" + "\n".join(lines))
    store = Store(tmp_path / "studio.db")
    dataset = datasets.import_file(store, path, "papers", min_df=1)[0]
    opened = Session(store, create(store, dataset, learner="pa-i", rule="all", tags=[ASK, "b"], overlap=1))
    for k in range(8):
        opened.answer(f"a{k}", opened.held("anna")[0].id, 1, "anna")
    opened.answer("second", opened.held("ben")[0].id, 1, "ben")
    opened.tag("t1", 0, "b", True)
    opened.tag("t2", 0, ASK, True)
    return opened


def written(opened, what, kind, path):
    """Export a table of a session, and return its rows."""
    export.export(opened.store, opened.id, what, kind, path)
    rows = rows_of(kind, path.read_bytes())
    return rows if kind in TYPED else [{name: word or None for name, word in row.items()} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("kind", tables.FORMATS)
@pytest.mark.parametrize("what", [what for what in export.TABLES if what != "audit"])
def test_tags_and_further_columns_are_in_every_table(papers, tmp_path, what, kind):
    """Each exported table ends with the tags, then the further columns, renamed if their names are already taken."""
    rows = written(papers, what, kind, tmp_path / f"out.{kind}")
    number = "item_number" if what in ("labels", "opinions") else "number"
    assert ["tags", "year", "source", number] == list(rows[0])[-4:]
    source = "'=a, b" if kind in GUARDED else "=a, b"
    assert rows
    for row in rows:
        k = int(row["id"].removeprefix("i"))
        tags = f"b|{ASK}" if k == 0 else None
        assert (tags, str(2000 + k), source, "1" if k % 2 else None) == tuple(row.values())[-4:]


def test_a_column_whose_name_is_a_formula_is_none_in_a_spreadsheet(store, tmp_path):
    """In CSV for spreadsheets, column names that begin like a formula get an apostrophe, as cells do."""
    path = tmp_path / "evil.csv"
    path.write_text("id,text,=1+1,label\n" + "".join(f"i{k},word{k % 2} some,w,{k % 2}\n" for k in range(6)))
    dataset = datasets.import_file(store, path, "evil", reading.Columns(("text",), "label", "id"), min_df=1)[0]
    session = create(store, dataset, learner="pa-i", rule="all")
    export.export(store, session, "labels", "csv-guarded", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[0].endswith(",annotator,'=1+1")


def test_many_further_columns_come_back(store, tmp_path):
    names = [f"more {k}" for k in range(details.MAX_COLUMNS)]
    lines = [",".join(["id", "text", "label", *names])]
    lines += [",".join([f"i{k}", f"word{k % 2} some", str(k % 2), *(f"{k} {n}" for n in names)]) for k in range(6)]
    (tmp_path / "many.csv").write_text("\n".join(lines) + "\n")
    dataset = datasets.import_file(store, tmp_path / "many.csv", "many", min_df=1)[0]
    opened = Session(store, create(store, dataset, learner="pa-i", rule="all"))
    export.export(store, opened.id, "labels", "csv", tmp_path / "out.csv")
    again = reading.read(tmp_path / "out.csv")
    assert tuple(names) == again.columns.details[-len(names) :]
    assert [f"0 {name}" for name in names] == json.loads(again.details[0])[-len(names) :]

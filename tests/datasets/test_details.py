"""Further columns of a file (details) are stored with its items, shown if chosen, and also read when items are
appended."""

import io
import json

import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.reading import details
from oal_engine.datasets.reading.details import CELL_CHARACTERS, MAX_COLUMNS
from tests.harness.files import fails, upload
from tests.harness.markup import EVIL, MARKUP

HEAD = "id,title,text,year,doi,label,score"
ROWS = [
    'a,"First, of two",so happy a day,2019,10.1000/x y,1,0.5',
    "b,Second,a sad day,,,0,",
    "c,,so sad a day,2021,https://example.org/3,0,2",
]
FILE = "\n".join([HEAD, *ROWS]) + "\n"
KEPT = ("title", "year", "doi", "score")


@pytest.fixture
def papers(store, tmp_path):
    """A data set of three items with further columns."""
    path = tmp_path / "papers.csv"
    path.write_text(FILE)
    return Dataset(store, datasets.import_file(store, path, "papers", min_df=1)[0])


def kept(dataset):
    """Return the details of each item of a data set."""
    stored = dataset.store.details(dataset.id, range(dataset.record["items"]))
    return [stored.get(position) for position in range(dataset.record["items"])]


def test_what_nothing_else_uses_is_kept_and_what_says_what_it_is_is_shown(papers):
    """By default, title, year and link are stored as details and shown, a score is only stored, and text, label and id
    are not details."""
    assert (KEPT, ("title", "year", "doi")) == (papers.details, papers.shown_columns)
    assert kept(papers) == [
        ["First, of two", "2019", "10.1000/x y", "0.5"],
        ["Second", "", "", ""],
        ["", "2021", "https://example.org/3", "2"],
    ]
    assert ["so happy a day", "a sad day", "so sad a day"] == papers.store.texts(papers.id, 0, 3)


def test_a_file_without_further_columns_is_as_before(store, tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("id,text,label\na,so happy a day,1\nb,a sad day,0\n")
    dataset = Dataset(store, datasets.import_file(store, path, "plain", min_df=1)[0])
    assert ((), (), [None, None]) == (dataset.details, dataset.shown_columns, kept(dataset))
    assert {"text", "label", "id"} == set(dataset.columns)


def test_the_rows_do_not_depend_on_further_columns(store, papers, tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("id,text,label\na,so happy a day,1\nb,a sad day,0\nc,so sad a day,0\n")
    plain = Dataset(store, datasets.import_file(store, path, "plain", min_df=1)[0])
    assert papers.fingerprint == plain.fingerprint


def test_lists_of_numbers_and_columns_beyond_the_first_are_left_out():
    """By default the first MAX_COLUMNS further columns are stored, except columns of vectors. Long cells are cut."""
    names = [f"m{k}" for k in range(MAX_COLUMNS + 5)]
    lines = [
        {"text": f"a text {k}", "v": [k, 0.5, 1]} | dict.fromkeys(names, "w" * (CELL_CHARACTERS + k)) for k in range(3)
    ]
    items = reading.read(upload("\n".join(map(json.dumps, lines)), "x.jsonl"))
    assert tuple(names[:MAX_COLUMNS]) == items.columns.details
    first, second, _ = map(json.loads, items.details)
    assert (["w" * CELL_CHARACTERS] * MAX_COLUMNS, ["w" * (CELL_CHARACTERS - 1) + "…"] * MAX_COLUMNS) == (first, second)


def test_every_word_of_a_cell_is_kept_as_it_is():
    """Markup, formulas and letters of any alphabet are stored unchanged; an unpaired surrogate becomes "?"."""
    words = [EVIL, MARKUP, "two\nlines", "漢字", "half \ud800"]
    lines = [json.dumps({"text": f"a text {k}", "more": word}) for k, word in enumerate(words)]
    items = reading.read(upload("\n".join(lines), "x.jsonl"))
    expected = [*(word.strip() for word in words[:-1]), "half ?"]
    assert [[word] for word in expected] == [json.loads(each) for each in items.details]


@pytest.mark.parametrize(("columns", "shown"), [
    (("title", "year", "journal", "url"), ("title", "year", "journal", "url")),
    (("Publication Year", "source_title", "Authors", "DOI", "PDF link"), "all"),
    (("headline", "published", "newspaper", "links"), "all"),
    (("user_timezone", "negativereason", "score", "tweet_id", "retweet_count", "url_hash", "included"), ()),
])  # fmt: skip
def test_columns_are_shown_by_their_names(columns, shown):
    """By default, only columns with names such as title, year, source, author or link are shown."""
    assert (columns if shown == "all" else shown) == details.usually_shown(columns)


@pytest.mark.parametrize(("words", "shown"), [
    (["https://example.org/a.JPG?size=2#x", "", "b/c d.webp"], True),
    (["a.png", "no picture"], False),
    (["", ""], False),
    (["a.svg"], False),
    (["https://example.org/?file=a.png"], False),
    (["https://example.org/a.png?long…"], False),
])  # fmt: skip
def test_a_column_of_pictures_is_recognized_by_its_cells(words, shown):
    assert shown == bool(details.usually_shown(["x"], {"x": words}))
    found = [details.picture(["x"], [word], ["x"]) for word in words]
    assert (words if shown else found) == found
    assert "" == details.picture(["x"], words[:1], [])


@pytest.mark.parametrize(("column", "word", "link"), [
    ("url", "https://example.org/a?b=c#d", "https://example.org/a?b=c#d"),
    ("anything", "HTTP://example.org", "HTTP://example.org"),
    ("doi", "10.1000/182", "https://doi.org/10.1000/182"),
    ("DOI", "doi: 10.1000/a<b>", "https://doi.org/10.1000/a%3Cb%3E"),
    ("url", "10.1000/182", None),
    ("url", "javascript:alert(1)", None),
    ("url", " javascript:alert(1)//https://example.org", None),
    ("url", "data:text/html,<script>x</script>", None),
    ("url", "ftp://example.org", None),
    ("url", "//example.org", None),
    ("url", "https://example.org/one https://example.org/two", None),
    ("url", 'https://example.org/"onclick="x', None),
    ("url", "https://example.org/" + "a" * 30 + "…", None),
    ("url", "", None),
])  # fmt: skip
def test_only_addresses_of_the_web_are_links(column, word, link):
    assert link == details.link(column, word)


@pytest.mark.parametrize(("chosen", "title", "facts"), [
    (KEPT, "First", [("", "2019", None), ("score", "0.5", None), ("", "https://x.org", "https://x.org")]),
    (("year",), "", [("", "2019", None)]),
    ((), "", []),
])  # fmt: skip
def test_what_stands_above_a_text_is_what_was_chosen(chosen, title, facts):
    """The heading above a text has the title and the other chosen columns, links last. A column's name is shown unless
    it is a usual one, such as year."""
    assert (title, facts, 0) == details.heading(KEPT, ["First", "2019", "https://x.org", "0.5"], chosen)


@pytest.mark.parametrize(("text", "title", "rest"), [
    ("A title\nAn abstract\nof lines", "A title", "An abstract\nof lines"),
    ("A title\n\nAn abstract", "A title", "An abstract"),
    ("A title alone", "A title alone", ""),
    ("T" * 400 + "\nAn abstract", "", "T" * 400 + "\nAn abstract"),
    ("\nAn abstract", "", "\nAn abstract"),
])  # fmt: skip
def test_a_title_that_was_joined_to_a_text_is_its_first_line(text, title, rest):
    """A first line as short as a title is shown as the title of a text, and the text begins below it."""
    above = details.with_title_of(text, details.Heading("", []))
    assert (title, rest) == (above.title, text[above.begins :])


def test_a_text_of_title_and_abstract_begins_with_a_title(store, tmp_path):
    """Texts have titles if the first of several text columns is named title, even if no details are stored."""
    path = tmp_path / "abstracts.csv"
    path.write_text("title,abstract,label\nOf days,so happy a day,1\nOf more,a sad day,0\n")
    for name, text in (("both", ("title", "abstract")), ("other", ("abstract", "title")), ("one", ("title",))):
        columns = reading.Columns(text, "label", details=())
        dataset = Dataset(store, datasets.import_file(store, path, name, columns, min_df=1)[0])
        assert (name == "both", ()) == (dataset.has_titles, dataset.details)


KEEPS = "x.csv keeps no column {} to show with its items; it keeps {}.".format


@pytest.mark.parametrize(("columns", "sentence"), [
    ({"details": ("spam",)}, "x.csv has no column 'spam'; its columns are id, title, text, year, doi, label, score."),
    ({"shown_columns": ("label",)}, KEEPS("'label'", "title, year, doi, score")),
    ({"details": (), "shown_columns": ("year",)}, KEEPS("'year'", "none")),
])  # fmt: skip
def test_a_column_that_cannot_be_kept_or_shown_is_refused(columns, sentence):
    """The error for a column that cannot be stored or shown names it and lists the valid columns. The label column is
    never shown."""
    assert sentence == fails(upload(FILE, "x.csv"), reading.Columns(("text",), "label", "id", **columns))


def test_later_items_bring_their_own(papers, tmp_path):
    """Appended files and feeds may have the further columns in any order; missing ones are stored as empty."""
    (tmp_path / "more.csv").write_text("year,more,id,text\n2022,x,d,so happy a week\n2023,y,e,so sad a week\n")
    line = json.dumps({"text": "a sad week", "score": 0.25, "title": ["one", "two"], "id": "f"})
    assert 2 == sum(lot.appended for lot in feeds.append_file(papers, tmp_path / "more.csv"))
    assert 1 == sum(lot.appended for lot in feeds.append_lines(papers, io.BytesIO(f"{line}\n".encode())))
    assert 1 == sum(lot.appended for lot in feeds.append_lines(papers, io.BytesIO(b"a text alone\n")))
    assert [["", "2022", "", ""], ["", "2023", "", ""], ["one|two", "", "", "0.25"], None] == kept(papers)[3:]


def test_what_is_kept_stays_with_its_item_where_others_are_dropped(store, papers, tmp_path):
    (tmp_path / "more.csv").write_text("id,text,year\nd,a sad day,1\ne,a new day,2\n")
    assert 1 == sum(lot.appended for lot in feeds.append_file(papers, tmp_path / "more.csv"))
    assert [["", "2", "", ""]] == kept(papers)[3:]
    words = "one two three four five six seven eight nine ten"
    path = tmp_path / "once.csv"
    path.write_text(f"text,year\n{words},1\n{words} {words}!,2\nsomething else of other words,3\n")
    columns = reading.Columns(("text",))
    dataset = datasets.import_file(
        store, path, "once", columns, datasets.ImportRequest(near_duplicates="once"), min_df=1
    )[0]
    assert [["1"], ["3"]] == kept(Dataset(store, dataset))


def test_vectors_have_further_columns_too(store, tmp_path):
    """A data set of numbers also stores its columns of words, and shows columns such as title and url."""
    path = tmp_path / "table.csv"
    lines = "".join(f"{k},{k % 3},Name {k},https://example.org/{k},{k % 2}\n" for k in range(9))
    path.write_text("a,b,title,url,label\n" + lines)
    columns = reading.Columns(label="label", features=("a", "b"))
    dataset = Dataset(
        store, datasets.import_file(store, path, "table", columns, datasets.ImportRequest(features="plain"))[0]
    )
    assert (("title", "url"), ["a", "b"]) == (dataset.shown_columns, dataset.feature_names)
    assert ["Name 8", "https://example.org/8"] == kept(dataset)[8]

"""Tables of numbers and words are imported with all their columns, and later items use the same columns."""

import json
import re
from random import Random

import numpy as np
import pandas
import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.reading import DataError, codings, layout_sentence, peek, read
from oal_engine.output import tables
from oal_engine.sessions import model
from oal_engine.sessions.files import export, model_file
from oal_engine.sessions.items import file_numbers
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.files import named
from tests.harness.sessions import say

ROWS = 200
HEAD = "age,job,owns,wage,rate,label"
LINES = [
    f'{20 + k % 40},{("cook", "nurse", "?")[k % 3]},{("yes", "no")[k % 2]},"${1000 + k:,}",{k % 9}%,{int(k % 5 == 0)}'
    for k in range(60)
]


def german(random):
    """Return a random row in the format of german.data: 13 codes, 7 numbers and a class."""
    numbers = {1: 72, 4: 9999, 7: 4, 10: 4, 12: 70, 15: 4, 17: 2}
    cells = [random.randint(1, numbers[k]) if k in numbers else f"A{k + 1}{random.randint(1, 4)}" for k in range(20)]
    return " ".join(map(str, (*cells, random.randint(1, 2))))


def adult(random):
    """Return a random row in the format of adult.data: numbers and words, some of them missing, and the income."""
    words = (
        ["Private", "?", "Local-gov"],
        ["HS-grad", "11th"],
        ["Divorced", "Widowed"],
        ["Sales", "?"],
        ["Wife", "Own-child"],
    )
    first, school, *others = map(random.choice, words)
    sex, country, income = map(random.choice, (["Male", "Female"], ["Cuba", "?", "India"], ["<=50K", "<=50K", ">50K"]))
    cells = random.randint(17, 90), first, random.randint(10**4, 10**6), school, random.randint(1, 16), *others
    more = random.choice(["White", "Black"]), sex, random.choice([0, 0, 2174]), random.choice([0, 1902])
    return ", ".join(map(str, (*cells, *more, random.randint(1, 99), country, income)))


def bank(random):
    """Return a random row in the format of bank-full.csv: quoted words, numbers, and a quoted yes or no at the end."""
    pair = ["no", "yes"]
    cells = [
        random.randint(18, 95), ["admin.", "unknown"], ["married", "single"], ["primary", "tertiary"], pair,
        random.randint(-800, 9000), pair, pair, ["cellular", "unknown"], random.randint(1, 31), ["may", "jun"],
        random.randint(3, 4000), random.randint(1, 40), random.choice([-1, 151]), 0, ["failure", "other"], pair,
    ]  # fmt: skip
    return ";".join(str(cell) if isinstance(cell, int) else f'"{random.choice(cell)}"' for cell in cells)


def mushroom(random):
    """Return a random row in the format of agaricus-lepiota.data: letters, the class first."""
    return ",".join(map(random.choice, ("pe", *["xbsf", "fysg", "nbcg", "tf", "alcy", "bcuez?"] * 3, "glmpuwd")))


BANK_HEAD = ";".join(
    f'"{name}"'
    for name in "age job marital education default balance housing loan contact day month duration campaign pdays "
    "previous poutcome y".split()
)
LAYOUTS = [
    ("german.data", "", german, 20, "c21"), ("adult.data", "", adult, 14, "c15"),
    ("bank-full.csv", BANK_HEAD, bank, 16, "y"),
    ("agaricus-lepiota.data", "", mushroom, 19, "c1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "head", "row", "columns", "label"), LAYOUTS, ids=[each[0] for each in LAYOUTS])
def test_tables_of_the_uci_archive_use_all_columns(name, head, row, columns, label):
    random = Random(name)
    content = "\n".join([*filter(None, [head]), *(row(random) for _ in range(ROWS))]) + "\n"
    guess = peek(named(content.encode(), name)).guess
    assert (label, columns, ()) == (guess.label, len(guess.features), guess.text)
    items = read(named(content.encode(), name), reading.Columns(label=label, features=guess.features, multiclass=True))
    assert (ROWS, {}, 2) == (len(items.ids), items.skipped, len(items.classes))
    assert len(items.feature_names) == items.vectors.shape[1] > columns


@pytest.fixture
def path(tmp_path):
    """A table of numbers, categories with missing cells, yes and no, money and percentages."""
    path = tmp_path / "people.csv"
    path.write_text("\n".join([HEAD, *LINES]))
    return path


@pytest.fixture
def data(store, path):
    """The table at `path` as a data set."""
    request = datasets.ImportRequest(features="plain", scale="none")
    return Dataset(store, datasets.import_file(store, path, "people", None, request)[0])


def numbers_of(data):
    """Return the unscaled numbers of all items."""
    return data.numbers.values.reshape(-1, len(data.feature_names)).tolist()


def test_words_become_features(data, path):
    """Categories are one-hot encoded, a missing cell as zeros; yes is 1 and no is 0; currency signs, per cent signs and
    thousands separators are dropped."""
    assert ["age", "job = cook", "job = nurse", "owns", "wage", "rate"] == data.feature_names
    assert [[20, 1, 0, 1, 1000, 0], [21, 0, 1, 0, 1001, 1], [22, 0, 0, 1, 1002, 2]] == numbers_of(data)[:3]
    assert "3 columns of numbers; 2 columns of words, which are 3 features" in layout_sentence(read(path).description)


def test_items_show_the_words_of_the_file(data):
    assert [("age", "21"), ("job", "nurse"), ("owns", "no"), ("wage", "1001"), ("rate", "1")] == [
        line[1:] for line in file_numbers(data, 1)
    ]
    assert [("age", "22"), ("job", "")] == [line[1:] for line in file_numbers(data, 2)][:2]
    assert ["age", "wage"] == [name for _, name, _ in file_numbers(data, 1, 2)]


@pytest.mark.parametrize("as_feed", [False, True], ids=["file", "feed"])
def test_later_items_use_the_same_columns(data, path, as_feed):
    """Later items, from a file or feed, are one-hot encoded with the import's words; new words are only counted."""
    if as_feed:
        later = [{"age": 50, "job": "pilot", "owns": "no", "wage": "$9", "rate": "5%"},
                 {"age": 51, "job": "nurse", "owns": "Yes", "wage": "2,000", "rate": 7.5}]  # fmt: skip
        path.write_text("".join(json.dumps(row) + "\n" for row in later))
        with path.open("rb") as feed:
            counts = sum(feeds.append_lines(data, feed), feeds.AppendCounts())
    else:
        path.write_text("\n".join([HEAD, "50,pilot,no,$9,5%,0", '51,nurse,Yes,"2,000",7.5%,1']))
        counts = sum(feeds.append_file(data, path), feeds.AppendCounts())
    assert (2, 1) == (counts.appended, counts.unknown_words)
    assert "1 word of categories that the import did not have" in str(counts)
    assert [[50, 0, 0, 0, 9, 5], [51, 0, 1, 1, 2000, 7.5]] == numbers_of(data)[-2:]
    data.check()


def test_a_data_set_without_codings_is_appended_to_as_before(store, tmp_path):
    """In an older data set without codings of words, appended rows with words in columns of numbers are skipped."""
    path = tmp_path / "old.csv"
    path.write_text("a,b,label\n" + "".join(f"{k},{k % 7},{k % 2}\n" for k in range(20)))
    data = Dataset(store, datasets.import_file(store, path, "old", None)[0])
    assert {} == data.codings
    assert "codings" not in data.record["columns"]
    path.write_text("a,b,label\n" + "1,yes,1\n2,no,0\n3,yes,1\n4,$5,0\n99,2,1\n")
    counts = sum(feeds.append_file(data, path), feeds.AppendCounts())
    assert (1, 4) == (counts.appended, counts.skipped["non-numeric row"][0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", tables.FORMATS)
def test_an_export_has_the_columns_of_the_file(data, tmp_path, kind):
    session = Session(data.store, create(data.store, "people", learner="pa-i", rule="all", budget=60))
    while session.place.asked:
        say(session, 1 - 2 * (session.place.asked.round % 2))
    out = tmp_path / f"out.{kind}"
    export.export(data.store, session.id, "labels", kind, out, texts=True)
    items = read(out)
    assert data.feature_names == items.feature_names
    assert data.rows.values.tobytes() == items.vectors.tobytes()


def test_a_model_file_reads_tables_of_words(data, tmp_path):
    session = Session(data.store, create(data.store, "people", learner="pa-i", rule="all", budget=60))
    while session.place.asked:
        say(session, 1 - 2 * (session.place.asked.round % 3 == 0))
    fitted, path = model.of_session(session), tmp_path / "model.json"
    with path.open("wb") as file:
        model_file.write(fitted, file)
    learned = model_file.read(path)
    columns = reading.Columns(features=learned.table_columns, codings=learned.codings)
    content = "\n".join([HEAD, *LINES]).encode()
    (tmp_path / "again.csv").write_bytes(content)
    with reading.open_items(tmp_path / "again.csv", columns) as opened:
        margins = [margin for _, _, margin, *_ in model.predicted({"": learned}, *opened, {}).rows]
    assert fitted.decided(fitted.scores(data.rows))[0].tolist() == margins
    table = pandas.read_csv(tmp_path / "again.csv")[[*reversed(learned.table_columns)]]
    assert [margin - learned.head["theta"] for margin in margins] == learned.decision_function(table).tolist()


@pytest.mark.parametrize(("cells", "mark"), [
    (["1,234", "56", "12,345,678"], "point"), (["$5", "$ 1,200.50", "-$3"], "point"),
    (["(5)", "7", "(1,000)"], "point"),
    (["12%", "7.5 %", "?"], "point"), (["EUR 1.234,50", "EUR 7"], "comma"), (["12,5%", "3%"], "comma"),
    (["€1.234", "€2.500"], None), (["1.2.3", "4.5.6"], None), (["A11", "A12"], None), (["0,123", "1,234"], "comma"),
    (["2024-01-02", "2024-02-03"], None), (["(5", "6)"], None), ([], None),
])  # fmt: skip
def test_formatted_numbers_are_read_if_one_decimal_mark_fits(cells, mark):
    assert mark == codings.number_format(cells)


@pytest.mark.parametrize(("cell", "mark", "number"), [
    ("1,234", "point", 1234), ("$5", "point", 5), ("EUR 1.234,50", "comma", 1234.5), ("12%", "point", 12),
    ("(5)", "point", -5), ("-$1,000.25", "point", -1000.25), ("1 234,5 €", "comma", 1234.5),
    ("5 apples", "point", None),
])  # fmt: skip
def test_a_formatted_number_has_one_value(cell, mark, number):
    """A number is parsed without its currency, unit and thousands separators. A cell with other words has no value."""
    assert number == codings.formatted_number(cell, mark)


def test_a_column_with_too_many_words_is_left_out_by_name(tmp_path):
    """A column with more than fifty distinct words, but fewer in the sampled rows, is stored but not learned from."""
    rows = [f"{k % 30},{'ab'[k % 2]},w{k % 40 if k < 1500 else k},{k % 3 % 2}" for k in range(1700)]
    items = read(named("\n".join(["size,kind,code,label", *rows]).encode(), "a.csv"))
    assert ["size", "kind = a", "kind = b"] == items.feature_names
    assert "not learned from: code (--feature chooses)" in layout_sentence(items.description)
    assert '["w0"]' == items.details[0]


def test_a_wide_table_of_words_is_sparse():
    rows = [",".join(f"w{(k * (c + 1)) % 45}" for c in range(8)) + f",{k % 2}" for k in range(400)]
    items = read(named("\n".join(rows).encode(), "a.csv"))
    assert items.vectors.shape == (400, len(items.feature_names))
    assert (items.vectors.sum(axis=1) == 8).all()


def made(row, head=""):
    """Make a table of forty rows. row: function from the number of a row to its line."""
    return "".join([head, *(row(k) + "\n" for k in range(40))])


ROLES = {
    "no prose": (made(lambda k: f"{'xz'[k % 2]},{'yw'[k % 3 % 2]},{k % 2}", "a,b,label\n"), "label"),
    "named outcome": (made(lambda k: f"p{k},{k % 2},{'mf'[k % 3 % 2]},{k}.5", "id,survived,sex,fare\n"), "survived"),
    "first": (made(lambda k: f"{('rep', 'dem')[k % 2]},{'yn?'[k % 3]},{'yn?'[k % 5 % 3]},{'ny'[k % 2]}"), "c1"),
    "names": (made(lambda k: f"Ann Lee {k},{'rgb'[k % 3]},{k}", "name,color,size\n"), None),
}


@pytest.mark.parametrize("name", ROLES)
def test_the_roles_of_a_table_without_texts(name):
    """In a table without texts, categories and names are not guessed as texts. The label, if any, is a column with two
    classes."""
    content, label = ROLES[name]
    guess = peek(named(content.encode(), "a.csv")).guess
    assert ((), label) == (guess.text, guess.label)


@pytest.mark.parametrize(("content", "column"), [
    (made(lambda k: f"{k},{k % 2},{k * 3}", "a,flag,b\n"), "flag"),
    (made(lambda k: f"note {k} is long,{k % 5 + 1},{k}", "review,stars,place\n"), "stars"),
    (made(lambda k: f"{k % 4 + 1},a headline of {k},all that is below {k}"), "c1"),
    (made(lambda k: f"some words {k},{k % 2 > 0},{k % 3 > 0}", "text,toxic,insult\n"), "toxic, insult"),
])  # fmt: skip
def test_a_column_that_could_be_the_label_is_asked_about(content, column):
    """The import asks about a column that could be the label: a column of 0 and 1 inside a table, ratings, numbers next
    to texts in a file without column names, or one of two columns of yes and no."""
    head = peek(named(content.encode(), "a.csv"))
    with pytest.raises(DataError, match=f"The label could be in the column .*{column}.*--label ''"):
        head.settle(head.guess.label, None)


def test_rows_do_not_depend_on_their_order():
    content = [HEAD, *LINES], [HEAD, *LINES[::-1]]
    first, last = (read(named("\n".join(lines).encode(), "a.csv")) for lines in content)
    assert first.feature_names == last.feature_names
    assert np.array_equal(first.vectors, last.vectors[::-1])


@pytest.mark.parametrize(("cells", "sentence"), [
    (("1e160", "ROW"), "needs numbers up to 1e+150, for their squares. The largest is 1e+160: use other units."),
    (("1e-310", "1e-310"), "needs a number of at least 1e-150, for their squares. The largest is 3e-310: use other"),
    (("1e-310", "ROW"), "needs columns whose numbers differ by at least 1e-150. Column 1 differs by 2e-310: "),
])  # fmt: skip
def test_numbers_too_large_or_small_to_be_scaled_are_named(store, tmp_path, cells, sentence):
    path = tmp_path / "units.csv"
    lines = [
        ",".join(cell.replace("1e-", f"{1 + k % 3}e-").replace("ROW", str(k)) for cell in cells) + f",{k % 2}"
        for k in range(20)
    ]
    path.write_text("\n".join(["a,b,label", *lines]))
    with pytest.raises(ValueError, match=re.escape(sentence)):
        datasets.import_file(store, path, "units", None, datasets.ImportRequest(features="fourier"))

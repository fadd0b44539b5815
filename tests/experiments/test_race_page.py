"""A race as a self-contained page."""

import pytest

from oal_engine.datasets import Dataset
from oal_engine.experiments import race, race_page
from tests.harness.examples import add_texts
from tests.harness.published import held, is_sealed

LANES = [("Q_A", race.TUNED["Q_A"]), ("PAA-I", {})]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A data set of texts of two classes."""
    from oal_engine.store import Store

    folder = tmp_path_factory.mktemp("race")
    store = Store(folder / "studio.db")
    return Dataset(store, add_texts(store, folder))


@pytest.mark.slow
def test_a_race_is_in_its_page_as_the_app_shows_it():
    """The page holds the record of the race, and has the same bytes each time it is made."""
    page, record = race_page.page(None, LANES, 20, 7), race_page.watched(None, LANES, 20, 7)
    assert is_sealed(page)
    assert page == race_page.page(None, LANES, 20, 7)
    data = held(page)
    assert [lane["pushed"] for lane in record["lanes"]] == [lane["pushed"] for lane in data["lanes"]]
    assert (record["labels"], record["rounds"]) == (data["labels"], data["rounds"])


def test_texts_are_in_the_page_only_where_they_are_asked_for(texts):
    """The page has texts of the data only on request."""
    page = race_page.page(texts, LANES, 20, 7)
    assert {} == held(page)["items"]
    assert b"word3" not in page
    assert held(race_page.page(texts, LANES, 20, 7, texts=True))["items"]


def test_the_command_line_writes_a_race(texts, tmp_path, command):
    """`race` has the defaults of the Race page, takes data, strategies, parameters and seed, and refuses other
    values."""
    file = tmp_path / "race.html"
    assert (0, "", "") == command("race", "--out", file)
    assert race_page.page(None, [*race.TUNED.items()], race.BUDGET, race.SEED) == file.read_bytes()
    given = ("--algorithms", "Q_A, PAA-I", "--set", "PAA-I:C=0.5", "--budget", 20, "--seed", 7)
    assert (0, "", "") == command("race", texts.name, *given, "--out", file, "--db", texts.store.path)
    first, second = held(file.read_bytes())["lanes"]
    assert ("Q_A", "PAA-I", 0.5) == (first["name"], second["name"], second["parameters"]["C"])
    for options, sentence in (
        (("--algorithms", "MPAA-I"), "--algorithms must be of"),
        (("--algorithms", "Q_A", "--set", "delta_plus=1,2"), "--set of a race must be one number"),
        (("--algorithms", "Q_A,Q_S,Q_R,PAA-I,OAAL"), "a race needs 1 to 4 strategies. Got 5."),
    ):
        code, out, err = command("race", *options)
        assert (1, "") == (code, out)
        assert sentence in err

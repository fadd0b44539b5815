"""Addresses restore the controls of a page, report invalid values, and never show data that the user may not see."""

import pytest

from oal_engine.experiments import race
from oal_engine.experiments.race import CLOUDS
from tests.harness.examples import add_texts, answer, compared, imported
from tests.harness.pages import run, words

COMPARE, REPLAY = "pages/2_Compare.py", "pages/3_Replay.py"
RESULT = {"metric": "Cost", "evaluation": "push-and-query", "over": "items streamed", "block": "things, 20 labels",
          "details": "p-values", "bands": "false"}  # fmt: skip


@pytest.fixture
def comparison(app_store, tmp_path):
    """The id of a comparison of two algorithms with two budgets over the data set `things`."""
    imported(app_store, tmp_path, "things")
    return compared(app_store, "both", data=["things"])


def shown(at):
    """Return the values of a comparison's controls."""
    boxes = {box.key: box.value for box in at.selectbox}
    return boxes["metric"], boxes["evaluation"], boxes["over"], boxes["block"], at.toggle(key="bands").value


def test_a_comparison_opens_as_it_was_sent(comparison):
    at = run(COMPARE, comparison=comparison, **RESULT, **{"lines-2-2": "OAAL"})
    assert ("cost", "push_query", "rounds", ("things", 20), False) == shown(at)
    assert ["OAAL"] == at.multiselect(key="lines-2-2").value
    assert "push-and-query evaluation" in words(at)
    assert RESULT | {"comparison": str(comparison), "lines-2-2": "OAAL"} == at.query_params


def test_a_race_opens_as_it_was_sent(app_store, tmp_path):
    add_texts(app_store, tmp_path, "few texts")
    sent = {"view": "race", "data": "few texts", "labels": "9", "seed": "7", "strategies": ["Q_A", "PAA-I"]}
    at = run(COMPARE, **sent)
    assert ["Q_A", "PAA-I"] == at.multiselect(key="strategies").value
    assert (9, 7) == (at.number_input(key="labels").value, at.number_input(key="seed").value)
    field = next(each for each in at.number_input if each.key.endswith("-delta_plus"))
    again = run(COMPARE, **at.query_params, **{field.key: 0.25})
    assert 0.25 == again.number_input(key=field.key).value
    assert sent | {field.key: "0.25"} == again.query_params


WRONG = [
    ({"view": "nothing"}, "View in the address must be one of compare, race. Got nothing."),
    ({"view": "race", "data": "<b>lost</b>"}, f"must be one of {CLOUDS}, things. Got <b>lost</b>."),
    ({"view": "race", "labels": "0"}, "Labels per lane in the address must be a number from 1 to 1,000. Got 0."),
    ({"view": "race", "seed": "-1"}, "Seed in the address must be a number from 0 to 2,147,483,648. Got -1."),
    ({"view": "race", "seed": "many"}, "Got many."),
    (
        {"view": "race", "labels": "1e309"},
        "Labels per lane in the address must be a number from 1 to 1,000. Got 1e309.",
    ),
    ({"view": "race", "labels": "9" * 5000}, f"Got {'9' * 80}."),
    ({"view": "race", "Q_A-delta_plus": "1e309"}, "delta_plus of Q_A in the address must be a number. Got 1e309."),
    ({"view": "race", "strategies": ["PAA-I", "x"]}, "Strategies in the address must be one of"),
    (
        {"view": "race", "strategies": ["PAA-I", "OAAL", "Q_A", "Q_S", "Q_R"]},
        "Strategies in the address must be at most 4. Got 5.",
    ),
    ({"comparison": "1", "metric": "Beauty"}, "Metric in the address must be one of Weighted sum, F1"),
    ({"comparison": "1", "block": "x"}, "must be one of things, 5 labels, things, 20 labels. Got x."),
    ({"comparison": "1", "over": "hills"}, "Curves over in the address must be one of labels spent, items"),
    ({"comparison": "1", "lines-1-2": "PA"}, "Lines in the address must be one of"),
    ({"comparison": "1", "details": "secrets"}, "Details in the address must be one of p-values"),
]


@pytest.mark.slow
def test_what_makes_no_sense_is_left_out_with_a_sentence(comparison):
    """An invalid value in the address is ignored, named in a one-sentence message, and removed from the address."""
    for address, sentence in WRONG:
        at = run(COMPARE, **address)
        assert sentence in words(at)
        wrong = {key: value for key, value in address.items() if key not in ("comparison", "view")}
        assert [] == [key for key, value in wrong.items() if at.query_params.get(key) == value]
        assert not at.run().exception
        if address.get("view") == "race" and "strategies" not in address:
            assert [*race.TUNED] == at.multiselect(key="strategies").value


@pytest.mark.slow
def test_a_replay_opens_at_a_round_and_names_its_session(app_store, tmp_path):
    """A replay's address can name a round, which must exist. The page adds the session if the address names none."""
    session = answer(app_store, add_texts(app_store, tmp_path), 12)
    at = run(REPLAY, session=session, round="3", question="2")
    assert "does not exist" not in words(at)
    for wrong in ("0", "x", "9" * 30):
        at = run(REPLAY, session=session, round=wrong, question="2")
        assert f"Round {wrong} does not exist" in words(at)
    assert {"session": str(session)} == run(REPLAY).query_params

"""The race without a browser: the algorithms to choose from, and the sentence that explains each query rule."""

import pytest

from oal_engine.experiments import race
from oal_engine.kernel.query_rules import QUERY_RULES
from tests.harness.pages import run


@pytest.mark.slow
def test_every_choice_races(app_store):
    at = run("pages/2_Compare.py", view="race")
    assert race.choices() == at.multiselect(key="strategies").options
    at.number_input(key="labels").set_value(5)
    at.multiselect(key="strategies").set_value(["OA3-diag", "D-AMD"]).run()
    assert not at.exception
    at.multiselect(key="strategies").set_value([]).run()
    assert "choose one in the settings" in " ".join(element.proto.body for element in at.get("html"))


def test_every_rule_has_a_sentence():
    assert [] == [name for name, rule in QUERY_RULES.items() if not rule.sentence.endswith(".")]

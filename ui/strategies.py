"""Strategies on the pages: fields for a learner and a rule with their parameters, and a line that describes them."""

from typing import Any, Literal

import streamlit as st

from oal_engine.kernel.algorithms import ALGORITHMS, Strategy, declared, strategy
from oal_engine.kernel.learners import LEARNERS, is_multiclass
from oal_engine.kernel.parameters import Parameter
from oal_engine.kernel.query_rules import QUERY_RULES, partners

from .address import check_number
from .page import linked

OWN = "Own choice of learner and rule"
FIRST = {False: "auto", True: "auto-classes"}  # default algorithm, by whether there are several classes


def choose_strategy(many: bool, first: str) -> dict[str, Any]:
    """Ask for an algorithm, or a learner and a rule, with its parameters. Return arguments of `settings.create`.

    many: whether there are several classes. first: the default algorithm.
    """
    fitting = [name for name, entry in ALGORITHMS.items() if is_multiclass(entry.learner) == many and name != first]
    key = "new-algorithm" + "-many" * many + f"-{first}" * (first != FIRST[many])
    algorithm = st.selectbox("Algorithm", [first, *fitting, OWN], key=key)
    if algorithm == OWN:
        left, right = st.columns(2)
        learners = {rule: [name for name in partners(rule) if is_multiclass(name) == many] for rule in QUERY_RULES}
        rules = [rule for rule, names in learners.items() if names]
        usual = "asymmetric" if "asymmetric" in rules else "symmetric"
        rule = left.selectbox("Query rule", rules, index=rules.index(usual), key="new-rule" + "-many" * many)
        best = learners[rule].index("cspaa") if "cspaa" in learners[rule] else 0
        learner = right.selectbox("Learner", learners[rule], index=best, key=f"new-learner-{rule}" + "-many" * many)
        st.text(f"{_sentence(QUERY_RULES[rule])}\n{_sentence(LEARNERS[learner])}")
        chosen, fixed = {"learner": learner, "rule": rule}, dict[str, float]()
    else:
        entry = ALGORITHMS[algorithm]
        learner, rule, fixed = entry.learner, entry.rule, entry.fixed
        st.markdown(linked(f"{learner} + {rule}. {entry.paper}."))
        chosen = {"algorithm": algorithm}
    own = strategy(None, learner, rule) if algorithm == OWN else strategy(algorithm)
    specs = {key: spec for key, spec in declared(learner, rule).items() if key not in fixed}
    return chosen | {"parameters": fields(specs, own.parameters, f"new-{algorithm}-{learner}-{rule}")}


def fields(
    specs: dict[str, Parameter], start: dict[str, float], key: str, bind: Literal["query-params"] | None = None
) -> dict[str, float]:
    """Show number fields of declared parameters side by side, with the defaults in `start`. Return {name: value}.

    bind: "query-params" if the address of the page has the values.
    """
    for name in specs if bind else ():
        check_number(f"{key}-{name}", f"{name} of {key}")
    values = {}
    for column, (name, spec) in zip(st.columns(max(1, len(specs))), specs.items()):
        values[name] = column.number_input(
            name, value=float(start[name]), format="%g", step=None, help=f"{spec.help} Must be {spec.range}.",
            key=f"{key}-{name}", bind=bind,
        )  # fmt: skip
    return values


def _sentence(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


def describe(chosen: Strategy) -> str:
    """Return a strategy and its parameters in one line, without the parameters that its algorithm fixes."""
    fixed = ALGORITHMS[chosen.algorithm].fixed if chosen.algorithm in ALGORITHMS else {}
    values = ", ".join(f"{key} {value:g}" for key, value in chosen.parameters.items() if key not in fixed)
    return f"{chosen.algorithm}{values and f' ({values})'}"

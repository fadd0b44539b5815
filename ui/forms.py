"""The form of a new session; its parameters come from what learners and rules declare."""

import streamlit as st

from oal_engine import metrics
from oal_engine.algorithms import ALGORITHMS, declared, strategy
from oal_engine.demo import DEMOS
from oal_engine.learners import LEARNERS
from oal_engine.query_rules import QUERY_RULES, partners

from .page import literal

OWN = "Own choice of learner and rule"
FIRST = "OA3-diag"


def new_session(datasets):
    """Show the form; the keyword arguments of `session.create`, and whether it was sent."""
    names = {row["id"]: row["name"] for row in datasets}
    left, right = st.columns([3, 2])
    dataset = left.selectbox("Data set", names, format_func=names.get, key="new-dataset")
    budget = right.number_input("Budget (labels)", 1, 10_000_000, 300, key="new-budget")
    positive, negative = _class_names(names[dataset])
    left, right = st.columns(2)
    positive_name = left.text_input("Name of the rare class", positive, max_chars=60, key=f"new-positive-{dataset}")
    negative_name = right.text_input("Name of the other class", negative, max_chars=60, key=f"new-negative-{dataset}")
    chosen = _strategy()
    with st.expander("More settings"):
        more = _more()
    name = st.text_input("Name of the session", placeholder="the data set's name", max_chars=120, key="new-name")
    sent = st.button("Start labeling", type="primary", key="new-send")
    common = {"dataset": dataset, "budget": budget, "positive_name": positive_name, "negative_name": negative_name}
    return common | chosen | more | {"name": name or None}, sent


def _class_names(dataset):
    for demo in DEMOS.values():
        if demo.name == dataset:
            return demo.session["positive_name"], demo.session["negative_name"]
    return "Relevant", "Not relevant"


def _strategy():
    names = [FIRST, *(name for name in ALGORITHMS if name != FIRST), OWN]
    algorithm = st.selectbox("Algorithm", names, key="new-algorithm")
    if algorithm == OWN:
        left, right = st.columns(2)
        rule = left.selectbox("Query rule", QUERY_RULES, index=list(QUERY_RULES).index("asymmetric"), key="new-rule")
        learners = partners(rule)
        best = learners.index("cspaa") if "cspaa" in learners else 0
        learner = right.selectbox("Learner", learners, index=best, key=f"new-learner-{rule}")
        st.text(f"{_sentence(QUERY_RULES[rule])}\n{_sentence(LEARNERS[learner])}")
        chosen, fixed = {"learner": learner, "rule": rule}, {}
    else:
        entry = ALGORITHMS[algorithm]
        learner, rule, fixed = entry.learner, entry.rule, entry.fixed
        st.text(f"{learner} + {rule}. {entry.paper}.")
        chosen = {"algorithm": algorithm}
    start = strategy(**chosen).parameters | DEFAULTS.get(algorithm, {})
    specs = {key: spec for key, spec in declared(learner, rule).items() if key not in fixed}
    values = {}
    if specs:
        for column, (key, spec) in zip(st.columns(len(specs)), specs.items()):
            values[key] = column.number_input(
                literal(key),
                value=float(start[key]),
                format="%g",
                step=None,
                help=f"{spec.help} Must be {spec.range}.",
                key=f"new-{algorithm}-{learner}-{rule}-{key}",
            )
    return chosen | {"parameters": values}


def _sentence(kind):
    return " ".join(kind.__doc__.split())


def _more():
    left, middle, right = st.columns(3)
    shuffled = left.selectbox("Order", ["As stored", "Shuffled by the seed"], key="new-order") != "As stored"
    seed = middle.number_input("Seed", 0, 2**31, 0, key="new-seed")
    theta = right.number_input(
        "Threshold θ",
        value=0.0,
        format="%g",
        step=None,
        key="new-theta",
        help="A margin from here on predicts the rare class.",
    )
    left, middle, right = st.columns(3)
    metric = left.selectbox("Aim", list(AIMS), format_func=AIMS.get, key="new-metric")
    weight = middle.number_input(
        "Weight of the rare class",
        0.01,
        0.99,
        0.5 if metric == "sum" else 0.9,
        key=f"new-w-{metric}",
        help="Of sensitivity against specificity, or of a miss against a false alarm.",
    )
    averaged = (
        right.selectbox("After the budget", ["Last weights", "Averaged weights"], key="new-averaged") != "Last weights"
    )
    weights = metrics.Weights(alpha_p=weight) if metric == "sum" else metrics.Weights(c_p=weight)
    return {
        "shuffled": shuffled,
        "seed": seed,
        "theta": theta,
        "metric": metric,
        "weights": weights,
        "averaged": averaged,
    }


AIMS = {"sum": "Weighted sum of sensitivity and specificity", "cost": "Cost of misses and false alarms"}
DEFAULTS = {demo.session.get("algorithm", OWN): demo.session["parameters"] for demo in DEMOS.values()}

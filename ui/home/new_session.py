"""The form of a new session; its parameters come from what learners and rules declare."""

from typing import Any, Literal

import streamlit as st

from oal_engine.datasets import Dataset, prior
from oal_engine.datasets.demo import DEMOS
from oal_engine.kernel import metrics
from oal_engine.kernel.algorithms import ALGORITHMS, declared, drifting, strategy
from oal_engine.kernel.learners import LEARNERS, is_multiclass
from oal_engine.kernel.parameters import Parameter
from oal_engine.kernel.query_rules import QUERY_RULES, paceable, partners, spreads
from oal_engine.sessions.insights import certainty, estimates
from oal_engine.sessions.settings import capped, capped_words

from ..address import check_number
from ..page import annotator, literal, small_note, store

LONGEST = 60  # characters of a class's name
LONGEST_GUIDELINES = 20_000
PACES = {
    "Let the algorithm decide": None,
    **{f"Evenly over the first {share} %": share / 100 for share in (25, 50, 75, 100)},
}
CHECKS = (
    "Items chosen by chance alone, spread over the whole stream. Without them the figures of a stream without labels "
    "stop where the budget is spent. 25 % is recommended where you must be able to say how good the model is now."
)
TRAINS = (
    "Estimates hold either way: an item is predicted before its answer is learned. Switched off, the model has fewer "
    "labels to learn from."
)
SEEDS = (
    "Separated by commas. The model begins with them instead of nothing, which helps most with few labels. They cost "
    "no label and count in no figure."
)
TEAM = (
    "A coin chooses the questions that two people answer. The first answer counts against the budget and trains the "
    "model; the second one shows how far people agree."
)
AGAIN = (
    "A coin chooses them. Each is shown once more to whoever answered it, after twenty other answers and without a "
    "sign. This costs no label and teaches the model nothing; it shows how consistent each person's answers are."
)
CHANGES = "What counts as relevant may change over time"
CHANGES_HELP = "Half of the labels are kept for later then, and only the last hundred answers are learned again."
CERTAIN = "Guarantee a minimum share found (half of the labels go to random items)"
CERTAIN_HELP = (
    "Half of the labels are asked by chance, wherever the model is sure or not. In return the page says, whenever you "
    "look, how many of the relevant items are found at least. An estimate says what is probable; this is certain, but "
    "for a risk of 5 %."
)
OWN = "Own choice of learner and rule"
FIRST = {False: "auto", True: "auto-classes"}  # by whether there are several classes
WHAT_COUNTS = {"Balance": "auto", "Find them all": "auto-sum"}
WHAT_COUNTS_HELP = (
    "Balance: a list in which few items are missed and few are wrong (F1). Find them all: fewer are missed, and more "
    "of those in the list are wrong (the sum of sensitivity and specificity)."
)


def new_session(datasets: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Show the form; the keyword arguments of `session.create`, and whether it was sent."""
    rows = {row["id"]: row for row in datasets}
    left, middle, right = st.columns([3, 2, 2])
    dataset = left.selectbox("Data set", rows, format_func=lambda key: rows[key]["name"], key="new-dataset")
    name = middle.text_input("Name of the session", placeholder="the data set's name", max_chars=120, key="new-name")
    budget = right.number_input("Budget (labels)", value=300.0, step=1.0, format="%.0f", key="new-budget")
    promise = st.container()
    many = _many(rows[dataset])
    classes = (_many_classes if many else _two_classes)(rows[dataset])
    first = FIRST[many]
    if not many:
        counts = st.segmented_control(
            "What counts", WHAT_COUNTS, default="Balance", required=True, key="new-counts", help=WHAT_COUNTS_HELP
        )
        first = WHAT_COUNTS[counts]
        if rows[dataset]["kind"] == "text":
            classes["seed_words"] = _seed_words(rows[dataset], classes["positive_name"])
    own = _demo_settings(rows[dataset]["name"]).get("guidelines", "")
    guidelines = st.text_area(
        "Guidelines", own, placeholder="What counts as relevant, and what does not", max_chars=LONGEST_GUIDELINES,
        height=68, key="new-guidelines" + f"-{dataset}" * bool(own),
    )  # fmt: skip
    feed, certain, team = st.container(), st.container(), st.container()
    with st.expander("For researchers: algorithm, random checks, order"):
        chosen = choose_strategy(many, first=first)
        kind = strategy(chosen.get("algorithm"), chosen.get("learner"), chosen.get("rule"))
        plan = _plan(kind.rule)
        more = _more(many) | {"guidelines": guidelines.strip(), "owner": annotator()}
    if plan["audit"] or plan["pace"] or st.session_state.get("new-floor") or spreads(kind.rule):
        with feed:
            plan["horizon"] = _horizon(rows[dataset])
            if spreads(kind.rule) and st.toggle(CHANGES, key="new-changes", help=CHANGES_HELP):
                chosen["parameters"] |= drifting(kind.learner, kind.rule)
    items = max(rows[dataset]["items"], plan.get("horizon") or 0)
    asked, budget = budget, capped(budget, items) if budget else budget
    if not many:
        with certain:
            plan["floor"] = _floor(rows[dataset], budget, plan.get("horizon"), classes.get("positive_class"))
    with team:
        more["overlap"] = _share(
            "Several people label, and I want to see how far they agree", TEAM,
            "Questions that two people answer, in percent", "overlap", (5, 100, 20, 5),
        )  # fmt: skip
        more["repeat"] = _share(
            "Ask some items twice", AGAIN, "Questions that are asked again, in percent", "repeat", (1, 30, 5, 1)
        )
    with promise:
        if asked and (cap := capped_words(int(asked), items)):
            small_note(cap)
        if budget and budget >= 1 and not (plan["audit"] or _labelled(rows[dataset])):
            small_note(estimates.forecast(int(budget), many))
    sent = st.button("Start labeling", type="primary", key="new-send")
    return {"dataset": dataset, "budget": budget} | classes | chosen | plan | more | {"name": name or None}, sent


def _labelled(row: dict[str, Any]) -> bool:
    """Whether every item of a data set has a label of its own, so that figures are exact."""
    known = row["classes"].values() if row["classes"] else (row["positives"], row["negatives"])
    return bool(sum(known) == row["items"])


def _many(row: dict[str, Any]) -> bool:
    """Whether each item is to get one of several classes; what the data set has is chosen at first."""
    kinds = ["One rare class", "Several classes"]
    kind = st.segmented_control(
        "What to look for", kinds, default=kinds[bool(row["classes"])], required=True, key=f"new-kind-{row['id']}"
    )
    return kind == kinds[1]


def _many_classes(row: dict[str, Any]) -> dict[str, Any]:
    if row["classes"]:
        st.text(f"{len(row['classes'])} classes: {', '.join(row['classes'])}")
        return {"classes": tuple(row["classes"])}
    words = st.text_input(
        "Names of the classes",
        placeholder="joy, anger, fear",
        help="Separated by commas, in the order of their keys.",
        key=f"new-classes-{row['id']}",
    )
    return {"classes": tuple(word.strip() for word in words.split(",") if word.strip())}


def _two_classes(row: dict[str, Any]) -> dict[str, Any]:
    own = _demo_settings(row["name"])
    positive, negative = own.get("positive_name", "Relevant"), own.get("negative_name", "Not relevant")
    rare: dict[str, str] = {}
    if row["classes"]:
        chosen = st.selectbox("Rare class", row["classes"], key=f"new-rare-{row['id']}")
        rare, positive, negative = {"positive_class": chosen}, chosen[:LONGEST], f"Not {chosen}"[:LONGEST]
    left, right = st.columns(2)
    key = f"{row['id']}-{positive}"
    positive_name = left.text_input("Name of the rare class", positive, max_chars=LONGEST, key=f"new-positive-{key}")
    negative_name = right.text_input("Name of the other class", negative, max_chars=LONGEST, key=f"new-negative-{key}")
    return {"positive_name": positive_name, "negative_name": negative_name} | rare


def _seed_words(row: dict[str, Any], positive: str) -> list[str]:
    words = st.text_input(
        literal(f"Words that point to {positive}"), placeholder="optional", help=SEEDS, key="new-seeds"
    )
    given = [word.strip() for word in words.split(",") if word.strip()]
    if given and (unknown := prior.divided(Dataset(store(), row["id"]), given)[1]):
        small_note(f"Not in the data: {', '.join(unknown)}.")
    return given


def _demo_settings(dataset: str) -> dict[str, Any]:
    """What the form begins with where a data set of this name is a demo's; nothing for others."""
    return next((demo.session for demo in DEMOS.values() if demo.name == dataset), {})


def choose_strategy(many: bool, form: str = "new", first: str = "") -> dict[str, Any]:
    """Choose an algorithm, or a learner and a rule, with its parameters: arguments of `session.create`. The one that
    comes `first` is chosen until another is."""
    usual, first = FIRST[many], first or FIRST[many]
    fitting = [name for name, entry in ALGORITHMS.items() if is_multiclass(entry.learner) == many and name != first]
    key = f"{form}-algorithm" + "-many" * many + f"-{first}" * (first != usual)
    algorithm = st.selectbox("Algorithm", [first, *fitting, OWN], key=key)
    if algorithm == OWN:
        left, right = st.columns(2)
        learners = {rule: [name for name in partners(rule) if is_multiclass(name) == many] for rule in QUERY_RULES}
        rules = [rule for rule, names in learners.items() if names]
        usual = "asymmetric" if "asymmetric" in rules else "symmetric"
        rule = left.selectbox("Query rule", rules, index=rules.index(usual), key=f"{form}-rule" + "-many" * many)
        best = learners[rule].index("cspaa") if "cspaa" in learners[rule] else 0
        learner = right.selectbox("Learner", learners[rule], index=best, key=f"{form}-learner-{rule}" + "-many" * many)
        st.text(f"{_sentence(QUERY_RULES[rule])}\n{_sentence(LEARNERS[learner])}")
        chosen, fixed = {"learner": learner, "rule": rule}, dict[str, float]()
    else:
        entry = ALGORITHMS[algorithm]
        learner, rule, fixed = entry.learner, entry.rule, entry.fixed
        st.text(f"{learner} + {rule}. {entry.paper}.")
        chosen = {"algorithm": algorithm}
    own = strategy(None, learner, rule) if algorithm == OWN else strategy(algorithm)
    specs = {key: spec for key, spec in declared(learner, rule).items() if key not in fixed}
    return chosen | {"parameters": fields(specs, own.parameters, f"{form}-{algorithm}-{learner}-{rule}")}


def fields(
    specs: dict[str, Parameter], start: dict[str, float], key: str, bind: Literal["query-params"] | None = None
) -> dict[str, float]:
    """Number fields of declared parameters side by side, beginning at the values in `start`; their values by name.
    bind: whether the address has them."""
    for name in specs if bind else ():
        check_number(f"{key}-{name}", f"{name} of {key}")
    return {
        name: column.number_input(
            name,
            value=float(start[name]),
            format="%g",
            step=None,
            help=f"{spec.help} Must be {spec.range}.",
            key=f"{key}-{name}",
            bind=bind,
        )
        for column, (name, spec) in zip(st.columns(max(1, len(specs))), specs.items())
    }


def _share(wanted: str, meaning: str, what: str, key: str, scale: tuple[int, int, int, int]) -> float:
    """A share of the questions, where it is wanted; scale: the least and most percent, the first value and the step."""
    if not st.toggle(wanted, key=f"new-{key}", help=meaning):
        return 0.0
    return st.slider(what, *scale, key=f"new-{key}-percent") / 100


def _horizon(row: dict[str, Any]) -> int | None:
    """How many items a live feed will bring, as far as is known; None where all items are there."""
    if not st.toggle("More items will come while I label (a live feed)", key=f"new-feed-{row['id']}"):
        return None
    items = st.number_input("Items in all, roughly", 1, 2**53 - 1, 10 * row["items"], key=f"new-horizon-{row['id']}")
    small_note(
        "Your labels are spread over the first part of these items. With too small a number they are spent too early."
    )
    return items


def _floor(row: dict[str, Any], budget: float | None, horizon: int | None, rare: str | None) -> float:
    """The share of the budget for a floor, where one is wanted; and what it will show at the end."""
    if not st.toggle(CERTAIN, key="new-floor", help=CERTAIN_HELP):
        return 0.0
    if _labelled(row):
        share = (row["classes"][rare] if rare else row["positives"]) / row["items"]
    else:
        share = st.number_input("Relevant items of 100, roughly", 0.1, 90.0, 5.0, key="new-share", format="%g") / 100
    if budget and budget >= 1 and share:
        items = horizon or row["items"]
        small_note(certainty.promise(certainty.forecast(int(budget), items, share), items, share))
    return certainty.RECOMMENDED


def _plan(rule: str) -> dict[str, Any]:
    """How the budget is planned along the stream."""
    left, right = st.columns(2)
    audit = left.number_input("Random checks (% of the budget)", 0, 90, 0, 5, key="new-audit", help=CHECKS)
    trains = left.toggle("Random checks train the model too", True, key="new-audit-trains", help=TRAINS)
    paced = rule in paceable()
    pace = right.selectbox(
        "Spend the budget",
        list(PACES),
        key="new-pace",
        disabled=not paced,
        help="A pace makes questions rarer or more frequent, so that the labels last that far and no further."
        if paced
        else f"Only rules that draw can be paced: {rule} does not.",
    )
    return {"audit": audit / 100, "audit_trains": trains, "pace": PACES[pace] if paced else None}


def _sentence(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


def _more(many: bool) -> dict[str, Any]:
    left, middle, right = st.columns(3)
    shuffled = left.selectbox("Order", ["As stored", "Shuffled by the seed"], key="new-order") != "As stored"
    seed = middle.number_input("Seed", 0, 2**31, 0, key="new-seed")
    after = ["Last weights", "Averaged weights"]
    if many:
        averaged = right.selectbox("After the budget", after, key="new-averaged") != after[0]
        return {"shuffled": shuffled, "seed": seed, "averaged": averaged}
    theta = right.number_input(
        "Threshold",
        value=0.0,
        format="%g",
        step=None,
        key="new-theta",
        help="A margin from here on predicts the rare class.",
    )
    left, middle, right = st.columns(3)
    metric = left.selectbox(
        "Aim",
        list(AIMS),
        format_func=AIMS.__getitem__,
        key="new-metric",
        help="The weighted sum of sensitivity and specificity, or the cost of misses and false alarms.",
    )
    weight = middle.number_input(
        "Weight of the rare class",
        0.01,
        0.99,
        0.5 if metric == "sum" else 0.9,
        key=f"new-w-{metric}",
        help="Of sensitivity against specificity, or of a miss against a false alarm.",
    )
    averaged = right.selectbox("After the budget", after, key="new-averaged") != after[0]
    weights = metrics.Weights(alpha_p=weight) if metric == "sum" else metrics.Weights(c_p=weight)
    return {
        "shuffled": shuffled,
        "seed": seed,
        "theta": theta,
        "metric": metric,
        "weights": weights,
        "averaged": averaged,
    }


AIMS = {"sum": "Weighted sum", "cost": "Cost"}

"""The race: several strategies over one stream side by side, animated in the browser by race.js from a whole record."""

from typing import Any

import streamlit as st

from oal_engine.datasets import Dataset
from oal_engine.experiments import race as races
from oal_engine.kernel.algorithms import ALGORITHMS, declared
from oal_engine.kernel.query_rules import QUERY_RULES
from oal_engine.store import Store

from .components import component
from .forms import fields
from .meanings import MEANINGS
from .page import datasets, guarded, store

CLOUDS = "Two clouds (synthetic)"
MOST_LANES = 4
CLIPPED = 240  # characters of an item

_mount = component("race", ["dom.js", "race.js"], ["explained.css", "race.css"])


@st.fragment
@guarded()
def race(store: Store) -> None:
    """Choose a stream and the strategies, and watch them."""
    top = st.container(horizontal=True, vertical_alignment="center")
    top.title("Race", width="content", anchor=False)
    names = {None: CLOUDS} | {row["id"]: row["name"] for row in datasets(store) if _can_race(row)}
    dataset = top.selectbox(
        "Stream", names, format_func=names.__getitem__, key="race-data", label_visibility="collapsed"
    )
    if dataset not in names:  # a browser can send any word
        raise ValueError("A race needs a stream of the list.")
    with top.popover("Settings"):
        budget = st.number_input("Labels per lane", 1, 1000, races.BUDGET, key="race-budget")
        seed = st.number_input(
            "Seed",
            0,
            2**31,
            races.SEED,
            key="race-seed",
            help="Another seed is another stream, or order, and other draws.",
        )
        lanes = st.multiselect(
            "Strategies", races.choices(), list(races.TUNED), max_selections=MOST_LANES, key="race-lanes"
        )
        scale = _overlap(dataset)
        chosen = tuple((name, tuple(_parameters(name, scale, dataset).items())) for name in lanes)
    if not lanes:
        raise ValueError("A race needs a strategy: choose one in the settings.")
    _mount(key="race", data=_record(dataset, chosen, budget, seed))


def _can_race(row: dict[str, Any]) -> bool:
    """Whether a data set has a positive or negative label for every item, and both."""
    known = row["positives"], row["negatives"]
    return not row["classes"] and all(known) and sum(known) == row["items"]


def _parameters(name: str, scale: float, dataset: int | None) -> dict[str, float]:
    """The parameters of a strategy as fields; what its paper fixes is left out."""
    start = races.entrant(name, races.tuned(name, scale))
    fixed = ALGORITHMS[name].fixed if name in ALGORITHMS else {}
    specs = {key: spec for key, spec in declared(start.learner, start.rule).items() if key not in fixed}
    if specs:
        st.text(name)
    return fields(specs, start.parameters, f"race-{dataset}-{name}")


@st.cache_resource(max_entries=50)
def _overlap(dataset: int | None) -> float:
    """The overlap of the rows of a data set, or of the clouds."""
    return races.overlap(races.clouds(0)[0] if dataset is None else Dataset(store(), dataset).rows)


@st.cache_resource(max_entries=16, show_spinner="Running the race; the very first one takes longer…")
def _record(dataset: int | None, lanes: tuple, budget: int, seed: int) -> dict[str, Any]:
    """What race.js shows: the engine's record with words for every rule and the items that were asked about."""
    entrants = [races.entrant(name, values) for name, values in lanes]
    if dataset is None:
        rows, y, view = races.clouds(seed)
        data, note = None, ""
    else:
        data = Dataset(store(), dataset)
        rows, y, order = races.sampled(data, seed)
        view = races.principal(rows, y)
        note = _honest(view, len(y), len(data.y))
    record = races.record(rows, y, view, entrants, budget, seed)
    asked = sorted({t for lane in record["lanes"] for t, *_ in lane["questions"]})
    for lane in record["lanes"]:
        lane["sentence"] = _sentence(lane)
        lane["title"] = "baseline" if lane["name"] == races.BASELINE else lane["name"]
    usual = (dataset, budget, {name: dict(values) for name, values in lanes}) == (None, races.BUDGET, races.TUNED)
    return record | {
        "key": repr((dataset, lanes, budget, seed)),
        "note": note,
        "items": {t: _words(data.item(int(order[t]))) for t in asked} if data else {},
        "means": races.MEAN_SUMS if usual else None,
        "meanings": MEANINGS,
    }


def _sentence(lane: dict[str, Any]) -> str:
    """How the rule of a lane decides; of the asymmetric one also which side it prefers."""
    plus, minus = (lane["parameters"].get(f"delta_{side}", 0) for side in ("plus", "minus"))
    if lane["rule"] != "asymmetric" or plus == minus:
        rule: Any = QUERY_RULES[lane["rule"]]
        return rule.sentence
    return f"Asks near its line, more readily where it says {'▲' if plus > minus else '●'}."


def _words(item: dict[str, Any]) -> str:
    words = " ".join((item["text"] or item["id"]).split())
    return words if len(words) <= CLIPPED else words[:CLIPPED].rstrip() + "…"


def _honest(view: races.Plane, shown: int, items: int) -> str:
    """What the picture leaves out, in a sentence."""
    sample = f"A random sample of {shown:,} of {items:,} items" if shown < items else f"All {items:,} items"
    if view.share == 1:
        return f"{sample}, in random order."
    return (
        f"{sample}, in random order. The plane holds the first two principal components, {view.share:.0%} of the "
        "variation: lines and points are projected, so a point can lie on the other side than its prediction."
    )

"""The race on the Compare page: several strategies on one stream, computed here, animated in the browser by race.js."""

from typing import Any

import streamlit as st

from oal_engine.datasets import Dataset
from oal_engine.experiments import race as races
from oal_engine.experiments.race import CLOUDS, MOST_LANES
from oal_engine.kernel.algorithms import ALGORITHMS, declared
from oal_engine.output.browser import RACE
from oal_engine.store import Store

from .. import access
from ..address import BOUND, check_choice, check_number
from ..components import component
from ..downloads import PAGE_BUTTON
from ..page import datasets, guarded, store
from ..strategies import fields

SEED_HELP = "A different seed changes the order of items and the random draws."

LABELS, SEEDS = (1, 1000), (0, 2**31)  # the smallest and largest values

_mount = component("race", RACE.scripts, RACE.styles)


@st.fragment
@guarded()
def race(store: Store) -> None:
    """Show a race, with controls to choose its stream, strategies, labels and seed."""
    top = st.container(horizontal=True, vertical_alignment="center")
    top.title("Race", width="content", anchor=False)
    names: dict[int | None, str] = {None: CLOUDS}
    for row in datasets(store):  # only data with two classes and a label for every item can race
        counts = row["positives"], row["negatives"]
        if not row["classes"] and all(counts) and sum(counts) == row["items"]:
            names[row["id"]] = row["name"]
    check_choice("data", "Data", names.values())
    dataset = top.selectbox(
        "Stream", names, format_func=names.__getitem__, key="data", label_visibility="collapsed", bind=BOUND
    )
    if dataset not in names:  # a browser can send any word
        raise ValueError("A race needs a stream of the list.")
    with top.popover("Settings"):
        bind = check_number("labels", "Labels per lane", *LABELS)
        budget = st.number_input("Labels per lane", *LABELS, races.BUDGET, key="labels", bind=bind)
        bind = check_number("seed", "Seed", *SEEDS)
        seed = st.number_input("Seed", *SEEDS, races.SEED, key="seed", bind=bind, help=SEED_HELP)
        check_choice("strategies", "Strategies", races.choices(), MOST_LANES)
        lanes = st.multiselect(
            "Strategies", races.choices(), list(races.TUNED), max_selections=MOST_LANES, key="strategies", bind=BOUND
        )
        scale = _overlap(dataset)
        chosen = tuple((name, tuple(_parameters(name, scale, dataset).items())) for name in lanes)
    if not lanes:
        raise ValueError("A race needs a strategy: choose one in the settings.")
    with top:
        _download(store, dataset, chosen, budget, seed)
    _mount(key="race", data=_record(dataset, chosen, budget, seed))


def _parameters(name: str, scale: float, dataset: int | None) -> dict[str, float]:
    """Show a field for each parameter of a strategy that its paper does not fix. Return their values."""
    start = races.entrant(name, races.tuned(name, scale))
    fixed = ALGORITHMS[name].fixed if name in ALGORITHMS else {}
    specs = {key: spec for key, spec in declared(start.learner, start.rule).items() if key not in fixed}
    if specs:
        st.text(name)
    return fields(specs, start.parameters, f"{name} {dataset or ''}".strip(), BOUND)


@st.cache_resource(max_entries=50)
def _overlap(dataset: int | None) -> float:
    """Return the overlap (`races.overlap`) of the rows of a data set or, without one (None), of the two clouds."""
    return races.overlap(races.clouds(0)[0] if dataset is None else Dataset(store(), dataset).rows)


@st.cache_resource(
    max_entries=16, show_spinner="Running the race. Strategies that are new to this machine are compiled first…"
)
def _record(dataset: int | None, lanes: tuple, budget: int, seed: int) -> dict[str, Any]:
    """Run a race, and return its record, which race.js plays. Records are cached."""
    record = races.watched(_data(store(), dataset), lanes, budget, seed)
    return record | {"key": repr((dataset, lanes, budget, seed))}


def _data(store: Store, dataset: int | None) -> Dataset | None:
    return None if dataset is None else Dataset(store, dataset)


def _download(store: Store, dataset: int | None, lanes: tuple, budget: int, seed: int) -> None:
    """Show a button that downloads the race as an HTML page."""
    with st.popover("Download", icon=":material/download:", help="The race as a page to send"):
        texts = dataset is not None and st.checkbox("With the texts of the items asked about", key="race-texts")
        person = st.user.to_dict()  # read here: the thread in which Streamlit makes the file cannot

        def make_page() -> bytes:
            if dataset is not None and dataset not in access.visible_datasets(store, person):
                raise ValueError("this data set is not open to you any more.")
            return races.page(_data(store, dataset), lanes, budget, seed, texts)

        file = f"race-{seed}.html"
        st.download_button(PAGE_BUTTON, make_page, file, type="primary", on_click="ignore", key="race-page")
        st.text("One file of 0.1 to 0.4 MB that plays in any browser, without a server or a network.")

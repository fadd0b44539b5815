"""The form of a new comparison: its data, algorithms, parameters and settings."""

import html
from typing import Any

import streamlit as st

from oal_engine import datasets, experiments
from oal_engine.datasets.demo import DEMOS
from oal_engine.experiments import jobs, specifications
from oal_engine.experiments.specifications import PROTOCOLS
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.kernel.learners import is_multiclass
from oal_engine.kernel.query_rules import QUERY_RULES, partners
from oal_engine.output.plots import METRICS, NAMES, TITLES
from oal_engine.store import Store

from ..home.new_session import AIMS
from ..meanings import listed
from ..page import complain, literal, small_note
from ..page import datasets as shown_datasets

FIRST = {
    False: ["auto", "OAAL", "PAA-I", "CSOAL", "OA3-diag", "RPA-I"],
    True: ["auto-classes", "MPAA-I", "MD-AMD-I", "MRPA-I"],
}
BUDGETS_HELP = "Labels, separated by commas; empty for no limit."
RUNS_HELP = "Each run uses its own random order."
ALGORITHMS_HELP = "Published names, or a learner + a query rule."
TARGET = "Target number of labels"
TARGET_HELP = (
    "Shares (0.1) or numbers of labels that each query rule is scaled to. Several (0.05, 0.1, or 2^-6..2^-1) give the "
    "curve of a metric over labels asked. Leave empty to keep each rule's own rate."
)
TIMES_HELP = "Also draw the processor time along the stream. Takes longer."
SWEEP_TUNED = "Several weights make a sweep, which cannot be tuned: take parameters as given."
TOO_FEW = "{} has {:,} items, too few for {:,g} labels: choose smaller budgets, or other data."
BAD_BUDGETS = "Budgets must be whole numbers >= 1 separated by commas, or none. Got {}."
WEIGHTS = {
    "alpha_p": ("Weight of sensitivity", "0.5"),
    "c_p": ("Cost of a miss", "0.9"),
    "rho": ("Weight of positives in learning (rho)", "auto"),
}


def new_comparison(store: Store) -> int | None:
    """Draw the form. Return the id of the comparison that its button has just started, or None."""
    st.header("New comparison", anchor=False)
    sizes, many = _data(store)
    protocols = "\n".join(f"- {literal(f'{_tuning(key)}: {words}.')}" for key, words in PROTOCOLS.items())
    tune = st.selectbox("Parameters", PROTOCOLS, 1, format_func=_tuning, key="compare-tune", help=protocols)
    small_note(f"{PROTOCOLS[tune].capitalize()}.")
    left, middle, right = st.columns([2, 1, 2])
    budgets = left.text_input("Budgets", "100, 300", key="compare-budgets", help=BUDGETS_HELP)
    runs = middle.number_input("Runs", 1, specifications.MOST_RUNS, 10, key="compare-runs", help=RUNS_HELP)
    criteria = [*METRICS[many]]
    criterion = right.selectbox(
        "Criterion", criteria, criteria.index("macro_f1" if many else "f1"), format_func=TITLES.__getitem__,
        key=f"compare-criterion-{many}", help=listed(TITLES[each] for each in criteria),
    )  # fmt: skip
    algorithms = st.multiselect(
        "Algorithms", _fitting(many), FIRST[many], key=f"compare-algorithms-{many}", help=ALGORITHMS_HELP
    )
    try:
        with st.expander("Values of parameters"):
            chosen = {name: _parameters(name, tune) for name in algorithms}
        with st.expander("More settings"):
            more = _more(tune, many)
        swept = {key: more.pop(key) for key in WEIGHTS if isinstance(more.get(key), list) and len(more[key]) > 1}
        if swept and tune != "none":
            raise experiments.ExperimentError(SWEEP_TUNED)
        chosen = {name: values | swept for name, values in chosen.items()}
        more |= {key: more[key][0] for key in WEIGHTS if isinstance(more.get(key), list)}
        name = st.text_input("Name", placeholder="its algorithms", max_chars=120, key="compare-name").strip()
        spec = experiments.specification(
            {"data": [*sizes], "algorithms": chosen, "tune": tune, "budgets": _budgets(budgets)}
            | {"permutations": runs, "criterion": criterion} | more
        )  # fmt: skip
        labels = max(each or 0 for each in (*spec.budgets, *spec.hits))
        if few := [(data, items) for data, items in sizes.items() if items is not None and items < labels]:
            raise experiments.ExperimentError(TOO_FEW.format(*few[0], labels))
    except ValueError as error:
        complain(error)
        return None
    with st.container(horizontal=True, vertical_alignment="center"):
        sent = st.button("Compare", type="primary", key="compare-send")
        st.text(f"about {spec.replays:,} replays")
    if sent:
        try:
            comparison = experiments.begin(spec, store, name)
            jobs.start(store, comparison)
            return comparison
        except (ValueError, OSError) as error:
            complain(error)
    return None


def _tuning(key: str) -> str:
    return "As given" if key == "none" else f"Tuned, {key}"


def _data(store: Store) -> tuple[dict[str, int | None], bool]:
    """Ask for the data sets; the largest one is the default. Return the number of items of each, by its name in a
    specification (None: a demo that is not imported yet), and whether they have several classes."""
    words, several, sizes = dict[str, str](), set[str](), dict[str, int]()
    for row in shown_datasets(store):
        if datasets.labelled(row):
            kinds = f"{len(row['classes'])} classes" if row["classes"] else f"{row['positives']:,} positive"
            words[row["name"]] = f"{row['name']} ({row['items']:,} items, {kinds})"
            if row["classes"]:
                several.add(row["name"])
            words |= {f"{row['name']}={one}": f"{row['name']}: {one} against the rest" for one in row["classes"] or ()}
            sizes |= {name: row["items"] for name in words if name not in sizes}
    words |= {f"demo:{key}": each.name for key, each in DEMOS.items() if each.name not in words}
    largest = max(words, key=lambda name: sizes.get(name, 0))
    data = st.multiselect("Labeled data", words, [largest], format_func=words.__getitem__, key="compare-data")
    data = [each for each in data if each in words]  # a browser can send any word
    many = {each in several for each in data}
    if len(many) > 1:
        complain("Data with several classes and data with one rare class need different algorithms: choose one kind.")
        st.stop()
    return {each: sizes.get(each) for each in data}, many == {True}


def _fitting(many: bool) -> list[str]:
    """Return the names of the algorithms, and of every pair learner + rule, for two classes or for several (`many`)."""
    own = [f"{name} + {rule}" for rule in QUERY_RULES for name in partners(rule) if is_multiclass(name) == many]
    return [name for name, entry in ALGORITHMS.items() if is_multiclass(entry.learner) == many] + own


def _parameters(name: str, tune: str) -> dict[str, Any]:
    """Ask for the parameters of an algorithm. Return the typed values with the grid to tune on; {} if none was."""
    defaults, usual = experiments.chosen(name).parameters, experiments.grid(name, {}, tune)
    fixed = getattr(ALGORITHMS.get(name), "fixed", {})
    free = {key: value for key, value in defaults.items() if key not in fixed}
    st.html(f"<b>{html.escape(name)}</b>" + ("" if free else " has none."))
    typed = {}
    for column, (key, value) in zip(st.columns(max(3, len(free))), free.items()):
        hint = "tuned" if key in usual else f"{value:g}"
        help = literal(f"A number, several (1, 10), or powers ({specifications.TENS}). Default {value:g}.")
        if text := column.text_input(key, placeholder=hint, key=f"compare-{name}-{key}", help=help).strip():
            typed[key] = specifications.typed(text, f"{key} of {name}")
    return (usual | typed) if typed else {}


def _more(tune: str, many: bool) -> dict[str, Any]:
    left, middle, right = st.columns(3)
    settings = {
        "evaluation": left.selectbox(
            "Evaluation", NAMES, format_func=NAMES.__getitem__, key="compare-evaluation", help=listed(NAMES.values())
        ),
        "seed": middle.number_input("First seed", 0, 2**31, 0, key="compare-seed"),
        "average": right.selectbox("After the budget", ["Last weights", "Averaged weights"], key="compare-average")
        == "Averaged weights",
    }
    if target := left.text_input(TARGET, key="compare-hit", help=TARGET_HELP).strip():
        settings["hit"] = specifications.typed_hits(target, TARGET)
    if tune == "2:1":
        settings["trials"] = middle.number_input("Streams to tune on", 1, 100, 3, key="compare-trials")
    if not many:
        aim = AIMS.__getitem__
        settings["metric"] = right.selectbox("Learners aim at", AIMS, format_func=aim, key="compare-metric")
        for column, (key, (label, usual)) in zip((left, middle, right), WEIGHTS.items()):
            text = column.text_input(label, usual, key=f"compare-{key}", help="Several values (0.5, 0.9) are a sweep.")
            settings[key] = text.strip() if text.strip() in ("auto", "laplace") else specifications.typed(text, label)
    settings["times"] = st.toggle("Measure time", key="compare-times", help=TIMES_HELP)
    return settings


def _budgets(text: str) -> list[int | None]:
    """Parse the typed budgets; an empty part or `none` means no limit."""
    specifications.check_count("Budgets", text.count(",") + 1)
    try:
        return [None if part.strip() in ("", "none") else int(part) for part in text.split(",")]
    except ValueError:
        raise experiments.ExperimentError(BAD_BUDGETS.format(text)) from None

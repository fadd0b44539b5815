"""The form of a new session."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from oal_engine.datasets import Dataset, columns_of, prior
from oal_engine.datasets.demo import DEMOS
from oal_engine.datasets.reading.parsed import name_list
from oal_engine.kernel import metrics
from oal_engine.kernel.algorithms import drifting, strategy
from oal_engine.kernel.query_rules import paceable, spreads
from oal_engine.kernel.spending import FIND, STREAM
from oal_engine.sessions.insights import certainty, estimates
from oal_engine.sessions.settings import MOST_KNOWN, capped, capped_words, labels_of_questions
from oal_engine.store import Store
from oal_engine.store.fields import LONGEST_NAME, MOST_QUESTIONS

from ..page import annotator, capitalized, counted, literal, small_note, store
from ..strategies import FIRST, choose_strategy

NAME_CHARACTERS = 60  # of the name of a class
LONGEST_GUIDELINES = 20_000  # characters
SOME_LABELS = "Labels of the file to begin with"
SOME_LABELS_HELP = "Drawn by the seed. The other labels only measure how good the model is."
BEGIN_WITH_LABELS_HELP = (
    "The model learns these labels first. They cost nothing, and you are asked about the other items only. Estimates "
    "are about the other items, too."
)
PACES = {
    "Let the algorithm decide": None,
    **{f"Evenly over the first {share} %": share / 100 for share in (25, 50, 75, 100)},
}
GUIDELINES_HINT = "What counts as relevant, and what does not"
MORE = "More settings: team, live feed, guarantees, algorithm"
RELEVANT = "Relevant"
LABEL_SECONDS = 5  # that people usually need for a label
LABELS_OF_CLASS = 10  # that a model needs: with 5 for each of 26 letters its accuracy was .55, with 12 it was .77
FEW = "{} are few for {} classes: about {} for each are needed, {:,} in all."
CLASSES_HELP = "Separated by commas, in the order of their keys."
EXAMPLES = "Words or texts like {}"
EXAMPLES_HINT = "Optional: words, separated by commas{}. Or whole texts, one a line."
UNKNOWN = "not in the data: {}"
CHECKS = (
    "Items chosen at random, spread over the whole stream. Without them, the estimates of a stream without labels end "
    "where the budget is spent. 25 % is recommended if you must be able to say how good the model is now."
)
TRAINS = (
    "Estimates are valid either way: an item is predicted before its answer is learned. Switched off, the model has "
    "fewer labels to learn from."
)
EXAMPLES_HELP = (
    "The model begins with them instead of nothing, which helps most with few labels. They cost no label, and no "
    "estimate counts them. A line with more than three words between commas is an example text."
)
TEAM = "Several people label, and I want to see how far they agree"
TEAM_QUOTA = "Answers of one person at most (0: no limit)"
TEAM_QUOTA_HELP = "Nobody gets more questions than this; the other people answer the rest."
TEAM_HELP = (
    "The questions that several people answer are chosen at random. The first answer counts against the budget and "
    "trains the model; the others show how far people agree."
)
AGAIN_SHARE = "Questions that are asked again, in percent"
AGAIN_HELP = (
    "Random items are shown again to the person who answered them, after twenty other answers and without saying so. "
    "This costs no label and teaches the model nothing; it shows how consistent each person's answers are."
)
FEED_HELP = (
    "Your labels are spread over the first part of these items. If more items come than this number, the labels run "
    "out early."
)
CHANGES = "What counts as relevant may change over time"
CHANGES_HELP = "Half of the labels are then saved for later, and the model is trained only on the last hundred answers."
CERTAIN = "Guarantee a minimum share found (half of the labels go to random items)"
CERTAIN_HELP = (
    "Half of the labels go to random items, whether the model is sure of them or not. In return the page always shows "
    "the minimum share of the relevant items that was found. Unlike an estimate, it is guaranteed, with a risk of 5 %."
)
PACE_HELP = "Questions become rarer or more frequent, so that the labels last about as far as you choose."
THRESHOLD_HELP = "A margin of at least this value predicts the rare class."
AIM_HELP = "The weighted sum of sensitivity and specificity, or the cost of misses and false alarms."
AIMS = {"sum": "Weighted sum", "cost": "Cost"}
WHAT_COUNTS = {"Balance": "auto", "Miss few": "auto-sum"}
WHAT_COUNTS_HELP = (
    "Balance: few relevant items are missed, and few items in the list are wrong (F1). Miss few: fewer are missed, and "
    "more items in the list are wrong (the sum of sensitivity and specificity)."
)
WANTED = {FIND: "The items themselves", STREAM: "A model for later items"}
WANTED_HELP = (
    "The items themselves: questions come from the whole file, where they help most to find its items; one in ten is "
    "random, so that the figures stay true. A model for later items: the file is passed once, as if its items came one "
    "by one."
)
QUESTIONS = "Several questions, one a line (name: guidelines)"
QUESTIONS_HINT = "exercise: also a walk\n  team sport\nfood"
QUESTIONS_HELP = (
    "Each reading answers all of them, yes or no. An indented one is asked only after a yes to the one above it. The "
    "names, words and labels of the two classes are then not used."
)
SEEDS = "Words or texts to begin with, one question a line"
SEEDS_HELP = (
    "The name of a question, a colon, and words like it, separated by commas; or an example text. A question may have "
    "several lines. Its model begins with them instead of nothing. They cost no label."
)
EACH = "Every question needs an answer"
EACH_HELP = (
    "Confirm then waits until each line has a yes, a no or *cannot tell*, and says which is missing. Otherwise a line "
    "without an answer is a no."
)
AUDIT = "Audit labels that a model made"
AUDIT_HELP = (
    "Columns of the file with two words (such as yes and no) or scores. Your answers say how good each is, and correct "
    "the first; half of the budget is spread over all items. Words and example texts are then not used."
)
CUT, CUT_HELP = (
    "Lowest score that counts as yes",
    "For columns of scores only. Left empty it is 0.5 if all scores are from 0 to 1, and 0 if some are negative.",
)
SHOWN_QUESTIONS = 8  # that the button names


def new_session(datasets: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Show the form: few fields, a button that starts the session, and all other settings in an expander. Return the
    keyword arguments of `settings.create`, and whether the form was submitted."""
    rows = {row["id"]: row for row in datasets}
    left, right = st.columns([3, 2])
    dataset = left.selectbox("Data set", rows, format_func=lambda key: rows[key]["name"], key="new-dataset")
    budget = right.number_input("Budget (labels)", value=300.0, step=1.0, format="%.0f", key="new-budget")
    row, promise = rows[dataset], st.container()
    many = _many(row)
    classes = _many_classes(row) if many else _rare_class(row)
    begin_with, first = st.container(), FIRST[many]
    goal = st.segmented_control(
        "What do you want?", WANTED, default=FIND, format_func=WANTED.__getitem__, required=True, key="new-goal",
        help=WANTED_HELP,
    )  # fmt: skip
    guidelines, examples = _guidelines(row, classes.get("positive_name"))
    classes |= examples
    start = st.container()
    with st.expander(MORE):
        left, right = st.columns(2)
        name = left.text_input("Name of the session", placeholder=row["name"], max_chars=120, key="new-name")
        if not many:
            classes["negative_name"] = _other_class(right, row, classes["positive_name"])
            first, classes = _what_to_ask(row, classes)
            begin_with = st.container() if "questions" in classes else begin_with
        feed, certain = st.container(), st.container()
        shares = _team() | {"repeat": _share("Ask some items twice", AGAIN_HELP, AGAIN_SHARE, "repeat", (1, 30, 5, 1))}
        st.subheader("For researchers", anchor=False)
        chosen = choose_strategy(many, first)
        kind = strategy(chosen.get("algorithm"), chosen.get("learner"), chosen.get("rule"))
        finds = goal == FIND and "column" not in classes and kind.rule in paceable()
        plan = _plan(kind.rule, finds) | {"goal": FIND if finds else STREAM}
        if goal == FIND and not finds:
            small_note("An audit, and a rule that does not draw, pass the file once, as a stream.")
        some = st.container()
        more = _more(many) | shares | {"guidelines": guidelines, "owner": annotator(), "name": name or None}
    labels, whole, measures = _labels_of_file(row, many, classes)
    with begin_with if whole < row["items"] else some:
        n_known, beginning = _known_labels(row, labels, whole, measures)
    if not finds and (plan["audit"] or plan["pace"] or st.session_state.get("new-floor") or spreads(kind.rule)):
        with feed:
            plan["horizon"] = _horizon(row)
            if spreads(kind.rule) and st.toggle(CHANGES, key="new-changes", help=CHANGES_HELP):
                chosen["parameters"] |= drifting(kind.learner, kind.rule)
    items = max(row["items"] - n_known, plan.get("horizon") or 0)
    asked, budget = budget, capped(budget, items) if budget else budget
    if not many and not finds:
        with certain:
            plan["floor"] = _floor(row, budget, plan.get("horizon"), classes.get("positive_class"))
            if "column" in classes:
                plan |= {"floor": plan["floor"] or certainty.RECOMMENDED, "pace": plan["pace"] or 1.0}
    if budget and budget >= 1:
        with promise:
            n_classes = len(classes["classes"]) if many else 0
            small_note(" ".join(_promise(row, int(asked), int(budget), items, n_classes, plan["audit"] or finds)))
    sent = start.button("Start labeling", type="primary", key="new-send")
    return {"dataset": dataset, "budget": budget} | classes | beginning | chosen | plan | more, sent


def _guidelines(row: dict[str, Any], positive: str | None) -> tuple[str, dict[str, list[str]]]:
    """Ask for examples of the rare class (`positive`: its name, None for several classes), and for guidelines. Return
    the guidelines, and arguments of `settings.create`."""
    own = _demo_settings(row["name"]).get("guidelines", "")
    key = "new-guidelines" + f"-{row['id']}" * bool(own)
    examples = {}
    if positive is not None and row["kind"] == "text":
        examples = _examples(row, positive, st.session_state.get(key, own))
    guidelines = st.text_area("Guidelines", own, 68, LONGEST_GUIDELINES, key, placeholder=GUIDELINES_HINT)
    return guidelines.strip(), examples


def _what_to_ask(row: dict[str, Any], classes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Ask for the aim, and whether to ask several questions about each item or to audit a column. Return the algorithm
    that suits the aim, and `classes` changed by these answers (arguments of `settings.create`)."""
    counts = st.segmented_control(
        "What counts", WHAT_COUNTS, default="Balance", required=True, key="new-counts", help=WHAT_COUNTS_HELP
    )
    if questions := _questions(row):
        _add_seeds(row, questions)
        classes = {"questions": questions, "answer_each": st.toggle(EACH, key="new-each", help=EACH_HELP)}
    elif audited := _column(row):
        classes = {key: classes[key] for key in ("positive_name", "negative_name")} | audited
    return WHAT_COUNTS[counts], classes


def _promise(row: dict[str, Any], asked: int, budget: int, items: int, classes: int, checks: float) -> Iterator[str]:
    """Yield sentences: whether the budget is capped or too small, how long it takes to give the labels, and how
    precisely they will show the quality of the model. classes: number of classes, 0 for one rare class."""
    if cap := capped_words(asked, items):
        yield cap
    minutes = max(1, round(budget * LABEL_SECONDS / 60))
    yield f"{counted(budget, 'label')} take about {counted(minutes, 'minute')}."
    if budget < (enough := LABELS_OF_CLASS * classes):
        yield FEW.format(counted(budget, "label"), classes, LABELS_OF_CLASS, enough)
    if not (checks or _labelled(row)):
        yield estimates.forecast(budget, bool(classes))


def _labelled(row: dict[str, Any]) -> bool:
    """Tell whether every item of a data set was imported with a label, so that metrics are exact."""
    return _n_labels(row) == row["items"]


def _n_labels(row: dict[str, Any]) -> int:
    """Return the number of items of a data set that were imported with a label."""
    return sum(row["classes"].values() if row["classes"] else (row["positives"], row["negatives"]))


def _labels_of_file(row: dict[str, Any], many: bool, classes: dict[str, Any]) -> tuple[int, int, bool]:
    """Return three values about the labels in the file of a data set: the number of items with a label, about how many
    items need no question if a session begins with these labels, and whether there is a question (of several) for which
    the file labels every item. classes: arguments of `settings.create`."""
    if "column" in classes or (many and not row["classes"]):
        return 0, 0, False
    if questions := classes.get("questions"):
        own = tuple((each["name"], each.get("parent")) for each in questions)
        return _answered_by_file(str(store().path), row["id"], row["items"], own, store())
    labels = _n_labels(row) + row["later_labels"]
    return labels, labels, False


@st.cache_data(max_entries=64, show_spinner=False)
def _answered_by_file(
    path: str, dataset: int, items: int, questions: tuple[tuple[str, str | None], ...], _store: Store
) -> tuple[int, int, bool]:
    """Compute the result of `_labels_of_file` for several questions. path, items: only parts of the cache key."""
    records = [{"name": name, "parent": parent} for name, parent in questions]
    y = labels_of_questions(Dataset(_store, dataset), records)
    return int(y.any(axis=0).sum()), int(y.all(axis=0).sum()), bool(y.all(axis=1).any())


def _known_labels(row: dict[str, Any], labels: int, whole: int, measures: bool) -> tuple[int, dict[str, Any]]:
    """Ask whether to begin with the labels of a file, or with how many if it labels every item. The default is yes,
    unless the labels can measure the model of a question (`measures`). Return about how many items then need no
    question, and arguments of `settings.create`."""
    if whole == row["items"]:
        most = min(row["items"] - 1, MOST_KNOWN)
        labels = st.number_input(SOME_LABELS, 0, most, 0, key=f"new-some-{row['id']}", help=SOME_LABELS_HELP)
        return labels, {"known_labels": labels} if labels else {}
    if not labels:
        return 0, {}
    most = min(labels, MOST_KNOWN)
    which = "them" if most == labels else f"{most:,} of them"
    question = f"The file has labels for {labels:,} of {row['items']:,} items. Begin with {which}?"
    if not st.toggle(question, not measures, key=f"new-known-{row['id']}-{measures}", help=BEGIN_WITH_LABELS_HELP):
        return 0, {}
    return min(whole, most), {"known_labels": "file" if most == labels else most}


def _many(row: dict[str, Any]) -> bool:
    """Ask whether to label several classes instead of one rare class. The default is the kind of the data set."""
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
        "Names of the classes", placeholder="joy, anger, fear", help=CLASSES_HELP, key=f"new-classes-{row['id']}"
    )
    return {"classes": tuple(word.strip() for word in words.split(",") if word.strip())}


def _rare_class(row: dict[str, Any]) -> dict[str, Any]:
    """Ask for the name of the rare class, and which class of the data set it is."""
    positive, rare = _demo_settings(row["name"]).get("positive_name", RELEVANT), dict[str, str]()
    if row["classes"]:
        positive = st.selectbox("Rare class", row["classes"], key=f"new-rare-{row['id']}")
        rare = {"positive_class": positive}
    key, most = f"new-positive-{row['id']}-{positive[:NAME_CHARACTERS]}", NAME_CHARACTERS
    return {"positive_name": st.text_input("Name of the rare class", positive[:most], most, key=key)} | rare


def _other_class(column: DeltaGenerator, row: dict[str, Any], positive: str) -> str:
    """Ask for the name of the other class. The default is "Not" followed by the name of the rare class."""
    own = _demo_settings(row["name"])
    name = f"Not {'relevant' if positive == RELEVANT else positive}"
    if positive == own.get("positive_name"):
        name = own["negative_name"]
    key, most = f"new-negative-{row['id']}-{positive}", NAME_CHARACTERS
    return column.text_input("Name of the other class", name[:most], most, key=key)


def _questions(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask for several questions about each item, and return a record with the name and the guidelines of each. A button
    adds the questions that the file of the data set answers."""
    written = st.text_area(
        QUESTIONS, placeholder=QUESTIONS_HINT, max_chars=LONGEST_GUIDELINES, height="content", key="new-questions",
        help=QUESTIONS_HELP,
    )  # fmt: skip
    names = _question_names(str(store().path), row["id"], row["items"], store())
    if len(names) > 1:
        words = literal(f"Ask about each of these: {name_list(names, SHOWN_QUESTIONS)}")
        st.button(words, on_click=_add_questions, args=(names,), key=f"new-each-{row['id']}")
    return _read_questions(written)


def _column(row: dict[str, Any]) -> dict[str, Any]:
    """Ask for the audited column (labels or scores made by something else). Return arguments of `settings.create`, or
    {} if no column is chosen."""
    if not (columns := [name for name in columns_of(row).get("details") or () if name]):
        return {}
    left, right = st.columns(2)
    chosen = left.multiselect(AUDIT, columns, placeholder="None", key=f"new-column-{row['id']}", help=AUDIT_HELP)
    if not chosen:
        return {}
    cut = right.number_input(CUT, value=None, format="%g", placeholder="0.5", key=f"new-cut-{row['id']}", help=CUT_HELP)
    return {"column": chosen[0], "cut": cut, "others": chosen[1:]}


def _add_seeds(row: dict[str, Any], questions: list[dict[str, Any]]) -> None:
    """Ask for words and example texts per question, and add them to its record. Report unknown words and questions."""
    if row["kind"] != "text":
        return
    written = st.text_area(
        SEEDS, placeholder="exercise: gym, swim", height="content", key="new-seeds-of-questions", help=SEEDS_HELP
    )
    data, lines, wrong = Dataset(store(), row["id"]), dict[str, list[str]](), list[str]()
    for line in filter(str.strip, written.splitlines()):
        name, _, own = (part.strip() for part in line.partition(":"))
        lines.setdefault(name, []).append(own)
    for question in questions:
        words, texts = prior.read_lines("\n".join(lines.pop(question["name"], ())))
        question |= {"seed_words": words, "seed_texts": texts}
        wrong += prior.divided(data, words)[1] if words else ()
    parts = [f"no question: {', '.join(lines)}"] if lines else []
    parts += [UNKNOWN.format(", ".join(wrong))] if wrong else []
    if parts:
        small_note(f"{capitalized('; '.join(parts))}.")


def _read_questions(written: str) -> list[dict[str, Any]]:
    """Parse questions, one per line (name: guidelines). An indented question is only asked after a yes to the last
    question above it that is not indented."""
    questions, above = list[dict[str, Any]](), ""
    for line in filter(str.strip, written.splitlines()):
        name, _, guidelines = (part.strip() for part in line.partition(":"))
        parent = above if line[0].isspace() else ""
        questions.append({"name": name, "guidelines": guidelines} | ({"parent": parent} if parent else {}))
        above = above if parent else name
    return questions


@st.cache_data(max_entries=64, show_spinner=False)
def _question_names(path: str, dataset: int, items: int, _store: Store) -> list[str]:
    """Return the names of the questions that the file of a data set answers, without names that the form refuses."""
    names = Dataset(_store, dataset).question_names()
    fitting = (name for name in names if len(name) <= LONGEST_NAME and not {*"|:\n"} & {*name})
    return [*islice(fitting, MOST_QUESTIONS)]


def _add_questions(names: list[str]) -> None:
    """Add questions to the text field, except questions that it already has."""
    written = st.session_state["new-questions"]
    asked = [question["name"] for question in _read_questions(written)]
    lines = [*written.splitlines(), *(name for name in names if name not in asked)]
    st.session_state["new-questions"] = "\n".join(filter(str.strip, lines))


def _examples(row: dict[str, Any], positive: str, guidelines: str) -> dict[str, list[str]]:
    """Ask for words and example texts of the rare class, and say how they were understood."""
    name = positive * (positive != RELEVANT)
    words = _seed_words(str(store().path), row["id"], row["items"], f"{name}.{guidelines}", _labelled(row), store())
    hint = EXAMPLES_HINT.format(f", such as {', '.join(words)}" if words else "")
    written = st.text_area(
        literal(EXAMPLES.format(positive)), placeholder=hint, help=EXAMPLES_HELP, key="new-seeds", height=68
    )
    words, texts = prior.read_lines(written)
    parts = [counted(len(texts), "example text")] if texts else []
    if words and (unknown := prior.divided(Dataset(store(), row["id"]), words)[1]):
        parts.append(UNKNOWN.format(", ".join(unknown)))
    if parts:
        small_note(f"{capitalized(', '.join(parts))}.")
    return {"seed_words": words, "seed_texts": texts}


@st.cache_data(max_entries=64, show_spinner=False)
def _seed_words(path: str, dataset: int, items: int, description: str, labelled: bool, _store: Store) -> list[str]:
    """Return words that may point to the rare class. They come from the labels of a file that labels some of its items,
    or else from a description of the class."""
    data = Dataset(_store, dataset)
    has_gaps = not (labelled or data.classes)
    return (prior.typical(data, data.y) if has_gaps else []) or prior.suggested(data, description)


def _demo_settings(dataset: str) -> dict[str, Any]:
    """Return the form's defaults for a demo's data set, {} for other data sets."""
    return next((demo.session for demo in DEMOS.values() if demo.name == dataset), {})


def _share(toggle: str, help: str, slider: str, key: str, scale: tuple[int, int, int, int]) -> float:
    """Ask for a share of the questions (0 to 1). scale: smallest and largest percentage, default and step."""
    if not st.toggle(toggle, key=f"new-{key}", help=help):
        return 0.0
    return st.slider(slider, *scale, key=f"new-{key}-percent") / 100


def _team() -> dict[str, float]:
    """Ask for the share of questions that several people answer, how many people, and the most answers per person."""
    share = _share(TEAM, TEAM_HELP, "Questions that several people answer, in percent", "overlap", (5, 100, 20, 5))
    if not share:
        return {"overlap": share}
    left, right = st.columns(2)
    people = left.number_input("People who answer each of these", 2, 20, 2, key="new-people")
    quota = right.number_input(TEAM_QUOTA, 0, 2**53 - 1, 0, key="new-quota", help=TEAM_QUOTA_HELP)
    return {"overlap": share, "people": people, "quota": quota}


def _horizon(row: dict[str, Any]) -> int | None:
    """Ask for the total number of items that a live feed will bring. Return None if there is no feed."""
    if not st.toggle("More items will come while I label (a live feed)", key=f"new-feed-{row['id']}"):
        return None
    items = st.number_input("Items in all, roughly", 1, 2**53 - 1, 10 * row["items"], key=f"new-horizon-{row['id']}")
    small_note(FEED_HELP)
    return items


def _floor(row: dict[str, Any], budget: float | None, horizon: int | None, rare: str | None) -> float:
    """Ask whether to guarantee a minimum of the metrics, and forecast it. Return the share of the budget for it."""
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


def _plan(rule: str, finds: bool) -> dict[str, Any]:
    """Ask for the share of random checks and, unless a session finds the items of a file, for the pace of spending.
    Return arguments of `settings.create`."""
    left, right = st.columns(2)
    audit = left.number_input("Random checks (% of the budget)", 0, 90, 0, 5, key="new-audit", help=CHECKS)
    trains = left.toggle("Random checks train the model too", True, key="new-audit-trains", help=TRAINS)
    if finds:
        return {"audit": audit / 100, "audit_trains": trains, "pace": None}
    paced = rule in paceable()
    help = PACE_HELP if paced else f"Only rules that ask at random can be paced: {rule} does not."
    pace = right.selectbox("Spend the budget", list(PACES), key="new-pace", disabled=not paced, help=help)
    return {"audit": audit / 100, "audit_trains": trains, "pace": PACES[pace] if paced else None}


def _more(many: bool) -> dict[str, Any]:
    left, middle, right = st.columns(3)
    shuffled = left.selectbox("Order", ["As stored", "Shuffled by the seed"], key="new-order") != "As stored"
    seed = middle.number_input("Seed", 0, 2**31, 0, key="new-seed")
    own: dict[str, Any] = {"shuffled": shuffled, "seed": seed}
    if not many:
        theta = right.number_input("Threshold", value=0.0, format="%g", step=None, key="new-theta", help=THRESHOLD_HELP)
        left, middle, right = st.columns(3)
        metric = left.selectbox("Aim", list(AIMS), format_func=AIMS.__getitem__, key="new-metric", help=AIM_HELP)
        weight = middle.number_input(
            "Weight of the rare class", 0.01, 0.99, 0.5 if metric == "sum" else 0.9, key=f"new-w-{metric}",
            help="Of sensitivity against specificity, or of a miss against a false alarm.",
        )  # fmt: skip
        own |= {"theta": theta, "metric": metric}
        own["weights"] = metrics.Weights(alpha_p=weight) if metric == "sum" else metrics.Weights(c_p=weight)
    after = right.selectbox("After the budget", ["Last weights", "Averaged weights"], key="new-averaged")
    return own | {"averaged": after == "Averaged weights"}

"""Label: the card, and live curves beside it."""

import html

import streamlit as st

from oal_engine import metrics
from ui import charts
from ui.card import card
from ui.desk import desk as open_desk
from ui.page import annotator, complain, guarded_store, note, open_page, stop


def chosen_session(store):
    """The session in the address, or the one last worked on."""
    asked = st.query_params.get("session", "")
    sessions = {row["id"]: row for row in store.sessions()}
    if not sessions:
        note("There is no session yet.")
        st.page_link("app.py", label="Start one on the home page")
        st.stop()
    if not asked:
        return next(iter(sessions))
    if not asked.isdigit() or int(asked) not in sessions:
        complain(f"Session {asked} does not exist.")
        st.page_link("app.py", label="All sessions")
        st.stop()
    return int(asked)


SHOWN = {
    False: {"sum": "Sum", "f1": "F1", "sensitivity": "Sensitivity", "specificity": "Specificity",
            "precision": "Precision"},
    True: {"accuracy": "Accuracy", "macro_f1": "Macro F1", "macro_recall": "Balanced accuracy"},
}  # fmt: skip


@st.fragment
def label(desk, name):
    key = f"card-{desk.session.id}"

    def handle(event):
        done, st.session_state[f"{key}-problem"] = desk.handle(event, name)
        return done

    card(key, handle, lambda: desk.payload(st.session_state.get(f"{key}-problem")))


@st.fragment(run_every=2)
def watch(desk):
    for chart in desk.figures():
        charts.show(chart)
    if not desk.session.labelled:
        said = " and ".join(charts.HEADLINES[desk.session.multiclass].values())
        note(f"{said} need labelled data: this stream has no labels of its own, so its truth is not known.")
    else:
        result(desk.session)


def settings(session):
    """The algorithm and its parameters in a line."""
    values = ", ".join(f"{key} {value:g}" for key, value in session.strategy.parameters.items())
    return f"{session.about['algorithm']}{values and f' ({values})'} on {session.about['dataset_name']}"


def result(session):
    """Both evaluations as they are now, in numbers; with K classes also the recall of each."""
    found = [session.evaluate(session.place.counts, name) for name in metrics.EVALUATIONS]
    lines = [(title, [each[name] for each in found]) for name, title in SHOWN[session.multiclass].items()]
    if session.multiclass:
        recalls = zip(session.names.values(), *(each["recall"] for each in found))
        lines += [(f"Recall of {name}", values) for name, *values in recalls]
    rows = "".join(
        f'<tr><th dir="auto">{html.escape(title)}</th>' + "".join(f"<td>{value:.3f}</td>" for value in values) + "</tr>"
        for title, values in lines
    )
    st.html(
        "<style>.oal-result{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}"
        ".oal-result th{font-weight:400;text-align:left;overflow-wrap:anywhere}"
        ".oal-result td,.oal-result thead th:not(:first-child)"
        "{text-align:right}.oal-result td,.oal-result th{padding:.18rem .3rem;"
        "border-bottom:1px solid rgba(128,128,128,.25)}"
        ".oal-result thead{position:sticky;top:0;backdrop-filter:blur(9px)}"
        '</style><div style="max-height:19rem;overflow-y:auto" tabindex="0"><table class="oal-result">'
        "<thead><tr><th>So far</th><th>push</th><th>push-and-query</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


open_page("Label")
store = guarded_store()
try:
    desk = open_desk(chosen_session(store))
except ValueError as error:
    stop(error)
about = desk.session.about
st.html(
    f'<div style="display:flex;gap:.2rem 1rem;flex-wrap:wrap;align-items:baseline;overflow-wrap:anywhere">'
    f'<b style="font-size:1.25rem" dir="auto">{html.escape(about["name"])}</b>'
    f'<span class="oal-wide" style="opacity:.75">{html.escape(settings(desk.session))}</span></div>'
)
left, right = st.columns([5, 3], gap="large")
with left:
    label(desk, annotator())
with right:
    watch(desk)

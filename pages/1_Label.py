"""Label: the card, and live curves beside it."""

import streamlit as st

from ui import charts
from ui.arrivals import arrivals, shown
from ui.card import card
from ui.desk import desk as open_desk
from ui.figures import figures, table, told
from ui.page import annotator, chosen_session, guarded_store, heading, note, open_page, stop


@st.fragment
def label(desk, name):
    key = f"card-{desk.session.id}"

    def handle(event):
        done, st.session_state[f"{key}-problem"] = desk.handle(event, name)
        return done

    card(key, handle, lambda: shown(desk.session, desk.payload(st.session_state.get(f"{key}-problem"))))


@st.fragment(run_every=2)
def watch(desk):
    for chart in desk.figures():
        charts.show(chart)
    if not desk.session.labelled:
        said = " and ".join(charts.HEADLINES[desk.session.multiclass].values())
        note(f"{said} need labelled data: this stream has no labels of its own, so its truth is not known.")
    else:
        session = desk.session
        table(("So far", *charts.NAMES.values()), figures(session, session.place.counts))


open_page("Label")
store = guarded_store()
session = chosen_session(store)
if session is None:
    note("There is no session yet.")
    st.page_link("app.py", label="Start one on the home page")
    st.stop()
try:
    desk = open_desk(session)
except ValueError as error:
    stop(error)
about = desk.session.about
heading(about["name"], f"{told(desk.session.strategy)} on {about['dataset_name']}")
left, right = st.columns([5, 3], gap="large")
with left:
    label(desk, annotator())
    arrivals(desk.session)
with right:
    watch(desk)

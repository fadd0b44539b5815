"""Replay: a session question by question, a comparison on its labels, verification, and publishing."""

import io

import streamlit as st

from oal_engine.sessions import look_back
from oal_engine.sessions.files import bundle
from oal_engine.sessions.files.player import UNTIL_MISMATCH
from oal_engine.sessions.labeled_data import labeled_dataset
from oal_engine.sessions.one_question import OneQuestion
from oal_engine.store import Store
from ui import page, replay
from ui.downloads import downloads_button, page_button, with_access_check
from ui.label.panels import chosen_question
from ui.metric_table import table

PAGE_KB, PLACE_KB = 90, 0.5  # size of a page without texts, and of each of its positions
COMPARE = (
    "Runs other algorithms on the {:,} items of this session that have a label. The session's rule chose most of them: "
    "they are not a random sample of the stream."
)
COMPARE_LABELED = "Runs other algorithms on the data of this session, whose items all have a label."
PUBLISH = (
    "One file holds the settings, the questions, the answers with their annotators and times, and the digests, but no "
    "item: anyone with the same data set can open it there, and it verifies bit for bit."
)
PUBLISH_PAGE = (
    "Or an HTML page to send: the player with its curves and decisions, in any browser, without a server or a network. "
    "It is about {:,.0f} KB, more with texts, and does not name the annotators."
)


@st.fragment
@page.guarded()
def play(player: replay.Player, start: str) -> None:
    """Show the player, opened at the position `start`, such as q7 (question 7) or r90 (round 90)."""
    trace = player.trace
    if problem := page.reason_to_withhold(trace.store, trace.id, page.annotator(), page.role(trace.store, trace.id)):
        page.note(problem)
    else:
        replay.show(player, start)


def compare(store: Store, trace: look_back.Trace, question: str | None) -> None:
    """Show the button that opens Compare with the labels of a session as its data."""
    labels = sum(bool(each.label and (each.number or each.is_known)) for each in trace.state.lessons)
    is_labeled = trace.labelled and not question
    st.text(COMPARE_LABELED if is_labeled else COMPARE.format(labels))
    if st.button("Compare on this session", type="primary", key="compare", disabled=not (is_labeled or labels)):
        page.checked_role(store, trace.id)
        data = trace.dataset.name if is_labeled else labeled_dataset(store, trace.id, question, page.mail())
        st.session_state["compare-data"] = [data]
        st.switch_page("pages/2_Compare.py")


@st.fragment
@page.guarded()
def verify(store: Store, session: int) -> None:
    """Show the button that verifies a session, and the report."""
    page.checked_role(store, session)
    st.text("Runs the session again from its first round and compares every question and every stored digest.")
    if st.button("Verify", type="primary", key="verify"):
        with st.spinner("Running the session again…"):
            report = look_back.verify(store, session)
        (page.note if report.verified else page.complain)(report)
        if report.found:
            lines = [(name, repr(report.recorded[name]), repr(value)) for name, value in report.found.items()]
            table(("", "recorded", "now"), lines)


def publish(store: Store, session: int, steps: int, question: str | None) -> None:
    """Show buttons that download a session: as a file, and as an HTML page that plays it. steps: number of positions of
    the player. question: the question to play, if several are asked about each item."""

    def make_file() -> bytes:
        file = io.StringIO()
        bundle.publish(store, session, file)
        return file.getvalue().encode()

    st.text(PUBLISH)
    name = f"session-{session}.jsonl"
    file = with_access_check(store, session, make_file)
    st.download_button("Download the session", file, name, type="primary", on_click="ignore", key="publish")
    if not steps:
        return
    st.text(PUBLISH_PAGE.format(PAGE_KB + PLACE_KB * steps))
    page_button(store, session, question)


def first_place() -> None:
    """Forget the position in the address (`question` or `round`) when another question of the session is selected."""
    for name in ("question", "round"):
        st.query_params.pop(name, None)


@st.fragment
@page.guarded()
def adopt(store: Store) -> None:
    """Let the user upload a published session, then store it here and verify it."""
    file = st.file_uploader("A published session (.jsonl)", key="adopted")
    if file is not None and st.button("Open it here", type="primary", key="adopt"):
        session = bundle.adopt(store, file, page.mail(), page.visible_datasets(store))
        report = look_back.verify(store, session)
        (page.note if report.verified else page.complain)(f"It is session {session} here. {report}")
        st.page_link("pages/3_Replay.py", label="Replay it", query_params={"session": str(session)})


def place_in_address(trace: look_back.Trace) -> str:
    """Return the position that the address names: q7 is question 7, r90 is round 90, in which no question was asked.
    Without a valid position, return q1."""
    for name, first, last, there in (
        ("round", trace.span[0] + 1, trace.reached, trace.reached), ("question", 1, trace.steps, len(trace.log))
    ):  # fmt: skip
        if asked := st.query_params.get(name):
            if asked.isdecimal() and first <= (number := int(asked[:15])) <= last:
                if name == "round" and trace.asked_in(number - 1):
                    return f"q{trace.number(number - 1)}"
                return f"{name[0]}{number}"
            page.complain(f"{name.capitalize()} {asked} does not exist. The last one is {there:,}.")
    return "q1"


page.open_page("Replay")
with page.guarded():
    store = page.store()
    if (session := page.chosen_session(store)) is None:
        page.note("You have no session yet. Start one on the home page, or open a published one:")
        adopt(store)
        st.stop()
    if problem := page.reason_to_withhold(store, session, page.annotator(), page.role(store, session)):
        page.note(problem)
        st.page_link("pages/1_Label.py", label="Give them on Label", query_params={"session": str(session)})
        st.stop()
    settings = page.stored_settings(store, session)
    with st.container(horizontal=True, vertical_alignment="center"):
        page.heading(settings.name, f"{settings.algorithm} on {settings.dataset_name}")
        downloads_button(store, settings)
    question = chosen_question(settings, "of", first_place)
    player = replay.player(session, question)
    player.refresh()
    trace = player.trace
    if isinstance(trace, OneQuestion) and trace.span_in_words:
        page.note(trace.span_in_words)
    if trace.mismatch:
        page.complain(f"{trace.mismatch} {UNTIL_MISMATCH}")
    if trace.steps:
        play(player, place_in_address(trace))
    else:
        page.note("No question yet.")
    comparing, checks, publishing, opening = st.tabs(["Compare", "Verify", "Publish", "Open a published session"])
    with comparing:
        compare(store, trace, question)
    with checks:
        verify(store, session)
    with publishing:
        publish(store, session, trace.steps, question)
    with opening:
        adopt(store)

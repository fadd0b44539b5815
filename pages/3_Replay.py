"""Replay: a session question by question; whether it verifies; what if; and as a file to publish."""

import io

import streamlit as st

from oal_engine.output.plots import NAMES
from oal_engine.sessions import look_back
from oal_engine.sessions.files import bundle
from oal_engine.sessions.files.player import UNTIL_MISMATCH
from oal_engine.sessions.insights.curves import metric_lines
from oal_engine.store import Store
from ui import charts, replay
from ui.downloads import checked, downloads, page
from ui.home.new_session import choose_strategy
from ui.metric_table import describe, table
from ui.page import (
    annotator,
    chosen_session,
    complain,
    guarded,
    heading,
    mail,
    note,
    open_page,
    role,
    stored_settings,
    visible_datasets,
    withheld,
)
from ui.page import store as open_store

WHOLE, PLACE = 90, 0.5  # KB of a page without texts, and of each place in it


@st.fragment
@guarded()
def play(player: replay.Player, start: str) -> None:
    trace = player.trace
    if problem := withheld(trace.store, trace.id, annotator(), role(trace.store, trace.id)):
        note(problem)
    else:
        replay.show(player, start)


@st.fragment
@guarded()
def what_if(player: replay.Player) -> None:
    """Another algorithm over the same stream, beside the session."""
    trace = player.trace
    stored_settings(trace.store, trace.id)
    left, right = st.columns([2, 3], gap="large")
    with left:
        chosen = choose_strategy(trace.multiclass, "other")
        if st.button("Run it over the same stream", type="primary", key="other-run"):
            st.session_state["other"] = trace.id, chosen
    session, chosen = st.session_state.get("other", (None, None))
    with right:
        if session != trace.id:
            note(
                "The rounds that this session has seen, in the same order, with the same draws, budget and weights, "
                "under another algorithm."
            )
            return
        with guarded(), st.spinner("Running…"):
            compare(trace, replay.what_if(trace.id, player.version, chosen))


def compare(trace: look_back.Trace, other: look_back.WhatIf) -> None:
    """The figures and curves of both."""
    run, asked = other.run, other.asked
    st.text(f"This session: {describe(trace.strategy)}\nThe other: {describe(run.strategy)}")
    answered = sum(label != 0 for *_, label in asked)
    if other.exact:
        wrong = f" {other.different:,} of this session's answers differ from them." * bool(other.different)
        note(f"Exact: the data's own labels answer the other algorithm.{wrong}")
    else:
        note(
            f"{answered:,} of the other's {len(asked):,} questions ({other.share:.0%}) have an answer in this session. "
            + (
                "The others cost it a label and teach it nothing."
                if other.enough
                else f"Under {look_back.ENOUGH:.0%} no curve is drawn: it would come from answers that this session's "
                "rule chose, and say more about that choice than about the other algorithm."
            )
        )
    lines = [
        ("Questions", f"{len(trace.log):,}", f"{len(asked):,}"),
        ("Labels used", f"{len(trace.labels):,}", f"{answered:,}"),
    ]
    if other.enough:
        for label, name in list(trace.names.items())[: 1 if not trace.multiclass else 12]:
            lines.append((f"Answers: {name}", f"{trace.labels.count(label):,}", f"{run.labels.count(label):,}"))
    if other.exact:
        both = zip(metric_lines(trace, trace.counts), metric_lines(run, run.counts))
        for (title, *own), (_, *new) in both:
            lines += [(f"{title}, {name}", a, b) for name, a, b in zip(NAMES.values(), own, new)]
    table(("", "session", "other"), lines, "24rem")
    if other.enough:
        for own, new in replay.compared(trace, run):
            charts.show(own, new)


@st.fragment
@guarded()
def verify(store: Store, session: int) -> None:
    """Check a session anew, from its log."""
    stored_settings(store, session)
    st.text("Runs the session again from its first round and compares every question and every stored digest.")
    if st.button("Verify", type="primary", key="verify"):
        with st.spinner("Running the session again…"):
            report = look_back.verify(store, session)
        (note if report.verified else complain)(report)
        if report.found:
            table(
                ("", "recorded", "now"),
                [(name, repr(report.recorded[name]), repr(value)) for name, value in report.found.items()],
            )


def publish(store: Store, session: int, steps: int) -> None:
    """The session as a file, and as a page of so many places."""

    def made() -> bytes:
        file = io.StringIO()
        bundle.publish(store, session, file)
        return file.getvalue().encode()

    st.text(
        "One file holds the settings, the questions, the answers with their annotators and times, and the digests, but "
        "no item: whoever has the same data set opens it there, and it verifies bit for bit."
    )
    name = f"session-{session}.jsonl"
    file = checked(store, session, made)
    st.download_button("Download the session", file, name, type="primary", on_click="ignore", key="publish")
    if not steps:
        return
    st.text(
        "Or a page of HTML to send: the player with its curves and decisions, in any browser, without a server or a "
        f"network. It has about {WHOLE + PLACE * steps:,.0f} KB, more with texts, and names nobody who answered."
    )
    page(store, session)


@st.fragment
@guarded()
def adopt(store: Store) -> None:
    """A file of another session."""
    file = st.file_uploader("A published session (.jsonl)", key="adopted")
    if file is not None and st.button("Open it here", type="primary", key="adopt"):
        session = bundle.adopt(store, file, mail(), visible_datasets(store))
        report = look_back.verify(store, session)
        (note if report.verified else complain)(f"It is session {session} here. {report}")
        st.page_link("pages/3_Replay.py", label="Replay it", query_params={"session": str(session)})


def wanted(trace: look_back.Trace) -> str:
    """The name of the place in the address: of a round, or of a question; the first question where there is none."""
    for name, last, there in (("round", trace.reached, trace.reached), ("question", trace.steps, len(trace.log))):
        if asked := st.query_params.get(name):
            if asked.isdecimal() and 1 <= (number := int(asked[:15])) <= last:
                if name == "round" and trace.asked_in(number - 1):
                    return f"q{trace.number(number - 1)}"
                return f"{name[0]}{number}"
            complain(f"{name.capitalize()} {asked} does not exist: there are {there:,}.")
    return "q1"


open_page("Replay")
with guarded():
    store = open_store()
    session = chosen_session(store)
    if session is None:
        note("There is no session yet. Start one on the home page, or open one that was published:")
        adopt(store)
        st.stop()
    if problem := withheld(store, session, annotator(), role(store, session)):
        note(problem)
        st.page_link("pages/1_Label.py", label="Give them on Label", query_params={"session": str(session)})
        st.stop()
    player = replay.player(session)
    player.refresh()
    trace = player.trace
    with st.container(horizontal=True, vertical_alignment="center"):
        heading(trace.settings.name, f"{trace.settings.algorithm} on {trace.settings.dataset_name}")
        downloads(store, session, trace.multiclass)
    if trace.mismatch:
        complain(f"{trace.mismatch} {UNTIL_MISMATCH}")
    if trace.steps:
        play(player, wanted(trace))
    else:
        note("Nothing was asked yet.")
    tabs = st.tabs(["What if", "Verify", "Publish", "Open a published session"])
    with tabs[0]:
        if trace.mismatch or not trace.steps:
            note("There is nothing to compare with: a session that verifies, with questions, is needed.")
        else:
            what_if(player)
    with tabs[1]:
        verify(store, session)
    with tabs[2]:
        publish(store, session, trace.steps)
    with tabs[3]:
        adopt(store)

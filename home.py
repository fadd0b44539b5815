"""Home: sessions and data sets at a glance, one click to the demo."""

import os
from datetime import UTC, datetime
from functools import partial
from typing import Any

import streamlit as st

from oal_engine.datasets import demo, named_features
from oal_engine.sessions.backups import age_of_newest
from oal_engine.sessions.settings import create, needs
from oal_engine.store import KEPT, Store
from ui import page
from ui.forms import new_session
from ui.own_data import bring, look
from ui.page import annotator, complain, counted, entry, guarded, note, open_page, remove_after_asking, small_note
from ui.page import store as open_store
from ui.warm_up import is_warm

LABEL, REPLAY = "pages/1_Label.py", "pages/3_Replay.py"


def start(session: int) -> None:
    st.session_state.pop("form", None)
    st.switch_page(LABEL, query_params={"session": str(session)})


def try_demo(store: Store, which: str) -> None:
    once = "" if is_warm() else " The learners are compiled, which happens once on a machine."
    with st.spinner(f"Preparing the demo…{once}"):
        session = create(store, demo.dataset(store, which), **demo.DEMOS[which].session, owner=annotator())
    start(session)


def show_session(store: Store, row: dict[str, Any]) -> None:
    left, middle, right = st.columns([5, 3, 2], vertical_alignment="center")
    when = datetime.fromisoformat(row["worked_at"]).strftime("%d %b %H:%M UTC")
    own = [row["dataset_name"]] if row["name"] != row["dataset_name"] else []
    left.html(entry(row["name"], *own, needs(row) or row["algorithm"], when))
    used = row["labels"] / row["budget"]
    kinds = f"{len(row['classes'])} classes" if row["classes"] else f"{row['positives']:,} positive"
    text = f"{row['labels']:,} of {row['budget']:,} labels, {kinds}"
    middle.progress(min(1.0, used), text)
    with right.container(horizontal=True, horizontal_alignment="right"):
        done = row["labels"] >= row["budget"]
        if st.button(
            "Result" if done else "Resume", key=f"resume-{row['id']}", type="secondary" if done else "primary"
        ):
            start(row["id"])
        with st.popover("", icon=":material/more_horiz:", help="More"):
            st.page_link(REPLAY, label="Replay", query_params={"session": str(row["id"])})
            if owned(store, row):
                remove(store, row)


def owned(store: Store, row: dict[str, Any]) -> bool:
    return page.role(store, row["id"]) == "owner"


def remove(store: Store, row: dict[str, Any]) -> None:
    if st.button("Remove this session", key=f"remove-{row['id']}"):
        answers = counted(row["labels"] + row["skipped"], "answer")
        remove_after_asking(
            f"the session {row['name']} with its {answers}",
            lambda: owned(store, row),
            partial(store.remove_session, row["id"], annotator()),
            f"It can be restored on this page for {KEPT.days} days.",
        )


def show_removed(store: Store) -> None:
    """The removed sessions of which who is here is an owner, each with a button that restores it."""
    rows = [row for row in store.removed_sessions() if owned(store, row)]
    if not rows:
        return
    with st.expander(f"Removed ({len(rows)})"):
        for row in rows:
            with page.one_row(f"removed-{row['id']}"):
                until = datetime.fromisoformat(row["removed_at"]) + KEPT
                by = [f"removed by {row['removed_by']}"] if row["removed_by"] else []
                st.html(entry(row["name"], *by, f"can be restored until {until:%d %b %Y}"))
                if st.button("Restore", key=f"restore-{row['id']}"):
                    store.restore_session(row["id"], annotator())
                    st.rerun()


def show_dataset(row: dict[str, Any]) -> None:
    if row["classes"]:
        classes = f"{len(row['classes'])} classes"
    else:
        classes = f"{row['positives']:,} positive" if row["positives"] + row["negatives"] else "no labels"
    st.html(entry(row["name"], counted(row["items"], "item"), classes, counted(named_features(row), "feature")))


open_page("Home")
with guarded():
    store = open_store()
    st.title("Label what matters in a stream", anchor=False)
    st.html(
        '<p style="max-width:46rem;font-size:1.08rem;line-height:1.5;margin:0">'
        "Label a stream of texts or feature vectors in which the interesting class is rare. An online learner decides "
        "which items are worth one of your labels, asks you, and learns from each answer at once.</p>"
    )
    datasets, sessions = page.datasets(store), page.sessions(store)
    if wanted := st.query_params.pop("new", None):
        st.session_state["form"] = True
        if wanted in [str(row["id"]) for row in datasets]:
            st.session_state["new-dataset"] = int(wanted)
    with st.container(horizontal=True):
        if st.button("Try the demo", type="secondary" if datasets else "primary", key="demo"):
            try_demo(store, "tweets")
        if st.button("Demo with abstracts", key="demo-abstracts"):
            try_demo(store, "abstracts")
        if datasets and st.button("New session", type="secondary" if sessions else "primary", key="new"):
            st.session_state["form"] = not st.session_state.get("form", False)
        if st.button("Import data", key="import"):
            st.switch_page("pages/4_Data.py")
    bring(store)

    if datasets and st.session_state.get("form"):
        with st.container(border=True):
            st.header("New session", anchor=False)
            sample = st.container()
            settings, sent = new_session(datasets)
            with sample:
                look(store, next(row for row in datasets if row["id"] == settings["dataset"]))
            if sent:
                try:
                    start(create(store, **settings))
                except ValueError as error:
                    complain(error)

    left, right = st.columns([7, 3], gap="large")
    with left:
        st.header("Sessions", anchor=False)
        if not sessions:
            note("No session yet: try the demo, or import data and start one.")
        for row in sessions:
            show_session(store, row)
        show_removed(store)
        if sessions and page.owns() and os.environ.get("OAL_BACKUPS") != "0":
            small_note(age_of_newest(store, datetime.now(UTC)))
    with right:
        st.header("Data sets", anchor=False)
        if not datasets:
            note("None yet. The demo brings its own.")
        for row in datasets:
            show_dataset(row)

"""The sessions and data sets of the Home page: list and open them, start a demo, remove and restore sessions."""

from datetime import datetime
from functools import partial
from typing import Any

import streamlit as st

from oal_engine.datasets import demo, named_features
from oal_engine.sessions.settings import create, needs
from oal_engine.store import RESTORABLE, Store

from .. import page
from ..page import annotator, counted, entry, remove_after_asking

LABEL, REPLAY = "pages/1_Label.py", "pages/3_Replay.py"


def start(session: int) -> None:
    """Close the form of a new session, and open the Label page of a session."""
    st.session_state.pop("form", None)
    st.switch_page(LABEL, query_params={"session": str(session)})


def try_demo(store: Store, which: str, settings: dict[str, Any] | None = None) -> None:
    """Start a new session of a demo, with the demo's own settings unless `settings` are given, and open the session."""
    with st.spinner("Preparing the demo…"):
        chosen = settings or demo.DEMOS[which].session
        session = create(store, demo.dataset(store, which), **chosen, owner=annotator())
    start(session)


def show_session(store: Store, row: dict[str, Any]) -> None:
    """Show a session with its progress, and buttons to open or remove it."""
    left, middle, right = st.columns([4, 3, 3], vertical_alignment="center")
    when = datetime.fromisoformat(row["worked_at"]).strftime("%d %b %H:%M UTC")
    own = [row["dataset_name"]] if row["name"] != row["dataset_name"] else []
    left.html(entry(row["name"], *own, needs(row) or row["algorithm"], when))
    kinds = f"{len(row['classes'])} classes" if row["classes"] else f"{row['positives']:,} positive"
    used = min(1.0, row["labels"] / row["budget"])
    middle.progress(used, f"{row['labels']:,} of {row['budget']:,} labels, {kinds}")
    with right.container(horizontal=True, horizontal_alignment="right"):
        done = row["round"] is not None and not row["waits"]
        word = "Result" if done else "Resume"
        if st.button(word, key=f"resume-{row['id']}", type="secondary" if done else "primary"):
            start(row["id"])
        with st.popover("", icon=":material/more_horiz:", help="More"):
            st.page_link(REPLAY, label="Replay", query_params={"session": str(row["id"])})
            if owned(store, row):
                remove(store, row)


def owned(store: Store, row: dict[str, Any]) -> bool:
    """Tell whether the user owns a session."""
    return page.role(store, row["id"]) == "owner"


def remove(store: Store, row: dict[str, Any]) -> None:
    """Show a button that removes a session after a confirmation."""
    if st.button("Remove this session", key=f"remove-{row['id']}"):
        answers = counted(row["labels"] + row["skipped"], "answer")
        remove_after_asking(
            f"the session {row['name']} with its {answers}",
            lambda: owned(store, row),
            partial(store.remove_session, row["id"], annotator()),
            f"It can be restored on this page for {RESTORABLE.days} days.",
        )


def show_removed(store: Store) -> None:
    """Show the user's own removed sessions, each with a button that restores it."""
    if not (rows := [row for row in store.removed_sessions() if owned(store, row)]):
        return
    with st.expander(f"Removed ({len(rows)})"):
        for row in rows:
            with page.one_row(f"removed-{row['id']}"):
                until = datetime.fromisoformat(row["removed_at"]) + RESTORABLE
                by = [f"removed by {row['removed_by']}"] if row["removed_by"] else []
                st.html(entry(row["name"], *by, f"can be restored until {until:%d %b %Y}"))
                if st.button("Restore", key=f"restore-{row['id']}"):
                    store.restore_session(row["id"], annotator())
                    st.rerun()


def show_dataset(row: dict[str, Any]) -> None:
    """Show a data set with its number of items, classes and features."""
    if row["classes"]:
        classes = f"{len(row['classes'])} classes"
    else:
        classes = f"{row['positives']:,} positive" if row["positives"] + row["negatives"] else "no labels"
    st.html(entry(row["name"], counted(row["items"], "item"), classes, counted(named_features(row), "feature")))

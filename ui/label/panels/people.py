"""The people of a session and their roles: its owner adds people by e-mail address, and removes them."""

from datetime import datetime

import streamlit as st

from oal_engine.sessions.session import Session
from oal_engine.store import RESTORABLE, Row, StoreError, now

from ...access import lets_in
from ...page import complain, entry, mail, one_row, small_note

ROLES = {
    "annotator": "answers and corrects",
    "reader": "sees the session and its answers",
    "owner": "also names people, writes the guidelines, adds labels, removes the session",
}
HELP = "\n".join(f"- {role}: {words}" for role, words in ROLES.items())


def show(session: Session) -> None:
    """Show the people of a session to its owner; call it in a fragment."""
    st.text("Send this address to the people named below: it opens the session.")
    page, _, _ = (st.context.url or "").partition("?")
    st.code(f"{page}?session={session.id}", language=None, wrap_lines=True)
    roles = session.store.roles(session.id)
    current = [row for row in roles if row["ended_at"] is None]
    if not roles:
        small_note("Everybody who may enter is an annotator here, until you name the first person.")
    for row in current:
        outside = [] if lets_in(row["mail"]) else ["not on the list of people who may enter this app"]
        _person(session, row, None, "Remove", f"{row['role']}: {ROLES[row['role']]}", *outside)
    _add(session)
    named = {row["mail"] for row in current}
    last = {row["mail"]: row for row in roles if row["mail"] not in named and row["ended_at"] > now(RESTORABLE)}
    for row in last.values():
        when = datetime.fromisoformat(row["ended_at"])
        until = f"{row['role']} until {when:%d %b %Y}, removed by {row['ended_by']}"
        _person(session, row, row["role"], "Restore", until)
    if problem := st.session_state.get("people-problem"):  # stored, because the panel is redrawn every few seconds
        complain(problem)


def _person(session: Session, row: Row, role: str | None, action: str, *details: str) -> None:
    """Show a person with a button that gives them a role (None: takes it away)."""
    with one_row(f"person-{row['id']}"):
        st.html(entry(row["mail"], *details))
        if st.button(action, key=f"person-{action}-{row['id']}"):
            _put(session, row["mail"], role)


def _add(session: Session) -> None:
    with st.form("person", clear_on_submit=True, border=False):
        left, right = st.columns(2)
        address = left.text_input("E-mail address", max_chars=320, key="person-mail")
        role = right.selectbox("Role", ROLES, help=HELP, key="person-role")
        if st.form_submit_button("Add") and address.strip():
            _put(session, address, role)


def _put(session: Session, address: str, role: str | None) -> None:
    try:
        session.store.put_role(session.id, address, role, mail())
        st.session_state.pop("people-problem", None)
    except StoreError as error:
        st.session_state["people-problem"] = str(error)
    st.rerun()

"""The guidelines, tags, people and settings of a session; its owner can change them."""

import html
import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from uuid import uuid4

import streamlit as st

from oal_engine.datasets import prior
from oal_engine.datasets.reading.sources import DataError
from oal_engine.sessions.insights.curves import percent
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError, Settings, checked_tags
from oal_engine.store import RESTORABLE, Row, StoreError, now
from oal_engine.store.fields import LONGEST_NAME

from ...access import holder
from ...home.new_session import EXAMPLES_HELP, LONGEST_GUIDELINES
from ...metric_table import table
from ...page import annotator, capitalized, complain, entry, mail, one_row, small_note
from ...strategies import describe
from ..card_server import CardServer
from ..ending import more_labels

CLOSE_HELP = (
    "It is no longer asked about later items, nor are the questions that need a yes to it. Its answers stay. A closed "
    "question cannot be opened again."
)
BEGINS = "Words like it, separated by commas, or an example text"
ROLES = {
    "annotator": "answers and corrects",
    "reader": "sees the session and its answers",
    "owner": "also names people, writes the guidelines, adds labels, removes the session",
}
ROLES_HELP = "\n".join(f"- {role}: {words}" for role, words in ROLES.items())


def show(server: CardServer) -> None:
    """Show guidelines and settings; call it in a fragment."""
    session = server.session
    settings = server.settings()
    words, owner = settings.all_guidelines, settings.owner
    if words:
        st.html(
            '<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext;'
            f'line-height:1.5">{html.escape(words)}</div>'
        )
    else:
        st.text("The session has no guidelines yet.")
    if server.is_owned():
        with st.expander("Write the guidelines"):  # one fixed label: a new one would close the expander
            written = st.text_area(
                "Guidelines", settings.guidelines, max_chars=LONGEST_GUIDELINES, height=200, key="guidelines"
            )
            if st.button("Save", type="primary", key="guidelines-save"):
                _change(partial(session.store.update_session, session.id, {"guidelines": written.strip()}))
        if settings.questions and not settings.audited:
            with st.expander("Questions"):
                _edit_questions(session)
        with st.expander("Tags"):
            _edit_tags(session, settings.tags or [])
        if session.dataset.details:
            with st.expander("Columns shown with each item"):
                _show_columns(session)
        if session.current and session.room > 0:
            with st.expander("Add labels to the budget"):
                more_labels(session, "add-labels-early")
        if mail():
            with st.expander("People"):
                _show_people(session)
    elif owner:
        st.text(f"Written by {owner}, who owns the session.")
    table(("Settings", ""), _settings(session, settings), "none")


def _edit_questions(session: Session) -> None:
    """Show buttons that close a question, and a form that adds one."""
    small_note("A change counts from the next item on; the answers stay as they are.")
    asked = [each for each in session.settings.questions or () if session.is_asked(each["name"])]
    for name in (question["name"] for question in asked):
        words, button = st.columns([4, 1], vertical_alignment="center")
        words.text(name)
        if button.button("Close", key=f"close-{name}", help=CLOSE_HELP):
            _change(partial(session.close_question, uuid4().hex, name, annotator()))
    with st.form("question", clear_on_submit=True, border=False):
        added = st.text_input("One more question", max_chars=LONGEST_NAME)
        guidelines = st.text_input("Its guidelines", max_chars=LONGEST_GUIDELINES)
        above = [each["name"] for each in asked if not each.get("parent")]
        parent = st.selectbox("Ask it only after a yes to", above, index=None, placeholder="Always ask it")
        begins = st.text_input(BEGINS, help=EXAMPLES_HELP) if session.dataset.vocabulary else ""
        if st.form_submit_button("Add", type="primary"):
            seeds = dict(zip(("seed_words", "seed_texts"), prior.read_lines(begins)))
            _change(partial(session.add_question, uuid4().hex, added, guidelines, parent or "", annotator(), **seeds))


def _change(change: Callable[[], None]) -> None:
    """Apply a change to a session and redraw the page, or show the error."""
    try:
        change()
    except (SessionError, StoreError, DataError) as error:
        complain(capitalized(str(error)))
    else:
        st.rerun()


def _edit_tags(session: Session, tags: list[str]) -> None:
    small_note("Words that annotators give an item by key or click, such as why it is excluded. It may have several.")
    written = st.text_area("Tags, one a line", "\n".join(tags), max_chars=2000, height=150, key="tags")
    try:
        chosen = checked_tags(written.splitlines())
    except SessionError as error:
        complain(capitalized(str(error)))
        return
    if st.button("Save", type="primary", key="tags-save"):
        values = {"tags": json.dumps(chosen) if chosen else None}
        _change(partial(session.store.update_session, session.id, values))


def _show_columns(session: Session) -> None:
    current = [column for column in session.dataset.details if column in session.shown_columns]
    columns = [column for column in session.dataset.details if column not in session.settings.audited_columns]
    chosen = st.multiselect("Columns", columns, current, key=f"details-{session.id}")
    if chosen != current and st.button("Save", type="primary", key="details-save"):
        _change(partial(session.store.update_session, session.id, {"shown": json.dumps(chosen)}))


def _settings(session: Session, settings: Settings) -> list[tuple[str, str]]:
    """Return the lines of the table of settings: (name, value in words)."""
    checks = f"{percent(settings.audit)} of the budget" + ", which do not train" * (not settings.audit_trains)
    return [
        ("Data", settings.dataset_name),
        ("Algorithm", describe(session.strategy)),
        ("Budget", f"{session.state.budget:,} labels"),
        ("Random checks", checks if settings.audit else "none"),
        (
            "Pace",
            f"over the first {percent(settings.pace)} of the stream" if settings.pace else "decided by the algorithm",
        ),
        ("Horizon", f"{settings.horizon:,} items"),
        ("Order", f"shuffled by seed {settings.seed}" if settings.shuffled else f"as stored, seed {settings.seed}"),
        ("Owner", settings.owner or "nobody"),
        ("Engine", settings.engine),
    ]


def _show_people(session: Session) -> None:
    """Show the people of a session to its owner; call it in a fragment."""
    st.text("Send this address to the people named below: it opens the session.")
    page, _, _ = (st.context.url or "").partition("?")
    st.code(f"{page}?session={session.id}", language=None, wrap_lines=True)
    roles = session.store.roles(session.id)
    current = [row for row in roles if row["ended_at"] is None]
    if not roles:
        small_note("Everybody who may enter is an annotator here, until you name the first person.")
    for row in current:
        outside = [] if holder(row["mail"]).enters else ["not on the list of people who may enter this app"]
        _person(session, row, None, "Remove", f"{row['role']}: {ROLES[row['role']]}", *outside)
    with st.form("person", clear_on_submit=True, border=False):
        left, right = st.columns(2)
        address = left.text_input("E-mail address", max_chars=320, key="person-mail")
        role = right.selectbox("Role", ROLES, help=ROLES_HELP, key="person-role")
        if st.form_submit_button("Add") and address.strip():
            _put_role(session, address, role)
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
            _put_role(session, row["mail"], role)


def _put_role(session: Session, address: str, role: str | None) -> None:
    try:
        session.store.put_role(session.id, address, role, mail())
        st.session_state.pop("people-problem", None)
    except StoreError as error:
        st.session_state["people-problem"] = str(error)
    st.rerun()

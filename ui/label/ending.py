"""Next steps at the end of a session, shown below the card: choose how many top-ranked items to take, download files,
add labels, or make another pass. For several classes also how good the file is in each."""

from uuid import uuid4

import streamlit as st

from oal_engine.kernel.learners import linear
from oal_engine.kernel.spending import FIND
from oal_engine.sessions import another_pass
from oal_engine.sessions.insights import estimates, outcome
from oal_engine.sessions.insights.ranking import Ranking
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError

from ..components import item_list
from ..downloads import csv_button, downloads_button
from ..metric_table import table
from ..page import annotator, capitalized, complain, counted, small_note
from .card_server import CardServer

EMPTY = "The list is empty. Add labels, or search in List for an item that belongs in it."
GO_THROUGH = "Go through the list"
GO_THROUGH_HELP = "Opens it next to the card, without the items that have a label. Your answers make it better."
OFFERED_LABELS = 100
CLASSES = "Class", "Answered", "Predicted", "In all", "Right"
RIGHT = (
    "Answers count as right. The share of the predictions is estimated from the questions that were drawn at random."
)
REST_OF_ITEMS_HELP = (
    "Starts a session with the same settings. It begins with all answers of this one, and asks about the other items "
    "only."
)


def ending(server: CardServer) -> None:
    """Show the next steps of a session that has ended and has no question left, in the card's fragment, below it."""
    session = server.session
    if not session.place.progress.end:
        return
    owned = server.is_owned()
    is_ranked = not session.several and linear(session.learner)
    if is_ranked and not session.multiclass:
        _list(server)
    with st.container(horizontal=True):
        if session.multiclass:
            csv_button("Download the file", session, "table")
        downloads_button(session.store, session.settings, session)
        if session.room > 0 and owned:
            with st.popover("Add labels"):
                more_labels(session, "add-labels")
    if session.room <= 0 and owned and not session.several:
        _another_pass(session)
    if is_ranked and session.multiclass:
        _classes(server)


def _classes(server: CardServer) -> None:
    """Show how many items of each class are in the file, and the share of them that is right."""
    session = server.session
    classes: list[outcome.OfClass] = server.cached("classes", lambda: outcome.of_classes(session))
    sizes = ((each, each.answered, each.predicted) for each in classes[1:])
    table(CLASSES, [(each.name, *map("{:,}".format, (*own, sum(own))), each.in_words) for each, *own in sizes], "none")
    if not session.labelled:
        small_note(RIGHT)


def _another_pass(session: Session) -> None:
    """Show a button that starts a session over the items without a label, if there are any, and then opens it."""
    left = session.rounds - len(another_pass.labels(session).labels)
    words = f"Another pass over the {counted(left, 'item')} without an answer"
    if left and st.button(words, key="another-pass", help=REST_OF_ITEMS_HELP):
        try:
            following = another_pass.begin(session, annotator())
        except SessionError as error:
            complain(error)
        else:
            st.switch_page("pages/1_Label.py", query_params={"session": str(following)})


def _list(server: CardServer) -> None:
    """Show a slider for the number of top-ranked items, the quality up to it, and a button that downloads them."""
    session = server.session
    ranking: Ranking = server.cached("ranking", lambda: outcome.of_session(session).ranking)
    if not ranking.listed:
        return small_note(EMPTY)
    items, usual = ranking.rounds.size, ranking.listed
    steps = {step for size in (10**power for power in range(1, 8)) for step in (size, 2 * size, 5 * size)}
    sizes = sorted({step for step in steps if step < min(items, 2 * usual)} | {usual, items})
    first = st.select_slider("Items to take, surest first", sizes, usual, "{:,}".format, key="take")
    if depths := ranking.depths([first]):
        small_note(capitalized(depths[0].sentence))
    with st.container(horizontal=True):
        words = f"Download the first {first:,}" if first > 1 else "Download the first"
        csv_button(words, session, "positives", "--texts", "--first", str(first))
        if st.button(GO_THROUGH, key="go-through", on_click=_open_find, args=[session.id], help=GO_THROUGH_HELP):
            st.rerun()  # the panels are not in the card's fragment


def _open_find(session: int) -> None:
    st.session_state["panel"] = "List"
    item_list.walk(session, "find")


def more_labels(session: Session, key: str) -> None:
    """Show a field and a button that add labels, in a fragment; `key` must be unique on the page."""
    most = session.room
    with st.container(horizontal=True, vertical_alignment="bottom"):
        labels = st.number_input("Labels to add", 1, most, min(OFFERED_LABELS, most), key=f"{key}-labels", width=150)
        if st.button("Add labels", key=key):
            try:
                session.add_labels(uuid4().hex, labels, annotator())
            except SessionError as error:
                complain(error)
            else:
                st.rerun()
    if session.settings.goal == FIND:
        return
    continues = f"Labeling continues at item {session.next_round + 1:,}, where the budget ran out."
    words = [continues] if session.place.progress.end else []
    if not session.labelled:
        words.append(estimates.forecast(session.state.budget + labels, session.multiclass))
    if words:
        small_note(" ".join(words))

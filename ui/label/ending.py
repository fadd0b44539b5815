"""Below a card without a question: the list of positives to download, and labels to add."""

from oal_engine.kernel.learners import linear

from ..downloads import positives_button
from ..page import annotator
from .card_server import CardServer
from .more_labels import more_labels
from .panels.guidelines import may_edit


def ending(server: CardServer) -> None:
    """Show the next steps of a session that has ended, in the card's fragment and below the card."""
    session = server.session
    if not session.place.progress.end or annotator() not in server.idle:
        return
    owned = may_edit(server)
    if not session.multiclass and linear(session.learner):
        positives_button(session.store, session.id)
    if session.room > 0 and owned:
        more_labels(session, "add-labels")

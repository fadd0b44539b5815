"""Below a card that has nothing to ask: the list that came of the session, and more labels for it."""

from oal_engine.kernel.learners import linear

from ..downloads import positives
from ..page import annotator
from .card_server import CardServer
from .more_labels import more_labels
from .panels.guidelines import may_edit


def ending(server: CardServer) -> None:
    """What can be done where a session has ended; call it in the fragment of the card, after the card."""
    session = server.session
    if not session.place.progress.end or annotator() not in server.idle:
        return
    owned = may_edit(server)
    if not session.multiclass and linear(session.learner):
        positives(session.store, session.id)
    if session.room > 0 and owned:
        more_labels(session, "add-labels")

"""Another pass over the unlabeled items of a session: a new session that begins with all labels of the old one."""

import re

from ..datasets.prior import Prior
from .labels import SKIP, KnownLabel, KnownLabels, SessionError
from .session import Session
from .settings import create, stored_options

NUMBERED = re.compile(r"(.+), pass (\d+)")


def labels(session: Session) -> KnownLabels:
    """Return the labels that a session has learned (answers, known labels and marks), one per labeled item, in the
    order in which they were learned."""
    session.state.only()
    by_item = {each.item: KnownLabel(each.item, each.label) for each in session.state.lessons if each.label != SKIP}
    return KnownLabels([*by_item.values()], f"session {session.settings.name}")


def begin(session: Session, owner: str = "") -> int:
    """Start another pass: create a session with the settings and the items of `session`. It begins with the labels of
    `session`, and asks about the other items only. Return its id. Raise SessionError if every item has a label."""
    own, settings = labels(session), session.store.session(session.id)
    if len(own.labels) >= session.rounds:
        raise SessionError("every item has a label: another pass has nothing to ask.")
    earlier = NUMBERED.fullmatch(settings["name"])
    name, number = (earlier[1], int(earlier[2]) + 1) if earlier else (settings["name"], 2)
    options = stored_options(settings) | {
        "name": f"{name}, pass {number}", "owner": owner, "budget": session.state.budget, "horizon": None,
        "known_labels": own, "prior": None,
    }  # fmt: skip
    if source := settings["prior"]:
        options["prior"] = Prior(**source, weights=session.priors.get(0, {}))
    return create(session.store, session.dataset.id, **options)

"""The items whose labels are known from elsewhere, in a list in which a label can be corrected."""

from typing import Any

from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError

from ...components import item_list
from ..card_server import CardServer
from ..messages import RowEvent, View

CORRECTION = "correction"  # origin of a corrected label
MEANS = "The model is retrained with the corrected label. An item whose label becomes unknown may be asked."
NO_MATCH = "No item fits."


def show(server: CardServer) -> None:
    """Show the panel; call it in a fragment."""
    session = server.session
    item_list.show(server, "known", lambda event, by: change(session, event, by), lambda view: page(session, view))


def change(session: Session, event: RowEvent, by: str) -> None:
    """Store a corrected label, or that the label is not known."""
    if event.row not in session.known_labels and not session.store.event(event.id):
        raise SessionError("only a label that is known can be corrected here.")
    session.know(event.id, {event.row: event.action}, CORRECTION, by)


def page(session: Session, view: View) -> dict[str, Any]:
    """Return one page of a view, the newest labels first."""
    names = session.names
    labels = [row for row in reversed(session.known_labels.values()) if view.show in ("all", str(row["label"]))]
    matches, counts = item_list.page_of(session, [row["item"] for row in labels], view)
    rows = [
        item_list.row(session, item, labels[k]["item"], view.open == labels[k]["item"])
        | {
            "id": labels[k]["item"],
            "chips": [(names[labels[k]["label"]], "positive" if labels[k]["label"] == 1 and -1 in names else "")],
            "when": labels[k]["at"],
            "by": f"from: {labels[k]['data']['origin']}",
            "note": None,
            "label": "Label",
            "actions": [(*choice, choice[0] == labels[k]["label"]) for choice in [*names.items(), (SKIP, "Unknown")]],
            "means": MEANS,
        }
        for k, item in matches
    ]
    shows = [("all", "All known labels"), *((str(label), name) for label, name in names.items())]
    return {"rows": rows, "empty": NO_MATCH, "shows": shows} | counts

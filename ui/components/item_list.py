"""Lists of items on the Label page: a Streamlit component (item_list.js, item_list.css) and what its lists share."""

from collections.abc import Callable, Sequence
from typing import Any

from oal_engine.sessions.items import file_numbers
from oal_engine.sessions.session import Session

from .. import messages
from ..card_server import CardServer
from ..page import check_may_answer
from . import component
from .card import mounted

PAGE = 50  # items
SNIPPET = 300  # characters
SEARCHED = 10_000  # items, the newest: more would keep the page waiting
CHUNK = 500
Page = tuple[list[tuple[int, dict[str, Any]]], dict[str, Any]]

_mount = component("item_list", ["dom.js", "page_exit.js", "outbox.js", "item_list.js"], ["card.css", "item_list.css"])


def show(server: CardServer, name: str, correct: Callable, page: Callable) -> None:
    """Show a list of items under a name of its own; call it in a fragment.

    correct: stores the event of a row, with its annotator. page: what is shown of a view.
    """
    key = f"{name}-{server.session.id}"

    def handle(event: messages.RowEvent, by: str) -> None:
        check_may_answer(server.session.store, server.session.id)
        correct(event, by)

    def payload(problem: str | None, _: str, view: messages.View | None) -> dict[str, Any]:
        view = view or messages.View()
        return {"name": key, "session": server.name, "view": view.model_dump(), "error": problem} | page(view)

    mounted(_mount, key, messages.RowEvent, handle, payload, view=messages.View)


def page_of(
    session: Session, positions: Sequence[int], view: messages.View, beside: Callable[[int], str] | None = None
) -> Page:
    """The page of a view through items at positions: [(index of the position, item)], and the list's counts in words.

    A search looks through texts and ids, and `beside` (position -> more words), of the SEARCHED first positions.
    """
    first, wanted = view.page * PAGE, view.search.strip().casefold()
    if not wanted:
        items = _items(session, positions[first : first + PAGE])
        return list(enumerate(items, first)), _counted(first, len(items), len(positions))
    matches = []
    for start in range(0, min(len(positions), SEARCHED), CHUNK):
        chunk = positions[start : min(start + CHUNK, SEARCHED)]
        for k, item in enumerate(_items(session, chunk), start):
            words = f"{item['id']} {item['text'] or ''} {beside(item['position']) if beside else ''}"
            if wanted in words.casefold():
                matches.append((k, item))
        if len(matches) > first + PAGE:
            break
    else:
        within = f" among the newest {SEARCHED:,}" * (len(positions) > SEARCHED)
        return matches[first : first + PAGE], _counted(first, len(matches[first:]), len(matches), within)
    return matches[first : first + PAGE], _counted(first, PAGE, None)


def _items(session: Session, positions: Sequence[int]) -> list[dict[str, Any]]:
    items = session.store.items(session.dataset.id, [int(position) for position in positions], texts=True)
    return [items[int(position)] for position in positions]


def _counted(first: int, shown: int, total: int | None, within: str = "") -> dict[str, Any]:
    """How many there are, and whether there are newer and older ones."""
    shown = min(shown, PAGE)
    if total is None:
        range_words = f"{first + 1:,}–{first + shown:,} of more"
    elif total <= PAGE:
        range_words = f"{total:,} item{'s' * (total != 1)}{within}" if total or within else ""
    else:
        range_words = f"{first + 1:,}–{first + shown:,} of {total:,}{within}"
    return {"total": range_words, "newer": first > 0, "older": total is None or first + PAGE < total}


def row(session: Session, item: dict[str, Any], position: int, whole: bool) -> dict[str, Any]:
    """An item's title and its text: the whole of it, else so much as a line of the list has room for."""
    text = item["text"]
    if text is None:
        text = _features(session, position) if whole else ""
    return {
        "title": item["id"],
        "snippet": " ".join(text[: 4 * SNIPPET].split())[:SNIPPET],
        "text": text if whole else None,
    }


def _features(session: Session, position: int) -> str:
    """The numbers of a vector as its file has them, one a line."""
    return "\n".join(f"{name}: {value}" for _, name, value in file_numbers(session.dataset, position))

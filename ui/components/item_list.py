"""Lists of items on the Label page: a Streamlit component (item_list.js, item_list.css) and what its lists share."""

from collections.abc import Callable, Sequence
from typing import Any

from oal_engine.sessions.items import above_text, file_numbers
from oal_engine.sessions.session import Session

from ..label import messages
from ..label.card_server import CardServer
from ..page import check_may_answer
from . import component
from .card import mounted

PAGE = 50  # items
SNIPPET = 300  # characters
SEARCHED = 10_000  # items, the newest: more would keep the page waiting
CHUNK = 500
Page = tuple[list[tuple[int, dict[str, Any]]], dict[str, Any]]

_mount = component("item_list", ["dom.js", "outbox.js", "item_list.js"], ["card.css", "item_list.css"])


def show(server: CardServer, name: str, correct: Callable, page: Callable, events: Any = messages.RowEvent) -> None:
    """Show a list of items under a name of its own; call it in a fragment.

    correct: stores the event of a row, with its annotator. page: what is shown of a view. events: the kinds that there
    are.
    """
    key = f"{name}-{server.session.id}"

    def handle(event: messages.Event, by: str) -> None:
        check_may_answer(server.session.store, server.session.id)
        correct(event, by)

    def payload(problem: str | None, _: str, view: messages.View | None) -> dict[str, Any]:
        view = view or messages.View()
        return {"name": key, "session": server.name, "view": view.model_dump(), "error": problem} | page(view)

    mounted(_mount, key, events, handle, payload, view=messages.View)


def page_of(
    session: Session, positions: Sequence[int], view: messages.View, beside: Callable[[int], str] | None = None
) -> Page:
    """The page of a view through items at positions: [(index of the position, item)], and the list's counts in words.

    A search looks through texts, ids, columns that are shown, and `beside` (position -> more words), of the SEARCHED
    first positions.
    """
    first, wanted = view.page * PAGE, view.search.strip().casefold()
    if not wanted:
        items = _items(session, positions[first : first + PAGE])
        return list(enumerate(items, first)), _counted(first, len(items), len(positions))
    matches = []
    for start in range(0, min(len(positions), SEARCHED), CHUNK):
        chunk = positions[start : min(start + CHUNK, SEARCHED)]
        shown = _shown_words(session, chunk)
        for k, item in enumerate(_items(session, chunk), start):
            words = item["id"], item["text"] or "", *shown[k - start], beside(item["position"]) if beside else ""
            if wanted in " ".join(words).casefold():
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


def _shown_words(session: Session, positions: Sequence[int]) -> list[list[str]]:
    """The words of the columns that are shown with items."""
    chosen = session.shown_columns
    places = [place for place, column in enumerate(session.dataset.details) if column in chosen]
    kept = session.store.details(session.dataset.id, [int(position) for position in positions]) if places else {}
    return [[words[place] for place in places] if (words := kept.get(int(position))) else [] for position in positions]


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
    """An item's id, what stands above its text, and its text: the whole of it, else so much as a line of the list has
    room for."""
    above, text = above_text(session, position, item["text"]), item["text"]
    if text is None:
        text = _features(session, position) if whole else ""
    text = text[above.begins :]
    return {
        "title": item["id"],
        "heading": [[above.title, 0]] if above.title else [],
        "facts": above.facts,
        "snippet": " ".join(f"{above.title} {text[: 4 * SNIPPET]}".split())[:SNIPPET],
        "text": text if whole else None,
    }


def _features(session: Session, position: int) -> str:
    """The numbers of a vector as its file has them, one a line."""
    return "\n".join(f"{name}: {value}" for _, name, value in file_numbers(session.dataset, position))

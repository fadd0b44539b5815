"""Lists of items on the Label page: a Streamlit component (item_list.js, item_list.css) with paging and search."""

from collections.abc import Callable, Sequence
from typing import Any

from oal_engine.sessions.fold import Run
from oal_engine.sessions.items import above_text, file_numbers

from ..label import messages
from ..label.card_server import CardServer
from ..page import check_may_answer, counted
from . import component
from .card import mount_component

PAGE = 50  # items
SNIPPET_CHARACTERS = 300
MAX_SEARCHED = 10_000  # newest items: searching more would delay the page
SEARCH_BLOCK = 500  # items read at a time
Page = tuple[list[tuple[int, dict[str, Any]]], dict[str, Any]]

_mount = component("item_list", ["dom.js", "outbox.js", "item_list.js"], ["card.css", "item_list.css"])


def show(server: CardServer, name: str, correct: Callable, page: Callable, events: Any = messages.RowEvent) -> None:
    """Show a list of items in a fragment, under a name that is unique on the page.

    correct: a function (event, annotator) that stores an event from a row of the list. page: a function that returns
    the page of the list for a `messages.View`. events: the type of the events.
    """
    key = f"{name}-{server.session.id}"

    def handle(event: messages.Event, by: str) -> None:
        check_may_answer(server.session.store, server.session.id)
        correct(event, by)

    def payload(problem: str | None, _: str, view: messages.View | None) -> dict[str, Any]:
        view = view or messages.View()
        return {"name": key, "session": server.name, "view": view.model_dump(), "error": problem} | page(view)

    mount_component(_mount, key, events, handle, payload, view=messages.View)


def page_of(
    session: Run, positions: Sequence[int], view: messages.View, more_words: Callable[[int], str] | None = None
) -> Page:
    """Return one page of the items at these positions: [(index in `positions`, item)], and the counts in words.

    A search covers the texts, ids and visible columns of the items at the first MAX_SEARCHED positions, and the words
    that `more_words(position)` returns.
    """
    first, wanted = view.page * PAGE, view.search.strip().casefold()
    if not wanted:
        items = _items(session, positions[first : first + PAGE])
        return list(enumerate(items, first)), _counted(first, len(items), len(positions))
    matches = []
    for start in range(0, min(len(positions), MAX_SEARCHED), SEARCH_BLOCK):
        block = positions[start : min(start + SEARCH_BLOCK, MAX_SEARCHED)]
        columns = _visible_columns(session, block)
        for k, item in enumerate(_items(session, block), start):
            more = more_words(item["position"]) if more_words else ""
            if wanted in " ".join((item["id"], item["text"] or "", *columns[k - start], more)).casefold():
                matches.append((k, item))
        if len(matches) > first + PAGE:
            break
    else:
        within = f" among the newest {MAX_SEARCHED:,}" * (len(positions) > MAX_SEARCHED)
        return matches[first : first + PAGE], _counted(first, len(matches[first:]), len(matches), within)
    return matches[first : first + PAGE], _counted(first, PAGE, None)


def _items(session: Run, positions: Sequence[int]) -> list[dict[str, Any]]:
    items = session.store.items(session.dataset.id, [int(position) for position in positions], texts=True)
    return [items[int(position)] for position in positions]


def _visible_columns(session: Run, positions: Sequence[int]) -> list[list[str]]:
    """Return, for each item at these positions, the cells of the columns that are shown with it."""
    chosen = session.shown_columns
    places = [place for place, column in enumerate(session.dataset.details) if column in chosen]
    cells = session.store.details(session.dataset.id, [int(position) for position in positions]) if places else {}
    return [[words[place] for place in places] if (words := cells.get(int(position))) else [] for position in positions]


def _counted(first: int, n_items: int, total: int | None, within: str = "") -> dict[str, Any]:
    """Return the range of a page in words, and whether there are newer and older items. total: number of all items,
    None if unknown. within: words appended to this number."""
    if total is not None and total <= PAGE:
        range_words = f"{counted(total, 'item')}{within}" if total or within else ""
    else:
        of = "more" if total is None else f"{total:,}{within}"
        range_words = f"{first + 1:,}–{first + min(n_items, PAGE):,} of {of}"
    return {"total": range_words, "newer": first > 0, "older": total is None or first + PAGE < total}


def row(session: Run, item: dict[str, Any], position: int, whole: bool) -> dict[str, Any]:
    """Return an item's id, the heading and facts above its text, and a snippet; with the whole text if `whole`."""
    above, text = above_text(session, position, item["text"]), item["text"]
    if text is None:
        text = _features(session, position) if whole else ""
    text = text[above.begins :]
    return {
        "title": item["id"],
        "heading": [[above.title, 0]] if above.title else [],
        "facts": above.facts,
        "snippet": " ".join(f"{above.title} {text[: 4 * SNIPPET_CHARACTERS]}".split())[:SNIPPET_CHARACTERS],
        "text": text if whole else None,
    }


def _features(session: Run, position: int) -> str:
    """Return the feature values of an item as its file has them, one per line."""
    return "\n".join(f"{name}: {value}" for _, name, value in file_numbers(session.dataset, position))

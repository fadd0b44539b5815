"""Lists of items on the Label page: a Streamlit component (item_list.js, item_list.css) with paging and search."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import streamlit as st

from oal_engine.sessions.fold import Run
from oal_engine.sessions.items import above_text, file_numbers

from ..label import messages
from ..label.card_server import CardServer
from ..page import check_may_answer, counted
from . import component
from .card import mount_component

PAGE = 50  # items; a page with an open row has as many items after it, so that keys need not wait for the next
SNIPPET_CHARACTERS = 300
MAX_SEARCHED = 10_000  # newest items: searching more would delay the page
SEARCH_BLOCK = 500  # items read at a time
AHEAD = 3  # rows after the open one that come with their whole texts, if keys label one row after the other
Page = tuple[list[tuple[int, dict[str, Any]]], dict[str, Any]]

_mount = component("item_list", ["dom.js", "outbox.js", "item_list.js"], ["card.css", "item_list.css"])


def show(server: CardServer, name: str, correct: Callable, page: Callable, events: Any = messages.RowEvent) -> None:
    """Show a list of items in a fragment, under a name that is unique on the page.

    correct: a function (event, annotator) that stores an event from a row of the list. page: a function that returns
    the page of the list for a `messages.View`. events: the type of the events.
    """
    key = f"{name}-{server.session.id}"
    begun = st.session_state.get(f"{key}-walk", "")  # by the last call of `walk`

    def handle(event: messages.Event, by: str) -> None:
        check_may_answer(server.session.store, server.session.id)
        correct(event, by)

    def payload(problem: str | None, _: str, view: messages.View | None) -> dict[str, Any]:
        view = view or messages.View()
        frame = {"name": key, "session": server.name, "view": view.model_dump(), "walk": begun, "error": problem}
        return frame | page(view)

    mount_component(_mount, key + begun, events, handle, payload, view=messages.View)


def walk(session: int, name: str) -> None:
    """Have the list of this name open its first row, for keys, when it is shown next."""
    st.session_state[f"{name}-{session}-walk"] = uuid4().hex


def page_of(
    session: Run,
    positions: Sequence[int],
    view: messages.View,
    ids: Sequence[int],
    more_words: Callable[[int], str] | None = None,
) -> Page:
    """Return one page of the items at these positions, the one with the open row if there is one: [(index in
    `positions`, item)], and the counts in words.

    A search covers the texts, ids and visible columns of the items at the first MAX_SEARCHED positions, and the words
    that `more_words(position)` returns. ids: of the rows. An item gets the keys "row" (this id) and "whole" (whether
    its row has the whole text).
    """
    wanted, total, within = view.search.strip().casefold(), None, ""
    first, end = _bounds(view.page * PAGE)
    if not wanted:
        if view.open in ids:
            first, end = _bounds(ids.index(view.open), PAGE)
        total = len(positions)
        matches = list(enumerate(_items(session, positions[first:end]), first))
    else:
        results = list[tuple[int, dict[str, Any]]]()
        for k, item in _matching(session, positions, wanted, more_words):
            if ids[k] == view.open:
                first, end = _bounds(len(results), PAGE)
            results.append((k, item))
            if len(results) > end + PAGE:  # an open row is not further away
                break
        else:
            total, within = len(results), f" among the newest {MAX_SEARCHED:,}" * (len(positions) > MAX_SEARCHED)
        matches = results[first:end]
    opened = next((n for n, (k, _) in enumerate(matches) if ids[k] == view.open), len(matches))
    whole = range(opened, opened + 1 + AHEAD * view.walk)
    rows = [(k, item | {"row": ids[k], "whole": n in whole}) for n, (k, item) in enumerate(matches)]
    return rows, _counted(first, len(rows), total, within)


def _matching(
    session: Run, positions: Sequence[int], wanted: str, more_words: Callable[[int], str] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the items that a search finds: (index in `positions`, item)."""
    for start in range(0, min(len(positions), MAX_SEARCHED), SEARCH_BLOCK):
        block = positions[start : min(start + SEARCH_BLOCK, MAX_SEARCHED)]
        columns = _visible_columns(session, block)
        for k, item in enumerate(_items(session, block), start):
            more = more_words(item["position"]) if more_words else ""
            if wanted in " ".join((item["id"], item["text"] or "", *columns[k - start], more)).casefold():
                yield k, item


def _bounds(place: int, ahead: int = 0) -> tuple[int, int]:
    """Return the first place and the end of the page that has this place of a list, and `ahead` places from it on."""
    first = place - place % PAGE
    return first, max(first + PAGE, place + ahead)


def _items(session: Run, positions: Sequence[int]) -> list[dict[str, Any]]:
    items = session.store.items(session.dataset.id, [int(position) for position in positions], texts=True)
    return [items[int(position)] for position in positions]


def _visible_columns(session: Run, positions: Sequence[int]) -> list[list[str]]:
    """Return, for each item at these positions, the cells of the columns that are shown with it."""
    chosen = session.shown_columns
    places = [place for place, column in enumerate(session.dataset.details) if column in chosen]
    cells = session.store.details(session.dataset.id, [int(position) for position in positions]) if places else {}
    return [[words[place] for place in places] if (words := cells.get(int(position))) else [] for position in positions]


def _counted(first: int, n_items: int, total: int | None, within: str) -> dict[str, Any]:
    """Return the number of a page, its range in words, and whether there are newer and older items. total: number of
    all items, None if unknown. within: words appended to this number."""
    if total is not None and total <= PAGE:
        range_words = f"{counted(total, 'item')}{within}" if total or within else ""
    else:
        of = "more" if total is None else f"{total:,}{within}"
        range_words = f"{first + 1:,}–{first + n_items:,} of {of}"
    older = total is None or first + n_items < total
    return {"page": first // PAGE, "total": range_words, "newer": first > 0, "older": older}


def row(session: Run, item: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an item of `page_of`: the heading and facts above its text, a snippet, whether this is all of
    it, and maybe the whole text."""
    position, whole = item["position"], item["whole"]
    above, text = above_text(session, position, item["text"]), item["text"]
    if text is None:
        numbers = file_numbers(session.dataset, position) if whole else ()
        text = "\n".join(f"{name}: {value}" for _, name, value in numbers)
    text = text[above.begins :]
    return {
        "id": item["row"],
        "title": item["id"],
        "heading": [[above.title, 0]] if above.title else [],
        "facts": above.facts,
        "snippet": " ".join(f"{above.title} {text[: 4 * SNIPPET_CHARACTERS]}".split())[:SNIPPET_CHARACTERS],
        "brief": item["text"] is not None and not above.facts and len(above.title) + len(text) < SNIPPET_CHARACTERS,
        "text": text if whole else None,
    }

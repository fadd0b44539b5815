"""Lists of items on the Label page: a Streamlit component (feed.js, feed.css) and what its lists share."""

import sqlite3

import streamlit as st

from oal_engine.rows import nonzero
from oal_engine.runs import SessionError

from .card import mounted
from .component import component

PAGE = 50  # items
SNIPPET = 300  # characters
SEARCHED = 10_000  # items, the newest: more would keep the page waiting
CHUNK = 500
VIEW = {"search": "", "show": "all", "page": 0, "open": None}

_mount = component("feed", ["nodes.js", "feed.js"], ["card.css", "feed.css"])


def feed(key, correct, page):
    """Show a list; call it in a fragment.

    correct: stores an event {id, row, action}; a SessionError is said on the page. page: what is shown of a view.
    """
    view = VIEW | (st.session_state.get(key) or {}).get("view", {})

    def handle(event):
        st.session_state[f"{key}-problem"] = None
        try:
            correct(event)
        except SessionError as error:
            st.session_state[f"{key}-problem"] = f"Not stored: {error}"
        except sqlite3.Error as error:
            st.session_state[f"{key}-problem"] = f"It could not be saved: {error}. It is kept here and sent again."
            return False
        return True

    def payload():
        shown = page(view)  # after the events, which may have left a problem
        return {"name": key, "view": view, "error": st.session_state.get(f"{key}-problem")} | shown

    mounted(_mount, key, handle, payload)


def turned(session, positions, view, beside=None):
    """The page of a view through items at positions: [(index of the position, item)], and the list's counts in words.

    A search looks through texts and ids, and `beside` (position -> more words), of the SEARCHED first positions.
    """
    first, wanted = view["page"] * PAGE, view["search"].strip().casefold()
    if not wanted:
        items = _items(session, positions[first : first + PAGE])
        return list(enumerate(items, first)), _counted(first, len(items), len(positions))
    found = []
    for start in range(0, min(len(positions), SEARCHED), CHUNK):
        chunk = positions[start : min(start + CHUNK, SEARCHED)]
        for k, item in enumerate(_items(session, chunk), start):
            words = f"{item['id']} {item['text'] or ''} {beside(item['position']) if beside else ''}"
            if wanted in words.casefold():
                found.append((k, item))
        if len(found) > first + PAGE:
            break
    else:
        within = f" among the newest {SEARCHED:,}" * (len(positions) > SEARCHED)
        return found[first : first + PAGE], _counted(first, len(found[first:]), len(found), within)
    return found[first : first + PAGE], _counted(first, PAGE, None)


def _items(session, positions):
    found = session.store.items(session.dataset.id, [int(position) for position in positions], texts=True)
    return [found[int(position)] for position in positions]


def _counted(first, shown, total, within=""):
    """How many there are, and whether there are newer and older ones."""
    shown = min(shown, PAGE)
    if total is None:
        told = f"{first + 1:,}–{first + shown:,} of more"
    elif total <= PAGE:
        told = f"{total:,} item{'s' * (total != 1)}{within}" if total or within else ""
    else:
        told = f"{first + 1:,}–{first + shown:,} of {total:,}{within}"
    return {"total": told, "newer": first > 0, "older": total is None or first + PAGE < total}


def told(session, item, position, whole):
    """An item's title and its text: the whole of it, else so much as a line of the list has room for."""
    text = item["text"]
    if text is None:
        text = _features(session, position) if whole else ""
    return {
        "title": item["id"],
        "snippet": " ".join(text[: 4 * SNIPPET].split())[:SNIPPET],
        "text": text if whole else None,
    }


def _features(session, position):
    """The features of a vector that are not zero, one a line."""
    names = session.dataset.feature_names
    return "\n".join(
        f"{names[j] if names else f'column {j + 1}'}: {value:.4g}"
        for j, value in zip(*nonzero(session.dataset.rows, position))
    )

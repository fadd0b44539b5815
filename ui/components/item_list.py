"""Lists of items on the Label page: a Streamlit component (item_list.js, item_list.css) and what its lists share."""

from oal_engine.kernel.rows import nonzero

from .. import messages
from . import component
from .card import mounted

PAGE = 50  # items
SNIPPET = 300  # characters
SEARCHED = 10_000  # items, the newest: more would keep the page waiting
CHUNK = 500

_mount = component("item_list", ["dom.js", "page_exit.js", "outbox.js", "item_list.js"], ["card.css", "item_list.css"])


def show(server, name, correct, page):
    """Show a list of items under a name of its own; call it in a fragment.

    correct: stores the event of a row, with its annotator. page: what is shown of a view.
    """
    key = f"{name}-{server.session.id}"

    def payload(problem, _, view):
        view = view or messages.View()
        return {"name": key, "session": server.name, "view": view.model_dump(), "error": problem} | page(view)

    mounted(_mount, key, messages.RowEvent, correct, payload, view=messages.View)


def page_of(session, positions, view, beside=None):
    """The page of a view through items at positions: [(index of the position, item)], and the list's counts in words.

    A search looks through texts and ids, and `beside` (position -> more words), of the SEARCHED first positions.
    """
    first, wanted = view.page * PAGE, view.search.strip().casefold()
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


def row(session, item, position, whole):
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

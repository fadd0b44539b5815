"""The scripts and style sheets of the player and the race. The app uses them, and so do the self-contained HTML pages
made here, which need neither a server nor a network."""

import html
import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Kind(NamedTuple):
    """A kind of page: the JavaScript class, the scripts, the style sheets after base.css, and a sentence about the
    keyboard shortcuts."""

    name: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    keys: str


PLAYER = Kind(
    "Player", ("dom.js", "replay.js"), ("explained.css", "card.css", "replay.css"),
    "← → go to the question before and after, Home and End to the first and the last, Space plays. "
    "M leads to the next mistake, P to the next positive answer, S to the next surprise; with Shift, back.",
)  # fmt: skip
RACE = Kind(
    "Race", ("dom.js", "race.js"), ("explained.css", "race.css"),
    "Space plays and pauses. The bar next to the button goes to any item, also with ← and →.",
)  # fmt: skip
RESTRICTIONS = (
    "default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def text(names: Iterable[str]) -> str:
    """Return the concatenated text of files in this folder."""
    return "".join((HERE / name).read_text(encoding="utf-8") for name in names)


def page(kind: Kind, title: str, about: Iterable[str], data: dict[str, Any]) -> bytes:
    """Return an HTML page with a title, the sentences `about`, and below them `data`, shown as the app shows it.

    The content security policy of the page forbids all requests, and all scripts but its own. The data are embedded as
    JSON in which `<` is escaped.
    """
    script = f"{text([*kind.scripts, 'page.js'])}new {kind.name}(main, data).receive(data, () => {{}});\n"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    rounded = with_floats(data, lambda value: float(f"{value:.6g}") if math.isfinite(value) else None)
    text_data = json.dumps(rounded, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text_data = text_data.replace("<", r"\u003c")  # so that no text ends the script or begins a comment in it
    sentences = "".join(f'<p dir="auto">{html.escape(each)}</p>' for each in about)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{RESTRICTIONS.format(digest)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{text(['base.css', *kind.styles, 'page.css'])}</style></head>\n"
        f'<body><header class="oal"><h1 dir="auto">{html.escape(title)}</h1>{sentences}</header>\n<main></main>\n'
        f'<footer class="oal"><p>{html.escape(kind.keys)}</p></footer>\n'
        "<noscript><p>This page needs JavaScript.</p></noscript>\n"
        f'<script type="application/json" id="data">{text_data}</script>\n'
        f'<script type="module">{script}</script></body></html>\n'
    ).encode()


def with_floats(data: Any, change: Callable[[float], float | None]) -> Any:
    """Return JSON data with each float replaced by `change(float)`."""
    if isinstance(data, dict):
        return {name: with_floats(value, change) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [with_floats(value, change) for value in data]
    return change(data) if isinstance(data, float) else data

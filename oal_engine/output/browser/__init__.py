"""The scripts and style sheets of the player and the race, which the app mounts; and pages of HTML that hold one of
them with all that it shows, without a server or a network."""

import html
import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Kind(NamedTuple):
    """What a page can hold: the class of its script, the scripts, the style sheets after base.css, and what to know of
    its keys."""

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
    "Space plays and pauses. The bar beside it goes to any item, also with ← and →.",
)  # fmt: skip
RESTRICTIONS = (
    "default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def text(names: Iterable[str]) -> str:
    """The text of files in this folder, one behind the other."""
    return "".join((HERE / name).read_text(encoding="utf-8") for name in names)


def page(kind: Kind, title: str, about: Iterable[str], data: dict[str, Any]) -> bytes:
    """A page of HTML that shows data as the app does, under a title and sentences about it.

    Its browser may fetch nothing and run nothing but the script in it; the data are in it as JSON without any `<`.
    """
    script = f"{text([*kind.scripts, 'page.js'])}new {kind.name}(main, data).receive(data, () => {{}});\n"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    held = json.dumps(_rounded(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    held = held.replace("<", r"\u003c")  # so that no words end the script, or begin a comment in it
    sentences = "".join(f'<p dir="auto">{html.escape(each)}</p>' for each in about)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{RESTRICTIONS.format(digest)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{text(['base.css', *kind.styles, 'page.css'])}</style></head>\n"
        f'<body><header class="oal"><h1 dir="auto">{html.escape(title)}</h1>{sentences}</header>\n<main></main>\n'
        f'<footer class="oal"><p>{html.escape(kind.keys)}</p></footer>\n'
        "<noscript><p>This page needs JavaScript.</p></noscript>\n"
        f'<script type="application/json" id="data">{held}</script>\n'
        f'<script type="module">{script}</script></body></html>\n'
    ).encode()


def _rounded(data: Any) -> Any:
    """Data whose numbers have the digits that a screen can show; null for what JSON does not know."""
    if isinstance(data, dict):
        return {name: _rounded(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_rounded(value) for value in data]
    if isinstance(data, float):
        return float(f"{data:.6g}") if abs(data) < float("inf") else None
    return data

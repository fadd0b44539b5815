"""Tables of numbers."""

import html
from collections.abc import Iterable, Sequence

import streamlit as st

from .meanings import explained

SHORT = 9  # characters
STYLE = """<style>
.oal-results { position: relative; overflow-y: auto; container-type: inline-size; }
.oal-result { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
.oal-result th { font-weight: 400; text-align: left; overflow-wrap: anywhere; }
.oal-result .whole { overflow-wrap: normal; }
.oal-result td, .oal-result thead th:not(:first-child) { text-align: right; }
.oal-result td, .oal-result th { padding: .18rem .3rem; border-bottom: 1px solid rgba(128, 128, 128, .25); }
.oal-result thead { position: sticky; top: 0; z-index: 1; backdrop-filter: blur(9px); }
@container (max-width: 24rem) {
  .oal-result { font-size: .8rem; }
  .oal-result td, .oal-result th { padding-inline: .16rem; }
}
</style>"""


def table(heads: Sequence[str], lines: Iterable[Sequence], height: str = "19rem") -> None:
    """Show a table. heads: the titles of the columns. lines: rows, each a title followed by its cells (numbers, or
    words, which are escaped here)."""
    rows = "".join(
        f"<tr>{_title(title)}{''.join(f'<td>{_cell(value)}</td>' for value in values)}</tr>" for title, *values in lines
    )
    head = "".join(map(_title, heads))
    st.html(
        f'{STYLE}<div class="oal-results" style="max-height:{height}" tabindex="0">'
        f'<table class="oal-result"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _title(words: str) -> str:
    """Return a header cell. A title of short words (up to SHORT characters) is never broken inside a word."""
    kind = ' class="whole"' * all(len(word) <= SHORT for word in words.split())
    return f'<th dir="auto"{kind}>{explained(words)}</th>'


def _cell(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else html.escape(str(value))

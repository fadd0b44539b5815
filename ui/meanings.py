"""Tooltips: words whose meaning shows on hover or tap."""

import html
from collections.abc import Iterable

from oal_engine.output.meanings import MEANINGS

from .components import text

STYLE = f"<style>{text(['explained.css'])}</style>"


def explained(word: str) -> str:
    """Return a word as escaped HTML, with its meaning as a tooltip if it is in MEANINGS."""
    if word not in MEANINGS:
        return html.escape(word)
    return f'<span class="explained" tabindex="0">{word}<span role="tooltip">{MEANINGS[word]}</span></span>'


def listed(words: Iterable[str]) -> str:
    """Return words with their meanings as a Markdown list, for the help of a field."""
    return "\n".join(f"- **{word}**: {MEANINGS[word]}" for word in words)

"""Words with their meaning one hover or tap away."""

import html
from collections.abc import Iterable

from oal_engine.output.meanings import MEANINGS

from .components import text

STYLE = f"<style>{text(['explained.css'])}</style>"


def explained(word: str) -> str:
    """A word as HTML, literal, with its meaning one hover or tap away where it has one."""
    if word not in MEANINGS:
        return html.escape(word)
    return f'<span class="explained" tabindex="0">{word}<span role="tooltip">{MEANINGS[word]}</span></span>'


def listed(words: Iterable[str]) -> str:
    """Words with their meanings as Markdown, for the help of a field."""
    return "\n".join(f"- **{word}**: {MEANINGS[word]}" for word in words)

"""Streamlit components: their scripts and style sheets come from this folder, or from oal_engine/output/browser."""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import streamlit as st

from oal_engine.output import browser

Mount = Callable[..., Any]  # (key, data to show) -> the component's state
HERE = Path(__file__).parent


def component(name: str, scripts: Iterable[str], styles: Iterable[str]) -> Mount:
    """Declare a Streamlit component of these scripts and, after base.css, style sheets. Return its mount function."""
    mount = st.components.v2.component(f"oal_{name}", js=text(scripts), css=text(["base.css", *styles]))
    return lambda key, data: mount(key=key, data=_readable(data))


def _readable(data: Any) -> Any:
    """Replace infinite numbers and NaN with null: a browser cannot parse JSON that contains them."""
    try:
        json.dumps(data, allow_nan=False)
    except ValueError:
        return browser.with_floats(data, lambda value: value if math.isfinite(value) else None)
    return data


def text(names: Iterable[str]) -> str:
    """Return the concatenated text of files, each from this folder or else from oal_engine/output/browser."""
    return "".join(
        (HERE / name).read_text(encoding="utf-8") if (HERE / name).exists() else browser.text([name]) for name in names
    )

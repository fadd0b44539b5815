"""Streamlit components made of scripts and style sheets: of this folder, and those shared with pages of their own."""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import streamlit as st

from oal_engine.output import browser

Mount = Callable[..., Any]  # of a key and the data that a component shows; its state
HERE = Path(__file__).parent


def component(name: str, scripts: Iterable[str], styles: Iterable[str]) -> Mount:
    """The function that mounts a component: scripts joined to one, and style sheets to one after base.css."""
    mount = st.components.v2.component(f"oal_{name}", js=text(scripts), css=text(["base.css", *styles]))
    return lambda key, data: mount(key=key, data=_readable(data))


def _readable(data: Any) -> Any:
    """The data with null for every number that JSON does not know: a browser could read none of it otherwise."""
    try:
        json.dumps(data, allow_nan=False)
    except ValueError:
        return _finite(data)
    return data


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def text(names: Iterable[str]) -> str:
    """The text of files, one behind the other: of this folder, or of those that are shared."""
    return "".join(
        (HERE / name).read_text(encoding="utf-8") if (HERE / name).exists() else browser.text([name]) for name in names
    )

"""Streamlit components made of the scripts and style sheets in this folder."""

import json
import math
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent


def component(name, scripts, styles):
    """The function that mounts a component whose script is these files, one behind the other, as is its style."""
    mount = st.components.v2.component(f"oal_{name}", js=text(scripts), css=text(styles))
    return lambda key, data: mount(key=key, data=_readable(data))


def _readable(data):
    """The data with null for every number that JSON does not know: a browser could read none of it otherwise."""
    try:
        json.dumps(data, allow_nan=False)
    except ValueError:
        return _finite(data)
    return data


def _finite(data):
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def text(names):
    """The text of files, one behind the other."""
    return "".join((HERE / name).read_text(encoding="utf-8") for name in names)

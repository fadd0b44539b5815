"""Streamlit components out of the scripts and style sheets in this folder."""

from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent


def component(name, scripts, styles):
    """The function that mounts a component whose script is these files, one behind the other, as is its style."""
    return st.components.v2.component(f"oal_{name}", js=text(scripts), css=text(styles))


def text(names):
    """The text of files, one behind the other."""
    return "".join((HERE / name).read_text(encoding="utf-8") for name in names)

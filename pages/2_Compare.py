"""Compare: algorithms on labelled data, tuned the same way; or strategies that race over one stream."""

import streamlit as st

from ui.compare import compare
from ui.page import guarded_store, open_page
from ui.race import race

VIEWS = {"compare": compare, "race": race}

open_page("Compare")
store = guarded_store()
asked = st.query_params.get("view", "compare")
view = st.segmented_control(
    "View",
    VIEWS,
    format_func=str.capitalize,
    default=asked if asked in VIEWS else "compare",
    required=True,
    key="view",
    label_visibility="collapsed",
)
VIEWS[view](store)

"""Compare: algorithms on labeled data, tuned the same way; or strategies that race over one stream."""

import streamlit as st

from ui.compare import compare
from ui.page import guarded, open_page
from ui.page import store as open_store
from ui.race import race

VIEWS = {"compare": compare, "race": race}

open_page("Compare")
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
with guarded():
    VIEWS[view](open_store())

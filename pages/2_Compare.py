"""Compare: algorithms on labeled data, tuned the same way; or a race of strategies on one stream."""

import streamlit as st

from ui.address import BOUND, check_choice
from ui.compare.comparisons import compare
from ui.compare.race import race
from ui.page import guarded, open_page
from ui.page import store as open_store

VIEWS = {"compare": compare, "race": race}

open_page("Compare")
st.html("<style>.st-key-view button p { text-transform: capitalize; }</style>")
check_choice("view", "View", VIEWS)
view = st.segmented_control(
    "View", VIEWS, default="compare", required=True, key="view", label_visibility="collapsed", bind=BOUND
)
with guarded():
    VIEWS[view](open_store())

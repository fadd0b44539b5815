"""Compare: algorithms on labelled data, tuned the same way, in the background."""

import streamlit as st

from ui.compare import compare
from ui.page import guarded_store, open_page

open_page("Compare")
store = guarded_store()
st.title("Compare")
compare(store)

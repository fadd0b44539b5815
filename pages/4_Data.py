"""Data: import a file, add items to a data set, or remove one."""

import os
from datetime import UTC, datetime

import streamlit as st

from oal_engine.sessions.backups import age_of_newest
from ui.data.importing import MORE, NEW, append_form, import_form, list_datasets
from ui.page import datasets as shown_datasets
from ui.page import guarded, note, open_page, owns, small_note
from ui.page import store as open_store

open_page("Data")
with guarded():
    store = open_store()
    st.title("Data", anchor=False)
    left, right = st.columns([3, 2], gap="large")
    with left:
        kinds = [NEW, MORE] if owns() and shown_datasets(store) else []
        kind = st.segmented_control("Import as", kinds, default=NEW, required=True, key="kind") if kinds else NEW
        st.header("Add items" if kind == MORE else "Import", anchor=False)
        if kind == MORE:
            append_form(store)
        else:
            import_form(store)
        if done := st.session_state.pop("imported", None):
            note(done)
            st.page_link("home.py", label="Start a session with it →", query_params={"new": "session"})
    with right:
        st.header("Data sets", anchor=False)
        if not shown_datasets(store):
            note("No data sets yet.")
        list_datasets(store)
        if owns() and os.environ.get("OAL_BACKUPS") != "0":
            small_note(age_of_newest(store, datetime.now(UTC)))

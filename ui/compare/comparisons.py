"""The comparisons on the Compare page: their list, the form that starts a new one, and progress and result of each."""

import html
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from oal_engine import experiments
from oal_engine.datasets.demo import DEMOS
from oal_engine.experiments import jobs
from oal_engine.store import Store

from ..page import complain, entry, guarded, literal, note, one_row, owns, remove_after_asking, visible_datasets
from .form import new_comparison
from .result import show_result

PAGE = "pages/2_Compare.py"
STYLE = """<style>
[class*="st-key-compare-link"] { gap: .1rem; }
[class*="st-key-compare-link"] a:not(:hover) { background: none; }
[class*="st-key-compare-link"] a { padding-left: 0; }
[class*="st-key-compare-link-"] a p { font-size: 1rem; font-weight: 600; white-space: normal; overflow-wrap: anywhere;
  line-height: 1.35; }
</style>"""
STATES = {
    "running": "running", "finished": "finished", "failed": "failed", "cancelled": "cancelled",
    "lost": "lost its process", "stopped": "not finished",
}  # fmt: skip
UNKNOWN, REMOVED = "Comparison {} does not exist.", "This comparison was removed."
COMPILING = "No replay has ended yet: algorithms that are new to this machine are compiled first, for {} so far."


def compare(store: Store) -> None:
    """Show the comparison that the address names, or else the form of a new one and the list of all."""
    st.html(STYLE)
    if not (asked := st.query_params.get("comparison", "")):
        st.query_params.update()  # a link from this page to itself would leave the old address
        left, right = st.columns([3, 2], gap="large")
        with left:
            started = new_comparison(store)
        if started:
            st.query_params["comparison"] = str(started)
            st.rerun()
        with right:
            _list(store)
    elif asked.isdecimal() and int(asked) in [row["id"] for row in _visible(store)]:
        _show_comparison(store, int(asked))
    else:
        complain(REMOVED if asked.isdecimal() and store.removed_comparison(int(asked)) else UNKNOWN.format(asked))
        st.page_link(PAGE, label="All comparisons")


def _visible(store: Store) -> list[dict[str, Any]]:
    """Return the comparisons whose data sets the user may see. Studio owners see all, also of data that was removed."""
    visible, demos, owner = visible_datasets(store), {demo.name for demo in DEMOS.values()}, owns()

    def is_visible(row: dict[str, Any]) -> bool:
        data = zip(row["specification"]["data"], row["datasets"])
        return all(experiments.data_name(each) in demos if id is None else id in visible for each, id in data)

    return [row for row in store.comparisons() if owner or is_visible(row)]


def _list(store: Store) -> None:
    """List all comparisons, each with a link and the state of its job."""
    st.header("Comparisons", anchor=False)
    if not (rows := _visible(store)):
        note("No comparisons yet. The default one takes about half a minute.")
    removable = owns()
    for row in rows:
        state = jobs.status(store, row["id"])["state"]
        with one_row(f"compare-{row['id']}"):
            with st.container(key=f"compare-link-{row['id']}"):
                st.page_link(PAGE, label=literal(row["name"]), query_params={"comparison": str(row["id"])})
                st.html(f'<div class="oal-entry"><span>{html.escape(_details_line(row, state))}</span></div>')
            if removable:
                _more_menu(store, row)


def _details_line(row: dict[str, Any], state: str) -> str:
    spec = row["specification"]
    data = ", ".join(experiments.data_name(each) for each in spec["data"])
    when = datetime.fromisoformat(row["created_at"]).strftime("%d %b %Y %H:%M UTC")
    return " · ".join([STATES[state], data, when])


def _more_menu(store: Store, row: dict[str, Any]) -> None:
    def remove() -> None:
        jobs.remove(store, row["id"])
        st.query_params.pop("comparison", None)

    with st.popover("", icon=":material/more_horiz:", help="More"):
        if st.button("Remove this comparison", key=f"compare-remove-{row['id']}"):
            remove_after_asking(f"the comparison {row['name']} with its results", owns, remove)


def _show_comparison(store: Store, comparison: int) -> None:
    """Show a comparison: its name, the buttons of its job, its progress and its result."""
    row, state = store.comparison(comparison), jobs.status(store, comparison)["state"]
    with one_row("compare"):
        with st.container(key="compare-link"):
            st.page_link(PAGE, label="← All comparisons")
            st.html(entry(row["name"], _details_line(row, state)))
        if state == "running":
            if owns() and st.button("Cancel", key="compare-cancel"):
                jobs.cancel(store, comparison)
                st.rerun()
        elif state != "finished" and st.button("Resume", type="primary", key="compare-go-on"):
            jobs.start(store, comparison)
            st.rerun()
        if owns():
            _more_menu(store, row)
    st.fragment(guarded()(_progress), run_every=1.0 if state == "running" else None)(store, comparison, state)


def _progress(store: Store, comparison: int, state: str) -> None:
    """Show the progress of the job, and the results that are complete so far."""
    job = jobs.status(store, comparison)
    if job["state"] != state:
        st.rerun()
    if job["state"] == "running":
        done, total = job["done"] or 0, job["total"]
        st.progress(min(1.0, done / total) if total else 0.0, _remaining(job))
    elif job["message"]:
        complain(f"It {STATES[state]}: {job['message']}")
    elif state in ("cancelled", "stopped"):
        note("It was stopped before its end. The finished part is kept; Resume runs the rest.")
    row = store.comparison(comparison)
    if row["lines"]:
        show_result(store, row)
    elif state == "running":
        note("Curves appear here as soon as the first of them is complete.")


def _remaining(job: Mapping[str, Any]) -> str:
    """Say how far a running job is, and how long it will take, or that it compiles."""
    if not job["total"]:
        return "Starting…"
    done = f"{job['done']:,} of {job['total']:,} replays"
    if job["remaining"] is not None:
        return f"{done}, about {_duration(job['remaining'])} left"
    passed = datetime.now(UTC) - datetime.fromisoformat(job["begun_at"])
    return f"{done}. {COMPILING.format(_duration(passed.total_seconds()))}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

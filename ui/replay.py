"""The player of a session: a Streamlit component (replay.js, replay.css) and the server's side of it; and another
algorithm beside the session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest
from typing import Any

import numpy as np
import streamlit as st

from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions import certainty, estimates, look_back, outcome, top_terms
from oal_engine.sessions.fold import Place, Run
from oal_engine.sessions.log import Entry, StoredQuestion

from . import charts, messages
from .components import component
from .items import Items
from .meanings import MEANINGS
from .metric_table import estimate_lines, metric_lines
from .page import complain, store, stored_settings

ESTIMATED = "Estimated from the answers and the chances with which they were asked, with intervals of 95 %."
SURPRISE = "A mistake made with a margin further from the threshold than those of half of the questions"

_mount = component("replay", ["dom.js", "page_exit.js", "replay.js"], ["explained.css", "card.css", "replay.css"])


@st.cache_resource(max_entries=8)
def player(session: int) -> Player:
    """The player of a session, opened once in this server process."""
    return Player(session)


class Player:
    """Says what a place of a session looks like; reads only, and follows what is answered elsewhere."""

    def __init__(self, session: int) -> None:
        self._open(session)

    def _open(self, session: int) -> None:
        """Run the log, and estimate the metrics along the stream where they are not known."""
        self.trace = trace = look_back.Trace(store(), session)
        self._shown = Items(trace)
        self._estimates = [] if trace.labelled else estimates.curve(trace)

    def refresh(self) -> None:
        """Run the log again where it has changed; Removed where the session is gone."""
        trace = self.trace
        stored_settings(trace.store, trace.id)
        if look_back.version(trace.store, trace.id) != trace.version:
            self._open(trace.id)

    @property
    def version(self) -> str:
        """What changes with every answer and every undo, and where the stream grows."""
        return f"{self.trace.id} of {self.trace.settings.created_at}: {tuple(self.trace.version)}"

    def log(self) -> dict[str, Any]:
        """All that the browser knows of a session without asking again."""
        trace = self.trace
        columns = {
            "margins": "margin", "probabilities": "probability", "draws": "draw", "predicted": "predicted",
            "labels": "label",
        }  # fmt: skip
        return {name: [getattr(entry, column) for entry in trace.log] for name, column in columns.items()} | {
            "rounds": [entry.round + 1 for entry in trace.log],
            "names": list(trace.names.items()),
            "multiclass": trace.multiclass,
            "labelled": trace.labelled,
            "theta": 0 if trace.multiclass else trace.settings.theta,
            "questions": len(trace.log),
            "steps": trace.steps,
            "reached": trace.reached,
            "mistakes": trace.mistakes,
            "surprises": trace.surprises,
            "surprise": SURPRISE,
            "evaluations": charts.NAMES if trace.labelled else {"answers": "answers"},
            "heads": ["Estimated" if self._estimates else "Up to here", *charts.NAMES.values()],
            "meanings": MEANINGS,
            "charts": [
                _drawn(chart) for chart in [*charts.estimated(trace, self._estimates), *charts.of_session(trace)]
            ],
            "note": self._note(),
            "end": f"The budget of {trace.state.budget:,} labels is spent"
            if trace.state.spent >= trace.state.budget
            else "The stream has ended",
        }

    def place(self, name: str) -> dict[str, Any] | None:
        """A place by its name: q and a question's number, or r and a round, both from 1; None where there is none."""
        trace, number = self.trace, int(name[1:])
        if name[0] == "q":
            return self._step(trace.step(number), number) if 1 <= number <= trace.steps else None
        if not 1 <= number <= trace.reached:
            return None
        return self._round(trace.round(number - 1))

    def _step(self, step: look_back.Step, number: int) -> dict[str, Any]:
        shown = self._tables(step.place.counts, number) | {
            "progress": vars(step.place.progress),
            "passed": vars(step.passed) | {"first": step.passed.first + 1},
            "moved": [[top_terms.term(self.trace, m.column), m.label, m.old, m.new] for m in step.moved],
        }
        if step.entry is None:
            result = self._shown.result(step.place.counts)
            return shown | {"item": None, "why": "The end of the session", "result": result}
        question = self._shown.question(step.entry.question(), step.place)
        return shown | {"item": question, "why": question["why"], "answered": _answered(step.entry)}

    def _round(self, passed: look_back.Round) -> dict[str, Any]:
        trace = self.trace
        asked = StoredQuestion(
            0, passed.number, passed.round, passed.item, passed.margin, passed.probability, passed.predicted, None
        )  # fmt: skip
        item = self._shown.question(asked, Place(asked, passed.progress, passed.weights, passed.counts))
        return self._tables(passed.counts, passed.number) | {
            "item": item,
            "why": f"Round {passed.round + 1:,} was passed without asking.",
            "progress": vars(passed.progress),
            "passed": None,
            "moved": [],
            "truth": int(trace.y[passed.item]),
            **{name: getattr(passed, name) for name in ("margin", "probability", "draw", "predicted")},
        }

    def _tables(self, counts: np.ndarray, number: int) -> dict[str, Any]:
        trace = self.trace
        if not trace.labelled:
            table = look_back.answers_confusion(trace, number)
            return {"tables": {"answers": table}, "figures": self._figures(int(counts.sum()))}
        tables = {name: look_back.confusion(trace, counts, name) for name in charts.NAMES}
        return {"tables": tables, "figures": metric_lines(trace, counts)}

    def _figures(self, rounds: int) -> list[tuple] | None:
        """The metrics as estimated after so many rounds; None where there is no estimate."""
        before = [each for t, _, each in self._estimates if t <= rounds]
        lines = estimate_lines(before[-1]) if before else []
        return lines or None

    def _note(self) -> str:
        """Why there are no figures, or what they are; and what is certain."""
        certain = certainty.of_session(self.trace)
        sure = f" {certain}" if certain else ""
        if self.trace.labelled:
            return sure.strip()
        now, late, _ = estimates.look(self.trace, 1)
        words = [
            ESTIMATED if self._estimates else None, outcome.last_quarter(late), now.reason,
            "The table is of the questions alone.",
        ]  # fmt: skip
        return f"{' '.join(filter(None, words))}{sure}"


def _answered(entry: Entry) -> str:
    """Who answered, when, and how fast."""
    if entry.answered_at is None:
        return ""
    when = f"{datetime.fromisoformat(entry.answered_at):%d %b %Y %H:%M:%S} UTC"
    by = [f"by {entry.annotator}"] if entry.annotator else []
    fast = [f"in {entry.seconds:g} s"] if entry.seconds is not None else []
    return " · ".join([*by, when, *fast])


def _drawn(chart: charts.Chart) -> dict[str, Any]:
    """A chart as the browser draws it."""
    traces = chart.figure["data"][len(chart.bands) :]
    lines = [
        {"name": name, "color": color, "x": [float(x) for x in trace["x"]], "y": [float(y) for y in trace["y"]],
         "band": [[float(y) for y in end] for end in band or ()]}
        for (name, color), trace, band in zip_longest(chart.legend, traces, chart.bands)
    ]  # fmt: skip
    highest = max((y for line in lines for y in line["y"]), default=0)
    kind = chart.figure["layout"]["yaxis"]["tickformat"]
    nice = (0.05, 0.1, 0.2, 0.5, 1) if kind != "d" else [k * 10**p for p in range(8) for k in (1, 2, 5)]
    return {
        "title": chart.title,
        "unit": chart.unit,
        "lines": lines,
        "end": max(1.0, *(line["x"][-1] for line in lines if line["x"])) if any(line["x"] for line in lines) else 1.0,
        "top": 1 if kind == ".2f" else next((top for top in nice if top >= highest), highest),
        "percent": kind == ".0%",
        "alt": chart.alt,
    }


def show(player: Player, start: int) -> None:
    """Mount a player, opened at a question; call it in a fragment."""
    player.refresh()
    key = f"replay-{player.trace.id}"
    try:
        view = messages.read(messages.Wanted, (st.session_state.get(key) or {}).get("view") or {})
    except messages.MessageError as error:
        complain(f"Not shown: {error}")
        view = messages.Wanted()
    names = view.want or [f"q{start}"]
    _mount(
        key=key,
        data={
            "session": player.trace.id,
            "version": player.version,
            "start": start,
            "log": None if view.known == player.version else player.log(),
            "places": {name: place for name in names if (place := player.place(name))},
        },
    )


# What if


@st.cache_resource(max_entries=20)
def what_if(session: int, version: str, chosen: dict[str, Any]) -> look_back.WhatIf:
    """Another algorithm, as `choose_strategy` gives it, over the stream of a session as it is at this version."""
    values = {key: value for key, value in chosen.items() if key != "parameters"}
    return look_back.what_if(player(session).trace, strategy(**values, values=chosen["parameters"]))


def compared(trace: Run, other: Run) -> Iterator[charts.Chart]:
    """The charts of a session with the lines of another algorithm drawn into them."""
    for own, new in zip(charts.of_session(trace), charts.of_session(other)):
        dashed = [
            line | {"name": f"other: {line['name']}", "line": line["line"] | {"dash": "4px 3px"}}
            for line in new.figure["data"]
        ]
        figure = own.figure | {"data": own.figure["data"] + dashed}
        legend = [*own.legend, ("dashed: the other", "transparent")]
        alt = f"{own.alt} The other algorithm: {new.alt}"
        yield charts.Chart(f"other-{own.key}", own.title, own.unit, legend, figure, alt, own.now)

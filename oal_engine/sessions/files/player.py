"""The player of a session: the content that the browser shows at each position (a question, or a round that asked
nothing), and a self-contained HTML page with all questions. Both are computed from the log."""

from datetime import datetime
from typing import Any

import numpy as np

from ...output import browser
from ...output.meanings import MEANINGS
from ...output.plots import NAMES
from .. import look_back
from ..insights import certainty, curves, estimates, outcome, top_terms
from ..items import SAVED, Items, Show
from ..labels import SKIP
from ..log import Entry
from ..one_question import OneQuestion
from ..state import ALL_ROUNDS, Place

ESTIMATED = "Estimated from the answers and the chances with which they were asked, with intervals of 95 %."
UNTIL_MISMATCH = "Shown up to the first mismatch."
KNOWN_ITEM = ": the label of its item is known"
WITHOUT = "Left out: this page was made without the texts."


class Player:
    """Read-only access to the content that the browser shows at each question, and at each round that asked nothing.

    whole: whether to show the model's margins and predictions even for items that may still be answered.
    """

    def __init__(self, trace: look_back.Trace, whole: bool = False) -> None:
        self._whole = whole
        self._open(trace)

    def _open(self, trace: look_back.Trace) -> None:
        """Load the trace to show, and estimate its metrics along the stream if the true labels are not known."""
        self.trace = trace
        self._items = Items(trace)
        self._estimates = [] if trace.labelled else estimates.curve(trace)

    def log(self) -> dict[str, Any]:
        """Return the JSON object that the browser keeps for the session, without the content of single positions."""
        trace = self.trace
        columns = {"margins": "margin", "probabilities": "probability", "draws": "draw", "predicted": "predicted"}
        charts = [*curves.estimated(trace, self._estimates), *curves.of_session(trace)]
        visible = [(entry, self._shows_opinion(entry)) for entry in trace.log]
        return {
            name: [getattr(e, column) if shows else None for e, shows in visible] for name, column in columns.items()
        } | {
            "labels": [entry.label for entry in trace.log],
            "rounds": [entry.round + 1 for entry in trace.log],
            "names": list(trace.names.items()),
            "multiclass": trace.multiclass,
            "labelled": trace.labelled,
            "theta": 0 if trace.multiclass else trace.settings.theta,
            "questions": len(trace.log),
            "steps": trace.steps,
            "reached": trace.reached,
            **({"begins": trace.span[0] + 1} if trace.span[0] else {}),
            "mistakes": trace.mistakes,
            "surprises": trace.surprises,
            "surprise": "A mistake whose margin was further from the threshold than half of all margins",
            "evaluations": NAMES if trace.labelled else {"answers": "answers"},
            "heads": ["Estimated" if self._estimates else "Up to here", *NAMES.values()],
            "meanings": MEANINGS,
            "charts": [chart.as_json() for chart in charts],
            "note": self._note(),
            "end": self._end(),
        }

    def _end(self) -> str:
        """Say why no question follows the last one."""
        trace = self.trace
        if trace.span[1] < ALL_ROUNDS[1]:
            return "The question was closed"
        if trace.state.spent >= trace.state.budget:
            return f"The budget of {trace.state.budget:,} labels is spent"
        return "The stream has ended"

    def place(self, name: str) -> dict[str, Any] | None:
        """Return the content of a position. name: "q" and the number of a question (q12), or "r" and the number of a
        round (r345), both counted from 1. None if it does not exist."""
        trace, number = self.trace, int(name[1:])
        if name[0] == "q":
            return self._step(trace.step(number), number) if 1 <= number <= trace.steps else None
        if not trace.span[0] < number <= trace.reached or trace.asked_in(number - 1):
            return None
        return self._round(*trace.round(number - 1))

    def _shows_opinion(self, entry: Entry) -> bool:
        """Return whether the model's margin and prediction for the item of a log entry may be shown."""
        state = self.trace.state
        return self._whole or bool(entry.label) or (entry.label == SKIP and state.spent >= state.budget)

    def _step(self, step: look_back.Step, number: int) -> dict[str, Any]:
        content = self._tables(step.place.counts, number) | {
            "progress": vars(step.place.progress),
            "passed": vars(step.passed) | {"first": step.passed.first + 1},
            "moved": [[top_terms.term(self.trace, m.column), m.label, m.old, m.new] for m in step.moved],
        }
        if step.entry is None:
            result = self._items.result(step.place.counts)
            return content | {"item": None, "why": "The end of the session", "result": result}
        show: Show = "everything" if self._shows_opinion(step.entry) else "item"
        question = self._items.question(step.entry.question(), step.place, show)
        return content | {"item": question, "why": question["why"], "answered": _answered(step.entry)}

    def _round(self, place: Place, draw: float) -> dict[str, Any]:
        assert place.asked
        decided = place.asked
        return self._tables(place.counts, decided.number) | {
            "item": self._items.question(decided, place, "everything"),
            "why": f"Round {decided.round + 1:,} was passed without asking{'' if decided.predicted else KNOWN_ITEM}.",
            "progress": vars(place.progress),
            "passed": None,
            "moved": [],
            "truth": int(self.trace.y[decided.item]),
            "margin": decided.margin,
            "probability": decided.probability,
            "draw": draw,
            "predicted": decided.predicted,
        }

    def _tables(self, counts: np.ndarray, number: int) -> dict[str, Any]:
        trace = self.trace
        if not trace.labelled:
            table = look_back.answers_confusion(trace, number)
            return {"tables": {"answers": table}, "figures": self._figures(int(counts.sum()))}
        tables = {name: look_back.confusion(trace, counts, name) for name in NAMES}
        return {"tables": tables, "figures": curves.metric_lines(trace, counts)}

    def _figures(self, rounds: int) -> list[tuple[Any, ...]] | None:
        """Return table rows of the metrics as estimated after `rounds` rounds; None if they cannot be estimated."""
        before = [each for t, _, each in self._estimates if t <= rounds]
        return curves.estimate_lines(before[-1]) or None if before else None

    def _note(self) -> str:
        """Explain the metrics that are shown, or why they are missing, and add their guaranteed minimum."""
        certain = certainty.of_session(self.trace)
        sure = f" {certain}" if certain else ""
        if self.trace.labelled:
            return sure.strip()
        now, late, _ = estimates.look(self.trace, 1)
        words = [
            ESTIMATED if self._estimates else None, outcome.last_quarter(late), now.reason,
            "The table covers the questions only.",
        ]  # fmt: skip
        return f"{' '.join(filter(None, words))}{sure}"


def _answered(entry: Entry) -> str:
    """Say who answered, when, and how fast."""
    if entry.answered_at is None:
        return ""
    when = f"{datetime.fromisoformat(entry.answered_at):%d %b %Y %H:%M:%S} UTC"
    by = [f"by {entry.annotator}"] if entry.annotator else []
    fast = [f"in {entry.seconds:.1f} s"] if entry.seconds is not None else []
    return " · ".join([*by, when, *fast])


def page(trace: look_back.Trace, texts: bool = False) -> bytes:
    """Return a self-contained HTML page that plays a session: each item that was asked about, and the curves up to it.
    It needs no server and no network, and does not name the annotators. Raise ValueError if nothing was asked yet.

    trace: the trace of a session, or of one question (`QuestionTrace`) if the session asks several about each item.
    texts: whether to include the items and the learned terms.
    """
    if not trace.steps:
        raise ValueError(f"{trace.title} has no question yet, so it has no page.")
    player, names = Player(trace, whole=True), [f"q{number}" for number in range(1, trace.steps + 1)]
    settings, count = trace.settings, len(trace.log)
    about = [
        f"{settings.algorithm} on {settings.dataset_name}: {count:,} question{'s' * (count != 1)} "
        f"in {trace.reached:,} of {trace.rounds:,} items. Made with OAL Studio, engine {settings.engine}.",
        *([trace.span_in_words] if isinstance(trace, OneQuestion) and trace.span_in_words else []),
        *([f"{trace.mismatch} {UNTIL_MISMATCH}"] if trace.mismatch else []),
    ]
    data = {
        "session": 0,
        "version": "",
        "start": {"number": 1},
        "log": player.log() | {"whole": True, "without": "" if texts else WITHOUT},
        "places": {name: _published(player.place(name), texts) for name in names},
    }
    return browser.page(browser.PLAYER, trace.title, about, data)


def _published(place: dict[str, Any] | None, texts: bool) -> dict[str, Any]:
    """Return the content of a position without the annotators, and without its item and terms unless `texts`."""
    assert place
    item, result = place["item"], place.get("result", "").removesuffix(SAVED).strip()
    if item and texts:
        item = {name: item[name] for name in ("title", "heading", "facts", "parts", "features")}
    elif item:
        item = {}
    return place | {"item": item, "moved": place["moved"] if texts else [], "answered": "", "result": result}

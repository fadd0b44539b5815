"""Advice on when to stop labeling; the session never stops by itself."""

import numpy as np
from numpy.typing import ArrayLike

from oal_engine.sessions.insights import top_terms
from oal_engine.sessions.log import Entry

from ...page import counted

LAST_SURPRISE = "Last confident mistake: {} ago."
NO_SURPRISE = "No confident mistake in {:,} labels."

CALM_LABELS = 50  # without a confident mistake before the hint; the metric is compared over the same number
FLAT = 0.01  # a smaller change of the metric counts as no change
METRICS = {False: ("f1", "F1"), True: ("accuracy", "Accuracy")}  # by whether there are K classes


Curve = tuple[ArrayLike, ArrayLike]  # rounds, and the value of the metric after each


def sentence(log: list[Entry], theta: float, title: str, curve: Curve | None = None) -> str:
    """Return the advice: the labels since the model's last confident mistake, the change of the metric called `title`,
    and a hint if more labels may change little."""
    answered = [entry for entry in log if entry.label]
    if len(answered) < CALM_LABELS:
        return f"Advice on stopping appears after {CALM_LABELS} labels."
    surprises = top_terms.surprises(log, theta)
    since = sum(entry.number > surprises[-1].number for entry in answered) if surprises else len(answered)
    advice = LAST_SURPRISE.format(counted(since, "label")) if surprises else NO_SURPRISE.format(since)
    moved = movement(*curve, answered[-CALM_LABELS].round) if curve else None
    if moved is not None:
        advice += f" {title} changed by {moved:.2f} over {CALM_LABELS} labels."
        if since >= CALM_LABELS and moved < FLAT:
            advice += " More labels may change little. This is only a hint: rare kinds of items can still appear."
    return advice


def movement(rounds: ArrayLike, values: ArrayLike, first: int) -> float | None:
    """Return the range (largest minus smallest value) of a curve after round `first`, or None if values are missing."""
    recent = np.asarray(values, dtype=float)[np.asarray(rounds) > first]
    return float(np.ptp(recent)) if recent.size > 1 and np.isfinite(recent).all() else None

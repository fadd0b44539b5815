"""Help with when to stop, in words: a hint, never a stop."""

import numpy as np
from numpy.typing import ArrayLike

from oal_engine.sessions.insights import top_terms
from oal_engine.sessions.log import Entry

CALM = 50  # labels over which the metric is looked at, and without a surprise that are worth a hint
FLAT = 0.01
METRICS = {False: ("f1", "F1"), True: ("accuracy", "Accuracy")}


Curve = tuple[ArrayLike, ArrayLike]  # rounds done, and the values then


def sentence(log: list[Entry], theta: float, title: str, curve: Curve | None = None) -> str:
    """When the model was last mistaken with confidence, how far a metric moved over the last CALM labels (curve: rounds
    done and its values then), and whether more labels may change little."""
    answered = [entry for entry in log if entry.label]
    if len(answered) < CALM:
        return f"Advice on stopping appears after {CALM} labels."
    surprises = top_terms.surprises(log, theta)
    since = sum(entry.number > surprises[-1].number for entry in answered) if surprises else len(answered)
    hint = f"Last confident mistake: {since:,} label{'s' * (since != 1)} ago."
    if not surprises:
        hint = f"No confident mistake in {since:,} labels."
    moved = movement(*curve, answered[-CALM].round) if curve else None
    if moved is not None:
        hint += f" {title} changed by {moved:.2f} over {CALM} labels."
    if since < CALM or moved is None or moved >= FLAT:
        return hint
    return f"{hint} More labels may change little, though rare kinds can still come: a hint, no more."


def movement(rounds: ArrayLike, values: ArrayLike, first: int) -> float | None:
    """How far the values of a curve lie apart from a round on; None where they are not all known."""
    recent = np.asarray(values, dtype=float)[np.asarray(rounds) > first]
    return float(np.ptp(recent)) if recent.size > 1 and np.isfinite(recent).all() else None

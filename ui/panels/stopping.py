"""Help with when to stop, in words: a hint, never a stop."""

import numpy as np

from oal_engine.sessions import top_terms

CALM = 50  # labels over which the metric is looked at, and without a surprise that are worth a hint
FLAT = 0.01
METRICS = {False: ("f1", "F1"), True: ("accuracy", "Accuracy")}


def sentence(log, theta, title, curve=None):
    """When the model was last mistaken with confidence, how far a metric moved over the last CALM labels (curve: rounds
    done and its values then), and whether more labels may change little."""
    given = [entry for entry in log if entry.label]
    if len(given) < CALM:
        return f"Advice on stopping appears after {CALM} labels."
    surprises = top_terms.surprises(log, theta)
    since = sum(entry.number > surprises[-1].number for entry in given) if surprises else len(given)
    told = f"Last confident mistake: {since:,} label{'s' * (since != 1)} ago."
    if not surprises:
        told = f"No confident mistake in {since:,} labels."
    moved = curve and movement(*curve, given[-CALM].round)
    if moved is not None:
        told += f" {title} changed by {moved:.2f} over {CALM} labels."
    if since < CALM or moved is None or moved >= FLAT:
        return told
    return f"{told} More labels may change little, though rare kinds can still come: a hint, no more."


def movement(rounds, values, first):
    """How far the values of a curve lie apart from a round on; None where they are not all known."""
    recent = np.asarray(values, dtype=float)[np.asarray(rounds) > first]
    return float(np.ptp(recent)) if recent.size > 1 and np.isfinite(recent).all() else None

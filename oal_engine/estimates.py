"""Estimates of a session's metrics without the truth: only their shape, until the estimates themselves are merged."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Estimate:
    """A value and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimates:
    """The estimated metrics by evaluation and name, or the reason why there are none."""

    positives: int
    needed: int = 20
    closed: int | None = None
    metrics: dict = field(default_factory=dict)
    reason: str | None = None


def of_session(session):
    """The estimates of a session as it is."""
    positives = session.labels.count(1)
    return Estimates(positives, reason=f"{positives} of 20 positives seen: sum and F1 are not estimated yet.")


def curve(session, points=60):
    """The estimates along the stream: (rounds, labels, {evaluation: {metric: Estimate or None}})."""
    return []

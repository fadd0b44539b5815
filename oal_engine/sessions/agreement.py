"""How far the people of a session agree, from the questions that a coin gave to two of them, and how far each agrees
with themselves, from those that a coin asked of them again.

An item that was asked for with probability pi stands for 1 / pi items of the stream, so that agreement is about the
stream and not about what the model picks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from .estimates import Estimate
from .log import Entry
from .session import Session

LEAST = 10  # pairs of answers of two people for a number
LEAST_AGAIN = 5  # of one person
RESAMPLES, TAIL = 2000, 2.5  # of the bootstrap, and percent of its distribution beyond each end of an interval


@dataclass(frozen=True)
class Twice:
    """A question that was answered twice, by two people or by the same one again: its entry in the log, the label first
    given, who gave the second answer, and that label."""

    entry: Entry
    first: int
    other: str
    second: int


@dataclass(frozen=True)
class Agreement:
    """What is known of some pairs of answers: how many they are, the share of the stream on which they agree, Cohen's
    kappa (1960) and Krippendorff's alpha (2004, nominal), each None with fewer than LEAST pairs or where all answers
    are of one class."""

    pairs: int
    same: Estimate | None
    kappa: Estimate | None
    alpha: Estimate | None


@dataclass(frozen=True)
class Person:
    """What somebody has done: labels that stand, second answers, late ones, the median of the seconds that an answer
    took, whether they have a question now, the answers given again, and the share of these that were the same (None
    with fewer than LEAST_AGAIN)."""

    name: str
    labels: int
    seconds: int
    late: int
    time: float | None
    here: bool
    again: int
    same: Estimate | None


def twice(session: Session, kind: str = "second") -> list[Twice]:
    """The questions that have two answers, none of them a skip, in the order of the second one. kind: second, of
    another person, or again, of the same one."""
    log = {entry.id: entry for entry in session.log}
    return [
        Twice(entry, entry.first, row["annotator"], row["label"])
        for row in session.store.opinions(session.id)
        if row["kind"] == kind and row["label"] and (entry := log.get(row["question"])) and entry.first
    ]


def of_pairs(pairs: Sequence[Twice]) -> Agreement:
    """How far the first and the second answers of some questions agree."""
    if len(pairs) < LEAST:
        return Agreement(len(pairs), None, None, None)
    labels = sorted({label for pair in pairs for label in (pair.first, pair.second)})
    cells = np.array([labels.index(pair.first) * len(labels) + labels.index(pair.second) for pair in pairs])
    weights = np.array([1 / pair.entry.probability for pair in pairs])
    resamples = np.random.default_rng(0).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), RESAMPLES)
    times = np.vstack([np.ones(len(pairs)), resamples])
    tables = (times * weights) @ np.eye(len(labels) ** 2)[cells]
    numbers = (times @ weights) ** 2 / (times @ weights**2)  # pairs of equal weight (Kish)
    tables = tables.reshape(-1, len(labels), len(labels)) / (times @ weights)[:, None, None]
    same = np.trace(tables, axis1=1, axis2=2)
    return Agreement(len(pairs), _estimate(same), _estimate(kappas(tables)), _estimate(alphas(tables, numbers)))


def kappas(tables: np.ndarray) -> np.ndarray:
    """Cohen's kappa of tables of shares, (n, K, K): a line a class of the first answer. NaN where chance explains
    all."""
    chance = (tables.sum(1) * tables.sum(2)).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = (np.trace(tables, axis1=1, axis2=2) - chance) / (1 - chance)
    return np.where(np.isclose(chance, 1), np.nan, found)


def alphas(tables: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Krippendorff's alpha of tables of shares, (n, K, K), that rest on so many pairs of equal weight."""
    shares, values = (tables.sum(1) + tables.sum(2)) / 2, 2 * numbers
    differ = (1 - (shares**2).sum(1)) * values / (values - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = 1 - (1 - np.trace(tables, axis1=1, axis2=2)) / differ
    return np.where(np.isclose(differ, 0), np.nan, found)


def _estimate(values: np.ndarray) -> Estimate | None:
    """The first value, with the percentiles of the others."""
    if np.isnan(values[0]):
        return None
    low, high = np.nanpercentile(values[1:], (TAIL, 100 - TAIL))
    return Estimate(float(values[0]), float(low), float(high))


def by_people(pairs: Sequence[Twice]) -> dict[tuple[str, str], Agreement]:
    """The agreement of every two people who have answered the same questions, by their names in order."""
    own = sorted((tuple(sorted((pair.entry.annotator or "", pair.other))), k) for k, pair in enumerate(pairs))
    return {
        (names[0], names[1]): of_pairs([pairs[k] for _, k in group])
        for names, group in groupby(own, key=lambda each: each[0])
    }


def differing(pairs: Sequence[Twice]) -> list[Twice]:
    """The questions whose two answers differ and where nobody has decided: no answer was corrected."""
    return [pair for pair in pairs if pair.first != pair.second and not pair.entry.corrected]


def consistency(pairs: Sequence[Twice]) -> Estimate | None:
    """The share of the questions that one person answered the same both times, with its interval (Wilson 1927)."""
    if len(pairs) < LEAST_AGAIN:
        return None
    from scipy.stats import binomtest

    found = binomtest(sum(pair.first == pair.second for pair in pairs), len(pairs))
    return Estimate(found.statistic, *found.proportion_ci(method="wilson"))


def people(session: Session) -> list[Person]:
    """Who has worked on a session, or is there now, by name."""
    log, opinions = session.log, session.store.opinions(session.id)
    times: dict[str, list[float]] = {}
    for entry in log:
        if entry.label is not None:
            own = times.setdefault(entry.annotator or "", [])
            own += [entry.seconds] if entry.seconds is not None else []
    labels = Counter(entry.annotator or "" for entry in log if entry.label)
    kinds = Counter((row["annotator"], row["kind"]) for row in opinions)
    again = twice(session, "again")
    here = session.present
    return [
        Person(
            name, labels[name], kinds[name, "second"], kinds[name, "late"],
            median(times[name]) if times.get(name) else None, name in here,
            len(pairs := [pair for pair in again if pair.other == name]), consistency(pairs),
        )
        for name in sorted({*times, *here, *(name for name, _ in kinds)})
    ]  # fmt: skip

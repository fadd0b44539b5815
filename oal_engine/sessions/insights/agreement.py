"""Inter-annotator agreement, from random questions that two people answered, and the consistency of each person, from
random questions that were repeated to them.

An item that was asked about with probability pi represents 1 / pi items of the stream, so that agreement is about the
stream and not about the model's choice.

Intervals rest on the effective number of pairs (Kish). The share of equal answers has Wilson's interval (1927). The
intervals of kappa and alpha are percentiles over tables drawn at random (Dirichlet) around the observed table with
ADDED pairs, because few pairs do not show every possible answer. docs/estimates.md reports their coverage.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from typing import Any

import numpy as np
import scipy

from ...kernel.estimates import TAIL, reduced
from ...kernel.spending import FIND
from ...store import now
from ..log import Entry
from ..one_question import OneQuestion
from ..session import Session
from .estimates import Estimate

LEAST = 10  # minimum number of pairs of answers by two people for an estimate
HOUR = timedelta(hours=1)
LEAST_AGAIN = 5  # minimum number of repeated answers of one person for an estimate
TABLES = 2000  # tables drawn for an interval
ADDED, ADDED_KAPPA = 2.0, 0.4  # pairs added to a table for its interval: their number, and kappa at equal classes


@dataclass(frozen=True)
class AnswerPair:
    """A question that was answered twice: its entry in the log, the first label and who gave it (`one`), and the second
    label and who gave it (`other`, who may be the same person). If the session asks several questions about each item,
    `first` and `second` are the labels of all questions that neither answer skipped."""

    entry: Entry
    one: str
    first: Any
    other: str
    second: Any


@dataclass(frozen=True)
class Agreement:
    """The agreement of pairs of answers.

    equal: number of pairs with equal answers. same: estimated share of the stream with equal answers. kappa: Cohen's
    kappa (1960). alpha: Krippendorff's alpha (2004, nominal). All three are missing (None) if there are fewer than
    LEAST pairs, kappa and alpha if all answers are of one class.
    """

    pairs: int
    equal: int
    same: Estimate | None
    kappa: Estimate | None
    alpha: Estimate | None


@dataclass(frozen=True)
class Person:
    """The work of one person. labels: number of current labels. seconds, late, again: numbers of second, late and
    repeated answers. time: median seconds per answer. minutes: total time of all answers. last_hour: number of labels
    in the last hour. here: whether they have a question now. same: share of the repeated answers with the same labels
    both times, apart from skips (None: fewer than LEAST_AGAIN)."""

    name: str
    labels: int
    seconds: int
    late: int
    time: float | None
    minutes: float
    last_hour: int
    here: bool
    again: int
    same: Estimate | None


def answer_pairs(run: Session | OneQuestion, kind: str = "second") -> list[AnswerPair]:
    """Return all pairs of answers to the same question, except skips, ordered by the later answer. If the session asks
    several questions about each item, a pair has the labels of all questions that neither answer skipped.

    kind: kind of the later answer, "second" (by another person) or "again" (by the same person).
    """
    log, pairs = {entry.id: entry for entry in run.log}, list[AnswerPair]()
    if run.settings.goal == FIND:  # whose questions, about a whole file, do not sample it: each counts alike
        log = {id: replace(entry, probability=1.0) for id, entry in log.items()}
    answers = dict[int, list[tuple[str, Sequence[int]]]]()
    for row in run.store.opinions(run.settings.id):
        if row["kind"] != kind or not (entry := log.get(row["question"])) or not entry.first:
            continue
        labels = row["labels"] or [row["label"]]
        labels = labels[run.part : run.part + 1] if isinstance(run, OneQuestion) else labels
        earlier = answers.setdefault(entry.id, [(row["first_annotator"], entry.firsts or [entry.first])])
        for who, before in earlier:
            if both := [pair for pair in zip(before, labels) if all(pair)]:
                first, second = zip(*both) if run.several else both[0]
                pairs.append(AnswerPair(entry, who, first, row["annotator"], second))
        earlier.append((row["annotator"], labels))
    return pairs


def by_question(session: Session, kind: str = "second") -> dict[str, list[AnswerPair]]:
    """Return {name of question: its pairs of answers}; {} for a single question. kind: as in `answer_pairs`."""
    return {name: answer_pairs(OneQuestion(session, name), kind) for name in session.settings.question_names}


def lowest(agreements: Mapping[str, Agreement]) -> str:
    """Return a sentence that names the question with the lowest kappa, or "" if the kappas do not differ."""
    values = {name: own.kappa for name, own in agreements.items() if own.kappa}
    name = min(values, key=lambda name: values[name].value, default="")
    differ = len({f"{each.value:.2f}" for each in values.values()}) > 1
    return f"Kappa is lowest for {name}: {values[name]}." if differ else ""


def one_each(pairs: Sequence[AnswerPair]) -> list[AnswerPair]:
    """Return the first pair of answers to each question: the pairs of a third person are not independent of it."""
    return [*{pair.entry.id: pair for pair in reversed(pairs)}.values()][::-1]


def of_pairs(pairs: Sequence[AnswerPair]) -> Agreement:
    """Compute the agreement of pairs of answers, each weighted by 1 / its question's asking probability."""
    equal = sum(pair.first == pair.second for pair in pairs)
    if len(pairs) < LEAST:
        return Agreement(len(pairs), equal, None, None, None)
    labels = sorted({label for pair in pairs for label in (pair.first, pair.second)})
    cells = np.array([labels.index(pair.first) * len(labels) + labels.index(pair.second) for pair in pairs])
    weights = np.array([1 / pair.entry.probability for pair in pairs])
    shares = np.bincount(cells, weights, len(labels) ** 2).reshape(len(labels), -1) / weights.sum()
    number = weights.sum() ** 2 / (weights**2).sum()  # effective number of pairs (Kish)
    number -= (1 - number / len(pairs)) * (number - float(reduced(number)))  # equal weights need no reduction
    same = 1.0 if equal == len(pairs) else float(np.trace(shares))
    return Agreement(len(pairs), equal, wilson(same, number), *of_table(shares, number))


def wilson(share: float, number: float) -> Estimate:
    """Return a share with Wilson's interval (1927). number: effective number of answers."""
    extra = scipy.special.ndtri(TAIL) ** 2 / number
    middle, half = share + extra / 2, np.sqrt(extra * share * (1 - share) + extra**2 / 4)
    low, high = np.clip(np.array([middle - half, middle + half]) / (1 + extra), 0, 1)
    return Estimate(share, float(low), float(high))


def of_table(shares: np.ndarray, number: float) -> tuple[Estimate | None, Estimate | None]:
    """Estimate kappa and alpha with their intervals from a table of shares, whose rows are the classes of the first
    answer and whose columns are the classes of the second. Return (None, None) if all answers are of one class. number:
    effective number of pairs."""
    classes = len(shares)
    added = ADDED * (ADDED_KAPPA * np.eye(classes) / classes + (1 - ADDED_KAPPA) / classes**2)
    drawn = np.random.default_rng(0).dirichlet((number * shares + added).ravel(), TABLES)
    tables = np.vstack([shares.reshape(1, -1), drawn]).reshape(-1, classes, classes)
    return _estimate(kappas(tables)), _estimate(alphas(tables, number))


def kappas(tables: np.ndarray) -> np.ndarray:
    """Compute Cohen's kappa of tables of shares, shape (n, K, K), with a row for each class of the first answer. NaN if
    the agreement expected by chance is 1."""
    chance = (tables.sum(1) * tables.sum(2)).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        values: np.ndarray = (np.trace(tables, axis1=1, axis2=2) - chance) / (1 - chance)
    return np.where(np.isclose(chance, 1), np.nan, values)


def alphas(tables: np.ndarray, number: float) -> np.ndarray:
    """Compute Krippendorff's alpha of tables of shares, shape (n, K, K). number: effective number of pairs."""
    shares, n_answers = (tables.sum(1) + tables.sum(2)) / 2, 2 * number
    differ = (1 - (shares**2).sum(1)) * n_answers / (n_answers - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        values: np.ndarray = 1 - (1 - np.trace(tables, axis1=1, axis2=2)) / differ
    return np.where(np.isclose(differ, 0), np.nan, values)


def _estimate(values: np.ndarray) -> Estimate | None:
    """Return the first value as an estimate, with quantiles of the others as its interval, widened to include the
    value. None if the value is NaN."""
    if np.isnan(values[0]):
        return None
    value, (low, high) = float(values[0]), np.nanquantile(values[1:], (TAIL, 1 - TAIL))
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def in_percent(share: Estimate) -> str:
    """Write a share with its interval in percent."""
    return f"{100 * share.value:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f} %)"


def in_words(agreement: Agreement) -> str:
    """Describe an agreement in sentences: first the count, then the share in the stream, then kappa and alpha."""
    items = f"{agreement.pairs:,} item{'s' * (agreement.pairs != 1)}"
    count = f"{agreement.equal:,} of {items} answered twice got the same answer."
    if agreement.same is None:
        return f"{count} The share in the whole stream is shown from {LEAST} items on."
    share = f"{count} In the whole stream it is {in_percent(agreement.same)}."
    if agreement.kappa is None:
        return f"{share} All answers are of one class: not enough to tell agreement from chance."
    beyond = f"kappa {agreement.kappa}, alpha {agreement.alpha}"
    return (
        f"{share} Beyond chance, from 0 (no more than chance) to 1 (always the same): {beyond}. In parentheses: 95 % "
        "intervals."
    )


def of_session(session: Session) -> str:
    """Describe in sentences how far the first two answers to each question of a session agree. If the session asks
    several questions about each item, each question is described."""
    pairs = one_each(answer_pairs(session))
    if not session.several:
        return in_words(of_pairs(pairs))
    agreements = {name: of_pairs(one_each(own)) for name, own in by_question(session).items()}
    shares = "; ".join(
        f"{name} {in_percent(own.same)}, kappa {own.kappa or 'unknown'}" for name, own in agreements.items() if own.same
    )
    sentence = f"Same answer in the whole stream and kappa, with 95 % intervals: {shares}." if shares else ""
    return " ".join(filter(None, (readings(len(pairs)), sentence, lowest(agreements))))


def readings(number: int) -> str:
    """Say how many items two people have read. A reading is one person's answers to all questions about an item."""
    return f"{number:,} reading{'s have' if number != 1 else ' has'} two answers."


def by_people(pairs: Sequence[AnswerPair]) -> dict[tuple[str, str], Agreement]:
    """Compute the agreement of every two people who answered the same questions, {(name, name): agreement}."""
    groups: dict[tuple[str, str], list[AnswerPair]] = {}
    for pair in pairs:
        if pair.one > pair.other:  # kappa depends on how often each person, not each turn, uses a class
            pair = AnswerPair(pair.entry, pair.other, pair.second, pair.one, pair.first)
        groups.setdefault((pair.one, pair.other), []).append(pair)
    return {names: of_pairs(own) for names, own in sorted(groups.items())}


def differing(pairs: Sequence[AnswerPair]) -> list[AnswerPair]:
    """Return one pair of differing answers for each question that has any and whose label nobody has corrected."""
    return one_each([pair for pair in pairs if pair.first != pair.second and not pair.entry.corrected])


def consistency(pairs: Sequence[AnswerPair]) -> Estimate | None:
    """Return the share of repeated questions that a person answered the same way both times, with its interval. None if
    there are fewer than LEAST_AGAIN pairs."""
    if len(pairs) < LEAST_AGAIN:
        return None
    return wilson(sum(pair.first == pair.second for pair in pairs) / len(pairs), len(pairs))


def people(session: Session) -> list[Person]:
    """Return the work of everybody who has answered in a session or has a question now, ordered by name."""
    log, opinions = session.log, session.store.opinions(session.id)
    times: dict[str, list[float]] = {}
    for entry in log:
        if entry.label is not None:
            own = times.setdefault(entry.annotator or "", [])
            own += [entry.seconds] if entry.seconds is not None else []
    labels = Counter(entry.annotator or "" for entry in log if entry.label)
    since = now(HOUR)
    recent = Counter(entry.annotator or "" for entry in log if entry.label and (entry.answered_at or "") >= since)
    kinds = Counter((row["annotator"], row["kind"]) for row in opinions)
    again = answer_pairs(session, "again")
    here = session.active_annotators
    return [
        Person(
            name, labels[name], kinds[name, "second"], kinds[name, "late"],
            median(times[name]) if times.get(name) else None, sum(times.get(name, ())) / 60, recent[name], name in here,
            len(pairs := [pair for pair in again if pair.other == name]), consistency(pairs),
        )
        for name in sorted({*times, *here, *(name for name, _ in kinds)})
    ]  # fmt: skip

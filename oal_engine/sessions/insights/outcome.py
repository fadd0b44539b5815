"""What a session has come to when it ends: what was found, how good it is, and what can be done next."""

from typing import NamedTuple

import numpy as np

from ...kernel import metrics, stream
from ...kernel.learners import linear
from ...kernel.query_rules import paceable
from ...output.plots import METRICS, NAMES, TITLES
from .. import model
from ..fold import Run
from ..session import Session
from . import certainty, estimates
from .curves import percent
from .estimates import Estimate, Estimates, jeffreys, reduced

FEWEST = 5  # positive answers: with fewer nothing is said of asking at random


def summary(session: Session) -> list[str]:
    """What a session has come to as it is now, in sentences: what was found, and how good it is."""
    found = []
    if not session.multiclass and linear(session.learner):
        found = of_session(session).sentences(session.settings.positive_name)
    certain = certainty.of_session(session)
    good = exact(session, session.place.counts) if session.labelled else _estimated(session)
    return [*found, good, *differing(session), *([str(certain)] if certain else [])]


def differing(run: Run) -> list[str]:
    """Return how many answers differ from the labels of the data, in a sentence; nothing where none does."""
    if not run.labelled:
        return []
    given = [(lesson.label, int(run.y[lesson.item])) for lesson in run.state.lessons if lesson.number and lesson.label]
    wrong = sum(label != true for label, true in given)
    those = f"{wrong:,} of {len(given):,} answers differ from the labels of the file"
    return [f"{those}; the figures count with those of the file."] if wrong else []


def exact(run: Run, counts: np.ndarray) -> str:
    """The first metrics of a table of counts in a sentence, where the labels of the data are known."""
    both = (
        " and ".join(f"{TITLES[metric]} {values[metric]:.3f}" for metric in METRICS[run.multiclass][:2])
        for values in (run.evaluate(counts, name) for name in metrics.EVALUATIONS)
    )
    return f"Over the stream: {', '.join(f'{words} under {name}' for words, name in zip(both, NAMES.values()))}."


def _estimated(session: Session) -> str:
    """The estimates of the first metrics with their intervals in a sentence, or what is missing for them."""
    (now, quarter, _), sentences = estimates.look(session, 1), []
    if now.known:
        until = "" if now.closed is None else f" up to item {now.closed + 1:,}"
        sentences.append(f"Estimated{until} with 95 % intervals: {_in_words(now)}.")
        if late := last_quarter(quarter):
            sentences.append(late)
        if until:
            sentences.append("The final model is probably better: it was still learning until then.")
    return " ".join([*sentences, *([now.reason] if now.reason else [])])


def _in_words(known: Estimates) -> str:
    """The first metrics of estimates with their intervals, as far as they are known."""
    shown = [metric for metric in METRICS[False][:2] if metric in known.known] or known.known  # of K classes: accuracy
    return ", ".join(
        " and ".join(f"{TITLES[metric]} {values[metric]}" for metric in shown) + f" under {NAMES[name]}"
        for name, values in known.metrics.items()
    )


def last_quarter(late: Estimates | None) -> str | None:
    """The estimates of the last quarter of what a session has passed in a sentence, where there are any."""
    return f"In the last quarter, from item {late.start + 1:,} on: {_in_words(late)}." if late and late.known else None


def next_steps(session: Session) -> list[str]:
    """What can be done next with a session, in sentences."""
    steps = []
    if session.place.progress.end and session.askable:
        steps.append(
            f"Add labels on the page Label, or with the command add-labels {session.id} 100: labeling continues at "
            f"item {session.rounds - session.askable + 1:,}, where the budget ran out."
        )
    if not (session.labelled or session.settings.audit):
        steps.append("To know how good the final model is, give a new session random checks: 25 % of its budget.")
    steps.append("The page Replay shows what each answer changed, and what another algorithm would have asked.")
    return steps


class Outcome(NamedTuple):
    """The labels given and the positives among them; the share of positives in the stream, exact (both ends are the
    value) where the data have it, else from the stored probabilities (None: it cannot be said); and for each round
    whether its item is in the list: answered as positive, or predicted positive by the model as it is now and not
    answered otherwise."""

    labels: int
    positives: int
    share: Estimate | None
    listed: np.ndarray

    def sentences(self, name: str) -> list[str]:
        """The same in sentences, for a positive class of this name."""
        if not self.labels:
            return []
        hits = f"{self.positives:,} of {self.labels:,} answers are {name} ({percent(self.positives / self.labels)})."
        if self.share is not None:
            value, low, high = self.share
            between = f"; 95 % interval: {percent(low)} to {percent(high)}" if low < high else ""
            hits += f" Random questions would have given about {self.labels * value:,.0f} ({percent(value)}{between})."
        return [hits, f"The list of positives has {self.listed.sum():,} of {self.listed.size:,} items."]


def of_session(session: Session) -> Outcome:
    """The outcome of a session as it is now; ModelError where its learner is not linear."""
    labels = np.array([(entry.round, entry.label, entry.probability) for entry in session.log if entry.label])
    asked, answers, chances = labels.reshape(-1, 3).T
    listed = _margins(session) >= session.settings.theta
    listed[asked.astype(int)] = answers > 0
    positives, share = int((answers > 0).sum()), None
    if session.labelled:
        share = Estimate(*[float((session.y > 0).mean())] * 3)
    elif positives >= FEWEST and session.settings.rule in paceable():
        share = _estimated_share(answers > 0, 1 / chances)
    return Outcome(answers.size, positives, share, listed)


def _estimated_share(positive: np.ndarray, weights: np.ndarray) -> Estimate:
    """Return the share of positives in a stream of which each answer stands for so many items (`weights`)."""
    share, number = np.average(positive, weights=weights), weights.sum() ** 2 / (weights**2).sum()
    return Estimate(float(share), *(float(end) for end in jeffreys(share, reduced(number))))


def _margins(session: Session) -> np.ndarray:
    """The margin of each round's item under the model as it is now."""
    made, order = model.of_session(session), session.order
    margins, predicted = np.empty(order.size), np.empty(order.size, np.int8)
    stream.predict_rounds(
        session.dataset.rows, order, made.learner, made.head["theta"], 0, order.size, margins, predicted
    )
    return margins + made.head["offset"]

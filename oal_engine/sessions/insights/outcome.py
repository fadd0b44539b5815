"""The outcome of a session in sentences: the positives found, the quality of the model, and possible next steps."""

from collections.abc import Callable, Iterator
from functools import wraps
from math import ceil, floor, sqrt
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ...kernel import metrics
from ...kernel.estimates import jeffreys, reduced, whole_items
from ...kernel.learners import linear
from ...kernel.query_rules import paceable
from ...kernel.spending import FIND, STREAM
from ...output.plots import METRICS, NAMES, OF_THE_LIST, TITLES
from .. import model
from ..fold import Run
from ..labels import SKIP
from ..one_question import OneQuestion, OtherColumn
from ..session import Session
from . import certainty, estimates, ranking
from .curves import percent
from .estimates import Estimate, Estimates
from .ranking import CAUTION, MOST_WORTH, Depth, Ranking, in_words

AUDITED = ("precision", "sensitivity", "f1")  # metrics of a list
JUDGED = (*AUDITED, "specificity")  # metrics of an audited column
MORE = 50  # number of additional answers whose benefit is stated
ENOUGH = 0.95  # share of the positives that was found at least, from which on more answers are not advised
FEWEST = 5  # positive answers: with fewer the comparison with random questions is left out
LEAST_WORTH = 5  # effective number of answers about a class: with fewer the share of it that is right is not stated
TOO_FEW = "too few answers"

Result = TypeVar("Result")


def summary(session: Session) -> list[str]:
    """Describe the positives that a session has found so far, and the quality of its model, in sentences."""
    positives = []
    if not session.multiclass and linear(session.learner):
        positives = of_session(session).sentences(session.settings.positive_name)
    certain = certainty.of_session(session)
    quality = []
    if session.settings.goal == STREAM or not positives:
        quality = [exact(session, session.place.counts) if session.labelled else _estimated(session)]
    return [
        *about_known_labels(session),
        *positives,
        *quality,
        *_right_in_file(session),
        *differing(session),
        *([str(certain)] if certain else []),
    ]


def table(session: Session) -> list[tuple[str, str]]:
    """Return table rows (name, value in words) on the positives found and the quality of the model. If the session asks
    several questions about each item, return the rows of `yeses`; if it audits a column, the rows of `audit`."""
    if session.settings.audited:
        (_, *names), *metrics_of = (figures := audit(session))[0]
        own = [(f"{key}: {name}", value) for key, *values in metrics_of for name, value in zip(names, values) if value]
        return [*own, *figures[1]]
    if session.several:
        return [*yeses(session)]
    lines = []
    if linear(session.learner):
        lines = of_file(session) if session.multiclass else of_session(session).lines(session.settings.positive_name)
    certain = certainty.of_session(session)
    return [*lines, *_metric_lines(session), *([("Guaranteed", str(certain))] if certain else [])]


def end(session: Session) -> list[tuple[str, str]]:
    """Return the two numbers with which a session ends, as table rows: how many positives were found, and the share of
    the list that is right; for several classes, the rows of `of_file`; for an audit, F1 before and after. Where they
    are unknown, return the rows of `table`."""
    if session.settings.audited:
        return [(f"{TITLES['f1']}: {name}", str(values["f1"] or "not yet")) for name, values in judged(session)]
    if session.several or not linear(session.learner):
        return table(session)
    if session.multiclass:
        return of_file(session)
    if not (now := finds(of_session(session).ranking)):
        return table(session)
    value, most = now.hits.value, _whole(now.total)
    about = "about " * (now.hits.low < now.hits.high)
    return [("Found", f"{about}{value:,.0f} of {most}"), ("Right in the list", now.depth.in_words[0])]


def lists(run: Session | OneQuestion) -> list[tuple[str, str]]:
    """Return the quality of the list as a head and rows of a table; [] if it is not known."""
    if run.multiclass or not linear(run.learner):
        return []
    ranking = of_session(run).ranking
    depths = ranking.depths([ranking.listed]) if ranking.listed else None
    return [("", "In the list"), *zip([TITLES[name] for name in AUDITED], depths[0].in_words)] if depths else []


def deciders(session: Session) -> dict[str, OneQuestion]:
    """Return {name on the page: run} for both deciders of an audit: the column alone, and a model starting from it."""
    return {words: OneQuestion(session, name) for name, words in session.settings.decider_names.items()}


def judged(session: Session) -> list[tuple[str, dict[str, Estimate | None]]]:
    """Estimate the quality of an audited column: alone, with the answers, and as the corrected column that can be
    downloaded; then that of the other judged columns. Return pairs (name, {metric: estimate, or None if there are too
    few answers}). The corrected column is estimated as a list, whose specificity is not."""
    runs = deciders(session)
    ranking = of_session(runs[list(runs)[-1]]).ranking
    depths = ranking.depths([ranking.listed]) if ranking.listed else None
    corrected: dict[str, Estimate | None] = dict(zip(AUDITED, depths[0][1:] if depths else [None] * 3))
    others = [(name, OtherColumn(session, name)) for name in session.settings.audited_columns[1:]]
    now = [(name, estimates.of_session(run).metrics["push"]) for name, run in [*runs.items(), *others]]
    columns = [(name, {metric: values[metric] for metric in JUDGED}) for name, values in now]
    return [*columns[: len(runs)], ("corrected column", corrected), *columns[len(runs) :]]


def audit(session: Session) -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return what `judged` estimates as a table with a row for each metric. Also return rows (name, value in words) on
    the number of positives and the benefit of more answers."""
    runs, now = deciders(session), judged(session)
    table: list[tuple[str, ...]] = [("Estimated", *(name for name, _ in now))]
    for metric in JUDGED:
        values = (str(each[metric] or "not yet") if metric in each else "" for _, each in now)
        table.append((TITLES[metric], *values))
    floors = [certainty.of_session(run) for run in runs.values()]
    bounds = [percent(each.recall) if each and each.says_something else "" for each in floors]
    if any(bounds):
        table.append(("Found, at least", *bounds, *[""] * (len(now) - len(bounds))))
    *_, both = runs.values()
    lines = []
    if counted := estimates.positives(both):
        number, items = counted
        words = f"{number.value:,.0f} ({number.low:,.0f} to {number.high:,.0f})"
        lines.append((f"{session.settings.positive_name} among {items:,} items", words))
    if best := now[1][1]["f1"]:
        half, answers = (best.high - best.low) / 2, session.state.spent
        worth = f"F1 to about ± {half * sqrt(answers / (answers + MORE)):.2f}, now ± {half:.2f}"
        lines.append((f"{MORE} more answers", worth))
    elif reason := estimates.of_session(both).reason:
        lines.append(("Quality", reason))
    return table, lines


def yeses(session: Session) -> Iterator[tuple[str, str]]:
    """Yield rows (name, value in words) for a session that asks several questions about each item: first the number of
    items with an answer or a known label, then for each question how many of its labels are yes."""
    readings = [lesson.labels for lesson in session.state.lessons if lesson.label != SKIP]
    yield "Readings", f"{len(readings):,}"
    for k, name in enumerate(session.settings.question_names):
        labels = [each[k] for each in readings if k < len(each) and each[k] != SKIP]
        yield name, f"{labels.count(1):,} yes of {len(labels):,}"


def _metric_lines(session: Session) -> Iterator[tuple[str, str]]:
    """Yield table rows (name, value in words) of the main metrics, exact or estimated; of the list alone in a file."""
    if session.settings.goal == FIND:
        return
    if session.labelled:
        for name in metrics.EVALUATIONS:
            values = session.evaluate(session.place.counts, name)
            for metric in METRICS[session.multiclass][:2]:
                yield f"{TITLES[metric]} under {NAMES[name]}", f"{values[metric]:.3f}"
        return
    now = estimates.look(session, 1)[0]
    until = "" if now.closed is None else f", up to item {now.closed + 1:,}"
    for name, values in now.metrics.items():
        for metric in _first(now):
            yield f"{TITLES[metric]} under {NAMES[name]}{until}", str(values[metric])
    if not now.available and now.reason:
        yield "Quality of the model", now.reason


def about_known_labels(run: Run) -> list[str]:
    """Say how many labels did not come from questions; return an empty list if none was."""
    if not (labels := [lesson.label for lesson in run.state.lessons if lesson.is_known and lesson.label]):
        return []
    positives = "" if run.multiclass else f" ({labels.count(1):,} {run.settings.positive_name})"
    return [
        f"{len(labels):,} labels were known or given in List{positives}. The figures are about the other "
        f"{run.rounds - len(labels):,} items."
    ]


def differing(run: Run) -> list[str]:
    """Say in a sentence how many answers differ from the labels of the data; return an empty list if none does."""
    if not run.labelled:
        return []
    pairs = [(lesson.label, int(run.y[lesson.item])) for lesson in run.state.lessons if lesson.number and lesson.label]
    wrong = sum(label != true for label, true in pairs)
    words = (
        f"{wrong:,} of {len(pairs):,} answers differ from the labels of the file; the figures use the file's labels."
    )
    return [words] if wrong else []


def exact(run: Run, counts: np.ndarray) -> str:
    """State the two main metrics of a table of counts in a sentence, for data whose labels are known."""
    both = (
        " and ".join(f"{TITLES[metric]} {values[metric]:.3f}" for metric in METRICS[run.multiclass][:2])
        for values in (run.evaluate(counts, name) for name in metrics.EVALUATIONS)
    )
    return f"Over the stream: {', '.join(f'{words} under {name}' for words, name in zip(both, NAMES.values()))}."


def _estimated(session: Session) -> str:
    """State the estimates of the main metrics with their intervals, or say which answers are missing for them."""
    (now, quarter, _), sentences = estimates.look(session, 1), []
    if now.available:
        until = "" if now.closed is None else f" up to item {now.closed + 1:,}"
        sentences.append(f"Estimated{until} with 95 % intervals: {_in_words(now)}.")
        if late := last_quarter(quarter):
            sentences.append(late)
        if until:
            sentences.append("The final model is probably better: it was still learning until then.")
    return " ".join([*sentences, *([now.reason] if now.reason else [])])


def _in_words(estimated: Estimates) -> str:
    """Write the main metrics that are estimated, with their intervals; with K classes the accuracy."""
    return ", ".join(
        " and ".join(f"{TITLES[metric]} {values[metric]}" for metric in _first(estimated)) + f" under {NAMES[name]}"
        for name, values in estimated.metrics.items()
    )


def _first(estimated: Estimates) -> list[str]:
    """Return the metrics to name first: the two main ones if they are estimated, else all estimated ones."""
    return [metric for metric in METRICS[False][:2] if metric in estimated.available] or estimated.available


def last_quarter(late: Estimates | None) -> str | None:
    """State the estimates of the last quarter of the passed rounds in a sentence; None if they are missing."""
    return (
        f"In the last quarter, from item {late.start + 1:,} on: {_in_words(late)}." if late and late.available else None
    )


def next_steps(session: Session) -> list[str]:
    """Suggest next steps with a session, in sentences."""
    steps = []
    in_file = session.settings.goal == FIND
    if session.place.progress.end and session.askable and in_file:
        steps.append(f"Add labels on the page Label, or with the command add-labels {session.id} 100.")
    elif session.place.progress.end and session.askable:
        steps.append(
            f"Add labels on the page Label, or with the command add-labels {session.id} 100: labeling continues at "
            f"item {session.next_round + 1:,}, where the budget ran out."
        )
    if not (session.labelled or session.settings.audit or in_file):
        steps.append("To know how good the final model is, give a new session random checks: 25 % of its budget.")
    steps.append("The page Replay shows what each answer changed, and what another algorithm would have asked.")
    return steps


class Finds(NamedTuple):
    """The list of positives so far, as numbers of items, each with its interval: the positives in it (`hits`), the
    positives that it lacks (`misses`), and all of them (`total`). depth: the quality of the list."""

    hits: Estimate
    misses: Estimate
    total: Estimate
    depth: Depth

    def sentences(self, recent: list[int], name: str) -> list[str]:
        """Say how many were found, how many more answers would meet, and how many stopping would miss. recent: the
        latest labels. name: name of the positive class."""
        about = "about " * (self.hits.low < self.hits.high)
        yes = round(MORE * recent.count(1) / max(1, len(recent)))
        right = self.depth.in_words[0]
        more = (
            f"{MORE} more answers would meet about {yes:,} more. Stopping here would miss {about}{_whole(self.misses)}."
        )
        if self.depth.recall.low >= ENOUGH or (self.misses.value < 1 and not yes):
            more = "You can stop here: more answers would change little."
        return [
            f"You have found {about}{self.hits.value:,.0f} of {_whole(self.total)} that are {name}; {right} of the "
            "list is right.",
            more,
        ]


def _whole(number: Estimate) -> str:
    """Write a number of items with its interval."""
    low, high = floor(number.low), ceil(number.high)
    return f"{number.value:,.0f}" + f" ({low:,} to {high:,})" * (low < high)


def finds(ranking: Ranking) -> Finds | None:
    """Return the present list as numbers of items; None without a list, or with too few answers."""
    depths = ranking.depths([ranking.listed]) if ranking.listed else None
    if not depths or not depths[0].recall.value:
        return None
    depth, sure = depths[0], int(ranking.positive.sum())
    most = ranking.rounds.size + ranking.missed
    hits = Estimate(*(ranking.listed * share for share in depth.precision))
    totals = [max(sure, min(most, hits.value / max(share, 1e-9))) for share in depth.recall]
    total = Estimate(totals[0], totals[2], totals[1])
    return Finds(hits, Estimate(*(max(0.0, each - hits.value) for each in total)), total, depth)


class Outcome(NamedTuple):
    """The result of a session.

    labels, positives: number of answers, and of positive ones. share: share of positives in the stream, exact (low =
    high) if the data has labels, else estimated (None: too few answers). listed: for each round, whether its item is in
    the list of positives: it has a positive label (an answer, a mark or a known label), or has none and is predicted
    positive by the current model. ranking: ranking of the items, the listed ones first.
    """

    labels: int
    positives: int
    share: Estimate | None
    listed: np.ndarray
    ranking: Ranking

    def sentences(self, name: str) -> list[str]:
        """Describe the result in sentences. name: name of the positive class."""
        if not self.labels:
            return []
        hits = f"{self.positives:,} of {self.labels:,} answers are {name} ({percent(self.positives / self.labels)})."
        if self.share is not None:
            value, low, high = self.share
            between = f"; 95 % interval: {percent(low)} to {percent(high)}" if low < high else ""
            hits += f" Random questions would have given about {self.labels * value:,.0f} ({percent(value)}{between})."
        listed = f"The list of positives has {self.ranking.listed:,} of {self.listed.size:,} items"
        depths = self.ranking.depths([self.ranking.listed]) if self.ranking.listed else None
        return [hits, f"{listed}: {depths[0].sentence}" if depths else f"{listed}."]

    def lines(self, name: str) -> list[tuple[str, str]]:
        """Return the result as table rows, (name, value in words). name: name of the positive class."""
        if not self.labels:
            return []
        lines = [(f"{name} among your answers", f"{self.positives:,} of {self.labels:,}")]
        if self.share is not None:
            value, low, high = self.share
            between = f" ({floor(self.labels * low):,} to {ceil(self.labels * high):,})" if low < high else ""
            lines.append(("Random questions would have given", f"about {self.labels * value:,.0f}{between}"))
        lines.append(("List of positives", f"{self.ranking.listed:,} of {self.listed.size:,} items"))
        if self.ranking.listed and (depths := self.ranking.depths([self.ranking.listed])):
            names = "Right in the list", "Found, of all", OF_THE_LIST.format(TITLES["f1"])
            lines += zip(names, depths[0].in_words)
        return lines


def _memory(compute: Callable[[Session | OneQuestion], Result]) -> Callable[[Session | OneQuestion], Result]:
    """Keep the result of a function of a session until the log or the stream of the session changes."""
    results = WeakKeyDictionary[Session | OneQuestion, tuple[tuple[int, int], Result]]()

    @wraps(compute)
    def result_of(session: Session | OneQuestion) -> Result:
        version = session.version, session.rounds
        earlier, result = results.get(session, (None, None))
        if result is None or earlier != version:
            result = compute(session)
            results[session] = version, result
        return result

    return result_of


@_memory
def of_session(session: Session | OneQuestion) -> Outcome:
    """Return the current outcome of a session. Raise ModelError if its learner is not linear."""
    answered = np.array([(entry.label, entry.probability) for entry in session.log if entry.label])
    answers, chances = answered.reshape(-1, 2).T
    margins = model.of_session(session).scores(session.dataset.rows)[session.order, 0]
    labels = ranking.labels_of(session)[session.order]
    listed = np.where(labels, labels > 0, margins >= session.settings.theta)
    positives, share = int((answers > 0).sum()), None
    if session.labelled:
        share = Estimate(*[float((np.delete(session.y, session.state.known_items) > 0).mean())] * 3)
    elif positives >= FEWEST and session.settings.rule in paceable() and session.settings.goal == STREAM:
        share = _estimated_share(answers > 0, 1 / chances)
    return Outcome(answers.size, positives, share, listed, ranking.of_session(session, listed))


def _estimated_share(positive: np.ndarray, weights: np.ndarray) -> Estimate:
    """Estimate the share of positives in a stream. weights: number of items that each answer represents."""
    share, number = np.average(positive, weights=weights), weights.sum() ** 2 / (weights**2).sum()
    return Estimate(float(share), *(float(end) for end in jeffreys(share, reduced(number))))


class OfClass(NamedTuple):
    """A class in the file that is taken home, which has the answers and, for all other items, the predictions of the
    current model. answered, predicted: numbers of items. right: share of them that is right (None: too few answers)."""

    name: str
    answered: int
    predicted: int
    right: Estimate | None

    @property
    def in_words(self) -> str:
        """The share that is right, with its interval; short, as its column is narrow on a phone."""
        return in_words(self.right).removeprefix("about ") if self.right else TOO_FEW


def of_file(session: Session | OneQuestion) -> list[tuple[str, str]]:
    """Return table rows on the file that is taken home from a session of several classes: the share of it that is
    right, and how many items were answered."""
    whole = of_classes(session)[0]
    items = f"{whole.answered:,} answered, {whole.predicted:,} predicted"
    return [("Right in the file", whole.in_words), ("Items", items)]


def _right_in_file(session: Session) -> list[str]:
    """Say which share of the file of several classes is right, once there are enough answers."""
    whole = of_classes(session)[0] if session.multiclass and linear(session.learner) else None
    if not whole or not whole.right:
        return []
    items = f"{whole.answered:,} items answered and {whole.predicted:,} predicted"
    return [f"Of the file with {items}, {whole.in_words} is right."]


@_memory
def of_classes(session: Session | OneQuestion) -> list[OfClass]:
    """Return the file that is taken home as a whole, and then each of its classes, the most frequent first. Raise
    ModelError if the learner is not linear."""
    fitted, order = model.of_session(session), session.order
    gaps, predicted = (each[order] for each in fitted.decided(fitted.scores(session.dataset.rows)))
    labels = ranking.labels_of(session)[order]
    left, right = np.where(labels, 0, predicted), labels > 0
    if session.labelled:
        right = labels == session.y[order]
        answers = np.zeros(0, int)
        chances, guesses, errors, worth = session.y[order] == predicted, answers, answers, answers
    else:
        answers, scores, worth = ranking.left_out(session)
        own_gaps, guesses = fitted.decided(scores)
        curve = ranking.fitted(own_gaps, guesses == answers, worth)
        chances, expected = ((curve.chances(each) if curve else np.zeros(each.size)) for each in (gaps, own_gaps))
        errors = (guesses == answers) - expected
    rows = []
    for label, name in {0: "All classes", **session.names}.items():
        answered, is_left, about = (each == label if label else each > 0 for each in (labels, left, guesses))
        share = _share(chances[is_left], errors[about], worth[about], session.labelled)
        sizes = int(answered.sum()), int(is_left.sum())
        sure = int(right[answered].sum())
        value = share and Estimate(*((sure + sizes[1] * each) / max(1, sum(sizes)) for each in share))
        rows.append(OfClass(name, *sizes, value))
    return [rows[0], *sorted(rows[1:], key=lambda row: -row.answered - row.predicted)]


def _share(chances: np.ndarray, errors: np.ndarray, worth: np.ndarray, is_exact: bool) -> Estimate | None:
    """Estimate the share of predictions that are right: the mean of their `chances`, corrected by the `errors` of these
    chances on answers, which represent `worth` items each. None if there are too few answers."""
    if is_exact or not chances.size:
        return Estimate(*[float(chances.mean()) if chances.size else 1.0] * 3)
    number = worth.sum() ** 2 / max((worth**2).sum(), 1e-9)
    if number < LEAST_WORTH:
        return None
    rate = np.clip(chances.mean() + np.average(errors, weights=worth), 0, 1)
    ends = whole_items(np.array(chances.size), *jeffreys(rate, reduced(min(number, MOST_WORTH) / CAUTION)))
    return Estimate(float(rate), *map(float, ends))

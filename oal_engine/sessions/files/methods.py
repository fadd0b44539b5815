"""Describe a session for the methods section of a paper: the questions, the learner, the people, the result, and how to
reproduce it. All numbers are computed from the session."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median
from typing import BinaryIO

from ...kernel.algorithms import ALGORITHMS, OWN
from ...kernel.certainty import RISK
from ...kernel.query_rules import leaves_out
from ...kernel.spending import CANDIDATES, FIND, STREAM
from ...output.tables import Format
from ...versions import versions
from ..insights import agreement, outcome
from ..insights.curves import percent
from ..log import Entry
from ..one_question import OneQuestion
from ..session import Session

ESTIMATES = (
    "Metrics were estimated from the answers, each weighted by the inverse of its probability, apart for items that "
    "were predicted positive and the others. The share of positives among the items not read has a Jeffreys interval "
    "with the effective number of answers (Korn and Graubard 1998); both intervals are combined by the recovery of "
    "variances (Zou and Donner 2008)."
)
OF_THE_LIST = (
    "The share of the list that is right, and the share of all positives that is in it, were estimated from the first "
    "answers and from the random ones: the chance of a positive is a logistic function, with two bends, of the margin "
    "under a model that was trained without the answer."
)
WHOLE_FILE = (
    "After {:,} labels, which were spread over the beginning, each question was about the item nearest to the decision "
    "threshold of all items that had not been asked, or of {:,} drawn from them; {} of these questions were about "
    "random items."
)
MARKUP = re.compile(r"[\\`*_\[\]<>#|&]")  # special characters of Markdown and HTML
NOT_IN_XML = re.compile("[\0-\x1f\ufffe\uffff]")
FLOORS = "The lower bounds hold at all looks at once, by Ville's inequality and the stored probabilities."


def paragraphs(session: Session) -> Iterator[str]:
    """Yield the paragraphs that describe a session."""
    log = [entry for entry in session.log if entry.label is not None]
    yield _items(session)
    yield _asked(session, log)
    yield _people(session, log)
    if session.several:
        for part in (OneQuestion(session, name) for name in session.settings.question_names):
            words = filter(None, (part.span_in_words, *outcome.summary(part)))  # type: ignore[arg-type]
            yield f"{session.settings.decider_names.get(part.name, part.name)}: {' '.join(words)}"
    else:
        yield " ".join(outcome.summary(session))
    yield _grounds(session)
    yield _again(session)


def lines(session: Session) -> list[str]:
    """Return the methods section about a session: its title and its paragraphs, one string each."""
    return [" ".join(line.split()) for line in (session.settings.name, *paragraphs(session))]


def markdown(session: Session) -> str:
    """Return the paragraphs as Markdown, under a title. Special characters are escaped: names are never markup."""
    return "# " + "\n\n".join(MARKUP.sub(r"\\\g<0>", line) for line in lines(session)) + "\n"


def _write_markdown(session: Session, file: BinaryIO) -> None:
    file.write(markdown(session).encode())


def _write_text(session: Session, file: BinaryIO) -> None:
    file.write(("\n\n".join(lines(session)) + "\n").encode())


def _write_word(session: Session, file: BinaryIO) -> None:
    from docx import Document

    title, *others = (NOT_IN_XML.sub("\ufffd", line) for line in lines(session))
    document = Document()
    document.add_heading(title)
    for line in others:
        document.add_paragraph(line)
    about = document.core_properties
    about.title, about.author, about.comments, about.created = title[:255], "", "", datetime.now(UTC)
    document.save(file)


FORMATS = {
    "markdown": Format((".md",), _write_markdown, "Markdown: for notebooks and web pages"),
    "word": Format((".docx",), _write_word, "Word: also for LibreOffice and Google Docs", True),
    "text": Format((".txt",), _write_text, "Plain text: for every program"),
}


def _items(session: Session) -> str:
    """Describe the data, the order of the items, the question, and the prior knowledge."""
    settings, progress = session.settings, session.place.progress
    order = f"in a random order (seed {settings.seed})" if settings.shuffled else "in the order of the file"
    what = f"whether they are {settings.positive_name} or {settings.negative_name}"
    if settings.audited:
        what += f", to audit the column {settings.audited['column']}, which they did not see"
    elif session.several:
        what = f"{len(settings.question_names)} yes/no questions ({', '.join(settings.question_names)})"
    elif session.multiclass:
        what = f"one of {len(session.names)} classes ({', '.join(session.names.values())})"
    began = f" {settings.all_priors}".rstrip()
    passed = f"; {progress.streamed:,} of them had passed" if settings.goal == STREAM else ""
    return (
        f"{progress.stream:,} items of {settings.dataset_name} came {order}{passed}. People were asked {what}.{began}"
    )


def _asked(session: Session, log: list[Entry]) -> str:
    """Name the learner, the rule, the budget and its parts, and count labels, skips and corrections."""
    settings, progress = session.settings, session.place.progress
    entry = ALGORITHMS.get(settings.algorithm)
    source = f" ({entry.paper})" if entry and entry.paper != OWN else ""
    parts = [
        f"{percent(share)} of the labels {words}"
        for share, words in (
            (settings.audit, "went to items drawn at random"),
            (settings.floor, "gave each item a minimum probability of being asked"),
        )
        if share
    ]
    plan, whole = session.state.plan, ""
    if plan and settings.goal == FIND:
        parts, whole = [], f" {WHOLE_FILE.format(plan.budget - plan.reserve, CANDIDATES, percent(plan.checks))}"
    skipped = f"; {progress.skipped:,} items were skipped" if progress.skipped else ""
    corrected = sum(entry.corrected for entry in log)
    return (
        f"An online learner chose which items to show: {settings.algorithm}{source}, with the learner "
        f"{settings.learner} and the rule {settings.rule}. The probability of showing an item was computed and stored "
        f"before the answer{', and was 0 for some' if leaves_out(settings.rule) else ''}; the model learned each "
        f"answer at once. "
        f"{progress.labels:,} of {progress.budget:,} labels were used{skipped}; {corrected:,} answers were corrected "
        f"later.{''.join(f' {each}.' for each in parts)}{whole}"
    )


def _people(session: Session, log: list[Entry]) -> str:
    """Say how many people answered, how fast, and how far two people agree."""
    names = {entry.annotator for entry in log if entry.annotator}
    seconds = [entry.seconds for entry in log if entry.seconds is not None]
    people = f"{len(names)} people" if len(names) > 1 else "One person"
    pace = f" in a median of {median(seconds):.1f} s" if seconds else ""
    pairs = agreement.answer_pairs(session) if session.settings.overlap else []
    agreed = f" {agreement.of_session(session)}" if pairs else ""
    events = session.store.events(session.id, "answered", "corrected")
    marked = sum(bool(event["data"].get("highlighted")) for event in events)
    exception = f", but in {marked:,} answers the terms that weigh most in it were highlighted" if marked else ""
    return f"{people} answered{pace}. The prediction was not shown before the answer{exception}.{agreed}"


def _grounds(session: Session) -> str:
    """Say how the metrics of the result were obtained: exactly, or as estimates."""
    names = [session.settings.question_names[k] for k in session.truth] if session.several else []
    only = f" of {', '.join(names)}" if 0 < len(names) < session.several else ""
    exact = f"The metrics{only} are exact: every item of the data had a label, which the session never saw."
    floor = f" {FLOORS} Their risk is {percent(RISK)}." if session.settings.floor else ""
    if session.labelled or (names and not only):
        return exact + floor
    estimates = OF_THE_LIST if session.settings.goal == FIND else ESTIMATES
    return (f"{exact} Of the others: {estimates}" if only else estimates) + floor


def _again(session: Session) -> str:
    """Say how to reproduce the session, and with which software versions."""
    software = ", ".join(f"{name} {version}" for name, version in versions().items())
    return (
        f"Every question and answer is in a log, from which the session can be rebuilt to the bit: verify "
        f"{session.id} does so, and publish {session.id} writes it for others. Software: OAL Studio ({software}); "
        f"seed {session.settings.seed}."
    )

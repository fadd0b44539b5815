"""The settings of a session: one frozen record, checked once when the session is made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any

from .. import __version__
from ..datasets import Dataset, prior
from ..datasets.given import BOTH, COLUMN, stored_column
from ..datasets.prior import Prior
from ..kernel import metrics, spending, stream
from ..kernel.algorithms import ALGORITHMS, Strategy, stored, strategy
from ..kernel.parameters import Values
from ..kernel.query_rules import leaves_out
from ..output.tables import SKIPPED
from ..store import Row, Store
from ..store.fields import SETTINGS
from .labels import (
    MOST_KNOWN,
    NEGATIVE,
    POSITIVE,
    SEEDS,
    SKIP,
    KnownLabels,
    SessionError,
    checked_questions,
    checked_tags,
    first_labels,
    labels_of_questions,
    plain,
    seeded,
    whole,
)

__all__ = ["MOST_KNOWN", "SKIP", "Options", "SessionError", "Settings", "checked_tags", "create", "labels_of_questions"]

MOST_CLASSES = 127
NEEDS = f"needs {{}}, which OAL Studio {__version__} does not have"
EXACT_ENGINES = "0.3.0", "1.0.0", __version__  # their logs are reproduced bit for bit; logs of others to rounding
SOME, NONE = "some", "none"  # the classes of a whole answer to several questions: with and without a yes


@dataclass(frozen=True)
class Settings:
    """The stored settings of a session. Only `owner`, `guidelines`, `feedback_trains` and `tags` may change later, and
    `questions` may grow.

    items: length of the stream when the session began; only this part may be shuffled. budget: number of labels,
    without labels added later. classes: names of the labels 1 .. K (None: a positive and a negative class). prior:
    source of the knowledge before the first answer (`Prior.source`), without the weights made from it. questions: a
    record for each question if the session asks several, with "added" if it was added later, and its own "prior" (None:
    a single question). audited: name, cut and checksum of the audited column (labels or scores made by something else),
    and `others`, the names of further columns to judge (None: no audit). An audit asks two questions, and the column is
    the first (`given.COLUMN`). For the other settings see `Options`.
    """

    id: int
    name: str
    dataset: int
    dataset_name: str
    items: int
    horizon: int
    algorithm: str
    learner: str
    rule: str
    parameters: dict[str, dict[str, float]]
    budget: int
    seed: int
    shuffled: bool
    positive_name: str
    negative_name: str
    classes: list[str] | None
    positive_class: str | None
    alpha_p: float
    c_p: float
    metric: str
    theta: float
    rho: float
    averaged: bool
    audit: float
    audit_trains: bool
    pace: float | None
    floor: float
    overlap: float
    people: int
    quota: int
    repeat: float
    lease: float
    owner: str
    guidelines: str
    feedback_trains: bool
    tags: list[str] | None
    questions: list[dict[str, Any]] | None
    audited: dict[str, Any] | None
    answer_each: bool
    goal: str
    prior: dict[str, Any] | None
    engine: str
    created_at: str

    @classmethod
    def read(cls, store: Store, session: int) -> "Settings":
        """Read the current settings of a session. Raise StoreError if it does not exist."""
        row = store.session(session)
        values: Row = {f.name: bool(row[f.name]) if f.type is bool else row[f.name] for f in fields(cls)}
        return cls(**values)

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each label, in the order on the page."""
        if self.classes:
            return dict(enumerate(self.classes, 1))
        return {POSITIVE: self.positive_name, NEGATIVE: self.negative_name}

    @cached_property
    def question_names(self) -> list[str]:
        """The names of the questions about each item; empty if the session asks a single question."""
        return [question["name"] for question in self.questions or ()]

    @property
    def audited_columns(self) -> list[str]:
        """The names of the audited column and the other judged columns. Seeing these would sway the annotators."""
        return [self.audited["column"], *self.audited["others"]] if self.audited else []

    @property
    def decider_names(self) -> dict[str, str]:
        """{name of the question: name on the page} for the two deciders of an audit: the audited column alone, and the
        model that begins with it."""
        return {COLUMN: self.audited["column"], BOTH: f"{self.audited['column']} + answers"} if self.audited else {}

    @property
    def plain_questions(self) -> list[dict[str, str]]:
        """The records of the questions about each item as they were given, without priors."""
        return plain(self.questions)

    @property
    def all_priors(self) -> str:
        """A description of the priors of the session or of its questions, in sentences; "" if there are none."""
        own = {f"{each['name']}: ": each["prior"] for each in self.questions or () if "prior" in each}
        own |= {"": self.prior} if self.prior else {}
        return " ".join(f"{name}{prior.described(source)}" for name, source in own.items())

    @cached_property
    def parents(self) -> list[int | None]:
        """The index of each question's parent, which needs a yes before it is asked; None without a parent."""
        return [self.place_of(name) if (name := each.get("parent")) else None for each in self.questions or ()]

    def implied(self, labels: Sequence[int], asked: Sequence[bool]) -> tuple[int, ...]:
        """Complete the labels of an answer: a question gets the label of its parent, unless the parent's label is a
        yes. asked: whether each question was asked about the item. A parent that was not asked is known to be a yes.
        Raise SessionError for a yes to a question whose parent has no yes."""
        own = list(labels)
        for k, (parent, label) in enumerate(zip(self.parents, labels)):
            if parent is None or not asked[k] or not asked[parent] or labels[parent] == POSITIVE:
                continue
            if label == POSITIVE:
                raise SessionError(f"a yes to {self.question_names[k]} needs a yes to {self.question_names[parent]}.")
            own[k] = labels[parent]
        return tuple(own)

    @property
    def all_guidelines(self) -> str:
        """The guidelines of the session, followed by the guidelines of each question."""
        own = (f"{each['name']}: {each['guidelines']}" for each in self.questions or () if each["guidelines"])
        return "\n\n".join(filter(None, (self.guidelines, *own)))

    def place_of(self, question: str | None) -> int:
        """Return the index of a question by its name. Raise SessionError if the session does not have it."""
        if question is None or question not in self.question_names:
            allowed = f"one of {', '.join(self.question_names)}" if self.questions else "left out: the session asks one"
            raise SessionError(f"the name of a question must be {allowed}. Got {question}.")
        return self.question_names.index(question)

    @cached_property
    def answers(self) -> dict[int | None, str | None]:
        """The name of each label, including SKIP, and None for a question without an answer."""
        return self.names | {SKIP: SKIPPED, None: None}

    @cached_property
    def weights(self) -> metrics.Weights:
        """The weights of positives and of misses in the metrics."""
        return metrics.Weights(self.alpha_p, self.c_p)

    @cached_property
    def strategy(self) -> Strategy:
        """The learner and the query rule with their parameters. Raise SessionError if this version lacks one."""
        learner, rule = (self.parameters.get(side) for side in ("learner", "rule"))
        if not (isinstance(learner, dict) and isinstance(rule, dict)):
            raise SessionError(f"the parameters of session {self.id} ({self.name}) are damaged.")
        if unknown := Strategy(self.algorithm, self.learner, self.rule, learner, rule, None).unknown:
            raise SessionError(f"session {self.id} ({self.name}) {NEEDS.format(unknown)}.")
        return stored(self.algorithm, self.learner, self.rule, self.parameters)

    @property
    def exact(self) -> bool:
        """Whether the log must be reproduced bit for bit."""
        return self.engine in EXACT_ENGINES

    def plan(self, budget: int | None = None, horizon: int | None = None) -> spending.Plan | None:
        """Plan how `budget` labels (None: the session's) are spent over `horizon` rounds (None: the session's). Return
        None if the query rule alone decides."""
        return spending.plan(
            self.rule, budget or self.budget, horizon or self.horizon, self.audit, self.audit_trains, self.pace,
            self.strategy.rule_parameters, self.floor, self.goal, self.prior is not None,
        )  # fmt: skip


def needs(row: Row) -> str | None:
    """Describe the learner or rule that a session needs and this version does not have. None if it has both."""
    unknown = Strategy(row["algorithm"], row["learner"], row["rule"], {}, {}, None).unknown
    return NEEDS.format(unknown) if unknown else None


@dataclass(frozen=True)
class Options:
    """The options of a new session, apart from its data set and its strategy.

    classes: names of K classes (empty: the data set's). positive_class: the positive class if the data set has K
    classes; only the exact curves use it, as a session never sees the labels of its data set.
    rho: weight of positives in training: a number, or 'laplace' (estimated from the answers). An algorithm may fix it.
    audit: share of the budget for random checks. audit_trains: whether the learner learns from the answers to them.
    pace: share of the horizon in which the rest of the budget is spent evenly (None: the rule alone decides).
    floor: share of the budget that gives every item a minimum probability of being asked (`insights.certainty`).
    overlap: share of the questions that several people answer. people: number of people who answer each of these.
    quota: most answers that one person may give (0: no limit). repeat: share of the questions that are repeated later
    to the person who answered them. lease: seconds after which a person's question may go to somebody else.
    horizon: number of rounds to plan for (None: the present items without a known label).
    seed_words, seed_items, seed_texts: words, item ids and example texts that are known to be of the positive class.
    prior: such knowledge, already prepared as a `Prior`.
    shown: further columns of the file to show with the items (None: the data set's choice). tags: names of tags that
    annotators can give to items.
    known_labels: labels that the session begins with, at no cost: "file" (all labels of a file that has gaps), a number
    (how many of the file's labels to draw), or the labels themselves.
    questions: several yes/no questions about each item, answered together as one answer (empty: one question). Each is
    a name, or {"name": ..., "guidelines": ..., "parent": ...}, which may include seeds or a prior of its own. A
    question with a parent (the name of another question) is asked only if the parent has a yes; else it gets the
    parent's label.
    answer_each: whether the card waits for an answer to each question; else a question without an answer is a no.
    goal: "stream" (a model for later items) or "find" (the items of a file: after the beginning, questions come from
    the whole of it).
    column: column of the file to audit, with labels or scores made by something else. Each answer judges two deciders:
    the column alone, and the algorithm, which begins with the column. cut: smallest score that counts as positive
    (`given.decided_column`). others: further columns to judge by the same answers.
    """

    budget: float = 300
    seed: float = 0
    shuffled: bool = False
    positive_name: str = "Relevant"
    negative_name: str = "Not relevant"
    classes: Sequence[str] | None = ()
    positive_class: str | None = None
    name: str | None = None
    weights: metrics.Weights = field(default=metrics.Weights())
    metric: str = "sum"
    theta: float = 0.0
    rho: float | str = "laplace"
    averaged: bool = False
    audit: float = 0.0
    audit_trains: bool = True
    pace: float | None = None
    floor: float = 0.0
    overlap: float = 0.0
    people: float = 2
    quota: float = 0
    repeat: float = 0.0
    lease: float = 300.0
    horizon: float | None = None
    owner: str = ""
    guidelines: str = ""
    seed_words: Sequence[str] = ()
    seed_items: Sequence[str] = ()
    seed_texts: Sequence[str] = ()
    prior: Prior | None = None
    shown: Sequence[str] | None = None
    tags: Sequence[str] | None = ()
    known_labels: str | float | KnownLabels | None = None
    questions: Sequence[str | Mapping[str, Any]] | None = ()
    answer_each: bool = False
    goal: str = spending.STREAM
    column: str | None = None
    cut: float | None = None
    others: Sequence[str] = ()


def create(
    store: Store, dataset: int | str, algorithm: str | None = None, *, learner: str | None = None,
    rule: str | None = None, parameters: Values = (), cap: bool = True, **options: Any,
) -> int:  # fmt: skip
    """Check and store the settings of a new session. Return its id. options: as in `Options`.

    cap: whether to lower a budget that is above both the number of items and `horizon`.
    """
    own = Options(**options)
    chosen = strategy(algorithm, learner, rule, parameters, len(own.questions or ()) > 1)
    _check(chosen, own)
    data, audited = store.dataset(dataset), None
    if own.column:
        audited = _audited(Dataset(store, data["id"]), own)
        own = replace(own, questions=(COLUMN, BOTH))
    questions = _questions(chosen, own)
    names = _names(chosen, own, data)
    chosen.build(data["features"], len(names["classes"]))
    budget, seed = whole(own.budget, "budget", 1), whole(own.seed, "seed", 0)
    begin_with = first_labels(store, data, names["classes"], own.known_labels, own.positive_class, questions, seed)
    left = data["items"] - sum(each.is_whole for each in begin_with.labels)
    horizon = left if own.horizon is None else whole(own.horizon, "horizon", 1)
    budget = int(capped(budget, max(horizon, left))) if cap else budget
    spending.plan(
        chosen.rule,
        budget,
        horizon,
        own.audit,
        own.audit_trains,
        own.pace,
        chosen.rule_parameters,
        own.floor,
        own.goal,
    )
    rho = chosen.known_rho(own.rho, own.weights, own.metric)
    seeds, priors = _priors(store, data["id"], chosen, own, questions)
    values = vars(own) | vars(own.weights) | names | {
        "name": (own.name or "").strip() or data["name"].strip(),
        "dataset": data["id"], "items": data["items"], "horizon": horizon,
        "algorithm": chosen.algorithm, "learner": chosen.learner, "rule": chosen.rule,
        "parameters": json.dumps({"learner": chosen.learner_parameters, "rule": chosen.rule_parameters}),
        "budget": budget, "seed": seed, "classes": json.dumps(names["classes"]) if names["classes"] else None,
        "overlap": float(own.overlap), "people": whole(own.people, "people", 2), "quota": whole(own.quota, "quota", 0),
        "repeat": float(own.repeat), "lease": float(own.lease),
        "theta": float(own.theta), "rho": stream.objective(own.theta, rho, own.weights.ratio("sum")).rho,
        "owner": own.owner.strip(), "prior": json.dumps(seeds.source) if seeds else None, "engine": __version__,
        "shown": None if own.shown is None else json.dumps(list(own.shown)),
        "tags": json.dumps(tags) if (tags := checked_tags(own.tags or ())) else None,
        "questions": json.dumps(questions) if questions else None,
        "audited": json.dumps(audited) if audited else None,
    }  # fmt: skip
    for key in ("weights", *SEEDS, "known_labels", "column", "cut", "others"):
        del values[key]
    with store.transaction():
        session = store.add_session(values, priors, begin_with.labels, begin_with.origin)
        store.check_settings(session, values.keys() & SETTINGS.keys())
    return session


def _priors(
    store: Store, dataset: int, chosen: Strategy, options: Options, questions: list[dict[str, Any]]
) -> tuple[Prior | None, dict[int, dict[int, float]]]:
    """Return the prior of a new session, and the weights of its learners, {index of the question: {column: weight}}.
    Replace the seeds of each of several questions by the source of its prior."""
    seeds = options.prior
    if options.seed_words or options.seed_items or options.seed_texts:
        data = Dataset(store, dataset)
        seeds = prior.make_prior(data, options.seed_words, options.seed_items, texts=options.seed_texts)
    if seeds and chosen.multiclass:
        raise SessionError("seed words, items and texts are for a positive and a negative class. Got several classes.")
    priors = {0: seeds.weights} if seeds else {}
    if any(question.keys() & {*SEEDS, "prior"} for question in questions):
        data = Dataset(store, dataset)
        for k, question in enumerate(questions):
            questions[k], own = seeded(data, question)
            priors |= {k: own.weights} if own else {}
    return seeds, priors


def _check(chosen: Strategy, options: Options) -> None:
    """Raise SessionError if an option is not allowed, whatever the data."""
    if not options.column and (options.cut is not None or options.others):
        raise SessionError("cut and others of a session are for a column that it audits. Got none.")
    if options.answer_each and (options.column or not options.questions):
        raise SessionError("answer_each is for a session of several questions. This one asks one.")
    if options.column and options.goal == spending.FIND:
        raise SessionError("an audit judges a column along a stream: its goal must be stream. Got find.")
    if options.averaged and options.goal == spending.FIND:
        raise SessionError("averaged weights are a mean along a stream: the goal must be stream. Got find.")
    if options.metric not in ("sum", "cost"):
        raise SessionError(f"metric must be sum or cost. Got {options.metric}.")
    if options.floor and chosen.multiclass:
        raise SessionError("a floor is for a positive and a negative class. Got several classes.")
    for name in ("overlap", "repeat"):
        if not 0 <= getattr(options, name) <= 1:
            raise SessionError(f"{name} of a session must be >= 0 and <= 1. Got {getattr(options, name)}.")
    if not 10 <= options.lease <= 86_400:
        raise SessionError(f"lease of a session must be >= 10 and <= 86,400 seconds. Got {options.lease}.")
    if options.rho == "auto":
        raise SessionError("rho must be a number > 0, or laplace. Got auto.")


def _audited(data: Dataset, options: Options) -> dict[str, Any]:
    """Check the column that a session is to audit. Return its name, its cut (the smallest positive score), its
    checksum, and the names of the other columns to judge."""
    column, cut = str(options.column), options.cut
    if options.questions:
        raise SessionError(f"a session audits a column or asks several questions. Got column {column} and questions.")
    if cut is not None and (isinstance(cut, bool) or not isinstance(cut, Real)):
        raise SessionError(f"cut must be a number. Got {cut}.")
    if visible := {*(data.columns.get("features") or data.feature_names or ())} & {column, *options.others}:
        raise SessionError(
            f"column {min(visible)} is one of the features of {data.name}, which annotators see: import the data "
            "without it among them."
        )
    cut = None if cut is None else float(cut)
    read = stored_column(data, column, None, cut, options.positive_name.strip())
    others = [stored_column(data, name, None, None, options.positive_name.strip()).name for name in options.others]
    return {"column": column, "cut": read.cut, "checksum": read.checksum, "others": others}


def _questions(chosen: Strategy, options: Options) -> list[dict[str, Any]]:
    """Check the questions about each item. Return them as records; [] if the session asks a single question."""
    if not options.questions:
        return []
    questions = checked_questions(options.questions)
    if leaves_out(chosen.rule):
        raise SessionError(f"several questions need a rule that gives every item a chance. Got {chosen.rule}.")
    excluded = {
        "several classes": chosen.multiclass or options.classes, "a positive class": options.positive_class,
        "averaged weights": options.averaged, "known labels": options.column and options.known_labels is not None,
        "seed words, items or texts": options.prior or options.seed_words or options.seed_items or options.seed_texts,
        "an overlap": options.column and options.overlap, "a repeat": options.column and options.repeat,
    }  # fmt: skip
    if unsupported := [name for name, value in excluded.items() if value]:
        kind = "that audits a column" if options.column else "of several questions"
        raise SessionError(f"a session {kind} cannot have {unsupported[0]}.")
    return questions


def stored_options(settings: Row) -> dict[str, Any]:
    """Return the keyword arguments with which `create` gives a new session the settings of a stored one."""
    ran = stored(settings["algorithm"], settings["learner"], settings["rule"], settings["parameters"])
    published = ALGORITHMS.get(ran.algorithm)
    asks_several = len(settings["questions"] or ()) > 1 and not settings["audited"]
    fixed = published.fixes(asks_several) if published else {}
    is_own = published and ran.tunes_itself and published.runs[:2] == (ran.learner, ran.rule)
    if is_own and any(ran.parameters[key] != value for key, value in fixed.items()):
        published, fixed = None, {}  # an earlier version fixed other values
    return {
        **({"algorithm": ran.algorithm} if published else {"learner": ran.learner, "rule": ran.rule}),
        **{option.name: settings[option.name] for option in fields(Options) if option.name in settings},
        "questions": [] if settings["audited"] else plain(settings["questions"]),
        **{key: value for key, value in (settings["audited"] or {}).items() if key != "checksum"},
        "parameters": {key: value for key, value in ran.parameters.items() if key not in fixed},
        "weights": metrics.Weights(settings["alpha_p"], settings["c_p"]),
    }


def _names(chosen: Strategy, options: Options, data: Row) -> Row:
    """Check and return the names of a positive and a negative class, or of K classes."""
    present, positive = list(data["classes"] or ()), options.positive_class
    if positive is not None and (chosen.multiclass or positive not in present):
        allowed = f"one of {', '.join(present)}" if present and not chosen.multiclass else "left out here"
        raise SessionError(f"positive_class must be {allowed}. Got {positive}.")
    if chosen.multiclass:
        if not (names := [name.strip() for name in options.classes or present]):
            raise SessionError(f"the data set {data['name']} has no classes of its own: name the classes to ask for.")
        if not 2 <= len(names) <= MOST_CLASSES or len(set(names)) < len(names) or not all(names):
            raise SessionError(f"a session needs 2 to {MOST_CLASSES} different class names. Got {', '.join(names)}.")
        return {"positive_name": "", "negative_name": "", "classes": names}
    if options.classes:
        raise SessionError(
            f"{chosen.algorithm} asks for a positive and a negative class. Got {len(options.classes)} classes."
        )
    several = options.questions and not options.column
    names = [SOME, NONE] if several else [options.positive_name.strip(), options.negative_name.strip()]
    if not all(names) or len(set(names)) < 2:
        raise SessionError("a session needs two different class names.")
    return {"positive_name": names[0], "negative_name": names[1], "classes": []}


def capped(budget: float, items: int) -> float:
    """Cap a budget at the number of items, or at 1 if there are no items."""
    return min(budget, max(1, items))


def capped_words(budget: int, items: int) -> str:
    """Say in a sentence that a budget is capped; "" if it is not."""
    if budget <= items:
        return ""
    return f"There are {items:,} items, so the budget is {capped(budget, items):,} labels, not {budget:,}."

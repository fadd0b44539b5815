"""The settings of a session: one frozen record, checked once when the session is made."""

import json
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from .. import __version__
from ..kernel import metrics, spending, stream
from ..kernel.algorithms import Strategy, strategy

POSITIVE, NEGATIVE, SKIP = 1, -1, 0
MOST_CLASSES = 127


class SessionError(ValueError):
    """An answer or a session that does not fit its log, in one sentence."""


@dataclass(frozen=True)
class Settings:
    """What a session was made with, as it is stored. `owner`, `guidelines` and `feedback_trains` may be changed later.

    items: the length of the stream when the session began, the part that is shuffled. horizon: the rounds that random
    checks and pacing plan for. audit: the share of the budget for random checks. pace: the share of the horizon in
    which the rest is spent evenly (None: as the rule wants). classes: the names in the order of the labels 1 .. K
    (None: a positive and a negative one). positive_class: the class of the data set that is the positive one.
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
    owner: str
    guidelines: str
    feedback_trains: bool
    engine: str
    created_at: str

    @classmethod
    def read(cls, store, session):
        """The settings of a session as they are stored now; StoreError where there is no such session."""
        row = store.session(session)
        return cls(**{f.name: bool(row[f.name]) if f.type is bool else row[f.name] for f in fields(cls)})

    @cached_property
    def names(self):
        """The words of each label, in the order in which they are offered."""
        if self.classes:
            return dict(enumerate(self.classes, 1))
        return {POSITIVE: self.positive_name, NEGATIVE: self.negative_name}

    @cached_property
    def weights(self):
        """What positives and mistakes weigh in the metrics."""
        return metrics.Weights(self.alpha_p, self.c_p)

    @cached_property
    def strategy(self):
        """The learner and the query rule with their parameters."""
        return Strategy(
            self.algorithm, self.learner, self.rule, self.parameters["learner"], self.parameters["rule"], None
        )

    @property
    def exact(self):
        """Whether this engine made the log, which is then reproduced bit for bit."""
        return self.engine == __version__

    def plan(self):
        """The plan of spending that the budget needs, or None."""
        return spending.plan(self.rule, self.budget, self.horizon, self.audit, self.audit_trains, self.pace)


def create(
    store,
    dataset,
    algorithm=None,
    *,
    learner=None,
    rule=None,
    parameters=(),
    budget=300,
    seed=0,
    shuffled=False,
    positive_name="Relevant",
    negative_name="Not relevant",
    classes=(),
    positive_class=None,
    name=None,
    weights=metrics.Weights(),
    metric="sum",
    theta=0.0,
    rho="laplace",
    averaged=False,
    audit=0.0,
    audit_trains=True,
    pace=None,
    horizon=None,
    owner="",
    guidelines="",
):
    """Check the settings and store a new session; its id.

    rho is 'laplace' (estimated from the labels given) or a number; what an algorithm fixes goes before. A multi-class
    algorithm asks for one of `classes` (names; the data set's own where there are none given). A session never uses the
    data set's own labels: they draw the exact curves and nothing else. Labels of K classes serve a session of two
    where positive_class says (by name) which is the positive one. audit: share of the budget for random checks up to
    the horizon (rounds; None: the stream as it is), whose answers teach only if audit_trains. pace: share of the
    horizon in which the rest is spent evenly (None: as the rule wants).
    """
    chosen = strategy(algorithm, learner, rule, parameters)
    about = store.dataset(dataset)
    own = list(about["classes"] or ())
    names = _names(classes or own, about) if chosen.multiclass else []
    if classes and not chosen.multiclass:
        raise SessionError(f"{chosen.algorithm} asks for a positive and a negative class. Got {len(classes)} classes.")
    if positive_class is not None and (chosen.multiclass or positive_class not in own):
        allowed = f"one of {', '.join(own)}" if own and not chosen.multiclass else "left out here"
        raise SessionError(f"positive_class must be {allowed}. Got {positive_class}.")
    chosen.build(about["features"], len(names))
    budget, seed = _whole(budget, "budget", 1), _whole(seed, "seed", 0)
    positive_name, negative_name = ("", "") if names else (positive_name.strip(), negative_name.strip())
    if not names and (not positive_name or not negative_name or positive_name == negative_name):
        raise SessionError("a session needs two different class names.")
    if metric not in ("sum", "cost"):
        raise SessionError(f"metric must be sum or cost. Got {metric}.")
    horizon = about["items"] if horizon is None else _whole(horizon, "horizon", 1)
    spending.plan(chosen.rule, budget, horizon, audit, audit_trains, pace)
    rho = stream.objective(theta, effective_rho(chosen, rho, weights, metric), weights.ratio("sum")).rho
    return store.add_session(
        {
            "name": (name or about["name"]).strip(),
            "dataset": about["id"],
            "items": about["items"],
            "horizon": horizon,
            "algorithm": chosen.algorithm,
            "learner": chosen.learner,
            "rule": chosen.rule,
            "parameters": json.dumps({"learner": chosen.learner_parameters, "rule": chosen.rule_parameters}),
            "budget": budget,
            "seed": seed,
            "shuffled": int(shuffled),
            "positive_name": positive_name,
            "negative_name": negative_name,
            "classes": json.dumps(names) if names else None,
            "positive_class": positive_class,
            "alpha_p": weights.alpha_p,
            "c_p": weights.c_p,
            "metric": metric,
            "theta": float(theta),
            "rho": rho,
            "averaged": int(averaged),
            "audit": float(audit),
            "audit_trains": int(audit_trains),
            "pace": None if pace is None else float(pace),
            "owner": owner.strip(),
            "guidelines": guidelines,
            "engine": __version__,
        }
    )


def effective_rho(chosen, rho, weights, metric):
    """The rho that a strategy runs with where no labels are known beforehand; 0 is Laplace's estimate."""
    if rho == "auto":
        raise SessionError("rho must be a number > 0, or laplace. Got auto.")
    return chosen.known_rho(rho, weights, metric)


def _names(classes, about):
    """The class names of a multi-class session, checked."""
    names = [name.strip() for name in classes]
    if not names:
        raise SessionError(f"the data set {about['name']} has no classes of its own: name those to ask for.")
    if not 2 <= len(names) <= MOST_CLASSES or len(set(names)) < len(names) or not all(names):
        raise SessionError(f"a session needs 2 to {MOST_CLASSES} different class names. Got {', '.join(names)}.")
    return names


def _whole(value, name, low):
    if not isinstance(value, (int, float, np.number)) or not low <= value < 2**53 or int(value) != value:
        raise SessionError(f"{name} of a session must be a whole number >= {low}. Got {value}.")
    return int(value)

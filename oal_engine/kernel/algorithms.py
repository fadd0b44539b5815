"""The published algorithms by name: a learner, a query rule, and the parameters that the paper fixes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .. import PLUGINS, did_you_mean
from . import learners, query_rules
from .learners import LEARNERS, Learner
from .metrics import Weights
from .parameters import Parameter, Values, checked, named, parameters
from .query_rules import QUERY_RULES

T = TypeVar("T")

OAAL = "Zhang, Yang, Srinivasan: Online asymmetric active learning with imbalanced data (KDD 2016)"
PAA = "Lu, Zhao, Hoi: Online passive-aggressive active learning (Machine Learning 2016)"
SEL = "Cesa-Bianchi, Gentile, Zaniboni: Worst-case analysis of selective sampling (JMLR 2006)"
CSOAL = "Zhao, Hoi: Cost-sensitive online active learning (KDD 2013)"
ACOG = "Zhao et al.: Adaptive cost-sensitive online classification (TKDE 2019)"
OA3 = "Zhang et al.: Online adaptive asymmetric active learning with limited budgets (TKDE 2021)"
SOAL = "Hao et al.: Second-order online active learning and its applications (TKDE 2018)"
DADA = "Zhai et al.: Online active classification via margin-based and feature-based label queries (ML 2022)"
ROSENBLATT = "Rosenblatt: The perceptron, a probabilistic model (Psychological Review 1958)"
ROMMA = "Li, Long: The relaxed online maximum margin algorithm (Machine Learning 2002)"
PASSIVE_AGGRESSIVE = "Crammer et al.: Online passive-aggressive algorithms (JMLR 2006)"
PAUM = "Li et al.: The perceptron algorithm with uneven margins (ICML 2002)"
AROW = "Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors (NIPS 2009)"
CW = "Dredze, Crammer, Pereira: Confidence-weighted linear classification (ICML 2008)"
EXACT = "Crammer, Dredze, Pereira: Exact convex confidence-weighted learning (NIPS 2008)"
OWN = "Nothing to tune; docs/auto.md says how it works"
COG = "Wang, Zhao, Hoi: Cost-sensitive online classification (TKDE 2014)"


# For `auto` with several questions: items are also read because of the other questions, so that a smaller share of the
# answers to each question is positive.
SEVERAL_QUESTIONS = {"exponent": 0.3, "few": 20.0, "visits": 10.0, "power": 2.0}


def _all_fixed(learner: str, **others: float) -> dict[str, float]:
    """Return the parameters that an algorithm fixes: the defaults of its learner and of the rule `paced`, overridden by
    `others`. Parameters with another recommended value for changing streams are omitted, so that users can set them."""
    specs = {
        name: spec for kind in (LEARNERS[learner], QUERY_RULES["paced"]) for name, spec in parameters(kind).items()
    }
    return {name: spec.default for name, spec in specs.items() if spec.drifting is None} | others


@dataclass(frozen=True)
class Algorithm:
    """A published algorithm: its learner and rule (by name), and its paper. fixed: parameter values that the paper
    sets. rho: weight of positives that the paper sets (None: the run decides). several: parameter values that replace
    the values in `fixed` if several questions are asked about each item. tunes: settings of the whole run, rho or
    theta, that the paper tunes as it tunes parameters."""

    learner: str
    rule: str
    paper: str
    fixed: dict[str, float] = field(default_factory=dict)
    rho: float | None = None
    several: dict[str, float] = field(default_factory=dict)
    tunes: tuple[str, ...] = ()

    def fixes(self, several: bool) -> dict[str, float]:
        """Return the fixed parameters. several: whether several questions are asked about each item."""
        return self.fixed | self.several if several else self.fixed

    @property
    def runs(self) -> tuple[str, str, dict[str, float], float | None]:
        """The learner, rule, fixed parameters and rho. Two algorithms for which these are equal are aliases."""
        return self.learner, self.rule, self.fixed, self.rho


ALGORITHMS = {
    "auto": Algorithm("pool-f1", "paced", OWN, _all_fixed("pool-f1", visits=30, power=16), several=SEVERAL_QUESTIONS),
    "auto-sum": Algorithm("dual", "paced", OWN, _all_fixed("dual", exponent=0.8)),
    "auto-classes": Algorithm("m-dual", "paced", OWN, _all_fixed("m-dual")),
    "OAAL": Algorithm("perceptron", "asymmetric", OAAL, tunes=("theta",)),
    "Q_A": Algorithm("perceptron", "asymmetric", OAAL, tunes=("theta",)),
    "Q_S": Algorithm("perceptron", "symmetric", OAAL, tunes=("theta",)),
    "Q_F": Algorithm("perceptron", "first", OAAL, tunes=("theta",)),
    "Q_R": Algorithm("perceptron", "random", OAAL, tunes=("theta",)),
    "Q_D": Algorithm("perceptron", "margin", OAAL, tunes=("theta",)),
    "CSOAL": Algorithm("cspaa", "symmetric", CSOAL, tunes=("rho",)),
    "CSPAA": Algorithm("cspaa", "symmetric", PAA, tunes=("rho",)),
    "CSPAA(a)": Algorithm("cspaa", "decaying", PAA, tunes=("rho",)),
    "CSRND": Algorithm("cspaa", "random", PAA, tunes=("rho",)),
    "PAA": Algorithm("pa", "symmetric", PAA),
    "PAA-I": Algorithm("pa-i", "symmetric", PAA),
    "PAA-II": Algorithm("pa-ii", "symmetric", PAA),
    "RPA": Algorithm("pa", "random", PAA),
    "RPA-I": Algorithm("pa-i", "random", PAA),
    "RPA-II": Algorithm("pa-ii", "random", PAA),
    "PEA": Algorithm("perceptron", "symmetric", PAA),
    "LEPE": Algorithm("perceptron", "symmetric", PAA),
    "RPE": Algorithm("perceptron", "random", PAA),
    "SEL-ada": Algorithm("perceptron", "error-adaptive", SEL),
    "SEL-2nd": Algorithm("sop", "symmetric", SEL),
    "SOP-diag": Algorithm("sop-diag", "symmetric", DADA),
    "OA3": Algorithm("acog-ii", "variance", OA3),
    "OA3-diag": Algorithm("acog-ii-diag", "variance", OA3),
    "SOA3": Algorithm("sacog-ii", "variance", OA3),
    "SSOA3": Algorithm("ssacog-ii", "variance", OA3),
    "SOAL": Algorithm("acog-ii", "variance", SOAL, rho=1.0),
    "SOAL-diag": Algorithm("acog-ii-diag", "variance", SOAL, rho=1.0),
    "SOAL-CS": Algorithm("acog-i", "variance", OA3),
    "D-ADA": Algorithm("ada-da", "discriminative", DADA, {"a": -1}),
    "D-AMD": Algorithm("ada-md", "discriminative", DADA, {"a": -1}),
    "D-ADA-I": Algorithm("ada-da", "discriminative", DADA, {"a": 1}),
    "D-AMD-I": Algorithm("ada-md", "discriminative", DADA, {"a": 1}),
    "M-ADA": Algorithm("ada-da", "discriminative", DADA, {"a": 0}),
    "M-AMD": Algorithm("ada-md", "discriminative", DADA, {"a": 0}),
    "R-ADA": Algorithm("ada-da", "random", DADA),
    "R-AMD": Algorithm("ada-md", "random", DADA),
    "DA": Algorithm("ada-da", "all", DADA),
    "MD": Algorithm("ada-md", "all", DADA),
    "MPEA": Algorithm("m-perceptron", "symmetric", PAA),
    "MPAA": Algorithm("m-pa", "symmetric", PAA),
    "MPAA-I": Algorithm("m-pa-i", "symmetric", PAA),
    "MPAA-II": Algorithm("m-pa-ii", "symmetric", PAA),
    "MRPE": Algorithm("m-perceptron", "random", PAA),
    "MRPA": Algorithm("m-pa", "random", PAA),
    "MRPA-I": Algorithm("m-pa-i", "random", PAA),
    "MRPA-II": Algorithm("m-pa-ii", "random", PAA),
    "MD-ADA": Algorithm("m-ada-da", "discriminative", DADA, {"a": -1}),
    "MD-AMD": Algorithm("m-ada-md", "discriminative", DADA, {"a": -1}),
    "MD-ADA-I": Algorithm("m-ada-da", "discriminative", DADA, {"a": 1}),
    "MD-AMD-I": Algorithm("m-ada-md", "discriminative", DADA, {"a": 1}),
    "MM-ADA": Algorithm("m-ada-da", "discriminative", DADA, {"a": 0}),
    "MM-AMD": Algorithm("m-ada-md", "discriminative", DADA, {"a": 0}),
    "MR-ADA": Algorithm("m-ada-da", "random", DADA),
    "MR-AMD": Algorithm("m-ada-md", "random", DADA),
    "MDA": Algorithm("m-ada-da", "all", DADA),
    "MMD": Algorithm("m-ada-md", "all", DADA),
    "Perceptron": Algorithm("perceptron", "all", ROSENBLATT),
    "ROMMA": Algorithm("romma", "all", ROMMA),
    "PA": Algorithm("pa", "all", PASSIVE_AGGRESSIVE),
    "PA-I": Algorithm("pa-i", "all", PASSIVE_AGGRESSIVE),
    "PA-II": Algorithm("pa-ii", "all", PASSIVE_AGGRESSIVE),
    "PAUM": Algorithm("paum", "all", PAUM),
    "CPA": Algorithm("cpa-pb", "all", PASSIVE_AGGRESSIVE),
    "AROW": Algorithm("arow", "all", AROW),
    "CW": Algorithm("cw-variance", "all", CW),
    "CW-diag": Algorithm("cw-exact", "all", EXACT),
    "COG-I": Algorithm("cog-i", "all", COG),
    "COG-II": Algorithm("cog-ii", "all", COG),
    "ACOG-I": Algorithm("acog-i", "all", ACOG),
    "ACOG-II": Algorithm("acog-ii", "all", ACOG),
    "ACOG-I-diag": Algorithm("acog-i-diag", "all", ACOG),
    "ACOG-II-diag": Algorithm("acog-ii-diag", "all", ACOG),
    "SACOG-I": Algorithm("sacog-i", "all", ACOG),
    "SACOG-II": Algorithm("sacog-ii", "all", ACOG),
    "SSACOG-I": Algorithm("ssacog-i", "all", ACOG),
    "SSACOG-II": Algorithm("ssacog-ii", "all", ACOG),
}


@dataclass(frozen=True)
class Strategy:
    """A learner and a query rule with all their parameters: the part of a session or replay that decides and learns."""

    algorithm: str
    learner: str
    rule: str
    learner_parameters: dict[str, float]
    rule_parameters: dict[str, float]
    rho: float | None

    @property
    def tunes_itself(self) -> bool:
        """Whether this is one of the project's own algorithms, such as `auto`, which need no tuning."""
        return self.algorithm in ALGORITHMS and ALGORITHMS[self.algorithm].paper == OWN

    @property
    def tunes(self) -> tuple[str, ...]:
        """The settings of the whole run, rho or theta, that are tuned together with the parameters."""
        return ALGORITHMS[self.algorithm].tunes if self.algorithm in ALGORITHMS else ()

    @property
    def multiclass(self) -> bool:
        """Whether the learner distinguishes K classes instead of -1 and +1."""
        return learners.is_multiclass(self.learner)

    @property
    def unknown(self) -> str | None:
        """A description of the first learner, rule or parameter that does not exist in this version, or None. A stored
        strategy may come from another version."""
        sides = (
            ("learner", self.learner, LEARNERS, self.learner_parameters),
            ("rule", self.rule, QUERY_RULES, self.rule_parameters),
        )
        for side, name, registry, values in sides:
            if name not in registry:
                return f"the {side} {name}"
            if extra := values.keys() - parameters(registry[name]).keys():
                return f"the parameter {min(extra)} of the {side} {name}"
        return None

    def build(self, features: int, classes: int = 0) -> tuple[Learner, NamedTuple]:
        """Build the untrained learner and the rule. features: number of columns of the rows. classes: number of classes
        of a multi-class learner."""
        return (
            learners.build(self.learner, features, self.learner_parameters, classes),
            query_rules.build(self.rule, self.learner, self.rule_parameters),
        )

    @property
    def parameters(self) -> dict[str, float]:
        """All parameters by key: the name, or learner.NAME and rule.NAME if the learner and the rule share a name."""
        return _merge(self.learner_parameters, self.rule_parameters)

    def known_rho(self, rho: float | str, weights: Weights, metric: str, y: ArrayLike = ()) -> float:
        """Return the weight of positives in a run; 0 means that the run estimates it from the label counts (`laplace`).

        A rho that the paper fixes takes precedence over `rho`; otherwise a multi-class learner gets 1. `auto` is the
        ratio of negatives to positives in the labels y, times the weight ratio of the metric. For the metric `cost`,
        `auto` and `laplace` are the weight ratio alone.
        """
        ratio = weights.ratio(metric)
        if self.rho is not None or self.multiclass:
            return self.rho or 1.0
        if rho in ("auto", "laplace") and metric == "cost":
            return ratio
        if rho == "auto":
            positives, negatives = (int((np.asarray(y) == label).sum()) for label in (1, -1))
            if not positives or not negatives:
                raise ValueError("rho auto needs items of both classes. Use rho laplace or a number.")
            return ratio * negatives / positives
        try:
            return 0.0 if rho == "laplace" else float(rho)
        except (TypeError, ValueError):
            raise ValueError(f"rho must be auto, laplace or a number. Got {rho}.") from None


def _merge(of_learner: Mapping[str, T], of_rule: Mapping[str, T]) -> dict[str, T]:
    both = of_learner.keys() & of_rule.keys()
    sides = (("learner", of_learner), ("rule", of_rule))
    return {f"{side}.{name}" if name in both else name: value for side, part in sides for name, value in part.items()}


def stored(algorithm: str, learner: str, rule: str, values: Mapping[str, Mapping[str, float]]) -> Strategy:
    """Rebuild a stored strategy. Parameters that did not exist when it was stored get their defaults, with which a
    learner or rule must behave as it did then."""
    kinds = LEARNERS[named(LEARNERS, learner, "learner")], QUERY_RULES[named(QUERY_RULES, rule, "rule")]
    own, of_rule = checked(kinds[0], learner, values["learner"]), checked(kinds[1], rule, values["rule"])
    return Strategy(algorithm, learner, rule, own, of_rule, None)


def alias_of(name: str) -> str | None:
    """Return the first algorithm that has the same learner, rule, parameters and rho as `name`, or None if it is
    `name`."""
    first = next(other for other, entry in ALGORITHMS.items() if entry.runs == ALGORITHMS[name].runs)
    return None if first == name else first


def declared(learner: str, rule: str) -> dict[str, Parameter]:
    """Return the parameters that a learner and a rule declare, by the same keys as `Strategy.parameters`."""
    return _merge(parameters(LEARNERS[learner]), parameters(QUERY_RULES[rule]))


def drifting(learner: str, rule: str) -> dict[str, float]:
    """Return the parameter values that are recommended for streams that change: {key: value}. Others are omitted."""
    specs = declared(learner, rule).items()
    return {name: spec.drifting for name, spec in specs if spec.drifting is not None}


def strategy(
    algorithm: str | None = None,
    learner: str | None = None,
    rule: str | None = None,
    values: Values = (),
    several: bool = False,
) -> Strategy:
    """Build a strategy from the name of a published algorithm, or from a learner and a rule.

    values: parameters to set, by key. A key is the parameter's name, or learner.NAME or rule.NAME if the learner and
    the rule share the name. For a rule with delta_plus and delta_minus but no delta, the key `delta` sets both (as SOAL
    does). several: whether several questions are asked about each item.
    """
    fixed: dict[str, float] = {}
    rho = None
    if algorithm:
        if learner or rule:
            raise ValueError(
                f"a strategy is {algorithm}, or a learner and a rule, not both. Got {learner or rule} too."
            )
        algorithm = named(ALGORITHMS, algorithm, "algorithm")
        entry = ALGORITHMS[algorithm]
        learner, rule, fixed, rho = entry.learner, entry.rule, entry.fixes(several), entry.rho
    elif not (learner and rule):
        raise ValueError("a strategy needs the name of an algorithm, or of a learner and a rule.")
    learner, rule = named(LEARNERS, learner, "learner"), named(QUERY_RULES, rule, "rule")
    name = algorithm or f"{learner} + {rule}"
    settings, keys = dict(values), declared(learner, rule)
    if "delta" in settings and "delta" not in keys and {"delta_plus", "delta_minus"} <= keys.keys():
        delta = settings.pop("delta")
        settings = {"delta_plus": delta, "delta_minus": delta} | settings
    declared_by = {"learner": parameters(LEARNERS[learner]), "rule": parameters(QUERY_RULES[rule])}
    sides: dict[str, dict[str, float | str]] = {
        side: {key: value for key, value in fixed.items() if key in allowed} for side, allowed in declared_by.items()
    }
    for key, value in settings.items():
        prefix, _, parameter = key.rpartition(".")
        owners = [side for side, allowed in declared_by.items() if parameter in allowed and prefix in ("", side)]
        if not owners:
            allowed = ", ".join(keys) or "none"
            raise ValueError(f"{name} has no parameter {key}. It has {allowed}.{did_you_mean(key, keys)}")
        if len(owners) > 1:
            raise ValueError(f"{key} is a parameter of {learner} and of {rule}. Say learner.{key} or rule.{key}.")
        if parameter in fixed and float(value) != fixed[parameter]:
            raise ValueError(f"{parameter} of {name} is fixed at {fixed[parameter]:g}. Got {value}.")
        sides[owners[0]][parameter] = value
    query_rules.build(rule, learner)
    return Strategy(
        name,
        learner,
        rule,
        checked(LEARNERS[learner], learner, sides["learner"]),
        checked(QUERY_RULES[rule], rule, sides["rule"]),
        rho,
    )


def _add_plugin(name: str) -> None:
    """Import a plugin, a module outside the engine, and register its learners, query rules and algorithms. Raise
    ValueError if it cannot be imported, defines none of them, or uses an existing name."""
    try:
        module = import_module(name)
    except ImportError as error:
        raise ValueError(f"OAL_PLUGINS names {name}, which cannot be imported: {error}.") from None
    registries: dict[str, dict[str, Any]] = {
        "LEARNERS": LEARNERS, "QUERY_RULES": QUERY_RULES, "ALGORITHMS": ALGORITHMS
    }  # fmt: skip
    if not any(hasattr(module, registry) for registry in registries):
        raise ValueError(f"the plugin {name} must define LEARNERS, QUERY_RULES or ALGORITHMS. It has none of them yet.")
    for registry, ours in registries.items():
        theirs = getattr(module, registry, {})
        if both := ours.keys() & theirs.keys():
            raise ValueError(f"{min(both)} in {registry} of the plugin {name} exists already: choose another name.")
        ours.update(theirs)


for plugin in PLUGINS:  # here, because every process imports this module before it looks up a name
    _add_plugin(plugin)

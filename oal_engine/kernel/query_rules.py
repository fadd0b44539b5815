"""Query rules: the probability of asking for the label of a row, given its margin.

A rule is a named tuple of parameters. Its method `probability(self, learner, x, p, v, rho, theta, t)` returns pi_t of
round t (from 1), and its `sentence` tells people who watch it which rows it asks about. Without a budget, the expected
number of questions is the sum of all pi_t (OA3, Proposition 1; D-ADA, Remark 4). Traits say more about a rule:

- `requires`: name of a learner's state; the rule works only with learners that provide it.
- `needs_variance`: it uses the variance v of every row; for other rules v is 0.
- `pace`: how it spreads a budget if no pace is set.
- a parameter `power`: its probability is a square. A plan raises or lowers its root, and takes that to the power.
- `signed`: it reads the sign of the margin. The margin of a multi-class learner (the gap between its two best classes)
  has no sign.
- `deterministic`: its probability is always 0 or 1.
- `exhaustive`: its probability is always 1.

To add a rule, write the class here and name it in QUERY_RULES.
"""

from math import sqrt
from typing import Any, NamedTuple

from .jit import always, method
from .learners import LEARNERS, gain, has_sign, is_multiclass
from .parameters import TENS, Parameter, Values, checked, counter, instantiate, named, parameters
from .rows import squared

DELTA_HELP = "Smoothing: a margin of this size is asked with probability 1/2."
SMOOTHING: dict[str, Any] = {"grid": TENS, "smoothing": True}
SMALLEST = 1e-300  # probabilities are not rounded to 0
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # values of q that the papers try


class Pace(NamedTuple):
    """How a rule spreads a budget if no pace is set: evenly over the first part of the stream, the fraction `share`,
    but over at most `rounds_per_label` rounds per label. It asks about every item in the first `first` rounds."""

    share: float
    rounds_per_label: int
    first: int


needs_variance = method("needs_variance", default=lambda self: False)
probability = method("probability")
observe = method("observe", default=lambda self, mistaken: None)


class All(NamedTuple):
    """Ask for every label: supervised learning."""

    sentence = "Asks about every item until its labels are gone."
    deterministic, exhaustive = True, True

    def probability(self, learner, x, p, v, rho, theta, t):
        return 1.0


class First(NamedTuple):
    """Ask for the first labels until the budget is spent (Q_F, OAAL section 3.1)."""

    sentence = "Asks about the first items until its labels are gone."
    deterministic, exhaustive = True, True

    def probability(self, learner, x, p, v, rho, theta, t):
        return 1.0


class Random(NamedTuple):
    """Ask with a constant probability q (Q_R, OAAL section 3.1)."""

    q: float = Parameter(0.1, above=0, high=1, help="Probability of asking.", grid=SHARES, smoothing=True)

    sentence = "Asks with the same chance everywhere."

    def probability(self, learner, x, p, v, rho, theta, t):
        return self.q


class Margin(NamedTuple):
    """Ask when |p| <= tau (Q_D, OAAL section 3.1)."""

    tau: float = Parameter(0.1, low=0, help="Largest margin that is asked.", **SMOOTHING)

    sentence = "Asks about everything close to its line, and nothing else."
    deterministic = True

    def probability(self, learner, x, p, v, rho, theta, t):
        return 1.0 if abs(p) <= self.tau else 0.0


class Positive(NamedTuple):
    """Ask only about items that are predicted positive: the baseline that fails (OAAL figure 2)."""

    sentence = "Asks only about items that it predicts positive."
    signed, deterministic = True, True

    def probability(self, learner, x, p, v, rho, theta, t):
        return 1.0 if p >= theta else 0.0


class Symmetric(NamedTuple):
    """pi = delta / (delta + |p|) (Cesa-Bianchi et al. 2006; Q_S, OAAL eq. 3; PAA; CSOAL). PAA's mistake bounds hold for
    delta >= 1 (PAA, Theorems 1 to 3)."""

    delta: float = Parameter(0.1, above=0, help=DELTA_HELP, **SMOOTHING)

    sentence = "Asks near its line, on both sides alike."

    def probability(self, learner, x, p, v, rho, theta, t):
        return self.delta / (self.delta + abs(p))


class Shifted(NamedTuple):
    """pi = delta / (delta + 1 + |p|). The mistake bound holds for every delta, and is best for 2 (PAA, Theorem 4)."""

    delta: float = Parameter(0.1, low=0, help="Smoothing; 0 asks nothing.", **SMOOTHING)

    sentence = "Asks near its line, but never for sure."

    def probability(self, learner, x, p, v, rho, theta, t):
        return self.delta / (self.delta + 1 + abs(p))


class Decaying(NamedTuple):
    """As `symmetric`, with delta_t = delta_{t-1} t / (t + 1) from a large delta_0 (the (a) variant of PAA, section
    5.2)."""

    delta: float = Parameter(
        2.0**14, above=0, help="Smoothing before the first round; it falls as 1 / (t + 1).", **SMOOTHING
    )

    sentence = "Asks near its line, in a band that narrows with time."

    def probability(self, learner, x, p, v, rho, theta, t):
        delta = self.delta / (t + 1)
        return delta / (delta + abs(p))


class ErrorAdaptive(NamedTuple):
    """As `symmetric`, with delta_t = beta sqrt(1 + mistakes in asked rounds) (SEL-ada, Cesa-Bianchi et al. 2006)."""

    mistakes: counter
    beta: float = Parameter(0.1, above=0, help="Smoothing before the first mistake.", **SMOOTHING)

    sentence = "Asks near its line, in a band that widens with every mistake."

    def probability(self, learner, x, p, v, rho, theta, t):
        delta = self.beta * sqrt(1 + self.mistakes[0])
        return delta / (delta + abs(p))

    def observe(self, mistaken):
        self.mistakes[0] += mistaken


class Asymmetric(NamedTuple):
    """pi = delta_s / (delta_s + |p|) with s the sign of p (Q_A, OAAL eq. 4). If positives are rare, delta_minus should
    be the larger one, because a positive is easily mistaken for a negative (OAAL, Theorem 2)."""

    delta_plus: float = Parameter(0.1, above=0, help=DELTA_HELP + " For margins >= 0.", **SMOOTHING)
    delta_minus: float = Parameter(0.5, above=0, help=DELTA_HELP + " For margins < 0.", **SMOOTHING)

    sentence = "Asks near its line, with a band for each side."
    signed = True

    def probability(self, learner, x, p, v, rho, theta, t):
        delta = self.delta_plus if p >= 0 else self.delta_minus
        return delta / (delta + abs(p))


class Variance(NamedTuple):
    """Ask for sure while the gain, computed from the covariance, could still flip the prediction; otherwise ask like
    `asymmetric`, with q in place of |p|: q = |p| - rho_max gain(v), pi = 1 if q <= 0 else delta_s / (delta_s + q) (OA3,
    Algorithm 3)."""

    delta_plus: float = Parameter(0.1, above=0, help=DELTA_HELP + " For margins >= 0.", **SMOOTHING)
    delta_minus: float = Parameter(0.1, above=0, help=DELTA_HELP + " For margins < 0.", **SMOOTHING)

    sentence = "Asks near its line, and where it has seen little."
    requires, signed = "covariance", True
    needs_variance = always

    def probability(self, learner, x, p, v, rho, theta, t):
        q = abs(p) - max(1.0, rho) * gain(learner, v)
        delta = self.delta_plus if p >= 0 else self.delta_minus
        return delta / (delta + q) if q > 0 else 1.0


class Discriminative(NamedTuple):
    """pi = b / (b + max(q, 0)), q = |p| - a gain(v): rare features make an item worth asking (D-ADA, Algorithm 1).

    The mistake bounds hold for b >= 2 (D-ADA, Theorems 1 and 2). They count no mistake if p = 0, which predicts
    positive here, as in the other papers.
    """

    b: float = Parameter(0.1, above=0, help=DELTA_HELP, **SMOOTHING)
    a: float = Parameter(
        -1.0, low=-1, high=1,
        help="Weight of the rare features: 0 none (M-), 1 full (-I), -1 for 1 / max(1, x.x) as in D-ADA and D-AMD.",
    )  # fmt: skip

    sentence = "Asks near its line, and about items with rare features."
    requires = "adaptive"
    needs_variance = always

    def probability(self, learner, x, p, v, rho, theta, t):
        a = 1 / max(1.0, squared(x)) if self.a < 0 else self.a
        q = abs(p) - a * gain(learner, v)
        return self.b / (self.b + q) if q > 0 else 1.0


class Paced(NamedTuple):
    """pi = (delta_s / (delta_s + |p|))^2 with s the sign of p; delta_s is larger on the positive side if the learner's
    margin has a sign. With a budget, the power is `power`, and delta is adjusted during the run, so that the budget
    lasts for a quarter of the stream, but for at most 40 rounds per label. Every item of the first ten rounds is asked
    about. Part of a large budget is spread over the rest of the stream."""

    delta: float = Parameter(
        1.0, above=0, help="Smoothing on the negative side where no budget sets it.", **SMOOTHING | {"grid": None}
    )
    easier: float = Parameter(5.0, above=0, help="How many times larger the smoothing is on the positive side.")
    early: int = Parameter(
        500, low=0, whole=True, drifting=0,
        help="Labels for the beginning. If the budget is larger, up to half of it is kept for the rest of the "
        "stream; 0 suits streams that change.",
    )  # fmt: skip
    power: int = Parameter(
        2, low=2, high=64, whole=True, help="With a budget, the power of delta / (delta + |margin|): the larger, the "
        "nearer to its line it asks.",
    )  # fmt: skip

    sentence = "Spends its labels evenly over the beginning, near its line and rather on the positive side."
    pace = Pace(share=0.25, rounds_per_label=40, first=10)

    def probability(self, learner, x, p, v, rho, theta, t):
        delta = self.delta * self.easier if has_sign(learner) and p >= 0 else self.delta
        near = delta / (delta + abs(p))
        return max(near * near, SMALLEST)


QUERY_RULES: dict[str, type[NamedTuple]] = {
    "all": All,
    "first": First,
    "random": Random,
    "margin": Margin,
    "positive": Positive,
    "symmetric": Symmetric,
    "asymmetric": Asymmetric,
    "shifted": Shifted,
    "decaying": Decaying,
    "error-adaptive": ErrorAdaptive,
    "variance": Variance,
    "discriminative": Discriminative,
    "paced": Paced,
}


def paceable() -> list[str]:
    """Return the names of the rules that decide by a random draw. Only these can be made to ask more or less."""
    return [name for name, kind in QUERY_RULES.items() if not getattr(kind, "deterministic", False)]


def leaves_out(rule: str) -> bool:
    """Return whether a rule (by name) gives some rows no chance of being asked."""
    kind = QUERY_RULES[rule]
    return getattr(kind, "deterministic", False) and not getattr(kind, "exhaustive", False)


def spreads(rule: str) -> bool:
    """Return whether a rule (by name) spreads a budget along the stream even if no pace is set."""
    return hasattr(QUERY_RULES[rule], "pace")


def smoothing(rule: str) -> dict[str, Parameter]:
    """Return the parameters of a rule (by name) that decide how much it asks: the larger the value, the more."""
    return {name: spec for name, spec in parameters(QUERY_RULES[rule]).items() if spec.smoothing}


def partners(rule: str) -> list[str]:
    """Return the names of the learners that a rule works with."""
    kind = QUERY_RULES[named(QUERY_RULES, rule, "rule")]
    requires, signed = getattr(kind, "requires", None), getattr(kind, "signed", False)
    return [
        name
        for name, learner in LEARNERS.items()
        if requires in (None, getattr(learner, "provides", None)) and not (signed and is_multiclass(name))
    ]


def build(name: str, learner: str, values: Values = ()) -> NamedTuple:
    """Build a rule. values: parameters by name; missing ones get their defaults. Raise ValueError if the rule does not
    work with the learner (by name)."""
    name = named(QUERY_RULES, name, "rule")
    if named(LEARNERS, learner, "learner") not in partners(name):
        raise ValueError(f"rule {name} works with the learners {', '.join(partners(name))}. Got {learner}.")
    rule: NamedTuple = instantiate(QUERY_RULES[name], 0, checked(QUERY_RULES[name], name, values))
    return rule

"""The specification of a comparison, its validation, and the settings that it tries for each algorithm."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from math import inf, prod
from pathlib import Path
from sys import float_info
from typing import Any, TypeAlias

from .. import did_you_mean
from ..kernel import metrics
from ..kernel.algorithms import Strategy, declared, strategy
from ..kernel.parameters import TENS, Parameter, Values
from ..kernel.query_rules import QUERY_RULES
from ..kernel.spending import FIND, GOALS, STREAM

Setting: TypeAlias = dict[str, float | str]  # values by key: parameters, or rho, alpha_p, c_p and theta
Grid: TypeAlias = dict[str, list[float | str]]  # the values to try for each key

PROTOCOLS = {
    "none": "every setting is run and shown",
    "2:1": "settings are tuned on two thirds of the items, tested on the rest",
    "cv": "settings are tuned by five-fold cross-validation: one pass over four folds, tested on the fifth",
    "hindsight": "settings are tuned on the very orders that are shown: a bound, not a fair comparison",
    "first": "settings are tuned on the first orders that are shown, as many as trials: a bound as well",
}
CLASS_METRICS = ("accuracy", "macro_f1", "macro_recall")  # allowed criteria for K classes
FREE = {  # keys that a setting may hold in addition to the parameters of learner and rule
    "rho": Parameter(1.0, "Weight of positives in the update.", above=0, grid=(1, 2, 5, 10, 20, 50, "auto")),
    "alpha_p": Parameter(0.5, "Weight of sensitivity in sum.", above=0, below=1),
    "c_p": Parameter(0.9, "Cost of a missed positive.", above=0, below=1),
    "theta": Parameter(0.0, "Smallest margin that predicts positive.", grid=(-2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2)),
}
ESTIMATES = ("auto", "laplace")  # values of rho: estimate it from all labels of the data, or from the labels asked
OF_ONE_QUESTION = ("hit", "floor", "times", "seed_words", "seed_items", "seed_texts")  # keys that `questions` excludes
FOLDS = 5
MOST_SETTINGS = 150  # of a full grid; a larger one is searched one parameter at a time, each of them twice
STEPS = 12  # of the bisection that scales a query rule
# The limits of a comparison are checked before anything is enumerated.
MOST_RUNS = 10_000  # of one setting
MOST_VALUES = 1_000  # of a parameter
MOST_LINES = 10_000
MOST_REPLAYS = 10_000_000
MOST_MARKS = 5_000_000  # tables of counts, over all curves


class ExperimentError(ValueError):
    """An invalid comparison, with the reason in one sentence."""


@dataclass(frozen=True)
class Hit:
    """One of several targets that query rules are scaled to: a share (<= 1) or a number of labels to ask for."""

    labels: float


Limit: TypeAlias = int | Hit | None  # limit of labels of one table: a budget, one of several hits, or no limit


@dataclass(frozen=True)
class Specification:
    """The parameters of a comparison. `algorithms` maps a name (or learner + rule) to its parameters.

    data: names of stored data sets, `demo:NAME`, files, or {name, file, label, ...} to import; `NAME=CLASS` sets one of
    K classes against the rest. A parameter is a number, a list of numbers, or powers such as 10^-5..10^5. hit: target
    share (<= 1) or number of labels; the smoothing of the query rule is scaled so that it asks for this many, whatever
    the budget. Each of several hits has result lines of its own. A rule that asks for every label is not scaled.
    permutations: number of runs; their item orders and draws use seed, seed + 1, ... held_out: cross-validation. A run
    streams over four of five folds and is measured by its predictions for the fifth. Five runs from a seed divisible by
    5 test each fold once; the next five use new folds. seed_words, seed_items, seed_texts: words that point to
    positives, ids of known positives, and positive example texts. floor: share of each budget that gives every item a
    minimum probability of being asked about. goal: "stream", or "find" for the items of a file. times: whether to also
    measure the processor time up to marks (checkpoints) along the stream. questions: several questions about each item,
    named after label words or after columns of 1 and 0. An item that is asked about gets the answers to all questions
    and costs one label; a metric is the mean over the questions.
    """

    data: tuple[str | dict[str, Any], ...] = ()
    algorithms: dict[str, dict[str, Any]] = field(default_factory=dict)
    budgets: tuple[int | None, ...] = (None,)
    permutations: int = 10
    seed: int = 0
    tune: str = "none"
    trials: int = 3
    criterion: str = "f1"
    evaluation: str = "push"
    metric: str = "sum"
    rho: float | str = "auto"
    alpha_p: float = 0.5
    c_p: float = 0.9
    theta: float = 0.0
    average: bool = False
    points: int = 100
    hit: float | str | tuple[float, ...] | None = None
    held_out: bool = False
    seed_words: tuple[str, ...] = ()
    seed_items: tuple[str, ...] = ()
    seed_texts: tuple[str, ...] = ()
    floor: float = 0.0
    goal: str = STREAM
    times: bool = False
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_values()
        self._check_data()
        tables(self.algorithms)
        _ = self.grids
        if self.held_out and self.tune == "2:1":
            raise ExperimentError("held_out of a comparison needs tune none, cv or hindsight. Got 2:1.")
        if self.floor:
            self._check_floor()
        if self.goal == FIND and (None in self.budgets or self.floor or self.average):
            raise ExperimentError("the goal find needs budgets, and no floor and no averaged weights.")
        self._check_hits()
        if self.questions:
            self._check_questions()

    @property
    def several(self) -> bool:
        """Whether there are several questions about each item."""
        return len(self.questions) > 1

    @property
    def values(self) -> dict[str, Any]:
        """The specification as JSON. Seeds, questions, floor, goal and times are omitted if they are not set, because
        early versions do not know them."""
        later = {"floor": 0.0, "goal": STREAM, "times": False}
        return {key: value for key, value in asdict(self).items() if value != () and later.get(key) != value}

    @cached_property
    def grids(self) -> dict[str, Grid]:
        """The grid of each algorithm."""
        return {
            name: grid(name, values, self.tune, self.several, self.hit is not None)
            for name, values in self.algorithms.items()
        }

    @cached_property
    def hits(self) -> tuple[float | None, ...]:
        """The target shares or numbers of labels that query rules are scaled to; (None,) if they are not scaled."""
        return (None,) if self.hit is None else tuple(powers(self.hit, "hit"))

    def work(self, grid: Grid) -> int:
        """Estimate how many replays an algorithm with this grid needs, for one data set, budget and target (`hit`)."""
        full, one_by_one = sizes(grid)
        tested = FOLDS if self.tune == "cv" else self.permutations if self.tune == "hindsight" else self.trials
        tried = 0 if self.tune == "none" else one_by_one if searched(grid) else full
        scaled = max(1, tried) * STEPS if self.hit is not None else 0
        floors = self.floor > 0 and not self.held_out
        return (tried + scaled) * tested + (1 + floors + self.times) * self.permutations

    @property
    def replays(self) -> int:
        """The estimated number of replays."""
        return self._blocks * sum(self._lines(grid) * self.work(grid) for grid in self.grids.values())

    @property
    def _blocks(self) -> int:
        return len(self.data) * len(self.budgets) * len(self.hits)

    def _lines(self, grid: Grid) -> int:
        return sizes(grid)[0] if self.tune == "none" else 1

    def check_size(self) -> None:
        """Raise ExperimentError if a comparison is too large for database and memory."""
        lines = self._blocks * sum(map(self._lines, self.grids.values()))
        for size, most, what in (
            (lines, MOST_LINES, "lines (data sets x budgets x hits x settings)"),
            (self.replays, MOST_REPLAYS, "replays (lines x permutations, and tuning)"),
            (
                lines * self.permutations * self.points * max(1, len(self.questions)),
                MOST_MARKS,
                f"marks (lines x permutations x points{' x questions' * bool(self.questions)})",
            ),
        ):
            if size > most:
                raise ExperimentError(f"a comparison must have at most {most:,} {what}. Got {size:,}.")

    @property
    def sign(self) -> int:
        """+1 if a larger criterion is better, -1 if a smaller one is."""
        return 1 if metrics.more_is_better(self.criterion) else -1

    def _check_values(self) -> None:
        for name, low in (("permutations", 1), ("trials", 1), ("points", 1), ("seed", 0)):
            _whole(getattr(self, name), f"{name} of a comparison", low)
        for key in FREE:
            _allowed("a comparison", key, getattr(self, key))
        for name, allowed in (
            ("tune", tuple(PROTOCOLS)),
            ("evaluation", metrics.EVALUATIONS),
            ("metric", ("sum", "cost")),
            ("criterion", tuple(dict.fromkeys((*metrics.METRICS, *CLASS_METRICS)))),
            ("average", (True, False)),
            ("held_out", (True, False)),
            ("times", (True, False)),
            ("goal", GOALS),
        ):
            if getattr(self, name) not in allowed:
                words = ", ".join(map(str, allowed))
                close = did_you_mean(getattr(self, name), allowed)
                raise ExperimentError(
                    f"{name} of a comparison must be one of {words}. Got {getattr(self, name)}.{close}"
                )

    def _check_floor(self) -> None:
        if not _is_number(self.floor) or not 0 < self.floor < 1:
            raise ExperimentError(
                f"floor of a comparison must be >= 0 and < 1: a share of the budget. Got {self.floor}."
            )
        if None in self.budgets:
            raise ExperimentError("a floor needs budgets. Got none.")
        if many := [name for name in self.algorithms if chosen(name).multiclass]:
            raise ExperimentError(f"a floor is for a positive and a negative class. Got {many[0]}.")

    def _check_questions(self) -> None:
        if len(set(self.questions)) < len(self.questions):
            raise ExperimentError(f"questions of a comparison must differ. Got {', '.join(self.questions)}.")
        for key in OF_ONE_QUESTION:
            if value := getattr(self, key):
                raise ExperimentError(f"a comparison with questions must have no {key}. Got {value}.")
        if many := [name for name in self.algorithms if chosen(name).multiclass]:
            raise ExperimentError(f"questions need algorithms for two classes. Got {many[0]}.")

    def _check_hits(self) -> None:
        for hit in self.hits:
            if hit is not None and (not _is_number(hit) or not 0 < hit < inf):
                raise ExperimentError(f"hit must be a share of the labels, or their number. Got {hit}.")
        if len(set(self.hits)) < len(self.hits) or not self.hits:
            raise ExperimentError(f"hits of a comparison must differ. Got {', '.join(map(str, self.hits)) or 'none'}.")
        if len(self.hits) > 1 and len(self.budgets) > 1:
            raise ExperimentError(f"several hits need one budget, or none. Got {', '.join(map(str, self.budgets))}.")
        for name in self.algorithms if self.hit is not None else ():
            if not smoothing(name) and not asks_everything(name):
                raise ExperimentError(f"{name} has no smoothing that could hit a number of labels.")

    def _check_data(self) -> None:
        for name in ("data", "budgets"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value:
                raise ExperimentError(f"{name} of a comparison must be a list of at least one. Got {value}.")
        for entry in self.data:
            if not isinstance(entry, (str, dict)):
                raise ExperimentError(f"a data set of a comparison must be a name or a table. Got {entry}.")
        for name in ("seed_words", "seed_items", "seed_texts", "questions"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                raise ExperimentError(f"{name} of a comparison must be a list of texts. Got {value}.")
        for budget in self.budgets:
            if budget is not None:
                _whole(budget, "a budget", 1)
        if len(set(self.budgets)) < len(self.budgets):
            raise ExperimentError(f"budgets of a comparison must differ. Got {', '.join(map(str, self.budgets))}.")


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= float_info.max  # JSON and TOML allow integers that are too large for a float
    return isinstance(value, float)


def _whole(value: Any, what: str, low: int) -> None:
    if type(value) is not int or not low <= value < 2**63:
        raise ExperimentError(f"{what} must be a whole number >= {low}. Got {value}.")


def _allowed(owner: str, key: str, value: Any) -> None:
    """Raise ExperimentError or ValueError if a value of rho, alpha_p, c_p or theta is not allowed."""
    if key == "rho" and value in ESTIMATES:
        return
    if not _is_number(value):
        words = "auto, laplace or " * (key == "rho")
        raise ExperimentError(f"{key} of {owner} must be {words}a number. Got {value}.")
    FREE[key].check(value, key, owner)


def tables(algorithms: Any) -> dict[str, dict[str, Any]]:
    """Check that the algorithms of a specification are {name: {key: values}}, and return them."""
    if not isinstance(algorithms, dict) or not algorithms:
        raise ExperimentError(f"algorithms of a comparison must be a table of at least one. Got {algorithms}.")
    for name, values in algorithms.items():
        if not isinstance(values, dict):
            raise ExperimentError(f"the parameters of {name} must be a table. Got {values}.")
    return algorithms


def specification(values: Mapping[str, Any]) -> Specification:
    """Build a specification from parsed JSON or TOML. Raise ExperimentError if it is invalid or too large."""
    spec = stored(values)
    spec.check_size()
    return spec


def stored(values: Mapping[str, Any]) -> Specification:
    """Build a specification as `specification` does, but of any size: an old comparison may exceed today's limits."""
    names = {each.name for each in fields(Specification)}
    for key in values:
        if key not in names:
            has = ", ".join(sorted(names))
            raise ExperimentError(f"a comparison has no setting {key}. It has {has}.{did_you_mean(key, names)}")
    arguments: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in values.items()}
    return Specification(**arguments)


def contents(path: Path | str) -> dict[str, Any]:
    """Read a specification from a JSON or TOML file, or from the JSON result of a comparison, which contains it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"{Path(path).name} is not a specification: {error}.") from None
    if "results" in values and isinstance(values.get("specification"), dict):
        values = values["specification"]
    return {key: value for key, value in values.items() if key != "versions"}


# ---- Settings


def chosen(name: str, values: Values = (), several: bool = False) -> Strategy:
    """Build the strategy of an algorithm, or of `learner + rule`, with some parameters set. several: whether several
    questions are asked about each item."""
    values = {key: value for key, value in dict(values).items() if key not in FREE}
    learner, plus, rule = name.partition("+")
    if plus:
        return strategy(None, learner.strip(), rule.strip(), values)
    return strategy(name, values=values, several=several)


def powers(value: Any, key: str = "a parameter") -> list[Any]:
    """Expand the values in a specification into a list: a number, a list of numbers, or powers such as 10^-5..10^5."""
    if match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\^(-?\d{1,3})\s*\.\.\s*\1\^(-?\d{1,3})\s*", str(value)):
        first, last = int(match[2]), int(match[3])
        check_count(key, last - first + 1)
        try:
            return [float(match[1]) ** k for k in range(first, last + 1)]
        except ArithmeticError:
            raise ExperimentError(f"powers are too large for a float. Got {value}.") from None
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    check_count(key, len(values))
    return values


def check_count(key: str, count: int) -> None:
    """Raise ExperimentError if a parameter has more than MOST_VALUES values."""
    if count > MOST_VALUES:
        raise ExperimentError(f"{key} must have at most {MOST_VALUES:,} values. Got {count:,}.")


def typed(text: str, key: str) -> str | list[float | str]:
    """Parse the values of a parameter as a user types them: numbers separated by commas (for rho also auto and
    laplace), or powers, which are returned as typed."""
    if "^" in text:
        return text
    check_count(key, text.count(",") + 1)
    try:
        return [part.strip() if part.strip() in ESTIMATES else float(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(
            f"{key} must be a number, several (1, 10), or powers such as {TENS}. Got {text}."
        ) from None


def typed_hits(text: str, key: str) -> float | str | list[float | str]:
    """Parse typed target numbers of labels (`hit`) as `typed` does, but return a single number without a list."""
    values = typed(text, key)
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def grid(name: str, values: Mapping[str, Any], tune: str, several: bool = False, scaled: bool = False) -> Grid:
    """Return the grid of an algorithm: the checked values of each key that is set or tuned. several: as in `chosen`.

    If no values are given, tuning uses the grids that the parameters declare, without the parameters that `hit` decides
    if the query rule is `scaled`; algorithms that tune themselves have none.
    """
    strategy = chosen(name)
    if tune != "none" and not values and not strategy.tunes_itself:
        specs = declared(strategy.learner, strategy.rule) | {key: FREE[key] for key in strategy.tunes}
        values = {key: spec.grid for key, spec in specs.items() if spec.grid and not (scaled and spec.smoothing)}
    if "rho" in values and strategy.rho is not None:
        raise ExperimentError(f"rho of {name} is fixed at {strategy.rho:g}. Got {values['rho']}.")
    return {key: _checked(name, key, powers(value, f"{key} of {name}"), several) for key, value in values.items()}


def _checked(name: str, key: str, values: list[Any], several: bool) -> list[float | str]:
    if not values:
        raise ExperimentError(f"{key} of {name} needs at least one value.")
    for value in values:
        if key in FREE:
            _allowed(name, key, value)
        elif _is_number(value):
            chosen(name, {key: value}, several)
        else:
            raise ExperimentError(f"{key} of {name} must be numbers or powers such as {TENS}. Got {value}.")
    return list(dict.fromkeys(values))


def has(name: str, key: str) -> bool:
    """Return whether an algorithm accepts a key: one of its parameters, or a setting that all algorithms have."""
    parameters = chosen(name).parameters
    both = key == "delta" and {"delta_plus", "delta_minus"} <= parameters.keys()
    return key in FREE or key in parameters or both


def sizes(grid: Grid) -> tuple[int, int]:
    """Return how many settings of a grid a search would try: a full search, and a search of one parameter at a time."""
    counts = [len(values) for values in grid.values()]
    return prod(counts), 2 * sum(counts)


def searched(grid: Grid) -> bool:
    """Return whether a grid is too large for a full search, and is searched one parameter at a time."""
    full, one_by_one = sizes(grid)
    return full > max(MOST_SETTINGS, one_by_one)


@cache
def smoothing(name: str) -> dict[str, Parameter]:
    """Return the parameters of an algorithm's rule that decide how often it asks, {key: parameter}. With larger values
    it asks more often."""
    strategy = chosen(name)
    return {key: spec for key, spec in declared(strategy.learner, strategy.rule).items() if spec.smoothing}


def asks_everything(name: str) -> bool:
    """Return whether an algorithm is fully supervised: without a budget it asks for every label."""
    return getattr(QUERY_RULES[chosen(name).rule], "exhaustive", False)


def outlined(setting: Setting) -> str:
    """Describe a setting in words, such as C=0.1, delta=1."""
    return ", ".join(f"{key}={value:g}" if _is_number(value) else f"{key}={value}" for key, value in setting.items())

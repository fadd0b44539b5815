"""Load a stored comparison; compute the tables, tests and ranks of its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..kernel import certainty, metrics
from ..kernel.metrics import more_is_better
from . import significance
from .specifications import ExperimentError, Hit, Limit, Specification, chosen, stored
from .tuned_runs import Result, asked_of, evaluate, split_list, weights_of

if TYPE_CHECKING:
    from ..store import Store


Block: TypeAlias = tuple[str, Limit]  # key of one table: a data set, and its budget or one of several hits


@dataclass(frozen=True)
class Comparison:
    """A comparison: its specification, the software versions, and its result lines. A line holds the runs (one per
    seed) of one algorithm and setting on one data set, with one budget or target number of labels (`hit`)."""

    name: str
    spec: Specification
    versions: dict[str, str]
    lines: list[Result]

    def values(
        self,
        line: Result,
        metric: str | None = None,
        evaluation: str | None = None,
        over: Callable[..., Any] = np.mean,
    ) -> np.ndarray:
        """Return the final value of a metric (by default the criterion) in each run of a result line. over: function
        that combines the values for several questions into one, such as np.mean."""
        if metric == "seconds":
            return self.seconds(line)[:, -1]
        evaluation = evaluation or self.spec.evaluation
        counts = line.counts[:, -1] if evaluation != metrics.LIST else line.listed
        if counts is None:
            raise ExperimentError(
                f"no list was measured in {self.name}. Run it again with held_out = false and points > 1."
            )
        measured = evaluate(self.spec, line.classes, line.setting, counts, evaluation, over)
        return measured[metric or self.spec.criterion]

    @property
    def has_seconds(self) -> bool:
        """Whether the processor times of the runs were measured."""
        return any(line.nanoseconds is not None for line in self.lines)

    def seconds(self, line: Result) -> np.ndarray:
        """Return the processor time, in seconds, of each run of a line from its start to each mark (a checkpoint in the
        stream): shape (runs, marks)."""
        if line.nanoseconds is None:
            raise ExperimentError(f"no times were measured in {self.name}. Run it with times = true.")
        return line.nanoseconds / 1e9

    @property
    def has_list(self) -> bool:
        """Whether the runs measured their final list: the final model's predictions for all items."""
        return all(line.has_list for line in self.lines)

    @property
    def has_floors(self) -> bool:
        """Whether the runs have guaranteed minimums of their metrics (the floor option)."""
        return any(line.floor_jobs for line in self.lines)

    def floors(self, line: Result, evaluation: str | None = None) -> dict[str, np.ndarray]:
        """Return the guaranteed minimums of metrics at the end of each run of a result line, {metric: values}; {} if
        the runs have none."""
        if line.worst is None:
            return {}
        tables = {name: tuple(line.worst[:, k].T) for k, name in enumerate(metrics.EVALUATIONS)}
        return certainty.floors(tables, weights_of(self.spec, line.setting))[evaluation or self.spec.evaluation]

    def curve(
        self, line: Result, metric: str, evaluation: str, axis: str = "rounds"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return a metric of a result line at its marks (checkpoints), as arrays over the marks: mean rounds, mean
        labels asked for, and the mean and standard deviation of the metric.

        axis: "rounds" for marks along the stream, "labels" for marks along the labels, then the end of the stream.
        """
        if metric == "seconds":
            seconds = self.seconds(line)
            items, asked, *_ = self.curve(line, "query_ratio", evaluation)
            places = np.ceil(np.linspace(0, items.size, seconds.shape[1] + 1)[1:]).astype(int) - 1
            return items[places], asked[places], seconds.mean(0), _spread(seconds)
        counts = line.counts[:, line.label_marks :]
        if axis == "labels":
            spent = asked_of(self._of_one(counts)).mean(0)
            marks = line.counts[:, : line.label_marks or np.searchsorted(spent, spent[-1]) + 1]
            counts = np.concatenate([marks, counts[:, -1:]], 1)
        values = evaluate(self.spec, line.classes, line.setting, counts, evaluation)[metric]
        one = self._of_one(counts)
        return one.sum((-3, -2, -1)).mean(0), asked_of(one).mean(0), values.mean(0), _spread(values)

    def _of_one(self, counts: np.ndarray) -> np.ndarray:
        """Return the counts of the first question, because all questions have the same numbers of items and labels.
        Without questions, return the counts unchanged."""
        return counts[:, :, 0] if self.spec.questions else counts

    def blocks(self) -> dict[Block, dict[str, Result]]:
        """Group the result lines by data set and budget (or target number of labels): {(data set, limit): {name:
        line}}. No two lines of a group have the same name."""
        blocks: dict[Block, dict[str, Result]] = {}
        several = len({((line.data, line.limit), line.algorithm) for line in self.lines}) < len(self.lines)
        for line in self.lines:
            blocks.setdefault((line.data, line.limit), {})[line.name if several else line.algorithm] = line
        return blocks

    def test(
        self, lines: dict[str, Result], metric: str | None = None, evaluation: str | None = None
    ) -> dict[str, significance.PairedTest]:
        """Compare each result line of {name: line} with the best one by paired tests. Return the tests by name."""
        values = {name: self.values(line, metric, evaluation) for name, line in lines.items()}
        return significance.against_best(values, more_is_better(metric or self.spec.criterion))

    def tests(
        self, metric: str | None = None, evaluation: str | None = None
    ) -> dict[Block, dict[str, significance.PairedTest]]:
        """Run `test` on every block (the lines of a data set and budget)."""
        return {block: self.test(lines, metric, evaluation) for block, lines in self.blocks().items()}

    def ranks(self, metric: str | None = None, evaluation: str | None = None) -> significance.Ranks:
        """Compute average ranks over all data sets and budgets, for the lines whose name occurs in all of them."""
        blocks = [
            {name: float(self.values(line, metric, evaluation).mean()) for name, line in lines.items()}
            for lines in self.blocks().values()
        ]
        common = [name for name in next(iter(blocks), ()) if all(name in block for block in blocks)]
        table = {name: [block[name] for block in blocks] for name in common}
        return significance.average_ranks(table, more_is_better(metric or self.spec.criterion))

    def trials(self) -> list[dict[str, Any]]:
        """Return the settings tried while tuning, each with its score: for each result line, the best first."""
        trials = []
        for line in self.lines:
            shared = {"data": line.data, **_limit(line.limit), "algorithm": line.algorithm}
            ranked = sorted(line.trials, key=lambda trial: trial[1], reverse=more_is_better(self.spec.criterion))
            trials += [shared | {"settings": setting, "score": score} for setting, score in ranked]
        return trials

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON. Equal specifications give equal JSON."""
        return {
            "specification": self.spec.values,
            "versions": self.versions,
            "results": [self._line(line) for line in self.lines],
            "tests": [
                {"data": data, **_limit(limit), "criterion": self.spec.criterion, "algorithms": tests}
                for (data, limit), tests in self.tests().items()
            ],
            "ranks": self.ranks(),
        }

    def _line(self, line: Result) -> dict[str, Any]:
        def measures(counts: np.ndarray, listed: np.ndarray | None) -> dict[str, Any]:
            weights, tables = weights_of(self.spec, line.setting), dict.fromkeys(metrics.EVALUATIONS, counts)
            tables |= {} if listed is None else {metrics.LIST: listed}
            measured = {name: metrics.as_json(table, name, weights, line.classes) for name, table in tables.items()}
            return measured if self.spec.held_out else {"queried": int(asked_of(counts)), **measured}

        def over_questions(counts: np.ndarray, listed: np.ndarray | None) -> dict[str, Any]:
            each = [*map(measures, counts, [None] * len(counts) if listed is None else listed)]
            worst = metrics.over([*map(metrics.sum_and_f1, each)], np.min)
            return metrics.over(each, np.mean) | {"worst": worst, "questions": dict(zip(self.spec.questions, each))}

        lists = [None] * len(line.counts) if line.listed is None else line.listed
        measured = over_questions if self.spec.questions else measures
        runs = [measured(*tables) for tables in zip(line.counts[:, -1], lists)]
        for name in metrics.EVALUATIONS if line.floor_jobs else ():
            for k, each in enumerate(runs):
                floors = {metric: values[k].item() for metric, values in self.floors(line, name).items()}
                each.setdefault("floor", {})[name] = floors
        return {
            "data": line.data,
            "algorithm": line.algorithm,
            **_limit(line.limit),
            "settings": line.setting,
            "parameters": chosen(line.algorithm, line.setting, self.spec.several).parameters,
            "tuned": self.spec.tune,
            "runs": [{"seed": self.spec.seed + k} | run for k, run in enumerate(runs)],
            "mean": metrics.over(runs, np.mean),
            "std": metrics.spread(runs),
        }


def _limit(limit: Limit) -> dict[str, Any]:
    """Return a limit as JSON: a budget, or a target number of labels (`hit`)."""
    return {"budget": None, "hit": limit.labels} if isinstance(limit, Hit) else {"budget": limit}


def _spread(values: np.ndarray) -> np.ndarray:
    """Return the standard deviation over the runs (first axis), or 0 for a single run."""
    return values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def load(store: Store, name: str | int) -> Comparison:
    """Load a stored comparison by name or id, with the result lines that are complete so far."""
    record = store.comparison(name)
    spec, counts_by_key = stored(record["specification"]), store.replays(record["id"])

    def arrays(jobs: list[str] | None) -> np.ndarray | None:
        return np.array([counts_by_key[job] for job in jobs]) if jobs else None

    lines = []
    for line in record["lines"] or ():
        counts, listed = split_list(np.array([counts_by_key[job] for job in line["jobs"]]), line.get("has_list", False))
        lines.append(
            Result(
                **line | {"classes": tuple(line["classes"])},
                counts=counts,
                listed=listed,
                worst=arrays(line.get("floor_jobs")),
                nanoseconds=arrays(line.get("time_jobs")),
            )
        )
    return Comparison(record["name"], spec, record["versions"], lines)

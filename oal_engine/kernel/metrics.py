"""Metrics in three evaluations (push, push_query and list), computed from a table of counts [pushed, class, asked].

push: an item counts as pushed if it was predicted positive. push_query: an item also counts as pushed if its label was
asked. list: the table holds the predictions of the final model for all items, and an item that was asked counts as its
answer says. The class axis is negative, unknown, positive (y + 1); items whose class is unknown are left out of the
metrics. All metrics but cost are fractions; a ratio with denominator 0, such as precision without pushes, is 0.

With K classes the table is [predicted - 1, class, asked] of shape (K, K + 1, 2), where class 0 is unknown. push: an
item is assigned the class that was predicted. push_query, list: an item that was asked is assigned its true class.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from .parameters import named

COUNTS = (2, 3, 2)  # the shape of the table
POSITIVE = np.array([0, 0, 1])  # 1 for the positive class on the class axis
EVALUATIONS = ("push", "push_query")  # evaluations of the predictions made during the stream
LIST = "list"  # the evaluation of the final predictions


def empty(classes: int = 0) -> np.ndarray:
    """Return a table of zero counts, shape (2, 3, 2), or (K, K + 1, 2) for K classes."""
    return np.zeros((classes, classes + 1, 2) if classes else COUNTS, np.int64)


def pushed(counts: np.ndarray) -> np.ndarray:
    """Return how many items were pushed (predicted positive) and not asked about. counts: shape (..., 2, 3, 2)."""
    return counts[..., 1, :, 0].sum(-1)


@dataclass(frozen=True)
class Weights:
    """Weights of the metrics sum = alpha_p sensitivity + (1 - alpha_p) specificity and cost = c_p FN + (1 - c_p) FP."""

    alpha_p: float = 0.5
    c_p: float = 0.9

    def __post_init__(self) -> None:
        for name in ("alpha_p", "c_p"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} of the metric weights must be > 0 and < 1. Got {getattr(self, name)}.")

    def ratio(self, metric: str) -> float:
        """Return the weight of a positive relative to a negative: alpha_p / alpha_n for sum, c_p / c_n for cost."""
        shares = {"sum": self.alpha_p, "cost": self.c_p}
        share = shares[named(shares, metric, "metric")]
        return share / (1 - share)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) != 0)


METRICS: dict[str, Callable[..., np.ndarray]] = {
    "sensitivity": lambda tp, fp, tn, fn, w: _ratio(tp, tp + fn),
    "specificity": lambda tp, fp, tn, fn, w: _ratio(tn, tn + fp),
    "precision": lambda tp, fp, tn, fn, w: _ratio(tp, tp + fp),
    "recall": lambda tp, fp, tn, fn, w: _ratio(tp, tp + fn),
    "f1": lambda tp, fp, tn, fn, w: _ratio(2 * tp, 2 * tp + fp + fn),
    "sum": lambda tp, fp, tn, fn, w: w.alpha_p * _ratio(tp, tp + fn) + (1 - w.alpha_p) * _ratio(tn, tn + fp),
    "cost": lambda tp, fp, tn, fn, w: w.c_p * fn + (1 - w.c_p) * fp,
    "accuracy": lambda tp, fp, tn, fn, w: _ratio(tp + tn, tp + fp + tn + fn),
}


def confusion(counts: np.ndarray, evaluation: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return tp, fp, tn, fn of one evaluation; counts may have leading axes (a curve)."""
    pushed = counts[..., 1, :, :].sum(-1)
    if evaluation == "push_query":
        pushed = pushed + counts[..., 0, :, 1]
    elif evaluation == LIST:
        pushed = pushed - counts[..., 1, :, 1] + counts[..., :, :, 1].sum(-2) * POSITIVE
    hidden = counts.sum((-3, -1)) - pushed
    return pushed[..., 2], pushed[..., 0], hidden[..., 0], hidden[..., 2]


def evaluate(counts: np.ndarray, evaluation: str, weights: Weights = Weights()) -> dict[str, np.ndarray]:
    """Compute the confusion counts and all metrics of an evaluation ('push', 'push_query' or 'list'): {name: value}."""
    table = confusion(np.asarray(counts), evaluation)
    return dict(zip(("tp", "fp", "tn", "fn"), table)) | {
        name: metric(*table, weights) for name, metric in METRICS.items()
    }


def class_confusion(counts: np.ndarray, evaluation: str) -> np.ndarray:
    """Return the confusion matrix of K classes, shape (..., true class, assigned class). Items whose class is unknown
    are left out."""
    passed = counts[..., :, 1:, :].sum(-1)
    if evaluation in ("push_query", LIST):
        asked = counts[..., :, 1:, 1]
        passed = passed - asked + asked.sum(-2, keepdims=True) * np.eye(counts.shape[-3], dtype=counts.dtype)
    return np.swapaxes(passed, -1, -2)


def evaluate_classes(counts: np.ndarray, evaluation: str) -> dict[str, np.ndarray]:
    """Compute the metrics of K classes in one evaluation: {name: value}.

    accuracy, macro_f1 and balanced accuracy (macro_recall) are numbers; items, recall, precision and f1 have one value
    per class (last axis). Averages are over the classes that occurred.
    """
    table = class_confusion(np.asarray(counts), evaluation)
    right = np.diagonal(table, axis1=-2, axis2=-1)
    items, passed = table.sum(-1), table.sum(-2)
    each = {"recall": _ratio(right, items), "precision": _ratio(right, passed), "f1": _ratio(2 * right, items + passed)}
    occurred = ((items + passed) > 0).sum(-1)
    return {
        "accuracy": _ratio(right.sum(-1), items.sum(-1)),
        "macro_f1": _ratio(each["f1"].sum(-1), occurred),
        "macro_recall": _ratio(each["recall"].sum(-1), (items > 0).sum(-1)),
        "items": items,
        **each,
    }


def as_json(
    counts: np.ndarray, evaluation: str, weights: Weights = Weights(), classes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the metrics of one table of counts as plain numbers; per-class metrics are keyed by class name."""
    if not classes:
        return {name: value.item() for name, value in evaluate(counts, evaluation, weights).items()}
    values = evaluate_classes(counts, evaluation)
    return {
        key: dict(zip(classes, value.tolist())) if np.ndim(value) else value.item() for key, value in values.items()
    }


def sum_and_f1(measured: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Select the metrics `sum` and `f1` of each evaluation in `measured`."""
    return {
        name: {key: measured[name][key] for key in ("sum", "f1")} for name in (*EVALUATIONS, LIST) if name in measured
    }


def over(runs: Sequence[Any], statistic: Callable[[Sequence[float]], SupportsFloat]) -> Any:
    """Apply a statistic, such as a mean, to each number across several runs; numbers may be nested in dictionaries."""
    if isinstance(runs[0], dict):
        return {key: over([run[key] for run in runs], statistic) for key in runs[0]}
    return float(statistic(runs))


def spread(runs: Sequence[Any]) -> Any:
    """Return the sample standard deviation of each number across several runs, or None for a single run."""
    return over(runs, lambda values: np.std(values, ddof=1)) if len(runs) > 1 else None


def more_is_better(metric: str) -> bool:
    """Return whether a larger value of a metric is better."""
    return metric not in ("cost", "query_ratio", "seconds")

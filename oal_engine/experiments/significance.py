"""Who is better, and is it chance: paired tests against the best, and ranks over several data sets (Demsar 2006)."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike


class PairedTest(TypedDict):
    """A mean, whether it is the best, the p-values against the best, and whether it is level with the best."""

    mean: float
    best: bool
    t: float | None
    wilcoxon: float | None
    level: bool


class Ranks(TypedDict):
    """Average ranks by name, over how many blocks, Friedman's p-value and Nemenyi's critical difference."""

    ranks: dict[str, float]
    blocks: int
    friedman: float | None
    critical_difference: float | None


def holm(p: ArrayLike) -> np.ndarray:
    """p-values corrected for being several (Holm 1979), in the order given."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    corrected = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    unsorted = np.empty_like(p)
    unsorted[order] = np.minimum(1, corrected)
    return unsorted


def against_best(
    values: Mapping[str, ArrayLike], more_is_better: bool = True, level: float = 0.05
) -> dict[str, PairedTest]:
    """For each name in {name: a value for each run}, runs paired by their place: its mean, whether it is the best, and
    the p-values against the best of a paired t-test and of Wilcoxon's signed rank test, corrected by Holm's method.

    A name is `level` with the best unless its t-test says otherwise below the level; of a single run p is None.
    """
    sign = 1 if more_is_better else -1
    runs_of = {name: np.asarray(runs) for name, runs in values.items()}
    means = {name: float(runs.mean()) for name, runs in runs_of.items()}
    best = max(means, key=lambda name: sign * means[name])
    others = [name for name in values if name != best]
    tests = {
        kind: holm([test(runs_of[best] - runs_of[name]) for name in others])
        for kind, test in (("t", _t), ("wilcoxon", _wilcoxon))
        if runs_of[best].size > 1
    }

    def compared(name: str) -> PairedTest:
        if name == best or not tests:
            t = wilcoxon = None
        else:
            t, wilcoxon = (float(tests[kind][others.index(name)]) for kind in ("t", "wilcoxon"))
        is_level = t is None or t >= level
        return {"mean": means[name], "best": name == best, "t": t, "wilcoxon": wilcoxon, "level": is_level}

    return {name: compared(name) for name in values}


def _t(apart: np.ndarray) -> float:
    """The p-value of a paired t-test; without a spread it is one of always the same, or of never."""
    from scipy.stats import ttest_1samp

    if np.allclose(apart, apart[0], rtol=1e-9, atol=1e-12):
        return float(abs(apart[0]) <= 1e-12)
    return float(ttest_1samp(apart, 0).pvalue)


def _wilcoxon(apart: np.ndarray) -> float:
    from scipy.stats import wilcoxon

    return float(wilcoxon(apart).pvalue) if np.any(apart) else 1.0


def average_ranks(table: Mapping[str, Sequence[float]], more_is_better: bool = True, level: float = 0.05) -> Ranks:
    """Average ranks (1 is best) of {name: a mean for each block}, the p-value of Friedman's test, and the critical
    difference of Nemenyi's: ranks that are further apart differ. None where there are too few blocks or names."""
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    names, blocks = len(table), len(next(iter(table.values()), ()))
    values = np.reshape(list(table.values()), (names, blocks)) * (-1 if more_is_better else 1)
    ranks = dict(zip(table, rankdata(values, axis=0).mean(1).tolist())) if table else {}
    if names < 2 or blocks < 2:
        return {"ranks": ranks, "blocks": blocks, "friedman": None, "critical_difference": None}
    tied = np.ptp(values, axis=0).max() == 0  # in every block: there is nothing to test
    friedman = None if names < 3 else 1.0 if tied else float(friedmanchisquare(*values).pvalue)
    q = studentized_range.ppf(1 - level, names, np.inf) / sqrt(2)
    return {
        "ranks": ranks,
        "blocks": blocks,
        "friedman": friedman,
        "critical_difference": float(q * sqrt(names * (names + 1) / (6 * blocks))),
    }

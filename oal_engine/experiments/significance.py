"""Significance of differences between algorithms: paired tests, and ranks over several data sets (Demsar 2006)."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

FEWEST_RUNS = 4  # whose paired test can find two names level


class PairedTest(TypedDict):
    """The result of testing one name against the best: its mean, whether it is the best, its p-values (`t`,
    `wilcoxon`), and whether it is level with the best (not significantly different)."""

    mean: float
    best: bool
    t: float | None
    wilcoxon: float | None
    level: bool


class Ranks(TypedDict):
    """Average ranks by name, the number of blocks, Friedman's p-value and Nemenyi's critical difference."""

    ranks: dict[str, float]
    blocks: int
    friedman: float | None
    critical_difference: float | None


def holm(p: ArrayLike) -> np.ndarray:
    """Correct p-values for multiple tests (Holm 1979). Return them in the order given."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    corrected = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    unsorted = np.empty_like(p)
    unsorted[order] = np.minimum(1, corrected)
    return unsorted


def against_best(
    values: Mapping[str, ArrayLike], more_is_better: bool = True, level: float = 0.05
) -> dict[str, PairedTest]:
    """Test each name of {name: one value per run} against the name with the best mean. Runs are paired by position.

    The p-values are of a paired t-test and of Wilcoxon's signed rank test, corrected by Holm's method. A name is
    `level` with the best unless its t-test is significant at `level`. A single run has no p-values (None).
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


def verdict(test: PairedTest, runs: int) -> str:
    """Return "best", "worse", "level", or with few runs "too few runs to tell" instead of "level"."""
    level = "level" if runs >= FEWEST_RUNS else "too few runs to tell"
    return "best" if test["best"] else level if test["level"] else "worse"


def _t(differences: np.ndarray) -> float:
    """Return the p-value of a paired t-test. If all differences are equal, return 1 if they are 0, else 0."""
    from scipy.stats import ttest_1samp

    if np.allclose(differences, differences[0], rtol=1e-9, atol=1e-12):
        return float(abs(differences[0]) <= 1e-12)
    return float(ttest_1samp(differences, 0).pvalue)


def _wilcoxon(differences: np.ndarray) -> float:
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences).pvalue) if np.any(differences) else 1.0


def average_ranks(table: Mapping[str, Sequence[float]], more_is_better: bool = True, level: float = 0.05) -> Ranks:
    """Rank the names of a table {name: one mean per block}; 1 is best.

    Return the average ranks, the p-value of Friedman's test, and the critical difference of Nemenyi's test: ranks that
    are further apart differ significantly. A test for which there are too few blocks or names has the value None.
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    names, blocks = len(table), len(next(iter(table.values()), ()))
    values = np.reshape(list(table.values()), (names, blocks)) * (-1 if more_is_better else 1)
    ranks = dict(zip(table, rankdata(values, axis=0).mean(1).tolist())) if table else {}
    if names < 2 or blocks < 2:
        return {"ranks": ranks, "blocks": blocks, "friedman": None, "critical_difference": None}
    tied = np.ptp(values, axis=0).max() == 0  # equal in every block, so there is nothing to test
    friedman = None if names < 3 else 1.0 if tied else float(friedmanchisquare(*values).pvalue)
    q = studentized_range.ppf(1 - level, names, np.inf) / sqrt(2)
    return {
        "ranks": ranks,
        "blocks": blocks,
        "friedman": friedman,
        "critical_difference": float(q * sqrt(names * (names + 1) / (6 * blocks))),
    }

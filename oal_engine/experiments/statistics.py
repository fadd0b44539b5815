"""Who is better, and is it chance: paired tests against the best, and ranks over several data sets (Demsar 2006)."""

from math import sqrt

import numpy as np


def holm(p):
    """p-values corrected for being several (Holm 1979), in the order given."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    corrected = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    found = np.empty_like(p)
    found[order] = np.minimum(1, corrected)
    return found


def against_best(values, more_is_better=True, level=0.05):
    """For each name in {name: a value for each run}, runs paired by their place: its mean, whether it is the best, and
    the p-values against the best of a paired t-test and of Wilcoxon's signed rank test, corrected by Holm's method.

    A name is `level` with the best unless its t-test says otherwise below the level; of a single run p is None.
    """
    sign = 1 if more_is_better else -1
    means = {name: float(np.mean(runs)) for name, runs in values.items()}
    best = max(means, key=lambda name: sign * means[name])
    others = [name for name in values if name != best]
    tests = {
        kind: holm([test(np.subtract(values[best], values[name])) for name in others])
        for kind, test in (("t", _t), ("wilcoxon", _wilcoxon))
        if len(values[best]) > 1
    }
    found = {best: {"mean": means[best], "best": True, "t": None, "wilcoxon": None, "level": True}}
    for k, name in enumerate(others):
        p = dict.fromkeys(("t", "wilcoxon")) | {kind: float(each[k]) for kind, each in tests.items()}
        found[name] = {"mean": means[name], "best": False, **p, "level": p["t"] is None or p["t"] >= level}
    return {name: found[name] for name in values}


def _t(apart):
    """The p-value of a paired t-test; without a spread it is one of always the same, or of never."""
    from scipy.stats import ttest_1samp

    if np.allclose(apart, apart[0], rtol=1e-9, atol=1e-12):
        return float(abs(apart[0]) <= 1e-12)
    return ttest_1samp(apart, 0).pvalue


def _wilcoxon(apart):
    from scipy.stats import wilcoxon

    return wilcoxon(apart).pvalue if np.any(apart) else 1.0


def average_ranks(table, more_is_better=True, level=0.05):
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

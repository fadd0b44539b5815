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

    A name is `level` with the best unless its t-test says otherwise below the level; without runs to pair p is None.
    """
    from scipy.stats import ttest_rel, wilcoxon

    sign = 1 if more_is_better else -1
    means = {name: float(np.mean(runs)) for name, runs in values.items()}
    best = max(means, key=lambda name: sign * means[name])
    others = [name for name in values if name != best]

    def p(test, name):
        apart = np.subtract(values[best], values[name])
        if apart.size < 2:
            return float("nan")
        if np.ptp(apart) == 0:  # no spread: the same every time, or better every time
            return 1.0 if apart[0] == 0 else 0.0
        return float(test(values[best], values[name]).pvalue)

    tests = {
        kind: holm([p(test, name) for name in others]) for kind, test in (("t", ttest_rel), ("wilcoxon", wilcoxon))
    }
    found = {best: {"mean": means[best], "best": True, "t": None, "wilcoxon": None, "level": True}}
    for k, name in enumerate(others):
        found[name] = {"mean": means[name], "best": False}
        found[name] |= {kind: None if np.isnan(each[k]) else float(each[k]) for kind, each in tests.items()}
        found[name]["level"] = not tests["t"][k] < level
    return {name: found[name] for name in values}


def average_ranks(table, more_is_better=True, level=0.05):
    """Average ranks (1 is best) of {name: a mean for each block}, the p-value of Friedman's test, and the critical
    difference of Nemenyi's: ranks that are further apart differ. None where there are too few blocks or names."""
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    if not table:
        return {"ranks": {}, "blocks": 0, "friedman": None, "critical_difference": None}
    values = np.array(list(table.values()), float) * (-1 if more_is_better else 1)
    names, blocks = values.shape
    ranks = dict(zip(table, rankdata(values, axis=0).mean(1).tolist()))
    if names < 2 or blocks < 2:
        return {"ranks": ranks, "blocks": blocks, "friedman": None, "critical_difference": None}
    friedman = float(friedmanchisquare(*values).pvalue) if names > 2 else None
    q = studentized_range.ppf(1 - level, names, np.inf) / sqrt(2)
    return {
        "ranks": ranks,
        "blocks": blocks,
        "friedman": friedman,
        "critical_difference": float(q * sqrt(names * (names + 1) / (6 * blocks))),
    }

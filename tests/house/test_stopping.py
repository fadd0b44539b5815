"""The stopping rules of benchmarks/stopping.py stop where their papers say, and the benchmark can read reviews from
files."""

import sys
from math import comb

import numpy as np
import pytest

from tests.harness import ROOT

pytest.importorskip("sklearn")
sys.path.insert(0, str(ROOT / "benchmarks"))

import stopping
from stopping import Look


def look(labels, items, start=0, chance=None, key_papers=()):
    """Return the state (a `Look`) of a screening in which the first items were read in order."""
    chance = np.zeros(items) if chance is None else np.array(chance)
    return Look(np.arange(len(labels)), np.array(labels, bool), start, chance, key_papers)


def test_in_a_row():
    """The rule of N irrelevant items in a row counts only items that the model ranked. An N below 1 is a share of all
    items."""
    labels = [1] + [0] * 50
    assert stopping.in_a_row(50)(look(labels, 1000))
    assert not stopping.in_a_row(50)(look(labels, 1000, start=2))
    assert not stopping.in_a_row(51)(look(labels, 1000))
    assert stopping.in_a_row(0.05)(look(labels, 1000))
    assert not stopping.in_a_row(0.05)(look(labels, 1020))


def test_callaghan_by_hand():
    """The first two of 100 items are relevant. The rule stops after 94 irrelevant ones: one more relevant item would be
    among the last 4 with probability 4/98 < 5 %. It does not stop after 93, because 5/98 > 5 %."""
    stops = stopping.callaghan(0.95)
    assert not stops(look([1, 1] + [0] * 93, 100))
    assert stops(look([1, 1] + [0] * 94, 100))


def test_callaghan_by_counting():
    """Callaghan's rule stops if and only if its p-value, computed here by counting combinations, is below 5 % for some
    number of last items."""
    rng, outcomes = np.random.default_rng(5), []
    for _ in range(60):
        labels, target = rng.random(25) < np.linspace(0.9, 0, 25) ** 2, rng.choice(stopping.TARGETS)
        smallest = 1.0
        for last in range(1, 26):
            urn, found = last + 8, int(labels[25 - last :].sum())
            relevant = min(int(labels.sum() / target + 1 - labels[: 25 - last].sum()), urn)
            ways = sum(comb(relevant, k) * comb(urn - relevant, last - k) for k in range(found + 1))
            smallest = min(smallest, ways / comb(urn, last))
        outcomes.append(smallest < 0.05)
        assert outcomes[-1] == stopping.callaghan(target)(look(labels, 33))
    assert 0 < sum(outcomes) < 60


def test_quant_ci_by_hand():
    """With 10 certain items read and 2 unread ones of probability 1/2, recall is 10/11, its variance 100/11**4 * 1/2,
    and the lower end of its interval 0.7922."""
    state = look([1] * 10, 12, chance=[1.0] * 10 + [0.5] * 2)
    assert stopping.quant_ci(0.792)(state)
    assert not stopping.quant_ci(0.793)(state)


def test_safe():
    """The second step of the SAFE procedure continues until all of its conditions hold."""
    first, ranked = [1] + [0] * 9, [1] * 5 + [0] * 85  # an estimate of 40 relevant items among 400: 80 must be read
    assert stopping.safe(look(first + ranked, 400, start=10, key_papers=[12]))
    assert not stopping.safe(look(first + ranked, 400, start=10, key_papers=[12, 399]))
    assert not stopping.safe(look(first + ranked[:69], 400, start=10, key_papers=[12]))
    random, few = [1] + [0] * 59, [1] * 5 + [0] * 50  # an estimate of 19 among 1,150: a tenth is more than 2 * 19
    assert stopping.safe(look(random + few, 1150, start=60))
    assert not stopping.safe(look(random + few, 1160, start=60))
    assert not stopping.safe(look(first + ranked[-49:] + [1] + [0] * 49, 400, start=10))


@pytest.mark.slow
def test_screening():
    """Items that the model ranks as relevant are read first, and SAFE continues with a second model."""
    relevant = np.arange(1000) % 20 == 0
    matrix = np.column_stack([relevant, ~relevant]).astype(float)
    read = stopping.screened(matrix, relevant, seed=1)
    assert set(stopping.RULES) == set(read)
    assert all(relevant[seen].mean() > 0.9 or relevant[seen].sum() == 50 for seen in read.values())
    assert 100 <= read[0.8, "50 irrelevant in a row"].size < 150
    assert read[0.8, stopping.SAFE].size >= read[0.8, "50 irrelevant in a row"].size + 50


@pytest.mark.slow
def test_certified():
    """Our sessions stop early if relevant items are frequent and easy, and read all items if nothing can be
    guaranteed."""
    many = np.random.default_rng(0).permutation(np.where(np.arange(1000) % 4 == 0, 1, -1)).astype(np.int8)
    part = stopping.rows.as_rows(np.column_stack([many > 0, many < 0]).astype(float))
    for (target, _), (found, read) in stopping.certified(part, many, seed=1).items():
        assert target <= (many[found] > 0).sum() / 250
        assert read <= {0.8: 400, 0.9: 550, 0.95: 800}[target]
    single = np.where(np.arange(1000) == 3, 1, -1).astype(np.int8)
    assert {1000} == {read for _, read in stopping.certified(part, single, seed=1).values()}


def test_reviews(tmp_path, capsys):
    """CSV files with texts, a column `included` or `label_included`, and at least 100 labeled items are read as
    reviews. Any other file is skipped with a sentence on standard error."""
    line = "Title {0},About word{0} and thing{0},{1}\n"
    body = "".join(line.format(k, int(k % 10 == 0)) for k in range(120))
    (tmp_path / "first.csv").write_text("title,abstract,label_included\n" + body)
    (tmp_path / "second.csv").write_text("note,text,included\n" + body)
    (tmp_path / "short.csv").write_text("title,abstract,included\n" + body[: body.index("Title 40")])
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    known = dict(stopping.reviews(tmp_path, "*.csv*"))
    assert {"first": 12, "second": 12} == {name: int((data.y > 0).sum()) for name, data in known.items()}
    assert [
        "Left out: empty.csv has no items, read as csv.",
        "Left out: other.csv needs columns title, abstract or text, and included (1 and 0).",
        "Left out: short.csv needs 100 labeled items. Got 40.",
    ] == capsys.readouterr().err.splitlines()

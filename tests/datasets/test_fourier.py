"""Fourier features follow their formula, with the same bits on every machine and for appended rows."""

import hashlib
import json

import numpy as np
import pytest
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import SCALINGS, fourier, scaling
from oal_engine.kernel import rows
from oal_engine.sessions.insights import top_terms
from oal_engine.sessions.items import Items
from tests.harness.sessions import begin, say, truth


def numbers(n=200, d=4, seed=0):
    return np.random.default_rng(seed).normal(3, 2, (n, d)).round(6)


def items_of(X, ids=None):
    n = X.shape[0]
    y = np.where(np.arange(n) % 5, -1, 1).astype(np.int8)
    ids = ids or [f"i{k}" for k in range(n)]
    return reading.Items(ids, None, X, list("abcdefgh")[: X.shape[1]], ["word"] * n, y, {})


@pytest.fixture(params=["fourier", "leaves"])
def waved(store, request):
    """A data set of four columns with Fourier features, and with or without leaves."""
    table = datasets.table(items_of(numbers()), "standardize+l2", features=request.param)
    return Dataset(store, datasets.add(store, "waved", table, "made.npz"))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", SCALINGS)
def test_waves_are_cosines_and_sines(make, scale):
    """A row's squared length comes 30 % from the scaled columns, 70 % from cosines and sines of the standardized
    columns. Plain numpy gives the same numbers."""
    X = make(numbers())
    fitted = scaling.fit(X, scale, "fourier")
    made, plain = (
        rows.matrix(scaling.made_rows(json.loads(json.dumps(each)), X)) for each in (fitted, scaling.fit(X, scale))
    )
    made, plain = made.toarray(), plain.toarray() if sparse.issparse(plain) else plain
    frequencies = fourier._frequencies(0, fitted["fourier"]["bandwidth"], 4)
    angles = 2 * np.pi * ((numbers() - numbers().mean(axis=0)) / numbers().std(axis=0)) @ frequencies
    waves = np.sqrt(0.7 / 256) * np.hstack([np.cos(angles), np.sin(angles)])
    np.testing.assert_allclose(made[:, :4], np.sqrt(0.3) * plain, rtol=1e-12)
    np.testing.assert_allclose(made[:, 4:], waves, atol=1e-8)


def test_near_rows_have_like_waves():
    """Dot products of Fourier features approximate a Gaussian kernel with half the median distance as bandwidth."""
    X = numbers(400)
    fitted = fourier.fit(X)
    waves = fourier.waves(fitted, X)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    bandwidth = np.median(distances[np.triu_indices(400, 1)]) / 2
    assert fitted["bandwidth"] == pytest.approx(bandwidth, rel=0.05)
    np.testing.assert_allclose(waves @ waves.T / 0.7, np.exp(-((distances / bandwidth) ** 2) / 2), atol=0.25)


def test_waves_have_the_same_bits_everywhere():
    X = np.arange(60.0).reshape(20, 3) % 7 - 3
    waves = fourier.waves(fourier.fit(X), X)
    assert "abd988adae891d1f" == hashlib.sha256(waves.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("X", "scale", "expected"), [
    (numbers(), "l2", "leaves"),
    (sparse.csr_array(numbers()), "standardize+l2", "leaves"),
    (numbers(), "none", "plain"),
    (numbers(9, scaling.FEW_COLUMNS + 1), "l2", "plain"),
    (numbers() > 3, "l2", "plain"),
    (sparse.csr_array(numbers() > 3, dtype=float), "l2", "plain"),
])  # fmt: skip
def test_leaves_are_usual_where_they_help(X, scale, expected):
    """By default, a table of few columns gets waves and leaves if it is scaled and has numbers other than 0 and 1."""
    assert expected == scaling.usual_features(X, scale)


@pytest.mark.parametrize(
    ("features", "scale", "expected"),
    [(None, None, "standardize+l2"), ("plain", None, "l2"), ("leaves", "l2", "l2"), (None, "none", "none")],
)
def test_the_scaling_suits_the_features(features, scale, expected):
    """Unless a scaling is named, columns are standardized for waves and leaves, and plain rows get unit length."""
    assert expected == datasets.file_table(items_of(numbers()), scale, features=features).scaling["name"]


def test_impossible_waves_are_refused(monkeypatch):
    """Unknown features are refused, and so are Fourier features of equal rows or of a table that is too large. A table
    that is too large for leaves gets waves alone by default, a larger one neither."""
    with pytest.raises(ValueError, match=r"^features must be one of plain, fourier, leaves\. Got wavy\.$"):
        scaling.fit(numbers(), "l2", "wavy")
    with pytest.raises(ValueError, match=r"^waves need rows that differ\. Got rows that are all the same\.$"):
        scaling.fit(np.ones((9, 2)), "l2", "fourier")
    for limit, expected in ((5 * 10**5, "fourier"), (10**5, "plain")):
        monkeypatch.setattr(scaling, "USUAL_MAX_BYTES", limit)
        assert expected == scaling.usual_features(numbers(), "l2")
    monkeypatch.setattr(scaling, "MAX_DENSE_BYTES", 10**5)
    with pytest.raises(ValueError, match=r"^fourier would fill a table of 200 x 4 numbers: .* Use plain\.$"):
        scaling.fit(numbers(), "l2", "fourier")


def test_later_rows_get_the_waves_of_the_import(store, waved):
    """`transform` gives the stored rows bit for bit: for one row or all rows of the file, and for appended rows."""
    X = numbers()
    stored = [rows.content(waved.rows, k) for k in range(200)]
    assert stored == [rows.content(waved.transform(X), k) for k in range(200)]
    assert stored[:9] == [rows.content(waved.transform(X[[k]]), 0) for k in range(9)]
    more = sparse.csr_array(np.vstack([numbers(3, seed=1), X[:2]]))
    assert feeds.AppendCounts(appended=3, duplicates=2) == feeds.append(waved, items_of(more, [""] * 5))
    later = waved.transform(numbers(3, seed=1))
    assert [rows.content(later, k) for k in range(3)] == [rows.content(waved.rows, 200 + k) for k in range(3)]
    waved.check()
    with pytest.raises(reading.DataError, match=r"^the data set waved has 4 features\. Got 5\.$"):
        feeds.append(waved, items_of(numbers(3, 5), [""] * 3))


def test_waves_are_no_terms_beside_the_columns(store, waved):
    """The lists of the strongest and of the most changed weights name the columns, but not the waves and leaves."""
    opened = begin(store, "waved")
    before = opened.place.weights.copy()
    while len(opened.labels) < 20:
        say(opened, truth(opened))
    now, names = opened.place.weights, "abcd"
    for label in (1, -1):
        strongest = {
            top_terms.term(opened, k): value for k, value in top_terms.strongest(now, label, 20, latent=waved.latent)
        }
        assert {names[k]: label * now[k] for k in range(4) if label * now[k] > 0} == strongest
    moved = top_terms.moved(before, now, 20, latent=waved.latent)
    assert dict(zip(names, now[:4].tolist())) == {top_terms.term(opened, each.column): each.new for each in moved}


def test_an_item_shows_its_numbers_and_one_line_of_waves(store, waved):
    opened = begin(store, "waved")
    for _ in range(20):
        say(opened, truth(opened))
    asked, place = opened.place.asked, opened.place
    shown = Items(opened).question(asked, place, "everything")["features"]
    assert [(name, float(value)) for name, value, _ in shown[:4]] == list(zip("abcd", numbers()[asked.item].tolist()))
    row = rows.matrix(rows.take(waved.rows, np.array([asked.item]))).toarray()[0]
    parts = np.append(place.weights[:4] * row[:4], place.weights[4:] @ row[4:])
    assert ["combinations of columns", "", pytest.approx(parts[-1] / np.abs(parts).max(), abs=1e-3)] == shown[4]

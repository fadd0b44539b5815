"""The terms with the strongest weights for a class, and the terms whose weights changed most."""

import numpy as np

from oal_engine.sessions.insights import top_terms


def test_the_strongest_terms_speak_for_their_class():
    """With two classes, a term speaks for a class by the sign of its weight. With several classes, a term speaks for
    each class for which its weight is above the mean of its weights."""
    weights = np.array([3.0, -2.0, 0.0, 1.0])
    assert [(0, 3.0), (3, 1.0)] == top_terms.strongest(weights, 1)
    assert [(1, 2.0)] == top_terms.strongest(weights, -1)
    many = np.array([[3.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 6.0]])
    assert [(0, 2.0)] == top_terms.strongest(many, 1)
    assert [(2, 4.0)] == top_terms.strongest(many, 3)
    assert [] == top_terms.strongest(np.array([[-0.1, 0.3, -0.2, 0.0]]), 4)  # their mean is -7e-18


def test_columns_without_names_are_left_out():
    """Columns of similar wording come last. They have no names, and are not listed as terms."""
    weights, later = np.array([1.0, -2.0, 3.0, -4.0]), np.array([1.5, -2.0, 0.0, 0.0])
    assert [(0, 1.0)] == top_terms.strongest(weights, 1, latent=2)
    assert [(1, 2.0)] == top_terms.strongest(np.column_stack([weights, -weights]), 2, latent=2)
    assert [top_terms.Moved(0, None, 1.0, 1.5)] == top_terms.moved(weights, later, latent=2)


def test_a_word_is_one_line_with_its_beginning(monkeypatch):
    """A truncated word (exerc…) adds its weight to each word with this prefix, or is listed itself if there is none."""
    names = ["exercise", "exerc…", "exercises", "gym", "runni…", "new words", "new words", "한국", "한국어", "한국…"]
    monkeypatch.setattr(top_terms, "term", lambda run, column: names[column])
    lines = top_terms.whole_words(None, [(k, np.array([2.0**k])) for k in range(10)])
    assert {
        "exercise": 3.0,
        "exercises": 6.0,
        "gym": 8.0,
        "runni…": 16.0,
        "new words": 96.0,
        "한국": 640.0,
        "한국어": 768.0,
    } == {name: value for name, (value,) in lines}


def test_equal_weights_come_in_the_order_of_their_columns():
    """Terms with equal weights, or equal changes, are listed in the order of their columns, however many there are."""
    weights = np.tile([0.5, 1.0], 500)
    assert [*range(1, 30, 2)] == [column for column, _ in top_terms.strongest(weights, 1, 15)]
    assert [*range(1, 17, 2)] == [each.column for each in top_terms.moved(np.zeros(1000), weights)]
    assert [*range(1000)] == [each.column for each in top_terms.moved(np.zeros(1000), np.ones(1000), 2000)]

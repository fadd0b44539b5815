"""Metrics under push and under push-and-query equal scikit-learn's, and figures computed by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as sk

from oal_engine.kernel import metrics
from oal_engine.kernel.metrics import METRICS, Weights, confusion, evaluate

CLASSES = 4
COUNTS = arrays(np.int64, metrics.COUNTS, elements=st.integers(0, 10**6))


def table(pushed, y, asked):
    """Count items by prediction, class and whether they were asked, one item at a time."""
    counts = np.zeros(metrics.COUNTS, np.int64)
    for p, label, a in zip(pushed, y, asked):
        counts[int(p), label + 1, int(a)] += 1
    return counts


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([-1, 1]), st.booleans()), min_size=1, max_size=40),
    st.floats(0.01, 0.99),
    st.floats(0.01, 0.99),
)
def test_push_equals_scikit_learn(items, alpha, c):
    """Under push every metric equals scikit-learn's for the predictions, with 0 where a ratio is undefined."""
    pushed, y, asked = map(list, zip(*items))
    predicted = np.where(pushed, 1, -1)
    tn, fp, fn, tp = sk.confusion_matrix(y, predicted, labels=[-1, 1]).ravel().tolist()
    sensitivity = sk.recall_score(y, predicted, zero_division=0)
    specificity = sk.recall_score(y, predicted, pos_label=-1, zero_division=0)
    expected = {
        "tp": tp,
        "fp": fp,
        "tn": tn,
        "fn": fn,
        "sensitivity": sensitivity,
        "recall": sensitivity,
        "specificity": specificity,
        "precision": sk.precision_score(y, predicted, zero_division=0),
        "f1": sk.f1_score(y, predicted, zero_division=0),
        "accuracy": sk.accuracy_score(y, predicted),
        "sum": alpha * sensitivity + (1 - alpha) * specificity,
        "cost": c * fn + (1 - c) * fp,
    }
    evaluated = evaluate(table(pushed, y, asked), "push", Weights(alpha, c))
    assert pytest.approx(expected) == {key: value.item() for key, value in evaluated.items()}
    assert {"tp", "fp", "tn", "fn", *METRICS} == expected.keys()


def test_push_and_query_by_hand():
    """Under push-and-query, an asked positive is a true positive and an asked negative a false positive, because the
    question shows the item."""
    counts = np.zeros(metrics.COUNTS, np.int64)
    counts[0] = [[50, 6], [9, 9], [3, 4]]  # not pushed: negatives, unknown, positives; each not asked, asked
    counts[1] = [[5, 2], [9, 9], [7, 1]]  # pushed
    push, both = (evaluate(counts, name, Weights(0.25, 0.8)) for name in metrics.EVALUATIONS)
    assert (8, 7, 56, 7) == tuple(push[key] for key in ("tp", "fp", "tn", "fn"))
    assert (12, 13, 50, 3) == tuple(both[key] for key in ("tp", "fp", "tn", "fn"))
    assert pytest.approx([8 / 15, 56 / 63, 8 / 15, 64 / 78]) == [
        push[key] for key in ("sensitivity", "specificity", "precision", "accuracy")
    ]
    assert pytest.approx([12 / 15, 50 / 63, 12 / 25, 24 / 40, 0.25 * 12 / 15 + 0.75 * 50 / 63, 0.8 * 3 + 0.2 * 13]) == [
        both[key] for key in ("recall", "specificity", "precision", "f1", "sum", "cost")
    ]


@settings(deadline=None)
@given(COUNTS)
def test_a_list_has_the_answers_in_place_of_the_predictions(counts):
    """In a list, asked items count by their answers, whatever was predicted, and other items by their predictions."""
    answered = counts.copy()
    answered[..., 1] = 0
    answered[1, 2, 0] += counts[:, 2, 1].sum()
    answered[0, 0, 0] += counts[:, 0, 1].sum()
    for mine, expected in zip(confusion(counts, metrics.LIST), confusion(answered, "push")):
        assert mine.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("shape", "judge"),
    [(metrics.COUNTS, evaluate), ((CLASSES, CLASSES + 1, 2), metrics.evaluate_classes)],
)
@settings(deadline=None)
@given(st.data())
def test_a_curve_is_evaluated_point_by_point(shape, judge, data):
    """If counts have leading axes, the metrics at each point equal the metrics of the point's counts alone."""
    curve = data.draw(arrays(np.int64, (5, *shape), elements=st.integers(0, 99)))
    for evaluation in metrics.EVALUATIONS:
        whole = judge(curve, evaluation)
        for k, counts in enumerate(curve):
            for name, value in judge(counts, evaluation).items():
                np.testing.assert_array_equal(value, whole[name][k])


def test_weights():
    """The ratio of metric weights is a positive's weight divided by a negative's; weights outside (0, 1) are
    refused."""
    assert pytest.approx((1, 9)) == (Weights().ratio("sum"), Weights().ratio("cost"))
    assert pytest.approx((4, 0.25)) == (Weights(0.8, 0.2).ratio("sum"), Weights(0.8, 0.2).ratio("cost"))
    for name in ("alpha_p", "c_p"):
        for wrong in (0, 1, -0.1, float("nan")):
            with pytest.raises(
                ValueError, match=rf"^{name} of the metric weights must be > 0 and < 1\. Got {wrong}\.$"
            ):
                Weights(**{name: wrong})


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4), st.booleans()), min_size=1, max_size=40).filter(
        lambda items: any(label for _, label, _ in items)
    )
)
def test_classes_equal_scikit_learn(items):
    """Metrics of K classes equal scikit-learn's over the items of known class and the classes that occur: push uses the
    predicted class, push-and-query the true class of an asked item."""
    counts = metrics.empty(CLASSES)
    for predicted, label, asked in items:
        counts[predicted - 1, label, int(asked)] += 1
    known = [item for item in items if item[1]]
    y = [label for _, label, _ in known]
    for evaluation, passed in (
        ("push", [predicted for predicted, _, _ in known]),
        ("push_query", [label if asked else predicted for predicted, label, asked in known]),
    ):
        evaluated = metrics.evaluate_classes(counts, evaluation)
        precision, recall, f1, support = sk.precision_recall_fscore_support(
            y, passed, labels=range(1, CLASSES + 1), zero_division=0
        )
        for name, expected in (("precision", precision), ("recall", recall), ("f1", f1), ("items", support)):
            np.testing.assert_allclose(evaluated[name], expected)
        assert sk.accuracy_score(y, passed) == pytest.approx(evaluated["accuracy"])
        assert sk.f1_score(y, passed, average="macro") == pytest.approx(evaluated["macro_f1"])
        assert recall[support > 0].mean() == pytest.approx(evaluated["macro_recall"])
        assert (
            metrics.class_confusion(counts, evaluation).tolist()
            == sk.confusion_matrix(y, passed, labels=range(1, CLASSES + 1)).tolist()
        )

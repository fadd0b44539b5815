"""The stated quality of the list of positives is exact if all labels are known, else an estimate with an interval."""

import numpy as np
import pytest

from oal_engine.sessions.files import export, methods, report
from oal_engine.sessions.insights import estimates, outcome, ranking
from oal_engine.sessions.insights.ranking import Curve, Ranking
from oal_engine.sessions.session import Session
from tests.harness.sessions import begin, label_truly, reply, say

SIZE = 400


def estimated(known=(), slope=2.0, deviation=0.1):
    """Return a ranking of SIZE items, with margins from 4 to -4 and a fitted curve of their chances of being positive.
    The items in `known` are known to be positive."""
    is_known = np.isin(np.arange(SIZE), known)
    line = np.array([0, slope, 0, 0])
    draws = line + deviation * np.random.default_rng(5).normal(size=(ranking.DRAWS, 4))
    curve = Curve(1.0, np.zeros(2), line, draws)
    return Ranking(np.arange(SIZE), np.linspace(4, -4, SIZE), is_known, SIZE // 2, curve)


def test_labels_of_the_data_give_exact_shares(store):
    """If every item has a label, precision and recall at each depth are counted, and have no interval."""
    opened = begin(store, "sparse", "PAA-I", shuffled=True)
    label_truly(opened, 20)
    made = outcome.of_session(opened).ranking
    positive = opened.y[opened.order] > 0
    answered = {entry.round for entry in opened.log if entry.label == -1}
    assert {*range(opened.rounds)} - answered == {*made.rounds.tolist()}
    for depth in made.depths([1, 7, made.rounds.size]):
        hits = positive[made.rounds[: depth.items]].sum()
        assert (hits / depth.items,) * 3 == pytest.approx(depth.precision)
        assert (hits / positive.sum(),) * 3 == pytest.approx(depth.recall)


def test_a_file_says_what_was_found_and_what_stopping_misses(store):
    """A session that looks for the items of a file says how many were found, of how many, exactly if they are known."""
    opened = begin(store, "sparse", "auto", shuffled=True, goal="find", budget=80)
    label_truly(opened, 80)
    finds = outcome.finds(outcome.of_session(opened).ranking)
    positives = int((opened.y > 0).sum())
    assert finds.total.value == pytest.approx(positives)
    assert finds.hits.value + finds.misses.value == pytest.approx(positives)
    first, second = finds.sentences([1, -1, -1, -1], "Spam")
    assert first.startswith(f"You have found {finds.hits.value:.0f} of {positives} that are Spam; ")
    assert second.startswith("50 more answers would meet about 12 more. ")
    assert dict(outcome.end(opened)).keys() == {"Found", "Right in the list"}
    assert outcome.lists(opened)[0] == ("", "In the list")


def test_the_report_of_a_file_states_its_list_and_how_it_was_asked(store):
    """The report and the text for a methods section say how a file was asked about, and how good its list is; figures
    of a stream are left out."""
    opened = begin(store, "unlabelled", "auto", shuffled=True, goal="find", budget=80)
    for _ in range(70):
        say(opened, 1 if opened.current.item % 4 == 0 else -1)
    text, page = methods.markdown(opened), report.page(opened).decode()
    assert "After 60 labels, which were spread over the beginning, each question was about the item nearest" in text
    assert "had passed" not in text
    assert "300 items streamed" not in page
    assert "How good it is" not in page
    assert estimates.of_session(opened).reason == (
        "In a file the questions follow the model: the quality of its list is stated."
    )


def test_the_expected_positives_are_those_of_the_curve():
    """Precision at a depth of the list is the mean chance of being positive over the items down to this depth. Known
    positives have the chance 1."""
    made = estimated(known=(3, 300))
    chances = 1 / (1 + np.exp(-2 * made.margins))
    chances[[3, 300]] = 1
    (first, last) = made.depths([50, SIZE])
    assert first.precision.value == pytest.approx(chances[:50].mean())
    assert first.recall.value == pytest.approx(chances[:50].sum() / chances.sum())
    assert (1, 1, 1) == pytest.approx(last.recall)
    (certain,) = estimated(known=range(SIZE)).depths([9])
    assert (1, 1, 1) == pytest.approx(certain.precision)


def test_the_interval_holds_the_number_of_positives_that_the_curve_draws():
    """If the parameters of the curve are known precisely, the intervals cover the precision and recall of labels drawn
    from the curve in 95 % of draws."""
    rng, made = np.random.default_rng(0), estimated(deviation=1e-6)
    (depth,) = made.depths([250])
    labels = rng.random((4000, SIZE)) < 1 / (1 + np.exp(-2 * made.margins))
    hits = labels[:, :250].sum(axis=1)
    for estimate, shares in ((depth.precision, hits / 250), (depth.recall, hits / labels.sum(axis=1))):
        assert 0.92 < ((estimate.low <= shares) & (shares <= estimate.high)).mean() < 0.98


def test_an_uncertain_line_widens_the_interval():
    """An uncertain curve gives wider intervals, which are still between 0 and 1."""
    sure, unsure = (estimated(deviation=each).depths([200])[0] for each in (0.01, 0.5))
    for narrow, wide in zip(sure[1:], unsure[1:]):
        assert 0 <= wide.low < narrow.low <= narrow.value <= narrow.high < wide.high <= 1


@pytest.mark.parametrize("bend", [0, 2])
def test_the_fit_finds_the_curve_that_made_the_answers(bend):
    """The fit recovers the true chances of being positive within its stated errors, with or without a bend in the
    curve, from answers with different asking probabilities."""
    rng, grid = np.random.default_rng(1), np.linspace(-1.5, 1.5, 7)
    margins, chances = rng.normal(size=5000), rng.uniform(0.2, 1, 5000)

    def line(x):
        return 1.5 * x - 1 - bend * np.maximum(x - 0.43, 0) / 2

    fitted = ranking.fit(margins, rng.random(5000) < 1 / (1 + np.exp(-line(margins))), chances)
    draws = fitted.chances(grid, fitted.draws)
    low, high = np.quantile(draws, [0.005, 0.995], axis=0)
    true = 1 / (1 + np.exp(-line(grid)))
    assert ((low < true) & (true < high)).all()
    assert (high - low).max() < 0.35 * ranking.CAUTION**0.5  # about the width for 250 / CAUTION answers


def test_separable_answers_give_a_narrow_interval():
    """Where margins separate the classes, the interval of the positives among all items is not wide: lines that the
    answers contradict do not count."""
    rng = np.random.default_rng(3)
    margins = rng.normal(size=2000)
    asked = np.arange(80)
    curve = ranking.fit(margins[asked], margins[asked] > 0.5, np.ones(80))
    order = np.argsort(-margins)
    listed = int((margins > 0.5).sum())
    (depth,) = Ranking(order, margins[order], np.zeros(2000, bool), listed, curve).depths([listed])
    assert depth.precision.low > 0.7
    assert depth.recall.low > 0.7


@pytest.mark.parametrize("positive", [[1] * 4 + [0] * 40, [1] * 40 + [0] * 4, [0, 1] * 20])
def test_without_enough_answers_or_a_rising_line_nothing_is_stated(positive):
    """There is no estimate with fewer than five answers of a class, or if higher margins do not mean more positives."""
    margins = np.linspace(-1, 1, len(positive)) if sum(positive) != 20 else np.where(positive, -1.0, 1.0)
    assert ranking.fit(margins, np.array(positive, bool), np.full(len(positive), 0.5)) is None


def test_answers_that_come_in_another_order_keep_their_margins(store):
    """If two people answer in an order different from the order of the questions, each cross-validated margin still
    belongs to its question."""
    opened = begin(store, "unlabelled", "PAA-I", shuffled=True, budget=100)
    for _ in range(8):
        for who in ("ann", "ben"):
            assert opened.held(who)
        for who, label in (("ben", 1), ("ann", -1)):
            reply(opened, who, label)
    log = [entry for entry in opened.log if entry.label]
    assert [lesson.number for lesson in opened.state.lessons] != [entry.number for entry in log]
    left_out = ranking.margins_left_out(len(log), lambda places: ranking._margins_without(opened, log, places))
    for entry, margin in zip(log, left_out):
        others = [lesson for lesson in opened.state.lessons if lesson.number != entry.number]
        assert margin == ranking._margins(opened, opened.taught(others, 100).only().learner, np.array([entry.item]))[0]


def test_an_answer_that_somebody_gave_meanwhile_is_left_for_later(store):
    opened = begin(store, "unlabelled", "PAA-I", shuffled=True, budget=100)
    for label in (1, -1, 1):
        say(opened, label)
    say(Session(store, opened.id), -1)
    assert [1, -1, 1] == ranking.left_out(opened)[0].tolist()


def of_classes(opened):
    """Check that the file that is taken home has every item once, and return it as a whole and by class."""
    whole, *classes = outcome.of_classes(opened)
    assert opened.rounds == whole.answered + whole.predicted
    assert (whole.answered, whole.predicted) == tuple(np.sum([each[1:3] for each in classes], axis=0))
    sizes = [each.answered + each.predicted for each in classes]
    assert sizes == sorted(sizes, reverse=True)
    return whole, {each.name: each for each in classes}


def test_labels_of_the_data_count_how_much_of_a_file_of_classes_is_right(store):
    """If every item has a label, the shares of the file that are right are counted: an answer is right, and another
    item is if the final model predicts its class."""
    opened = begin(store, "classes", "auto-classes", shuffled=True, goal="find", budget=60)
    label_truly(opened, 60)
    whole, classes = of_classes(opened)
    table = export.predictions(opened)[0].frame
    asked = {entry.item for entry in opened.log}
    taken = [opened.y[k] if k in asked else label for k, label in zip(table["position"], table["predicted"])]
    right = np.array(taken) == opened.y[table["position"]]
    assert (right.mean(),) * 3 == pytest.approx(whole.right)
    for label, name in opened.names.items():
        assert (right[np.array(taken) == label].mean(),) * 3 == pytest.approx(classes[name].right)
    assert dict(outcome.end(opened)).keys() == {"Right in the file", "Items"}


@pytest.mark.parametrize("goal", ["find", "stream"])
def test_answers_tell_how_much_of_a_file_of_classes_is_right(store, goal):
    """Without labels the share of the file that is right has an interval that holds the truth, and so has each class
    with enough answers; the others say that there are too few."""
    labels = begin(store, "classes", "auto-classes").y
    opened = begin(store, "unlabelled", "auto-classes", classes=tuple("abcd"), shuffled=True, goal=goal, budget=100)
    assert outcome.of_classes(opened)[0].in_words == "too few answers"
    while opened.place.asked:
        say(opened, int(labels[opened.place.asked.item]))
    whole, classes = of_classes(opened)
    table = export.predictions(opened)[0].frame
    given = ranking.labels_of(opened)[table["position"]]
    taken = np.where(given, given, table["predicted"])
    right = taken == labels[table["position"]]
    assert whole.right.low < right.mean() < whole.right.high
    for label, name in opened.names.items():
        stated = classes[name].right
        assert stated is None or stated.low <= right[taken == label].mean() <= stated.high

"""Several questions are answered together for each item. With one question, the result is a plain replay. With several,
it is that of the plain implementation (naive.py), and each question keeps its promised minimum probability."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine.kernel import questions, rows, spending
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.runs import Run
from tests.harness import naive
from tests.harness.promises import arrays, data

ROUNDS, BUDGET = 600, 90
PLANS = [{}, {"floor": 0.5}, {"audit": 0.3, "audit_trains": False}, {"floor": 0.3, "pace": 0.5}]


def stream(seed=0, rounds=ROUNDS):
    """Return random rows, and the labels of four questions, with shares of positives from a half to a hundredth."""
    X = data(seed, n=rounds, huge=1)[0]
    scores = X @ np.random.default_rng(seed).normal(size=(X.shape[1], 4))
    limits = [np.quantile(each, share) for each, share in zip(scores.T, (0.5, 0.8, 0.95, 0.99))]
    return X, np.where(scores > limits, 1, -1).T


def runs_of(X, Y, **more):
    table = rows.as_rows(csr_array(X))
    first = Run(
        strategy(learner="pool-f1", rule="paced"),
        table,
        Y[0],
        np.arange(len(X)),
        **{"budget": BUDGET, "seed": 3} | more,
    )
    return [replace(first, y=y) for y in Y]


def bits(replay):
    return [array.tobytes() for array in (*replay[:4], *arrays(replay.learner)) if isinstance(array, np.ndarray)]


def outcomes(replays):
    """Return the bits of the last counts, the log and the learner of each question."""
    return [bits(each._replace(curve=each.curve[-1])) for each in replays]


@pytest.mark.slow
@pytest.mark.parametrize("more", [*PLANS, {"average": True}, {"budget": None}])
def test_one_question_is_a_session_of_today(more):
    """A session of one question, or of the same question twice with the rule `max` (rare=False), asks, learns and
    counts as `Run.replay` does, to the bit."""
    X, Y = stream()
    (run,) = runs_of(X, Y[1:2], **more)
    today = outcomes([run.replay(log=True)])
    assert today == outcomes(questions.replay([run]))
    assert today * 2 == outcomes(questions.replay([run] * 2, rare=False))
    marks = [0, 50, 333, 333, ROUNDS]
    assert bits(run.replay(marks, log=True)) == bits(questions.replay([run], marks=marks)[0])


@pytest.mark.slow
@pytest.mark.parametrize("rare", [True, False])
@pytest.mark.parametrize("more", PLANS)
def test_several_questions_equal_the_formulas(rare, more):
    """If several questions are asked about each item, the asked items, their probabilities, the predictions and the
    weights agree with the plain implementation (naive.py)."""
    X, Y = stream()
    learners = [naive.Learner("pool-f1", X.shape[1]) for _ in Y]
    values = {"trains" if name == "audit_trains" else name: value for name, value in more.items()}
    plan = naive.PlanOfQuestions(len(Y), rare, "paced", BUDGET, ROUNDS, **values)
    readings, predictions = naive.replay_questions(X, Y, range(ROUNDS), learners, "paced", plan, BUDGET, seed=3)
    ours = questions.replay(runs_of(X, Y, **more), rare)
    for k, (each, learner) in enumerate(zip(ours, learners)):
        wanted = np.array([(t, margins[k], chance) for t, margins, chance in readings])
        assert wanted[:, 0].tolist() == each.log[:, 0].tolist()
        np.testing.assert_allclose(each.log, wanted, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(each.learner.w, learner.w, rtol=1e-6, atol=1e-9)
        asked = np.isin(np.arange(ROUNDS), wanted[:, 0])
        counts = np.zeros((2, 3, 2), int)
        np.add.at(counts, ((np.array(predictions)[:, k] > 0).astype(int), Y[k] + 1, asked.astype(int)), 1)
        assert counts.tolist() == each.counts.tolist()


def test_blocks_of_rounds_change_no_bit(monkeypatch):
    runs = runs_of(*stream(), floor=0.3)
    whole = outcomes(questions.replay(runs))
    for block in (8, 24, 4096):
        monkeypatch.setattr(questions, "BLOCK", block)
        assert whole == outcomes(questions.replay(runs))


def test_every_question_keeps_its_promise():
    """An item that a question does not push is asked about with at least the minimum probability promised to the
    question, whatever other questions push and however few labels are left."""
    raised = 0
    for seed in range(20):
        X, Y = stream(seed, 1500)
        runs = runs_of(X, Y, floor=0.6, seed=seed)
        for each in questions.replay(runs):
            hidden = each.log[each.decided[:, 1] < 0, 2]
            assert hidden.min() >= runs[0].plan().promised
            raised += (hidden > 2.5 * runs[0].plan().promised).sum()
    assert raised  # some probabilities, by another question


def test_the_floor_of_an_item_that_only_some_push_is_never_lowered():
    """Once the labels for pushed items are spent, only items that all questions push lose their minimum probability."""
    plan = spending.plan("paced", 100, 1000, floor=0.5)
    plan.spent[0] = 95
    least = [spending.chances(plan, 500, 1e-9, predicted)[1] for predicted in (-1, 0, 1)]
    assert [plan.promised, plan.promised, 0] == least


def test_rare_questions_get_more_readings():
    """The rule `rare` finds more positives of the rarest questions than `max`, and both spend the whole budget."""
    found = {True: 0, False: 0}
    for seed in range(10):
        X, Y = stream(seed, 3000)
        for rare in found:
            log = questions.replay(runs_of(X, Y, seed=seed, budget=100), rare)[0].log
            assert 100 == len(log)
            found[rare] += (Y[2:, log[:, 0].astype(int)] > 0).sum()
    assert found[True] > 1.1 * found[False]


def test_questions_of_several_classes_are_refused():
    X, Y = stream()
    run = replace(runs_of(X, Y)[0], strategy=strategy("auto-classes"), y=(Y[0] + 3) // 2, classes=2)
    with pytest.raises(ValueError, match="several questions need learners of positives and negatives"):
        questions.replay([run, run])

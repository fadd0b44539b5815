"""Runs of another algorithm over the stream of a session, with the answers of the session or of its file."""

import numpy as np
import pytest

from oal_engine.kernel import stream
from oal_engine.kernel.algorithms import strategy
from oal_engine.kernel.learners import weights
from oal_engine.sessions import what_if as what_ifs
from oal_engine.sessions.look_back import Trace
from oal_engine.sessions.one_question import QuestionTrace
from oal_engine.sessions.what_if import what_if
from tests.harness.sessions import EVENTS, begin, give, label_until_the_end, labelled, say, stream_of

RUNS = [
    ("sparse", "PAA-I", {}),
    ("sparse", "OA3-diag", {"shuffled": True}),
    ("classes", "MPAA-I", {"averaged": True}),
    ("sparse", "PAA-I", {"audit": 0.3, "audit_trains": False, "pace": 0.6, "horizon": 290, "seed": 4}),
]
NAMES = ["half", "fifth", "rare", "late"]
Y = np.array([np.where(np.arange(400) % each, -1, 1) for each in (2, 5, 9, 3)])


def facts(run):
    """Return the round, item, margin, asking probability, draw, prediction and label of each question of a run."""
    return [(e.round, e.item, e.margin, e.probability, e.draw, e.predicted, e.label) for e in run.log]


def of_several(store, **more):
    """Return the trace of a finished session that asks several questions: one is added after 10 answers, one closed
    after 20."""
    opened = begin(store, "unlabelled", "auto", questions=NAMES[:3], **more)
    give(opened, 10, Y)
    opened.add_question(next(EVENTS), "late")
    give(opened, 10, Y)
    opened.close_question(next(EVENTS), "fifth")
    while opened.current:
        give(opened, 1, Y)
    return Trace(store, opened.id)


@pytest.mark.parametrize(("data", "algorithm", "more"), RUNS)
def test_the_same_algorithm_gives_the_same_session(store, data, algorithm, more):
    """If all answers are true, a what-if with the session's own algorithm has the session's questions, counts and
    weights."""
    opened = begin(store, data, algorithm, **more)
    label_until_the_end(opened)
    trace = Trace(store, opened.id)
    alternative = what_if(trace, strategy(algorithm))
    assert (True, 1.0, 0) == (alternative.exact, alternative.share, alternative.different)
    assert facts(trace) == facts(alternative.run)
    assert trace.counts.tobytes() == alternative.run.counts.tobytes()
    assert weights(trace.state.only().learner).tobytes() == weights(alternative.run.state.only().learner).tobytes()


def test_another_algorithm_is_the_replay_of_it(store):
    """On labeled data, a what-if with another algorithm has the counts of a replay of that algorithm."""
    opened, _ = labelled(store, budget=30)
    trace = Trace(store, opened.id)
    alternative, chosen = what_if(trace, strategy("OA3-diag")), strategy("OA3-diag")
    replay = stream.replay(
        trace.dataset.rows, trace.y, trace.order, *chosen.build(8), stream.objective(), budget=30, seed=0
    )
    assert (replay.counts.tolist(), replay.queried) == (alternative.run.counts.tolist(), len(alternative.run.labels))
    wrong = sum(e.label not in (0, trace.y[e.item]) for e in trace.log)
    assert wrong == alternative.different > 0


def test_without_labels_only_this_session_answers(store, monkeypatch):
    """On unlabeled data, `share` is the share of the what-if's questions that the session answered. The other questions
    cost a label, too."""
    y = stream_of()[1].y
    opened = begin(store, "unlabelled")
    while opened.place.asked:
        say(opened, int(y[opened.place.asked.item]))
    trace = Trace(store, opened.id)
    assert (False, 1.0, True) == ((same := what_if(trace, strategy("PAA-I"))).exact, same.share, same.enough)
    alternative = what_if(trace, strategy("OA3-diag"))
    here = {e.round: e.label for e in trace.log}
    log = alternative.run.log
    assert [here.get(e.round, 0) for e in log] == [e.label for e in log]
    assert sum(e.round in here for e in log) / len(log) == alternative.share < 1
    assert len(log) <= 40
    for limit in (alternative.share, alternative.share + 1e-9):
        monkeypatch.setattr(what_ifs, "ENOUGH", limit)
        assert alternative.enough == (limit <= alternative.share)


def test_what_if_of_the_other_kind_is_refused(store):
    """A what-if with a multi-class algorithm is refused in a session of two classes."""
    with pytest.raises(ValueError, match=r"^the session tells positives and negatives apart\. Got MPAA-I\.$"):
        what_if(Trace(store, begin(store).id), strategy("MPAA-I"))


@pytest.mark.parametrize("more", [{}, {"floor": 0.5}, {"audit": 0.3, "pace": 0.8}])
def test_the_same_algorithm_gives_the_same_session_of_several_questions(store, more):
    """In a what-if with the session's own algorithm, each question, even an added or closed one, has the session's
    items, margins, answers, decisions and weights."""
    trace = of_several(store, **more)
    for name in NAMES:
        own = QuestionTrace(trace, name)
        alternative = what_if(own, strategy("auto", several=True))
        assert (False, 1.0, 0) == (alternative.exact, alternative.share, alternative.different)
        assert facts(own) == facts(alternative.run)
        assert own.state.counts.tobytes() == alternative.run.state.counts.tobytes()
        assert own.decided[1].tobytes() == alternative.run.decided[1].tobytes()
        learned = (weights(run.state.only().learner).tobytes() for run in (own, alternative.run))
        assert next(learned) == next(learned)


def test_another_algorithm_of_several_questions_has_the_answers_of_the_session(store):
    """A what-if with another algorithm asks about other items. An item gets the session's label if the session asked
    this question about it, else none."""
    trace = of_several(store)
    for k, name in enumerate(NAMES):
        own = QuestionTrace(trace, name)
        alternative, here = what_if(own, strategy("OA3-diag")), {entry.item: entry.label for entry in own.log}
        items = [entry.item for entry in alternative.run.log]
        assert [here.get(item, 0) for item in items] == [entry.label for entry in alternative.run.log]
        assert alternative.answered == len({*items} & {*here}) < len(items)
        assert {*items} != {*here}
        assert alternative.run.labels == [Y[k, item] for item in items if item in here]


def test_a_rule_that_leaves_items_out_is_refused_with_several_questions(store):
    """With several questions, a what-if with a rule that gives some items no chance of being asked is refused."""
    trace = QuestionTrace(of_several(store), "half")
    with pytest.raises(ValueError, match=r"^several questions need a rule that gives every item a chance\."):
        what_if(trace, strategy(learner="perceptron", rule="positive"))

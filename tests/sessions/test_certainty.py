"""Guaranteed minimum metrics, such as recall, follow from the log of a session alone. Only a session with the option
`floor` has them."""

import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.kernel import metrics
from oal_engine.sessions.files import export, report
from oal_engine.sessions.insights import outcome
from oal_engine.sessions.insights.certainty import (
    expected,
    forecast,
    in_words,
    labels_for,
    of_session,
    sentences,
)
from oal_engine.sessions.look_back import Trace, verify
from tests.harness.sessions import EVENTS, begin, label_until_the_end, say, stream_of, take_back, truth

MORE = {"budget": 120, "floor": 0.6, "parameters": {"delta": 0.5}}


@pytest.fixture(scope="module")
def session(store):
    """A session with the `floor` option, answered until its end."""
    opened = begin(store, **MORE)
    label_until_the_end(opened)
    return opened


def test_a_guarantee_near_0_is_not_shown(store):
    """If few answers guarantee hardly anything, the page says so in one sentence without a number, and the report has
    no table of guarantees."""
    opened = begin(store, **MORE | {"budget": 12})
    label_until_the_end(opened)
    assert 0 < of_session(opened).recall < 0.1
    assert sentences(opened) == ["Too few answers to guarantee any share found among the first 293 items."]
    assert "At least" not in report.page(opened).decode().split("Guaranteed minimum")[1].split("<h2")[0]
    assert in_words({"a": 0.017, "b": 0.5}) == "All questions at once: at least 50 % of b are found (5 % risk)."
    assert in_words({"a": 0.017}) == ""


def test_floors_are_below_the_truth_and_the_same_in_a_trace(store, session):
    """Guaranteed minimum metrics never exceed the true ones, are not trivial, and are the same in a trace."""
    now, trace = of_session(session), Trace(store, session.id)
    assert now == of_session(trace)
    assert verify(store, session.id).verified
    counts = session.place.counts if not now.closed else session.state.closed[1]
    for name in metrics.EVALUATIONS:
        real = session.evaluate(counts, name)
        assert all(0 <= least <= real[metric] for metric, least in now.floors[name].items())
    assert now.recall > 0.3
    assert now.labels == session.state.spent


def test_a_session_without_a_floor_says_nothing(store):
    opened = begin(store)
    assert [None] * 3 == [each(opened) for each in (of_session, expected, labels_for)]


def test_skips_corrections_and_undone_answers_count_as_they_stand(store):
    """A skip counts as not relevant. An undo restores the earlier guaranteed minimum metrics. Correcting a missed
    positive to a negative does not lower the guaranteed minimum of recall."""
    opened = begin(store, **MORE)
    while not any(entry.label == 1 and entry.predicted < 0 for entry in opened.log):
        say(opened, truth(opened))
    before = of_session(opened)
    say(opened, 1)
    take_back(opened)
    assert before == of_session(opened)
    number = next(k for k, entry in enumerate(opened.log) if entry.label == 1 and entry.predicted < 0)
    opened.correct(next(EVENTS), opened.log[number].id, -1)
    fewer = of_session(opened)
    assert fewer.floors["push"]["recall"] >= before.floors["push"]["recall"]  # fewer positives are missed
    opened.correct(next(EVENTS), opened.log[number].id, 0)
    assert fewer.floors == of_session(opened).floors


def test_items_and_labels_that_come_later_keep_floors_right(store):
    """After items and labels are added, the guaranteed minimum metrics still do not exceed the true ones, and the
    session passes verification. Items that were not pushed were asked about with at least the promised probability."""
    X, items = stream_of(300)
    ids, names = items.ids, [f"f{k}" for k in range(8)]
    parts = [
        reading.Items(ids[part], None, X[part], names, ids[part], items.y[part], {})
        for part in (slice(0, 150), slice(150, 300))
    ]
    datasets.add(store, "later", datasets.table(parts[0]), "made.npz")
    opened = begin(store, "later", **MORE | {"budget": 60})
    label_until_the_end(opened)
    feeds.append(Dataset(store, "later"), parts[1])
    opened.refresh()
    opened.add_labels(next(EVENTS), 40)
    label_until_the_end(opened)
    plan, now = opened.state.plan, of_session(opened)
    assert plan.promised < opened.settings.plan().promised
    assert all(entry.probability >= plan.promised for entry in opened.log if entry.predicted < 0)
    counts = opened.place.counts if not now.closed else opened.state.closed[1]
    for name in metrics.EVALUATIONS:
        real = opened.evaluate(counts, name)
        assert all(0 <= least <= real[metric] for metric, least in now.floors[name].items())
    assert now.rounds > 200
    assert verify(store, opened.id).verified


def test_what_the_next_points_cost(store):
    """Halfway through a session, `labels_for` finds how many added labels would raise the guaranteed minimum of recall
    expected at the end; at the end of the stream it returns None."""
    opened = begin(store, **MORE)
    while opened.place.asked and opened.place.asked.round < 100:
        say(opened, truth(opened))
    more = labels_for(opened, 0.01)
    assert 1 <= more <= 200
    assert 0 < expected(opened) < 1
    label_until_the_end(opened)
    assert labels_for(opened) is None


def test_summary_report_and_export_say_it(store, session, tmp_path):
    """The guaranteed minimum of recall is stated in the summary, in the report (with those of all other metrics), and
    in the message of an export of the decisions."""
    now = of_session(session)
    sentence = f"At least {100 * now.recall:.0f} % of the relevant items"
    assert outcome.summary(session)[-1].startswith(sentence)
    page = report.page(session).decode()
    assert sentence in page
    assert f"<td>{now.floors['push']['f1']:.3f}</td>" in page.replace(' class="figure"', "")
    assert str(now) == export.export(store, session.id, "decisions", "csv", tmp_path / "decisions.csv")


def test_a_forecast_rises_with_labels_and_prevalence():
    """The forecast minimum of recall is between 0 and 1, and rises with the labels and the share of positives."""
    floors = [forecast(labels, 10_000, 0.05) for labels in (100, 300, 1000, 3000)]
    assert floors == sorted(floors)
    assert 0 < floors[0] < floors[-1] < 1
    assert forecast(300, 10_000, 0.02) < forecast(300, 10_000, 0.2)

"""The panels next to the card: progress, history, pushed items, learned terms, estimates, guidelines."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from threading import Event
from types import SimpleNamespace

import numpy as np
import plotly.graph_objects as go
import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import learners
from oal_engine.output.meanings import MEANINGS
from oal_engine.output.plots import NAMES
from oal_engine.sessions.insights import answer_checks, curves, estimates, outcome, top_terms
from oal_engine.sessions.insights.curves import percent
from oal_engine.sessions.items import why
from oal_engine.sessions.log import Entry
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError, Settings, create
from oal_engine.sessions.state import Progress
from tests.harness.pages import BINARY, WAIT, details, listed, press, run, words
from tests.harness.sessions import label_until_the_end
from ui import charts
from ui.components import item_list
from ui.label import card_server, messages
from ui.label.card_server import CACHE_SECONDS, MORE_ITEMS, CardServer, keys_of
from ui.label.panels import advice, check, history, pushed


@pytest.mark.parametrize("action", ["label", "correct"])
def test_an_answer_belongs_to_the_item_that_was_shown(work, action):
    """An answer is refused and not stored if its question is about an item other than the one that the browser showed,
    as after a backup was restored."""
    server = work(1)
    session = server.session
    asked, before = session.place.asked if action == "label" else session.answered(session.previous), session.labels
    values = {"id": "old", "action": action, "question": asked.id, "label": -1, "was": asked.old}
    with pytest.raises(SessionError, match=r"this question was replaced; reload the page\."):
        server.handle(messages.read(messages.CardEvent, values | {"item": asked.item + 1}), "anna")
    assert before == session.labels
    server.handle(messages.read(messages.CardEvent, values | {"item": asked.item}), "anna")
    assert -1 == session.answered(asked.id).old


def test_what_the_model_was_told_is_not_highlighted(work):
    """Before the first answer no word is highlighted, not even a seed word. After some answers, learned terms are."""
    server = work(0, learner="pa-i", rule="all", seed_words=["good"])
    begun = server.payload(marks=True)["place"]["question"]
    assert [0] == [weight for _, weight in begun["parts"]]
    assert "The model began with the word good." in words(listed(server.session.id, "learned"))
    session = server.session
    for k in range(8):
        asked = session.place.asked
        session.answer(f"e{k}", asked.id, 1 if session.dataset.item(asked.item)["label"] == "good" else -1)
    assert any(weight for _, weight in server.payload(marks=True)["place"]["question"]["parts"])


def test_plotly_accepts_the_charts(work):
    session = work().session
    estimate = estimates.Estimate(0.5, 0.4, 0.6)
    points = [(t, None, {key: {"sum": estimate, "f1": estimate} for key in NAMES}) for t in (10, 20)]
    figures = [
        *curves.of_session(session),
        *curves.estimated(session, points),
        curves.answers(session),
        curves.finds(session, estimate),
    ]
    assert 7 == len(figures)
    drawn = [charts.figure(chart) for chart in figures]
    bands = [trace for figure in drawn for trace in figure["data"] if "fill" in trace]
    assert ["none"] * 5 == [band["mode"] for band in bands]  # by default Plotly draws a dot for each of few points
    for figure in drawn:
        assert figure["data"]
        assert len(figure["data"]) == len(go.Figure(figure).data)


@pytest.mark.parametrize(("budget", "more"), [(15, False), (200, True)])
def test_the_end_says_what_comes_next(work, keep, budget, more):
    """Only if labels are left, the card at the end says that new items will be asked about."""
    server = work(16, keep("few", 16), learner="pa-i", rule="all", budget=budget)  # a skip among them
    payload = server.payload()
    assert payload["place"]["question"] is None
    assert more == (MORE_ITEMS in payload["place"]["result"])


def test_labels_are_added_at_the_end_and_on_the_way(app_store, work, keep):
    """A session whose budget is spent offers more labels with a forecast and then continues. Labels can be added beside
    the settings while a question is waiting, and the question stays. A stream that ended offers none."""
    plain = keep("plain", 600, reading.Columns(("text",)))
    spent = work(19, plain, learner="pa-i", rule="all", budget=18).session  # a skip among them
    at = run("pages/1_Label.py", session=str(spent.id), annotator="carla")
    forecast = estimates.forecast(118, False)
    assert f"Labeling continues at item 20, where the budget ran out. {forecast}" in words(at)
    at.number_input(key="add-labels-labels").set_value(7)
    press(at, "add-labels")
    again = Session(app_store, spent.id)
    assert (25, 19, True) == (again.place.progress.budget, again.place.asked.round, again.place.progress.waiting)
    press(listed(spent.id, "guidelines"), "add-labels-early")
    early = Session(app_store, spent.id).place
    assert (125, again.place.asked) == (early.progress.budget, early.asked)
    ended = work(16, keep("few", 16), learner="pa-i", rule="all", budget=200).session
    assert not [each for each in run("pages/1_Label.py", session=str(ended.id)).button if each.key == "add-labels"]


def test_scoring_the_stream_at_the_end_keeps_no_event_waiting(work, monkeypatch):
    """While one browser waits for the summary at the end of a long stream, another can undo the last answer."""
    server, scored = work(19, learner="pa-i", rule="all", budget=18), Event()
    monkeypatch.setattr(outcome, "end", lambda session: [("Scored", str(scored.wait(WAIT)))])
    with ThreadPoolExecutor() as threads:
        shown = threads.submit(server.payload)
        undo = {"id": "u", "action": "undo", "question": server.session.previous}
        taken_back = threads.submit(server.handle, messages.read(messages.CardEvent, undo), "anna")
        try:
            taken_back.result(WAIT / 2)
        finally:
            scored.set()
        assert [("Scored", "True")] == shown.result(WAIT)["place"]["found"]
    assert server.session.place.asked


def test_labels_used_are_drawn_beside_those_planned(work, keep):
    """A session that spreads its labels over the stream has a chart with two lines: the labels planned, and the labels
    used, not counting the waiting question. Other sessions have no such chart."""
    data = keep()
    paced = work(30, data, algorithm="auto", budget=100).session
    chart = next(chart for chart in curves.of_session(paced) if chart.key == "pace")
    planned, used = (line.y for line in chart.lines)
    assert 27 == used[-1]  # of thirty answers three are skips
    reached = chart.lines[0].x[-1]
    assert planned[-1] == pytest.approx(10 + 90 * (reached - 10) / (paced.state.plan.paced - 10))
    assert "pace" not in [chart.key for chart in curves.of_session(work(5, data).session)]


def view(**changes):
    return messages.View(**changes)


def titles(page):
    return [row["title"] for row in page["rows"]]


# The list


def test_a_list_is_turned_page_by_page(work):
    """A page of the history has fifty rows, the newest first, and states its position in the list."""
    server = work(120)
    first, last = history.page(server, view()), history.page(server, view(page=2))
    assert [120 - k for k in range(50)] == [int(row["by"].split()[1]) for row in first["rows"]]
    assert ("1–50 of 120", False, True) == tuple(first[key] for key in ("total", "newer", "older"))
    assert ("101–120 of 120", True, False) == tuple(last[key] for key in ("total", "newer", "older"))
    assert 20 == len(last["rows"])


def test_a_list_goes_on_behind_an_open_row(work):
    """The page with the open row is shown, whichever was wanted, and goes on for fifty rows from it, so that keys need
    not wait for the next page. A search does the same. With keys, the next rows come with their whole texts."""
    server = work(120)
    newest = [entry.id for entry in reversed(server.log) if entry.label is not None]
    for place, page, end in ((0, 0, 50), (30, 0, 80), (49, 0, 99), (50, 1, 100), (110, 2, 120)):
        for search in ("", "n"):
            shown = history.page(server, view(open=newest[place], page=1, walk=True, search=search))
            assert newest[50 * page : end] == [row["id"] for row in shown["rows"]]
            assert (page, page > 0, end < 120) == (shown["page"], shown["newer"], shown["older"])
            whole = [row["id"] for row in shown["rows"] if row["text"] is not None]
            assert newest[place : place + 4][: 120 - place] == whole


def test_a_search_finds_words_ids_and_notes_in_any_case(work):
    server = work(60)
    entries = server.log
    server.session.note("n", entries[7].item, "Ask the OWNER", "anna")
    assert titles(history.page(server, view(search="the owner"))) == [
        server.session.dataset.item(entries[7].item)["id"]
    ]
    result = history.page(server, view(search=" STRASSE3 "))
    assert result["rows"]
    assert all("Straße3" in row["snippet"] for row in result["rows"])
    assert [] == history.page(server, view(search="nowhere"))["rows"]


def test_only_the_open_row_brings_its_whole_text(work):
    """In a list, only the open row has the whole text of its item, so that a page of long documents stays small."""
    server = work(20)
    opened = server.log[3].id
    texts = {row["id"]: row["text"] for row in history.page(server, view(open=opened))["rows"]}
    assert {opened} == {row for row, text in texts.items() if text is not None}
    assert texts[opened].startswith("<b>n")


def test_a_long_search_says_how_far_it_looked(work, monkeypatch):
    server = work(60)
    monkeypatch.setattr(item_list, "MAX_SEARCHED", 20)
    result = history.page(server, view(search="n"))
    assert "20 items among the newest 20" == result["total"]
    assert "0 items among the newest 20" == history.page(server, view(search="nowhere"))["total"]
    assert [60 - k for k in range(20)] == [int(row["by"].split()[1]) for row in result["rows"]]


# History


def test_history_shows_who_answered_what_and_when(work):
    """A row of the history has the answer, the annotator, the time taken, the chance of being asked (unless it is a
    skip), and whether the model was wrong."""
    server = work(60)
    answered = [entry for entry in reversed(server.log) if entry.label is not None]
    rows = history.page(server, view())["rows"]
    assert [entry.answered_at for entry in answered[:50]] == [row["when"] for row in rows]
    for row, entry in zip(rows, answered):
        name = server.session.names.get(entry.label, "Skipped")
        assert name == row["chips"][0][0]
        chance = f" · {percent(entry.probability)} chance of being asked" * (entry.label != SKIP)
        assert row["by"].endswith(f"{entry.annotator} · 1.2 s{chance}")
        wrong = entry.label not in (SKIP, entry.predicted)
        assert wrong == any(kind == "wrong" for _, kind in row["chips"])


def test_history_is_filtered(work):
    server = work(60)
    entries = server.log
    server.session.correct("c", entries[4].id, -entries[4].label or 1, "anna")
    server.session.note("n", entries[9].item, "unsure", "anna")
    shows = dict(history.page(server, view())["shows"])
    for show, fits in (
        ("1", lambda entry: entry.label == 1), ("-1", lambda entry: entry.label == -1),
        ("0", lambda entry: entry.label == 0), ("corrected", lambda entry: entry.corrected),
        ("noted", lambda entry: entry.note), ("wrong", lambda entry: entry.label and entry.label != entry.predicted),
    ):  # fmt: skip
        expected = [entry.id for entry in reversed(server.log) if entry.label is not None and fits(entry)][:50]
        assert expected
        assert expected == [row["id"] for row in history.page(server, view(show=show))["rows"]]
        assert show in shows


def test_an_answer_of_long_ago_is_corrected_on_the_page(app_store, work):
    """A correction is stored once with its annotator, and the questions asked so far stay."""
    server = work(40)
    session, entry = server.session.id, server.log[5]
    asked_items = [entry.item for entry in server.log]
    event = {"id": "c1", "row": entry.id, "action": -entry.label or 1}
    at = listed(session, "history", events=[event])
    at.run()
    assert not at.exception
    (row,) = app_store.events(session, "corrected")
    assert (entry.id, "c1", event["action"], "carla") == (row["question"], row["id"], row["label"], row["annotator"])
    assert {"highlighted": 0} == row["data"]
    assert asked_items == [row["item"] for row in app_store.answers(session)][: len(asked_items)]
    assert Session(app_store, session).history[5].corrected


# Answers to check


def checked(work):
    """Return the card server of a session with some wrong answers, and its checks, some of them marked as decisive."""
    server = work(60, noise=7)
    checks = answer_checks.of_session(server.session)
    assert checks.at_odds
    decisive = [replace(each, without=9 - k) for k, each in enumerate(checks.at_odds[1:])]
    return server, replace(checks, decisive=decisive)


def test_answers_to_check_say_what_the_others_make_of_them(work):
    """The lists of contradicted and of decisive answers begin with the most urgent ones. They show the label that the
    other answers suggest, and how many items would change class without the answer or with a corrected one."""
    server, checks = checked(work)
    for show, wanted in (("all", checks.at_odds), ("depends", checks.decisive)):
        rows = check.page(server, view(show=show), checks)["rows"]
        assert [each.entry.id for each in wanted][: item_list.PAGE] == [row["id"] for row in rows]
        for each, row in zip(wanted, rows):
            without = f"without it {each.without:,} items change"
            assert (f"disagreement {-each.margin:.2f}" if show == "all" else without) in row["by"]
            assert f"about {each.without:,} of {server.session.rounds:,} items would" in row["means"]
            assert f"about {each.corrected:,} if" in row["means"]
            chip = (f"other answers: {server.session.names[each.other]}", "wrong")
            assert (each.margin < 0) == (chip in row["chips"])
        assert show in dict(check.page(server, view(), checks)["shows"])


def test_lists_to_check_say_why_they_are_empty(work):
    server, checks = checked(work)
    assert "Checking the answers..." == check.page(server, view(), None)["empty"]
    assert "No answer fits." == check.page(server, view(search="nowhere"), checks)["empty"]
    nothing = replace(checks, at_odds=[], decisive=[])
    assert "No answer is at odds with the others." == check.page(server, view(), nothing)["empty"]


def test_a_long_look_keeps_no_page_waiting(work, monkeypatch):
    """A slow view is computed in the background: the page shows the previous one meanwhile, and recomputes it after a
    change of the log."""
    monkeypatch.setattr(card_server, "FIRST_WAIT_SECONDS", 0.01)
    server, go = work(3), Event()

    def slow():
        assert go.wait(WAIT)
        return server.session.version

    assert server.in_background("slow", slow) is None
    go.set()
    card_server.BACKGROUND.submit(int).result()  # waits for `slow`: the pool runs one task at a time
    first = server.in_background("slow", slow)
    assert server.session.version == first
    server.session.answer("one more", server.session.place.asked.id, -1)
    go.clear()
    assert first == server.in_background("slow", slow)
    go.set()
    card_server.BACKGROUND.submit(int).result()
    assert server.session.version == server.in_background("slow", slow) != first


@pytest.mark.parametrize(("cost", "rest"), [(0.0, 0.0), (0.01, 0.2), (9.0, CACHE_SECONDS)])
def test_what_takes_long_is_made_less_often_than_people_answer(work, monkeypatch, cost, rest):
    """A slow view is reused for a multiple of its computation time, up to a limit; a fast view is always up to date."""
    server, time = work(3), [0.0]
    monkeypatch.setattr(card_server, "CACHE_SECONDS", CACHE_SECONDS)
    for clock in ("perf_counter", "idle_seconds"):
        monkeypatch.setattr(card_server, clock, lambda: time[0])

    def slow():
        time[0] += cost
        return server.session.version

    first = server.recent("slow", slow)
    server.session.answer("one more", server.session.place.asked.id, -1)
    assert (first if rest else server.session.version) == server.recent("slow", slow)
    time[0] += rest + 0.001
    assert server.session.version == server.recent("slow", slow)


# Pushed items


def test_what_was_pushed_is_listed_with_its_score_newest_first(work):
    server = work(60)
    margins, predicted, asked = server.session.decided
    rounds = [t for t in range(len(asked))[::-1] if predicted[t] > 0 and not asked[t]]
    rows = pushed.page(server, view())["rows"]
    assert rounds
    assert rounds[:50] == [row["id"] for row in rows]
    assert [f"score {margins[t]:+.2f}" for t in rounds[:50]] == [row["side"] for row in rows]


@pytest.mark.slow
def test_what_passed_of_several_classes_is_listed_by_class(work, keep):
    """In a multi-class session, the tab Pushed lists every item that was not asked about, together with its predicted
    class, and can be filtered by class."""
    columns = reading.Columns(("text",), "label", multiclass=True)
    server = work(50, keep("kinds", columns=columns), algorithm="MD-AMD")
    _, predicted, asked = server.session.decided
    everything = pushed.page(server, view())
    assert (~asked).sum() == int(re.search(r"(\d+)( items|$)", everything["total"])[1])
    for label, name in server.session.names.items():
        rows = pushed.page(server, view(show=str(label)))["rows"]
        assert np.flatnonzero((predicted == label) & ~asked)[::-1][:50].tolist() == [row["id"] for row in rows]
        assert all(row["chips"] == [(name, "")] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("trains", [False, True])
def test_a_wrong_mark_trains_only_where_the_switch_says_so(app_store, work, trains):
    """A mark is always stored, but costs a label and changes the model only if the switch lets marks train. A mark that
    did not train can be taken back."""
    server = work(60)
    session = server.session
    row = pushed.page(server, view())["rows"][0]["id"]
    app_store.update_session(session.id, {"feedback_trains": int(trains)})
    before = session.place.progress.labels, session.digest()
    at = listed(session.id, "pushed", events=[{"id": "m1", "row": row, "action": 1}])
    reopened = Session(app_store, session.id)
    assert {int(session.order[row]): trains} == reopened.marks
    assert trains == (before != (reopened.place.progress.labels, reopened.digest()))
    assert ("costs one label of the budget" in words(at)) == trains
    marked = pushed.page(CardServer(session.id), view(show="marked"), trains)["rows"]
    assert [row] == [each["id"] for each in marked]
    assert bool(marked[0]["actions"]) != trains
    if not trains:
        at.session_state[f"pushed-{session.id}"] = {"events": [{"id": "m2", "row": row, "action": 0}]}
        assert not at.run().exception
        assert {} == Session(app_store, session.id).marks


# Learned terms, forecasts and hints


def test_words_of_every_text_lead_no_list(app_store, tmp_path):
    """A term that most texts contain is neither among the strongest terms nor highlighted, unless it occurs far more
    often in the answers of one class."""
    path = tmp_path / "common.csv"
    rare = [f"w{k}x{j}" for k in range(400) for j in range(2)]
    lines = [f"the of to {'life' if k % 3 == 0 else 'the'} {rare[k % 380]} {rare[(k * 7) % 380]}" for k in range(600)]
    path.write_text("text,label\n" + "".join(f"{line},{int(k % 3 == 0)}\n" for k, line in enumerate(lines)))
    request = datasets.ImportRequest(features="words")
    dataset = datasets.import_file(app_store, path, "common", reading.Columns(("text",), "label"), request)[0]
    server = CardServer(create(app_store, dataset, learner="pa-i", rule="all", budget=200))
    session = server.session
    for k in range(90):
        asked = session.place.asked
        session.answer(f"e{k}", asked.id, int(session.y[asked.item]))
    left_out = {top_terms.term(session, column) for column in top_terms.common(session)}
    assert {"the", "of", "to"} == left_out
    for label in session.names:
        leading = top_terms.strongest(session.place.weights, label, 12, top_terms.common(session))
        assert not left_out & {top_terms.term(session, column) for column, _ in leading}
    leading = top_terms.strongest(session.place.weights, 1, 12, top_terms.common(session))
    assert "life" == top_terms.term(session, leading[0][0])
    parts = server.payload()["place"]["question"]["parts"]
    assert not left_out & {text for text, weight in parts if weight}


def test_the_page_proves_that_learning_acts(work):
    """The tab Learned shows the number of updates, the time of the last, and the share of positives in the answers."""
    server = work(40)
    text = words(listed(server.session.id, "learned"))
    share = server.session.labels.count(1) / len(server.session.labels)
    assert re.search(r"Learned from 36 answers, the last one \d+ \w+ ago\.", text)
    assert f"{percent(share)} of the answers were" in text
    assert 0 < server.session.state.seconds < 60
    assert "Speaks for" in text
    assert "good" in text


def test_the_page_says_how_much_each_learner_is_heard(work):
    server = work(5, algorithm="auto")
    text = words(listed(server.session.id, "learned"))
    for name, share in learners.member_weights(server.session.learner).items():
        assert re.search(f">{name}<.*>{percent(share)}<", text)


def progress(labels=100, budget=200, streamed=1000, stream=10_000, waiting=True):
    return Progress(labels, budget, {}, 0, streamed, stream, 0, waiting)


SETTINGS = Settings(
    **dict.fromkeys(field.name for field in fields(Settings))
    | {
        "learner": "pa-i",
        "rule": "symmetric",
        "budget": 200,
        "horizon": 10_000,
        "audit": 0,
        "floor": 0,
        "audit_trains": True,
        "goal": "stream",
    }
    | {"parameters": {"learner": {}, "rule": {}}}
)


def log(rounds):
    """Return log entries of questions in `rounds`, all predicted right."""
    return [
        Entry(
            id=k, number=k, round=t, item=t, margin=1.0, probability=1, draw=0, audit=0, predicted=1, asked_at="",
            label=1, first=1, annotator="", answered_at="", seconds=None,
        )
        for k, t in enumerate(rounds, 1)
    ]  # fmt: skip


LATE = " At this pace"


@pytest.mark.parametrize(("settings", "rounds", "sentence"), [
    ({}, range(0, 1000, 10), f"9,000 items to come and 100 labels left.{LATE} they run out at item 1,988 of 10,000."),
    ({}, range(0, 90, 10), "9,000 items to come and 100 labels left. A forecast appears after 10 answers."),
    ({"streamed": 9_900}, range(0, 9900, 99),
     f"100 items to come and 100 labels left.{LATE} 98 of them stay unused."),
    ({"labels": 66, "budget": 68, "streamed": 67, "stream": 68}, range(66),  # every item is asked
     f"1 item to come and 2 labels left.{LATE} they run out at item 68 of 68."),
    ({"labels": 68, "budget": 68, "streamed": 68, "stream": 68, "waiting": False}, range(68),
     "The budget was spent at the last item."),
    ({"labels": 200, "waiting": False}, range(0, 1000, 5),
     "The budget was spent at item 996 of 10,000."),
])  # fmt: skip
def test_the_budget_line_forecasts_how_long_the_labels_last(settings, rounds, sentence):
    """The forecast of when the labels run out uses the rate of the last answers, and appears after ten answers."""
    assert sentence == advice.spending(replace(SETTINGS, horizon=1), None, progress(**settings), log(rounds))


@pytest.mark.parametrize(("settings", "then"), [
    ({"pace": 0.5}, "5,000."), ({"pace": 1.0, "floor": 0.5}, "10,000."),
    ({"pace": 0.5, "audit": 0.25}, "5,000, then random checks until item 10,000."),
    ({"pace": 0.5, "floor": 0.5}, "5,000, then fewer questions until item 10,000."),
])  # fmt: skip
def test_the_budget_line_says_until_when_a_paced_session_asks(settings, then):
    plan = replace(SETTINGS, **settings).plan()
    first = advice.spending(SETTINGS, plan, progress(), log(range(0, 1000, 10)))
    assert f"100 labels left. They last until about item {then}" == first


@pytest.mark.parametrize(("rule", "draw", "sentence"), [
    ("asymmetric", (1, 1 / 900), "Random check (0.11 % chance)."),
    ("random", (0, 0.25), "Random check (25 % chance)."),
    ("first", (0, 1.0), "Every item is asked while the budget lasts."),
    ("margin", (0, 1.0), "The model was unsure: its score was close to the border."),
    ("symmetric", (0, 0.72), "The model was unsure (72 % chance)."),
    ("symmetric", (0, 0.21), "The model was fairly sure; drawn anyway (21 % chance)."),
    ("symmetric", (0, 0.004), "The model was fairly sure; drawn anyway (0.4 % chance)."),
])  # fmt: skip
def test_the_card_says_why_an_item_is_asked(rule, draw, sentence):
    audit, probability = draw
    question = SimpleNamespace(audit=audit, probability=probability)
    assert sentence == why(SimpleNamespace(settings=SimpleNamespace(rule=rule)), question, SimpleNamespace(labels=1))


def test_answers_that_differ_from_the_file_are_counted_beside_the_figures(work, keep):
    """In a multi-class session the page counts the answers that differ from the file's labels, and says that its
    metrics use the file's labels. The explanation of push-and-query says so, too."""
    several = keep("several", columns=reading.Columns(("text",), "label", multiclass=True))
    server = work(30, several, algorithm="MPAA-I")
    session = server.session
    while len(session.labels) < 40:
        session.answer(
            f"w{len(session.labels)}", session.place.asked.id, 1 + int(session.y[session.place.asked.item]) % 3
        )
    wrong = sum(entry.label != session.y[entry.item] for entry in session.log if entry.label)
    assert wrong >= 13
    at = details(run("pages/1_Label.py", session=str(session.id)))
    sentence = f"{wrong} of 40 answers differ from the labels of the file; the figures use the file's labels."
    assert sentence in words(at)
    counted = session.evaluate(session.place.counts, "push_query")["accuracy"]
    right = session.evaluate(session.place.counts, "push")["accuracy"]
    assert counted > right  # every asked item counts as right, whatever was answered
    assert "they all count as right: with the label of the file where it has one" in MEANINGS["push-and-query"]


def test_the_end_of_several_classes_has_a_line_for_each(work, keep):
    """When the budget of a session of several classes is spent, the page offers the file as a download and more labels,
    and says for each class how many items it has and which share of them is right."""
    columns = reading.Columns(("text",), "label", multiclass=True)
    server = work(30, keep("several", columns=columns), budget=40, algorithm="MPAA-I")
    label_until_the_end(server.session)
    at = run("pages/1_Label.py", session=str(server.session.id))
    assert at.button(key="add-labels")
    assert "Download the file" in [each.proto.label for each in at.get("download_button")]
    classes = outcome.of_classes(server.session)[1:]
    for each in classes:
        cells = [f"{each.answered}", f"{each.predicted}", f"{each.answered + each.predicted}", each.in_words]
        assert f"{each.name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}" in words(at)
    assert ("Right in the file", outcome.of_classes(server.session)[0].in_words) in server.payload()["place"]["found"]


# Estimates


@pytest.mark.slow
def test_estimates_have_intervals_and_never_stand_beside_exact_figures(work, keep, monkeypatch):
    """A stream without labels shows estimates with intervals once there are enough positive answers, and before that
    the reason why they are missing. If estimates end before the stream does, the page names the item at which they end
    and says that the final model is probably better."""
    plain = keep("plain", 1200, reading.Columns(("text",)))
    few, many = work(20, plain, **BINARY), work(150, plain, 3, **BINARY)
    at = details(run("pages/1_Label.py", session=str(few.session.id)))
    assert estimates.of_session(few.session).reason in words(at)
    assert "F1, estimated" not in words(at)
    text = words(details(run("pages/1_Label.py", session=str(many.session.id))))
    assert "F1, estimated" in text
    assert outcome.last_quarter(estimates.look(many.session)[1]) in text
    assert "so far" not in text
    assert '<b style="font-size:.95rem">F1</b>' not in text
    assert re.search(r"0\.\d\d \(0\.\d\d–[01]\.\d\d\)", text)
    seen = estimates.look(many.session)
    closed = seen._replace(now=replace(seen.now, closed=1233))
    many.session.answer("one more", many.session.place.asked.id, -1)  # so that the page looks again
    monkeypatch.setattr(estimates, "look", lambda session, points=60: closed)
    text = words(details(run("pages/1_Label.py", session=str(many.session.id))))
    assert "Estimates end at item 1,234" in text
    assert "The final model is probably better." in text


# Guidelines and settings


@pytest.mark.parametrize(("names", "keys"), [
    ({1: "Relevant", -1: "Other"}, {1: "a1", -1: "x0"}),
    ({1: "X", -1: "a"}, {1: "x1", -1: "a0"}),
    ({1: "joy", 2: "J", 3: "1", 4: "c"}, {1: "5", 2: "j2", 3: "13", 4: "4"}),
    (dict(enumerate("3210", 1)), {1: "3", 2: "2", 3: "1", 4: "04"}),
])  # fmt: skip
def test_a_class_named_by_one_letter_has_that_key(names, keys):
    """If the name of a class is a single letter or digit, it is a key of that class alone, except for C and R, which
    belong to Streamlit. Every class has a key."""
    assert {label: list(own) for label, own in keys.items()} == keys_of(names)


def test_metrics_are_explained_where_they_stand(work):
    session = work().session.id
    at = details(run("pages/1_Label.py", session=session))
    bodies = " ".join(str(each.proto.body) for each in at.get("html"))
    for word in ("push", "push-and-query", "Weighted sum", "F1", "pushed", "Precision"):
        assert f'tabindex="0">{word}<span role="tooltip">{MEANINGS[word]}' in bodies


@pytest.mark.parametrize("owner", ["", "ben"])
def test_guidelines_are_written_on_the_page_and_literal(app_store, keep, owner):
    """Anybody may write guidelines if there is no log-in, and guidelines are shown literally."""
    session = create(app_store, keep(), **BINARY, owner=owner)
    at = listed(session, "guidelines")
    at.text_area(key="guidelines").set_value("Count <b>every</b> $walk$")
    press(at, "guidelines-save")
    assert "Count <b>every</b> $walk$" == app_store.session(session)["guidelines"]
    bodies = " ".join(str(element.proto.body) for element in at.get("html"))
    assert "&lt;b&gt;every&lt;/b&gt; $walk$" in bodies

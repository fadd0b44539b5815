"""The form of a new session: its plan, forecasts and options."""

import pytest

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel.spending import FIND, STREAM
from oal_engine.sessions import settings
from oal_engine.sessions.insights import certainty
from oal_engine.sessions.session import Session
from tests.harness.pages import details, form, press, run, words
from ui.label.card_server import CardServer


def stream_form():
    """Open the form, and choose a model of a stream."""
    at = form()
    at.segmented_control(key="new-goal").set_value(STREAM).run()
    return at


def test_the_form_plans_a_session(app_store, keep):
    """Random checks, pace, horizon, repeats and guidelines are stored as chosen, with the annotator as owner."""
    keep()
    at = run("home.py", annotator="anna")
    at.button(key="new").click().run()
    at.segmented_control(key="new-goal").set_value(STREAM).run()
    at.number_input(key="new-audit").set_value(25)
    at.toggle(key="new-audit-trains").set_value(False)
    at.selectbox(key="new-pace").select("Evenly over the first 50 %")
    next(box for box in at.toggle if box.key.startswith("new-feed")).set_value(True).run()
    next(box for box in at.number_input if box.key.startswith("new-horizon")).set_value(5000)
    at.text_area(key="new-guidelines").set_value("Count **every** walk.")
    at.toggle(key="new-repeat").set_value(True).run()
    press(at, "new-send")
    session = app_store.session(app_store.sessions()[0]["id"])
    expected = {"audit": 0.25, "audit_trains": 0, "pace": 0.5, "horizon": 5000, "owner": "anna",
                "overlap": 0.0, "repeat": 0.05, "guidelines": "Count **every** walk."}  # fmt: skip
    assert expected == {key: session[key] for key in expected}


def test_the_form_asks_what_is_wanted(app_store, keep):
    """A file that is all there is searched for its items unless a model is wanted, for which the form asks more."""
    keep()
    at = form()
    assert not [box.key for box in at.toggle if box.key.startswith("new-feed")]
    press(at, "new-send")
    press(stream_form(), "new-send")
    assert [STREAM, FIND] == [row["goal"] for row in app_store.sessions()]


def test_the_form_says_that_a_budget_is_small_for_its_classes(app_store, keep):
    """Fewer than ten labels for each class are said to be few; ten are not."""
    keep("kinds", columns=reading.Columns(("text",), "label", multiclass=True))
    at = form()
    at.number_input(key="new-budget").set_value(29).run()
    assert "29 labels are few for 3 classes: about 10 for each are needed, 30 in all." in words(at)
    at.number_input(key="new-budget").set_value(30).run()
    assert "are few for" not in words(at)


def test_the_form_says_what_a_budget_will_show_where_the_truth_is_not_known(app_store, keep):
    keep("plain", 400, reading.Columns(("text",)))
    at = stream_form()
    assert "With 300 labels F1 is usually known to within" in words(at)
    at.number_input(key="new-budget").set_value(50).run()
    assert "50 labels are too few" in words(at)
    at.number_input(key="new-audit").set_value(25).run()
    assert "too few" not in words(at)
    keep("labelled", 40)
    at = stream_form()
    assert "300 labels" not in words(at)


def test_the_form_links_to_the_documentation(app_store, keep):
    """A page of the documentation that a text of the form names is a link, which opens that page. Its own links lead to
    other pages; a page that does not exist is named in one sentence."""
    keep()
    texts = [each.value for each in form().markdown]
    assert "Nothing to tune; [auto](Docs?page=auto) says how it works" in " ".join(texts)
    shown = " ".join(each.value for each in run("pages/5_Docs.py", page="auto").markdown)
    assert shown.startswith("# ")
    assert "](Docs?page=estimates" in shown
    assert ".md)" not in shown
    assert "The documentation has no page <i>." in words(run("pages/5_Docs.py", page="<i>"))


@pytest.mark.slow
def test_a_floor_is_forecast_in_the_form_and_shown_beside_the_card(app_store, keep):
    """The form forecasts the guaranteed share of relevant items found. The session gets the recommended share of random
    questions, and its page shows the guarantee so far and the effect of more labels."""
    keep("plain", 400, reading.Columns(("text",)))
    at = stream_form()
    at.toggle(key="new-floor").set_value(True).run()
    at.number_input(key="new-budget").set_value(80)
    at.number_input(key="new-share").set_value(25.0).run()
    assert f"at least {100 * certainty.forecast(80, 400, 0.25):.0f} % of the relevant items" in words(at)
    assert (
        "Random labels that a guarantee needs whatever the model does: about 48 for 80 %, about 228 for 95 %."
        in words(at)
    )
    press(at, "new-send")
    server = CardServer(app_store.sessions()[0]["id"])
    session = server.session
    assert certainty.RECOMMENDED == session.settings.floor
    for k in range(50):
        asked = session.place.asked
        session.answer(f"e{k}", asked.id, 1 if "good" in session.dataset.item(asked.item)["text"] else -1)
    at = run("pages/1_Label.py", session=str(session.id))
    text = words(details(at))
    end, more = certainty.expected(session), certainty.labels_for(session)
    assert f"{certainty.of_session(session)} At the end probably {100 * end:.0f} %." in text
    assert (more <= 80) == (f"{more:,} more labels would raise" in text)


@pytest.mark.slow
def test_a_floor_that_the_budget_cannot_give_is_called_so(app_store, keep):
    """If the budget cannot guarantee that even a tenth of the relevant items are found, the form says so. The page says
    so too, and does not say that more labels would raise the guarantee."""
    keep("plain", 3000, reading.Columns(("text",)))
    at = stream_form()
    at.toggle(key="new-floor").set_value(True).run()
    at.number_input(key="new-budget").set_value(60)
    at.number_input(key="new-share").set_value(1.0).run()
    assert certainty.NO_GUARANTEE in words(at)
    assert "about 1,200 for 80 %, all 3,000 for 95 %." in words(at)  # never more than the number of items
    at.button(key="new-send").click().run()
    session = CardServer(app_store.sessions()[0]["id"]).session
    for k in range(20):
        session.answer(f"e{k}", session.place.asked.id, -1)
    at = run("pages/1_Label.py", session=str(session.id))
    text = words(details(at))
    assert certainty.NO_GUARANTEE in text
    assert "more labels would raise" not in text


def test_a_budget_above_the_number_of_items_is_capped_and_said(app_store, keep, command, tmp_path):
    plain = keep("plain", 68, reading.Columns(("text",)))
    at = stream_form()
    capped = "There are 68 items, so the budget is 68 labels, not 300."
    assert capped in words(at)
    assert "68 labels are too few to show how good the model is" in words(at)
    press(at, "new-send")
    session = CardServer(app_store.sessions()[0]["id"]).session
    assert (68, 68) == (session.settings.budget, session.state.plan.budget)
    for k in range(68):
        session.answer(f"e{k}", session.place.asked.id, 1 if k % 4 == 0 else -1)
    assert "budget" == session.place.progress.end
    assert 300 == settings.Settings.read(app_store, settings.create(app_store, plain, "auto", horizon=1000)).budget
    keep("labelled", 68)
    code, _, errors = command("replay", "labelled", "--algorithm", "PAA-I", "--budget", 300, "--db", app_store.path)
    assert (0, True) == (code, capped in errors)


def test_only_what_spreads_labels_asks_for_the_length_of_a_feed(keep):
    """The form asks for the length of a live feed only if labels are spread over the stream. The choice of a pace is
    disabled for query rules that do not ask by random draw."""
    keep()
    at = stream_form()
    feeds = [box.key for box in at.toggle if box.key.startswith("new-feed")]
    assert 1 == len(feeds)
    at.selectbox(key="new-algorithm").select("PAA-I").run()
    assert [] == [box.key for box in at.toggle if box.key.startswith("new-feed")]
    assert not at.selectbox(key="new-pace").disabled
    at.selectbox(key="new-algorithm").select("Own choice of learner and rule").run()
    at.selectbox(key="new-rule").select("all").run()
    assert at.selectbox(key="new-pace").disabled


@pytest.mark.slow
def test_a_stream_that_may_change_is_met_with_later_labels_and_recent_answers(app_store, keep):
    """If the stream may change, a session gets parameters that spend labels later and forget old answers sooner, as far
    as its algorithm has such parameters."""
    keep()
    for algorithm, expected in (("auto", {"early": 0, "memory": 100}), ("auto-sum", {"early": 0, "memory": 2000})):
        at = stream_form()
        at.selectbox(key="new-algorithm").select(algorithm).run()
        at.toggle(key="new-changes").set_value(True).run()
        at.button(key="new-send").click().run()
        parameters = Session(app_store, app_store.sessions()[0]["id"]).strategy.parameters
        assert expected == {name: parameters[name] for name in expected}


def test_the_form_offers_the_labels_that_a_file_has(app_store, tmp_path):
    path = tmp_path / "partly.csv"
    path.write_text("text,label\n" + "".join(f"words n{k},{['good', 'bad', ''][min(k, 9) % 3]}\n" for k in range(40)))
    datasets.import_file(
        app_store, path, "partly", reading.Columns(("text",), "label", positive=("good",)), tokenizer="words"
    )
    at = form()
    question = next(each for each in at.toggle if each.key.startswith("new-known"))
    counts = app_store.dataset("partly")
    labels = counts["positives"] + counts["negatives"]
    assert f"The file has labels for {labels} of 40 items. Begin with them?" == question.label
    press(at, "new-send")
    assert labels == len(app_store.first_known(app_store.sessions()[0]["id"]))
    at = form()
    next(each for each in at.toggle if each.key.startswith("new-known")).set_value(False).run()
    press(at, "new-send")
    assert [] == app_store.first_known(app_store.sessions()[0]["id"])


def test_the_form_begins_with_some_labels_of_a_labelled_file(app_store, keep):
    keep()
    at = form()
    next(each for each in at.number_input if each.key.startswith("new-some")).set_value(200).run()
    press(at, "new-send")
    assert 200 == len(app_store.first_known(app_store.sessions()[0]["id"]))

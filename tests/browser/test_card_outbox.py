"""The labeling card on a test page without a server: the events that it sends, its retries, mounting and removal."""

import pytest
from playwright.sync_api import expect

from tests.harness.browser import listeners
from tests.harness.scripted_card import ALL, COUNTERS, place, question

# The events that the server gets


def test_an_event_says_what_was_answered_and_how_long_it_took(script):
    """An event has a random id, the question, the action, the label, the seconds since the item was painted (in steps
    of 0.1), and whether terms were highlighted."""
    script.give(1, ALL)
    script.run(1200)
    script.press("a", " ")
    first, second = script.events
    answered = {"id": "", "annotator": "anna", "question": 1, "item": 1, "action": "label", "label": 1}
    assert first | {"id": ""} == answered | {"seconds": 1.2, "highlighted": False}
    assert (second["action"], second["label"], second["seconds"]) == ("skip", None, 0)
    assert all(len(id) == 32 and int(id, 16) for id in script.ids)
    assert first["id"] != second["id"]


def test_what_is_not_acknowledged_is_sent_again_ever_more_slowly(script):
    script.give(1, ALL)
    script.press("a")
    (kept,), counts = script.ids, [1]
    for _ in range(125):
        script.run(1000)
        counts.append(len(script.posts))
    again = [second for second in range(1, 126) if counts[second] > counts[second - 1]]
    assert again == [2, 6, 14, 30, 60, 90, 120]
    assert script.ids == [kept]
    script.press("x")
    script.run(2000)
    assert len(script.posts) == counts[-1] + 2
    script.give(3, acked=script.ids)
    script.run(120_000)
    assert len(script.posts) == counts[-1] + 2


def test_a_card_that_is_drawn_again_sends_what_is_not_acknowledged(script):
    script.give(1, ALL)
    script.press("a", "x")
    kept = script.ids
    script.give(1, ALL)
    assert (script.ids, len(script.posts)) == (kept, 3)
    script.give(2, ALL, acked=kept[:1])
    assert script.answers == [(2, -1)]


def test_what_is_not_acknowledged_outlives_a_reload(script):
    script.give(1, ALL)
    script.press("a")
    kept = script.ids
    script.open()
    script.give(1, ALL)
    assert (script.shown, script.ids, len(script.posts)) == (2, kept, 1)
    script.give(2, ALL, acked=kept)
    script.open()
    script.give(2, ALL)
    assert (script.shown, script.posts) == (2, [])


def test_answers_of_one_session_are_not_sent_to_another(script):
    script.give(1, ALL)
    script.press("a")
    kept = script.ids
    script.give(10, ALL, session=2)
    assert (script("card").count(), script.shown, len(script.posts)) == (1, 10, 1)
    script.press("x")
    assert script.answers == [(10, -1)]
    script.give(1, ALL)
    assert (script.shown, script.ids) == (2, kept)


@pytest.mark.parametrize("name", ["anna", "ben"])
def test_under_a_log_in_only_ones_own_answers_are_sent(script, name):
    script.give(1, ALL, login=True)
    script.press("a")
    kept = script.ids
    script.open()
    script.give(1, ALL, login=True, annotator=name)
    assert script.ids == (kept if name == "anna" else [])
    script.open()
    script.give(1, ALL, login=True)
    assert script.ids == kept


def test_without_a_log_in_an_answer_keeps_the_name_under_which_it_was_given(script):
    script.give(1, ALL)
    script.press("a")
    script.open()
    script.give(1, ALL, annotator="ben")
    script.press("x")
    assert [event["annotator"] for event in script.events] == ["anna", "ben"]


def test_what_is_unsaved_comes_back_in_order(script):
    script.page.evaluate("Date.now = () => 1000 - (window.back = (window.back ?? 0) + 0.5)")
    script.give(1, ALL)
    script.press("a")
    script.press(*"x ax axa")
    kept = script.ids
    script.open()
    script.give(1, ALL)
    assert len(kept) == 9
    assert script.ids == kept


RUBBISH = ["", "{", "[]", "null", '{"at": 1}', '{"at": 1, "event": {"id": 7}}']


def test_what_something_else_left_in_the_storage_is_passed_over(script):
    script.page.evaluate(
        "rubbish => rubbish.forEach((each, n) => localStorage.setItem(`oal-unsaved card 1 ${n}`, each))", RUBBISH
    )
    script.give(1, ALL)
    script.press("a")
    assert script.answers == [(1, 1)]


def test_a_removed_session_is_an_end_with_a_way_home(script):
    """A removed session takes no more answers, not even to skipped items, and a link leads home."""
    script.give(place(1, counters=COUNTERS | {"skipped": 3}), ALL)
    script("offer").click()
    gone = {"end": "removed", "result": "Its answers are gone with it.", "counters": COUNTERS | {"skipped": 3}}
    script.give(place(None, **gone))
    expect(script("text").get_by_role("link")).to_have_text("All sessions")
    assert script("text").inner_text().split("\n")[0] == "This session is not open to you any more"
    assert script("offer").is_visible() is False
    script.press("a", "z")
    assert script.posts == []


def test_a_browser_that_forbids_storage_still_labels(script):
    forbid = "() => { Storage.prototype.setItem = Storage.prototype.getItem = () => { throw Error('forbidden') } }"
    script.page.evaluate(forbid)
    script.give(1, ALL)
    script.press("a", "h", "x")
    assert script.answers == [(1, 1), (2, -1)]


def test_leaving_the_page_warns_while_something_is_unsaved(script):
    leave = "dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    script.give(1, ALL)
    assert script.page.evaluate(leave) is True
    script.press("a")
    assert script.page.evaluate(leave) is False
    script.give(2, ALL, acked=script.ids)
    assert script.page.evaluate(leave) is True


def test_undo_names_the_last_answer(script):
    """Undo refers to the last answer or skip, whether or not it is stored yet. Without one, Undo is disabled."""
    script.give(5, ALL, previous=4)
    script.press("z")
    assert script.posts[-1] == [[4, "undo", None]]
    script.give(4, ALL, acked=script.ids)
    assert script("undo").get_attribute("aria-disabled") == "true"
    script.press("z", "Backspace")
    script("undo").dispatch_event("click")
    assert len(script.posts) == 1
    script.press(" ", "Backspace")
    assert script.posts[-1] == [[4, "skip", None], [4, "undo", None]]


def test_undo_waits_on_the_text_it_was_pressed_at(script):
    """After Undo, the item stays and keys have no effect until the server sends the previous item."""
    script.give(5, ALL, previous=4)
    script.press("z", "z", "a", "x", " ")
    script.run(300)
    assert (script.shown, script.posts) == (5, [[[4, "undo", None]]])
    assert script.status == "unsaved 1 · Taking back…"
    script.give(question(4, old=1), ALL, acked=script.ids)
    assert (script.shown, script.status) == (4, "Saved")


def test_undo_right_after_an_answer_goes_to_the_server_in_order(script):
    script.give(1, ALL)
    script.press("a", "z")
    assert script.posts[-1] == [[1, "label", 1], [1, "undo", None]]
    answer, undo = script.ids
    script.give(2, ALL, acked=[answer], previous=1)
    assert script.shown == 2
    script.give(question(1, old=1), ALL, acked=[answer, undo])
    assert script.shown == 1
    assert script("button-1").locator(".mark").is_visible()


# How the component is mounted and removed


def test_the_clean_up_of_an_overtaken_call_changes_nothing(script):
    script.give(1, ALL)
    script.page.evaluate("window.painted = document.querySelector('[data-testid=oal-text]').firstChild")
    script.page.evaluate("cleanUps[0]()")
    script.give(1, ALL)
    script.page.evaluate("cleanUps[0]()")
    assert script("text").evaluate("text => text.firstChild === painted")
    script.press("a")
    assert script.posts == [[[1, "label", 1]]]


def test_nothing_is_left_of_a_card_that_is_gone(script):
    before = listeners(script.page)
    for n in range(1, 6):
        script.give(n, ALL, previous=7)
        script.give(n, ALL, previous=8)
        assert listeners(script.page) == sorted(
            [*before, "pointerdown", "keydown", "keydown", "beforeunload", "storage"]
        )
        script.press("a")
        posts = len(script.posts)
        script.page.evaluate("() => { const old = host; old.replaceWith(old.cloneNode()); cleanUps.at(-1)() }")
        script.press("a")
        script.run(60_000)
        assert len(script.posts) == posts
        assert listeners(script.page) == before

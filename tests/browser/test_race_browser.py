"""The race in a real browser with a real server: the numbers on the screen equal those that the engine computes."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from oal_engine.experiments import race
from oal_engine.kernel import metrics, stream
from oal_engine.output.meanings import MEANINGS
from tests.harness.browser import PHONE
from tests.harness.markup import MARKUP, RUN

PAGE = "/Compare?view=race"
LOST = [f"{word} {MARKUP}" for word in ("lost", "found", "sold", "torn", "new", "old", "worn")]


class Watched:
    """A race on a page, with the actions of a person who watches it."""

    def __init__(self, page):
        self.page, self.root = page, page.get_by_test_id("oal-race")
        self.root.wait_for()

    def __call__(self, name):
        return self.page.get_by_test_id(f"oal-{name}")

    @property
    def done(self):
        return int(self.root.get_attribute("data-done"))

    def reaches(self, rounds):
        """Wait until at least `rounds` rounds are on the screen."""
        node = self.root.element_handle()
        self.page.wait_for_function("([node, rounds]) => Number(node.dataset.done) >= rounds", arg=[node, rounds])

    def scrub(self, key):
        self("scrub").focus()
        self.page.keyboard.press(key)

    def is_playing(self, playing):
        expect(self.root).to_have_attribute("data-playing", str(playing).lower())

    def frames(self, count):
        """Wait for `count` animation frames."""
        self.page.evaluate(
            "count => new Promise(done => (function next() { count-- ? requestAnimationFrame(next) : done(); })())",
            count,
        )


def shown(counts, questions):
    """Return the expected texts of a lane's three counters: answers, positives found, and false alarms. questions:
    number of questions asked."""
    tp, fp, _, fn = metrics.confusion(counts, "push")
    yes = counts[:, 2, 1].sum()
    return [f"{yes} ▲  {questions - yes} ●", f"{tp} of {tp + fn}", f"{fp}"]


@pytest.mark.slow
def test_it_plays_pauses_and_scrubs_to_the_figures_of_the_engine(visit, app):
    """The race starts by itself, pauses by key or button, and ends with the numbers of stream.replay. It can be set
    back to round 0 after the end, and the curves follow the chosen metric and evaluation."""
    watched = Watched(visit(app, PAGE))
    watched.is_playing(True)
    watched.reaches(20)
    watched.page.keyboard.press("Space")
    watched.is_playing(False)
    stood = watched.done
    watched.frames(20)
    assert stood == watched.done
    watched("play").click()
    watched.is_playing(True)
    watched.reaches(stood + 20)
    watched.scrub("End")
    watched.is_playing(False)
    expect(watched("clock")).to_have_text("1,500 / 1,500")
    rows, y, _ = race.clouds(race.SEED)
    sums = []
    for lane, (name, values) in zip(watched("lane").all(), race.TUNED.items()):
        parts = race.entrant(name, values).build(3)
        run = stream.replay(rows, y, np.arange(1500), *parts, stream.objective(), budget=100, seed=race.SEED)
        seen = [lane.get_by_test_id(f"oal-{part}").text_content() for part in ("answers", "found", "alarms")]
        assert shown(run.counts, run.queried) == seen
        expect(lane.get_by_test_id("oal-used")).to_have_text(f"{run.queried} of 100 labels used")
        sums.append(f"{metrics.evaluate(run.counts, 'push')['sum']:.3f}")
    assert sorted(sums) == sorted(re.findall(r"\d\.\d{3}", watched("chart").get_attribute("aria-label")))
    expect(watched("facts")).to_contain_text(f"In the end ahead: asymmetric by Weighted sum ({float(max(sums)):.2f})")
    for metric, evaluation, value in (("f1", "push", "F1, push,"), ("f1", "push_query", "F1, push-and-query,")):
        watched(f"metric-{metric}").click()
        watched(f"evaluation-{evaluation}").click()
        assert watched("chart").get_attribute("aria-label").startswith(value)
    watched.scrub("Home")
    expect(watched("clock")).to_have_text("0 / 1,500")
    assert ["0 ▲  0 ●"] * 4 == watched("answers").all_text_contents()
    expect(watched("said")).to_contain_text("1,500 items pass. One in 16")
    watched("restart").click()
    watched.is_playing(True)
    watched("speed").select_option("16")
    watched.reaches(300)


@pytest.mark.slow
def test_another_stream_and_other_settings_make_another_race(visit, app, keep):
    """A race over texts shows them literally, says which plane of the data it draws, and follows the settings."""
    keep("things lost", (f"{LOST[k % 7]} {k % 31}" for k in range(210)))
    watched = Watched(visit(app, f"{PAGE}&strategies=Q_S"))
    page = watched.page
    page.get_by_role("combobox").first.click()
    page.get_by_role("option", name="things lost").click()
    note = page.get_by_text("All 210 items, in random order. The plane holds the first two")
    note.wait_for()
    watched.scrub("End")
    expect(watched("clock")).to_have_text("210 / 210")
    watched("lane").first.get_by_text("**bold** $x$ :red[x]").wait_for()
    assert 0 == watched.root.locator(RUN).count()
    page.get_by_role("button", name="Settings").click()
    budget = page.get_by_label("Labels per lane")
    budget.fill("9")
    budget.press("Enter")
    expect(watched("used").first).to_contain_text("of 9 labels used")


def test_a_full_screen_is_filled(visit, app):
    """In full-screen mode the race fills 1920 x 1080 pixels without scrolling, with larger plots of the items; leaving
    the mode restores their size. The meanings of the chosen metric and evaluation are one hover away."""
    watched = Watched(visit(app, PAGE, viewport={"width": 1920, "height": 1080}, reduced_motion="reduce"))
    planes = watched.root.locator(".plane")
    before = planes.first.bounding_box()["height"]
    watched("full").click()
    expect(watched("full")).to_have_attribute("aria-pressed", "true")
    assert {"x": 0, "y": 0, "width": 1920, "height": 1080} == watched.root.bounding_box()
    assert watched.root.evaluate("root => [root.scrollHeight, root.scrollWidth]") == [1080, 1920]
    heights = [plane.bounding_box()["height"] for plane in planes.all()]
    assert before * 1.5 < min(heights) == max(heights)
    chart = watched("chart").bounding_box()
    assert 1000 < chart["y"] + chart["height"] <= 1080
    watched("full").click()
    expect(watched("full")).to_have_attribute("aria-pressed", "false")
    assert before == planes.first.bounding_box()["height"]
    for metric, evaluation, names in (
        ("sum", "push", ("Weighted sum", "push")),
        ("f1", "push_query", ("F1", "push-and-query")),
    ):
        watched(f"metric-{metric}").click()
        watched(f"evaluation-{evaluation}").click()
        watched.root.get_by_text("what it means").hover()
        for name in names:
            expect(watched.root.get_by_role("tooltip")).to_contain_text(MEANINGS[name])


def test_less_motion_stands_until_it_is_asked_and_then_jumps(visit, app):
    """For a visitor who prefers reduced motion, the race waits for Play and moves in steps of a fortieth of the stream.
    On a phone, only the lanes scroll sideways, and the chart is as wide as the page."""
    watched = Watched(visit(app, PAGE, viewport=PHONE, reduced_motion="reduce", color_scheme="dark"))
    watched.is_playing(False)
    assert 0 == watched.done
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert watched("chart").bounding_box()["width"] > 340
    assert watched("lane").first.bounding_box()["width"] < PHONE["width"] < watched("lane").last.bounding_box()["x"]
    watched("speed").select_option("16")
    watched("play").click()
    watched.reaches(75)
    watched("play").click()
    watched.is_playing(False)
    assert watched.done in [int(step * 1500 / 40) for step in range(41)]

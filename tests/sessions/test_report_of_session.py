"""The report of a session is one page without external files, in which texts of the data are never markup."""

import html
import json
import re

import pytest

from oal_engine.datasets import Dataset
from oal_engine.sessions.files import report
from oal_engine.sessions.insights import agreement, answer_checks, estimates, outcome
from oal_engine.sessions.insights.estimates import Estimate, Estimates, Overview
from oal_engine.sessions.settings import SKIP
from tests.harness.markup import EVIL, MARKUP, Page
from tests.harness.sessions import PEOPLE, begin, reply, say, truth

TAG = MARKUP[:49]


def shown(opened):
    """Return the report as text and as a parsed page, after checks that hold for every report."""
    text = report.page(opened).decode()
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert all(address.startswith("#") for address in page.addresses)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "default-src 'none'" in text
    identities = [
        set(re.findall(r'id="([mp][0-9a-f]{10})"', each)) for each in re.findall(r"<svg.*?</svg>", text, re.S)
    ]
    assert sum(map(len, identities)) == len(set().union(*identities))  # the ids of a figure occur in no other figure
    assert text == report.page(opened).decode()
    return text, page


@pytest.mark.slow
@pytest.mark.parametrize(("data", "algorithm"), [("sparse", "PAA-I"), ("classes", "MPAA-I")])
def test_a_page_has_curves_tables_settings_and_what_was_learned(store, data, algorithm):
    """If the data has labels, the report has exact metrics, four charts, the class names and the settings."""
    opened = begin(store, data, algorithm, name="Labels of Ann")
    for k in range(15):
        say(opened, SKIP if k == 4 else truth(opened))
    text, page = shown(opened)
    values = opened.evaluate(opened.place.counts, "push")
    assert f">{values['accuracy']:.3f}</td>" in text
    assert outcome.exact(opened, opened.place.counts) in page.text
    assert "Exact: every item of the data has a label of its own" in page.text
    assert "14 of 40 labels used, 1 skipped" in page.text
    assert 4 == text.count("<svg")
    assert all(name in page.text for name in opened.names.values())
    settings = json.loads(html.unescape(re.search(r"<pre>(.*)</pre>", text, re.DOTALL)[1]))
    assert (opened.settings.parameters, 40) == (settings["parameters"], settings["budget"])
    assert opened.settings.engine == settings["page"]["engine"]


def test_a_page_begins_with_what_came_of_the_session_and_what_to_do_next(store):
    """The report begins with the summary of the session, how many labels to add, and where labeling would continue."""
    opened = begin(store, "unlabelled", budget=20)
    for k in range(20):
        say(opened, 1 if k % 10 == 0 else -1)
    _, page = shown(opened)
    first, _, _ = page.text.partition("How good it is")
    assert all(sentence in first for sentence in outcome.summary(opened))
    assert "2 of 20 answers are Relevant" in first
    assert ": about 30 more labels." in first
    assert "so far" not in page.text
    assert f"labeling continues at item {opened.log[-1].round + 2}, where the budget ran out" in first


def test_a_page_of_a_session_without_labels_of_its_own_has_no_exact_figure(store):
    """If the data has no labels, the report has no exact metrics; it has one chart, or two after an answer."""
    opened = begin(store, "unlabelled")
    text, page = shown(opened)
    assert "Exact" not in page.text
    assert "the truth is not known" in page.text
    assert 1 == text.count("<svg")
    say(opened, 1)
    assert 2 == shown(opened)[0].count("<svg")


@pytest.mark.slow
def test_a_page_tells_how_far_two_people_agree(store):
    """If two people answer, the report states their agreement in the same words as the panel Team."""
    opened = begin(store, overlap=1.0, budget=14)
    for who in PEOPLE[:2] * 14:
        if opened.held(who):
            reply(opened, who)
    known = agreement.of_pairs(agreement.answer_pairs(opened))
    assert known.kappa
    assert agreement.in_words(known) in shown(opened)[1].text
    assert "answered twice" not in report.page(begin(store)).decode()


@pytest.mark.slow
def test_a_page_names_the_answers_to_check(store):
    """The report lists the answers at odds with the other answers and the answers that the model depends on, or says
    that there are none."""
    opened = begin(store, parameters={"delta": 10})
    say(opened, truth(opened))
    assert "No answer is at odds with the others" in shown(opened)[1].text
    for k in range(30):
        say(opened, truth(opened) * (-1 if k % 9 == 8 else 1))
    checks = answer_checks.of_session(opened)
    text, page = shown(opened)
    assert f"At odds with the other answers: {len(checks.at_odds):,}." in page.text
    assert f"The model depends on these: {len(checks.decisive):,}." in page.text
    first = checks.at_odds[0]
    assert f">{first.margin:.2f}</td>" in text
    assert f">i{first.entry.item}</th>" in text


def test_estimates_are_marked_as_estimates(store, monkeypatch):
    """Estimates are called estimates, and have intervals, dashed curves and the last round that they cover."""
    opened = begin(store, "unlabelled")
    for label in (1, -1, 1):
        say(opened, label)
    estimate = {"push": {"f1": Estimate(0.5, 0.25, 0.75)}, "push_query": {"f1": None}}
    seen = Overview(Estimates(21, 77, estimate, None), None, [(5, 2, estimate), (9, 3, estimate)])
    monkeypatch.setattr(estimates, "look", lambda session, points=60: seen)
    text, page = shown(opened)
    assert "Estimated, not exact" in page.text
    assert "Exact:" not in page.text
    assert ">0.500 (0.250 to 0.750)</td>" in text
    assert "up to round 77" in page.text
    assert ["F1 (estimated)"] == re.findall(r"F1 \([^)]*\)", text)
    assert "stroke-dasharray" in text


def test_the_accuracy_of_classes_is_estimated_too(store):
    """In a multi-class session over unlabeled data, the report has the estimated accuracy with its interval, and the
    share of the file that is right."""
    opened = begin(store, "unlabelled", "MRPA-I", classes=tuple("abcd"), budget=200, parameters={"q": 0.5})
    labels = Dataset(store, "classes").y
    while opened.place.asked:
        say(opened, int(labels[opened.place.asked.item]))
    text, _ = shown(opened)
    assert ["Accuracy (estimated)"] == re.findall(r"Accuracy \([^)]*\)", text)
    for values in estimates.of_session(opened).metrics.values():
        estimate = values["accuracy"]
        assert f">{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})</td>" in text
    [(_, share), _] = outcome.of_file(opened)
    assert f"predicted, {share} is right." in text


def test_corrections_tags_and_notes_are_listed_and_never_markup(store):
    opened = begin(store, positive_name=EVIL[:60], name=EVIL, guidelines=EVIL, tags=[TAG])
    for _ in range(3):
        say(opened, 1)
    first = opened.history[0]
    opened.correct("report-c", first.id, -1, EVIL)
    opened.note("report-n", first.item, EVIL)
    for k in range(3):
        opened.tag(f"report-t{k}", k, TAG, True)
    text, page = shown(opened)
    assert "Corrected labels: 1." in page.text
    assert f"{TAG}3" in page.text
    assert "<script>x" not in text
    assert page.text.count("<script>x</script> & $y$") >= 5
    assert opened.dataset.item(first.item)["id"] in page.text

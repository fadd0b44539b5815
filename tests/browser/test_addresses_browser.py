"""Addresses in a real browser follow the controls without a reload, and show the same view to another person."""

import pytest
from playwright.sync_api import expect

from tests.harness.browser import choose
from tests.harness.examples import compared, imported


def address(page):
    """Return the path and query of a page."""
    return page.evaluate("location.pathname + location.search")


def marked(page):
    """Set a variable on a page that a reload would clear. Return the page."""
    page.evaluate("window.loadedOnce = true")
    return page


@pytest.mark.slow
def test_a_comparison_is_sent_by_its_address(visit, another, app, store, tmp_path):
    """Choices on a comparison's page enter the address without a reload, and the address shows the same view in another
    browser. Leaving the comparison clears its address; on return the address and the controls agree."""
    imported(store, tmp_path, "things")
    number = compared(store, "both", data=["things"])
    page = marked(visit(app, f"/Compare?comparison={number}"))
    choose(page, "Metric", "Cost")
    page.wait_for_url("**metric=Cost*")
    choose(page, "Data and budget", "things, 20 labels")
    page.wait_for_url("**block=things*")
    sent = address(page)
    there = visit(app, sent, context=another)
    expect(there.get_by_role("combobox", name="Metric")).to_have_value("Cost")
    expect(there.get_by_role("combobox", name="Data and budget")).to_have_value("things, 20 labels")
    assert sent == address(there)
    page.get_by_role("link", name="All comparisons").click()
    page.wait_for_url(lambda url: "metric" not in url and "comparison" not in url)
    page.get_by_role("link", name="both").click()
    expect(page.get_by_role("combobox", name="Metric")).to_have_value("Cost")
    page.wait_for_url(lambda url: f"comparison={number}" in url and "metric=Cost" in url)
    choose(page, "Metric", "F1")
    page.wait_for_url(lambda url: "metric" not in url)
    assert page.evaluate("window.loadedOnce")

"""A comparison from click to file, in a real browser."""

import json

import pytest
from playwright.sync_api import expect

from oal_engine import experiments
from oal_engine.experiments import jobs, report
from tests.harness.browser import running
from tests.harness.examples import imported
from tests.harness.markup import MARKUP, RUN


@pytest.fixture
def app(browser, tmp_path):
    """The running app, whose comparisons end with the test."""
    with running(tmp_path) as app:
        yield app
        for row in app.store.comparisons():
            jobs.cancel(app.store, row["id"])


def start(page, name, budgets, runs):
    """Compare two of the algorithms that are offered, and see that it runs."""
    page.get_by_role("spinbutton", name="Runs").fill(str(runs))
    page.get_by_role("spinbutton", name="Runs").press("Enter")
    for field, words in (("Budgets", budgets), ("Name", name)):
        page.get_by_role("textbox", name=field, exact=True).fill(words)
        page.get_by_role("textbox", name=field, exact=True).press("Enter")
    page.get_by_role("combobox", name="Parameters").click()
    page.get_by_role("option", name="As given").click()
    for algorithm in ("RPA-I", "OA3-diag", "CSOAL"):
        page.get_by_role("combobox", name="Algorithms").press("Backspace")
        expect(page.get_by_text(algorithm, exact=True)).to_have_count(0)
    expect(page.get_by_text(f"about {3 * runs * len(budgets.split(',')):,} replays")).to_be_visible()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("progressbar")).to_be_visible()


def test_a_comparison_from_click_to_files(app, visit, tmp_path):
    """See curves while one runs, reload in the middle, cancel it; finish another, and open every file that it gives."""
    import pandas

    store = app.store
    imported(store, tmp_path)
    page = visit(app, "/Compare")
    start(page, "long", ", ".join(map(str, range(5, 35))), 500)
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    expect(page.get_by_role("progressbar")).to_be_visible()
    pid = store.job(1)["pid"]
    page.reload()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert ("running", pid) == (store.job(1)["state"], store.job(1)["pid"])
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Resume runs the rest")).to_be_visible()
    assert "cancelled" == store.job(1)["state"]
    page.get_by_role("link", name="All comparisons").click()
    start(page, MARKUP, "5, 20", 10)
    app.kill()  # a job does not end with the server
    app.start()
    page.goto(app.url("/Compare?comparison=2"))
    expect(page.get_by_text("finished ·")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    page.get_by_role("button", name="Download").click()
    files = {}
    for suffix, (_, _, label) in report.FILES.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=label).click()
        files[suffix] = tmp_path / f"got.{suffix}"
        download.value.save_as(files[suffix])
        assert download.value.suggested_filename.endswith(f".{suffix}")
    result = experiments.load(store, 2)
    rows = len(result.lines) * result.spec.permutations
    assert rows == len(pandas.read_parquet(files["parquet"])) == len(pandas.read_csv(files["csv"]))
    assert json.loads(json.dumps(result.as_json())) == json.loads(files["json"].read_text())
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert r"\toprule" in files["tex"].read_text()
    for suffix in ("html", "svg"):
        opened, requests = visit.context.new_page(), []
        visit.pages.append(opened)
        opened.on("request", lambda request, seen=requests: seen.append(request.url))
        opened.on("pageerror", lambda error: visit.problems.append(str(error)))
        opened.on("console", lambda message: visit.problems.append(message.text))
        opened.goto(files[suffix].as_uri())
        assert [files[suffix].as_uri()] == [url for url in requests if not url.startswith("data:")]
        assert opened.locator("svg").count()
    expect(opened.locator("svg").first).to_be_visible()
    assert 0 == page.locator(RUN).count()
    page.get_by_role("link", name="All comparisons").click()
    expect(page.get_by_role("button", name="Compare", exact=True)).to_be_visible()
    assert 0 == page.locator(RUN).count()

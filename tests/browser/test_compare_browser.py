"""A comparison in a real browser, from the form to the downloaded files."""

import json

import pandas
import pytest
from playwright.sync_api import expect

from oal_engine import experiments
from oal_engine.experiments import jobs, report
from tests.harness.examples import NAME, compared, imported
from tests.harness.markup import MARKUP, RUN


@pytest.fixture
def comparing(app, store):
    """The store of the app's database. Afterwards the fixture cancels its comparisons."""
    yield store
    for row in store.comparisons():
        jobs.cancel(store, row["id"])


@pytest.mark.slow
def test_a_comparison_from_click_to_files(app, visit, comparing, tmp_path):
    """A comparison started in the form shows curves while it runs, survives a kill of the server, and is stopped by
    Cancel. The downloads of a finished comparison agree with it, and the HTML and SVG files fetch nothing."""
    store = comparing
    imported(store, tmp_path)
    page = visit(app, "/Compare")
    page.get_by_role("spinbutton", name="Runs").fill("500")
    page.get_by_role("spinbutton", name="Runs").press("Enter")
    for field, words in (("Budgets", ", ".join(map(str, range(5, 35)))), ("Name", "long")):
        page.get_by_role("textbox", name=field, exact=True).fill(words)
        page.get_by_role("textbox", name=field, exact=True).press("Enter")
    page.get_by_role("combobox", name="Parameters").click()
    page.get_by_role("option", name="As given").click()
    for algorithm in ("RPA-I", "OA3-diag", "CSOAL"):
        page.get_by_role("combobox", name="Algorithms").press("Backspace")
        expect(page.get_by_text(algorithm, exact=True)).to_have_count(0)
    page.get_by_text("about 45,000 replays").wait_for()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("progressbar").wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    number = store.comparison("long")["id"]
    pid = store.job(number)["pid"]
    app.kill()  # a job does not end with the server
    app.start()
    page.goto(app.url(f"/Compare?comparison={number}"))
    page.get_by_role("progressbar").wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    assert ("running", pid) == (store.job(number)["state"], store.job(number)["pid"])
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Resume runs the rest").wait_for()
    assert "cancelled" == store.job(number)["state"]
    finished = compared(store, MARKUP, data=[NAME])
    page.goto(app.url(f"/Compare?comparison={finished}"))
    page.get_by_text("finished ·").wait_for()
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    page.get_by_role("button", name="Download").click()
    files = {}
    for suffix, (_, _, label) in report.FILES.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=label).click()
        files[suffix] = tmp_path / f"got.{suffix}"
        download.value.save_as(files[suffix])
        assert download.value.suggested_filename.endswith(f".{suffix}")
    result = experiments.load(store, finished)
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
    opened.locator("svg").first.wait_for()
    assert 0 == page.locator(RUN).count()
    page.get_by_role("link", name="All comparisons").click()
    page.get_by_role("button", name="Compare", exact=True).wait_for()
    assert 0 == page.locator(RUN).count()

"""Tools for tests in a real Chromium: the app as a separate process, its visitors, and the card as a person uses it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from playwright.sync_api import Error, TimeoutError, expect, sync_playwright

from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.markup import RUN

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-auto-reload --process-per-site"
).split()
DESKTOP, PHONE = {"width": 1366, "height": 900}, {"width": 390, "height": 844}
PATIENCE = 120  # seconds until a timeout: long, because a slow machine must not fail a test
# Console errors to ignore: from Streamlit's deep links, and from Streamlit and the browser when a server is killed.
CALM = (
    "favicon",
    "/_stcore/",
    "disconnected from server",
    "server is not responding",
    "net::ERR_",
    "WebSocket onerror",
    "Connection timed out.",
    "DoInitPings timed out",
    "status of 503",  # the card says why
    "status of 401",
    "dynamically imported module: ",  # if the server runs, a missing script is reported as a 404 too
)

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
# The widths of elements that are wider than their window.
WIDE = """() => [...document.querySelectorAll("html, [data-testid=stMain]")]
  .filter(e => e.scrollWidth > e.clientWidth).map(e => e.scrollWidth)"""

expect.set_options(timeout=1000 * PATIENCE)


def program(*names):
    """Return the path of the first of these programs that is installed. If none is, skip the test, or fail it if CI
    requires browser tests."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        missing = pytest.fail if os.environ.get("OAL_BROWSER_TESTS") == "required" else pytest.skip
        missing(f"needs one of {', '.join(names)} on the PATH")
    return path


@contextmanager
def chromium():
    """Launch this machine's Chromium, yield it, and close it afterwards."""
    path = program(*NAMES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


STREAMLIT = (
    *(sys.executable, "-m", "streamlit", "run", ROOT / "app.py"),
    *("--server.fileWatcherType", "none", "--server.port"),
)


class Server:
    """The app in a separate process, with its own database and, if given, its own working directory. command: the
    command that starts the app; the port is appended."""

    def __init__(self, folder, work=ROOT, port=None, command=STREAMLIT, **environment):
        self.command = command
        self.database, self.log, self.port = folder / "studio.db", folder / "server.log", port or free_port()
        self.work, self.environment = work, os.environ | {"OAL_DB": str(self.database)} | environment
        self.start()

    def start(self):
        """Start the server, or start it again on the same port, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, str(self.port)],
                cwd=self.work, env=self.environment, stdout=log, stderr=log,
            )  # fmt: skip
        opened, end = build_opener(ProxyHandler({})), time.monotonic() + 2 * PATIENCE
        while True:
            try:
                return opened.open(self.url("/_stcore/health"), timeout=PATIENCE).close()
            except URLError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def kill(self):
        """Kill the server without warning, like a power failure."""
        self.process.kill()
        self.process.wait()

    @contextmanager
    def frozen(self):
        """Freeze the server while the body runs (SIGSTOP), then let it continue."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def running(folder, **settings):
    """Run the app with its files in a folder, and yield its Server, whose `store` is the open database. Its log must
    have no traceback."""
    server = Server(folder, **settings)
    try:
        with closing(Store(server.database)) as server.store:
            yield server
    finally:
        server.kill()
    assert "Traceback" not in server.log.read_text()


def guarded(folder, secrets, **settings):
    """Run the app in a folder with these secrets, which configure its log-in and who has access."""
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "secrets.toml").write_text(secrets)
    return running(folder, work=folder, **settings)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def warmed(browser):
    """Yield a browser context in which the app's scripts stay compiled, because one page of its site is always open."""
    with browser.new_context() as context:
        page = context.new_page()
        page.route("http://127.0.0.1/", lambda route: route.fulfill(body=""))
        page.goto("http://127.0.0.1/")
        yield context


def forget(context, origins):
    """Clear all cookies, and everything that apps at these origins have stored, from a warmed browser context."""
    context.clear_cookies()
    client = context.new_cdp_session(context.pages[0])
    for origin in origins:
        client.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    client.detach()


class Visitors:
    """People who open the app. `problems` collects the errors in the consoles of their browsers."""

    def __init__(self, context):
        self.context, self.pages, self.origins, self.problems = context, [], set(), []

    def __call__(self, server, path="/", viewport=DESKTOP, context=None, cookie=None, **media):
        """Open a page for another visitor, in the shared browser context or in `context`. cookie: replaces all cookies
        of that context."""
        page = (context or self.context).new_page()
        if cookie:
            page.context.clear_cookies()
            page.context.add_cookies([cookie])
        self.pages.append(page)
        self.origins.add(server.url(""))
        page.set_viewport_size(viewport)
        page.emulate_media(**media)
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: self._hear("error", str(error)))
        page.on("console", lambda message: self._hear(message.type, f"{message.text} {message.location['url']}"))
        page.goto(server.url(path))
        return page

    def _hear(self, kind, words):
        if kind == "error" and not any(word in words for word in CALM):
            self.problems.append(words)

    def photograph(self, folder, name):
        """Save a screenshot of each open page."""
        folder.mkdir(parents=True, exist_ok=True)
        for nth, page in enumerate(self.pages, 1):
            with suppress(Error):  # a page that has crashed
                page.screenshot(path=folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())[:80]}-{nth}.png")

    def leave(self):
        """Close all pages, and clear what they stored in the shared browser context."""
        for page in self.pages:
            page.close()
        forget(self.context, self.origins)


class Card:
    """The card on a page of the app, as a person sees and uses it."""

    def __init__(self, page):
        self.page = page
        self.root = self("card")
        self.ready()

    def __call__(self, name):
        """Locate a part of the card by its test id."""
        return self.page.get_by_test_id(f"oal-{name}")

    def ready(self):
        """Wait until the card has painted an item, or the end of the session."""
        self._wait("[data-question]")

    @property
    def question(self):
        """The id of the question on the screen, or "" at the end of the session."""
        return self.root.get_attribute("data-question")

    @property
    def item(self):
        """The id of the item on the screen."""
        return self.root.locator(".title").inner_text()

    def press(self, key):
        """Press a key and wait until the card shows another question."""
        old = self.question
        self.tap(key)
        self._wait(f":not([data-question='{old}'])")

    def tap(self, key):
        """Press a key without waiting for its effect."""
        self.page.bring_to_front()  # a background tab is slow, and may not have painted its item
        self.painted()
        self.page.keyboard.press(key)

    def saved(self):
        """Wait until the server has acknowledged everything, and the card has painted the response."""
        self._wait("[data-unsaved='0']")
        self.painted()

    def painted(self):
        """Wait for the next paint."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def _wait(self, state):
        try:
            self.page.locator(f"[data-testid=oal-card]{state}").wait_for(timeout=1000 * PATIENCE)
        except TimeoutError as error:
            shown = self.root.evaluate("card => JSON.stringify(card.dataset)")
            raise AssertionError(f"the card stays {shown}: {self('status').inner_text()}") from error

    def says(self, sentence):
        expect(self("status")).to_have_text(sentence)


def listeners(page):
    """Return the event types that document and window listen to, sorted, once for each listener."""
    client, heard = page.context.new_cdp_session(page), []
    for target in ("document", "window"):
        object = client.send("Runtime.evaluate", {"expression": target})["result"]["objectId"]
        heard += client.send("DOMDebugger.getEventListeners", {"objectId": object})["listeners"]
    client.detach()
    return sorted(listener["type"] for listener in heard)


def history(store, session):
    """Return every answer that was ever stored, in order: item, label, and whether the answer is still valid."""
    rows = store.query(
        "SELECT items.id, answer.label, NOT EXISTS (SELECT 1 FROM events AS later WHERE later.number > answer.number"
        " AND later.question = answer.question AND later.kind IN ('answered', 'corrected', 'undone')) AS stands"
        " FROM events AS answer JOIN questions ON questions.id = question JOIN sessions ON sessions.id = answer.session"
        " JOIN items ON items.dataset = sessions.dataset AND items.position = questions.item"
        " WHERE answer.session = ? AND kind IN ('answered', 'corrected') ORDER BY answer.number",
        session,
    )
    return [(row["id"], row["label"], bool(row["stands"])) for row in rows]


def button(page, name):
    """Locate the button with exactly this name."""
    return page.get_by_role("button", name=name, exact=True)


def choose(page, label, option):
    """Choose an option of a select or multiselect box as a person does, once the page has settled."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    field, wanted = page.get_by_role("combobox", name=label), page.get_by_role("option", name=option, exact=True)
    several = page.get_by_test_id("stMultiSelect").filter(has=field)
    for last in (False, False, True):  # a page that is redrawn meanwhile closes an open list, or ignores the click
        field.evaluate("field => field.scrollIntoView({block: 'center'})")  # at the window's edge a list closes at once
        field.click()
        field.fill(option)  # a long list has only the options in view; typing opens a closed list
        try:
            wanted.click(timeout=None if last else 5000)
            expect(wanted).to_have_count(0, timeout=5000)
            expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
            if several.count():
                return several.get_by_text(option, exact=True).wait_for(timeout=5000)
            return expect(field).to_have_value(option, timeout=5000)
        except (TimeoutError, AssertionError):
            if last:
                raise


def upload(page, path):
    """Click Upload, and choose a file in the dialog that the browser opens."""
    with page.expect_file_chooser() as chooser:
        button(page.get_by_test_id("stFileUploader"), "Upload").click()
    chooser.value.set_files(path)


def tab(page, name):
    """Open a tab next to the card."""
    if name not in ("Progress", "List"):
        page.get_by_role("tab", name="More").click()
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")


def unharmed(page):
    """Check that no markup from the data took effect on a page."""
    assert page.locator(RUN).count() == 0
    assert page.evaluate("window.pwned") is None


def bounds(locator):
    """Return the edges of an element: left, top, right, bottom."""
    box = locator.bounding_box()
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


def fits(page):
    """Check that nothing on a page is wider than its window, once its layout has settled."""
    with suppress(TimeoutError):
        page.wait_for_function(f"({WIDE})().length === 0")
    assert [] == page.evaluate(WIDE)

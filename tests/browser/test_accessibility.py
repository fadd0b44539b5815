"""Accessibility: the rules of axe-core and the Tab key on every page, in a real browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from oal_engine.datasets import demo
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.browser import Card, Visitors, button, running, tab
from tests.harness.examples import add_texts, answer, compared, imported

SERIOUS = ("serious", "critical")
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
THEMES = {"light": None, "dark": OF_COLOURS}  # axe-core's options (None: all rules); the themes differ only in color


@pytest.fixture(scope="module")
def app(browser, tmp_path_factory):
    """The running app, with a database of its own."""
    with running(tmp_path_factory.mktemp("app")) as app:
        yield app


@pytest.fixture(scope="module")
def names(app, tmp_path_factory):
    """Create the data that the addresses in STATES need. Return {placeholder in an address: id of a session or
    comparison, or path of a file}."""
    folder, store = tmp_path_factory.mktemp("data"), app.store
    path = folder / "new.csv"
    path.write_text("id,text,label\n" + "".join(f"{k},some words {k % 7},{k % 2}\n" for k in range(30)))
    vectors, kinds = imported(store, folder, "vectors"), imported(store, folder, "kinds", classes=3)
    names = {
        "demo": answer(store, demo.dataset(store, "tweets"), 12),
        "unlabelled": answer(store, add_texts(store, folder, "unlabelled", None), 12),
        "vectors": answer(store, vectors, 3),
        "kinds": create(store, kinds, "MPAA-I"),
        "ended": answer(store, vectors, budget=3),
        "comparison": compared(store, "two algorithms", data=["vectors"]),
        "classes": compared(store, "classes", data=["kinds"], algorithms={"MPAA-I": {}}, criterion="accuracy"),
        "file": path,
    }
    Session(store, names["kinds"])  # compiled once for all processes
    return names


def chosen(page, file):
    page.locator("input[type=file]").set_input_files(file)
    button(page, "Import").wait_for()


def unfolded(page, details, words):
    page.get_by_text(details).click()
    page.get_by_text(words).wait_for()


def beside(name, inside=None):
    """Return a function that opens a tab next to the card, and clicks an element inside it if `inside` is given."""

    def act(page, names):
        Card(page)
        tab(page, name)
        if inside:
            page.locator(inside).first.click()

    return act


# States of pages: (address, actions of a person before the page is checked).
STATES = {
    "home": ("/", lambda page, names: None),
    "session form": (
        "/",
        lambda page, names: (button(page, "New session").click(), page.get_by_text("More settings").click()),
    ),
    "label without labels": ("/Label?session={unlabelled}", lambda page, names: Card(page)),
    "label vectors": ("/Label?session={vectors}", lambda page, names: Card(page)),
    "label classes": ("/Label?session={kinds}", lambda page, names: Card(page)),
    "label at the end": ("/Label?session={ended}", lambda page, names: Card(page)),
    "compare": ("/Compare", lambda page, names: page.get_by_text("More settings").click()),
    "result": ("/Compare?comparison={comparison}", lambda page, names: unfolded(page, "p-values", "Wilcoxon")),
    "result of classes": ("/Compare?comparison={classes}", lambda page, names: None),
    "race": ("/Compare?view=race", lambda page, names: page.get_by_role("button", name="Pause").click()),
    "replay": ("/Replay?session={demo}&question=3", lambda page, names: page.get_by_test_id("oal-player").wait_for()),
    "data": ("/Data", lambda page, names: chosen(page, names["file"])),
    "label": ("/Label?session={demo}", lambda page, names: Card(page)),
}
ROW = "[data-testid=oal-list-rows] button[aria-expanded=false]"
BESIDE = {
    f"label, {name}": ("/Label?session={demo}", beside(name, inside))
    for name, inside in {"History": ROW, "Pushed": ROW, "Check": None, "Learned": None, "Guidelines": "summary"}.items()
}
EMPTY = ("/", "/Label", "/Compare", "/Replay", "/Data")


def reach(page, names, act):
    """Bring a page into a state of STATES, and wait until it no longer changes."""
    done = page.locator("[data-testid=stApp][data-test-script-state=notRunning]")
    page.locator(".st-key-top").wait_for()
    act(page, names)
    done.wait_for()
    expect(page.locator("[data-stale=true], [data-testid=stSkeleton]")).to_have_count(0)


# True once no color has changed since the last call, because a theme fades in step by step, and once the script has
# finished, because Streamlit pales elements until it has sent them again.
SETTLED = """() => {
  const parts = (root) =>
    [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? parts(e.shadowRoot) : [])]);
  const colours = parts(document.body).map((e) => {
    const { color, backgroundColor } = getComputedStyle(e);
    return color + backgroundColor;
  }).join();
  const old = window.oldColours;
  window.oldColours = colours;
  const running = "[data-stale=true], [data-testid=stApp]:not([data-test-script-state=notRunning])";
  return old === colours && !document.querySelector(running);
}"""


# Set `rewritten` once the script runs again from now on, as it does every few seconds for the panels.
WATCH = """() => {
  const app = document.querySelector("[data-testid=stApp]");
  window.rewritten = app.dataset.testScriptState !== "notRunning";
  const seen = { attributeFilter: ["data-test-script-state"] };
  new MutationObserver(() => { window.rewritten = true; }).observe(app, seen);
}"""


def serious_violations(page):
    """Return the serious violations that axe-core finds on a page: [(theme, rule, reason, target elements)]."""
    violations = []
    for theme, options in THEMES.items():
        page.emulate_media(color_scheme=theme)
        expect(page.locator(".stApp")).to_have_css("color-scheme", theme)
        for _ in range(5):
            page.evaluate("delete window.oldColours")
            page.wait_for_function(SETTLED, polling=150)
            page.evaluate(WATCH)
            rules = Axe().run(page, options=(options or {}) | {"resultTypes": ["violations"]}).response["violations"]
            found = [rule for rule in rules if rule["impact"] in SERIOUS]
            if not (found and page.evaluate("rewritten")):  # elements are pale until all of them are sent again
                break
        violations += [
            (theme, rule["id"], node["failureSummary"], node["target"]) for rule in found for node in rule["nodes"]
        ]
    return violations


@pytest.fixture(scope="module")
def opened(context, app):
    """The browser page in which this module opens one address after another. Afterwards the fixture checks that its
    console shows no problems."""
    visitors = Visitors(context)
    yield visitors(app)
    visitors.leave()
    assert [] == visitors.problems


@pytest.mark.slow
def test_axe_finds_nothing_serious_where_nothing_is_yet(opened, app):
    """With an empty database, no page breaks an axe-core rule of serious or critical impact, in either color theme."""
    assert not app.store.datasets()
    for address in EMPTY:
        opened.goto(app.url(address))
        reach(opened, {}, lambda page, names: None)
        assert [] == serious_violations(opened), address


@pytest.fixture(scope="module", params=STATES | BESIDE)
def page(request, opened, app, names):
    """A page in one of the states, opened once for all tests below. States with the same address share one visit."""
    address, act = (STATES | BESIDE)[request.param]
    address = address.format(**names)
    if opened.url != app.url(address):
        opened.goto(app.url(address))
    reach(opened, names, act)
    return opened


@pytest.mark.slow
def test_axe_finds_nothing_serious(page):
    """No page breaks an axe-core rule of serious or critical impact in any of its states, in either color theme."""
    assert [] == serious_violations(page)


# The keyboard

# The controls that Tab should reach, in page order, and the controls that only a mouse reaches. A group of radio
# buttons or of tabs is one control: arrow keys move inside. Elements that match `aside` are left out.
CONTROLS = """([aside, keys]) => {
  const parts = (root) =>
    [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? parts(e.shadowRoot) : [])]);
  const shown = (e) => e.getClientRects().length && !e.matches(":disabled") && !e.closest(aside)
    && e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const whole = (e) => e.closest("[role=radiogroup], [role=tablist]") ?? e;
  const words = (e) => e.innerText?.trim().match(/.*/)[0].slice(0, 30) ?? "";  // without a meaning that the focus opens
  const name = (e) => `${e.localName} ${e.ariaLabel ?? e.title} ${words(e)}`;
  const look = (e) => {
    const colours = [];
    for (let up = 0; up < 4 && e; up += 1, e = e.parentElement) {
      const { outlineStyle, outlineWidth, boxShadow, borderColor, backgroundColor } = getComputedStyle(e);
      colours.push(outlineStyle === "none" || outlineWidth, boxShadow, borderColor, backgroundColor);
    }
    return String(colours);
  };
  const all = parts(document).filter((e) =>
    e.matches("a[href], button, input, select, textarea, summary, [tabindex]") && shown(e));
  const tabbed = all.filter((e) => e.tabIndex >= 0);
  const looks = new Map(tabbed.map((e) => [e, look(e)]));
  window.here = () => {
    let e = document.activeElement;
    while (e.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
    if (e === document.body) return null;
    const { top, bottom, left, right } = e.getBoundingClientRect();
    const seen = top < innerHeight && bottom > 0 && left < innerWidth && right > 0;
    return { name: name(whole(e)), aside: Boolean(e.closest(aside)), ring: looks.get(e) !== look(e), seen };
  };
  tabbed[0].focus();
  const mouse = all.filter((e) => e.tabIndex < 0 && whole(e) === e && !e.matches(keys));
  return { tabbed: [...new Set(tabbed.map(whole))].map(name), mouse: mouse.map(name) };
}"""
# Streamlit's tables and toolbars: arrow keys move inside, and a toolbar exists only while its table has the focus.
GRID = "[data-testid=stDataFrame], [role=toolbar]"
# A mouse suffices here: arrow keys change a number or a choice, Backspace removes a tag, the drop zone has a button, a
# list has rows.
OTHER_KEYS = (
    "[data-testid^=stNumberInputStep], [aria-label=Open], [data-tag], [data-tag] *, "
    "[data-testid=stFileUploaderDropzone], [part=list]"
)
STILL = "* { transition: none !important; }"


def walk(page):
    """Press Tab through a page from its first control. Return the page's controls, the controls that Tab reached, and
    whether the page changed meanwhile."""
    page.evaluate(WATCH)
    controls, walked = page.evaluate(CONTROLS, [GRID, OTHER_KEYS]), []
    while len(walked) < 3 * len(controls["tabbed"]):
        page.keyboard.press("Tab")
        here = page.evaluate("here()")
        if here is None or here["name"] == controls["tabbed"][0]:  # Tab has left the page, or starts over
            break
        walked.append(here)
    return controls, [here for here in walked if not here["aside"]], page.evaluate("rewritten")


@pytest.mark.slow
def test_tab_reaches_every_control_once(page):
    """Tab reaches every control once, in page order, and then leaves the page. Each focused control is in view and
    shows its focus."""
    page.add_style_tag(content=STILL)
    for _ in range(20):
        controls, walked, rewritten = walk(page)
        if not rewritten:  # panels are redrawn every few seconds
            break
    assert not rewritten
    assert controls["tabbed"][1:] == [here["name"] for here in walked]
    assert [] == [here["name"] for here in walked if not (here["ring"] and here["seen"])]
    assert [] == controls["mouse"]


OPENERS = {
    "/": ("More", "Your name"),
    "/Compare?comparison={comparison}": ("Download",),
    "/Compare?view=race": ("Settings",),
}


@pytest.mark.slow
def test_escape_closes_what_a_key_opened(opened, app, names):
    for address, openers in OPENERS.items():
        opened.goto(app.url(address.format(**names)))
        for name in openers:
            opener = opened.get_by_test_id("stPopover").get_by_role("button", name=name).first
            opened.wait_for_function("window.oalPopover")
            at_rest = opened.get_by_test_id("stApp")  # a page that is still being drawn takes the focus away
            expect(at_rest).to_have_attribute("data-test-script-state", "notRunning")
            opener.focus()
            opened.keyboard.press("Enter")
            box = opened.get_by_test_id("stPopoverBody")
            box.wait_for()
            box.locator(":focus").wait_for(state="attached")
            opened.keyboard.press("Escape")
            box.wait_for(state="detached")
            expect(opener).to_be_focused()

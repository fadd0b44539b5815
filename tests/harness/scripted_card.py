"""The labeling card alone in a real browser: tests give it payloads, run its clock, and read the events it sends."""

from ui.components import text
from ui.components.card import SCRIPTS

CLASSES = [{"label": 1, "name": "Yes", "keys": ["a", "1"]}, {"label": -1, "name": "No", "keys": ["x", "0"]}]
COUNTERS = {
    "labels": 2, "budget": 9, "answers": {"1": 1, "-1": 1}, "skipped": 0, "streamed": 5, "stream": 1000, "pushed": 3,
}  # fmt: skip
ADDRESS = "http://card.test/"
FRAME = 50  # ms by the card's clock, more than a paint takes
THEME = ("background", "text", "primary", "orange", "red-text")
HTML = """<style>:root { %s } %s</style>
<input id=field><textarea id=area></textarea><select id=select><option>a<option>x</select>
<div id=editable contenteditable></div><div id=textbox role=textbox tabindex=0></div><div id=shadow></div>
<button id=button onclick="window.clicked = (window.clicked ?? 0) + 1">Other</button><input id=box type=checkbox>
<script>
  shadow.attachShadow({mode: "open"}).innerHTML = "<input>";
  const mounts = [];
</script><div id=host></div>"""
MOUNT = """async script => {
  const {default: mount} = await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})));
  window.sent = [];
  window.cleanUps = [];
  window.reviews = [];
  window.marks = [];
  window.fetch = async (_, {body}) => {
    const {events, review, marks: marked} = JSON.parse(body);
    if (review !== (reviews.at(-1) ?? null)) reviews.push(review);
    if (marked !== (marks.at(-1) ?? false)) marks.push(marked);
    const answer = window.following;
    window.following = null;
    if (events.some(({id}) => !answer?.acked.includes(id))) sent.push(events);
    return answer ? {json: async () => answer} : Promise.reject();
  };
  window.give = async ({session, annotator, login, ...answer}) => {
    window.following = answer;
    const data = {session, annotator, login, url: "card", idle: !answer.place.question};
    cleanUps.push(mount({data, parentElement: host, setStateValue: () => {}}));
    for (let turn = 0; turn < 20; turn++) await null;
  };
}"""


def question(id, **changes):
    item = {
        "id": id,
        "number": id,
        "item": id,
        "parts": [[f"item {id}", 0]],
        "features": None,
        "title": None,
        "why": "w",
    }
    return item | {"old": None, "asks": [*range(26)]} | changes


def place(asked, **changes):
    """Return the `place` entry of a payload. asked: the question to show, its id, or None at the end. A complete place
    is returned unchanged."""
    asked = question(asked) if isinstance(asked, int) else asked
    if asked and "counters" in asked:
        return asked
    return {"question": asked, "end": None, "counters": COUNTERS, "result": None} | changes


class Script:
    """The card on a page without the rest of the app, whose clock runs only on demand."""

    def __init__(self, page):
        self.page = page
        self.open(fresh=True)

    def open(self, fresh=False):
        """Load the page as a reload does. fresh: first clear everything that is stored in the browser."""
        self.page.goto(ADDRESS)
        if fresh:
            self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.evaluate(MOUNT, text(SCRIPTS))

    def give(self, here, branches=(), **changes):
        """Give the card the server's next payload, and let it paint."""
        self.hand(here, branches, **changes)
        self.run(FRAME)

    def hand(self, here, branches=(), **changes):
        """Give the card the server's next payload, without time to paint."""
        ahead = {
            str(id): {str(label): place(then) for label, then in outcomes.items()}
            for id, outcomes in dict(branches).items()
        }
        payload = {"session": 1, "acked": [], "error": None, "classes": CLASSES, "previous": None}
        payload |= {"annotator": "anna", "login": False, "place": place(here), "branches": ahead} | changes
        self.page.evaluate("give", payload)

    def run(self, ms):
        """Let the clock run for `ms` milliseconds."""
        self.page.clock.run_for(ms)

    def press(self, *keys):
        """Press keys one after another, with a paint after each."""
        for key in keys:
            self.page.keyboard.press(key)
            self.run(FRAME)

    def hold(self, key, times=5):
        """Hold a key down until it repeats, with a paint after each repetition."""
        for _ in range(times):
            self.page.keyboard.down(key)
            self.run(FRAME)
        self.page.keyboard.up(key)

    def dispatch(self, **event):
        """Dispatch a keydown event that Playwright's keyboard cannot make."""
        script = """event => { document.body.dispatchEvent(new KeyboardEvent("keydown",
          {bubbles: true, composed: true, cancelable: true, ...event})) }"""
        self.page.evaluate(script, event)
        self.run(FRAME)

    def __call__(self, name):
        return self.page.get_by_test_id(f"oal-{name}")

    @property
    def posts(self):
        """Everything that the card sent: for each request, a list of (question, action, label)."""
        return self.page.evaluate("sent.map(events => events.map(e => [e.question, e.action, e.label]))")

    @property
    def events(self):
        """The events of the last request."""
        return self.page.evaluate("sent.at(-1) ?? []")

    @property
    def answers(self):
        """The events of the last request as (question, label). A skip is (question, 0)."""
        return [(event["question"], {"skip": 0}.get(event["action"], event["label"])) for event in self.events]

    @property
    def ids(self):
        return [event["id"] for event in self.events]

    @property
    def shown(self):
        """The number of the item on the screen."""
        return int(self("text").inner_text().removeprefix("item "))

    @property
    def status(self):
        return self("status").inner_text()


ALL = {n: {1: n + 1, -1: n + 1, 0: n + 1} for n in range(1, 12)}  # every answer to n brings n + 1

// The labeling card. What it shows is the server's last payload carried forward through the events the server
// has not acknowledged: an answer is painted at once, an older payload throws nobody back, a reload loses nothing.

const DOUBLE_CLICK = 500; // ms after a paint in which a further click of a double click is not meant for the new item
const CALM = 250; // ms before "unsaved" is said, so that the status does not flicker at every label
const RETRY = 2000; // ms before unacknowledged events are sent again, doubled each time
const SLOWEST_RETRY = 30000;
const LINE = 13; // characters of a class's name that a button has room for in a line, where there are many

const cards = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let card = cards.get(parentElement);
  if (card?.session !== data.session) {
    card?.remove();
    card = new Card(parentElement, data.session);
    cards.set(parentElement, card);
  }
  card.receive(data, (events) => setStateValue("events", events));
  // Streamlit also cleans up a call that a newer one overtakes, even before it: only a page that is gone counts.
  return () => {
    if (parentElement.isConnected) return;
    card.remove();
    cards.delete(parentElement);
  };
}

class Card {
  constructor(parent, session) {
    this.session = session;
    this.storageKey = `oal-card-${session}`;
    this.pending = stored("sessionStorage", this.storageKey) ?? [];
    this.highlight = stored("localStorage", "oal-highlight") ?? false;
    this.retryDelay = RETRY;
    this.build();
    parent.append(this.root);

    this.listening = new AbortController();
    const { signal } = this.listening;
    document.addEventListener("keydown", (event) => this.onKey(event), { signal });
    window.addEventListener("beforeunload", (event) => this.pending.length && event.preventDefault(), { signal });
    this.leaving = leaving(signal);
  }

  remove() {
    this.listening.abort();
    clearTimeout(this.retrying);
    clearTimeout(this.saying);
    this.root.remove();
  }

  build() {
    this.why = h("p", { class: "why", ...testid("why") });
    this.title = h("p", { class: "title", dir: "auto" });
    this.switch = h("button", { class: "switch", role: "switch", type: "button", "aria-keyshortcuts": "H",
      title: "Mark the terms that weigh most in the model's score", ...testid("highlight") }, "Highlight", key("H"));
    this.switch.onmousedown = keepFocus;
    this.switch.onclick = () => this.toggleHighlight();
    this.text = h("div", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": "Item to label",
      "aria-live": "polite", ...testid("text") });
    this.classes = h("div", { class: "classes" });
    this.skip = this.button("skip", null, "Skip", ["Space"], "skip");
    this.undo = this.button("undo", null, "Undo", ["Z", "Backspace"], "undo");
    this.used = h("p", { class: "used" });
    this.bar = h("i", {});
    this.tally = h("dl", {});
    this.counters = h("div", { class: "counters", ...testid("counters") },
      this.used, h("div", { class: "bar", "aria-hidden": "true" }, this.bar), this.tally);
    this.status = h("p", { class: "status", role: "status", "aria-live": "polite", ...testid("status") });
    this.root = h("section", { class: "card", "aria-label": "Labeling card", ...testid("card") },
      h("div", { class: "above" }, this.why, this.title, this.switch),
      this.text,
      h("div", { class: "buttons" }, this.classes, this.skip, this.undo),
      h("div", { class: "below" }, this.counters, this.status));
    this.root.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.repeat) event.preventDefault(); // a held Enter clicks a button many times
    });
  }

  button(action, label, name, keys, id) {
    const button = h("button", { type: "button", class: action, "data-testid": `oal-${id}`,
      "aria-keyshortcuts": keys.join(" ") }, h("span", { class: "name", dir: "auto", title: name }, name),
      h("span", { class: "count" }), ...(keys.length ? [key(keys[0])] : []),
      h("span", { class: "mark" }, "was your answer"));
    button.onmousedown = keepFocus;
    button.onclick = (event) => {
      if (event.detail < 2 || event.timeStamp - this.seen > DOUBLE_CLICK) this.act(action, label, event.timeStamp);
    };
    button.dataset.answer = action === "skip" ? 0 : label;
    return button;
  }

  // What the server says

  receive(payload, send) {
    const arrived = payload.boot !== this.payload?.boot;
    const acked = new Set(payload.acked);
    this.pending = this.pending.filter((event) => !acked.has(event.id));
    store("sessionStorage", this.storageKey, this.pending);
    this.branches = { ...(this.pending.length ? this.branches : {}), ...payload.branches };
    this.setClasses(payload.classes);
    this.payload = payload;
    this.send = send;
    this.error = payload.error;
    this.update();
    if (!this.pending.length) clearTimeout(this.retrying);
    else if (arrived) this.post();
  }

  setClasses(classes) {
    if (JSON.stringify(classes) === JSON.stringify(this.payload?.classes)) return;
    this.shortcuts = { " ": ["skip"], z: ["undo"], backspace: ["undo"], h: ["highlight"] };
    for (const { label, keys } of classes) for (const key of keys) this.shortcuts[key.toLowerCase()] = ["label", label];
    this.root.classList.toggle("two", classes.some(({ label }) => label < 0));
    this.root.classList.toggle("many", classes.length > FEW);
    const rows = Math.ceil(classes.length / (classes.length > 9 ? 6 : 5));
    const longest = Math.max(...classes.map(({ name }) => name.length));
    this.classes.style.setProperty("--columns", Math.ceil(classes.length / rows));
    this.classes.style.setProperty("--name", `${Math.min(longest, LINE)}ch`);
    this.classes.replaceChildren(...classes.map(({ label, name, keys }) =>
      this.button("label", label, name, keys.map((key) => key.toUpperCase()), `button-${label}`)));
  }

  post() {
    if (!this.leaving()) this.send(this.pending);
    clearTimeout(this.retrying);
    this.retrying = setTimeout(() => this.post(), this.retryDelay);
    this.retryDelay = Math.min(2 * this.retryDelay, SLOWEST_RETRY);
  }

  // What the annotator does

  act(action, label, time) {
    if (this.blocker || !(time >= this.seen)) return; // seen is when the item was painted: no blind answers
    const question = action === "undo" ? this.previous() : this.place.question?.id;
    if (question == null) return;
    this.flash(action, label);
    this.pending.push({ id: randomId(), question, action, label, seconds: Math.round((time - this.seen) / 100) / 10 });
    store("sessionStorage", this.storageKey, this.pending);
    this.error = null;
    this.update();
    this.retryDelay = RETRY;
    this.post();
  }

  previous() {
    const answer = this.pending.findLast(({ action }) => action !== "undo");
    return answer ? answer.question : this.payload.previous;
  }

  onKey(event) {
    const target = event.composedPath()[0];
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.closest?.(TYPING) || target.isContentEditable || document.querySelector(DIALOG)) return;
    if (event.key === " " && target.closest?.(PRESSED_BY_SPACE)) return; // the browser presses it, once
    if (this.scroll(event.key, target)) return event.preventDefault();
    const shortcut = this.shortcuts[letter(event)];
    if (!shortcut) return;
    event.preventDefault();
    if (event.repeat) return;
    const [action, label = null] = shortcut;
    if (action === "highlight") this.toggleHighlight();
    else this.act(action, label, event.timeStamp);
  }

  scroll(key, target) {
    const lines = { ArrowDown: 3, ArrowUp: -3, PageDown: 12, PageUp: -12 }[key];
    const before = this.text.scrollTop;
    if (lines && (target === document.body || this.root.contains(target))) this.text.scrollBy(0, lines * 28);
    return this.text.scrollTop !== before;
  }

  toggleHighlight() {
    this.highlight = !this.highlight;
    store("localStorage", "oal-highlight", this.highlight);
    this.update();
  }

  flash(action, label) {
    const answer = { skip: 0, label }[action];
    const button = action === "undo" ? this.undo : this.answers().find(({ dataset }) => dataset.answer === `${answer}`);
    button.animate([{ boxShadow: "0 0 0 3px var(--focus)" }, { boxShadow: "0 0 0 3px transparent" }], 300);
  }

  // What is on the screen

  update() {
    const { place, blocker } = carry(this.payload.place, this.pending, this.branches);
    this.blocker = blocker;
    // An event about another question than the server's: the payload is no news for what is painted.
    const foreign = blocker && blocker.action !== "undo" && blocker.question !== place.question?.id;
    if (!foreign || !this.place) this.show(place);
    this.root.dataset.unsaved = this.pending.length;
    this.root.classList.toggle("waiting", Boolean(blocker));
    this.root.classList.toggle("highlight", this.highlight);
    this.switch.setAttribute("aria-checked", this.highlight);
    for (const button of this.answers()) disable(button, blocker || !this.place.question);
    disable(this.undo, blocker || this.previous() == null);
    this.report();
  }

  show(place) {
    const { question, end } = place;
    const painting = question?.id ?? end ?? "nothing";
    this.place = place;
    if (painting !== this.painting) {
      this.painting = painting;
      this.seen = Infinity;
      this.text.replaceChildren(...(question ? content(question) : ending(place)));
      this.text.scrollTop = 0;
      afterPaint(() => {
        if (painting !== this.painting || this.seen < Infinity) return;
        this.seen = performance.now();
        this.root.dataset.question = question?.id ?? "";
      });
    }
    put(this.why, question?.why ?? "");
    this.why.title = question?.why ?? "";
    put(this.title, question ? (question.title ?? `#${question.number}`) : "");
    for (const button of this.answers()) button.classList.toggle("old", button.dataset.answer === `${question?.old}`);
    this.count(place.counters);
  }

  count({ labels, budget, answers, skipped, streamed, stream, pushed }) {
    put(this.used, `${number(labels)} of ${number(budget)} labels used, ${number(budget - labels)} left`);
    this.bar.style.transform = `scaleX(${budget ? labels / budget : 1})`;
    const { classes } = this.payload;
    const few = classes.length <= FEW ? classes.map(({ label, name }) => [answers[label], name]) : [];
    const tally = [...few, [skipped, "skipped"], [streamed, stream ? `of ${number(stream)} streamed` : "streamed"],
      ...(pushed === null ? [] : [[pushed, "pushed"]])];
    for (const button of this.classes.children) {
      put(button.querySelector(".count"), few.length ? "" : number(answers[button.dataset.answer]));
    }
    this.tally.replaceChildren(...tally.map(([value, name]) =>
      h("div", {}, h("dt", { dir: "auto", title: name }, name), h("dd", {}, number(value)))));
  }

  report() {
    const unsaved = this.pending.length;
    const waiting = this.blocker?.action === "undo" ? "Taking back…" : "waiting for the server…";
    const news = [unsaved && `unsaved ${unsaved}`, this.blocker && waiting].filter(Boolean).join(" · ");
    this.root.classList.toggle("error", Boolean(this.error));
    clearTimeout(this.saying);
    if (this.error || !news) put(this.status, this.error || "Saved");
    else this.saying = setTimeout(() => put(this.status, news), CALM);
  }

  answers() {
    return [...this.classes.children, this.skip];
  }
}

// The place after the events the server has not acknowledged, and the first of them whose outcome is not known yet.
function carry(place, events, branches) {
  for (const event of events) {
    const outcomes = event.question === place.question?.id ? branches[event.question] : undefined;
    const next = { label: outcomes?.[event.label], skip: outcomes?.[0] }[event.action];
    if (!next) return { place, blocker: event };
    place = next;
  }
  return { place, blocker: null };
}

function ending({ end, counters, result }) {
  const ends = { budget: `The budget of ${number(counters.budget)} labels is spent`, stream: "The stream has ended" };
  return [h("p", { class: "end" }, ends[end] ?? "There is nothing to label now"), h("p", {}, result ?? "Every answer is saved.")];
}

// Browser

function afterPaint(callback) {
  requestAnimationFrame(() => setTimeout(callback));
}

function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// A browser that forbids storage still labels; only a reload would forget what is unsaved.

function stored(storage, name) {
  try {
    return JSON.parse(window[storage].getItem(name));
  } catch {
    return null;
  }
}

function store(storage, name, value) {
  try {
    window[storage].setItem(name, JSON.stringify(value));
  } catch {}
}

// The labeling card. It shows the server's last payload, carried forward through the events that the server has not
// acknowledged: an answer is painted at once, an older payload does not undo it, and a reload loses nothing.

const DOUBLE_CLICK = 500; // ms after a paint in which the second click of a double click is ignored
const GLANCE = 400; // ms to see an item before several questions are confirmed, or after another tab brought it
const CALM = 250; // ms before the status says "unsaved", so that it does not flicker at every label
const GONE = 4000; // ms after which the server counts as gone, not slow
const LINE = 13; // characters of a class's name in one line of a button, if there are many classes
const SIZES = [0.8, 0.9, 1, 1.2, 1.45]; // of the text, as factors
const FIRST_PAINT = 6000; // characters of a long text that are painted at first, more than fit in the box
const BEGINNING = 120; // characters of an item quoted with the model's prediction
const LONGEST_NOTE = 2000; // characters
const REMOVED = "removed"; // the end of a session that is gone or not open to the user
const FINAL = ["budget", "stream", "quota"]; // ends after which this person is not asked
const STAYING = ["note", "tag", "preferences"]; // events after which the item stays on the screen
const PASSIVE = { passive: true }; // the browser need not wait for the listener before it scrolls
const MOVING = /^(Tab|Arrow|Home|End|Page)/; // keys that move the focus
const SWIPE = 80; // pixels that a finger moves to the side to answer, at least twice as far as up or down
const MOST_EVENTS = 100; // in a request
const PATIENCE = 20000; // ms that the server may take to answer
const SAID = { 1: "yes", 0: "cannot tell", "-1": "no" }; // the label of one of several questions, in words
const COLUMN = 6; // several questions in one column; more than these have two columns
const TURN = /^([^\s:][^:\n]{0,59}): /gm; // the beginning of a turn of a conversation
const ROLE = /^(user|assistant|system|developer|tool\b.*)$/;
const LONG_TURN = 600; // characters; of a longer turn the first ones are shown until it is unfolded
const SHOWN_OF_TURN = 240;
const ELSEWHERE = "You answered the last item in another tab; this is the next one.";
const TOO_SOON = "Not stored: the item had just changed.";
const AHEAD = 3; // skipped items known ahead; with fewer, the card asks the server for more

class Card {
  constructor(parent, data) {
    this.session = data.session;
    this.parent = parent;
    this.outbox = new Outbox(`card ${data.session}`, data, (_, again) => this.ask(again));
    this.own = stored("oal-preferences") ?? {}; // preferences of an annotator without a name
    this.pass = null; // the Pass over the skipped items, if there is one
    this.review = null; // ask for the skipped items after this question number
    this.marks = false; // whether to ask for the terms that weigh most
    this.saying = []; // timers of the status
    this.labels = []; // of several questions, one for each line; null: no answer yet
    this.answered = new Map(); // by question: answers whose prediction the server has not sent yet
    this.listening = new AbortController();
    this.build();
  }

  // Add the card to the page, when the server's first payload has come.
  begin() {
    this.parent.append(this.root);
    const { signal } = this.listening;
    document.addEventListener("pointerdown", () => (this.pointed = true), { signal, capture: true });
    document.addEventListener("keydown", (event) => this.takeSpace(event), { signal, capture: true });
    document.addEventListener("keydown", (event) => this.onKey(event), { signal });
    const leave = (event) => {
      this.closeNote();
      if (this.pending.length) event.preventDefault();
    };
    window.addEventListener("beforeunload", leave, { signal });
    const isStored = ({ key, newValue }) => newValue === null && key?.startsWith(this.outbox.prefix);
    window.addEventListener("storage", (event) => isStored(event) && this.ask(), { signal }); // by another tab
  }

  get pending() {
    return this.outbox.events;
  }

  remove() {
    this.closeNote();
    this.listening.abort();
    this.outbox.close();
    for (const timer of [...this.saying, this.confirming]) clearTimeout(timer);
    this.root.remove();
  }

  build() {
    const html = `<section part="card" class="oal card" aria-label="Labeling card">
      <div part="tools" class="tools wrap small muted" role="group" aria-label="Tools">
        <p part="why" class="why clamp grow"></p><p part="title" class="title cut tiny" dir="auto"></p>
      </div>
      <div part="sheet" class="sheet column">
        <div part="text" class="text scroll box plain" dir="auto" tabindex="0" role="region" aria-label="Item to label"
          aria-live="polite"></div>
        <button part="written" type="button" class="written cut plain" title="Change the note"></button>
        <div part="memo" class="memo box" hidden>
          <textarea part="field" data-testid="oal-note-field" rows="2" maxlength="${LONGEST_NOTE}" dir="auto"
            aria-label="Note on this item" placeholder="A note on this item"></textarea>
          <button part="save" type="button" title="Esc or Ctrl+Enter">Save note</button>
        </div>
      </div>
      <div part="tags" class="tags wrap" role="group" aria-label="Tags"></div>
      <aside part="panel" class="panel column" hidden aria-label="Guidelines">
        <header class="row"><h2>Guidelines</h2>
          <button part="close" type="button" class="bare" aria-label="Close the guidelines">×</button></header>
        <div part="rules" class="rules scroll plain" dir="auto" tabindex="0" role="region" aria-label="Guidelines"></div>
      </aside>
      <div part="buttons" class="buttons">
        <div part="several" class="several" role="group" aria-label="Questions" hidden>
          <div part="lines" class="lines scroll"></div><p part="heard" class="unseen" role="status"></p>
        </div>
        <div part="classes" class="classes"></div>
        <div part="finder" class="finder row muted">
          <input part="find" type="text" placeholder="Find a class" aria-label="Find a class" dir="auto" autocomplete="off">
          <kbd aria-hidden="true"></kbd><span part="fit" class="cut" role="status" dir="auto"></span>
        </div>
      </div>
      <div class="after row small muted">
        <p part="said" class="said grow"></p><button part="offer" type="button" class="link bare"></button>
      </div>
      <div class="below">
        <div part="counters" class="counters">
          <p part="used" class="used strong"></p><div class="bar" aria-hidden="true"><i part="bar"></i></div><dl part="tally" class="tally"></dl>
        </div>
        <p part="status" class="status muted" role="status" aria-live="polite"></p>
      </div>
    </section>`;
    Object.assign(this, parts(html));
    const prefer = () => this.prefer({ highlight: !this.preferences.highlight });
    const highlighted = "Mark the terms that weigh most in the model's score, for or against";
    this.switch = this.tool("highlight", "Highlight", highlighted, prefer);
    this.switch.classList.add("switch");
    this.switch.setAttribute("role", "switch");
    this.noting = this.tool("note", "Note", "Write a note on this item", () => this.openNote());
    this.guide = this.tool("guidelines", "Guidelines", "What the owner of the session asks for", () => this.unfold());
    this.guide.setAttribute("aria-expanded", false);
    this.smaller = this.tool("smaller", "A−", "Smaller text", () => this.resize(-1));
    this.larger = this.tool("larger", "A+", "Larger text", () => this.resize(1));
    this.remap = this.tool("keys", "Keys", "Choose other keys", () => this.keys.open());
    const others = h("span.row", { hidden: true }, this.noting, this.switch, this.smaller, this.larger, this.remap);
    const unfold = () => {
      others.hidden = !others.hidden;
      more.setAttribute("aria-expanded", !others.hidden);
    };
    const more = quietButton("button.tool.bare", { "aria-expanded": false, ...testid("more") }, unfold, "Tools");
    this.tools.prepend(this.guide, more, others);
    this.skip = this.button("skip", null, "Skip", "skip");
    this.undo = this.button("undo", null, "Undo", "undo");
    this.buttons.append(this.skip, this.undo);
    this.linkKey = h("span.link-key", key(""));
    this.noKey = h("span", key(""));
    this.keys = new Keys((keys) => this.prefer({ keys }));
    this.root.append(this.keys.dialog);
    this.written.onclick = () => this.openNote();
    this.save.onclick = () => this.closeNote();
    this.find.oninput = () => this.search();
    this.close.onclick = () => this.unfold();
    this.offer.onclick = () => this.revisit();
    this.close.onmousedown = this.offer.onmousedown = keepFocus;
    this.watchSwipes();
    for (const kind of ["keydown", "keypress", "keyup"]) {
      this.memo.addEventListener(kind, (event) => this.onNoteKey(event));
      this.finder.addEventListener(kind, (event) => this.onFindKey(event));
    }
    this.root.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.repeat) event.preventDefault(); // holding Enter down would click many times
    });
  }

  // With two classes, a swipe over the item to the right answers with the first class, to the left with the other.
  watchSwipes() {
    let start = null;
    const move = (finger) => {
      const along = start && this.classes.children.length === 2 ? finger.clientX - start.clientX : 0;
      return Math.abs(along) > 2 * Math.abs(finger.clientY - start?.clientY) ? along : 0;
    };
    const end = () => {
      start = null;
      this.sheet.style.translate = "";
    };
    const on = (kind, run) => this.text.addEventListener(kind, run, PASSIVE);
    on("touchstart", ({ touches }) => (start = touches.length === 1 ? touches[0] : null));
    on("touchmove", ({ touches }) => (this.sheet.style.translate = `${move(touches[0])}px`));
    on("touchcancel", end);
    on("touchend", ({ changedTouches }) => {
      const along = move(changedTouches[0]);
      end();
      if (Math.abs(along) >= SWIPE) this.classes.children[along > 0 ? 0 : 1].click();
    });
  }

  tool(id, name, title, run) {
    const label = /\w\w/.test(name) ? {} : { "aria-label": title };
    return quietButton("button.tool.row.bare", { title, ...label, ...testid(id) }, run, h("span", name), key(""));
  }

  button(action, label, name, id, answer = (time) => this.act(action, label, time)) {
    const run = (event) => {
      if (event.detail < 2 || event.timeStamp - this.seen > DOUBLE_CLICK) answer(event.timeStamp);
    };
    const attributes = { "data-answer": action === "skip" ? 0 : label, ...testid(id) };
    const word = h("span.name.clamp", { dir: "auto", title: name }, name);
    const rest = [h("span.count"), key(""), h("span.mark", "was your answer")];
    return quietButton(`button.row.${action}`, attributes, run, word, ...rest);
  }

  // The line of one of several questions: a button for yes (pressed again, it takes the yes back), one for "cannot
  // tell", and one for no, which is needed if a line without an answer is not a no already.
  line({ name, guidelines, parent }, place) {
    const id = testid(`line-${place + 1}`);
    const say = (label) => (event) => this.say(place, label, event.timeStamp);
    const word = h("span.name.clamp.grow", { dir: "auto", title: guidelines || name }, name);
    const own = quietButton("button.line.switch.row", id, say(1), key(""), word, h("span.told.small"));
    const words = { title: "Cannot tell (Shift and the key)", "aria-label": `Cannot tell: ${name}` };
    const unsure = quietButton("button.unsure", { ...words, ...testid(`unsure-${place + 1}`) }, say(0), "?");
    const denied = { "aria-label": `No: ${name}`, ...testid(`no-${place + 1}`) };
    const no = quietButton("button.no.row", denied, say(-1), "No");
    return h(`div.row${parent ? ".child" : ""}`, own, no, unsure);
  }

  tagButton(name, id) {
    const run = (event) => this.tag(name, event.timeStamp);
    const word = h("span.cut", { dir: "auto", title: name }, name);
    return quietButton("button.tag.row.small.muted", { "data-tag": name, ...testid(id) }, run, word, key(""));
  }

  // Data from the server

  // Streamlit redraws the card if something other than its own answers may have changed its place.
  receive(data, setState) {
    Object.assign(this, { data, setState, isIdle: data.idle });
    this.outbox.post();
  }

  // Send the events that are not acknowledged, and show what the server answers. There is one request at a time, so that
  // an older answer never follows a newer one. again: whether this is a retry of the outbox.
  async ask(again) {
    if (this.asking && again) return;
    this.unasked = true;
    if (this.asking) return;
    this.asking = true;
    try {
      while (this.unasked) {
        this.unasked = false;
        await this.exchange();
      }
    } finally {
      this.asking = false;
    }
  }

  async exchange() {
    const { pending, review, marks } = this;
    const { url, annotator } = this.data;
    const seen = window.oalPulse?.question ?? null;
    const body = JSON.stringify({ annotator, events: pending.slice(0, MOST_EVENTS), review, marks, seen });
    const headers = { "Content-Type": "application/json" };
    const signal = AbortSignal.timeout(PATIENCE);
    const answer = await fetch(url, { method: "POST", headers, body, signal })
      .then((response) => response.json())
      .catch(() => null);
    if (!answer) return; // the server cannot be reached: the outbox retries
    const { acked = [] } = answer;
    this.outbox.drop(acked);
    if (acked.length && this.pending.length) this.unasked = true;
    if (this.listening.signal.aborted) return;
    if (pending.length || answer.error) this.error = answer.error;
    if (answer.place && seen !== null) window.oalPulse?.hear(answer.news);
    if (answer.place) this.hear(answer, pending.length > 0);
    else if (this.payload) this.stop(answer.removed);
  }

  // Show why the server sent no place. After a removal it never will: end the card.
  stop(removed) {
    if (!removed) return this.report();
    const { place } = this.payload;
    const over = { ...place, question: null, end: REMOVED, result: removed };
    this.hear({ ...this.payload, place: over, branches: {}, previous: null, verdict: null, review: null });
  }

  // sent: whether the card had sent events. If it had not, another tab has answered.
  hear(payload, sent = true) {
    const old = this.pass ? undefined : this.place?.question?.id;
    this.branches = { ...(this.pending.length ? this.branches : {}), ...payload.branches };
    this.setActions(payload);
    const isFirst = !this.payload;
    this.payload = payload;
    if (payload.place.end === REMOVED) this.pass = null;
    const taken = this.pending.filter(({ action, label }) => action === "correct" && !label);
    if (this.pass && payload.review) this.pass.know(payload.review, new Set(taken.map(({ question }) => question)));
    if (payload.verdict) this.judge(payload.verdict);
    for (const { question } of Object.values(payload.branches).flatMap(Object.values)) {
      if (question?.picture) Object.assign(new Image(), { referrerPolicy: "no-referrer", src: question.picture });
    }
    this.wantMarks();
    if (isFirst) this.begin();
    this.update();
    if (!sent && old !== undefined && old === payload.previous && old !== this.place.question?.id) {
      this.moved = true;
      put(this.said, ELSEWHERE);
    }
    const { question, end } = payload.place;
    if (this.pending.length || end === REMOVED || !question === this.isIdle) return;
    this.setState("idle", (this.isIdle = !question)); // Streamlit then redraws the part below the card
  }

  setActions({ classes, questions = [], answer_each: each = false, tags = [] }) {
    const offered = JSON.stringify([classes, questions, each, tags]);
    if (offered === this.offered) return;
    this.offered = offered;
    const two = classes.some(({ label }) => label < 0);
    const longest = Math.max(...classes.map(({ name }) => name.length));
    this.root.classList.toggle("many", classes.length > FEW);
    const rows = Math.ceil(classes.length / (classes.length > 9 ? 6 : 5));
    this.classes.style.setProperty("--columns", Math.ceil(classes.length / rows));
    this.classes.style.setProperty("--name", `${Math.min(longest, LINE)}ch`);
    const confirm = (time) => this.confirm(time);
    const buttons = questions.length
      ? [this.button("confirm", null, "Confirm", "confirm", confirm)]
      : classes.map(({ label, name }) => this.button("label", label, name, `button-${label}`));
    const lines = questions.map((question, place) => this.line(question, place));
    this.parents = questions.map(({ parent }) => questions.findIndex(({ name }) => name === parent));
    this.blank = each ? null : -1; // the label of a line without an answer
    this.heard.classList.toggle("unseen", !each);
    this.lines.classList.toggle("each", each);
    this.several.hidden = !lines.length;
    this.root.classList.toggle("of-several", Boolean(lines.length));
    this.lines.classList.toggle("double", lines.length > COLUMN);
    this.lines.replaceChildren(...lines);
    this.drawLines();
    const tagButtons = tags.map(({ name }, place) => this.tagButton(name, `tag-${place + 1}`));
    this.classes.replaceChildren(...buttons);
    buttons[0].classList.toggle("filled", two);
    this.finder.hidden = classes.every(({ keys }) => keys.length);
    this.tags.hidden = !tags.length;
    this.tags.replaceChildren(...tagButtons);
    const action = (id, name, keys, button, run) => ({ id, name, keys, button, run });
    const several = questions.map(({ name, keys }, place) => {
      const say = (time, shift) => this.say(place, shift ? 0 : 1, time);
      return action(`line ${place + 1}`, name, keys, lines[place].firstChild, say);
    });
    if (each) {
      const deny = (time) => this.missing.length && this.say(this.missing[0], -1, time);
      several.push(action("no", "No to the next line", ["0"], this.noKey, deny));
    }
    const answers = classes.map(({ label, name, keys }, place) => {
      const id = two ? { 1: "positive", "-1": "negative" }[label] : `class ${label}`;
      return action(id, name, keys, buttons[place], (time) => this.act("label", label, time));
    });
    const tagging = tags.map(({ name, keys }, place) =>
      action(`tag ${place + 1}`, `Tag: ${name}`, keys, tagButtons[place], (time) => this.tag(name, time)),
    );
    const tool = (id, name, keys, button) => action(id, name, keys, button, () => button.hidden || button.click());
    this.actions = [
      ...(several.length ? [...several, action("confirm", "Confirm", ["enter"], buttons[0], confirm)] : answers),
      ...(this.finder.hidden ? [] : [action("find", "Find a class", ["/"], this.finder, () => this.find.focus())]),
      action("skip", "Skip", [" "], this.skip, (time) => this.act("skip", null, time)),
      action("undo", "Undo", ["z", "backspace"], this.undo, (time) => this.act("undo", null, time)),
      ...tagging,
      tool("note", "Note", ["n"], this.noting),
      tool("guidelines", "Guidelines", ["g"], this.guide),
      tool("highlight", "Highlight", ["h"], this.switch),
      tool("smaller", "Smaller text", ["-"], this.smaller),
      tool("larger", "Larger text", ["+"], this.larger),
      action("link", "Open the link", ["o"], this.linkKey, () => this.text.querySelector("a.fact")?.click()),
    ];
    this.chosen = null;
  }

  // Ask for the skipped items after a number, or for marks.
  want(changes) {
    Object.assign(this, changes);
    this.outbox.post();
  }

  // Actions of the annotator

  // The answer to several questions is a label for each. A line without a label is a no, or, if each needs an answer,
  // blocks Confirm. A question may need a yes to another one, its parent: answering it says yes to the parent, too, and
  // as long as the parent has no yes, it has the parent's label.

  say(place, label, time) {
    if (!this.asks(place) || !this.takes(time)) return;
    const above = this.above(place);
    const implied = above >= 0 && this.labels[above] < 1;
    const now = this.labels[place] === label && !implied ? this.blank : label;
    if (implied) this.under(above, 1);
    this.under(place, now);
    this.drawLines();
    put(this.heard, `${this.payload.questions[place].name}: ${SAID[now] ?? "no answer yet"}`);
  }

  // The indices of the lines that still need an answer.
  get missing() {
    const needs = (label, place) => label === null && this.labels[this.above(place)] !== null;
    return [...this.labels.keys()].filter((place) => needs(this.labels[place], place));
  }

  // Set the label of a question. Its children then get the same label, or after a yes the label of a blank line.
  under(place, label) {
    this.labels[place] = label;
    for (const [child, parent] of this.parents.entries()) {
      if (parent === place && this.asks(child)) this.labels[child] = label > 0 ? this.blank : label;
    }
  }

  // Soon after the paint, Enter is kept for a moment, so that no item is confirmed that could not be read.
  confirm(time) {
    const label = summary(this.labels);
    const early = this.seen + GLANCE - time;
    clearTimeout(this.confirming);
    if (!this.takes(time)) return;
    if (early > 0) this.confirming = setTimeout(() => this.confirm(performance.now()), early);
    else if (this.missing.length) this.call();
    else if (label) this.act("label", label, time, { labels: [...this.labels] });
    else this.act("skip", null, time);
  }

  // Name the lines that block Confirm.
  call() {
    const { missing } = this;
    const names = missing.map((place) => this.payload.questions[place].name);
    put(this.heard, `No answer yet: ${names.join(", ")}`);
    this.called = true;
    this.drawLines();
    this.lines.children[missing[0]].scrollIntoView({ block: "nearest" });
  }

  // Whether a question was asked about this item: it may be closed or answered already, or have been added later.
  asks(place) {
    return this.place?.question?.asks?.includes(place);
  }

  // The index of the parent (the question that needs a yes first) if the item is asked about it; else -1.
  above(place) {
    return this.asks(this.parents[place]) ? this.parents[place] : -1;
  }

  drawLines() {
    const { missing } = this;
    this.noKey.remove();
    for (const [place, row] of [...this.lines.children].entries()) {
      const [line, no, unsure] = row.children;
      row.hidden = !this.asks(place);
      const label = this.labels[place];
      line.setAttribute("aria-pressed", label === 0 ? "mixed" : label > 0);
      put(line.querySelector(".told"), label < 0 && this.blank ? "" : (SAID[label] ?? ""));
      no.hidden = this.blank !== null || this.labels[this.above(place)] < 1;
      no.setAttribute("aria-pressed", label < 0);
      if (place === missing[0]) no.append(this.noKey);
      unsure.setAttribute("aria-pressed", label === 0);
      row.classList.toggle("missing", this.called && missing.includes(place));
    }
  }

  // Whether an action at this time is about the item on the screen. seen is when it was painted: no blind answers.
  takes(time) {
    if (this.blocker) return false;
    const early = !(time >= this.seen + (this.moved ? GLANCE : 0));
    this.moved &&= early;
    if (this.moved) {
      this.error = TOO_SOON;
      this.report();
    }
    return !early;
  }

  act(action, label, time, more = {}) {
    if (!this.takes(time)) return;
    const seconds = Math.round((time - this.seen) / 100) / 10;
    const question = action === "undo" ? this.previous() : this.place.question?.id;
    if (question == null) return;
    this.closeNote();
    this.flash(action, label);
    this.remember(action, label);
    const { highlight: highlighted = false } = this.preferences;
    const answer = { item: this.place.question?.item, label, ...more, seconds, highlighted };
    if (this.pass) this.answerSkipped(action, answer);
    else if (action === "undo") this.push({ question, action, label, seconds });
    else this.push({ question, action, ...answer });
  }

  push(event) {
    if (!this.pending.length) this.error = null; // otherwise it explains the earlier unsaved events
    this.outbox.push({ id: randomId(), annotator: this.data.annotator, ...event });
    this.update();
    this.outbox.post();
  }

  previous() {
    if (this.pass) return this.pass.trail.at(-1)?.question.id;
    const answer = this.pending.findLast(({ action }) => action === "label" || action === "skip");
    return answer ? answer.question : this.payload.previous;
  }

  // Keep the item's first words and the answer until the server sends the model's prediction, which is nowhere on the
  // page before the answer. Forget them after a skip or an undo, when the item comes again.
  remember(action, label) {
    const { question } = this.place;
    if (action !== "label") {
      this.answered.clear();
      return this.said.replaceChildren();
    }
    const texts = [...(question.heading ?? []), ["\n"], ...question.parts].map(([text]) => text);
    const words = whole(texts.join("").trim().slice(0, BEGINNING));
    this.answered.set(question.id, { label, words: words || question.title?.trim() || `#${question.number}` });
  }

  judge({ question, label, margin, asked, agreed, of }) {
    const answer = this.answered.get(question);
    if (!answer) return;
    this.answered.delete(question);
    const name = this.payload.classes.find((known) => known.label === label)?.name;
    const same = answer.label === label ? "you agreed" : "you disagreed";
    const said = of ? `agreed on ${agreed} of ${of}` : `said “${name}” (${margin}); ${same}`;
    const verdict = `The model ${said}. ${asked}`;
    this.said.replaceChildren(h("q.cut", { dir: "auto" }, answer.words), h("span.clamp", { title: verdict }, verdict));
  }

  // A click leaves the focus on a control outside the card, which Space or Enter would press again. After a click, the
  // keys are meant for the card; after the focus was moved to the control with the keyboard, for the control.
  takeSpace(event) {
    if (MOVING.test(event.key)) this.pointed = false;
    const presses = event.key === " " || event.key === "Enter";
    const action = presses && this.pointed && this.hears(event) && this.shortcuts.get(letter(event));
    const control = event.composedPath()[0];
    if (!action || !control.closest?.(PRESSED_BY_SPACE)) return;
    event.preventDefault();
    event.stopPropagation(); // before the control hears it
    control.blur(); // some browsers press it when the key is released
    if (!event.repeat) action.run(event.timeStamp);
  }

  hears(event) {
    return isOurs(event) && !this.keys.dialog.open;
  }

  onKey(event) {
    const target = event.composedPath()[0];
    if (!this.hears(event)) return;
    const pressed = { " ": PRESSED_BY_SPACE, Enter: `${PRESSED_BY_SPACE}, a` }[event.key];
    if (pressed && target.closest?.(pressed)) return; // the browser presses it, once
    if (this.scroll(event.key, target)) return event.preventDefault();
    if (event.key === "Escape") return this.escape();
    // Several questions are answered with the digit keys, whatever character these type with or without Shift.
    const digit = this.lines.childElementCount && /^Digit(\d)$/.exec(event.code)?.[1];
    const action = this.shortcuts.get(digit || letter(event));
    if (!action) return;
    event.preventDefault();
    if (!event.repeat) action.run(event.timeStamp, event.shiftKey);
  }

  // With more classes than keys, a class is found by letters of its name, and Enter answers with it.

  search(words = this.find.value) {
    this.find.value = words;
    const wanted = words.trim().toLowerCase();
    const fits = (button) => button.querySelector(".name").textContent.toLowerCase().includes(wanted);
    const [first] = (this.matches = wanted ? [...this.classes.children].filter(fits) : []);
    for (const button of this.classes.children) {
      button.classList.toggle("unfit", Boolean(wanted) && !this.matches.includes(button));
      button.classList.toggle("first", button === first);
    }
    first?.scrollIntoView({ block: "nearest" });
    put(this.fit, first ? `Enter: ${first.querySelector(".name").textContent}` : wanted && "No class fits.");
  }

  onFindKey(event) {
    event.stopPropagation(); // as in onNoteKey
    if (event.type !== "keydown" || event.isComposing || event.repeat) return;
    if (event.key === "Enter") this.matches?.[0]?.click();
    if (event.key === "Escape") this.leaveFinder();
  }

  leaveFinder() {
    this.find.blur(); // before it may be hidden, as in closeNote
    this.search("");
  }

  escape() {
    if (!this.panel.hidden) this.unfold();
    else if (this.pass) this.revisit();
  }

  scroll(key, target) {
    const lines = { ArrowDown: 3, ArrowUp: -3, PageDown: 12, PageUp: -12 }[key];
    const before = this.text.scrollTop;
    const ours = target === document.body || (this.root.contains(target) && !this.panel.contains(target));
    if (lines && ours) this.text.scrollBy(0, lines * 28);
    return this.text.scrollTop !== before;
  }

  flash(action, label) {
    const answer = { skip: 0, label }[action];
    const own = this.answers().find(({ dataset }) => dataset.answer === `${answer}`) ?? this.classes.firstChild;
    const button = action === "undo" ? this.undo : own;
    button.animate([{ boxShadow: "0 0 0 3px var(--focus)" }, { boxShadow: "0 0 0 3px transparent" }], 300);
  }

  // The pass over the skipped items: only an answer is an event, and Undo goes back in the pass.

  revisit() {
    this.closeNote();
    this.pass = this.pass ? null : new Pass();
    this.want({ review: this.pass && 0 });
    this.update();
  }

  answerSkipped(action, answer) {
    const { pass } = this;
    if (action === "undo") {
      const { question, label } = pass.trail.pop();
      pass.after = question.number - 1;
      pass.keep(question, true);
      const back = { item: question.item, label: 0, was: label };
      if (label) this.push({ question: question.id, action: "correct", ...answer, ...back });
    } else {
      const { question } = this.place;
      pass.trail.push({ question, label: answer.label });
      pass.after = question.number;
      if (answer.label) this.push({ question: question.id, action: "correct", ...answer, was: 0 });
    }
    this.update();
    if (this.pass && pass.ahead.length < AHEAD && pass.left > pass.ahead.length) this.want({ review: pass.after });
  }

  // The note and tags of the item, the guidelines, an annotator's preferences

  noteOf(question) {
    const written = this.pending.findLast(({ action, item }) => action === "note" && item === question.item);
    return written ? written.text : (question.note ?? "");
  }

  tagsOf(question) {
    const tags = new Set(question?.tags);
    for (const { action, item, tag, given } of this.pending) {
      if (action === "tag" && item === question?.item) given ? tags.add(tag) : tags.delete(tag);
    }
    return tags;
  }

  tag(name, time) {
    const { question } = this.place;
    if (!question || !this.takes(time)) return;
    const given = !this.tagsOf(question).has(name);
    this.push({ question: question.id, item: question.item, action: "tag", tag: name, given });
  }

  openNote() {
    const { question } = this.place;
    if (!question || !this.memo.hidden) return;
    this.noted = question;
    this.field.value = this.noteOf(question);
    this.memo.hidden = false;
    this.written.hidden = true;
    this.field.focus();
  }

  // Store the text, however the field is left.
  closeNote() {
    if (this.memo.hidden) return;
    this.field.blur(); // before it is hidden: a hidden field would swallow the next key
    this.memo.hidden = true;
    const { id, item } = this.noted;
    const text = whole(this.field.value.slice(0, LONGEST_NOTE)).trim();
    if (text !== this.noteOf(this.noted)) this.push({ question: id, item, action: "note", text });
    else this.update();
  }

  onNoteKey(event) {
    event.stopPropagation(); // Streamlit does not see that this is a text field, and would take the key for a shortcut
    const done = event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey));
    if (event.type !== "keydown" || event.isComposing || !done) return;
    event.preventDefault();
    this.closeNote();
  }

  unfold() {
    this.panel.hidden = !this.panel.hidden;
    this.guide.setAttribute("aria-expanded", !this.panel.hidden);
  }

  resize(step) {
    const { size = SIZES.indexOf(1) } = this.preferences;
    if (SIZES[size + step]) this.prefer({ size: size + step });
  }

  prefer(changes) {
    if (this.payload.preferences) return this.push({ action: "preferences", changes });
    this.own = { ...this.own, ...changes };
    store("oal-preferences", this.own);
    this.wantMarks();
    this.update();
  }

  // Only annotators who switch marks on get them with the items. Without a name, only this browser knows the choice.
  wantMarks() {
    const { highlight = false } = this.own;
    if (!this.payload.preferences && highlight !== this.marks) this.want({ marks: highlight });
  }

  get preferences() {
    const changes = this.pending.filter(({ action }) => action === "preferences").map((event) => event.changes);
    return Object.assign({}, this.payload.preferences ?? this.own, ...changes);
  }

  // What is on the screen

  update() {
    const carried = carry(this.payload.place, this.pending, this.branches);
    if (this.pass) carried.place = recounted(carried.place, this.pending);
    if (this.pass?.over(spare(carried.place))) {
      this.pass = null;
      this.want({ review: null });
    }
    const { place, blocker } = this.pass ? this.pass.carry(carried.place) : carried;
    this.blocker = blocker;
    // An event about another question than the server's: the payload is not about the item on the screen.
    const foreign = blocker && blocker.action !== "undo" && blocker.question !== place.question?.id;
    if (!foreign || !this.place) this.show(place);
    this.root.dataset.unsaved = this.pending.length;
    this.root.classList.toggle("waiting", Boolean(blocker));
    this.root.classList.toggle("revisiting", Boolean(this.pass));
    this.root.classList.toggle("ended", !this.place.question);
    const buttons = [...this.answers(), ...this.lines.querySelectorAll("button")];
    for (const button of buttons) disable(button, blocker || !this.place.question);
    disable(this.undo, blocker || this.previous() == null);
    this.undo.style.visibility = !blocker && this.previous() == null ? "hidden" : ""; // it keeps its place
    this.arrange();
    this.report();
  }

  // Apply the annotator's preferences.
  arrange() {
    const { highlight = false, size = SIZES.indexOf(1), keys = {} } = this.preferences;
    this.root.classList.toggle("highlight", highlight);
    this.switch.setAttribute("aria-checked", highlight);
    this.root.style.setProperty("--scale", SIZES[size] ?? 1);
    disable(this.smaller, size === 0);
    disable(this.larger, size === SIZES.length - 1);
    for (const button of [this.noting, ...this.tags.children]) disable(button, !this.place.question);
    const { guidelines } = this.payload;
    this.guide.hidden = !guidelines;
    if (!guidelines && !this.panel.hidden) this.unfold();
    put(this.rules, guidelines ?? "");
    const chosen = JSON.stringify(keys);
    if (chosen === this.chosen) return;
    this.chosen = chosen;
    this.shortcuts = assigned(this.actions, keys);
    for (const action of this.actions) {
      const own = keysOf(this.shortcuts, action);
      put(action.button.querySelector("kbd"), own[0] ?? "");
      action.button.setAttribute("aria-keyshortcuts", own.join(" "));
    }
    this.keys.know(this.actions, keys, this.shortcuts);
  }

  show(place) {
    const { question, end, result, found, counters } = place;
    const ended = `${end} ${counters.skipped} ${result} ${found}`;
    if (question?.id !== this.place?.question?.id || !this.place) {
      const old = [question?.old].flat();
      this.place = place;
      clearTimeout(this.confirming);
      this.labels = [...this.lines.children].map((_, k) => (!this.asks(k) ? 0 : summary(old) ? old[k] : this.blank));
      this.called = false; // whether lines without an answer were named
      put(this.heard, "");
      this.drawLines();
    }
    const isMarked = question && [...question.parts, ...(question.features ?? [])].some((part) => part.at(-1));
    const painting = question ? `${question.id} ${isMarked}` : ended;
    this.place = place;
    this.root.classList.toggle("over", !question && FINAL.includes(end));
    if (painting !== this.painting) {
      this.painting = painting;
      if (this.root.dataset.question !== `${question?.id ?? ""}`) this.seen = Infinity; // else only its marks have come
      this.closeNote();
      this.leaveFinder();
      const [beginning, rest] = cut(question ? turns(content(question)) : ending(place));
      this.rest = rest;
      this.text.replaceChildren(...beginning);
      this.text.querySelector("a.fact")?.after(this.linkKey);
      this.text.scrollTop = 0;
      const painted = () => {
        if (rest !== this.rest) return;
        this.text.append(...rest);
        this.seen = Math.min(this.seen, performance.now());
        this.root.dataset.question = question?.id ?? "";
      };
      requestAnimationFrame(() => setTimeout(painted));
    }
    const why = this.pass?.why ?? question?.why ?? "";
    put(this.why, why);
    this.why.title = why;
    put(this.title, question ? question.title?.trim() || `#${question.number}` : "");
    const note = question ? this.noteOf(question) : "";
    put(this.written, note);
    this.written.hidden = !note || !this.memo.hidden;
    const tags = this.tagsOf(question);
    for (const button of this.tags.children) button.setAttribute("aria-pressed", tags.has(button.dataset.tag));
    const old = Array.isArray(question?.old) ? summary(question.old) : (question?.old ?? "");
    for (const button of this.answers()) button.classList.toggle("old", button.dataset.answer === `${old}`);
    this.offer.hidden = !this.pass && (!counters.skipped || spare(place) <= 0 || end === REMOVED);
    this.count(counters);
  }

  count({ labels, budget, answers, skipped, streamed, stream, pushed }) {
    put(this.used, `${number(labels)} of ${number(budget)} labels used, ${number(budget - labels)} left`);
    this.bar.style.transform = `scaleX(${budget ? labels / budget : 1})`;
    const offer = `${number(skipped)} skipped: answer ${skipped === 1 ? "it" : "them"} now`;
    put(this.offer, this.pass ? "Back to the stream" : offer);
    this.offer.title = this.pass ? "Esc" : "Each answer costs one label";
    const { classes } = this.payload;
    const few = classes.length <= FEW ? classes.map(({ label, name }) => [answers[label], name]) : [];
    const tally = [
      ...few,
      [skipped, "skipped"],
      ...(streamed === null ? [] : [[streamed, stream ? `of ${number(stream)} streamed` : "streamed"]]),
      ...(pushed === null ? [] : [[pushed, "pushed", this.payload.pushed]]),
    ];
    for (const button of this.classes.children) {
      put(button.querySelector(".count"), few.length ? "" : number(answers[button.dataset.answer]));
    }
    const line = ([value, name, meaning]) => {
      const word = meaning ? h("dt", explained(name, meaning)) : h("dt.cut", { dir: "auto", title: name }, name);
      return h("div", word, h("dd", number(value)));
    };
    this.tally.replaceChildren(...tally.map(line));
  }

  report() {
    const unsaved = this.pending.length;
    const waiting = this.blocker?.action === "undo" ? "Taking back…" : "waiting for the server…";
    const news = [unsaved && `unsaved ${unsaved}`, this.blocker && waiting].filter(Boolean).join(" · ");
    this.root.classList.toggle("error", Boolean(this.error));
    for (const timer of this.saying) clearTimeout(timer);
    if (this.error || !news) return put(this.status, this.error || "Saved");
    const waits = `unsaved ${unsaved} · kept in this browser, and sent when the server is back`;
    const later = (words, ms) => setTimeout(() => put(this.status, words), ms);
    this.saying = [later(news, CALM), later(waits, GONE)];
  }

  answers() {
    return [...this.classes.children, this.skip];
  }
}

// A pass over the skipped items in the order of their questions, beginning after question number `after`.
class Pass {
  after = 0;
  questions = [];
  trail = [];
  review = null; // from the server: how many are left after which number, and the first of them

  // taken: ids of the questions whose answers were undone, by events that the server has not acknowledged.
  know(review, taken) {
    const last = review.questions.length < review.left ? review.questions.at(-1).number : Infinity;
    const own = this.questions.filter(({ number, id }) => number <= review.after || number > last || taken.has(id));
    this.questions = [];
    this.review = { ...review };
    for (const question of review.questions) this.questions.push({ ...question, old: 0 });
    for (const question of own) this.keep(question, question.number > review.after && question.number <= last);
  }

  keep(question, uncounted) {
    if (this.questions.some(({ id }) => id === question.id)) return;
    if (uncounted) this.review.left += 1;
    this.questions = [...this.questions, question].sort((one, other) => one.number - other.number);
  }

  get ahead() {
    return this.questions.filter(({ number }) => number > this.after);
  }

  get left() {
    const { after, left } = this.review;
    const [low, high] = [Math.min(after, this.after), Math.max(after, this.after)];
    const between = this.questions.filter(({ number }) => number > low && number <= high);
    return after > this.after ? left + between.length : left - between.length;
  }

  get why() {
    if (!this.review) return null;
    return `You skipped this earlier (${number(this.left)} left). Answering uses one label; skipping is free.`;
  }

  over(spare) {
    return spare <= 0 || (this.review && this.left <= 0);
  }

  carry(place) {
    const [question] = this.ahead;
    return question ? { place: { ...place, question }, blocker: null } : { place, blocker: { action: "review" } };
  }
}

// Return the place after the unacknowledged events, and the first event whose outcome is not known yet.
function carry(place, events, branches) {
  for (const event of events) {
    if (STAYING.includes(event.action)) continue;
    const outcomes = event.question === place.question?.id ? branches[event.question] : undefined;
    const next = { label: outcomes?.[event.label], skip: outcomes?.[0] }[event.action];
    if (!next) return { place, blocker: event };
    place = next;
  }
  return { place, blocker: null };
}

// Summarize the labels of several questions: 1 if any is a yes, 0 if all are "cannot tell", else -1.
function summary(labels) {
  return labels.includes(1) ? 1 : labels.includes(-1) ? -1 : 0;
}

// Labels left after the current item.
function spare({ counters, question }) {
  return counters.budget - counters.labels - Boolean(question);
}

// Update the counters of a place by the unacknowledged corrections.
function recounted(place, events) {
  const counters = { ...place.counters, answers: { ...place.counters.answers } };
  for (const { action, label, was } of events) {
    if (action !== "correct") continue;
    counters.labels += Boolean(label) - Boolean(was);
    counters.skipped += !label - !was;
    if (label) counters.answers[label] += 1;
    if (was) counters.answers[was] -= 1;
  }
  return { ...place, counters };
}

// Split a long text into the nodes that fill the box, and the rest, which must not delay the first paint.
function cut(nodes) {
  const long = (node) => typeof node === "string" && node.length > FIRST_PAINT;
  const pieces = nodes.flatMap((node) => (long(node) ? node.match(/.{1,2000}\s|.{1,2000}/gsu) : [node]));
  let length = 0;
  const rest = pieces.findIndex((piece) => (length += (piece.textContent ?? piece).length) > FIRST_PAINT);
  return rest < 0 ? [pieces, []] : [pieces.slice(0, rest + 1), pieces.slice(rest + 1)];
}

// The nodes of an item, with one for each turn if its text is a conversation: of a long turn the beginning, and the rest
// folded. A turn begins with a role, or with a name that other turns begin with too.
function turns(nodes) {
  const run = nodes.filter((node) => typeof node === "string" || node.tagName === "SPAN");
  const text = run.map((node) => node.textContent ?? node).join("");
  const found = [...text.matchAll(TURN)];
  const usual = found.filter(([, name]) => ROLE.test(name));
  const names = new Set(found.map(([, name]) => name));
  const starts = (usual.length ? usual : found).map(({ index }) => index);
  if (starts[0] !== 0 || (!usual.length && 2 * names.size > found.length)) return nodes;
  const part = (from, to) => run.flatMap(slicer(from, to));
  const made = starts.map((start, k) => {
    const [words, end] = [text.indexOf(": ", start) + 2, starts[k + 1] ?? text.length];
    const fold = end - words > LONG_TURN ? text.indexOf(" ", words + SHOWN_OF_TURN) : end;
    const role = h("b", ...part(start, words));
    if (fold < 0 || fold >= end) return h("div.turn", role, ...part(words, end));
    return h("details.turn", h("summary", role, ...part(words, fold)), ...part(fold, end));
  });
  return nodes.toSpliced(nodes.indexOf(run[0]), run.length, ...made);
}

// A function that cuts text nodes, given one after the other, to the characters between two places in their text.
function slicer(from, to, at = 0) {
  return (node) => {
    const words = node.textContent ?? node;
    const inside = words.slice(Math.max(0, from - at), Math.max(0, to - at));
    at += words.length;
    if (!inside || typeof node === "string") return inside || [];
    return Object.assign(node.cloneNode(), { textContent: inside });
  };
}

function ending({ end, counters, result, found = [] }) {
  const labels = counters.budget === 1 ? "label" : "labels";
  const ends = {
    budget: `The budget of ${number(counters.budget)} ${labels} is spent`,
    stream: "The stream has ended",
    quota: "Your part is done",
    others: "Other people have the remaining questions",
    joining: "Your first item is being prepared",
    [REMOVED]: "This session is not open to you any more",
  };
  return [
    h("p.end.strong", ends[end] ?? "There is nothing to label now"),
    ...(end === REMOVED ? [h("p.next", allSessions())] : []),
    h("table.found", ...found.map(([name, value]) => h("tr", h("th", { scope: "row" }, name), h("td", value)))),
    h("p", result ?? "Every answer is saved."),
  ];
}

// A link that Streamlit follows like the browser's Back, without a reload, which would forget the annotator's name.
function allSessions() {
  const node = h("a", { href: "./" }, "All sessions");
  node.onclick = (event) => {
    if (event.shiftKey || isModified(event)) return; // the browser opens a new tab or window
    event.preventDefault();
    history.pushState(null, "", node.href);
    dispatchEvent(new PopStateEvent("popstate"));
  };
  return node;
}

export default mounting(Card, ({ session }) => session);

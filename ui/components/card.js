// The labeling card. What it shows is the server's last payload carried forward through the events the server
// has not acknowledged: an answer is painted at once, an older payload throws nobody back, a reload loses nothing.

const DOUBLE_CLICK = 500; // ms after a paint in which a further click of a double click is not meant for the new item
const CALM = 250; // ms before "unsaved" is said, so that the status does not flicker at every label
const GONE = 4000; // ms after which the server is gone, and not just slow
const LINE = 13; // characters of a class's name that a button has room for in a line, where there are many
const LONG = 24; // characters of a class's name from which all buttons are higher, for three lines
const SIZES = [0.8, 0.9, 1, 1.2, 1.45]; // of the text
const FIRST_PAINT = 6000; // characters of a long text, more than the box shows
const BEGINNING = 120; // characters of an item that are shown with what the model said of it
const LONGEST_NOTE = 2000;
const REMOVED = "removed"; // the end of a session that is gone, or closed to who is here
const BESIDE = ["note", "tag", "preferences"]; // events that lead to no other item
const MOVING = /^(Tab|Arrow|Home|End|Page)/; // keys that move the focus
const AHEAD = 3; // skipped items known ahead; with fewer the server is asked for more

class Card {
  constructor(parent, data) {
    this.session = data.session;
    this.outbox = new Outbox(`card ${data.session}`, data, (events) => this.send("events", events));
    this.own = stored("oal-preferences") ?? {}; // of somebody without a name
    this.pass = null; // over the skipped items
    this.marks = false; // as the server was last told
    this.given = new Map(); // by question: the answers of which the server has not told what the model said
    this.build();
    parent.append(this.root);

    this.listening = new AbortController();
    const { signal } = this.listening;
    document.addEventListener("pointerdown", () => (this.pointed = true), { signal, capture: true });
    document.addEventListener("keydown", (event) => this.takeSpace(event), { signal, capture: true });
    document.addEventListener("keydown", (event) => this.onKey(event), { signal });
    window.addEventListener("beforeunload", (event) => this.leave(event), { signal });
  }

  get pending() {
    return this.outbox.events;
  }

  leave(event) {
    this.closeNote();
    if (this.pending.length) event.preventDefault();
  }

  remove() {
    this.setState = () => {}; // what is stored is sent when the card comes back
    this.closeNote();
    this.listening.abort();
    this.outbox.close();
    clearTimeout(this.saying);
    this.root.remove();
  }

  build() {
    const html = `<section part="card" class="oal card" aria-label="Labeling card">
      <div part="tools" class="tools row small muted" role="group" aria-label="Tools"></div>
      <div class="above row small muted">
        <p part="why" class="why cut grow"></p><p part="title" class="title cut tiny" dir="auto"></p>
      </div>
      <div class="sheet column">
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
    this.switch = this.tool(
      "highlight",
      "Highlight",
      "Mark the terms that weigh most in the model's score, for or against",
      prefer,
    );
    this.switch.classList.add("switch");
    this.switch.setAttribute("role", "switch");
    this.noting = this.tool("note", "Note", "Write a note on this item", () => this.openNote());
    this.guide = this.tool("guidelines", "Guidelines", "What the owner of the session asks for", () => this.unfold());
    this.guide.setAttribute("aria-expanded", false);
    this.smaller = this.tool("smaller", "A−", "Smaller text", () => this.resize(-1));
    this.larger = this.tool("larger", "A+", "Larger text", () => this.resize(1));
    this.remap = this.tool("keys", "Keys", "Choose other keys", () => this.keys.open());
    this.tools.append(this.guide, this.noting, this.switch, this.smaller, this.larger, this.remap);
    this.skip = this.button("skip", null, "Skip", "skip");
    this.undo = this.button("undo", null, "Undo", "undo");
    this.buttons.append(this.skip, this.undo);
    this.linkKey = h("span.link-key", key(""));
    this.keys = new Keys((keys) => this.prefer({ keys }));
    this.root.append(this.keys.dialog);
    this.written.onclick = () => this.openNote();
    this.save.onclick = () => this.closeNote();
    this.find.oninput = () => this.search();
    this.close.onclick = () => this.unfold();
    this.offer.onclick = () => this.revisit();
    this.close.onmousedown = this.offer.onmousedown = keepFocus;
    for (const kind of ["keydown", "keypress", "keyup"]) {
      this.memo.addEventListener(kind, (event) => this.onNoteKey(event));
      this.finder.addEventListener(kind, (event) => this.onFindKey(event));
    }
    this.root.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.repeat) event.preventDefault(); // a held Enter clicks a button many times
    });
  }

  tool(id, name, title, run) {
    const button = h("button.tool.row.bare", { type: "button", title, ...testid(id) }, h("span", name), key(""));
    if (!/\w\w/.test(name)) button.setAttribute("aria-label", title);
    button.onmousedown = keepFocus;
    button.onclick = run;
    return button;
  }

  button(action, label, name, id) {
    const button = h(
      "button",
      { type: "button", class: `${action} row`, ...testid(id) },
      h("span.name.clamp", { dir: "auto", title: name }, name),
      h("span.count"),
      key(""),
      h("span.mark", "was your answer"),
    );
    button.onmousedown = keepFocus;
    button.onclick = (event) => {
      if (event.detail < 2 || event.timeStamp - this.seen > DOUBLE_CLICK) this.act(action, label, event.timeStamp);
    };
    button.dataset.answer = action === "skip" ? 0 : label;
    return button;
  }

  tagButton(name, id) {
    const button = h(
      "button.tag.row.small.muted",
      { type: "button", ...testid(id) },
      h("span.cut", { dir: "auto", title: name }, name),
      key(""),
    );
    button.dataset.tag = name;
    button.onmousedown = keepFocus;
    button.onclick = (event) => this.tag(name, event.timeStamp);
    return button;
  }

  // What the server says

  receive(payload, setState) {
    this.outbox.drop(payload.acked);
    this.branches = { ...(this.pending.length ? this.branches : {}), ...payload.branches };
    this.setActions(payload);
    this.payload = payload;
    this.setState = setState;
    this.error = payload.error;
    if (payload.place.end === REMOVED) this.pass = null;
    const taken = this.pending.filter(({ action, label }) => action === "correct" && !label);
    if (this.pass && payload.review) this.pass.know(payload.review, new Set(taken.map(({ question }) => question)));
    if (payload.verdict) this.judge(payload.verdict);
    this.wantMarks();
    this.update();
    this.outbox.hear(payload.boot);
  }

  setActions({ classes, tags = [] }) {
    if (JSON.stringify([classes, tags]) === this.offered) return;
    this.offered = JSON.stringify([classes, tags]);
    const two = classes.some(({ label }) => label < 0);
    const longest = Math.max(...classes.map(({ name }) => name.length));
    this.root.classList.toggle("many", classes.length > FEW);
    this.root.classList.toggle("long", longest > LONG);
    const rows = Math.ceil(classes.length / (classes.length > 9 ? 6 : 5));
    this.classes.style.setProperty("--columns", Math.ceil(classes.length / rows));
    this.classes.style.setProperty("--name", `${Math.min(longest, LINE)}ch`);
    this.classes.replaceChildren(
      ...classes.map(({ label, name }) => this.button("label", label, name, `button-${label}`)),
    );
    this.classes.firstChild.classList.toggle("filled", two);
    const answers = classes.map(({ label, name, keys }, place) => ({
      id: two ? { 1: "positive", "-1": "negative" }[label] : `class ${label}`,
      name,
      keys,
      button: this.classes.children[place],
      run: (time) => this.act("label", label, time),
    }));
    this.finder.hidden = classes.every(({ keys }) => keys.length);
    const find = { id: "find", name: "Find a class", keys: ["/"], button: this.finder, run: () => this.find.focus() };
    const tool = (id, name, keys, button) => ({ id, name, keys, button, run: () => button.hidden || button.click() });
    this.tags.hidden = !tags.length;
    this.tags.replaceChildren(...tags.map(({ name }, place) => this.tagButton(name, `tag-${place + 1}`)));
    const tagging = tags.map(({ name, keys }, place) => ({
      id: `tag ${place + 1}`,
      name: `Tag: ${name}`,
      keys,
      button: this.tags.children[place],
      run: (time) => this.tag(name, time),
    }));
    this.actions = [
      ...answers,
      ...(this.finder.hidden ? [] : [find]),
      { id: "skip", name: "Skip", keys: [" "], button: this.skip, run: (time) => this.act("skip", null, time) },
      {
        id: "undo",
        name: "Undo",
        keys: ["z", "backspace"],
        button: this.undo,
        run: (time) => this.act("undo", null, time),
      },
      ...tagging,
      tool("note", "Note", ["n"], this.noting),
      tool("guidelines", "Guidelines", ["g"], this.guide),
      tool("highlight", "Highlight", ["h"], this.switch),
      tool("smaller", "Smaller text", ["-"], this.smaller),
      tool("larger", "Larger text", ["+"], this.larger),
      { id: "link", name: "Open the link", keys: ["o"], button: this.linkKey, run: () => this.openLink() },
    ];
    this.chosen = null;
  }

  send(name, value) {
    this.setState(name, value);
  }

  // What the annotator does

  act(action, label, time) {
    if (this.blocker || !(time >= this.seen)) return; // seen is when the item was painted: no blind answers
    const seconds = Math.round((time - this.seen) / 100) / 10;
    const question = action === "undo" ? this.previous() : this.place.question?.id;
    if (question == null) return;
    this.closeNote();
    this.flash(action, label);
    this.remember(action, label);
    const { highlight: highlighted = false } = this.preferences;
    const answer = { item: this.place.question?.item, label, seconds, highlighted };
    if (this.pass) this.answerSkipped(action, answer);
    else if (action === "undo") this.push({ question, action, label, seconds });
    else this.push({ question, action, ...answer });
  }

  push(event) {
    if (!this.pending.length) this.error = null; // else it says why the others are not saved
    this.outbox.push({ id: randomId(), annotator: this.payload.annotator, ...event });
    this.update();
    this.outbox.post();
  }

  previous() {
    if (this.pass) return this.pass.trail.at(-1)?.question.id;
    const answer = this.pending.findLast(({ action }) => action === "label" || action === "skip");
    return answer ? answer.question : this.payload.previous;
  }

  // The item's first words and the answer are kept until the server tells what the model said: before the answer it is
  // nowhere in the page, and after a skip, or an answer that was taken back, the item comes again.
  remember(action, label) {
    const { question } = this.place;
    if (action !== "label") {
      this.given.clear();
      return this.said.replaceChildren();
    }
    const words = [...(question.heading ?? []), ["\n"], ...question.parts]
      .map(([text]) => text)
      .join("")
      .trim()
      .slice(0, BEGINNING);
    this.given.set(question.id, { label, words: whole(words) || question.title?.trim() || `#${question.number}` });
  }

  judge({ question, label, margin, asked }) {
    const given = this.given.get(question);
    if (!given) return;
    this.given.delete(question);
    const { name } = this.payload.classes.find((known) => known.label === label);
    const agreed = given.label === label ? "you agreed" : "you disagreed";
    const verdict = `The model said “${name}” (${margin}); ${agreed}. ${asked}`;
    this.said.replaceChildren(h("q.cut", { dir: "auto" }, given.words), h("span.cut", { title: verdict }, verdict));
  }

  // A click leaves the focus on a control that is not the card's, where Space would press it again. Who clicked means the
  // card by Space; who moved to the control with the keyboard means the control.
  takeSpace(event) {
    if (MOVING.test(event.key)) this.pointed = false;
    const action = event.key === " " && this.pointed && this.hears(event) && this.shortcuts.get(" ");
    const control = event.composedPath()[0];
    if (!action || !control.closest?.(PRESSED_BY_SPACE)) return;
    event.preventDefault();
    event.stopPropagation(); // before the control hears it
    control.blur(); // some browsers press it when the key is released
    if (!event.repeat) action.run(event.timeStamp);
  }

  // Whether a key is meant for the card, wherever the focus is: not in a text field or a dialog.
  hears(event) {
    const target = event.composedPath()[0];
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return false;
    if (target.closest?.(TYPING) || target.isContentEditable) return false;
    return !document.querySelector(DIALOG) && !this.keys.dialog.open;
  }

  onKey(event) {
    const target = event.composedPath()[0];
    if (!this.hears(event)) return;
    if (event.key === " " && target.closest?.(PRESSED_BY_SPACE)) return; // the browser presses it, once
    if (this.scroll(event.key, target)) return event.preventDefault();
    if (event.key === "Escape") return this.escape();
    const action = this.shortcuts.get(letter(event));
    if (!action) return;
    event.preventDefault();
    if (!event.repeat) action.run(event.timeStamp);
  }

  // More classes than keys: one is found by letters of its name, and Enter answers with it.

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
    event.stopPropagation(); // as in a note
    if (event.type !== "keydown" || event.isComposing || event.repeat) return;
    if (event.key === "Enter") this.matches?.[0]?.click();
    if (event.key === "Escape") this.leaveFinder();
  }

  leaveFinder() {
    this.find.blur(); // before it may be hidden, as a note
    this.search("");
  }

  openLink() {
    this.text.querySelector("a.fact")?.click();
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
    const button = action === "undo" ? this.undo : this.answers().find(({ dataset }) => dataset.answer === `${answer}`);
    button.animate([{ boxShadow: "0 0 0 3px var(--focus)" }, { boxShadow: "0 0 0 3px transparent" }], 300);
  }

  // The pass over the skipped items: only an answer is an event, and Undo goes back in the pass.

  revisit() {
    this.closeNote();
    this.pass = this.pass ? null : new Pass();
    this.send("review", this.pass && 0);
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
    if (this.pass && pass.ahead.length < AHEAD && pass.left > pass.ahead.length) this.send("review", pass.after);
  }

  // What lies around the item: its note, the guidelines, an annotator's preferences

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
    if (!question || this.blocker || !(time >= this.seen)) return;
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

  // What was written is kept, however the field is left.
  closeNote() {
    if (this.memo.hidden) return;
    this.field.blur(); // at once: a field that is only hidden would swallow the next key
    this.memo.hidden = true;
    const { id, item } = this.noted;
    const text = whole(this.field.value.slice(0, LONGEST_NOTE)).trim();
    if (text !== this.noteOf(this.noted)) this.push({ question: id, item, action: "note", text });
    else this.update();
  }

  onNoteKey(event) {
    event.stopPropagation(); // from the keys that Streamlit listens to, which takes the field for a part of the page
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

  // Marks come with the items, to those who switch them on; without a name the server knows it from here alone.
  wantMarks() {
    const { highlight = false } = this.own;
    if (!this.payload.preferences && highlight !== this.marks) this.send("marks", (this.marks = highlight));
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
      this.send("review", null);
    }
    const { place, blocker } = this.pass ? this.pass.carry(carried.place) : carried;
    this.blocker = blocker;
    // An event about another question than the server's: the payload is no news for what is painted.
    const foreign = blocker && blocker.action !== "undo" && blocker.question !== place.question?.id;
    if (!foreign || !this.place) this.show(place);
    this.root.dataset.unsaved = this.pending.length;
    this.root.classList.toggle("waiting", Boolean(blocker));
    this.root.classList.toggle("revisiting", Boolean(this.pass));
    this.root.classList.toggle("ended", !this.place.question);
    for (const button of this.answers()) disable(button, blocker || !this.place.question);
    disable(this.undo, blocker || this.previous() == null);
    this.arrange();
    this.report();
  }

  // As the annotator prefers it.
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
    const { question, end } = place;
    const painting = question
      ? `${question.id} ${isMarked(question)}`
      : `${end} ${place.counters.skipped} ${place.result}`;
    this.place = place;
    if (painting !== this.painting) {
      this.painting = painting;
      this.seen = Infinity;
      this.closeNote();
      this.leaveFinder();
      const [beginning, rest] = cut(question ? content(question) : ending(place, this.payload.links));
      this.text.replaceChildren(...beginning);
      this.text.querySelector("a.fact")?.after(this.linkKey);
      this.text.scrollTop = 0;
      afterPaint(() => {
        if (painting !== this.painting || this.seen < Infinity) return;
        this.text.append(...rest);
        this.seen = performance.now();
        this.root.dataset.question = question?.id ?? "";
      });
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
    for (const button of this.answers()) button.classList.toggle("old", button.dataset.answer === `${question?.old}`);
    this.offer.hidden = !this.pass && (!place.counters.skipped || spare(place) <= 0 || end === REMOVED);
    this.count(place.counters);
  }

  count({ labels, budget, answers, skipped, streamed, stream, pushed }) {
    put(this.used, `${number(labels)} of ${number(budget)} labels used, ${number(budget - labels)} left`);
    this.bar.style.transform = `scaleX(${budget ? labels / budget : 1})`;
    put(
      this.offer,
      this.pass ? "Back to the stream" : `${number(skipped)} skipped: answer ${skipped === 1 ? "it" : "them"} now`,
    );
    this.offer.title = this.pass ? "Esc" : "Each answer costs one label";
    const { classes } = this.payload;
    const few = classes.length <= FEW ? classes.map(({ label, name }) => [answers[label], name]) : [];
    const tally = [
      ...few,
      [skipped, "skipped"],
      [streamed, stream ? `of ${number(stream)} streamed` : "streamed"],
      ...(pushed === null ? [] : [[pushed, "pushed", this.payload.pushed]]),
    ];
    for (const button of this.classes.children) {
      put(button.querySelector(".count"), few.length ? "" : number(answers[button.dataset.answer]));
    }
    this.tally.replaceChildren(
      ...tally.map(([value, name, meaning]) =>
        h(
          "div",
          meaning ? h("dt", explained(name, meaning)) : h("dt.cut", { dir: "auto", title: name }, name),
          h("dd", number(value)),
        ),
      ),
    );
  }

  report() {
    const unsaved = this.pending.length;
    const waiting = this.blocker?.action === "undo" ? "Taking back…" : "waiting for the server…";
    const news = [unsaved && `unsaved ${unsaved}`, this.blocker && waiting].filter(Boolean).join(" · ");
    this.root.classList.toggle("error", Boolean(this.error));
    clearTimeout(this.saying);
    clearTimeout(this.explaining);
    if (this.error || !news) return put(this.status, this.error || "Saved");
    this.saying = setTimeout(() => put(this.status, news), CALM);
    const kept = `unsaved ${unsaved} · kept in this browser, and sent when the server is back`;
    this.explaining = setTimeout(() => put(this.status, kept), GONE);
  }

  answers() {
    return [...this.classes.children, this.skip];
  }
}

// A pass over the skipped items in the order in which they were asked, from the one after number `after`.
class Pass {
  after = 0;
  questions = [];
  trail = [];
  review = null; // by the server: how many are left after which number, and the first of them

  // taken: the questions whose answers were taken back, which the server has not heard of yet.
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
    const between = this.questions.filter(
      ({ number }) => number > Math.min(after, this.after) && number <= Math.max(after, this.after),
    );
    return after > this.after ? left + between.length : left - between.length;
  }

  get why() {
    return (
      this.review && `You skipped this earlier (${number(this.left)} left). Answering uses one label; skipping is free.`
    );
  }

  over(spare) {
    return spare <= 0 || (this.review && this.left <= 0);
  }

  carry(place) {
    const [question] = this.ahead;
    return question ? { place: { ...place, question }, blocker: null } : { place, blocker: { action: "review" } };
  }
}

// The place after the events the server has not acknowledged, and the first of them whose outcome is not known yet.
function carry(place, events, branches) {
  for (const event of events) {
    if (BESIDE.includes(event.action)) continue;
    const outcomes = event.question === place.question?.id ? branches[event.question] : undefined;
    const next = { label: outcomes?.[event.label], skip: outcomes?.[0] }[event.action];
    if (!next) return { place, blocker: event };
    place = next;
  }
  return { place, blocker: null };
}

function isMarked({ parts, features }) {
  return [...parts, ...(features ?? [])].some((part) => part.at(-1));
}

// Labels left beside the one for the item that is asked now.
function spare({ counters, question }) {
  return counters.budget - counters.labels - Boolean(question);
}

// A place with the corrections that the server has not acknowledged.
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

// The nodes of a text that fill the box at first, and the rest of a long one, which need not delay its paint.
function cut(nodes) {
  const long = (node) => typeof node === "string" && node.length > FIRST_PAINT;
  const pieces = nodes.flatMap((node) => (long(node) ? node.match(/.{1,2000}\s|.{1,2000}/gsu) : [node]));
  let length = 0;
  const rest = pieces.findIndex((piece) => (length += (piece.textContent ?? piece).length) > FIRST_PAINT);
  return rest < 0 ? [pieces, []] : [pieces.slice(0, rest + 1), pieces.slice(rest + 1)];
}

function ending({ end, counters, result }, links = {}) {
  const labels = counters.budget === 1 ? "label" : "labels";
  const ends = {
    budget: `The budget of ${number(counters.budget)} ${labels} is spent`,
    stream: "The stream has ended",
    others: "Others have the questions that are left",
    joining: "Your first item is being prepared",
    [REMOVED]: "This session is not open to you any more",
  };
  return [
    h("p.end.strong", ends[end] ?? "There is nothing to label now"),
    h("nav.next.wrap", { "aria-label": "What comes next" }, ...Object.entries(links).map(link)),
    h("p", result ?? "Every answer is saved."),
  ];
}

// Streamlit goes there as at the browser's Back: loading the page anew would forget the annotator's name.
function link([name, href]) {
  const node = h("a", { href }, name);
  node.onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return; // the browser's: a tab of its own
    event.preventDefault();
    history.pushState(null, "", node.href);
    dispatchEvent(new PopStateEvent("popstate"));
  };
  return node;
}

// Browser

function afterPaint(callback) {
  requestAnimationFrame(() => setTimeout(callback));
}

export default mounting(Card, ({ session }) => session);

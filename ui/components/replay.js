// The player of a session. The whole log is here, so that scrubbing paints at once; what a place needs besides (the
// item, the changes, the tables) is asked of the server, some places ahead.

const AHEAD = 3; // places fetched before they are opened
const AHEAD_PLAYING = 12;
const KEPT = 600; // places
const SETTLED = 250; // ms without a move before the address names the place
const BARS = 4000; // more cannot be told apart
const CHARTS = 3;
const CHANGES = 8;

const players = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let player = players.get(parentElement);
  if (player?.session !== data.session) {
    player?.remove();
    player = new Player(parentElement, data);
    players.set(parentElement, player);
  }
  player.receive(data, (view) => setStateValue("view", view));
  return () => {
    if (parentElement.isConnected) return;
    player.remove();
    players.delete(parentElement);
  };
}

class Player {
  constructor(parent, { session, start }) {
    this.session = session;
    this.path = location.pathname;
    this.at = { number: start };
    this.places = new Map();
    this.asked = 0;
    this.evaluation = "push";
    this.build();
    parent.append(this.root);
    this.listening = new AbortController();
    const { signal } = this.listening;
    document.addEventListener("keydown", (event) => this.onKey(event), { signal });
    this.leaving = leaving(signal);
  }

  remove() {
    this.pause();
    this.listening.abort();
    clearTimeout(this.settling);
    clearTimeout(this.asking);
    this.root.remove();
  }

  build() {
    this.bars = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
    this.cursor = h("i", { class: "cursor" });
    this.timeline = h("div", { class: "timeline", role: "slider", tabindex: "0", "aria-label": "Question",
      "aria-valuemin": "1", ...testid("timeline") }, this.bars, this.cursor);
    this.timeline.onpointerdown = (event) => {
      this.timeline.setPointerCapture(event.pointerId);
      this.pause();
      this.scrub(event);
    };
    this.timeline.onpointermove = (event) => this.timeline.hasPointerCapture(event.pointerId) && this.scrub(event);
    this.legend = h("p", { class: "legend" });

    this.first = tool("«", "First question (Home)", () => this.open(1), "first");
    this.back = tool("‹", "One question back (←)", () => this.step(-1), "back");
    this.playing = tool("▶ Play", "Play or pause (Space)", () => this.toggle(), "play");
    this.forth = tool("›", "One question on (→)", () => this.step(1), "forth");
    this.last = tool("»", "To the end (End)", () => this.open(this.log.steps), "last");
    this.speed = h("select", { "aria-label": "Questions a second", ...testid("speed") },
      ...[1, 2, 5, 10, 20].map((speed) => h("option", { value: speed, ...(speed === 2 ? { selected: "" } : {}) },
        `${speed} a second`)));
    this.number = h("input", { type: "number", min: 1, "aria-label": "Question", ...testid("number") });
    this.number.onchange = () => this.open(Number(this.number.value));
    this.of = h("span", {});
    this.round = h("input", { type: "number", min: 1, "aria-label": "Round", ...testid("round") });
    this.round.onchange = () => this.openRound(Number(this.round.value));
    this.ofRounds = h("span", {});
    const leave = (event) => {
      if (event.key === "Enter") event.target.blur(); // the keys are the player's again
    };
    this.number.onkeydown = this.round.onkeydown = leave;
    this.earlier = tool("‹", "One round back (Shift ←)", () => this.stepRound(-1), "earlier");
    this.later = tool("›", "One round on (Shift →)", () => this.stepRound(1), "later");
    this.jumps = { mistake: this.jump("mistake", "M"), positive: this.jump("positive", "P"),
      surprise: this.jump("surprise", "S") };
    this.wanted = h("select", { "aria-label": "Class to jump to", ...testid("class") });
    this.wanted.onchange = () => this.update();
    this.controls = h("div", { class: "controls" },
      h("div", { class: "group" }, this.first, this.back, this.playing, this.forth, this.last, this.speed),
      h("label", { class: "group" }, "Question", this.number, this.of),
      h("div", { class: "group" }, h("span", {}, "Round"), this.earlier, this.round, this.later, this.ofRounds),
      h("div", { class: "group jumps" }, "Next", this.jumps.mistake, this.jumps.surprise, this.jumps.positive,
        this.wanted));

    this.why = h("p", { class: "why", ...testid("why") });
    this.title = h("p", { class: "title", dir: "auto" });
    this.text = h("div", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": "Item",
      ...testid("text") });
    this.facts = h("dl", { class: "facts", ...testid("facts") });
    this.passed = h("p", { class: "passed", ...testid("passed") });
    this.budget = h("i", {});
    this.used = h("p", { class: "used", ...testid("used") });
    this.changes = h("div", { class: "changes", ...testid("changes") });
    this.charts = h("div", { class: "charts", ...testid("charts") });
    this.note = h("p", { class: "note muted" });
    const scroll = (name) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name });
    this.confusion = scroll("Confusion table");
    this.figures = scroll("Figures");
    this.choice = h("div", { class: "choice", role: "group", "aria-label": "Evaluation" });
    this.root = h("section", { class: "card replay highlight", "aria-label": "Player", ...testid("player") },
      this.legend, this.timeline, this.controls,
      h("div", { class: "sides" },
        h("div", { class: "side" },
          h("div", { class: "above" }, this.why, this.title), this.text, this.facts, this.passed,
          h("div", { class: "spent" }, this.used, h("div", { class: "bar", "aria-hidden": "true" }, this.budget)),
          this.changes),
        h("div", { class: "side" }, this.charts, this.note,
          h("div", { class: "tables", ...testid("tables") }, h("div", {}, this.choice, this.confusion), this.figures))));
  }

  jump(kind, letter) {
    const button = tool("", "", () => this.next(kind, 1), `next-${kind}`);
    button.setAttribute("aria-keyshortcuts", letter);
    button.append(h("span", { class: "name", dir: "auto" }), h("span", { class: "count" }), key(letter));
    return button;
  }

  // What the server says

  receive(data, send) {
    this.send = send;
    if (data.version !== this.version) this.places.clear();
    this.version = data.version;
    if (data.log) {
      this.log = data.log;
      this.known = data.version;
      this.drawLog();
    }
    for (const [name, place] of Object.entries(data.places)) this.places.set(name, place);
    if (this.log && this.known === this.version) this.move(this.at);
    else this.ask();
  }

  ask() {
    clearTimeout(this.asking);
    const missing = this.log && this.known === this.version
      ? this.ahead().filter((name) => !this.places.has(name)) : [nameOf(this.at)];
    const here = missing[0] === nameOf(this.at);
    const hurry = here || (this.timer && missing.length > AHEAD_PLAYING / 2);
    if (!missing.length) return;
    this.asking = setTimeout(() => {
      if (this.leaving()) return this.ask();
      while (this.places.size > KEPT) this.places.delete(this.places.keys().next().value);
      this.asked += 1;
      this.send({ known: this.known ?? null, want: here && !this.timer ? missing.slice(0, 1) : missing, asked: this.asked });
    }, hurry ? 20 : 150);
  }

  ahead() {
    const { at, log } = this;
    const here = at.number ?? log.rounds.findIndex((round) => round > at.round) + 1;
    const reach = this.timer ? AHEAD_PLAYING : AHEAD;
    const names = [nameOf(at)];
    for (let k = 1; k <= reach; k += 1) if (here + k <= log.steps) names.push(`q${here + k}`);
    if (here > 1) names.push(`q${here - 1}`);
    return names;
  }

  // Where to go

  open(number) {
    if (!this.log || !Number.isFinite(number)) return;
    this.move({ number: clamp(Math.round(number), 1, this.log.steps) });
  }

  openRound(round) {
    if (!this.log || !Number.isFinite(round)) return;
    const wanted = clamp(Math.round(round), 1, this.log.reached);
    const asked = this.log.rounds.indexOf(wanted);
    this.move(asked < 0 ? { round: wanted } : { number: asked + 1 });
  }

  step(by) {
    this.pause();
    this.open(this.place() + (this.at.round && by > 0 ? 0 : by));
  }

  stepRound(by) {
    this.pause();
    this.openRound(this.roundOf() + by);
  }

  next(kind, by) {
    this.pause();
    const found = this.found(kind);
    const here = this.at.round ? this.place() - (by > 0 ? 1 : 0) : this.place();
    this.open(by > 0 ? found.find((number) => number > here) : found.findLast((number) => number < here));
  }

  found(kind) {
    const { log } = this;
    if (kind !== "positive") return log[`${kind}s`];
    const label = Number(this.wanted.value);
    return log.labels.flatMap((given, k) => (given === label ? [k + 1] : []));
  }

  place() { // the number of the question here, or of the one behind the round here
    const { at, log } = this;
    if (at.number) return at.number;
    const behind = log.rounds.findIndex((round) => round > at.round);
    return behind < 0 ? log.rounds.length + 1 : behind + 1;
  }

  roundOf() {
    const { at, log } = this;
    return at.round ?? log.rounds[at.number - 1] ?? log.reached;
  }

  scrub(event) {
    const { left, width } = this.timeline.getBoundingClientRect();
    this.open(1 + Math.floor(((event.clientX - left) / width) * this.log.steps));
  }

  move(at) {
    const { log } = this;
    if (at.number > log.steps) at = { number: log.steps };
    this.at = at;
    this.update();
    this.ask();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      if (location.pathname !== this.path) return; // another page is on its way
      const url = new URL(location);
      url.searchParams.set("question", Math.min(this.place(), log.steps));
      if (url.href !== location.href) history.replaceState(history.state, "", url);
    }, SETTLED);
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.place() >= this.log.steps) this.move({ number: 1 });
    this.due = performance.now();
    this.timer = setInterval(() => this.tick(), 25);
    this.root.dataset.playing = "true";
    put(this.playing, "❚❚ Pause");
    this.ask();
  }

  tick() {
    const now = performance.now();
    if (!this.root.isConnected) return this.pause();
    if (now < this.due || !this.places.has(nameOf(this.at))) return;
    this.due = Math.max(this.due + 1000 / Number(this.speed.value), now);
    if (this.place() >= this.log.steps) return this.pause();
    this.open(this.place() + (this.at.round ? 0 : 1));
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.root.dataset.playing = "false";
    put(this.playing, "▶ Play");
  }

  onKey(event) {
    const target = event.composedPath()[0];
    const own = this.root.contains(target);
    if (!this.log || event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.closest?.(TYPING) || target.isContentEditable || document.querySelector(DIALOG)) return;
    if (!own && target.closest?.(USES_ARROWS)) return;
    if (event.key === " " && target.closest?.(PRESSED_BY_SPACE)) return;
    const back = event.shiftKey ? -1 : 1;
    const action = {
      ArrowLeft: () => (event.shiftKey ? this.stepRound(-1) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.stepRound(1) : this.step(1)),
      Home: () => this.open(1),
      End: () => this.open(this.log.steps),
      " ": () => event.repeat || this.toggle(),
      m: () => this.next("mistake", back),
      p: () => this.next("positive", back),
      s: () => this.next("surprise", back),
    }[event.key.length > 1 ? event.key : letter(event)];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // What is on the screen

  drawLog() {
    const { log } = this;
    const names = new Map(log.names);
    this.name = (label) => (label === 0 ? "skipped" : names.get(label));
    const far = log.margins.map((margin) => margin - log.theta);
    const top = quantile(far.map(Math.abs), 0.97) || 1;
    const low = log.multiclass ? 0 : -1;
    const kinds = { positive: "", negative: "", skipped: "", mistake: "" };
    const wrong = new Set(log.mistakes);
    const every = Math.ceil(log.rounds.length / BARS);
    for (let k = 0; k < log.rounds.length; k += every) {
      const bucket = Array.from({ length: Math.min(every, log.rounds.length - k) }, (_, i) => k + i);
      const shown = bucket.find((i) => wrong.has(i + 1)) ?? k;
      const label = log.labels[shown];
      const kind = wrong.has(shown + 1) ? "mistake" : !label ? "skipped"
        : label > 0 && !log.multiclass ? "positive" : "negative";
      const height = clamp(far[shown] / top, -1, 1) || 0.04;
      const least = Math.sign(height) * Math.max(Math.abs(height), 0.06);
      kinds[kind] += `M${k + 0.12 * every},0h${0.76 * every}v${-least}h${-0.76 * every}z`;
    }
    this.bars.setAttribute("viewBox", `0 -1.04 ${log.steps} ${log.multiclass ? 1.08 : 2.08}`);
    this.bars.replaceChildren(...Object.entries(kinds).map(([kind, d]) => svg("path", { class: kind, d })),
      svg("path", { class: "zero", d: `M0,0H${log.steps}` }));
    this.timeline.setAttribute("aria-valuemax", log.steps);
    const parts = log.multiclass ? [["negative", "predicted right"]]
      : [["positive", log.names[0][1]], ["negative", log.names[1][1]]];
    parts.push(["mistake", "mistake"], ...(log.labels.includes(0) ? [["skipped", "skipped"]] : []));
    this.legend.replaceChildren(
      h("b", {}, "Questions"), h("span", { class: "muted" }, log.multiclass
        ? "a bar is the gap between the two best classes" : "a bar is the margin, upwards where the model would push"),
      h("span", { class: "keys" }, ...parts.map(([kind, name]) => h("span", { dir: "auto" }, h("i", { class: kind }), name))));
    put(this.of, `of ${number(log.questions)}`);
    this.number.max = log.steps;
    put(this.ofRounds, `of ${number(log.reached)}`);
    this.round.max = log.reached;
    const label = this.wanted.value;
    this.wanted.hidden = !log.multiclass;
    this.wanted.replaceChildren(...log.names.map(([value, name]) => h("option", { value }, name)));
    if (log.multiclass && names.has(Number(label))) this.wanted.value = label;
    this.charts.replaceChildren(...log.charts.slice(0, CHARTS).map((chart) => this.chart(chart)));
    const both = Object.entries(log.evaluations);
    if (!both.some(([name]) => name === this.evaluation)) this.evaluation = both[0][0];
    this.choice.hidden = both.length < 2;
    put(this.note, log.note);
    this.choice.replaceChildren(...both.map(([name, title]) => {
      const button = tool(title, "", () => {
        this.evaluation = name;
        this.update();
      }, `evaluation-${name}`);
      button.dataset.name = name;
      return button;
    }));
  }

  chart({ title, unit, lines, end, top, percent, alt }) {
    const point = (at, value) => `${((100 * at) / end).toFixed(3)},${(100 - (100 * value) / top).toFixed(2)}`;
    const d = (x, y) => x.map((at, k) => `${k ? "L" : "M"}${point(at, y[k])}`).join("");
    const area = ({ x, band: [low, high] }) => d([...x, ...x.toReversed()], [...high, ...low.toReversed()]);
    const drawn = (name) => svg("svg", { class: name, viewBox: "0 0 100 100", preserveAspectRatio: "none",
      "aria-hidden": "true" }, ...lines.flatMap((line) => [
      ...(line.band.length ? [svg("path", { d: area(line), class: "band", style: `fill:${line.color}` })] : []),
      svg("path", { d: d(line.x, line.y), stroke: line.color, class: line.band.length ? "estimated" : "" })]));
    const tick = (share) => h("span", { style: `top:${100 - 100 * share}%` },
      percent ? `${Math.round(100 * share * top)} %` : number(Number((share * top).toPrecision(2))));
    const node = h("figure", { class: "chart", role: "img", "aria-label": alt },
      h("figcaption", {}, h("b", {}, title), h("span", { class: "muted" }, `over ${unit}, 0 to ${number(end)}`),
        h("span", { class: "keys" }, ...lines.map(({ name, color }) =>
          h("span", { dir: "auto" }, h("i", { style: `background:${color}` }), name)))),
      h("div", { class: "plot" }, tick(1), tick(0.5), tick(0), drawn("whole"), drawn("so-far"), h("i", { class: "cursor" })));
    node.dataset.unit = unit;
    node.dataset.end = end;
    return node;
  }

  update() {
    const { at, log } = this;
    const place = this.places.get(nameOf(at));
    const here = this.place();
    const entry = at.round ? null : here - 1;
    this.root.dataset.at = nameOf(at);
    this.root.dataset.shown = place ? nameOf(at) : "";
    this.root.classList.toggle("waiting", !place);
    const share = (at.round ? here - 1 : here - 0.5) / log.steps;
    this.cursor.style.left = `${100 * share}%`;
    this.cursor.classList.toggle("between", Boolean(at.round));
    this.timeline.setAttribute("aria-valuenow", Math.min(here, log.steps));
    this.timeline.setAttribute("aria-valuetext", at.round ? `round ${at.round}, not asked`
      : here > log.questions ? "the end" : `question ${here} of ${log.questions}`);
    if (document.activeElement !== this.number && this.root.getRootNode().activeElement !== this.number) {
      this.number.value = Math.min(here, log.steps);
    }
    this.round.value = this.roundOf();
    this.of.textContent = here > log.questions ? "the end" : `of ${number(log.questions)}`;
    for (const [button, off] of [[this.first, here <= 1], [this.back, here <= 1], [this.forth, here >= log.steps],
      [this.last, here >= log.steps], [this.earlier, this.roundOf() <= 1], [this.later, this.roundOf() >= log.reached]]) {
      disable(button, off);
    }
    const said = { mistake: "mistake", surprise: "surprise", positive: log.multiclass ? "answer" : log.names[0][1] };
    for (const [kind, button] of Object.entries(this.jumps)) {
      const found = this.found(kind);
      put(button.querySelector(".name"), said[kind]);
      put(button.querySelector(".count"), number(found.length));
      disable(button, !found.some((number) => number > here - (at.round ? 1 : 0)));
      button.title = { mistake: "A prediction that the answer did not confirm", surprise: log.surprise,
        positive: `The next answer ${log.multiclass ? "of this class" : log.names[0][1]}` }[kind];
    }
    this.showCharts();
    this.showFacts(entry, place);
    if (place) this.show(place);
  }

  showCharts() {
    const labels = this.log.labels.slice(0, this.at.round ? this.place() - 1 : this.place()).filter(Boolean).length;
    for (const node of this.charts.children) {
      const x = clamp(100 * (node.dataset.unit === "labels" ? labels : this.roundOf()) / node.dataset.end, 0, 100);
      node.querySelector(".so-far").style.clipPath = `inset(-3px ${100 - x}% -3px 0)`;
      node.querySelector(".cursor").style.left = `${x}%`;
    }
  }

  showFacts(entry, place) {
    const { log } = this;
    const at = entry === null ? place : entry < log.questions ? { margin: log.margins[entry],
      probability: log.probabilities[entry], draw: log.draws[entry], predicted: log.predicted[entry] } : null;
    const label = entry === null ? null : log.labels[entry];
    const wrong = log.mistakes.includes(entry + 1) && entry !== null;
    const surprise = wrong && log.surprises.includes(entry + 1);
    const answer = entry === null ? ["not asked", place?.truth ? `the data says ${this.name(place.truth)}` : ""]
      : entry >= log.questions ? ["", ""]
        : label === null ? ["waits for its answer", ""] : [this.name(label), place?.answered ?? ""];
    const mark = surprise ? "surprise" : wrong ? "mistake" : "";
    const fact = (name, value, small = "", mark = "", title = "") => h("div", { title: title || value },
      h("dt", {}, name, ...(mark ? [" ", h("mark", {}, mark)] : [])), h("dd", { dir: "auto" }, value),
      h("dd", { class: "small", dir: "auto" }, small));
    const shown = (value, digits = 3) => (at ? value.toFixed(digits) : "–");
    this.facts.replaceChildren(
      fact(log.multiclass ? "Gap (margin)" : "Margin", shown(at?.margin)),
      fact("Chance of being asked", shown(at?.probability)),
      fact("Draw", shown(at?.draw), at ? (at.draw < at.probability ? "below the chance" : "above the chance") : ""),
      fact("Prediction", at ? this.name(at.predicted) : "–"),
      fact("Answer", answer[0] || "–", answer[1], mark, surprise ? log.surprise : ""));
  }

  show(place) {
    const painting = `${this.version} ${nameOf(this.at)}`;
    const { log } = this;
    if (painting !== this.painting) {
      this.painting = painting;
      this.text.replaceChildren(...(place.item ? content(place.item) : [h("p", { class: "end" }, log.end), h("p", {}, place.result)]));
      this.text.scrollTop = 0;
    }
    put(this.why, place.why);
    put(this.title, place.item?.title ?? "");
    const { passed, progress } = place;
    this.passed.replaceChildren(...this.gap(passed));
    const tally = log.names.length > FEW ? [] : log.names.map(([label, name]) => `${number(progress.answers[label])} ${name}`);
    if (progress.skipped) tally.push(`${number(progress.skipped)} skipped`);
    put(this.used, [`${number(progress.labels)} of ${number(progress.budget)} labels used before it`, ...tally].join(" · "));
    this.budget.style.transform = `scaleX(${progress.labels / progress.budget})`;
    this.changes.replaceChildren(h("h2", {}, "What the answer changed"), this.moved(place.moved));
    const table = place.tables[this.evaluation];
    for (const button of this.choice.children) {
      button.setAttribute("aria-pressed", button.dataset.name === this.evaluation);
    }
    this.confusion.replaceChildren(confusionTable(table, log));
    this.figures.replaceChildren(figuresTable(place.figures, log));
  }

  gap(passed) {
    if (!passed) return ["A round between two questions: nothing was asked, nothing was learned."];
    const { first, rounds, pushed, low, high } = passed;
    if (!rounds) return ["No round passed before it without a question."];
    const pushes = pushed === null ? "" : `, ${number(pushed)} pushed`;
    const open = h("button", { type: "button", class: "link" }, `round ${number(first)}`);
    open.onmousedown = keepFocus;
    open.onclick = () => this.openRound(first);
    const last = rounds > 1 ? ` to ${number(first + rounds - 1)}` : "";
    return ["Before it, ", open, `${last} passed unasked: ${number(rounds)} round${rounds > 1 ? "s" : ""}${pushes}, margin${
      rounds > 1 ? `s ${low.toFixed(2)} to ${high.toFixed(2)}` : ` ${low.toFixed(2)}`}.`];
  }

  moved(rows) {
    const most = Math.max(...rows.flatMap(([, , old, now]) => [Math.abs(old), Math.abs(now)]), 1e-12);
    const label = this.at.round ? "passed" : this.log.labels[this.at.number - 1];
    const reasons = new Map([["passed", "it was not asked"], [undefined, "this is the end"],
      [null, "it waits for its answer"], [0, "it was skipped"]]);
    const reason = reasons.get(label) ?? "the model was right, by a margin wide enough";
    if (!rows.length) return h("p", { class: "muted" }, `Nothing: ${reason}.`);
    return h("ul", {}, ...rows.slice(0, CHANGES).map(([term, label, old, now]) => {
      const at = (value) => 50 + (50 * value) / most;
      const [from, to] = [Math.min(at(old), at(now)), Math.max(at(old), at(now))];
      return h("li", { class: now > old ? "up" : "down" },
        h("span", { class: "term-name", dir: "auto", title: term }, term + (label === null ? "" : ` → ${this.name(label)}`)),
        h("span", { class: "track", "aria-hidden": "true" }, h("i", { style: `left:${from}%;width:${Math.max(to - from, 0.8)}%` }),
          h("b", { style: `left:${at(now)}%` })),
        h("span", { class: "weights" }, `${signed(old)} → ${signed(now)}`));
    }));
  }
}

function confusionTable(rows, { names, labelled }) {
  const whole = Math.max(1, ...rows.flat());
  const cell = (value, right) => {
    const node = h("td", { class: right ? "right" : "wrong" }, number(value));
    node.style.setProperty("--share", value ? 0.12 + 0.88 * (value / whole) : 0);
    return node;
  };
  return h("table", { class: "confusion", style: `min-width:${5 + 3.25 * names.length}rem` },
    h("thead", {}, h("tr", {}, h("th", {}, labelled ? "actual ↓ predicted\u00a0→" : "answered ↓ predicted\u00a0→"),
      ...names.map(([, name]) => h("th", { dir: "auto", title: name }, h("span", {}, name))))),
    h("tbody", {}, ...rows.map((row, k) => h("tr", {},
      h("th", { dir: "auto", title: names[k][1] }, h("span", {}, names[k][1])),
      ...row.map((value, j) => cell(value, j === k))))));
}

function figuresTable(figures, { heads }) {
  if (!figures) return "";
  const intervals = figures.some(([, value]) => typeof value === "string");
  return h("table", { class: `figures ${intervals ? "intervals" : ""}` },
    h("thead", {}, h("tr", {}, ...heads.map((name) => h("th", {}, name)))),
    h("tbody", {}, ...figures.map(([title, ...values]) =>
      h("tr", {}, h("th", { dir: "auto" }, title), ...values.map((value) => h("td", {}, value.toFixed?.(3) ?? value))))));
}

function nameOf({ number, round }) {
  return round ? `r${round}` : `q${number}`;
}

function tool(words, title, act, id) {
  const button = h("button", { type: "button", class: "tool", title, "data-testid": `oal-${id}` }, words);
  if (title && words.length < 3) button.setAttribute("aria-label", title);
  button.onmousedown = keepFocus;
  button.onclick = () => button.getAttribute("aria-disabled") !== "true" && act();
  return button;
}

function quantile(values, share) {
  return values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))];
}

function signed(value) {
  return value ? `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(2)}` : "0";
}

const USES_ARROWS = "[role=tab], [role=radio], [role=radiogroup], [role=slider], [role=listbox], [role=combobox], " +
  "[role=spinbutton], [role=menu], [role=grid]";

// The player of a session. It has the whole log, so that scrubbing paints at once, and asks the server for the item,
// changes and tables of each place (a question or a round), some places ahead. A self-contained page has all questions
// (log.whole), but not the rounds between them.

const AHEAD = 3; // places fetched before they are opened
const AHEAD_PLAYING = 12;
const CACHED_PLACES = 600;
const SETTLED = 250; // ms without a move before the address names the place
const MAX_BARS = 4000; // more cannot be told apart
const MAX_CHARTS = 3;
const MAX_CHANGES = 8;

class Player {
  constructor(parent, { session, start }) {
    this.session = session;
    this.path = location.pathname;
    this.at = start;
    this.places = new Map();
    this.requests = 0;
    this.evaluation = "push";
    this.build();
    parent.append(this.root);
    this.listening = new AbortController();
    document.addEventListener("keydown", (event) => this.onKey(event), { signal: this.listening.signal });
  }

  remove() {
    this.pause();
    this.listening.abort();
    clearTimeout(this.settling);
    clearTimeout(this.asking);
    this.root.remove();
  }

  build() {
    const boxed = (part, name) =>
      `<div part="${part}" class="boxed scroll" tabindex="0" role="region" aria-label="${name}"></div>`;
    const html = `<section part="player" class="oal card replay highlight" aria-label="Player">
      <p class="legend wrap tiny">
        <b>Questions</b><span part="bar" class="muted"></span><span part="legend" class="keys wrap"></span></p>
      <div part="timeline" class="timeline box" role="slider" tabindex="0" aria-label="Question" aria-valuemin="1">
        <svg part="bars" preserveAspectRatio="none" aria-hidden="true"></svg><i part="cursor" class="cursor"></i>
      </div>
      <div class="controls wrap small">
        <div part="moves" class="group row">
          <select part="speed" aria-label="Questions a second">
            <option value="1">1 a second</option><option value="2" selected>2 a second</option>
            <option value="5">5 a second</option><option value="10">10 a second</option>
            <option value="20">20 a second</option>
          </select>
        </div>
        <label class="group row">Question
          <input part="number" type="number" min="1" aria-label="Question"><span part="of"></span></label>
        <div part="rounds" class="group row"><span>Round</span>
          <input part="round" type="number" min="1" aria-label="Round"><span part="ofRounds"></span></div>
        <div part="jumps" class="group row jumps">Next
          <select part="wanted" data-testid="oal-class" aria-label="Class to jump to"></select></div>
      </div>
      <div class="sides">
        <div class="side">
          <div class="above row small muted">
            <p part="why" class="why clamp grow"></p><p part="title" class="title cut tiny" dir="auto"></p>
          </div>
          <div part="text" class="text scroll box plain" dir="auto" tabindex="0" role="region" aria-label="Item"></div>
          <dl part="facts" class="facts"></dl>
          <p part="passed" class="passed cut small muted"></p>
          <div class="spent small">
            <p part="used" class="used cut"></p><div class="bar" aria-hidden="true"><i part="budget"></i></div>
          </div>
          <div part="changes" class="changes small"></div>
        </div>
        <div class="side">
          <div part="charts" class="charts"></div>
          <p part="note" class="note small muted"></p>
          <div part="tables" class="tables small">
            <div><div part="choice" class="choice row" role="group" aria-label="Evaluation"></div>
              ${boxed("confusion", "Confusion table")}</div>
            ${boxed("figures", "Figures")}
          </div>
        </div>
      </div>
    </section>`;
    const { moves, ...named } = parts(html);
    Object.assign(this, named);
    this.timeline.onpointerdown = (event) => {
      this.timeline.setPointerCapture(event.pointerId);
      this.pause();
      this.scrub(event);
    };
    this.timeline.onpointermove = (event) => this.timeline.hasPointerCapture(event.pointerId) && this.scrub(event);
    this.first = tool("«", "First question (Home)", () => this.open(1), "first");
    this.back = tool("‹", "One question back (←)", () => this.step(-1), "back");
    this.playing = tool("▶ Play", "Play or pause (Space)", () => this.toggle(), "play");
    this.playing.classList.add("filled");
    this.forth = tool("›", "One question on (→)", () => this.step(1), "forth");
    this.last = tool("»", "To the end (End)", () => this.open(this.log.steps), "last");
    moves.prepend(this.first, this.back, this.playing, this.forth, this.last);
    this.earlier = tool("‹", "One round back (Shift ←)", () => this.stepRound(-1), "earlier");
    this.later = tool("›", "One round on (Shift →)", () => this.stepRound(1), "later");
    this.round.before(this.earlier);
    this.round.after(this.later);
    const [mistake, surprise, positive] = ["mistake", "surprise", "positive"].map((kind) => this.jump(kind));
    this.jumps = { mistake, surprise, positive };
    this.wanted.before(mistake, surprise, positive);
    this.wanted.onchange = () => this.update();
    this.number.onchange = () => this.open(Number(this.number.value));
    this.round.onchange = () => this.openRound(Number(this.round.value));
    this.number.onkeydown = this.round.onkeydown = (event) => {
      if (event.key === "Enter") event.target.blur(); // the keys are the player's again
    };
  }

  jump(kind) {
    const letter = kind[0].toUpperCase();
    const button = tool("", "", () => this.next(kind, 1), `next-${kind}`);
    button.setAttribute("aria-keyshortcuts", letter);
    button.append(h("span.name.clamp", { dir: "auto" }), h("span.count"), key(letter));
    return button;
  }

  // What the server says

  receive(data, send) {
    this.send = (view) => send("view", view);
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
    const current = this.log && this.known === this.version;
    const missing = current ? this.ahead().filter((name) => !this.places.has(name)) : [nameOf(this.at)];
    if (!missing.length) return;
    const here = missing[0] === nameOf(this.at);
    const hurry = here || (this.timer && missing.length > AHEAD_PLAYING / 2);
    const request = () => {
      while (this.places.size > CACHED_PLACES) this.places.delete(this.places.keys().next().value);
      this.requests += 1;
      const want = here && !this.timer ? missing.slice(0, 1) : missing;
      this.send({ known: this.known ?? null, want, asked: this.requests });
    };
    this.asking = setTimeout(request, hurry ? 20 : 150);
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
    if (!this.log || this.log.whole || !Number.isFinite(round)) return;
    const wanted = clamp(Math.round(round), this.log.begins ?? 1, this.log.reached);
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
    const numbers = this.numbersOf(kind);
    const here = this.at.round ? this.place() - (by > 0 ? 1 : 0) : this.place();
    this.open(by > 0 ? numbers.find((number) => number > here) : numbers.findLast((number) => number < here));
  }

  numbersOf(kind) {
    const { log } = this;
    if (kind !== "positive") return log[`${kind}s`];
    const label = Number(this.wanted.value);
    return log.labels.flatMap((each, k) => (each === label ? [k + 1] : []));
  }

  // The number of the question at this place, or of the first question after this round.
  place() {
    const { at, log } = this;
    if (at.number) return at.number;
    const after = log.rounds.findIndex((round) => round > at.round);
    return after < 0 ? log.rounds.length + 1 : after + 1;
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
      if (this.at.round) url.searchParams.set("round", this.at.round);
      else url.searchParams.delete("round");
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
    if (!this.log || !isOurs(event)) return;
    if (!this.root.contains(target) && target.closest?.(USES_ARROWS)) return;
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
    const far = log.margins.map((margin) => (margin === null ? NaN : margin - log.theta)); // null: still secret
    const top = quantile(far.filter(Number.isFinite).map(Math.abs), 0.97) || 1;
    const low = log.multiclass ? 0 : -1;
    const kinds = { positive: "", negative: "", skipped: "", mistake: "" };
    const wrong = new Set(log.mistakes);
    const every = Math.ceil(log.rounds.length / MAX_BARS);
    for (let k = 0; k < log.rounds.length; k += every) {
      const bucket = Array.from({ length: Math.min(every, log.rounds.length - k) }, (_, i) => k + i);
      const shown = bucket.find((i) => wrong.has(i + 1)) ?? k;
      const label = log.labels[shown];
      const positive = label > 0 && !log.multiclass;
      const kind = wrong.has(shown + 1) ? "mistake" : positive ? "positive" : label ? "negative" : "skipped";
      const height = clamp(far[shown] / top, -1, 1) || 0.04;
      const least = Math.sign(height) * Math.max(Math.abs(height), 0.06);
      kinds[kind] += `M${k + 0.12 * every},0h${0.76 * every}v${-least}h${-0.76 * every}z`;
    }
    this.bars.setAttribute("viewBox", `0 -1.04 ${log.steps} ${log.multiclass ? 1.08 : 2.08}`);
    this.bars.replaceChildren(
      ...Object.entries(kinds).map(([kind, d]) => svg("path", { class: kind, d })),
      svg("path.zero", { d: `M0,0H${log.steps}` }),
    );
    this.timeline.setAttribute("aria-valuemax", log.steps);
    const [first, second] = log.names.map(([, name]) => name);
    const legend = log.multiclass ? { negative: "predicted right" } : { positive: first, negative: second };
    legend.mistake = "mistake";
    if (log.labels.includes(0)) legend.skipped = "skipped";
    const gap = "a bar is the gap between the two best classes";
    put(this.bar, log.multiclass ? gap : "a bar is the margin, upwards where the model would push");
    const entry = ([kind, name]) => h("span.cut", { dir: "auto" }, h("i", { class: kind }), name);
    this.legend.replaceChildren(...Object.entries(legend).map(entry));
    put(this.of, `of ${number(log.questions)}`);
    this.number.max = log.steps;
    put(this.ofRounds, `of ${number(log.reached)}`);
    this.round.min = log.begins ?? 1;
    this.round.max = log.reached;
    this.rounds.hidden = log.whole;
    const label = this.wanted.value;
    this.wanted.hidden = !log.multiclass;
    this.wanted.replaceChildren(...log.names.map(([value, name]) => h("option", { value }, name)));
    if (log.multiclass && names.has(Number(label))) this.wanted.value = label;
    this.charts.replaceChildren(...log.charts.slice(0, MAX_CHARTS).map((chart) => this.chart(chart)));
    const both = Object.entries(log.evaluations);
    if (!both.some(([name]) => name === this.evaluation)) this.evaluation = both[0][0];
    this.choice.hidden = both.length < 2;
    put(this.note, log.note);
    const choose = (name) => {
      this.evaluation = name;
      this.update();
    };
    const choice = ([name, title]) => tool(title, "", () => choose(name), `evaluation-${name}`);
    this.choice.replaceChildren(...both.map(choice));
  }

  chart({ title, unit, lines, end, top, percent, alt }) {
    const point = (at, value) => `${((100 * at) / end).toFixed(3)},${(100 - (100 * value) / top).toFixed(2)}`;
    const path = (x, y) => x.map((at, k) => `${k ? "L" : "M"}${point(at, y[k])}`).join("");
    const draw = ({ x, y, band: [low, high], color }) => {
      const line = svg("path", { d: path(x, y), stroke: color, class: low ? "estimated" : "" });
      if (!low) return [line];
      const area = path([...x, ...x.toReversed()], [...high, ...low.toReversed()]);
      return [svg("path.band", { d: area, style: `fill:${color}` }), line];
    };
    const tick = (share) => {
      const value = percent ? `${Math.round(100 * share * top)} %` : number(Number((share * top).toPrecision(2)));
      return `<span style="top:${100 - 100 * share}%">${value}</span>`;
    };
    const plane = 'viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true"';
    const html = `<figure class="chart" role="img">
      <figcaption class="wrap tiny">
        <b part="name"></b><span part="unit" class="muted"></span><span part="keys" class="keys wrap"></span>
      </figcaption>
      <div class="plot">
        ${tick(1)}${tick(0.5)}${tick(0)}<svg part="whole" class="whole" ${plane}></svg>
        <svg part="past" class="so-far" ${plane}></svg><i class="cursor"></i>
      </div>
    </figure>`;
    const { root, name, unit: over, keys, whole, past } = parts(html, "chart-");
    root.setAttribute("aria-label", alt);
    put(name, title);
    put(over, `over ${unit}, 0 to ${number(end)}`);
    const entry = ({ name, color }) => h("span.cut", { dir: "auto" }, h("i", { style: `background:${color}` }), name);
    keys.append(...lines.map(entry));
    whole.append(...lines.flatMap(draw));
    past.append(...lines.flatMap(draw));
    Object.assign(root.dataset, { unit, end });
    return root;
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
    const name = here > log.questions ? "the end" : `question ${here} of ${log.questions}`;
    this.timeline.setAttribute("aria-valuetext", at.round ? `round ${at.round}, not asked` : name);
    if (document.activeElement !== this.number && this.root.getRootNode().activeElement !== this.number) {
      this.number.value = Math.min(here, log.steps);
    }
    this.round.value = this.roundOf();
    this.of.textContent = here > log.questions ? "the end" : `of ${number(log.questions)}`;
    for (const button of [this.first, this.back]) disable(button, here <= 1);
    for (const button of [this.forth, this.last]) disable(button, here >= log.steps);
    disable(this.earlier, this.roundOf() <= (log.begins ?? 1));
    disable(this.later, this.roundOf() >= log.reached);
    const [positive, wanted] = log.multiclass ? ["answer", "of this class"] : [log.names[0][1], log.names[0][1]];
    const words = {
      mistake: ["mistake", "A prediction that the answer did not confirm"],
      surprise: ["surprise", log.surprise],
      positive: [positive, `The next answer ${wanted}`],
    };
    for (const [kind, button] of Object.entries(this.jumps)) {
      const numbers = this.numbersOf(kind);
      put(button.querySelector(".name"), words[kind][0]);
      put(button.querySelector(".count"), number(numbers.length));
      disable(button, !numbers.some((number) => number > here - (at.round ? 1 : 0)));
      button.title = words[kind][1];
    }
    this.showCharts();
    this.showFacts(entry, place);
    if (place) this.show(place);
  }

  showCharts() {
    const labels = this.log.labels.slice(0, this.at.round ? this.place() - 1 : this.place()).filter(Boolean).length;
    for (const node of this.charts.children) {
      const x = clamp((100 * (node.dataset.unit === "labels" ? labels : this.roundOf())) / node.dataset.end, 0, 100);
      node.querySelector(".so-far").style.clipPath = `inset(-3px ${100 - x}% -3px 0)`;
      node.querySelector(".cursor").style.left = `${x}%`;
    }
  }

  // The margin, chance, draw and prediction of a question; null at the end.
  asked(entry) {
    const { questions, margins, probabilities, draws, predicted } = this.log;
    if (entry >= questions || margins[entry] === null) return null;
    const [margin, probability, draw] = [margins, probabilities, draws].map((values) => values[entry]);
    return { margin, probability, draw, predicted: predicted[entry] };
  }

  // The answer in words, and who gave it.
  answer(entry, place) {
    if (entry === null) return ["not asked", place?.truth ? `the data says ${this.name(place.truth)}` : ""];
    if (entry >= this.log.questions) return ["–", ""];
    const label = this.log.labels[entry];
    return label === null ? ["waits for its answer", ""] : [this.name(label), place?.answered ?? ""];
  }

  showFacts(entry, place) {
    const { log } = this;
    const passed = place?.predicted ? place : null; // no prediction if the label was known
    const at = entry === null ? passed : this.asked(entry);
    const wrong = log.mistakes.includes(entry + 1) && entry !== null;
    const surprise = wrong && log.surprises.includes(entry + 1);
    const answer = this.answer(entry, place);
    const mark = surprise ? "surprise" : wrong ? "mistake" : "";
    const fact = (name, value, detail = "", mark = "", title = "") => {
      const head = h("dt.clamp.muted", name, ...(mark ? [" ", h("mark", mark)] : []));
      const cells = [h("dd.clamp", { dir: "auto" }, value), h("dd.detail.clamp.muted", { dir: "auto" }, detail)];
      return h("div", { title: title || value }, head, ...cells);
    };
    const shown = (value, digits = 3) => (at ? value.toFixed(digits) : "–");
    this.facts.replaceChildren(
      fact(log.multiclass ? "Gap (margin)" : "Margin", shown(at?.margin)),
      fact("Chance of being asked", shown(at?.probability)),
      fact("Draw", shown(at?.draw), at ? (at.draw < at.probability ? "below the chance" : "above the chance") : ""),
      fact("Prediction", at ? this.name(at.predicted) : "–"),
      fact("Answer", answer[0], answer[1], mark, surprise ? log.surprise : ""),
    );
  }

  show(place) {
    const painting = `${this.version} ${nameOf(this.at)}`;
    const { log } = this;
    if (painting !== this.painting) {
      this.painting = painting;
      const item = () => (log.without ? [h("p.muted", log.without)] : content(place.item));
      this.text.replaceChildren(...(place.item ? item() : [h("p.end.strong", log.end), h("p", place.result)]));
      this.text.scrollTop = 0;
    }
    put(this.why, place.why);
    put(this.title, place.item?.title ?? "");
    const { passed, progress } = place;
    this.passed.replaceChildren(...this.gap(passed));
    const few = log.names.length > FEW ? [] : log.names;
    const tally = few.map(([label, name]) => `${number(progress.answers[label])} ${name}`);
    if (progress.skipped) tally.push(`${number(progress.skipped)} skipped`);
    const used = `${number(progress.labels)} of ${number(progress.budget)} labels used before it`;
    put(this.used, [used, ...tally].join(" · "));
    this.budget.style.transform = `scaleX(${progress.labels / progress.budget})`;
    this.changes.replaceChildren(h("h2", "What the answer changed"), this.moved(place.moved));
    const table = place.tables[this.evaluation];
    for (const button of this.choice.children) {
      button.setAttribute("aria-pressed", button.dataset.testid === `oal-evaluation-${this.evaluation}`);
    }
    this.confusion.replaceChildren(confusionTable(table, log));
    this.figures.replaceChildren(figuresTable(place.figures, log));
  }

  gap(passed) {
    if (!passed) return ["A round between two questions: nothing was asked, nothing was learned."];
    const { first, rounds, pushed, low, high } = passed;
    if (!rounds) return ["No round passed before it without a question."];
    const pushes = pushed === null ? "" : `, ${number(pushed)} pushed`;
    const tag = this.log.whole ? "span" : "button.link.bare";
    const open = quietButton(tag, {}, () => this.openRound(first), `round ${number(first)}`);
    const last = rounds > 1 ? ` to ${number(first + rounds - 1)}` : "";
    const margins = rounds > 1 ? `margins ${low.toFixed(2)} to ${high.toFixed(2)}` : `margin ${low.toFixed(2)}`;
    const count = `${number(rounds)} round${rounds > 1 ? "s" : ""}`;
    return ["Before it, ", open, `${last} passed unasked: ${count}${pushes}, ${margins}.`];
  }

  moved(rows) {
    const most = Math.max(...rows.flatMap(([, , old, now]) => [Math.abs(old), Math.abs(now)]), 1e-12);
    const label = this.at.round ? "passed" : this.log.labels[this.at.number - 1];
    const reasons = new Map([
      ["passed", "it was not asked"],
      [undefined, "this is the end"],
      [null, "it waits for its answer"],
      [0, "it was skipped"],
    ]);
    const reason = reasons.get(label) ?? "the model was right, by a margin wide enough";
    if (!rows.length) return h("p.muted", label && this.log.without ? this.log.without : `Nothing: ${reason}.`);
    const at = (value) => 50 + (50 * value) / most;
    const line = ([term, label, old, now]) => {
      const [from, to] = [Math.min(at(old), at(now)), Math.max(at(old), at(now))];
      const name = term + (label === null ? "" : ` → ${this.name(label)}`);
      const moved = h("i", { style: `left:${from}%;width:${Math.max(to - from, 0.8)}%` });
      return h(
        `li.${now > old ? "up" : "down"}`,
        h("span.cut", { dir: "auto", title: term }, name),
        h("span.track", { "aria-hidden": "true" }, moved, h("b", { style: `left:${at(now)}%` })),
        h("span.weights", `${signed(old)} → ${signed(now)}`),
      );
    };
    return h("ul", ...rows.slice(0, MAX_CHANGES).map(line));
  }
}

function confusionTable(rows, { names, labelled }) {
  const whole = Math.max(1, ...rows.flat());
  const cell = (value, right) => {
    const node = h("td", { class: right ? "right" : "wrong" }, number(value));
    node.style.setProperty("--share", value ? 0.12 + 0.88 * (value / whole) : 0);
    return node;
  };
  const head = ([, name]) => h("th", { dir: "auto", title: name }, h("span.clamp", name));
  const heads = [h("th", `${labelled ? "actual" : "answered"} ↓ predicted\u00a0→`), ...names.map(head)];
  const lines = rows.map((row, k) => [head(names[k]), ...row.map((value, j) => cell(value, j === k))]);
  return table("confusion", heads, lines, `min-width:${5 + 3.25 * names.length}rem`);
}

function figuresTable(figures, { heads, meanings }) {
  if (!figures) return "";
  const intervals = figures.some(([, value]) => typeof value === "string");
  const cell = (value) => h("td", value.toFixed?.(3) ?? value);
  const word = (name) => (meanings[name] ? explained(name, meanings[name]) : name);
  const lines = figures.map(([title, ...values]) => [h("th", { dir: "auto" }, word(title)), ...values.map(cell)]);
  const head = heads.map((name) => h("th", word(name)));
  return table(intervals ? "figures.intervals" : "figures", head, lines);
}

function table(kind, heads, lines, style = "") {
  const body = lines.map((cells) => h("tr", ...cells));
  return h(`table.${kind}`, { style }, h("thead", h("tr", ...heads)), h("tbody", ...body));
}

function nameOf({ number, round }) {
  return round ? `r${round}` : `q${number}`;
}

function tool(words, title, act, id) {
  const run = () => node.getAttribute("aria-disabled") !== "true" && act();
  const node = quietButton("button.tool.row", { title, ...testid(id) }, run, words);
  if (title && words.length < 3) node.setAttribute("aria-label", title);
  return node;
}

function quantile(values, share) {
  return values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))];
}

function signed(value) {
  return value ? `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(2)}` : "0";
}

const USES_ARROWS =
  "[role=tab], [role=radio], [role=radiogroup], [role=slider], [role=listbox], [role=combobox], " +
  "[role=spinbutton], [role=menu], [role=grid]";

export default mounting(Player, ({ session }) => session);

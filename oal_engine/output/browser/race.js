// The race. The server sends the record of whole runs, and this script plays it: every picture is a function of the
// rounds done, so that playing, pausing, scrubbing and going back work the same way.

const SPEEDS = [1, 2, 4, 8, 16];
const USUAL_SPEED = 2; // a whole race in one minute
const SLOWEST = 120; // seconds of a whole race at speed 1
const STEPS = 40; // steps of a race with reduced motion
const PULSE = 700; // ms
const WORDS_EVERY = 40; // ms between two updates of text and curves; points, lines and pulses move in every frame
const SMOOTH = 90; // ms in which a line makes most of its way to a new position
const COLORS = 4; // one for each lane
const MARGIN = { left: 34, right: 132, narrow: 112, top: 10, bottom: 22 }; // of the chart, in pixels
const METRICS = { sum: "Weighted sum", f1: "F1" };
const EVALUATIONS = { push: "push", push_query: "push-and-query" };
const USES_SPACE = `${PRESSED_BY_SPACE}, textarea, select, a, [role=textbox], [role=combobox]`;
const YES = "▲";
const NO = "●";
const LEGEND = `<p class="legend wrap small muted">
  <span><b class="yes">${YES}</b> positive</span> <span><b class="no">${NO}</b> negative</span>
  <span><b class="faint">${YES}${NO}</b> passed, not asked</span> <span><b>${YES}${NO}</b> asked</span>
  <span><i></i> predicted positive by the lane</span>
</p>`;

class Race {
  constructor(parent, record) {
    this.record = record;
    this.rounds = record.rounds;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.speed = USUAL_SPEED;
    this.t = 0;
    this.frame = sight(record.points);
    this.positives = sums(record.labels, (label) => label === "1");
    this.lanes = record.lanes.map((lane, number) => new Lane(lane, number % COLORS, this));
    this.build();
    parent.append(this.root);

    this.listening = new AbortController();
    const { signal } = this.listening;
    document.addEventListener("keydown", (event) => this.onKey(event), { signal });
    this.root.onfullscreenchange = () => this.full.setAttribute("aria-pressed", this.fills);
    this.root.addEventListener("transitionend", ({ target }) => target === this.root && this.repaint(), { signal });
    this.resizing = new ResizeObserver(() => this.repaint());
    for (const { plane } of this.lanes) this.resizing.observe(plane);
    this.resizing.observe(this.chart);
    this.seek(0);
    if (!this.calm) this.play();
  }

  receive() {} // the whole record came at first

  remove() {
    this.pause();
    this.resizing.disconnect();
    this.listening.abort();
    this.root.remove();
  }

  build() {
    const speeds = SPEEDS.map((times) => `<option value="${times}">${times}×</option>`).join("");
    const html = `<section part="race" class="oal race" aria-label="Race">
      <div class="controls row">
        <button part="toggle" data-testid="oal-play" type="button" class="play strong filled" aria-keyshortcuts="Space"></button>
        <button part="again" data-testid="oal-restart" type="button" title="Back to the start">↺ Restart</button>
        <input part="scrub" type="range" min="0" max="${this.rounds}" step="1" aria-label="Items streamed">
        <output part="clock" class="clock strong"></output>
        <select part="pace" data-testid="oal-speed" aria-label="Speed">${speeds}</select>
        <button part="full" data-testid="oal-full" type="button" aria-pressed="false">Full screen</button>
      </div>
      <div class="story">
        <div part="steps" class="steps"></div>
        <p part="said" class="said" role="status"></p><p part="facts" class="facts strong"></p>
      </div>
      <div part="ground" class="lanes" tabindex="0" role="group" aria-label="Lanes"></div>
      <div class="curves">
        <div part="choice" class="choice wrap small">${LEGEND}</div><canvas part="chart" class="chart" role="img"></canvas>
      </div>
      <p part="note" class="note small muted"></p>
    </section>`;
    Object.assign(this, parts(html));
    this.toggle.onclick = () => (this.playing ? this.pause() : this.play());
    this.again.onclick = () => this.restart();
    this.scrub.oninput = () => {
      this.pause();
      this.seek(Number(this.scrub.value));
    };
    this.full.hidden = !document.fullscreenEnabled;
    this.full.onclick = () => (this.fills ? document.exitFullscreen() : this.root.requestFullscreen());
    this.pace.value = USUAL_SPEED;
    this.pace.onchange = () => (this.speed = Number(this.pace.value));
    this.story = story(this);
    this.tabs = this.story.map(({ title, from }, number) => {
      const seek = () => this.seek(Math.ceil(from * this.rounds));
      return button("button.row.small.muted.bare", {}, seek, h("b", { "aria-hidden": "true" }, number + 1), title);
    });
    this.steps.append(...this.tabs);
    this.ground.append(...this.lanes.map(({ root }) => root));
    this.metric = "sum";
    this.evaluation = "push";
    const metric = this.switch("metric", "Metric", METRICS);
    const evaluation = this.switch("evaluation", "Evaluation", EVALUATIONS);
    this.choice.prepend(metric, " counting ", evaluation, explained("what it means", ""));
    this.meaning = this.choice.querySelector("[role=tooltip]");
    this.note.hidden = !this.record.note;
    put(this.note, this.record.note);
    if (this.lanes.length < 2) this.root.classList.add("alone");
  }

  switch(what, label, names) {
    const buttons = Object.entries(names).map(([key, name]) => {
      const choose = ({ currentTarget }) => {
        this[what] = key;
        for (const each of buttons) each.setAttribute("aria-pressed", each === currentTarget);
        this.draw();
      };
      return button("button", { "aria-pressed": key === this[what], ...testid(`${what}-${key}`) }, choose, name);
    });
    return h("span.switch", { role: "group", "aria-label": label }, ...buttons);
  }

  get fills() {
    return this.root.matches(":fullscreen");
  }

  // Time

  play() {
    if (this.t >= this.rounds) this.seek(0);
    this.playing = true;
    this.before = performance.now();
    this.next = requestAnimationFrame((now) => this.tick(now));
    this.showState();
  }

  pause() {
    this.playing = false;
    cancelAnimationFrame(this.next);
    this.showState();
  }

  restart() {
    this.pause();
    this.seek(0);
    this.play();
  }

  tick(now) {
    const passed = clamp((now - this.before) / 100) * 100; // a hidden tab resumes at its position
    const pace = (this.speed * this.rounds) / (1000 * SLOWEST);
    const step = this.rounds / STEPS;
    if (!this.calm || (now - this.before) * pace >= step) {
      this.before = now;
      this.t = Math.min(this.rounds, this.t + (this.calm ? step : pace * passed));
    }
    this.draw(passed, now);
    if (this.t < this.rounds) {
      this.next = requestAnimationFrame((next) => this.tick(next));
    } else {
      this.pause();
      this.draw();
    }
  }

  seek(t) {
    this.t = t;
    this.draw();
  }

  onKey(event) {
    if (event.key !== " " || !isOurs(event, USES_SPACE)) return;
    event.preventDefault();
    if (!event.repeat) this.toggle.click();
  }

  // What is on the screen

  showState() {
    put(this.toggle, this.playing ? "❚❚ Pause" : this.t >= this.rounds ? "▶ Again" : "▶ Play");
    this.root.dataset.playing = Boolean(this.playing);
  }

  repaint() {
    this.colors = colors(this.root);
    for (const lane of this.lanes) lane.drawn = -1;
    this.draw();
  }

  draw(passed = Infinity, now = performance.now()) {
    this.colors ??= colors(this.root);
    const done = Math.floor(this.t);
    for (const lane of this.lanes) lane.draw(done, passed, now);
    if (passed < Infinity && (done === this.shown || now - this.shownAt < WORDS_EVERY)) return;
    for (const lane of this.lanes) lane.showWords(done);
    this.showWords(done);
    [this.shown, this.shownAt] = [done, now];
  }

  showWords(done) {
    this.scrub.value = done;
    this.scrub.setAttribute("aria-valuetext", `${number(done)} of ${number(this.rounds)} items`);
    put(this.clock, `${number(done)} / ${number(this.rounds)}`);
    this.root.dataset.done = done;
    const step = this.story.findLastIndex(({ from }) => done >= Math.ceil(from * this.rounds));
    for (const [index, tab] of this.tabs.entries()) tab.setAttribute("aria-current", index === step ? "step" : "false");
    put(this.said, this.story[step].said);
    put(this.facts, this.story[step].facts(done));
    const { meanings } = this.record;
    put(this.meaning, `${meanings[METRICS[this.metric]]} ${meanings[EVALUATIONS[this.evaluation]]}`);
    this.drawChart(done);
    if (!this.playing) this.showState();
  }

  // The curves

  drawChart(done) {
    const pen = fitted(this.chart);
    if (!pen) return;
    const { width, height } = this.chart.getBoundingClientRect();
    const narrow = width < 560;
    const right = width - (narrow ? MARGIN.narrow : MARGIN.right);
    const bottom = height - MARGIN.bottom;
    const x = (rounds) => MARGIN.left + (rounds / this.rounds) * (right - MARGIN.left);
    const y = (value) => bottom - value * (bottom - MARGIN.top);
    pen.font = `12px ${this.colors.font}`;
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    for (const value of [0, 0.25, 0.5, 0.75, 1]) {
      const ends = [MARGIN.left, right].map((end) => [end, y(value)]);
      line(pen, this.colors.line, ends);
      word(pen, this.colors.muted, value, MARGIN.left - 6, y(value), "right");
    }
    for (const part of narrow ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
      const label = number(Math.round(part * this.rounds)) + (part ? "" : " items");
      const align = part ? (part < 1 ? "center" : "right") : "left";
      word(pen, this.colors.muted, label, x(part * this.rounds), bottom + 12, align);
    }
    const { marks } = this.record;
    const last = marks.findLastIndex((mark) => mark <= done);
    const ends = [];
    for (const lane of this.lanes) {
      const values = lane.values();
      const points = marks.slice(0, last + 1).map((mark, k) => [x(mark), y(values[k])]);
      if (!points.length) continue;
      pen.lineWidth = 2.25;
      pen.setLineDash(DASHES[lane.number]);
      line(pen, lane.color, points);
      pen.setLineDash([]);
      const [px, py] = points.at(-1);
      ends.push({ lane, px, py, at: py, value: values[last] });
    }
    spread(ends, 15, MARGIN.top + 2, bottom - 4);
    for (const { lane, px, py, at, value } of ends) {
      pen.fillStyle = lane.color;
      pen.fill(circle(px, py, 3.5));
      word(pen, this.colors.ink, value.toFixed(narrow ? 2 : 3), px + 9, at, "left", 600);
      word(pen, lane.color, lane.short, px + (narrow ? 40 : 50), at, "left", 600);
    }
    const words = ends.map(({ lane, value }) => `${lane.short} ${value.toFixed(3)}`).join(", ");
    const chosen = `${METRICS[this.metric]}, ${EVALUATIONS[this.evaluation]}`;
    this.chart.setAttribute("aria-label", `${chosen}, after ${number(done)} items: ${words || "nothing yet"}`);
  }
}

class Lane {
  constructor(record, number, race) {
    Object.assign(this, record);
    this.race = race;
    this.number = number;
    const alone = race.record.lanes.filter(({ rule }) => rule === record.rule).length === 1;
    [this.short, this.other] = alone ? [record.rule, record.title] : [record.title, record.rule];
    const { labels } = race.record;
    this.found = sums(record.pushed, (pushed, t) => pushed === "1" && labels[t] === "1");
    this.alarms = sums(record.pushed, (pushed, t) => pushed === "1" && labels[t] === "0");
    this.asked = new Map(this.questions.map(([t], k) => [t, k]));
    this.yes = sums(this.questions, ({ 4: y }) => y > 0);
    this.shaded = sums(this.questions, ({ 3: side }) => side > 0);
    this.no = sums(this.questions, ({ 3: side, 4: y }) => side > 0 && y < 0);
    this.lines = record.lines.map(unit);
    this.drawn = -1;
    this.build();
  }

  build() {
    const values = Object.entries(this.parameters).map(([key, value]) => `${key} ${figure(value)}`);
    const count = (part, id, title) => `<div><dt>${title}</dt><dd part="${part}" data-testid="oal-${id}"></dd></div>`;
    const html = `<article part="lane" class="lane" data-lane="${this.number}" style="--own: var(--lane-${this.number})">
      <header>
        <div><h2 part="title"></h2><p part="rule" class="rule small"></p><p part="numbers" class="values tiny muted plain"></p></div>
        ${this.bump()}
      </header>
      <p part="used" class="used small"></p>
      <div class="gauge bar" aria-hidden="true"><i part="gauge"></i></div>
      <div part="plane" class="plane box" role="img"><canvas part="under"></canvas><canvas part="over"></canvas></div>
      <p part="now" class="now small"></p><p part="item" class="item clamp tiny plain" dir="auto"></p>
      <dl class="tally">
        ${count("answers", "answers", "answers")}${count("hits", "found", `${YES} found`)}
        ${count("errors", "alarms", "false alarms")}
      </dl>
    </article>`;
    const { title, rule, numbers, ...named } = parts(html);
    Object.assign(this, named);
    this.root.setAttribute("aria-label", this.name);
    title.append(this.short, " ", h("span", this.other));
    put(rule, this.sentence);
    put(numbers, values.join(", "));
    this.item.hidden = !Object.keys(this.race.record.items).length;
  }

  // The curve of the chance of asking over the margin
  bump() {
    const { margins } = this.race.record;
    const x = (margin) => 60 + 58 * Math.max(-1, Math.min(1, margin / margins.at(-1)));
    const y = (chance) => 38 - 34 * chance;
    this.place = (margin, chance) => [x(margin), y(chance)];
    const curve = this.chances.map((chance, k) => `${x(margins[k])},${y(chance)}`).join(" ");
    const title = "The chance of asking over the margin: the distance from the line, negative side on the left";
    return `<figure title="${title}">
      <svg viewBox="0 0 120 52" role="img" aria-label="Chance of asking over the margin">
        <rect class="side" x="60" y="2" width="60" height="36"></rect><path class="axis" d="M0 38H120M60 2V38"></path>
        <polyline points="${curve}"></polyline><circle part="dot" r="3.5"></circle>
        <text x="0" y="49">says ${NO}</text><text x="120" y="49" text-anchor="end">says ${YES}</text>
      </svg>
    </figure>`;
  }

  get color() {
    return this.race.colors.lanes[this.number];
  }

  values() {
    return this.curves[this.race.evaluation][this.race.metric];
  }

  spent(done) {
    return this.questions.findLastIndex(([t]) => t < done) + 1;
  }

  draw(done, passed, now) {
    const spent = this.spent(done);
    if (this.drawn < 0) [this.width, this.height] = [this.plane.clientWidth, this.plane.clientHeight];
    this.drawPoints(done, done < this.drawn || this.drawn < 0);
    this.drawField(spent, passed, now);
  }

  drawPoints(done, anew) {
    const pen = anew ? fitted(this.over) : this.over.getContext("2d");
    if (!pen) return;
    if (anew) this.drawn = 0;
    const { points, labels } = this.race.record;
    for (let t = this.drawn; t < done; t++) {
      const [x, y] = this.inside(points[t]);
      mark(pen, this.race.colors, x, y, labels[t] === "1", this.asked.has(t));
    }
    this.drawn = done;
  }

  drawField(spent, passed, now) {
    const pen = fitted(this.under);
    if (!pen) return;
    const aim = this.lines[spent];
    const keep = this.race.calm ? 0 : Math.exp(-passed / SMOOTH);
    this.line = this.line ? this.line.map((value, k) => aim[k] + (value - aim[k]) * keep) : aim;
    const { x, y } = this.race.frame;
    const corners = [0, 1, 1, 0].map((end, k) => [x[end], y[k >> 1]]);
    const [area, cut] = halved(corners, this.line).map((points) => points.map((point) => this.at(point)));
    pen.fillStyle = tint(this.color, 0.17);
    pen.fill(path(area));
    pen.lineWidth = 2.5;
    if (cut.length === 2) line(pen, this.color, cut);
    if (spent !== this.spentBefore) {
      this.since = spent ? now : -Infinity;
      this.spentBefore = spent;
    }
    if (!spent) return;
    const age = this.race.calm || !this.race.playing ? 0.35 : Math.min(1, (now - this.since) / PULSE);
    if (age >= 1) return;
    const [px, py] = this.inside(this.race.record.points[this.questions[spent - 1][0]]);
    pen.globalAlpha = 1 - age;
    pen.lineWidth = 3;
    pen.strokeStyle = this.color;
    pen.stroke(circle(px, py, 6 + 20 * age));
    pen.globalAlpha = 1;
  }

  // The position of a point of the plane on the canvas.
  at([u, v]) {
    const { x, y } = this.race.frame;
    return [((u - x[0]) / (x[1] - x[0])) * this.width, ((y[1] - v) / (y[1] - y[0])) * this.height];
  }

  // The position of an item: items outside the plane are drawn at its edge.
  inside(point) {
    const [x, y] = this.at(point);
    return [Math.max(8, Math.min(this.width - 8, x)), Math.max(8, Math.min(this.height - 8, y))];
  }

  showWords(done) {
    const spent = this.spent(done);
    const { budget, items } = this.race.record;
    const [t, margin, chance, , y] = this.questions[spent - 1] ?? [];
    const mean = y > 0 ? YES : NO;
    put(this.used, `${number(spent)} of ${number(budget)} labels used`);
    this.gauge.style.transform = `scaleX(${spent / budget})`;
    put(this.answers, `${this.yes[spent]} ${YES}  ${spent - this.yes[spent]} ${NO}`);
    put(this.hits, `${number(this.found[done])} of ${number(this.race.positives[done])}`);
    put(this.errors, number(this.alarms[done]));
    put(this.now, spent ? this.says(done, spent, `#${t + 1}`, margin, chance, mean) : "Waiting for the first item");
    put(this.item, spent ? (items[t] ?? "") : "");
    this.dot.style.display = spent ? "" : "none";
    if (spent) {
      const [x, height] = this.place(margin, chance);
      this.dot.setAttribute("cx", x);
      this.dot.setAttribute("cy", height);
    }
    const results = `${this.found[done]} positives found, ${this.alarms[done]} false alarms`;
    const words = `${this.name} after ${number(done)} items: ${counted(spent, "label")} asked, ${results}`;
    this.plane.setAttribute("aria-label", words);
  }

  says(done, spent, item, margin, chance, answer) {
    const asked = `${item}: margin ${signed(margin)}, chance ${percent(chance)} → ${answer}`;
    if (spent === this.race.record.budget) return `Spent at ${asked}`;
    return `${done - this.questions[spent - 1][0] < this.race.rounds / 10 ? "Asks" : "Last asked"} ${asked}`;
  }
}

// The steps of the story in order: the share of the race at which a step begins, its text, and its numbers.

function story({ record, lanes, rounds, positives }) {
  const total = positives[rounds];
  const unequal = ({ delta_plus, delta_minus }) => delta_plus !== delta_minus;
  const asymmetric = lanes.find(({ rule, parameters }) => rule === "asymmetric" && unequal(parameters));
  const symmetric = lanes.find(({ rule }) => rule === "symmetric");
  const only = lanes.find(({ rule }) => rule === "positive");
  const told = asymmetric ? [symmetric, asymmetric, only].filter(Boolean) : lanes;
  const means = lanes.map(({ name, short }) => `${short} ${record.means?.[name].toFixed(3)}`).join(", ");
  const rare = 3 * total < rounds;
  const choosy = asymmetric && asymmetric.parameters.delta_plus < asymmetric.parameters.delta_minus;
  const shaded = (lane, done) => {
    const spent = lane.spent(done);
    return `${lane.short} ${lane.shaded[spent]} of ${counted(lane.found[done] + lane.alarms[done], "item")} (${lane.no[spent]} ${NO})`;
  };
  return [
    {
      title: "The stream",
      from: 0,
      said:
        `${number(rounds)} items pass. One in ${Math.round(rounds / total)} is a ${YES} worth finding, all others are ${NO}. ` +
        "Every lane sees the same items in the same order, but not which is which.",
      facts: (done) => `${number(done)} have passed, ${number(positives[done])} of them ${YES}.`,
    },
    {
      title: "The price",
      from: 0.1,
      said:
        `A lane may ask for ${counted(record.budget, "label")} and learns from nothing else. Its line is its current belief: ` +
        `on the shaded side it says ${YES}. An answer that proves it wrong moves the line.`,
      facts: (done) => `Asked so far: ${lanes.map((lane) => `${lane.short} ${lane.spent(done)}`).join(", ")}.`,
    },
    {
      title: asymmetric ? "Why asymmetric" : "Where to ask",
      from: 0.25,
      said:
        (rare
          ? `${YES} are rare, so most answers on the shaded side are ${NO}, and each such surprise pulls the line away from the ${YES}. `
          : `Here ${YES} are not rare, and a rule that treats both sides alike loses little. `) +
        (choosy
          ? `The asymmetric rule asks less there and more on the other side, where missed ${YES} hide: its shaded side stays wide.`
          : asymmetric
            ? "This asymmetric rule asks more readily there than on the other side."
            : `A rule that never asks on the other side never learns of the ${YES} missed there.`),
      facts: (done) => `Asked on the shaded side: ${told.map((lane) => shaded(lane, done)).join(", ")}.`,
    },
    {
      title: "The result",
      from: 0.6,
      said:
        `Finding a rare ${YES} and leaving the ${NO} alone count the same in the sum, the curve below. ` +
        (record.means
          ? `One race is chance. Over 200 such streams the mean sums are ${means}.`
          : "One race is chance: try other seeds in the settings."),
      facts: (done) => ahead(lanes, done, done === rounds),
    },
  ];
}

// Who leads by each metric that can be chosen: it need not be the same strategy.
function ahead(lanes, done, over) {
  const { record, evaluation } = lanes[0].race;
  const last = record.marks.findLastIndex((mark) => mark <= done);
  const value = (lane, metric) => lane.curves[evaluation][metric][last];
  const leaders = Object.entries(METRICS).map(([metric, name]) => {
    const [first] = lanes.toSorted((one, other) => value(other, metric) - value(one, metric));
    return `${first.short} by ${name} (${value(first, metric).toFixed(2)})`;
  });
  return last < 0 ? "" : `${over ? "In the end" : "So far"} ahead: ${leaders.join(", ")}.`;
}

function counted(value, name) {
  return `${number(value)} ${name}${value === 1 ? "" : "s"}`;
}

// Geometry

// The visible part of the plane: without the outermost half percent on each side, and with a margin.
function sight(points) {
  const [x, y] = [0, 1].map((axis) => {
    const sorted = points.map((point) => point[axis]).sort((a, b) => a - b);
    const out = Math.floor(sorted.length / 200);
    const [low, high] = [sorted[out], sorted.at(-1 - out)];
    const air = 0.06 * (high - low) || 1;
    return [low - air, high + air];
  });
  return { x, y };
}

// A line's coefficients as a unit vector, so that the mean of two lines is a line between them.
function unit(line) {
  const length = Math.hypot(...line);
  return length ? line.map((value) => value / length) : line;
}

// The part of a polygon where a u + b v + c >= 0, and the edge that the line cuts.
function halved(corners, [a, b, c]) {
  const side = [];
  const edge = [];
  corners.forEach((p, k) => {
    const q = corners[(k + 1) % corners.length];
    const [f, g] = [p, q].map(([u, v]) => a * u + b * v + c);
    if (f >= 0) side.push(p);
    if (f >= 0 !== g >= 0) {
      const cut = [0, 1].map((axis) => p[axis] + ((q[axis] - p[axis]) * f) / (f - g));
      side.push(cut);
      edge.push(cut);
    }
  });
  return [side, edge];
}

// Labels of the curves' ends, moved apart by at least a gap.
function spread(ends, gap, top, bottom) {
  ends.sort((p, q) => p.at - q.at);
  for (const [k, end] of ends.entries()) end.at = Math.max(end.at, k ? ends[k - 1].at + gap : top);
  for (const [k, end] of ends.reverse().entries()) end.at = Math.min(end.at, k ? ends[k - 1].at - gap : bottom);
}

// Cumulative counts: how many of the first t entries count, for every t.
function sums(entries, counts) {
  const all = new Uint16Array(entries.length + 1);
  for (let t = 0; t < entries.length; t++) all[t + 1] = all[t] + counts(entries[t], t);
  return all;
}

// Canvas

const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

// Clear a canvas and give it the screen's resolution. Return its 2D context (the pen), or null if it is hidden.
function fitted(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  if (!width || !height) return null;
  const pen = canvas.getContext("2d");
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    pen.scale(scale, scale);
  } else {
    pen.clearRect(0, 0, width, height);
  }
  return pen;
}

function mark(pen, colors, x, y, positive, asked) {
  const size = asked ? 5 : 3;
  pen.globalAlpha = asked ? 1 : 0.4;
  pen.beginPath();
  if (positive) {
    pen.moveTo(x, y - 1.3 * size);
    pen.lineTo(x + 1.2 * size, y + 0.8 * size);
    pen.lineTo(x - 1.2 * size, y + 0.8 * size);
    pen.closePath();
  } else {
    pen.arc(x, y, asked ? size : 0.75 * size, 0, 7);
  }
  pen.fillStyle = positive ? colors.yes : colors.no;
  pen.strokeStyle = asked ? colors.page : pen.fillStyle;
  pen.lineWidth = asked ? 1.25 : 1;
  if (asked) pen.fill();
  pen.stroke();
  pen.globalAlpha = 1;
}

function line(pen, color, points) {
  pen.strokeStyle = color;
  pen.stroke(path(points));
}

function path(points) {
  return new Path2D(`M${points.map((point) => point.join()).join("L")}`);
}

function circle(x, y, radius) {
  const path = new Path2D();
  path.arc(x, y, radius, 0, 7);
  return path;
}

function word(pen, color, text, x, y, align, weight = 400) {
  pen.font = pen.font.replace(/^\d* ?/, `${weight} `);
  pen.fillStyle = color;
  pen.textAlign = align;
  pen.fillText(text, x, y);
}

function tint(color, share) {
  return `color-mix(in srgb, ${color} ${100 * share}%, transparent)`;
}

// Read the theme's colors from the style sheet.
function colors(root) {
  const style = getComputedStyle(root);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ...Object.fromEntries(["page", "ink", "muted", "line", "yes", "no"].map((name) => [name, of(name)])),
    lanes: Array.from({ length: COLORS }, (_, k) => of(`lane-${k}`)),
    font: style.fontFamily,
  };
}

function signed(value) {
  return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
}

function percent(value) {
  return `${Math.round(100 * value)} %`;
}

export default mounting(Race, ({ key }) => key);

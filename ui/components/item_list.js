// A list of items with their answers, to search, open and correct. The browser decides which part is visible; the server
// sends its rows, and gets an event for each correction.

const TYPED = 300; // ms without a key before a search is sent
const SLOW = 3000; // ms to wait for the server's response before the next message is sent
const LONGEST_SEARCH = 200;
const DIGITS = "1234567890"; // keys of the rows that are labeled at once
const GLANCE = 1000; // ms to see such rows before their labels are stored
const TOO_SOON = "Not stored: the items had just changed.";

class ItemList {
  constructor(parent, data) {
    const { name, view, session } = data;
    const left = window.oalLeft?.name === name ? window.oalLeft.end() : null;
    this.name = name;
    this.view = left?.view ?? view;
    this.outbox = new Outbox(`${name} ${session}`, data, (events) => this.tell("events", events));
    this.lines = new Map();
    this.answered = left?.answered ?? new Map(); // by row: whether its label stays as it was, in a walk (by keys)
    this.batch = left?.batch ?? null; // of rows that are labeled at once
    this.keys = new Set();
    this.news = left ? { view: this.view } : {};
    this.data = left?.data;
    this.refused = left?.refused;
    const html = `<section part="items" data-testid="oal-list" class="oal card item-list">
      <div class="look row">
        <input part="search" type="search" aria-label="Search" placeholder="Search" maxlength="${LONGEST_SEARCH}">
        <select part="filter" aria-label="Show"></select>
        <button part="several" type="button" class="turn">Ten at once</button>
      </div>
      <p part="problem" class="problem strong" role="alert"></p>
      <div part="list" class="list scroll box" role="region" aria-label="Items" tabindex="-1">
        <ol part="rows" class="rows"></ol></div>
      <button part="store" type="button" class="store row filled"></button>
      <div part="pages" class="pages row muted">
        <span part="total" class="grow" role="status"></span><button part="newer" type="button" class="turn">Newer</button>
        <button part="older" type="button" class="turn">Older</button>
      </div>
    </section>`;
    Object.assign(this, parts(html, "list-"));
    this.search.value = this.view.search;
    this.search.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.turn({ search: whole(this.search.value) }), TYPED);
    };
    this.filter.onchange = () => this.turn({ show: this.filter.value });
    const go = (button, by) => button.ariaDisabled === "true" || this.turn({ page: this.view.page + by });
    this.newer.onclick = () => go(this.newer, -1);
    this.older.onclick = () => go(this.older, 1);
    this.several.onclick = () => this.together(!this.batch);
    this.store.onclick = () => this.storeBatch();
    this.listening = new AbortController();
    const options = { capture: true, signal: this.listening.signal };
    window.addEventListener("keydown", (event) => this.press(event), options); // before the card
    document.addEventListener("focusin", (event) => this.watch(event), options);
    document.addEventListener("pointerdown", (event) => this.watch(event), options);
    parent.append(this.root);
  }

  // Streamlit may take the list away while it draws the page, and draw it anew a moment later. Until then the old list
  // hears the keys, and the new one begins where it ends.
  remove() {
    this.send = () => {};
    this.root.remove();
    if (!this.hasKeys) return this.end();
    window.oalLeft = this;
    this.ending = setTimeout(() => this.end(), SLOW);
  }

  end() {
    if (window.oalLeft === this) window.oalLeft = null;
    this.listening.abort();
    this.outbox.close();
    for (const timer of [this.ending, this.typing, this.waiting]) clearTimeout(timer);
    return this;
  }

  // Messages to the server, and data from it

  // Send one message at a time: another one would make Streamlit begin again before it has answered the first.
  tell(part, value) {
    this.news[part] = value;
    if (!this.waiting) this.post();
  }

  post() {
    clearTimeout(this.waiting);
    this.waiting = 0;
    for (const [part, value] of Object.entries(this.news)) {
      this.waiting ||= setTimeout(() => this.post(), SLOW);
      this.send(part, value);
    }
    this.news = {};
  }

  receive(data, send) {
    this.send = send;
    this.outbox.drop(data.acked);
    this.keep(data);
    put(this.problem, this.refused || (data.error ?? ""));
    this.setFilter(data.shows);
    if (this.batch?.rows.length === 0) this.gather();
    this.draw();
    const first = data.walk && data.walk !== window.oalWalk ? this.next() : null; // once for each wish to go through it
    if (first) {
      [window.oalWalk, window.oalList] = [data.walk, this.name];
      this.look({ open: first.id, walk: true });
      this.hold(false);
    }
    put(this.total, data.total);
    disable(this.newer, !data.newer);
    disable(this.older, !data.older);
    this.pages.hidden = !data.newer && !data.older && !data.total;
    this.post();
    this.outbox.hear(data.boot);
  }

  // Take the server's rows. A walk keeps its order, and until they are answered, rows that the server lists no longer.
  keep(data) {
    const { page, open, walk } = this.view;
    const fresh = new Set(data.rows.map(({ id }) => id));
    const old = walk ? (this.data?.rows ?? []).filter(({ id }) => fresh.has(id) || !this.answered.has(id)) : [];
    const rows = new Map([...old, ...data.rows].map((row) => [row.id, row]));
    this.data = { ...data, rows: [...rows.values()] };
    if (page === data.view.page) this.view.page = data.page; // where the server found the open row
    for (const key of data.rows.flatMap(({ actions }) => actions.flatMap(keysOf))) this.keys.add(key);
    const next = walk && !rows.has(open) && this.next();
    if (next) this.look({ open: next.id });
  }

  setFilter(shows) {
    const wanted = JSON.stringify(shows);
    if (wanted === this.shows) return;
    this.shows = wanted;
    this.filter.hidden = shows.length < 2;
    this.filter.replaceChildren(...shows.map(([value, name]) => h("option", { value }, name)));
    this.filter.value = this.view.show;
  }

  turn(change) {
    this.list.scrollTop = 0;
    this.batch = null;
    this.look({ page: 0, open: null, walk: false, ...change });
  }

  look(change) {
    this.view = { ...this.view, ...change };
    this.draw();
    this.tell("view", this.view);
  }

  // Keys. They are for this list if the focus is in it, or was when a redraw dropped it.

  get hasKeys() {
    return window.oalList === this.name;
  }

  watch(event) {
    if (event.composedPath().includes(this.root)) window.oalList = this.name;
    else if (this.hasKeys) window.oalList = null;
  }

  // A key of a class labels the open item and opens the next one.
  press(event) {
    const path = event.composedPath();
    const isHere = path.includes(this.list) || (this.hasKeys && path[0] === document.body);
    if (!isHere || !isOurs(event)) return;
    const ticks = this.batch && this.tickByKey(event);
    if (!ticks && (event.repeat || !this.keys.has(letter(event)))) return;
    event.stopPropagation(); // the card has the same keys
    if (event.key === " ") return; // the browser presses the row
    event.preventDefault();
    if (ticks) return;
    const row = this.data.rows.find(({ id }) => id === this.view.open);
    const chosen = row?.actions.find((action) => keysOf(action).includes(letter(event)));
    const problem = (!row && "No item is open.") || (!chosen && `It cannot be labeled here. ${row.means}`);
    this.refused = problem ? `${letter(event).toUpperCase()} was not stored. ${problem}` : "";
    put(this.problem, this.refused);
    if (problem) return;
    if (!this.view.walk) this.answered.clear();
    if (!chosen[2]) this.act({ row: row.id, action: chosen[0] });
    this.answered.set(row.id, chosen[2]);
    this.look({ open: this.next(row)?.id ?? null, walk: true });
    this.hold();
  }

  // The next row for keys, after a row or from the top.
  next(after) {
    const { rows } = this.data;
    const place = rows.indexOf(after) + 1;
    const ahead = [...rows.slice(place), ...rows.slice(0, place)];
    return ahead.find(({ id, actions }) => !this.answered.has(id) && actions.flatMap(keysOf).length);
  }

  hold(preventScroll = true) {
    (this.at(this.view.open) ?? this.rows.querySelector(".tick") ?? this.list).focus({ preventScroll });
  }

  // Ten at once: the ticked rows get the first class, the others the second one.

  together(on) {
    this.look({ open: null, walk: false });
    if (on) this.gather();
    else this.batch = null;
    this.draw();
    this.hold();
  }

  // Rows without a label that show all of their text.
  get free() {
    const isFree = ({ id, brief, actions }) => brief && !this.answered.has(id) && actions.every(([, , now]) => !now);
    return this.data.rows.filter((row) => row.actions.length && isFree(row));
  }

  // Take the next rows, as many as fit on the screen.
  gather() {
    const rows = this.free.slice(0, DIGITS.length);
    this.batch = { rows, ticked: new Set(), seen: performance.now() };
    this.draw();
    while (rows.length > 1 && this.list.scrollHeight > this.list.clientHeight) {
      rows.pop();
      this.draw();
    }
  }

  storeBatch() {
    const { rows, ticked, seen } = this.batch;
    this.refused = performance.now() < seen + GLANCE ? TOO_SOON : "";
    put(this.problem, this.refused);
    if (this.refused) return;
    this.act(...rows.map(({ id }) => ({ row: id, action: ticked.has(id) ? 1 : -1 })));
    for (const { id } of rows) this.answered.set(id, false);
    this.gather();
    this.hold();
  }

  // Return whether a key was for the rows that are labeled at once.
  tickByKey({ key, repeat }) {
    const ticks = [...this.rows.querySelectorAll(".tick")];
    const at = ticks.indexOf(this.rows.getRootNode().activeElement);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1 }[key];
    if (to !== undefined) ticks[to]?.focus();
    else if (DIGITS.includes(key)) ticks[DIGITS.indexOf(key)]?.click();
    else if (key === "Enter") repeat || this.storeBatch();
    else if (key === "Escape") this.together(false);
    else return key === " ";
    return true;
  }

  act(...changes) {
    this.refused = "";
    for (const change of changes) {
      this.answered.delete(change.row);
      this.outbox.push({ id: randomId(), annotator: this.data.annotator, ...change });
    }
    this.draw();
    this.outbox.post();
  }

  at(place) {
    return this.rows.querySelector(`[data-at="${CSS.escape(place)}"]`);
  }

  // What is on the screen

  draw() {
    const { empty, tick } = this.data;
    const rows = this.batch?.rows ?? this.data.rows;
    const { dataset: { at: focused } = {}, scrollTop } = this.rows.getRootNode().activeElement ?? {};
    const steady = this.view.walk ? this.rows.querySelector(".open") : this.at(this.view.open)?.parentElement;
    const top = steady?.offsetTop;
    const lines = new Map();
    for (const [place, row] of rows.entries()) {
      const open = this.view.open === row.id;
      const sent = this.outbox.events.filter((event) => event.row === row.id);
      const pending = sent.findLast(({ action }) => action !== undefined)?.action ?? null;
      const [kept, ticked] = [this.answered.get(row.id), this.batch?.ticked.has(row.id)];
      const state = JSON.stringify([row, open, sent, kept, ticked, this.batch && place]);
      const old = this.lines.get(row.id);
      const node = () => (this.batch ? this.choice(row, DIGITS[place], ticked) : this.line(row, open, pending, kept));
      lines.set(row.id, old?.state === state ? old : { state, node: node() });
    }
    this.lines = lines;
    const nodes = [...lines.values()].map(({ node }) => node);
    if (!nodes.length) nodes.push(h("li.nothing.muted", empty));
    if (nodes.length !== this.rows.children.length || nodes.some((node, k) => node !== this.rows.children[k])) {
      this.rows.replaceChildren(...nodes);
      const now = this.at(this.view.open)?.parentElement;
      if (steady && now) this.list.scrollTop += now.offsetTop - top; // the open row stays in its place
      const node = focused && this.at(focused);
      node?.focus({ preventScroll: true });
      if (node) node.scrollTop = scrollTop;
    }
    this.several.hidden = !tick || !(this.batch || this.free.length > 1);
    this.several.setAttribute("aria-pressed", Boolean(this.batch));
    this.store.hidden = !this.batch?.rows.length;
    if (!this.store.hidden) {
      const counts = [this.batch.ticked.size, rows.length - this.batch.ticked.size];
      const words = tick.map((name, k) => `${counts[k]} ${name}`).join(", ");
      this.store.replaceChildren(key("Enter"), `Store ${words}`);
    }
    if (this.hasKeys && document.activeElement === document.body) this.hold(Boolean(steady));
  }

  choice({ id, snippet }, digit, ticked) {
    const box = h("input.tick", { type: "checkbox", "data-at": `${id}` });
    box.checked = ticked;
    box.onchange = () => {
      this.batch.ticked[ticked ? "delete" : "add"](id);
      this.draw();
    };
    return h("li", h("label.head.row", box, key(digit), h("span.plain", { dir: "auto" }, snippet)));
  }

  line(row, open, pending, kept) {
    const attributes = { "aria-expanded": open, "data-at": `${row.id}` };
    const look = () => this.look({ open: open ? null : row.id, walk: false });
    const chips = row.chips.map(([name, kind]) => h("span", { class: `chip cut ${kind}`, dir: "auto" }, name));
    if (kept) chips.push(h("span.chip.quiet", "kept"));
    const title = h("span.id.cut.grow.muted", { dir: "auto" }, row.title);
    const time = h("span.when.muted", { title: row.when ?? "" }, row.side ?? when(row.when));
    const head = button("button.head.column.bare", attributes, look, h("span.first.wrap.tiny", ...chips, title, time));
    if (!open) head.append(h("span.snippet.clamp.plain", { dir: "auto" }, row.snippet), ...this.tagged(row));
    if (row.by) head.append(h("span.by.cut.muted.tiny", { dir: "auto" }, row.by));
    const node = h("li", { class: open ? "open" : "" }, head);
    if (open) node.append(this.inside(row, pending));
    return node;
  }

  inside(row, pending) {
    const html = `<div class="inside column">
      <div part="text" class="text whole scroll box plain" dir="auto" tabindex="0" role="region" aria-label="Item"></div>
      <p part="note" class="plain" dir="auto"><b>Note: </b></p>
      <div part="tags" class="actions wrap"><span class="muted">Tags</span></div>
      <div part="actions" class="actions wrap"><span part="ask" class="muted"></span></div>
      <p part="means" class="means muted tiny"></p>
    </div>`;
    const { root, text, note, tags, actions, ask, means } = parts(html, "row-");
    text.dataset.at = `${row.id}-text`;
    text.replaceChildren(...(row.text === null ? [row.snippet] : [...described(row), row.text]));
    note.append(row.note ?? "");
    note.hidden = !row.note;
    tags.append(...this.tagsOf(row).map((tag) => this.tag(row, tag)));
    tags.hidden = !row.tags?.length;
    put(ask, row.label);
    actions.append(...row.actions.map((action) => this.action(row, action, pending)));
    actions.hidden = !row.actions.length;
    put(means, row.means ?? "");
    means.hidden = !row.means;
    return root;
  }

  action(row, [value, name, current, keys], pending) {
    const pressed = pending === null ? current : pending === value;
    const choose = () => {
      if (pending === null && !current) this.act({ row: row.id, action: value });
    };
    const attributes = { dir: "auto", "aria-pressed": pressed, "data-at": `${row.id}-${value}` };
    const own = keys?.length ? [key(keys[0].toUpperCase())] : [];
    const node = button("button", attributes, choose, ...own, name);
    disable(node, pending !== null);
    return node;
  }

  // The tags of an item, with unacknowledged changes.
  tagsOf(row) {
    const sent = (name) => this.outbox.events.findLast((event) => event.row === row.id && event.tag === name);
    return (row.tags ?? []).map(([name, stored]) => [name, sent(name)?.given ?? stored]);
  }

  tagged(row) {
    const own = this.tagsOf(row).filter(([, has]) => has);
    const chips = own.map(([name]) => h("span.chip.quiet.cut", { dir: "auto" }, name));
    return chips.length ? [h("span.tagged.wrap.tiny", ...chips)] : [];
  }

  tag(row, [name, has]) {
    const toggle = () => this.act({ row: row.id, tag: name, given: !has });
    const attributes = { dir: "auto", "aria-pressed": has, "data-at": `${row.id}-${name}` };
    return button("button.tag.row.small.muted", attributes, toggle, h("span.cut", name));
  }
}

function keysOf([, , , keys = []]) {
  return keys;
}

// Format a time in the reader's time zone, with the day unless it is today.
function when(moment) {
  const date = new Date(moment);
  const day = date.toDateString() === new Date().toDateString() ? {} : { day: "numeric", month: "short" };
  return date.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

export default mounting(ItemList, ({ name }) => name);

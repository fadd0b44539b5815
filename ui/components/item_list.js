// A list of items with their answers, to search, open and correct. The browser decides which part is visible; the server
// sends its rows, and gets an event for each correction.

const FEW_ACTIONS = 7; // more are chosen from a list
const TYPED = 300; // ms without a key before a search is sent
const SLOW = 3000; // ms to wait for the server's response before the next message is sent
const LONGEST_SEARCH = 200;

class ItemList {
  constructor(parent, data) {
    const { name, view, session } = data;
    this.name = name;
    this.view = view;
    this.outbox = new Outbox(`${name} ${session}`, data, (events) => this.tell("events", events));
    this.lines = new Map();
    this.answered = new Set(); // ids of rows
    this.keys = new Set();
    this.news = {};
    this.listening = new AbortController();
    const html = `<section part="items" data-testid="oal-list" class="oal card item-list">
      <div class="look">
        <input part="search" type="search" aria-label="Search" placeholder="Search" maxlength="${LONGEST_SEARCH}">
        <select part="filter" aria-label="Show"></select>
      </div>
      <p part="problem" class="problem strong" role="alert"></p>
      <div part="list" class="list scroll box" role="region" aria-label="Items" tabindex="-1">
        <ol part="rows" class="rows"></ol></div>
      <div part="pages" class="pages row muted">
        <span part="total" class="grow" role="status"></span><button part="newer" type="button" class="turn">Newer</button>
        <button part="older" type="button" class="turn">Older</button>
      </div>
    </section>`;
    Object.assign(this, parts(html, "list-"));
    this.search.value = view.search;
    this.search.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.look({ search: whole(this.search.value), page: 0, open: null, walk: false }), TYPED);
    };
    this.filter.onchange = () => this.look({ show: this.filter.value, page: 0, open: null, walk: false });
    this.newer.onclick = () => this.turn(this.newer, -1);
    this.older.onclick = () => this.turn(this.older, 1);
    const options = { capture: true, signal: this.listening.signal };
    document.addEventListener("keydown", (event) => this.press(event), options);
    for (const kind of ["focusin", "pointerdown"]) {
      document.addEventListener(kind, (event) => this.watch(event), options);
    }
    parent.append(this.root);
  }

  remove() {
    this.send = () => {};
    this.outbox.close();
    this.listening.abort();
    clearTimeout(this.typing);
    clearTimeout(this.waiting);
    this.root.remove();
  }

  turn(button, by) {
    if (button.getAttribute("aria-disabled") === "true") return;
    this.list.scrollTop = 0;
    this.look({ page: this.view.page + by, open: null, walk: false });
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
    this.start();
    this.draw();
    put(this.total, data.total);
    disable(this.newer, !data.newer);
    disable(this.older, !data.older);
    this.pages.hidden = !data.newer && !data.older && !data.total;
    this.post();
    this.outbox.hear(data.boot);
  }

  // Take the server's rows. A walk keeps its order, and until they are answered, rows that the server lists no longer.
  keep(data) {
    const rows = new Map();
    const old = this.view.walk ? (this.data?.rows ?? []) : [];
    const fresh = new Set(data.rows.map(({ id }) => id));
    for (const row of old) if (fresh.has(row.id) || !this.answered.has(row.id)) rows.set(row.id, row);
    for (const row of data.rows) rows.set(row.id, row);
    this.data = { ...data, rows: [...rows.values()] };
    if (this.view.page === data.view.page) this.view.page = data.page; // where the server found the open row
    const keys = data.rows.flatMap((row) => row.actions.flatMap(([, , , own]) => own ?? []));
    for (const key of keys) this.keys.add(key);
    if (old.length && !rows.has(this.view.open)) this.look({ open: this.next(0)?.id ?? null });
  }

  // The next row for keys, from a place of the list on.
  next(place) {
    const { rows } = this.data;
    const ahead = [...rows.slice(place), ...rows.slice(0, place)];
    return ahead.find((row) => !this.answered.has(row.id) && row.actions.some(([, , , keys]) => keys?.length));
  }

  // Open the first row, once for each click on "Go through the list".
  start() {
    const { walk, view } = this.data;
    if (walk && walk !== window.oalWalk) {
      [window.oalWalk, window.oalList] = [walk, this.name];
      this.starts = true;
      this.search.value = "";
      this.filter.value = "all";
      this.look({ search: "", show: "all", page: 0, open: null, walk: false });
    }
    const isNew = ["search", "show", "page"].every((part) => view[part] === this.view[part]);
    const first = this.starts && isNew && this.next(0);
    if (!first) return;
    this.starts = false;
    this.look({ open: first.id, walk: true });
    if (this.hasKeys) this.at(first.id).focus();
  }

  setFilter(shows) {
    const wanted = JSON.stringify(shows);
    if (wanted === this.shows) return;
    this.shows = wanted;
    this.filter.hidden = shows.length < 2;
    this.filter.replaceChildren(...shows.map(([value, name]) => h("option", { value }, name)));
    this.filter.value = this.view.show;
  }

  look(change) {
    this.view = { ...this.view, ...change };
    this.draw();
    this.tell("view", this.view);
  }

  // Whether keys are for this list: the focus is in it, or was when a redraw dropped it.
  get hasKeys() {
    return window.oalList === this.name;
  }

  watch(event) {
    if (event.composedPath().includes(this.root)) window.oalList = this.name;
    else if (this.hasKeys) window.oalList = null;
  }

  // A key of a class labels the open item and opens the next one.
  press(event) {
    const [target, ...above] = event.composedPath();
    const inside = target === this.list || above.includes(this.list);
    const key = letter(event);
    if (!inside && !(this.hasKeys && target === document.body)) return;
    if (event.repeat || !this.keys.has(key) || !isOurs(event)) return;
    event.preventDefault();
    event.stopPropagation(); // the card has the same keys
    const { rows } = this.data;
    const place = rows.findIndex(({ id }) => id === this.view.open);
    const { id, actions, means } = rows[place] ?? {};
    const chosen = actions?.find(([, , , keys]) => keys?.includes(key));
    const isSent = this.outbox.events.some(({ row, action }) => row === id && action !== undefined);
    if (!actions || !chosen || isSent) {
      const why = !actions ? "No item is open." : isSent ? "The next item is not there yet." : means;
      this.refused = `${key.toUpperCase()} was not stored. ${why}`;
      return put(this.problem, this.refused);
    }
    if (!this.view.walk) this.answered.clear();
    this.answered.add(id);
    if (!chosen[2]) this.act(id, { action: chosen[0] });
    const next = this.next(place);
    this.refused = next || this.data.older ? "" : "That was the last item here.";
    put(this.problem, this.refused);
    this.look({ open: next?.id ?? id, walk: true });
    this.at(this.view.open)?.focus({ preventScroll: true });
  }

  act(row, change) {
    this.outbox.push({ id: randomId(), annotator: this.data.annotator, row, ...change });
    this.draw();
    this.outbox.post();
  }

  at(place) {
    return this.rows.querySelector(`[data-at="${CSS.escape(place)}"]`);
  }

  // What is on the screen

  draw() {
    const { rows, empty } = this.data;
    const { open: opened, walk } = this.view;
    const { dataset: { at: focused } = {}, scrollTop } = this.rows.getRootNode().activeElement ?? {};
    const isLost = this.hasKeys && document.activeElement === document.body;
    const steady = walk ? this.rows.querySelector(".open") : this.at(opened)?.parentElement;
    const top = steady?.offsetTop;
    const lines = new Map();
    for (const row of rows) {
      const open = this.view.open === row.id;
      const sent = this.outbox.events.filter((event) => event.row === row.id);
      const pending = sent.findLast(({ action }) => action !== undefined)?.action ?? null;
      const state = JSON.stringify([row, open, sent]);
      const old = this.lines.get(row.id);
      lines.set(row.id, old?.state === state ? old : { state, node: this.line(row, open, pending) });
    }
    this.lines = lines;
    const nodes = [...lines.values()].map(({ node }) => node);
    if (!nodes.length) nodes.push(h("li.nothing.muted", empty));
    if (nodes.length !== this.rows.children.length || nodes.some((node, k) => node !== this.rows.children[k])) {
      this.rows.replaceChildren(...nodes);
      const again = focused && this.at(focused);
      if (focused) (again ?? this.at(opened) ?? this.list).focus({ preventScroll: true });
      if (again) again.scrollTop = scrollTop;
      if (steady && this.at(opened)) this.list.scrollTop += this.at(opened).parentElement.offsetTop - top;
    }
    if (isLost) (this.at(opened) ?? this.list).focus({ preventScroll: true });
  }

  line(row, open, pending) {
    const head = button(
      "button.head.column.bare",
      { "aria-expanded": open, "data-at": `${row.id}` },
      () => this.look({ open: open ? null : row.id, walk: false }),
      h(
        "span.first.wrap.tiny",
        ...row.chips.map(([name, kind]) => h("span", { class: `chip cut ${kind}`, dir: "auto" }, name)),
        h("span.id.cut.grow.muted", { dir: "auto" }, row.title),
        h("span.when.muted", { title: row.when ?? "" }, row.side ?? when(row.when)),
      ),
      ...(open ? [] : [h("span.snippet.clamp.plain", { dir: "auto" }, row.snippet), ...this.tagged(row)]),
      ...(row.by ? [h("span.by.cut.muted.tiny", { dir: "auto" }, row.by)] : []),
    );
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
    const few = row.actions.length <= FEW_ACTIONS;
    actions.append(...(few ? row.actions.map((each) => this.action(row, each, pending)) : [this.choice(row, pending)]));
    actions.hidden = !row.actions.length;
    put(means, row.means ?? "");
    means.hidden = !row.means;
    return root;
  }

  action(row, [value, name, current, keys], pending) {
    const pressed = pending === null ? current : pending === value;
    const choose = () => {
      if (pending === null && !current) this.act(row.id, { action: value });
    };
    const attributes = { dir: "auto", "aria-pressed": pressed, "data-at": `${row.id}-${value}` };
    const key = keys?.length ? [h("kbd", { "aria-hidden": "true" }, keys[0].toUpperCase())] : [];
    const node = button("button", attributes, choose, ...key, name);
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
    const toggle = () => this.act(row.id, { tag: name, given: !has });
    const attributes = { dir: "auto", "aria-pressed": has, "data-at": `${row.id}-${name}` };
    return button("button.tag.row.small.muted", attributes, toggle, h("span.cut", name));
  }

  choice(row, pending) {
    const options = row.actions.map(([value, name]) => h("option", { value }, name));
    const select = h("select", { "aria-label": row.label, "data-at": `${row.id}-choice` }, ...options);
    select.value = pending ?? row.actions.find(([, , current]) => current)?.[0];
    select.disabled = pending !== null;
    select.onchange = () => this.act(row.id, { action: Number(select.value) });
    return select;
  }
}

// Format a time in the reader's time zone, with the day unless it is today.
function when(moment) {
  const date = new Date(moment);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const today = date.toDateString() === new Date().toDateString();
  return today ? time : `${date.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}`;
}

export default mounting(ItemList, ({ name }) => name);

// A list of items with what was said of each, to look through, to open and to correct. What is looked at is this
// side's; the rows come from the server, which is sent an event for each correction.

const FEW_ACTIONS = 7; // more are chosen from a list
const TYPED = 300; // ms without a key before a search is sent
const LONGEST_SEARCH = 200;

const lists = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let list = lists.get(parentElement);
  if (list?.name !== data.name) {
    list?.remove();
    list = new ItemList(parentElement, data);
    lists.set(parentElement, list);
  }
  list.receive(data, setStateValue);
  return () => {
    if (parentElement.isConnected) return;
    list.remove();
    lists.delete(parentElement);
  };
}

class ItemList {
  constructor(parent, data) {
    const { name, view, session } = data;
    this.name = name;
    this.view = view;
    this.outbox = new Outbox(`${name} ${session}`, data, (events) => this.leaving() || this.send("events", events));
    this.listening = new AbortController();
    this.leaving = leaving(this.listening.signal);
    this.lines = new Map();
    this.search = h("input", { type: "search", "aria-label": "Search", placeholder: "Search",
      maxlength: LONGEST_SEARCH, ...testid("list-search") });
    this.search.value = view.search;
    this.search.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.look({ search: whole(this.search.value), page: 0, open: null }), TYPED);
    };
    this.filter = h("select", { "aria-label": "Show", ...testid("list-filter") });
    this.filter.onchange = () => this.look({ show: this.filter.value, page: 0, open: null });
    this.status = h("p", { class: "problem", role: "alert", ...testid("list-problem") });
    this.rows = h("ol", { class: "rows", ...testid("list-rows") });
    this.list = h("div", { class: "list", role: "region", "aria-label": "Items" }, this.rows);
    this.total = h("span", { role: "status", ...testid("list-total") });
    this.newer = this.turn("Newer", -1);
    this.older = this.turn("Older", 1);
    this.root = h("section", { class: "card item-list", ...testid("list") },
      h("div", { class: "look" }, this.search, this.filter), this.status, this.list,
      h("div", { class: "pages" }, this.total, this.newer, this.older));
    parent.append(this.root);
  }

  remove() {
    this.send = () => {};
    this.outbox.close();
    this.listening.abort();
    clearTimeout(this.typing);
    this.root.remove();
  }

  turn(name, by) {
    const button = h("button", { type: "button", class: "turn" }, name);
    button.onclick = () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      this.list.scrollTop = 0;
      this.look({ page: this.view.page + by, open: null });
    };
    return button;
  }

  // What the server says

  receive(data, send) {
    this.send = send;
    this.outbox.drop(data.acked);
    this.data = data;
    if (data.page !== undefined) this.view.page = data.page;
    put(this.status, data.error ?? "");
    this.setFilter(data.shows);
    this.draw();
    put(this.total, data.total);
    disable(this.newer, !data.newer);
    disable(this.older, !data.older);
    this.root.querySelector(".pages").hidden = !data.newer && !data.older && !data.total;
    this.outbox.hear(data.boot);
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
    this.send("view", this.view);
  }

  act(row, action) {
    this.outbox.push({ id: randomId(), annotator: this.data.annotator, row, action });
    this.draw();
    this.outbox.post();
  }

  // What is on the screen

  draw() {
    const { rows, empty } = this.data;
    const root = this.rows.getRootNode();
    const { dataset: { at: focused } = {}, scrollTop } = root.activeElement ?? {};
    const lines = new Map();
    for (const row of rows) {
      const open = this.view.open === row.id;
      const pending = this.outbox.events.findLast((event) => event.row === row.id)?.action ?? null;
      const told = JSON.stringify([row, open, pending]);
      const kept = this.lines.get(row.id);
      lines.set(row.id, kept?.told === told ? kept : { told, node: this.line(row, open, pending) });
    }
    this.lines = lines;
    const nodes = [...lines.values()].map(({ node }) => node);
    if (!nodes.length) nodes.push(h("li", { class: "nothing" }, empty));
    if (nodes.length !== this.rows.children.length || nodes.some((node, k) => node !== this.rows.children[k])) {
      this.rows.replaceChildren(...nodes);
      const node = focused && this.rows.querySelector(`[data-at="${focused}"]`);
      node?.focus({ preventScroll: true });
      if (node) node.scrollTop = scrollTop;
    }
  }

  line(row, open, pending) {
    const head = h("button", { type: "button", class: "head", "aria-expanded": open, "data-at": `${row.id}` },
      h("span", { class: "first" },
        ...row.chips.map(([name, kind]) => h("span", { class: `chip ${kind}`, dir: "auto" }, name)),
        h("span", { class: "id", dir: "auto" }, row.title),
        h("span", { class: "when", title: row.when ?? "" }, row.side ?? when(row.when))),
      ...(open ? [] : [h("span", { class: "snippet", dir: "auto" }, row.snippet)]),
      ...(row.by ? [h("span", { class: "by", dir: "auto" }, row.by)] : []));
    head.onclick = () => this.look({ open: open ? null : row.id });
    const node = h("li", { class: open ? "open" : "" }, head);
    if (open) node.append(this.inside(row, pending));
    return node;
  }

  inside(row, pending) {
    const { text, label } = row;
    const inside = h("div", { class: "inside" });
    inside.append(h("div", { class: "text whole", dir: "auto", tabindex: "0", role: "region", "aria-label": "Item",
      "data-at": `${row.id}-text` }, text ?? row.snippet));
    if (row.note) inside.append(h("p", { class: "noted", dir: "auto" }, h("b", {}, "Note: "), row.note));
    if (row.actions.length) {
      const said = h("span", { class: "ask" }, label);
      inside.append(h("div", { class: "actions" }, said, ...(row.actions.length > FEW_ACTIONS
        ? this.choice(row, pending) : row.actions.map((action) => this.action(row, action, pending)))));
    }
    if (row.means) inside.append(h("p", { class: "means" }, row.means));
    return inside;
  }

  action(row, [value, name, standing], pending) {
    const button = h("button", { type: "button", dir: "auto", "aria-pressed": pending === null ? standing : pending === value,
      "data-at": `${row.id}-${value}` }, name);
    disable(button, pending !== null);
    button.onclick = () => {
      if (pending === null && !standing) this.act(row.id, value);
    };
    return button;
  }

  choice(row, pending) {
    const select = h("select", { "aria-label": row.label, "data-at": `${row.id}-choice` },
      ...row.actions.map(([value, name]) => h("option", { value }, name)));
    select.value = pending ?? row.actions.find(([, , standing]) => standing)?.[0];
    select.disabled = pending !== null;
    select.onchange = () => this.act(row.id, Number(select.value));
    return [select];
  }
}

// In the reader's own time zone; the day only where it is not today.
function when(moment) {
  const date = new Date(moment);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const today = date.toDateString() === new Date().toDateString();
  return today ? time : `${date.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}`;
}

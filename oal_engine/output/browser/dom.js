// @ts-check

// What the scripts of several components share.

const FEW = 3; // classes that have a place in the line of counters; more are counted on their buttons

// An item, and the terms that weigh in its score

function content({ parts, features, ...above }) {
  const head = described(above);
  const text = [...head, ...pieces(parts)];
  if (!features?.length && !above.heading?.length && !parts.some(([text]) => text.trim())) {
    return [...head, h("p.empty.muted", features ? "This item has no values." : "This item has no text.")];
  }
  if (!features?.length) return text;
  const table = h(
    "dl.features",
    ...features.map(([name, value, weight]) =>
      tinted(h("div", h("dt.cut.muted", { dir: "auto", title: name }, name), h("dd", figure(value))), weight),
    ),
  );
  return [...text, table];
}

function pieces(parts) {
  return parts.map(([text, weight]) => (weight ? tinted(h("span", text), weight) : text));
}

// What stands above the text of an item: its title, and other columns of its file.
function described({ heading = [], facts = [] }) {
  return [
    ...(heading.length ? [h("p.heading", { dir: "auto" }, ...pieces(heading))] : []),
    ...(facts.length ? [h("p.described.wrap.small.muted", ...facts.map(fact))] : []),
  ];
}

// A link is one to the web: the server gives no other, and no other is made of it here.
function fact([name, words, link]) {
  const title = name ? `${name}: ${words}` : words;
  if (!/^https?:\/\//i.test(link ?? "")) {
    return h("span.fact.cut", { title, dir: "auto" }, ...(name ? [h("i", name), " "] : []), words);
  }
  const to = { href: link, target: "_blank", rel: "noopener noreferrer", title: link };
  return h("a.fact.cut", to, words.replace(/^https?:\/\/(www\.)?/i, ""));
}

// A weight with its sign, or true: marked, without telling for which class.
/** @param {HTMLElement} node @param {number | true} weight */
function tinted(node, weight) {
  if (weight) node.className = weight === true ? "term" : weight > 0 ? "term positive" : "term negative";
  node.style.setProperty("--weight", String(weight === true ? 0.25 : Math.min(1, Math.abs(weight))));
  return node;
}

// What a key means depends on where it is pressed

const TYPING =
  "textarea, select, [role=textbox], " +
  "input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset])";
const DIALOG = "dialog[open], [role=dialog], [role=alertdialog], [aria-modal=true]";
const PRESSED_BY_SPACE =
  "button, summary, input, [role=button], [role=switch], [role=checkbox], [role=radio], " +
  "[role=tab], [role=menuitem], [role=option]";

// The key as printed on a Latin keyboard: in a Cyrillic or Arabic layout event.key is another letter.
function letter({ key, code }) {
  return key > "\x7f" && code.startsWith("Key") ? code.slice(3).toLowerCase() : key.toLowerCase();
}

// Nodes

// h("p.note", { title }, ...children): a tag with its classes, attributes if there are any, and what is in it.
/** @param {string} tag @param {...any} rest */
function h(tag, ...rest) {
  return filled(tag, rest, (name) => document.createElement(name));
}

/** @param {string} tag @param {...any} rest */
function svg(tag, ...rest) {
  return filled(tag, rest, (name) => document.createElementNS("http://www.w3.org/2000/svg", name));
}

function filled(tag, rest, make) {
  const [name, ...classes] = tag.split(".");
  const node = make(name);
  node.classList.add(...classes);
  if (rest[0]?.constructor === Object) {
    for (const [attribute, value] of Object.entries(rest.shift())) node.setAttribute(attribute, value);
  }
  node.append(...rest);
  return node;
}

// What Streamlit calls with new data: one view of a kind for each place on the page, another where the key of its data is.
function mounting(kind, keyOf) {
  const views = new WeakMap();
  return ({ data, parentElement, setStateValue }) => {
    let { key, view } = views.get(parentElement) ?? {};
    if (!view || key !== keyOf(data)) {
      view?.remove();
      view = new kind(parentElement, data);
      views.set(parentElement, { key: keyOf(data), view });
    }
    view.receive(data, setStateValue);
    // Streamlit also cleans up a call that a newer one overtakes, even before it: only a page that is gone counts.
    return () => {
      if (parentElement.isConnected) return;
      view.remove();
      views.delete(parentElement);
    };
  };
}

// HTML of ours, never of an item, as nodes: its `root`, and by its name each node with a `part`, which tests find by it.
/** @param {string} html @param {string} prefix @returns {Record<string, any>} */
function parts(html, prefix = "") {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  const named = { root: template.content.firstElementChild };
  /** @type {NodeListOf<HTMLElement>} */
  const nodes = template.content.querySelectorAll("[part]");
  for (const node of nodes) {
    const name = node.getAttribute("part") ?? "";
    named[name] = node;
    node.dataset.testid ??= `oal-${prefix}${name}`;
  }
  return named;
}

// A word with its meaning one hover or tap away.
/** @param {string} word @param {string} meaning */
function explained(word, meaning) {
  return h("span.explained", { tabindex: "0" }, word, h("span", { role: "tooltip" }, meaning));
}

function testid(name) {
  return { "data-testid": `oal-${name}` };
}

function key(name) {
  return h("kbd", { "aria-hidden": "true" }, name);
}

/** @param {HTMLElement} node @param {string} text */
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {HTMLElement} button @param {unknown} disabled */
function disable(button, disabled) {
  button.setAttribute("aria-disabled", String(Boolean(disabled))); // not `disabled`, which would drop the keyboard's focus
}

// A click must not leave the focus on a button, where the next Space would press it.
function keepFocus(event) {
  event.preventDefault();
}

// Text without halves of letters: a limit may have cut one in two, and no database takes it.
/** @param {string} text */
function whole(text) {
  return text.replace(/\p{Surrogate}/gu, "");
}

// Numbers

/** @param {number} value */
function number(value) {
  return value.toLocaleString("en");
}

/** @param {number | string} value */
function figure(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : value;
}

function clamp(value, low = 0, high = 1) {
  return Math.min(high, Math.max(low, value));
}

// The id of an event, also where crypto.randomUUID is missing: on plain http.
function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// @ts-check

// Shared by the scripts of several components.

const FEW = 3; // classes in the line of counters; if there are more, they are counted on their buttons

// An item, and the terms that weigh in its score

function content({ parts, features, ...above }) {
  const head = described(above);
  const text = [...head, ...pieces(parts)];
  if (!features?.length && !above.heading?.length && !parts.some(([text]) => text.trim())) {
    return [...head, h("p.muted", features ? "This item has no values." : "This item has no text.")];
  }
  if (!features?.length) return text;
  const line = ([name, value, weight]) =>
    tinted(h("div", h("dt.cut.muted", { dir: "auto", title: name }, name), h("dd", figure(value))), weight);
  return [...text, h("dl.features", ...features.map(line))];
}

function pieces(parts) {
  return parts.map(([text, weight]) => (weight ? tinted(h("span", text), weight) : text));
}

// The nodes above the text of an item: its picture, its title, and other columns of its file.
function described({ heading = [], facts = [], picture = "", unshown = "" }) {
  const alt = `Picture of ${heading.map(([text]) => text).join("") || "the item"}`;
  return [
    ...(unshown ? [h("p.small.muted", unshown)] : []),
    ...(picture ? [h("img.picture", { alt, referrerpolicy: "no-referrer", src: picture })] : []),
    ...(heading.length ? [h("p.heading", { dir: "auto" }, ...pieces(heading))] : []),
    ...(facts.length ? [h("p.described.wrap.small.muted", ...facts.map(fact))] : []),
  ];
}

// Only web addresses become links: the server sends no others.
function fact([name, words, link]) {
  const title = name ? `${name}: ${words}` : words;
  if (!/^https?:\/\//i.test(link ?? "")) {
    return h("span.fact.cut", { title, dir: "auto" }, ...(name ? [h("i", name), " "] : []), words);
  }
  const to = { href: link, target: "_blank", rel: "noopener noreferrer", title: link };
  return h("a.fact.cut", to, words.replace(/^https?:\/\/(www\.)?/i, ""));
}

// Tint a node by its weight. The sign says for which class; `true` marks it for neither class.
/** @param {HTMLElement} node @param {number | true} weight */
function tinted(node, weight) {
  if (weight) node.className = weight === true ? "term" : weight > 0 ? "term positive" : "term negative";
  node.style.setProperty("--weight", String(weight === true ? 0.25 : Math.min(1, Math.abs(weight))));
  return node;
}

// Keys: their meaning depends on where they are pressed

const TYPING =
  "textarea, select, [role=textbox], " +
  "input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset])";
const DIALOG = "dialog[open], [role=dialog], [role=alertdialog], [aria-modal=true]";
const PRESSED_BY_SPACE =
  "button, summary, input:not([type=range]), [role=button], [role=switch], [role=checkbox], [role=radio], " +
  "[role=tab], [role=menuitem], [role=option]";

// Whether a key is meant for a component, wherever the focus is: not for a field, a dialog or the browser.
function isOurs(event, fields = TYPING) {
  const target = event.composedPath()[0];
  if (event.defaultPrevented || event.isComposing || isModified(event) || document.querySelector(DIALOG)) return false;
  return !target.closest?.(fields) && !target.isContentEditable;
}

/** @param {KeyboardEvent | MouseEvent} event */
function isModified(event) {
  return event.ctrlKey || event.altKey || event.metaKey;
}

// The key as printed on a Latin keyboard: in a Cyrillic or Arabic layout event.key is another letter.
function letter({ key, code }) {
  return key > "\x7f" && code.startsWith("Key") ? code.slice(3).toLowerCase() : key.toLowerCase();
}

// Nodes

// h("p.note", { title }, ...children): an element with classes, optional attributes, and children.
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

/** @param {string} tag @param {Record<string, any>} attributes @param {(event: any) => unknown} run @param {...any} children */
function button(tag, attributes, run, ...children) {
  const node = h(tag, { type: "button", ...attributes }, ...children);
  node.onclick = run;
  return node;
}

// A button that does not take the focus when it is clicked: the next Space would press it again.
/** @param {string} tag @param {Record<string, any>} attributes @param {(event: any) => unknown} run @param {...any} children */
function quietButton(tag, attributes, run, ...children) {
  const node = button(tag, attributes, run, ...children);
  node.onmousedown = keepFocus;
  return node;
}

// The function that Streamlit calls with new data: it keeps one view per parent element, until the data's key changes.
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
    // Streamlit also cleans up after a call that a newer call has replaced: remove the view only with its page.
    return () => {
      if (parentElement.isConnected) return;
      view.remove();
      views.delete(parentElement);
    };
  };
}

// Parse our own HTML, never an item's. Returns its `root` and each node with a `part` by name; tests find them by it too.
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

// A word whose meaning shows on hover or tap.
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

function keepFocus(event) {
  event.preventDefault();
}

// Text without unpaired surrogates, which a length limit may leave and no database accepts.
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

// A random id for an event. crypto.randomUUID is missing on plain http.
function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

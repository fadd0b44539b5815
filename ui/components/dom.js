// What the scripts of several components share.

const FEW = 3; // classes that have a place in the line of counters; more are counted on their buttons

// An item, and the terms that weigh in its score

function content({ parts, features }) {
  const text = parts.map(([text, weight]) => (weight ? tinted(h("span", {}, text), weight) : text));
  if (!features?.length && !parts.some(([text]) => text.trim())) {
    return [h("p", { class: "empty" }, features ? "This item has no values." : "This item has no text.")];
  }
  if (!features?.length) return text;
  const table = h("dl", { class: "features" }, ...features.map(([name, value, weight]) =>
    tinted(h("div", {}, h("dt", { dir: "auto", title: name }, name), h("dd", {}, figure(value))), weight)));
  return [...text, table];
}

function tinted(node, weight) {
  if (weight) node.className = weight > 0 ? "term positive" : "term negative";
  node.style.setProperty("--weight", Math.min(1, Math.abs(weight)));
  return node;
}

// What a key means depends on where it is pressed

const TYPING = "textarea, select, [role=textbox], " +
  "input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset])";
const DIALOG = "dialog[open], [role=dialog], [role=alertdialog], [aria-modal=true]";
const PRESSED_BY_SPACE = "button, summary, input, [role=button], [role=switch], [role=checkbox], [role=radio], " +
  "[role=tab], [role=menuitem], [role=option]";

// The key as printed on a Latin keyboard: in a Cyrillic or Arabic layout event.key is another letter.
function letter({ key, code }) {
  return key > "\x7f" && code.startsWith("Key") ? code.slice(3).toLowerCase() : key.toLowerCase();
}

// Nodes

function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function testid(name) {
  return { "data-testid": `oal-${name}` };
}

function key(name) {
  return h("kbd", { "aria-hidden": "true" }, name);
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function disable(button, disabled) {
  button.setAttribute("aria-disabled", Boolean(disabled)); // not `disabled`, which would drop the keyboard's focus
}

// A click must not leave the focus on a button, where the next Space would press it.
function keepFocus(event) {
  event.preventDefault();
}

// Text without halves of letters: a limit may have cut one in two, and no database takes it.
function whole(text) {
  return text.replace(/\p{Surrogate}/gu, "");
}

// Numbers

function number(value) {
  return value.toLocaleString("en");
}

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

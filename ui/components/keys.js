// @ts-check

// Which key does what: the defaults of the actions, an annotator's own choice, and the dialog in which it is made.

const OTHERS = { c: "Streamlit", r: "Streamlit" }; // it clears its caches with C and runs the page again with R
const NAMES = { " ": "Space", backspace: "Backspace", delete: "Delete" };

function printed(key) {
  return NAMES[key] ?? key.toUpperCase();
}

// Why a key cannot be chosen, or null.
function refusal(key) {
  if (OTHERS[key]) return `${printed(key)} belongs to ${OTHERS[key]}, which would get it too.`;
  return key in NAMES || [...key].length === 1 ? null : "This key moves or presses things on the page.";
}

// The action of each key. A key that was chosen is no longer another action's default.
function assigned(actions, own) {
  const shortcuts = new Map();
  const give = (action, keys) => {
    for (const key of keys) if (!shortcuts.has(key)) shortcuts.set(key, action);
  };
  const chosen = (action) => (typeof own[action.id] === "string" && !refusal(own[action.id]) ? [own[action.id]] : []);
  for (const action of actions) give(action, chosen(action));
  for (const action of actions) if (!keysOf(shortcuts, action).length) give(action, action.keys);
  return shortcuts;
}

function keysOf(shortcuts, action) {
  return [...shortcuts].filter(([, { id }]) => id === action.id).map(([key]) => printed(key));
}

class Keys {
  actions = [];
  own = {};
  shortcuts = new Map();

  constructor(choose) {
    this.choose = choose;
    this.rows = h("ul");
    this.problem = h("p.problem.strong", { role: "alert" });
    const reset = h("button", { type: "button" }, "Reset to defaults");
    const done = h("button.filled", { type: "button" }, "Done");
    reset.onclick = () => this.set({});
    done.onclick = () => this.close();
    this.dialog = h(
      "dialog.keymap.scroll",
      { "aria-labelledby": "keys-title", ...testid("keys-dialog") },
      h("h2", { id: "keys-title" }, "Keys"),
      h("p", "Click a key, then press another one for it."),
      this.rows,
      this.problem,
      h("footer.row", reset, done),
    );
    for (const kind of ["keydown", "keypress", "keyup"])
      this.dialog.addEventListener(kind, (event) => this.onKey(event));
    this.dialog.oncancel = (event) => this.waiting && event.preventDefault();
    this.dialog.onclose = () => this.wait(null);
  }

  know(actions, own, shortcuts) {
    Object.assign(this, { actions, own, shortcuts });
    if (this.dialog.open) this.draw();
  }

  open() {
    this.draw();
    this.dialog.showModal();
  }

  close() {
    this.focused?.blur(); // at once: the browser does it at its next paint, and what is hidden would swallow a key
    this.dialog.close();
  }

  get focused() {
    return this.dialog.getRootNode().activeElement;
  }

  draw() {
    const focused = this.focused?.dataset.action;
    this.rows.replaceChildren(
      ...this.actions.map((action) => {
        const keys = keysOf(this.shortcuts, action);
        const waits = action === this.waiting;
        const button = h(
          "button.row",
          {
            type: "button",
            "data-action": action.id,
            "aria-label": waits
              ? `Press the new key of ${action.name}`
              : `${action.name}: ${keys.join(" or ") || "no key"}. Change it`,
          },
          ...(waits ? ["Press a key…"] : keys.length ? keys.map(key) : ["none"]),
        );
        button.onclick = () => this.wait(waits ? null : action);
        return h("li", { class: waits ? "row waits" : "row" }, h("span", { dir: "auto" }, action.name), button);
      }),
    );
    if (focused) this.rows.querySelector(`[data-action="${focused}"]`)?.focus();
  }

  wait(action, problem = "") {
    this.waiting = action;
    put(this.problem, problem);
    this.draw();
  }

  set(own) {
    this.waiting = null;
    put(this.problem, "");
    this.choose(own);
    this.draw();
  }

  onKey(event) {
    event.stopPropagation(); // no key in here is meant for the page
    if (event.type !== "keydown" || event.isComposing || MODIFIERS.includes(event.key)) return;
    if (event.key === "Escape") {
      event.preventDefault(); // the browser would close the dialog a moment later
      return this.waiting ? this.wait(null) : this.close();
    }
    if (!this.waiting) return;
    if (event.key === "Tab") return this.wait(null);
    event.preventDefault();
    if (event.repeat) return;
    const key = letter(event);
    const holder = this.shortcuts.get(key);
    const modified = event.ctrlKey || event.altKey || event.metaKey;
    const taken = holder && holder !== this.waiting && `${printed(key)} is the key of ${holder.name} already.`;
    const problem = modified ? "A key with Ctrl, Alt or Meta belongs to the browser." : (refusal(key) ?? taken);
    if (problem) this.wait(this.waiting, problem);
    else this.set({ ...this.own, [this.waiting.id]: key });
  }
}

const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"];

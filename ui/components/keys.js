// @ts-check

// The keys of the actions: defaults, an annotator's own choice, and the dialog to change them.

const OTHERS = { c: "Streamlit", r: "Streamlit" }; // C clears its caches, R runs the page again
const NAMES = { " ": "Space", backspace: "Backspace", delete: "Delete" };

function printed(key) {
  return key === "enter" ? "Enter" : (NAMES[key] ?? key.toUpperCase());
}

// Return the reason to refuse a key, or null.
function refusal(key) {
  if (OTHERS[key]) return `${printed(key)} belongs to ${OTHERS[key]}, which would get it too.`;
  return key in NAMES || [...key].length === 1 ? null : "This key moves or presses things on the page.";
}

// Return the action of each key. A chosen key is no longer the default of another action.
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
    const html = `<dialog part="dialog" class="keymap scroll" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <p>Click a key, then press another one for it.</p>
      <ul part="rows"></ul>
      <p part="problem" class="problem strong" role="alert"></p>
      <footer part="footer" class="row"></footer>
    </dialog>`;
    const { dialog, rows, problem, footer } = parts(html, "keys-");
    this.dialog = dialog;
    this.rows = rows;
    this.problem = problem;
    footer.append(button("button", {}, () => this.set({}), "Reset to defaults"));
    footer.append(button("button.filled", {}, () => this.close(), "Done"));
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
    this.focused?.blur(); // the browser would do it only at its next paint, and a hidden element would swallow a key
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
        const current = `${action.name}: ${keys.join(" or ") || "no key"}. Change it`;
        const label = waits ? `Press the new key of ${action.name}` : current;
        const words = waits ? ["Press a key…"] : keys.length ? keys.map(key) : ["none"];
        const choose = () => this.wait(waits ? null : action);
        const node = button("button.row", { "data-action": action.id, "aria-label": label }, choose, ...words);
        return h(waits ? "li.row.waits" : "li.row", h("span", { dir: "auto" }, action.name), node);
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
    event.stopPropagation(); // keys in the dialog are not meant for the page
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
    const taken = holder && holder !== this.waiting && `${printed(key)} is the key of ${holder.name} already.`;
    const problem = isModified(event)
      ? "A key with Ctrl, Alt or Meta belongs to the browser."
      : (refusal(key) ?? taken);
    if (problem) this.wait(this.waiting, problem);
    else this.set({ ...this.own, [this.waiting.id]: key });
  }
}

const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"];

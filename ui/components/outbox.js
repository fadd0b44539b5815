// @ts-check

// The events that the server has not acknowledged. Each is stored under its own key in localStorage, where a reload,
// another tab or the next start of the browser finds the events that a crashed tab could not send. Several tabs may send
// the same event; the server stores it once.

const RETRY = 2000; // ms before unacknowledged events are sent again, doubled each time
const SLOWEST_RETRY = 30000;

class Outbox {
  // With a log-in, only the user's own events are sent, because the server stores them under the log-in's name.
  constructor(name, { annotator, login }, send) {
    this.prefix = `oal-unsaved ${name} `;
    this.send = send;
    this.delay = RETRY;
    const unsent = storedEvents(this.prefix).filter(({ event }) => !login || event.annotator === annotator);
    this.events = unsent.map(({ event }) => event);
    this.at = unsent.at(-1)?.at ?? 0;
  }

  push(event) {
    this.at = Math.max(this.at + 1, Date.now());
    this.events.push(event);
    this.delay = RETRY;
    store(this.prefix + event.id, { at: this.at, event });
  }

  drop(acked) {
    const done = new Set(acked);
    for (const { id } of this.events) if (done.has(id)) forget(this.prefix + id);
    this.events = this.events.filter(({ id }) => !done.has(id));
    if (!this.events.length) this.close();
  }

  post(again = false) {
    this.send(this.events, again);
    clearTimeout(this.retrying);
    this.retrying = setTimeout(() => this.post(true), this.delay);
    this.delay = Math.min(2 * this.delay, SLOWEST_RETRY);
  }

  // A server that has just started does not know the events sent before: send them again.
  hear(boot) {
    if (boot !== this.boot && this.events.length) this.post();
    this.boot = boot;
  }

  close() {
    clearTimeout(this.retrying);
  }
}

// Read the events under keys with a prefix, the oldest first. Other entries are ignored.
/** @param {string} prefix */
function storedEvents(prefix) {
  /** @type {string[]} */
  const names = tried(() => Object.keys(localStorage), []);
  const entries = names.filter((name) => name.startsWith(prefix)).map(stored);
  return entries.filter((entry) => typeof entry?.event?.id === "string").sort((one, other) => one.at - other.at);
}

// Labeling also works in a browser that forbids storage or whose storage is full; a lost tab then loses unsaved events.

/** @template T @param {() => T} run @param {T} otherwise */
function tried(run, otherwise) {
  try {
    return run();
  } catch {
    return otherwise;
  }
}

/** @param {string} name */
function stored(name) {
  return tried(() => JSON.parse(localStorage.getItem(name) ?? "null"), null);
}

/** @param {string} name @param {unknown} value */
function store(name, value) {
  tried(() => localStorage.setItem(name, JSON.stringify(value)), undefined);
}

/** @param {string} name */
function forget(name) {
  tried(() => localStorage.removeItem(name), undefined);
}

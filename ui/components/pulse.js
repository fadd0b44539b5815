// Polls the server every few seconds, and has the panel redrawn if the session has changed. A hidden page does not
// poll. While somebody labels, the card's own requests poll instead.

const PAUSE = [2500, 3500]; // ms between two polls; random, so that pages do not coincide
const CHANGED = 200;

class Pulse {
  constructor(_, { url }) {
    this.url = url;
    this.redraws = 0;
    window.oalPulse = this;
  }

  receive({ seen }, send) {
    // Redraw once more after a change: a panel may show a view that is up to two seconds old.
    this.seen = seen === this.drawn ? seen : "";
    this.drawn = seen;
    this.send = send;
    this.wait();
  }

  wait(times = 1) {
    const [shortest, longest] = PAUSE;
    clearTimeout(this.timer);
    this.due = performance.now() + shortest;
    this.timer = setTimeout(() => this.ask(), times * (shortest + Math.random() * (longest - shortest)));
  }

  // The fingerprint with which the card polls, or null if it is too early.
  get question() {
    return performance.now() < this.due ? null : (this.seen ?? null);
  }

  // Take the answer to a poll of the card, which will soon poll again.
  hear(hasNews) {
    this.wait(2);
    if (hasNews) this.redraw();
  }

  redraw() {
    this.seen = this.drawn; // Streamlit does not pass on unchanged data
    this.send?.("redraws", ++this.redraws);
  }

  async ask() {
    this.wait();
    if (document.hidden) return;
    try {
      const { status } = await fetch(`${this.url}?seen=${encodeURIComponent(this.seen)}`, { cache: "no-store" });
      if (status === CHANGED) this.redraw();
    } catch {
      // The server cannot be reached; the next poll may reach it.
    }
  }

  remove() {
    clearTimeout(this.timer);
    this.send = undefined;
    if (window.oalPulse === this) delete window.oalPulse;
  }
}

export default mounting(Pulse, ({ url }) => url);

// Asks the server every few seconds whether the session has changed, and then has the panel redrawn. A hidden page does
// not ask. While somebody labels, the card's own requests ask for it.

const PAUSE = [2500, 3500]; // ms between two questions; random, so that pages do not coincide
const CHANGED = 200;

class Pulse {
  constructor(_, { url }) {
    this.url = url;
    this.redraws = 0;
    window.oalPulse = this;
  }

  receive({ seen }, send) {
    // Once more after a change: a panel may show a view that is up to two seconds old.
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

  // What the card asks with, or null if it is too early.
  get question() {
    return performance.now() < this.due ? null : (this.seen ?? null);
  }

  // Hear what the card was told. It will soon ask again.
  hear(hasNews) {
    this.wait(2);
    if (hasNews) this.redraw();
  }

  redraw() {
    this.seen = this.drawn; // Streamlit hands over no data that are as before
    this.send?.("redraws", ++this.redraws);
  }

  async ask() {
    this.wait();
    if (document.hidden) return;
    try {
      const { status } = await fetch(`${this.url}?seen=${encodeURIComponent(this.seen)}`, { cache: "no-store" });
      if (status === CHANGED) this.redraw();
    } catch {
      // The server cannot be reached; the next question may find it.
    }
  }

  remove() {
    clearTimeout(this.timer);
    this.send = undefined;
    if (window.oalPulse === this) delete window.oalPulse;
  }
}

export default mounting(Pulse, ({ url }) => url);

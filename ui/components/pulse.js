// Asks the server every few seconds whether the session has changed, and then has the panel redrawn. A hidden page does
// not ask.

const PAUSE = [2500, 3500]; // ms between two questions; random, so that pages do not coincide
const CHANGED = 200;

class Pulse {
  constructor(_, { url }) {
    this.url = url;
    this.redraws = 0;
  }

  receive({ seen }, send) {
    // Once more after a change: a panel may show a view that is up to two seconds old.
    this.seen = seen === this.drawn ? seen : "";
    this.drawn = seen;
    this.send = send;
    this.wait();
  }

  wait() {
    const [shortest, longest] = PAUSE;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), shortest + Math.random() * (longest - shortest));
  }

  async ask() {
    this.wait();
    if (document.hidden) return;
    try {
      const { status } = await fetch(`${this.url}?seen=${encodeURIComponent(this.seen)}`, { cache: "no-store" });
      if (status !== CHANGED) return;
      this.seen = this.drawn; // Streamlit hands over no data that are as before
      this.send?.("redraws", ++this.redraws);
    } catch {
      // The server cannot be reached; the next question may find it.
    }
  }

  remove() {
    clearTimeout(this.timer);
    this.send = undefined;
  }
}

export default mounting(Pulse, ({ url }) => url);

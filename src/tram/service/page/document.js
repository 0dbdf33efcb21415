// The document on the page: a session of the service, and a copy of it in this browser to resume from.

const STORED = "tram-document";
const FORMAT = "tram-document";
export const ALTERNATIVES = 4;

export class TramDocument {
  constructor(api) {
    this.api = api;
    this.id = null;
    this.sentences = [];
    this.after = "";
  }

  get exists() {
    return this.id !== null;
  }

  get text() {
    const shown = this.sentences.filter((sentence) => sentence.kind !== "context");
    return shown.map((sentence) => sentence.before + sentence.target).join("") + this.after;
  }

  async start(content = {}) {
    const { sentences = [], after = "", state } = content;
    const made = await this.api.json("POST", "/sessions", { sentences, after, state });
    Object.assign(this, { id: made.id, sentences, after });
    this.keep();
  }

  /** Translate more text; yield the number of each sentence that is done. */
  async *translate(text, signal) {
    if (!this.exists) await this.start();
    const body = { q: text, alternatives: ALTERNATIVES, stream: true };
    yield* this.#follow(this.api.events("POST", `/sessions/${this.id}/translate`, body, signal));
    this.after = (await this.api.json("GET", `/sessions/${this.id}`)).after;
    this.keep();
  }

  /** Correct a sentence; yield {number, changed} of it and of each sentence that follows. */
  async *correct(number, target, signal) {
    const body = { target, alternatives: ALTERNATIVES };
    yield* this.#follow(this.api.events("PUT", `/sessions/${this.id}/sentences/${number}`, body, signal));
  }

  async *#follow(events) {
    for await (const { name, data } of events) {
      if (name !== "sentence") continue;
      const { number, changed, span, ...sentence } = data;
      this.sentences[number] = sentence;
      yield { number, changed };
    }
    this.keep();
  }

  /** Return the pairs of words that belong together, for some sentences. */
  async alignment(start, count) {
    const found = await this.api.json("GET", `/sessions/${this.id}/alignment?start=${start}&count=${count}`);
    return found.alignments;
  }

  content() {
    return { format: FORMAT, version: 1, sentences: this.sentences, after: this.after };
  }

  /** Keep a copy in this browser: the session, and what it takes to start it again if the service has forgotten it. */
  keep() {
    try {
      localStorage.setItem(STORED, JSON.stringify({ id: this.id, ...this.content() }));
    } catch {
      // No room, or not allowed: the document works without it
    }
  }

  forget() {
    localStorage.removeItem(STORED);
    Object.assign(this, { id: null, sentences: [], after: "" });
  }

  /** Continue where this browser left off; return whether there was anything. */
  async resume() {
    let stored;
    try {
      stored = JSON.parse(localStorage.getItem(STORED));
    } catch {
      return false;
    }
    if (!stored || !stored.sentences?.length) return false;
    try {
      const { sentences, after } = await this.api.json("GET", `/sessions/${stored.id}`);
      Object.assign(this, { id: stored.id, sentences, after });
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) throw error;
      await this.start(stored);
    }
    return this.sentences.length > 0;
  }

  /** Start from a file that `content` was saved to. */
  async load(text) {
    let content;
    try {
      content = JSON.parse(text);
    } catch {
      content = null;
    }
    if (content?.format !== FORMAT || !Array.isArray(content.sentences)) {
      throw new Error("This file is not a document saved on this page");
    }
    await this.start(content);
  }
}

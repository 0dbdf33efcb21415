// The document on the page: a session of the service, and a copy of it in this browser to resume from.

import { forThisBrowser } from "./storage.js";

const STORED = "tram-document";
const FORMAT = "tram-document";
export const ALTERNATIVES = 4;

export class TramDocument {
  constructor(api) {
    this.api = api;
    this.#set({});
  }

  #set({ id = null, name = "", sentences = [], after = "", pending = null }) {
    Object.assign(this, { id, name, sentences, after, pending });
  }

  get text() {
    const shown = this.sentences.filter((sentence) => sentence.kind !== "context");
    return shown.map((sentence) => sentence.before + sentence.target).join("") + this.after;
  }

  /** Start a session, with the sentences of a document that was saved. */
  async start(content = {}) {
    const { name, sentences = [], after = "", pending } = content;
    const { id } = await this.api.json("POST", "/sessions", { sentences, after });
    this.#set({ id, name, sentences, after, pending });
    this.keep();
  }

  /** Translate more text; yield the number of each sentence that is done. */
  async *translate(text, signal) {
    if (this.id === null) await this.start({ name: this.name });
    this.pending = { text, first: this.sentences.length };
    this.keep();
    yield* this.#follow("POST", "/translate", { q: text, alternatives: ALTERNATIVES, stream: true }, signal);
    this.pending = null;
    await this.synchronize();
  }

  /** Correct a sentence; yield {number, changed} of it and of each sentence that follows. */
  async *correct(number, target, signal) {
    yield* this.#follow("PUT", `/sentences/${number}`, { target, alternatives: ALTERNATIVES }, signal);
    this.keep();
  }

  async *#follow(method, path, body, signal) {
    for await (const { name, data } of this.#events(method, path, body, signal)) {
      if (name !== "sentence") continue;
      const { number, changed, span, ...sentence } = data;
      if (number > this.sentences.length) await this.synchronize(); // the service finished more than it could tell
      this.sentences[number] = sentence;
      yield { number, changed };
    }
  }

  /** Yield the events of a request to the session, which is started again if the service has forgotten it. */
  async *#events(method, path, body, signal) {
    const events = () => this.api.events(method, `/sessions/${this.id}${path}`, body, signal);
    try {
      yield* events();
    } catch (error) {
      if (error.status !== 404) throw error;
      await this.start(this);
      yield* events();
    }
  }

  /** Get the sentences as the service has them. */
  async synchronize() {
    const { sentences, after } = await this.api.json("GET", `/sessions/${this.id}`);
    Object.assign(this, { sentences, after });
    this.keep();
  }

  /** Return what is still to be translated of the last text, because that was stopped. */
  takeUntranslated() {
    if (this.pending === null) return "";
    const { text, first } = this.pending;
    this.pending = null;
    this.keep();
    return textAfter(text, this.sentences.slice(first));
  }

  /** Return the pairs of words that belong together, for some sentences. */
  async alignment(start, count) {
    const found = await this.api.json("GET", `/sessions/${this.id}/alignment?start=${start}&count=${count}`);
    return found.alignments;
  }

  content() {
    return { format: FORMAT, version: 1, name: this.name, sentences: this.sentences, after: this.after };
  }

  /** Keep a copy in this browser: the session, and what it takes to start it again if the service has forgotten it. */
  keep() {
    forThisBrowser.set(STORED, JSON.stringify({ id: this.id, pending: this.pending, ...this.content() }));
  }

  /** Close the document; return what `restore` needs to bring it back. */
  close() {
    const closed = { id: this.id, pending: null, ...this.content() };
    forThisBrowser.remove(STORED);
    this.#set({});
    return closed;
  }

  restore(closed) {
    this.#set(closed);
    this.keep();
  }

  /** Continue where this browser left off; return whether there was anything. */
  async resume() {
    let stored;
    try {
      stored = JSON.parse(forThisBrowser.get(STORED));
    } catch {
      return false;
    }
    if (!stored?.id) return false;
    this.#set(stored);
    try {
      await this.synchronize();
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) throw error;
      await this.start(stored);
    }
    return this.sentences.length > 0 || this.pending !== null;
  }

  /** Start from a file that `content` was saved to. */
  async load(text, name) {
    let content;
    try {
      content = JSON.parse(text);
    } catch {
      content = null;
    }
    const wrong = new Error(`${name} is not a document that was saved on this page`);
    if (content?.format !== FORMAT || !Array.isArray(content.sentences)) throw wrong;
    const { sentences, after } = content;
    await this.start({ name: String(content.name ?? ""), sentences, after }).catch((error) => {
      throw error.status === 400 && !/API key/.test(error.message) ? wrong : error;
    });
  }
}

/** Return what follows some sentences in the text that they are from; they have one blank for a line break. */
function textAfter(text, sentences) {
  let rest = text;
  for (const { source } of sentences) {
    const words = source.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const found = new RegExp(words.join("\\s+"), "u").exec(rest);
    if (found) rest = rest.slice(found.index + found[0].length);
  }
  return rest.trim();
}

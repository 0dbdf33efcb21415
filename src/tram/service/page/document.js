// The document on the page: a session of the service, and a copy of it in this browser to resume from.

import { forThisBrowser, forThisTab } from "./storage.js";

const STORED = "tram-document";
const FORMAT = "tram-document";
const DIFFERS = 412; // the service has more or fewer sentences than this page
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
    const { name, sentences = [], pending } = content;
    const after = gapAfter(content) ?? content.after ?? "";
    const { id } = await this.api.json("POST", "/sessions", { sentences, after });
    this.#set({ id, name, sentences, after, pending });
    this.keep();
  }

  /** Translate more text; yield the number of each sentence that is done. */
  async *translate(text, signal) {
    if (this.id === null) await this.start({ name: this.name });
    this.pending = { text, first: this.sentences.length };
    this.keep();
    const send = (q) => {
      const body = { q, first: this.sentences.length, alternatives: ALTERNATIVES, stream: true };
      return this.#follow("POST", "/translate", body, signal);
    };
    try {
      yield* send(text);
    } catch (error) {
      if (error.status !== DIFFERS) throw error;
      await this.reconcile(signal);
      if (this.untranslated) yield* send(this.untranslated);
    }
    this.pending = null;
    await this.synchronize();
  }

  /** Correct a sentence; yield {number, changed} of it and of each sentence that follows. */
  async *correct(number, target, signal) {
    yield* this.#follow("PUT", `/sentences/${number}`, { target, alternatives: ALTERNATIVES }, signal);
    await this.synchronize();
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
  async synchronize(signal) {
    const { sentences, after } = await this.api.json("GET", `/sessions/${this.id}`, undefined, signal);
    Object.assign(this, { sentences, after });
    this.keep();
  }

  /** Agree with the service on the sentences, after a lost connection for example: the longer document counts. */
  async reconcile(signal) {
    if (this.id === null) return;
    const own = { ...this };
    await this.synchronize(signal);
    if (this.sentences.length < own.sentences.length) await this.start(own);
  }

  /** What is still to be translated of the last text, because that was interrupted. */
  get untranslated() {
    return this.pending === null ? "" : remaining(this).trim();
  }

  /** Return the pairs of words that belong together, for some sentences. */
  async alignment(start, count) {
    const found = await this.api.json("GET", `/sessions/${this.id}/alignment?start=${start}&count=${count}`);
    return found.alignments;
  }

  content() {
    return { format: FORMAT, version: 1, name: this.name, sentences: this.sentences, after: this.after };
  }

  /**
   * Keep a copy: the session, and what it takes to start it again if the service has forgotten it.
   * A tab continues its own document; a new one continues the document that was used last.
   */
  keep() {
    const copy = JSON.stringify({ id: this.id, pending: this.pending, ...this.content() });
    for (const place of [forThisTab, forThisBrowser]) place.set(STORED, copy);
  }

  /** Close the document; return what `restore` needs to bring it back. */
  close() {
    const closed = { id: this.id, pending: null, ...this.content() };
    forThisTab.set(STORED, "null");
    if (stored(forThisBrowser)?.id === this.id) forThisBrowser.remove(STORED);
    this.#set({});
    return closed;
  }

  restore(closed) {
    this.#set(closed);
    this.keep();
  }

  /** Continue where this tab or this browser left off. */
  async resume() {
    const copy = stored(forThisTab.get(STORED) === null ? forThisBrowser : forThisTab);
    if (!copy?.id) return;
    this.#set(copy);
    try {
      await this.reconcile();
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) throw error;
      await this.start(copy);
    }
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

/** Return the document that was kept, or null. */
function stored(place) {
  try {
    return JSON.parse(place.get(STORED));
  } catch {
    return null;
  }
}

/** Return what follows the translated sentences in the text that they are from; they have one blank for a line break. */
function remaining({ sentences, pending: { text, first } }) {
  let rest = text;
  for (const { source } of sentences.slice(first)) {
    const words = source.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const found = new RegExp(words.join("\\s+"), "u").exec(rest);
    if (found) rest = rest.slice(found.index + found[0].length);
  }
  return rest;
}

/** Return the blanks and line breaks after the last sentence of an interrupted translation; undefined for none. */
function gapAfter(content) {
  if (!content.pending || content.sentences.length <= content.pending.first) return undefined;
  return /^\s*/.exec(remaining(content))[0];
}

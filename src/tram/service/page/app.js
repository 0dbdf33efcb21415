// The page: connects the document, its view and the controls.

import { Api } from "./api.js";
import { TramDocument } from "./document.js";
import { Panel } from "./panel.js";
import { forThisBrowser, forThisTab } from "./storage.js";
import { View } from "./view.js";

const THEMES = ["automatic", "light", "dark"];
const TEXT_FILE = /\.(txt|text)$/i;
const SAVED_FILE = /\.tram\.json$/i;
const ALIGNED_AT_ONCE = 20;
const PATIENCE = 3000; // milliseconds for the service to say what it has, after a translation was interrupted
const COMMON_FORMATS = ["docx", "odt", "epub", "html", "md", "txt", "po", "xliff", "tmx", "srt", "vtt"];
const EXAMPLE = `Good morning, Mr Weber.

The new printer is in the office. It is very fast. Do you need it today? You do not need a password.

I have a question, Mr Weber. Where is the old camera? Do you still need it? Its battery is empty. You know its price.`;

const $ = (id) => document.getElementById(id);
const api = new Api(() => forThisTab.get("tram-key") ?? "");
const doc = new TramDocument(api);
let settings, view, panel;
let working = null; // what is under way: its AbortController, and `done`, a promise of its end
let closed = null; // the document before "New", for "Undo"

// Status.

function say(text, failed = false) {
  $("status").textContent = text;
  $("status").classList.toggle("failed", failed);
  $("undo").hidden = true;
}

function showProgress(value) {
  $("progress").hidden = value === null;
  if (value === undefined) $("progress").removeAttribute("value");
  else if (value !== null) $("progress").value = value;
}

/** Run something that takes a while: one at a time, with a button to stop it, and errors as a sentence. */
async function work(task) {
  const before = working;
  const own = (working = { controller: new AbortController() });
  own.done = before ? before.done.then(() => run(task, own)) : run(task, own);
  before?.controller.abort();
  return own.done;
}

async function run(task, own) {
  $("stop").hidden = false;
  try {
    if (!settings) await configure();
    await task(own.controller.signal);
  } catch (error) {
    if (error.name === "AbortError") say("Stopped");
    else {
      if (error.status === 403 || /API key/.test(error.message)) askForKey();
      say(error.message, true);
    }
  } finally {
    if (working === own) {
      working = null;
      $("stop").hidden = true;
    }
    showProgress(null);
    view?.settle();
  }
}

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

// The document.

function showDocument() {
  const exists = doc.sentences.length > 0;
  $("start").hidden = exists;
  $("document").hidden = !exists;
  for (const id of ["new", "open", "result"]) $(id).hidden = !exists;
}

function redraw() {
  view.clear();
  refresh();
  showDocument();
}

/** Show what is not shown yet of the document; the marks of sentences that are the same stay. */
function refresh() {
  view.update(doc.sentences, doc.after);
}

/** Guess how many sentences a text has, for the progress bar only. */
const estimate = (text) => Math.max(1, (text.match(/[.!?…。！？]+["'”’)]*(\s|$)|\n\s*\S/g) ?? []).length);

const translate = (field) =>
  work(async (signal) => {
    const text = field.value;
    if (!text.trim()) return say("There is nothing to translate yet", true);
    const expected = estimate(text);
    let done = 0;
    say("Translating…");
    showProgress(0);
    try {
      for await (const { number } of doc.translate(text, signal)) {
        showThrough(number);
        if (done++ === 0) showDocument();
        showProgress(Math.min(done / expected, 0.98));
      }
    } catch (error) {
      await doc.reconcile(AbortSignal.timeout(PATIENCE)).catch(() => {});
      if (doc.sentences.length) showRest();
      throw error;
    }
    if (!doc.sentences.length) {
      doc.close(); // its next text is another document
      return say("The text has no words to translate", true);
    }
    refresh();
    $("more-text").value = "";
    say(count(doc.sentences.length, "sentence"));
  });

/** Show a sentence that is done, after those before it. */
function showThrough(number, changed = false) {
  for (let next = view.count; next < number; next++) view.show(next, doc.sentences[next]);
  view.show(number, doc.sentences[number], changed);
}

/** Show the document, and offer what is not translated yet for the next request. */
function showRest() {
  redraw();
  if (doc.untranslated) $("more-text").value = doc.untranslated;
}

async function correct(number, target) {
  const isTranslating = working !== null;
  await work(async (signal) => {
    const following = doc.sentences.length - number;
    let done = 0, changed = 0;
    say("Reading your correction…");
    view.wait(number + 1);
    for await (const event of doc.correct(number, target, signal)) {
      const isLater = event.number > number;
      showThrough(event.number, isLater && event.changed);
      changed += isLater && event.changed;
      showProgress(++done / following);
    }
    refresh();
    say(changed ? `${count(changed, "later sentence")} changed` : "No later sentence changed");
  });
  const sentence = doc.sentences[number];
  if (sentence && sentence.target !== target) panel.open(number, { ...sentence, target }); // it did not arrive
  const rest = doc.untranslated;
  if (isTranslating && rest && $("more-text").value === rest) await translate($("more-text"));
}

const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** Get the alignment of a sentence and its neighbours, once. */
const asked = new Set();
async function align(number) {
  const start = number - (number % ALIGNED_AT_ONCE);
  const key = `${doc.id}/${start}`;
  if (view.alignments.has(number) || asked.has(key) || working || doc.id === null) return;
  asked.add(key);
  try {
    const found = await doc.alignment(start, ALIGNED_AT_ONCE);
    found.forEach((pairs, offset) => view.alignments.set(start + offset, pairs));
  } catch {
    // Words simply do not light up
  }
  asked.delete(key);
}

// Files.

function offer(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Return the text of a file in UTF-8; null if it is in another encoding, which the service may know. */
async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return null;
  }
}

async function openAll(files) {
  for (const file of files) await open(file);
}

const open = (file) =>
  work(async (signal) => {
    if (file.size > settings.fileLimit) {
      const limit = Math.round(settings.fileLimit / 1e6);
      throw new Error(`${file.name} is larger than ${limit} MB, the largest file that this service translates`);
    }
    if (SAVED_FILE.test(file.name)) {
      await doc.load(await file.text(), file.name);
      redraw();
      return say(`Opened ${file.name}`);
    }
    const text = TEXT_FILE.test(file.name) && !doc.sentences.length ? await textOf(file) : null;
    if (text !== null) {
      $("text").value = text;
      doc.name = file.name.replace(TEXT_FILE, "");
      $("text").focus();
      return say(text.trim() ? `Opened ${file.name}` : `${file.name} is empty`, !text.trim());
    }
    const form = new FormData();
    form.set("file", file);
    form.set("source", settings.language.source.code);
    form.set("target", settings.language.target.code);
    say(`Translating ${file.name}…`);
    showProgress();
    const answer = await api.json("POST", "/translate_file", form, signal);
    listFile(file.name, new URL(answer.translatedFileUrl).pathname);
    say(`${file.name} is translated`);
  });

function listFile(name, path) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  const translated = decodeURIComponent(path.slice(path.lastIndexOf("/") + 1)).replace(/^[0-9a-f]{32}\./, "");
  Object.assign(link, { href: path, download: translated, textContent: `Download ${translated}` });
  item.append(Object.assign(document.createElement("span"), { textContent: name }), link);
  $("file-list").prepend(item);
  $("files").hidden = false;
  link.focus();
}

// Theme.

function applyTheme() {
  const theme = forThisBrowser.get("tram-theme") ?? THEMES[0];
  const isDark = theme === "dark" || (theme === THEMES[0] && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").setAttribute("aria-label", `Color theme: ${theme}`);
  $("theme").title = `Color theme: ${theme}`;
  $("theme").firstElementChild.textContent = { automatic: "◐", light: "☀", dark: "☾" }[theme];
}

// Start.

async function configure() {
  const found = await api.json("GET", "/frontend/settings");
  const { source, target } = found.language;
  settings = found;
  for (const id of ["source", "source-name"]) $(id).textContent = source.name;
  for (const id of ["target", "target-name"]) $(id).textContent = target.name;
  $("model").textContent = settings.isShipped ? "" : `Model: ${settings.model}`;
  $("note").hidden = !settings.isShipped;
  const formats = COMMON_FORMATS.filter((format) => settings.supportedFilesFormat.includes(`.${format}`));
  $("formats").textContent = `Files come back in their own format: ${formats.join(", ")} and others.`;
  $("file").accept = [...settings.supportedFilesFormat, ".json"].join(",");
  $("key-form").hidden = !settings.keyRequired || Boolean(api.key());
  view = new View($("rows"), { source: source.code, target: target.code }, (n) => panel.open(n, doc.sentences[n]), align);
  panel = new Panel(view, correct);
}

/** Show the document of this tab or this browser, also if the service does not know of it or wants a key first. */
async function resume() {
  try {
    await doc.resume();
  } finally {
    if (doc.sentences.length) showRest();
    else if (doc.untranslated) $("text").value = doc.untranslated;
  }
  say(doc.sentences.length ? `Resumed: ${count(doc.sentences.length, "sentence")}` : "");
}

/** Show what another tab has changed in the same document. */
async function lookAgain() {
  if (working || !doc.sentences.length || panel.number !== null) return;
  await doc.reconcile(AbortSignal.timeout(PATIENCE)).catch(() => {});
  if (!working && panel.number === null) refresh();
}

function connect() {
  for (const id of ["text", "more-text"]) {
    $(id).form.addEventListener("submit", (event) => {
      event.preventDefault();
      translate($(id));
    });
    $(id).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $(id).form.requestSubmit();
    });
  }
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    forThisTab.set("tram-key", $("key").value.trim());
    $("key-form").hidden = true;
    work(async () => {
      await resume();
      say("The key is used until this tab is closed");
    });
    $(doc.sentences.length ? "more-text" : "text").focus();
  });
  $("example").addEventListener("click", () => {
    $("text").value = EXAMPLE;
    translate($("text"));
  });
  $("new").addEventListener("click", () =>
    work(async () => {
      panel.close();
      closed = doc.close();
      redraw();
      $("text").value = $("more-text").value = "";
      $("text").focus();
      say("The document was closed");
      $("undo").hidden = false;
    }),
  );
  $("undo").addEventListener("click", () => {
    doc.restore(closed);
    redraw();
    say(count(doc.sentences.length, "sentence"));
    view.focus(0);
  });
  $("copy").hidden = !navigator.clipboard; // pages without TLS may not, except on this machine
  $("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(doc.text).then(
      () => say("The translation was copied"),
      () => say("The browser does not allow copying; use Download", true),
    );
  });
  $("save").addEventListener("click", () => {
    offer(`${doc.name || "document"}.tram.json`, new Blob([JSON.stringify(doc.content())]));
  });
  $("download").addEventListener("click", () => {
    const name = `${doc.name || "translation"}.${settings.language.target.code}.txt`;
    offer(name, new Blob([doc.text], { type: "text/plain" }));
  });
  for (const id of ["open", "choose"]) $(id).addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => {
    openAll([...$("file").files]);
    $("file").value = "";
  });
  $("stop").addEventListener("click", () => {
    say("Stopping…");
    working?.controller.abort();
  });
  $("theme").addEventListener("click", () => {
    const theme = forThisBrowser.get("tram-theme") ?? THEMES[0];
    forThisBrowser.set("tram-theme", THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    applyTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  addEventListener("focus", lookAgain);
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  for (const type of ["dragleave", "drop"]) {
    addEventListener(type, () => document.body.classList.remove("dropping"));
  }
  addEventListener("drop", (event) => {
    event.preventDefault();
    const files = [...event.dataTransfer.files];
    const text = event.dataTransfer.getData("text/plain");
    if (files.length) openAll(files);
    else if (text) $(doc.sentences.length ? "more-text" : "text").value = text;
  });
}

applyTheme();
connect();
await work(resume);
document.documentElement.dataset.ready = "true";

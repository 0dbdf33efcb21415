// The page: connects the document, its view and the controls.

import { Api } from "./api.js";
import { TramDocument } from "./document.js";
import { Panel } from "./panel.js";
import { View } from "./view.js";

const THEMES = ["automatic", "light", "dark"];
const TEXT_FILE = /\.(txt|text)$/i;
const SAVED_FILE = /\.tram\.json$/i;
const ALIGNED_AT_ONCE = 20;
const COMMON_FORMATS = ["docx", "odt", "epub", "html", "md", "txt", "po", "xliff", "tmx", "srt", "vtt"];

const $ = (id) => document.getElementById(id);
const api = new Api(() => sessionStorage.getItem("tram-key") ?? "");
const doc = new TramDocument(api);
let settings, view, panel, working = null; // working: the AbortController of what is under way

// Status.

function say(text, failed = false) {
  $("status").textContent = text;
  $("status").classList.toggle("failed", failed);
}

function showProgress(value) {
  $("progress").hidden = value === null;
  if (value !== null) $("progress").value = value;
}

/** Run something that takes a while: one at a time, with a button to stop it, and errors as a sentence. */
async function work(task) {
  working?.abort();
  const own = (working = new AbortController());
  $("stop").hidden = false;
  try {
    await task(own.signal);
  } catch (error) {
    if (error.name === "AbortError") say("Stopped");
    else {
      if (error.status === 400 && /API key/.test(error.message)) $("key-form").hidden = false;
      if (error.status === 403) $("key-form").hidden = false;
      say(error.message, true);
    }
  } finally {
    if (working === own) {
      working = null;
      $("stop").hidden = true;
      showProgress(null);
      view?.settle();
    }
  }
}

// The document.

function showDocument() {
  const exists = doc.sentences.length > 0;
  $("start").hidden = exists;
  $("document").hidden = !exists;
  for (const id of ["new", "save", "download"]) $(id).hidden = !exists;
}

function redraw() {
  view.clear();
  doc.sentences.forEach((sentence, number) => view.show(number, sentence));
  showDocument();
}

/** Guess how many sentences a text has, for the progress bar only. */
const estimate = (text) => Math.max(1, (text.match(/[.!?…。！？]+["'”’)]*(\s|$)|\n\s*\S/g) ?? []).length);

const translate = (text) =>
  work(async (signal) => {
    if (!text.trim()) return say("There is nothing to translate yet", true);
    const expected = estimate(text);
    let done = 0;
    say("Translating…");
    showProgress(0);
    for await (const { number } of doc.translate(text, signal)) {
      view.show(number, doc.sentences[number]);
      if (done++ === 0) showDocument();
      showProgress(Math.min(done / expected, 0.98));
    }
    $("more-text").value = "";
    say(`${count(doc.sentences.length, "sentence")}`);
  });

const correct = (number, target) =>
  work(async (signal) => {
    const following = doc.sentences.length - number;
    let done = 0, changed = 0;
    say("Reading your correction…");
    view.wait(number + 1);
    for await (const event of doc.correct(number, target, signal)) {
      const isLater = event.number !== number;
      view.show(event.number, doc.sentences[event.number], isLater && event.changed);
      changed += isLater && event.changed;
      showProgress(++done / following);
    }
    say(changed ? `${count(changed, "later sentence")} changed` : "No later sentence changed");
  });

const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** Get the alignment of a sentence and its neighbours, once. */
const asked = new Set();
async function align(number) {
  const start = number - (number % ALIGNED_AT_ONCE);
  const key = `${doc.id}/${start}`;
  if (view.alignments.has(number) || asked.has(key) || working) return;
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

const open = (file) =>
  work(async (signal) => {
    if (SAVED_FILE.test(file.name)) {
      await doc.load(await file.text());
      redraw();
      return say(`Opened ${file.name}`);
    }
    if (TEXT_FILE.test(file.name) && !doc.sentences.length) {
      $("text").value = await file.text();
      $("text").focus();
      return say(`Read ${file.name}`);
    }
    const form = new FormData();
    form.set("file", file);
    form.set("source", $("source").value);
    form.set("target", $("target").value);
    say(`Translating ${file.name}…`);
    $("progress").hidden = false;
    $("progress").removeAttribute("value");
    const answer = await (await api.send("POST", "/translate_file", form, signal)).json();
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
  const theme = localStorage.getItem("tram-theme") ?? THEMES[0];
  const isDark = theme === "dark" || (theme === THEMES[0] && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").setAttribute("aria-label", `Color theme: ${theme}`);
  $("theme").title = `Color theme: ${theme}`;
  $("theme").firstElementChild.textContent = { automatic: "◐", light: "☀", dark: "☾" }[theme];
}

// Start.

async function configure() {
  settings = await api.json("GET", "/frontend/settings");
  const { source, target } = settings.language;
  $("source").replaceChildren(new Option(source.name, source.code));
  $("target").replaceChildren(new Option(target.name, target.code));
  $("source-name").textContent = source.name;
  $("target-name").textContent = target.name;
  $("model").textContent = `Model: ${settings.model}`;
  const formats = COMMON_FORMATS.filter((format) => settings.supportedFilesFormat.includes(`.${format}`));
  $("formats").textContent = `Files come back in their own format: ${formats.join(", ")} and others.`;
  $("file").accept = [...settings.supportedFilesFormat, ".json"].join(",");
  $("key-form").hidden = !settings.keyRequired || Boolean(api.key());
  view = new View($("rows"), { source: source.code, target: target.code }, (n) => panel.open(n, doc.sentences[n]), align);
  panel = new Panel(view, correct);
}

function connect() {
  $("start").addEventListener("submit", (event) => {
    event.preventDefault();
    translate($("text").value);
  });
  $("more").addEventListener("submit", (event) => {
    event.preventDefault();
    translate($("more-text").value);
  });
  for (const id of ["text", "more-text"]) {
    $(id).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $(id).form.requestSubmit();
    });
  }
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("tram-key", $("key").value.trim());
    $("key-form").hidden = true;
    say("The key is used until this tab is closed");
  });
  $("new").addEventListener("click", () => {
    working?.abort();
    panel.close();
    doc.forget();
    redraw();
    $("text").value = "";
    $("text").focus();
    say("");
  });
  $("save").addEventListener("click", () => offer("document.tram.json", new Blob([JSON.stringify(doc.content())])));
  $("download").addEventListener("click", () => {
    offer(`translation.${settings.language.target.code}.txt`, new Blob([doc.text], { type: "text/plain" }));
  });
  for (const id of ["open", "choose"]) $(id).addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => {
    const [file] = $("file").files;
    if (file) open(file);
    $("file").value = "";
  });
  $("stop").addEventListener("click", () => working?.abort());
  $("theme").addEventListener("click", () => {
    const theme = localStorage.getItem("tram-theme") ?? THEMES[0];
    localStorage.setItem("tram-theme", THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    applyTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  for (const type of ["dragleave", "drop"]) {
    addEventListener(type, () => document.body.classList.remove("dropping"));
  }
  addEventListener("drop", (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    const text = event.dataTransfer.getData("text/plain");
    if (file) open(file);
    else if (text) $("text").value = text;
  });
}

applyTheme();
connect();
await work(async () => {
  await configure();
  if (await doc.resume()) {
    redraw();
    say(`Resumed: ${count(doc.sentences.length, "sentence")}`);
  }
});
document.documentElement.dataset.ready = "true";

// How the document looks: rows of source and translation, sentences and words that light up together.

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

export class View {
  /**
   * @param {HTMLElement} rows where the document is shown
   * @param {{source: string, target: string}} languages their codes
   * @param {(number: number) => void} choose called when a sentence is chosen
   * @param {(number: number) => void} look called when a sentence is pointed at, to get its alignment
   */
  constructor(rows, languages, choose, look) {
    this.rows = rows;
    this.languages = languages;
    this.choose = choose;
    this.look = look;
    this.parts = []; // of each sentence: {from, to}
    this.alignments = new Map();
    for (const [type, on] of [["pointerover", true], ["focusin", true], ["pointerout", false], ["focusout", false]]) {
      rows.addEventListener(type, (event) => this.#near(event.target, on));
    }
    rows.addEventListener("click", (event) => this.#chosen(event.target));
    rows.addEventListener("keydown", (event) => this.#key(event));
  }

  get count() {
    return this.parts.length;
  }

  clear() {
    this.rows.replaceChildren();
    this.parts = [];
    this.alignments.clear();
  }

  /** Show a document as it is now; sentences that are shown already stay as they are, with their marks. */
  update(sentences, after) {
    const isOther = (part, n) => part.from.textContent !== sentences[n]?.source;
    if (this.parts.some(isOther)) this.clear();
    sentences.forEach((sentence, number) => {
      const part = this.parts[number];
      const isCorrected = sentence.kind === "corrected";
      const isSame = part?.to.textContent === sentence.target && part.to.classList.contains("corrected") === isCorrected;
      if (!isSame) this.show(number, sentence);
    });
    this.#removeEnd();
    for (const line of linesOf(after)) this.#addLine(line, "end");
  }

  /** Show a sentence, new or changed. */
  show(number, sentence, changed = false) {
    if (!this.parts[number]) this.#add(number, sentence);
    const { from, to } = this.parts[number];
    fill(from, sentence.source);
    fill(to, sentence.target);
    to.classList.toggle("corrected", sentence.kind === "corrected");
    to.classList.toggle("changed", changed);
    to.classList.remove("waiting");
    const note = changed ? "changed: " : sentence.kind === "corrected" ? "corrected: " : "";
    to.setAttribute("aria-label", `Sentence ${number + 1}, ${note}${sentence.target || "empty"}`);
    this.alignments.delete(number);
  }

  /** Grey out the sentences that are being translated again. */
  wait(first) {
    for (const part of this.parts.slice(first)) part?.to.classList.add("waiting");
  }

  settle() {
    for (const part of this.parts) part?.to.classList.remove("waiting");
  }

  row(number) {
    return this.parts[number].to.closest(".pairrow");
  }

  focus(number) {
    this.parts[number]?.to.focus();
  }

  expanded(number, isOpen) {
    this.parts[number]?.to.setAttribute("aria-expanded", String(isOpen));
    this.parts[number]?.from.classList.toggle("open", isOpen);
  }

  #add(number, sentence) {
    const isContext = sentence.kind === "context";
    this.#removeEnd();
    if (!this.rows.lastElementChild?.classList.contains("pairrow") || sentence.before.includes("\n")) {
      this.#addRow(sentence.before);
    }
    const row = this.rows.lastElementChild;
    const from = make("span", "sentence");
    const to = make("span", "sentence");
    to.setAttribute("role", "button");
    to.setAttribute("aria-expanded", "false");
    to.tabIndex = this.parts.some(Boolean) ? -1 : 0; // one stop for Tab; the arrows go from sentence to sentence
    for (const element of [from, to]) {
      element.dataset.number = number;
      element.dir = "auto"; // also keeps marks of direction in one sentence from turning the next
    }
    if (!isContext) {
      row.querySelector(".from").append(from, " ");
      row.querySelector(".to").append(to, " ");
    }
    this.parts[number] = { from, to };
  }

  /** Begin a row, after the lines without words before it; `before` is the text since the previous sentence. */
  #addRow(before) {
    const last = before.lastIndexOf("\n") + 1;
    for (const line of linesOf(before.slice(0, last))) this.#addLine(line);
    const row = this.#addLine(before.slice(last).trim());
    if (/\n\s*\n/.test(before)) row.classList.add("gap");
  }

  /** Add a line that has no sentence yet: a bullet, or signs that are not translated. */
  #addLine(mark, className = "") {
    const row = make("div", `pairrow ${className}`);
    for (const [name, language] of [["from", this.languages.source], ["to", this.languages.target]]) {
      const side = make("p", `side ${name}`);
      side.dir = "auto";
      side.lang = language;
      if (mark) side.append(make("span", "mark", mark));
      row.append(side);
    }
    this.rows.append(row);
    return row;
  }

  /** Remove what was shown after the last sentence. */
  #removeEnd() {
    while (this.rows.lastElementChild?.classList.contains("end")) this.rows.lastElementChild.remove();
  }

  #near(target, on) {
    const sentence = target.closest?.(".sentence");
    if (!sentence) return;
    const number = Number(sentence.dataset.number);
    const { from, to } = this.parts[number];
    from.classList.toggle("near", on);
    to.classList.toggle("near", on);
    for (const word of this.rows.querySelectorAll(".word.near")) word.classList.remove("near");
    if (!on) return;
    this.look(number);
    const word = target.closest(".word");
    if (word) this.#nearWords(word, from, to, this.alignments.get(number));
  }

  #nearWords(word, from, to, pairs) {
    const index = [...word.parentElement.querySelectorAll(".word")].indexOf(word);
    const isSource = word.parentElement === from;
    const others = (pairs ?? []).filter((pair) => pair[isSource ? 0 : 1] === index).map((pair) => pair[isSource ? 1 : 0]);
    const words = (isSource ? to : from).querySelectorAll(".word");
    word.classList.add("near");
    for (const other of others) words[other]?.classList.add("near");
  }

  #chosen(target) {
    const sentence = target.closest?.(".sentence");
    if (sentence && !getSelection().toString()) this.choose(Number(sentence.dataset.number));
  }

  #key(event) {
    const sentence = event.target.closest?.(".to .sentence");
    if (!sentence || event.target !== sentence) return;
    const number = Number(sentence.dataset.number);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(number);
      return;
    }
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -number, End: this.parts.length - 1 - number };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = this.parts[number + steps[event.key]]?.to;
    if (!next) return;
    sentence.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

/** Return the lines of a text between sentences that are not blank. */
const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** Fill a sentence with its words, each an element of its own. */
function fill(sentence, text) {
  const parts = text.split(/(\s+)/).filter(Boolean);
  sentence.replaceChildren(...parts.map((part) => (part.trim() ? make("span", "word", part) : part)));
}

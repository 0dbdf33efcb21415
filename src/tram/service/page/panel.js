// The panel of one sentence: its source, a field to correct the translation, and the other translations.

const shown = (score) => score.toFixed(2).replace("-", "−");

/** Makes a field as high as its text: on a phone a sentence has more lines than the field's two. */
function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}

export class Panel {
  /** @param {(number: number, target: string) => void} apply called with a correction */
  constructor(view, apply) {
    this.view = view;
    this.apply = apply;
    this.number = null;
    this.form = null;
  }

  open(number, sentence) {
    const wasOpen = this.number === number;
    this.close();
    if (wasOpen) return;
    this.number = number;
    const content = document.getElementById("panel-template").content.cloneNode(true);
    this.form = content.querySelector("form");
    const field = this.form.querySelector("textarea");
    this.form.querySelector(".panel-source").textContent = sentence.source;
    field.value = sentence.target;
    const list = this.form.querySelector("ul");
    for (const option of sentence.alternatives) list.append(this.#option(option, field));
    if (sentence.score !== null) this.form.querySelector("h2 .score").textContent = `${shown(sentence.score)} for the one above`;
    this.form.querySelector(".options").hidden = sentence.alternatives.length === 0;
    this.form.querySelector(".cancel").addEventListener("click", () => this.close(true));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit(field.value);
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close(true);
      if (event.key === "Enter" && event.target === field && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.#submit(field.value);
      }
    });
    this.view.row(number).after(this.form);
    this.view.expanded(number, true);
    field.addEventListener("input", () => fit(field));
    fit(field);
    field.focus();
    this.form.scrollIntoView({ block: "nearest" });
  }

  close(giveBackFocus = false) {
    if (this.number === null) return;
    const number = this.number;
    this.view.expanded(number, false);
    this.form.remove();
    this.number = null;
    if (giveBackFocus) this.view.focus(number);
  }

  #submit(target) {
    const number = this.number;
    this.close(true);
    this.apply(number, target.trim().replace(/\s*\n\s*/g, " "));
  }

  #option({ text, score }, field) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.append(Object.assign(document.createElement("span"), { textContent: text, dir: "auto" }));
    const number = document.createElement("span");
    number.className = "score";
    number.textContent = shown(score);
    number.title = "log-probability per subword; closer to 0 is more likely";
    button.append(number);
    button.addEventListener("click", () => {
      field.value = text;
      fit(field);
      field.focus();
    });
    item.append(button);
    return item;
  }
}

// A tab: its editors, the command of the view that is shown, and its output.

import { TABS } from "./commands.js";
import { editor, mark, replace, result } from "./editor.js";

const VERDICTS = { 0: "fabric", 1: "not on the fabric", 3: "the log does not show the network" };

export class Tab {
  dropped = [];
  #changes = 0;

  constructor(panel, runner, others) {
    Object.assign(this, { panel, runner, others, ...TABS[panel.id] });
    this.editors = {};
    for (const parent of panel.querySelectorAll(".editor")) {
      const { name, label, language } = parent.dataset;
      this.editors[name] = editor(parent, label, language, () => this.edited());
    }
    this.policies = panel.querySelector(".policies");
    this.policies?.addEventListener("change", () => this.update());
    this.progress = panel.querySelector("progress");
    this.#addResults(panel.querySelector(".results"));
    panel.querySelector(".files")?.addEventListener("change", ({ target }) => this.drop([...target.files]));
    panel.addEventListener("dragover", (event) => event.preventDefault());
    panel.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length || panel.id !== "log") return;
      event.preventDefault();
      this.drop([...event.dataTransfer.files]);
    });
  }

  #addResults(parent) {
    const bar = element("div", { className: "bar" });
    this.view = Object.keys(this.views)[0];
    this.buttons = Object.keys(this.views).map((name) => {
      const button = element("button", { type: "button", textContent: name });
      button.addEventListener("click", () => this.show(name));
      return button;
    });
    this.verdict = element("strong", { className: "verdict" });
    const copy = element("button", { type: "button", textContent: "Copy" });
    copy.addEventListener("click", () => navigator.clipboard.writeText(this.output.state.doc.toString()));
    const download = element("button", { type: "button", textContent: "Download" });
    download.addEventListener("click", () => this.#download());
    bar.append(...this.buttons, this.verdict, copy, download);
    const output = element("div", { className: "output" });
    this.report = element("pre", { className: "report", tabIndex: 0, ariaLabel: "Report" });
    parent.append(bar, output, this.report);
    this.output = result(output, "Result");
    this.#mark(this.view);
  }

  #mark(name) {
    this.view = name;
    this.buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === name)));
  }

  show(name) {
    this.#mark(name);
    return this.update();
  }

  // A change by a person: a text that is written takes the place of dropped files.
  edited() {
    if (this.panel.id === "log" && this.texts().text) this.dropped = [];
    this.update();
  }

  drop(files) {
    this.dropped = files;
    replace(this.editors.text, "");
    return this.update();
  }

  texts() {
    return Object.fromEntries(Object.entries(this.editors).map(([name, view]) => [name, view.state.doc.toString()]));
  }

  // Replaces the texts of a tab, and runs its command once.
  load({ texts, policy }) {
    this.#changes = Infinity;
    if (this.policies && policy !== undefined) this.policies.value = policy;
    for (const [name, view] of Object.entries(this.editors)) replace(view, texts[name] ?? "");
    this.#changes = 0;
    this.dropped = [];
    return this.update();
  }

  async update() {
    if (this.panel.hidden || this.#changes === Infinity) return;
    const change = ++this.#changes;
    const inputs = { ...this.texts(), policy: this.policies?.value ?? this.texts().policy };
    if (inputs.policy === "own") inputs.ownPolicy = this.others().policy.texts().policy;
    const files = this.files(inputs, this.dropped);
    const output = await this.#run(this.views[this.view](inputs, files), files);
    if (change !== this.#changes) return;
    this.#print(output);
    for (const [name, command] of Object.entries(this.marks)) {
      const found = await this.runner.run(command(inputs), files);
      if (change !== this.#changes) return;
      mark(this.editors[name], found.out ? JSON.parse(found.out) : []);
    }
  }

  async #run(args, files) {
    const total = Object.values(files).reduce((sum, file) => sum + (file.size ?? 0), 0);
    let sum = 0;
    this.progress && (this.progress.hidden = !total);
    const output = await this.runner.run(args, files, (bytes) => (this.progress.value = (sum += bytes) / total));
    this.progress && (this.progress.hidden = true);
    return output;
  }

  #print({ status, out, errors }) {
    replace(this.output, out);
    this.report.textContent = errors;
    this.report.hidden = !errors;
    this.panel.dataset.status = status;
    this.verdict.textContent = this.panel.id === "log" ? (VERDICTS[status] ?? "") : status > 0 ? "see the report" : "";
  }

  #download() {
    const blob = new Blob([this.output.state.doc.toString()]);
    const anchor = element("a", { href: URL.createObjectURL(blob), download: `${this.panel.id}-${this.view}.txt` });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  }
}

export function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

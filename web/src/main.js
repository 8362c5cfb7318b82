// The page: tabs, examples and links.

import examples from "examples";

import { fromFragment, toFragment } from "./link.js";
import { Runner } from "./runner.js";
import { Tab, element } from "./tab.js";

const state = document.querySelector("#state");
const runner = new Runner("program.wasm");
const tabs = {};
for (const panel of document.querySelectorAll("[role=tabpanel]")) tabs[panel.id] = new Tab(panel, runner, () => tabs);
const buttons = [...document.querySelectorAll("[role=tab]")];
const shown = () => Object.values(tabs).find((tab) => !tab.panel.hidden);

function show(name, update = true) {
  for (const button of buttons) {
    const isShown = button.id === `tab-${name}`;
    button.setAttribute("aria-selected", String(isShown));
    button.tabIndex = isShown ? 0 : -1;
    tabs[button.getAttribute("aria-controls")].panel.hidden = !isShown;
  }
  return update && tabs[name].update();
}

for (const [at, button] of buttons.entries()) {
  button.addEventListener("click", () => show(button.getAttribute("aria-controls")));
  button.addEventListener("keydown", ({ key }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    const next = buttons[(at + step + buttons.length) % buttons.length];
    show(next.getAttribute("aria-controls"));
    next.focus();
  });
}

// Fills a list of choices, and calls `chosen` with the one that a person takes.
function choices(select, names, chosen) {
  select.replaceChildren(...names.map(([value, label]) => element("option", { value, textContent: label })));
  if (chosen) select.addEventListener("change", () => select.value && chosen(select.value));
}

// The files that the program prints for a policy of one's own that extends a built-in one.
async function extension(base) {
  const { files } = await runner.run(["policy", "new", "--extends", base, "--name", "policy"], {});
  return { policy: files["policy.yaml"], cases: files["tests/policy.yaml"] };
}

async function fill() {
  const { out } = await runner.run(["policy", "list", "-o", "json"], {});
  const policies = JSON.parse(out).map(({ name }) => [name, name]);
  choices(tabs.manifest.policies, [["", "the nodes decide"], ...policies, ["own", "that of the tab “A policy”"]]);
  const titles = (list) => list.map(({ title }, at) => [at, title]);
  for (const name of ["log", "manifest"]) {
    const select = tabs[name].panel.querySelector(".examples");
    choices(select, titles(examples[name]), (at) => tabs[name].load(examples[name][at]));
  }
  const machines = tabs.manifest.panel.querySelector(".machines");
  choices(machines, [["", "none"], ...titles(examples.nodes)], (at) => {
    tabs.manifest.load({ policy: "", texts: { ...tabs.manifest.texts(), nodes: examples.nodes[at].text } });
  });
  const bases = policies.flatMap(([name]) => [[name, `extend ${name}`], [`${name} `, `${name} as it is`]]);
  const load = async (choice) => {
    const { manifest } = examples.manifest.find(({ policy }) => policy === choice.trim())?.texts ?? examples.manifest[0].texts;
    const texts = choice.endsWith(" ")
      ? { policy: (await runner.run(["policy", "show", choice.trim(), "--source"], {})).out }
      : await extension(choice);
    return tabs.policy.load({ texts: { manifest, ...texts } });
  };
  choices(tabs.policy.panel.querySelector(".examples"), bases, load);
  return load;
}

async function open() {
  document.querySelector("#commit").textContent = examples.commit;
  const content = location.hash.length > 1 ? await fromFragment(location.hash.slice(1), Object.keys(tabs)) : undefined;
  show(content?.tab ?? "log", false);
  // It needs nothing that the program has to be asked for.
  if (!content) await tabs.log.load(examples.log[0]);
  const load = await fill();
  for (const name of ["log", "manifest"]) if (name !== content?.tab) await tabs[name].load(examples[name][0]);
  if (content?.tab !== "policy") await load("aws-efa");
  if (content) await tabs[content.tab].load(content);
  state.textContent = "Ready";
}

document.querySelector("#link").addEventListener("click", async () => {
  const tab = shown();
  try {
    const content = { tab: tab.panel.id, policy: tab.policies?.value, texts: tab.texts() };
    history.replaceState(null, "", `#${await toFragment(content)}`);
    await navigator.clipboard.writeText(location.href);
    state.textContent = "The link is copied";
  } catch (error) {
    state.textContent = `No link: ${error.message}`;
  }
});

open().catch((error) => (state.textContent = `The page cannot start: ${error.message}`));

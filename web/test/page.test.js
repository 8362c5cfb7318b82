// Acts on the page as a person does, in Chromium. `PAGE` is the folder that `web/build` has made, `PROGRAM` the command
// to compare with, and `SCREENSHOTS` a folder for pictures of each tab.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { brotliCompressSync } from "node:zlib";

import { chromium } from "playwright-core";

import { TABS } from "../src/commands.js";
import { toFragment } from "../src/link.js";
import { inputs } from "./inputs.js";
import { serve } from "./server.js";

const { PAGE, PROGRAM, SCREENSHOTS, CHROMIUM = "/usr/bin/chromium" } = process.env;
assert.ok(PAGE && PROGRAM, "PAGE and PROGRAM are missing");
// A machine that does other work at the same time takes longer.
const SLOWNESS = Number(process.env.SLOWNESS ?? 1);
const OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];

const repository = new URL("../../", import.meta.url);
const workload = (name) => readFileSync(new URL(`tests/workloads/${name}.yaml`, repository), "utf8");

let server, browser, context, page, requests, problems;

before(async () => {
  server = await serve(PAGE);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: OPTIONS });
  context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
});

after(async () => {
  await browser.close();
  server.close();
});

// Opens the page anew, with a content, and waits until it is ready.
async function open(content, options = {}) {
  await page?.close();
  page = await context.newPage();
  if (options.dark) await page.emulateMedia({ colorScheme: "dark" });
  [requests, problems] = [[], []];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("dialog", (dialog) => problems.push(`a dialog: ${dialog.message()}`) && dialog.dismiss());
  const fragment = content ? `#${await toFragment(content)}` : "";
  await page.goto(server.url + fragment);
  if (options.ready !== false) await ready();
}

const ready = () => page.waitForFunction(() => document.querySelector("#state").textContent === "Ready");
const panel = () => page.locator("[role=tabpanel]:not([hidden])");
const shows = (text, part = ".output .cm-content") =>
  page.waitForFunction(
    ([text, part]) => document.querySelector(`[role=tabpanel]:not([hidden]) ${part}`)?.textContent.includes(text),
    [text, part],
    { timeout: 15_000 },
  );

// The whole result, as it is copied.
async function result() {
  await panel().getByRole("button", { name: "Copy" }).click();
  return page.evaluate(() => navigator.clipboard.readText());
}

async function paste(label, text) {
  const editor = panel().getByLabel(label, { exact: true });
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.evaluate((text) => navigator.clipboard.writeText(text), text);
  await page.keyboard.press("Control+v");
}

// What the command prints for the same files: its exit status, standard output and standard error.
function command(args, files) {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    const options = { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] };
    const script = '"$0" "$@" 2>errors; echo "status $?" >&2';
    const out = execFileSync("bash", ["-c", script, resolve(PROGRAM), ...args], options);
    return { out, errors: readFileSync(join(folder, "errors"), "utf8") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function picture(name) {
  if (!SCREENSHOTS) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

test("what is loaded is at most 2 MB, compressed", () => {
  const sizes = readdirSync(PAGE).map((file) => [file, brotliCompressSync(readFileSync(join(PAGE, file))).length]);
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  console.log(`compressed by brotli: ${total} bytes (${sizes.map((size) => size.join(" ")).join(", ")})`);
  assert.ok(total <= 2_000_000, `${total} bytes`);
});

test("the first result is there within a second of opening", async () => {
  await open(undefined, { ready: false });
  await shows("the data between nodes uses TCP");
  // Since the navigation began.
  const time = await page.evaluate(() => performance.now());
  console.log(`first result: ${time.toFixed(0)} ms`);
  assert.ok(time < 1000 * SLOWNESS, `${time} ms`);
  await ready();
  await picture("log");
});

test("a keystroke in a manifest has its result within 100 ms", async () => {
  const times = [];
  await open({ tab: "manifest", policy: "aws-efa", texts: { manifest: workload("deepseek-r1-lws") } });
  await shows("vpc.amazonaws.com/efa");
  const editor = panel().getByLabel("Manifest", { exact: true });
  await editor.click();
  await page.keyboard.press("Control+Home");
  for (let at = 0; at < 10; at++) {
    const name = `changed-${at}`;
    await page.keyboard.press("Control+Home");
    times.push(
      await page.evaluate(async (text) => {
        const pane = document.querySelector("#manifest .report");
        const seen = new Promise((resolve) => new MutationObserver(resolve).observe(pane, { childList: true }));
        const begin = performance.now();
        document.execCommand("insertText", false, text);
        await seen;
        return performance.now() - begin;
      }, `# ${name}\n`),
    );
  }
  const middle = times.sort((one, other) => one - other)[5];
  console.log(`a keystroke: ${middle.toFixed(0)} ms (median of ten, ${times.at(-1).toFixed(0)} at most)`);
  assert.ok(middle < 100 * SLOWNESS, `${times}`);
});

test("each tab shows what its command prints", async () => {
  await open();
  await page.getByRole("tab", { name: /manifest/ }).click();
  await shows("vpc.amazonaws.com/efa");
  await picture("manifest");
  await panel().getByRole("button", { name: "Lint" }).click();
  await shows("manifest.yaml:");
  await page.getByRole("tab", { name: /policy/ }).click();
  await panel().getByRole("button", { name: "Explanation" }).click();
  await shows("aws");
  await panel().getByRole("button", { name: "Cases" }).click();
  await shows("1 passed, 0 failed");
  await picture("policy");
  assert.deepEqual(problems, []);
});

test("sixty inputs give the bytes of the command", async () => {
  const list = inputs(repository);
  assert.equal(list.length, 60);
  for (const { tab, policy, texts } of list) {
    await open({ tab, policy, texts });
    const given = { policy: "", nodes: "", values: "", text: "", manifest: "", cases: "", ...texts };
    if (tab === "manifest") given.policy = policy;
    const files = TABS[tab].files(given, []);
    for (const [view, args] of Object.entries(TABS[tab].views)) {
      await page.evaluate(() => (document.querySelector("#state").textContent = ""));
      await panel().getByRole("button", { name: view, exact: true }).click();
      const expected = command(args(given, files), files);
      await page.waitForFunction(
        ([errors]) => document.querySelector("[role=tabpanel]:not([hidden]) .report").textContent === errors,
        [expected.errors],
      ).catch(() => {});
      const shown = await panel().locator(".report").textContent();
      const what = `${tab}, ${view}: ${JSON.stringify(texts).slice(0, 200)}`;
      assert.equal(shown, expected.errors, what);
      await eventually(async () => assert.equal(await result(), expected.out, what));
    }
  }
});

// Tries again until it succeeds, for at most five seconds: a result comes after a click.
async function eventually(attempt) {
  const end = performance.now() + 5000;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}

test("nothing is sent after the page is loaded", async () => {
  await open();
  const before = requests.length;
  await paste("Log of a job's pods", "secret\n".repeat(100));
  await shows("unknown");
  await page.getByRole("tab", { name: /policy/ }).click();
  await page.getByRole("button", { name: /link/ }).click();
  await page.waitForTimeout(500);
  assert.deepEqual(requests.slice(before), []);
  assert.ok(requests.every((url) => url.startsWith(server.url)), requests.join(" "));
  // Even a script of the page could not send anything elsewhere.
  const sent = await page.evaluate(() => fetch("http://127.0.0.2:9/").then(() => "sent", (error) => String(error)));
  assert.match(sent, /TypeError/);
});

test("an input that tries to run a script is text", async () => {
  const attack = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
  await open();
  await paste("Log of a job's pods", `${attack} NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n`);
  await page.getByRole("tab", { name: /manifest/ }).click();
  await paste("Manifest", `kind: Pod\nmetadata: {name: '${attack}'}\nspec: {containers: [{name: "${attack.replaceAll('"', "'")}"}]}\n`);
  await panel().getByRole("button", { name: "Lint" }).click();
  await page.getByRole("tab", { name: /policy/ }).click();
  await paste("Policy", `kind: ${attack}\n`);
  await shows("error");
  await page.waitForTimeout(300);
  assert.deepEqual(problems, []);
  assert.equal(await page.locator("img").count(), 0);
  const hostile = await toFragment({ tab: "constructor", policy: attack, texts: { manifest: attack, __proto__: "x" } });
  await page.goto("about:blank");
  await page.goto(`${server.url}#${hostile}`);
  await ready();
  assert.deepEqual(problems, []);
});

test("a log of 100 MB has its verdict, with a bar of its progress", async () => {
  const line = readFileSync(new URL("signatures/cases/13.log", repository));
  const noise = Buffer.from("step 1 loss 2.5 of a job that prints much\n".repeat(2500));
  const parts = Array.from({ length: 1000 }, () => noise);
  const file = join(mkdtempSync(join(tmpdir(), "log-")), "large-é.log");
  writeFileSync(file, Buffer.concat([line, ...parts]));
  await open();
  const begin = performance.now();
  await page.locator("#log .files").setInputFiles(file);
  await page.waitForFunction(() => document.querySelector("#log progress").value > 0.1);
  await picture("progress");
  await shows("the data between nodes uses TCP");
  await page.waitForFunction(() => document.querySelector("#log progress").hidden);
  console.log(`a log of ${(parts.length * noise.length) / 1e6} MB: ${(performance.now() - begin).toFixed(0)} ms`);
  rmSync(dirname(file), { recursive: true });
});

test("a deep expression and a large pod end with the words of the command", async () => {
  for (const [left, right] of [["(", ")"], ["[", "][0]"], ["!", ""], ["-", ""], ["{'a': ", "}.a"]]) {
    for (const levels of [20, 60, 64, 65, 100, 400]) {
      const when = `${left.repeat(levels)}true${right.repeat(levels)}`;
      const rule = `    - {name: deep, when: "${when}", pod: {metadata: {labels: {a: b}}}}\n`;
      const policy = `apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: policy}\nspec:\n  extends: aws-efa\n  description: deep\n  rules:\n${rule}`;
      await open({ tab: "policy", texts: { policy, manifest: workload("pod") } });
      const expected = command(["policy", "check", "policy.yaml"], { "policy.yaml": policy });
      await eventually(async () => assert.equal(await result(), expected.out, `${left} ${levels}`));
    }
  }
  const container = (at) => `  - {name: c${at}, image: x, resources: {limits: {nvidia.com/gpu: 1}}}\n`;
  const many = Array.from({ length: 10_000 }, (_, at) => container(at)).join("");
  const annotation = 'nmp.nvidia.com/enable-multi-node-networking: "true"';
  const manifest = `apiVersion: v1\nkind: Pod\nmetadata: {name: large, annotations: {${annotation}}}\nspec:\n  containers:\n${many}`;
  await open();
  await page.getByRole("tab", { name: /manifest/ }).click();
  await page.locator("#manifest .policies").selectOption("aws-efa");
  const begin = performance.now();
  await paste("Manifest", manifest);
  const files = { "manifest.yaml": manifest };
  const expected = command(["mutate", "-f", "manifest.yaml", "--policy", "aws-efa", "-o", "diff"], files);
  await page.waitForFunction(
    ([errors]) => document.querySelector("#manifest .report").textContent === errors,
    [expected.errors],
    { timeout: 30_000 },
  );
  console.log(`a pod of 10,000 containers: ${(performance.now() - begin).toFixed(0)} ms`);
});

test("a command that takes longer than ten seconds is ended, and the next one runs", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "log-")), "endless.log");
  writeFileSync(file, Buffer.alloc(400e6, "a line of a job that prints much\n"));
  await open();
  // The time passes faster for the limit.
  await page.evaluate(() => {
    const real = window.setTimeout;
    window.setTimeout = (work, time, ...rest) => real(work, time === 10_000 ? 1000 : time, ...rest);
  });
  await page.locator("#log .files").setInputFiles(file);
  await shows("longer than ten seconds", ".report");
  await paste("Log of a job's pods", "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n");
  await shows("unknown");
  rmSync(dirname(file), { recursive: true });
});

test("the keyboard alone suffices, and a link brings the content back", async () => {
  await open();
  await page.locator("#tab-log").focus();
  await page.keyboard.press("ArrowRight");
  await shows("vpc.amazonaws.com/efa");
  for (let at = 0; at < 40; at++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.getAttribute("aria-label") === "Manifest")) break;
  }
  await page.keyboard.press("Control+a");
  await page.keyboard.type("kind: Pod");
  await page.waitForFunction(() => !document.querySelector("#manifest .output .cm-content").textContent);
  // The keys Tab and Shift+Tab leave an editor.
  await page.keyboard.press("Tab");
  assert.notEqual(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Manifest");
  await page.locator("#link").press("Enter");
  await page.waitForFunction(() => document.querySelector("#state").textContent === "The link is copied");
  const link = await page.evaluate(() => navigator.clipboard.readText());
  await page.goto("about:blank");
  await page.goto(link);
  await ready();
  assert.equal(await panel().getByLabel("Manifest", { exact: true }).textContent(), "kind: Pod");
});

test("dark colors", async () => {
  await open(undefined, { dark: true });
  await page.getByRole("tab", { name: /manifest/ }).click();
  await shows("vpc.amazonaws.com/efa");
  await picture("manifest-dark");
});

// The page without a server, which scripts/page.sh leaves in build/page, beside the program.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { test } from "node:test";
import { Downloaded, Frame, kFolio, Stage, TraceOf, Until } from "../test/kit.mjs";

const kPage = new URL("../../build/page", import.meta.url).pathname;
const kPrompt = "One day a girl";
const kTypes = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

// Hands out files, and nothing else.
async function Files() {
  const server = createServer(({ url }, answer) => {
    const name = url === "/" ? "index.html" : url.slice(1);
    if (!readdirSync(kPage).includes(name)) return answer.writeHead(404).end();
    answer.writeHead(200, { "Content-Type": kTypes[extname(name)] });
    answer.end(readFileSync(join(kPage, name)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return { url: `http://127.0.0.1:${server.address().port}` };
}

function Folio(...args) {
  const { status, stdout, stderr } = spawnSync(kFolio, args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout;
}

const stage = Stage(async ({ workshop }) => {
  const run = workshop.Train("run", "--max-steps", "200");
  return { run, best: join(run, "best"), service: await Files() };
});
const Ready = (page) => page.locator(".state", { hasText: "ready" }).waitFor();

// Drops files on the page.
async function Drop(page, paths) {
  await Ready(page);
  const given = paths.map((path) => [path.split("/").pop(), readFileSync(path, "base64")]);
  await page.evaluate((given) => {
    const transfer = new DataTransfer();
    for (const [name, base64] of given) {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      transfer.items.add(new File([bytes], name));
    }
    dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
  }, given);
}

async function Slide(page, label, value) {
  await page.getByLabel(label, { exact: true }).fill(String(value));
}

async function Written(page) {
  await page.fill("#prompt", kPrompt);
  await Slide(page, "Temperature", 0);
  await Slide(page, "Tokens", 60);
  await page.click("#write");
  await page.locator("#stop").waitFor({ state: "detached" });
  await Ready(page);
  return page.getAttribute("#written", "data-text");
}

function WrittenByProgram(model) {
  const said = Folio(
    ...["generate", "--model", model, "--prompt", kPrompt, "--greedy", "--max-tokens", "60"],
    ...["--dtype", "fp32", "--threads", "1", "--quiet"],
  );
  return said.slice(kPrompt.length).replace(/\n$/, "");
}

test("a model that is dropped writes what the program writes", async () => {
  const gguf = join(stage.workshop.root, "model.gguf");
  Folio("convert", "--to", "gguf", stage.best, gguf);
  const expected = WrittenByProgram(stage.best);
  for (const files of [readdirSync(stage.best).map((name) => join(stage.best, name)), [gguf]]) {
    const page = await stage.Open("/");
    await Drop(page, files);
    await page.waitForSelector("#prompt");
    assert.equal(await Written(page), expected);
  }
});

test("attention is what the service has of it", async () => {
  const service = await stage.Serve("--model", stage.best, "--dtype", "fp32");
  const { numbers } = await Frame(`${await TraceOf(service, kPrompt)}/row?q=13&l=1`);
  const page = await stage.Open("/");
  await Drop(page, readdirSync(stage.best).map((name) => join(stage.best, name)));
  await page.fill("#prompt", kPrompt);
  await page.getByRole("tab", { name: "Attention" }).click();
  await page.locator("label:has-text('Layer') select").selectOption("1");
  await page.locator("label:has-text('Head') select").selectOption("1");
  const told = () => page.textContent("#told");
  await page.getByRole("heading", { name: "Layer 1, head 1" }).waitFor();
  await Ready(page);
  const weight = Number((await told()).match(/with ([\d.]+)/)[1]);
  assert.ok(Math.abs(weight - numbers[14 + 12]) < 1e-4, `${weight}, not ${numbers[14 + 12]}`);
});

test("what is not a model says so, and the page goes on", async () => {
  const page = await stage.Open("/");
  await Drop(page, [join(stage.best, "config.json")]);
  await page.locator(".failure").waitFor();
  await Drop(page, readdirSync(stage.best).map((name) => join(stage.best, name)));
  await page.waitForSelector("#prompt");
});

test("a text that is dropped teaches a model, which then writes and is saved", async () => {
  const page = await stage.Open("/");
  await Drop(page, [join(stage.workshop.root, "stories.txt")]);
  await page.locator("label:has-text('Size') select").selectOption("tiny");
  await Slide(page, "Steps", 100);
  await page.click("#train");
  await page.locator("#trained", { hasText: "100 steps" }).waitFor({ timeout: 120000 });
  const held = Number((await page.textContent("#losses")).match(/held out ([\d.]+)/)[1]);
  assert.ok(held < 2.9, `held out ${held}`);
  const saved = await Downloaded(page, () => page.click("text=Save as GGUF"));
  const gguf = join(stage.workshop.root, saved.name);
  writeFileSync(gguf, saved.bytes);
  await page.getByRole("tab", { name: "Writing" }).click();
  assert.equal(await Written(page), WrittenByProgram(gguf));
});

test("training stops when it is asked to, and leaves its model", async () => {
  const page = await stage.Open("/");
  await Drop(page, [join(stage.workshop.root, "stories.txt")]);
  await Slide(page, "Steps", 5000);
  await page.click("#train");
  await Until("a few steps", async () => /step [1-9]/.test(await page.textContent("#trained")));
  await page.click("#stop");
  await page.locator("#model", { hasText: "trained here" }).waitFor();
});

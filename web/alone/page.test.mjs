// The page without a server, which scripts/page.sh leaves in build/page, beside the program.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Downloaded, Frame, kFolio, Open, Stage, TraceOf, Until } from "../test/kit.mjs";
import { Drop, Files, Ready, Slide, Threads, Train, Written } from "./visit.mjs";

const kPrompt = "One day a girl";
const kTokens = 60;

function Folio(...args) {
  const { status, stdout, stderr } = spawnSync(kFolio, args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout;
}

// `service` sends no headers, `isolated` those that allow threads.
const stage = Stage(async ({ workshop }) => {
  const run = workshop.Train("run", "--max-steps", "200");
  const [service, isolated] = [await Files(false), await Files(true)];
  return { run, best: join(run, "best"), service, isolated };
});
const OpenIsolated = () => Open(`${stage.isolated.url}/`);

function WrittenByProgram(model) {
  const said = Folio(
    ...["generate", "--model", model, "--prompt", kPrompt, "--greedy", "--max-tokens", String(kTokens)],
    ...["--dtype", "fp32", "--threads", "1", "--quiet"],
  );
  return said.slice(kPrompt.length).replace(/\n$/, "");
}

test("a model that is dropped writes what the program writes", async () => {
  const gguf = join(stage.workshop.root, "model.gguf");
  Folio("convert", "--to", "gguf", stage.best, gguf);
  const expected = WrittenByProgram(stage.best);
  const directory = readdirSync(stage.best).map((name) => join(stage.best, name));
  for (const [page, files] of [
    [await stage.Open("/"), directory],
    [await stage.Open("/"), [gguf]],
    [await OpenIsolated(), directory],
    [await OpenIsolated(), [gguf]],
  ]) {
    await Drop(page, files);
    await page.waitForSelector("#prompt");
    assert.equal(await Written(page, kPrompt, kTokens), expected);
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

test("what is trained on one thread and on more is the same bytes, and writes the same", async () => {
  const all = [];
  for (const page of [await stage.Open("/"), await OpenIsolated()]) {
    const threads = await Threads(page);
    await Train(page, join(stage.workshop.root, "stories.txt"), "tiny", 100);
    const losses = await page.textContent("#losses");
    const saved = await Downloaded(page, () => page.click("text=Save as GGUF"));
    all.push({ threads, losses, saved, text: await Written(page, kPrompt, kTokens) });
  }
  const [one, more] = all;
  assert.equal(one.threads, "1");
  assert.equal(more.threads, String(Math.min(availableParallelism(), 8)));
  const held = Number(one.losses.match(/held out ([\d.]+)/)[1]);
  assert.ok(held < 2.9, `held out ${held}`);
  assert.equal(more.losses, one.losses);
  assert.ok(more.saved.bytes.equals(one.saved.bytes));
  const gguf = join(stage.workshop.root, one.saved.name);
  writeFileSync(gguf, one.saved.bytes);
  assert.equal(one.text, WrittenByProgram(gguf));
  assert.equal(more.text, one.text);
});

test("training stops when it is asked to, and leaves its model", async () => {
  for (const page of [await stage.Open("/"), await OpenIsolated()]) {
    await Drop(page, [join(stage.workshop.root, "stories.txt")]);
    await Slide(page, "Steps", 5000);
    await page.click("#train");
    await Until("a few steps", async () => /step [1-9]/.test(await page.textContent("#trained")));
    await page.click("#stop");
    await page.locator("#model", { hasText: "trained here" }).waitFor();
  }
});

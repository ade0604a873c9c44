// Who cannot see, who has a narrow screen, who has a key.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { Open, Stage, Write } from "./kit.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const kScreens = [
  "play",
  "play?tab=tokens",
  "play?tab=score",
  "attn?q=5&k=2&step=scores",
  "attn?q=5&k=2&step=softmax&j=max&view=table",
  "inside?l=1&q=3",
  "inside?v=pipeline",
  "inside?v=pipeline&p=probabilities",
  "inside?v=embeddings&id=101",
  "inside?v=positions",
  "runs",
  "runs?v=compare",
  "runs?v=samples",
];
const kChat = "play?m=taught";
const on = Stage(async ({ workshop, Serve }) => {
  const more = ["--set", "model.n_positions=64"];
  const model = workshop.Train("tiny", "--max-steps", "20", "--sample-every", "10", ...more);
  const taught = workshop.Teach("taught", "--max-steps", "300", ...more);
  const flags = ["--model", model, "--model", taught, "--runs", workshop.runs, "--dtype", "fp32"];
  return { model, service: await Serve(...flags) };
});

// Until a turn has left the context, and another is edited.
async function Talk(page) {
  for (let i = 0; i < 4; ++i) {
    await page.fill("#message", "Is it red?");
    await page.press("#message", "Enter");
    await page.waitForSelector("#ask");
  }
  await page.waitForSelector(".turns .forgotten");
  await page.locator(".said button").last().click();
  await page.locator(".answer .piece").nth(1).click();
}

async function Settle(page) {
  await page.waitForLoadState("networkidle", { timeout: 1500 }).catch(() => {});
  await page.waitForTimeout(250);
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing on any screen (${colorScheme})`, async () => {
    const page = await on.Open("/", {
      colorScheme,
      bypassCSP: true,
      reducedMotion: "reduce",
    });
    await Write(page, "The cat", 12);
    await page.locator(".piece:not(.given)").nth(2).click();
    const talked = "a conversation";
    const faults = [];
    for (const screen of [null, ...kScreens, kChat, talked]) {
      if (screen === talked) await Talk(page);
      else if (screen !== null)
        await page.evaluate((hash) => (location.hash = `#/${hash}`), screen);
      await Settle(page);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa"] }),
      );
      for (const { id, nodes } of violations)
        faults.push(
          `${screen ?? "written"}: ${id} at ${nodes
            .slice(0, 3)
            .map(({ target, failureSummary }) => `${target} ${failureSummary.split("\n")[1] ?? ""}`)
            .join("; ")}`,
        );
    }
    assert.deepEqual(faults, []);
  });
}

test("320 pixels are wide enough", async () => {
  const page = await on.Open("/", { viewport: { width: 320, height: 640 } });
  for (const screen of [...kScreens, kChat]) {
    await page.evaluate((hash) => (location.hash = `#/${hash}`), screen);
    await Settle(page);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320, screen);
  }
  await Talk(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320, "chat");
});

test("who is asked for a key gives it once, and it works", async () => {
  const keys = join(on.workshop.root, "keys");
  writeFileSync(keys, "secret-key-of-this-test\n");
  const locked = await on.Serve("--model", on.model, "--api-key-file", keys);
  const page = await Open(`${locked.url}/`, { allowed: [/401/] });
  await page.waitForSelector("#api-key");
  assert.equal(await page.locator("dialog .failure").count(), 0);
  await page.fill("#api-key", "wrong");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .failure >> text=does not accept this key");
  await page.fill("#api-key", "secret-key-of-this-test");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#prompt");
  await page.reload();
  await page.waitForSelector("#prompt");
});

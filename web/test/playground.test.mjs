// The page as the program serves it: what it may ask for, and the playground.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { Ask, Choose, Exact, Generate, Open, ReadSlowly, Says, Stage, Until, Write } from "./kit.mjs";

const on = Stage(async ({ workshop, Serve }) => {
  const model = workshop.Train("tiny", "--max-steps", "20", "--set", "model.n_positions=256");
  return { service: await Serve("--model", model, "--slots", "1", "--dtype", "fp32") };
});

test("the page comes from the program, asks nobody else and keeps its policy", async () => {
  const answer = await fetch(`${on.service.url}/app.js`);
  assert.match(answer.headers.get("content-security-policy") ?? "", /default-src 'self'/);
  const built = gunzipSync(readFileSync(new URL("../dist/app.js.gz", import.meta.url)));
  assert.ok(
    Buffer.from(await answer.arrayBuffer()).equals(built),
    "the program holds another page than web/dist: build it anew",
  );
  const page = await on.Open("/");
  for (const screen of ["play", "attn", "inside", "runs"]) {
    await page.goto(`${on.service.url}/#/${screen}`);
    await page.waitForSelector(`.rail a[aria-current="page"][href="#/${screen}"]`);
  }
  for (const key of ["1", "2", "3", "4", "t", "?"]) await page.keyboard.press(key);
  await page.waitForSelector("dialog[open] kbd");
});

test("a request by a foreign name is refused", async () => {
  const status = await new Promise((resolve, reject) => {
    request(`${on.service.url}/`, { headers: { Host: "evil.example" } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    })
      .on("error", reject)
      .end();
  });
  assert.equal(status, 403);
});

test("text streams with its speed, Stop frees the only slot, and the next request works", async () => {
  const page = await on.Open("/#/play");
  await page.fill("#prompt", "Once");
  // A slow reader: the text must not be over before Stop.
  await ReadSlowly(page, 60);
  await page.locator(".slider input").nth(5).fill("200");
  await page.keyboard.press("Escape");
  await page.locator("#prompt").press("Control+Enter");
  await page.waitForSelector(".piece:not(.given)", { state: "attached" });
  await Says(page, "#pace", /tokens\/s/);
  await page.keyboard.press("Escape");
  await page.waitForSelector("#generate");
  const written = await page.locator(".piece:not(.given)").count();
  assert.ok(written > 0 && written < 200, `${written} tokens`);
  await Until("the slot", async () =>
    /texts_running 0/.test(await (await fetch(`${on.service.url}/metrics`)).text()),
  );
  await page.reload();
  await Generate(page);
  assert.ok((await page.locator(".piece:not(.given)").count()) > 0);
});

test("a token opens with its alternatives by mouse and by keys, and one of them makes a branch", async () => {
  const page = await on.Open("/#/play");
  await Write(page, "The cat");
  const tokens = page.locator(".piece:not(.given)");
  await tokens.nth(3).hover();
  await page.waitForSelector(".token-panel .bar");
  assert.match(await page.textContent(".token-panel .bar >> nth=0"), /≈/);
  await tokens.nth(3).click();
  // Exact once locked: what the logits give, not what the list of ten gives.
  await Exact(page);
  const before = await tokens.allTextContents();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.i), String(7 + 4));
  await page.keyboard.press("Enter");
  await Until("the list has the focus", () =>
    page.evaluate(() => document.activeElement.classList.contains("bar")),
  );
  await page.locator(".bars li:not(.is-this) .bar").first().click();
  await page.waitForSelector(".takes");
  await page.waitForSelector("#stop", { state: "detached" });
  const branched = await tokens.allTextContents();
  assert.deepEqual(branched.slice(0, 4), before.slice(0, 4));
  assert.equal(await page.locator(".takes button").count(), 2);
  await page.keyboard.press("[");
  await Until(
    "the first take",
    async () => (await tokens.allTextContents()).join("") === before.join(""),
  );
});

test("sliders weigh a token's alternatives anew without asking for anything", async () => {
  const page = await on.Open("/#/play");
  await Write(page, "The cat");
  await page.locator(".piece:not(.given)").nth(2).click();
  await Exact(page);
  // The icon does not count: a browser fetches it for itself, when it likes.
  const asked = [];
  page.on("request", (request) => request.url().endsWith("/icon.svg") || asked.push(request.url()));
  await page.click("text=greedy");
  await Until(
    "one token alone",
    async () => (await page.locator(".bar-number.strong", { hasText: "100 %" }).count()) === 1,
  );
  assert.deepEqual(asked, []);
});

test("a text goes on beyond the context, and its last window is what the screens show", async () => {
  const model = on.workshop.Train("short", "--max-steps", "60");
  const short = await on.Serve("--model", model, "--dtype", "fp32");
  const page = await Open(`${short.url}/#/play`);
  await Write(page, "The cat sat", 50, { top_k: 5 });
  const tokens = page.locator(".piece:not(.given)");
  assert.equal(await tokens.count(), 50);
  await page.click("text=Continue");
  await Until("as many again", async () => (await tokens.count()) === 100);
  await page.waitForSelector("#stop", { state: "detached" });
  assert.equal(await page.locator(".failure").count(), 0);
  assert.match(await page.textContent("#pace"), /32\/32: the beginning has left it/);
  // A token was chosen by what the model saw then, not by what stands before it.
  for (const at of [10, 40, 60, 99]) {
    await tokens.nth(at).click();
    await page.waitForSelector(".bars .is-this");
    await Exact(page);
    assert.equal(
      await page.textContent(".bars .is-this .bar-number >> nth=0"),
      await page.textContent(".token-panel .facts dd >> nth=0"),
      `token ${at}`,
    );
  }
  await page.click("text=Look inside");
  await page.waitForSelector(".map-panel canvas");
  assert.equal(await page.locator(".strip .chip").count(), 32);
  const whole = await page.inputValue(".text-bar");
  const last = await page.locator(".strip .chip").allTextContents();
  assert.equal(last.join(""), [...whole].slice(-32).join("").replace(/ /g, "·").replace(/\n/g, "⏎"));
  assert.equal(await page.locator(".failure").count(), 0);
});

test("characters that tokens tear are whole in the end, and none is replaced", async () => {
  const page = await on.Open("/#/play");
  const prompt = "Größe 漢字 🙂👍🏽";
  await Choose(page, { max_tokens: 64, temperature: 2, top_k: 0, top_p: 1 });
  await page.fill("#prompt", prompt);
  await Generate(page);
  const shown = await page.textContent(".result .prose");
  assert.ok(shown.startsWith(prompt), shown);
  assert.ok(!shown.includes("\ufffd"), shown);
  await page.click("text=Tokens >> nth=0");
});

test("the address holds prompt and colours", async () => {
  const page = await on.Open("/#/play?p=Once+more&c=rank");
  assert.equal(await page.inputValue("#prompt"), "Once more");
  await page.fill("#prompt", "Again");
  await page.waitForURL((url) => url.hash.includes("p=Again"));
  assert.ok(
    await page.locator(".segments label", { hasText: "rank" }).locator("input").isChecked(),
  );
});

test("a text is scored as the service scores it, by itself, as it is typed", async () => {
  const page = await on.Open("/#/play?tab=score");
  const shows = async (text) => {
    const { perplexity, nats_per_token } = await Ask(on.service, "score", { text });
    await Until(`the scores of ${text}`, async () => {
      const [first, , third] = (await page.locator(".figures dd").allTextContents()).map((said) =>
        Number(said.replaceAll("\u202f", "")),
      );
      const bits = nats_per_token / Math.LN2;
      return Math.abs(first / perplexity - 1) < 1e-3 && Math.abs(third / bits - 1) < 1e-3;
    });
  };
  await shows("Once upon a time"); // the prompt
  await page.fill("textarea", "The little cat");
  await shows("The little cat");
  // The list begins with the token that has the least probability.
  const { ids, lp } = await Ask(on.service, "score", { text: "The little cat" });
  const least = ids.map((_, i) => i).filter((i) => lp[i] !== null).sort((a, b) => lp[a] - lp[b])[0];
  const list = page.locator("[aria-label='Least expected tokens'] .bar");
  assert.match(await list.first().getAttribute("title"), new RegExp(`^Token ${least}:`));
  await list.first().click();
  await page.waitForSelector(`.piece.chosen[data-i="${least}"]`);
});

test("a link that is opened in an open page brings its text", async () => {
  const page = await on.Open("/#/play");
  await page.fill("#prompt", "Something else");
  const follow = (hash) => page.evaluate((to) => (location.hash = to), hash);
  await follow("#/play?p=From+a+link");
  await Until("the prompt", async () => (await page.inputValue("#prompt")) === "From a link");
  for (const tab of ["score", "tokens"]) {
    await follow(`#/play?tab=${tab}&t=Text+of+${tab}`);
    await Until(tab, async () => (await page.inputValue(".prompt")) === `Text of ${tab}`);
    await page.fill(".prompt", "typed");
    await page.waitForURL((url) => url.hash.includes("t=typed"));
  }
  await follow("#/inside?t=Inside");
  await Until("inside", async () => (await page.inputValue(".text-bar")) === "Inside");
});

test("tokens are shown as the merges that make them", async () => {
  const how = ["--max-steps", "1", "--tokenizer", on.workshop.Learn()];
  const merging = await on.Serve("--model", on.workshop.Train("merging", ...how));
  const words = "The little cat and the little dog";
  const page = await Open(`${merging.url}/#/play?tab=tokens`);
  await page.fill("textarea", words);
  const { pieces } = await Ask(merging, "tokenize", { text: words });
  assert.ok(pieces.length > 3);
  await Until("as many words", async () =>
    (await page.locator(".merges ol").count()) === pieces.length,
  );
  // A line for the bytes, and one for each merge, which leaves a symbol less.
  const symbols = await page
    .locator(".merges ol")
    .evaluateAll((lists) =>
      lists.map((list) =>
        [...list.querySelectorAll("li")].map((line) => line.querySelectorAll(".chip").length),
      ),
    );
  assert.deepEqual(
    symbols,
    pieces.map(({ symbols: bytes, merges }) =>
      Array.from({ length: merges.length + 1 }, (_, step) => bytes.length - step),
    ),
  );
});

test("eight tabs load", async () => {
  const page = await on.Open(`/#/runs`);
  const others = Array.from({ length: 7 }, () => page.context().newPage());
  const tabs = [page, ...(await Promise.all(others))];
  const all = (act) => Promise.all(tabs.map(act));
  await all((tab) => tab.goto(`${on.service.url}/#/runs`));
  await all((tab) => tab.waitForSelector("main .training, main .empty"));
  await all((tab) => tab.goto(`${on.service.url}/#/play`));
  await all((tab) => tab.waitForSelector("#prompt"));
});

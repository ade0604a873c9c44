// Talking with a model that was taught to answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Choose, Downloaded, Exact, ReadSlowly, Stage, Until } from "./kit.mjs";

const on = Stage(async ({ workshop, Serve }) => {
  const taught = workshop.Teach("taught", "--max-steps", "300", "--set", "model.n_positions=64");
  const plain = workshop.Train("plain", "--max-steps", "1");
  return { service: await Serve("--model", taught, "--model", plain, "--dtype", "fp32") };
});

const kSettings = { max_tokens: 24, seed: "7", temperature: 1, top_k: 0, top_p: 1, min_p: 0 };

async function Begin(settings = kSettings, options = {}) {
  const page = await on.Open("/", options);
  await Choose(page, settings);
  await page.waitForSelector("#message");
  const asked = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/api/generate")) asked.push(JSON.parse(request.postData()));
  });
  return { page, asked };
}

async function Ask(page, message) {
  await page.fill("#message", message);
  await page.press("#message", "Enter");
  await page.waitForSelector("#ask");
}
const answers = (page) =>
  page.locator(".answer").evaluateAll((all) =>
    all.map((one) => one.querySelector(".prose")?.textContent ?? ""),
  );
const questions = (page) => page.locator(".question").allTextContents();

test("only a model that was taught to answer has the tab", async () => {
  const { page } = await Begin();
  assert.equal(await page.getByRole("tab", { name: "Chat" }).getAttribute("aria-selected"), "true");
  await page.selectOption("#model", "plain");
  await page.waitForSelector("#prompt");
  assert.equal(await page.getByRole("tab", { name: "Chat" }).count(), 0);
});

test("turns follow each other, and the model is given them all", async () => {
  const { page, asked } = await Begin();
  await Ask(page, "Is it red?");
  await Ask(page, "Is it blue?");
  assert.deepEqual(await questions(page), ["Is it red?", "Is it blue?"]);
  const [first] = await answers(page);
  assert.deepEqual(asked[1].messages, [
    { role: "user", content: "Is it red?" },
    { role: "assistant", content: first },
    { role: "user", content: "Is it blue?" },
  ]);
  // The tokens' probabilities, as elsewhere.
  const token = page.locator(".answer >> nth=1").locator(".piece").nth(2);
  await token.hover();
  await page.waitForSelector(".token-panel .bar");
  await token.click();
  await Exact(page);
  assert.equal(
    await page.textContent(".bars .is-this .bar-number >> nth=0"),
    await page.textContent(".token-panel .facts dd >> nth=0"),
  );
  const whole = (await answers(page))[1];
  await page.locator(".bars li:not(.is-this) .bar").first().click();
  await page.waitForSelector("#ask");
  const branched = (await answers(page))[1];
  assert.equal(branched.slice(0, 2), whole.slice(0, 2));
  assert.notEqual(branched, whole);
  assert.equal((await answers(page))[0], first);
  // Shift and Enter break the line.
  await page.fill("#message", "a");
  await page.press("#message", "Shift+Enter");
  assert.equal(await page.inputValue("#message"), "a\n");
  await page.click("#begin");
  assert.deepEqual(await questions(page), []);
});

test("a system message stands before the conversation, and both are saved as folio train takes them", async () => {
  const { page, asked } = await Begin();
  await page.fill("#system", "It is blue.");
  await Ask(page, "Is it red?");
  const [answer] = await answers(page);
  const messages = [
    { role: "system", content: "It is blue." },
    { role: "user", content: "Is it red?" },
  ];
  assert.deepEqual(asked[0].messages, messages);
  const { name, bytes } = await Downloaded(page, () => page.click("#save"));
  assert.equal(name, "conversation.jsonl");
  assert.deepEqual(JSON.parse(bytes.toString()), {
    messages: [...messages, { role: "assistant", content: answer }],
  });
  await page.fill("#system", " ");
  await Ask(page, "Is it red?");
  assert.equal(asked[1].messages[0].role, "user");
});

test("conversations are sampled by the model's defaults for them, texts by those for texts", async () => {
  const { page, asked } = await Begin({ max_tokens: 8, seed: "7" });
  const info = await (await fetch(`${new URL(page.url()).origin}/api/info`)).json();
  const sampled = ({ temperature, top_k, top_p, min_p }) => ({ temperature, top_k, top_p, min_p });
  assert.notDeepEqual(sampled(info.chat_sampling), sampled(info.sampling));
  await Ask(page, "Is it red?");
  assert.deepEqual(sampled(asked[0]), sampled(info.chat_sampling));
  // What is chosen is meant everywhere, until the defaults are chosen again.
  await page.click("text=greedy");
  await page.click("text=default");
  await Ask(page, "Is it red?");
  assert.deepEqual(sampled(asked[1]), sampled(info.chat_sampling));
  await page.click("role=tab[name=Write]");
  await page.click("#generate");
  await Until("a text", () => asked.length === 3);
  assert.deepEqual(sampled(asked[2]), sampled(info.sampling));
});

test("another answer takes the place of the last", async () => {
  const { page, asked } = await Begin({ ...kSettings, temperature: 2 });
  await Ask(page, "Is it red?");
  const before = await answers(page);
  await page.click("#retry");
  await page.waitForSelector("#ask");
  assert.deepEqual(asked.map(({ seed }) => seed), [7, 8]);
  assert.deepEqual(asked[1].messages, asked[0].messages);
  const after = await answers(page);
  assert.equal(after.length, 1);
  assert.notDeepEqual(after, before);
  await page.click("text=greedy");
  assert.ok(await page.isDisabled("#retry"), "the same answer would come again");
});

test("a message is edited, and what followed it is dropped", async () => {
  const { page, asked } = await Begin();
  await Ask(page, "Is it red?");
  await Ask(page, "Is it blue?");
  await page.locator(".said button").first().click();
  await page.fill(".turns .message", "Is it green?");
  await page.press(".turns .message", "Enter");
  await Until("one turn", async () => (await questions(page)).join() === "Is it green?");
  await page.waitForSelector("#ask");
  assert.deepEqual(asked[2].messages, [{ role: "user", content: "Is it green?" }]);
  assert.equal((await answers(page)).length, 1);
  await page.locator(".said button").click();
  await page.click("text=Cancel");
  assert.deepEqual(await questions(page), ["Is it green?"]);
});

test("a stopped answer stays as far as it came, and the conversation goes on from it", async () => {
  const { page, asked } = await Begin({ ...kSettings, max_tokens: 400 });
  // A slow reader of an answer that never ends by itself.
  await page.route("**/api/generate", (route) =>
    route.continue({
      postData: JSON.stringify({ ...JSON.parse(route.request().postData()), ignore_eos: true }),
    }),
  );
  await ReadSlowly(page, 40);
  await page.fill("#message", "Is it red?");
  await page.press("#message", "Enter");
  await page.waitForSelector(".answer .piece");
  await page.click("#stop");
  await page.waitForSelector("#ask");
  const count = await page.locator(".answer .piece").count();
  assert.ok(count > 0 && count < 400, `${count} tokens`);
  const [stopped] = await answers(page);
  await page.fill("#message", "Is it blue?");
  await page.press("#message", "Enter");
  await Until("the second request", () => asked.length === 2);
  assert.deepEqual(asked[1].messages[1], { role: "assistant", content: stopped });
  await page.click("#stop");
  await page.waitForSelector("#ask");
});

test("what leaves the context is marked, and a message that is too long is said to be and comes back", async () => {
  const { page } = await Begin({ ...kSettings, max_tokens: 8 }, { allowed: [/400/] });
  for (const colour of ["red", "blue", "green", "red", "blue"]) await Ask(page, `Is it ${colour}?`);
  const forgotten = await page.locator(".turns .forgotten").count();
  assert.ok(forgotten >= 1 && forgotten <= 4, `${forgotten} turns`);
  assert.match(await page.textContent(".turns .border"), /left the context/);
  const long = "x".repeat(100);
  await page.fill("#message", long);
  await page.press("#message", "Enter");
  await page.waitForSelector(".failure");
  assert.match(await page.textContent(".failure"), /context/);
  assert.equal(await page.inputValue("#message"), long);
  assert.equal((await questions(page)).length, 5);
});

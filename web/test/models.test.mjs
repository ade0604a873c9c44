// Which model the page is of: one of several, or another one after the service was started again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ask, Exact, Generate, Open, Says, Stage, Until, Write } from "./kit.mjs";

const on = Stage(({ workshop }) => ({
  bytes: workshop.Train("bytes", "--max-steps", "20"),
  merging: workshop.Train("merging", "--max-steps", "20", "--tokenizer", workshop.Learn()),
}));

const name = (page) => page.textContent(".model-card strong");
const written = (page) => page.locator(".piece:not(.given)").allTextContents();

// The service's own text, by the settings that the page sent last.
let sent = {};
async function Expected({ url }, prompt, model) {
  const { temperature, top_k, top_p, min_p, repetition_penalty } = sent;
  const how = { max_tokens: 16, seed: 7, temperature, top_k, top_p, min_p, repetition_penalty };
  const answer = await fetch(`${url}/api/generate`, {
    method: "POST",
    body: JSON.stringify({ prompt, model, ...how }),
  });
  const events = (await answer.text()).matchAll(/^event: (?:token|done)\ndata: (.*)$/gm);
  return [...events].map(([, data]) => JSON.parse(data).text ?? "").join("");
}

// Which model each request of the page is for.
function Listen(page) {
  const asked = [];
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (!pathname.startsWith("/api/")) return;
    const body = JSON.parse(request.postData() ?? "{}");
    asked.push({ path: pathname, model: body.model ?? searchParams.get("model") });
    if (pathname.endsWith("/generate")) sent = body;
  });
  return asked;
}

// However a browser puts it that nobody is there, or no longer.
const kDown = { allowed: [/net::ERR_(CONNECTION|SOCKET|EMPTY_RESPONSE|INCOMPLETE)/, /404/] };

for (const [how, flags] of [
  ["another name", ["--model"]],
  ["the same name", ["--model", "demo="]],
]) {
  test(`a service that is started again with another model of ${how} is taken up, after it was missed`, async () => {
    const of = (path) => (flags.length > 1 ? ["--model", `demo=${path}`] : ["--model", path]);
    let service = await on.Serve(...of(on.bytes));
    const page = await Open(`${service.url}/#/play`, kDown);
    Listen(page);
    await Write(page, "The cat");
    const header = await page.textContent(".model-card");
    await service.Stop();
    await page.click("#generate");
    await page.waitForSelector(".failure");
    await Says(page, "main", /does not answer/);
    service = await on.Serve("--port", service.port, ...of(on.merging));
    await Until("another header", async () => (await page.textContent(".model-card")) !== header);
    assert.equal(await name(page), flags.length > 1 ? "demo" : "merging");
    assert.ok(!/does not answer/.test(await page.textContent("body")), "the banner has gone");
    assert.match(await page.textContent(".banner"), /another model/);
    await page.click(".banner button");
    assert.equal(await page.locator(".banner").count(), 0);
    assert.equal(await page.inputValue("#prompt"), "The cat", "the prompt stays");
    assert.equal((await written(page)).length, 0, "the other model's text has gone");
    await Generate(page);
    assert.equal((await written(page)).join(""), await Expected(service, "The cat"));
  });
}

test("a restart that nobody noticed is noticed at the next request, which writes no garbage", async () => {
  let service = await on.Serve("--model", `demo=${on.bytes}`);
  const page = await Open(`${service.url}/#/play`, kDown);
  Listen(page);
  await Write(page, "The cat");
  await service.Stop();
  service = await on.Serve("--port", service.port, "--model", `demo=${on.merging}`);
  await page.click("text=Continue");
  await page.waitForSelector(".banner");
  assert.equal((await written(page)).length, 0);
  assert.equal(await page.locator(".failure").count(), 0);
  await Generate(page);
  assert.equal((await written(page)).join(""), await Expected(service, "The cat"));
  // Whoever comes back to the window sees it without any request.
  await service.Stop();
  service = await on.Serve("--port", service.port, "--model", `third=${on.bytes}`);
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await Until("the third", async () => (await name(page)) === "third");
});

test("the same model after a restart goes on as if nothing had been", async () => {
  let service = await on.Serve("--model", on.bytes);
  const page = await Open(`${service.url}/#/play`, kDown);
  await Write(page, "The cat");
  const before = await written(page);
  await service.Stop();
  await page.click("text=Continue");
  await page.waitForSelector(".failure");
  service = await on.Serve("--port", service.port, "--model", on.bytes);
  await page.waitForSelector(".failure", { state: "detached" });
  assert.equal(await page.locator(".banner").count(), 0);
  assert.deepEqual(await written(page), before);
  await page.click("text=Continue");
  await Until("more", async () => (await written(page)).length === 32);
  // A trace that went with the service is made anew.
  await page.locator(".piece:not(.given)").nth(20).click();
  await Exact(page);
});

test("a service that dies while it writes is missed at once, and the text goes on when it is back", async () => {
  // A text that does not end by itself before the service does.
  const sizes = ["model.n_embd=512", "model.n_inner=2048", "model.n_layer=4"];
  const slow = on.workshop.Train("slow", "--max-steps", "0", ...sizes.flatMap((size) => ["--set", size]));
  let service = await on.Serve("--model", slow);
  const page = await Open(`${service.url}/#/play`, kDown);
  await page.route("**/api/generate", (route) => {
    const body = JSON.parse(route.request().postData());
    const max_tokens = body.max_tokens === 9 ? 9 : 60000;
    return route.continue({ postData: JSON.stringify({ ...body, max_tokens, ignore_eos: true }) });
  });
  await page.fill("#prompt", "The cat");
  await page.click("#generate");
  await page.waitForSelector(".piece:not(.given)", { state: "attached" });
  await service.Stop("SIGKILL");
  await page.waitForSelector("main > .failure");
  await page.waitForSelector("#generate");
  const before = (await written(page)).length;
  assert.ok(before > 0 && before < 60000, `${before} tokens`);
  service = await on.Serve("--port", service.port, "--model", slow);
  await page.waitForSelector(".failure", { state: "detached" });
  await page.locator(".slider input").nth(5).fill("9");
  await page.click("text=Continue");
  await Until("nine more", async () => (await written(page)).length === before + 9);
});

test("what was not answered is asked for again when the service is back, on every screen", async () => {
  let service = await on.Serve("--model", on.bytes);
  const page = await Open(`${service.url}/#/play`, kDown);
  await service.Stop();
  await page.goto(`${service.url}/#/inside?v=embeddings`);
  await page.waitForSelector("main > .failure");
  service = await on.Serve("--port", service.port, "--model", on.bytes);
  await page.waitForSelector(".scatter canvas");
  await page.waitForSelector(".failure", { state: "detached" });
});

test("whoever only looks on sees the other model, too", async () => {
  const runs = ["--runs", on.workshop.runs];
  let service = await on.Serve("--model", on.bytes, ...runs);
  const page = await Open(`${service.url}/#/runs`, kDown);
  await page.waitForSelector(".run");
  await service.Stop();
  service = await on.Serve("--port", service.port, "--model", on.merging, ...runs);
  await Until("its name", async () => (await name(page)) === "merging");
  assert.equal(await page.locator(".failure").count(), 0);
  // And one without any.
  await service.Stop();
  service = await on.Serve("--port", service.port, ...runs);
  await Until("no model", async () => (await name(page)) === "folio");
  assert.equal(await page.textContent(".state"), "no model");
  await page.keyboard.press("1");
  await Says(page, "main", /has no model/);
});

test("one of several models is picked, and every request says which", async () => {
  const service = await on.Serve("--model", `one=${on.bytes}`, "--model", `two=${on.merging}`);
  const page = await Open(`${service.url}/#/play`);
  const asked = Listen(page);
  await page.waitForSelector("#model option", { state: "attached" });
  assert.deepEqual(await page.locator("#model option").allTextContents(), ["one", "two"]);
  assert.equal(await page.inputValue("#model"), "one");
  await Write(page, "The cat");
  assert.equal((await written(page)).join(""), await Expected(service, "The cat", "one"));
  const card = await page.textContent(".model-card span >> nth=1");
  await page.selectOption("#model", "two");
  await Until("its header", async () => (await page.textContent(".model-card span >> nth=1")) !== card);
  assert.equal(await page.locator(".banner").count(), 0, "who picked knows");
  assert.equal((await written(page)).length, 0);
  await Generate(page);
  const second = await written(page);
  assert.equal(second.join(""), await Expected(service, "The cat", "two"));
  // The texts of each stay its own.
  await page.selectOption("#model", "one");
  await Until("the first text", async () =>
    (await written(page)).join("") === (await Expected(service, "The cat", "one")),
  );
  await page.selectOption("#model", "two");
  await Until("the second text", async () => (await written(page)).join("") === second.join(""));
  // The address holds it, on every screen.
  const id = (await Ask(service, "info?model=two")).model.id;
  asked.length = 0;
  for (const screen of ["attn", "inside?v=embeddings&id=3", "inside?v=positions", "play?tab=tokens"]) {
    const [path, query] = screen.split("?");
    await page.goto(`${service.url}/#/${path}?${query ? `${query}&` : ""}m=two`);
    await page.reload();
    await page.waitForLoadState("networkidle");
    assert.equal(await page.inputValue("#model"), "two", screen);
  }
  await page.keyboard.press("1");
  await page.waitForURL((url) => url.hash.includes("m=two"));
  const of = asked.filter(({ path }) => /vocab|tokenize|embed|wpe|trace$|generate/.test(path));
  assert.ok(of.length > 8, JSON.stringify(of));
  for (const { path, model } of of) assert.equal(model, id, path);
  // One that is not there gives way to the first.
  await page.goto(`${service.url}/#/play?m=three`);
  await page.reload();
  await page.waitForSelector("#prompt");
  assert.equal(await page.inputValue("#model"), "one");
  await page.waitForURL((url) => !url.hash.includes("m="));
});

test("a picked model that is gone after a restart gives way, and the page says so", async () => {
  let service = await on.Serve("--model", `one=${on.bytes}`, "--model", `two=${on.merging}`);
  const page = await Open(`${service.url}/#/play?m=two`, kDown);
  await Until("the second", async () => (await page.inputValue("#model")) === "two");
  await service.Stop();
  await page.click("#generate");
  await page.waitForSelector("main > .failure");
  service = await on.Serve("--port", service.port, "--model", `other=${on.bytes}`);
  await page.waitForSelector(".banner");
  assert.equal(await name(page), "other");
  assert.match(await page.textContent(".banner"), /other/);
});

// Attention and what is inside, against the numbers that the service gives to other code.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ask, Downloaded, Frame, Open, Says, Stage, TraceOf, Until } from "./kit.mjs";

const kText = "The cat sat on the mat.";
const on = Stage(async ({ workshop, Serve }) => {
  const tiny = workshop.Train("tiny", "--max-steps", "20", "--set", "model.n_positions=64");
  const sizes = ["--batch", "1", "--set", "model.n_positions=1024"];
  const wide = workshop.Train("wide", "--max-steps", "1", ...sizes);
  const kind = (name, ...more) =>
    workshop.Train(name, "--max-steps", "1", "--set", "model.norm=rms", ...more);
  const turning = kind("turning", "model.mlp=gated", "model.position_embedding=rotary");
  const nowhere = kind("nowhere", "model.position_embedding=none");
  return {
    tiny,
    service: await Serve("--model", tiny, "--dtype", "fp32"),
    others: await Serve("--model", turning, "--model", nowhere, "--dtype", "fp32"),
    long: await Serve("--model", wide, "--dtype", "fp32"),
  };
});

const AddressOf = (params, screen = "attn") =>
  `/#/${screen}?${new URLSearchParams({ t: kText, ...params })}`;

// The map's colour at a cell, and the colours of the map.
async function PixelAt(page, q, k, n) {
  return page.evaluate(
    ([row, column, count]) => {
      const canvas = document.querySelector(".heat-map canvas");
      const [margin, side] = [Number(canvas.dataset.margin), Number(canvas.dataset.side)];
      const at = (i) => Math.round((margin + ((i + 0.5) * side) / count) * devicePixelRatio);
      return [...canvas.getContext("2d").getImageData(at(column), at(row), 1, 1).data.slice(0, 3)];
    },
    [q, k, n],
  );
}

function Ramp(t) {
  const stops = ["#ffffff", "#dbe4fb", "#a3b9f3", "#6384e3", "#2c50c8", "#1c2f86", "#0f1640"].map(
    (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)),
  );
  const at = t * (stops.length - 1),
    low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((c, i) => c + (stops[low + 1][i] - c) * (at - low));
}

for (const [scale, shade] of [
  ["sqrt", Math.sqrt],
  ["log", (p) => Math.max(0, 1 + Math.log10(p) / 4)],
]) {
  test(`the map's pixels are the exact weights (${scale})`, async () => {
    const page = await on.Open(AddressOf({ l: "1", h: "1", s: scale }));
    await page.waitForSelector(".heat-map canvas");
    const trace = await TraceOf(on.service, kText),
      T = Buffer.byteLength(kText);
    await page.mouse.move(5, 5);
    for (const [q, k] of [
      [0, 0],
      [5, 2],
      [9, 9],
      [17, 0],
      [20, 13],
      [T - 3, 4],
    ]) {
      const { numbers } = await Frame(`${trace}/row?q=${q}&l=1`);
      const p = numbers[T + k];
      const coded = (Math.round(255 * Math.sqrt(p)) / 255) ** 2; // what the page was sent
      assert.ok(Math.abs(Math.sqrt(coded) - Math.sqrt(p)) <= 0.5 / 255 + 1e-6);
      const wanted = Ramp(shade(coded));
      const pixel = await PixelAt(page, q, k, T);
      assert.ok(
        pixel.every((c, i) => Math.abs(c - wanted[i]) <= 3),
        `${q},${k}: ${pixel} for ${wanted}`,
      );
    }
  });
}

test("strip, lines, numbers and what is read aloud follow one cell, by mouse and by keys", async () => {
  const page = await on.Open(AddressOf({}));
  await page.waitForSelector(".heat-map canvas");
  await page.locator(".strip .chip").nth(9).hover();
  await Says(page, ".query-panel h2", /Query 9/);
  assert.equal(await page.locator(".query-list li").count(), 10);
  assert.ok((await page.locator(".query-lines path").count()) > 3);
  await page.locator(".strip .chip").nth(9).click();
  await page.mouse.move(5, 5);
  await page.waitForURL(/q=9/);
  const trace = await TraceOf(on.service, kText);
  const { numbers } = await Frame(`${trace}/row?q=9&l=0`);
  const shown = await page.locator(".query-list output").allTextContents();
  shown.forEach((said, k) =>
    assert.ok(Math.abs(Number(said.replaceAll("−", "-")) - numbers[k]) < 5e-4, `${k}: ${said}`),
  );
  await page.locator(".heat-map canvas").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowLeft");
  await Says(page, "#live", /query 10 .* key 8/);
  await page.keyboard.press("j");
  await Says(page, ".map-panel h2", /Layer 1, head 0/);
  await page.keyboard.press("r");
  await Says(page, ".query-panel h2", /Key 8/);
  await page.keyboard.press("Escape");
  await page.waitForURL((url) => !url.hash.includes("q="));
});

test("the steps of a query end in its weights", async () => {
  const page = await on.Open(AddressOf({ q: "6", k: "2", step: "softmax" }));
  await page.waitForSelector(".step-cells li");
  const { numbers } = await Frame(`${await TraceOf(on.service, kText)}/row?q=6&l=0`);
  const shown = (await page.locator(".step-cells b").allTextContents()).map(Number);
  shown.forEach((p, k) => assert.ok(Math.abs(p - numbers[k]) < 2e-3));
  await page.click("text=mask");
  assert.equal(await page.locator(".hidden-cell").count(), Buffer.byteLength(kText) - 7);
});

test("a map is saved as a figure with a mark for each weight, and as numbers", async () => {
  const page = await on.Open(AddressOf({ l: "1" }));
  await page.waitForSelector(".heat-map canvas");
  const { name, bytes } = await Downloaded(page, () => page.click("text=Save SVG"));
  assert.match(name, /\.svg$/);
  const marks = await page.evaluate((svg) => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
    return parsed.querySelector("parsererror") ? -1 : parsed.querySelectorAll(".cells rect").length;
  }, bytes.toString());
  const { numbers } = await Frame(`${await TraceOf(on.service, kText)}/attn/1/0`);
  assert.equal(marks, numbers.filter((code) => code / 255 > 0.004).length);
  await page.click("text=As table");
  await page.waitForSelector("caption");
  await Until("rows", async () => (await page.locator("tbody tr").count()) === 20);
  const csv = await Downloaded(page, () => page.click("text=Save CSV"));
  const rows = csv.bytes
    .toString()
    .trim()
    .split("\r\n")
    .slice(1)
    .map((row) => row.split(",").map(Number));
  const { numbers: row } = await Frame(`${await TraceOf(on.service, kText)}/row?q=${rows[0][0]}&l=1`);
  assert.ok(Math.abs(rows[0].at(-1) - row[rows[0][2]]) < 1e-6);
});

test("the lens and the pipeline show what the service computes", async () => {
  const page = await on.Open(AddressOf({ q: "5", l: "2" }, "inside"));
  await page.waitForSelector(".lens-cell");
  const trace = await TraceOf(on.service, kText);
  const lens = await (await fetch(`${trace}/lens?pos=5&top=5`)).json();
  const percent =
    Number((await page.textContent(".inside .bars .bar-number")).replace(" %", "")) / 100;
  assert.ok(Math.abs(percent - lens.rows.at(-1).top[0][1]) < 1e-3);
  const ranks = await page.locator(".line-chart >> nth=0 >> g text").allTextContents();
  assert.ok(ranks.length > 1 && ranks.every((rank) => /^[\d\u202f]+$/.test(rank)), `${ranks}`);
  await page.keyboard.press("Tab");
  await page.click("text=Pipeline");
  await page.waitForSelector(".stop");
  await page.waitForSelector(".tensor-facts");
  let answer;
  const held = new Promise((done) => (answer = done));
  await page.route("**/tensor/0.activated*", async (route) => {
    await held;
    await route.continue();
  });
  await page.click("text=Activation");
  await Says(page, ".pipeline .panel >> nth=1", /0\.activated/);
  assert.equal(await page.locator(".tensor-facts").count(), 0, "numbers of another tensor");
  answer();
  const { about } = await Frame(`${trace}/tensor/0.activated`);
  const mean = Number((await page.textContent(".tensor-facts dd")).replaceAll("−", "-"));
  assert.ok(Math.abs(mean - about.stats.mean) < 1e-3 * Math.max(1, Math.abs(about.stats.mean)));
  await page.click("text=Embeddings");
  await page.fill("input[type=search]", "e");
  await page.locator("button.chip").first().click();
  await page.waitForSelector(".bars .bar");
  await page.click("text=Positions");
  await page.waitForSelector(".value-map");
});

test("the lens opens at the end of the text, with full pages, and a phone scrolls to it", async () => {
  const text = "The cat sat on the mat, and it sat."; // 35 bytes
  const columns = async (page) =>
    (await page.locator(".lens thead th .faint").allTextContents()).map(Number);
  const page = await on.Open(`/#/inside?${new URLSearchParams({ t: text })}`);
  await page.waitForSelector(".lens-cell");
  const upTo = (end) => Array.from({ length: 12 }, (_, i) => end - 11 + i);
  assert.deepEqual(await columns(page), upTo(34));
  await page.click("text=←");
  await Until("the page before", async () => (await columns(page))[0] === 11);
  assert.deepEqual(await columns(page), upTo(22));
  await page.click("text=←");
  await Until("the first page", async () => (await columns(page))[0] === 0);
  assert.equal((await columns(page)).length, 12);
  assert.ok(await page.isDisabled("text=←"));
  const phone = await on.Open(`/#/inside?${new URLSearchParams({ t: text })}`, {
    viewport: { width: 375, height: 740 },
    hasTouch: true,
    isMobile: true,
  });
  await phone.waitForSelector(".lens-cell");
  const box = await phone.locator(".lens-scroll").boundingBox();
  const last = await phone.locator(".lens thead th").last().boundingBox();
  assert.ok(last.x + last.width <= box.x + box.width + 1, "the last token is in sight");
});

test("a model that is not float32 is looked into through a copy, which the page tells of once", async () => {
  const stored = await on.Serve("--model", on.tiny, "--dtype", "bf16");
  const page = await Open(`${stored.url}/#/play?tab=tokens`);
  assert.equal((await Ask(stored, "info")).model.float_copy.ready, false);
  let answer;
  const held = new Promise((done) => (answer = done));
  await page.route("**/api/trace", async (route) => {
    await held;
    await route.continue();
  });
  await page.evaluate((hash) => (location.hash = hash), AddressOf({}).slice(1));
  await Says(page, "main", /makes a float32 copy of the weights \(\d+ kB\).*10 minutes/i);
  answer();
  await page.waitForSelector(".heat-map canvas");
  await Until("no note", async () => (await page.locator("text=float32 copy").count()) === 0);
  assert.equal((await Ask(stored, "info")).model.float_copy.ready, true);
  for (const screen of ["inside", "inside?v=pipeline", "inside?v=embeddings", "inside?v=positions", "play?tab=score"]) {
    await page.evaluate((hash) => (location.hash = `#/${hash}`), screen);
    await page.waitForSelector(".lens-cell, .tensor-facts, .scatter canvas, .value-map, .figures");
    assert.equal(await page.locator(".failure").count(), 0, screen);
  }
});

test("maps of positions have axes and the width of the screen", async () => {
  const page = await on.Open("/#/inside?v=positions");
  await page.waitForSelector(".map-axis");
  const ticks = await page.locator(".map-frame >> nth=0 >> .map-axis.bottom span").allTextContents();
  assert.deepEqual(ticks.map(Number), [0, 16, 32, 47, 63]);
  const [main, last] = await Promise.all(
    [".positions", ".positions .map-frame >> nth=1"].map((one) => page.locator(one).boundingBox()),
  );
  assert.ok(main.width > 1200 && last.x + last.width > main.x + main.width - 40);
});

test("1024 tokens: little is sent before the first picture", async () => {
  const text = "The little cat saw a big dog. ".repeat(40).slice(0, 1024);
  const page = await Open(`${on.long.url}/`);
  const bodies = [];
  page.on("response", (response) => bodies.push(response.body().catch(() => "")));
  await page.goto(`${on.long.url}/#/attn?${new URLSearchParams({ t: text })}`);
  await page.waitForSelector(".heat-map canvas");
  await Until("exact numbers", async () => (await page.locator(".query-list output").count()) > 0);
  const bytes = (await Promise.all(bodies)).reduce((sum, body) => sum + body.length, 0);
  assert.ok(bytes > 300e3 && bytes < 1.2e6, `${bytes} bytes`);
});

test("other kinds of models have words and pictures of their own", async () => {
  const page = await Open(`${on.others.url}/#/inside?${new URLSearchParams({ v: "pipeline", t: kText })}`);
  await page.waitForSelector(".tensor-facts");
  const stops = await page.locator(".stop").allTextContents();
  for (const name of ["RMSNorm 1", "Gated units", "Final RMSNorm"])
    assert.ok(stops.some((stop) => stop.includes(name)), `${name} in ${stops}`);
  await Says(page, ".formula", /E\[token\]$/);
  await page.click("text=Positions");
  await page.waitForSelector(".value-map >> nth=1");
  await Says(page, "[aria-label='Positions until a hand has turned once'] .note", /radian/);
  assert.equal(await page.locator(".failure").count(), 0);
  await page.goto(`${on.others.url}/#/inside?${new URLSearchParams({ m: "nowhere", t: kText })}`);
  await page.waitForSelector(".lens-cell");
  assert.equal(await page.locator("role=tab[name=Positions]").count(), 0);
});

// How the page looks: what is chosen, bars, colours, lists, the phone; and that it writes as the program does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { Ask, Exact, Frame, kFolio, Stage, TraceOf, Until, Write } from "./kit.mjs";

const kText = "The cat sat on the mat. The cat saw the big dog, and the dog ran."; // 65 bytes
const kPhone = { viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true };
const on = Stage(async ({ workshop, Serve }) => {
  const model = workshop.Train("tiny", "--max-steps", "20", "--set", "model.n_positions=128");
  return { model, service: await Serve("--model", model, "--dtype", "fp32") };
});

const At = (screen, params = {}) => `/#/${screen}?${new URLSearchParams(params)}`;

const Url = (...at) => `${on.service.url}${At(...at)}`;

const Number_ = (said) => Number(said.replaceAll("−", "-").replace(/[≈ %]/g, ""));

test("an empty prompt and untouched settings write what the program writes", async () => {
  const page = await on.Open(At("play"));
  const program = spawnSync(
    kFolio,
    ["generate", "--model", on.model, "--seed", "7", "--max-tokens", "40", "--json", "--quiet"],
    { encoding: "utf8" },
  );
  assert.equal(program.status, 0, program.stderr);
  const wanted = JSON.parse(program.stdout.trim().split("\n")[0]);
  assert.equal(await page.locator(".slider output").nth(5).textContent(), "256");
  assert.ok(
    await page.locator(".segments label", { hasText: "default" }).locator("input").isChecked(),
  );
  const asked = page.waitForRequest(/api\/generate/);
  const told = page.waitForResponse(/api\/generate/);
  await Write(page, "", 40);
  const { ids, temperature, top_k, top_p, min_p, repetition_penalty } = (
    await asked
  ).postDataJSON();
  assert.deepEqual(ids, wanted.prompt_ids);
  const { typical, ...sliders } = (await Ask(on.service, "info")).sampling;
  assert.deepEqual(
    { temperature, top_k, top_p, min_p, repetition_penalty, max_tokens: 256 },
    sliders,
  );
  assert.equal(typical, 1);  // off: the page has no slider for it
  const written = (await (await told).text())
    .split("\n\n")
    .filter((event) => event.startsWith("event: token"))
    .map((event) => JSON.parse(event.split("data: ")[1]).id);
  assert.deepEqual(written, wanted.ids);
});

// The pixels of a rectangle of the page, as rows of [r, g, b].
async function Pixels(page, clip) {
  const png = await page.screenshot({ clip });
  return page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    return Array.from({ length: image.height }, (_, y) =>
      Array.from({ length: image.width }, (_, x) => [
        ...data.slice((y * image.width + x) * 4, (y * image.width + x) * 4 + 3),
      ]),
    );
  }, png.toString("base64"));
}

test("the frame of a chosen token is whole", async () => {
  const page = await on.Open(At("play", { c: "entropy" }));
  await Write(page, "The cat", 60);
  const tokens = page.locator(".piece:not(.given)");
  // One with visible neighbours of a colour on both sides.
  const at = await tokens.evaluateAll((pieces) => {
    const shown = ({ textContent, style }) =>
      /^\p{L}$/u.test(textContent) && style.backgroundColor !== "";
    return pieces.findIndex((_, i) =>
      [i - 1, i, i + 1].every((j) => pieces[j] && shown(pieces[j])),
    );
  });
  assert.ok(at > 0);
  await tokens.nth(at).click();
  await page.mouse.move(5, 5);
  await page.waitForTimeout(200); // until nothing moves
  const box = await tokens.nth(at).boundingBox();
  const edge = { x: Math.floor(box.x) - 2, y: Math.floor(box.y) - 2 };
  const [width, height] = [Math.ceil(box.width) + 5, Math.ceil(box.height) + 5];
  const rows = await Pixels(page, { ...edge, width, height });
  const accent = ([r, g, b]) => Math.hypot(r - 0x2c, g - 0x50, b - 0xc8) < 40;
  const share = (line) => line.filter(accent).length / line.length;
  const column = (x) => rows.slice(4, -5).map((row) => row[x]);
  const across = (y) => rows[y].slice(4, -5);
  const most = (lines) => Math.max(...lines.map(share));
  const sides = {
    left: most([0, 1, 2].map(column)),
    right: most([3, 4, 5].map((i) => column(width - i))),
    top: most([0, 1, 2].map(across)),
    bottom: most([3, 4, 5].map((i) => across(height - i))),
  };
  for (const [side, found] of Object.entries(sides))
    assert.ok(found > 0.95, `${side}: ${JSON.stringify(sides)}`);
});

// Returns widths of a list of bars: of a row, of its track, and of the bars by their tracks.
const Bars = (page, rows) =>
  page.locator(rows).evaluateAll((all) =>
    all.map((row) => {
      const width = (element) => element.getBoundingClientRect().width;
      const track = row.querySelector(".bar-track");
      const bar = track.querySelector(".bar-after");
      return { row: width(row), track: width(track), filled: width(bar) / width(track) };
    }),
  );

test("bars use the width that is there, and the largest fills it", async () => {
  const page = await on.Open(At("play"));
  await Write(page, "The cat", 20);
  await page.locator(".piece:not(.given)").nth(3).click();
  await Exact(page);
  const check = async (rows, share) => {
    await Until("bars", async () => {
      const most = Math.max(...(await Bars(page, rows)).map(({ filled }) => filled));
      return Math.abs(most - 1) < 0.02;
    });
    for (const { row, track } of await Bars(page, rows))
      assert.ok(track > share * row, `${rows}: ${track} of ${row}`);
  };
  await check(".token-panel .bar", 0.4);
  await page.goto(Url("attn", { t: kText, q: "40", k: "3", h: "1" }));
  await check(".query-list li", 0.6);
  await page.goto(Url("inside", { t: kText, q: "5", l: "2" }));
  await check(".inside .bar", 0.6);
});

test("the list of keys opens at the strongest", async () => {
  const page = await on.Open("/");
  const trace = await TraceOf(on.service, kText);
  const T = Buffer.byteLength(kText);
  // The queries whose strongest key is farthest down.
  const found = [];
  for (let q = 0; q < T; ++q) {
    const { numbers } = await Frame(`${trace}/row?q=${q}&l=0`);
    for (const head of [0, 1]) {
      const row = numbers.slice(head * T, (head + 1) * T);
      found.push({ q, head, place: row.indexOf(Math.max(...row)) });
    }
  }
  found.sort((a, b) => b.place - a.place);
  for (const { q, head, place } of found.slice(0, 3)) {
    assert.ok(place > 26, `query ${q}, head ${head}: its strongest is in sight at the top`);
    await page.goto(Url("attn", { t: kText, h: String(head), q: String(q), k: "0" }));
    await page.reload();
    const seen = () =>
      page.evaluate((i) => {
        const list = document.querySelector(".query-list");
        const row = list?.querySelectorAll("li")[i];
        if (!row) return null;
        const [a, b] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
        return b.top >= a.top && b.bottom <= a.bottom;
      }, place);
    await Until(`key ${place} of query ${q}`, seen);
  }
});

// The least contrast of text with what is behind it, of all that has text below `selector`.
const LeastContrast = (page, selector) =>
  page.evaluate((within) => {
    const parse = (css) => (css.match(/[\d.]+/g) ?? []).map(Number);
    const light = (colour) => {
      const [r, g, b] = colour.map((c) =>
        c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4,
      );
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
        if (a === 1) return [r, g, b];
      }
      return [255, 255, 255];
    };
    let least = { ratio: 21 };
    for (const element of document.querySelectorAll(`${within}, ${within} *`)) {
      const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== "");
      if (!own) continue;
      let opacity = 1;
      for (let at = element; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
      const back = behind(element);
      const ink = parse(getComputedStyle(element).color)
        .slice(0, 3)
        .map((c, i) => c * opacity + back[i] * (1 - opacity));
      const [a, b] = [light(ink) + 0.05, light(back) + 0.05];
      const ratio = Math.max(a, b) / Math.min(a, b);
      if (ratio < least.ratio) least = { ratio, said: element.textContent, back };
    }
    return least;
  }, selector);

for (const colorScheme of ["light", "dark"]) {
  test(`text is readable on every tile (${colorScheme})`, async () => {
    const page = await on.Open(At("play", { c: "entropy" }), { colorScheme });
    const check = async (selector) => {
      await page.waitForSelector(selector);
      await page.waitForTimeout(200);
      const { ratio, said, back } = await LeastContrast(page, selector);
      assert.ok(ratio >= 4.5 && ratio < 21, `${selector} “${said}” on ${back}: ${ratio}`);
    };
    await Write(page, "The cat", 60);
    for (const mode of ["entropy", "rank", "probability"]) {
      await page.locator(".segments label", { hasText: mode }).click();
      await check(".result .prose");
      await check(".legend");
    }
    for (const s of ["linear", "sqrt", "log"]) {
      for (const step of ["softmax", "scores", "out"]) {
        await page.goto(Url("attn", { t: kText, s, q: "1", k: "0", h: "1", step }));
        await check(step === "out" ? ".step-rows" : ".step-cells li:not(.hidden-cell)");
        await check(".strip");
      }
    }
    await page.goto(Url("inside", { t: kText, q: "5" }));
    await check(".lens-cell");
  });
}

test("the table has the exact numbers of the mean and of the strongest head, too", async () => {
  const page = await on.Open("/");
  const trace = await TraceOf(on.service, kText);
  const T = Buffer.byteLength(kText);
  for (const [j, join] of [
    ["mean", (a, b) => (a + b) / 2],
    ["max", Math.max],
  ]) {
    const all = [];
    for (let q = 0; q < T; ++q) {
      const { numbers } = await Frame(`${trace}/row?q=${q}&l=1`);
      for (let k = 0; k <= q; ++k) all.push(join(numbers[k], numbers[T + k]));
    }
    all.sort((a, b) => b - a);
    await page.goto(Url("attn", { t: kText, l: "1", j, view: "table" }));
    await Until("rows", async () => (await page.locator(".map-panel tbody tr").count()) === 20);
    const rows = await page
      .locator(".map-panel tbody tr")
      .evaluateAll((lines) =>
        lines.map((line) => [0, 2, 4].map((cell) => Number(line.cells[cell].textContent))),
      );
    for (const [i, [q, k, p]] of rows.entries()) {
      const { numbers } = await Frame(`${trace}/row?q=${q}&l=1`);
      assert.ok(Math.abs(p - join(numbers[k], numbers[T + k])) < 1e-4, `${j} ${q} ${k}: ${p}`);
      assert.ok(Math.abs(p - all[i]) < 5e-3, `${j}, place ${i}: ${p} for ${all[i]}`);
    }
    // The sheet of a cell tells of the same map.
    const [q, k, p] = rows.at(-1);
    await page.goto(Url("attn", { t: kText, l: "1", j, q, k }));
    await Until("what is told", async () => {
      const told = (await page.textContent("#told")).match(/: ([\d.e−]+), /)?.[1];
      return told !== undefined && Math.abs(Number_(told) - p) < 1e-3;
    });
  }
});

test("each head score has its sentence", async () => {
  const page = await on.Open(At("attn", { t: kText }));
  const scores = page.locator(".head-scores details");
  await page.waitForSelector(".head-scores summary");
  assert.equal(await scores.count(), 7);
  // Entropies are in bits everywhere.
  const entropy = page.locator(".head-scores li", { hasText: "entropy" }).locator(".bar-number");
  const { about, numbers } = await Frame(`${await TraceOf(on.service, kText)}/scores`);
  const bits = numbers[about.columns.indexOf("entropy")] / Math.LN2;
  await Until("bits", async () => {
    const said = await entropy.textContent();
    return said.endsWith(" bits") && Math.abs(Number_(said.replace(" bits", "")) - bits) < 0.01;
  });
  const said = new Set();
  for (let i = 0; i < 7; ++i) {
    await scores.nth(i).locator("summary").click();
    const note = scores.nth(i).locator(".note");
    assert.ok(await note.isVisible());
    said.add(await note.textContent());
  }
  assert.equal(said.size, 7);
  for (const sentence of said) assert.match(sentence, /^[A-Z].{40,}\.$/s);
});

test("the pipeline ends with the logits and the next token's probabilities", async () => {
  const page = await on.Open(At("inside", { t: kText, v: "pipeline" }));
  const trace = await TraceOf(on.service, kText);
  const check = async (place) => {
    const { numbers } = await Frame(`${trace}/logits?pos=${place}`);
    const sorted = numbers.toSorted((a, b) => b - a);
    const sum = numbers.reduce((all, x) => all + Math.exp(x - sorted[0]), 0);
    const shown = () => page.locator(".pipeline .bars .bar-number").allTextContents();
    const agrees = (wanted, error) => async () => {
      const found = (await shown()).map(Number_);
      return found.length === 12 && found.every((x, i) => Math.abs(x - wanted(i)) < error);
    };
    await page.click("button.stop >> text=Logits");
    await Until(
      `logits ${place}`,
      agrees((i) => sorted[i], 2e-3),
    );
    await page.click("button.stop >> text=Next token");
    await Until(
      `probabilities ${place}`,
      agrees((i) => (100 * Math.exp(sorted[i] - sorted[0])) / sum, 0.06),
    );
    const stop = await page.locator("button.stop").last().textContent();
    assert.ok(stop.includes((await shown())[0]), stop);
  };
  await check(64);
  await page.locator(".pipeline .strip .chip").nth(20).click();
  await check(20);
});

test("embeddings have dots to be seen, names where they fit, and say when nothing is found", async () => {
  const page = await on.Open(At("inside", { v: "embeddings" }));
  const canvas = page.locator(".scatter canvas");
  await Until("names", async () => Number(await canvas.getAttribute("data-labels")) > 60);
  // The leftmost point's size; its name is to the right of it.
  const { numbers } = await Frame(`${on.service.url}/api/embed/pca`);
  const V = numbers.length / 3;
  const of = (column) => Array.from({ length: V }, (_, id) => numbers[3 * id + column]);
  const [xs, ys] = [of(0), of(1)];
  const id = xs.indexOf(Math.min(...xs));
  const tall = await page.evaluate(
    (t) => {
      const element = document.querySelector(".scatter canvas");
      const height = element.getBoundingClientRect().height;
      const y = Math.round(16 + (1 - t) * (height - 32));
      const { data } = element.getContext("2d").getImageData(16, y - 10, 1, 20);
      return Array.from({ length: 20 }, (_, i) => data[4 * i + 3]).filter((a) => a > 100).length;
    },
    (ys[id] - Math.min(...ys)) / (Math.max(...ys) - Math.min(...ys)),
  );
  assert.ok(tall >= 7 && tall <= 10, `${tall} pixels`);
  await page.fill("input[type=search]", "no token has this");
  await page.waitForSelector("text=Nothing found");
  await page.fill("input[type=search]", "e");
  await page.waitForSelector("button.chip");
  assert.equal(await page.locator("text=Nothing found").count(), 0);
});

test("on a phone a tap shows its panel, and what was tapped stays in sight", async () => {
  const page = await on.Open(At("play"), kPhone);
  await Write(page, "The cat sat on the mat. ".repeat(3), 50);
  assert.equal(await page.locator("#generate kbd").isVisible(), false, "a phone has no such keys");
  // The panel lies within the window, over nothing that was tapped.
  const check = async (panel, tapped) => {
    await Until(`${panel} in sight`, () =>
      page.evaluate(
        ([over, of]) => {
          const box = document.querySelector(over)?.getBoundingClientRect();
          const rail = document.querySelector(".rail").getBoundingClientRect();
          if (!box || box.top < 0 || box.top > rail.top - 150) return false;
          const at = document.elementFromPoint(box.left + 40, box.top + 20);
          if (!at?.closest(over)) return false;
          if (!of) return true;
          const { left, top, width, height } = document.querySelector(of).getBoundingClientRect();
          const found = document.elementFromPoint(left + width / 2, top + height / 2);
          return found?.closest(of) !== null;
        },
        [panel, tapped],
      ),
    );
    await page.locator(".sheet-close").tap();
    await Until(`${panel} put away`, async () => (await page.locator(".sheet.open").count()) === 0);
  };
  await page.locator(".piece:not(.given)").nth(45).tap();
  await check(".token-panel", ".piece.chosen");
  await page.goto(Url("attn", { t: kText }));
  await page.locator(".strip .chip").nth(30).tap();
  await check(".query-panel", ".chip.chosen");
  await page.locator(".heat-map canvas").tap({ position: { x: 60, y: 250 } });
  await check(".query-panel");
  await page.goto(Url("inside", { t: kText }));
  await page.locator(".lens-cell").nth(2).tap();
  await check(".sheet .panel", ".lens-cell.chosen");
  await page.goto(Url("inside", { t: kText, v: "pipeline" }));
  await page.locator("button.stop").last().tap();
  await check(".sheet .panel", ".stop[aria-pressed=true]");
  await page.goto(Url("inside", { v: "embeddings" }));
  await page.fill("input[type=search]", "e");
  await page.locator("button.chip").first().tap();
  await check(".near");
});

test("the text has the height of the screen, and the model is described in words", async () => {
  const page = await on.Open(At("play"));
  const words = /\d+ layers?, \d+ heads?, width \d+.* parameters.*float32 weights/;
  await Until("the model", async () => words.test(await page.textContent(".model-card")));
  assert.ok(await page.locator("#generate kbd").isVisible());
  for (const tab of ["write", "score"]) {
    await page.goto(Url("play", { tab }));
    await Until(tab, async () => {
      const { y = 0, height = 0 } = (await page.locator(".result").boundingBox()) ?? {};
      return y + height > 840 && y + height <= 900;
    });
  }
});

test("where there is room nothing lies over anything", async () => {
  const page = await on.Open(At("attn", { t: kText, q: "30", k: "3" }));
  await page.waitForSelector(".sheet.open .query-panel");
  assert.equal(await page.locator(".sheet-close").isVisible(), false);
});

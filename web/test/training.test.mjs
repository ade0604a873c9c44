// Runs that grow while one looks, and a service that comes back.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Downloaded, Generate, Module, Open, Says, Stage, Until } from "./kit.mjs";

let log, live;
const on = Stage(async ({ workshop, Serve }) => {
  const often = ["--eval-every", "10", "--sample-every", "10"];
  log = join(workshop.Train("first", "--max-steps", "30", ...often), "metrics.jsonl");
  workshop.Train("second", "--max-steps", "20", "--seed", "2", "--lr", "0.002");
  live = await workshop.Live("live");
  return { service: await Serve("--runs", workshop.runs) };
});

const Rows = (of = log) =>
  readFileSync(of, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
function Append(count, to = log) {
  const last = Rows(to).at(-1);
  for (let i = 1; i <= count; ++i)
    appendFileSync(
      to,
      `${JSON.stringify({ ...last, step: last.step + i, loss: 2 + i / 1000, seconds: last.seconds + i, tokens: last.tokens + i })}\n`,
    );
  return last.step + count;
}

// A run of so many steps whose log says what `row(step)` does.
function Written(name, steps, row) {
  mkdirSync(join(on.workshop.runs, name));
  const rows = Array.from({ length: steps }, (_, step) => JSON.stringify({ step, ...row(step) }));
  writeFileSync(join(on.workshop.runs, name, "metrics.jsonl"), `${rows.join("\n")}\n`);
}

// For each chart's canvas this returns its pixels that have a run's colour, by run; the pixels of its left edge
// that something is drawn on; and for the first run where its line is in each column.
async function Drawn(page, runs) {
  return page.evaluate((names) => {
    const colours = names.map((name) => {
      const row = [...document.querySelectorAll(".run")].find(
        (one) => one.querySelector(".run-name").textContent === name,
      );
      const hex = row.querySelector("input[type=color]").value;
      return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    });
    return [...document.querySelectorAll(".plot canvas")].map((canvas) => {
      const { width, height } = canvas;
      const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
      const pixels = names.map(() => 0);
      const line = [];
      let edge = 0;
      for (let x = 0; x < width; ++x) {
        let [sum, ink] = [0, 0];
        for (let y = 0; y < height; ++y) {
          const at = 4 * (y * width + x);
          const a = data[at + 3];
          if (x === 0 && a > 0) ++edge;
          if (a < 16) continue;
          for (let run = 0; run < colours.length; ++run) {
            if (colours[run].some((part, i) => Math.abs(data[at + i] - part) > 12)) continue;
            ++pixels[run];
            if (run === 0) [sum, ink] = [sum + a * y, ink + a];
          }
        }
        if (ink > 0) line.push(sum / ink);
      }
      return { pixels, edge, line };
    });
  }, runs);
}

// Each chart shows each of the runs, after every one of ten loads.
async function LoadsWhole(page, runs, charts) {
  for (let load = 0; load < 10; ++load) {
    await page.reload();
    await Until(`charts of ${runs}, load ${load}`, async () => {
      if ((await page.locator(".plot canvas").count()) < charts) return false;
      return (await Drawn(page, runs)).every(({ pixels }) => pixels.every((count) => count >= 20));
    });
  }
}

// Steps and losses of the first chart, as its table has them.
async function Table(page) {
  return (await page.locator(".chart >> nth=0 >> tbody tr").allTextContents()).length;
}

test("curves are those of the log, in the chart and in what is saved", async () => {
  const page = await on.Open("/#/runs?r=first,second");
  await page.waitForSelector(".u-over");
  const { bytes } = await Downloaded(page, () => page.click("text=Save CSV"));
  const losses = bytes
    .toString()
    .split("\r\n")
    .filter((row) => row.startsWith("first,loss,"))
    .map((row) => row.split(",").slice(2).map(Number));
  const wanted = Rows().filter(({ loss }) => loss !== undefined);
  assert.deepEqual(
    losses.map(([step]) => step),
    wanted.map(({ step }) => step),
  );
  losses.forEach(([, mean], i) => assert.ok(Math.abs(mean / wanted[i].loss - 1) < 1e-4));
  const svg = await Downloaded(page, () => page.click(".chart >> nth=0 >> text=SVG"));
  assert.equal(
    await page.evaluate(
      (said) =>
        new DOMParser().parseFromString(said, "image/svg+xml").querySelectorAll("polyline").length,
      svg.bytes.toString(),
    ),
    2,
  );
  const png = await Downloaded(page, () => page.click(".chart >> nth=0 >> text=PNG"));
  assert.equal(png.bytes.toString("latin1", 1, 4), "PNG");
  assert.ok(png.bytes.readUInt32BE(16) > 600);
  await page.click("text=Compare");
  await page.waitForSelector("text=Settings that differ");
  await Says(page, ".wide-table >> nth=1", /0\.002/);
  await page.click("text=Samples");
  await page.waitForSelector(".tabs [aria-selected=true] >> text=Samples");
});

test("a chart grows with its log, and over a new start of the service nothing is lost or doubled", async () => {
  const page = await on.Open("/#/runs?r=first", { allowed: [/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to fetch/] });
  await page.waitForSelector(".u-over");
  await page.click(".chart >> nth=0 >> text=Table");
  await Until("the table", async () => (await Table(page)) > 0);
  const before = await Table(page);
  let last = Append(7);
  await Until("seven more", async () => (await Table(page)) === before + 7);
  await on.service.Stop("SIGKILL");
  await page.waitForSelector("text=does not answer");
  last = Append(5);
  on.service = await on.Serve("--runs", on.workshop.runs, "--port", on.service.port);
  await Until("five more", async () => (await Table(page)) === before + 12);
  await page.waitForSelector("text=does not answer", { state: "detached" });
  Append(3);
  await Until("three more", async () => (await Table(page)) === before + 15);
  assert.match(
    await page.textContent(".chart >> nth=0 >> tbody tr >> nth=0"),
    new RegExp(`^${last + 3}`),
  );
});

test("a run that trains prints the address that shows it", async () => {
  await Until("its first steps", () => Rows(live.log).length > 60);
  const page = await Open(live.url);
  await page.waitForSelector(".run.shown .run-name >> text=live");
  await page.waitForSelector(".run-state.running");
  await Until("its curve", async () => (await Drawn(page, ["live"]))[0]?.pixels[0] > 20);
  await live.Hold();
  // The run has as many steps on every machine: beside thousands the twenty of another run have no width.
  writeFileSync(live.log, `${readFileSync(live.log, "utf8").split("\n").slice(0, 60).join("\n")}\n`);
});

test("charts of ended runs, of one that trains, and of both are drawn at every load", async () => {
  for (const copy of ["b", "c", "d", "e", "f"])
    cpSync(join(on.workshop.runs, "second"), join(on.workshop.runs, copy), { recursive: true });
  const page = await on.Open(`/#/runs`);
  await page.waitForSelector(".run >> nth=7");
  for (const runs of [["first"], ["live"], ["second", "live"]]) {
    await page.goto(`${on.service.url}/#/runs?r=${runs}`);
    // Without an evaluation there is no chart of them.
    await LoadsWhole(page, runs, 4);
  }
  // By itself the page shows the newest.
  await page.goto(`${on.service.url}/#/runs`);
  await page.reload();
  const newest = await page.textContent(".run.shown .run-name");
  await LoadsWhole(page, [newest], 4);
});

test("what is left of a run that trains is told as it goes", async () => {
  const { Duration } = await Module("format.ts");
  const page = await on.Open(`/#/runs?r=live`);
  const left = page.locator(".run", { hasText: "live" }).locator("dt:text-is('left') + dd");
  await left.waitFor();
  // Steps that take a second each.
  const last = Append(150, live.log);
  await Until("what is left", async () => (await left.textContent()) === Duration(999999 - last));
});

test("losses are smoothed; evaluations and the plan of the learning rate are not", async () => {
  const page = await on.Open("/#/runs?r=first");
  const tables = async (address) => {
    await page.goto(`${on.service.url}/#/runs?${address}`);
    await page.reload();
    await page.waitForSelector(".chart >> nth=4 >> .u-over");
    for (const button of await page.locator(".chart button:text-is('Table')").all())
      await button.click();
    const charts = await page.locator(".chart").all();
    return Object.fromEntries(
      await Promise.all(
        charts.map(async (chart) => [
          await chart.locator("h2").textContent(),
          await chart.locator("tbody").textContent(),
        ]),
      ),
    );
  };
  const [plain, smooth] = [await tables("r=first"), await tables("r=first&sm=10")];
  for (const same of ["Held-out loss", "Learning rate"]) assert.equal(smooth[same], plain[same]);
  for (const other of ["Loss", "Gradient norm", "Tokens per second, by step"])
    assert.notEqual(smooth[other], plain[other]);
});

test("a line falls without stairs, its axis is whole, and one point is a point", async () => {
  Written("plan", 1000, (step) => ({
    loss: 2,
    lr: step === 0 ? 0 : 5e-5 * (1 - step / 4000),
    ...(step === 500 ? { val_loss: 2.25 } : {}),
  }));
  const page = await on.Open(`/#/runs?r=plan`);
  await Until("its charts", async () => (await page.locator(".plot canvas").count()) === 3);
  const [loss, held_out, rate] = await Until("what is drawn", async () => {
    const drawn = await Drawn(page, ["plan"]);
    return drawn.every(({ pixels }) => pixels[0] > 10) && drawn;
  });
  // A dot of five pixels in either, with a line of 2 in one.
  assert.ok(held_out.line.length >= 4 && held_out.line.length <= 9, `${held_out.line.length}`);
  assert.ok(loss.line.length > 300);
  // It falls by a seventh of a pixel from column to column; a stair is level for six of them.
  const falls = rate.line.slice(9, -9).map((y, i, line) => (line[i + 1] ?? y) - y);
  const level = falls.map((by) => (Math.abs(by) < 0.005 ? "_" : " ")).join("").split(" ");
  const longest = Math.max(...level.map(({ length }) => length));
  assert.ok(falls.length > 200 && longest < 4, `${longest} columns are level`);
  for (const { edge } of [loss, held_out, rate]) assert.equal(edge, 0);
  const svg = await Downloaded(page, () => page.click(".chart >> nth=1 >> text=SVG"));
  assert.match(svg.bytes.toString(), /<circle cx="[\d.]+" cy="[\d.]+" r="3"/);
});

test("a figure says what the screen shows", async () => {
  Written("four", 4, (step) => ({ loss: step === 0 ? 2 : 1 }));
  const page = await on.Open(`/#/runs?r=four`);
  await page.waitForSelector(".u-over");
  const svg = (await Downloaded(page, () => page.click("text=SVG"))).bytes.toString();
  assert.match(svg, /points="64.0,40.0 280.0,352.0 496.0,352.0 712.0,352.0"/);
  const steps = [...svg.matchAll(/y="368" [^>]*>([^<]*)</g)];
  assert.deepEqual(
    steps.map(([, said]) => said),
    ["0", "1", "2", "3"],
  );
});

test("a run that cannot be read says why, among those that can", async () => {
  const foreign = join(on.workshop.runs, "foreign");
  mkdirSync(foreign);
  assert.equal(spawnSync("mkfifo", [join(foreign, "metrics.jsonl")]).status, 0);
  const page = await on.Open(`/#/runs?r=first,foreign`);
  const reason = page.locator(".run", { hasText: "foreign" }).locator(".run-problem");
  await Until("the reason", async () =>
    /metrics\.jsonl: it is a pipe/.test(await reason.textContent()),
  );
  assert.equal(await page.locator(".run-problem").count(), 1);
  await page.waitForSelector(".plot canvas");
  if (process.env.PICTURE) await page.screenshot({ path: process.env.PICTURE });
  rmSync(foreign, { recursive: true });
  await Until("that it is gone", async () => (await page.locator(".run-problem").count()) === 0);
});

test("a list of runs that comes behind the news of them is asked for again", async () => {
  const page = await on.Open("/#/runs?r=first");
  const short = join(on.workshop.runs, "short");
  cpSync(join(on.workshop.runs, "first"), short, { recursive: true });
  let Release;
  const released = new Promise((resolve) => (Release = resolve));
  await page.route("**/api/runs", async (route) => {
    const response = await route.fetch();
    await released;
    await route.fulfill({ response });
  });
  const asked = page.waitForRequest("**/api/runs");
  await page.reload();
  await asked;
  const Listed = async () => (await (await fetch(`${on.service.url}/api/runs`)).json()).runs;
  await new Promise((resolve) => setTimeout(resolve, 1500)); // the service has seen it
  assert.ok((await Listed()).some(({ id }) => id === "short"));
  rmSync(short, { recursive: true });
  await new Promise((resolve) => setTimeout(resolve, 2500)); // and has told that it is gone
  Release();
  await page.waitForSelector(".run >> text=first");
  await Until("that it is gone", async () => (await page.locator(".run", { hasText: "short" }).count()) === 0);
});

test("the cursor moves along a chart by keys, and says where it is", async () => {
  const page = await on.Open("/#/runs?r=first");
  await page.waitForSelector(".u-over");
  await page.locator(".plot").first().focus();
  await page.keyboard.press("ArrowLeft");
  await Says(page, "#live", /step \d+, first \d/);
});

test("before the first step, with one point alone and without samples, the screens say what there is", async () => {
  mkdirSync(join(on.workshop.runs, "begun"));
  writeFileSync(join(on.workshop.runs, "begun", "config.toml"), "[train]\nmax_steps = 100\n");
  const page = await on.Open("/#/runs?r=begun");
  await Says(page, ".empty", /No step is in the log yet/);
  await page.click("text=Samples");
  await Says(page, ".empty", /--sample-every 100/);
  Written("alone", 1, () => ({ loss: 2, lr: 0.001 }));
  await page.evaluate(() => (location.hash = "#/runs?r=alone"));
  await page.waitForSelector(".plot canvas");
  // The ticks of an axis are of different values.
  const { bytes } = await Downloaded(page, () => page.click("text=SVG"));
  assert.match(bytes.toString(), /<circle/);
  rmSync(join(on.workshop.runs, "begun"), { recursive: true });
});

test("events have begin, best and end, and counts their separators", async () => {
  const page = await on.Open("/#/runs?r=first&v=events");
  await page.waitForSelector("tbody tr");
  const rows = await page.locator("tbody tr td:nth-child(3)").allTextContents();
  for (const event of ["begin", "best so far", "end"]) assert.ok(rows.includes(event), `${rows}`);
  assert.equal(rows.at(-1), "begin");
  Written("large", 3, (step) => ({ loss: 2, tokens: 1234567 * (step + 1), seconds: step + 1, tokens_per_second: 9 }));
  await page.evaluate(() => (location.hash = "#/runs?r=large"));
  const facts = page.locator(".run.shown .run-facts");
  await Until("a mean", async () => /tokens\/s, mean1\u202f234\u202f567/.test(await facts.textContent()));
  await page.click("text=Compare");
  await Says(page, ".wide-table", /3\u202f703\u202f701/);
});

test("a training is stopped, and its checkpoint written with, from the page that shows it", async () => {
  const own = await on.workshop.Live("stopped", "--set", "train.checkpoint_every=5");
  const page = await Open(own.url, { allowed: [/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to fetch|409/] });
  await Says(page, ".state", /training/);
  await Until("a checkpoint", async () => {
    await page.click("text=Write with it");
    await page.waitForSelector("#prompt, .run-actions .failure");
    return (await page.locator("#prompt").count()) > 0;
  });
  await Until("its model", async () =>
    /^stopped@\d+$/.test(await page.textContent(".model-card strong")),
  );
  await Generate(page);
  await page.keyboard.press("4");
  await page.click("text=Stop and save");
  await Says(page, "main > .failure", /stopped and saved/);
});

test("another process's training has no button to stop it", async () => {
  const page = await on.Open("/#/runs?r=live");
  await page.waitForSelector("text=Write with it");
  assert.equal(await page.locator("text=Stop and save").count(), 0);
});

test("a service without a model opens at Training, and says so where one is needed", async () => {
  const page = await on.Open("/");
  await page.waitForSelector(".rail a[aria-current=page] >> text=Training");
  await page.waitForSelector(".run");
  assert.notEqual(await page.textContent(".state"), "ready");
  await Until("its address", () => page.url().endsWith("/#/runs"));
  const other = await on.Open("/#/play");
  await other.waitForSelector("text=no model");
});

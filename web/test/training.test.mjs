// Runs that grow while one looks, and a service that comes back.
import assert from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser, Downloaded, Open, Serve, Until, Workshop } from "./kit.mjs";

let workshop, service, browser, log;
before(async () => {
  workshop = Workshop();
  log = join(
    workshop.Train("first", "--max-steps", "30", "--eval-every", "10", "--sample-every", "10"),
    "metrics.jsonl",
  );
  workshop.Train("second", "--max-steps", "20", "--seed", "2", "--lr", "0.002");
  service = await Serve("--runs", workshop.runs);
  browser = await Browser();
});
after(async () => {
  await browser?.close();
  await service?.Stop();
  workshop?.Remove();
});

const Rows = () =>
  readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
function Append(count) {
  const last = Rows().at(-1);
  for (let i = 1; i <= count; ++i)
    appendFileSync(
      log,
      `${JSON.stringify({ ...last, step: last.step + i, loss: 2 + i / 1000, seconds: last.seconds + i, tokens: last.tokens + i })}\n`,
    );
  return last.step + count;
}

// Steps and losses of the first chart, as its table has them.
async function Table(page) {
  return (await page.locator(".chart >> nth=0 >> tbody tr").allTextContents()).length;
}

test("curves are those of the log, in the chart and in what is saved", async () => {
  const { page, Close } = await Open(browser, `${service.url}/#/runs?r=first,second`);
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
  await Until("the learning rates", async () =>
    /0\.002/.test(await page.textContent(".wide-table >> nth=1")),
  );
  await page.click("text=Samples");
  await page.waitForSelector(".tabs [aria-selected=true] >> text=Samples");
  await Close();
});

test("a chart grows with its log, and over a new start of the service nothing is lost or doubled", async () => {
  const { page, Close } = await Open(browser, `${service.url}/#/runs?r=first`, {
    allowed: [/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to fetch/],
  });
  await page.waitForSelector(".u-over");
  await page.click(".chart >> nth=0 >> text=Table");
  await Until("the table", async () => (await Table(page)) > 0);
  const before = await Table(page);
  let last = Append(7);
  await Until("seven more", async () => (await Table(page)) === before + 7);
  await service.Stop("SIGKILL");
  await page.waitForSelector("text=does not answer");
  last = Append(5);
  service = await Serve("--runs", workshop.runs, "--port", service.port);
  await Until("five more", async () => (await Table(page)) === before + 12);
  await page.waitForSelector("text=does not answer", { state: "detached" });
  Append(3);
  await Until("three more", async () => (await Table(page)) === before + 15);
  assert.match(
    await page.textContent(".chart >> nth=0 >> tbody tr >> nth=0"),
    new RegExp(`^${last + 3}`),
  );
  await Close();
});

test("the cursor moves along a chart by keys, and says where it is", async () => {
  const { page, Close } = await Open(browser, `${service.url}/#/runs?r=first`);
  await page.waitForSelector(".u-over");
  await page.locator(".plot").first().focus();
  await page.keyboard.press("ArrowLeft");
  await Until("the live region", async () =>
    /step \d+, first \d/.test(await page.textContent("#live")),
  );
  await Close();
});

test("a service without a model says so where one is needed", async () => {
  const { page, Close } = await Open(browser, `${service.url}/#/play`);
  await page.waitForSelector("text=no model");
  await Close();
});

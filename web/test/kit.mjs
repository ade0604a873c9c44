// The tests stand on a tiny model in a temporary directory, the service over it, and a browser.
// A page that asks another origin, breaks its policy or logs an error fails its test.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before } from "node:test";
import { createInterface } from "node:readline";
import { build } from "esbuild";
import { chromium } from "playwright-core";

export const kFolio =
  process.env.FOLIO ?? new URL("../../build/release/folio", import.meta.url).pathname;
const kChromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
const kDeadline = 15000; // milliseconds for anything to happen
const kSlower = Number(process.env.SLOWER ?? 1); // SLOWER=5: pages have a fifth of the processor

function Run(...args) {
  const { status, stderr } = spawnSync(kFolio, args, { encoding: "utf8" });
  assert.equal(status, 0, `folio ${args.join(" ")}: ${stderr}`);
}

// A model that is larger than the debug preset's, and has room for a text.
const kModel = ["--preset", "debug"].concat(
  [
    "train.batch_size=4",
    "train.context=32",
    "model.n_embd=32",
    "model.n_inner=128",
    "model.n_positions=32",
  ].flatMap((size) => ["--set", size]),
);

// A directory of runs; what must be ended is added to `ends`.
function Workshop(ends) {
  const root = mkdtempSync(join(tmpdir(), "folio-web-"));
  const stories = join(root, "stories.txt");
  ends.push(() => rmSync(root, { recursive: true, force: true }));
  Run("data", "stories", "--out", stories, "--bytes", "60000");
  return {
    root,
    runs: join(root, "runs"),
    // A model that was taught to answer, a little: it ends its turns.
    Teach(name, ...more) {
      const questions = join(root, "questions.jsonl");
      const lines = ["red", "blue", "green"].map((colour) =>
        JSON.stringify({
          messages: [
            { role: "user", content: `Is it ${colour}?` },
            { role: "assistant", content: `It is ${colour}.` },
          ],
        }),
      );
      writeFileSync(questions, `${lines.join("\n")}\n`.repeat(60));
      return this.Train(name, "--data", questions, ...more);
    },
    // A tokenizer of merges.
    Learn() {
      const out = join(root, "tokenizer");
      Run("tokenizer", "train", stories, "--vocab-size", "400", "--out", out);
      return out;
    },
    Train(name, ...more) {
      const out = join(root, "runs", name);
      const data = more.includes("--data") ? [] : ["--data", stories];
      const tokenizer = more.includes("--tokenizer") ? [] : ["--tokenizer", "bytes"];
      Run("train", ...data, ...tokenizer, ...kModel, "--out", out, "--quiet", ...more);
      return out;
    },
    // A run that trains, and a page of its own; `Hold` makes it stand still in the midst of it.
    async Live(name, ...more) {
      const out = join(root, "runs", name);
      const child = spawn(
        kFolio,
        ["train", "--data", stories, "--tokenizer", "bytes", ...kModel, "--out", out].concat(
          ["--max-steps", "1000000", "--serve", "--port", "0"],
          more,
        ),
        { stdio: ["ignore", "ignore", "pipe"] },
      );
      let said = "";
      child.stderr.on("data", (more) => (said += more));
      const ended = new Promise((resolve) => child.on("exit", resolve));
      const url = await Until("the address", () => said.match(/http:\/\/\S+(?=\n)/)?.[0]);
      ends.push(async () => {
        child.kill("SIGKILL");
        await ended;
      });
      return {
        url,
        log: join(out, "metrics.jsonl"),
        async Hold() {
          child.kill("SIGSTOP");
          const stat = `/proc/${child.pid}/stat`;
          await Until("that it stands still", () => /\) T /.test(readFileSync(stat, "utf8")));
        },
      };
    },
  };
}

// `folio serve` with these flags; at a free port unless they say one.
export async function Serve(...flags) {
  const port = flags.includes("--port") ? [] : ["--port", "0"];
  const child = spawn(kFolio, ["serve", ...port, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr.on("data", (said) => (errors += said));
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const first = await Promise.race([
    new Promise((resolve) => createInterface(child.stdout).once("line", resolve)),
    ended.then((code) => {
      throw new Error(`folio serve ended with ${code}: ${errors}`);
    }),
  ]);
  const url = first.match(/http:\/\/\S+/)[0].replace(/\/$/, "");
  return {
    url,
    port: new URL(url).port,
    async Stop(signal = "SIGTERM") {
      child.kill(signal);
      await ended;
    },
  };
}

let browser;
export async function Browser() {
  assert.ok(existsSync(kChromium), `no ${kChromium}`);
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  browser ??= await chromium.launch({ executablePath: kChromium, args });
  return browser;
}

// What a file of tests stands on: a workshop, and what `make` makes in it, with a function that serves. `Open` opens a
// page of what it calls `service`. All ends behind the tests.
export function Stage(make) {
  const stage = {};
  const ends = [];
  before(async () => {
    stage.workshop = Workshop(ends);
    stage.Serve = async (...flags) => {
      const service = await Serve(...flags);
      ends.push(() => service.Stop());
      return service;
    };
    Object.assign(stage, await make(stage));
  });
  afterEach(Close);
  after(async () => {
    await browser?.close();
    for (const end of ends.reverse()) await end();
  });
  stage.Open = (address, options) => Open(`${stage.service.url}${address}`, options);
  return stage;
}

let opened = [];

// Closes the pages that a test has opened; none may have had a fault.
export async function Close() {
  const all = opened;
  opened = [];
  for (const { context } of all) await context.close();
  assert.deepEqual(all.flatMap(({ faults }) => faults), []);
}

// A page whose faults are collected; `allowed`: of what is logged.
export async function Open(url, { allowed = [], ...options } = {}) {
  const context = await (await Browser()).newContext({
    viewport: { width: 1440, height: 900 },
    acceptDownloads: true,
    ...options,
  });
  const faults = [];
  opened.push({ context, faults });
  const page = await context.newPage();
  page.setDefaultTimeout(kDeadline);
  if (kSlower > 1)
    await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", {
      rate: kSlower,
    });
  const origin = new URL(url).origin;
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(origin) && !/^(blob|data):/.test(to)) faults.push(`asked ${to}`);
  });
  page.on("console", (message) => {
    if (message.type() === "error" && !allowed.some((one) => one.test(message.text())))
      faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(error.message));
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    ),
  );
  await page.goto(url);
  await page.waitForSelector("main :not(.empty)");
  return page;
}

// Has the page read what is generated in pieces, with pauses of so many milliseconds.
export async function ReadSlowly(page, pause) {
  await page.evaluate((pause) => {
    const real = fetch;
    globalThis.fetch = async (path, init) => {
      const answer = await real(path, init);
      if (!String(path).includes("generate")) return answer;
      const slow = answer.body.pipeThrough(
        new TransformStream({
          async transform(chunk, out) {
            for (let at = 0; at < chunk.length; at += 300) {
              out.enqueue(chunk.subarray(at, at + 300));
              await new Promise((done) => setTimeout(done, pause));
            }
          },
        }),
      );
      return new Response(slow, { status: answer.status });
    };
  }, pause);
}

// Has the page come anew with these settings of the sampler.
export async function Choose(page, settings) {
  await page.evaluate((all) => localStorage.setItem("folio.sampler", JSON.stringify(all)), settings);
  await page.reload();
}

// Has the page write on, and waits for the end.
export async function Generate(page) {
  await page.click("#generate");
  await page.waitForSelector("#stop", { state: "detached" });
  // Half a character has no width.
  await page.waitForSelector(".piece:not(.given)", { state: "attached" });
}

// The same from a prompt, so many tokens.
export async function Write(page, prompt, tokens = 16, more = {}) {
  await Choose(page, { max_tokens: tokens, seed: "7", ...more });
  await page.fill("#prompt", prompt);
  await Generate(page);
}

// Waits until the numbers of the token that was picked are those of every logit.
export const Exact = (page) =>
  Until("exact numbers", async () => !/≈/.test(await page.textContent(".token-panel .bars")));

// The service's answer, asked for by other code than the page's.
export async function Ask({ url }, path, body) {
  const how = body && { method: "POST", body: JSON.stringify(body) };
  return (await fetch(`${url}/api/${path}`, how)).json();
}

// The address of a text's trace.
export async function TraceOf(service, text) {
  return `${service.url}/api/trace/${(await Ask(service, "trace", { text })).trace}`;
}

export async function Until(what, check) {
  for (const end = Date.now() + kDeadline; ;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) assert.fail(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// A module of the page, to be tried without one.
export async function Module(path) {
  const entry = new URL(`../src/${path}`, import.meta.url).pathname;
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "error",
  });
  return import(
    `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`
  );
}

export async function Downloaded(page, act) {
  const [download] = await Promise.all([page.waitForEvent("download"), act()]);
  const stream = await download.createReadStream();
  const parts = [];
  for await (const part of stream) parts.push(part);
  return { name: download.suggestedFilename(), bytes: Buffer.concat(parts) };
}

// Numbers of the service, read by other code than the page's.
export async function Frame(url) {
  const bytes = Buffer.from(await (await fetch(url)).arrayBuffer());
  const begin = 8 + bytes.readUInt32LE(0);
  const { __metadata__, numbers } = JSON.parse(bytes.toString("utf8", 8, begin));
  const [size, read] = { U8: [1, "readUInt8"], I16: [2, "readInt16LE"], F32: [4, "readFloatLE"] }[
    numbers.dtype
  ];
  return {
    about: Object.fromEntries(
      Object.entries(__metadata__).map(([key, said]) => [key, JSON.parse(said)]),
    ),
    numbers: Array.from({ length: (bytes.length - begin) / size }, (_, i) =>
      bytes[read](begin + size * i),
    ),
  };
}

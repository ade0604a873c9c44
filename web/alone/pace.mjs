// How fast the page computes in Debian's chromium, on one thread and on more: node web/alone/pace.mjs TEXT
import { readFileSync } from "node:fs";
import { Browser, Close, Open } from "../test/kit.mjs";
import { Files } from "./visit.mjs";

const kShapes = { small: { n_layer: 4, n_embd: 128 }, medium: { n_layer: 6, n_embd: 192 } };
const kRounds = 2; // of which the better one counts, as a machine does other things too

// In the page: the median step of a training, and what its model then writes, by a worker that nothing else is asked of.
async function Measure({ text, shape }) {
  const worker = new Worker("worker.js", { type: "module" });
  const Ask = (ask, given, hear) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => {
        if ("part" in data) hear(data.part);
        else if ("failure" in data) reject(new Error(data.failure));
        else resolve(data.ready ?? data.end);
      };
      if (ask) worker.postMessage({ ask, given });
    });
  const { threads } = await Ask();
  const ends = [];
  await Ask("train", { text, ...shape, steps: 5000 }, (part) => {
    if ("loss" in part && ends.push(performance.now()) === 20) worker.postMessage({ ask: "stop" });
  });
  const steps = ends.slice(1).map((end, i) => end - ends[i]);
  const options = { max_tokens: 400, temperature: 0.8, top_k: 0, seed: 1 };
  const { tokens, seconds } = await Ask("write", { text: text[0], options }, () => {});
  worker.terminate();
  return { threads, pace: [1000 / steps.sort((a, b) => a - b)[steps.length >> 1], tokens / seconds] };
}

const text = readFileSync(process.argv[2], "utf8");
const servers = [await Files(false), await Files(true)];
const best = new Map();
for (let round = 0; round < kRounds; ++round)
  for (const [size, shape] of Object.entries(kShapes))
    for (const { url } of servers) {
      const page = await Open(`${url}/`);
      const { threads, pace } = await page.evaluate(Measure, { text, shape });
      const name = `${size}, threads: ${threads}`;
      best.set(name, pace.map((now, i) => Math.max(now, best.get(name)?.[i] ?? 0)));
      await Close();
    }
for (const [name, [steps, tokens]] of best)
  console.log(`${name}: ${steps.toFixed(2)} steps/s, ${Math.round(tokens)} tokens/s`);
await (await Browser()).close();

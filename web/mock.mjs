// The development server: serves dist/ and answers as API.md says, with numbers that are made up
// but agree with each other. `npm run mock`, then http://127.0.0.1:8090. With FOLIO=ADDRESS it
// serves dist/ alone and hands everything else on to the `folio serve` that listens there.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import {
  L,
  H,
  C,
  D,
  P,
  V,
  vocabulary,
  Encode,
  Noise,
  Gauss,
  Judge,
  Gvz,
  OfTrace,
  Softmax,
  traces,
  Json,
  Failure,
} from "./mock_model.mjs";

const kPort = Number(process.env.PORT ?? 8090);
const kFolio = process.env.FOLIO ?? "";
const kKey = process.env.FOLIO_KEY ?? "";

// ---- Runs: curves that fall, one of them while one looks.
const runs = ["bold-fox", "calm-owl", "shy-elk"].map((id, n) => ({
  id,
  n,
  max_steps: 2000,
  until: n === 0 ? 900 : n === 1 ? 2000 : 1300,
}));
const begun = Date.now() / 1000;
const StepOf = (run) =>
  run.n === 0
    ? Math.min(run.max_steps, run.until + Math.floor((Date.now() / 1000 - begun) * 4))
    : run.until;
const RowOf = ({ n }, step) => {
  const row = {
    step,
    loss: 1.4 + n * 0.1 + 3 * Math.exp(-step / 250) + 0.08 * Gauss(n, step),
    lr: Math.min(step / 100, 1) * 6e-4 * (0.55 + 0.45 * Math.cos((step / 2000) * Math.PI)),
    grad_norm: 0.6 + 2 * Math.exp(-step / 80) + 0.1 * Math.abs(Gauss(n, step, 5)),
    tokens: (step + 1) * 4096,
    tokens_per_second: 41000 + 900 * Gauss(n, step, 9),
    seconds: step * 0.1,
    time: begun - 2000 * n - 100 + step * 0.1,
  };
  if (step % 100 === 0)
    row.val_loss = 1.5 + n * 0.1 + 3 * Math.exp(-step / 260) + 0.02 * Gauss(n, step, 3);
  return row;
};
const Summary = (run) => {
  const step = StepOf(run),
    { loss, lr, tokens, tokens_per_second, seconds, time } = RowOf(run, step);
  return {
    id: run.id,
    state: run.n === 0 && step < run.max_steps ? "running" : run.n === 2 ? "stopped" : "ended",
    step,
    max_steps: run.max_steps,
    loss,
    val_loss: RowOf(run, step - (step % 100)).val_loss,
    lr,
    tokens,
    tokens_per_second,
    seconds,
    updated: time,
    eta: run.n === 0 ? (run.max_steps - step) / 4 : undefined,
  };
};
const Config = ({ n }) => ({
  "model.n_layer": "4",
  "model.n_head": "4",
  "model.n_embd": n === 1 ? "128" : "64",
  "train.learning_rate": n === 2 ? "0.001" : "0.0006",
  "train.max_steps": "2000",
  "train.seed": String(n + 1),
  "train.batch_size": "16",
});

function OfRun(run, what, query) {
  if (!what)
    return Json({
      ...Summary(run),
      config: Config(run),
      files: [],
      keys: ["loss", "val_loss", "lr", "grad_norm", "tokens_per_second"],
      events: [
        { step: 500, event: "checkpoint", text: "step 500" },
        ...(run.n === 2
          ? [{ step: 700, event: "skipped", text: "NaN in the gradient of wte" }]
          : []),
      ],
    });
  if (what === "samples")
    return Json(
      [0, 250, 500, 750, 1000, 1250]
        .filter((step) => step <= StepOf(run))
        .map((step) => ({
          step,
          prompt: "Once",
          text:
            " upon a time" +
            " there was a little cat and the dog said it was happy".slice(0, 10 + step / 25) +
            ".\n",
        })),
    );
  if (what !== "series") return Failure(404, "there is nothing there");
  const axis = query.get("x") ?? "step",
    px = Number(query.get("px") ?? 1200),
    keys = {};
  const from = Number(query.get("from") || -Infinity),
    to = Number(query.get("to") || Infinity);
  for (const key of query.get("keys").split(",")) {
    const points = [];
    for (let step = 0; step <= StepOf(run); ++step) {
      const row = RowOf(run, step);
      if (row[key] !== undefined && row[axis] >= from && row[axis] <= to)
        points.push([row[axis], row[key]]);
    }
    const raw = points.length <= px,
      size = raw ? 1 : Math.ceil(points.length / px),
      out = { x: [], mean: [], min: [], max: [], n: points.length, raw };
    for (let i = 0; i < points.length; i += size) {
      const ys = points.slice(i, i + size).map((point) => point[1]);
      out.x.push(points[i][0]);
      out.min.push(Math.min(...ys));
      out.max.push(Math.max(...ys));
      out.mean.push(ys.reduce((a, b) => a + b, 0) / ys.length);
    }
    keys[key] = out;
  }
  return Json({ run: run.id, x: axis, n_raw: StepOf(run) + 1, keys });
}

// ---- HTTP.
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function Generate(body, response) {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const send = (event, data) =>
    response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const ids = body.ids ?? Encode(body.prompt ?? body.messages.at(-1).content).ids,
    prompt_n = ids.length,
    begin = Date.now(),
    all = [...ids];
  const seed = body.seed ?? Math.floor(Math.random() * 2 ** 32);
  send("progress", {
    done: 0,
    total: prompt_n,
    tps: null,
    eta: null,
    waiting: 0,
    model: "mock-4x4@0",
    prompt_ids: ids,
    forgotten: 0,
  });
  await sleep(60);
  const slides = body.when_full === "slide";
  let i = 0;
  for (; i < (body.max_tokens ?? 256) && (slides || all.length < P) && !response.destroyed; ++i) {
    const seen = Math.min(all.length, P);
    const { p, order, H, top } = Judge(all.slice(-seen), body.logprobs ?? 10);
    let left = Noise(seed, i),
      at = 0;
    const sharp =
      body.temperature === 0
        ? [1]
        : Softmax(order.slice(0, body.top_k || V).map((id) => Math.log(p[id]) / body.temperature));
    while (at < sharp.length - 1 && (left -= sharp[at]) > 0) ++at;
    const id = order[at];
    all.push(id);
    send("token", {
      i,
      id,
      text: vocabulary[id].toString(),
      lp: Math.log(p[id]),
      sp: sharp[at],
      rank: at + 1,
      H,
      top,
      seen,
    });
    await sleep(12);
  }
  const gen_ms = Date.now() - begin;
  send("done", {
    reason: !slides && all.length >= P ? "context" : "length",
    timings: { prompt_n, shared_n: 0, prompt_ms: 60, gen_n: i, gen_ms, ttft_ms: 60 },
    seed,
    prompt_ids: ids,
  });
  response.end();
}

async function Events(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  let id = Date.now() * 1000,
    sent = StepOf(runs[0]);
  const send = (event, data) =>
    response.write(`id: ${++id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  send("server", { resumed: false, version: "mock", time: Date.now() / 1000 });
  while (!response.destroyed) {
    await sleep(500);
    const rows = [];
    while (sent < StepOf(runs[0])) rows.push(RowOf(runs[0], ++sent));
    if (rows.length > 0) send("run.append", { run: runs[0].id, rows });
    if (sent % 5 === 0) send("run.state", { run: runs[0].id, ...Summary(runs[0]), rewound: false });
  }
}

async function HandOn(request, response) {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  const { host, connection, origin, referer, ...headers } = request.headers; // it answers only its own page
  const body = request.method === "GET" ? undefined : request;
  const answer = await fetch(kFolio + request.url, {
    method: request.method,
    headers,
    body,
    duplex: "half",
    signal: gone.signal,
  });
  response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") ?? "" });
  for await (const chunk of answer.body ?? []) response.write(chunk);
  response.end();
}

async function Answer(request, response) {
  if (kFolio && /^\/(api|v1|health|metrics)/.test(request.url)) {
    await HandOn(request, response);
    return undefined;
  }
  const url = new URL(request.url, "http://localhost"),
    path = url.pathname.split("/").filter(Boolean),
    query = url.searchParams;
  let raw = "";
  for await (const chunk of request) raw += chunk;
  const body = raw ? JSON.parse(raw) : {};
  if (path[0] === "health") return Json({ status: "ok" });
  if (path[0] !== "api") return null;
  if (kKey && request.headers.authorization !== `Bearer ${kKey}`)
    return Failure(401, "this service needs a key");
  const ids = () => body.ids ?? Encode(body.text ?? body.prompt ?? "").ids;
  switch (path[1]) {
    case "info":
      return Json({
        version: "mock",
        build: "",
        backend: "none",
        model: {
          name: "mock-4x4",
          id: "mock-4x4@0",
          n_layer: L,
          n_head: H,
          n_embd: C,
          n_ctx: P,
          n_vocab: V,
          n_inner: 4 * C,
          params: 233472,
          dtype: "fp32",
          causal: true,
          position_embedding: "learned",
          begin: Encode("\n").ids,
        },
        sampling: {
          temperature: 1,
          top_k: 0,
          top_p: 1,
          min_p: 0,
          repetition_penalty: 1,
          max_tokens: 256,
        },
        models: ["mock-4x4"],
        limits: { traces: 4, score_tokens: 4096, lens_positions: 64, events: 32 },
        features: ["generate", "chat", "score", "trace", "embed", "runs"],
      });
    case "vocab":
      return Json({ tokens: vocabulary.map((bytes) => bytes.toString("base64")) });
    case "tokenize":
      return Json({ ...Encode(body.text), pieces: [] });
    case "generate":
      await Generate(body, response);
      return undefined;
    case "events":
      await Events(response);
      return undefined;
    case "score": {
      const all = ids(),
        out = { ids: all, lp: [null], rank: [null], H: [null], top: [[]] };
      for (let t = 1; t < all.length; ++t) {
        const { p, order, H, top } = Judge(all.slice(0, t), body.top ?? 10);
        out.lp.push(Math.log(p[all[t]]));
        out.rank.push(order.indexOf(all[t]) + 1);
        out.H.push(H);
        out.top.push(top);
      }
      const nats = -out.lp.reduce((s, x) => s + (x ?? 0), 0) / Math.max(all.length - 1, 1);
      return Json({
        ...out,
        nats_per_token: nats,
        perplexity: Math.exp(nats),
        bits_per_byte: (nats / Math.LN2) * 0.4,
      });
    }
    case "trace": {
      if (request.method === "POST") {
        const all = ids().slice(0, P),
          trace = `t${all.join("-").slice(0, 12)}${Math.floor(Noise(...all) * 1e9)}`;
        traces.set(trace, all);
        return Json({
          trace,
          T: all.length,
          L,
          H,
          d_head: D,
          bytes: 1,
          expires_s: 600,
          ids: all,
          causal: true,
        });
      }
      const all = traces.get(path[2]);
      if (!all)
        return { status: 404, ...Json({ error: { message: "no such trace", code: "no_trace" } }) };
      return OfTrace(all, path.slice(3), query);
    }
    case "embed":
      if (path[2] === "pca")
        return Gvz(
          {
            dtype: "i16",
            shape: [V, 3],
            layout: "full",
            scale: 1e-4,
            explained: [0.21, 0.12, 0.08],
          },
          Array.from(
            { length: V * 3 },
            (_, i) => 6000 * Gauss(i, 4) + (i < 768 ? 9000 * ((i % 3) - 1) : 0),
          ),
        );
      return Json({
        id: Number(query.get("id")),
        norm: 3.1,
        nearest: Array.from({ length: Number(query.get("k") ?? 20) }, (_, i) => [
          (Number(query.get("id")) * 7 + i * 13 + 256) % V,
          0.8 / (1 + i / 6),
        ]),
      });
    case "wpe": {
      const view = query.get("view"),
        wave = (p, c) => Math.sin(p / (4 + 3 * c)) * (c % 2 ? 1 : -1) + 0.2 * Gauss(p, c);
      if (view === "curves") {
        const dims = query.get("dims").split(",").map(Number);
        return Gvz(
          { dtype: "f32", shape: [dims.length, P], layout: "full", dims },
          dims.flatMap((c) => Array.from({ length: P }, (_, p) => wave(p, c))),
        );
      }
      const n = Math.min(P, Number(query.get("size") ?? 256)),
        positions = Array.from({ length: n }, (_, i) => Math.floor((i * P) / n));
      if (view === "sim")
        return Gvz(
          {
            dtype: "u8",
            shape: [n, n],
            layout: "full",
            code: "lin",
            offset: -1,
            scale: 2 / 255,
            positions,
          },
          positions.flatMap((p) =>
            positions.map(
              (q) => 127.5 * (1 + Math.exp(-Math.abs(p - q) / 30) * Math.cos((p - q) / 8)),
            ),
          ),
        );
      const channels = Array.from({ length: C }, (_, c) => c);
      return Gvz(
        {
          dtype: "u8",
          shape: [n, C],
          layout: "full",
          code: "lin",
          offset: -2,
          scale: 4 / 255,
          positions,
          channels,
        },
        positions.flatMap((p) =>
          channels.map((c) => Math.max(0, Math.min(255, (wave(p, c) + 2) * 63.75))),
        ),
      );
    }
    case "runs": {
      if (!path[2]) return Json({ runs: runs.map(Summary) });
      const run = runs.find(({ id }) => id === path[2]);
      return run ? OfRun(run, path[3], query) : Failure(404, "there is no such run");
    }
  }
  return Failure(404, "there is nothing there");
}

const kTypes = {
  html: "text/html; charset=utf-8",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};
const kPolicy =
  "default-src 'self'; img-src 'self' blob: data:; style-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'";

createServer(async (request, response) => {
  try {
    const answer = await Answer(request, response);
    if (answer === undefined) return;
    if (answer)
      return response
        .writeHead(answer.status ?? 200, { "Content-Type": answer.type })
        .end(answer.body);
    const name = request.url.split("?")[0].slice(1) || "index.html";
    const file = await readFile(new URL(`dist/${name.replace(/[^a-z.]/g, "")}`, import.meta.url));
    response
      .writeHead(200, {
        "Content-Type": kTypes[name.split(".").pop()] ?? "text/plain",
        "Content-Security-Policy": kPolicy,
      })
      .end(file);
  } catch (error) {
    if (!response.headersSent) response.writeHead(404).end(String(error));
    else response.destroy();
  }
}).listen(kPort, "127.0.0.1", () => console.log(`http://127.0.0.1:${kPort}`));

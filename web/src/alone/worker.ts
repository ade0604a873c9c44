// Computes for the page, beside it: one question at a time, and "stop" between.
import { Folio, type Handle, type Source, type Wasm } from "./folio";
import type { Answer, Ask, Asks, ModelFacts, Question, Training } from "./messages";

const kPause = 25; // milliseconds of computing, after which what was asked meanwhile is heard
const kAheadShare = 0.1; // of a text that is trained on, the last: the held-out part
const kEvaluations = 20; // of a training
const kHeldOut = 8; // batches that a held-out loss is of
const kSampleTokens = 120;
const kMostThreads = 8;

declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}

const page = self as unknown as Worker; // what is posted to it
const Say = (answer: Answer) => page.postMessage(answer);
let folio: Folio;
let stopped = false;

// Lets messages in.
const channel = new MessageChannel();
const Breath = () =>
  new Promise<void>((resolve) => {
    channel.port1.onmessage = () => resolve();
    channel.port2.postMessage(null);
  });

// Calls `step` until it returns false or somebody asks to stop.
async function Loop(step: () => boolean): Promise<void> {
  for (let heard = performance.now(); !stopped && step();) {
    if (performance.now() - heard < kPause) continue;
    await Breath();
    heard = performance.now();
  }
}

let model: { at: Handle; name: string } | null = null;

function Model(): Handle {
  if (!model) throw new Error("no model is open");
  return model.at;
}

function Ids(text: string): Int32Array {
  return new Int32Array(
    folio.Filled("folio_model_prompt", Model(), text, new TextEncoder().encode(text).length).buffer,
  );
}

// Puts a model in the place of the one before.
function Take(at: Handle, name: string): ModelFacts {
  if (model) folio.Plain("folio_model_free", model.at);
  model = { at, name };
  const { config, parameters, dtype } = folio.Json<{
    config: Record<string, number>;
    parameters: number;
    dtype: string;
  }>("folio_model_info", at);
  return {
    name,
    n_layer: config.n_layer ?? 0,
    n_head: config.n_head ?? 0,
    n_embd: config.n_embd ?? 0,
    context: config.n_positions ?? 0,
    params: parameters,
    dtype,
  };
}

function SourceOf(file: File): Source {
  const reader = new FileReaderSync();
  return {
    name: file.name,
    size: file.size,
    Read: (offset, count) =>
      new Uint8Array(reader.readAsArrayBuffer(file.slice(offset, offset + count))),
  };
}

// Writes on from `text`; what is written goes to `hear`.
async function Write(
  at: Handle,
  ids: Int32Array,
  options: Record<string, string | number>,
  hear: (text: string) => void,
): Promise<number> {
  let steps = 0;
  const batch = folio.Make("folio_batch_new", at, 1);
  const callback = folio.TextCallback(hear);
  try {
    folio.WithOptions("generate", options, (settings) =>
      folio.Call("folio_batch_add", batch, ids, ids.length, settings, callback, 0, 0, 0),
    );
    await Loop(() => {
      ++steps;
      return folio.Make("folio_batch_step", batch) !== 0;
    });
  } finally {
    folio.Plain("folio_batch_free", batch);
    folio.LetGo(callback);
  }
  return steps;
}

// A tokenizer of the characters of a text, as folio saves it.
function CharacterTokenizer(text: string): { at: Handle; size: number } {
  const characters = [...new Set(text)].sort(
    (a, b) => (a.codePointAt(0) ?? 0) - (b.codePointAt(0) ?? 0),
  );
  const json = JSON.stringify({
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: {
      type: "Split",
      pattern: { Regex: "[\\s\\S]" },
      behavior: "Isolated",
      invert: false,
    },
    post_processor: null,
    decoder: { type: "Fuse" },
    model: {
      type: "WordLevel",
      vocab: Object.fromEntries(characters.map((character, id) => [character, id])),
      unk_token: "<unk>",
    },
  });
  const bytes = new TextEncoder().encode(json);
  const source = {
    name: "tokenizer.json",
    size: bytes.length,
    Read: (offset: number, count: number) => bytes.slice(offset, offset + count),
  };
  return {
    at: folio.WithFiles([source], (path) => folio.Make("folio_tokenizer_open", path)),
    size: characters.length,
  };
}

async function Train(
  { text, n_layer, n_embd, steps }: Training,
  tell: (part: Asks["train"]["part"]) => void,
): Promise<Asks["train"]["end"]> {
  const begin = performance.now();
  const tokenizer = CharacterTokenizer(text);
  let trainer: Handle = 0;
  try {
    const bytes = new TextEncoder().encode(text).length;
    const ids = new Int32Array(
      folio.Filled("folio_tokenizer_encode", tokenizer.at, text, bytes, 0, 0).buffer,
    );
    trainer = folio.WithOptions(
      "train",
      {
        preset: "char-cpu",
        "model.vocab_size": tokenizer.size,
        "model.n_layer": n_layer,
        "model.n_embd": n_embd,
        "train.max_steps": steps,
      },
      (settings) => folio.Make("folio_trainer_new", settings, 0),
    );
    const about = folio.Json<{ sequences: number; sequences_at_a_time: number; context: number }>(
      "folio_trainer_info",
      trainer,
    );
    const T = about.context;
    const seen = Math.floor(ids.length * (1 - kAheadShare));
    if (ids.length - seen <= T + 1)
      throw new Error(
        `The text has ${ids.length} characters. Expected ${Math.ceil((T + 2) / kAheadShare)} at least`,
      );
    // Sequences of the text that begin where `place` says.
    const Batch = (count: number, place: (i: number) => number) => {
      const [inputs, targets] = [new Int32Array(count * T), new Int32Array(count * T)];
      for (let i = 0; i < count; ++i) {
        const at = place(i);
        inputs.set(ids.subarray(at, at + T), i * T);
        targets.set(ids.subarray(at + 1, at + T + 1), i * T);
      }
      return [inputs, targets, inputs.length] as const;
    };
    const random = Random(1);
    const held = kHeldOut * about.sequences_at_a_time;
    const last = ids.length - T - 1;
    const heldOut = Batch(held, (i) => seen + Math.floor((i * (last - seen)) / held));
    const every = Math.max(1, Math.round(steps / kEvaluations));
    const Tell = async (step: number) => {
      const loss = folio.Fill(
        "folio_trainer_evaluate",
        8,
        trainer,
        ...heldOut,
        0,
      ).getFloat64(0, true);
      let sample = "";
      const now = folio.Make("folio_trainer_model", trainer, tokenizer.at);
      try {
        await Write(
          now,
          ids.slice(0, 1),
          { max_tokens: kSampleTokens, seed: 1 },
          (more) => (sample += more),
        );
      } finally {
        folio.Plain("folio_model_free", now);
      }
      tell({ step, held_out: loss, sample });
    };
    let step = 0;
    for (let goesOn = true; goesOn;) {
      const until = Math.min(steps, step + every);
      await Loop(() => {
        const out = folio.Fill(
          "folio_trainer_step",
          56,
          trainer,
          ...Batch(about.sequences, () => Math.floor(random() * (seen - T - 1))),
          0,
        );
        tell({ step, loss: out.getFloat64(16, true) });
        return ++step < until;
      });
      goesOn = !stopped && step < steps;
      await Tell(step);
      goesOn &&= !stopped;
    }
    const facts = Take(
      folio.Make("folio_trainer_model", trainer, tokenizer.at),
      "trained here",
    );
    return { ...facts, seconds: (performance.now() - begin) / 1000 };
  } finally {
    if (trainer) folio.Plain("folio_trainer_free", trainer);
    folio.Plain("folio_tokenizer_free", tokenizer.at);
  }
}

// Numbers in [0,1), by a generator of 32 bits (mulberry32): the same seed gives the same ones everywhere.
function Random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Answers = {
  [A in Ask]: (
    given: Asks[A]["given"],
    tell: (part: Asks[A]["part"]) => void,
  ) => Asks[A]["end"] | Promise<Asks[A]["end"]>;
};

const kAnswers: Answers = {
  open: ({ name, files }) =>
    folio.WithFiles(files.map(SourceOf), (path) =>
      folio.WithOptions("open", { dtype: "fp32" }, (options) => {
        const whole = files.length === 1 ? `${path}/${files[0]?.name}` : path;
        return Take(folio.Make("folio_model_open", whole, options, 0), name);
      }),
    ),

  write: async ({ text, options }, tell) => {
    const begin = performance.now();
    const tokens = await Write(Model(), Ids(text), { ...options }, tell);
    return { tokens, seconds: (performance.now() - begin) / 1000 };
  },

  attend: ({ text, layer, head }) => {
    const context = folio.Plain("folio_model_context", Model());
    const ids = Ids(text).slice(0, context);
    const weights = folio.Filled(
      "folio_attention",
      Model(),
      ids,
      ids.length,
      BigInt(layer),
      BigInt(head),
    );
    const tokenizer = folio.Plain("folio_model_tokenizer", Model());
    const bytes = Array.from(ids, (id) => folio.TokenBytes(tokenizer, id));
    return { ids: [...ids], bytes, weights: new Float32Array(weights.buffer) };
  },

  train: Train,

  save: () => {
    const path = "/model.gguf";
    folio.Call("folio_model_save", Model(), path, "gguf", "fp32");
    return folio.TakeFile(path);
  },
};

async function Answer(ask: Ask, given: never): Promise<void> {
  try {
    Say({ end: await kAnswers[ask](given, (part) => Say({ part })) });
  } catch (error) {
    Say({ failure: error instanceof Error ? error.message : String(error) });
  }
}

page.onmessage = ({ data }: MessageEvent<Question>) => {
  stopped = data.ask === "stop";
  if (data.ask !== "stop") void Answer(data.ask, data.given as never);
};

// Threads share memory, which browsers allow where the server's headers do; each is there before folio starts it.
const threads = crossOriginIsolated ? Math.min(navigator.hardwareConcurrency, kMostThreads) : 1;
const compiled = threads > 1 ? "./threads.js" : "./folio.js";
const { default: Load } = (await import(compiled)) as {
  default(given: { threads: number }): Promise<Wasm>;
};
folio = new Folio(await Load({ threads }));
folio.Call("folio_set_threads", threads);
Say({ ready: { threads } });

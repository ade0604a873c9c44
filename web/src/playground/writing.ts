import { batch, computed, effect, signal, untracked } from "@preact/signals";
import { EventsOf } from "../api/event_stream";
import { IsAbort, MessageOf, SendJson } from "../api/http";
import type { DoneEvent, ProgressEvent, Tokenized, TopToken, WrittenToken } from "../api/types";
import { Say } from "../parts/live";
import { arrivals, Param, route, SetParams } from "../state/route";
import { info, modelId, PostToModel } from "../state/server";
import { TextOf } from "../tokens";
import { settings } from "./sampler";

// Tokens that are written behind others.
export interface Written {
  prompt_ids: number[];
  forgotten?: number; // turns of a conversation that the model did not see
  tokens: WrittenToken[];
  done: DoneEvent | null;
}

// One continuation of a prompt. A branch shares the first `at` tokens with its parent, and its
// token there was chosen by hand.
export interface Take extends Written {
  name: number;
  model: string; // an id: what wrote it
  prompt: string;
  parent: number | null;
  at: number;
}

export interface Pace {
  ttft: number | null; // milliseconds
  per_second: number | null;
  written: number;
  wanted: number;
  prompt: ProgressEvent | null; // while the prompt is read
}

export const kExamples = [
  ["A story", "Once upon a time"],
  ["A dialogue", "ROMEO:\nBut soft, what light"],
  ["A list", "1. Water\n2. Salt\n3."],
  ["Letters", "a b c d e f g"],
  ["Other scripts", "Überraschung, 漢字, 🙂"],
] as const;
export const prompt = signal(Param("p", kExamples[0][1]));
const everyTake = signal<Take[]>([]); // of all models
export const takes = computed(() => everyTake.value.filter(({ model }) => model === modelId.value));
export const shown = signal<number | null>(null); // a take's name
export const writing = signal(false);
export const pace = signal<Pace | null>(null);
export const failure = signal("");

export const take = computed(() => takes.value.find(({ name }) => name === shown.value) ?? null);
export const takeText = computed(() =>
  take.value ? TextOf(IdsOf(take.value), writing.value) : "",
);

export const kMostInLink = 2000; // characters of a text that the address holds

// The text of Score and Tokens: what was typed, what the address has or, where there is none, the
// take's or the prompt.
const typed = signal<string | null>(null);
export const typedText = computed(
  () =>
    typed.value ??
    route.value.params.get("t") ??
    (take.value ? takeText.value : prompt.value),
);

export function Type(text: string | null): void {
  typed.value = text;
  SetParams({ t: text !== null && text.length <= kMostInLink ? text : null });
}

// A link that is opened in the page brings its text.
effect(() => {
  if (arrivals.value === 0) return;
  untracked(() => {
    const said = route.value.params.get("p");
    batch(() => {
      typed.value = null;
      if (said === null || said === prompt.value) return;
      prompt.value = said;
      if (!writing.value) shown.value = null;
    });
  });
});

export function IdsOf({ prompt_ids, tokens }: Pick<Written, "prompt_ids" | "tokens">): number[] {
  return [...prompt_ids, ...tokens.map(({ id }) => id)];
}

// The takes that were shown, by name: Undo goes back to them.
const moments = signal<{ all: (number | null)[]; at: number }>({ all: [null], at: 0 });
export const canUndo = computed(() => moments.value.at > 0);
export const canRedo = computed(() => moments.value.at < moments.value.all.length - 1);

function Remember(): void {
  const { all, at } = moments.value;
  moments.value = { all: [...all.slice(0, at + 1), shown.value], at: at + 1 };
}

function Show(name: number | null): void {
  shown.value = name;
  if (take.value) prompt.value = take.value.prompt;
}

export function Travel(by: 1 | -1): void {
  const { all, at } = moments.value;
  const to = all[at + by];
  if (to === undefined || writing.value) return;
  batch(() => {
    moments.value = { all, at: at + by };
    Show(to);
  });
}

export function ShowTake({ name }: Take): void {
  batch(() => {
    Show(name);
    Remember();
  });
}

export function ShowBeside(by: 1 | -1): void {
  const all = takes.value;
  const at = all.findIndex(({ name }) => name === shown.value);
  const next = all[(at + by + all.length) % all.length];
  if (next && !writing.value) ShowTake(next);
}

let stop: AbortController | null = null;

export function Stop(): void {
  stop?.abort();
}

// Another model has its own takes, and nothing is written on with one that is not shown.
effect(() => {
  const id = modelId.value;
  untracked(() => {
    Stop();
    const last = everyTake.value.filter(({ model }) => model === id).at(-1);
    batch(() => {
      shown.value = last?.name ?? null;
      moments.value = { all: [shown.value], at: 0 };
      pace.value = null;
      failure.value = "";
    });
  });
});

const kAlternatives = 10;

// Has a model write on from `of` (token ids or messages), as the sampler is set and beyond the
// context, as the program does. `change` is told what has come of it, and how; `failure` says what
// went wrong. Returns whether anything came.
export async function Stream(
  model: string,
  of: { ids: number[] } | { messages: { role: string; content: string }[] },
  seed: string,
  change: (more: (now: Written) => Partial<Written>) => void,
): Promise<boolean> {
  const sampler = { ...settings.value, seed: seed === "" ? undefined : Number(seed) };
  const { max_tokens } = sampler;
  stop = new AbortController();
  const stopped = stop.signal;
  batch(() => {
    failure.value = "";
    writing.value = true;
    pace.value = { ttft: null, per_second: null, written: 0, wanted: max_tokens, prompt: null };
  });
  // A frame's worth of tokens at a time; a hidden page draws no frames.
  let held: WrittenToken[] = [];
  const flush = () => {
    const more = held;
    held = [];
    if (more.length > 0) change(({ tokens }) => ({ tokens: [...tokens, ...more] }));
  };
  const begin = performance.now();
  let first = 0;
  let written = 0;
  let came = false;
  try {
    const body = {
      model,
      ...of,
      ...sampler,
      logprobs: kAlternatives,
      when_full: "slide",
      truncate: "ids" in of, // a message that is too long is refused
    };
    const response = await SendJson("api/generate", body, stopped);
    for await (const { event, data } of EventsOf(response)) {
      stopped.throwIfAborted(); // what came before Stop may still wait to be read
      if (event === "token") {
        came = true;
        if (held.length === 0) {
          if (document.hidden) setTimeout(flush, 100);
          else requestAnimationFrame(flush);
        }
        held.push(JSON.parse(data) as WrittenToken);
        const now = performance.now();
        if (++written === 1) first = now;
        pace.value = {
          ttft: first - begin,
          per_second: written > 1 ? ((written - 1) * 1000) / (now - first) : null,
          written,
          wanted: max_tokens,
          prompt: null,
        };
      } else if (event === "progress") {
        const progress = JSON.parse(data) as ProgressEvent;
        const { prompt_ids, forgotten } = progress;
        if (prompt_ids) change(() => ({ prompt_ids, forgotten }));
        if (written === 0 && pace.value) pace.value = { ...pace.value, prompt: progress };
      } else if (event === "done") {
        came = true;
        const done = JSON.parse(data) as DoneEvent;
        flush();
        change(() => ({ done }));
        const { gen_n, gen_ms, ttft_ms } = done.timings;
        // As the service measured it: what the network held back is not in it.
        if (pace.value && gen_ms > 0)
          pace.value = { ...pace.value, per_second: (gen_n * 1000) / gen_ms, ttft: ttft_ms };
        Say(`Done: ${written} tokens`);
      } else if (event === "error") {
        failure.value = (JSON.parse(data) as { message: string }).message;
      }
    }
  } catch (error) {
    if (IsAbort(error)) Say(`Stopped after ${written} tokens`);
    else failure.value = MessageOf(error);
  } finally {
    flush();
    writing.value = false;
    stop = null;
  }
  return came;
}

// Has a take's model write on behind its tokens.
async function Write(name: number): Promise<void> {
  const of = everyTake.value.find((one) => one.name === name);
  if (!of) return;
  await Stream(of.model, { ids: IdsOf(of) }, settings.value.seed, (more) => {
    everyTake.value = everyTake.value.map((one) =>
      one.name === name ? { ...one, ...more(one) } : one,
    );
  });
}

let names = 0;

function Begin(made: Omit<Take, "name" | "done">): Promise<void> {
  const name = ++names;
  batch(() => {
    everyTake.value = [...everyTake.value, { ...made, name, done: null }];
    shown.value = name;
  });
  Remember();
  return Write(name);
}

// A new take of the prompt.
export async function Generate(): Promise<void> {
  if (writing.value) return;
  writing.value = true;
  failure.value = "";
  try {
    const model = modelId.value;
    const prompt_ids =
      prompt.value === ""
        ? (info.value?.model?.begin ?? [])
        : (await PostToModel<Tokenized>("api/tokenize", { text: prompt.value, begin: true }))
            .ids;
    await Begin({ model, prompt: prompt.value, prompt_ids, tokens: [], parent: null, at: 0 });
  } catch (error) {
    failure.value = MessageOf(error);
  } finally {
    writing.value = false;
  }
}

// More of the take that is shown.
export async function Continue(): Promise<void> {
  if (!writing.value && take.value) await Write(take.value.name);
}

// The token that is chosen by hand in the place of `old`.
export function Chosen(old: WrittenToken, [id, lp]: TopToken): WrittenToken {
  const rank = old.top.findIndex((one) => one[0] === id) + 1 || old.rank;
  return { ...old, id, lp, rank };
}

// Another token in a take's place `at`, and what would have come of it.
export async function Branch(of: Take, at: number, choice: TopToken): Promise<void> {
  const old = of.tokens[at];
  if (writing.value || !old) return;
  const { model, prompt, prompt_ids } = of;
  const tokens = [...of.tokens.slice(0, at), Chosen(old, choice)];
  await Begin({ model, prompt, prompt_ids, tokens, parent: of.name, at });
}

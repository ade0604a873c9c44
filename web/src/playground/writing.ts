import { batch, computed, effect, signal, untracked } from "@preact/signals";
import { EventsOf } from "../api/event_stream";
import { IsAbort, MessageOf, SendJson } from "../api/http";
import type { DoneEvent, ProgressEvent, TokenEvent, Tokenized, TopToken } from "../api/types";
import { Say } from "../parts/live";
import { Param } from "../state/route";
import { info, modelId, PostToModel } from "../state/server";
import { text } from "../text";
import { TextOf } from "../tokens";
import { settings } from "./settings";

export interface WrittenToken {
  id: number;
  lp: number;
  sp: number;
  rank: number;
  H: number;
  top: TopToken[];
  seen: number; // tokens before it that the model saw
}

// One continuation of a prompt. A branch shares the first `at` tokens with its parent, and its
// token there was chosen by hand.
export interface Take {
  name: number;
  model: string; // an id: what wrote it
  prompt: string;
  prompt_ids: number[];
  tokens: WrittenToken[];
  parent: number | null;
  at: number;
  done: DoneEvent | null;
}

export interface Pace {
  ttft: number | null; // milliseconds
  per_second: number | null;
  written: number;
  wanted: number;
  prompt: ProgressEvent | null; // while the prompt is read
}

export const prompt = signal(Param("p", text.play.examples[0]?.[1] ?? ""));
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

// The text of Score and Tokens; null for the take's or, where there is none, the prompt.
export const typed = signal<string | null>(null);
export const typedText = computed(
  () => typed.value ?? (take.value ? takeText.value : prompt.value),
);

export function IdsOf(of: { prompt_ids: number[]; tokens: WrittenToken[] }): number[] {
  return [...of.prompt_ids, ...of.tokens.map(({ id }) => id)];
}

// A moment that Undo goes back to.
interface Moment {
  prompt: string;
  shown: number | null;
}
const moments = signal<{ all: Moment[]; at: number }>({
  all: [{ prompt: "", shown: null }],
  at: 0,
});
export const canUndo = computed(() => moments.value.at > 0);
export const canRedo = computed(() => moments.value.at < moments.value.all.length - 1);

function Remember(): void {
  const { all, at } = moments.value;
  const kept = [...all.slice(0, at + 1), { prompt: prompt.value, shown: shown.value }];
  moments.value = { all: kept, at: kept.length - 1 };
}

export function Travel(by: 1 | -1): void {
  const to = moments.value.all[moments.value.at + by];
  if (!to || writing.value) return;
  batch(() => {
    moments.value = { ...moments.value, at: moments.value.at + by };
    if (to.shown !== null) prompt.value = to.prompt;
    shown.value = to.shown;
  });
}

export function ShowBeside(by: 1 | -1): void {
  const all = takes.value;
  const at = all.findIndex(({ name }) => name === shown.value);
  const next = all[(at + by + all.length) % all.length];
  if (next && !writing.value) ShowTake(next);
}

export function ShowTake(next: Take): void {
  batch(() => {
    shown.value = next.name;
    prompt.value = next.prompt;
  });
  Remember();
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
      moments.value = { all: [{ prompt: prompt.value, shown: shown.value }], at: 0 };
      pace.value = null;
      failure.value = "";
    });
  });
});

function Change(name: number, change: (take: Take) => Take): void {
  everyTake.value = everyTake.value.map((one) => (one.name === name ? change(one) : one));
}

// A frame's worth of tokens at a time; a hidden page draws no frames.
function Collect(give: (more: WrittenToken[]) => void): (token: WrittenToken | null) => void {
  let held: WrittenToken[] = [];
  let waits = false;
  const flush = () => {
    waits = false;
    const more = held;
    held = [];
    if (more.length > 0) give(more);
  };
  return (token) => {
    if (token === null) return flush();
    held.push(token);
    if (waits) return;
    waits = true;
    if (document.hidden) setTimeout(flush, 100);
    else requestAnimationFrame(flush);
  };
}

const kAlternatives = 10;

// Who is handed what the service writes.
interface Reader {
  tokens: (more: WrittenToken[]) => void;
  progress?: (said: ProgressEvent) => void;
  done: (said: DoneEvent) => void;
}

// Has a model write on from `of` (token ids or messages), as the sampler is set and beyond the
// context, as the program does. Returns what went wrong.
export async function Stream(
  model: string,
  of: { ids: number[] } | { messages: { role: string; content: string }[] },
  seed: string,
  reader: Reader,
): Promise<string> {
  const sampler = { ...settings.value, seed: seed === "" ? undefined : Number(seed) };
  stop = new AbortController();
  const stopped = stop.signal;
  batch(() => {
    writing.value = true;
    pace.value = {
      ttft: null,
      per_second: null,
      written: 0,
      wanted: sampler.max_tokens,
      prompt: null,
    };
  });
  const add = Collect(reader.tokens);
  const begin = performance.now();
  let first = 0;
  let written = 0;
  let failed = "";
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
        const { id, lp, sp, rank, H, top, seen } = JSON.parse(data) as TokenEvent;
        add({ id, lp, sp, rank, H, top, seen });
        const now = performance.now();
        if (++written === 1) first = now;
        pace.value = {
          ttft: first - begin,
          per_second: written > 1 ? ((written - 1) * 1000) / (now - first) : null,
          written,
          wanted: sampler.max_tokens,
          prompt: null,
        };
      } else if (event === "progress") {
        const progress = JSON.parse(data) as ProgressEvent;
        reader.progress?.(progress);
        if (written === 0 && pace.value) pace.value = { ...pace.value, prompt: progress };
      } else if (event === "done") {
        const done = JSON.parse(data) as DoneEvent;
        add(null);
        reader.done(done);
        const { gen_n, gen_ms, ttft_ms } = done.timings;
        // As the service measured it: what the network held back is not in it.
        if (pace.value && gen_ms > 0)
          pace.value = { ...pace.value, per_second: (gen_n * 1000) / gen_ms, ttft: ttft_ms };
        Say(text.play.said_done(written));
      } else if (event === "error") {
        failed = (JSON.parse(data) as { message: string }).message;
      }
    }
  } catch (error) {
    if (IsAbort(error)) Say(text.play.said_stopped(written));
    else failed = MessageOf(error);
  } finally {
    add(null);
    writing.value = false;
    stop = null;
  }
  return failed;
}

// Has a take's model write on behind its tokens.
async function Write(name: number): Promise<string> {
  const of = everyTake.value.find((one) => one.name === name);
  if (!of) return "";
  return Stream(of.model, { ids: IdsOf(of) }, settings.value.seed, {
    tokens: (more) => Change(name, (one) => ({ ...one, tokens: [...one.tokens, ...more] })),
    done: (done) => Change(name, (one) => ({ ...one, done })),
  });
}

let names = 0;

function Begin(made: Omit<Take, "name" | "done">): Promise<string> {
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
        : (await PostToModel<Tokenized>("api/tokenize", { text: prompt.value })).ids;
    const made = { model, prompt: prompt.value, prompt_ids, tokens: [], parent: null, at: 0 };
    failure.value = await Begin(made);
  } catch (error) {
    failure.value = MessageOf(error);
  } finally {
    writing.value = false;
  }
}

// More of the take that is shown.
export async function Continue(): Promise<void> {
  if (writing.value || !take.value) return;
  failure.value = "";
  failure.value = await Write(take.value.name);
}

// The token that is chosen by hand in the place of `old`.
export function Chosen(old: WrittenToken, [id, lp]: TopToken): WrittenToken {
  const rank = old.top.findIndex((one) => one[0] === id) + 1 || old.rank;
  return { ...old, id, lp, sp: NaN, rank };
}

// Another token in a take's place `at`, and what would have come of it.
export async function Branch(of: Take, at: number, choice: TopToken): Promise<void> {
  if (writing.value) return;
  const old = of.tokens[at];
  if (!old) return;
  failure.value = "";
  failure.value = await Begin({
    model: of.model,
    prompt: of.prompt,
    prompt_ids: of.prompt_ids,
    tokens: [...of.tokens.slice(0, at), Chosen(old, choice)],
    parent: of.name,
    at,
  });
}

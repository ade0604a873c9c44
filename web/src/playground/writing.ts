import { batch, computed, signal } from "@preact/signals";
import { EventsOf } from "../api/event_stream";
import { IsAbort, MessageOf, Post, SendJson } from "../api/http";
import type { DoneEvent, ProgressEvent, TokenEvent, Tokenized, TopToken } from "../api/types";
import { Say } from "../parts/live";
import { Param } from "../state/route";
import { info } from "../state/server";
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
}

// One continuation of a prompt. A branch shares the first `at` tokens with its parent, and its
// token there was chosen by hand.
export interface Take {
  name: number;
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
export const takes = signal<Take[]>([]);
export const shown = signal<number | null>(null); // a take's name
export const writing = signal(false);
export const pace = signal<Pace | null>(null);
export const failure = signal("");

export const take = computed(() => takes.value.find(({ name }) => name === shown.value) ?? null);
export const takeText = computed(() =>
  take.value ? TextOf(IdsOf(take.value), writing.value) : "",
);

export function IdsOf(of: Take): number[] {
  return [...of.prompt_ids, ...of.tokens.map(({ id }) => id)];
}

// What Undo goes back to.
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

function Change(name: number, change: (take: Take) => Take): void {
  takes.value = takes.value.map((one) => (one.name === name ? change(one) : one));
}

// A frame's worth of tokens at a time; a hidden page draws no frames.
function Collect(name: number): (token: WrittenToken | null) => void {
  let held: WrittenToken[] = [];
  let waits = false;
  const flush = () => {
    waits = false;
    const more = held;
    held = [];
    if (more.length > 0) Change(name, (one) => ({ ...one, tokens: [...one.tokens, ...more] }));
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

// Has the service write on behind a take's tokens.
async function Write(name: number): Promise<void> {
  const of = takes.value.find((one) => one.name === name);
  if (!of) return;
  const { seed, ...sampler } = settings.value;
  sampler.max_tokens = Math.min(sampler.max_tokens, info.value?.model?.n_ctx ?? sampler.max_tokens);
  stop = new AbortController();
  const stopped = stop.signal;
  batch(() => {
    writing.value = true;
    failure.value = "";
    pace.value = {
      ttft: null,
      per_second: null,
      written: 0,
      wanted: sampler.max_tokens,
      prompt: null,
    };
  });
  const add = Collect(name);
  const begin = performance.now();
  let first = 0;
  let written = 0;
  try {
    const body = {
      ids: IdsOf(of),
      ...sampler,
      logprobs: kAlternatives,
      ...(seed === "" ? {} : { seed: Number(seed) }),
    };
    const response = await SendJson("api/generate", body, stopped);
    for await (const { event, data } of EventsOf(response)) {
      stopped.throwIfAborted(); // what came before Stop may still wait to be read
      if (event === "token") {
        const { id, lp, sp, rank, H, top } = JSON.parse(data) as TokenEvent;
        add({ id, lp, sp, rank, H, top });
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
        if (written === 0 && pace.value) pace.value = { ...pace.value, prompt: progress };
      } else if (event === "done") {
        const done = JSON.parse(data) as DoneEvent;
        add(null);
        Change(name, (one) => ({ ...one, done }));
        const { gen_n, gen_ms, ttft_ms } = done.timings;
        // As the service measured it: what the network held back is not in it.
        if (pace.value && gen_ms > 0)
          pace.value = { ...pace.value, per_second: (gen_n * 1000) / gen_ms, ttft: ttft_ms };
        Say(text.play.said_done(written));
      } else if (event === "error") {
        failure.value = (JSON.parse(data) as { message: string }).message;
      }
    }
  } catch (error) {
    if (IsAbort(error)) Say(text.play.said_stopped(written));
    else failure.value = MessageOf(error);
  } finally {
    add(null);
    writing.value = false;
    stop = null;
  }
}

let names = 0;

function Begin(made: Omit<Take, "name" | "done">): Promise<void> {
  const name = ++names;
  batch(() => {
    takes.value = [...takes.value, { ...made, name, done: null }];
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
    const ids =
      prompt.value === ""
        ? (info.value?.model?.begin ?? [])
        : (await Post<Tokenized>("api/tokenize", { text: prompt.value })).ids;
    await Begin({ prompt: prompt.value, prompt_ids: ids, tokens: [], parent: null, at: 0 });
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

// Another token in a take's place `at`, and what would have come of it.
export async function Branch(of: Take, at: number, [id, lp]: TopToken): Promise<void> {
  if (writing.value) return;
  const old = of.tokens[at];
  if (!old) return;
  const rank = old.top.findIndex((one) => one[0] === id) + 1 || old.rank;
  const chosen: WrittenToken = { ...old, id, lp, sp: NaN, rank };
  await Begin({
    prompt: of.prompt,
    prompt_ids: of.prompt_ids,
    tokens: [...of.tokens.slice(0, at), chosen],
    parent: of.name,
    at,
  });
}

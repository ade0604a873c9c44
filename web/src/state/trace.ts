import { ApiFailure } from "../api/http";
import type { TraceInfo } from "../api/types";
import { modelId, PostToModel } from "./server";

// Traces that the service keeps for a while, by their model and tokens; each is asked for once.
const kept = new Map<string, Promise<TraceInfo>>();
const kMost = 4;

function KeyOf(ids: number[]): string {
  return `${modelId.peek()}:${ids.join(",")}`;
}

function TraceOf(ids: number[]): Promise<TraceInfo> {
  const key = KeyOf(ids);
  let made = kept.get(key);
  if (made) kept.delete(key); // to the end: it was used last
  made ??= PostToModel<TraceInfo>("api/trace", { ids });
  kept.set(key, made);
  made.catch(() => kept.delete(key));
  while (kept.size > kMost) kept.delete(kept.keys().next().value as string);
  return made;
}

// Returns what `read` makes of the trace of `ids`. Where the service has forgotten it, it is made anew.
export async function WithTrace<T>(
  ids: number[],
  read: (path: string, trace: TraceInfo) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (let again = false; ; again = true) {
    const trace = await TraceOf(ids);
    signal?.throwIfAborted();
    try {
      return await read(`api/trace/${trace.trace}`, trace);
    } catch (error) {
      if (again || !(error instanceof ApiFailure) || error.code !== "no_trace") throw error;
      kept.delete(KeyOf(ids));
    }
  }
}

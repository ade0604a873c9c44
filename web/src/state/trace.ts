import { ApiFailure, Post } from "../api/http";
import type { TraceInfo } from "../api/types";

// Traces that the service keeps for a while, by their tokens; each is asked for once.
const kept = new Map<string, Promise<TraceInfo>>();
const kMost = 4;

function TraceOf(ids: number[]): Promise<TraceInfo> {
  const key = ids.join(",");
  let made = kept.get(key);
  if (made) kept.delete(key); // to the end: it was used last
  made ??= Post<TraceInfo>("api/trace", { ids });
  kept.set(key, made);
  made.catch(() => kept.delete(key));
  while (kept.size > kMost) kept.delete(kept.keys().next().value as string);
  return made;
}

// What `read` makes of the trace of `ids`. Where the service has forgotten it, it is made anew.
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
      kept.delete(ids.join(","));
    }
  }
}

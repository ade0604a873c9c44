import { useEffect, useState } from "preact/hooks";
import { ApiFailure, IsAbort, MessageOf } from "../api/http";
import { GetNumbers, type Numbers } from "../api/numbers";
import { comebacks, FloatCopyMade, modelId, PostToModel } from "./server";

export interface Loaded<T> {
  value: T | null; // of `key`, or of one before it
  fresh: T | null; // of `key`
  failure: string;
}

// Returns what `load` gives for `key`; nothing for a null key. A load that is not wanted any more is given up, and
// all is asked for again when the service has come back. `pause`: milliseconds until another key is asked for, as
// one that somebody types.
export function useLoaded<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  pause = 0,
): Loaded<T> {
  const [state, setState] = useState({
    key: null as string | null,
    value: null as T | null,
    failure: "",
  });
  useEffect(() => {
    if (key === null) return;
    const gone = new AbortController();
    const ask = () =>
      load(gone.signal)
        .then((value) => !gone.signal.aborted && setState({ key, value, failure: "" }))
        .catch((error: unknown) => {
          if (!IsAbort(error) && !gone.signal.aborted)
            setState({ key, value: null, failure: MessageOf(error) });
        });
    const timer = pause > 0 && state.key !== null ? setTimeout(ask, pause) : void ask();
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [key, comebacks.value]);
  const value = key === null ? null : state.value;
  const own = state.key === key;
  return { value, fresh: own ? value : null, failure: own ? state.failure : "" };
}

// Traces that the service keeps for a while, by their model and tokens; each is asked for once.
const traces = new Map<string, Promise<{ trace: string }>>();
const kMostTraces = 4;

function TraceOf(key: string, ids: number[]): Promise<{ trace: string }> {
  const made = traces.get(key) ?? PostToModel<{ trace: string }>("api/trace", { ids });
  traces.delete(key);
  traces.set(key, made); // at the end: it was used last
  made.then(FloatCopyMade).catch(() => traces.delete(key));
  while (traces.size > kMostTraces) traces.delete(traces.keys().next().value as string);
  return made;
}

// Returns what `read` makes of the trace of `ids`, which is at a path. Where the service has forgotten it, it is made
// anew. `key` tells what is read of it; nothing is for null.
export function useTrace<T>(
  ids: number[],
  key: string | null,
  read: (path: string, signal: AbortSignal) => Promise<T>,
): Loaded<T> {
  return useLoaded(key === null ? null : `${key}:${ids}`, async (signal) => {
    const name = `${modelId.peek()}:${ids}`;
    for (let again = false; ; again = true) {
      const { trace } = await TraceOf(name, ids);
      signal.throwIfAborted();
      try {
        return await read(`api/trace/${trace}`, signal);
      } catch (error) {
        if (again || !(error instanceof ApiFailure) || error.code !== "no_trace") throw error;
        traces.delete(name);
      }
    }
  });
}

// Numbers below the path of a trace.
export function useTraceNumbers(ids: number[], path: string | null): Loaded<Numbers> {
  return useTrace(ids, path, (trace, signal) => GetNumbers(`${trace}/${path}`, signal));
}

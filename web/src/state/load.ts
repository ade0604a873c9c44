import { useEffect, useState } from "preact/hooks";
import { IsAbort, MessageOf } from "../api/http";
import { comebacks } from "./server";

export interface Loaded<T> {
  value: T | null; // of `key` if `fresh`, else of one before it
  fresh: boolean;
  failure: string;
}

// Returns what `load` gives for `key`; nothing for a null key. A load that is not wanted any more is given up, and
// all is asked for again when the service has come back.
export function useLoaded<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; value: T | null; failure: string }>({
    key: null,
    value: null,
    failure: "",
  });
  useEffect(() => {
    if (key === null) return;
    const gone = new AbortController();
    load(gone.signal)
      .then((value) => !gone.signal.aborted && setState({ key, value, failure: "" }))
      .catch((error: unknown) => {
        if (!IsAbort(error) && !gone.signal.aborted)
          setState({ key, value: null, failure: MessageOf(error) });
      });
    return () => gone.abort();
  }, [key, comebacks.value]);
  const fresh = key !== null && state.key === key;
  return {
    value: key === null ? null : state.value,
    fresh: fresh && state.value !== null,
    failure: fresh ? state.failure : "",
  };
}

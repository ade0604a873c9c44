import { useEffect, useState } from "preact/hooks";
import { IsAbort, MessageOf } from "../api/http";
import type { Tokenized } from "../api/types";
import { takeText } from "../playground/writing";
import { Param } from "../state/route";
import { comebacks, info, PostToModel } from "../state/server";
import { text } from "../text";

// The text that Attention and Inside look at, as the address has it.
export function InspectedText(): string {
  return Param("t") || takeText.peek() || text.inspected.example;
}

export interface Inspected {
  ids: number[]; // the last, as many as the model's context holds
  before: number; // tokens that come before these
  failure: string;
}

const kTypingPause = 250; // milliseconds

export function useInspected(): Inspected {
  const said = InspectedText();
  const [found, setFound] = useState<Inspected & { said: string }>({
    said: "",
    ids: [],
    before: 0,
    failure: "",
  });
  useEffect(() => {
    const most = info.peek()?.model?.n_ctx;
    if (most === undefined) return;
    const gone = new AbortController();
    const ask = () =>
      PostToModel<Tokenized>("api/tokenize", { text: said }, gone.signal)
        .then(({ ids }) => {
          const before = Math.max(ids.length - most, 0);
          setFound({ said, ids: ids.slice(before), before, failure: "" });
        })
        .catch(
          (error: unknown) =>
            !IsAbort(error) && setFound({ said, ids: [], before: 0, failure: MessageOf(error) }),
        );
    const timer = setTimeout(ask, found.said === "" ? 0 : kTypingPause);
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [said, comebacks.value]);
  return found;
}

import { useEffect, useState } from "preact/hooks";
import { IsAbort, MessageOf, Post } from "../api/http";
import type { Tokenized } from "../api/types";
import { takeText } from "../playground/writing";
import { text } from "../text";
import { Param } from "./route";
import { info } from "./server";

// The text that Attention and Inside look at, as the address has it.
export function InspectedText(): string {
  return Param("t") || takeText.peek() || text.inspected.example;
}

export interface Inspected {
  ids: number[]; // at most as many as the model's context
  left_out: number; // tokens behind these
  failure: string;
}

const kTypingPause = 250; // milliseconds

export function useInspected(): Inspected {
  const said = InspectedText();
  const [found, setFound] = useState<Inspected & { said: string }>({
    said: "",
    ids: [],
    left_out: 0,
    failure: "",
  });
  useEffect(() => {
    const gone = new AbortController();
    const most = info.value?.model?.n_ctx ?? 1024;
    const ask = () =>
      Post<Tokenized>("api/tokenize", { text: said }, gone.signal)
        .then(({ ids }) =>
          setFound({
            said,
            ids: ids.slice(0, most),
            left_out: Math.max(ids.length - most, 0),
            failure: "",
          }),
        )
        .catch(
          (error: unknown) =>
            !IsAbort(error) && setFound({ said, ids: [], left_out: 0, failure: MessageOf(error) }),
        );
    const timer = setTimeout(ask, found.said === "" ? 0 : kTypingPause);
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [said]);
  return found;
}

import type { ComponentChildren } from "preact";
import type { Tokenized } from "../api/types";
import { takeText } from "../playground/writing";
import { useLoaded } from "../state/load";
import { Param, SetParams } from "../state/route";
import { info, PostToModel } from "../state/server";
import { Whole } from "../format";
import { Failure, MainField } from "./controls";
import { FloatNote } from "./float_note";

const kExample = "The cat sat on the mat. The cat sat on the rug.";
const kTypingPause = 250; // milliseconds

// The text that Attention and Inside look at, as the address has it, and what is seen of its tokens: the
// last, as many as the model's context holds behind what every text of the model begins with.
export function Inspected({ children }: { children: (ids: number[]) => ComponentChildren }) {
  const said = Param("t") || takeText.peek() || kExample;
  const { value, failure } = useLoaded(
    said,
    (signal) => PostToModel<Tokenized>("api/tokenize", { text: said, begin: true }, signal),
    kTypingPause,
  );
  const all = value?.ids ?? [];
  const begun = value?.begun ?? 0;
  const most = info.value?.model?.n_ctx ?? 1;
  const ids = all.length > most ? [...all.slice(0, begun), ...all.slice(begun - most)] : all;
  return (
    <div class="stack">
      <MainField
        class="text-bar"
        rows={1}
        label="Text to look at"
        value={said}
        onText={(typed) => SetParams({ t: typed, q: null, k: null })}
      />
      <Failure message={failure} />
      {ids.length < all.length && (
        <p class="note">
          The last {Whole(ids.length)} of {Whole(all.length)} tokens, as many as the context holds.
        </p>
      )}
      <FloatNote waits={failure === ""} />
      {ids.length > 0 && children(ids)}
    </div>
  );
}

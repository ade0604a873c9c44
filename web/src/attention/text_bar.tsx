import { useRef } from "preact/hooks";
import { useKeys } from "../keys";
import { Failure } from "../parts/controls";
import { SetParams } from "../state/route";
import { text } from "../text";
import { InspectedText, type Inspected } from "./inspected";

// The field of the text that is looked at.
export function TextBar({ found }: { found: Inspected }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useKeys([{ key: "/", label: text.keys.focus_prompt, run: () => field.current?.focus() }]);
  return (
    <>
      <textarea
        ref={field}
        class="text-bar"
        rows={1}
        aria-label={text.inspected.label}
        spellcheck={false}
        value={InspectedText()}
        onInput={(event) => SetParams({ t: event.currentTarget.value, q: null, k: null })}
      />
      <Failure message={found.failure} />
      {found.before > 0 && (
        <p class="note">{text.inspected.window(found.ids.length, found.before)}</p>
      )}
    </>
  );
}

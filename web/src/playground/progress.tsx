import { Duration, Milliseconds, Percent, Rate, Whole } from "../format";
import { info } from "../state/server";
import { pace, Stop, writing, type Pace, type Written } from "./writing";

const kReasons: Record<string, string> = {
  length: "the wanted length is reached",
  stop: "a stop text was written",
  eos: "the model ended the text",
  context: "the context is full",
  cancelled: "stopped",
};

// What is done of the writing, or of the reading that comes before it.
function ShareOf({ written, wanted, prompt }: Pace): number {
  if (!writing.value) return 1;
  if (written > 0) return Math.min(written / wanted, 1);
  return prompt && prompt.total > 0 ? prompt.done / prompt.total : 0;
}

function Waiting({ prompt }: Pace): string {
  if (prompt && prompt.done > 0 && prompt.total > 0)
    return `reading the prompt, ${Percent(prompt.done / prompt.total)}, ${Duration(prompt.eta)} left`;
  return prompt?.waiting ? `waiting behind ${prompt.waiting}` : "waiting for the first token";
}

// How the writing goes, or how it went.
export function PaceLine({ of }: { of: Written | null }) {
  const now = pace.value;
  const context = info.value?.model?.n_ctx ?? 0;
  if (!now) return <div class="pace" />;
  const length = of ? of.prompt_ids.length + of.tokens.length : 0;
  const done = writing.value ? null : of?.done;
  return (
    <div class="stack" role="group" aria-label="State of the writing">
      <div class="progress">
        <i style={{ width: `${ShareOf(now) * 100}%` }} />
      </div>
      <div class="pace" id="pace">
        {writing.value && now.written === 0 && <span>{Waiting(now)}</span>}
        {now.ttft !== null && (
          <span>
            first token <b>{Milliseconds(now.ttft)}</b>
          </span>
        )}
        {now.per_second !== null && (
          <span>
            <b>{Rate(now.per_second)}</b> tokens/s
          </span>
        )}
        <span>
          <b>{Whole(now.written)}</b>/{Whole(now.wanted)} tokens
        </span>
        <span>
          context <b>{Whole(Math.min(length, context))}</b>/{Whole(context)}
          {length > context && ": the beginning has left it"}
        </span>
        {done && (
          <>
            <span>
              seed <b>{String(done.seed)}</b>
            </span>
            <span>{kReasons[done.reason] ?? done.reason}</span>
          </>
        )}
      </div>
    </div>
  );
}

// The button that has something written, or stops it.
export function WriteButton(props: {
  id: string;
  label: string;
  keys: string;
  onWrite: () => void;
}) {
  const [id, label, keys, act] = writing.value
    ? (["stop", "Stop", "Esc", Stop] as const)
    : ([props.id, props.label, props.keys, props.onWrite] as const);
  return (
    <button key={id} class="primary" id={id} onClick={act}>
      {label} <kbd>{keys}</kbd>
    </button>
  );
}

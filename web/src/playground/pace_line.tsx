import { Digits, Duration, Milliseconds, Percent } from "../format";
import { info } from "../state/server";
import { text } from "../text";
import { pace, writing, type Take } from "./writing";

type Written = Pick<Take, "prompt_ids" | "tokens" | "done">;

// How the writing goes, or how it went.
export function PaceLine({ of }: { of: Written | null }) {
  const now = pace.value;
  const words = text.play;
  const context = info.value?.model?.n_ctx ?? 0;
  if (!now) return <div class="pace" />;
  const length = of ? of.prompt_ids.length + of.tokens.length : 0;
  const reading = now.prompt;
  const share = writing.value
    ? now.written > 0
      ? now.written / now.wanted
      : reading && reading.total > 0
        ? reading.done / reading.total
        : 0
    : 1;
  return (
    <div class="stack" role="group" aria-label={words.status}>
      <div class="progress">
        <i style={{ width: `${Math.min(share, 1) * 100}%` }} />
      </div>
      <div class="pace" id="pace">
        {writing.value && now.written === 0 && (
          <span>
            {reading && reading.done > 0 && reading.total > 0
              ? words.reading(Percent(reading.done / reading.total), Duration(reading.eta))
              : words.waiting(reading?.waiting ?? 0)}
          </span>
        )}
        {now.ttft !== null && (
          <span>
            {words.first_token} <b>{Milliseconds(now.ttft)}</b>
          </span>
        )}
        {now.per_second !== null && (
          <span>
            <b>{Digits(now.per_second, 3)}</b> {words.speed}
          </span>
        )}
        <span>
          <b>{now.written}</b>/{now.wanted} {words.tokens}
        </span>
        <span>
          {words.context} <b>{Math.min(length, context)}</b>/{context}
          {length > context && `: ${words.beyond}`}
        </span>
        {!writing.value && of?.done && (
          <span>
            {words.seed} <b>{String(of.done.seed)}</b>
          </span>
        )}
        {!writing.value && of?.done && (
          <span>{words.reasons[of.done.reason] ?? of.done.reason}</span>
        )}
      </div>
    </div>
  );
}

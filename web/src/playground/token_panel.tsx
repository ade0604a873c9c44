import { useEffect, useState } from "preact/hooks";
import { GetNumbers, Values } from "../api/numbers";
import type { TopToken } from "../api/types";
import { kNatsToBits, Percent } from "../format";
import { HasFeature, info } from "../state/server";
import { WithTrace } from "../state/trace";
import { text } from "../text";
import { Hex, TokenBytes, TokenLabel } from "../tokens";
import { LogSoftmax, Sampled, type Candidate, type Settings } from "./sampling";

const kShown = 10;

// The logits that the token in place `at` was chosen by, when the model saw `seen` tokens before it,
// once it is locked; null until they are here, and where the service does not trace.
function useLogits(
  ids: number[],
  at: number,
  seen: number,
  wanted: boolean,
): Float32Array | null {
  const [found, setFound] = useState<{ key: string; logits: Float32Array } | null>(null);
  const key = `${at}:${seen}:${ids.join(",")}`;
  useEffect(() => {
    if (!wanted || at < 1 || !HasFeature("trace")) return;
    const gone = new AbortController();
    const most = info.value?.model?.n_ctx ?? ids.length;
    const from = at - seen;
    WithTrace(
      ids.slice(from, from + most),
      (trace) => GetNumbers(`${trace}/logits?pos=${seen - 1}`, gone.signal),
      gone.signal,
    )
      .then((frame) => setFound({ key, logits: Values(frame) }))
      .catch(() => {}); // the list of the likeliest stays
    return () => gone.abort();
  }, [key, wanted]);
  return found?.key === key ? found.logits : null;
}

interface Shown {
  rows: { id: number; lp: number; after: number }[];
  exact: boolean;
}

function Weigh(
  top: TopToken[],
  logits: Float32Array | null,
  settings: Settings,
  before: Set<number>,
): Shown {
  if (logits === null) {
    const candidates = top.map(([id, lp]) => ({ id, logit: lp }));
    const after = Sampled(candidates, { ...settings, repetition_penalty: 1 }, before);
    return { rows: top.map(([id, lp]) => ({ id, lp, after: after.get(id) ?? 0 })), exact: false };
  }
  const lps = LogSoftmax(logits);
  const candidates: Candidate[] = Array.from(logits, (logit, id) => ({ id, logit }));
  const after = Sampled(candidates, settings, before);
  const order = [...top.map(([id]) => id), ...after.keys()];
  const rows = [...new Set(order)]
    .slice(0, kShown)
    .map((id) => ({ id, lp: lps[id] ?? -Infinity, after: after.get(id) ?? 0 }));
  return { rows, exact: true };
}

export function TokenPanel(props: {
  ids: number[]; // the whole text
  at: number; // the place in it
  lp: number | null;
  rank: number | null;
  H: number | null;
  seen?: number; // tokens before it that the model saw; all of them if it is not said
  top: TopToken[];
  locked: boolean;
  settings?: Settings;
  onBranch?: (choice: TopToken) => void;
}) {
  const { ids, at, settings } = props;
  const id = ids[at] ?? 0;
  const logits = useLogits(ids, at, props.seen ?? at, props.locked && settings !== undefined);
  const shown = settings
    ? Weigh(props.top, logits, settings, new Set(ids.slice(0, at)))
    : { rows: props.top.map(([one, lp]) => ({ id: one, lp, after: 0 })), exact: true };
  const most = Math.max(...shown.rows.flatMap(({ lp, after }) => [Math.exp(lp), after]));
  return (
    <section class="panel token-panel" aria-label={text.token.title}>
      <div class="panel-head">
        <span class="chip big">{TokenLabel(id)}</span>
        <span class="faint small">
          {text.token.id} {id} · {Hex(TokenBytes(id)) || "–"}
        </span>
      </div>
      {props.lp !== null && (
        <dl class="facts small">
          <dt>{text.token.probability}</dt>
          <dd>{Percent(Math.exp(props.lp))}</dd>
          <dt>{text.token.rank}</dt>
          <dd>{props.rank ?? "–"}</dd>
          <dt>{text.token.surprise}</dt>
          <dd>
            {(-props.lp * kNatsToBits).toFixed(2)} {text.token.bits}
          </dd>
          <dt>{text.token.entropy}</dt>
          <dd>
            {props.H === null ? "–" : `${(props.H * kNatsToBits).toFixed(2)} ${text.token.bits}`}
          </dd>
        </dl>
      )}
      {shown.rows.length > 0 && (
        <>
          <h3>{props.onBranch ? text.token.pick : text.token.alternatives}</h3>
          <ol class={`bars${settings ? " two" : ""}`}>
            {shown.rows.map(({ id: one, lp, after }) => {
              const p = Math.exp(lp);
              const bar = (
                <>
                  <span class="bar-label">{TokenLabel(one)}</span>
                  <span class="bar-track">
                    <i class="bar-raw" style={{ width: `${(p / most) * 100}%` }} />
                    {settings && (
                      <i class="bar-after" style={{ width: `${(after / most) * 100}%` }} />
                    )}
                  </span>
                  <span class="bar-number">{Percent(p)}</span>
                  {settings && (
                    <span class="bar-number strong">
                      {after === 0 ? "–" : `${shown.exact ? "" : "≈"}${Percent(after)}`}
                    </span>
                  )}
                </>
              );
              return (
                <li key={one} class={one === id ? "is-this" : ""}>
                  {props.onBranch ? (
                    <button
                      class="bar"
                      title={text.token.branch(TokenLabel(one))}
                      onClick={() => props.onBranch?.([one, lp])}
                    >
                      {bar}
                    </button>
                  ) : (
                    <span class="bar">{bar}</span>
                  )}
                </li>
              );
            })}
          </ol>
          {settings && (
            <p class="note">{shown.exact ? text.token.exact : text.token.approximate}</p>
          )}
        </>
      )}
    </section>
  );
}

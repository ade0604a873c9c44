import { useState } from "preact/hooks";
import { Values } from "../api/numbers";
import type { TopToken } from "../api/types";
import { Bits, Percent, Whole } from "../format";
import { kPoint, Sheet } from "../parts/controls";
import { Bars, Facts } from "../parts/lists";
import { useTraceNumbers } from "../state/load";
import { info } from "../state/server";
import { Hex, TokenBytes, TokenLabel } from "../tokens";
import type { ScoredToken } from "./prose";
import { LogSoftmax, Sampled, type Settings } from "./sampling";
import { writing } from "./writing";

const kShown = 10;

// The token that is told of: the picked one, else the one under the pointer.
export function usePlace<T = number>() {
  const [pointed, onHover] = useState<T | null>(null);
  const [picked, onPick] = useState<T | null>(null);
  const letGo = () => {
    onHover(null);
    onPick(null);
  };
  return { place: picked ?? pointed, locked: picked !== null, onHover, onPick, letGo };
}

// True where a trace has the very logits that tokens were chosen by: the model is served as float32.
function AreExact(): boolean {
  return info.value?.model?.float_copy === null;
}

// The logits that the token in place `at` was chosen by, when the model saw `seen` tokens before it,
// once that is wanted; null until they are here, and where the service has no such.
function useLogits(ids: number[], at: number, seen: number, wanted: boolean): Float32Array | null {
  const most = info.value?.model?.n_ctx ?? ids.length;
  const traced = wanted && at > 0 && AreExact();
  const window = ids.slice(at - seen, at - seen + most);
  const { fresh } = useTraceNumbers(window, traced ? `logits?pos=${seen - 1}` : null);
  return fresh && Values(fresh);
}

interface Weighed {
  id: number;
  lp: number;
  after: number; // probability, as the sampler leaves it
}

function Weigh(
  top: TopToken[],
  logits: Float32Array | null,
  settings: Settings,
  before: Set<number>,
): Weighed[] {
  if (logits === null) {
    const candidates = top.map(([id, lp]) => ({ id, logit: lp }));
    const after = Sampled(candidates, { ...settings, repetition_penalty: 1 }, before);
    return top.map(([id, lp]) => ({ id, lp, after: after.get(id) ?? 0 }));
  }
  const lps = LogSoftmax(logits);
  const candidates = Array.from(logits, (logit, id) => ({ id, logit }));
  const after = Sampled(candidates, settings, before);
  const order = new Set([...top.map(([id]) => id), ...after.keys()]);
  return [...order]
    .slice(0, kShown)
    .map((id) => ({ id, lp: lps[id] ?? -Infinity, after: after.get(id) ?? 0 }));
}

interface TokenPanelProps {
  ids: number[]; // the whole text
  at: number; // the place in it
  token: ScoredToken;
  locked: boolean;
  settings?: Settings; // of a sampler whose work is shown
  onBranch?: (choice: TopToken) => void;
}

function TokenPanel({ ids, at, token, locked, settings, ...props }: TokenPanelProps) {
  const { id, lp, top } = token;
  const onBranch = writing.value ? undefined : props.onBranch;
  const exact = settings !== undefined && locked && !writing.value;
  const logits = useLogits(ids, at, token.seen ?? at, exact);
  const weighed = settings
    ? Weigh(top, logits, settings, new Set(ids.slice(0, at)))
    : top.map(([one, its]) => ({ id: one, lp: its, after: 0 }));
  const most = Math.max(...weighed.flatMap((one) => [Math.exp(one.lp), one.after]));
  const about = logits ? "" : "≈";
  return (
    <section class="panel token-panel" aria-label="Token">
      <div class="panel-head">
        <span class="chip big">{TokenLabel(id)}</span>
        <span class="faint small">
          id {id} · {Hex(TokenBytes(id)) || "–"}
        </span>
      </div>
      {lp !== null && (
        <Facts
          class="facts small"
          rows={[
            ["probability", Percent(Math.exp(lp))],
            ["rank", token.rank === null ? "–" : Whole(token.rank)],
            ["surprise", Bits(-lp)],
            ["entropy here", Bits(token.H)],
          ]}
        />
      )}
      {weighed.length > 0 && (
        <>
          <h3>Alternatives{onBranch && " – pick one to branch"}</h3>
          <Bars
            chosen={id}
            rows={weighed.map((one) => {
              const p = Math.exp(one.lp);
              const said = one.after === 0 ? "–" : `${about}${Percent(one.after)}`;
              return {
                id: one.id,
                raw: [p / most, Percent(p)],
                after: settings && [one.after / most, said],
                title: `Continue from “${TokenLabel(one.id)}” instead`,
                onPick: onBranch && (() => onBranch([one.id, one.lp])),
              };
            })}
          />
          {settings && (
            <p class="note">
              Wide bars: the model's probabilities. Thin bars: after the sampler as it is set now,{" "}
              {logits
                ? "computed from all logits. "
                : AreExact()
                  ? "computed from these tokens alone; click the token for exact numbers. "
                  : "computed from these tokens alone. "}
              The longest bar is the likeliest token.
            </p>
          )}
        </>
      )}
    </section>
  );
}

// What is told of a token beside its text; `hint` while there is none.
export function TokenSheet({
  token,
  onClose,
  hint = kPoint === "Tap"
    ? "Tap a token to see its alternatives."
    : "Point at a token to see its alternatives, or go to it with Tab and the arrow keys.",
  ...panel
}: Omit<TokenPanelProps, "token"> & { token?: ScoredToken; onClose: () => void; hint?: string }) {
  return (
    <Sheet open={panel.locked} onClose={onClose}>
      {token ? <TokenPanel {...panel} token={token} /> : <p class="note">{hint}</p>}
    </Sheet>
  );
}

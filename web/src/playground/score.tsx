import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Scores } from "../api/types";
import { Digits, Whole } from "../format";
import { useKeys } from "../keys";
import { Failure, MainField } from "../parts/controls";
import { Facts } from "../parts/lists";
import { useLoaded } from "../state/load";
import { HasFeature, kNoTrace, PostToModel } from "../state/server";
import { Pieces, TokenBytes } from "../tokens";
import { ColourBy, Prose, type Judged } from "./prose";
import { TokenSheet, usePlace } from "./token_panel";
import { typed, typedText } from "./writing";

const kHint = "Paste a text to see how well the model foresees each token of it.";

export function ScoreTab() {
  const [asked, setAsked] = useState<{ time: number; text: string } | null>(null);
  const loaded = useLoaded(asked && `${asked.time}:${asked.text}`, (signal) =>
    PostToModel<Scores>("api/score", { text: asked?.text, top: 10 }, signal),
  );
  // A judgement stays where a later one fails.
  const kept = useRef<Scores | null>(null);
  kept.current = loaded.value ?? kept.current;
  const scores = kept.current;
  const busy = asked !== null && !loaded.fresh && !loaded.failure;
  const { place: at, locked, letGo, ...on } = usePlace();
  useEffect(letGo, [scores]);
  const judge = () => setAsked({ time: Date.now(), text: typedText.value });
  useKeys([
    { key: "Control+Enter", label: "Judge", run: judge },
    { key: "Escape", label: "Stop, or let go of a token", run: letGo },
  ]);
  const ids = scores?.ids ?? [];
  const tokens = useMemo<Judged[]>(
    () =>
      ids.map((id, i) => ({
        id,
        lp: scores?.lp[i] ?? null,
        rank: scores?.rank[i] ?? null,
        H: scores?.H[i] ?? null,
        top: scores?.top[i] ?? [],
        plain: scores?.lp[i] === null,
      })),
    [scores],
  );
  const pieces = useMemo(() => Pieces(ids.map(TokenBytes)), [scores]);
  const token = at === null ? undefined : tokens[at];
  if (!HasFeature("score")) return <p class="empty">{kNoTrace}</p>;
  return (
    <div class="play">
      <div class="play-main">
        <MainField
          class="prompt"
          label="Text to judge"
          placeholder={kHint}
          value={typedText.value}
          onText={(said) => (typed.value = said)}
        />
        <div class="row">
          <button class="primary" disabled={busy} onClick={judge}>
            Judge <kbd>Ctrl ⏎</kbd>
          </button>
        </div>
        <Failure message={loaded.failure} />
        {scores && (
          <section class="panel result">
            <Facts
              class="figures"
              rows={[
                ["perplexity", Digits(scores.perplexity)],
                ["bits per byte", Digits(scores.bits_per_byte)],
                ["nats per token", Digits(scores.nats_per_token)],
                ["tokens", Whole(ids.length)],
              ]}
            />
            <hr class="rule" />
            <div class="result-head">
              <ColourBy />
            </div>
            <Prose
              {...on}
              label="Written text"
              tokens={tokens}
              pieces={pieces}
              at={at}
              locked={locked}
            />
          </section>
        )}
      </div>
      <aside class="play-side">
        <TokenSheet
          ids={ids}
          at={at ?? 0}
          token={token}
          locked={locked}
          hint={scores ? undefined : kHint}
          onClose={letGo}
        />
      </aside>
    </div>
  );
}

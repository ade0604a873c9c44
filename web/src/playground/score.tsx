import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Scores } from "../api/types";
import { Bits, Digits, kNatsToBits, Percent, Whole } from "../format";
import { useKeys } from "../keys";
import { Failure, MainField } from "../parts/controls";
import { FloatNote } from "../parts/float_note";
import { Facts } from "../parts/lists";
import { useLoaded } from "../state/load";
import { FloatCopyMade, PostToModel } from "../state/server";
import { Pieces, TokenBytes, TokenLabel } from "../tokens";
import { ColourBy, Prose, type ScoredToken } from "./prose";
import { TokenSheet, usePlace } from "./token_panel";
import { Type, typedText, writing } from "./writing";

const kHint = "Paste a text to see how well the model predicts each token of it.";
const kTypingPause = 400; // milliseconds
const kListed = 12; // tokens

// The tokens that surprised the model most.
function LeastExpected(props: { tokens: ScoredToken[]; onPick: (at: number) => void }) {
  const scored = props.tokens.flatMap((token, at) => (token.lp === null ? [] : [{ ...token, at }]));
  const least = scored.sort((a, b) => (a.lp ?? 0) - (b.lp ?? 0)).slice(0, kListed);
  const most = -(least[0]?.lp ?? 0) || 1;
  return (
    <section class="panel" aria-label="Least expected tokens">
      <h2>Least expected tokens</h2>
      <ol class="bars">
        {least.map(({ id, lp, at }) => (
          <li key={at}>
            <button
              class="bar"
              title={`Token ${at}: probability ${Percent(Math.exp(lp ?? 0))}`}
              onClick={() => props.onPick(at)}
            >
              <span class="bar-label">{TokenLabel(id)}</span>
              <span class="bar-track">
                <i class="bar-after" style={{ width: `${(-(lp ?? 0) / most) * 100}%` }} />
              </span>
              <span class="bar-number strong">{Bits(-(lp ?? 0))}</span>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

export function ScoreTab() {
  const said = typedText.value;
  const loaded = useLoaded(
    said === "" || writing.value ? null : said,
    async (signal) => {
      const scores = await PostToModel<Scores>("api/score", { text: said, top: 10 }, signal);
      FloatCopyMade();
      return scores;
    },
    kTypingPause,
  );
  // Scores stay where a later text cannot be scored.
  const kept = useRef<Scores | null>(null);
  kept.current = loaded.value ?? kept.current;
  const scores = said === "" ? null : kept.current;
  const waits = said !== "" && !loaded.fresh && !loaded.failure;
  const { place: at, locked, letGo, ...on } = usePlace();
  useEffect(letGo, [scores]);
  useKeys([{ key: "Escape", label: "Stop, or deselect the token", run: letGo }]);
  const ids = scores?.ids ?? [];
  const tokens = useMemo<ScoredToken[]>(
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
  return (
    <div class="play">
      <div class="play-main">
        <MainField
          class="prompt"
          label="Text to score"
          placeholder={kHint}
          value={said}
          onText={Type}
        />
        <Failure message={loaded.failure} />
        <FloatNote waits={waits} />
        <section class="panel result" aria-label="Scores" aria-busy={waits}>
          {scores ? (
            <>
              <Facts
                class="figures"
                rows={[
                  ["perplexity", Digits(scores.perplexity)],
                  ["bits per byte", Digits(scores.bits_per_byte)],
                  [
                    "bits per token",
                    Digits(scores.nats_per_token === null ? null : scores.nats_per_token * kNatsToBits),
                  ],
                  ["tokens", Whole(ids.length)],
                ]}
              />
              <hr class="rule" />
              <div class="result-head">
                <ColourBy />
              </div>
              <Prose
                {...on}
                label="Scored text"
                tokens={tokens}
                pieces={pieces}
                at={at}
                locked={locked}
              />
            </>
          ) : (
            <p class="empty">{waits ? "Scoring …" : kHint}</p>
          )}
        </section>
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
        {!token && scores && <LeastExpected tokens={tokens} onPick={on.onPick} />}
      </aside>
    </div>
  );
}

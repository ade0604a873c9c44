import { useMemo, useState } from "preact/hooks";
import { MessageOf } from "../api/http";
import type { Scores } from "../api/types";
import { Digits, Whole } from "../format";
import { useKeys } from "../keys";
import { Failure, MainField } from "../parts/controls";
import { Facts } from "../parts/lists";
import { HasFeature, kNoTrace, PostToModel } from "../state/server";
import { Pieces, TokenBytes } from "../tokens";
import { ColourBy, Prose, type Judged } from "./prose";
import { TokenSheet, usePlace } from "./token_panel";
import { typed, typedText } from "./writing";

const kHint = "Paste a text to see how well the model foresees each token of it.";

export function ScoreTab() {
  const [scores, setScores] = useState<Scores | null>(null);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const { place: at, locked, letGo, ...on } = usePlace();
  const judge = async () => {
    setBusy(true);
    setFailed("");
    try {
      setScores(await PostToModel<Scores>("api/score", { text: typedText.value, top: 10 }));
      letGo();
    } catch (error) {
      setFailed(MessageOf(error));
    }
    setBusy(false);
  };
  useKeys([
    { key: "Control+Enter", label: "Judge", run: () => void judge() },
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
          <button class="primary" disabled={busy} onClick={() => void judge()}>
            Judge <kbd>Ctrl ⏎</kbd>
          </button>
        </div>
        <Failure message={failed} />
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
          open={locked}
          onClose={letGo}
          of={token && at !== null ? { ids, at, token, exact: false } : null}
          hint={scores ? undefined : kHint}
        />
      </aside>
    </div>
  );
}

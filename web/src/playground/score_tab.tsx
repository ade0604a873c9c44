import { useMemo, useState } from "preact/hooks";
import { MessageOf } from "../api/http";
import type { Scores } from "../api/types";
import { Digits, Whole } from "../format";
import { useKeys } from "../keys";
import { Failure } from "../parts/controls";
import { Prose, type Judged } from "../parts/prose";
import { Sheet } from "../parts/sheet";
import { HasFeature, PostToModel } from "../state/server";
import { text } from "../text";
import { Pieces, TokenBytes } from "../tokens";
import { ColourBy, ColourChoice } from "./colour_by";
import { TokenPanel } from "./token_panel";
import { typed, typedText } from "./writing";

export function ScoreTab() {
  const words = text.score;
  const [scores, setScores] = useState<Scores | null>(null);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const [pointed, setPointed] = useState<number | null>(null);
  const [locked, setLocked] = useState<number | null>(null);
  const mode = ColourChoice();
  const at = locked ?? pointed;
  const judge = async () => {
    setBusy(true);
    setFailed("");
    try {
      setScores(await PostToModel<Scores>("api/score", { text: typedText.value, top: 10 }));
      setLocked(null);
    } catch (error) {
      setFailed(MessageOf(error));
    } finally {
      setBusy(false);
    }
  };
  useKeys([
    { key: "Control+Enter", label: words.judge, run: () => void judge() },
    { key: "Escape", label: text.keys.stop, run: () => setLocked(null) },
  ]);
  const judged = useMemo<Judged[]>(
    () =>
      scores?.ids.map((id, i) => ({
        id,
        lp: scores.lp[i] ?? null,
        rank: scores.rank[i] ?? null,
        H: scores.H[i] ?? null,
        plain: scores.lp[i] === null,
      })) ?? [],
    [scores],
  );
  const pieces = useMemo(() => Pieces(scores?.ids.map(TokenBytes) ?? []), [scores]);
  if (!HasFeature("score")) return <p class="empty">{text.server.no_trace}</p>;
  return (
    <div class="play">
      <div class="play-main">
        <textarea
          class="prompt"
          aria-label={words.label}
          placeholder={words.hint}
          spellcheck={false}
          value={typedText.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
        <div class="row">
          <button class="primary" disabled={busy} onClick={() => void judge()}>
            {words.judge} <kbd>Ctrl ⏎</kbd>
          </button>
        </div>
        <Failure message={failed} />
        {scores && (
          <section class="panel result">
            <dl class="figures">
              <div>
                <dt>{words.perplexity}</dt>
                <dd>{Digits(scores.perplexity, 4)}</dd>
              </div>
              <div>
                <dt>{words.bits_per_byte}</dt>
                <dd>{Digits(scores.bits_per_byte, 4)}</dd>
              </div>
              <div>
                <dt>{words.nats}</dt>
                <dd>{Digits(scores.nats_per_token, 4)}</dd>
              </div>
              <div>
                <dt>{words.count}</dt>
                <dd>{Whole(scores.ids.length)}</dd>
              </div>
            </dl>
            <hr class="rule" />
            <div class="result-head">
              <ColourBy />
            </div>
            <Prose
              label={text.play.result}
              tokens={judged}
              pieces={pieces}
              mode={mode}
              at={at}
              locked={locked !== null}
              onHover={setPointed}
              onPick={setLocked}
            />
          </section>
        )}
      </div>
      <aside class="play-side">
        <Sheet
          open={locked !== null}
          onClose={() => {
            setPointed(null);
            setLocked(null);
          }}
        >
          {scores && at !== null && scores.ids[at] !== undefined ? (
            <TokenPanel
              ids={scores.ids}
              at={at}
              lp={scores.lp[at] ?? null}
              rank={scores.rank[at] ?? null}
              H={scores.H[at] ?? null}
              top={scores.top[at] ?? []}
              locked={false}
            />
          ) : (
            <p class="note">{scores ? text.token.none : words.hint}</p>
          )}
        </Sheet>
      </aside>
    </div>
  );
}

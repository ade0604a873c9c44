import { useEffect, useMemo, useState } from "preact/hooks";
import { HeadWeights, Scaled, Shades } from "../attention/weights";
import { RampCss } from "../colour";
import { Digits } from "../format";
import { Pick } from "../parts/controls";
import { TokenStrip } from "../parts/lists";
import { type Cell, HeatMap } from "../parts/maps";
import { theme } from "../state/theme";
import { SetVocabulary, TokenLabel } from "../tokens";
import { busy, Compute } from "./compute";
import type { Asks, ModelFacts } from "./messages";
import { prompt } from "./writing";

const Places = (count: number) => Array.from({ length: count }, (_, i) => [String(i), String(i)] as const);

export function Attending({ facts }: { facts: ModelFacts }) {
  const [layer, setLayer] = useState(0);
  const [head, setHead] = useState(0);
  const [seen, setSeen] = useState<(Asks["attend"]["end"] & { title: string }) | null>(null);
  const [cell, setCell] = useState<Cell | null>(null);
  const [locked, setLocked] = useState(false);
  const Look = async () => {
    const end = await Compute("attend", { text: prompt.value, layer, head });
    if (!end) return;
    const known: Uint8Array[] = [];
    end.ids.forEach((id, i) => (known[id] = end.bytes[i] as Uint8Array));
    SetVocabulary(known);
    setSeen({ ...end, title: `Layer ${layer}, head ${head}` });
    if (end.ids.length !== seen?.ids.length) setCell(null);
  };
  useEffect(() => void Look(), [layer, head]);
  const T = seen?.ids.length ?? 0;
  const shades = useMemo(() => {
    if (!seen) return null;
    const codes = seen.weights.map((p) => 255 * Math.sqrt(p));
    const look = { scale: "sqrt", per_row: false, first_aside: false } as const;
    const all = Shades(new HeadWeights(T, false, codes), look);
    return all.map((shade, i) => (i % T > Math.floor(i / T) ? -1 : shade)); // later tokens are not seen
  }, [seen]);
  const labels = useMemo(() => seen?.ids.map(TokenLabel) ?? [], [seen]);
  const at = cell ?? { row: Math.max(T - 1, 0), column: Math.max(T - 2, 0) };
  const told = `“${labels[at.row]}” looks at “${labels[at.column]}” with ${Digits(seen?.weights[at.row * T + at.column], 4)}`;
  const pick = (to: Cell) => {
    setCell(to);
    setLocked(true);
  };
  return (
    <div class="stack gap">
      <div class="row">
        <textarea
          class="text-bar"
          rows={1}
          aria-label="Text to look at"
          value={prompt.value}
          onInput={(event) => (prompt.value = event.currentTarget.value)}
        />
        <button id="look" class="primary" disabled={busy.value !== ""} onClick={() => void Look()}>
          Look
        </button>
        <Pick
          name="Layer"
          value={String(layer)}
          options={Places(facts.n_layer)}
          onPick={(to) => setLayer(Number(to))}
        />
        <Pick
          name="Head"
          value={String(head)}
          options={Places(facts.n_head)}
          onPick={(to) => setHead(Number(to))}
        />
      </div>
      {seen && shades && (
        <>
          <TokenStrip
            ids={seen.ids}
            at={at.row}
            locked={locked}
            strengths={shades.slice(at.row * T, (at.row + 1) * T)}
            onPick={(row) => pick({ row, column: Math.min(at.column, row) })}
          />
          <section class="panel map-panel" aria-label={seen.title}>
            <div class="panel-head">
              <h2>{seen.title}</h2>
              <output class="soft small" id="told">
                {told}
              </output>
            </div>
            <HeatMap
              label={told}
              kind="attention map"
              labels={labels}
              shades={shades}
              cell={at}
              locked={locked}
              onPoint={(to) => locked || setCell(to)}
              onPick={pick}
            />
            <div class="map-foot">
              <span class="legend">
                0
                <span class="ramp">
                  {Array.from({ length: 16 }, (_, i) => (
                    <i
                      key={i}
                      style={{ backgroundColor: RampCss(theme.value, Scaled((i + 1) / 16, "sqrt")) }}
                    />
                  ))}
                </span>
                1
              </span>
              <span class="note">Queries down, keys across; hatched is what a query may not see.</span>
            </div>
          </section>
        </>
      )}
    </div>
  );
}

import { useMemo, useState } from "preact/hooks";
import { GetNumbers } from "../api/numbers";
import { Get } from "../api/http";
import { SeriesColour } from "../colour";
import { Digits, Percent, Whole } from "../format";
import { Sized, useDrawing, useWidth } from "../parts/canvas";
import { Failure, Segments, Sheet } from "../parts/controls";
import { FloatNote } from "../parts/float_note";
import { AxisOf } from "../parts/line_chart";
import { Bars, KeyEntry } from "../parts/lists";
import { useLoaded } from "../state/load";
import { Choice, NumberParam, Param, SetParams } from "../state/route";
import { FloatCopyMade, OfModel } from "../state/server";
import { theme } from "../state/theme";
import { KindOf, kTokenKinds, TokenLabel, VocabularySize, type TokenKind } from "../tokens";
import { LabelsThatFit } from "./labels";

const kKindNames: Record<TokenKind, string> = {
  letter: "letter",
  space: "space and letter",
  digit: "digit",
  mark: "punctuation",
  other: "other",
};
const kAxes = [
  ["01", "1 · 2"],
  ["02", "1 · 3"],
  ["12", "2 · 3"],
] as const;
const kNear = 20;
const kFound = 12;
const kReach = 12; // pixels from the pointer to a point
const kEdge = 16;
const kFont = "11px ui-monospace, 'Liberation Mono', monospace";
const kOther = kTokenKinds.indexOf("other");

// A point's, in pixels; of many they are smaller.
function RadiusOf(V: number): number {
  return V > 8000 ? 1.6 : V > 1000 ? 2.6 : 4;
}

interface Neighbours {
  id: number;
  norm: number;
  nearest: [id: number, cosine: number][];
}

export function EmbeddingsView() {
  const [holder, width] = useWidth<HTMLDivElement>();
  const [pointed, setPointed] = useState<number | null>(null);
  const [sought, setSought] = useState("");
  const axes = Choice("ax", kAxes);
  const chosen = Param("id") === "" ? null : NumberParam("id", 0, 0, VocabularySize() - 1);
  const pca = useLoaded("pca", async (signal) => {
    const numbers = await GetNumbers(OfModel("api/embed/pca"), signal);
    FloatCopyMade();
    return numbers;
  });
  const near = useLoaded(chosen === null ? null : `${chosen}`, (signal) =>
    Get<Neighbours>(OfModel(`api/embed/nn?id=${chosen}&k=${kNear}`), signal),
  );
  const V = pca.value?.shape[0] ?? 0;
  const kinds = useMemo(
    () => Array.from({ length: V }, (_, id) => kTokenKinds.indexOf(KindOf(id))),
    [V],
  );
  const height = Math.min(Math.round(width * 0.72), 640);
  // Where each point stands on the canvas.
  const spots = useMemo(() => {
    const data = pca.value?.data;
    if (!data || width === 0) return null;
    const [xs = [], ys = []] = Array.from(axes, (column) =>
      Array.from({ length: V }, (_, id) => data[id * 3 + Number(column)] as number),
    );
    const x = AxisOf(xs, {}, 1, kEdge, width - kEdge);
    const y = AxisOf(ys, {}, 1, height - kEdge, kEdge);
    return Float32Array.from(xs.flatMap((at, id) => [x.at(at), y.at(ys[id] as number)]));
  }, [pca.value, axes, width, height]);
  const radius = RadiusOf(V);
  const placed = useMemo(() => {
    const context = document.createElement("canvas").getContext("2d");
    if (!spots || !context) return [];
    context.font = kFont;
    // Characters come before bytes that are none.
    const ids = Array.from({ length: V }, (_, id) => id);
    const order = [
      ...ids.filter((id) => kinds[id] !== kOther),
      ...ids.filter((id) => kinds[id] === kOther),
    ];
    const widthOf = (id: number) => context.measureText(TokenLabel(id)).width;
    return LabelsThatFit(spots, radius, { width, height }, order, widthOf);
  }, [spots, kinds]);
  // All points and names, for what is drawn over them.
  const ground = useMemo(() => {
    if (!spots) return null;
    const drawn = document.createElement("canvas");
    const context = Sized(drawn, width, height);
    context.globalAlpha = V > 8000 ? 0.6 : 0.85;
    for (let id = 0; id < V; ++id) {
      const [x, y] = [spots[id * 2] as number, spots[id * 2 + 1] as number];
      context.fillStyle = SeriesColour(theme.value, kinds[id] ?? 0);
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    context.font = kFont;
    context.textBaseline = "middle";
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--soft");
    for (const { id, x, y } of placed) context.fillText(TokenLabel(id), x, y);
    return drawn;
  }, [placed, kinds, theme.value]);
  const neighbours = near.fresh?.nearest ?? [];
  const canvas = useDrawing(
    { width, height },
    (context, css) => {
      if (!spots || !ground) return;
      // A point that is picked stands out.
      context.globalAlpha = chosen === null ? 1 : 0.45;
      context.drawImage(ground, 0, 0, width, height);
      context.globalAlpha = 1;
      context.font = kFont;
      context.textBaseline = "middle";
      const name = (id: number, strong: boolean) => {
        const [x, y] = [spots[id * 2] as number, spots[id * 2 + 1] as number];
        context.beginPath();
        context.arc(x, y, radius + (strong ? 2.5 : 1.5), 0, 7);
        context.fillStyle = css(strong ? "--accent" : "--ink");
        context.fill();
        context.strokeStyle = css("--surface");
        context.lineWidth = 3;
        const own = placed.find((one) => one.id === id);
        const turned = own === undefined && x > width - 90;
        context.textAlign = turned ? "right" : "left";
        const [tx, ty] = [own?.x ?? x + (turned ? -10 : 10), own?.y ?? y];
        context.strokeText(TokenLabel(id), tx, ty);
        context.fillText(TokenLabel(id), tx, ty);
      };
      neighbours.slice(0, 10).forEach(([id]) => name(id, false));
      if (chosen !== null) name(chosen, true);
      if (pointed !== null && pointed !== chosen) name(pointed, true);
    },
    [ground, chosen, pointed, near.fresh],
  );
  const nearestTo = (event: MouseEvent): number | null => {
    if (!spots) return null;
    let [best, least]: [number | null, number] = [null, kReach * kReach];
    for (let id = 0; id < V; ++id) {
      const distance =
        ((spots[id * 2] as number) - event.offsetX) ** 2 +
        ((spots[id * 2 + 1] as number) - event.offsetY) ** 2;
      if (distance < least) [best, least] = [id, distance];
    }
    return best;
  };
  const found = useMemo(() => {
    const wanted = sought.replace(/ /g, "·").toLowerCase();
    if (wanted === "") return null;
    return Array.from({ length: VocabularySize() }, (_, id) => id)
      .filter((id) => TokenLabel(id).toLowerCase().includes(wanted))
      .sort((a, b) => TokenLabel(a).length - TokenLabel(b).length || a - b)
      .slice(0, kFound);
  }, [sought]);
  const explained = (pca.value?.about.explained as number[] | undefined) ?? [];
  return (
    <div class="inside">
      <section class="panel stack" aria-label="Token embeddings">
        <div class="panel-head">
          <h2>Token embeddings</h2>
          <span class="faint small">{Whole(V)} tokens</span>
          <span class="grow" />
          <Segments
            name="Principal components"
            value={axes}
            options={kAxes}
            onPick={(ax) => SetParams({ ax })}
          />
        </div>
        <Failure message={pca.failure} />
        <FloatNote waits={!pca.value && !pca.failure} />
        {!pca.value && !pca.failure && <p class="empty">Computing the axes …</p>}
        <div ref={holder} class="scatter">
          <canvas
            ref={canvas}
            data-labels={placed.length}
            role="img"
            aria-label="Token embeddings"
            onMouseMove={(event) => setPointed(nearestTo(event))}
            onMouseLeave={() => setPointed(null)}
            onClick={(event) => {
              const id = nearestTo(event);
              if (id !== null) SetParams({ id });
            }}
          />
        </div>
        <div class="row small">
          {kTokenKinds.map((kind, i) => (
            <KeyEntry key={kind} colour={SeriesColour(theme.value, i)}>
              {kKindNames[kind]}
            </KeyEntry>
          ))}
          <span class="grow" />
          <span class="faint">share of the variance: {explained.map(Percent).join(", ")}</span>
        </div>
      </section>
      <section class="panel stack" aria-label="Nearest by cosine">
        <input
          type="search"
          aria-label="Find a token"
          placeholder="Find a token"
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
        />
        {found?.length === 0 && <p role="status">Nothing found: no token has “{sought}” in it.</p>}
        {found !== null && found.length > 0 && (
          <div class="strip">
            {found.map((id) => (
              <button key={id} class="chip" onClick={() => SetParams({ id })}>
                {TokenLabel(id)}
              </button>
            ))}
          </div>
        )}
        {chosen === null && (
          <p class="note">Click a point, or find a token, to see its neighbours.</p>
        )}
        <Sheet open={chosen !== null} onClose={() => SetParams({ id: null })}>
          {chosen !== null && (
            <div class="stack near">
              <div class="panel-head">
                <span class="chip big">{TokenLabel(chosen)}</span>
                <span class="faint small">
                  id {chosen}
                  {near.fresh && ` · length ${Digits(near.fresh.norm, 3)}`}
                </span>
              </div>
              <h3>Nearest by cosine</h3>
              <Failure message={near.failure} />
              <Bars
                rows={neighbours.map(([id, cosine]) => ({
                  id,
                  after: [Math.max(cosine, 0), cosine.toFixed(3)],
                  onPick: () => SetParams({ id }),
                }))}
              />
            </div>
          )}
        </Sheet>
      </section>
    </div>
  );
}

import { useMemo, useRef, useState } from "preact/hooks";
import type { Numbers } from "../api/numbers";
import { RampPixels } from "../colour";
import { Digits, kNatsToBits } from "../format";
import { ArrowOf } from "../keys";
import { usePixels } from "../parts/canvas";
import { Pick } from "../parts/controls";
import { Param, SetParams } from "../state/route";
import { theme } from "../state/theme";
import { Scaled, type Scale } from "./weights";

interface HeadPlace {
  layer: number;
  head: number;
}

export function HeadName({ layer, head }: HeadPlace): string {
  return `Layer ${layer}, head ${head}`;
}

// What heads do, each a mean over the queries but the first: the service's column, its name, what it says, and
// the unit of what is no share of weights.
const kScores: Record<string, readonly [name: string, says: string, unit?: string]> = {
  previous: [
    "previous token",
    "The weight on the token just before the query. Near 1, the head copies from the preceding token.",
  ],
  first: [
    "first token",
    "The weight on the first token of the text. Near 1, the head is idle: it rests on that token.",
  ],
  self: [
    "itself",
    "The weight on the query itself. Near 1, the head looks at no other token.",
  ],
  duplicate: [
    "same token before",
    "The weight on earlier occurrences of the query's own token. Near 1, the head finds repetitions of it.",
  ],
  induction: [
    "induction",
    "The weight on tokens right after an earlier occurrence of the query's token. Near 1, the head predicts that what followed then follows again.",
  ],
  entropy: [
    "entropy",
    "How spread the weights are: 0 where one token gets all of them, log₂ n where n tokens get equal weights.",
    " bits",
  ],
  distance: [
    "distance",
    "The mean number of tokens between the query and the tokens that it looks at, weighted.",
    " tokens",
  ],
};
const kNames = Object.entries(kScores).map(([column, [name]]) => [column, name] as const);
const kOrders = [["", "by layer"] as const, ...kNames];

const kRoom = 300; // pixels for a row of thumbnails, about

function Thumbnail({ pixels, side }: { pixels: Uint32Array; side: number }) {
  return <canvas ref={usePixels(pixels, side)} aria-hidden="true" />;
}

// Every head's map as a thumbnail: rows are layers, or sorted by what the heads do.
export function HeadGrid(props: {
  thumbs: Numbers | null;
  scores: Numbers | null;
  chosen: HeadPlace;
  scale: Scale;
  onPick: (head: HeadPlace) => void;
}) {
  const { thumbs, scores, chosen } = props;
  const [pointed, setPointed] = useState<HeadPlace | null>(null);
  const [L = 0, H = 0, s = 0] = thumbs?.shape ?? [];
  const order = Param("o");
  const columns = (scores?.about.columns as string[] | undefined) ?? [];
  const scoreOf = ({ layer, head }: HeadPlace, column: string): number =>
    scores?.data[(layer * H + head) * columns.length + columns.indexOf(column)] ?? NaN;
  const heads = useMemo(() => {
    const all = Array.from({ length: L * H }, (_, i) => ({
      layer: Math.floor(i / H),
      head: i % H,
    }));
    if (columns.includes(order)) all.sort((a, b) => scoreOf(b, order) - scoreOf(a, order));
    return all;
  }, [L, H, order, scores]);
  const across = order ? Math.max(4, Math.min(H, 8)) : H;
  const same = (a: HeadPlace | null, b: HeadPlace) => a?.layer === b.layer && a.head === b.head;
  const thumbnails = useMemo(() => {
    const ramp = RampPixels(theme.value);
    const colours = Array.from(
      { length: 256 },
      (_, code) => ramp[Math.round(Scaled((code / 255) ** 2, props.scale) * 255)] as number,
    );
    return heads.map(({ layer, head }) => {
      const begin = (layer * H + head) * s * s;
      const codes = thumbs?.data.subarray(begin, begin + s * s) ?? [];
      const pixels = Uint32Array.from(codes, (code) => colours[code] as number);
      return <Thumbnail pixels={pixels} side={s} />;
    });
  }, [thumbs, heads, props.scale, theme.value]);
  const grid = useRef<HTMLDivElement>(null);
  const keys = (event: KeyboardEvent) => {
    const by = ArrowOf(event);
    const at = heads.findIndex((head) => same(chosen, head));
    const next = by && heads[at + by[0] * across + by[1]];
    if (!next) return;
    props.onPick(next);
    grid.current?.querySelectorAll("button")[heads.indexOf(next)]?.focus();
  };
  const told = pointed ?? chosen;
  return (
    <section class="panel head-grid" aria-label="Heads">
      <div class="panel-head">
        <h2>Heads</h2>
        <span class="grow" />
        <Pick name="Sort" value={order} options={kOrders} onPick={(o) => SetParams({ o })} />
      </div>
      <div
        ref={grid}
        id="heads"
        class="head-tiles"
        role="group"
        aria-label="Heads"
        style={{
          gridTemplateColumns: `${order ? "" : "26px "}repeat(${across}, minmax(18px, 64px))`,
          imageRendering: s * across > kRoom ? "auto" : "pixelated",
        }}
        onMouseLeave={() => setPointed(null)}
        onKeyDown={keys}
      >
        {heads.map((head, i) => (
          <>
            {!order && head.head === 0 && <span class="faint">L{head.layer}</span>}
            <button
              aria-label={HeadName(head)}
              aria-pressed={same(chosen, head)}
              tabIndex={same(chosen, head) ? 0 : -1}
              onMouseEnter={() => setPointed(head)}
              onClick={() => props.onPick(head)}
            >
              {thumbnails[i]}
            </button>
          </>
        ))}
      </div>
      <h3>{HeadName(told)}</h3>
      <ul class="head-scores">
        {Object.entries(kScores).map(([column, [name, says, unit]]) => {
          const score = scoreOf(told, column) * (column === "entropy" ? kNatsToBits : 1);
          return (
            <li key={column} class={column === order ? "is-order" : ""}>
              <details>
                <summary title={says}>
                  <span>{name}</span>
                  {unit ? (
                    <span />
                  ) : (
                    <span class="bar-track">
                      <i class="bar-after" style={{ width: `${(score || 0) * 100}%` }} />
                    </span>
                  )}
                  <span class="bar-number strong">
                    {Digits(score, 3)}
                    {unit}
                  </span>
                </summary>
                <p class="note">{says}</p>
              </details>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

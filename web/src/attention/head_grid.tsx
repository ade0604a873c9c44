import { useMemo, useState } from "preact/hooks";
import type { Numbers } from "../api/numbers";
import { RampPixels } from "../colour";
import { Digits } from "../format";
import { ArrowOf } from "../keys";
import { PixelImage, useDrawing, useWidth } from "../parts/canvas";
import { Pick } from "../parts/controls";
import { Param, SetParams } from "../state/route";
import { theme } from "../state/theme";
import { Scaled, type Scale } from "./weights";

export interface HeadPlace {
  layer: number;
  head: number;
}

export function HeadName({ layer, head }: HeadPlace): string {
  return `Layer ${layer}, head ${head}`;
}

// What heads do, each a mean over the queries but the first: the service's column, its name, what it says, and
// the unit of what is no share of weights.
const kScores: (readonly [column: string, name: string, says: string, unit?: string])[] = [
  [
    "previous",
    "previous token",
    "The weight on the token just before the query: near 1, the head brings each token what stands before it.",
  ],
  [
    "first",
    "first token",
    "The weight on the first token of the text: near 1, the head rests there because it finds nothing to look for.",
  ],
  [
    "self",
    "itself",
    "The weight on the query itself: near 1, the head looks at nothing but the token that asks.",
  ],
  [
    "duplicate",
    "same token before",
    "The weight on earlier places of the query's own token: near 1, the head finds where the same token stood before.",
  ],
  [
    "induction",
    "induction",
    "The weight on tokens that came right after an earlier place of the query's token: near 1, the head foresees that what followed then follows again.",
  ],
  [
    "entropy",
    "entropy",
    "How spread the weights are: 0 where one token gets all of them, ln n where n tokens get the same.",
    " nats",
  ],
  [
    "distance",
    "distance",
    "How many tokens lie between the query and what it looks at, by weight.",
    " tokens",
  ],
];
const kOrders = [
  ["", "by layer"] as const,
  ...kScores.map(([column, name]) => [column, name] as const),
];
const kGap = 2;
const kLayerRoom = 26;

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
  const [holder, room] = useWidth<HTMLDivElement>();
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
  const left = order ? 0 : kLayerRoom;
  const across = Math.max(order ? Math.max(4, Math.min(H, 8)) : H, 1);
  const tile = Math.max(18, Math.min(64, Math.floor((room - left) / across) - kGap));
  const step = tile + kGap;
  const size = {
    width: room > 0 ? left + across * step : 0,
    height: Math.ceil(heads.length / across) * step,
  };
  const same = (a: HeadPlace | null, b: HeadPlace) => a?.layer === b.layer && a.head === b.head;
  const canvas = useDrawing(
    size,
    (context, css) => {
      if (!thumbs) return;
      const ramp = RampPixels(theme.value);
      const colours = Array.from(
        { length: 256 },
        (_, code) => ramp[Math.round(Scaled((code / 255) ** 2, props.scale) * 255)] as number,
      );
      context.imageSmoothingEnabled = s > tile * (devicePixelRatio || 1);
      heads.forEach((head, i) => {
        const begin = (head.layer * H + head.head) * s * s;
        const codes = thumbs.data.subarray(begin, begin + s * s);
        const image = PixelImage(
          Uint32Array.from(codes, (code) => colours[code] as number),
          s,
        );
        const [x, y] = [left + (i % across) * step + 1, Math.floor(i / across) * step + 1];
        context.drawImage(image, x, y, tile, tile);
        const here = same(chosen, head);
        context.lineWidth = here ? 2 : 1;
        context.strokeStyle = css(
          here ? "--accent" : same(pointed, head) ? "--line-strong" : "--line",
        );
        context.strokeRect(x - 0.5, y - 0.5, tile + 1, tile + 1);
      });
      if (order) return;
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillStyle = css("--faint");
      for (let l = 0; l < L; ++l) context.fillText(`L${l}`, 0, l * step + tile / 2 + 1);
    },
    [thumbs, heads, chosen.layer, chosen.head, props.scale, pointed],
  );
  const headAt = (event: MouseEvent): HeadPlace | null => {
    const column = Math.floor((event.offsetX - left) / step);
    const at = Math.floor(event.offsetY / step) * across + column;
    return column >= 0 && column < across ? (heads[at] ?? null) : null;
  };
  const pick = (head: HeadPlace | null | undefined) => head && props.onPick(head);
  const keys = (event: KeyboardEvent) => {
    const by = ArrowOf(event);
    const at = heads.findIndex((head) => same(chosen, head));
    if (by) pick(heads[at + by[0] * across + by[1]]);
  };
  const told = pointed ?? chosen;
  return (
    <section class="panel head-grid" aria-label="Heads">
      <div class="panel-head">
        <h2>Heads</h2>
        <span class="grow" />
        <Pick name="Sort" value={order} options={kOrders} onPick={(o) => SetParams({ o })} />
      </div>
      <div ref={holder} class="head-tiles">
        <canvas
          ref={canvas}
          id="heads"
          tabIndex={0}
          role="img"
          aria-roledescription="grid of heads"
          aria-label={HeadName(told)}
          onMouseMove={(event) => setPointed(headAt(event))}
          onMouseLeave={() => setPointed(null)}
          onClick={(event) => pick(headAt(event))}
          onKeyDown={keys}
        />
      </div>
      <h3>{HeadName(told)}</h3>
      <ul class="head-scores">
        {kScores.map(([column, name, says, unit]) => {
          const score = scoreOf(told, column);
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

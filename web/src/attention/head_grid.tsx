import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Numbers } from "../api/numbers";
import { RampPixels } from "../colour";
import { Digits } from "../format";
import { Pick } from "../parts/controls";
import { Param, SetParams } from "../state/route";
import { theme } from "../state/theme";
import { text } from "../text";
import { Scaled, type Scale } from "./weights";

export interface HeadPlace {
  layer: number;
  head: number;
}

type Column = keyof typeof text.attn.columns;
const kOrders = [["", text.attn.by_layer], ...Object.entries(text.attn.columns)] as [
  string,
  string,
][];
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
  const words = text.attn;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<HeadPlace | null>(null);
  const [room, setRoom] = useState(0);
  useEffect(() => {
    const holder = canvas.current?.parentElement;
    if (!holder) return;
    const observer = new ResizeObserver(([entry]) => entry && setRoom(entry.contentRect.width));
    observer.observe(holder);
    return () => observer.disconnect();
  }, []);
  const { thumbs, scores } = props;
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
  const across = order ? Math.max(4, Math.min(H, 8)) : H;
  const tile = Math.max(18, Math.min(64, Math.floor((room - left) / Math.max(across, 1)) - kGap));
  const width = left + across * (tile + kGap);
  const height = Math.ceil(heads.length / Math.max(across, 1)) * (tile + kGap);
  const spot = (i: number) => ({
    x: left + (i % across) * (tile + kGap) + 1,
    y: Math.floor(i / across) * (tile + kGap) + 1,
  });
  const same = (a: HeadPlace | null, b: HeadPlace) =>
    a !== null && a.layer === b.layer && a.head === b.head;
  const seen = theme.value;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || !thumbs || room === 0) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    element.style.width = `${width}px`;
    element.style.height = `${height}px`;
    context.scale(scale, scale);
    const style = getComputedStyle(element);
    const ramp = RampPixels(seen);
    const colours = Array.from(
      { length: 256 },
      (_, code) => ramp[Math.round(Scaled((code / 255) ** 2, props.scale) * 255)] as number,
    );
    const buffer = document.createElement("canvas");
    buffer.width = buffer.height = s;
    const draw = buffer.getContext("2d");
    context.imageSmoothingEnabled = s > tile * scale;
    heads.forEach((head, i) => {
      const image = new ImageData(s, s);
      const pixels = new Uint32Array(image.data.buffer);
      const begin = (head.layer * H + head.head) * s * s;
      for (let c = 0; c < s * s; ++c)
        pixels[c] = colours[thumbs.data[begin + c] as number] as number;
      draw?.putImageData(image, 0, 0);
      const { x, y } = spot(i);
      context.drawImage(buffer, x, y, tile, tile);
      const chosen = same(props.chosen, head);
      context.lineWidth = chosen ? 2 : 1;
      context.strokeStyle = style.getPropertyValue(
        chosen ? "--accent" : same(pointed, head) ? "--line-strong" : "--line",
      );
      context.strokeRect(x - 0.5, y - 0.5, tile + 1, tile + 1);
    });
    if (!order) {
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillStyle = style.getPropertyValue("--faint");
      for (let l = 0; l < L; ++l) context.fillText(`L${l}`, 0, l * (tile + kGap) + tile / 2 + 1);
    }
  }, [thumbs, heads, props.chosen.layer, props.chosen.head, props.scale, pointed, room, seen]);
  const headAt = (event: MouseEvent): HeadPlace | null => {
    const column = Math.floor((event.offsetX - left) / (tile + kGap));
    const at = Math.floor(event.offsetY / (tile + kGap)) * across + column;
    return column >= 0 && column < across ? (heads[at] ?? null) : null;
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = heads[heads.findIndex((head) => same(props.chosen, head)) + by];
    if (next) props.onPick(next);
  };
  const told = pointed ?? props.chosen;
  return (
    <section class="panel head-grid" aria-label={words.heads}>
      <div class="panel-head">
        <h2>{words.heads}</h2>
        <span class="grow" />
        <Pick
          label={words.sort}
          value={order}
          options={kOrders}
          onPick={(value) => SetParams({ o: value })}
        />
      </div>
      <div class="head-tiles">
        <canvas
          ref={canvas}
          id="heads"
          tabIndex={0}
          role="img"
          aria-roledescription={words.grid_kind}
          aria-label={words.head(told.layer, told.head)}
          onMouseMove={(event) => setPointed(headAt(event))}
          onMouseLeave={() => setPointed(null)}
          onClick={(event) => {
            const head = headAt(event);
            if (head) props.onPick(head);
          }}
          onKeyDown={keys}
        />
      </div>
      <h3>{words.head(told.layer, told.head)}</h3>
      <ul class="head-scores">
        {(Object.keys(words.columns) as Column[]).map((column) => {
          const score = scoreOf(told, column);
          const share = column in words.units ? null : score || 0; // of weights
          return (
            <li key={column} class={column === order ? "is-order" : ""}>
              <details>
                <summary title={words.explain[column]}>
                  <span>{words.columns[column]}</span>
                  {share === null ? (
                    <span />
                  ) : (
                    <span class="bar-track">
                      <i class="bar-after" style={{ width: `${share * 100}%` }} />
                    </span>
                  )}
                  <span class="bar-number strong">
                    {Digits(score, 3)}
                    {words.units[column] ?? ""}
                  </span>
                </summary>
                <p class="note">{words.explain[column]}</p>
              </details>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

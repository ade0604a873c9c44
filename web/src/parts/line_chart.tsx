import { useEffect, useRef, useState } from "preact/hooks";
import { Digits, Whole } from "../format";

export interface Line {
  name: string;
  colour: string;
  ys: ArrayLike<number>;
}

const kRoom = { left: 40, right: 8, top: 8, bottom: 20 };

// The y of a chart's ticks, below, amid and above; whole numbers of `low` to `high` where y is one.
export function Ticks(low: number, high: number, log: boolean, whole: boolean): number[] {
  const ends = [low, (low + high) / 2, high].map((value) => (log ? 10 ** value : value));
  if (!whole) return ends;
  const scaled = (value: number) => (log ? Math.log10(value) : value);
  return [...new Set(ends.map(Math.round))].filter(
    (value) => scaled(value) >= low - 1e-9 && scaled(value) <= high + 1e-9,
  );
}

// A small chart of a few lines over 0, 1, 2, …; with `log` their y must be above 0.
export function LineChart(props: {
  label: string;
  lines: Line[];
  height?: number;
  log?: boolean;
  whole?: boolean; // y counts
  downward?: boolean; // small values on top, as of ranks
  ticks?: (x: number) => string;
  mark?: number | null;
}) {
  const holder = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(300);
  useEffect(() => {
    if (!holder.current) return;
    const observer = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(entry.contentRect.width, 120)),
    );
    observer.observe(holder.current);
    return () => observer.disconnect();
  }, []);
  const height = props.height ?? 140;
  const n = Math.max(...props.lines.map(({ ys }) => ys.length), 2);
  const scale = (y: number) => (props.log ? Math.log10(y) : y);
  let [low, high] = [Infinity, -Infinity];
  for (const { ys } of props.lines) {
    for (let i = 0; i < ys.length; ++i) {
      const y = scale(ys[i] as number);
      if (!Number.isFinite(y)) continue;
      low = Math.min(low, y);
      high = Math.max(high, y);
    }
  }
  if (!(high > low)) [low, high] = [low - 0.5 || 0, low + 0.5 || 1];
  const x = (i: number) => kRoom.left + (i / (n - 1)) * (width - kRoom.left - kRoom.right);
  const y = (value: number) => {
    const t = (scale(value) - low) / (high - low);
    return kRoom.top + (props.downward ? t : 1 - t) * (height - kRoom.top - kRoom.bottom);
  };
  const rows = Ticks(low, high, props.log ?? false, props.whole ?? false);
  const ticks = props.ticks ?? String;
  const every = Math.max(1, Math.ceil(n / 6));
  return (
    <div ref={holder} class="line-chart">
      <svg
        width={width}
        height={height}
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={props.label}
      >
        {rows.map((value, i) => (
          <g key={i}>
            <line
              x1={kRoom.left}
              x2={width - kRoom.right}
              y1={y(value)}
              y2={y(value)}
              class="grid-line"
            />
            <text x={kRoom.left - 6} y={y(value) + 3.5} text-anchor="end">
              {props.whole ? Whole(value) : Digits(value, 3)}
            </text>
          </g>
        ))}
        {Array.from({ length: n }, (_, i) => i)
          .filter((i) => i % every === 0)
          .map((i) => (
            <text key={i} x={x(i)} y={height - 4} text-anchor="middle">
              {ticks(i)}
            </text>
          ))}
        {props.mark !== null && props.mark !== undefined && (
          <line
            x1={x(props.mark)}
            x2={x(props.mark)}
            y1={kRoom.top}
            y2={height - kRoom.bottom}
            class="mark-line"
          />
        )}
        {props.lines.map(({ name, colour, ys }) => (
          <polyline
            key={name}
            fill="none"
            stroke={colour}
            stroke-width="1.75"
            stroke-linejoin="round"
            points={Array.from(
              { length: ys.length },
              (_, i) => `${x(i).toFixed(1)},${y(ys[i] as number).toFixed(1)}`,
            ).join(" ")}
          />
        ))}
      </svg>
    </div>
  );
}

// Counts as bars between two ends.
export function Histogram(props: { label: string; counts: number[]; from: number; to: number }) {
  const most = Math.max(...props.counts, 1);
  const width = 100 / props.counts.length;
  return (
    <figure class="histogram">
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={props.label}>
        {props.counts.map((count, i) => (
          <rect
            key={i}
            x={i * width + 0.2}
            width={width - 0.4}
            y={40 - (count / most) * 40}
            height={(count / most) * 40}
          />
        ))}
      </svg>
      <figcaption class="row small faint">
        <span>{Digits(props.from, 3)}</span>
        <span class="grow" />
        <span>{Digits(props.to, 3)}</span>
      </figcaption>
    </figure>
  );
}

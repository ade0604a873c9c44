import type { ComponentChildren } from "preact";
import { Digits, Ticks, Whole, type Scale } from "../format";
import { useWidth } from "./canvas";

export interface Line {
  name: string;
  colour: string;
  dash?: number[];
  ys: ArrayLike<number | null | undefined>;
}

interface Axis {
  at: (value: number) => number; // in pixels
  ticks: number[];
}

// The axis of some values between two places.
function AxisOf(
  values: Iterable<number>,
  scale: Scale,
  parts: number,
  from: number,
  to: number,
): Axis {
  const scaled = (value: number) => (scale.log ? Math.log10(value) : value);
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    const y = scaled(value);
    if (Number.isFinite(y)) [low, high] = [Math.min(low, y), Math.max(high, y)];
  }
  if (!(high > low)) [low, high] = Number.isFinite(low) ? [low - 0.5, low + 0.5] : [0, 1];
  return {
    at: (value) => from + ((scaled(value) - low) / (high - low)) * (to - from),
    ticks: Ticks(low, high, scale, parts),
  };
}

interface FigureProps {
  label: string;
  width: number;
  height: number;
  room: { left: number; right: number; top: number; bottom: number };
  xs: ArrayLike<number>;
  lines: Line[];
  x: Scale & { say: (value: number) => string };
  y: Scale & { say: (value: number) => string; parts: number; downward?: boolean };
  mark?: number; // an x
  children?: ComponentChildren; // behind the lines
}

const kXParts = 5;

// Lines over the same x, as an <svg>; what a page says of its looks comes before what is said here.
export function Figure({ width, height, room, xs, lines, ...props }: FigureProps) {
  const [top, bottom] = [room.top, height - room.bottom];
  const x = AxisOf(Array.from(xs), props.x, kXParts, room.left, width - room.right);
  const drawn = lines.map(({ ys }) =>
    Array.from(xs, (at, i) => [at, ys[i] ?? NaN] as const).filter(([, value]) =>
      Number.isFinite(value),
    ),
  );
  const values = drawn.flat().map(([, value]) => value);
  const { downward } = props.y;
  const y = AxisOf(
    values,
    props.y,
    props.y.parts,
    downward ? top : bottom,
    downward ? bottom : top,
  );
  return (
    <svg
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={props.label}
    >
      {props.children}
      {y.ticks.map((value) => (
        <g key={value}>
          <path
            d={`M${room.left} ${y.at(value)}H${width - room.right}`}
            stroke="#ddd"
            class="grid-line"
          />
          <text x={room.left - 6} y={y.at(value) + 3.5} text-anchor="end">
            {props.y.say(value)}
          </text>
        </g>
      ))}
      {x.ticks.map((value) => (
        <text key={value} x={x.at(value)} y={bottom + 16} text-anchor="middle">
          {props.x.say(value)}
        </text>
      ))}
      {props.mark !== undefined && (
        <path d={`M${x.at(props.mark)} ${top}V${bottom}`} class="mark-line" />
      )}
      {lines.map(({ name, colour, dash }, i) => {
        const points = (drawn[i] ?? []).map(([at, value]) => [
          x.at(at).toFixed(1),
          y.at(value).toFixed(1),
        ]);
        const [lone] = points;
        return lone && points.length === 1 ? (
          <circle key={name} cx={lone[0]} cy={lone[1]} r="3" fill={colour} />
        ) : (
          <polyline
            key={name}
            fill="none"
            stroke={colour}
            stroke-width="1.75"
            stroke-linejoin="round"
            stroke-dasharray={dash?.join(" ")}
            points={points.join(" ")}
          >
            <title>{name}</title>
          </polyline>
        );
      })}
    </svg>
  );
}

// A small chart of a few lines over 0, 1, 2, …; with `log` their y must be above 0.
export function LineChart(props: {
  label: string;
  lines: Line[];
  height?: number;
  y?: Scale & { downward?: boolean }; // small values on top, as of ranks
  say?: (x: number) => string;
  mark?: number;
}) {
  const [holder, width] = useWidth<HTMLDivElement>();
  const n = Math.max(...props.lines.map(({ ys }) => ys.length), 2);
  return (
    <div ref={holder} class="line-chart">
      <Figure
        label={props.label}
        width={Math.max(width, 120)}
        height={props.height ?? 140}
        room={{ left: 40, right: 8, top: 8, bottom: 20 }}
        xs={Array.from({ length: n }, (_, i) => i)}
        lines={props.lines}
        x={{ whole: true, say: props.say ?? String }}
        y={{ ...props.y, parts: 2, say: props.y?.whole ? Whole : (value) => Digits(value, 3) }}
        mark={props.mark}
      />
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

import uPlot from "uplot";
import { Duration, Short, Whole } from "../format";

export const kAxes = [
  ["step", "step"],
  ["tokens", "tokens"],
  ["seconds", "training time"],
  ["time", "clock"],
] as const;
export type Axis = (typeof kAxes)[number][0];

// One key of one run; `low` and `high` are the least and the largest of what a point stands for.
export interface Curve {
  x: number[];
  y: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  raw: boolean; // each point is one measurement
}

// A mean of what lies behind each point, whose weight falls to 1/e over `span` of x. Each value
// counts as much as the x that it stands for, so that points may lie close or far apart; divided by
// the weights' sum, as Adam's averages are, the mean begins at the first value and not at 0.
export function Smoothed({ x, y }: Curve, span: number): (number | null)[] {
  if (!(span > 0)) return y;
  const [first = 0, second = first + span] = x;
  let [sum, weight, last] = [0, 0, 2 * first - second];
  return y.map((value, i) => {
    const kept = Math.exp((last - (x[i] as number)) / span);
    last = x[i] as number;
    [sum, weight] = [sum * kept, weight * kept];
    if (value === null) return null;
    sum += (1 - kept) * value;
    weight += 1 - kept;
    return weight > 0 ? sum / weight : value;
  });
}

export interface ChartRun {
  id: string;
  colour: string;
  print: string; // its colour on white
  dash: number[];
  curve: Curve;
  beside?: Curve; // drawn with points, as of evaluations
  span: number; // of x that `curve` is smoothed over; 0 for none
}

export interface ChartView {
  axis: Axis;
  from_zero: boolean;
  log_x: boolean;
  log_y: boolean;
}

// Steps and tokens are counts: they have no parts.
export function IsCount(axis: Axis): boolean {
  return axis === "step" || axis === "tokens";
}

// The place of a point, with all its digits.
export function PlaceText(axis: Axis, from_zero: boolean): (value: number) => string {
  return IsCount(axis) ? Whole : AxisText(axis, from_zero);
}

// The range of an axis whose values are one alone, which has no width of its own.
export function RangeOfOne(value: number, count: boolean): [low: number, high: number] {
  if (count) return [Math.max(value - 1, 0), value + 1];
  const room = Math.abs(value) / 10 || 1;
  return [value - room, value + room];
}

export function AxisText(axis: Axis, from_zero: boolean): (value: number) => string {
  if (axis === "seconds" || (axis === "time" && from_zero)) return Duration;
  if (axis === "time")
    return (value) =>
      new Date(value * 1000).toLocaleString("en-GB", {
        month: "short",
        day: "numeric",
        hour: "2-digit",
        minute: "2-digit",
      });
  return Short;
}

// `drawn` is smoothed where that is asked for, and `measured` lies behind it then.
const kParts = ["low", "high", "measured", "drawn", "beside"] as const;

// The place of a run's part among the columns; the first of all is x.
export function Column(run: number, part: (typeof kParts)[number]): number {
  return 1 + kParts.length * run + kParts.indexOf(part);
}

export function Aligned(shown: ChartRun[], view: ChartView): uPlot.AlignedData {
  const tables = shown.flatMap(({ curve, beside, span }) => {
    const begin = view.from_zero ? (curve.x[0] ?? 0) : 0;
    const table = (x: number[], ...columns: (number | null)[][]) => {
      const shifted = x.map((at) => at - begin);
      const keep = (_: unknown, i: number) => !view.log_x || (shifted[i] as number) > 0;
      return [shifted, ...columns].map((column) => column.filter(keep)) as uPlot.AlignedData;
    };
    const none = curve.x.map(() => null);
    const [low, high] = curve.raw ? [none, none] : [curve.low, curve.high];
    const measured = span > 0 ? curve.y : none;
    return [
      table(curve.x, low, high, measured, Smoothed(curve, span)),
      table(beside?.x ?? [], beside?.y ?? []),
    ];
  });
  return tables.length > 0 ? uPlot.join(tables) : [[]];
}

import uPlot from "uplot";
import { Duration, Short } from "../format";
import { Smoothed, type Curve } from "./curve";
import type { Axis } from "./series";

// A chart shows runs alike on the screen and as it is saved.
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
  const tables: uPlot.AlignedData[] = [];
  for (const { curve, beside, span } of shown) {
    const begin = view.from_zero ? (curve.x[0] ?? 0) : 0;
    const keep = (x: number) => !view.log_x || x - begin > 0;
    const pick = <T,>(values: T[], xs: number[]) => values.filter((_, i) => keep(xs[i] as number));
    const none = curve.x.map(() => null);
    const shift = (xs: number[]) => xs.filter(keep).map((x) => x - begin);
    const columns = [
      curve.raw ? none : curve.low,
      curve.raw ? none : curve.high,
      span > 0 ? curve.y : none,
      Smoothed(curve, span),
    ];
    const bare = beside ?? { x: [], y: [] };
    tables.push([
      shift(curve.x),
      ...columns.map((column) => pick(column, curve.x)),
    ] as uPlot.AlignedData);
    tables.push([shift(bare.x), pick(bare.y, bare.x)] as uPlot.AlignedData);
  }
  return tables.length > 0 ? uPlot.join(tables) : [[]];
}

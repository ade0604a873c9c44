import type uPlot from "uplot";
import { Digits } from "../format";
import { Csv, EscapeXml, SaveCanvas, SaveFile } from "../save";
import { AxisText, Column, IsCount, type ChartRun, type ChartView } from "./chart_data";
import type { Curves } from "./series";

const kSize = { width: 760, height: 400, left: 64, right: 48, top: 40, bottom: 48 };
const kTicks = 5;

// The chart as a figure, light in any theme: a polyline for each run's curve.
export function ChartSvg(
  title: string,
  runs: ChartRun[],
  data: uPlot.AlignedData,
  view: ChartView,
): string {
  const [xs] = data;
  const lines = runs.map((_, i) => data[Column(i, "drawn")] ?? []);
  const flat = lines
    .flatMap((line) => [...line])
    .filter((y): y is number => typeof y === "number" && Number.isFinite(y));
  const axis = (
    low: number,
    high: number,
    { log, whole }: { log: boolean; whole: boolean },
    from: number,
    to: number,
  ) => {
    const scale = (value: number) => (log ? Math.log10(value) : value);
    const span = scale(high) - scale(low) || 1;
    return {
      at: (value: number) => from + ((scale(value) - scale(low)) / span) * (to - from),
      ticks: [
        ...new Set(
          Array.from({ length: kTicks + 1 }, (_, i) => {
            const t = scale(low) + (i / kTicks) * span;
            const value = log ? 10 ** t : t;
            return whole ? Math.round(value) : value;
          }),
        ),
      ],
    };
  };
  const fold = (values: ArrayLike<number>, pick: (a: number, b: number) => number, none: number) =>
    Array.from(values).reduce((all, one) => pick(all, one), none); // it gives more than two
  const x = axis(
    fold(xs, Math.min, Infinity),
    fold(xs, Math.max, -Infinity),
    { log: view.log_x, whole: IsCount(view.axis) },
    kSize.left,
    kSize.width - kSize.right,
  );
  const y = axis(
    fold(flat, Math.min, Infinity),
    fold(flat, Math.max, -Infinity),
    { log: view.log_y, whole: false },
    kSize.height - kSize.bottom,
    kSize.top,
  );
  const say = AxisText(view.axis, view.from_zero);
  const paths = runs.map((run, i) => {
    const points: string[] = [];
    for (let at = 0; at < xs.length; ++at) {
      const value = lines[i]?.[at];
      if (typeof value === "number" && Number.isFinite(value))
        points.push(`${x.at(xs[at] as number).toFixed(1)},${y.at(value).toFixed(1)}`);
    }
    const [lone, second] = points;
    return (
      (lone && !second
        ? `<circle cx="${lone.split(",")[0]}" cy="${lone.split(",")[1]}" r="3" fill="${run.print}"/>`
        : "") +
      `<polyline fill="none" stroke="${run.print}" stroke-width="1.5" ` +
      `stroke-dasharray="${run.dash.join(" ")}" points="${points.join(" ")}"><title>${EscapeXml(run.id)}</title></polyline>` +
      `<text x="${kSize.left + 150 * i}" y="28" fill="${run.print}">${EscapeXml(run.id)}</text>`
    );
  });
  const grid = [
    ...y.ticks.map(
      (value) =>
        `<path d="M${kSize.left} ${y.at(value)}H${kSize.width - kSize.right}" stroke="#ddd"/>` +
        `<text x="${kSize.left - 8}" y="${y.at(value) + 4}" text-anchor="end">${Digits(value, 3)}</text>`,
    ),
    ...x.ticks.map(
      (value) =>
        `<text x="${x.at(value)}" y="${kSize.height - kSize.bottom + 18}" text-anchor="middle">${EscapeXml(say(value))}</text>`,
    ),
    `<text x="${(kSize.left + kSize.width) / 2}" y="${kSize.height - 8}" text-anchor="middle">${view.axis}</text>`,
  ];
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${kSize.width} ${kSize.height}" font-family="sans-serif" font-size="12">` +
    `<rect width="100%" height="100%" fill="#fff"/><text x="${kSize.left}" y="12" font-weight="bold">${EscapeXml(title)}</text>${grid.join("")}${paths.join("")}</svg>`
  );
}

export function SaveChart(
  title: string,
  runs: ChartRun[],
  data: uPlot.AlignedData,
  view: ChartView,
  canvas?: HTMLCanvasElement,
): void {
  const name = title.replace(/\W+/g, "-").toLowerCase();
  if (canvas) SaveCanvas(`${name}.png`, canvas);
  else SaveFile(`${name}.svg`, [ChartSvg(title, runs, data, view)], "image/svg+xml");
}

export function SaveCurves(curves: Curves, axis: string): void {
  const rows: (string | number | null)[][] = [["run", "key", axis, "mean", "min", "max"]];
  for (const [run, keys] of curves) {
    for (const [key, curve] of Object.entries(keys)) {
      curve.x.forEach((x, i) =>
        rows.push([run, key, x, curve.y[i] ?? null, curve.low[i] ?? null, curve.high[i] ?? null]),
      );
    }
  }
  SaveFile("runs.csv", [Csv(rows)], "text/csv");
}

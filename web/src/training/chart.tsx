import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { Digits, Duration, Short } from "../format";
import { Say } from "../parts/live";
import { theme } from "../state/theme";
import { text } from "../text";
import { Smoothed, type Curve } from "./curve";
import { SaveChart } from "./save_chart";
import type { Axis, Range } from "./series";

const words = text.training;
const kHeight = 210;
const kMostRows = 200; // of the table
const kSync = uPlot.sync("folio");

export interface ChartRun {
  id: string;
  colour: string;
  print: string; // its colour on white
  dash: number[];
  curve: Curve;
  beside?: Curve; // drawn with points, as of evaluations
  per_step: number; // of x
}

export interface ChartView {
  axis: Axis;
  from_zero: boolean;
  log_x: boolean;
  log_y: boolean;
  smoothing: number; // steps
}

function Alpha(colour: string, percent: number): string {
  return `color-mix(in srgb, ${colour} ${percent}%, transparent)`;
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

// For each run: least, largest, as measured, smoothed, beside.
const kPerRun = 5;

function Aligned(shown: ChartRun[], view: ChartView): uPlot.AlignedData {
  const tables: uPlot.AlignedData[] = [];
  for (const { curve, beside, per_step } of shown) {
    const begin = view.from_zero ? (curve.x[0] ?? 0) : 0;
    const keep = (x: number) => !view.log_x || x - begin > 0;
    const pick = <T,>(values: T[], xs: number[]) => values.filter((_, i) => keep(xs[i] as number));
    const none = curve.x.map(() => null);
    const shift = (xs: number[]) => xs.filter(keep).map((x) => x - begin);
    const columns = [
      curve.raw ? none : curve.low,
      curve.raw ? none : curve.high,
      view.smoothing > 0 ? curve.y : none,
      Smoothed(curve, view.smoothing * per_step),
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

function Options(
  shown: ChartRun[],
  view: ChartView,
  width: number,
  style: CSSStyleDeclaration,
  on: {
    zoom: (range: Range | null) => void;
    point: (index: number | null) => void;
    marks: () => number[];
  },
): uPlot.Options {
  const [ink, line] = [style.getPropertyValue("--faint"), style.getPropertyValue("--line")];
  const font = "11px system-ui, sans-serif";
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1, size: 4 },
    font,
  };
  const say = AxisText(view.axis, view.from_zero);
  const series = shown.flatMap(({ colour, dash, beside }): uPlot.Series[] => {
    const quiet = { points: { show: false }, spanGaps: true };
    return [
      { ...quiet, stroke: "transparent", width: 0 },
      { ...quiet, stroke: "transparent", width: 0 },
      { ...quiet, stroke: Alpha(colour, 28), width: 1 },
      { ...quiet, stroke: colour, width: 1.75, dash },
      {
        stroke: colour,
        width: 1.25,
        dash: [3, 3],
        spanGaps: true,
        points: { show: beside !== undefined, size: 5, fill: colour, stroke: colour },
      },
    ];
  });
  return {
    width,
    height: kHeight,
    legend: { show: false },
    padding: [10, 16, 0, 0],
    cursor: {
      sync: { key: kSync.key, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      points: { size: 7, width: 2 },
    },
    scales: { x: { time: false, distr: view.log_x ? 3 : 1 }, y: { distr: view.log_y ? 3 : 1 } },
    axes: [
      {
        ...axis,
        values: (_, splits) => splits.map((value) => (value === null ? "" : say(value))),
        size: 30,
        space: view.axis === "time" ? 110 : 64,
      },
      {
        ...axis,
        values: (_, splits) => splits.map((value) => (value === null ? "" : Short(value))),
        size: 52,
      },
    ],
    series: [{}, ...series],
    bands: shown.map(({ colour }, i) => ({
      series: [2 + kPerRun * i, 1 + kPerRun * i] as [number, number],
      fill: Alpha(colour, 18),
    })),
    hooks: {
      setCursor: [(plot) => on.point(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const [from, to] = [
            plot.posToVal(plot.select.left, "x"),
            plot.posToVal(plot.select.left + plot.select.width, "x"),
          ];
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          on.zoom({ from, to });
        },
      ],
      draw: [
        (plot) => {
          const { ctx, bbox } = plot;
          ctx.save();
          ctx.fillStyle = style.getPropertyValue("--warn");
          for (const x of on.marks()) {
            const at = plot.valToPos(x, "x", true);
            if (at >= bbox.left && at <= bbox.left + bbox.width)
              ctx.fillRect(
                at - 1,
                bbox.top + bbox.height - 8 * devicePixelRatio,
                2,
                8 * devicePixelRatio,
              );
          }
          ctx.restore();
        },
      ],
    },
  };
}

export function Chart(props: {
  title: string;
  runs: ChartRun[];
  view: ChartView;
  marks: number[];
  zoomed: boolean;
  onZoom: (range: Range | null) => void;
}) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const held = useRef(props);
  held.current = props;
  const [at, setAt] = useState<number | null>(null);
  const [table, setTable] = useState(false);
  const data = useMemo(() => Aligned(props.runs, props.view), [props.runs, props.view]);
  const shape = [
    props.runs.map(({ id, colour, beside }) => `${id}${colour}${beside ? "+" : ""}`).join(),
    JSON.stringify(props.view),
    theme.value,
  ].join("|");
  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const made = new uPlot(
      Options(props.runs, props.view, element.clientWidth || 300, getComputedStyle(element), {
        zoom: (range) => held.current.onZoom(range),
        point: setAt,
        marks: () => held.current.marks,
      }),
      data,
      element,
    );
    plot.current = made;
    const back = () => held.current.onZoom(null);
    made.over.addEventListener("dblclick", back);
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: kHeight }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [data]);
  useEffect(() => plot.current?.redraw(), [props.marks.join()]);
  const say = AxisText(props.view.axis, props.view.from_zero);
  const xs = data[0];
  const here = at ?? xs.length - 1;
  const valueAt = (column: number) => {
    const values = data[column];
    for (let i = Math.min(here, xs.length - 1); values && i >= 0; --i)
      if (values[i] !== null && values[i] !== undefined) return values[i] as number;
    return null;
  };
  const readout = props.runs.map((run, i) => ({
    run,
    value: valueAt(4 + kPerRun * i),
    beside: valueAt(5 + kPerRun * i),
  }));
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    const chart = plot.current;
    if (event.key === "Escape") props.onZoom(null);
    if (by === undefined || !chart || xs.length === 0) return;
    event.preventDefault();
    const next = Math.min(Math.max(here + by, 0), xs.length - 1);
    chart.setCursor({ left: chart.valToPos(xs[next] as number, "x"), top: kHeight / 3 });
    Say(
      [
        `${words.axes[props.view.axis]} ${say(xs[next] as number)}`,
        ...props.runs.map((run, i) => `${run.id} ${Digits(data[4 + kPerRun * i]?.[next] ?? null)}`),
      ].join(", "),
    );
  };
  return (
    <section class="panel chart" aria-label={props.title}>
      <div class="panel-head">
        <h2>{props.title}</h2>
        <span class="grow" />
        <span class="chart-buttons">
          {props.zoomed && (
            <button class="small plain" onClick={() => props.onZoom(null)}>
              {words.unzoom}
            </button>
          )}
          <button class="small plain" aria-pressed={table} onClick={() => setTable(!table)}>
            {words.table}
          </button>
          <button
            class="small plain"
            onClick={() => SaveChart(props.title, props.runs, data, kPerRun, props.view)}
          >
            {words.save_svg}
          </button>
          <button
            class="small plain"
            onClick={() =>
              plot.current &&
              SaveChart(props.title, props.runs, data, kPerRun, props.view, plot.current.ctx.canvas)
            }
          >
            {words.save_png}
          </button>
        </span>
      </div>
      <p class="readout small">
        {xs.length > 0 && (
          <span class="faint">
            {words.axes[props.view.axis]} {say(xs[Math.min(here, xs.length - 1)] as number)}
          </span>
        )}
        {readout.map(({ run, value, beside }) => (
          <span key={run.id} class="key-entry">
            <i style={{ backgroundColor: run.colour }} />
            {Digits(value)}
            {run.beside && beside !== null && (
              <span class="faint">
                {words.held_out} {Digits(beside)}
              </span>
            )}
          </span>
        ))}
      </p>
      <div
        ref={holder}
        class="plot"
        tabIndex={0}
        role="group"
        aria-roledescription={words.chart_kind}
        aria-label={words.chart_label(props.title)}
        onKeyDown={keys}
      />
      {table && (
        <div class="token-table" tabIndex={0} role="region" aria-label={words.table}>
          <table>
            <thead>
              <tr>
                <th class="number">{words.axes[props.view.axis]}</th>
                {props.runs.map(({ id }) => (
                  <th key={id} class="number">
                    {id}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {Array.from(
                { length: Math.min(xs.length, kMostRows) },
                (_, i) => xs.length - 1 - i,
              ).map((i) => (
                <tr key={i}>
                  <td class="number">{say(xs[i] as number)}</td>
                  {props.runs.map(({ id }, r) => (
                    <td key={id} class="number">
                      {Digits(data[4 + kPerRun * r]?.[i] ?? null)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

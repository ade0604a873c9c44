import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { RunDetails, RunInfo } from "../api/types";
import { Digits, Tick } from "../format";
import { Failure, ParamCheck, Pick, Slider } from "../parts/controls";
import { Figure } from "../parts/line_chart";
import { KeyEntry, Table } from "../parts/lists";
import { Say } from "../parts/live";
import { Csv, SaveCanvas, SaveFile, SaveSvg } from "../save";
import { Choice, NumberParam, Param, SetParams } from "../state/route";
import { theme } from "../state/theme";
import {
  Aligned,
  AxisText,
  type ChartRun,
  type ChartView,
  Column,
  IsCount,
  kAxes,
  PlaceText,
  RangeOfOne,
} from "./chart_data";
import { type Curves, type Key, kKeys, type Range, RunColour, RunDash, useCurves } from "./runs";

const kHeight = 210;
const kDigits = 4; // of a number that is read off
const kMostRows = 200; // of the table
const kSync = uPlot.sync("folio");

function Alpha(colour: string, percent: number): string {
  return `color-mix(in srgb, ${colour} ${percent}%, transparent)`;
}

const kFont = "11px system-ui, sans-serif";
const kTick = { length: 4, gap: 5 }; // pixels
const kTickRoom = kTick.length + 2 * kTick.gap;
const kLeast = { left: 52, right: 16 }; // pixels beside the plot

const pen = document.createElement("canvas").getContext("2d");

function TextWidth(said: string): number {
  if (!pen) return 0;
  pen.font = kFont;
  return pen.measureText(said).width;
}

// The ways between ticks of what is counted.
const kWholeTicks = Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

// Returns whether a line would be too short to be seen.
function IsLone(values: ArrayLike<unknown> = []): boolean {
  return Array.from(values).filter((value) => typeof value === "number").length === 1;
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
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1, size: kTick.length },
    gap: kTick.gap,
    font: kFont,
  };
  const counts = IsCount(view.axis);
  const tick = counts ? Tick : AxisText(view.axis, view.from_zero);
  const series = shown.flatMap(({ colour, dash, beside }): uPlot.Series[] => {
    // Not at whole pixels, which would make stairs of a line that falls slowly.
    const quiet = { points: { show: false }, spanGaps: true, pxAlign: 0 };
    const points = { size: 5, fill: colour, stroke: colour };
    return [
      { ...quiet, stroke: "transparent", width: 0 },
      { ...quiet, stroke: "transparent", width: 0 },
      { ...quiet, stroke: Alpha(colour, 28), width: 1 },
      {
        ...quiet,
        stroke: colour,
        width: 1.75,
        dash,
        points: { ...points, show: (plot, column) => IsLone(plot.data[column]) },
      },
      {
        ...quiet,
        stroke: colour,
        width: 1.25,
        dash: [3, 3],
        points: { ...points, show: beside !== undefined },
      },
    ];
  });
  return {
    width,
    height: kHeight,
    legend: { show: false },
    padding: [
      10,
      // uPlot asks before it has any data, too.
      ({ data }: { data?: uPlot.AlignedData }) =>
        Math.max(kLeast.right, TextWidth(tick(data?.[0].at(-1) ?? 0)) / 2),
      0,
      0,
    ],
    cursor: {
      sync: { key: kSync.key, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      points: { size: 7, width: 2 },
    },
    scales: {
      x: {
        time: false,
        distr: view.log_x ? 3 : 1,
        ...(view.log_x
          ? {}
          : {
              // uPlot has widened the range of one point already, to a hundred.
              range: ({ data: [xs] }: uPlot, low: number, high: number): [number, number] =>
                xs.length === 1 ? RangeOfOne(xs[0] as number, counts) : [low, high],
            }),
      },
      y: {
        distr: view.log_y ? 3 : 1,
        ...(view.log_y
          ? {}
          : {
              range: (_: uPlot, low: number, high: number): uPlot.Range.MinMax =>
                low === high && low !== null
                  ? RangeOfOne(low, false)
                  : uPlot.rangeNum(low, high, 0.1, true),
            }),
      },
    },
    axes: [
      {
        ...axis,
        values: (_, splits) => splits.map((value) => (value === null ? "" : tick(value))),
        ...(counts ? { incrs: kWholeTicks } : {}),
        size: 30,
        space: view.axis === "time" ? 110 : 64,
      },
      {
        ...axis,
        values: (_, splits) => splits.map(Tick),
        size: (_, said) =>
          Math.max(kLeast.left, ...(said ?? []).map((one) => kTickRoom + TextWidth(one))),
      },
    ],
    series: [{}, ...series],
    bands: shown.map(({ colour }, i) => ({
      series: [Column(i, "high"), Column(i, "low")] as [number, number],
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

const kPrint = { width: 760, height: 400, room: { left: 64, right: 48, top: 40, bottom: 48 } };

// The chart as it is saved: light in any theme.
function PrintedChart(props: {
  title: string;
  axis: string;
  runs: ChartRun[];
  data: uPlot.AlignedData;
  view: ChartView;
}) {
  const { title, axis, runs, data, view } = props;
  const { width, height, room } = kPrint;
  return (
    <svg viewBox={`0 0 ${width} ${height}`} font-family="sans-serif" font-size="12">
      <rect width="100%" height="100%" fill="#fff" />
      <text x={room.left} y="12" font-weight="bold">
        {title}
      </text>
      {runs.map(({ id, print }, i) => (
        <text key={id} x={room.left + 150 * i} y="28" fill={print}>
          {id}
        </text>
      ))}
      <text x={(room.left + width) / 2} y={height - 8} text-anchor="middle">
        {axis}
      </text>
      <Figure
        {...kPrint}
        label={title}
        xs={data[0]}
        x={{ log: view.log_x, whole: IsCount(view.axis), say: AxisText(view.axis, view.from_zero) }}
        y={{ log: view.log_y, parts: 5, say: (value) => Digits(value, 3) }}
        lines={runs.map(({ id, print, dash }, i) => ({
          name: id,
          colour: print,
          dash,
          ys: data[Column(i, "drawn")] ?? [],
        }))}
      />
    </svg>
  );
}

function Chart(props: {
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
  // The marks alone: to ask for x as it is would undo a change of its range that is still to come.
  useEffect(() => plot.current?.redraw(false), [props.marks.join()]);
  const xs = data[0];
  const axis = kAxes.find(([name]) => name === props.view.axis)?.[1] ?? "";
  const saidAt = (i: number) => PlaceText(props.view.axis, props.view.from_zero)(xs[i] as number);
  const here = Math.min(at ?? Infinity, xs.length - 1);
  // The last number at or before the cursor.
  const latest = (column: number): { i: number; value: number } | null => {
    for (let i = here; i >= 0; --i) {
      const value = data[column]?.[i];
      if (typeof value === "number") return { i, value };
    }
    return null;
  };
  const places = props.runs.map((_, i) => latest(Column(i, "drawn")));
  // The place that the numbers are of: evaluations have rows of their own, behind the last step.
  const place = Math.max(...places.map((one) => one?.i ?? -1));
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    const chart = plot.current;
    if (event.key === "Escape") props.onZoom(null);
    if (by === undefined || !chart || xs.length === 0) return;
    event.preventDefault();
    const next = Math.min(Math.max(here + by, 0), xs.length - 1);
    chart.setCursor({ left: chart.valToPos(xs[next] as number, "x"), top: kHeight / 3 });
    const told = props.runs.map(
      ({ id }, i) => `${id} ${Digits(data[Column(i, "drawn")]?.[next] ?? null)}`,
    );
    Say([`${axis} ${saidAt(next)}`, ...told].join(", "));
  };
  const printed = <PrintedChart {...props} axis={axis} data={data} />;
  return (
    <section class="panel chart" aria-label={props.title}>
      <div class="panel-head">
        <h2>{props.title}</h2>
        <span class="grow" />
        <span class="chart-buttons">
          {props.zoomed && (
            <button class="small plain" onClick={() => props.onZoom(null)}>
              Zoom out
            </button>
          )}
          <button class="small plain" aria-pressed={table} onClick={() => setTable(!table)}>
            Table
          </button>
          <button class="small plain" onClick={() => SaveSvg(props.title, printed)}>
            SVG
          </button>
          <button
            class="small plain"
            onClick={() => plot.current && SaveCanvas(props.title, plot.current.ctx.canvas)}
          >
            PNG
          </button>
        </span>
      </div>
      <p class="readout small">
        {place >= 0 && (
          <span class="faint">
            {axis} {saidAt(place)}
          </span>
        )}
        {props.runs.map(({ id, colour, beside }, i) => {
          const held_out = beside ? latest(Column(i, "beside")) : null;
          return (
            <KeyEntry key={id} colour={colour}>
              {Digits(places[i]?.value, kDigits)}
              {held_out !== null && (
                <span class="faint">
                  held out {Digits(held_out.value, kDigits)}
                  {held_out.i !== place && ` at ${axis} ${saidAt(held_out.i)}`}
                </span>
              )}
            </KeyEntry>
          );
        })}
      </p>
      <div
        ref={holder}
        class="plot"
        tabIndex={0}
        role="group"
        aria-roledescription="chart"
        aria-label={`${props.title}; arrow keys move along it`}
        onKeyDown={keys}
      />
      {table && (
        <Table
          scroll="Table"
          columns={[axis, ...props.runs.map(({ id }) => id)].map((head) => [head, "number"])}
          rows={Array.from({ length: Math.min(xs.length, kMostRows) }, (_, row) => {
            const i = xs.length - 1 - row;
            const values = props.runs.map((_, r) => Digits(data[Column(r, "drawn")]?.[i] ?? null));
            return [saidAt(i), ...values];
          })}
        />
      )}
    </section>
  );
}

const kTitles: Record<Key, string> = {
  loss: "Loss",
  val_loss: "Held-out loss",
  lr: "Learning rate",
  grad_norm: "Gradient norm",
  tokens_per_second: "Tokens per second, by step",
};
const kSpans = [0, 2, 5, 10, 20, 50, 100, 200, 500, 1000]; // steps
// Values that are measured again at each step are noise in part: evaluations and plans are not.
const kNoisy: readonly Key[] = ["loss", "grad_norm", "tokens_per_second"];
const kPoints = 1200;

function SaveCurves(curves: Curves, axis: string): void {
  const rows = [...curves].flatMap(([run, keys]) =>
    Object.entries(keys).flatMap(([key, { x, y, low, high }]) =>
      x.map((at, i) => [run, key, at, y[i], low[i], high[i]]),
    ),
  );
  SaveFile("runs.csv", Csv([["run", "key", axis, "mean", "min", "max"], ...rows]), "text/csv");
}

export function ChartsTab({ shown, details }: { shown: RunInfo[]; details: RunDetails[] }) {
  const axis = Choice("x", kAxes);
  const said = ["zero", "lx", "ly"].map((name) => Param(name) === "1");
  const view = useMemo<ChartView>(() => {
    const [from_zero = false, log_x = false, log_y = false] = said;
    return { axis, from_zero, log_x, log_y };
  }, [axis, ...said]);
  const smoothing = NumberParam("sm", 0); // steps
  const [range, setRange] = useState<Range | null>(null);
  useEffect(() => setRange(null), [axis, view.from_zero]);
  const { curves, failure } = useCurves(shown, axis, range, kPoints);
  const colours = shown.map(({ id }) => RunColour(id)).join();
  const perStep = ({ step, tokens, seconds }: RunInfo) =>
    axis === "step" || step === 0 ? 1 : (axis === "tokens" ? (tokens ?? 1) : (seconds ?? 1)) / step;
  const charts = useMemo(() => {
    const of = (key: Key) =>
      shown.flatMap((run): ChartRun[] => {
        const { [key]: curve, val_loss } = curves.get(run.id) ?? {};
        if (!curve || curve.x.length === 0) return [];
        return [
          {
            id: run.id,
            colour: RunColour(run.id),
            print: RunColour(run.id, "light"),
            dash: RunDash(run.id),
            curve,
            span: kNoisy.includes(key) ? smoothing * perStep(run) : 0,
            ...(key === "loss" ? { beside: val_loss } : {}),
          },
        ];
      });
    return kKeys.map((key) => [key, of(key)] as const).filter(([, drawn]) => drawn.length > 0);
  }, [curves, colours, axis, smoothing]);
  const marks =
    axis === "step" && !view.from_zero
      ? details.flatMap(({ events }) =>
          events.filter(({ event }) => event !== "begun").map(({ step }) => step),
        )
      : [];
  // With x counted from a run's own beginning a range means something else for each: only the picture is cut.
  const zoom = (next: Range | null) => !(view.from_zero && next) && setRange(next);
  const span = kSpans.indexOf(smoothing);
  return (
    <div class="stack">
      <div class="toolbar row">
        <Pick name="Over" value={axis} options={kAxes} onPick={(x) => SetParams({ x })} />
        <ParamCheck param="zero">from the run's beginning</ParamCheck>
        <ParamCheck param="lx">log x</ParamCheck>
        <ParamCheck param="ly">log y</ParamCheck>
        <div class="smoothing">
          <Slider
            label="Smoothing"
            title="A mean over about so many steps before each point; the measured values stay visible behind it. Held-out loss and learning rate are not smoothed."
            low={0}
            high={kSpans.length - 1}
            step={1}
            value={Math.max(span, 0)}
            shown={smoothing === 0 ? "off" : String(smoothing)}
            onInput={(i) => SetParams({ sm: kSpans[i] || null })}
          />
        </div>
        <span class="grow" />
        <button class="small" onClick={() => SaveCurves(curves, axis)}>
          Save CSV
        </button>
      </div>
      <Failure message={failure} />
      {charts.length === 0 && failure === "" && (
        <p class="panel empty">
          No step is in the log yet. The curves begin with the first step of the training.
        </p>
      )}
      <div class="charts">
        {charts.map(([key, drawn]) => (
          <Chart
            key={key}
            title={kTitles[key]}
            runs={drawn}
            view={view}
            marks={marks}
            zoomed={range !== null}
            onZoom={zoom}
          />
        ))}
      </div>
      <p class="note">
        Drag to zoom in to full resolution, double-click to zoom out. The shaded band reaches from
        the least to the largest value that a point stands for. Marks on the axis are events.
      </p>
    </div>
  );
}

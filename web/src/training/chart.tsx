import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { Digits, Tick } from "../format";
import { Say } from "../parts/live";
import { theme } from "../state/theme";
import { text } from "../text";
import { Aligned, AxisText, Column, IsCount, type ChartRun, type ChartView } from "./chart_data";
import { SaveChart } from "./save_chart";
import type { Range } from "./series";

const words = text.training;
const kHeight = 210;
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
function IsLone(values: ArrayLike<unknown> | undefined): boolean {
  let count = 0;
  for (let i = 0; values && i < values.length && count < 2; ++i)
    if (typeof values[i] === "number") ++count;
  return count === 1;
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
    scales: { x: { time: false, distr: view.log_x ? 3 : 1 }, y: { distr: view.log_y ? 3 : 1 } },
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
  // The marks alone: to ask for x as it is would undo a change of its range that is still to come.
  useEffect(() => plot.current?.redraw(false), [props.marks.join()]);
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
    value: valueAt(Column(i, "drawn")),
    beside: valueAt(Column(i, "beside")),
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
        ...props.runs.map((run, i) => `${run.id} ${Digits(data[Column(i, "drawn")]?.[next] ?? null)}`),
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
            onClick={() => SaveChart(props.title, props.runs, data, props.view)}
          >
            {words.save_svg}
          </button>
          <button
            class="small plain"
            onClick={() =>
              plot.current &&
              SaveChart(props.title, props.runs, data, props.view, plot.current.ctx.canvas)
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
                      {Digits(data[Column(r, "drawn")]?.[i] ?? null)}
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

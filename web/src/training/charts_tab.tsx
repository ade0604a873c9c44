import { useEffect, useMemo, useState } from "preact/hooks";
import type { RunDetails, RunInfo } from "../api/types";
import { Check, Failure, Pick, Slider } from "../parts/controls";
import { NumberParam, Param, SetParams } from "../state/route";
import { text } from "../text";
import { Chart } from "./chart";
import type { ChartRun, ChartView } from "./chart_data";
import { RunColour, RunDash } from "./runs";
import { SaveCurves } from "./save_chart";
import { kKeys, useCurves, type Axis, type Key, type Range } from "./series";

const words = text.training;
const kAxes = Object.entries(words.axes) as [Axis, string][];
const kSpans = [0, 2, 5, 10, 20, 50, 100, 200, 500, 1000]; // steps
// Values that are measured again at each step are noise in part: evaluations and plans are not.
const kNoisy: readonly Key[] = ["loss", "grad_norm", "tokens_per_second"];
const kPoints = 1200;

export function ChartsTab({ shown, details }: { shown: RunInfo[]; details: RunDetails[] }) {
  const axis = kAxes.find(([name]) => name === Param("x"))?.[0] ?? "step";
  const view: ChartView = useMemo(
    () => ({
      axis,
      from_zero: Param("zero") === "1",
      log_x: Param("lx") === "1",
      log_y: Param("ly") === "1",
    }),
    [axis, Param("zero"), Param("lx"), Param("ly")],
  );
  const smoothing = NumberParam("sm", 0); // steps
  const [range, setRange] = useState<Range | null>(null);
  useEffect(() => setRange(null), [axis, view.from_zero]);
  const { curves, failure } = useCurves(shown, axis, range, kPoints);
  const colours = shown.map(({ id }) => RunColour(id)).join();
  const perStep = ({ step, tokens, seconds }: RunInfo) =>
    axis === "step" || step === 0 ? 1 : (axis === "tokens" ? (tokens ?? 1) : (seconds ?? 1)) / step;
  const of = useMemo(
    () =>
      (key: Key): ChartRun[] =>
        shown.flatMap((run) => {
          const curve = curves.get(run.id)?.[key];
          if (!curve || curve.x.length === 0) return [];
          return [
            {
              id: run.id,
              colour: RunColour(run.id),
              print: RunColour(run.id, "light"),
              dash: RunDash(run.id),
              curve,
              span: kNoisy.includes(key) ? smoothing * perStep(run) : 0,
              ...(key === "loss" ? { beside: curves.get(run.id)?.val_loss } : {}),
            },
          ];
        }),
    [curves, colours, axis, smoothing],
  );
  const charts = useMemo(
    () => kKeys.map((key) => [key, of(key)] as const).filter(([, drawn]) => drawn.length > 0),
    [of],
  );
  const marks =
    axis === "step" && !view.from_zero
      ? details.flatMap(({ events }) => events.map(({ step }) => step))
      : [];
  // With x counted from a run's own beginning a range means something else for each: only the picture is cut.
  const zoom = (next: Range | null) => !(view.from_zero && next) && setRange(next);
  const span = kSpans.indexOf(smoothing);
  return (
    <div class="stack">
      <div class="toolbar row">
        <Pick
          label={words.over}
          value={axis}
          options={kAxes}
          onPick={(value) => SetParams({ x: value })}
        />
        <Check checked={view.from_zero} onChange={(on) => SetParams({ zero: on ? 1 : null })}>
          {words.from_zero}
        </Check>
        <Check checked={view.log_x} onChange={(on) => SetParams({ lx: on ? 1 : null })}>
          {words.log_x}
        </Check>
        <Check checked={view.log_y} onChange={(on) => SetParams({ ly: on ? 1 : null })}>
          {words.log_y}
        </Check>
        <div class="smoothing">
          <Slider
            label={words.smoothing}
            title={words.smoothing_help}
            low={0}
            high={kSpans.length - 1}
            step={1}
            value={Math.max(span, 0)}
            shown={smoothing === 0 ? text.play.off : String(smoothing)}
            onInput={(i) => SetParams({ sm: kSpans[i] || null })}
          />
        </div>
        <span class="grow" />
        <button class="small" onClick={() => SaveCurves(curves, axis)}>
          {words.save_csv}
        </button>
      </div>
      <Failure message={failure} />
      <div class="charts">
        {charts.map(([key, drawn]) => (
          <Chart
            key={key}
            title={words.keys[key]}
            runs={drawn}
            view={view}
            marks={marks}
            zoomed={range !== null}
            onZoom={zoom}
          />
        ))}
      </div>
      <p class="note">{words.charts_note}</p>
    </div>
  );
}

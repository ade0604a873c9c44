import { useMemo, useState } from "preact/hooks";
import { GetNumbers, Values, type Numbers } from "../api/numbers";
import type { TensorStats } from "../api/types";
import { Bits, Digits, Percent, Whole } from "../format";
import { Failure, Pick, Sheet } from "../parts/controls";
import { Histogram } from "../parts/line_chart";
import { Bars, Facts, TokenStrip } from "../parts/lists";
import { ValueMap } from "../parts/maps";
import { LogSoftmax } from "../playground/sampling";
import { useTrace, useTraceNumbers } from "../state/load";
import { Choice, NumberParam, Param, SetParams } from "../state/route";
import { info } from "../state/server";
import { TokenLabel } from "../tokens";
import { kPoints, PointsOf, type Point, type Told } from "./points";

const kOfModel: readonly Point[] = ["final", "logits", "probabilities"];
const kStream: readonly Point[] = ["embedded", "middle", "output"]; // what every block adds to
const kLikeliest = 12;
const kBins = 32;
const kHistogram = "Histogram of the values";

function StatsOf(frame: Numbers): TensorStats {
  return frame.about.stats as TensorStats;
}

// The name of a tensor, which in a block is the block's.
function TensorOf(name: Point, layer: number): string {
  return name === "embedded" || name === "final" ? name : `${layer}.${name}`;
}

function PointHead({ told, size }: { told: Told; size: string }) {
  const [name, formula, explain] = told;
  return (
    <>
      <div class="panel-head">
        <h2>{name}</h2>
        <span class="faint small">{size}</span>
      </div>
      <p class="formula">{formula}</p>
      <p class="soft">{explain}</p>
    </>
  );
}

function TensorPanel({ ids, told: of, name }: { ids: number[]; told: Told; name: string }) {
  const [at, setAt] = useState<[row: number, column: number] | null>(null);
  // Another tensor's numbers are none of this one.
  const { fresh: frame, failure } = useTraceNumbers(ids, `tensor/${name}`);
  const [T = 0, width = 0] = (frame?.about.of ?? []) as number[];
  const size = frame ? `${name} · ${Whole(T)} × ${Whole(width)}` : name;
  const [rows = 0, columns = 0] = frame?.shape ?? [];
  const told = () => {
    if (!at || !frame) return "Rows are tokens, columns are channels. Blue: above 0, ochre: below.";
    const [token, channel] = [
      Math.floor((at[0] * T) / rows),
      Math.floor((at[1] * width) / columns),
    ];
    const value = Digits(frame.data[at[0] * columns + at[1]]);
    return `Token ${token} “${TokenLabel(ids[token] ?? 0)}”, channel ${channel}: ${value}`;
  };
  const stats = frame && StatsOf(frame);
  const most = stats ? Math.max(Math.abs(stats.min), Math.abs(stats.max)) : 0;
  return (
    <section class="panel stack" aria-label={of[0]}>
      <PointHead told={of} size={size} />
      <Failure message={failure} />
      {frame && stats && (
        <>
          <ValueMap
            label={`Values of: ${of[0]}`}
            values={frame.data}
            rows={rows}
            columns={columns}
            most={Math.min(most, 4 * stats.std) || most}
            onPoint={(row, column) => setAt([row, column])}
          />
          <p class="note">
            {told()}
            {frame.about.pool
              ? " Each cell shows the number farthest from 0 among those that it stands for."
              : ""}
          </p>
          <div class="tensor-facts">
            <Facts
              class="facts small"
              rows={[
                ["mean", Digits(stats.mean)],
                ["standard deviation", Digits(stats.std)],
                ["least", Digits(stats.min)],
                ["largest", Digits(stats.max)],
                ["root mean square", Digits(stats.rms)],
                ["kurtosis", Digits(stats.kurtosis)],
                ["length of a row, median", Digits(stats.norm_median)],
                [
                  "longest row",
                  <>
                    {Digits(stats.norm_max)}{" "}
                    <span class="faint">{TokenLabel(ids[stats.norm_max_position] ?? 0)}</span>
                  </>,
                ],
              ]}
            />
            <Histogram label={kHistogram} {...stats.histogram} />
          </div>
        </>
      )}
    </section>
  );
}

// A token's logits, and what they make of the next one.
interface Ending {
  logits: Float32Array;
  lps: Float64Array;
  rms: number;
  order: number[]; // the likeliest ids
}

function EndingOf(logits: Float32Array): Ending {
  return {
    logits,
    lps: LogSoftmax(logits),
    rms: Math.sqrt(logits.reduce((sum, x) => sum + x * x, 0) / logits.length),
    order: Array.from(logits.keys())
      .sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b)
      .slice(0, kLikeliest),
  };
}

function HistogramOf(values: Float32Array): TensorStats["histogram"] {
  const from = values.reduce((a, b) => Math.min(a, b));
  const to = values.reduce((a, b) => Math.max(a, b));
  const counts = new Array<number>(kBins).fill(0);
  for (const x of values) {
    const bin = Math.min(Math.floor(((x - from) / (to - from || 1)) * kBins), kBins - 1);
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return { from, to, counts };
}

function EndingPanel(props: {
  ids: number[];
  place: number;
  point: Point;
  told: Told;
  ending: Ending;
}) {
  const { logits, lps, order } = props.ending;
  const ofLogits = props.point === "logits";
  const counts = useMemo(() => HistogramOf(logits), [logits]);
  const sized = order.map((id) => {
    const [logit, p] = [logits[id] as number, Math.exp(lps[id] as number)];
    return {
      id,
      size: ofLogits ? logit - counts.from : p,
      said: ofLogits ? Digits(logit) : Percent(p),
    };
  });
  const most = sized[0]?.size || 1;
  const entropy = lps.reduce((sum, lp) => sum - Math.exp(lp) * lp, 0);
  return (
    <section class="panel stack" aria-label={props.told[0]}>
      <PointHead told={props.told} size={`1 × ${Whole(logits.length)}`} />
      <h3>Next after</h3>
      <TokenStrip ids={props.ids} at={props.place} locked onPick={(at) => SetParams({ q: at })} />
      <h3>The {order.length} likeliest</h3>
      <Bars rows={sized.map(({ id, size, said }) => ({ id, after: [size / most, said] }))} />
      {ofLogits ? (
        <Histogram label={kHistogram} {...counts} />
      ) : (
        <Facts class="facts small" rows={[["entropy here", Bits(entropy)]]} />
      )}
    </section>
  );
}

// The way of a text through one block to the next token, each stop with its numbers.
export function PipelineView({ ids }: { ids: number[] }) {
  const L = info.value?.model?.n_layer ?? 1;
  const place = NumberParam("q", ids.length - 1, 0, ids.length - 1);
  const layer = NumberParam("l", 0, 0, L - 1);
  const block = info.value?.model?.block;
  const points = useMemo(() => (block ? PointsOf(block) : new Map<Point, Told>()), [block]);
  const all = [...points.keys()];
  const inside = all.filter((one) => one !== "embedded" && !kOfModel.includes(one));
  const point = Choice(
    "p",
    all.map((one) => [one, one] as const),
  );
  const told = points.get(point);
  const sizes = useTrace(ids, `sizes:${layer}`, async (trace, signal) => {
    const sized = kPoints.slice(0, -2).map(async (name) => {
      const path = `${trace}/tensor/${TensorOf(name, layer)}?slice=0:1,0:1`;
      return [name, StatsOf(await GetNumbers(path, signal)).rms] as const;
    });
    return new Map<Point, number>(await Promise.all(sized));
  });
  const ended = useTrace(ids, `logits:${place}`, async (trace, signal) =>
    EndingOf(Values(await GetNumbers(`${trace}/logits?pos=${place}`, signal))),
  );
  const ending = ended.value;
  const sizeOf = (name: Point) => (name === "logits" ? ending?.rms : sizes.value?.get(name));
  const most = Math.max(...all.map((name) => sizeOf(name) ?? 0)) || 1;
  const best = ending?.order[0] ?? 0;
  const box = (name: Point) => (
    <li key={name} class={kStream.includes(name) ? "stream" : ""}>
      <button class="stop" aria-pressed={name === point} onClick={() => SetParams({ p: name })}>
        <span>{points.get(name)?.[0]}</span>
        <span class="faint small">
          {name === "probabilities"
            ? ending && `${TokenLabel(best)} ${Percent(Math.exp(ending.lps[best] as number))}`
            : Digits(sizeOf(name), 3)}
        </span>
        <i style={{ width: `${((sizeOf(name) ?? 0) / most) * 100}%` }} />
      </button>
    </li>
  );
  const skipped = (n: number, more: string) =>
    n > 0 ? `… ${n}${more} ${n === 1 ? "block" : "blocks"}` : " ";
  return (
    <div class="pipeline">
      <section class="panel" aria-label="One block">
        <div class="panel-head">
          <h2>One block</h2>
          <span class="grow" />
          <Pick
            name="Block"
            value={String(layer)}
            options={Array.from({ length: L }, (_, l) => [String(l), String(l)] as const)}
            onPick={(l) => SetParams({ l })}
          />
        </div>
        <Failure message={sizes.failure || ended.failure} />
        <ol class="stops">{all.slice(0, 1).map(box)}</ol>
        <p class="skip">{skipped(layer, "")}</p>
        <ol class="stops block">{inside.map(box)}</ol>
        <p class="skip">{skipped(L - 1 - layer, " more")}</p>
        <ol class="stops">{kOfModel.map(box)}</ol>
        <p class="note">
          The numbers are root mean squares. A dot marks the residual stream, to which every block adds.
        </p>
      </section>
      <Sheet open={Param("p") !== ""} onClose={() => SetParams({ p: null })}>
        {told && point !== "logits" && point !== "probabilities" ? (
          <TensorPanel ids={ids} told={told} name={TensorOf(point, layer)} />
        ) : told && ending ? (
          <EndingPanel ids={ids} place={place} point={point} told={told} ending={ending} />
        ) : (
          <section class="panel" />
        )}
      </Sheet>
    </div>
  );
}

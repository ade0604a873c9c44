import { useMemo, useState } from "preact/hooks";
import { GetNumbers, Values, type Numbers } from "../api/numbers";
import type { TensorStats } from "../api/types";
import { Digits, kNatsToBits, Percent } from "../format";
import { Failure, Pick } from "../parts/controls";
import { Histogram } from "../parts/line_chart";
import { Sheet } from "../parts/sheet";
import { TokenStrip } from "../parts/strip";
import { ValueMap } from "../parts/value_map";
import { LogSoftmax } from "../playground/sampling";
import { useLoaded } from "../state/load";
import { NumberParam, Param, SetParams } from "../state/route";
import { info } from "../state/server";
import { WithTrace } from "../state/trace";
import { text } from "../text";
import { TokenLabel } from "../tokens";

const words = text.inside.pipeline;
type Point = keyof typeof words.points;
const kOfBlock: Point[] = [
  "ln_1",
  "qkv",
  "heads",
  "attention",
  "middle",
  "ln_2",
  "up",
  "activated",
  "mlp",
  "output",
];
const kTensors: Point[] = ["embedded", ...kOfBlock, "final"];
const kAll: Point[] = [...kTensors, "logits", "probabilities"];
const kLikeliest = 12;
const kBins = 32;

function StatsOf(frame: Numbers): TensorStats {
  return frame.about.stats as TensorStats;
}

function NameOf(point: Point, layer: number): string {
  return point === "embedded" || point === "final" ? point : `${layer}.${point}`;
}

function TensorPanel(props: { ids: number[]; point: Point; name: string }) {
  const { ids, point, name } = props;
  const [at, setAt] = useState<[number, number] | null>(null);
  const loaded = useLoaded(`${ids.join(",")}:${name}`, (signal) =>
    WithTrace(ids, (trace) => GetNumbers(`${trace}/tensor/${name}`, signal), signal),
  );
  const frame = loaded.fresh ? loaded.value : null; // another tensor's numbers are none of this one
  const about = words.points[point];
  const [T = 0, width = 0] = (frame?.about.of ?? []) as number[];
  const head = (
    <>
      <div class="panel-head">
        <h2>{about.name}</h2>
        <span class="faint small">
          {name}
          {frame && ` · ${T} × ${width}`}
        </span>
      </div>
      <p class="formula">{about.formula}</p>
      <p class="soft">{about.explain}</p>
    </>
  );
  if (!frame)
    return (
      <section class="panel stack" aria-label={about.name}>
        {head}
        <Failure message={loaded.failure} />
      </section>
    );
  const stats = StatsOf(frame);
  const [rows = 0, columns = 0] = frame.shape;
  const most = Math.max(Math.abs(stats.min), Math.abs(stats.max));
  const pointed = () => {
    if (!at) return words.hint;
    const place = Math.floor((at[0] * T) / rows);
    return words.told(
      place,
      TokenLabel(ids[place] ?? 0),
      Math.floor((at[1] * width) / columns),
      Digits(frame.data[at[0] * columns + at[1]]),
    );
  };
  return (
    <section class="panel stack" aria-label={about.name}>
      {head}
      <ValueMap
        label={words.map(about.name)}
        values={frame.data}
        rows={rows}
        columns={columns}
        most={Math.min(most, 4 * stats.std) || most}
        onPoint={(row, column) => setAt([row, column])}
      />
      <p class="note">
        {pointed()}
        {frame.about.pool ? ` ${words.pooled}` : ""}
      </p>
      <div class="tensor-facts">
        <dl class="facts small">
          <dt>{words.mean}</dt>
          <dd>{Digits(stats.mean)}</dd>
          <dt>{words.std}</dt>
          <dd>{Digits(stats.std)}</dd>
          <dt>{words.min}</dt>
          <dd>{Digits(stats.min)}</dd>
          <dt>{words.max}</dt>
          <dd>{Digits(stats.max)}</dd>
          <dt>{words.rms}</dt>
          <dd>{Digits(stats.rms)}</dd>
          <dt>{words.kurtosis}</dt>
          <dd>{Digits(stats.kurtosis)}</dd>
          <dt>{words.norm}</dt>
          <dd>{Digits(stats.norm_median)}</dd>
          <dt>{words.longest}</dt>
          <dd>
            {Digits(stats.norm_max)}{" "}
            <span class="faint">{TokenLabel(ids[stats.norm_max_position] ?? 0)}</span>
          </dd>
        </dl>
        <Histogram label={words.histogram} {...stats.histogram} />
      </div>
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

function HistogramOf(values: Float32Array): { from: number; to: number; counts: number[] } {
  const [from, to] = [
    values.reduce((a, b) => Math.min(a, b)),
    values.reduce((a, b) => Math.max(a, b)),
  ];
  const counts = new Array<number>(kBins).fill(0);
  for (const x of values)
    ++(counts as number[])[
      Math.min(Math.floor(((x - from) / (to - from || 1)) * kBins), kBins - 1)
    ]!;
  return { from, to, counts };
}

function EndingPanel(props: {
  ids: number[];
  place: number;
  point: "logits" | "probabilities";
  ending: Ending;
}) {
  const { ids, place, point } = props;
  const { logits, lps, order } = props.ending;
  const about = words.points[point];
  const counts = useMemo(() => HistogramOf(logits), [logits]);
  const bars = order.map((id) => {
    const p = Math.exp(lps[id] as number);
    const logit = logits[id] as number;
    return point === "logits"
      ? { id, size: logit - counts.from, said: Digits(logit) }
      : { id, size: p, said: Percent(p) };
  });
  const most = bars[0]?.size || 1;
  const entropy = lps.reduce((sum, lp) => sum - Math.exp(lp) * lp, 0);
  return (
    <section class="panel stack" aria-label={about.name}>
      <div class="panel-head">
        <h2>{about.name}</h2>
        <span class="faint small">1 × {logits.length}</span>
      </div>
      <p class="formula">{about.formula}</p>
      <p class="soft">{about.explain}</p>
      <h3>{words.behind_token}</h3>
      <TokenStrip ids={ids} at={place} locked onPick={(at) => SetParams({ q: at })} />
      <h3>{words.likeliest(order.length)}</h3>
      <ol class="bars">
        {bars.map(({ id, size, said }) => (
          <li key={id}>
            <span class="bar">
              <span class="bar-label">{TokenLabel(id)}</span>
              <span class="bar-track">
                <i class="bar-after" style={{ width: `${(size / most) * 100}%` }} />
              </span>
              <span class="bar-number strong">{said}</span>
            </span>
          </li>
        ))}
      </ol>
      {point === "logits" ? (
        <Histogram label={words.histogram} {...counts} />
      ) : (
        <dl class="facts small">
          <dt>{text.token.entropy}</dt>
          <dd>
            {Digits(entropy * kNatsToBits, 3)} {text.token.bits}
          </dd>
        </dl>
      )}
    </section>
  );
}

// The way of a text through one block to the next token, each stop with its numbers.
export function PipelineView({ ids }: { ids: number[] }) {
  const L = info.value?.model?.n_layer ?? 1;
  const place = NumberParam("q", ids.length - 1, 0, ids.length - 1);
  const layer = NumberParam("l", 0, 0, L - 1);
  const point = kAll.find((one) => one === Param("p")) ?? "embedded";
  const sizes = useLoaded(`${ids.join(",")}:${layer}`, (signal) =>
    WithTrace(
      ids,
      async (trace) =>
        new Map(
          await Promise.all(
            kTensors.map(
              async (one) =>
                [
                  one,
                  StatsOf(
                    await GetNumbers(`${trace}/tensor/${NameOf(one, layer)}?slice=0:1,0:1`, signal),
                  ).rms,
                ] as const,
            ),
          ),
        ),
      signal,
    ),
  );
  const ended = useLoaded(`${ids.join(",")}:${place}`, (signal) =>
    WithTrace(
      ids,
      async (trace) => EndingOf(Values(await GetNumbers(`${trace}/logits?pos=${place}`, signal))),
      signal,
    ),
  );
  const ending = ended.value;
  const sizeOf = (one: Point) => (one === "logits" ? ending?.rms : sizes.value?.get(one));
  const most = Math.max(...kAll.map((one) => sizeOf(one) ?? 0)) || 1;
  const best = ending?.order[0] ?? 0;
  const told = (one: Point) =>
    one === "probabilities"
      ? ending && `${TokenLabel(best)} ${Percent(Math.exp(ending.lps[best] as number))}`
      : Digits(sizeOf(one), 3);
  const box = (one: Point) => (
    <li key={one} class={words.points[one].stream ? "stream" : ""}>
      <button class="stop" aria-pressed={one === point} onClick={() => SetParams({ p: one })}>
        <span>{words.points[one].name}</span>
        <span class="faint small">{told(one)}</span>
        <i style={{ width: `${((sizeOf(one) ?? 0) / most) * 100}%` }} />
      </button>
    </li>
  );
  return (
    <div class="pipeline">
      <section class="panel" aria-label={words.title}>
        <div class="panel-head">
          <h2>{words.title}</h2>
          <span class="grow" />
          <Pick
            label={words.block}
            value={String(layer)}
            onPick={(value) => SetParams({ l: value })}
            options={Array.from({ length: L }, (_, l) => [String(l), String(l)] as const)}
          />
        </div>
        <Failure message={sizes.failure || ended.failure} />
        <ol class="stops">{box("embedded")}</ol>
        <p class="skip">{layer > 0 ? words.before(layer) : " "}</p>
        <ol class="stops block">{kOfBlock.map(box)}</ol>
        <p class="skip">{layer < L - 1 ? words.behind(L - 1 - layer) : " "}</p>
        <ol class="stops">{(["final", "logits", "probabilities"] as const).map(box)}</ol>
        <p class="note">{words.legend}</p>
      </section>
      <Sheet open={Param("p") !== ""} onClose={() => SetParams({ p: null })}>
        {point !== "logits" && point !== "probabilities" ? (
          <TensorPanel ids={ids} point={point} name={NameOf(point, layer)} />
        ) : ending ? (
          <EndingPanel ids={ids} place={place} point={point} ending={ending} />
        ) : (
          <section class="panel" />
        )}
      </Sheet>
    </div>
  );
}

import { useState } from "preact/hooks";
import { GetGvz, type Gvz } from "../api/gvz";
import type { TensorStats } from "../api/types";
import { Digits } from "../format";
import { Failure, Pick } from "../parts/controls";
import { Histogram } from "../parts/line_chart";
import { ValueMap } from "../parts/value_map";
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
const kAll: Point[] = ["embedded", ...kOfBlock, "final"];

function StatsOf(frame: Gvz): TensorStats {
  return frame.header.stats as TensorStats;
}

function NameOf(point: Point, layer: number): string {
  return point === "embedded" || point === "final" ? point : `${layer}.${point}`;
}

function TensorPanel(props: { ids: number[]; point: Point; name: string }) {
  const { ids, point, name } = props;
  const [at, setAt] = useState<[number, number] | null>(null);
  const loaded = useLoaded(`${ids.join(",")}:${name}`, (signal) =>
    WithTrace(ids, (trace) => GetGvz(`${trace}/tensor/${name}`, signal), signal),
  );
  const frame = loaded.value;
  const about = words.points[point];
  if (!frame)
    return (
      <section class="panel">
        <Failure message={loaded.failure} />
      </section>
    );
  const stats = StatsOf(frame);
  const [rows = 0, columns = 0] = frame.header.shape;
  const [T = 0, width = 0] = frame.header.of as number[];
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
      <div class="panel-head">
        <h2>{about.name}</h2>
        <span class="faint small">
          {name} · {T} × {width}
        </span>
      </div>
      <p class="formula">{about.formula}</p>
      <p class="soft">{about.explain}</p>
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
        {frame.header.pool ? ` ${words.pooled}` : ""}
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

// The way of a text through one block, each stop with its numbers.
export function PipelineView({ ids }: { ids: number[] }) {
  const L = info.value?.model?.n_layer ?? 1;
  const layer = NumberParam("l", 0, 0, L - 1);
  const point = kAll.find((one) => one === Param("p")) ?? "embedded";
  const sizes = useLoaded(`${ids.join(",")}:${layer}`, (signal) =>
    WithTrace(
      ids,
      async (trace) =>
        new Map(
          await Promise.all(
            kAll.map(
              async (one) =>
                [
                  one,
                  StatsOf(
                    await GetGvz(`${trace}/tensor/${NameOf(one, layer)}?slice=0:1,0:1`, signal),
                  ).rms,
                ] as const,
            ),
          ),
        ),
      signal,
    ),
  );
  const most = Math.max(...(sizes.value?.values() ?? [1]));
  const box = (one: Point) => (
    <li key={one} class={words.points[one].stream ? "stream" : ""}>
      <button class="stop" aria-pressed={one === point} onClick={() => SetParams({ p: one })}>
        <span>{words.points[one].name}</span>
        <span class="faint small">{Digits(sizes.value?.get(one), 3)}</span>
        <i style={{ width: `${((sizes.value?.get(one) ?? 0) / most) * 100}%` }} />
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
        <Failure message={sizes.failure} />
        <ol class="stops">{box("embedded")}</ol>
        <p class="skip">{layer > 0 ? words.before(layer) : " "}</p>
        <ol class="stops block">{kOfBlock.map(box)}</ol>
        <p class="skip">{layer < L - 1 ? words.behind(L - 1 - layer) : " "}</p>
        <ol class="stops">{box("final")}</ol>
        <p class="note">{words.legend}</p>
      </section>
      <TensorPanel ids={ids} point={point} name={NameOf(point, layer)} />
    </div>
  );
}

import { GetNumbers, type Numbers } from "../api/numbers";
import { Diverging, DivergingTile, RampTile } from "../colour";
import { Digits } from "../format";
import { Param, SetParams } from "../state/route";
import { useLoaded } from "../state/load";
import { WithTrace } from "../state/trace";
import { theme } from "../state/theme";
import { text } from "../text";
import { TokenLabel } from "../tokens";
import { Scaled } from "./weights";

type Step = keyof typeof text.attn.steps;
const kSteps = Object.keys(text.attn.steps) as Step[];
const kMostColumns = 48; // tokens that are drawn

function PartOf({ all }: Numbers, name: string): { values: ArrayLike<number>; shape: number[] } {
  const part = all[name];
  return { values: part?.data ?? [], shape: part?.shape ?? [0] };
}

function Largest(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; ++i) {
    const size = Math.abs(values[i] as number);
    if (Number.isFinite(size) && size > most) most = size;
  }
  return most || 1;
}

// A vector as a band of cells, blue above 0 and ochre below.
function Band({
  values,
  begin,
  count,
  most,
  opacity = 1,
}: {
  values: ArrayLike<number>;
  begin: number;
  count: number;
  most: number;
  opacity?: number;
}) {
  return (
    <span class="band" style={{ opacity }}>
      {Array.from({ length: count }, (_, i) => {
        const x = values[begin + i] as number;
        return (
          <i
            key={i}
            title={`${i}: ${Digits(x)}`}
            style={{ backgroundColor: Diverging(theme.value, x / most) }}
          />
        );
      })}
    </span>
  );
}

function Vectors(props: {
  frame: Numbers;
  name: "k" | "v";
  own: "q" | "out";
  ids: number[];
  query: number;
}) {
  const own = PartOf(props.frame, props.own);
  const others = PartOf(props.frame, props.name);
  const d = own.shape[0] ?? 0;
  const weights = PartOf(props.frame, "softmax").values;
  const most = Largest(others.values);
  const places = Places(props.ids, props.query, weights);
  const label = { q: "q", out: "out" }[props.own];
  return (
    <ol class="step-rows">
      <li class="own">
        <span class="bar-label">
          {label} {TokenLabel(props.ids[props.query] ?? 0)}
        </span>
        <Band values={own.values} begin={0} count={d} most={Largest(own.values)} />
        <span />
      </li>
      {places.map((place) => (
        <li key={place}>
          <span class="bar-label">
            {props.name} {TokenLabel(props.ids[place] ?? 0)}
          </span>
          <Band
            values={others.values}
            begin={place * d}
            count={d}
            most={most}
            opacity={props.name === "v" ? 0.25 + 0.75 * Math.sqrt(weights[place] as number) : 1}
          />
          <span class="bar-number">
            {props.name === "v" ? `× ${Digits(weights[place], 3)}` : ""}
          </span>
        </li>
      ))}
    </ol>
  );
}

// Many tokens are cut down to the first, and those that matter.
function Places(ids: number[], query: number, weights: ArrayLike<number>): number[] {
  const all = ids.map((_, i) => i);
  if (all.length <= kMostColumns) return all;
  return all
    .sort(
      (a, b) => (weights[b] ?? 0) - (weights[a] ?? 0) || Math.abs(a - query) - Math.abs(b - query),
    )
    .slice(0, kMostColumns)
    .sort((a, b) => a - b);
}

function Cells(props: {
  frame: Numbers;
  name: "scores" | "scaled" | "masked" | "softmax";
  ids: number[];
  query: number;
}) {
  const { values } = PartOf(props.frame, props.name);
  const most = Largest(values);
  const places = Places(props.ids, props.query, PartOf(props.frame, "softmax").values);
  return (
    <ol class="step-cells">
      {places.map((place) => {
        const x = values[place] as number;
        const tile =
          props.name === "softmax"
            ? RampTile(theme.value, Scaled(x, "sqrt") * 0.6)
            : DivergingTile(theme.value, (x / most) * 0.45);
        return (
          <li
            key={place}
            class={Number.isFinite(x) ? "" : "hidden-cell"}
            style={Number.isFinite(x) ? tile : undefined}
          >
            <span class="bar-label">{TokenLabel(props.ids[place] ?? 0)}</span>
            <b>{Digits(x, 3)}</b>
          </li>
        );
      })}
    </ol>
  );
}

// Shows what a head computes for one query, a step at a time.
export function Steps(props: { ids: number[]; layer: number; head: number; query: number }) {
  const words = text.attn;
  const open = kSteps.find((step) => step === Param("step"));
  const key = open ? `${props.ids.join(",")}:${props.layer}:${props.head}:${props.query}` : null;
  const loaded = useLoaded(key, (signal) =>
    WithTrace(
      props.ids,
      (trace) => GetNumbers(`${trace}/steps?l=${props.layer}&h=${props.head}&q=${props.query}`, signal),
      signal,
    ),
  );
  const frame = loaded.fresh ? loaded.value : null;
  return (
    <section class="steps" aria-label={words.steps_title}>
      <div class="steps-bar" role="group" aria-label={words.steps_title}>
        {kSteps.map((step, i) => (
          <>
            {i > 0 && (
              <span class="faint" aria-hidden="true">
                →
              </span>
            )}
            <button
              key={step}
              class="small"
              aria-pressed={open === step}
              onClick={() => SetParams({ step: open === step ? null : step })}
            >
              {words.steps[step].name}
            </button>
          </>
        ))}
      </div>
      {open && (
        <div class="step-body">
          <p class="note">
            {words.steps[open].explain}
            {open === "scaled" && frame ? ` (× ${Digits(frame.about.scale as number)})` : ""}
          </p>
          {loaded.failure && <p class="failure">{loaded.failure}</p>}
          {frame &&
            (open === "qk" ? (
              <Vectors frame={frame} name="k" own="q" ids={props.ids} query={props.query} />
            ) : open === "out" ? (
              <Vectors frame={frame} name="v" own="out" ids={props.ids} query={props.query} />
            ) : (
              <Cells frame={frame} name={open} ids={props.ids} query={props.query} />
            ))}
        </div>
      )}
    </section>
  );
}

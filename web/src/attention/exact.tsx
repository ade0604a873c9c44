import { useEffect, useRef } from "preact/hooks";
import { GetNumbers, type Numbers } from "../api/numbers";
import { DivergingCss, DivergingTile, RampTile, SeriesColour } from "../colour";
import { Digits } from "../format";
import { Failure, kPoint } from "../parts/controls";
import { Chip, Table } from "../parts/lists";
import { Csv, SaveFile } from "../save";
import { useTrace, useTraceNumbers } from "../state/load";
import { Param, SetParams } from "../state/route";
import { theme } from "../state/theme";
import { TokenLabel } from "../tokens";
import { type ExactRow, type HeadWeights, type Join, Scaled, WeightOf } from "./weights";

const kPairs = 20;

interface Pair {
  q: number;
  k: number;
  p: number;
}

function Strongest(head: HeadWeights): Pair[] {
  const best: Pair[] = [];
  for (let q = 0; q < head.T; ++q) {
    for (let k = 0; k < head.T; ++k) {
      const p = head.At(q, k);
      if (p === 0 || (best.length === kPairs && p <= (best[kPairs - 1] as Pair).p)) continue;
      best.push({ q, k, p });
      best.sort((a, b) => b.p - a.p);
      best.length = Math.min(best.length, kPairs);
    }
  }
  return best;
}

// The strongest pairs of a head, or of a layer's heads joined, as numbers, exact ones.
export function PairTable(props: {
  ids: number[];
  layer: number;
  of: number | Join;
  weights: HeadWeights;
}) {
  const { ids, layer, of } = props;
  const exact = useTrace(ids, `pairs:${layer}:${of}`, async (trace, signal) => {
    const strongest = Strongest(props.weights);
    const rowOf = async (q: number): Promise<ExactRow> => {
      const { shape, data } = await GetNumbers(`${trace}/row?q=${q}&l=${layer}`, signal);
      const [H = 0, T = 0] = shape;
      return { H, T, weights: data as Float32Array };
    };
    const queries = new Set(strongest.map(({ q }) => q));
    const rows = new Map(Array.from(queries, (q) => [q, rowOf(q)] as const));
    const pairs = strongest.map(
      async ({ q, k }): Promise<Pair> => ({
        q,
        k,
        p: WeightOf((await rows.get(q)) as ExactRow, of, k),
      }),
    );
    return (await Promise.all(pairs)).sort((a, b) => b.p - a.p);
  });
  const label = (place: number) => TokenLabel(ids[place] ?? 0);
  const save = () => {
    const rows = (exact.fresh ?? []).map(({ q, k, p }) => [q, label(q), k, label(k), p]);
    SaveFile(
      `attention-l${layer}-${typeof of === "number" ? `h${of}` : of}.csv`,
      Csv([["query", "query_token", "key", "key_token", "weight"], ...rows]),
      "text/csv",
    );
  };
  return (
    <div class="stack">
      <Table
        caption="The strongest pairs of this map"
        columns={[["Query", "number"], [""], ["Key", "number"], [""], ["Weight", "number"]]}
        rows={(exact.value ?? []).map(({ q, k, p }) => [
          <span class="faint">{q}</span>,
          <Chip id={ids[q]} />,
          <span class="faint">{k}</span>,
          <Chip id={ids[k]} />,
          Digits(p, 4),
        ])}
      />
      <Failure message={exact.failure} />
      <div class="row">
        <button class="small" disabled={!exact.fresh} onClick={save}>
          Save CSV
        </button>
      </div>
    </div>
  );
}

const kSteps = {
  qk: [
    "q, k",
    "The vector q of the query and the key k of every token: products of the stream with two matrices of this head.",
  ],
  scores: ["scores", "q · k for each key: how well the key fits the query."],
  scaled: [
    "÷ √d",
    "Divided by the square root of the vectors' length, so that long vectors do not make the softmax hard.",
  ],
  masked: ["mask", "Scores of later tokens become −∞: the model cannot see the future."],
  softmax: [
    "softmax",
    "e to the power of each score, divided by their sum: weights that add up to 1.",
  ],
  out: ["× V", "The sum of the values v, each times its weight: the output of this head."],
} as const;
type Step = keyof typeof kSteps;
// What is particular to a layer's steps.
function MoreOf(step: Step, frame: Numbers | null): string {
  const { scale, cap, window, turned } = (frame?.about ?? {}) as Record<string, number>;
  if (step === "qk" && turned) return " Both are rotated by their position.";
  if (step === "scaled" && scale)
    return ` (× ${Digits(scale)})${cap ? ` Then limited to ±${cap}: ${cap} · tanh(score / ${cap}).` : ""}`;
  if (step === "masked" && window)
    return ` So do scores of tokens ${window} or more before it: this layer attends within a window.`;
  return "";
}

const kMostColumns = 48; // tokens that are drawn
const kTitle = "How it is computed, step by step";

function ValuesOf({ all }: Numbers, name: string): ArrayLike<number> {
  return all[name]?.data ?? [];
}

function Largest(values: ArrayLike<number>): number {
  const sizes = Array.from(values, Math.abs).filter(Number.isFinite);
  return sizes.reduce((a, b) => Math.max(a, b), 0) || 1;
}

// A vector as a band of cells, blue above 0 and ochre below.
function Band(props: { values: number[]; most: number; opacity?: number }) {
  return (
    <span class="band" style={{ opacity: props.opacity ?? 1 }}>
      {props.values.map((x, i) => (
        <i
          key={i}
          title={`${i}: ${Digits(x)}`}
          style={{ backgroundColor: DivergingCss(theme.value, x / props.most) }}
        />
      ))}
    </span>
  );
}

interface StepProps {
  frame: Numbers;
  ids: number[];
  query: number;
}

// Many tokens are cut down to the first, and those that matter.
function Places({ frame, ids, query }: StepProps): number[] {
  const all = ids.map((_, i) => i);
  if (all.length <= kMostColumns) return all;
  const weights = ValuesOf(frame, "softmax");
  const by = (a: number, b: number) =>
    (weights[b] ?? 0) - (weights[a] ?? 0) || Math.abs(a - query) - Math.abs(b - query);
  return all
    .sort(by)
    .slice(0, kMostColumns)
    .sort((a, b) => a - b);
}

// The query's own vector, and one of each token: keys, or values by their weights.
function Vectors({ name, own, ...props }: StepProps & { name: "k" | "v"; own: "q" | "out" }) {
  const { frame, ids, query } = props;
  const mine = Array.from(ValuesOf(frame, own));
  const others = Array.from(ValuesOf(frame, name));
  const weights = ValuesOf(frame, "softmax");
  const most = Largest(others);
  return (
    <ol class="step-rows">
      <li class="own">
        <span class="bar-label">
          {own} {TokenLabel(ids[query] ?? 0)}
        </span>
        <Band values={mine} most={Largest(mine)} />
        <span />
      </li>
      {Places(props).map((place) => {
        const weight = name === "v" ? weights[place] : undefined;
        return (
          <li key={place}>
            <span class="bar-label">
              {name} {TokenLabel(ids[place] ?? 0)}
            </span>
            <Band
              values={others.slice(place * mine.length, (place + 1) * mine.length)}
              most={most}
              opacity={weight === undefined ? 1 : 0.25 + 0.75 * Math.sqrt(weight)}
            />
            <span class="bar-number">{weight !== undefined && `× ${Digits(weight, 3)}`}</span>
          </li>
        );
      })}
    </ol>
  );
}

// A number of each token.
function Cells({ name, ...props }: StepProps & { name: string }) {
  const values = ValuesOf(props.frame, name);
  const most = Largest(values);
  return (
    <ol class="step-cells">
      {Places(props).map((place) => {
        const x = values[place] as number;
        const tile =
          name === "softmax"
            ? RampTile(theme.value, Scaled(x, "sqrt") * 0.6)
            : DivergingTile(theme.value, (x / most) * 0.45);
        const seen = Number.isFinite(x);
        return (
          <li key={place} class={seen ? "" : "hidden-cell"} style={seen ? { ...tile } : {}}>
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
  const { ids, layer, head, query } = props;
  const steps = Object.keys(kSteps) as Step[];
  const open = steps.find((step) => step === Param("step"));
  const path = `steps?l=${layer}&h=${head}&q=${query}`;
  const { fresh: frame, failure } = useTraceNumbers(ids, open ? path : null);
  const of = frame && { frame, ids, query };
  return (
    <section class="steps" aria-label={kTitle}>
      <div class="steps-bar" role="group" aria-label={kTitle}>
        {steps.map((step, i) => (
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
              {kSteps[step][0]}
            </button>
          </>
        ))}
      </div>
      {open && (
        <div class="step-body">
          <p class="note">
            {kSteps[open][1]}
            {MoreOf(open, frame)}
          </p>
          <Failure message={failure} />
          {of &&
            (open === "qk" ? (
              <Vectors {...of} name="k" own="q" />
            ) : open === "out" ? (
              <Vectors {...of} name="v" own="out" />
            ) : (
              <Cells {...of} name={open} />
            ))}
        </div>
      )}
    </section>
  );
}

export type Direction = "query" | "key";

const kAllShown = 96; // tokens; of more only the weightiest
const kMostShown = 40;
const kRow = 24;
const kLines = 56;
const kLeastLine = 0.002; // a weight

export interface PlacedRow extends ExactRow {
  place: number;
  direction: Direction;
}

function ShownPlaces(row: PlacedRow, heads: number[]): number[] {
  const most = (i: number) => Math.max(...heads.map((h) => WeightOf(row, h, i)));
  const all = Array.from({ length: row.T }, (_, i) => i).filter(
    (i) => (row.direction === "query" ? i <= row.place : i >= row.place) || most(i) > 0,
  );
  if (all.length <= kAllShown) return all;
  const weightiest = all.sort((a, b) => most(b) - most(a)).slice(0, kMostShown);
  return weightiest.sort((a, b) => a - b);
}

// The chosen query's weights as lines, bars and numbers; of further heads of the layer lines alone.
export function QueryPanel(props: {
  ids: number[];
  row: PlacedRow | null;
  of: number | Join; // whose weights are bars and numbers
  heads: number[]; // those with lines
  picked: boolean; // else what is shown is just what the pointer is on
  pointed: number | null; // the other end under the pointer
  onPoint: (place: number | null) => void;
  onHeads: (heads: number[]) => void;
}) {
  const { row, ids, heads } = props;
  const list = useRef<HTMLDivElement>(null);
  const places = row ? ShownPlaces(row, heads) : [];
  const weights = row ? places.map((place) => WeightOf(row, props.of, place)) : [];
  const most = Math.max(...weights, 1e-9);
  // A list opens at its strongest.
  useEffect(() => {
    const at = (weights.indexOf(most) + 0.5) * kRow;
    if (list.current) list.current.scrollTop = at - list.current.clientHeight / 2;
  }, [row, props.of, props.picked]);
  if (!row)
    return (
      <section class="panel query-panel">
        <p class="empty">{kPoint} at a token or a cell.</p>
      </section>
    );
  const name = row.direction === "query" ? "Query" : "Key";
  const middle = (i: number) => (i + 0.5) * kRow;
  const from = middle(Math.max(places.indexOf(row.place), 0));
  const colourOf = (h: number) =>
    heads.length > 1 ? SeriesColour(theme.value, h) : "var(--accent)";
  const toggle = (h: number) => {
    const others = heads.filter((one) => one !== h);
    props.onHeads(others.length < heads.length ? others : [...heads, h].sort((a, b) => a - b));
  };
  return (
    <section class="panel query-panel" aria-label={name}>
      <div class="panel-head">
        <h2>
          {name} {row.place}
        </h2>
        <Chip id={ids[row.place]} />
      </div>
      <div class="head-toggles" role="group" aria-label="Heads with lines">
        {Array.from({ length: row.H }, (_, h) => {
          const on = heads.includes(h);
          const colour = colourOf(h);
          return (
            <button
              key={h}
              class="small"
              aria-pressed={on}
              title="Click: show or hide the lines of this head. Double-click: show this head alone."
              style={on ? { borderColor: colour, boxShadow: `inset 0 -3px ${colour}` } : {}}
              onClick={() => toggle(h)}
              onDblClick={() => props.onHeads([h])}
            >
              {h}
            </button>
          );
        })}
      </div>
      <div ref={list} class="query-list" tabIndex={0} role="region" aria-label="Exact weights">
        <svg class="query-lines" width={kLines} height={places.length * kRow} aria-hidden="true">
          {heads.flatMap((h) =>
            places.map((place, i) => {
              const p = WeightOf(row, h, place);
              return p < kLeastLine ? null : (
                <path
                  key={`${h}.${place}`}
                  d={`M0 ${from}C${kLines / 2} ${from} ${kLines / 2} ${middle(i)} ${kLines} ${middle(i)}`}
                  fill="none"
                  stroke={colourOf(h)}
                  stroke-width={0.75 + 4 * p}
                  stroke-opacity={Math.min(0.12 + 0.88 * Math.sqrt(p), 1)}
                />
              );
            }),
          )}
        </svg>
        <ol onMouseLeave={() => props.onPoint(null)}>
          {places.map((place, i) => (
            <li
              key={place}
              class={`${place === row.place ? "is-self" : ""}${place === props.pointed ? " pointed" : ""}`}
              onMouseEnter={() => props.onPoint(place)}
            >
              <span class="bar-label">{TokenLabel(ids[place] ?? 0)}</span>
              <span class="bar-track">
                <i class="bar-after" style={{ width: `${((weights[i] ?? 0) / most) * 100}%` }} />
              </span>
              <output class="bar-number strong">{Digits(weights[i], 4)}</output>
            </li>
          ))}
        </ol>
      </div>
      {places.length < row.T && places.length === kMostShown && (
        <p class="note">The {kMostShown} largest weights.</p>
      )}
    </section>
  );
}

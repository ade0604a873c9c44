import { useEffect, useRef } from "preact/hooks";
import { SeriesColour } from "../colour";
import { Digits } from "../format";
import { theme } from "../state/theme";
import { text } from "../text";
import { TokenLabel } from "../tokens";
import { WeightOf, type ExactRow, type Join } from "./weights";

export type Direction = "query" | "key";

const kAllShown = 96; // tokens; of more only the weightiest
const kMostShown = 40;
const kRow = 24;
const kLines = 56;

export interface PlacedRow extends ExactRow {
  place: number;
  direction: Direction;
}

function ShownPlaces(row: PlacedRow, heads: number[]): number[] {
  const all = Array.from({ length: row.T }, (_, i) => i).filter(
    (i) =>
      (row.direction === "query" ? i <= row.place : i >= row.place) ||
      heads.some((h) => WeightOf(row, h, i) > 0),
  );
  if (all.length <= kAllShown) return all;
  const most = (i: number) => Math.max(...heads.map((h) => WeightOf(row, h, i)));
  return all
    .sort((a, b) => most(b) - most(a))
    .slice(0, kMostShown)
    .sort((a, b) => a - b);
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
  const words = text.attn;
  const { row, ids } = props;
  const list = useRef<HTMLDivElement>(null);
  const places = row ? ShownPlaces(row, props.heads) : [];
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
        <p class="empty">{words.point}</p>
      </section>
    );
  const from = Math.max(places.indexOf(row.place), 0);
  const height = places.length * kRow;
  const label = TokenLabel(ids[row.place] ?? 0);
  return (
    <section class="panel query-panel" aria-label={words.direction[row.direction]}>
      <div class="panel-head">
        <h2>
          {words.direction[row.direction]} {row.place}
        </h2>
        <span class="chip">{label}</span>
      </div>
      <div class="head-toggles" role="group" aria-label={words.lines_of}>
        {Array.from({ length: row.H }, (_, h) => {
          const on = props.heads.includes(h);
          const colour = props.heads.length > 1 ? SeriesColour(theme.value, h) : "var(--accent)";
          return (
            <button
              key={h}
              class="small"
              aria-pressed={on}
              title={words.toggle}
              style={{
                borderColor: on ? colour : "",
                boxShadow: on ? `inset 0 -3px ${colour}` : "",
              }}
              onClick={() =>
                props.onHeads(
                  on
                    ? props.heads.filter((one) => one !== h)
                    : [...props.heads, h].sort((a, b) => a - b),
                )
              }
              onDblClick={() => props.onHeads([h])}
            >
              {h}
            </button>
          );
        })}
      </div>
      <div ref={list} class="query-list" tabIndex={0} role="region" aria-label={words.exact_list}>
        <svg
          class="query-lines"
          width={kLines}
          height={height}
          viewBox={`0 0 ${kLines} ${height}`}
          aria-hidden="true"
        >
          {props.heads.flatMap((h) =>
            places.map((place, i) => {
              const p = WeightOf(row, h, place);
              if (p < 0.002) return null;
              const [y0, y1] = [(from + 0.5) * kRow, (i + 0.5) * kRow];
              return (
                <path
                  key={`${h}.${place}`}
                  d={`M0 ${y0}C${kLines * 0.5} ${y0} ${kLines * 0.5} ${y1} ${kLines} ${y1}`}
                  fill="none"
                  stroke={props.heads.length > 1 ? SeriesColour(theme.value, h) : "var(--accent)"}
                  stroke-width={0.75 + 4 * p}
                  stroke-opacity={Math.min(0.12 + 0.88 * Math.sqrt(p), 1)}
                />
              );
            }),
          )}
        </svg>
        <ol onMouseLeave={() => props.onPoint(null)}>
          {places.map((place, i) => {
            const p = weights[i] as number;
            return (
              <li
                key={place}
                class={`${place === row.place ? "is-self" : ""}${place === props.pointed ? " pointed" : ""}`}
                onMouseEnter={() => props.onPoint(place)}
              >
                <span class="bar-label">{TokenLabel(ids[place] ?? 0)}</span>
                <span class="bar-track">
                  <i class="bar-after" style={{ width: `${(p / most) * 100}%` }} />
                </span>
                <output class="bar-number strong">{Digits(p, 4)}</output>
              </li>
            );
          })}
        </ol>
      </div>
      {places.length < row.T && places.length === kMostShown && (
        <p class="note">{words.weightiest(kMostShown)}</p>
      )}
    </section>
  );
}

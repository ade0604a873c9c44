import type { ComponentChildren, HTMLAttributes } from "preact";
import { RampTile } from "../colour";
import { theme } from "../state/theme";
import { Hex, TokenBytes, TokenLabel } from "../tokens";

export function Chip({ id }: { id: number | undefined }) {
  return <span class="chip">{TokenLabel(id ?? 0)}</span>;
}

// Something that has a colour elsewhere.
export function KeyEntry(props: { colour: string; children: ComponentChildren }) {
  return (
    <span class="key-entry">
      <i style={{ backgroundColor: props.colour }} />
      {props.children}
    </span>
  );
}

// Names and what they stand for; null for one that there is not.
export function Facts(props: {
  class: string;
  rows: (readonly [name: ComponentChildren, fact: ComponentChildren] | null)[];
}) {
  return (
    <dl class={props.class}>
      {props.rows.map(
        (row, i) =>
          row && (
            <div key={i}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

// Columns have a class for their cells; with `named` the first cell of a row is its head, with `scroll` (a name)
// the table scrolls by itself.
export function Table(props: {
  columns: (readonly [head: ComponentChildren, kind?: string])[];
  rows: ComponentChildren[][];
  caption?: string;
  named?: boolean;
  scroll?: string;
}) {
  const table = (
    <table>
      {props.caption && <caption class="unseen">{props.caption}</caption>}
      <thead>
        <tr>
          {props.columns.map(([head, kind], i) => (
            <th key={i} scope="col" class={kind}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {props.rows.map((cells, row) => (
          <tr key={row}>
            {cells.map((cell, i) => {
              const named = props.named && i === 0;
              const Cell = named ? "th" : "td";
              return (
                <Cell key={i} scope={named ? "row" : undefined} class={props.columns[i]?.[1]}>
                  {cell}
                </Cell>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
  return props.scroll ? (
    <div class="token-table" tabIndex={0} role="region" aria-label={props.scroll}>
      {table}
    </div>
  ) : (
    table
  );
}

// The part of a track that a bar fills, and its number.
type Share = readonly [part: number, said: string];

// What is said of a token by a bar: wide of what the model says, thin of what it is after that, or alone.
export interface TokenBar {
  id: number;
  raw?: Share;
  after?: Share;
  title?: string;
  onPick?: () => void;
}

export function Bars({ rows, chosen }: { rows: TokenBar[]; chosen?: number }) {
  return (
    <ol class={rows.some(({ raw, after }) => raw && after) ? "bars two" : "bars"}>
      {rows.map(({ id, raw, after, title, onPick }) => {
        const Row = onPick ? "button" : "span";
        return (
          <li key={id} class={id === chosen ? "is-this" : ""}>
            <Row class="bar" title={onPick && title} onClick={onPick}>
              <span class="bar-label">{TokenLabel(id)}</span>
              <span class="bar-track">
                {raw && <i class="bar-raw" style={{ width: `${raw[0] * 100}%` }} />}
                {after && <i class="bar-after" style={{ width: `${after[0] * 100}%` }} />}
              </span>
              {raw && <span class="bar-number">{raw[1]}</span>}
              {after && <span class="bar-number strong">{after[1]}</span>}
            </Row>
          </li>
        );
      })}
    </ol>
  );
}

// Tokens that can be gone through by mouse and by keys: a listbox with one tab stop, which is `stop`
// where none is picked.
export function TokenList(props: {
  class: string;
  label: string;
  count: number;
  at: number | null;
  stop?: number;
  option: (place: number) => HTMLAttributes<HTMLSpanElement>;
  onHover?: (place: number | null) => void;
  onPick: (place: number) => void;
  onEnter?: () => void;
  children?: ComponentChildren; // behind the tokens
}) {
  const { at, count } = props;
  const placeOf = (event: Event) => {
    const option = (event.target as HTMLElement).closest<HTMLElement>("[data-i]");
    return option ? Number(option.dataset.i) : null;
  };
  const pick = (event: Event) => {
    const place = placeOf(event);
    if (place !== null) props.onPick(place);
  };
  const keys = (event: KeyboardEvent) => {
    const here = placeOf(event) ?? at ?? 0;
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Enter" && props.onEnter) {
      event.preventDefault();
      props.onPick(here);
      props.onEnter();
    } else if (to !== undefined && to >= 0 && to < count) {
      event.preventDefault();
      (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-i="${to}"]`)?.focus();
    }
  };
  return (
    <div
      class={props.class}
      role="listbox"
      aria-label={props.label}
      aria-orientation="horizontal"
      onMouseOver={(event) => props.onHover?.(placeOf(event))}
      onMouseLeave={() => props.onHover?.(null)}
      onFocusIn={pick}
      onClick={pick}
      onKeyDown={keys}
    >
      {Array.from({ length: count }, (_, i) => (
        <span
          key={i}
          data-i={i}
          role="option"
          tabIndex={i === (at ?? props.stop ?? 0) ? 0 : -1}
          aria-selected={i === at}
          {...props.option(i)}
        />
      ))}
      {props.children}
    </div>
  );
}

// The class of the token at a place that is pointed at, or picked.
export function PickedClass(here: boolean, locked: boolean): string {
  return here ? (locked ? " chosen" : " pointed") : "";
}

// Tokens as chips. `strengths`, in [0,1] by place, colour them.
export function TokenStrip(props: {
  ids: number[];
  at: number;
  locked: boolean;
  strengths?: ArrayLike<number> | null;
  muted?: (place: number) => boolean;
  onHover?: (place: number | null) => void;
  onPick: (place: number) => void;
}) {
  return (
    <TokenList
      class="strip"
      label="Tokens of the text"
      count={props.ids.length}
      at={props.at}
      option={(i) => {
        const id = props.ids[i] as number;
        const t = props.strengths?.[i] ?? 0;
        const picked = PickedClass(i === props.at, props.locked);
        return {
          class: `chip${picked}${props.muted?.(i) ? " muted" : ""}`,
          title: `${i} · id ${id} · ${Hex(TokenBytes(id))}`,
          style: t > 0.004 ? { ...RampTile(theme.value, t) } : undefined,
          children: TokenLabel(id),
        };
      }}
      onHover={props.onHover}
      onPick={props.onPick}
    />
  );
}

import { Get } from "../api/http";
import type { LensRow } from "../api/types";
import { RampTile } from "../colour";
import { Digits, kNatsToBits, Percent } from "../format";
import { Failure } from "../parts/controls";
import { LineChart } from "../parts/line_chart";
import { Sheet } from "../parts/sheet";
import { useLoaded } from "../state/load";
import { NumberParam, Param, SetParams } from "../state/route";
import { info } from "../state/server";
import { theme } from "../state/theme";
import { WithTrace } from "../state/trace";
import { text } from "../text";
import { TokenLabel } from "../tokens";

const words = text.inside.lens;
const kColumns = 12; // positions at once
const kTop = 5;

interface Lens {
  final: Record<string, [id: number, p: number]>;
  rows: LensRow[];
}

function LensPanel(props: {
  ids: number[];
  place: number;
  depth: number;
  rows: LensRow[];
  final: [number, number];
}) {
  const row = props.rows[props.depth];
  if (!row) return null;
  const most = Math.max(...row.top.map(([, p]) => p));
  const layerName = (i: number) => (i === 0 ? words.embed_short : String(i - 1));
  return (
    <section class="panel stack" aria-label={words.panel}>
      <div class="panel-head">
        <h2>{row.layer === "embed" ? words.after_embedding : words.after(row.layer)}</h2>
        <span class="faint small">{words.behind}</span>
        <span class="chip">{TokenLabel(props.ids[props.place] ?? 0)}</span>
      </div>
      <ol class="bars">
        {row.top.map(([id, p]) => (
          <li key={id} class={id === props.final[0] ? "is-this" : ""}>
            <span class="bar">
              <span class="bar-label">{TokenLabel(id)}</span>
              <span class="bar-track">
                <i class="bar-after" style={{ width: `${(p / most) * 100}%` }} />
              </span>
              <span class="bar-number strong">{Percent(p)}</span>
            </span>
          </li>
        ))}
      </ol>
      <dl class="facts small">
        <dt>{words.kl}</dt>
        <dd>
          {Digits(row.kl * kNatsToBits, 3)} {text.token.bits}
        </dd>
        <dt>{text.token.entropy}</dt>
        <dd>
          {Digits(row.H * kNatsToBits, 3)} {text.token.bits}
        </dd>
        <dt>{words.rank_of(TokenLabel(props.final[0]))}</dt>
        <dd>{row.rank_final}</dd>
      </dl>
      <h3>{words.rank_through(TokenLabel(props.final[0]))}</h3>
      <LineChart
        label={words.rank_through(TokenLabel(props.final[0]))}
        log
        whole
        downward
        mark={props.depth}
        ticks={layerName}
        lines={[
          {
            name: "rank",
            colour: "var(--accent)",
            ys: props.rows.map(({ rank_final }) => rank_final),
          },
        ]}
      />
      <h3>{words.kl}</h3>
      <LineChart
        label={words.kl}
        mark={props.depth}
        ticks={layerName}
        lines={[
          { name: "kl", colour: "var(--accent)", ys: props.rows.map(({ kl }) => kl * kNatsToBits) },
        ]}
      />
    </section>
  );
}

export function LensView({ ids }: { ids: number[] }) {
  const L = info.value?.model?.n_layer ?? 0;
  const T = ids.length;
  const place = NumberParam("q", T - 1, 0, T - 1);
  const depth = NumberParam("l", L, 0, L);
  const first = Math.floor(place / kColumns) * kColumns;
  const places = Array.from({ length: Math.min(kColumns, T - first) }, (_, i) => first + i);
  const loaded = useLoaded(`${ids.join(",")}:${first}`, (signal) =>
    WithTrace(
      ids,
      (trace) => Get<Lens>(`${trace}/lens?pos=${places.join(",")}&top=${kTop}`, signal),
      signal,
    ),
  );
  const lens = loaded.fresh ? loaded.value : null;
  const rowsOf = (at: number) => lens?.rows.filter(({ pos }) => pos === at) ?? [];
  const columns = places.map(rowsOf);
  const keys = (event: KeyboardEvent) => {
    const by = (
      { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as Record<
        string,
        [number, number]
      >
    )[event.key];
    if (!by) return;
    event.preventDefault();
    SetParams({
      l: Math.min(Math.max(depth + by[0], 0), L),
      q: Math.min(Math.max(place + by[1], 0), T - 1),
    });
    setTimeout(() => document.querySelector<HTMLElement>(".lens [tabindex='0']")?.focus());
  };
  return (
    <div class="inside">
      <section class="panel">
        <div class="panel-head">
          <h2>{words.title}</h2>
          <span class="grow" />
          <button class="small" disabled={first === 0} onClick={() => SetParams({ q: first - 1 })}>
            ←
          </button>
          <span class="small soft">{words.positions(first, first + places.length - 1, T)}</span>
          <button
            class="small"
            disabled={first + kColumns >= T}
            onClick={() => SetParams({ q: first + kColumns })}
          >
            →
          </button>
        </div>
        <Failure message={loaded.failure} />
        <div class="lens-scroll">
          <table class="lens" onKeyDown={keys}>
            <thead>
              <tr>
                <th />
                {places.map((at) => (
                  <th key={at} scope="col">
                    <span class="faint">{at}</span>
                    <br />
                    {TokenLabel(ids[at] ?? 0)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {Array.from({ length: L + 1 }, (_, row) => (
                <tr key={row}>
                  <th scope="row">{row === 0 ? words.embed : words.block(row - 1)}</th>
                  {places.map((at, i) => {
                    const cell = columns[i]?.[row];
                    const chosen = at === place && row === depth;
                    if (!cell) return <td key={at} class="waiting" />;
                    const [id, p] = cell.top[0] ?? [0, 0];
                    return (
                      <td key={at}>
                        <button
                          class={`lens-cell${chosen ? " chosen" : ""}`}
                          tabIndex={chosen ? 0 : -1}
                          aria-pressed={chosen}
                          title={`${TokenLabel(id)} ${Percent(p)}`}
                          onClick={() => SetParams({ q: at, l: row })}
                          onPointerEnter={({ pointerType }) =>
                            pointerType === "mouse" && SetParams({ q: at, l: row })
                          }
                          style={RampTile(theme.value, p)}
                        >
                          {TokenLabel(id)}
                        </button>
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <p class="note">{words.explain}</p>
      </section>
      <Sheet
        open={Param("q") !== "" || Param("l") !== ""}
        onClose={() => SetParams({ q: null, l: null })}
      >
        {lens?.final[place] && (
          <LensPanel
            ids={ids}
            place={place}
            depth={depth}
            rows={rowsOf(place)}
            final={lens.final[place] as [number, number]}
          />
        )}
      </Sheet>
    </div>
  );
}

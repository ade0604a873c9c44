import { Get } from "../api/http";
import type { LensRow } from "../api/types";
import { RampTile } from "../colour";
import { Bits, kNatsToBits, Percent } from "../format";
import { ArrowOf } from "../keys";
import { Failure, Sheet } from "../parts/controls";
import { LineChart } from "../parts/line_chart";
import { Bars, Chip, Facts } from "../parts/lists";
import { useTrace } from "../state/load";
import { NumberParam, Param, SetParams } from "../state/route";
import { info } from "../state/server";
import { theme } from "../state/theme";
import { TokenLabel } from "../tokens";

const kColumns = 12; // positions at once
const kTop = 5;
const kFarness = "distance to the end (KL)";

interface Lens {
  final: Record<string, [id: number, p: number]>;
  rows: LensRow[];
}

function LensPanel(props: {
  id: number | undefined;
  depth: number;
  rows: LensRow[];
  final: number;
}) {
  const { depth, rows, final } = props;
  const row = rows[depth];
  if (!row) return null;
  const most = Math.max(...row.top.map(([, p]) => p));
  const ranks = `Rank of the final “${TokenLabel(final)}” through the layers`;
  const layerName = (i: number) => (i === 0 ? "emb" : String(i - 1));
  const chart = { mark: depth, say: layerName };
  const line = (of: (one: LensRow) => number) => [
    { name: "", colour: "var(--accent)", ys: rows.map(of) },
  ];
  return (
    <section class="panel stack" aria-label="The chosen cell">
      <div class="panel-head">
        <h2>{row.layer === "embed" ? "After the embedding" : `After block ${row.layer}`}</h2>
        <span class="faint small">next after</span>
        <Chip id={props.id} />
      </div>
      <Bars
        chosen={final}
        rows={row.top.map(([id, p]) => ({ id, after: [p / most, Percent(p)] }))}
      />
      <Facts
        class="facts small"
        rows={[
          [kFarness, Bits(row.kl)],
          ["entropy here", Bits(row.H)],
          [`rank of “${TokenLabel(final)}” here`, row.rank_final],
        ]}
      />
      <h3>{ranks}</h3>
      <LineChart
        {...chart}
        label={ranks}
        y={{ log: true, whole: true, downward: true }}
        lines={line(({ rank_final }) => rank_final)}
      />
      <h3>{kFarness}</h3>
      <LineChart {...chart} label={kFarness} lines={line(({ kl }) => kl * kNatsToBits)} />
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
  const path = `lens?pos=${places}&top=${kTop}`;
  const { fresh: lens, failure } = useTrace(ids, path, (trace, signal) =>
    Get<Lens>(`${trace}/${path}`, signal),
  );
  const rowsOf = (at: number) => lens?.rows.filter(({ pos }) => pos === at) ?? [];
  const columns = places.map(rowsOf);
  const keys = (event: KeyboardEvent) => {
    const by = ArrowOf(event);
    if (!by) return;
    SetParams({
      l: Math.min(Math.max(depth + by[0], 0), L),
      q: Math.min(Math.max(place + by[1], 0), T - 1),
    });
    setTimeout(() => document.querySelector<HTMLElement>(".lens [tabindex='0']")?.focus());
  };
  const turn = (label: string, to: number) => (
    <button class="small" disabled={to < 0 || to >= T} onClick={() => SetParams({ q: to })}>
      {label}
    </button>
  );
  const cell = (at: number, row: number, of: LensRow | undefined) => {
    if (!of) return <td key={at} class="waiting" />;
    const chosen = at === place && row === depth;
    const [id, p] = of.top[0] ?? [0, 0];
    const pick = () => SetParams({ q: at, l: row });
    return (
      <td key={at}>
        <button
          class={`lens-cell${chosen ? " chosen" : ""}`}
          tabIndex={chosen ? 0 : -1}
          aria-pressed={chosen}
          title={`${TokenLabel(id)} ${Percent(p)}`}
          onClick={pick}
          onPointerEnter={({ pointerType }) => pointerType === "mouse" && pick()}
          style={{ ...RampTile(theme.value, p) }}
        >
          {TokenLabel(id)}
        </button>
      </td>
    );
  };
  return (
    <div class="inside">
      <section class="panel">
        <div class="panel-head">
          <h2>What it would say so far</h2>
          <span class="grow" />
          {turn("←", first - 1)}
          <span class="small soft">
            tokens {first}–{first + places.length - 1} of {T}
          </span>
          {turn("→", first + kColumns)}
        </div>
        <Failure message={failure} />
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
                  <th scope="row">{row === 0 ? "embedding" : `block ${row - 1}`}</th>
                  {places.map((at, i) => cell(at, row, columns[i]?.[row]))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <p class="note">
          Each cell: the likeliest next token if the model ended after that block. The stronger the
          colour, the surer it is.
        </p>
      </section>
      <Sheet
        open={Param("q") !== "" || Param("l") !== ""}
        onClose={() => SetParams({ q: null, l: null })}
      >
        {lens?.final[place] && (
          <LensPanel
            id={ids[place]}
            depth={depth}
            rows={rowsOf(place)}
            final={lens.final[place][0]}
          />
        )}
      </Sheet>
    </div>
  );
}

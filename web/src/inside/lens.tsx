import { useEffect, useRef } from "preact/hooks";
import { Get } from "../api/http";
import type { LensRow } from "../api/types";
import { RampTile } from "../colour";
import { Bits, kNatsToBits, Percent, Whole } from "../format";
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
const kRowHead = 84; // pixels
const kAir = 4; // pixels
const kFarness = "distance to the last layer (KL)";

// The first position of the page that a place is on. Pages are counted from the end of the text, so that
// all are full but for a text that has no more.
function FirstOfPage(place: number, T: number): number {
  const behind = Math.floor((T - 1 - place) / kColumns); // pages
  return Math.max(0, T - kColumns * (behind + 1));
}

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
          [`rank of “${TokenLabel(final)}” here`, Whole(row.rank_final)],
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
  const first = FirstOfPage(place, T);
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
  const turn = (label: string, name: string, to: number) => (
    <button
      class="small"
      aria-label={name}
      disabled={to < 0 || to >= T}
      onClick={() => SetParams({ q: to })}
    >
      {label}
    </button>
  );
  // A narrow screen begins at the chosen token, too.
  const scroller = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const [box, head] = [scroller.current, scroller.current?.querySelector(".lens-at")];
    if (!box || !head) return;
    const [a, b] = [box.getBoundingClientRect(), head.getBoundingClientRect()];
    const left = a.left + kRowHead; // which stays where it is
    if (b.right > a.right) box.scrollLeft += b.right - a.right + kAir;
    else if (b.left < left) box.scrollLeft -= left - b.left + kAir;
  }, [place, T]);
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
          <h2>The next token, as each layer predicts it</h2>
          <span class="grow" />
          {turn("←", "Earlier tokens", first - 1)}
          <span class="small soft">
            tokens {Whole(first)}–{Whole(first + places.length - 1)} of {Whole(T)}
          </span>
          {turn("→", "Later tokens", first + places.length)}
        </div>
        <Failure message={failure} />
        <div class="lens-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Logit lens">
          <table class="lens" onKeyDown={keys}>
            <thead>
              <tr>
                <th />
                {places.map((at) => (
                  <th key={at} scope="col" class={at === place ? "lens-at" : ""}>
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
          Each cell shows the likeliest next token if the model ended after that block. The stronger
          the colour, the more probable the token.
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

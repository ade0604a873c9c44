import { useState } from "preact/hooks";
import { GetNumbers, Values } from "../api/numbers";
import { SeriesColour } from "../colour";
import { Digits } from "../format";
import { Failure } from "../parts/controls";
import { LineChart } from "../parts/line_chart";
import { KeyEntry } from "../parts/lists";
import { ValueMap } from "../parts/maps";
import { useLoaded } from "../state/load";
import { Param, SetParams } from "../state/route";
import { info, OfModel } from "../state/server";
import { theme } from "../state/theme";

const kSize = 256;
const kMostDims = 8;

// A view of the table of positions; `told` says what a row and a column are, by the positions of the rows and what
// the columns are of.
function Picture(props: {
  title: string;
  explain: string;
  view: "sim" | "values";
  told: (row: number, column: number) => string;
}) {
  const { title, view } = props;
  const { value, failure } = useLoaded(view, async (signal) => {
    const frame = await GetNumbers(OfModel(`api/wpe?view=${view}&size=${kSize}`), signal);
    return { ...frame, values: Values(frame) };
  });
  const [told, setTold] = useState("");
  const [rows = 0, columns = 0] = value?.shape ?? [];
  const { positions = [], channels = positions } = (value?.about ?? {}) as Record<string, number[]>;
  return (
    <section class="panel stack" aria-label={title}>
      <h2>{title}</h2>
      <Failure message={failure} />
      {value && (
        <ValueMap
          label={title}
          values={value.values}
          rows={rows}
          columns={columns}
          most={value.values.reduce((a, b) => Math.max(a, Math.abs(b)), 0)}
          square
          onPoint={(row, column) => {
            const of = props.told(positions[row] ?? 0, channels[column] ?? 0);
            setTold(`${of}: ${Digits(value.values[row * columns + column], 3)}`);
          }}
        />
      )}
      <p class="note">{told || props.explain}</p>
    </section>
  );
}

export function PositionsView() {
  const C = info.value?.model?.n_embd ?? 1;
  const said = Param("dims", "0,1,2,3");
  const named = said.split(",").map((one) => parseInt(one, 10));
  const dims = [...new Set(named.filter((dim) => dim >= 0 && dim < C))].slice(0, kMostDims);
  const curves = useLoaded(dims.length > 0 ? dims.join(",") : null, (signal) =>
    GetNumbers(OfModel(`api/wpe?view=curves&dims=${dims}`), signal),
  );
  const P = curves.fresh?.shape[1] ?? 0;
  const lines = dims.map((dim, i) => ({
    name: String(dim),
    colour: SeriesColour(theme.value, i),
    ys: curves.fresh?.data.subarray(i * P, (i + 1) * P) ?? [],
  }));
  return (
    <div class="positions">
      <Picture
        title="How alike positions are"
        explain="The cosine of each two positions' embeddings; blue is alike, ochre opposite."
        view="sim"
        told={(a, b) => `Positions ${a} and ${b}`}
      />
      <Picture
        title="The table itself"
        explain="Rows are positions, columns channels."
        view="values"
        told={(position, channel) => `Position ${position}, channel ${channel}`}
      />
      <section class="panel stack wide" aria-label="Channels over the positions">
        <div class="panel-head">
          <h2>Channels over the positions</h2>
          <span class="grow" />
          <label class="row small">
            <span class="soft">Channels</span>
            <input
              type="text"
              value={said}
              onChange={(event) => SetParams({ dims: event.currentTarget.value })}
            />
          </label>
        </div>
        <Failure message={curves.failure} />
        {curves.fresh && (
          <LineChart label="Channels over the positions" height={180} lines={lines} />
        )}
        <div class="row small">
          {lines.map(({ name, colour }) => (
            <KeyEntry key={name} colour={colour}>
              {name}
            </KeyEntry>
          ))}
        </div>
      </section>
    </div>
  );
}

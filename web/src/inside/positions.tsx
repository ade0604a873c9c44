import { useState } from "preact/hooks";
import { GetNumbers, Values, type Numbers } from "../api/numbers";
import { SeriesColour } from "../colour";
import { Digits, Whole } from "../format";
import { Failure, Pick } from "../parts/controls";
import { LineChart } from "../parts/line_chart";
import { KeyEntry } from "../parts/lists";
import { ValueMap } from "../parts/maps";
import { useLoaded } from "../state/load";
import { NumberParam, Param, SetParams } from "../state/route";
import { info, OfModel } from "../state/server";
import { theme } from "../state/theme";

const kSize = 256;
const kMostDims = 8;
const kFirst = 256; // positions of hands, which come round while others hardly move

// What is said of a table of positions, and of hands that turn with them.
const kTable = {
  sim: "The cosine of the embeddings of each two positions. Blue: alike, ochre: opposite.",
  map: ["The table of positions", "Rows are positions, columns are channels. Blue: above 0, ochre: below."],
  curves: "Channels over the positions",
} as const;
const kHands = {
  sim: "How well a query fits a key of the same numbers at another position. Blue: alike, ochre: opposite. It depends only on their distance.",
  map: [
    "Rotation by position",
    "Queries and keys are rotated by their position: each two of their numbers are a hand. Rows are the first positions; columns are the cosines of the hands' angles, then their sines.",
  ],
  curves: "Rotation over the positions",
} as const;

function WavelengthsOf(frame: Numbers | null): number[] {
  return (frame?.about.wavelengths ?? []) as number[];
}

const kTicks = 4; // parts of an axis

// The numbers along a side of a map, by its rows or columns.
function MapAxis({ side, name, values }: { side: "left" | "bottom"; name: string; values: number[] }) {
  const last = values.length - 1;
  const places = Array.from({ length: kTicks + 1 }, (_, i) => Math.round((i / kTicks) * last));
  const along = side === "left" ? "top" : "left";
  return (
    <div class={`map-axis ${side}`} aria-hidden="true">
      {[...new Set(places)].map((at) => (
        <span key={at} style={{ [along]: `${((at + 0.5) / values.length) * 100}%` }}>
          {Whole(values[at] ?? 0)}
        </span>
      ))}
      <b>{name}</b>
    </div>
  );
}

// A view of the positions; `told` says what a row and a column are, by the positions of the rows and what
// the columns are of, whose name is `across`.
function Picture(props: {
  title: string;
  explain: string;
  path: string;
  across: string;
  told: (row: number, column: number) => string;
}) {
  const { title, path } = props;
  const { value, failure } = useLoaded(path, async (signal) => {
    const frame = await GetNumbers(OfModel(path), signal);
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
        <div class="map-frame">
          <MapAxis side="left" name="position" values={positions} />
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
          <MapAxis side="bottom" name={props.across} values={channels} />
        </div>
      )}
      <p class="note">{told || props.explain}</p>
    </section>
  );
}

// How many positions each hand needs to come round.
function Wavelengths({ frame }: { frame: Numbers }) {
  const ys = WavelengthsOf(frame);
  const title = "Positions until a hand has turned once";
  const line = { name: title, colour: SeriesColour(theme.value, 0), ys };
  return (
    <section class="panel stack wide" aria-label={title}>
      <h2>{title}</h2>
      <LineChart label={title} height={140} lines={[line]} y={{ log: true, whole: true }} />
      <p class="note">
        By the number of the hand. The first turns by one radian with every position; the last needs{" "}
        {Whole(Math.round(ys.at(-1) ?? 0))} positions for one turn. The context has{" "}
        {Whole(info.value?.model?.n_ctx ?? 0)}.
      </p>
    </section>
  );
}

export function PositionsView() {
  const model = info.value?.model;
  const turned = model?.block.positions === "rotary";
  const width = model?.block.position_channels ?? 1;
  const L = model?.n_layer ?? 1;
  const words = turned ? kHands : kTable;
  const said = Param("dims", "0,1,2,3");
  const named = said.split(",").map((one) => parseInt(one, 10));
  const dims = [...new Set(named.filter((dim) => dim >= 0 && dim < width))].slice(0, kMostDims);
  const layer = NumberParam("l", -1, 0, L - 1);
  const first = Math.min(kFirst, model?.n_ctx ?? kFirst);
  const of = turned ? `&to=${first}${layer >= 0 ? `&layer=${layer}` : ""}` : "";
  const path = `api/wpe?view=curves&dims=${dims}${of}`;
  const curves = useLoaded(dims.length > 0 ? path : null, (signal) =>
    GetNumbers(OfModel(path), signal),
  );
  const frame = curves.fresh;
  const P = frame?.shape[1] ?? 0;
  const lines = dims.map((dim, i) => ({
    name: String(dim),
    colour: SeriesColour(theme.value, i),
    // Of hands no more than is drawn: their ends are 1 and -1.
    ys: Array.from(frame?.data.subarray(i * P, (i + 1) * P) ?? [], (y) =>
      turned ? Math.round(y * 1000) / 1000 : y,
    ),
  }));
  const alike = (curves.value?.about.layers ?? []) as number[];
  const pairs = width / 2;
  const channel = (at: number) =>
    turned ? `hand ${at % pairs}, ${at < pairs ? "cosine" : "sine"}` : `channel ${at}`;
  return (
    <div class="positions">
      {alike.length > 0 && alike.length < L && (
        <div class="row wide">
          <Pick
            name="Layer"
            value={String(curves.value?.about.layer)}
            options={Array.from({ length: L }, (_, l) => [String(l), String(l)] as const)}
            onPick={(l) => SetParams({ l })}
          />
          <span class="note">Layers {alike.join(", ")} rotate alike.</span>
        </div>
      )}
      <Picture
        title="How alike positions are"
        explain={words.sim}
        path={`api/wpe?view=sim&size=${kSize}${of}`}
        across="position"
        told={(a, b) => `Positions ${a} and ${b}`}
      />
      <Picture
        title={words.map[0]}
        explain={words.map[1]}
        path={`api/wpe?view=values&size=${kSize}${of}`}
        across={turned ? "column" : "channel"}
        told={(position, at) => `Position ${position}, ${channel(at)}`}
      />
      {turned && frame && <Wavelengths frame={frame} />}
      <section class="panel stack wide" aria-label={words.curves}>
        <div class="panel-head">
          <h2>{words.curves}</h2>
          <span class="grow" />
          <label class="row small">
            <span class="soft">{turned ? "Columns" : "Channels"}</span>
            <input
              type="text"
              value={said}
              onChange={(event) => SetParams({ dims: event.currentTarget.value })}
            />
          </label>
        </div>
        <Failure message={curves.failure} />
        {frame && <LineChart label={words.curves} height={180} lines={lines} />}
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

import { useState } from "preact/hooks";
import { GetNumbers, Values, type Numbers } from "../api/numbers";
import { SeriesColour } from "../colour";
import { Digits } from "../format";
import { Failure } from "../parts/controls";
import { LineChart } from "../parts/line_chart";
import { ValueMap } from "../parts/value_map";
import { useLoaded } from "../state/load";
import { Param, SetParams } from "../state/route";
import { info, OfModel } from "../state/server";
import { theme } from "../state/theme";
import { text } from "../text";

const words = text.inside.positions;
const kSize = 256;
const kMostDims = 8;

function Picture(props: {
  title: string;
  explain: string;
  path: string;
  square?: boolean;
  told: (frame: Numbers, row: number, column: number, value: string) => string;
}) {
  const loaded = useLoaded(props.path, async (signal) => {
    const frame = await GetNumbers(OfModel(props.path), signal);
    return { frame, values: Values(frame) };
  });
  const [told, setTold] = useState("");
  const [rows = 0, columns = 0] = loaded.value?.frame.shape ?? [];
  const most = loaded.value ? loaded.value.values.reduce((a, b) => Math.max(a, Math.abs(b)), 0) : 1;
  return (
    <section class="panel stack" aria-label={props.title}>
      <h2>{props.title}</h2>
      <Failure message={loaded.failure} />
      {loaded.value && (
        <ValueMap
          label={props.title}
          values={loaded.value.values}
          rows={rows}
          columns={columns}
          most={most}
          square={props.square}
          onPoint={(row, column) =>
            loaded.value &&
            setTold(
              props.told(
                loaded.value.frame,
                row,
                column,
                Digits(loaded.value.values[row * columns + column], 3),
              ),
            )
          }
        />
      )}
      <p class="note">{told || props.explain}</p>
    </section>
  );
}

export function PositionsView() {
  const C = info.value?.model?.n_embd ?? 1;
  const said = Param("dims", "0,1,2,3");
  const dims = [
    ...new Set(
      said
        .split(",")
        .map((one) => parseInt(one, 10))
        .filter((dim) => dim >= 0 && dim < C),
    ),
  ].slice(0, kMostDims);
  const curves = useLoaded(dims.length > 0 ? dims.join(",") : null, (signal) =>
    GetNumbers(OfModel(`api/wpe?view=curves&dims=${dims.join(",")}`), signal),
  );
  const P = curves.value?.shape[1] ?? 0;
  const positions = (frame: Numbers) => frame.about.positions as number[];
  return (
    <div class="positions">
      <Picture
        title={words.similar}
        explain={words.similar_explain}
        path={`api/wpe?view=sim&size=${kSize}`}
        square
        told={(frame, row, column, value) =>
          words.told_similar(positions(frame)[row] ?? 0, positions(frame)[column] ?? 0, value)
        }
      />
      <Picture
        title={words.values}
        explain={words.values_explain}
        path={`api/wpe?view=values&size=${kSize}`}
        square
        told={(frame, row, column, value) =>
          words.told_value(
            positions(frame)[row] ?? 0,
            (frame.about.channels as number[])[column] ?? 0,
            value,
          )
        }
      />
      <section class="panel stack wide" aria-label={words.curves}>
        <div class="panel-head">
          <h2>{words.curves}</h2>
          <span class="grow" />
          <label class="row small">
            <span class="soft">{words.dims}</span>
            <input
              type="text"
              value={said}
              onChange={(event) => SetParams({ dims: event.currentTarget.value })}
            />
          </label>
        </div>
        <Failure message={curves.failure} />
        {curves.fresh && curves.value && (
          <LineChart
            label={words.curves}
            height={180}
            ticks={String}
            lines={dims.map((dim, i) => ({
              name: String(dim),
              colour: SeriesColour(theme.value, i),
              ys: curves.value?.data.subarray(i * P, (i + 1) * P) ?? [],
            }))}
          />
        )}
        <div class="row small">
          {dims.map((dim, i) => (
            <span key={dim} class="key-entry">
              <i style={{ backgroundColor: SeriesColour(theme.value, i) }} />
              {dim}
            </span>
          ))}
        </div>
      </section>
    </div>
  );
}

import { useEffect, useMemo, useState } from "preact/hooks";
import { GetNumbers, type Numbers } from "../api/numbers";
import { RampCss } from "../colour";
import { Digits, Percent } from "../format";
import { useKeys } from "../keys";
import { Check, Failure, Pick, Segments } from "../parts/controls";
import { HeatMap, type Cell } from "../parts/heat_map";
import { Say } from "../parts/live";
import { Sheet } from "../parts/sheet";
import { TokenStrip } from "../parts/strip";
import { CopyText } from "../save";
import { useLoaded } from "../state/load";
import { Address, NumberParam, Param, SetParams } from "../state/route";
import { HasFeature, info } from "../state/server";
import { theme } from "../state/theme";
import { WithTrace } from "../state/trace";
import { text } from "../text";
import { TokenLabel } from "../tokens";
import { HeadGrid } from "./head_grid";
import { useInspected } from "./inspected";
import { PairTable } from "./pair_table";
import { QueryPanel, type Direction, type PlacedRow } from "./query_panel";
import { SaveMap } from "./save_map";
import { Steps } from "./steps";
import { TextBar } from "./text_bar";
import {
  FirstShare,
  HeadWeights,
  kScales,
  Scaled,
  Shades,
  WeightOf,
  type Look,
  type Scale,
} from "./weights";

const words = text.attn;
const kScaleNames = kScales.map((scale) => [scale, words.scales[scale]] as const);
const kJoins = [
  ["", words.one_head],
  ["mean", words.mean],
  ["max", words.max],
] as const;
const kThumb = 48;

function HeadOf(frame: Numbers): HeadWeights {
  return new HeadWeights(frame.about.T as number, frame.about.layout === "tril", frame.data);
}

function Looking({ ids }: { ids: number[] }) {
  const model = info.value?.model;
  const [L, H, T] = [model?.n_layer ?? 1, model?.n_head ?? 1, ids.length];
  const key = ids.join(",");
  const layer = NumberParam("l", 0, 0, L - 1);
  const head = NumberParam("h", 0, 0, H - 1);
  const scale = kScales.find((one) => one === Param("s")) ?? "sqrt";
  const direction: Direction = Param("d") === "key" ? "key" : "query";
  const join = (["mean", "max"] as const).find((one) => one === Param("j"));
  const of = join ?? head; // what the map is of
  const title = join ? words.joined(layer, words[join]) : words.head(layer, head);
  const look: Look = { scale, per_row: Param("row") === "1", first_aside: Param("first") === "1" };
  const locked =
    Param("q") !== ""
      ? { row: NumberParam("q", 0, 0, T - 1), column: NumberParam("k", 0, 0, T - 1) }
      : null;
  const [pointed, setPointed] = useState<Cell | null>(null);
  const [lines, setLines] = useState<number[]>([head]);
  useEffect(() => setLines([head]), [layer, head]);
  const cell = pointed ?? locked ?? { row: T - 1, column: Math.max(T - 2, 0) };
  const place = direction === "query" ? cell.row : cell.column;
  const other = direction === "query" ? cell.column : cell.row;

  const thumbs = useLoaded(key, (signal) =>
    WithTrace(ids, (trace) => GetNumbers(`${trace}/thumbs?size=${kThumb}`, signal), signal),
  );
  const scores = useLoaded(key, (signal) =>
    WithTrace(ids, (trace) => GetNumbers(`${trace}/scores`, signal), signal),
  );
  const map = useLoaded(`${key}:${layer}:${join ?? head}`, (signal) =>
    WithTrace(
      ids,
      async (trace) => {
        const one = async (h: number) =>
          HeadOf(await GetNumbers(`${trace}/attn/${layer}/${h}`, signal));
        return join
          ? HeadWeights.Join(await Promise.all(Array.from({ length: H }, (_, h) => one(h))), join)
          : one(head);
      },
      signal,
    ),
  );
  const exact = useLoaded(`${key}:${layer}:${direction}:${place}`, (signal) =>
    WithTrace(
      ids,
      async (trace): Promise<PlacedRow> => {
        const frame = await GetNumbers(
          `${trace}/row?${direction === "query" ? "q" : "key"}=${place}&l=${layer}`,
          signal,
        );
        return { place, direction, H, T, weights: frame.data as Float32Array };
      },
      signal,
    ),
  );
  const weights = map.value?.T === T ? map.value : null;
  const shades = useMemo(
    () => (weights ? Shades(weights, look) : null),
    [weights, scale, look.per_row, look.first_aside],
  );
  const labels = useMemo(() => ids.map(TokenLabel), [key]);
  const strengths = useMemo(() => {
    if (!shades) return null;
    return ids.map((_, i) =>
      Math.max(0, shades[direction === "query" ? place * T + i : i * T + place] ?? 0),
    );
  }, [shades, direction, place]);

  const row = exact.fresh ? exact.value : null;
  const p = row ? WeightOf(row, of, other) : null;
  const hidden = weights !== null && !weights.Seen(cell.row, cell.column);
  const told = hidden
    ? words.hidden(cell.row, labels[cell.row] ?? "", cell.column, labels[cell.column] ?? "")
    : words.told(
        cell.row,
        labels[cell.row] ?? "",
        cell.column,
        labels[cell.column] ?? "",
        p === null ? "…" : Digits(p, 4),
        join ? words[join] : words.head_short(layer, head),
      );
  useEffect(() => {
    if ((p !== null || hidden) && (locked || pointed)) Say(told);
  }, [told]);

  const pick = (at: Cell) => {
    setPointed(null);
    SetParams({ q: at.row, k: at.column });
  };
  const letGo = () => {
    setPointed(null);
    SetParams({ q: null, k: null });
  };
  const pickPlace = (at: number) =>
    pick(
      direction === "query"
        ? { row: at, column: Math.min(at, cell.column) }
        : { row: Math.max(at, cell.row), column: at },
    );
  const point = (at: number | null) =>
    setPointed(
      at === null
        ? null
        : direction === "query"
          ? { row: at, column: Math.min(at, locked?.column ?? at) }
          : { row: Math.max(at, locked?.row ?? at), column: at },
    );
  const choose = (l: number, h: number) =>
    SetParams({ l: Math.min(Math.max(l, 0), L - 1), h: Math.min(Math.max(h, 0), H - 1), j: null });
  const turn = () => SetParams({ d: direction === "query" ? "key" : null });
  const nextScale = () =>
    SetParams({ s: kScales[(kScales.indexOf(scale) + 1) % kScales.length] ?? "sqrt" });
  const save = () => shades && SaveMap(ids, shades, title);
  useKeys([
    { key: "j", label: text.keys.layer_down, run: () => choose(layer + 1, head) },
    { key: "k", label: text.keys.layer_up, run: () => choose(layer - 1, head) },
    { key: "l", label: text.keys.head_right, run: () => choose(layer, head + 1) },
    { key: "h", label: text.keys.head_left, run: () => choose(layer, head - 1) },
    { key: "n", label: text.keys.next_token, run: () => pickPlace(Math.min(place + 1, T - 1)) },
    { key: "p", label: text.keys.previous_token, run: () => pickPlace(Math.max(place - 1, 0)) },
    { key: "r", label: text.keys.rotate, run: turn },
    { key: "g", label: text.keys.scale, run: nextScale },
    { key: "e", label: text.keys.save, run: () => void save() },
    { key: "Escape", label: text.keys.stop, run: letGo },
  ]);
  const failure = thumbs.failure || map.failure || exact.failure || scores.failure;
  const asTable = Param("view") === "table";
  return (
    <>
      <TokenStrip
        ids={ids}
        at={place}
        locked={locked !== null}
        strengths={strengths}
        muted={(i) => look.first_aside && i === 0}
        onHover={point}
        onPick={pickPlace}
      />
      <Failure message={failure} />
      <div class="toolbar row">
        <Segments
          name={words.scale}
          value={scale}
          options={kScaleNames}
          onPick={(value: Scale) => SetParams({ s: value })}
        />
        <Check
          checked={look.per_row}
          title={words.per_row_help}
          onChange={(on) => SetParams({ row: on ? 1 : null })}
        >
          {words.per_row}
        </Check>
        <Check
          checked={look.first_aside}
          title={words.first_help}
          onChange={(on) => SetParams({ first: on ? 1 : null })}
        >
          {words.first}
          {weights && <span class="faint"> {Percent(FirstShare(weights))}</span>}
        </Check>
        <Pick
          label={words.shows}
          value={join ?? ""}
          options={kJoins}
          onPick={(value) => SetParams({ j: value })}
        />
        <span class="grow" />
        <button
          class="small"
          aria-pressed={direction === "key"}
          onClick={turn}
          title={text.keys.rotate}
        >
          {words.turned[direction]}
        </button>
        <button
          class="small"
          aria-pressed={asTable}
          onClick={() => SetParams({ view: asTable ? null : "table" })}
        >
          {words.as_table}
        </button>
        <button
          class="small"
          onClick={() => void CopyText(Address()).then(() => Say(words.copied))}
        >
          {words.copy_link}
        </button>
        <button class="small" disabled={!shades} onClick={save}>
          {words.save}
        </button>
      </div>
      <div class="attn">
        <HeadGrid
          thumbs={thumbs.value}
          scores={scores.value}
          chosen={{ layer, head }}
          scale={scale}
          onPick={(one) => choose(one.layer, one.head)}
        />
        <section class="panel map-panel" aria-label={title}>
          <div class="panel-head">
            <h2>{title}</h2>
            <output class="soft small" id="told">
              {told}
            </output>
          </div>
          {join && <p class="note">{words.lossy}</p>}
          {asTable && weights ? (
            <PairTable ids={ids} layer={layer} of={of} weights={weights} />
          ) : !shades ? (
            !failure && <p class="empty">{text.server.loading}</p>
          ) : (
            <HeatMap
              label={told}
              kind={words.map_kind}
              labels={labels}
              shades={shades}
              cell={cell}
              locked={locked !== null}
              onPoint={setPointed}
              onPick={pick}
            />
          )}
          <div class="map-foot">
            <span class="legend">
              0
              <span class="ramp">
                {Array.from({ length: 16 }, (_, i) => (
                  <RampStep key={i} t={Scaled((i + 1) / 16, scale)} />
                ))}
              </span>
              1
            </span>
            <span class="note">{words.axes}</span>
          </div>
          <Steps ids={ids} layer={layer} head={head} query={cell.row} />
        </section>
        <Sheet open={locked !== null} onClose={letGo}>
          <QueryPanel
            ids={ids}
            row={row ?? exact.value}
            of={of}
            heads={lines}
            pointed={other}
            picked={locked !== null}
            onHeads={setLines}
            onPoint={(at) =>
              setPointed(
                at === null
                  ? null
                  : direction === "query"
                    ? { row: place, column: at }
                    : { row: at, column: place },
              )
            }
          />
        </Sheet>
      </div>
      <p class="note">
        {words.caution}{" "}
        <a href={words.caution_link} rel="noreferrer">
          {words.caution_source}
        </a>
      </p>
    </>
  );
}

function RampStep({ t }: { t: number }) {
  return <i style={{ backgroundColor: RampCss(theme.value, t) }} />;
}

export function AttentionScreen() {
  const found = useInspected();
  if (!info.value?.model) return <p class="empty">{text.server.no_model}</p>;
  if (!HasFeature("trace")) return <p class="empty">{text.server.no_trace}</p>;
  return (
    <div class="stack">
      <TextBar found={found} />
      {found.ids.length > 0 && <Looking ids={found.ids} />}
    </div>
  );
}

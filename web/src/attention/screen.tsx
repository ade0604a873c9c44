import { useEffect, useMemo, useState } from "preact/hooks";
import { GetNumbers } from "../api/numbers";
import { RampCss } from "../colour";
import { Digits, Percent } from "../format";
import { useKeys } from "../keys";
import { Failure, ParamCheck, Pick, Segments, Sheet } from "../parts/controls";
import { Inspected } from "../parts/inspected";
import { TokenStrip } from "../parts/lists";
import { Say } from "../parts/live";
import { HeatMap, type Cell } from "../parts/maps";
import { SaveCanvas, SaveSvg } from "../save";
import { useTrace, useTraceNumbers } from "../state/load";
import { Address, Choice, NumberParam, Param, SetParams, type Options } from "../state/route";
import { info } from "../state/server";
import { theme } from "../state/theme";
import { TokenLabel } from "../tokens";
import { HeadGrid, HeadName } from "./head_grid";
import { type Direction, PairTable, type PlacedRow, QueryPanel, Steps } from "./exact";
import {
  FirstShare,
  HeadWeights,
  Scaled,
  Shades,
  WeightOf,
  type Look,
  type Scale,
} from "./weights";

const kScales: Options<Scale> = [
  ["linear", "linear"],
  ["sqrt", "√"],
  ["log", "log"],
];
const kJoins = [
  ["", "one head"],
  ["mean", "mean of its heads"],
  ["max", "strongest of its heads"],
] as const;
const kThumb = 48;
const kLeastMark = 0.004; // a shade
const kMostMarks = 40000; // rectangles of an SVG

// The head's map as a figure with a mark for each cell that shows something, light in any theme.
function MapFigure({ ids, shades, title }: { ids: number[]; shades: Float32Array; title: string }) {
  const n = ids.length;
  const [cell, room] = [n <= 64 ? 16 : n <= 256 ? 6 : 2, 96];
  const [side, size] = [n * cell, n * cell + room + 8];
  const marks = Array.from(
    shades,
    (shade, i) =>
      shade > kLeastMark && (
        <rect
          x={room + (i % n) * cell}
          y={room + Math.floor(i / n) * cell}
          width={cell}
          height={cell}
          fill={RampCss("light", shade)}
        />
      ),
  );
  const labels = ids.map((id, i) => {
    const middle = room + (i + 0.5) * cell + 4;
    return (
      <>
        <text x={room - 6} y={middle} text-anchor="end">
          {TokenLabel(id)}
        </text>
        <text transform={`translate(${middle} ${room - 6}) rotate(-90)`}>{TokenLabel(id)}</text>
      </>
    );
  });
  return (
    <svg viewBox={`0 0 ${size} ${size}`} font-family="monospace" font-size="11">
      <title>{title}</title>
      <rect width="100%" height="100%" fill="#fff" />
      <rect x={room} y={room} width={side} height={side} fill="none" stroke="#ccc" />
      <g class="cells">{marks}</g>
      {cell >= 12 && labels}
    </svg>
  );
}

function SaveMap(ids: number[], shades: Float32Array, title: string): void {
  const marks = shades.filter((shade) => shade > kLeastMark).length;
  if (marks <= kMostMarks)
    return SaveSvg(title, <MapFigure ids={ids} shades={shades} title={title} />);
  const canvas = document.querySelector<HTMLCanvasElement>(".heat-map canvas");
  if (canvas) SaveCanvas(title, canvas);
}

function Looking({ ids }: { ids: number[] }) {
  const model = info.value?.model;
  const [L, H, T] = [model?.n_layer ?? 1, model?.n_head ?? 1, ids.length];
  const key = ids.join(",");
  const layer = NumberParam("l", 0, 0, L - 1);
  const head = NumberParam("h", 0, 0, H - 1);
  const scale = Choice("s", kScales, "sqrt");
  const direction: Direction = Param("d") === "key" ? "key" : "query";
  const join = Choice("j", kJoins);
  const joined = kJoins.find(([one]) => one === join)?.[1];
  const of = join || head; // what the map is of
  const title = join ? `Layer ${layer}, ${joined}` : HeadName({ layer, head });
  const look: Look = { scale, per_row: Param("row") === "1", first_aside: Param("first") === "1" };
  const locked =
    Param("q") !== ""
      ? { row: NumberParam("q", 0, 0, T - 1), column: NumberParam("k", 0, 0, T - 1) }
      : null;
  const [pointed, setPointed] = useState<Cell | null>(null);
  const [lines, setLines] = useState<number[]>([head]);
  useEffect(() => setLines([head]), [layer, head]);
  const cell = pointed ?? locked ?? { row: T - 1, column: Math.max(T - 2, 0) };
  const byQuery = direction === "query";
  const [place, other] = byQuery ? [cell.row, cell.column] : [cell.column, cell.row];
  const cellOf = (here: number, there: number): Cell =>
    byQuery ? { row: here, column: there } : { row: there, column: here };

  const thumbs = useTraceNumbers(ids, `thumbs?size=${kThumb}`);
  const scores = useTraceNumbers(ids, "scores");
  const map = useTrace(ids, `${layer}:${of}`, async (trace, signal) => {
    const one = async (h: number) => {
      const { about, data } = await GetNumbers(`${trace}/attn/${layer}/${h}`, signal);
      return new HeadWeights(about.T as number, about.layout === "tril", data);
    };
    return join
      ? HeadWeights.Join(await Promise.all(Array.from({ length: H }, (_, h) => one(h))), join)
      : one(head);
  });
  const path = `row?${byQuery ? "q" : "key"}=${place}&l=${layer}`;
  const exact = useTrace(ids, path, async (trace, signal): Promise<PlacedRow> => {
    const { data } = await GetNumbers(`${trace}/${path}`, signal);
    return { place, direction, H, T, weights: data as Float32Array };
  });
  const weights = map.value?.T === T ? map.value : null;
  const shades = useMemo(
    () => (weights ? Shades(weights, look) : null),
    [weights, scale, look.per_row, look.first_aside],
  );
  const labels = useMemo(() => ids.map(TokenLabel), [key]);
  const strengths = useMemo(
    () => shades && ids.map((_, i) => shades[byQuery ? place * T + i : i * T + place] ?? 0),
    [shades, byQuery, place],
  );

  const p = exact.fresh ? WeightOf(exact.fresh, of, other) : null;
  const hidden = weights !== null && !weights.Seen(cell.row, cell.column);
  const query = `query ${cell.row} “${labels[cell.row]}”`;
  const keyed = `key ${cell.column} “${labels[cell.column]}”`;
  const told = hidden
    ? `${query} cannot attend to ${keyed}, which comes later`
    : `${query} → ${keyed}: ${p === null ? "…" : Digits(p, 4)}, ${join ? joined : `head ${layer}.${head}`}`;
  useEffect(() => {
    if ((p !== null || hidden) && (locked || pointed)) Say(told);
  }, [told]);

  const pick = ({ row, column }: Cell) => {
    setPointed(null);
    SetParams({ q: row, k: column });
  };
  const letGo = () => {
    setPointed(null);
    SetParams({ q: null, k: null });
  };
  // A token looks at itself where it may not look at what it looked at.
  const cellAt = (at: number, there: number) =>
    cellOf(at, byQuery ? Math.min(at, there) : Math.max(at, there));
  const pickPlace = (at: number) => pick(cellAt(Math.min(Math.max(at, 0), T - 1), other));
  const point = (at: number | null) => {
    const there = (byQuery ? locked?.column : locked?.row) ?? at;
    setPointed(at === null || there === null ? null : cellAt(at, there));
  };
  const choose = (l: number, h: number) =>
    SetParams({ l: Math.min(Math.max(l, 0), L - 1), h: Math.min(Math.max(h, 0), H - 1), j: null });
  const turn = () => SetParams({ d: byQuery ? "key" : null });
  const nextScale = () => {
    const at = kScales.findIndex(([one]) => one === scale);
    SetParams({ s: kScales[(at + 1) % kScales.length]?.[0] ?? null });
  };
  const save = () => shades && SaveMap(ids, shades, title);
  useKeys([
    { key: "j", label: "Next layer", run: () => choose(layer + 1, head) },
    { key: "k", label: "Previous layer", run: () => choose(layer - 1, head) },
    { key: "l", label: "Next head", run: () => choose(layer, head + 1) },
    { key: "h", label: "Previous head", run: () => choose(layer, head - 1) },
    { key: "n", label: "Next token", run: () => pickPlace(place + 1) },
    { key: "p", label: "Previous token", run: () => pickPlace(place - 1) },
    { key: "r", label: "Switch between query and key", run: turn },
    { key: "g", label: "Next scale", run: nextScale },
    { key: "e", label: "Save as SVG", run: () => void save() },
    { key: "Escape", label: "Stop, or deselect the token", run: letGo },
  ]);
  const failure = thumbs.failure || map.failure || exact.failure || scores.failure;
  const asTable = Param("view") === "table";
  const copy = () => void navigator.clipboard.writeText(Address()).then(() => Say("Link copied"));
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
          name="Scale of the colours"
          value={scale}
          options={kScales}
          onPick={(s) => SetParams({ s })}
        />
        <ParamCheck param="row" title="Each query's largest weight gets the strongest colour.">
          per row
        </ParamCheck>
        <ParamCheck
          param="first"
          title="Leaves out the first token, on which many heads rest when nothing else matters, and scales the rest to a sum of 1. The number is the share of the first token."
        >
          set first token aside
          {weights && <span class="faint"> {Percent(FirstShare(weights))}</span>}
        </ParamCheck>
        <Pick name="Map" value={join} options={kJoins} onPick={(j) => SetParams({ j })} />
        <span class="grow" />
        <button
          class="small"
          aria-pressed={!byQuery}
          onClick={turn}
          title="Switch between query and key"
        >
          {byQuery ? "query → keys" : "key → queries"}
        </button>
        <button
          class="small"
          aria-pressed={asTable}
          onClick={() => SetParams({ view: asTable ? null : "table" })}
        >
          As table
        </button>
        <button class="small" onClick={copy}>
          Copy link
        </button>
        <button class="small" disabled={!shades} onClick={save}>
          Save SVG
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
          {join && (
            <p class="note">Heads do different things; this map does not show which head does what.</p>
          )}
          {asTable && map.fresh ? (
            <PairTable ids={ids} layer={layer} of={of} weights={map.fresh} />
          ) : asTable || !shades ? (
            !failure && <p class="empty">Loading …</p>
          ) : (
            <HeatMap
              label={told}
              kind="attention map"
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
                {Array.from({ length: 16 }, (_, i) => {
                  const colour = RampCss(theme.value, Scaled((i + 1) / 16, scale));
                  return <i key={i} style={{ backgroundColor: colour }} />;
                })}
              </span>
              1
            </span>
            <span class="note">
              Queries down, keys across. Hatched: keys that the query cannot attend to.
            </span>
          </div>
          <Steps ids={ids} layer={layer} head={head} query={cell.row} />
        </section>
        <Sheet open={locked !== null} onClose={letGo}>
          <QueryPanel
            ids={ids}
            row={exact.value}
            of={of}
            heads={lines}
            pointed={other}
            picked={locked !== null}
            onHeads={setLines}
            onPoint={(at) => setPointed(at === null ? null : cellOf(place, at))}
          />
        </Sheet>
      </div>
      <p class="note">
        Attention shows where a head looked, not why the model wrote its text:{" "}
        <a href="https://arxiv.org/abs/1902.10186" rel="noreferrer">
          Jain and Wallace, “Attention is not Explanation”
        </a>
      </p>
    </>
  );
}

export function AttentionScreen() {
  return <Inspected>{(ids) => <Looking ids={ids} />}</Inspected>;
}

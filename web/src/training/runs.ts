import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Get, IsAbort, MessageOf, Post } from "../api/http";
import { Listen } from "../api/live";
import type { MetricsRow, OpenedRun, RunInfo, Series } from "../api/types";
import { SeriesColour, SeriesDash } from "../colour";
import { GoTo, Param, SetParams } from "../state/route";
import { HasFeature, info } from "../state/server";
import { theme, type Theme } from "../state/theme";
import type { Axis, Curve } from "./chart_data";

export const runs = signal<RunInfo[] | null>(null);
export const runsError = signal("");
// Told of rows that were appended; null: what is shown of the run must be fetched anew.
type RowsListener = (run: string | null, rows: MetricsRow[] | null) => void;
const rowsListeners = new Set<RowsListener>();

function OnRows(listener: RowsListener): () => void {
  rowsListeners.add(listener);
  return () => void rowsListeners.delete(listener);
}

let changes = 0; // of states, that were told

async function LoadRuns(): Promise<void> {
  try {
    // A list may be older than the news that came while it was on its way.
    for (let before = -1; before !== changes;) {
      before = changes;
      const all = (await Get<{ runs: RunInfo[] }>("api/runs")).runs;
      runs.value = all.map((run) => ({ ...run, step: run.step ?? 0 })); // one without rows has none
    }
    runsError.value = "";
  } catch (error) {
    runsError.value = MessageOf(error);
  }
}

function Tell(run: string | null, rows: MetricsRow[] | null): void {
  for (const listener of rowsListeners) listener(run, rows);
}

function Change(id: string, change: Partial<RunInfo>): void {
  const all = runs.value;
  if (!all) return;
  if (change.state === "gone") runs.value = all.filter((run) => run.id !== id);
  else if (all.some((run) => run.id === id))
    runs.value = all.map((run) => (run.id === id ? { ...run, ...change } : run));
  else runs.value = [{ id, state: "running", step: 0, ...change }, ...all];
}

// What a run's rows say of it.
const kOfRows = ["step", "loss", "val_loss", "tokens", "tokens_per_second", "seconds"];

// True where the service is that of a training that runs now and has no model.
export function IsTraining(): boolean {
  return !info.value?.model && (runs.value ?? []).some(({ state }) => state === "running");
}

// What is said where the service ended with the training that this page has stopped; "" before.
export const ended = signal("");

// Has the training of this run stop and save, as Ctrl-C does.
export async function StopRun(id: string): Promise<void> {
  await Post(`api/runs/${encodeURIComponent(id)}/stop`, {});
  ended.value = `The training of ${id} was stopped and saved, and its page ended with it. “folio train --resume” continues it.`;
}

// Opens the last checkpoint of a run as a model, and shows it.
export async function WriteWith(id: string): Promise<void> {
  const { model } = await Post<OpenedRun>(`api/runs/${encodeURIComponent(id)}/open`, {});
  GoTo("play", { m: model });
}

// Follows the runs until the returned function is called.
export function FollowRuns(): () => void {
  void LoadRuns();
  return Listen(({ event, data }) => {
    if (event === "server") {
      if ((JSON.parse(data) as { resumed: boolean }).resumed) return;
      void LoadRuns();
      Tell(null, null);
    } else if (event === "run.append") {
      const { run, rows } = JSON.parse(data) as { run: string; rows: MetricsRow[] };
      const latest = Object.assign({}, ...rows) as MetricsRow;
      const told = kOfRows.filter((key) => latest[key] !== undefined);
      if (rows.length > 0) Change(run, Object.fromEntries(told.map((key) => [key, latest[key]])));
      Tell(run, rows);
    } else if (event === "run.state") {
      ++changes;
      const { run, rewound, ...state } = JSON.parse(data) as {
        run: string;
        rewound: boolean;
      } & RunInfo;
      Change(run, { problem: undefined, ...state }); // it may be gone
      if (state.state !== "running" && HasFeature("stop") && ended.value === "")
        ended.value = `The training of ${run} has ended, and its page with it.`;
      if (rewound) Tell(run, null);
    }
  });
}

// The runs that are shown: those that the address names, or the newest.
export function ShownRuns(): RunInfo[] {
  const all = runs.value ?? [];
  const named = Param("r").split(",").filter(Boolean);
  return named.length > 0 ? all.filter(({ id }) => named.includes(id)) : all.slice(0, 1);
}

export function ShowRun(id: string, on: boolean): void {
  const others = ShownRuns().filter((run) => run.id !== id);
  const ids = [...others.map((run) => run.id), ...(on ? [id] : [])];
  SetParams({ r: ids.join(",") || "-" }); // a name that no run has
}

// A run keeps its colour, also when others come and go.
const kColours = "folio.run-colours";

interface Colours {
  places: Record<string, number>; // in the palette
  chosen: Record<string, string>; // "#rrggbb", by hand
}

function StoredColours(): Partial<Colours> {
  try {
    return JSON.parse(localStorage.getItem(kColours) ?? "{}") as Partial<Colours>;
  } catch {
    return {};
  }
}

const colours = signal<Colours>({ places: {}, chosen: {}, ...StoredColours() });

function Store(): void {
  localStorage.setItem(kColours, JSON.stringify(colours.peek()));
}

function PlaceOf(id: string): number {
  const { places } = colours.peek();
  const known = places[id];
  if (known !== undefined) return known;
  const taken = new Set(runs.peek()?.map((run) => places[run.id]));
  let place = 0;
  while (taken.has(place)) ++place;
  places[id] = place;
  Store();
  return place;
}

export function RunColour(id: string, on: Theme = theme.value): string {
  return colours.value.chosen[id] ?? SeriesColour(on, PlaceOf(id));
}

export function RunDash(id: string): number[] {
  return SeriesDash(PlaceOf(id));
}

export function ChooseColour(id: string, colour: string): void {
  colours.value = { ...colours.value, chosen: { ...colours.value.chosen, [id]: colour } };
  Store();
}

export const kKeys = ["loss", "val_loss", "lr", "grad_norm", "tokens_per_second"] as const;
export type Key = (typeof kKeys)[number];

type RunCurves = Partial<Record<Key, Curve>>;
export type Curves = Map<string, RunCurves>; // by run

export interface Range {
  from: number;
  to: number;
}

const kMostAppended = 1500; // rows, until all is fetched again at the chart's own resolution

function Numbers(values: (number | string | null)[]): (number | null)[] {
  return values.map((value) => (typeof value === "number" ? value : null));
}

function CurveOf({ x, mean, min, max, raw }: Series): Curve {
  return { x: [...x], y: Numbers(mean), low: Numbers(min), high: Numbers(max), raw };
}

// Rows behind the last point; others are known already.
function Append(curves: RunCurves, rows: MetricsRow[], axis: Axis): RunCurves {
  const next = { ...curves };
  for (const key of kKeys) {
    const { x, y, low, high, raw } = curves[key] ?? { x: [], y: [], low: [], high: [], raw: true };
    const last = x.at(-1) ?? -Infinity;
    const at = (row: MetricsRow) => row[axis] as number;
    const fresh = rows.filter(
      (row) => row[key] !== undefined && typeof row[axis] === "number" && at(row) > last,
    );
    if (fresh.length === 0) continue;
    const more = Numbers(fresh.map((row) => row[key] as number | string));
    next[key] = {
      x: [...x, ...fresh.map(at)],
      y: [...y, ...more],
      low: [...low, ...more],
      high: [...high, ...more],
      raw,
    };
  }
  return next;
}

// The series of a run, as the service has them.
export async function SeriesOf(
  id: string,
  query: Record<string, string | number>,
  signal: AbortSignal,
): Promise<Partial<Record<string, Series>>> {
  const path = `api/runs/${encodeURIComponent(id)}/series`;
  const asked = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, `${value}`]));
  return (await Get<{ keys: Record<string, Series> }>(`${path}?${asked}`, signal)).keys;
}

// The shown runs' curves, growing while the runs do.
export function useCurves(
  shown: RunInfo[],
  axis: Axis,
  range: Range | null,
  px: number,
): { curves: Curves; failure: string } {
  const [curves, setCurves] = useState<Curves>(new Map());
  const [failure, setFailure] = useState("");
  const [again, setAgain] = useState(0);
  const appended = useRef(0);
  const ids = shown.map(({ id }) => id);
  const key = ids.join(",");
  useEffect(() => {
    const gone = new AbortController();
    let waiting: [string, MetricsRow[]][] | null = [];
    const add = (run: string, rows: MetricsRow[]) =>
      setCurves((old) => {
        const known = old.get(run);
        return known ? new Map(old).set(run, Append(known, rows, axis)) : old;
      });
    const end = OnRows((run, rows) => {
      if (rows === null) {
        if (run === null || ids.includes(run)) setAgain((n) => n + 1);
      } else if (run !== null && ids.includes(run) && range === null) {
        appended.current += rows.length;
        if (appended.current > kMostAppended) setAgain((n) => n + 1);
        else if (waiting) waiting.push([run, rows]);
        else add(run, rows);
      }
    });
    const query = { keys: kKeys.join(","), x: axis, ...range, px };
    Promise.all(
      ids.map(async (id) => {
        const series = Object.entries(await SeriesOf(id, query, gone.signal));
        return [
          id,
          Object.fromEntries(series.map(([name, one]) => [name, one && CurveOf(one)])),
        ] as const;
      }),
    )
      .then((all) => {
        appended.current = 0;
        setCurves(new Map(all));
        setFailure("");
        const late = waiting ?? [];
        waiting = null;
        for (const [run, rows] of late) add(run, rows);
      })
      .catch((error: unknown) => !IsAbort(error) && setFailure(MessageOf(error)));
    return () => {
      gone.abort();
      end();
    };
  }, [key, axis, range?.from, range?.to, px, again]);
  return { curves, failure };
}

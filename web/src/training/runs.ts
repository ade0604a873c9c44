import { signal } from "@preact/signals";
import { Get, MessageOf } from "../api/http";
import { Listen } from "../api/live";
import type { MetricsRow, RunInfo } from "../api/types";
import { kSeries, SeriesColour, SeriesDash } from "../colour";
import { Param, SetParams } from "../state/route";
import { theme, type Theme } from "../state/theme";

export const runs = signal<RunInfo[] | null>(null);
export const runsError = signal("");
// Told of rows that were appended; null: what is shown of the run must be fetched anew.
type RowsListener = (run: string | null, rows: MetricsRow[] | null) => void;
const rowsListeners = new Set<RowsListener>();

export function OnRows(listener: RowsListener): () => void {
  rowsListeners.add(listener);
  return () => void rowsListeners.delete(listener);
}

let changes = 0; // of states, that were told

async function LoadRuns(): Promise<void> {
  try {
    // A list may be older than the news that came while it was on its way.
    for (let before = -1; before !== changes; ) {
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
      const latest = rows[rows.length - 1];
      if (latest) {
        const { step, loss, val_loss, lr, tokens, tokens_per_second, seconds } = Object.assign(
          {},
          ...rows,
        ) as MetricsRow & Partial<RunInfo>;
        const known = Object.entries({
          step,
          loss,
          val_loss,
          lr,
          tokens,
          tokens_per_second,
          seconds,
        }).filter(([, value]) => value !== undefined);
        Change(run, Object.fromEntries(known));
      }
      Tell(run, rows);
    } else if (event === "run.state") {
      ++changes;
      const { run, rewound, ...state } = JSON.parse(data) as {
        run: string;
        rewound: boolean;
      } & RunInfo;
      Change(run, { problem: undefined, ...state }); // it may be gone
      if (rewound) Tell(run, null);
    }
  });
}

// The runs that are shown: those that the address names, or the newest.
export function ShownRuns(): RunInfo[] {
  const all = runs.value ?? [];
  const named = Param("r").split(",").filter(Boolean);
  if (Param("r") === "-") return [];
  return named.length > 0 ? all.filter(({ id }) => named.includes(id)) : all.slice(0, 1);
}

export function ShowRun(id: string, on: boolean): void {
  const ids = ShownRuns()
    .map((run) => run.id)
    .filter((one) => one !== id);
  if (on) ids.push(id);
  SetParams({ r: ids.join(",") || "-" });
}

// A run keeps its colour, also when others come and go.
const kColours = "folio.run-colours";

interface Colours {
  places: Record<string, number>; // in the palette
  chosen: Record<string, string>; // "#rrggbb", by hand
}

function StoredColours(): Colours {
  try {
    return {
      places: {},
      chosen: {},
      ...(JSON.parse(localStorage.getItem(kColours) ?? "{}") as Partial<Colours>),
    };
  } catch {
    return { places: {}, chosen: {} };
  }
}

const colours = signal(StoredColours());

function PlaceOf(id: string): number {
  const { places } = colours.peek();
  const known = places[id];
  if (known !== undefined) return known;
  const present = new Set(
    (runs.peek() ?? []).filter((run) => run.id !== id).map((run) => places[run.id]),
  );
  let place = 0;
  while (present.has(place)) ++place;
  places[id] = place;
  localStorage.setItem(kColours, JSON.stringify(colours.peek()));
  return place;
}

export function RunColour(id: string, on: Theme = theme.value): string {
  return colours.value.chosen[id] ?? SeriesColour(on, PlaceOf(id));
}

export function RunDash(id: string): number[] {
  return PlaceOf(id) < kSeries.light.length ? [] : SeriesDash(PlaceOf(id));
}

export function ChooseColour(id: string, colour: string): void {
  colours.value = { ...colours.value, chosen: { ...colours.value.chosen, [id]: colour } };
  localStorage.setItem(kColours, JSON.stringify(colours.value));
}

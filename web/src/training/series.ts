import { useEffect, useRef, useState } from "preact/hooks";
import { Get, IsAbort, MessageOf, Query } from "../api/http";
import type { MetricsRow, RunInfo, Series } from "../api/types";
import type { Curve } from "./curve";
import { OnRows } from "./runs";

export type Axis = "step" | "tokens" | "seconds" | "time";
export const kKeys = ["loss", "val_loss", "lr", "grad_norm", "tokens_per_second"] as const;
export type Key = (typeof kKeys)[number];

export type Curves = Map<string, Partial<Record<Key, Curve>>>; // by run

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
function Append(
  curves: Partial<Record<Key, Curve>>,
  rows: MetricsRow[],
  axis: Axis,
): Partial<Record<Key, Curve>> {
  const next = { ...curves };
  for (const key of kKeys) {
    const known = curves[key] ?? { x: [], y: [], low: [], high: [], raw: true };
    const last = known.x[known.x.length - 1] ?? -Infinity;
    const fresh = rows.filter(
      (row) =>
        row[key] !== undefined && typeof row[axis] === "number" && (row[axis] as number) > last,
    );
    if (fresh.length === 0) continue;
    const values = Numbers(fresh.map((row) => row[key] as number | string));
    next[key] = {
      x: [...known.x, ...fresh.map((row) => row[axis] as number)],
      y: [...known.y, ...values],
      low: [...known.low, ...values],
      high: [...known.high, ...values],
      raw: known.raw,
    };
  }
  return next;
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
    Promise.all(
      ids.map(async (id) => {
        const query = Query({
          keys: kKeys.join(","),
          x: axis,
          from: range?.from,
          to: range?.to,
          px,
        });
        const { keys } = await Get<{ keys: Record<string, Series> }>(
          `api/runs/${encodeURIComponent(id)}/series${query}`,
          gone.signal,
        );
        return [
          id,
          Object.fromEntries(Object.entries(keys).map(([name, series]) => [name, CurveOf(series)])),
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

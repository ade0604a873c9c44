import { useEffect } from "preact/hooks";
import { Get } from "../api/http";
import type { RunDetails } from "../api/types";
import { Failure, Tabs } from "../parts/controls";
import { useLoaded } from "../state/load";
import { Choice, SetParams } from "../state/route";
import { ChartsTab } from "./charts";
import { CompareTab, EventsTab, RunRow } from "./tables";
import { FollowRuns, runs, runsError, ShownRuns } from "./runs";
import { SamplesTab } from "./samples";

const kTabs = [
  ["charts", "Charts"],
  ["samples", "Samples"],
  ["compare", "Compare"],
  ["events", "Events"],
] as const;
const kBodies = { charts: ChartsTab, samples: SamplesTab, compare: CompareTab, events: EventsTab };

const kStepsBetween = 100; // until what is known of a running one is asked for again

export function TrainingScreen() {
  useEffect(FollowRuns, []);
  const shown = ShownRuns();
  // Events come with steps: a running one is looked at again now and then.
  const key = shown
    .map(({ id, state, step }) => `${id}.${state}.${Math.floor(step / kStepsBetween)}`)
    .join(",");
  const details = useLoaded(key === "" ? null : key, (signal) =>
    Promise.all(
      shown.map(({ id }) => Get<RunDetails>(`api/runs/${encodeURIComponent(id)}`, signal)),
    ),
  );
  const tab = Choice("v", kTabs);
  const Body = kBodies[tab];
  if (runs.value === null)
    return runsError.value ? <Failure message={runsError.value} /> : <p class="empty">Loading …</p>;
  if (runs.value.length === 0)
    return <p class="empty">There are no runs here yet. “folio train” makes one.</p>;
  return (
    <div class="training">
      <aside class="runs" aria-label="Runs">
        <ul>
          {runs.value.map((run) => (
            <RunRow key={run.id} run={run} on={shown.some(({ id }) => id === run.id)} />
          ))}
        </ul>
      </aside>
      <Tabs
        name="What to see of the runs"
        value={tab}
        options={kTabs}
        onPick={(v) => SetParams({ v: v === "charts" ? null : v })}
      >
        <Failure message={details.failure} />
        {shown.length > 0 ? (
          <Body shown={shown} details={details.value ?? []} />
        ) : (
          <p class="empty">Select a run in the list.</p>
        )}
      </Tabs>
    </div>
  );
}

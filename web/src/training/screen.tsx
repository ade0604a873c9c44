import { useEffect } from "preact/hooks";
import { Get } from "../api/http";
import type { RunDetails, RunInfo } from "../api/types";
import { Digits, Duration, Short, Whole } from "../format";
import { Failure, Tabs } from "../parts/controls";
import { useLoaded } from "../state/load";
import { Param, SetParams } from "../state/route";
import { HasFeature } from "../state/server";
import { text } from "../text";
import { ChartsTab } from "./charts_tab";
import { CompareTab } from "./compare_tab";
import { ChooseColour, FollowRuns, RunColour, runs, runsError, ShownRuns, ShowRun } from "./runs";
import { SamplesTab } from "./samples_tab";

const words = text.training;
type Tab = keyof typeof words.tabs;
const kTabs = Object.entries(words.tabs) as [Tab, string][];

// A colour that an input of type "color" takes.
function HexOf(colour: string): string {
  return /^#[0-9a-f]{6}$/i.test(colour) ? colour : "#888888";
}

function RunRow({ run, on }: { run: RunInfo; on: boolean }) {
  const share = run.max_steps ? Math.min(run.step / run.max_steps, 1) : 0;
  return (
    <li class={`run${on ? " shown" : ""}`}>
      <input
        type="checkbox"
        aria-label={words.show(run.id)}
        checked={on}
        onChange={(event) => ShowRun(run.id, event.currentTarget.checked)}
      />
      <input
        type="color"
        aria-label={words.colour(run.id)}
        value={HexOf(RunColour(run.id))}
        onInput={(event) => ChooseColour(run.id, event.currentTarget.value)}
      />
      <button
        class="run-name plain"
        title={words.only(run.id)}
        onClick={() => SetParams({ r: run.id })}
      >
        {run.id}
      </button>
      <span class={`run-state ${run.state}`}>{words.states[run.state] ?? run.state}</span>
      <div class="progress">
        <i style={{ width: `${share * 100}%` }} />
      </div>
      {run.problem && <p class="run-problem">{words.unreadable(run.problem)}</p>}
      <dl>
        <div>
          <dt>{words.step}</dt>
          <dd>
            {Whole(run.step)}
            {run.max_steps ? <span class="faint">/{Whole(run.max_steps)}</span> : ""}
          </dd>
        </div>
        <div>
          <dt>{words.loss}</dt>
          <dd>{Digits(run.loss)}</dd>
        </div>
        <div>
          <dt>{words.held_out}</dt>
          <dd>{Digits(run.val_loss)}</dd>
        </div>
        <div>
          <dt>{words.speed}</dt>
          <dd>{Short(run.tokens_per_second)}</dd>
        </div>
        {run.state === "running" && run.eta !== undefined && (
          <div>
            <dt>{words.eta}</dt>
            <dd>{Duration(run.eta)}</dd>
          </div>
        )}
      </dl>
    </li>
  );
}

function EventsTab({ details }: { details: RunDetails[] }) {
  const all = details
    .flatMap(({ id, events }) => events.map((event) => ({ id, ...event })))
    .sort((a, b) => b.step - a.step);
  if (all.length === 0) return <p class="empty">{words.no_events}</p>;
  return (
    <section class="panel wide-table">
      <table>
        <thead>
          <tr>
            <th class="number">{words.step}</th>
            <th>{words.run}</th>
            <th>{words.event}</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {all.map(({ id, step, event, text: said }, i) => (
            <tr key={i}>
              <td class="number">{Whole(step)}</td>
              <td>
                <span class="key-entry">
                  <i style={{ backgroundColor: RunColour(id) }} />
                  {id}
                </span>
              </td>
              <td>{words.event_names[event] ?? event}</td>
              <td class="soft">{said}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Runs() {
  useEffect(FollowRuns, []);
  const shown = ShownRuns();
  const key = shown.map(({ id, state }) => `${id}.${state}`).join(",");
  const details = useLoaded(key === "" ? null : key, (signal) =>
    Promise.all(
      shown.map(({ id }) => Get<RunDetails>(`api/runs/${encodeURIComponent(id)}`, signal)),
    ),
  );
  if (runs.value === null)
    return (
      <>
        <Failure message={runsError.value} />
        {!runsError.value && <p class="empty">{text.server.loading}</p>}
      </>
    );
  if (runs.value.length === 0) return <p class="empty">{words.none}</p>;
  const tab = kTabs.find(([name]) => name === Param("v"))?.[0] ?? "charts";
  const known = details.value ?? [];
  return (
    <div class="training">
      <aside class="runs" aria-label={words.runs}>
        <ul>
          {runs.value.map((run) => (
            <RunRow key={run.id} run={run} on={shown.some(({ id }) => id === run.id)} />
          ))}
        </ul>
      </aside>
      <div class="stack gap">
        <Tabs
          name={words.views}
          value={tab}
          options={kTabs}
          onPick={(value) => SetParams({ v: value === "charts" ? null : value })}
        />
        <Failure message={details.failure} />
        <div role="tabpanel" aria-label={words.tabs[tab]}>
          {tab === "charts" ? (
            shown.length > 0 ? (
              <ChartsTab shown={shown} details={known} />
            ) : (
              <p class="empty">{words.pick_run}</p>
            )
          ) : tab === "samples" ? (
            <SamplesTab shown={shown} />
          ) : tab === "compare" ? (
            <CompareTab shown={shown} details={known} />
          ) : (
            <EventsTab details={known} />
          )}
        </div>
      </div>
    </div>
  );
}

export function TrainingScreen() {
  return HasFeature("runs") ? <Runs /> : <p class="empty">{text.server.no_runs}</p>;
}

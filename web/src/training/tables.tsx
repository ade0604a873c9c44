import { useState } from "preact/hooks";
import { MessageOf } from "../api/http";
import type { RunDetails, RunInfo, Series } from "../api/types";
import { Digits, Duration, Rate, Whole } from "../format";
import { Failure } from "../parts/controls";
import { Facts, KeyEntry, Table } from "../parts/lists";
import { useLoaded } from "../state/load";
import { SetParams } from "../state/route";
import { HasFeature } from "../state/server";
import { ChooseColour, RunColour, SeriesOf, ShowRun, StopRun, WriteWith } from "./runs";

// Tokens per second of the whole training, which is what a run says of its speed everywhere.
function MeanRate({ tokens, seconds }: RunInfo): string {
  return tokens && seconds ? Rate(tokens / seconds) : "–";
}

// The least value, and where it is.
function BestOf({ x, min }: Series): string {
  const values = min.map((value) => (typeof value === "number" ? value : Infinity));
  const loss = values.reduce((a, b) => Math.min(a, b), Infinity);
  const step = x[values.indexOf(loss)];
  return loss < Infinity ? `${Digits(loss)} @ ${Whole(step ?? 0)}` : "–";
}

// Shows what differs between the shown runs: results, and settings that are not the same in all.
export function CompareTab({ shown, details }: { shown: RunInfo[]; details: RunDetails[] }) {
  const best = useLoaded(
    shown.map(({ id, step }) => `${id}.${Math.floor(step / 100)}`).join(","),
    async (signal) => {
      const found = shown.map(async ({ id }) => {
        const { val_loss } = await SeriesOf(id, { keys: "val_loss", x: "step", px: 4000 }, signal);
        return [id, val_loss && BestOf(val_loss)] as const;
      });
      return new Map(await Promise.all(found));
    },
  );
  const names = [...new Set(details.flatMap(({ config }) => Object.keys(config)))].sort();
  const differing = names.filter(
    (name) => new Set(details.map(({ config }) => config[name])).size > 1,
  );
  const results: [string, (run: RunInfo) => string][] = [
    ["state", ({ state }) => kStates[state] ?? state],
    ["step", ({ step, max_steps }) => `${Whole(step)}${max_steps ? ` / ${Whole(max_steps)}` : ""}`],
    ["loss", ({ loss }) => Digits(loss)],
    ["held-out loss", ({ val_loss }) => Digits(val_loss)],
    ["best held-out loss", ({ id }) => best.value?.get(id) ?? "–"],
    ["tokens", ({ tokens }) => (tokens === undefined ? "–" : Whole(tokens))],
    ["training time", ({ seconds }) => Duration(seconds)],
    ["tokens/s, mean", MeanRate],
  ];
  const columns = (kind: string) => [
    ["", kind] as const,
    ...shown.map(({ id }) => [<RunKey id={id} />, `number ${kind}`] as const),
  ];
  return (
    <div class="stack">
      <section class="panel wide-table">
        <h2>Results</h2>
        <Table
          named
          columns={columns("")}
          rows={results.map(([name, of]) => [name, ...shown.map(of)])}
        />
      </section>
      <section class="panel wide-table">
        <h2>Settings that differ</h2>
        {shown.length < 2 ? (
          <p class="note">Show two runs or more to see what differs.</p>
        ) : differing.length === 0 ? (
          <p class="note">All settings are equal.</p>
        ) : (
          <Table
            named
            columns={columns("mono")}
            rows={differing.map((name) => [
              name,
              ...shown.map(({ id }) => details.find((one) => one.id === id)?.config[name] ?? "–"),
            ])}
          />
        )}
      </section>
    </div>
  );
}

const kStates: Record<string, string> = {
  running: "training",
  ended: "ended",
  stopped: "stopped",
  gone: "gone",
};
const kEvents: Record<string, string> = {
  begun: "begin",
  best: "best so far",
  checkpoint: "checkpoint saved",
  skipped: "step skipped",
  rolled_back: "rolled back",
  ended: "end",
  stopped: "stopped",
};
const kSame = ["ended", "stopped", "best", "checkpoint", "rolled_back", "skipped", "begun"]; // of one step

function RunKey({ id }: { id: string }) {
  return <KeyEntry colour={RunColour(id)}>{id}</KeyEntry>;
}

// A colour that an input of type "color" takes.
function HexOf(colour: string): string {
  return /^#[0-9a-f]{6}$/i.test(colour) ? colour : "#888888";
}

// What can be done with a run: its training is stopped, its last checkpoint written with.
function RunActions({ run: { id, state } }: { run: RunInfo }) {
  const [doing, setDoing] = useState("");
  const [failure, setFailure] = useState("");
  const act = (what: string, does: (id: string) => Promise<void>) => {
    setDoing(what);
    setFailure("");
    does(id)
      .catch((error: unknown) => {
        setFailure(MessageOf(error));
        setDoing("");
      })
      .finally(() => what !== "stop" && setDoing(""));
  };
  return (
    <div class="run-actions stack">
      <div class="row">
        <button
          class="small"
          disabled={doing !== ""}
          title="Opens the last checkpoint of the run as a model."
          onClick={() => act("write", WriteWith)}
        >
          {doing === "write" ? "Opening …" : "Write with it"}
        </button>
        {state === "running" && HasFeature("stop") && (
          <button
            class="small"
            disabled={doing !== ""}
            title="Stops after the current step and saves, as Ctrl-C does."
            onClick={() => act("stop", StopRun)}
          >
            {doing === "stop" ? "Stopping …" : "Stop and save"}
          </button>
        )}
      </div>
      <Failure message={failure} />
    </div>
  );
}

export function RunRow({ run, on }: { run: RunInfo; on: boolean }) {
  const { id, state, step, max_steps } = run;
  const share = max_steps ? Math.min(step / max_steps, 1) : 0;
  const steps = (
    <>
      {Whole(step)}
      {max_steps ? <span class="faint">/{Whole(max_steps)}</span> : ""}
    </>
  );
  return (
    <li class={`run${on ? " shown" : ""}`}>
      <input
        type="checkbox"
        aria-label={`Show ${id}`}
        checked={on}
        onChange={(event) => ShowRun(id, event.currentTarget.checked)}
      />
      <input
        type="color"
        aria-label={`Colour of ${id}`}
        value={HexOf(RunColour(id))}
        onInput={(event) => ChooseColour(id, event.currentTarget.value)}
      />
      <button
        class="run-name plain"
        title={`Show ${id} alone`}
        onClick={() => SetParams({ r: id })}
      >
        {id}
      </button>
      <span class={`run-state ${state}`}>{kStates[state] ?? state}</span>
      <div class="progress">
        <i style={{ width: `${share * 100}%` }} />
      </div>
      {run.problem && <p class="run-problem">This run cannot be read: {run.problem}</p>}
      <Facts
        class="run-facts"
        rows={[
          ["step", steps],
          ["loss", Digits(run.loss)],
          ["held out", Digits(run.val_loss)],
          ["tokens/s, mean", MeanRate(run)],
          state === "running" && run.eta !== undefined ? ["left", Duration(run.eta)] : null,
        ]}
      />
      {on && <RunActions run={run} />}
    </li>
  );
}

export function EventsTab({ details }: { details: RunDetails[] }) {
  const all = details
    .flatMap(({ id, events }) => events.map((event) => ({ id, ...event })))
    .sort((a, b) => b.step - a.step || kSame.indexOf(a.event) - kSame.indexOf(b.event));
  if (details.length === 0) return null;
  return (
    <>
      <section class="panel wide-table">
        <Table
          columns={[["Step", "number"], ["Run"], ["Event"], ["Details"]]}
          rows={all.map(({ id, step, event, text }) => [
            Whole(step),
            <RunKey id={id} />,
            kEvents[event] ?? event,
            <span class="soft">{text}</span>,
          ])}
        />
      </section>
      {details.map(({ id, config }) => (
        <section key={id} class="panel">
          <h2>
            Settings of <RunKey id={id} />
          </h2>
          <Facts class="settings small" rows={Object.entries(config).sort()} />
        </section>
      ))}
    </>
  );
}

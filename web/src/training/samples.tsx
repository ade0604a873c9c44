import { useState } from "preact/hooks";
import { Get } from "../api/http";
import type { RunDetails, RunInfo, RunSample } from "../api/types";
import { Whole } from "../format";
import { Failure, Pick, Slider } from "../parts/controls";
import { useLoaded } from "../state/load";
import type { Options } from "../state/route";
import { WordDiff } from "./word_diff";

// Why there is no sample, and how to get some.
function NoSamples({ run, details }: { run: RunInfo | undefined; details: RunDetails[] }) {
  const config = details.find(({ id }) => id === run?.id)?.config ?? {};
  const every = Number(config["log.sample_every"] ?? 0);
  return (
    <p class="empty">
      {every > 0
        ? `This run writes a sample every ${Whole(every)} steps; none is here yet.`
        : "This run writes no samples. “folio train --sample-every 100” writes one every 100 steps, so that the text can be seen to improve."}
    </p>
  );
}

export function SamplesTab({ shown, details }: { shown: RunInfo[]; details: RunDetails[] }) {
  const [chosen, setChosen] = useState("");
  const [place, setPlace] = useState<number | null>(null);
  const [against, setAgainst] = useState("");
  const run = shown.find(({ id }) => id === chosen) ?? shown[0];
  const loaded = useLoaded(run ? `${run.id}:${Math.floor(run.step / 50)}` : null, (signal) =>
    Get<RunSample[]>(`api/runs/${encodeURIComponent(run?.id ?? "")}/samples`, signal),
  );
  const samples = loaded.value ?? [];
  const steps = [...new Set(samples.map(({ step }) => step))].sort((a, b) => a - b);
  const at = Math.min(place ?? steps.length - 1, steps.length - 1);
  const here = samples.filter(({ step }) => step === steps[at]);
  const named: Options = steps.map((step) => [String(step), Whole(step)]);
  const other = against === "" ? null : samples.filter(({ step }) => step === Number(against));
  return (
    <div class="stack">
      <div class="toolbar row">
        {run && shown.length > 1 && (
          <Pick
            name="Run"
            value={run.id}
            options={shown.map(({ id }) => [id, id] as const)}
            onPick={setChosen}
          />
        )}
        {steps.length > 1 && (
          <>
            <div class="scrub">
              <Slider
                label="Step"
                low={0}
                high={steps.length - 1}
                step={1}
                value={at}
                shown={Whole(steps[at] ?? 0)}
                onInput={setPlace}
              />
            </div>
            <Pick
              name="Against step"
              value={against}
              options={[["", "none"], ...named]}
              onPick={setAgainst}
            />
          </>
        )}
      </div>
      <Failure message={loaded.failure} />
      {loaded.fresh && steps.length === 0 && <NoSamples run={run} details={details} />}
      {here.map((sample, i) => {
        const before = other?.find(({ prompt }) => prompt === sample.prompt);
        return (
          <section key={i} class="panel sample">
            <h3>
              Step {Whole(sample.step)}
              {before && ` · changes since step ${Whole(before.step)}`}
            </h3>
            <p class="prose">
              <span class="piece given">{sample.prompt}</span>
              {before
                ? WordDiff(before.text, sample.text).map(([kind, said], k) => (
                    <span key={k} class={`diff-${kind}`}>
                      {said}
                    </span>
                  ))
                : sample.text}
            </p>
          </section>
        );
      })}
    </div>
  );
}

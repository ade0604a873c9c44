import { useState } from "preact/hooks";
import { Get } from "../api/http";
import type { RunInfo, RunSample } from "../api/types";
import { Failure, Pick, Slider } from "../parts/controls";
import { useLoaded } from "../state/load";
import type { Options } from "../state/route";
import { WordDiff } from "./word_diff";

export function SamplesTab({ shown }: { shown: RunInfo[] }) {
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
  const named: Options = steps.map((step) => [String(step), String(step)]);
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
                shown={String(steps[at])}
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
      {loaded.fresh && steps.length === 0 && <p class="empty">This run wrote no samples.</p>}
      {here.map((sample, i) => {
        const before = other?.find(({ prompt }) => prompt === sample.prompt);
        return (
          <section key={i} class="panel sample">
            <h3>
              Step {sample.step}
              {before && ` · what is new since step ${before.step}`}
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

import { useState } from "preact/hooks";
import { Get } from "../api/http";
import type { RunInfo, RunSample } from "../api/types";
import { Failure, Pick, Slider } from "../parts/controls";
import { useLoaded } from "../state/load";
import { text } from "../text";
import { WordDiff } from "./word_diff";

const words = text.training.samples;
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
  const other = against === "" ? null : samples.filter(({ step }) => step === Number(against));
  if (!run) return <p class="empty">{text.training.pick_run}</p>;
  return (
    <div class="stack">
      <div class="toolbar row">
        {shown.length > 1 && (
          <Pick
            label={words.run}
            value={run.id}
            options={shown.map(({ id }) => [id, id] as const)}
            onPick={setChosen}
          />
        )}
        {steps.length > 1 && (
          <div class="scrub">
            <Slider
              label={words.step}
              low={0}
              high={steps.length - 1}
              step={1}
              value={at}
              shown={String(steps[at])}
              onInput={setPlace}
            />
          </div>
        )}
        {steps.length > 1 && (
          <Pick
            label={words.against}
            value={against}
            onPick={setAgainst}
            options={[
              ["", words.nothing],
              ...steps.map((step) => [String(step), String(step)] as const),
            ]}
          />
        )}
      </div>
      <Failure message={loaded.failure} />
      {loaded.fresh && steps.length === 0 && <p class="empty">{words.none}</p>}
      {here.map((sample, i) => {
        const before = other?.find(({ prompt }) => prompt === sample.prompt);
        return (
          <section key={i} class="panel sample">
            <h3>
              {words.at(sample.step)}
              {before && ` · ${words.compared(before.step)}`}
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

import { signal } from "@preact/signals";
import { Digits } from "../format";
import { MainField, Slider } from "../parts/controls";
import { busy, Compute, Stop } from "./compute";
import type { Writing } from "./messages";

export const prompt = signal("Once upon a time");
const written = signal<{ prompt: string; text: string; pace: string } | null>(null);
const options = signal<Writing>({ max_tokens: 200, temperature: 0.8, top_k: 0, seed: 1 });

async function Write(): Promise<void> {
  const [text, begin] = [prompt.value, performance.now()];
  written.value = { prompt: text, text: "", pace: "" };
  const add = (more: string, pace: string) =>
    (written.value = { prompt: text, text: (written.value?.text ?? "") + more, pace });
  const end = await Compute("write", { text, options: options.value }, (more) =>
    add(more, `${Digits((performance.now() - begin) / 1000, 2)} s`),
  );
  if (end) add("", `${Digits(end.tokens / end.seconds, 3)} tokens a second`);
}

const kSliders = [
  ["max_tokens", "Tokens", 1, 1000, 1],
  ["temperature", "Temperature", 0, 2, 0.05],
  ["top_k", "Top-k", 0, 200, 1],
  ["seed", "Seed", 0, 100, 1],
] as const;

export function Writer() {
  const result = written.value;
  return (
    <div class="play">
      <div class="play-main">
        <MainField
          id="prompt"
          class="prompt"
          label="Text to go on from"
          value={prompt.value}
          onText={(said) => (prompt.value = said)}
        />
        <div class="row">
          {busy.value === "write" ? (
            <button id="stop" onClick={Stop}>
              Stop
            </button>
          ) : (
            <button
              id="write"
              class="primary"
              disabled={busy.value !== ""}
              onClick={() => void Write()}
            >
              Write
            </button>
          )}
          <span class="pace">{result?.pace}</span>
        </div>
        {result && (
          <section class="panel result" aria-label="Written text">
            <div class="prose" id="written" data-text={result.text}>
              <span class="piece given">{result.prompt}</span>
              <span>{result.text}</span>
              {busy.value === "write" && <span class="caret" aria-hidden="true" />}
            </div>
          </section>
        )}
      </div>
      <div class="play-side">
        <section class="panel" aria-label="How tokens are chosen">
          {kSliders.map(([name, label, low, high, step]) => {
            const value = options.value[name];
            const shown = name === "top_k" && value === 0 ? "all" : String(value);
            return (
              <Slider
                key={name}
                {...{ label, low, high, step, value, shown }}
                onInput={(to) => (options.value = { ...options.value, [name]: to })}
              />
            );
          })}
        </section>
      </div>
    </div>
  );
}

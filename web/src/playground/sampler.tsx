import { computed, effect, signal } from "@preact/signals";
import type { Sampling } from "../api/types";
import { Segments, Slider } from "../parts/controls";
import { info } from "../state/server";
import { kPresets, PresetOf, type Settings } from "./sampling";

const kStored = "folio.sampler";

function Stored(): Partial<Settings> {
  try {
    return JSON.parse(localStorage.getItem(kStored) ?? "{}") as Partial<Settings>;
  } catch {
    return {};
  }
}

// Settings that were chosen here; all others are as the service has them, and the program.
const chosen = signal(Stored());
effect(() => localStorage.setItem(kStored, JSON.stringify(chosen.value)));

// Only of a service that has said what it is.
export const settings = computed<Settings>(() => ({
  ...(info.value?.sampling as Sampling),
  seed: "",
  ...chosen.value,
}));

function Choose(change: Partial<Settings>): void {
  chosen.value = { ...chosen.value, ...change };
}

const kMostTokens = 1024; // of the slider, where the context is smaller

interface Dial {
  of: keyof Sampling;
  label: string;
  title: string;
  low: number;
  high: number;
  step: number;
  rest?: readonly [value: number, said: string]; // where it does nothing
}

const kDials: Dial[] = [
  {
    of: "temperature",
    label: "Temperature",
    title: "Below 1 the likely gets likelier; 0 always takes the likeliest.",
    low: 0,
    high: 2,
    step: 0.05,
  },
  {
    of: "top_k",
    label: "Top-k",
    title: "Only the k likeliest tokens may come.",
    low: 0,
    high: 200,
    step: 1,
    rest: [0, "all"],
  },
  {
    of: "top_p",
    label: "Top-p",
    title: "Of these the likeliest whose probabilities together reach p.",
    low: 0.01,
    high: 1,
    step: 0.01,
    rest: [1, "all"],
  },
  {
    of: "min_p",
    label: "Min-p",
    title: "Of these the ones at least min-p times as likely as the likeliest.",
    low: 0,
    high: 0.5,
    step: 0.01,
    rest: [0, "off"],
  },
  {
    of: "repetition_penalty",
    label: "Repetition",
    title: "Above 1 tokens that have come before get less likely.",
    low: 1,
    high: 2,
    step: 0.05,
    rest: [1, "off"],
  },
  {
    of: "max_tokens",
    label: "Tokens",
    title: "How many tokens to write.",
    low: 1,
    high: kMostTokens,
    step: 1,
  },
];

export function SamplerPanel() {
  const now = settings.value;
  const { model, sampling } = info.value ?? {};
  const { max_tokens: _, ...plain } = sampling as Sampling;
  const presets: Record<string, Partial<Settings>> = { default: plain, ...kPresets };
  return (
    <section class="panel sampler" aria-label="Sampler">
      <Segments
        name="Presets"
        value={PresetOf(now, presets)}
        options={Object.keys(presets).map((name) => [name, name] as const)}
        onPick={(name) => Choose(presets[name] ?? {})}
      />
      {kDials.map(({ of, rest, ...dial }) => {
        const value = now[of];
        const high = of === "max_tokens" ? Math.max(model?.n_ctx ?? 0, dial.high) : dial.high;
        const said = dial.step < 1 ? value.toFixed(2) : String(value);
        return (
          <Slider
            key={of}
            {...dial}
            high={high}
            value={Math.min(value, high)}
            shown={value === rest?.[0] ? rest[1] : said}
            onInput={(to) => Choose({ [of]: to })}
          />
        );
      })}
      <label class="seed" title="The same seed and settings write the same text.">
        Seed
        <input
          type="text"
          inputMode="numeric"
          placeholder="random"
          value={now.seed}
          onInput={({ currentTarget: { value } }) =>
            Choose({ seed: value.replace(/\D/g, "").slice(0, 15) })
          }
        />
      </label>
    </section>
  );
}

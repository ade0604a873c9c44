import { computed, effect, signal } from "@preact/signals";
import { Whole } from "../format";
import { Segments, Slider } from "../parts/controls";
import { route } from "../state/route";
import { info } from "../state/server";
import { type Dial, kDials, kPresets, PresetOf, type Sampling, type Settings } from "./sampling";

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

// What the model's files suggest, else the program's defaults; conversations have defaults of their own. Only of
// a service that has said what it is.
const defaults = computed<Sampling>(() => {
  const { sampling, chat_sampling } = info.value ?? {};
  const { screen, params } = route.value;
  const talks = screen === "play" && (params.get("tab") ?? "chat") === "chat";
  return (talks && chat_sampling) || (sampling as Sampling);
});

export const settings = computed<Settings>(() => ({
  ...defaults.value,
  seed: "",
  ...chosen.value,
}));

function Choose(change: Partial<Settings>): void {
  chosen.value = { ...chosen.value, ...change };
}

// Back to the defaults, but for the length and the seed.
function ChooseDefaults(): void {
  const kept = Object.entries(chosen.value).filter(([key]) => ["max_tokens", "seed"].includes(key));
  chosen.value = Object.fromEntries(kept);
}

export function SamplerPanel() {
  const now = settings.value;
  const model = info.value?.model;
  const { max_tokens: _, ...plain } = defaults.value;
  const presets: Record<string, Partial<Settings>> = { default: plain, ...kPresets };
  return (
    <section class="panel sampler" aria-label="Sampler">
      <Segments
        name="Presets"
        value={PresetOf(now, presets)}
        options={Object.keys(presets).map((name) => [name, name] as const)}
        onPick={(name) => (name === "default" ? ChooseDefaults() : Choose(presets[name] ?? {}))}
      />
      {(Object.keys(kDials) as (keyof Sampling)[]).map((of) => {
        const [label, title, range, rest]: Dial = kDials[of];
        const value = now[of];
        const high = of === "max_tokens" ? Math.max(model?.n_ctx ?? 0, range.high) : range.high;
        const said = range.step < 1 ? value.toFixed(2) : Whole(value);
        return (
          <Slider
            key={of}
            {...range}
            high={high}
            label={label}
            title={title}
            value={Math.min(value, high)}
            shown={value === rest?.[0] ? rest[1] : said}
            onInput={(to) => Choose({ [of]: to })}
          />
        );
      })}
      <label class="seed" title="Equal seeds and settings write equal texts.">
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

import { Segments, Slider } from "../parts/controls";
import { info } from "../state/server";
import { text } from "../text";
import { kPresets, PresetOf, type Preset, type Settings } from "./sampling";
import { settings } from "./writing";

const kPresetNames = Object.keys(kPresets) as Preset[];

export function SamplerPanel() {
  const now = settings.value;
  const words = text.play;
  const set = (change: Partial<Settings>) => (settings.value = { ...now, ...change });
  const context = info.value?.model?.n_ctx ?? 1024;
  return (
    <section class="panel sampler" aria-label={words.sampler}>
      <Segments
        name={words.presets}
        value={PresetOf(now)}
        options={kPresetNames.map((name) => [name, words.preset[name]] as const)}
        onPick={(name) => name && set(kPresets[name])}
      />
      <Slider
        label={words.temperature}
        title={words.help.temperature}
        value={now.temperature}
        low={0}
        high={2}
        step={0.05}
        shown={now.temperature.toFixed(2)}
        onInput={(temperature) => set({ temperature })}
      />
      <Slider
        label={words.top_k}
        title={words.help.top_k}
        value={now.top_k}
        low={0}
        high={200}
        step={1}
        shown={now.top_k === 0 ? words.all : String(now.top_k)}
        onInput={(top_k) => set({ top_k })}
      />
      <Slider
        label={words.top_p}
        title={words.help.top_p}
        value={now.top_p}
        low={0.01}
        high={1}
        step={0.01}
        shown={now.top_p === 1 ? words.all : now.top_p.toFixed(2)}
        onInput={(top_p) => set({ top_p })}
      />
      <Slider
        label={words.min_p}
        title={words.help.min_p}
        value={now.min_p}
        low={0}
        high={0.5}
        step={0.01}
        shown={now.min_p === 0 ? words.off : now.min_p.toFixed(2)}
        onInput={(min_p) => set({ min_p })}
      />
      <Slider
        label={words.repetition}
        title={words.help.repetition}
        value={now.repetition_penalty}
        low={1}
        high={2}
        step={0.05}
        shown={now.repetition_penalty === 1 ? words.off : now.repetition_penalty.toFixed(2)}
        onInput={(repetition_penalty) => set({ repetition_penalty })}
      />
      <Slider
        label={words.max_tokens}
        title={words.help.max_tokens}
        value={Math.min(now.max_tokens, context)}
        low={1}
        high={context}
        step={1}
        shown={String(Math.min(now.max_tokens, context))}
        onInput={(max_tokens) => set({ max_tokens })}
      />
      <label class="seed" title={words.help.seed}>
        {words.seed_label}
        <input
          type="text"
          inputMode="numeric"
          placeholder={words.seed_hint}
          value={now.seed}
          onInput={(event) =>
            set({ seed: event.currentTarget.value.replace(/\D/g, "").slice(0, 15) })
          }
        />
      </label>
    </section>
  );
}

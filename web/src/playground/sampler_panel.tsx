import { Segments, Slider } from "../parts/controls";
import { info } from "../state/server";
import { text } from "../text";
import { PresetOf, type Preset } from "./sampling";
import { Choose, presets, settings } from "./settings";

const kPresetNames = Object.keys(text.play.preset) as Preset[];

const kMostTokens = 1024; // of the slider, where the context is smaller

export function SamplerPanel() {
  const now = settings.value;
  const words = text.play;
  const most = Math.max(info.value?.model?.n_ctx ?? 0, kMostTokens);
  return (
    <section class="panel sampler" aria-label={words.sampler}>
      <Segments
        name={words.presets}
        value={PresetOf(now, presets.value)}
        options={kPresetNames.map((name) => [name, words.preset[name]] as const)}
        onPick={(name) => name && Choose(presets.value[name])}
      />
      <Slider
        label={words.temperature}
        title={words.help.temperature}
        value={now.temperature}
        low={0}
        high={2}
        step={0.05}
        shown={now.temperature.toFixed(2)}
        onInput={(temperature) => Choose({ temperature })}
      />
      <Slider
        label={words.top_k}
        title={words.help.top_k}
        value={now.top_k}
        low={0}
        high={200}
        step={1}
        shown={now.top_k === 0 ? words.all : String(now.top_k)}
        onInput={(top_k) => Choose({ top_k })}
      />
      <Slider
        label={words.top_p}
        title={words.help.top_p}
        value={now.top_p}
        low={0.01}
        high={1}
        step={0.01}
        shown={now.top_p === 1 ? words.all : now.top_p.toFixed(2)}
        onInput={(top_p) => Choose({ top_p })}
      />
      <Slider
        label={words.min_p}
        title={words.help.min_p}
        value={now.min_p}
        low={0}
        high={0.5}
        step={0.01}
        shown={now.min_p === 0 ? words.off : now.min_p.toFixed(2)}
        onInput={(min_p) => Choose({ min_p })}
      />
      <Slider
        label={words.repetition}
        title={words.help.repetition}
        value={now.repetition_penalty}
        low={1}
        high={2}
        step={0.05}
        shown={now.repetition_penalty === 1 ? words.off : now.repetition_penalty.toFixed(2)}
        onInput={(repetition_penalty) => Choose({ repetition_penalty })}
      />
      <Slider
        label={words.max_tokens}
        title={words.help.max_tokens}
        value={Math.min(now.max_tokens, most)}
        low={1}
        high={most}
        step={1}
        shown={String(now.max_tokens)}
        onInput={(max_tokens) => Choose({ max_tokens })}
      />
      <label class="seed" title={words.help.seed}>
        {words.seed_label}
        <input
          type="text"
          inputMode="numeric"
          placeholder={words.seed_hint}
          value={now.seed}
          onInput={(event) =>
            Choose({ seed: event.currentTarget.value.replace(/\D/g, "").slice(0, 15) })
          }
        />
      </label>
    </section>
  );
}

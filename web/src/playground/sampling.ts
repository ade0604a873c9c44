// The sampler again, as the service has it, so that its sliders can be tried on a token that is
// already written: repetition, temperature, top-k, top-p, min-p, in this order.

const kMostTokens = 1024; // of the slider, where the context is smaller

// A slider: its name, its effect, its range, and the value without an effect.
export type Dial = readonly [
  label: string,
  title: string,
  range: { low: number; high: number; step: number },
  rest?: readonly [value: number, said: string],
];

export const kDials = {
  temperature: [
    "Temperature",
    "Below 1 likely tokens become likelier; 0 always takes the likeliest.",
    { low: 0, high: 2, step: 0.05 },
  ],
  top_k: [
    "Top-k",
    "Only the k likeliest tokens are candidates.",
    { low: 0, high: 200, step: 1 },
    [0, "all"],
  ],
  top_p: [
    "Top-p",
    "Of these, the likeliest whose probabilities together reach p.",
    { low: 0.01, high: 1, step: 0.01 },
    [1, "all"],
  ],
  min_p: [
    "Min-p",
    "Of these, those at least min-p times as likely as the likeliest.",
    { low: 0, high: 0.5, step: 0.01 },
    [0, "off"],
  ],
  repetition_penalty: [
    "Repetition",
    "Above 1, tokens that are in the text already become less likely.",
    { low: 1, high: 2, step: 0.05 },
    [1, "off"],
  ],
  max_tokens: ["Tokens", "How many tokens to write.", { low: 1, high: kMostTokens, step: 1 }],
} satisfies Record<string, Dial>;

// How tokens are chosen, by the names of generate's fields.
export type Sampling = Record<keyof typeof kDials, number>;

export interface Settings extends Sampling {
  seed: string; // "" for a new one each time
}

// The service's defaults are one more, which it says itself.
export const kPresets = {
  greedy: { temperature: 0, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 },
  balanced: { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0, repetition_penalty: 1 },
  wild: { temperature: 1.3, top_k: 0, top_p: 1, min_p: 0.02, repetition_penalty: 1 },
} as const;

// The name of the preset that the settings are; "" if they are none.
export function PresetOf(settings: Settings, presets: Record<string, Partial<Settings>>): string {
  const is = (preset: Partial<Settings>) =>
    Object.entries(preset).every(([key, value]) => settings[key as keyof Settings] === value);
  return Object.keys(presets).find((name) => is(presets[name] ?? {})) ?? "";
}

interface Candidate {
  id: number;
  logit: number;
}

// Probabilities by id of what the cuts leave; they add up to 1. `logits` may be ln p as well: a
// constant that all share changes nothing, but repetition, which needs true logits. `before`: the
// ids that repetition takes down.
export function Sampled(
  candidates: Candidate[],
  settings: Settings,
  before: Set<number>,
): Map<number, number> {
  const repetition = settings.repetition_penalty;
  const repeated = (logit: number) => (logit > 0 ? logit / repetition : logit * repetition);
  let left = candidates.map(({ id, logit }) => ({
    id,
    logit: before.has(id) ? repeated(logit) : logit,
  }));
  left.sort((a, b) => b.logit - a.logit || a.id - b.id);
  const first = left[0];
  if (!first) return new Map();
  if (settings.temperature === 0) return new Map([[first.id, 1]]);
  const weigh = (logit: number) => Math.exp((logit - first.logit) / settings.temperature);
  if (settings.top_k > 0 && settings.top_k < left.length) {
    const least = (left[settings.top_k - 1] as Candidate).logit;
    left = left.filter(({ logit }) => logit >= least);
  }
  const total = left.reduce((sum, { logit }) => sum + weigh(logit), 0);
  if (settings.top_p < 1) {
    let sum = 0;
    const end = left.findIndex(({ logit }) => (sum += weigh(logit)) >= settings.top_p * total);
    if (end >= 0) left = left.slice(0, end + 1);
  }
  left = left.filter(({ logit }) => weigh(logit) >= settings.min_p);
  const kept = left.reduce((sum, { logit }) => sum + weigh(logit), 0);
  return new Map(left.map(({ id, logit }) => [id, weigh(logit) / kept]));
}

// ln p of logits.
export function LogSoftmax(logits: Float32Array): Float64Array {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = logits.reduce((all, logit) => all + Math.exp(logit - most), 0);
  const log = most + Math.log(sum);
  return Float64Array.from(logits, (logit) => logit - log);
}

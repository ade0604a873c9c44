// The sampler again, as the service has it, so that its sliders can be tried on a token that is
// already written: repetition, temperature, top-k, top-p, min-p, in this order.

import type { Sampling } from "../api/types";

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

export interface Candidate {
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

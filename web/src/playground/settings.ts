import { computed, effect, signal } from "@preact/signals";
import type { Sampling } from "../api/types";
import { info } from "../state/server";
import { kPresets, type Preset, type Settings } from "./sampling";

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

export const presets = computed<Record<Preset, Partial<Settings>>>(() => {
  const { max_tokens: _, ...plain } = info.value?.sampling as Sampling;
  return { plain, ...kPresets };
});

export function Choose(change: Partial<Settings>): void {
  chosen.value = { ...chosen.value, ...change };
}

import { computed, effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";
export type ThemeChoice = Theme | "system";

const kName = "folio.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = signal(system.matches);
system.addEventListener("change", () => (dark.value = system.matches));

const kOrder: ThemeChoice[] = ["system", "light", "dark"];
const stored = localStorage.getItem(kName);
export const themeChoice = signal(kOrder.find((one) => one === stored) ?? "system");
export const theme = computed<Theme>(() => {
  if (themeChoice.value !== "system") return themeChoice.value;
  return dark.value ? "dark" : "light";
});

effect(() => {
  localStorage.setItem(kName, themeChoice.value);
  document.documentElement.dataset.theme = theme.value;
});

export function NextTheme(): void {
  themeChoice.value = kOrder[(kOrder.indexOf(themeChoice.value) + 1) % kOrder.length] ?? "system";
}

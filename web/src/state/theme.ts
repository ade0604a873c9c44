import { effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";
export type ThemeChoice = Theme | "system";

const kName = "folio.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const stored = localStorage.getItem(kName);

export const themeChoice = signal<ThemeChoice>(
  stored === "light" || stored === "dark" ? stored : "system",
);
export const theme = signal<Theme>("light");

function Settle(): void {
  const choice = themeChoice.value;
  theme.value = choice === "system" ? (system.matches ? "dark" : "light") : choice;
  document.documentElement.dataset.theme = theme.value;
}

effect(() => {
  if (themeChoice.value === "system") localStorage.removeItem(kName);
  else localStorage.setItem(kName, themeChoice.value);
  Settle();
});
system.addEventListener("change", Settle);

export function NextTheme(): void {
  const order: ThemeChoice[] = ["system", "light", "dark"];
  themeChoice.value = order[(order.indexOf(themeChoice.value) + 1) % order.length] ?? "system";
}

import type { Theme } from "./state/theme";

// Sequential maps of 256 colours from the page's background on, so that 0 looks empty.
type Rgb = [number, number, number];

const kStops: Record<Theme, string[]> = {
  light: ["#ffffff", "#dbe4fb", "#a3b9f3", "#6384e3", "#2c50c8", "#1c2f86", "#0f1640"],
  dark: ["#161920", "#1f2c55", "#2f4a9c", "#4d71dd", "#86a4fb", "#c0cffd", "#f6f8ff"],
};

function RgbOf(hex: string): Rgb {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function Table(stops: string[]): Rgb[] {
  const colours = stops.map(RgbOf);
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (colours.length - 1);
    const low = Math.min(Math.floor(at), colours.length - 2);
    const a = colours[low] as Rgb;
    const b = colours[low + 1] as Rgb;
    return [0, 1, 2].map((c) =>
      Math.round((a[c] as number) + ((b[c] as number) - (a[c] as number)) * (at - low)),
    ) as Rgb;
  });
}

const tables: Record<Theme, Rgb[]> = { light: Table(kStops.light), dark: Table(kStops.dark) };

// t in [0,1].
export function Ramp(theme: Theme, t: number): Rgb {
  const at = Math.round(Math.min(Math.max(Number.isFinite(t) ? t : 0, 0), 1) * 255);
  return tables[theme][at] as Rgb;
}

export function RampCss(theme: Theme, t: number): string {
  return `rgb(${Ramp(theme, t).join(" ")})`;
}

// The same as numbers that ImageData takes, little-endian.
export function RampPixels(theme: Theme): Uint32Array {
  return Uint32Array.from(
    tables[theme],
    ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0,
  );
}

// Two hues around the background, for values of both signs; t in [-1,1].
export function Diverging(theme: Theme, t: number): string {
  const [r, g, b] = RgbOf(
    t < 0 ? (theme === "dark" ? "#f0a35e" : "#b4560a") : theme === "dark" ? "#86a4fb" : "#2c50c8",
  );
  const back = RgbOf(kStops[theme][0] as string);
  const share = Math.min(Math.abs(Number.isFinite(t) ? t : 0), 1);
  return `rgb(${[r, g, b].map((c, i) => Math.round((back[i] as number) + (c - (back[i] as number)) * share)).join(" ")})`;
}

// What can be written legibly on Ramp(theme, t).
export function InkOn(theme: Theme, t: number): string {
  if (theme === "dark") return t > 0.46 ? "#0f1116" : "#e8eaf0";
  return t > 0.58 ? "#ffffff" : "#16181d";
}

// Okabe and Ito's palette without its yellow, which no light page shows; dashes after these.
export const kSeries: Record<Theme, string[]> = {
  light: ["#0072b2", "#d55e00", "#007d5a", "#b0568c", "#946200", "#3583b5", "#4a4f5b", "#16181d"],
  dark: ["#56b4e9", "#f08a3c", "#2cc598", "#df93c1", "#e6b23c", "#9fd2f2", "#b4b9c6", "#e8eaf0"],
};

export function SeriesColour(theme: Theme, at: number): string {
  const all = kSeries[theme];
  return all[at % all.length] as string;
}

const kDashes: number[][] = [[], [6, 4], [2, 3], [8, 3, 2, 3]];

export function SeriesDash(at: number): number[] {
  return kDashes[Math.floor(at / kSeries.light.length) % kDashes.length] as number[];
}

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
  return Css(Ramp(theme, t));
}

// The same as numbers that ImageData takes, little-endian.
export function RampPixels(theme: Theme): Uint32Array {
  return Uint32Array.from(
    tables[theme],
    ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0,
  );
}

function Css(colour: Rgb): string {
  return `rgb(${colour.join(" ")})`;
}

// Two hues around the background, for values of both signs; t in [-1,1].
function DivergingRgb(theme: Theme, t: number): Rgb {
  const far = RgbOf(
    t < 0 ? (theme === "dark" ? "#f0a35e" : "#b4560a") : theme === "dark" ? "#86a4fb" : "#2c50c8",
  );
  const back = RgbOf(kStops[theme][0] as string);
  const share = Math.min(Math.abs(Number.isFinite(t) ? t : 0), 1);
  return far.map((c, i) =>
    Math.round((back[i] as number) + (c - (back[i] as number)) * share),
  ) as Rgb;
}

export function Diverging(theme: Theme, t: number): string {
  return Css(DivergingRgb(theme, t));
}

const kReadable = 4.5; // of WCAG 2.1, 1.4.3
const kInks: Record<Theme, string[]> = {
  light: ["#16181d", "#ffffff", "#000000"],
  dark: ["#e8eaf0", "#0f1116", "#ffffff", "#000000"],
};

function Luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((c) =>
    c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4,
  ) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function Contrast(a: Rgb, b: Rgb): number {
  const [x, y] = [Luminance(a) + 0.05, Luminance(b) + 0.05];
  return Math.max(x, y) / Math.min(x, y);
}

// Returns the first of the theme's inks that is readable; on every colour black or white is.
function InkOn(theme: Theme, back: Rgb): string {
  return kInks[theme].find((ink) => Contrast(RgbOf(ink), back) >= kReadable) as string;
}

export type TileStyle = {
  backgroundColor: string;
  color: string;
};

function TileOf(theme: Theme, back: Rgb): TileStyle {
  return { backgroundColor: Css(back), color: InkOn(theme, back) };
}

// The colours of a tile that has text on it, as Ramp and Diverging have them.
export function RampTile(theme: Theme, t: number): TileStyle {
  return TileOf(theme, Ramp(theme, t));
}

export function DivergingTile(theme: Theme, t: number): TileStyle {
  return TileOf(theme, DivergingRgb(theme, t));
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

import type { Theme } from "./state/theme";

type Rgb = [number, number, number];

function RgbOf(hex: string): Rgb {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function Css(colour: Rgb): string {
  return `rgb(${colour.join(" ")})`;
}

function Mix(a: Rgb, b: Rgb, t: number): Rgb {
  return a.map((c, i) => Math.round(c + ((b[i] as number) - c) * t)) as Rgb;
}

// Sequential maps from the page's background on, so that 0 looks empty.
const kStops: Record<Theme, Rgb[]> = {
  light: ["#ffffff", "#dbe4fb", "#a3b9f3", "#6384e3", "#2c50c8", "#1c2f86", "#0f1640"].map(RgbOf),
  dark: ["#161920", "#1f2c55", "#2f4a9c", "#4d71dd", "#86a4fb", "#c0cffd", "#f6f8ff"].map(RgbOf),
};
// The colours of -1 and of 1, with the background between them.
const kEnds: Record<Theme, [Rgb, Rgb]> = {
  light: [RgbOf("#b4560a"), RgbOf("#2c50c8")],
  dark: [RgbOf("#f0a35e"), RgbOf("#86a4fb")],
};

function Within(t: number, least: number): number {
  return Number.isFinite(t) ? Math.min(Math.max(t, least), 1) : 0;
}

// t in [0,1].
function Ramp(theme: Theme, t: number): Rgb {
  const stops = kStops[theme];
  const at = Within(t, 0) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return Mix(stops[low] as Rgb, stops[low + 1] as Rgb, at - low);
}

// t in [-1,1].
function Diverging(theme: Theme, t: number): Rgb {
  return Mix(kStops[theme][0] as Rgb, kEnds[theme][t < 0 ? 0 : 1], Math.abs(Within(t, -1)));
}

export function RampCss(theme: Theme, t: number): string {
  return Css(Ramp(theme, t));
}

export function DivergingCss(theme: Theme, t: number): string {
  return Css(Diverging(theme, t));
}

// `count` colours as numbers that ImageData takes, little-endian.
function Pixels(count: number, colour: (share: number) => Rgb): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => {
    const [r, g, b] = colour(i / (count - 1));
    return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
  });
}

// 256 colours from 0 to 1.
export function RampPixels(theme: Theme): Uint32Array {
  return Pixels(256, (share) => Ramp(theme, share));
}

// 511 colours from -1 to 1.
export function DivergingPixels(theme: Theme): Uint32Array {
  return Pixels(511, (share) => Diverging(theme, 2 * share - 1));
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

interface TileStyle {
  backgroundColor: string;
  color: string;
}

// With the first of the theme's inks that is readable; on every colour black or white is.
function Tile(theme: Theme, back: Rgb): TileStyle {
  const ink = kInks[theme].find((one) => Contrast(RgbOf(one), back) >= kReadable) as string;
  return { backgroundColor: Css(back), color: ink };
}

// The colours of a tile that has text on it.
export function RampTile(theme: Theme, t: number): TileStyle {
  return Tile(theme, Ramp(theme, t));
}

export function DivergingTile(theme: Theme, t: number): TileStyle {
  return Tile(theme, Diverging(theme, t));
}

// Okabe and Ito's palette without its yellow, which no light page shows; dashes after these.
const kSeries: Record<Theme, string[]> = {
  light: ["#0072b2", "#d55e00", "#007d5a", "#b0568c", "#946200", "#3583b5", "#4a4f5b", "#16181d"],
  dark: ["#56b4e9", "#f08a3c", "#2cc598", "#df93c1", "#e6b23c", "#9fd2f2", "#b4b9c6", "#e8eaf0"],
};
const kDashes = [[], [6, 4], [2, 3], [8, 3, 2, 3]];

export function SeriesColour(theme: Theme, at: number): string {
  return kSeries[theme][at % kSeries[theme].length] as string;
}

export function SeriesDash(at: number): number[] {
  return kDashes[Math.floor(at / kSeries.light.length) % kDashes.length] as number[];
}

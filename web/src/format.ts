// Numbers as people read them.

const kMinus = "−";

function Signed(text: string): string {
  return text.replace(/^-/, kMinus);
}

// Thousands apart, by a thin space that does not break.
function Separated(text: string): string {
  return text.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, "\u202f");
}

// To so many significant digits, without an exponent where it can be read without one.
export function Digits(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : `${kMinus}∞`;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) {
    const [mantissa = "", exponent = ""] = value.toExponential(Math.max(digits - 2, 0)).split("e");
    return Signed(`${mantissa}e${exponent.replace("+", "").replace("-", kMinus)}`);
  }
  const whole = Math.max(0, Math.floor(Math.log10(size)) + 1);
  return Signed(Separated(value.toFixed(Math.max(0, Math.min(digits - whole, 6)))));
}

// "41.2k", "124M".
export function Short(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  for (const [size, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(value) >= size)
      return `${Signed(String(+(value / size).toPrecision(digits)))}${unit}`;
  }
  return Signed(String(+value.toPrecision(digits)));
}

// A tick of an axis, which is round: with all its digits but those that only a computer sees.
export function Tick(value: number | null): string {
  return value === null ? "" : Short(value, 12);
}

// How an axis counts: by powers of ten with `log`, in whole numbers with `whole`.
export interface Scale {
  log?: boolean;
  whole?: boolean;
}

// The values of ticks that cut `low` to `high` (logarithms with `log`) into so many parts; whole numbers of them
// where values are whole.
export function Ticks(low: number, high: number, { log, whole }: Scale, parts: number): number[] {
  const scaled = Array.from({ length: parts + 1 }, (_, i) => low + (i / parts) * (high - low));
  const values = scaled.map((value) => (log ? 10 ** value : value));
  if (!whole) return values;
  return [...new Set(values.map(Math.round))].filter((value) => {
    const at = log ? Math.log10(value) : value;
    return at >= low - 1e-9 && at <= high + 1e-9;
  });
}

export function Whole(value: number): string {
  return Signed(Separated(String(Math.round(value))));
}

// "1 layer", "30 layers".
export function Count(n: number, what: string): string {
  return `${Whole(n)} ${what}${n === 1 ? "" : "s"}`;
}

// A rate of tokens: whole where it is large.
export function Rate(per_second: number | null | undefined): string {
  if (per_second === null || per_second === undefined) return "–";
  return per_second >= 100 ? Whole(per_second) : Digits(per_second, 3);
}

// "538 MB": powers of 1000, as the program says them.
export function Bytes(bytes: number): string {
  return `${Short(bytes)}B`.replace(/(\d)(\D*B)$/, "$1 $2");
}

export function Percent(p: number): string {
  if (!Number.isFinite(p)) return "–";
  const percent = p * 100;
  if (percent >= 99.95) return "100 %";
  if (percent >= 9.995) return `${percent.toFixed(1)} %`;
  if (percent >= 0.01) return `${percent.toFixed(2)} %`;
  return percent === 0 ? "0 %" : "<0.01 %";
}

export function Milliseconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

// "58m 04s": the two largest units.
export function Duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d ${two(Math.floor((s % 86400) / 3600))}h`;
}

export const kNatsToBits = 1 / Math.LN2;

// Nats as bits.
export function Bits(nats: number | null): string {
  return nats === null ? "–" : `${Digits(nats * kNatsToBits, 3)} bits`;
}

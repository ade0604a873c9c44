// Attention weights as they are shown.

export type Scale = "linear" | "sqrt" | "log";

const kDecades = 4; // that the log scale shows

// A weight in [0,1] as a place on the colour map, [0,1].
export function Scaled(p: number, scale: Scale): number {
  if (!(p > 0)) return 0;
  if (scale === "linear") return p;
  if (scale === "sqrt") return Math.sqrt(p);
  return Math.max(0, 1 + Math.log10(p) / kDecades);
}

// One head's weights over T tokens; where no query may look there is none.
export class HeadWeights {
  // `codes`: 255 times the weights' square roots, the triangle's rows or the whole square's.
  constructor(
    readonly T: number,
    readonly triangle: boolean,
    private readonly codes: ArrayLike<number>,
  ) {}

  Seen(q: number, k: number): boolean {
    return !this.triangle || k <= q;
  }
  At(q: number, k: number): number {
    if (!this.Seen(q, k)) return 0;
    const code = this.codes[this.triangle ? (q * (q + 1)) / 2 + k : q * this.T + k] ?? 0;
    return (code / 255) ** 2;
  }

  // Makes of several heads one that is their mean or maximum: what single heads do is lost in it.
  static Join(heads: HeadWeights[], how: Join): HeadWeights {
    const { T, triangle, codes } = heads[0] as HeadWeights;
    const joined = new Float32Array(codes.length);
    for (const head of heads) {
      joined.forEach((sum, i) => {
        const p = ((head.codes[i] as number) / 255) ** 2;
        joined[i] = how === "max" ? Math.max(sum, p) : sum + p / heads.length;
      });
    }
    return new HeadWeights(
      T,
      triangle,
      joined.map((p) => 255 * Math.sqrt(p)),
    );
  }
}

export type Join = "mean" | "max";

// Exact weights of one query (or key) in every head of a layer: (H, T).
export interface ExactRow {
  H: number;
  T: number;
  weights: Float32Array;
}

// The weight at `place` of one head, or of all of them joined.
export function WeightOf(row: ExactRow, of: number | Join, place: number): number {
  const one = (head: number) => row.weights[head * row.T + place] ?? 0;
  if (typeof of === "number") return one(of);
  const all = Array.from({ length: row.H }, (_, head) => one(head));
  return of === "max" ? Math.max(...all) : all.reduce((sum, p) => sum + p, 0) / row.H;
}

export interface Look {
  scale: Scale;
  per_row: boolean; // each query's largest weight is full
  first_aside: boolean; // without the first token; the rest add up to 1
}

// A row of weights of query `q` as Look has it; -1 for what is not shown. `row` loses the first token with it.
export function Shade(row: Float32Array, q: number, look: Look): Float32Array {
  let factor = 1;
  if (look.first_aside && q > 0) {
    const rest = 1 - (row[0] as number);
    factor = rest > 1e-6 ? 1 / rest : 0;
    row[0] = -1;
  }
  if (look.per_row) {
    const most = row.reduce((a, b) => Math.max(a, b), 0) * factor;
    if (most > 0) factor /= most;
  }
  return row.map((p) => (p < 0 ? p : Scaled(Math.min(p * factor, 1), look.scale)));
}

// The square's shades, row by row; -1 where nothing is shown.
export function Shades(head: HeadWeights, look: Look): Float32Array {
  const { T } = head;
  const shades = new Float32Array(T * T).fill(-1);
  for (let q = 0; q < T; ++q) {
    const row = new Float32Array(head.triangle ? q + 1 : T).map((_, k) => head.At(q, k));
    shades.set(Shade(row, q, look), q * T);
  }
  return shades;
}

// Returns the share that the first token takes on the average of the queries behind it.
export function FirstShare(head: HeadWeights): number {
  let sum = 0;
  for (let q = 1; q < head.T; ++q) sum += head.At(q, 0);
  return head.T > 1 ? sum / (head.T - 1) : 0;
}

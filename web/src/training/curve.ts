// One key of one run; `low` and `high` are the least and the largest of what a point stands for.
export interface Curve {
  x: number[];
  y: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  raw: boolean; // each point is one measurement
}

// A mean of what lies behind each point, its weight falling to 1/e over `span` of x: the same for
// any number of points.
export function Smoothed({ x, y }: Curve, span: number): (number | null)[] {
  if (!(span > 0)) return y;
  let [sum, weight, last] = [0, 0, x[0] ?? 0];
  return y.map((value, i) => {
    const decay = Math.exp(-((x[i] as number) - last) / span);
    last = x[i] as number;
    [sum, weight] = [sum * decay, weight * decay];
    if (value === null) return null;
    sum += value;
    weight += 1;
    return sum / weight;
  });
}

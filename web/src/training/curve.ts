// One key of one run; `low` and `high` are the least and the largest of what a point stands for.
export interface Curve {
  x: number[];
  y: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  raw: boolean; // each point is one measurement
}

// A mean of what lies behind each point, whose weight falls to 1/e over `span` of x. Each value
// counts as much as the x that it stands for, so that points may lie close or far apart; divided by
// the weights' sum, as Adam's averages are, the mean begins at the first value and not at 0.
export function Smoothed({ x, y }: Curve, span: number): (number | null)[] {
  if (!(span > 0)) return y;
  const [first = 0, second = first + span] = x;
  let [sum, weight, last] = [0, 0, 2 * first - second];
  return y.map((value, i) => {
    const kept = Math.exp((last - (x[i] as number)) / span);
    last = x[i] as number;
    [sum, weight] = [sum * kept, weight * kept];
    if (value === null) return null;
    sum += (1 - kept) * value;
    weight += 1 - kept;
    return weight > 0 ? sum / weight : value;
  });
}

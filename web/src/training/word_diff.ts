const kMostWords = 600; // that are compared

type Part = [kind: "same" | "gone" | "new", text: string];

// Which words of `b` are not in `a`, and the other way round, by their longest common subsequence.
export function WordDiff(a: string, b: string): Part[] {
  const wordsOf = (said: string) => (said.match(/\s+|[^\s]+/g) ?? []).slice(0, kMostWords);
  const [x, y] = [wordsOf(a), wordsOf(b)];
  const width = y.length + 1;
  const lengths = new Uint16Array((x.length + 1) * width); // of what is common behind two places
  const common = (i: number, j: number) => lengths[i * width + j] ?? 0;
  for (let i = x.length - 1; i >= 0; --i) {
    for (let j = y.length - 1; j >= 0; --j) {
      lengths[i * width + j] =
        x[i] === y[j] ? common(i + 1, j + 1) + 1 : Math.max(common(i + 1, j), common(i, j + 1));
    }
  }
  const parts: Part[] = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    const [gone, added] = [x[i], y[j]];
    if (gone !== undefined && gone === added) {
      parts.push(["same", gone]);
      ++i;
      ++j;
    } else if (
      gone !== undefined &&
      (added === undefined || common(i + 1, j) >= common(i, j + 1))
    ) {
      parts.push(["gone", gone]);
      ++i;
    } else if (added !== undefined) {
      parts.push(["new", added]);
      ++j;
    }
  }
  return parts;
}

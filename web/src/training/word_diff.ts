const kMostWords = 600; // that are compared

type Part = [kind: "same" | "gone" | "new", text: string];

// Which words of `b` are not in `a`, and the other way round, by their longest common subsequence.
export function WordDiff(a: string, b: string): Part[] {
  const [x, y] = [a, b].map((said) => (said.match(/\s+|[^\s]+/g) ?? []).slice(0, kMostWords)) as [
    string[],
    string[],
  ];
  const width = y.length + 1;
  const lengths = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; --i) {
    for (let j = y.length - 1; j >= 0; --j) {
      lengths[i * width + j] =
        x[i] === y[j]
          ? (lengths[(i + 1) * width + j + 1] as number) + 1
          : Math.max(lengths[(i + 1) * width + j] as number, lengths[i * width + j + 1] as number);
    }
  }
  const parts: Part[] = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      parts.push(["same", x[i] as string]);
      (++i, ++j);
    } else if (
      j >= y.length ||
      (i < x.length &&
        (lengths[(i + 1) * width + j] as number) >= (lengths[i * width + j + 1] as number))
    ) {
      parts.push(["gone", x[i++] as string]);
    } else {
      parts.push(["new", y[j++] as string]);
    }
  }
  return parts;
}

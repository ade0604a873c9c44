import { GetNumbers } from "../api/numbers";
import { Digits } from "../format";
import { Csv, SaveFile } from "../save";
import { useLoaded } from "../state/load";
import { WithTrace } from "../state/trace";
import { text } from "../text";
import { TokenLabel } from "../tokens";
import { WeightOf, type ExactRow, type HeadWeights, type Join } from "./weights";

const kPairs = 20;

interface Pair {
  q: number;
  k: number;
  p: number;
}

function Strongest(head: HeadWeights): Pair[] {
  const best: Pair[] = [];
  for (let q = 0; q < head.T; ++q) {
    for (let k = 0; k < head.T; ++k) {
      const p = head.At(q, k);
      if (p === 0 || (best.length === kPairs && p <= (best[kPairs - 1] as Pair).p)) continue;
      best.push({ q, k, p });
      best.sort((a, b) => b.p - a.p);
      best.length = Math.min(best.length, kPairs);
    }
  }
  return best;
}

// The strongest pairs of a head, or of a layer's heads joined, as numbers, exact ones.
export function PairTable(props: {
  ids: number[];
  layer: number;
  of: number | Join;
  weights: HeadWeights;
}) {
  const words = text.attn.table;
  const exact = useLoaded(`${props.ids.join(",")}:${props.layer}:${props.of}`, (signal) =>
    WithTrace(
      props.ids,
      async (trace) => {
        const pairs = Strongest(props.weights);
        const rows = new Map(
          await Promise.all(
            [...new Set(pairs.map(({ q }) => q))].map(async (q) => {
              const { shape, data } = await GetNumbers(`${trace}/row?q=${q}&l=${props.layer}`, signal);
              const [H = 0, T = 0] = shape;
              return [q, { H, T, weights: data as Float32Array }] as const;
            }),
          ),
        );
        return pairs
          .map((pair) => ({
            ...pair,
            p: WeightOf(rows.get(pair.q) as ExactRow, props.of, pair.k),
          }))
          .sort((a, b) => b.p - a.p);
      },
      signal,
    ),
  );
  const label = (place: number) => TokenLabel(props.ids[place] ?? 0);
  const save = () =>
    SaveFile(
      `attention-l${props.layer}-${typeof props.of === "number" ? `h${props.of}` : props.of}.csv`,
      [
        Csv([
          ["query", "query_token", "key", "key_token", "weight"],
          ...(exact.value ?? []).map(({ q, k, p }) => [q, label(q), k, label(k), p]),
        ]),
      ],
      "text/csv",
    );
  return (
    <div class="stack">
      <table>
        <caption class="unseen">{words.caption}</caption>
        <thead>
          <tr>
            <th class="number">{words.query}</th>
            <th />
            <th class="number">{words.key}</th>
            <th />
            <th class="number">{words.weight}</th>
          </tr>
        </thead>
        <tbody>
          {exact.value?.map(({ q, k, p }) => (
            <tr key={`${q}.${k}`}>
              <td class="number faint">{q}</td>
              <td>
                <span class="chip">{label(q)}</span>
              </td>
              <td class="number faint">{k}</td>
              <td>
                <span class="chip">{label(k)}</span>
              </td>
              <td class="number">{Digits(p, 4)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {exact.failure && <p class="failure">{exact.failure}</p>}
      <div class="row">
        <button class="small" disabled={!exact.fresh} onClick={save}>
          {words.save}
        </button>
      </div>
    </div>
  );
}

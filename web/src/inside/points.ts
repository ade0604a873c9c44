import type { BlockInfo } from "../api/types";

// The stops of a text's way through a model, by the service's names of their tensors.
export const kPoints = [
  "embedded",
  "ln_1",
  "qkv",
  "heads",
  "attention",
  "middle",
  "ln_2",
  "up",
  "activated",
  "mlp",
  "output",
  "final",
  "logits",
  "probabilities",
] as const;
export type Point = (typeof kPoints)[number];

// A stop's name, its formula, and what it is.
export type Told = readonly [name: string, formula: string, explain: string];

function Plus(is: boolean, what: string): string {
  return is ? ` + ${what}` : "";
}

function Times(scale: number, what: string): string {
  return scale === 1 ? what : `${scale} · ${what}`;
}

// The words for what a norm does to a row.
function NormWords(norm: string): string {
  if (norm === "layer")
    return "Each row is normalized to mean 0 and variance 1, then scaled and shifted by learned numbers.";
  if (norm === "rms_no_weight") return "Each row is normalized to mean square 1.";
  return "Each row is normalized to mean square 1, then scaled by learned numbers.";
}

function Embedded(of: BlockInfo): Told {
  const row = "Each token's row of the embedding table";
  const added = { learned: "P[position]", sinusoidal: "sines(position)" }[of.positions];
  const looked = Times(of.embedding_scale, of.embedding_norm ? "RMS(E[token])" : "E[token]");
  const smeared = Plus(of.smear, "λ·gate·(the token before's)");
  const formula = `x₀ = ${looked}${added ? ` + ${added}` : ""}${smeared}`;
  const explain =
    of.positions === "learned"
      ? `${row}, plus its position's.`
      : of.positions === "sinusoidal"
        ? `${row}, plus sines and cosines of its position.`
        : of.positions === "rotary"
          ? `${row}. The position enters later: layers rotate queries and keys by it.`
          : `${row}. No position is added.`;
  return ["Embeddings", formula, explain];
}

// How a model of this kind computes what stands at each stop, and in which order.
export function PointsOf(of: BlockInfo): Map<Point, Told> {
  const norm = of.norm === "layer" ? "LayerNorm" : "RMSNorm";
  const N = of.norm === "layer" ? "LN" : "RMS";
  const post = of.norm_position === "post";
  const after = of.norm_position === "branch" || of.norm_position === "both";
  const parallel = of.block !== "serial";
  const stream = of.residual_lambdas ? "λ·x + λ₀·x₀" : "x"; // what a block takes for it
  const branch = (what: string) => (after ? `${N}(${what})` : what);
  const normed = after ? " It is normalized before it is added." : "";
  const joins = (what: string, from = "x") =>
    post ? `x + ${what}` : `x ← ${from} + ${Times(of.residual_scale, what)}`;
  const reads = (which: 1 | 2, letter: string): Told =>
    post
      ? [`${norm} ${which}`, `x ← ${N}(x)`, `The normalized sum. ${NormWords(of.norm)}`]
      : of.norm_position === "branch"
        ? [
            which === 1 ? "Input of attention" : "Input of the feed-forward part",
            `${letter} = x`,
            "The residual stream, not normalized: this model has its norms after the sublayers.",
          ]
        : which === 1
          ? [
              `${norm} 1`,
              `a = ${N}₁(${stream})`,
              `${NormWords(of.norm)}${of.residual_lambdas ? " Before that, the block mixes the stream with the embeddings by two learned numbers." : ""}`,
            ]
          : of.block === "parallel_one_norm"
            ? [
                `${norm} 1, again`,
                "m = a",
                "The same numbers: attention and the feed-forward part share one norm.",
              ]
            : [
                `${norm} 2`,
                `m = ${N}₂(x)`,
                parallel
                  ? "The same for the feed-forward part, which reads the block's input beside attention."
                  : "The same, before the feed-forward part.",
              ];
  const own = of.value_embeddings
    ? " In every second layer, embeddings of the token are added to its values through gates."
    : "";
  const turned = of.positions === "rotary" ? " Queries and keys are rotated by their position." : "";
  const told: Record<Point, Told> = {
    embedded: Embedded(of),
    ln_1: reads(1, "a"),
    qkv: [
      "Queries, keys, values",
      `q, k, v = ${post ? "x" : "a"}·W${Plus(of.qkv_bias, "b")}`,
      `One matrix product makes the three side by side, for all heads.${of.qk_norm ? " Queries and keys are normed." : ""}${turned}${own}`,
    ],
    heads: [
      "Output of the heads",
      "softmax(q·kᵀ / √d)·v",
      "The weighted sum of the values of each head; the heads side by side.",
    ],
    attention: [
      "Output of attention",
      branch(`h·Wₒ${Plus(of.attention_bias, "bₒ")}`),
      `One matrix product mixes the heads. The result is added to the stream.${normed}`,
    ],
    middle: [
      "Stream after attention",
      joins("attention", stream),
      "The residual stream plus the output of attention.",
    ],
    ln_2: reads(2, "m"),
    up: of.gated
      ? [
          "Feed-forward, wide",
          `g | u = m·W₁${Plus(of.mlp_bias, "b₁")}`,
          "Two wider vectors side by side: the gates, and the numbers that they scale.",
        ]
      : [
          "Feed-forward, wide",
          `u = m·W₁${Plus(of.mlp_bias, "b₁")}`,
          "A matrix product to a vector that is several times as wide.",
        ],
    activated: of.gated
      ? [
          "Gated units",
          `s = ${of.activation}(g) · u`,
          "Each number times its gate, to which the activation was applied: the only step that is not linear.",
        ]
      : [
          "Activation",
          `g = ${of.activation}(u)`,
          "The only step that is not linear. Most units become about 0.",
        ],
    mlp: [
      "Output of the feed-forward part",
      branch(`${of.gated ? "s" : "g"}·W₂${Plus(of.mlp_bias, "b₂")}`),
      `Back to the width of the stream, to which it is added.${normed}`,
    ],
    output: ["Stream after the block", joins("feed-forward"), "The input of the next block."],
    final: [
      `Final ${norm}`,
      `y = ${N}(${of.backout ? "x − λ·(x of the middle block)" : "x"})`,
      "The last norm, before the stream becomes logits.",
    ],
    logits: [
      "Logits",
      "logits = y·Uᵀ",
      `One number for every token of the vocabulary: the product of its row of the output matrix U (${of.tied ? "the embedding table" : "a table of its own"}) with the stream at the chosen token.`,
    ],
    probabilities: [
      "Next token",
      "p = softmax(logits)",
      "e to the power of each logit, divided by the sum of these: the probability of each token to come next. The sampler draws one of them.",
    ],
  };
  // A norm behind a sum comes after it, and the second one's result is the block's.
  const order: readonly Point[] = post
    ? [...kPoints.filter((one) => one !== "ln_1" && one !== "ln_2")].flatMap((one) =>
        one === "middle" ? [one, "ln_1" as const] : [one],
      )
    : kPoints;
  if (post)
    told.output = [`${norm} 2`, `x ← ${N}(x + feed-forward)`, "The input of the next block."];
  return new Map(order.map((one) => [one, told[one]] as const));
}

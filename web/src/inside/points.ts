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
    return "Each row to mean 0 and variance 1, then scaled and shifted by learned numbers.";
  if (norm === "rms_no_weight") return "Each row to mean square 1.";
  return "Each row to mean square 1, then scaled by learned numbers.";
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
          ? `${row}. Its place comes in later: layers turn queries and keys by it.`
          : `${row}. Nothing is added for its place.`;
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
  const normed = after ? " Normed, before it joins." : "";
  const joins = (what: string, from = "x") =>
    post ? `x + ${what}` : `x ← ${from} + ${Times(of.residual_scale, what)}`;
  const reads = (which: 1 | 2, letter: string): Told =>
    post
      ? [`${norm} ${which}`, `x ← ${N}(x)`, `The sum, normed. ${NormWords(of.norm)}`]
      : of.norm_position === "branch"
        ? [
            which === 1 ? "What attention reads" : "What the feed-forward part reads",
            `${letter} = x`,
            "The stream as it is: norms stand behind the sublayers of this model.",
          ]
        : which === 1
          ? [
              `${norm} 1`,
              `a = ${N}₁(${stream})`,
              `${NormWords(of.norm)}${of.residual_lambdas ? " Before that a block mixes the stream with the embeddings, by two learned numbers." : ""}`,
            ]
          : of.block === "parallel_one_norm"
            ? [
                `${norm} 1, again`,
                "m = a",
                "The same numbers: attention and the feed-forward part read one norm, beside each other.",
              ]
            : [
                `${norm} 2`,
                `m = ${N}₂(x)`,
                parallel
                  ? "The same again of the block's input, for the feed-forward part beside attention."
                  : "The same again, before the feed-forward part.",
              ];
  const own = of.value_embeddings
    ? " In every second layer each token's own values are added, through gates."
    : "";
  const turned = of.positions === "rotary" ? " Queries and keys are turned by their place." : "";
  const told: Record<Point, Told> = {
    embedded: Embedded(of),
    ln_1: reads(1, "a"),
    qkv: [
      "Queries, keys, values",
      `q, k, v = ${post ? "x" : "a"}·W${Plus(of.qkv_bias, "b")}`,
      `One matrix product makes the three side by side, for all heads.${of.qk_norm ? " Queries and keys are normed." : ""}${turned}${own}`,
    ],
    heads: [
      "What the heads gather",
      "softmax(q·kᵀ / √d)·v",
      "Each head's weighted values, the heads side by side.",
    ],
    attention: [
      "Attention's result",
      branch(`h·Wₒ${Plus(of.attention_bias, "bₒ")}`),
      `The heads mixed together, before they join the stream.${normed}`,
    ],
    middle: [
      "Stream after attention",
      joins("attention", stream),
      "The residual stream with what attention brought.",
    ],
    ln_2: reads(2, "m"),
    up: of.gated
      ? [
          "Feed-forward, wide",
          `g | u = m·W₁${Plus(of.mlp_bias, "b₁")}`,
          "Two vectors several times as wide, side by side: gates, and what goes through them.",
        ]
      : [
          "Feed-forward, wide",
          `u = m·W₁${Plus(of.mlp_bias, "b₁")}`,
          "To a vector several times as wide.",
        ],
    activated: of.gated
      ? [
          "Gated units",
          `s = ${of.activation}(g) · u`,
          "Each number times its gate, which the activation made: the one step that is not linear.",
        ]
      : [
          "Activation",
          `g = ${of.activation}(u)`,
          "The one step that is not linear: most units go to about 0.",
        ],
    mlp: [
      "Feed-forward's result",
      branch(`${of.gated ? "s" : "g"}·W₂${Plus(of.mlp_bias, "b₂")}`),
      `Back to the stream's width, before it joins.${normed}`,
    ],
    output: ["Stream after the block", joins("feed-forward"), "What the next block is given."],
    final: [
      `Final ${norm}`,
      `y = ${N}(${of.backout ? "x − λ·(x of the middle block)" : "x"})`,
      "The last norm, before the stream is read as tokens.",
    ],
    logits: [
      "Logits",
      "logits = y·Uᵀ",
      `One number for every token of the vocabulary: how well its row of the output matrix U (${of.tied ? "the embeddings again" : "one of its own"}) fits what stands behind the chosen token.`,
    ],
    probabilities: [
      "Next token",
      "p = softmax(logits)",
      "e to the power of each logit, divided by their sum: how likely each token is to come next. Of these the sampler draws one.",
    ],
  };
  // A norm behind a sum comes after it, and the second one's result is the block's.
  const order: readonly Point[] = post
    ? [...kPoints.filter((one) => one !== "ln_1" && one !== "ln_2")].flatMap((one) =>
        one === "middle" ? [one, "ln_1" as const] : [one],
      )
    : kPoints;
  if (post)
    told.output = [`${norm} 2`, `x ← ${N}(x + feed-forward)`, "What the next block is given."];
  return new Map(order.map((one) => [one, told[one]] as const));
}

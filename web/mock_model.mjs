// A made-up model: a vocabulary, and numbers that follow from names, the same each time.

const L = 4,
  H = 4,
  C = 64,
  D = C / H,
  P = 256;

const Json = (value) => ({ type: "application/json", body: JSON.stringify(value) });
const Failure = (status, message) => ({
  status,
  ...Json({ error: { message, type: "invalid_request_error", param: null, code: null } }),
});

// ---- A vocabulary: bytes, then some words.
const words =
  " the, and, of, to, a, in, that, it, was, he, for, you, is, with, his, not, be, cat, sat, on, mat, I, my, time, upon, Once, little, day, there,ing,ed,er,ly, said, big, dog, tree, sun, happy, very, she, her, they, but, all, one, play, saw, went, wanted, friend, home".split(
    ",",
  );
const vocabulary = [
  ...Array.from({ length: 256 }, (_, byte) => Buffer.from([byte])),
  ...words.map((word) => Buffer.from(word)),
];
const V = vocabulary.length;
const byLength = vocabulary
  .map((bytes, id) => ({ bytes, id }))
  .sort((a, b) => b.bytes.length - a.bytes.length);

function Encode(text) {
  const bytes = Buffer.from(text);
  const ids = [],
    spans = [];
  for (let at = 0; at < bytes.length;) {
    const { bytes: token, id } = byLength.find((one) =>
      bytes.subarray(at, at + one.bytes.length).equals(one.bytes),
    );
    ids.push(id);
    spans.push([at, at + token.length]);
    at += token.length;
  }
  return { ids, spans, bytes: bytes.length };
}

// ---- Numbers from names, the same each time.
function Noise(...seeds) {
  let h = 2166136261;
  for (const seed of seeds) ((h = Math.imul(h ^ (seed + 0x9e3779b9), 16777619)), (h ^= h >>> 13));
  h = Math.imul(h ^ (h >>> 16), 0x45d9f3b);
  return ((h ^ (h >>> 15)) >>> 0) / 2 ** 32;
}
const Gauss = (...seeds) =>
  Math.sqrt(-2 * Math.log(Noise(...seeds, 1) + 1e-12)) * Math.cos(2 * Math.PI * Noise(...seeds, 2));

function Softmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const weights = logits.map((x) => Math.exp(x - most));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((x) => x / sum);
}

// After some ids, sharper the more layers were gone through.
function Logits(ids, layers = L) {
  const last = ids.at(-1) ?? 0,
    before = ids.at(-2) ?? 0;
  return Array.from({ length: V }, (_, id) => {
    const usual =
      id >= 256 ? 3 : id === 46 || id === 44 ? 2 : id === 10 ? 0.5 : id >= 97 && id < 123 ? -1 : -7;
    return (
      usual +
      ((layers + 1) / (L + 1)) * 2.6 * Gauss(last, before, id) +
      (1 - layers / L) * 2 * Gauss(layers, id, last)
    );
  });
}
function Judge(ids, count) {
  const p = Softmax(Logits(ids));
  const order = p.map((_, id) => id).sort((a, b) => p[b] - p[a]);
  return {
    p,
    order,
    H: -p.reduce((sum, x) => sum + x * Math.log(x), 0),
    top: order.slice(0, count).map((id) => [id, Math.log(p[id])]),
  };
}

// ---- Attention: each head has its habit.
function Weights(ids, l, h) {
  const T = ids.length;
  return Array.from({ length: T }, (_, q) =>
    Softmax(
      Array.from({ length: q + 1 }, (_, k) => {
        const habit = [
          k === q - 1 ? 5 : 0,
          k === 0 ? 4 : 0,
          ids[k] === ids[q] && k !== q ? 4 : 0,
          -Math.abs(q - k) * 0.4,
        ][(l + h) % 4];
        return habit * (0.5 + l / L) + Gauss(l, h, ids[q], ids[k]) * 0.9 + (k === 0 ? 1 : 0);
      }),
    ),
  );
}

function Gvz(header, numbers) {
  const kinds = { u8: Uint8Array, i16: Int16Array, f32: Float32Array };
  const data = kinds[header.dtype].from(numbers);
  const json = Buffer.from(JSON.stringify(header));
  const head = Buffer.alloc(Math.ceil((8 + json.length) / 8) * 8);
  head.write("GVZ1");
  head.writeUInt32LE(json.length, 4);
  json.copy(head, 8);
  return {
    type: "application/octet-stream",
    body: Buffer.concat([head, Buffer.from(data.buffer)]),
  };
}
const Code = (p) => Math.round(255 * Math.sqrt(p));

function Pooled(rows, size) {
  const T = rows.length,
    s = Math.min(size, T),
    cells = new Array(s * s).fill(0);
  const cell = (i) => [Math.floor((i * T) / s), Math.floor(((i + 1) * T) / s)];
  for (let i = 0; i < s; ++i)
    for (let j = 0; j < s; ++j) {
      const [q0, q1] = cell(i),
        [k0, k1] = cell(j);
      for (let q = q0; q < q1; ++q)
        for (let k = k0; k < k1; ++k)
          cells[i * s + j] = Math.max(cells[i * s + j], rows[q][k] ?? 0);
    }
  return { s, cells };
}

function Scores(ids, l, h) {
  const rows = Weights(ids, l, h).slice(1),
    n = Math.max(rows.length, 1);
  const mean = (of) => rows.reduce((sum, row, i) => sum + of(row, i + 1), 0) / n;
  return [
    mean((row) => -row.reduce((s, p) => s + p * Math.log(p), 0)),
    mean((row, q) => row.reduce((s, p, k) => s + p * (q - k), 0)),
    mean((row) => row[0]),
    mean((row, q) => row[q - 1]),
    mean((row, q) => row[q]),
    mean((row, q) => row.reduce((s, p, k) => s + (k < q && ids[k] === ids[q] ? p : 0), 0)),
    0.1 * Noise(l, h),
  ];
}

const traces = new Map();
const Stats = (x, width) => {
  const n = x.length,
    mean = x.reduce((a, b) => a + b, 0) / n,
    min = Math.min(...x),
    max = Math.max(...x);
  const std = Math.sqrt(x.reduce((s, v) => s + (v - mean) ** 2, 0) / n),
    counts = new Array(32).fill(0);
  for (const v of x) counts[Math.min(31, Math.floor(((v - min) / (max - min || 1)) * 32))]++;
  const norms = Array.from({ length: n / width }, (_, r) =>
    Math.hypot(...x.slice(r * width, (r + 1) * width)),
  );
  return {
    mean,
    std,
    min,
    max,
    rms: Math.hypot(mean, std),
    kurtosis: 3,
    norm_median: norms.sort((a, b) => a - b)[norms.length >> 1],
    norm_max: norms.at(-1),
    norm_max_position: 0,
    histogram: { from: min, to: max, counts },
  };
};

function OfTrace(ids, path, query) {
  const T = ids.length,
    number = (key, otherwise = 0) => Number(query.get(key) ?? otherwise);
  const [what, a, b] = path;
  if (what === "thumbs") {
    const all = [];
    let s = 0;
    for (let l = 0; l < L; ++l)
      for (let h = 0; h < H; ++h) {
        const pooled = Pooled(Weights(ids, l, h), number("size", 48));
        s = pooled.s;
        all.push(...pooled.cells);
      }
    return Gvz({ dtype: "u8", shape: [L, H, s, s], layout: "full", code: "sqrt" }, all.map(Code));
  }
  if (what === "attn")
    return Gvz(
      { dtype: "u8", shape: [T, T], layout: "tril", code: "sqrt", layer: +a, head: +b, pool: null },
      Weights(ids, +a, +b).flat().map(Code),
    );
  if (what === "row") {
    const out = Array.from({ length: H }, (_, h) => {
      const rows = Weights(ids, number("l"), h);
      return Array.from(
        { length: T },
        (_, i) => (query.has("key") ? rows[i][number("key")] : rows[number("q")][i]) ?? 0,
      );
    });
    return Gvz({ dtype: "f32", shape: [H, T], layout: "full" }, out.flat());
  }
  if (what === "scores") {
    const all = [];
    for (let l = 0; l < L; ++l) for (let h = 0; h < H; ++h) all.push(...Scores(ids, l, h));
    return Gvz(
      {
        dtype: "f32",
        shape: [L, H, 7],
        layout: "full",
        columns: ["entropy", "distance", "first", "previous", "self", "duplicate", "induction"],
      },
      all,
    );
  }
  if (what === "logits")
    return Gvz(
      { dtype: "f32", shape: [V], layout: "full" },
      Logits(ids.slice(0, number("pos") + 1)),
    );
  if (what === "lens") {
    const final = {},
      rows = [];
    for (const pos of query.get("pos").split(",").map(Number)) {
      const end = Softmax(Logits(ids.slice(0, pos + 1))),
        best = end.indexOf(Math.max(...end));
      final[pos] = [best, end[best]];
      for (let l = 0; l <= L; ++l) {
        const p = Softmax(Logits(ids.slice(0, pos + 1), l)),
          order = p.map((_, id) => id).sort((x, y) => p[y] - p[x]);
        rows.push({
          layer: l === 0 ? "embed" : l - 1,
          pos,
          top: order.slice(0, number("top", 5)).map((id) => [id, p[id]]),
          kl: end.reduce((s, x, i) => s + x * Math.log(x / p[i]), 0),
          H: -p.reduce((s, x) => s + x * Math.log(x), 0),
          rank_final: order.indexOf(best) + 1,
        });
      }
    }
    return Json({ trace: "t", final, rows });
  }
  if (what === "tensor") {
    const width = /qkv$/.test(a) ? 3 * C : /up$|activated$/.test(a) ? 4 * C : C,
      l = parseInt(a) || 0;
    const x = Array.from({ length: T * width }, (_, i) => {
      const v = Gauss(i, l, a.length) * (1 + l / 3);
      return a.endsWith("activated") ? Math.max(v, 0) : v;
    });
    return Gvz(
      {
        dtype: "f32",
        shape: [T, width],
        layout: "full",
        name: a,
        of: [T, width],
        slice: [0, T, 0, width],
        pool: null,
        stats: Stats(x, width),
      },
      x,
    );
  }
  if (what === "steps") {
    const q = number("q"),
      row = Weights(ids, number("l"), number("h"))[q],
      scale = 1 / Math.sqrt(D);
    const vector = (...s) => Array.from({ length: D }, (_, i) => Gauss(...s, i));
    const v = ids.map((id) => vector(3, id)),
      pad = (x) => Array.from({ length: T }, (_, k) => (row[k] === undefined ? x : 0));
    const scaled = ids.map((id, k) => (row[k] === undefined ? Gauss(id, k) : Math.log(row[k]) + 3));
    const parts = [
      ["q", [D], vector(1, ids[q])],
      ["k", [T, D], ids.flatMap((id) => vector(2, id))],
      ["v", [T, D], v.flat()],
      ["scores", [T], scaled.map((x) => x / scale)],
      ["scaled", [T], scaled],
      ["masked", [T], pad(-Infinity).map((x, k) => x || scaled[k])],
      ["softmax", [T], ids.map((_, k) => row[k] ?? 0)],
      [
        "out",
        [D],
        Array.from({ length: D }, (_, i) => row.reduce((s, p, k) => s + p * v[k][i], 0)),
      ],
    ];
    let at = 0;
    const header = parts.map(([name, shape, x]) => {
      const part = { name, at, shape };
      at += x.length;
      return part;
    });
    return Gvz(
      {
        dtype: "f32",
        shape: [at],
        layout: "full",
        parts: header,
        scale,
        layer: number("l"),
        head: number("h"),
        query: q,
      },
      parts.flatMap((part) => part[2]),
    );
  }
  return Failure(404, "there is nothing there");
}

export {
  L,
  H,
  C,
  D,
  P,
  V,
  vocabulary,
  Encode,
  Noise,
  Gauss,
  Judge,
  Gvz,
  OfTrace,
  Json,
  Failure,
  Softmax,
  traces,
};

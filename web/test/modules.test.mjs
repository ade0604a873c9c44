// Parts of the page that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Module } from "./kit.mjs";

const bytes = (text) => new Uint8Array(Buffer.from(text));

function FileOf(dtype, shape, payload, about = {}) {
  const header = Buffer.from(
    JSON.stringify({
      __metadata__: Object.fromEntries(
        Object.entries(about).map(([key, value]) => [key, JSON.stringify(value)]),
      ),
      numbers: { dtype, shape, data_offsets: [0, payload.length] },
    }),
  );
  const padded = Buffer.concat([header, Buffer.alloc(-header.length & 7, " ")]);
  const length = Buffer.alloc(8);
  length.writeUInt32LE(padded.length);
  const whole = Buffer.concat([length, padded, payload]);
  return whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length);
}

test("numbers are read as their header says", async () => {
  const { DecodeNumbers, Values } = await Module("api/numbers.ts");
  const codes = DecodeNumbers(
    FileOf("U8", [6], Buffer.from([255, 0, 128, 51, 102, 153]), { code: "sqrt", layout: "tril" }),
  );
  assert.equal(codes.about.layout, "tril");
  assert.deepEqual(
    [...Values(codes)].map((x) => x.toFixed(4)),
    ["1.0000", "0.0000", "0.2520", "0.0400", "0.1600", "0.3600"],
  );
  const shorts = Buffer.alloc(4);
  shorts.writeInt16LE(-2, 0);
  shorts.writeInt16LE(300, 2);
  const scaled = DecodeNumbers(FileOf("I16", [2], shorts, { offset: 1, scale: 0.5 }));
  assert.deepEqual([...Values(scaled)], [0, 151]);
  const floats = Buffer.alloc(8);
  floats.writeFloatLE(0.25, 0);
  floats.writeFloatLE(-Infinity, 4);
  assert.deepEqual([...Values(DecodeNumbers(FileOf("F32", [2], floats)))], [0.25, -Infinity]);
  assert.throws(() => DecodeNumbers(new ArrayBuffer(4)), RangeError);
  assert.throws(() => DecodeNumbers(FileOf("F64", [1], Buffer.alloc(8))), /F64/);
  assert.throws(() => DecodeNumbers(FileOf("F32", [9], Buffer.alloc(8))), RangeError);
});

test("a character that several tokens spell stands with the last of them", async () => {
  const { Pieces } = await Module("tokens.ts");
  const smile = [...bytes("🙂")].map((byte) => Uint8Array.of(byte));
  assert.deepEqual(Pieces([bytes("a"), ...smile, bytes("é")]), ["a", "", "", "", "🙂", "é"]);
  assert.deepEqual(Pieces(smile.slice(0, 3), true), ["", "", ""]);
  assert.deepEqual(Pieces(smile.slice(0, 3)), ["", "", "⟨F0⟩⟨9F⟩⟨99⟩"]);
  assert.deepEqual(Pieces([Uint8Array.of(0xff), Uint8Array.of(0xe2, 0x41), bytes("漢")]), [
    "⟨FF⟩",
    "⟨E2⟩A",
    "漢",
  ]);
  assert.deepEqual(Pieces([Uint8Array.of(0xe0, 0x80, 0x80)]), ["⟨E0⟩⟨80⟩⟨80⟩"]); // not the shortest form
  for (const piece of Pieces([
    Uint8Array.of(0xed, 0xa0, 0x80),
    Uint8Array.of(0xf4, 0x90, 0x80, 0x80),
  ]))
    assert.ok(!piece.includes("\ufffd"));
});

test("events are cut as a text/event-stream says, wherever the network cuts it", async () => {
  const { EventsOf } = await Module("api/event_stream.ts");
  const said = Buffer.from(
    ': hello\n\nid: 7\nevent: token\ndata: {"text":"é"}\n\ndata: one\ndata: two\r\n\r\nevent: torn\ndata: x\n',
  );
  for (const size of [1, 3, 1000]) {
    const stream = new ReadableStream({
      start(controller) {
        for (let at = 0; at < said.length; at += size)
          controller.enqueue(new Uint8Array(said.subarray(at, at + size)));
        controller.close();
      },
    });
    const events = [];
    for await (const event of EventsOf({ body: stream })) events.push({ ...event });
    assert.deepEqual(events, [
      { event: "token", data: '{"text":"é"}', id: "7" },
      { event: "message", data: "one\ntwo", id: "" },
    ]);
  }
});

test("the sampler's cuts come in the service's order", async () => {
  const { Sampled, LogSoftmax } = await Module("playground/sampling.ts");
  const settings = { temperature: 1, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 };
  const all = [1, 0.5, 0.25, 0.25].map((weight, id) => ({ id, logit: Math.log(weight) }));
  const sampled = (change, before = []) =>
    [...Sampled(all, { ...settings, ...change }, new Set(before))].map(
      ([id, p]) => `${id}:${p.toFixed(3)}`,
    );
  assert.deepEqual(sampled({}), ["0:0.500", "1:0.250", "2:0.125", "3:0.125"]);
  assert.deepEqual(sampled({ temperature: 0 }), ["0:1.000"]);
  assert.deepEqual(sampled({ top_k: 3 }).length, 4); // the fourth is as likely as the third
  assert.deepEqual(sampled({ top_p: 0.6 }), ["0:0.667", "1:0.333"]);
  assert.deepEqual(sampled({ top_k: 2, top_p: 0.6 }), ["0:1.000"]);
  assert.deepEqual(sampled({ min_p: 0.4 }), ["0:0.667", "1:0.333"]);
  assert.equal(sampled({ repetition_penalty: 2 }, [1])[1], "1:0.143"); // its 0.5 became 0.25
  assert.ok(
    Math.abs(
      [...LogSoftmax(Float32Array.of(1000, 1001))].reduce((sum, lp) => sum + Math.exp(lp), 0) - 1,
    ) < 1e-12,
  );
});

test("shades: what is aside is not shown, and the rest adds up again", async () => {
  const { Shade, Scaled, HeadWeights, Shades } = await Module("attention/weights.ts");
  const row = (...weights) => Float32Array.from(weights);
  const look = { scale: "linear", per_row: false, first_aside: false };
  assert.deepEqual(
    [...Shade(row(0.5, 0.25, 0.25), 2, { ...look, first_aside: true })],
    [-1, 0.5, 0.5],
  );
  assert.deepEqual([...Shade(row(0.5, 0.25, 0.25), 2, { ...look, per_row: true })], [1, 0.5, 0.5]);
  assert.equal(Scaled(0.01, "log"), 0.5);
  assert.equal(Scaled(0.25, "sqrt"), 0.5);
  const shades = Shades(new HeadWeights(2, true, [255, 0, 255]), look);
  assert.deepEqual([...shades], [1, -1, 0, 1]);
});

test("smoothing does not depend on how many points there are", async () => {
  const { Smoothed } = await Module("training/chart_data.ts");
  const curve = (every) => {
    const x = Array.from({ length: 1000 / every + 1 }, (_, i) => i * every);
    return { x, y: x.map((at) => (at < 500 ? 0 : 1)), low: [], high: [], raw: true };
  };
  const [fine, coarse] = [1, 5]
    .map((every) => Smoothed(curve(every), 50))
    .map((ys) => ys[Math.floor((ys.length - 1) * 0.55)]);
  assert.ok(Math.abs(fine - coarse) < 0.04, `${fine} and ${coarse}`);
  assert.deepEqual(Smoothed({ x: [0, 1, 2], y: [4, null, 4], low: [], high: [], raw: true }, 2), [
    4,
    null,
    4,
  ]);
});

test("smoothing is Adam's average, and goes on alike where points come closer", async () => {
  const { Smoothed } = await Module("training/chart_data.ts");
  const curve = (x, of) => ({ x, y: x.map(of), low: [], high: [], raw: true });
  const span = 7;
  const keep = Math.exp(-1 / span);
  const noise = (i) => 5 / (1 + i / 9) + Math.sin(i * i);
  const steps = Array.from({ length: 60 }, (_, i) => i);
  let m = 0;
  Smoothed(curve(steps, noise), span).forEach((mean, i) => {
    m = keep * m + (1 - keep) * noise(i);
    assert.ok(Math.abs(mean - m / (1 - keep ** (i + 1))) < 1e-12, `at ${i}`);
  });
  assert.deepEqual(Smoothed(curve([3], noise), span), [noise(3)]);
  // From 0 to 1 where points begin to follow each other at once, no more after 50 steps.
  const seam = Array.from({ length: 200 }, (_, i) => (i < 100 ? 50 * i : 5000 + i - 100));
  const grown = Smoothed(curve(seam, (x) => (x < 5000 ? 0 : 1)), 500).at(-1);
  assert.ok(Math.abs(grown - (1 - Math.exp(-149 / 500))) < 1e-4, `${grown}`);
});

test("ticks of ranks are whole numbers", async () => {
  const { Ticks } = await Module("format.ts");
  const ranks = (...ends) => Ticks(...ends.map(Math.log10), { log: true, whole: true }, 2);
  assert.deepEqual(ranks(1, 900), [1, 30, 900]);
  assert.deepEqual(ranks(1, 2), [1, 2]);
  assert.deepEqual(Ticks(-0.5, 0.5, { log: true, whole: true }, 2), [1, 3]); // of rank 1 alone
  assert.deepEqual(Ticks(0, 1, {}, 2), [0, 0.5, 1]);
});

test("CSV quotes what needs it, and a difference is one of words", async () => {
  const { Csv } = await Module("save.ts");
  assert.equal(
    Csv([
      ["a", 'b "c", d'],
      [1, null],
      ["x\ny", 0.5],
    ]),
    'a,"b ""c"", d"\r\n1,\r\n"x\ny",0.5\r\n',
  );
  const { WordDiff } = await Module("training/word_diff.ts");
  assert.deepEqual(WordDiff("the cat", "the dog"), [
    ["same", "the"],
    ["same", " "],
    ["gone", "cat"],
    ["new", "dog"],
  ]);
});

test("the axis of one point lies around it", async () => {
  const { RangeOfOne } = await Module("training/chart_data.ts");
  assert.deepEqual(RangeOfOne(0, true), [0, 1]);
  assert.deepEqual(RangeOfOne(7, true), [6, 8]);
  assert.deepEqual(RangeOfOne(-20, false), [-22, -18]);
  assert.deepEqual(RangeOfOne(0, false), [-1, 1]);
});

test("counts have their separators, and fractions none", async () => {
  const { Bytes, Count, Digits, Rate, Whole } = await Module("format.ts");
  assert.equal(Whole(1234567), "1\u202f234\u202f567");
  assert.equal(Digits(123456.7), "123\u202f457");
  assert.equal(Digits(0.123456, 6), "0.123456");
  assert.equal(Digits(1234.56789, 8), "1\u202f234.5679");
  assert.equal(Rate(15722.4), "15\u202f722");
  assert.equal(Rate(3.456), "3.46");
  assert.equal(Bytes(538060032), "538 MB");
  assert.equal(Count(1, "layer") + Count(1200, "head"), "1 layer1\u202f200 heads");
});

test("numbers are short and say what they are", async () => {
  const { Digits, Duration, Percent, Short, Tick } = await Module("format.ts");
  assert.equal(Digits(0.00012345), "1.23e−4");
  assert.equal(Digits(1234.5678), "1\u202f235");
  assert.equal(Digits(NaN), "–");
  assert.equal(Digits(-Infinity), "−∞");
  assert.equal(Short(124439808), "124M");
  assert.equal(Percent(0.00001), "<0.01 %");
  assert.equal(Duration(3484), "58m 04s");
  assert.deepEqual([5.525, 0.1 + 0.2, 1e-5, 12345, null].map(Tick), [
    "5.525",
    "0.3",
    "0.00001",
    "12.345k",
    "",
  ]);
});

test("black on white or white on black: a tile's text is readable whatever its colour", async () => {
  const { RampTile, DivergingTile } = await Module("colour.ts");
  const parse = (css) =>
    css.startsWith("#")
      ? [1, 3, 5].map((at) => parseInt(css.slice(at, at + 2), 16))
      : css.match(/\d+/g).map(Number);
  const light = (css) =>
    parse(css)
      .map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0.05);
  for (const theme of ["light", "dark"]) {
    for (let t = -1; t <= 1; t += 1 / 512) {
      for (const { color, backgroundColor } of [RampTile(theme, t), DivergingTile(theme, t)]) {
        const [a, b] = [light(color), light(backgroundColor)];
        const ratio = Math.max(a, b) / Math.min(a, b);
        assert.ok(ratio >= 4.5, `${theme} ${t}: ${color} on ${backgroundColor} is ${ratio}`);
      }
    }
  }
});

test("names beside points touch neither names nor points", async () => {
  const { LabelsThatFit } = await Module("inside/labels.ts");
  const [n, radius, size] = [400, 4, { width: 500, height: 300 }];
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const spots = Float32Array.from({ length: 2 * n }, (_, i) =>
    i % 2 === 0 ? 16 + random() * (size.width - 32) : 16 + random() * (size.height - 32),
  );
  const widthOf = (id) => 8 + (id % 5) * 7;
  const placed = LabelsThatFit(spots, radius, size, Array(n).keys(), widthOf);
  assert.ok(placed.length > 20 && placed.length < n, `${placed.length}`);
  const boxOf = ({ id, x, y }) => [x, y - 6, x + widthOf(id), y + 6];
  const apart = ([a0, b0, a1, b1], [c0, d0, c1, d1]) => a1 < c0 || c1 < a0 || b1 < d0 || d1 < b0;
  placed.forEach((one, i) => {
    const box = boxOf(one);
    assert.ok(box[0] >= 0 && box[1] >= 0 && box[2] < size.width && box[3] < size.height);
    for (const other of placed.slice(0, i)) assert.ok(apart(box, boxOf(other)));
    for (let id = 0; id < n; ++id) {
      const [x, y] = [spots[2 * id], spots[2 * id + 1]];
      assert.ok(apart(box, [x - radius, y - radius, x + radius, y + radius]));
    }
  });
});

import { Send } from "./http";

// A frame of numbers: "GVZ1", the header's length, the header as JSON, zeros up to a multiple of 8,
// then the payload, little-endian.
export interface GvzHeader {
  dtype: "u8" | "i16" | "f32";
  shape: number[];
  layout?: "full" | "tril";
  code?: "lin" | "sqrt";
  offset?: number;
  scale?: number;
  [key: string]: unknown;
}

export type GvzData = Uint8Array | Int16Array | Float32Array;

export interface Gvz {
  header: GvzHeader;
  data: GvzData;
}

const kMagic = 0x315a5647; // "GVZ1"

export function DecodeGvz(bytes: ArrayBuffer): Gvz {
  const view = new DataView(bytes);
  if (bytes.byteLength < 8 || view.getUint32(0, true) !== kMagic) {
    throw new Error("not a GVZ1 frame");
  }
  const length = view.getUint32(4, true);
  const header = JSON.parse(
    new TextDecoder().decode(new Uint8Array(bytes, 8, length)),
  ) as GvzHeader;
  const begin = Math.ceil((8 + length) / 8) * 8;
  const { shape } = header;
  let count = shape.reduce((product, n) => product * n, 1);
  if (header.layout === "tril") {
    const rows = shape[shape.length - 1] ?? 0;
    count = rows === 0 ? 0 : (count / (rows * rows)) * ((rows * (rows + 1)) / 2);
  }
  const make = {
    u8: () => new Uint8Array(bytes, begin, count),
    i16: () => new Int16Array(bytes, begin, count),
    f32: () => new Float32Array(bytes, begin, count),
  }[header.dtype];
  if (!make) throw new Error(`a GVZ1 frame of ${header.dtype}`);
  return { header, data: make() };
}

export async function GetGvz(path: string, signal?: AbortSignal): Promise<Gvz> {
  return DecodeGvz(await (await Send(path, { signal })).arrayBuffer());
}

// Returns the values that the numbers stand for.
export function Values({ header, data }: Gvz): Float32Array {
  const { code = "lin", offset = 0, scale = 1 } = header;
  if (code === "sqrt") return Float32Array.from(data, (number) => (number / 255) ** 2);
  if (data instanceof Float32Array && offset === 0 && scale === 1) return data;
  return Float32Array.from(data, (number) => offset + scale * number);
}

import { Send } from "./http";

// Numbers come as safetensors: the header's length (u64), the header as JSON, then the data, little-endian. What else
// is to be known of them is in the header's "__metadata__", each value as the text of its JSON.
export interface Tensor {
  shape: number[];
  data: Uint8Array | Int16Array | Float32Array;
}

// The tensor called "numbers", where there is one, and all of the file.
export interface Numbers extends Tensor {
  about: Record<string, unknown>;
  all: Record<string, Tensor>;
}

const kTypes = { U8: Uint8Array, I16: Int16Array, F32: Float32Array };

export function DecodeNumbers(bytes: ArrayBuffer): Numbers {
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length))) as Record<
    string,
    { dtype: keyof typeof kTypes; shape: number[]; data_offsets: [number, number] }
  >;
  const { __metadata__: metadata = {}, ...tensors } = header;
  const all: Record<string, Tensor> = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(tensors)) {
    const Type = kTypes[dtype];
    if (!Type) throw new Error(`numbers of type ${dtype}`);
    const count = shape.reduce((product, n) => product * n, 1);
    all[name] = { shape, data: new Type(bytes, 8 + length + data_offsets[0], count) };
  }
  const about = Object.fromEntries(
    Object.entries(metadata).map(([key, said]) => [key, JSON.parse(said as string) as unknown]),
  );
  return { shape: [], data: new Uint8Array(), ...all.numbers, about, all };
}

export async function GetNumbers(path: string, signal?: AbortSignal): Promise<Numbers> {
  return DecodeNumbers(await (await Send(path, { signal })).arrayBuffer());
}

// Returns the values that the numbers stand for.
export function Values({ about, data }: Numbers): Float32Array {
  const {
    code = "lin",
    offset = 0,
    scale = 1,
  } = about as {
    code?: string;
    offset?: number;
    scale?: number;
  };
  if (code === "sqrt") return Float32Array.from(data, (number) => (number / 255) ** 2);
  if (data instanceof Float32Array && offset === 0 && scale === 1) return data;
  return Float32Array.from(data, (number) => offset + scale * number);
}

// folio.h as WebAssembly, for the worker: its functions take texts and arrays, and throw their errors.

export type Wasm = {
  wasmMemory: { buffer: ArrayBufferLike }; // another buffer whenever it has grown, in whatever thread
  FS: { readFile(path: string): Uint8Array<ArrayBuffer>; unlink(path: string): void };
  addFunction(run: (...args: never[]) => number | void, signature: string): number;
  removeFunction(at: number): void;
  _malloc(bytes: number): number;
  _free(at: number): void;
} & Record<`_folio_${string}`, (...args: (number | bigint)[]) => number>;

export type Handle = number;
type Argument = number | bigint | string | Uint8Array | Int32Array;
type Name = `folio_${string}`;

// A file, from wherever its bytes come.
export interface Source {
  name: string;
  size: number;
  Read(offset: number, count: number): Uint8Array;
}

const kOutBytes = 64; // the largest struct that a call fills
// Addresses above 2 GB come as negative numbers.
const Unsigned = (answer: number | bigint): number => Number(answer) >>> 0;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Folio {
  private readonly error: number; // where a call leaves its error, and where what else it gives
  private readonly out: number;

  constructor(private readonly wasm: Wasm) {
    this.error = wasm._malloc(8);
    this.out = wasm._malloc(kOutBytes);
  }

  // Calls what cannot fail. Texts are given with a zero behind them, arrays as they lie; both are gone when it returns.
  Plain(name: Name, ...args: Argument[]): number {
    const held: number[] = [];
    const plain = args.map((arg) => {
      if (typeof arg === "number" || typeof arg === "bigint") return arg;
      const bytes =
        typeof arg === "string"
          ? encoder.encode(`${arg}\0`)
          : new Uint8Array(arg.buffer, arg.byteOffset, arg.byteLength);
      const at = Unsigned(this.wasm._malloc(Math.max(bytes.length, 1)));
      if (at === 0) throw new Error("there is no memory left");
      held.push(at);
      this.bytes.set(bytes, at);
      return at;
    });
    try {
      return Unsigned((this.wasm[`_${name}`] as (...all: typeof plain) => number | bigint)(...plain));
    } finally {
      held.forEach((at) => this.wasm._free(at));
    }
  }

  // Calls what takes an error last.
  Call(name: Name, ...args: Argument[]): void {
    if (this.Plain(name, ...args, this.error) === 0) return;
    const error = this.View(this.error, 4).getUint32(0, true);
    const said = (["message", "cause", "help"] as const)
      .map((part) => this.TextAt(this.Plain(`folio_error_${part}`, error)))
      .filter((part) => part !== "");
    this.Plain("folio_error_free", error);
    throw new Error(said.join(". "));
  }

  // The same of what gives a handle, or a struct, before the error.
  Make(name: Name, ...args: Argument[]): Handle {
    this.Call(name, ...args, this.out);
    return this.View(this.out, 4).getUint32(0, true);
  }
  Fill(name: Name, bytes: number, ...args: Argument[]): DataView {
    const out = this.View(this.out, bytes);
    out.setUint32(0, bytes, true);
    this.Call(name, ...args, this.out);
    return this.View(this.out, bytes);
  }

  // And of what fills a buffer.
  Filled(name: Name, ...args: Argument[]): Uint8Array<ArrayBuffer> {
    const buffer = this.Plain("folio_buffer_new");
    try {
      this.Call(name, ...args, buffer);
      const at = this.Plain("folio_buffer_data", buffer);
      return this.bytes.slice(at, at + this.Plain("folio_buffer_size", buffer));
    } finally {
      this.Plain("folio_buffer_free", buffer);
    }
  }
  Json<T>(name: Name, ...args: Argument[]): T {
    return JSON.parse(decoder.decode(this.Filled(name, ...args))) as T;
  }

  // Has `use` options of a kind.
  WithOptions<T>(
    of: string,
    settings: Record<string, string | number>,
    use: (options: Handle) => T,
  ): T {
    const options = this.Plain("folio_options_new", of);
    try {
      for (const [name, value] of Object.entries(settings))
        this.Call("folio_options_set", options, name, String(value));
      return use(options);
    } finally {
      this.Plain("folio_options_free", options);
    }
  }

  // Has `use` the path of a directory of files that are in memory.
  WithFiles<T>(sources: Source[], use: (path: string) => T): T {
    const files = this.Plain("folio_files_new");
    try {
      for (const { name, size, Read } of sources) {
        let failure: unknown;
        const read = this.wasm.addFunction(
          (_user: number, offset: bigint, to: number, count: number) => {
            try {
              this.bytes.set(Read(Number(offset), count), Unsigned(to));
              return 0;
            } catch (error) {
              failure = error;
              return 1;
            }
          },
          "iijii",
        );
        try {
          this.Call("folio_files_read", files, name, BigInt(size), read, 0);
        } catch (error) {
          throw failure ?? error;
        } finally {
          this.wasm.removeFunction(read);
        }
      }
      return use(this.TextAt(this.Plain("folio_files_path", files)));
    } finally {
      this.Plain("folio_files_free", files);
    }
  }

  // The bytes of one token.
  TokenBytes(tokenizer: Handle, id: number): Uint8Array<ArrayBuffer> {
    this.Call("folio_tokenizer_token", tokenizer, id, this.out, this.out + 4);
    const out = this.View(this.out, 8);
    const [at, bytes] = [out.getUint32(0, true), out.getUint32(4, true)];
    return this.bytes.slice(at, at + bytes);
  }

  // A function that folio calls with each part of a text.
  TextCallback(hear: (text: string) => void): number {
    return this.wasm.addFunction((_user: number, at: number, bytes: number) => {
      const from = Unsigned(at);
      hear(decoder.decode(this.bytes.slice(from, from + bytes)));
      return 0;
    }, "iiii");
  }
  LetGo(callback: number): void {
    this.wasm.removeFunction(callback);
  }

  // A file that was written, which is then gone.
  TakeFile(path: string): Uint8Array<ArrayBuffer> {
    const bytes = this.wasm.FS.readFile(path);
    this.wasm.FS.unlink(path);
    return bytes;
  }

  View(at: number, bytes: number): DataView {
    return new DataView(this.wasm.wasmMemory.buffer, at, bytes);
  }
  private get bytes(): Uint8Array {
    return new Uint8Array(this.wasm.wasmMemory.buffer);
  }
  private TextAt(at: number): string {
    const { bytes } = this;
    return decoder.decode(bytes.slice(at, bytes.indexOf(0, at)));
  }
}

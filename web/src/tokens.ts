// Tokens as they are shown. A token is bytes, and its bytes need not be whole characters.

let vocabulary: (Uint8Array | null)[] = [];
let labels: (string | undefined)[] = [];

export function SetVocabulary(bytes: (Uint8Array | null)[]): void {
  vocabulary = bytes;
  labels = new Array<string | undefined>(bytes.length);
}

export function VocabularySize(): number {
  return vocabulary.length;
}

const kNoBytes = new Uint8Array();

export function TokenBytes(id: number): Uint8Array {
  return vocabulary[id] ?? kNoBytes;
}

export function Hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ");
}

// How many bytes the character that begins with `lead` has; 0 for a byte that begins none.
function CharacterLength(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function Decoded(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

// The text of each of some tokens in a row. A character that is spread over several stands with
// the last of them; bytes that are no character at all are named. Where `open`, a character that
// the end cuts off is not shown: its rest may still come.
export function Pieces(tokens: Uint8Array[], open = false): string[] {
  const pieces = tokens.map(() => "");
  let held: number[] = [];
  const name = (at: number) => {
    pieces[at] += held
      .map((byte) => `⟨${byte.toString(16).toUpperCase().padStart(2, "0")}⟩`)
      .join("");
    held = [];
  };
  tokens.forEach((bytes, at) => {
    for (const byte of bytes) {
      if (held.length > 0 && (byte & 0xc0) !== 0x80) name(at);
      held.push(byte);
      const length = CharacterLength(held[0] ?? 0);
      if (length === 0) {
        name(at);
      } else if (held.length === length) {
        const character = Decoded(Uint8Array.from(held));
        if (character === null) {
          name(at);
        } else {
          pieces[at] += character;
          held = [];
        }
      }
    }
  });
  if (held.length > 0 && !open && tokens.length > 0) name(tokens.length - 1);
  return pieces;
}

// "·the", "⏎", "⟨F0⟩⟨9F⟩": a token by itself.
export function TokenLabel(id: number): string {
  const known = labels[id];
  if (known !== undefined) return known;
  const bytes = vocabulary[id];
  if (!bytes) return `#${id}`;
  const label = (Pieces([bytes])[0] ?? "")
    .replace(/ /g, "·")
    .replace(/\r/g, "␍")
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/[\u0000-\u001f\u007f]/g, (c) => `⟨${c.charCodeAt(0).toString(16).padStart(2, "0")}⟩`);
  labels[id] = label || "∅";
  return label || "∅";
}

export function TextOf(ids: number[], open = false): string {
  return Pieces(ids.map(TokenBytes), open).join("");
}

export type TokenKind = "letter" | "space" | "digit" | "mark" | "other";
export const kTokenKinds: TokenKind[] = ["letter", "space", "digit", "mark", "other"];

export function KindOf(id: number): TokenKind {
  const label = Decoded(TokenBytes(id));
  if (label === null || label === "") return "other";
  if (/^ \p{L}/u.test(label)) return "space";
  if (/^\p{L}/u.test(label)) return "letter";
  if (/^ ?\p{N}+$/u.test(label)) return "digit";
  if (/^ ?[\p{P}\p{S}]+$/u.test(label)) return "mark";
  return "other";
}

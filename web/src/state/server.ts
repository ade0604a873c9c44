import { batch, computed, effect, signal, untracked } from "@preact/signals";
import { doubt, Get, MessageOf, online, Post } from "../api/http";
import type { Info } from "../api/types";
import { SetVocabulary } from "../tokens";
import { OpenAt, Param, SetParams } from "./route";

// The service and the model that the address names, or its first. Its vocabulary has come
// with it.
export const info = signal<Info | null>(null);
export const infoError = signal("");
// Tells a model from any other that was ever called so; "" where there is none.
export const modelId = computed(() => info.value?.model?.id ?? "");
// How often the service has come back: what it left unanswered is to be asked again.
export const comebacks = signal(0);
// True where the model became another without anybody having picked it.
export const replaced = signal(false);

function BytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

// With the model of that name, or the first.
async function Named(name: string): Promise<Info> {
  const first = await Get<Info>("api/info");
  if (name === first.model?.name || !first.models.includes(name)) return first;
  return Get<Info>(`api/info?model=${encodeURIComponent(name)}`);
}

interface Vocabulary {
  tokens: (string | null)[]; // in base64
}

let loads = 0;
let wanted = Param("m"); // by name, when the service was last asked
let away = false; // it has not been asked since it did not answer

// Asks what the service is.
export async function LoadInfo(): Promise<void> {
  const load = ++loads;
  const name = Param("m");
  try {
    const loaded = await Named(name);
    const id = loaded.model?.id ?? "";
    const other = id !== modelId.peek();
    const tokens =
      other && id !== ""
        ? (await Get<Vocabulary>(`api/vocab?model=${encodeURIComponent(id)}`)).tokens
        : null;
    if (load !== loads) return; // a later one has begun
    batch(() => {
      const first = info.peek() === null;
      if (first && !loaded.model && loaded.features.includes("runs")) OpenAt("runs");
      if (tokens) SetVocabulary(tokens.map((token) => (token === null ? null : BytesOf(token))));
      const gone = name !== "" && name !== loaded.model?.name;
      if (other) replaced.value = !first && (name === wanted || gone);
      info.value = loaded;
      if (gone) SetParams({ m: null });
      infoError.value = "";
      if (away) ++comebacks.value;
      away = false;
      wanted = Param("m");
    });
  } catch (error) {
    if (load === loads) infoError.value = MessageOf(error);
  }
}

effect(() => {
  if (doubt.value > 0) untracked(() => void LoadInfo());
});

// Another model of the service.
effect(() => {
  const name = Param("m");
  const known = info.peek();
  if (known && (name || known.models[0]) !== known.model?.name)
    untracked(() => void LoadInfo());
});

// Who comes back to the page may have started the service anew.
window.addEventListener("focus", () => void LoadInfo());

const kAskAgain = 2000; // milliseconds

// While nobody answers, asks again now and then: the service may be starting anew.
effect(() => {
  if (online.value) return;
  away = true;
  const timer = setInterval(() => void Get("health").catch(() => {}), kAskAgain);
  return () => clearInterval(timer);
});

// The service has a float32 copy of the model now.
export function FloatCopyMade(): void {
  const now = info.peek();
  if (!now?.model?.float_copy || now.model.float_copy.ready) return;
  info.value = {
    ...now,
    model: { ...now.model, float_copy: { ...now.model.float_copy, ready: true } },
  };
}

export function HasFeature(name: string): boolean {
  return info.value?.features.includes(name) ?? false;
}

// A path below /api/ that is of the model.
export function OfModel(path: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}model=${encodeURIComponent(modelId.peek())}`;
}

export function PostToModel<T>(path: string, body: object, signal?: AbortSignal): Promise<T> {
  return Post<T>(path, { model: modelId.peek(), ...body }, signal);
}

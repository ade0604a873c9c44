import { effect, signal } from "@preact/signals";
import { ApiFailure, Get, MessageOf, online } from "../api/http";
import type { Info } from "../api/types";
import { SetVocabulary } from "../tokens";
import { OpenAt } from "./route";

export const info = signal<Info | null>(null);
export const infoError = signal("");
// True once the vocabulary has come.
export const vocabularyReady = signal(false);

function BytesOf(base64: string): Uint8Array {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function LoadInfo(): Promise<void> {
  try {
    const loaded = await Get<Info>("api/info");
    infoError.value = "";
    if (loaded.model) {
      const { tokens } = await Get<{ tokens: (string | null)[] }>("api/vocab");
      SetVocabulary(tokens.map((token) => (token === null ? null : BytesOf(token))));
      vocabularyReady.value = true;
    }
    if (!loaded.model && loaded.features.includes("runs")) OpenAt("runs");
    info.value = loaded;
  } catch (error) {
    infoError.value = MessageOf(error);
  }
}

const kAskAgain = 2000; // milliseconds

// While nobody answers, asks again now and then: the service may be starting anew.
effect(() => {
  if (online.value) return;
  const timer = setInterval(() => {
    Get("health")
      .then(() => (info.value === null ? LoadInfo() : undefined))
      .catch((error: unknown) => {
        if (error instanceof ApiFailure && error.status !== 0) online.value = true;
      });
  }, kAskAgain);
  return () => clearInterval(timer);
});

export function HasFeature(name: string): boolean {
  return info.value?.features.includes(name) ?? false;
}

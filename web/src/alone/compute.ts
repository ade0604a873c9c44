// The worker, from the page: one question at a time.
import { signal } from "@preact/signals";
import type { Answer, Ask, Asks, ModelFacts, Question } from "./messages";

export const threads = signal(0); // 0 until the worker is there
export const busy = signal<Ask | "">("");
export const model = signal<ModelFacts | null>(null);
export const failure = signal("");

const worker = new Worker("worker.js", { type: "module" });
let hear: ((answer: Answer) => void) | null = null;

worker.onmessage = ({ data }: MessageEvent<Answer>) => {
  if ("ready" in data) threads.value = data.ready.threads;
  else hear?.(data);
};
worker.onerror = (event) => {
  failure.value = `What computes could not be started: ${event.message || "worker.js, or what it loads, is missing"}`;
};

const Post = (question: Question) => worker.postMessage(question);

export function Stop(): void {
  if (busy.value) Post({ ask: "stop" });
}

// Asks; null where something else is being computed, and where it fails, which `failure` then says.
export async function Compute<A extends Ask>(
  ask: A,
  given: Asks[A]["given"],
  tell?: (part: Asks[A]["part"]) => void,
): Promise<Asks[A]["end"] | null> {
  if (busy.value || !threads.value) return null;
  busy.value = ask;
  failure.value = "";
  try {
    return await new Promise<Asks[A]["end"]>((resolve, reject) => {
      hear = (answer) => {
        if ("part" in answer) tell?.(answer.part as Asks[A]["part"]);
        else if ("end" in answer) resolve(answer.end as Asks[A]["end"]);
        else if ("failure" in answer) reject(new Error(answer.failure));
      };
      Post({ ask, given } as Question);
    });
  } catch (error) {
    failure.value = (error as Error).message;
    return null;
  } finally {
    hear = null;
    busy.value = "";
  }
}

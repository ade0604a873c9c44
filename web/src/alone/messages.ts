// What the page asks the worker for, and what it answers.

export interface ModelFacts {
  name: string;
  n_layer: number;
  n_head: number;
  n_embd: number;
  context: number;
  params: number;
  dtype: string;
}

export interface Writing {
  max_tokens: number;
  temperature: number;
  top_k: number;
  seed: number;
}

export interface Training {
  text: string;
  n_layer: number;
  n_embd: number;
  steps: number;
}

// All that can be asked for: what is given, the parts that come before the end, and what comes at the end.
export interface Asks {
  open: { given: { name: string; files: File[] }; part: never; end: ModelFacts };
  write: {
    given: { text: string; options: Writing };
    part: string;
    end: { tokens: number; seconds: number };
  };
  attend: {
    given: { text: string; layer: number; head: number };
    part: never;
    end: { ids: number[]; bytes: Uint8Array[]; weights: Float32Array };
  };
  train: {
    given: Training;
    part: { step: number; loss: number } | { step: number; held_out: number; sample: string };
    end: ModelFacts & { seconds: number };
  };
  save: { given: null; part: never; end: Uint8Array<ArrayBuffer> };
}
export type Ask = keyof Asks;

export type Question = { [A in Ask]: { ask: A; given: Asks[A]["given"] } }[Ask] | { ask: "stop" };
export type Answer =
  | { ready: { threads: number } }
  | { part: unknown }
  | { end: unknown }
  | { failure: string };

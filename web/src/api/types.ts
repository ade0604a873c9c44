// Answers of the service, as API.md describes them; keys that the page does not look at are not named.

import type { Sampling } from "../playground/sampling";

// What a block is made of.
export interface BlockInfo {
  positions: string; // learned, sinusoidal, rotary, none
  position_channels: number; // of a row of api/wpe; 0 where there are none
  norm: string;
  norm_position: string; // pre, post, branch, both
  qk_norm: boolean;
  block: string; // serial, parallel, parallel_one_norm
  gated: boolean;
  activation: string;
  qkv_bias: boolean;
  attention_bias: boolean;
  mlp_bias: boolean;
  embedding_scale: number;
  embedding_norm: boolean;
  smear: boolean;
  residual_lambdas: boolean;
  value_embeddings: boolean;
  backout: boolean;
  residual_scale: number;
  tied: boolean; // its head has the embeddings' matrix
}

export interface ModelInfo {
  name: string;
  id: string; // no other model's that was ever called so
  n_layer: number;
  n_head: number;
  n_embd: number;
  n_ctx: number;
  params: number;
  dtype: string;
  // What looking inside takes beside the weights that are served; null where they are float32 already.
  float_copy: { bytes: number; ready: boolean } | null;
  device?: string;
  block: BlockInfo;
  begin: number[]; // what an empty prompt stands for
}

export interface Info {
  model: ModelInfo | null;
  sampling: Sampling; // where nothing else is said
  chat_sampling: Sampling | null; // the same of conversations
  models: string[];
  limits: { trace_seconds: number };
  features: string[];
}

// A checkpoint of a run that the service has opened as a model.
export interface OpenedRun {
  model: string;
  step: number;
}

// An id and the natural logarithm of its probability.
export type TopToken = [id: number, lp: number];

export interface WrittenToken {
  id: number;
  lp: number; // before the sampler
  rank: number; // 1 is the likeliest
  H: number; // nats
  top: TopToken[];
  seen: number; // tokens before it that the model saw
}

export interface ProgressEvent {
  done: number;
  total: number;
  eta: number | null;
  waiting?: number; // texts that come first
  // The first of a conversation: what the model sees of it, and turns at the beginning that it does not.
  prompt_ids?: number[];
  forgotten?: number;
}

export interface DoneEvent {
  reason: string;
  timings: { gen_n: number; gen_ms: number; ttft_ms: number };
  seed: number | string;
}

export interface Tokenized {
  ids: number[];
  spans: [number, number][];
  bytes: number;
  begun: number; // ids that every text of the model begins with
  pieces: MergedPiece[];
}

// A piece of a text that begins at a byte of it: its first symbols, and merges that each make the
// symbols at a place and behind it one, of an id, by the merge of a rank.
export interface MergedPiece {
  at: number;
  symbols: number[];
  merges: [place: number, id: number, rank: number][];
}

// Entries at t are of token t; the first has nothing before it, and its entries are null.
export interface Scores {
  ids: number[];
  lp: (number | null)[];
  rank: (number | null)[];
  H: (number | null)[];
  top: TopToken[][];
  perplexity: number | null;
  nats_per_token: number | null;
  bits_per_byte: number | null;
}

export interface LensRow {
  layer: "embed" | number;
  pos: number;
  top: [id: number, p: number][];
  kl: number;
  H: number;
  rank_final: number;
}

export interface TensorStats {
  mean: number;
  std: number;
  min: number;
  max: number;
  rms: number;
  kurtosis: number;
  norm_median: number;
  norm_max: number;
  norm_max_position: number;
  histogram: { from: number; to: number; counts: number[] };
}

export interface RunInfo {
  id: string;
  state: "running" | "ended" | "stopped" | "gone";
  step: number;
  problem?: string; // why a file of it cannot be read
  max_steps?: number;
  loss?: number;
  val_loss?: number;
  tokens?: number;
  tokens_per_second?: number;
  seconds?: number;
  eta?: number;
}

export interface RunDetails extends RunInfo {
  config: Record<string, string>;
  events: { step: number; event: string; text: string }[];
}

export interface Series {
  x: number[];
  mean: (number | string | null)[];
  min: (number | string | null)[];
  max: (number | string | null)[];
  raw: boolean;
}

export interface RunSample {
  step: number;
  prompt: string;
  text: string;
}

// A line of metrics.jsonl.
export interface MetricsRow {
  step: number;
  [key: string]: unknown;
}

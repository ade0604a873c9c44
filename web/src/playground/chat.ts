import { computed, signal } from "@preact/signals";
import type { DoneEvent, TopToken } from "../api/types";
import { modelId } from "../state/server";
import { TextOf } from "../tokens";
import { settings } from "./settings";
import { Chosen, failure, IdsOf, Stream, writing, type WrittenToken } from "./writing";

// A message and what the model answered.
export interface Turn {
  message: string;
  prompt_ids: number[]; // what the model saw of the conversation, as tokens
  forgotten: number; // turns at the beginning that it did not see
  tokens: WrittenToken[];
  done: DoneEvent | null;
  tries: number; // answers that were asked for before this one
}

const conversations = signal<Record<string, Turn[]>>({}); // by model
export const turns = computed(() => conversations.value[modelId.value] ?? []);
export const draft = signal("");

function Put(model: string, all: Turn[]): void {
  conversations.value = { ...conversations.value, [model]: all };
}

// Has the model answer the last of these turns, of which it is given `begun`. Where nothing comes all
// stays as it was. Returns whether something came.
async function Answer(all: Turn[], begun: WrittenToken[] = []): Promise<boolean> {
  const model = modelId.value;
  const before = turns.value;
  const asked = all.at(-1);
  if (writing.value || !asked) return false;
  const change = (more: (last: Turn) => Partial<Turn>) => {
    const now = conversations.value[model] ?? [];
    const last = now.at(-1);
    if (last) Put(model, [...now.slice(0, -1), { ...last, ...more(last) }]);
  };
  Put(model, [...all.slice(0, -1), { ...asked, tokens: begun, done: null }]);
  failure.value = "";
  const messages = all.flatMap(({ message, tokens }, i) => [
    { role: "user", content: message },
    // A character that was cut off by Stop is none.
    ...(i < all.length - 1
      ? [{ role: "assistant", content: TextOf(tokens.map(({ id }) => id), true) }]
      : []),
  ]);
  const { seed } = settings.value;
  let came = false;
  failure.value = await Stream(
    model,
    begun.length > 0 ? { ids: IdsOf({ ...asked, tokens: begun }) } : { messages },
    seed === "" ? "" : String(Number(seed) + asked.tries),
    {
      progress: ({ prompt_ids, forgotten }) => {
        if (prompt_ids) change(() => ({ prompt_ids, forgotten: forgotten ?? 0 }));
      },
      tokens: (more) => {
        came = true;
        change(({ tokens }) => ({ tokens: [...tokens, ...more] }));
      },
      done: (done) => {
        came = true;
        change(() => ({ done }));
      },
    },
  );
  if (!came) Put(model, before);
  return came;
}

// A message in the place `at`, in which and behind which nothing else stays. Where it cannot be asked
// it comes back as the draft.
export async function Ask(message: string, at = turns.value.length): Promise<void> {
  const said = draft.value;
  const asked = { message, prompt_ids: [], forgotten: 0, tokens: [], done: null, tries: 0 };
  if (at === turns.value.length) draft.value = "";
  if (!(await Answer([...turns.value.slice(0, at), asked])) && draft.value === "") draft.value = said;
}

// Another answer to the last message.
export async function Retry(): Promise<void> {
  const last = turns.value.at(-1);
  if (last) await Answer([...turns.value.slice(0, -1), { ...last, tries: last.tries + 1 }]);
}

// Another token in place `at` of the last answer, and what would have come of it.
export async function BranchAnswer(at: number, choice: TopToken): Promise<void> {
  const last = turns.value.at(-1);
  const old = last?.tokens[at];
  if (last && old) await Answer(turns.value, [...last.tokens.slice(0, at), Chosen(old, choice)]);
}

export function Begin(): void {
  if (!writing.value) Put(modelId.value, []);
}

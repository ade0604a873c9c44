import { computed, effect, signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TopToken, WrittenToken } from "../api/types";
import { useKeys } from "../keys";
import { Failure, TextField } from "../parts/controls";
import { SaveFile } from "../save";
import { GoTo } from "../state/route";
import { modelId } from "../state/server";
import { Pieces, TextOf, TokenBytes } from "../tokens";
import { PaceLine, WriteButton } from "./progress";
import { ColourBy, Prose } from "./prose";
import { SamplerPanel, settings } from "./sampler";
import { TokenSheet, usePlace } from "./token_panel";
import { Chosen, failure, IdsOf, Stop, Stream, writing, type Written } from "./writing";

// A message and what the model answered; `prompt_ids` are what it saw of the conversation.
interface Turn extends Written {
  message: string;
  tries: number; // answers that were asked for before this one
}

interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

const kSystem = "folio.system";
// What the system says before every conversation; "" for nothing.
const system = signal(sessionStorage.getItem(kSystem) ?? "");
effect(() => sessionStorage.setItem(kSystem, system.value));

const conversations = signal<Record<string, Turn[]>>({}); // by model
const turns = computed(() => conversations.value[modelId.value] ?? []);
const draft = signal("");

// The conversation as messages; the answer to the last question only where it is `answered`.
function MessagesOf(all: Turn[], answered: boolean): Message[] {
  const turns = all.flatMap(({ message, tokens }, i): Message[] => {
    const question: Message = { role: "user", content: message };
    if (i === all.length - 1 && !answered) return [question];
    const content = TextOf(
      tokens.map(({ id }) => id),
      true, // a character that was cut off by Stop is none
    );
    return [question, { role: "assistant", content }];
  });
  return system.value.trim() === ""
    ? turns
    : [{ role: "system", content: system.value.trim() }, ...turns];
}

// Saves the conversation as a line of JSON, as "folio train" takes conversations.
function Save(all: Turn[]): void {
  const line = JSON.stringify({ messages: MessagesOf(all, true) });
  SaveFile("conversation.jsonl", `${line}\n`, "application/jsonl");
}

function Put(model: string, all: Turn[]): void {
  conversations.value = { ...conversations.value, [model]: all };
}

// Has the model answer the last of these turns, of which it is given `begun`. Where nothing comes all
// stays as it was. Returns whether something came.
async function Respond(all: Turn[], begun: WrittenToken[] = []): Promise<boolean> {
  const model = modelId.value;
  const before = turns.value;
  const asked = all.at(-1);
  if (writing.value || !asked) return false;
  Put(model, [...all.slice(0, -1), { ...asked, tokens: begun, done: null }]);
  const messages = MessagesOf(all, false);
  const { seed } = settings.value;
  const came = await Stream(
    model,
    // A branch continues the very tokens of its answer.
    begun.length > 0 ? { ids: IdsOf({ ...asked, tokens: begun }) } : { messages },
    seed === "" ? "" : String(Number(seed) + asked.tries),
    (more) => {
      const now = conversations.value[model] ?? [];
      const last = now.at(-1);
      if (last) Put(model, [...now.slice(0, -1), { ...last, ...more(last) }]);
    },
  );
  if (!came) Put(model, before);
  return came;
}

// A message in the place `at`, in which and behind which nothing else stays. Where it cannot be asked
// it comes back as the draft.
async function Ask(message: string, at = turns.value.length): Promise<void> {
  const said = draft.value;
  const asked = { message, prompt_ids: [], tokens: [], done: null, tries: 0 };
  if (at === turns.value.length) draft.value = "";
  if (!(await Respond([...turns.value.slice(0, at), asked])) && draft.value === "")
    draft.value = said;
}

// Another answer to the last message.
async function Retry(): Promise<void> {
  const last = turns.value.at(-1);
  if (last) await Respond([...turns.value.slice(0, -1), { ...last, tries: last.tries + 1 }]);
}

// Another token in place `at` of the last answer, and what would have come of it.
async function BranchAnswer(at: number, choice: TopToken): Promise<void> {
  const last = turns.value.at(-1);
  const old = last?.tokens[at];
  if (last && old) await Respond(turns.value, [...last.tokens.slice(0, at), Chosen(old, choice)]);
}

function Begin(): void {
  if (!writing.value) Put(modelId.value, []);
}

// A field of a message: Enter sends it, Shift and Enter break the line.
function MessageField(props: {
  id?: string;
  label: string;
  value: string;
  onText: (message: string) => void;
  onSend: () => void;
}) {
  const { onSend, ...more } = props;
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <TextField
      {...more}
      ref={field}
      class="message"
      rows={1}
      placeholder="Ask something"
      title="Enter sends, Shift Enter breaks the line."
      onKeyDown={(event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        onSend();
      }}
    />
  );
}

function Message({ turn, at }: { turn: Turn; at: number }) {
  const [edited, setEdited] = useState<string | null>(null);
  const send = () => {
    if (edited === null || edited.trim() === "" || writing.value) return;
    setEdited(null);
    void Ask(edited, at);
  };
  if (edited === null)
    return (
      <div class="said">
        <p class="question">{turn.message}</p>
        <button
          class="small plain"
          disabled={writing.value}
          onClick={() => setEdited(turn.message)}
        >
          Edit
        </button>
      </div>
    );
  return (
    <div class="stack">
      <MessageField label="Edit" value={edited} onText={setEdited} onSend={send} />
      <div class="row">
        <button class="small primary" disabled={writing.value} onClick={send}>
          Ask again
        </button>
        <button class="small" onClick={() => setEdited(null)}>
          Cancel
        </button>
        <span class="note">The turns after it are removed.</span>
      </div>
    </div>
  );
}

interface Place {
  turn: number;
  token: number;
}

function Answer(props: {
  turn: Turn;
  at: number;
  last: boolean;
  place: Place | null;
  locked: boolean;
  onHover: (place: Place | null) => void;
  onPick: (place: Place) => void;
}) {
  const { turn, at, last, place } = props;
  const open = last && writing.value;
  const pieces = useMemo(
    () =>
      Pieces(
        turn.tokens.map(({ id }) => TokenBytes(id)),
        open,
      ),
    [turn.tokens, open],
  );
  const greedy = settings.value.temperature === 0;
  return (
    <div class="answer">
      {turn.tokens.length > 0 || open ? (
        <Prose
          label={`Answer ${at + 1}`}
          tokens={turn.tokens}
          pieces={pieces}
          at={place?.turn === at ? place.token : null}
          locked={props.locked}
          writing={open}
          onHover={(token) => props.onHover(token === null ? null : { turn: at, token })}
          onPick={(token) => props.onPick({ turn: at, token })}
        />
      ) : (
        <p class="faint">(an empty answer)</p>
      )}
      {!open && (
        <div class="row">
          {last && (
            <button
              class="small"
              id="retry"
              disabled={greedy || writing.value}
              title={greedy ? "At temperature 0 the answer would be the same." : undefined}
              onClick={() => void Retry()}
            >
              Another answer
            </button>
          )}
          <button
            class="small plain"
            disabled={writing.value}
            onClick={() => GoTo("attn", { t: TextOf(IdsOf(turn)) })}
          >
            Look inside
          </button>
        </div>
      )}
    </div>
  );
}

const kNearEnd = 160; // pixels: who reads further up is left there

export function ChatTab() {
  const all = turns.value;
  const last = all.at(-1) ?? null;
  const forgotten = last?.forgotten ?? 0;
  const { place, locked, letGo, ...on } = usePlace<Place>();
  const of = place ? all[place.turn] : undefined;
  const token = place ? of?.tokens[place.token] : undefined;
  useEffect(letGo, [all.length, last?.tries]);
  useEffect(() => {
    const page = document.documentElement;
    if (writing.value && page.scrollHeight - page.scrollTop - page.clientHeight < kNearEnd)
      page.scrollTop = page.scrollHeight;
  }, [last?.tokens.length]);
  const send = () => {
    if (draft.value.trim() !== "" && !writing.value) void Ask(draft.value);
  };
  const stop = () => (writing.value ? Stop() : on.onPick(null));
  useKeys([
    { key: "/", label: "Go to the text field", run: () => document.getElementById("message")?.focus() },
    { key: "Control+Enter", label: "Ask", run: send },
    { key: "Escape", label: "Stop, or deselect the token", run: stop },
  ]);
  return (
    <div class="play">
      <div class="play-main">
        <section class="panel result" aria-label="Conversation" aria-busy={writing.value}>
          <div class="result-head">
            <ColourBy />
            <span class="grow" />
            {last && (
              <>
                <button
                  class="small"
                  id="save"
                  disabled={writing.value}
                  title="As a line of JSON, from which “folio train” can learn"
                  onClick={() => Save(all)}
                >
                  Save
                </button>
                <button class="small" id="begin" disabled={writing.value} onClick={Begin}>
                  New conversation
                </button>
              </>
            )}
          </div>
          {last === null && (
            <p class="empty">
              This model was trained on conversations. Its answers depend on what it was trained on.
            </p>
          )}
          <ol class="turns">
            {all.map((turn, at) => (
              <li key={at} class={at < forgotten ? "forgotten" : ""}>
                {at > 0 && at === forgotten && (
                  <p class="note border">
                    The turns above have left the context: the model does not see them.
                  </p>
                )}
                <Message turn={turn} at={at} />
                <Answer
                  {...on}
                  turn={turn}
                  at={at}
                  last={at === all.length - 1}
                  place={place}
                  locked={locked}
                />
              </li>
            ))}
          </ol>
        </section>
        <PaceLine of={last} />
        <Failure message={failure.value} />
        <div class="row entry">
          <MessageField
            id="message"
            label="Message"
            value={draft.value}
            onText={(message) => (draft.value = message)}
            onSend={send}
          />
          <WriteButton id="ask" label="Ask" keys="⏎" onWrite={send} />
        </div>
      </div>
      <aside class="play-side">
        <section class="panel" aria-label="System message">
          <label class="stack">
            <span class="soft small">System message</span>
            <textarea
              id="system"
              rows={2}
              spellcheck={false}
              placeholder="None"
              title="It stands before the conversation and takes effect with the next message."
              value={system.value}
              onInput={(event) => (system.value = event.currentTarget.value)}
            />
          </label>
        </section>
        <SamplerPanel />
        <TokenSheet
          ids={of ? IdsOf(of) : []}
          at={(of?.prompt_ids.length ?? 0) + (place?.token ?? 0)}
          token={token}
          locked={locked}
          settings={settings.value}
          onBranch={
            place?.turn === all.length - 1
              ? (choice) => void BranchAnswer(place.token, choice)
              : undefined
          }
          onClose={letGo}
        />
      </aside>
    </div>
  );
}

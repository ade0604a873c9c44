import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";
import { Failure } from "../parts/controls";
import { Prose } from "../parts/prose";
import { Sheet } from "../parts/sheet";
import { GoTo } from "../state/route";
import { text } from "../text";
import { Pieces, TextOf, TokenBytes } from "../tokens";
import { Ask, Begin, BranchAnswer, draft, Retry, turns, type Turn } from "./chat";
import { ColourBy, ColourChoice } from "./colour_by";
import { PaceLine } from "./pace_line";
import { SamplerPanel } from "./sampler_panel";
import { settings } from "./settings";
import { TokenPanel } from "./token_panel";
import { failure, IdsOf, Stop, writing } from "./writing";

const words = text.chat;

// A field of a message: Enter sends it, Shift and Enter break the line.
function MessageField(props: {
  id?: string;
  label: string;
  value: string;
  focus?: boolean;
  onInput: (message: string) => void;
  onSend: () => void;
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (props.focus) field.current?.focus();
  }, []);
  return (
    <textarea
      ref={field}
      id={props.id}
      class="message"
      rows={1}
      aria-label={props.label}
      placeholder={words.message_hint}
      title={words.message_keys}
      spellcheck={false}
      value={props.value}
      onInput={(event) => props.onInput(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        props.onSend();
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
          {words.edit}
        </button>
      </div>
    );
  return (
    <div class="stack">
      <MessageField label={words.edit} focus value={edited} onInput={setEdited} onSend={send} />
      <div class="row">
        <button class="small primary" disabled={writing.value} onClick={send}>
          {words.edited}
        </button>
        <button class="small" onClick={() => setEdited(null)}>
          {words.cancel}
        </button>
        <span class="note">{words.edit_note}</span>
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
    () => Pieces(turn.tokens.map(({ id }) => TokenBytes(id)), open),
    [turn.tokens, open],
  );
  const greedy = settings.value.temperature === 0;
  return (
    <div class="answer">
      {turn.tokens.length > 0 || open ? (
        <Prose
          label={words.answer(at + 1)}
          tokens={turn.tokens}
          pieces={pieces}
          mode={ColourChoice()}
          at={place?.turn === at ? place.token : null}
          locked={props.locked}
          writing={open}
          onHover={(token) => props.onHover(token === null ? null : { turn: at, token })}
          onPick={(token) => props.onPick({ turn: at, token })}
        />
      ) : (
        <p class="faint">{words.nothing}</p>
      )}
      {!open && (
        <div class="row">
          {last && (
            <button
              class="small"
              id="retry"
              disabled={greedy || writing.value}
              title={greedy ? words.retry_greedy : undefined}
              onClick={() => void Retry()}
            >
              {words.retry}
            </button>
          )}
          <button
            class="small plain"
            disabled={writing.value}
            onClick={() => GoTo("attn", { t: TextOf(IdsOf(turn)) })}
          >
            {text.play.attention}
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
  const [pointed, setPointed] = useState<Place | null>(null);
  const [locked, setLocked] = useState<Place | null>(null);
  const place = locked ?? pointed;
  const of = place ? all[place.turn] : undefined;
  const token = place ? of?.tokens[place.token] : undefined;
  const answered = all.length - 1;
  const letGo = () => {
    setPointed(null);
    setLocked(null);
  };
  useEffect(letGo, [all.length, last?.tries]);
  useEffect(() => {
    const page = document.documentElement;
    if (writing.value && page.scrollHeight - page.scrollTop - page.clientHeight < kNearEnd)
      page.scrollTop = page.scrollHeight;
  }, [last?.tokens.length]);
  const send = () => {
    if (draft.value.trim() !== "" && !writing.value) void Ask(draft.value);
  };
  useKeys([
    { key: "/", label: text.keys.focus_prompt, run: () => document.getElementById("message")?.focus() },
    { key: "Control+Enter", label: words.ask, run: send },
    { key: "Escape", label: text.keys.stop, run: () => (writing.value ? Stop() : setLocked(null)) },
  ]);
  return (
    <div class="play">
      <div class="play-main">
        <section class="panel result" aria-label={words.conversation} aria-busy={writing.value}>
          <div class="result-head">
            <ColourBy />
            <span class="grow" />
            {last && (
              <button class="small" id="begin" disabled={writing.value} onClick={Begin}>
                {words.begin}
              </button>
            )}
          </div>
          {last === null && <p class="empty">{words.nothing_yet}</p>}
          <ol class="turns">
            {all.map((turn, at) => (
              <li key={at} class={at < last!.forgotten ? "forgotten" : ""}>
                {at > 0 && at === last!.forgotten && <p class="note border">{words.forgotten}</p>}
                <Message turn={turn} at={at} />
                <Answer
                  turn={turn}
                  at={at}
                  last={at === answered}
                  place={place}
                  locked={locked !== null}
                  onHover={setPointed}
                  onPick={setLocked}
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
            label={words.message}
            focus
            value={draft.value}
            onInput={(message) => (draft.value = message)}
            onSend={send}
          />
          {writing.value ? (
            <button class="primary" id="stop" onClick={Stop}>
              {text.play.stop} <kbd>Esc</kbd>
            </button>
          ) : (
            <button class="primary" id="ask" onClick={send}>
              {words.ask} <kbd>⏎</kbd>
            </button>
          )}
        </div>
      </div>
      <aside class="play-side">
        <SamplerPanel />
        <Sheet open={locked !== null} onClose={letGo}>
          {place && of && token ? (
            <TokenPanel
              ids={IdsOf(of)}
              at={of.prompt_ids.length + place.token}
              lp={token.lp}
              rank={token.rank}
              H={token.H}
              seen={token.seen}
              top={token.top}
              locked={locked !== null && !writing.value}
              settings={settings.value}
              onBranch={
                place.turn === answered && !writing.value
                  ? (choice) => void BranchAnswer(place.token, choice)
                  : undefined
              }
            />
          ) : (
            <p class="note">{text.token.none}</p>
          )}
        </Sheet>
      </aside>
    </div>
  );
}

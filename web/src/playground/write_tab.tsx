import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";
import { Failure } from "../parts/controls";
import { Say } from "../parts/live";
import { Prose, type Judged } from "../parts/prose";
import { Sheet } from "../parts/sheet";
import { CopyText } from "../save";
import { GoTo, SetParams } from "../state/route";
import { text } from "../text";
import { Pieces, TextOf, TokenBytes } from "../tokens";
import { ColourBy, ColourChoice } from "./colour_by";
import { PaceLine } from "./pace_line";
import { SamplerPanel } from "./sampler_panel";
import { settings } from "./settings";
import { TokenPanel } from "./token_panel";
import {
  Branch,
  canRedo,
  canUndo,
  Continue,
  failure,
  Generate,
  IdsOf,
  prompt,
  ShowBeside,
  shown,
  ShowTake,
  Stop,
  take,
  takes,
  Travel,
  writing,
} from "./writing";

const kMostInLink = 2000; // characters of a prompt that the address holds

function Takes() {
  if (takes.value.length < 2) return null;
  return (
    <div class="takes" role="group" aria-label={text.play.takes}>
      {takes.value.map((one) => (
        <button
          key={one.name}
          class="small"
          aria-pressed={one.name === shown.value}
          disabled={writing.value}
          onClick={() => ShowTake(one)}
          title={
            one.parent === null ? text.play.take(one.name) : text.play.branch_of(one.parent, one.at)
          }
        >
          {one.name}
          {one.parent !== null && <span class="faint">↱{one.parent}</span>}
        </button>
      ))}
    </div>
  );
}

export function WriteTab() {
  const words = text.play;
  const field = useRef<HTMLTextAreaElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const [locked, setLocked] = useState<number | null>(null);
  const mode = ColourChoice();
  const of = take.value;
  const given = of?.prompt_ids.length ?? 0;
  const ids = useMemo(() => (of ? IdsOf(of) : []), [of]);
  const pieces = useMemo(() => Pieces(ids.map(TokenBytes), writing.value), [ids, writing.value]);
  const judged = useMemo<Judged[]>(
    () =>
      of
        ? [
            ...of.prompt_ids.map((id) => ({ id, lp: null, rank: null, H: null, plain: true })),
            ...of.tokens,
          ]
        : [],
    [of],
  );
  const at = locked ?? pointed;
  const token = of && at !== null && at >= given ? of.tokens[at - given] : undefined;
  useEffect(() => {
    setPointed(null);
    setLocked(null);
  }, [shown.value]);
  useEffect(() => {
    if (prompt.value.length <= kMostInLink) SetParams({ p: prompt.value });
  }, [prompt.value]);
  const step = (by: number) => {
    if (ids.length > 0) setLocked(Math.min(Math.max((at ?? given - 1) + by, 0), ids.length - 1));
  };
  useKeys([
    { key: "/", label: text.keys.focus_prompt, run: () => field.current?.focus() },
    { key: "Control+Enter", label: text.keys.generate, run: () => void Generate() },
    { key: "Escape", label: text.keys.stop, run: () => (writing.value ? Stop() : setLocked(null)) },
    { key: "n", label: text.keys.next_token, run: () => step(1) },
    { key: "p", label: text.keys.previous_token, run: () => step(-1) },
    { key: "]", label: text.keys.next_take, run: () => ShowBeside(1) },
    { key: "[", label: text.keys.previous_take, run: () => ShowBeside(-1) },
  ]);
  const letGo = () => {
    setPointed(null);
    setLocked(null);
  };
  const copy = () =>
    void CopyText(of ? TextOf(of.prompt === "" ? ids.slice(given) : ids) : prompt.value).then(() =>
      Say(words.copied),
    );
  return (
    <div class="play">
      <div class="play-main">
        <textarea
          ref={field}
          class="prompt"
          id="prompt"
          aria-label={words.prompt}
          placeholder={words.prompt_hint}
          spellcheck={false}
          value={prompt.value}
          onInput={(event) => (prompt.value = event.currentTarget.value)}
        />
        <div class="row">
          {writing.value ? (
            <button class="primary" id="stop" onClick={Stop}>
              {words.stop} <kbd>Esc</kbd>
            </button>
          ) : (
            <button class="primary" id="generate" onClick={() => void Generate()}>
              {words.generate} <kbd>Ctrl ⏎</kbd>
            </button>
          )}
          <button disabled={writing.value || !of} onClick={() => void Continue()}>
            {words.go_on}
          </button>
          <button
            class="plain"
            disabled={writing.value || !canUndo.value}
            onClick={() => Travel(-1)}
          >
            {words.undo}
          </button>
          <button
            class="plain"
            disabled={writing.value || !canRedo.value}
            onClick={() => Travel(1)}
          >
            {words.redo}
          </button>
          <button class="plain" onClick={copy}>
            {words.copy}
          </button>
          <span class="grow" />
          <select
            aria-label={words.try_examples}
            value=""
            onChange={(event) => (prompt.value = event.currentTarget.value)}
          >
            <option value="" disabled>
              {words.try_examples}
            </option>
            {words.examples.map(([name, value]) => (
              <option key={name} value={value}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <PaceLine of={of} />
        <Failure message={failure.value} />
        <section class="panel result" aria-label={words.result} aria-busy={writing.value}>
          <div class="result-head">
            <ColourBy />
            <span class="grow" />
            <Takes />
            {of && (
              <button
                class="small"
                disabled={writing.value}
                onClick={() => GoTo("attn", { t: TextOf(ids) })}
              >
                {words.attention}
              </button>
            )}
          </div>
          {of ? (
            <Prose
              label={words.result}
              tokens={judged}
              pieces={pieces}
              mode={mode}
              at={at}
              locked={locked !== null}
              writing={writing.value}
              onHover={setPointed}
              onPick={setLocked}
              onEnter={() =>
                setTimeout(() => document.querySelector<HTMLElement>("button.bar")?.focus())
              }
            />
          ) : (
            <p class="empty">{words.nothing_yet}</p>
          )}
        </section>
      </div>
      <aside class="play-side">
        <SamplerPanel />
        <Sheet open={locked !== null} onClose={letGo}>
          {of && at !== null && ids[at] !== undefined ? (
            <TokenPanel
              ids={ids}
              at={at}
              lp={token?.lp ?? null}
              rank={token?.rank ?? null}
              H={token?.H ?? null}
              seen={token?.seen}
              top={token?.top ?? []}
              locked={locked !== null && !writing.value}
              settings={settings.value}
              onBranch={
                token && !writing.value
                  ? (choice) => void Branch(of, at - given, choice)
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

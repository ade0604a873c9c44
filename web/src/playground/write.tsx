import { useEffect, useMemo } from "preact/hooks";
import type { TopToken } from "../api/types";
import { useKeys } from "../keys";
import { Failure, kPoint, MainField } from "../parts/controls";
import { Say } from "../parts/live";
import { GoTo, SetParams } from "../state/route";
import { Pieces, TextOf, TokenBytes } from "../tokens";
import { PaceLine, WriteButton } from "./progress";
import { ColourBy, Prose, type ScoredToken } from "./prose";
import { SamplerPanel, settings } from "./sampler";
import { TokenSheet, usePlace } from "./token_panel";
import {
  Branch,
  canRedo,
  canUndo,
  Continue,
  failure,
  Generate,
  IdsOf,
  kExamples,
  kMostInLink,
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

function Takes() {
  if (takes.value.length < 2) return null;
  return (
    <div class="takes" role="group" aria-label="Takes">
      {takes.value.map((one) => (
        <button
          key={one.name}
          class="small"
          aria-pressed={one.name === shown.value}
          disabled={writing.value}
          onClick={() => ShowTake(one)}
          title={
            one.parent === null ? `Take ${one.name}` : `from ${one.parent}, token ${one.at + 1}`
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
  const { place: at, locked, letGo, ...on } = usePlace();
  const of = take.value;
  const given = of?.prompt_ids.length ?? 0;
  const ids = useMemo(() => (of ? IdsOf(of) : []), [of]);
  const pieces = useMemo(() => Pieces(ids.map(TokenBytes), writing.value), [ids, writing.value]);
  const tokens = useMemo<ScoredToken[]>(() => {
    const none = { lp: null, rank: null, H: null, top: [], plain: true };
    return of ? [...of.prompt_ids.map((id) => ({ id, ...none })), ...of.tokens] : [];
  }, [of]);
  const token = at === null ? undefined : tokens[at];
  useEffect(letGo, [shown.value]);
  useEffect(() => {
    if (prompt.value.length <= kMostInLink) SetParams({ p: prompt.value });
  }, [prompt.value]);
  const step = (by: number) => {
    if (ids.length > 0) on.onPick(Math.min(Math.max((at ?? given - 1) + by, 0), ids.length - 1));
  };
  const stop = () => (writing.value ? Stop() : on.onPick(null));
  useKeys([
    { key: "Control+Enter", label: "Generate", run: () => void Generate() },
    { key: "Escape", label: "Stop, or deselect the token", run: stop },
    { key: "n", label: "Next token", run: () => step(1) },
    { key: "p", label: "Previous token", run: () => step(-1) },
    { key: "]", label: "Next take", run: () => ShowBeside(1) },
    { key: "[", label: "Previous take", run: () => ShowBeside(-1) },
  ]);
  const copy = () => {
    const said = of ? TextOf(of.prompt === "" ? ids.slice(given) : ids) : prompt.value;
    void navigator.clipboard.writeText(said).then(() => Say("Copied"));
  };
  const branch = (choice: TopToken) => of && void Branch(of, (at ?? 0) - given, choice);
  const intoList = () =>
    setTimeout(() => document.querySelector<HTMLElement>("button.bar")?.focus());
  const plain = (label: string, disabled: boolean, act: () => void) => (
    <button class="plain" disabled={disabled} onClick={act}>
      {label}
    </button>
  );
  return (
    <div class="play">
      <div class="play-main">
        <MainField
          class="prompt"
          id="prompt"
          label="Prompt"
          placeholder="Begin a text; the model continues it."
          value={prompt.value}
          onText={(said) => (prompt.value = said)}
        />
        <div class="row">
          <WriteButton
            id="generate"
            label="Generate"
            keys="Ctrl ⏎"
            onWrite={() => void Generate()}
          />
          <button disabled={writing.value || !of} onClick={() => void Continue()}>
            Continue
          </button>
          {plain("Undo", writing.value || !canUndo.value, () => Travel(-1))}
          {plain("Redo", writing.value || !canRedo.value, () => Travel(1))}
          {plain("Copy", false, copy)}
          <span class="grow" />
          <select
            aria-label="Examples"
            value=""
            onChange={(event) => (prompt.value = event.currentTarget.value)}
          >
            <option value="" disabled>
              Examples
            </option>
            {kExamples.map(([name, value]) => (
              <option key={name} value={value}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <PaceLine of={of} />
        <Failure message={failure.value} />
        <section class="panel result" aria-label="Written text" aria-busy={writing.value}>
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
                Look inside
              </button>
            )}
          </div>
          {of ? (
            <Prose
              {...on}
              label="Written text"
              tokens={tokens}
              pieces={pieces}
              at={at}
              locked={locked}
              writing={writing.value}
              onEnter={intoList}
            />
          ) : (
            <p class="empty">
              The text that the model writes appears here, token by token. {kPoint} at a token to
              see the alternatives.
            </p>
          )}
        </section>
      </div>
      <aside class="play-side">
        <SamplerPanel />
        <TokenSheet
          ids={ids}
          at={at ?? 0}
          token={token}
          locked={locked}
          settings={settings.value}
          onBranch={of && at !== null && at >= given ? branch : undefined}
          onClose={letGo}
        />
      </aside>
    </div>
  );
}

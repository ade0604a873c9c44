import { useEffect, useRef, useState } from "preact/hooks";
import { keyQuestion, kUnreachable, online } from "./api/http";
import { AttentionScreen } from "./attention/screen";
import { Count, Short, Whole } from "./format";
import { InsideScreen } from "./inside/screen";
import { AllKeys, singleKeys, useKeys } from "./keys";
import { Check, Failure } from "./parts/controls";
import { Facts } from "./parts/lists";
import { LiveRegion } from "./parts/live";
import { PlaygroundScreen } from "./playground/screen";
import { writing } from "./playground/writing";
import {
  Address,
  GoTo,
  HashOf,
  kScreens,
  Param,
  route,
  type Screen,
  SetParams,
} from "./state/route";
import { HasFeature, info, infoError, modelId, replaced } from "./state/server";
import { NextTheme, themeChoice, type ThemeChoice } from "./state/theme";
import { ended, IsTraining } from "./training/runs";
import { TrainingScreen } from "./training/screen";

// Line icons on a grid of 24.
const kPaths = {
  play: "M4 19.5V5.5M8 8h12M8 12h9M8 16h11",
  attn: "M4 4h5v5H4zM4 15h5v5H4zM15 15h5v5h-5zM11.5 4l8.5 8.5",
  inside: "M12 3l8 4.5-8 4.5-8-4.5zM4 12l8 4.5 8-4.5M4 16.5L12 21l8-4.5",
  runs: "M4 4v16h16M7 8c2 7 5 8.5 12 9",
  system: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 4v16M15 5v14M18 7v10",
  light:
    "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  dark: "M20 14.5A8.5 8.5 0 019.5 4 8.5 8.5 0 1020 14.5z",
  help: "M12 3.5a8.5 8.5 0 100 17 8.5 8.5 0 000-17zM9.7 9.5a2.4 2.4 0 114 1.8c-.9.7-1.7 1.2-1.7 2.4M12 16.7v.1",
} as const;

function Icon({ name }: { name: keyof typeof kPaths }) {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d={kPaths[name]} />
    </svg>
  );
}

const kBodies = {
  play: ["Playground", PlaygroundScreen],
  attn: ["Attention", AttentionScreen],
  inside: ["Inside", InsideScreen],
  runs: ["Training", TrainingScreen],
} as const;

// Why a screen has nothing to show.
function Lacking(screen: Screen): string {
  if (screen === "runs")
    return HasFeature("runs") ? "" : "This service shows no runs: start it with --runs DIR.";
  if (info.value?.model) return "";
  return "This service has no model, only runs: open a run under Training with “Write with it”, or start the service with --model DIR.";
}

function Rail() {
  return (
    <nav class="rail" aria-label="Screens">
      <ul>
        {kScreens.map((screen, at) => (
          <li key={screen}>
            <a
              href={HashOf(screen, Param("m") ? { m: Param("m") } : {})}
              aria-current={route.value.screen === screen ? "page" : undefined}
              title={`${kBodies[screen][0]} (${at + 1})`}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                GoTo(screen);
              }}
            >
              <Icon name={screen} />
              {kBodies[screen][0]}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const kDtypes: Record<string, string> = {
  fp32: "float32 weights",
  bf16: "bfloat16 weights",
  int8: "8-bit weights",
  int4: "4-bit weights",
  mixed: "weights of several types",
};

function ModelCard() {
  const model = info.value?.model;
  const all = info.value?.models ?? [];
  return (
    <div class="model-card grow">
      {model && all.length > 1 ? (
        <select
          id="model"
          aria-label="Model"
          value={model.name}
          onChange={({ currentTarget: { value } }) => {
            SetParams({ m: value === all[0] ? null : value });
            Address();
          }}
        >
          {all.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      ) : (
        <strong>{model?.name ?? "folio"}</strong>
      )}
      {model && (
        <>
          <span>
            {Count(model.n_layer, "layer")}, {Count(model.n_head, "head")}, width{" "}
            {Whole(model.n_embd)}
          </span>
          <span title={`${Whole(model.params)} parameters`}>{Short(model.params)} parameters</span>
          <span>{kDtypes[model.dtype] ?? `${model.dtype} weights`}</span>
        </>
      )}
    </div>
  );
}

function ServerState() {
  const [kind, said] = !online.value
    ? ["down", "no answer"]
    : !info.value
      ? infoError.value
        ? ["down", "error"]
        : ["busy", "loading"]
      : writing.value
        ? ["busy", "writing"]
        : IsTraining()
          ? ["busy", "training"]
          : info.value.model
            ? ["", "ready"]
            : ["none", "no model"];
  return <span class={`state ${kind}`}>{said}</span>;
}

function Dialog(props: { title: string; onClose: () => void; children: preact.ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => ref.current?.showModal(), []);
  return (
    <dialog
      ref={ref}
      onClose={props.onClose}
      aria-label={props.title}
      onClick={(event) => event.target === ref.current && ref.current?.close()}
    >
      <h1>{props.title}</h1>
      {props.children}
    </dialog>
  );
}

function KeyDialog() {
  const question = keyQuestion.value;
  const [typed, setTyped] = useState("");
  if (!question) return null;
  return (
    <Dialog title="This service requires a key" onClose={() => keyQuestion.value?.answer(null)}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          question.answer(typed);
        }}
      >
        <Failure message={question.refused ? "The service does not accept this key." : ""} />
        <label class="stack" for="api-key">
          The key stays in this tab until the tab is closed.
        </label>
        <input
          id="api-key"
          type="password"
          autocomplete="off"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <div class="row">
          <button class="primary" type="submit">
            Continue
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const kKeyNames: Record<string, string> = { Escape: "Esc", "Control+Enter": "Ctrl ⏎" };

function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <Facts
        class="keys-list"
        rows={AllKeys().map(({ key, label }) => [<kbd>{kKeyNames[key] ?? key}</kbd>, label])}
      />
      <Check checked={singleKeys.value} onChange={(on) => (singleKeys.value = on)}>
        Enable keys without Ctrl
      </Check>
    </Dialog>
  );
}

const kThemes: Record<ThemeChoice, string> = {
  system: "that of the system",
  light: "light",
  dark: "dark",
};

export function Shell() {
  const [help, setHelp] = useState(false);
  const screen = route.value.screen;
  useKeys([
    ...kScreens.map((name, at) => ({
      key: String(at + 1),
      label: kBodies[name][0],
      run: () => GoTo(name),
    })),
    { key: "t", label: "Next theme", run: NextTheme },
    { key: "?", label: "This list", run: () => setHelp(true) },
  ]);
  const [name, Body] = kBodies[screen];
  useEffect(() => {
    document.title = `${name} – folio`;
  }, [screen]);
  const theme = `Theme: ${kThemes[themeChoice.value]}`;
  const lacking = info.value ? Lacking(screen) : "Loading …";
  const model = info.value?.model?.name;
  return (
    <div class="shell">
      <div class="brand">
        <img src="icon.svg" alt="folio" width="24" height="24" />
      </div>
      <header class="topbar">
        <ModelCard />
        <ServerState />
        <button class="icon-button" aria-label={theme} title={`${theme} (t)`} onClick={NextTheme}>
          <Icon name={themeChoice.value} />
        </button>
        <button
          class="icon-button"
          aria-label="Keys"
          title="Keys (?)"
          onClick={() => setHelp(true)}
        >
          <Icon name="help" />
        </button>
      </header>
      <Rail />
      <main tabIndex={-1}>
        <Failure message={online.value ? infoError.value : ended.value || kUnreachable} />
        {replaced.value && (
          <p class="banner row" role="status">
            <span class="grow">
              {model
                ? `The service was restarted with another model: ${model}. Texts of the former model are not shown.`
                : "The service was restarted without a model."}
            </span>
            <button class="small" onClick={() => (replaced.value = false)}>
              OK
            </button>
          </p>
        )}
        <h1 class="unseen">{name}</h1>
        {lacking === "" ? (
          <Body key={modelId.value} />
        ) : (
          !infoError.value && <p class="empty">{lacking}</p>
        )}
      </main>
      {help && <KeysDialog onClose={() => setHelp(false)} />}
      <KeyDialog />
      <LiveRegion />
    </div>
  );
}

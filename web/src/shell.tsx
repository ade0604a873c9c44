import { useEffect, useRef, useState } from "preact/hooks";
import { keyQuestion, online } from "./api/http";
import { AttentionScreen } from "./attention/screen";
import { Short } from "./format";
import { InsideScreen } from "./inside/screen";
import { AllKeys, singleKeys, useKeys } from "./keys";
import { Check } from "./parts/controls";
import { Icon } from "./parts/icons";
import { LiveRegion } from "./parts/live";
import { PlaygroundScreen } from "./playground/screen";
import { writing } from "./playground/writing";
import { Address, GoTo, HashOf, kScreens, Param, route, SetParams, type Screen } from "./state/route";
import { info, infoError, modelId, replaced } from "./state/server";
import { NextTheme, themeChoice } from "./state/theme";
import { text } from "./text";
import { TrainingScreen } from "./training/screen";

const kBodies: Record<Screen, () => preact.JSX.Element> = {
  play: PlaygroundScreen,
  attn: AttentionScreen,
  inside: InsideScreen,
  runs: TrainingScreen,
};

function Rail() {
  return (
    <nav class="rail" aria-label={text.shell.screens}>
      <ul>
        {kScreens.map((screen, at) => (
          <li key={screen}>
            <a
              href={HashOf(screen, Param("m") ? { m: Param("m") } : {})}
              aria-current={route.value.screen === screen ? "page" : undefined}
              title={`${text.screens[screen]} (${at + 1})`}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                GoTo(screen);
              }}
            >
              <Icon name={screen} />
              {text.screens[screen]}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function ModelCard() {
  const model = info.value?.model;
  const all = info.value?.models ?? [];
  if (!model)
    return (
      <div class="model-card grow">
        <strong>folio</strong>
      </div>
    );
  return (
    <div class="model-card grow">
      {all.length > 1 ? (
        <select
          id="model"
          aria-label={text.shell.model}
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
        <strong>{model.name}</strong>
      )}
      <span>
        {model.n_layer} L · {model.n_head} H · d {model.n_embd}
      </span>
      <span>
        {Short(model.params)} {text.shell.parameters}
      </span>
      <span>{[model.dtype, model.device].filter(Boolean).join(" · ")}</span>
    </div>
  );
}

function ServerState() {
  const [kind, said] = !online.value
    ? ["down", text.shell.down]
    : writing.value
      ? ["busy", text.shell.writing]
      : ["", text.shell.ready];
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
  const answer = keyQuestion.value;
  const [typed, setTyped] = useState("");
  if (!answer) return null;
  return (
    <Dialog title={text.key.title} onClose={() => keyQuestion.value?.(null)}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          answer(typed);
        }}
      >
        <label class="stack" for="api-key">
          {text.key.explain}
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
            {text.key.send}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function KeysDialog({ onClose }: { onClose: () => void }) {
  const shown = AllKeys();
  return (
    <Dialog title={text.keys.title} onClose={onClose}>
      <dl class="keys-list">
        {shown.map(({ key, label }) => (
          <>
            <dt>
              <kbd>{text.keys.names[key] ?? key.replace("Control+", "Ctrl ")}</kbd>
            </dt>
            <dd>{label}</dd>
          </>
        ))}
      </dl>
      <Check checked={singleKeys.value} onChange={(on) => (singleKeys.value = on)}>
        {text.keys.single}
      </Check>
    </Dialog>
  );
}

export function Shell() {
  const [help, setHelp] = useState(false);
  const screen = route.value.screen;
  useKeys([
    ...kScreens.map((name, at) => ({
      key: String(at + 1),
      label: text.screens[name],
      run: () => GoTo(name),
    })),
    { key: "t", label: text.keys.theme, run: NextTheme },
    { key: "?", label: text.keys.list, run: () => setHelp(true) },
  ]);
  useEffect(() => {
    document.title = `${text.screens[screen]} – folio`;
  }, [screen]);
  const Body = kBodies[screen];
  return (
    <div class="shell">
      <div class="brand">
        <img src="icon.svg" alt="folio" width="24" height="24" />
      </div>
      <header class="topbar">
        <ModelCard />
        <ServerState />
        <button
          class="icon-button"
          aria-label={`${text.shell.theme}: ${text.themes[themeChoice.value]}`}
          title={`${text.shell.theme}: ${text.themes[themeChoice.value]} (t)`}
          onClick={NextTheme}
        >
          <Icon name={themeChoice.value} />
        </button>
        <button
          class="icon-button"
          aria-label={text.keys.title}
          title={`${text.keys.title} (?)`}
          onClick={() => setHelp(true)}
        >
          <Icon name="help" />
        </button>
      </header>
      <Rail />
      <main tabIndex={-1}>
        {!online.value && (
          <p class="failure" role="alert">
            {text.server.unreachable}
          </p>
        )}
        {replaced.value && (
          <p class="banner row" role="status">
            <span class="grow">{text.server.replaced(info.value?.model?.name)}</span>
            <button class="small" onClick={() => (replaced.value = false)}>
              {text.server.understood}
            </button>
          </p>
        )}
        {infoError.value && online.value && (
          <p class="failure" role="alert">
            {infoError.value}
          </p>
        )}
        <h1 class="unseen">{text.screens[screen]}</h1>
        {info.value ? <Body key={modelId.value} /> : !infoError.value && <p class="empty">{text.server.loading}</p>}
      </main>
      {help && <KeysDialog onClose={() => setHelp(false)} />}
      <KeyDialog />
      <LiveRegion />
    </div>
  );
}

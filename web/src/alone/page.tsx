import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Short } from "../format";
import { Failure, Tabs } from "../parts/controls";
import { LiveRegion } from "../parts/live";
import { NextTheme, themeChoice } from "../state/theme";
import { Attending } from "./attending";
import { busy, Compute, failure, model, threads } from "./compute";
import { Chosen, type Dropped, DroppedOf, IsText } from "./files";
import { corpus, Trainer } from "./training";
import { Writer } from "./writing";

const kScreens = [
  ["write", "Writing"],
  ["attention", "Attention"],
  ["train", "Training"],
] as const;
export const screen = signal<(typeof kScreens)[number][0]>("write");

async function Open(dropped: Dropped): Promise<void> {
  if (dropped.files.length === 0) return;
  if (IsText(dropped)) {
    corpus.value = (await dropped.files[0]?.text()) ?? "";
    screen.value = "train";
    return;
  }
  model.value = (await Compute("open", dropped)) ?? model.value;
}

function Picker({ children }: { children: string }) {
  return (
    <label class="button">
      <input
        type="file"
        multiple
        class="unseen"
        onChange={(event) => {
          void Open(Chosen([...(event.currentTarget.files ?? [])]));
          event.currentTarget.value = "";
        }}
      />
      {children}
    </label>
  );
}

// What stands where there is no model yet.
export function NoModel() {
  return (
    <div class="panel drop">
      <h1>Drop a model here</h1>
      <p class="soft">
        A GGUF file, the files of a directory of safetensors with its config.json and
        tokenizer.json, or what folio trained. It stays in this page: nothing is sent anywhere.
      </p>
      <div class="row">
        <Picker>Choose files</Picker>
        <button onClick={() => (screen.value = "train")}>Train one here</button>
      </div>
    </div>
  );
}

const kDoing = {
  open: "opening",
  write: "writing",
  attend: "reading",
  train: "training",
  save: "saving",
};

function State() {
  const doing = !threads.value ? "loading" : busy.value && kDoing[busy.value];
  const [kind, said] = doing ? ["busy", doing] : ["", "ready"];
  return <span class={`state ${kind}`}>{said}</span>;
}

export function Page() {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const drag = (event: DragEvent) => {
      event.preventDefault();
      setOver(event.type === "dragover");
      if (event.type === "drop" && event.dataTransfer)
        void DroppedOf(event.dataTransfer).then(Open);
    };
    const kinds = ["dragover", "dragleave", "drop"] as const;
    kinds.forEach((kind) => addEventListener(kind, drag));
    return () => kinds.forEach((kind) => removeEventListener(kind, drag));
  }, []);
  const facts = model.value;
  return (
    <div class={over ? "alone over" : "alone"}>
      <header class="topbar">
        <img src="icon.svg" alt="folio" width="24" height="24" />
        <div class="model-card grow">
          <strong id="model">{facts?.name ?? "folio"}</strong>
          {facts && (
            <>
              <span>
                {facts.n_layer} L · {facts.n_head} H · d {facts.n_embd}
              </span>
              <span>{Short(facts.params)} parameters</span>
            </>
          )}
        </div>
        <State />
        {facts && <Picker>Open</Picker>}
        <button onClick={NextTheme} title="Theme: that of the system, light, dark">
          {themeChoice.value}
        </button>
      </header>
      <main>
        <Failure message={failure.value} />
        <Tabs
          name="Screens"
          value={screen.value}
          options={kScreens}
          onPick={(to) => (screen.value = to)}
        >
          {screen.value === "train" ? (
            <Trainer />
          ) : !facts ? (
            <NoModel />
          ) : screen.value === "write" ? (
            <Writer />
          ) : (
            <Attending facts={facts} key={facts} />
          )}
        </Tabs>
        <p class="note">
          Everything is computed in this page, in float32 on {threads.value || "one"}{" "}
          {threads.value > 1 ? "threads" : "thread"}.
        </p>
      </main>
      <LiveRegion />
    </div>
  );
}

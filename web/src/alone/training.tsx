import { signal } from "@preact/signals";
import { SeriesColour } from "../colour";
import { Digits, Duration } from "../format";
import { Pick, Slider, TextField } from "../parts/controls";
import { KeyEntry } from "../parts/lists";
import { Figure } from "../parts/line_chart";
import { useWidth } from "../parts/canvas";
import { SaveFile } from "../save";
import { theme } from "../state/theme";
import { busy, Compute, model, Stop } from "./compute";

export const corpus = signal("");

const kSizes = [
  ["tiny", "tiny: 2 layers, 64 channels"],
  ["small", "small: 4 layers, 128 channels"],
  ["medium", "medium: 6 layers, 192 channels"],
] as const;
const kShapes = {
  tiny: { n_layer: 2, n_embd: 64 },
  small: { n_layer: 4, n_embd: 128 },
  medium: { n_layer: 6, n_embd: 192 },
};
const size = signal<keyof typeof kShapes>("small");
const steps = signal(500);

interface Run {
  losses: number[]; // by step
  held_out: (number | null)[]; // behind as many steps
  sample: string;
  ended: string; // empty while it trains
  since: number;
}
const run = signal<Run | null>(null);

async function Train(): Promise<void> {
  let now: Run = { losses: [], held_out: [], sample: "", ended: "", since: performance.now() };
  let drawn = 0;
  const show = (change: Partial<Run>, soon: boolean) => {
    now = { ...now, ...change };
    if (!soon && performance.now() - drawn < 200) return;
    drawn = performance.now();
    run.value = now;
  };
  const end = await Compute(
    "train",
    { text: corpus.value, ...kShapes[size.value], steps: steps.value },
    (part) => {
      if ("loss" in part) {
        now.losses.push(part.loss);
        show({}, false);
      } else {
        now.held_out[part.step - 1] = part.held_out;
        show({ sample: part.sample }, true);
      }
    },
  );
  if (!end) {
    run.value = null;
    return;
  }
  model.value = end;
  show({ ended: `${now.losses.length} steps in ${Duration(end.seconds)}` }, true);
}

async function Save(): Promise<void> {
  const bytes = await Compute("save", null);
  if (bytes) SaveFile("folio.gguf", bytes, "application/octet-stream");
}

function Losses({ losses, held_out }: Run) {
  const [holder, width] = useWidth<HTMLDivElement>();
  const lines = [
    { name: "training", colour: SeriesColour(theme.value, 5), ys: losses },
    { name: "held out", colour: SeriesColour(theme.value, 1), ys: held_out },
  ];
  return (
    <div ref={holder} class="line-chart">
      <Figure
        label="Loss by step"
        width={Math.max(width, 120)}
        height={220}
        room={{ left: 40, right: 12, top: 8, bottom: 20 }}
        xs={losses.map((_, i) => i + 1)}
        lines={lines}
        x={{ whole: true, say: String }}
        y={{ parts: 4, say: (loss) => Digits(loss, 3) }}
      />
      <div class="row small">
        {lines.map(({ name, colour }) => (
          <KeyEntry key={name} colour={colour}>
            {name}
          </KeyEntry>
        ))}
      </div>
    </div>
  );
}

export function Trainer() {
  const shown = run.value;
  const training = busy.value === "train";
  const last = shown?.losses.at(-1);
  const held = shown?.held_out.filter((loss) => loss != null).at(-1);
  return (
    <div class="play">
      <div class="play-main">
        <TextField
          id="corpus"
          class="prompt"
          label="Text to train on"
          placeholder="Paste a text here, or drop a file of one: a few hundred kilobytes are good."
          value={corpus.value}
          onText={(said) => (corpus.value = said)}
        />
        <div class="row">
          {training ? (
            <button id="stop" onClick={Stop}>
              Stop
            </button>
          ) : (
            <button
              id="train"
              class="primary"
              disabled={busy.value !== "" || corpus.value === ""}
              onClick={() => void Train()}
            >
              Train
            </button>
          )}
          {shown?.ended && (
            <button disabled={busy.value !== ""} onClick={() => void Save()}>
              Save as GGUF
            </button>
          )}
          <span class="pace" id="trained">
            {shown &&
              (shown.ended ||
                `step ${shown.losses.length}, ${Digits((1000 * shown.losses.length) / (performance.now() - shown.since), 3)} a second`)}
          </span>
        </div>
        {shown && (
          <section class="panel stack" aria-label="Training">
            <div class="panel-head">
              <h2>Loss, in nats per character</h2>
              <span class="soft small" id="losses">
                training {Digits(last, 4)}
                {held != null && `, held out ${Digits(held, 4)}`}
              </span>
            </div>
            <Losses {...shown} />
            {shown.sample && (
              <>
                <h3>What it writes now</h3>
                <p class="prose">{shown.sample}</p>
              </>
            )}
          </section>
        )}
      </div>
      <div class="play-side">
        <section class="panel stack" aria-label="What is trained">
          <Pick name="Size" value={size.value} options={kSizes} onPick={(to) => (size.value = to)} />
          <Slider
            label="Steps"
            low={50}
            high={5000}
            step={50}
            value={steps.value}
            shown={String(steps.value)}
            onInput={(to) => (steps.value = to)}
          />
          <p class="note">
            A model of characters, which begins with nothing. A tenth of the text is held out. When it
            has ended, or is stopped, it is the model that writes here.
          </p>
        </section>
      </div>
    </div>
  );
}

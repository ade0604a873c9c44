import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { useKeys } from "../keys";
import { Param, SetParams, type Options } from "../state/route";

interface Choosing<T extends string> {
  name: string;
  value: T;
  options: Options<T>;
  onPick: (value: T) => void;
}

export function Segments<T extends string>(props: Choosing<T>) {
  const group = useId();
  return (
    <div class="segments small" role="radiogroup" aria-label={props.name}>
      {props.options.map(([value, label]) => (
        <label key={value}>
          <input
            type="radio"
            name={group}
            checked={value === props.value}
            onChange={() => props.onPick(value)}
          />
          {label}
        </label>
      ))}
    </div>
  );
}

export function Pick<T extends string>(props: Choosing<T>) {
  return (
    <label class="row small">
      <span class="soft">{props.name}</span>
      <select
        value={props.value}
        onChange={(event) => props.onPick(event.currentTarget.value as T)}
      >
        {props.options.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

// Tabs, by the arrow keys too, above the panel of the one that is picked.
export function Tabs<T extends string>(props: Choosing<T> & { children: ComponentChildren }) {
  const { options, value } = props;
  const step = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const at = options.findIndex(([one]) => one === value);
    const to = (at + by + options.length) % options.length;
    props.onPick((options[to] as Options<T>[number])[0]);
    (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[to]?.focus();
  };
  return (
    <div class="stack gap">
      <div class="tabs" role="tablist" aria-label={props.name} onKeyDown={step}>
        {options.map(([one, label]) => (
          <button
            key={one}
            role="tab"
            aria-selected={one === value}
            tabIndex={one === value ? 0 : -1}
            onClick={() => props.onPick(one)}
          >
            {label}
          </button>
        ))}
      </div>
      <div class="stack" role="tabpanel" aria-label={options.find(([one]) => one === value)?.[1]}>
        {props.children}
      </div>
    </div>
  );
}

interface CheckProps {
  title?: string;
  children: ComponentChildren;
}

export function Check(props: CheckProps & { checked: boolean; onChange: (on: boolean) => void }) {
  return (
    <label class="check small" title={props.title}>
      <input
        type="checkbox"
        checked={props.checked}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <span>{props.children}</span>
    </label>
  );
}

// Whether a parameter of the address is 1.
export function ParamCheck({ param, ...more }: CheckProps & { param: string }) {
  const change = (on: boolean) => SetParams({ [param]: on ? 1 : null });
  return <Check {...more} checked={Param(param) === "1"} onChange={change} />;
}

export function Slider(props: {
  label: string;
  value: number;
  low: number;
  high: number;
  step: number;
  shown: string;
  onInput: (value: number) => void;
  title?: string;
}) {
  const id = useId();
  return (
    <div class="slider" title={props.title}>
      <label for={id}>{props.label}</label>
      <output for={id}>{props.shown}</output>
      <input
        id={id}
        type="range"
        min={props.low}
        max={props.high}
        step={props.step}
        value={props.value}
        aria-valuetext={props.shown}
        onInput={(event) => props.onInput(event.currentTarget.valueAsNumber)}
      />
    </div>
  );
}

type FieldProps = Omit<JSX.IntrinsicElements["textarea"], "label"> & {
  label: string;
  value: string;
  onText: (said: string) => void;
};

// A field of text, of several lines.
export function TextField({ label, onText, ...more }: FieldProps) {
  return (
    <textarea
      {...more}
      aria-label={label}
      spellcheck={false}
      onInput={(event) => onText(event.currentTarget.value)}
    />
  );
}

// The field that a screen is about: "/" leads to it.
export function MainField(props: FieldProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  useKeys([{ key: "/", label: "Go to the text field", run: () => field.current?.focus() }]);
  return <TextField {...props} ref={field} />;
}

// Where nothing hovers, as on a phone, what is pointed at elsewhere is tapped.
export const kPoint = matchMedia("(hover: none)").matches ? "Tap" : "Point";

export function Failure(props: { message: string }) {
  return props.message ? (
    <p class="failure" role="alert">
      {props.message}
    </p>
  ) : null;
}

const kClear = 40; // pixels between what was tapped and the sheet

let tapped = 0; // where the last press beside a sheet was, from the top of the page
addEventListener(
  "pointerdown",
  (event) => {
    if (!(event.target as Element).closest(".sheet")) tapped = event.clientY + scrollY;
  },
  { capture: true },
);

// A sheet tells of a thing that was picked. On a phone it lies over the lower part of the screen
// while `open`, and what was tapped is moved out from under it; elsewhere it stands where it is.
export function Sheet(props: { open: boolean; onClose: () => void; children: ComponentChildren }) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = holder.current;
    if (!props.open || !element || getComputedStyle(element).position !== "fixed") return;
    // It grows when its numbers come.
    const observer = new ResizeObserver(() => {
      const hidden = tapped - scrollY + kClear - element.getBoundingClientRect().top;
      if (hidden > 0) scrollBy({ top: hidden });
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [props.open]);
  return (
    <div ref={holder} class={props.open ? "sheet open" : "sheet"}>
      {props.open && (
        <button class="icon-button sheet-close" aria-label="Close" onClick={props.onClose}>
          ×
        </button>
      )}
      {props.children}
    </div>
  );
}

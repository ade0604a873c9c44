import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

export function Segments<T extends string>(props: {
  name: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onPick: (value: T) => void;
}) {
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

export function Check(props: {
  checked: boolean;
  onChange: (on: boolean) => void;
  children: ComponentChildren;
  title?: string;
}) {
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

export function Pick<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onPick: (value: T) => void;
}) {
  return (
    <label class="row small">
      <span class="soft">{props.label}</span>
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

// Tabs by the arrow keys too; the panel is the caller's.
export function Tabs<T extends string>(props: {
  name: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onPick: (value: T) => void;
}) {
  const step = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const at = props.options.findIndex(([value]) => value === props.value);
    const next = props.options[(at + by + props.options.length) % props.options.length];
    if (!next) return;
    props.onPick(next[0]);
    const buttons = (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(
      "[role=tab]",
    );
    buttons[(at + by + buttons.length) % buttons.length]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.name} onKeyDown={step}>
      {props.options.map(([value, label]) => (
        <button
          key={value}
          role="tab"
          aria-selected={value === props.value}
          tabIndex={value === props.value ? 0 : -1}
          onClick={() => props.onPick(value)}
        >
          {label}
        </button>
      ))}
    </div>
  );
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

export function Failure(props: { message: string }) {
  return props.message ? (
    <p class="failure" role="alert">
      {props.message}
    </p>
  ) : null;
}

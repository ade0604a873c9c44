import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

// A key runs an action. `key` is KeyboardEvent.key, or "Control+Enter" and the like.
export interface KeyAction {
  key: string;
  label: string;
  run: () => void;
}

const kName = "folio.single-keys";
const sets = new Set<{ current: KeyAction[] }>();

// True where keys without Ctrl do anything.
export const singleKeys = signal(localStorage.getItem(kName) !== "off");
effect(() => localStorage.setItem(kName, singleKeys.value ? "on" : "off"));

export function AllKeys(): KeyAction[] {
  return [...sets].flatMap((set) => set.current);
}

const kTyping = "textarea, select, input:not([type=checkbox]):not([type=radio]):not([type=range])";

window.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]")) return;
  const control = event.ctrlKey || event.metaKey;
  const key = control ? `Control+${event.key}` : event.key;
  const types = event.target instanceof HTMLElement && event.target.matches(kTyping);
  if (!control && key !== "Escape" && (types || !singleKeys.value)) return;
  const action = AllKeys().find((one) => one.key === key);
  if (!action) return;
  event.preventDefault();
  action.run();
});

// These keys work while the component is there.
export function useKeys(actions: KeyAction[]): void {
  const held = useRef(actions);
  held.current = actions;
  useEffect(() => {
    sets.add(held);
    return () => void sets.delete(held);
  }, []);
}

const kArrows: Record<string, [down: number, right: number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

// Where an arrow key leads, which then does nothing else.
export function ArrowOf(event: KeyboardEvent): [down: number, right: number] | undefined {
  const by = kArrows[event.key];
  if (by) event.preventDefault();
  return by;
}

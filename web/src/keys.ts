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

function TypesText(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.matches(
        "textarea, select, input:not([type=checkbox]):not([type=radio]):not([type=range])",
      ))
  );
}

window.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]")) return;
  const control = event.ctrlKey || event.metaKey;
  const key = control ? `Control+${event.key}` : event.key;
  if (!control && key !== "Escape" && (TypesText(event.target) || !singleKeys.value)) return;
  for (const set of sets) {
    const action = set.current.find((one) => one.key === key);
    if (!action) continue;
    event.preventDefault();
    action.run();
    return;
  }
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

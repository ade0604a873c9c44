import { signal } from "@preact/signals";

// A screen reader is told this text without moving to it.
const said = signal("");
let timer: ReturnType<typeof setTimeout> | undefined;

const kSettled = 150; // milliseconds without a newer thing to say

export function Say(what: string): void {
  clearTimeout(timer);
  timer = setTimeout(() => (said.value = what), kSettled);
}

export function LiveRegion() {
  return (
    <div class="unseen" role="status" aria-live="polite" id="live">
      {said.value}
    </div>
  );
}

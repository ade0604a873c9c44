import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { text } from "../text";

const kClear = 40; // pixels between what was tapped and the sheet

let tapped = 0; // where the last press was, from the top of the window
addEventListener("pointerdown", (event) => (tapped = event.clientY), { capture: true });

// A sheet tells of a thing that was picked. On a phone it lies over the lower part of the screen
// while `open`, and what was tapped is moved out from under it; elsewhere it stands where it is.
export function Sheet(props: { open: boolean; onClose: () => void; children: ComponentChildren }) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = holder.current;
    if (!props.open || !element || getComputedStyle(element).position !== "fixed") return;
    const hidden = tapped + kClear - element.getBoundingClientRect().top;
    if (hidden > 0) scrollBy({ top: hidden });
  }, [props.open]);
  return (
    <div ref={holder} class={props.open ? "sheet open" : "sheet"}>
      {props.open && (
        <button
          class="icon-button sheet-close"
          aria-label={text.shell.close}
          onClick={props.onClose}
        >
          ×
        </button>
      )}
      {props.children}
    </div>
  );
}

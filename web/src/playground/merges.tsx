import type { MergedPiece } from "../api/types";
import { text } from "../text";
import { TokenLabel } from "../tokens";

// The symbols after each merge, and where the new one is.
export function StepsOf({ symbols, merges }: MergedPiece): { ids: number[]; made: number }[] {
  const steps = [{ ids: symbols, made: -1 }];
  for (const [place, id] of merges) {
    const before = steps.at(-1)?.ids ?? [];
    steps.push({ ids: [...before.slice(0, place), id, ...before.slice(place + 2)], made: place });
  }
  return steps;
}

// How words become tokens.
export function Merges({ pieces }: { pieces: MergedPiece[] }) {
  const words = text.tokens;
  return (
    <section class="panel stack">
      <h2 id="merges">{words.merges}</h2>
      <p class="note">{words.merges_note}</p>
      <div class="merges" tabIndex={0} role="region" aria-labelledby="merges">
        {pieces.map((piece) => (
          <ol key={piece.at}>
            {StepsOf(piece).map(({ ids, made }, step) => (
              <li key={step}>
                <span class="number faint">{step > 0 ? piece.merges[step - 1]?.[2] : ""}</span>
                {ids.map((id, i) => (
                  <span key={i} class={`chip ${i === made ? "made" : ""}`}>
                    {TokenLabel(id)}
                  </span>
                ))}
              </li>
            ))}
          </ol>
        ))}
      </div>
    </section>
  );
}

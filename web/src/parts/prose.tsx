import { theme } from "../state/theme";
import { RampTile, type TileStyle } from "../colour";
import { kNatsToBits } from "../format";
import { TokenLabel } from "../tokens";

export type ColourMode = "none" | "probability" | "rank" | "entropy";

// A token is judged where it stands; null for one that nothing stands before.
export interface Judged {
  id: number;
  lp: number | null;
  rank: number | null;
  H: number | null;
  plain?: boolean; // not the model's, and not judged
}

const kStrongest = 0.42; // of the ramp
const kMostBits = 8;
const kLeast = Math.log(1e-3);

// GLTR's buckets.
export function RankBucket(rank: number): 0 | 1 | 2 | 3 {
  return rank <= 10 ? 0 : rank <= 100 ? 1 : rank <= 1000 ? 2 : 3;
}

// How strongly a token is marked, 0 to 1: the more it surprises.
export function Mark(token: Judged, mode: ColourMode): number {
  if (token.plain) return 0;
  if (mode === "probability" && token.lp !== null) return Math.min(token.lp / kLeast, 1);
  if (mode === "rank" && token.rank !== null) return RankBucket(token.rank) / 3;
  if (mode === "entropy" && token.H !== null)
    return Math.min((token.H * kNatsToBits) / kMostBits, 1);
  return 0;
}

function MarkTile(strength: number): TileStyle | undefined {
  return strength <= 0.01 ? undefined : RampTile(theme.value, strength * kStrongest);
}

// Text made of tokens that can be gone through by mouse and by keys: a listbox with one tab stop.
export function Prose(props: {
  label: string;
  tokens: Judged[];
  pieces: string[];
  mode: ColourMode;
  at: number | null;
  locked: boolean;
  writing?: boolean;
  onHover: (at: number | null) => void;
  onPick: (at: number) => void;
  onEnter?: () => void;
}) {
  const { tokens, at } = props;
  const indexOf = (target: EventTarget | null) => {
    const index = (target as HTMLElement | null)?.closest<HTMLElement>("[data-i]")?.dataset.i;
    return index === undefined ? null : Number(index);
  };
  const keys = (event: KeyboardEvent) => {
    const here = indexOf(event.target) ?? at ?? 0;
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tokens.length - 1 }[
      event.key
    ];
    if (event.key === "Enter" && props.onEnter) {
      event.preventDefault();
      props.onPick(here);
      props.onEnter();
    } else if (to !== undefined && to >= 0 && to < tokens.length) {
      event.preventDefault();
      (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-i="${to}"]`)?.focus();
    }
  };
  const stop =
    at ??
    Math.max(
      tokens.findIndex(({ plain }) => !plain),
      0,
    );
  return (
    <div
      class={`prose mode-${props.mode}`}
      role="listbox"
      aria-label={props.label}
      aria-orientation="horizontal"
      onMouseOver={(event) => props.onHover(indexOf(event.target))}
      onMouseLeave={() => props.onHover(null)}
      onFocusIn={(event) => {
        const i = indexOf(event.target);
        if (i !== null) props.onPick(i);
      }}
      onClick={(event) => {
        const i = indexOf(event.target);
        if (i !== null) props.onPick(i);
      }}
      onKeyDown={keys}
    >
      {tokens.map((token, i) => {
        const mode = token.plain ? "none" : props.mode;
        const kind =
          (token.plain ? " given" : "") +
          (i === at ? (props.locked ? " chosen" : " pointed") : "") +
          (mode === "rank" && token.rank !== null ? ` rank-${RankBucket(token.rank)}` : "");
        return (
          <span
            key={i}
            data-i={i}
            role="option"
            tabIndex={i === stop ? 0 : -1}
            aria-selected={i === at}
            aria-label={TokenLabel(token.id)}
            class={`piece${kind}`}
            style={MarkTile(Mark(token, mode))}
          >
            {props.pieces[i]}
          </span>
        );
      })}
      {props.writing && <span class="caret" aria-hidden="true" />}
    </div>
  );
}

export function ColourLegend({
  mode,
  words,
}: {
  mode: ColourMode;
  words: { low: string; high: string; rank: string[] };
}) {
  if (mode === "none") return null;
  if (mode === "rank") {
    return (
      <span class="legend">
        {words.rank.map((word, i) => (
          <span key={word} class={`piece rank-${i}`} style={MarkTile(i / 3)}>
            {word}
          </span>
        ))}
      </span>
    );
  }
  return (
    <span class="legend">
      {words.low}
      <span class="ramp">
        {Array.from({ length: 12 }, (_, i) => (
          <i key={i} style={MarkTile((i + 1) / 12)} />
        ))}
      </span>
      {words.high}
    </span>
  );
}

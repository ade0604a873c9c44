import type { TopToken } from "../api/types";
import { RampTile } from "../colour";
import { kNatsToBits } from "../format";
import { Segments } from "../parts/controls";
import { PickedClass, TokenList } from "../parts/lists";
import { Param, SetParams } from "../state/route";
import { theme } from "../state/theme";
import { TokenLabel } from "../tokens";

const kModes = [
  ["none", "nothing"],
  ["probability", "probability"],
  ["rank", "rank"],
  ["entropy", "entropy"],
] as const;
type Mode = (typeof kModes)[number][0];

// A token with what the model says of it; null where nothing stands before it.
export interface ScoredToken {
  id: number;
  lp: number | null;
  rank: number | null;
  H: number | null;
  top: TopToken[];
  seen?: number; // tokens before it that the model saw; all of them if it is not said
  plain?: boolean; // not the model's, and without numbers
}

const kStrongest = 0.42; // of the ramp
const kMostBits = 8;
const kLeast = Math.log(1e-3);
const kBuckets = ["top 10", "top 100", "top 1000", "beyond"]; // GLTR's

function BucketOf(rank: number): number {
  return rank <= 10 ? 0 : rank <= 100 ? 1 : rank <= 1000 ? 2 : 3;
}

// How strongly a token is marked, 0 to 1: the more it surprises.
function Mark(token: ScoredToken, mode: Mode): number {
  if (token.plain) return 0;
  if (mode === "probability" && token.lp !== null) return Math.min(token.lp / kLeast, 1);
  if (mode === "rank" && token.rank !== null) return BucketOf(token.rank) / 3;
  if (mode === "entropy" && token.H !== null)
    return Math.min((token.H * kNatsToBits) / kMostBits, 1);
  return 0;
}

function MarkStyle(strength: number) {
  return strength <= 0.01 ? undefined : { ...RampTile(theme.value, strength * kStrongest) };
}

// What tokens are coloured by, as the address has it.
function ModeOf(): Mode {
  return Param("c", "probability") as Mode;
}

// Text made of tokens that can be gone through by mouse and by keys.
export function Prose(props: {
  label: string;
  tokens: ScoredToken[];
  pieces: string[];
  at: number | null;
  locked: boolean;
  writing?: boolean;
  onHover: (at: number | null) => void;
  onPick: (at: number) => void;
  onEnter?: () => void;
}) {
  const { tokens, pieces, locked, writing, ...list } = props;
  const mode = ModeOf();
  return (
    <TokenList
      {...list}
      class="prose"
      count={tokens.length}
      stop={Math.max(
        0,
        tokens.findIndex(({ plain }) => !plain),
      )}
      option={(i) => {
        const token = tokens[i] as ScoredToken;
        const bucket =
          mode === "rank" && !token.plain && token.rank !== null
            ? ` rank-${BucketOf(token.rank)}`
            : "";
        return {
          "aria-label": TokenLabel(token.id),
          class: `piece${token.plain ? " given" : ""}${PickedClass(i === props.at, locked)}${bucket}`,
          style: MarkStyle(Mark(token, mode)),
          children: pieces[i],
        };
      }}
    >
      {writing && <span class="caret" aria-hidden="true" />}
    </TokenList>
  );
}

export function ColourBy() {
  const mode = ModeOf();
  const [low, high] = mode === "entropy" ? ["certain", "≥ 8 bits"] : ["likely", "p ≤ 0.001"];
  return (
    <>
      <span class="soft small">Colour by</span>
      <Segments name="Colour by" value={mode} options={kModes} onPick={(c) => SetParams({ c })} />
      {mode === "rank" ? (
        <span class="legend">
          {kBuckets.map((name, i) => (
            <span key={name} class={`piece rank-${i}`} style={MarkStyle(i / 3)}>
              {name}
            </span>
          ))}
        </span>
      ) : (
        mode !== "none" && (
          <span class="legend">
            {low}
            <span class="ramp">
              {Array.from({ length: 12 }, (_, i) => (
                <i key={i} style={MarkStyle((i + 1) / 12)} />
              ))}
            </span>
            {high}
          </span>
        )
      )}
    </>
  );
}

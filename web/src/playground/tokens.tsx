import type { MergedPiece, Tokenized } from "../api/types";
import { Digits, Whole } from "../format";
import { Failure, MainField } from "../parts/controls";
import { Chip, Facts, Table } from "../parts/lists";
import { useLoaded } from "../state/load";
import { PostToModel } from "../state/server";
import { Hex, TokenBytes, TokenLabel } from "../tokens";
import { Type, typedText } from "./writing";

const kMostRows = 500;
const kTypingPause = 200; // milliseconds

// The symbols after each merge, where the new one is, and when training made that merge.
function StepsOf({ symbols, merges }: MergedPiece) {
  const steps = [{ ids: symbols, made: -1, rank: null as number | null }];
  for (const [made, id, rank] of merges) {
    const before = steps.at(-1)?.ids ?? [];
    steps.push({ ids: [...before.slice(0, made), id, ...before.slice(made + 2)], made, rank });
  }
  return steps;
}

// How words become tokens.
function Merges({ pieces }: { pieces: MergedPiece[] }) {
  return (
    <section class="panel stack">
      <h2 id="merges">Merges, in order</h2>
      <p class="note">
        Each word begins as its bytes. The neighbouring pair with the earliest merge becomes one
        symbol, again and again, until no pair can be merged. A number is the place of a merge in
        the tokenizer's list.
      </p>
      <div class="merges" tabIndex={0} role="region" aria-labelledby="merges">
        {pieces.map((piece) => (
          <ol key={piece.at}>
            {StepsOf(piece).map(({ ids, made, rank }, step) => (
              <li key={step}>
                <span class="number faint">{rank}</span>
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

export function TokensTab() {
  const said = typedText.value;
  const { value: found, failure } = useLoaded(
    said,
    async (signal) => ({
      ...(await PostToModel<Tokenized>("api/tokenize", { text: said }, signal)),
      characters: [...said].length,
    }),
    kTypingPause,
  );
  const ids = found?.ids ?? [];
  const shown = ids.slice(0, kMostRows);
  return (
    <div class="play-main">
      <MainField
        class="prompt"
        label="Text to tokenize"
        value={said}
        onText={Type}
      />
      <Failure message={failure} />
      {found && (
        <section class="panel stack">
          <Facts
            class="figures"
            rows={[
              ["tokens", Whole(ids.length)],
              ["distinct", Whole(new Set(ids).size)],
              ["bytes", Whole(found.bytes)],
              ["characters a token", Digits(found.characters / ids.length, 3)],
            ]}
          />
          <div class="strip" aria-hidden="true">
            {shown.map((id, i) => (
              <span key={i} class="chip" title={`${id} · ${Hex(TokenBytes(id))}`}>
                {TokenLabel(id)}
              </span>
            ))}
          </div>
          <Table
            scroll="Tokens"
            columns={[
              ["Place", "number"],
              ["Token"],
              ["Id", "number"],
              ["Bytes"],
              ["At byte", "number"],
            ]}
            rows={shown.map((id, i) => [
              <span class="faint">{i}</span>,
              <Chip id={id} />,
              id,
              <span class="mono soft">{Hex(TokenBytes(id))}</span>,
              <span class="faint">{found.spans[i]?.[0]}</span>,
            ])}
          />
          {ids.length > kMostRows && <p class="note">The first {kMostRows} are listed.</p>}
        </section>
      )}
      {found && found.pieces.length > 0 && <Merges pieces={found.pieces} />}
    </div>
  );
}

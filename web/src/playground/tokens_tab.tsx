import { useEffect, useState } from "preact/hooks";
import { IsAbort, MessageOf } from "../api/http";
import type { Tokenized } from "../api/types";
import { Digits, Whole } from "../format";
import { Failure } from "../parts/controls";
import { comebacks, PostToModel } from "../state/server";
import { text } from "../text";
import { Hex, TokenBytes, TokenLabel } from "../tokens";
import { Merges } from "./merges";
import { typed, typedText } from "./writing";

const kMostRows = 500;
const kTypingPause = 200; // milliseconds

export function TokensTab() {
  const words = text.tokens;
  const said = typedText.value;
  const [found, setFound] = useState<Tokenized | null>(null);
  const [failed, setFailed] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    const timer = setTimeout(() => {
      PostToModel<Tokenized>("api/tokenize", { text: said }, gone.signal)
        .then((made) => {
          setFound(made);
          setFailed("");
        })
        .catch((error: unknown) => !IsAbort(error) && setFailed(MessageOf(error)));
    }, kTypingPause);
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [said, comebacks.value]);
  return (
    <div class="play-main">
      <textarea
        class="prompt"
        aria-label={words.label}
        spellcheck={false}
        value={said}
        onInput={(event) => (typed.value = event.currentTarget.value)}
      />
      <Failure message={failed} />
      {found && (
        <section class="panel stack">
          <dl class="figures">
            <div>
              <dt>{words.count}</dt>
              <dd>{Whole(found.ids.length)}</dd>
            </div>
            <div>
              <dt>{words.distinct}</dt>
              <dd>{Whole(new Set(found.ids).size)}</dd>
            </div>
            <div>
              <dt>{words.bytes}</dt>
              <dd>{Whole(found.bytes)}</dd>
            </div>
            <div>
              <dt>{words.per_token}</dt>
              <dd>
                {found.ids.length > 0 ? Digits([...said].length / found.ids.length, 3) : "–"}
              </dd>
            </div>
          </dl>
          <div class="strip" aria-hidden="true">
            {found.ids.slice(0, kMostRows).map((id, i) => (
              <span key={i} class="chip" title={`${id} · ${Hex(TokenBytes(id))}`}>
                {TokenLabel(id)}
              </span>
            ))}
          </div>
          <div class="token-table" tabIndex={0} role="region" aria-label={words.strip}>
            <table>
              <thead>
                <tr>
                  <th class="number">{words.place}</th>
                  <th>{words.token}</th>
                  <th class="number">{words.id}</th>
                  <th>{words.of_bytes}</th>
                  <th class="number">{words.at}</th>
                </tr>
              </thead>
              <tbody>
                {found.ids.slice(0, kMostRows).map((id, i) => (
                  <tr key={i}>
                    <td class="number faint">{i}</td>
                    <td>
                      <span class="chip">{TokenLabel(id)}</span>
                    </td>
                    <td class="number">{id}</td>
                    <td class="mono soft">{Hex(TokenBytes(id))}</td>
                    <td class="number faint">{found.spans[i]?.[0] ?? ""}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {found.ids.length > kMostRows && <p class="note">{words.most(kMostRows)}</p>}
        </section>
      )}
      {found && found.pieces.length > 0 && <Merges pieces={found.pieces} />}
    </div>
  );
}

import { Get } from "../api/http";
import type { RunDetails, RunInfo, Series } from "../api/types";
import { Digits, Duration, Short, Whole } from "../format";
import { useLoaded } from "../state/load";
import { text } from "../text";
import { RunColour } from "./runs";

const words = text.training.compare;

interface Best {
  step: number;
  loss: number;
}

function BestOf({ x, min }: Series): Best | null {
  let best: Best | null = null;
  min.forEach((value, i) => {
    if (typeof value === "number" && (best === null || value < best.loss))
      best = { step: x[i] as number, loss: value };
  });
  return best;
}

// Shows what differs between the shown runs: results, and settings that are not the same in all.
export function CompareTab({ shown, details }: { shown: RunInfo[]; details: RunDetails[] }) {
  const best = useLoaded(
    shown.map(({ id, step }) => `${id}.${Math.floor(step / 100)}`).join(","),
    async (signal) =>
      new Map(
        await Promise.all(
          shown.map(async ({ id }) => {
            const { keys } = await Get<{ keys: Record<string, Series> }>(
              `api/runs/${encodeURIComponent(id)}/series?keys=val_loss&x=step&px=4000`,
              signal,
            );
            return [id, keys.val_loss ? BestOf(keys.val_loss) : null] as const;
          }),
        ),
      ),
  );
  const names = [...new Set(details.flatMap(({ config }) => Object.keys(config)))].sort();
  const differing = names.filter(
    (name) => new Set(details.map(({ config }) => config[name])).size > 1,
  );
  const rows: [string, (run: RunInfo) => string][] = [
    [words.state, ({ state }) => text.training.states[state] ?? state],
    [
      words.step,
      ({ step, max_steps }) => `${Whole(step)}${max_steps ? ` / ${Whole(max_steps)}` : ""}`,
    ],
    [words.loss, ({ loss }) => Digits(loss)],
    [words.val_loss, ({ val_loss }) => Digits(val_loss)],
    [
      words.best,
      ({ id }) => {
        const found = best.value?.get(id);
        return found ? `${Digits(found.loss)} @ ${Whole(found.step)}` : "–";
      },
    ],
    [words.tokens, ({ tokens }) => Short(tokens)],
    [words.time, ({ seconds }) => Duration(seconds)],
    [words.speed, ({ tokens_per_second }) => Short(tokens_per_second)],
  ];
  const head = (
    <thead>
      <tr>
        <th />
        {shown.map(({ id }) => (
          <th key={id} scope="col" class="number">
            <span class="key-entry">
              <i style={{ backgroundColor: RunColour(id) }} />
              {id}
            </span>
          </th>
        ))}
      </tr>
    </thead>
  );
  if (shown.length === 0) return <p class="empty">{text.training.pick_run}</p>;
  return (
    <div class="stack">
      <section class="panel wide-table">
        <h2>{words.results}</h2>
        <table>
          {head}
          <tbody>
            {rows.map(([name, of]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {shown.map((run) => (
                  <td key={run.id} class="number">
                    {of(run)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <section class="panel wide-table">
        <h2>{words.settings}</h2>
        {shown.length < 2 ? (
          <p class="note">{words.one_only}</p>
        ) : differing.length === 0 ? (
          <p class="note">{words.all_same}</p>
        ) : (
          <table>
            {head}
            <tbody>
              {differing.map((name) => (
                <tr key={name}>
                  <th scope="row" class="mono">
                    {name}
                  </th>
                  {shown.map(({ id }) => (
                    <td key={id} class="number mono">
                      {details.find((one) => one.id === id)?.config[name] ?? "–"}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
    </div>
  );
}

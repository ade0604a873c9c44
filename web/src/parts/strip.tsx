import { RampTile } from "../colour";
import { theme } from "../state/theme";
import { text } from "../text";
import { Hex, TokenBytes, TokenLabel } from "../tokens";

// Tokens as chips: a listbox with one tab stop. `strengths`, in [0,1] by place, colour them.
export function TokenStrip(props: {
  ids: number[];
  at: number | null;
  locked: boolean;
  strengths?: ArrayLike<number> | null;
  muted?: (place: number) => boolean;
  onHover?: (place: number | null) => void;
  onPick: (place: number) => void;
}) {
  const { ids, at, strengths } = props;
  const placeOf = (target: EventTarget | null) => {
    const place = (target as HTMLElement | null)?.closest<HTMLElement>("[data-i]")?.dataset.i;
    return place === undefined ? null : Number(place);
  };
  const keys = (event: KeyboardEvent) => {
    const here = placeOf(event.target) ?? at ?? 0;
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: ids.length - 1 }[
      event.key
    ];
    if (to === undefined || to < 0 || to >= ids.length) return;
    event.preventDefault();
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-i="${to}"]`)?.focus();
  };
  return (
    <div
      class="strip"
      role="listbox"
      aria-label={text.inspected.strip}
      aria-orientation="horizontal"
      onMouseOver={(event) => props.onHover?.(placeOf(event.target))}
      onMouseLeave={() => props.onHover?.(null)}
      onFocusIn={(event) => {
        const place = placeOf(event.target);
        if (place !== null) props.onPick(place);
      }}
      onClick={(event) => {
        const place = placeOf(event.target);
        if (place !== null) props.onPick(place);
      }}
      onKeyDown={keys}
    >
      {ids.map((id, i) => {
        const t = strengths?.[i] ?? 0;
        return (
          <span
            key={i}
            data-i={i}
            role="option"
            tabIndex={i === (at ?? 0) ? 0 : -1}
            aria-selected={i === at}
            class={`chip${i === at ? (props.locked ? " chosen" : " pointed") : ""}${props.muted?.(i) ? " muted" : ""}`}
            title={`${i} · ${text.token.id} ${id} · ${Hex(TokenBytes(id))}`}
            style={t > 0.004 ? RampTile(theme.value, t) : undefined}
          >
            {TokenLabel(id)}
          </span>
        );
      })}
    </div>
  );
}

import { useEffect, useRef } from "preact/hooks";
import { Diverging } from "../colour";
import { theme } from "../state/theme";
import { useWidth } from "./use_width";

const kSteps = 255;

// Numbers of both signs on a canvas, as wide as there is room: blue above 0, ochre below.
export function ValueMap(props: {
  label: string;
  values: ArrayLike<number>;
  rows: number;
  columns: number;
  most: number; // the size of a number that gets the full colour
  square?: boolean;
  onPoint?: (row: number, column: number) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(() => canvas.current?.parentElement);
  const { rows, columns } = props;
  const height = props.square ? width : Math.round(Math.min(Math.max(rows * 12, 40), 320));
  const seen = theme.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element || rows === 0 || columns === 0) return;
    element.width = columns;
    element.height = rows;
    const context = element.getContext("2d");
    if (!context) return;
    const image = context.createImageData(columns, rows);
    const colours = Array.from(
      { length: 2 * kSteps + 1 },
      (_, i) =>
        Diverging(seen, (i - kSteps) / kSteps)
          .match(/\d+/g)
          ?.map(Number) ?? [],
    );
    for (let i = 0; i < rows * columns; ++i) {
      const t = Math.min(Math.max((props.values[i] as number) / (props.most || 1), -1), 1) || 0;
      const [r = 0, g = 0, b = 0] = colours[Math.round(t * kSteps) + kSteps] as number[];
      image.data.set([r, g, b, 255], i * 4);
    }
    context.putImageData(image, 0, 0);
  }, [props.values, rows, columns, props.most, seen]);
  const point = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
    const column = Math.min(
      columns - 1,
      Math.floor(((event.clientX - box.left) / box.width) * columns),
    );
    props.onPoint?.(Math.max(row, 0), Math.max(column, 0));
  };
  return (
    <div class="value-map">
      <canvas
        ref={canvas}
        role="img"
        aria-label={props.label}
        onMouseMove={point}
        style={{ width: `${width}px`, height: `${height}px` }}
      />
    </div>
  );
}

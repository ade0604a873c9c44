import { DivergingPixels, RampPixels } from "../colour";
import { ArrowOf } from "../keys";
import { theme } from "../state/theme";
import { PixelImage, useDrawing, useWidth } from "./canvas";

export interface Cell {
  row: number;
  column: number;
}

const kLabelRoom = 84; // at most
const kLetter = 6.7; // pixels
const kTickRoom = 30;
const kMostCell = 40; // pixels
const kLeastUsed = 0.8; // of the room
const kLeastLabelled = 11; // pixels of a cell that its label needs
const kMostLetters = 11; // of a label
const kFont = "11px ui-monospace, 'SF Mono', 'Liberation Mono', 'DejaVu Sans Mono', monospace";

interface Geometry {
  margin: number;
  side: number; // of the square, in CSS pixels
  labelled: boolean;
}

function GeometryOf(width: number, labels: string[]): Geometry {
  const n = labels.length;
  const longest = labels.reduce((most, label) => Math.max(most, label.length), 2);
  const wanted = Math.min(kLabelRoom, Math.ceil(longest * kLetter) + 8);
  const labelled = (width - wanted) / n >= kLeastLabelled;
  const margin = labelled ? wanted : kTickRoom;
  const room = Math.max(width - margin, 40);
  // Whole pixels a cell, unless that wastes much of the room.
  const side = Math.min(Math.floor(room / n), kMostCell) * n;
  return { margin, side: side > kLeastUsed * room || n * kMostCell < room ? side : room, labelled };
}

// The strongest of the cells that share a pixel.
function Pooled(shades: Float32Array, n: number, side: number): Float32Array {
  const pooled = new Float32Array(side * side).fill(-1);
  for (let r = 0; r < n; ++r) {
    const row = Math.floor((r * side) / n) * side;
    for (let c = 0; c < n; ++c) {
      const at = row + Math.floor((c * side) / n);
      pooled[at] = Math.max(pooled[at] as number, shades[r * n + c] as number);
    }
  }
  return pooled;
}

function Hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const draw = tile.getContext("2d") as CanvasRenderingContext2D;
  draw.strokeStyle = colour;
  draw.lineWidth = 1;
  draw.beginPath();
  for (const at of [-4, 0, 4, 8, 12]) {
    draw.moveTo(at, 8);
    draw.lineTo(at + 8, 0);
  }
  draw.stroke();
  return context.createPattern(tile, "repeat") ?? colour;
}

function DrawLabels(
  context: CanvasRenderingContext2D,
  labels: string[],
  { margin, side, labelled }: Geometry,
  ink: (row: number, column: number) => string,
): void {
  const size = side / labels.length;
  const step = labelled ? 1 : ([10, 20, 50, 100, 200, 500].find((by) => by * size >= 28) ?? 1000);
  context.font = kFont;
  context.textBaseline = "middle";
  for (let i = 0; i < labels.length; i += step) {
    const whole = labelled ? (labels[i] as string) : String(i);
    const label = whole.length > kMostLetters ? `${whole.slice(0, kMostLetters - 1)}…` : whole;
    const middle = margin + (i + 0.5) * size;
    context.textAlign = "right";
    context.fillStyle = ink(i, -1);
    context.fillText(label, margin - 5, middle);
    context.save();
    context.translate(middle, margin - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillStyle = ink(-1, i);
    context.fillText(label, 0, 0);
    context.restore();
  }
}

// A square of shades in [0,1] on a canvas; below 0 is hatched: there is nothing. Where it has more
// cells than pixels, a pixel shows the strongest of its cells.
export function HeatMap(props: {
  label: string;
  kind: string; // what it is, for screen readers
  labels: string[];
  shades: Float32Array;
  cell: Cell;
  locked: boolean;
  onPoint: (cell: Cell | null) => void;
  onPick: (cell: Cell) => void;
}) {
  const n = props.labels.length;
  const [holder, width] = useWidth<HTMLDivElement>();
  const at = GeometryOf(Math.max(width, 160), props.labels);
  const { margin, side } = at;
  const size = side / n;
  const whole = width > 0 ? margin + side + 1 : 0;
  const { row, column } = props.cell;
  const canvas = useDrawing(
    { width: whole, height: whole },
    (context, css) => {
      context.fillStyle = Hatch(context, css("--line"));
      context.fillRect(margin, margin, side, side);
      const across = Math.min(n, Math.floor(side * (devicePixelRatio || 1)));
      const ramp = RampPixels(theme.value);
      const pixels = Uint32Array.from(
        across < n ? Pooled(props.shades, n, across) : props.shades,
        (shade) => (shade < 0 ? 0 : (ramp[Math.round(Math.min(shade, 1) * 255)] as number)),
      );
      context.imageSmoothingEnabled = false;
      context.drawImage(PixelImage(pixels, across), margin, margin, side, side);
      context.strokeStyle = css("--line");
      context.strokeRect(margin - 0.5, margin - 0.5, side + 1, side + 1);
      DrawLabels(context, props.labels, at, (r, c) =>
        css(r === row || c === column ? "--ink" : "--faint"),
      );
      const [x, y] = [margin + column * size, margin + row * size];
      context.strokeStyle = css("--accent");
      context.globalAlpha = 0.45;
      context.strokeRect(margin - 0.5, y - 0.5, side + 1, size + 1);
      context.strokeRect(x - 0.5, margin - 0.5, size + 1, side + 1);
      context.globalAlpha = 1;
      context.lineWidth = props.locked ? 2 : 1.5;
      context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
    },
    [props.shades, props.labels, row, column, props.locked],
  );
  const cellOf = (event: MouseEvent): Cell | null => {
    const [c = 0, r = 0] = [event.offsetX, event.offsetY].map((x) =>
      Math.floor((x - margin) / size),
    );
    return r >= 0 && c >= 0 && r < n && c < n ? { row: r, column: c } : null;
  };
  const keys = (event: KeyboardEvent) => {
    const by = ArrowOf(event);
    const clamp = (i: number) => Math.min(Math.max(i, 0), n - 1);
    if (by) props.onPick({ row: clamp(row + by[0]), column: clamp(column + by[1]) });
  };
  return (
    <div ref={holder} class="heat-map">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-roledescription={props.kind}
        aria-label={props.label}
        data-margin={margin}
        data-side={side}
        onMouseMove={(event) => props.onPoint(cellOf(event))}
        onMouseLeave={() => props.onPoint(null)}
        onClick={(event) => {
          const cell = cellOf(event);
          if (cell) props.onPick(cell);
        }}
        onKeyDown={keys}
      />
    </div>
  );
}

// Numbers of both signs on a canvas, as wide as there is room: blue above 0, ochre below.
export function ValueMap(props: {
  label: string;
  values: ArrayLike<number>;
  rows: number;
  columns: number;
  most: number; // the size of a number that gets the full colour
  square?: boolean;
  onPoint: (row: number, column: number) => void;
}) {
  const { rows, columns } = props;
  const [holder, width] = useWidth<HTMLDivElement>();
  const height = props.square ? width : Math.round(Math.min(Math.max(rows * 12, 40), 320));
  const canvas = useDrawing(
    { width, height },
    (context) => {
      const colours = DivergingPixels(theme.value);
      const pixels = Uint32Array.from(props.values, (value) => {
        const t = Math.min(Math.max(value / (props.most || 1), -1), 1) || 0;
        return colours[Math.round((t + 1) * 255)] as number;
      });
      context.imageSmoothingEnabled = false;
      context.drawImage(PixelImage(pixels, columns), 0, 0, width, height);
    },
    [props.values, rows, columns, props.most],
  );
  const point = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const cell = (x: number, count: number) =>
      Math.max(Math.min(count - 1, Math.floor(x * count)), 0);
    props.onPoint(
      cell((event.clientY - box.top) / box.height, rows),
      cell((event.clientX - box.left) / box.width, columns),
    );
  };
  return (
    <div ref={holder} class="value-map">
      <canvas ref={canvas} role="img" aria-label={props.label} onMouseMove={point} />
    </div>
  );
}

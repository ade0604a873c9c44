import { useEffect, useRef } from "preact/hooks";
import { RampPixels } from "../colour";
import { theme } from "../state/theme";
import { useWidth } from "./use_width";

// A square of shades in [0,1] on a canvas; below 0 is hatched: there is nothing. Where it has more
// cells than pixels, a pixel shows the strongest of its cells.
export interface Cell {
  row: number;
  column: number;
}

const kArrows: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};
const kLabelRoom = 84; // at most
const kLetter = 6.7; // pixels
const kTickRoom = 30;
const kMostCell = 40; // pixels
const kLeastUsed = 0.8; // of the room
const kLeastLabelled = 11; // pixels of a cell that its label needs
const kFont = "11px ui-monospace, 'SF Mono', 'Liberation Mono', 'DejaVu Sans Mono', monospace";

export interface Geometry {
  margin: number;
  side: number; // of the square, in CSS pixels
  labelled: boolean;
}

export function GeometryOf(width: number, labels: string[]): Geometry {
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

function Pooled(shades: Float32Array, n: number, side: number): Float32Array {
  const pooled = new Float32Array(side * side).fill(-1);
  for (let r = 0; r < n; ++r) {
    const row = Math.floor((r * side) / n) * side;
    for (let c = 0; c < n; ++c) {
      const at = row + Math.floor((c * side) / n);
      const shade = shades[r * n + c] as number;
      if (shade > (pooled[at] as number)) pooled[at] = shade;
    }
  }
  return pooled;
}

function Hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const draw = tile.getContext("2d");
  if (!draw) return null;
  draw.strokeStyle = colour;
  draw.lineWidth = 1;
  draw.beginPath();
  for (const at of [-4, 0, 4, 8, 12]) {
    draw.moveTo(at, 8);
    draw.lineTo(at + 8, 0);
  }
  draw.stroke();
  return context.createPattern(tile, "repeat");
}

function DrawCells(
  context: CanvasRenderingContext2D,
  shades: Float32Array,
  n: number,
  at: Geometry,
  scale: number,
): void {
  const side = Math.min(n, Math.floor(at.side * scale));
  const cells = side < n ? Pooled(shades, n, side) : shades;
  const image = new ImageData(side, side);
  const pixels = new Uint32Array(image.data.buffer);
  const ramp = RampPixels(theme.value);
  for (let i = 0; i < cells.length; ++i) {
    const shade = cells[i] as number;
    if (shade >= 0) pixels[i] = ramp[Math.round(Math.min(shade, 1) * 255)] as number;
  }
  const buffer = document.createElement("canvas");
  buffer.width = buffer.height = side;
  buffer.getContext("2d")?.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(buffer, at.margin, at.margin, at.side, at.side);
}

function DrawLabels(
  context: CanvasRenderingContext2D,
  labels: string[],
  at: Geometry,
  cell: Cell | null,
  ink: string,
  faint: string,
): void {
  const n = labels.length;
  const size = at.side / n;
  context.font = kFont;
  context.textBaseline = "middle";
  const fit = (label: string) => (label.length > 11 ? `${label.slice(0, 10)}…` : label);
  const step = at.labelled
    ? 1
    : ([10, 20, 50, 100, 200, 500].find((by) => by * size >= 28) ?? 1000);
  for (let i = 0; i < n; ++i) {
    const pointed = cell !== null && (i === cell.row || i === cell.column);
    if (i % step !== 0) continue;
    const label = at.labelled ? fit(labels[i] as string) : String(i);
    const middle = at.margin + (i + 0.5) * size;
    context.textAlign = "right";
    context.fillStyle = pointed && cell?.row === i ? ink : faint;
    context.fillText(label, at.margin - 5, middle);
    context.save();
    context.translate(middle, at.margin - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillStyle = pointed && cell?.column === i ? ink : faint;
    context.fillText(label, 0, 0);
    context.restore();
  }
}

export function HeatMap(props: {
  label: string;
  kind: string; // what it is, for screen readers
  labels: string[];
  shades: Float32Array;
  cell: Cell | null;
  locked: boolean;
  onPoint: (cell: Cell | null) => void;
  onPick: (cell: Cell) => void;
}) {
  const n = props.labels.length;
  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(() => holder.current);
  const at = GeometryOf(Math.max(width, 160), props.labels);
  const whole = at.margin + at.side + 1;
  const seen = theme.value;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || width === 0) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(whole * scale);
    element.height = Math.round(whole * scale);
    element.style.width = element.style.height = `${whole}px`;
    context.scale(scale, scale);
    const style = getComputedStyle(element);
    const [ink, faint, line, accent] = ["--ink", "--faint", "--line", "--accent"].map((name) =>
      style.getPropertyValue(name),
    ) as [string, string, string, string];
    context.clearRect(0, 0, whole, whole);
    context.fillStyle = Hatch(context, line) ?? line;
    context.fillRect(at.margin, at.margin, at.side, at.side);
    DrawCells(context, props.shades, n, at, scale);
    context.strokeStyle = line;
    context.strokeRect(at.margin - 0.5, at.margin - 0.5, at.side + 1, at.side + 1);
    DrawLabels(context, props.labels, at, props.cell, ink, faint);
    if (props.cell) {
      const size = at.side / n;
      const [x, y] = [at.margin + props.cell.column * size, at.margin + props.cell.row * size];
      context.strokeStyle = accent;
      context.globalAlpha = 0.45;
      context.strokeRect(at.margin - 0.5, y - 0.5, at.side + 1, size + 1);
      context.strokeRect(x - 0.5, at.margin - 0.5, size + 1, at.side + 1);
      context.globalAlpha = 1;
      context.lineWidth = props.locked ? 2 : 1.5;
      context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
    }
  }, [props.shades, props.labels, props.cell?.row, props.cell?.column, props.locked, width, seen]);
  const cellOf = (event: MouseEvent): Cell | null => {
    const size = at.side / n;
    const [column, row] = [
      Math.floor((event.offsetX - at.margin) / size),
      Math.floor((event.offsetY - at.margin) / size),
    ];
    return row >= 0 && column >= 0 && row < n && column < n ? { row, column } : null;
  };
  const keys = (event: KeyboardEvent) => {
    const by = kArrows[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const { row, column } = props.cell ?? { row: 0, column: 0 };
    const clamp = (i: number) => Math.min(Math.max(i, 0), n - 1);
    props.onPick({ row: clamp(row + by[0]), column: clamp(column + by[1]) });
  };
  return (
    <div ref={holder} class="heat-map">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-roledescription={props.kind}
        aria-label={props.label}
        data-margin={at.margin}
        data-side={at.side}
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

// Names beside the points of a scatter, where there is room.

export interface Placed {
  id: number;
  x: number; // the left end of the name, in pixels
  y: number; // its middle
}

const kCell = 2; // pixels
const kGap = 3; // pixels between a point and its name
const kHeight = 12; // pixels of a name

// Returns the points (x, y) by id, each a disc of `radius`, whose names, `widthOf` pixels wide, stand
// on the canvas without touching a name or a point; who comes first in `order` is served first.
export function LabelsThatFit(
  spots: Float32Array,
  radius: number,
  size: { width: number; height: number },
  order: Iterable<number>,
  widthOf: (id: number) => number,
): Placed[] {
  const columns = Math.ceil(size.width / kCell);
  const taken = new Uint8Array(columns * Math.ceil(size.height / kCell));
  // Returns whether all cells of a box are free; with `take` they are taken.
  const visit = (x0: number, y0: number, x1: number, y1: number, take: boolean): boolean => {
    for (let row = Math.floor(y0 / kCell); row <= Math.floor(y1 / kCell); ++row) {
      for (let at = Math.floor(x0 / kCell); at <= Math.floor(x1 / kCell); ++at) {
        if (take) taken[row * columns + at] = 1;
        else if (taken[row * columns + at] === 1) return false;
      }
    }
    return true;
  };
  for (let id = 0; id * 2 < spots.length; ++id) {
    const [x, y] = [spots[id * 2] as number, spots[id * 2 + 1] as number];
    visit(x - radius, y - radius, x + radius, y + radius, true);
  }
  const placed: Placed[] = [];
  for (const id of order) {
    const [x, y, width] = [spots[id * 2] as number, spots[id * 2 + 1] as number, widthOf(id)];
    for (const left of [x + radius + kGap, x - radius - kGap - width]) {
      const [top, bottom] = [y - kHeight / 2, y + kHeight / 2];
      if (left < 0 || left + width >= size.width || top < 0 || bottom >= size.height) continue;
      if (!visit(left, top, left + width, bottom, false)) continue;
      visit(left, top, left + width, bottom, true);
      placed.push({ id, x: left, y });
      break;
    }
  }
  return placed;
}

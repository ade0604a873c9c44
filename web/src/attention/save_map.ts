import { RampCss } from "../colour";
import { EscapeXml, SaveCanvas, SaveFile } from "../save";
import { TokenLabel } from "../tokens";

const kMostMarks = 40000; // rectangles of an SVG

// The head's map as a figure with a mark for each cell that shows something, light in any theme.
export function MapSvg(ids: number[], shades: Float32Array, title: string): string {
  const n = ids.length;
  const [cell, room] = [n <= 64 ? 16 : n <= 256 ? 6 : 2, 96];
  const side = n * cell;
  const marks: string[] = [];
  for (let i = 0; i < shades.length; ++i) {
    const shade = shades[i] as number;
    if (shade <= 0.004) continue;
    marks.push(
      `<rect x="${room + (i % n) * cell}" y="${room + Math.floor(i / n) * cell}" width="${cell}" height="${cell}" ` +
        `fill="${RampCss("light", shade)}"/>`,
    );
  }
  const labels =
    cell < 12
      ? []
      : ids.flatMap((id, i) => {
          const said = EscapeXml(TokenLabel(id));
          const middle = room + (i + 0.5) * cell;
          return [
            `<text x="${room - 6}" y="${middle + 4}" text-anchor="end">${said}</text>`,
            `<text transform="translate(${middle + 4} ${room - 6}) rotate(-90)">${said}</text>`,
          ];
        });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${room + side + 8} ${room + side + 8}" font-family="monospace" font-size="11">` +
    `<title>${EscapeXml(title)}</title><rect width="100%" height="100%" fill="#fff"/>` +
    `<rect x="${room}" y="${room}" width="${side}" height="${side}" fill="none" stroke="#ccc"/>` +
    `<g class="cells">${marks.join("")}</g>${labels.join("")}</svg>`
  );
}

export function SaveMap(ids: number[], shades: Float32Array, title: string): void {
  const name = title.replace(/\W+/g, "-").toLowerCase();
  const marks = shades.reduce((count, shade) => count + (shade > 0.004 ? 1 : 0), 0);
  if (marks <= kMostMarks)
    return SaveFile(`${name}.svg`, [MapSvg(ids, shades, title)], "image/svg+xml");
  const canvas = document.querySelector<HTMLCanvasElement>(".heat-map canvas");
  if (canvas) SaveCanvas(`${name}.png`, canvas);
}

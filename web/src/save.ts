import { render, type VNode } from "preact";

// Files that the page makes, handed to the browser's downloads.
export function SaveFile(name: string, said: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([said], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function NameOf(title: string): string {
  return title.replace(/\W+/g, "-").toLowerCase();
}

export function SaveCanvas(title: string, canvas: HTMLCanvasElement): void {
  canvas.toBlob((blob) => blob && SaveFile(`${NameOf(title)}.png`, blob, blob.type));
}

// Saves a figure that is an <svg>.
export function SaveSvg(title: string, figure: VNode): void {
  const holder = document.createElement("div");
  render(figure, holder);
  const said = new XMLSerializer().serializeToString(holder.firstChild as Node);
  SaveFile(`${NameOf(title)}.svg`, said, "image/svg+xml");
}

// Rows of RFC 4180.
export function Csv(rows: (string | number | null | undefined)[][]): string {
  const cell = (value: string | number | null | undefined) => {
    const said = String(value ?? "");
    return /[",\r\n]/.test(said) ? `"${said.replace(/"/g, '""')}"` : said;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

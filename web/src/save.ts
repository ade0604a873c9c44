// Files that the page makes, handed to the browser's downloads.

export function SaveFile(name: string, parts: BlobPart[], type: string): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function SaveCanvas(name: string, canvas: HTMLCanvasElement): void {
  canvas.toBlob((blob) => blob && SaveFile(name, [blob], "image/png"));
}

// Rows of RFC 4180.
export function Csv(rows: (string | number | null | undefined)[][]): string {
  const cell = (value: string | number | null | undefined) => {
    const said = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(said) ? `"${said.replace(/"/g, '""')}"` : said;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function EscapeXml(said: string): string {
  return said.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

export async function CopyText(said: string): Promise<void> {
  await navigator.clipboard.writeText(said);
}

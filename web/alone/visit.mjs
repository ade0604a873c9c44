// What serves build/page, and what a visitor does there.
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";

const kPage = new URL("../../build/page", import.meta.url).pathname;
const kTypes = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};
const kIsolated = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

// Hands out files, and nothing else; with the headers that allow threads, or without.
export async function Files(threads) {
  const server = createServer(({ url }, answer) => {
    const name = url === "/" ? "index.html" : url.slice(1);
    if (!readdirSync(kPage).includes(name)) return answer.writeHead(404).end();
    answer.writeHead(200, { "Content-Type": kTypes[extname(name)], ...(threads && kIsolated) });
    answer.end(readFileSync(join(kPage, name)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return { url: `http://127.0.0.1:${server.address().port}` };
}

export const Ready = (page) => page.locator(".state", { hasText: "ready" }).waitFor();

// How many threads the page says that it computes on.
export async function Threads(page) {
  await Ready(page);
  return (await page.textContent("main > .note")).match(/ on (\S+) threads?\./)[1];
}

// Drops files on the page.
export async function Drop(page, paths) {
  await Ready(page);
  const given = paths.map((path) => [path.split("/").pop(), readFileSync(path, "base64")]);
  await page.evaluate((given) => {
    const transfer = new DataTransfer();
    for (const [name, base64] of given) {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      transfer.items.add(new File([bytes], name));
    }
    dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
  }, given);
}

export async function Slide(page, label, value) {
  await page.getByLabel(label, { exact: true }).fill(String(value));
}

// Trains a model of a size on a text, and waits until it is there.
export async function Train(page, text, size, steps) {
  await Drop(page, [text]);
  await page.locator("label:has-text('Size') select").selectOption(size);
  await Slide(page, "Steps", steps);
  await page.click("#train");
  await page.locator("#trained", { hasText: `${steps} steps` }).waitFor({ timeout: 300000 });
}

// What the page writes on from a text when it always takes the likeliest token.
export async function Written(page, prompt, tokens) {
  await page.getByRole("tab", { name: "Writing" }).click();
  await page.fill("#prompt", prompt);
  await Slide(page, "Temperature", 0);
  await Slide(page, "Tokens", tokens);
  await page.click("#write");
  await page.locator("#stop").waitFor({ state: "detached", timeout: 300000 });
  await Ready(page);
  return page.getAttribute("#written", "data-text");
}

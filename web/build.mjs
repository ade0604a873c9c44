// Bundles src/ into dist/: four files with stable names, gzipped so that equal sources give equal
// bytes. The C++ build embeds dist/*.gz and needs neither node nor this file.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const kMostBytes = 120 * 1024; // of all the files, gzipped
const root = new URL("./", import.meta.url);
const at = (path) => new URL(path, root).pathname;

const result = await build({
  entryPoints: { app: at("src/main.tsx") },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: at("dist"),
  absWorkingDir: at("."),
  write: false,
  logLevel: "warning",
});
const files = new Map(
  result.outputFiles.map((file) => [file.path.split("/").pop(), file.contents]),
);
for (const name of ["index.html", "icon.svg"]) files.set(name, await readFile(at(`src/${name}`)));

await mkdir(at("dist"), { recursive: true });
let total = 0;
for (const [name, bytes] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
  const packed = gzipSync(bytes, { level: 9 });
  packed.fill(0, 4, 8); // the time
  packed[9] = 0; // the operating system
  await writeFile(at(`dist/${name}`), bytes);
  await writeFile(at(`dist/${name}.gz`), packed);
  total += packed.length;
  console.log(`${name.padEnd(12)} ${String(packed.length).padStart(7)} bytes gzipped`);
}
console.log(`${"in all".padEnd(12)} ${String(total).padStart(7)} of at most ${kMostBytes}`);
if (total > kMostBytes) {
  console.error("error: the page has outgrown its budget");
  process.exit(1);
}

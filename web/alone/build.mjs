// Makes the page without a server of src/alone/ and of the module that CMake made:
//   node web/alone/build.mjs MODULE_DIRECTORY OUT
import { build } from "esbuild";
import { copyFile, mkdir, readdir, rm, stat } from "node:fs/promises";
import { resolve } from "node:path";

const kMostBytes = 3e6; // of all the files
const [module, out] = process.argv.slice(2);
const src = new URL("../src/", import.meta.url).pathname;
const shared = {
  bundle: true,
  minify: true,
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
};

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  ...shared,
  entryPoints: { page: `${src}alone/main.tsx` },
  format: "iife",
  outdir: out,
});
await build({
  ...shared,
  entryPoints: { worker: `${src}alone/worker.ts` },
  format: "esm",
  alias: { "folio.wasm": `${resolve(module)}/folio.js` },
  outdir: out,
});
for (const [from, name] of [
  [`${src}alone/`, "index.html"],
  [src, "icon.svg"],
  [`${module}/`, "folio.wasm"],
])
  await copyFile(`${from}${name}`, `${out}/${name}`);

let total = 0;
for (const name of await readdir(out)) {
  const { size } = await stat(`${out}/${name}`);
  total += size;
  console.log(`${name.padEnd(12)} ${String(size).padStart(8)} bytes`);
}
console.log(`${"in all".padEnd(12)} ${String(total).padStart(8)} of at most ${kMostBytes}`);
if (total > kMostBytes) {
  console.error("error: the page has outgrown its budget");
  process.exit(1);
}

// Makes the page without a server of src/alone/ and of the modules that CMake made, without threads and with them:
//   node web/alone/build.mjs DIRECTORY THREADS_DIRECTORY OUT
import { build } from "esbuild";
import { copyFile, mkdir, readdir, rm, stat } from "node:fs/promises";
import { resolve } from "node:path";

const kMostBytes = 3e6; // of the files that a visitor loads
const [one, many, out] = process.argv.slice(2);
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
  entryPoints: {
    worker: `${src}alone/worker.ts`,
    folio: `${resolve(one)}/folio.js`,
    threads: `${resolve(many)}/threads.js`,
  },
  format: "esm",
  outdir: out,
});
for (const [from, name] of [
  [`${src}alone/`, "index.html"],
  [src, "icon.svg"],
  [`${one}/`, "folio.wasm"],
  [`${many}/`, "threads.wasm"],
])
  await copyFile(`${from}${name}`, `${out}/${name}`);

const sizes = new Map();
for (const name of await readdir(out)) {
  const { size } = await stat(`${out}/${name}`);
  sizes.set(name, size);
  console.log(`${name.padEnd(12)} ${String(size).padStart(8)} bytes`);
}
for (const [said, other] of [
  ["one thread", /^threads\./],
  ["threads", /^folio\./],
]) {
  const loaded = [...sizes].filter(([name]) => !other.test(name));
  const total = loaded.reduce((sum, [, size]) => sum + size, 0);
  console.log(`${said.padEnd(12)} ${String(total).padStart(8)} of at most ${kMostBytes}`);
  if (total <= kMostBytes) continue;
  console.error("error: the page has outgrown its budget");
  process.exitCode = 1;
}

// What Emscripten makes of web/alone/CMakeLists.txt; web/alone/build.mjs knows where it lies.
declare module "folio.wasm" {
  export default function Load(): Promise<import("./folio").Wasm>;
}

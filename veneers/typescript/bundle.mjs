// Bundles the tests, samples and benches for Node, and the tests for a browser.
//
// `node bundle.mjs OUT FILE...` writes `build/OUT/FILE.mjs`; OUT is `node` or `browser`.

import { build } from "esbuild";

const [out, ...files] = process.argv.slice(2);
await build({
  entryPoints: files,
  bundle: true,
  outdir: `build/${out}`,
  outbase: ".",
  outExtension: { ".js": ".mjs" },
  format: "esm",
  target: "es2022",
  platform: out === "browser" ? "browser" : "node",
  conditions: out === "browser" ? ["browser"] : ["node"],
  loader: { ".jsonl": "text" },
  external: ["ws", "esbuild", "playwright-core"],
  alias: {
    "bifrost-veneer": out === "browser" ? "./src/browser.ts" : "./src/index.ts",
    "bifrost-veneer/explain": "./src/explain.ts",
    "bifrost-veneer/service": out === "browser" ? "./src/service/browser.ts" : "./src/service/index.ts",
  },
  logLevel: "warning",
  sourcemap: "inline",
});

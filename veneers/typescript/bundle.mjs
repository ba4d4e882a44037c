// Bundles the tests, samples and benches for Node, and the tests for a browser.
//
// `node bundle.mjs OUT FILE...` writes `build/OUT/FILE.mjs`; OUT is `node` or `browser`. For the OUT `examples` the
// files are the clients of the repository's examples: `build/examples/packages/typescript/packages-client.mjs`.

import { existsSync, readdirSync } from "node:fs";

import { build } from "esbuild";

const EXAMPLES = "../../examples";

/** Returns the clients of the examples. */
function clients() {
  const folders = readdirSync(EXAMPLES).map((name) => `${EXAMPLES}/${name}/typescript`);
  const files = folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((file) => `${folder}/${file}`));
  return files.filter((file) => !file.includes("/bifrost_stubs"));
}

const [out, ...named] = process.argv.slice(2);
const isExamples = out === "examples";
await build({
  entryPoints: isExamples ? clients() : named,
  bundle: true,
  outdir: `build/${out}`,
  outbase: isExamples ? EXAMPLES : ".",
  outExtension: { ".js": ".mjs" },
  format: "esm",
  target: "es2022",
  platform: out === "browser" ? "browser" : "node",
  conditions: out === "browser" ? ["browser"] : ["node"],
  loader: { ".jsonl": "text" },
  external: ["ws", "esbuild", "playwright-core"],
  alias: {
    "bifrost-veneer": out === "browser" ? "./src/browser.ts" : "./src/index.ts",
    "bifrost-veneer/numbers": out === "browser" ? "./src/browser_numbers.ts" : "./src/numbers.ts",
    "bifrost-veneer/dynamic": out === "browser" ? "./src/browser_dynamic.ts" : "./src/dynamic.ts",
    "bifrost-veneer/explain": "./src/explain.ts",
    "bifrost-veneer/service": out === "browser" ? "./src/service/browser.ts" : "./src/service/index.ts",
  },
  logLevel: "warning",
  sourcemap: "inline",
});

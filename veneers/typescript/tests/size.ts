// The sizes of bundles for browsers, minified and gzipped: `node build/node/tests/size.mjs`.

import { gzipSync } from "node:zlib";
import { build, type Plugin } from "esbuild";

/** The sizes of a page, in bytes. */
export interface Sizes {
  /** The runtime that the page loads with its own code. */
  readonly runtime: number;
  /** The page and its stubs, without the runtime. */
  readonly page: number;
  /** The whole runtime: all that the package exports to browsers, and all that is loaded later. */
  readonly all: number;
  /** The bytes of each module of the runtime before they are gzipped, the longest first. */
  readonly modules: readonly (readonly [module: string, bytes: number])[];
}

/** Leaves out what is loaded when it is needed, as bundlers put it into files of its own. */
const later: Plugin = {
  name: "later",
  setup: (build) => {
    build.onResolve({ filter: /./ }, ({ kind, path }) =>
      kind === "dynamic-import" ? { path, external: true } : undefined,
    );
  },
};

type Bundle = { readonly bytes: number; readonly modules: readonly (readonly [string, number])[] };

async function bundle(entry: string, folder: string, external: string[], plugins: Plugin[]): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: folder,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    external,
    alias: external.length > 0 ? {} : { "bifrost-veneer": "./src/browser.ts" },
    plugins,
    write: false,
    metafile: true,
  });
  const [output] = Object.values(metafile.outputs);
  const modules = Object.entries(output?.inputs ?? {}).map(([name, one]) => [name, one.bytesInOutput] as const);
  return { bytes: gzipSync(outputFiles[0]?.contents as Uint8Array, { level: 9 }).length, modules };
}

/** Measures a page of the folder of the package. */
export async function sizes(entry: string, folder: string): Promise<Sizes> {
  const whole = await bundle(entry, folder, [], [later]);
  const page = await bundle(entry, folder, ["bifrost-veneer"], [later]);
  const all = await bundle("src/browser.ts", folder, [], []);
  const modules = whole.modules.filter(([name, bytes]) => name.startsWith("src/") && bytes > 0);
  return {
    runtime: whole.bytes - page.bytes,
    page: page.bytes,
    all: all.bytes,
    modules: modules.sort((a, b) => b[1] - a[1]),
  };
}

// The samples print what they say, and the README shows the first one.

import { equal, ok } from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { ROOT, Server } from "./server.js";

const HERE = join(ROOT, "veneers/typescript");

for (const name of ["auctions", "database", "lists", "points", "scores"]) {
  test(`the sample ${name} prints what it says`, async () => {
    await using server = await Server.serve(`examples/${name}/${name}.theta`);
    const sample = join(HERE, `build/node/samples/${name}/main.mjs`);
    const env = { ...process.env, BIFROST_URL: server.urls[0] };
    const { stdout } = await promisify(execFile)(process.execPath, [sample], { env });
    equal(stdout, readFileSync(join(HERE, `samples/${name}/expected.txt`), "utf8"));
  });
}

test("the README shows the first sample and its output", () => {
  const readme = readFileSync(join(HERE, "README.md"), "utf8");
  const sample = readFileSync(join(HERE, "samples/database/main.ts"), "utf8");
  const output = readFileSync(join(HERE, "samples/database/expected.txt"), "utf8");
  ok(readme.includes("```ts\n" + sample.slice(sample.indexOf("import")) + "```"), "its client");
  ok(readme.includes("```text\n" + output + "```"), "its output");
});

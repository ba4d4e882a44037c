// L5 of the cases in `cases/generated/`: with a flush after each step, claims have the results that they
// have in batches. Cases about batches themselves are left out, as in Rust (`crates/cases/src/lib.rs`).

import { deepEqual, ok } from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Greeting } from "../src/recorder/greeting.js";
import type { Stubs } from "../src/recorder/numbers.js";
import * as t from "../src/tables.js";
import type { Json } from "./commands.js";
import type { Fields } from "./encode.js";
import { Exchange } from "./exchange.js";
import { Client, Machine } from "./script.js";
import { ROOT, Server } from "./server.js";

const OF_BATCHES = "overlap rows transaction closed leave limits misuse unseen counters rounds".split(" ");

const folder = join(ROOT, "cases/generated");
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

/** Leaves out of a result what counts commands and batches. */
function plain(json: Json): Json {
  if (Array.isArray(json)) return json.map(plain);
  if (typeof json !== "object" || json === null) return json;
  const entries = Object.entries(json).filter(([name]) => !["number", "place", "rounds"].includes(name));
  return Object.fromEntries(entries.map(([name, one]) => [name, name === "handle" ? "object" : plain(one)]));
}

let count = 0;
for (const name of readdirSync(folder).filter((file) => !file.endsWith(".interface.json"))) {
  const one = JSON.parse(read(name)) as Fields;
  const covers = one["covers"] as string[];
  const steps = one["script"] as Fields[];
  if (covers.some((tag) => OF_BATCHES.includes(tag)) || one["sessions"] || steps.some((step) => step["loop"])) continue;
  count += 1;
  test(`evaluated: ${String(one["case"])}`, { timeout: 60_000 }, async () => {
    const settings = ((one["set"] ?? []) as string[]).flatMap((setting) => ["--set", setting]);
    await using server = await Server.serve(`cases/programs/${String(one["program"])}.theta`, ...settings);
    const client = new Client(read(`${String(one["interface"])}.interface.json`), "00".repeat(32));
    const stream = new Exchange(server.urls[0] as string);
    try {
      const limits = { remapFutures: t.REMAP_FUTURES, replyBytesMax: t.REPLY_BYTES_MAX };
      stream.exchange(new Greeting({ digest: "00".repeat(32) } as Stubs, "", "", limits).questions);
      const other = one["server_interface"];
      const script = other ? { ...one, server_interface: read(`${String(other)}.interface.json`) } : one;
      const found = new Machine(client, script, null).exchangedBy(stream.exchange).runEvaluated(steps);
      const claims = (results: [number, Json][]): Json =>
        results
          .filter(([step]) => ["claim", "read_rows"].some((name) => name in (steps[step - 1] as Fields)))
          .map(plain);
      const expected = claims(one["results"] as [number, Json][]);
      ok((expected as Json[]).length > 0 || !steps.some((step) => "claim" in step), "there are claims");
      deepEqual(claims(found), expected);
    } finally {
      await stream.end();
    }
  });
}

test("there are cases to be evaluated", () => {
  ok(count >= 20, `${count} cases`);
});

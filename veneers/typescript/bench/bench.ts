// What things cost, as JSON lines: `bench`, `case`, `peer`, `n`, `value` (the median), `min`, `max`, `unit`.
//
// `BIFROST_URL` is a server of the conformance program; without it one is started with `BIFROST_BIN`. Compare
// figures of one run only; `raw` is a ping-pong of as many bytes over the same kind of socket.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer, connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import * as bf from "bifrost-veneer";

import { Server } from "../tests/server.js";
import { connect, Probe } from "../tests/stubs/conformance/bifrost_stubs.js";

/** Runs a case in rounds, each timed as a whole; prints nanoseconds for each of its `n` steps. */
async function measure(
  name: string,
  n: number,
  rounds: number,
  peer: string,
  run: () => Promise<number>,
): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) times.push((1e6 * (await run())) / n);
  times.sort((a, b) => a - b);
  const [value, min, max] = [times[rounds >> 1], times[0], times[rounds - 1]].map((ns) => Math.round(ns ?? 0));
  console.log(JSON.stringify({ bench: "veneers", case: name, peer, n, value, min, max, unit: "ns" }));
}

const known = process.env["BIFROST_URL"];
const server = known === undefined ? await Server.serve("cases/programs/conformance.theta") : undefined;
const s = await connect(known ?? (server?.urls[0] as string));
const p = s.lookup("probe", Probe);
await p.resolve();

const N = 10_000;

// Recording alone: the stub and the command of a call with one integer.
await measure("record", N, 60, "typescript", async () => {
  let ms = 0;
  await s.batch(() => {
    const start = performance.now();
    for (let i = 0; i < N; i++) p.sameInt(i);
    ms = performance.now() - start;
  });
  return ms;
});

// From recording to the last result.
await measure("batch", N, 30, "typescript", async () => {
  const start = performance.now();
  const all: bf.Int[] = [];
  for (let i = 0; i < N; i++) all.push(p.sameInt(i));
  await all[N - 1];
  return performance.now() - start;
});

await measure("table", N, 15, "typescript", async () => {
  const start = performance.now();
  const rows = await bf.collect(p.pairs(N), [bf.Int, bf.Str], (n, text) => [n, text]);
  if (rows.length !== N) throw new Error("rows are missing");
  return performance.now() - start;
});

const PAIRS = 500;

await measure("pair", PAIRS, 15, "typescript", async () => {
  const start = performance.now();
  for (let i = 0; i < PAIRS; i++) await p.sameInt(i);
  return performance.now() - start;
});

const folder = mkdtempSync(join(tmpdir(), "bifrost-bench-"));
const echo = createServer((socket) => socket.on("data", (bytes: Buffer) => socket.write(bytes)));
await new Promise<void>((resolve) => echo.listen(join(folder, "raw"), resolve));
const socket = dial(join(folder, "raw"));
// The bytes of a call with one integer and its flush.
const ping = new Uint8Array(40);

await measure("pair", PAIRS, 15, "raw", async () => {
  const start = performance.now();
  for (let i = 0; i < PAIRS; i++) {
    await new Promise((resolve) => {
      socket.once("data", resolve);
      socket.write(ping);
    });
  }
  return performance.now() - start;
});

socket.destroy();
echo.close();
rmSync(folder, { recursive: true });
await s.close();
await server?.end();

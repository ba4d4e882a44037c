// The measured client of `bifrost bench veneers` in Node.
//
// It connects to `BIFROST_URL`, a server of the conformance program, and answers lines `CASE N` by the nanoseconds
// and the result of N steps (`bench/veneers/README.md`). Without `BIFROST_URL` a server is started with `BIFROST_BIN`.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer, connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import * as bf from "bifrost-veneer";

import { Server } from "../tests/server.js";
import { connect, Probe } from "../tests/stubs/conformance/bifrost_stubs.js";

const known = process.env["BIFROST_URL"];
const server = known === undefined ? await Server.serve("cases/programs/conformance.theta") : undefined;
const s = await connect(known ?? (server?.urls[0] as string));
const p = s.lookup("probe", Probe);
await p.resolve();

// A socket whose other end sends all bytes back.
const folder = mkdtempSync(join(tmpdir(), "bifrost-bench-"));
const echo = createServer((socket) => socket.on("data", (bytes: Buffer) => socket.write(bytes)));
await new Promise<void>((resolve) => echo.listen(join(folder, "raw"), resolve));
const socket = dial(join(folder, "raw"));
// The bytes of a call with one integer and its flush.
const ping = new Uint8Array(40);

/** Runs a case: its nanoseconds and its result. */
async function run(name: string, count: number): Promise<[nanoseconds: bigint, result: bigint]> {
  let result = 0n;
  const begin = process.hrtime.bigint();
  let end: bigint | undefined;
  switch (name) {
    case "record":
      // The stubs and the commands of calls: the recording alone.
      await s.batch(() => {
        for (let n = 0; n < count; n++) p.sameInt(n);
        end = process.hrtime.bigint();
      });
      result = BigInt((count * (count - 1)) / 2);
      break;
    case "batch": {
      // From recording to the last result.
      const all: bf.Int[] = [];
      for (let n = 0; n < count; n++) all.push(p.sameInt(n));
      await all[count - 1];
      end = process.hrtime.bigint();
      for (const promise of all) result += await promise;
      break;
    }
    case "null":
      for (let n = 0; n < count; n++, result++) await p.nothing();
      break;
    case "pair":
      for (let n = 0; n < count; n++) result += await p.sameInt(n);
      break;
    case "two":
      for (let n = 0; n < count; n++) result += await p.itself().sameInt(n);
      break;
    case "table": {
      const rows = await bf.collect(p.pairs(count), [bf.Int, bf.Str], (n, text) => [n, text]);
      for (const [number, text] of rows) result += number + BigInt(text.length);
      break;
    }
    case "raw":
      for (let n = 0; n < count; n++, result++) {
        await new Promise((resolve) => {
          socket.once("data", resolve);
          socket.write(ping);
        });
      }
      break;
    default:
      throw new Error(`no case ${name}`);
  }
  return [(end ?? process.hrtime.bigint()) - begin, result];
}

for await (const line of createInterface({ input: process.stdin })) {
  const [name, count] = line.split(" ");
  console.log((await run(name ?? "", Number(count))).join(" "));
}

socket.destroy();
echo.close();
rmSync(folder, { recursive: true });
await s.close();
await server?.end();

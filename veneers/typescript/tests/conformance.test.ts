// L3: the conformance program over each transport of Node.

import { test } from "node:test";

import { cases } from "./conformance.js";
import { Server } from "./server.js";
import { connect } from "./stubs/conformance/bifrost_stubs.js";

const PROGRAM = "cases/programs/conformance.theta";

const WAYS: readonly (readonly [name: string, index: number, args: readonly string[]])[] = [
  ["unix", 0, []],
  ["tcp", 1, ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]],
  ["tls", 1, ["--listen", "tls://127.0.0.1:0", "--anonymous-loopback"]],
  ["ws", 1, ["--listen", "ws://127.0.0.1:0", "--anonymous-loopback"]],
  ["wss", 1, ["--listen", "wss://127.0.0.1:0", "--anonymous-loopback"]],
];

for (const [way, index, args] of WAYS) {
  for (const one of cases) {
    test(`${way}: ${one.name}`, { timeout: 60_000 }, async () => {
      const settings = one.settings.flatMap((setting) => ["--set", setting]);
      await using server = await Server.serve(PROGRAM, ...args, ...settings);
      await one.run(() => connect(server.urls[index] as string));
    });
  }
}

// Stubs that were made with `--ints number`: ints are numbers wherever they come, or the claim fails.

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { test } from "node:test";

import * as bigints from "bifrost-veneer";
import * as bf from "bifrost-veneer/numbers";

import * as stubs from "./stubs/conformance/bifrost_stubs.js";
import { connect, NotFound, Odd, Probe } from "./stubs/numbers/bifrost_stubs.js";
import { Server } from "./server.js";

const PROGRAM = "cases/programs/conformance.theta";

test("ints are numbers in claims, cells, tables, contents and exceptions", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  const one: number = await p.sameInt(1);
  equal(one, 1);
  const results = [0, -1, 2 ** 31, -(2 ** 31), 2 ** 53 - 1, -(2 ** 53 - 1), -(2 ** 32)].map((n) => p.sameInt(n));
  deepEqual(await Promise.all(results), [0, -1, 2 ** 31, -(2 ** 31), 2 ** 53 - 1, -(2 ** 53 - 1), -(2 ** 32)]);
  // A bigint and a stub are arguments, too.
  equal(await p.sameInt(7n).add(p.sameInt(3n)), 10);
  const length: number = await p.sameString("four").concat("!").length();
  equal(length, 5);
  equal(await p.sameInt(12).unparse().length(), 2);
  equal(await p.sameReal(0.5).add(1).unparse().length(), 3);
  equal(
    await p
      .sameBytes(Uint8Array.of(1, 2, 3))
      .slice(1, 2)
      .length(),
    2,
  );
  equal(await p.sameBytes(Uint8Array.of(65)).text().length(), 1);
  const total = s.cell(bf.Int, 0);
  s.foreach(p.numbers(3), (i) => total.put(total.get().add(i)));
  s.foreach(s.value(bf.Int, 1).to(3), (i) => total.put(total.get().add(i)));
  equal(await total.get(), 12);
  const rows: [number, string][] = await bf.collect(p.pairs(2), [bf.Int, bf.Str], (n, text) => [n, text]);
  deepEqual(
    rows.map(([n]) => n),
    [1, 2],
  );
  const values = p.values();
  const twice: readonly number[] = await values.twice([1, 2]).get();
  deepEqual(twice, [2, 4]);
  equal(await values.total([1, 2n, p.sameInt(3)]), 6);
  const odd = await p.choose(5).catch((error: unknown) => error);
  ok(odd instanceof Odd);
  const [value]: readonly [number] = odd.values;
  equal(value, 5);
  const missing = await p
    .item("nobody")
    .name()
    .catch((error: unknown) => error);
  ok(missing instanceof NotFound);
  deepEqual(missing.values, ["nobody", 4]);
  await s.close();
});

test("an int beyond 2^53 fails its claim, and nothing else", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  const large = p.sameInt(2n ** 53n);
  const error = await large.catch((error: unknown) => error);
  ok(error instanceof RangeError);
  match(error.message, /^9007199254740992 is no safe integer: make the stubs with `--ints bigint`$/);
  for (const n of [-(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)]) await rejects(p.sameInt(n).claim(), RangeError);
  // It is there: calls can use it, and its digits can be claimed.
  equal(await large.unparse(), "9007199254740992");
  equal(await large.sub(1), 2 ** 53 - 1);
  const cell = s.cell(bf.Int, 2n ** 60n);
  await rejects(cell.get().claim(), RangeError);
  const table = bf.rows(s, bf.Int);
  table.push(large);
  await rejects(table.claim(), RangeError);
  await rejects(
    p
      .values()
      .twice([2n ** 52n])
      .get()
      .claim(),
    RangeError,
  );
  // An exception with such a value is a `SignalError`, whose value is a bigint.
  const odd = await p.choose(2n ** 61n + 3n).catch((error: unknown) => error);
  ok(odd instanceof bf.SignalError && !(odd instanceof Odd), String(odd));
  deepEqual([odd.signal, odd.values], ["odd", [2n ** 61n + 3n]]);
  equal(await p.sameInt(3), 3, "the session goes on");
  await s.close();
});

test("stubs with bigints and with numbers stand side by side", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, other] = [await connect(server.urls[0] as string), await stubs.connect(server.urls[0] as string)];
  equal(await s.lookup("probe", Probe).sameInt(1), 1);
  equal(await other.lookup("probe", stubs.Probe).sameInt(1), 1n);
  // The class of the type says what comes.
  equal(await s.cell(bigints.Int, 1).get(), 1n);
  await Promise.all([s.close(), other.close()]);
});

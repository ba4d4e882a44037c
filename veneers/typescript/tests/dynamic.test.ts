// Stubs at run time: they are those that `bifrost veneer` writes, and calls work with them.

import { deepEqual, equal, match, ok, rejects, throws } from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import * as bf from "bifrost-veneer";
import { connect, type DynamicObject, type DynamicResult } from "bifrost-veneer/dynamic";
import { explain } from "bifrost-veneer/explain";

import { parseInterface } from "../src/recorder/mapping.js";
import { makeStubs } from "../src/dynamic/stubs.js";
import * as auctions from "../samples/auctions/bifrost_stubs.js";
import * as conformance from "./stubs/conformance/bifrost_stubs.js";
import * as points from "../samples/points/bifrost_stubs.js";
import * as vectors from "./stubs/vectors/bifrost_stubs.js";
import { ROOT, Server } from "./server.js";

type Named = Readonly<Record<string, unknown>>;
type Class = {
  readonly prototype: object;
  readonly numbers?: unknown;
  readonly theta?: string;
  readonly signal?: string;
};

/** Returns the own methods and accessors of a class. */
const methodsOf = ({ prototype }: Class): string[] =>
  Object.getOwnPropertyNames(prototype).filter((name) => name !== "constructor");

for (const [name, module] of Object.entries({ auctions, conformance, points, vectors })) {
  test(`the stubs of ${name} are those that are generated`, async () => {
    const { INTERFACE } = module;
    const json = await INTERFACE.json();
    const made = makeStubs(parseInterface(json), json, INTERFACE.digest);
    for (const part of ["types", "routines", "basic", "builtin", "operators"] as const) {
      deepEqual(made[part], INTERFACE[part], part);
    }
    let count = 0;
    for (const [name, one] of Object.entries(module as Named)) {
      // Messages of actors are properties of their stubs.
      if (typeof one !== "function" || name === "connect" || name.endsWith("Send")) continue;
      const found = made.names[name] as (Class & { readonly theta?: string }) | undefined;
      ok(found, `there is no ${name}`);
      count += 1;
      const known = one as unknown as Class;
      if (known.numbers) {
        equal(found.theta, known.theta);
        deepEqual(found.numbers, known.numbers, name);
        deepEqual(methodsOf(found).sort(), methodsOf(known).sort(), name);
      } else if (known.signal) {
        equal(found.signal, known.signal);
        const [types, expected] = [found, known].map((one) => (one as unknown as bf.SignalType).types());
        const theta = (types?: readonly bf.Type[]): string[] => (types ?? []).map((type) => type.theta);
        deepEqual(theta(types), theta(expected), name);
      }
    }
    ok(count > 5, `${count} names`);
  });
}

test("objects are found without their types, and calls work", async () => {
  await using server = await Server.serve("cases/programs/conformance.theta");
  await using s = await connect(server.urls[0] as string);
  deepEqual((await s.list()).sort(), [
    ["counter", "Counter"],
    ["probe", "Probe"],
  ]);
  const p = await s.find("probe");
  equal(p.constructor.name, "Probe");
  const crossings = s.counters.crossings;
  equal(await p["sameInt"]?.(3), 3n);
  equal(await p["item"]?.("a")["name"]?.(), "a");
  equal(s.counters.crossings, crossings + 2);
  // Loops, cells, contents, values, exceptions.
  const total = s.cell(bf.Int, 0);
  s.foreach(p["numbers"]?.(3) as unknown as bf.Iter<[bf.Int]>, (i) => total.put(total.get().add(i)));
  equal(await total.get(), 6n);
  const values = p["values"]?.() as DynamicObject;
  deepEqual(await values["twice"]?.([1, 2])["get"]?.(), [2n, 4n]);
  const typed = await conformance.connect(server.urls[0] as string);
  const shape = await typed.lookup("probe", conformance.Probe).values().shape(0).get();
  await typed.close();
  deepEqual(await values["shape"]?.(0)["get"]?.(), shape);
  const NotFound = s.stubs["NotFound"] as new () => bf.SignalError;
  const nobody = p["item"]?.("nobody") as DynamicObject;
  const missing = await nobody["name"]?.().then(null, (error: unknown) => error);
  ok(missing instanceof NotFound);
  deepEqual(missing.values, ["nobody", 4n]);
  // Routines, and what they say of themselves.
  const newItem = s.stubs["newItem"] as ((s: bf.Session, name: string) => DynamicResult) & { theta: string };
  equal(await newItem(s, "fresh")["name"]?.(), "fresh");
  equal(newItem.theta, "new_item (name: string) returns (Item)");
  match(
    (p["item"] as unknown as { theta: string }).theta,
    /^The item called name; [^]*item \(name: string\) returns \(Item\)/,
  );
  // What does not fit.
  await rejects(s.find("nothing"), { error: "NoSuchName" });
  throws(() => p["sameInt"]?.(), /TypeError: same_int has 1 parameters, but got 0 arguments/);
  const explained = await explain(s);
  p["sameInt"]?.(1);
  match(explained.batch(), /\n@1 := h\d+\.same_int\(1\)\n$/);
});

test("the README's session without stubs", async () => {
  const readme = readFileSync(join(ROOT, "veneers/typescript/README.md"), "utf8");
  const code = /```js\nimport \{ connect \} from "bifrost-veneer\/dynamic";\n([^]*?)```/.exec(readme)?.[1];
  await using server = await Server.serve("examples/database/database.theta");
  const lines = (code ?? "")
    .replace("unix:///tmp/bifrost-first/db", server.urls[0] as string)
    .trim()
    .split("\n");
  equal(lines.length, 6);
  // Each line's value, as a REPL shows it.
  const shown = lines.map((line) => line.replace(/^(?!const)([^;]*);.*$/, "told.push($1);"));
  const told: unknown[] = [];
  // eslint-disable-next-line @typescript-eslint/no-implied-eval
  const run = new Function("connect", "told", `return (async () => { ${shown.join("\n")} await s.close(); })()`);
  await (run as (...values: unknown[]) => Promise<void>)(connect, told);
  const [names, visits, signal, theta] = told as [unknown, bigint, { signal: string }, string];
  deepEqual([names, visits, signal.signal], [[["database", "DataBase"]], 0n, "not_found"]);
  match(theta, /^The record of user; [^]*fetch \(user: string\) returns \(DataElem\) signals \(not_found\)$/);
});

test("actors without stubs are sent to", async () => {
  await using server = await Server.serve("examples/auctions/auctions.theta");
  await using s = await connect(server.urls[0] as string);
  const lamp = (await s.find("house"))["open"]?.("lamp", 10) as DynamicObject;
  (lamp as unknown as { send: Record<string, (n: number) => void> }).send["bid"]?.(70);
  equal(await lamp["price"]?.(), 70n);
});

test("a description that makes no sense", () => {
  throws(() => makeStubs(parseInterface('{"types": [], "routines": []}'), "", ""), SyntaxError);
  throws(() => parseInterface("[]"), SyntaxError);
  // Types that share parts: their names would have 2^64 words.
  const basic = ["null", "bool", "int", "real", "char", "string"].map((name) => ({ name, kind: name }));
  const shared = Array.from({ length: 64 }, (_, at) => {
    const type = basic.length + Math.min(at + 1, 63);
    return { name: `struct[${at}]`, kind: "struct", fields: ["a", "b"].map((name) => ({ name, type })) };
  });
  const { names } = makeStubs({ types: [...basic, ...shared], routines: [] }, "", "");
  const lengths = Object.keys(names).map((name) => name.length);
  ok(lengths.length >= 64 && Math.max(...lengths) < 100_000, `${Math.max(...lengths)} characters`);
});

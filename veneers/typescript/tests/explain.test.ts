// Explanations of batches, and advice: the same texts and expectations as those of Rust
// (`crates/veneer/tests/explain.rs`, `crates/wire/tests/text.rs`).

import { deepEqual, equal, match, ok, throws } from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import * as bf from "bifrost-veneer";
import { EXPLAINED_BYTES, explain } from "bifrost-veneer/explain";

import { costText, totalsText } from "../src/explain/costs.js";
import { Explainer, Names, quoted, realText } from "../src/explain/explainer.js";
import { type InterfaceJson } from "../src/recorder/mapping.js";
import { connect, DataBase, INTERFACE } from "../samples/database/bifrost_stubs.js";
import { unhex } from "./commands.js";
import { type Fields, flushed } from "./encode.js";
import { scripted } from "./scripted.js";
import { ROOT, Server } from "./server.js";

const read = (path: string): unknown => JSON.parse(readFileSync(join(ROOT, path), "utf8"));

test("all commands have the lines that they have in Rust", () => {
  type Row = { readonly commands?: string; readonly case?: string; readonly lines: string };
  const rows = read("vectors/explained.json") as Row[];
  ok(rows.length > 100, `${rows.length} explanations`);
  const vectors = new Names(read("vectors/interface.json") as InterfaceJson);
  for (const { commands, case: name, lines } of rows) {
    if (commands !== undefined) {
      equal(new Explainer(vectors, []).lines(unhex(commands)), lines);
      continue;
    }
    type Case = { interface: string; server_interface?: string; crossings: { sent: string[] }[] };
    const one = read(`cases/generated/${name}`) as Case;
    const file = `cases/generated/${one.server_interface ?? one.interface}.interface.json`;
    const bytes = unhex(one.crossings.flatMap(({ sent }) => sent).join(" "));
    equal(new Explainer(new Names(read(file) as InterfaceJson), []).lines(bytes), lines, name);
  }
});

test("values are written as the text form reads them", () => {
  const reals = [1, -0, 0.5, 1e16, 1e21, 1.5e-5, 0.0001, NaN, Infinity, -Infinity, 123456789012345680];
  deepEqual(reals.map(realText), [
    ...["1.0", "-0.0", "0.5", "1e16", "1e21", "1.5e-5", "0.0001", "NaN", "inf", "-inf"],
    "1.2345678901234568e17",
  ]);
  equal(quoted('a"b\n\\\u001b', '"'), '"a\\"b\\n\\\\\\u{1b}"');
  equal(quoted("'\u0085", "'"), "'\\'\\u{85}'");
});

test("costs in words", () => {
  const nothing = { nanoseconds: 49, calls: 0, fuel: 0, fetches: 0, objects: 0 };
  equal(costText(nothing), "0.0 us");
  const all = { nanoseconds: 60_950, calls: 1, fuel: 2, fetches: 3, objects: 4 };
  equal(costText(all), "61.0 us, 1 calls, fuel 2, 3 fetches, 4 objects");
  const totals = { nanoseconds: 84_249, fetches: 2, objects: 0, runs: 1 };
  equal(totalsText(totals), "84.2 us, 2 fetches");
  equal(totalsText({ ...totals, runs: 3, fetches: 0 }), "84.2 us, 3 runs");
});

test("costs stand behind the commands of the last batch", async () => {
  const cost = (nanoseconds: number, calls: number, fetches: number): Fields => ({
    ...{ nanoseconds, calls, fuel: calls, fetches },
    objects: 3 * fetches,
  });
  const profile = {
    ...{ nanoseconds: 84_200, fetches: 5, objects: 15, runs: 1 },
    entries: [
      { call: 1, ...cost(20_000, 0, 2) },
      { call: 3, ...cost(400, 1, 0) },
      { call: 4, structure: true, ...cost(61_040, 40, 3) },
    ],
    rest: { omitted: 1, ...cost(350, 1, 0) },
  };
  const s = await scripted(INTERFACE, [
    flushed([{ handle: 5 }, { handle: 6 }, { int: "42" }], [], 0, 42, 42, profile),
    flushed([]),
  ]);
  const explained = await explain(s);
  explained.profile();
  explained.profile();
  const db = s.lookup("database", DataBase);
  const total = s.cell(bf.Int, 0);
  s.foreach(db.users(), (e) => {
    throws(() => explained.profile(false), bf.MisuseError);
    total.put(total.get().add(e.visits()));
  });
  equal(await total.get(), 42n);
  const expected = `profile on
@1 := lookup database: DataBase  # 20.0 us, 2 fetches, 6 objects
@2 := cell int
@3 := @2.put(0)  # 0.4 us, 1 calls, fuel 1
foreach $x4 in @1.users() do  # 61.0 us, 40 calls, fuel 40, 3 fetches, 9 objects
  @5 := @2.get()
  @6 := $x4.visits()
  @7 := @5.add(@6)
  @8 := @2.put(@7)
end
@9 := @2.get()
flush # wants @1 to @2, @9
# 1 more: 0.4 us, 1 calls, fuel 1
`;
  const last = explained.last() ?? "";
  match(
    last,
    /^# batch 1: 12 commands, 42 calls run, fuel 42, at the server 84\.2 us, 5 fetches, 15 objects, answered/,
  );
  equal(last.slice(last.indexOf("\n") + 1), expected);
  deepEqual(explained.accounts[0]?.ran?.totals, { nanoseconds: 84_200, fetches: 5, objects: 15, runs: 1 });
  equal(explained.profileOfLast()?.entries.length, 3);
  // The wish ends, and the next answer has none.
  explained.profile(false);
  await s.flush();
  equal(explained.profileOfLast(), null);
  match(explained.last() ?? "", /fuel 0, answered [^\n]*\nprofile off\nflush\n$/);
  s[Symbol.dispose]();
});

/** A session whose calls have the places that the test says. */
async function watched(server: Server): Promise<[bf.Session, DataBase, (place: string) => void]> {
  const s = await connect(server.urls[0] as string);
  let here = "here";
  s.$placeOf = () => here;
  return [s, s.lookup("database", DataBase), (place) => (here = place)];
}

const PROGRAM = "examples/database/database.theta";

test("the batch so far is shown and nothing crosses", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  s.$placeOf = () => "here";
  const explained = await explain(s);
  equal(explained.batch(), "# batch 1: nothing is recorded\n");
  equal(explained.last(), undefined);
  const db = s.lookup("database", DataBase);
  const total = s.cell(bf.Int, 0);
  s.foreach(db.users(), (e) => {
    s.if(e.visits().gt(0), () => total.put(total.get().add(e.visits())));
  });
  const recorded = `@1 := lookup database: DataBase
@2 := cell int
@3 := @2.put(0)
foreach $x4 in @1.users() do
  @5 := $x4.visits()
  @6 := @5.gt(0)
  if
  then @6
    @7 := @2.get()
    @8 := $x4.visits()
    @9 := @7.add(@8)
    @10 := @2.put(@9)
  end
end
`;
  equal(explained.batch(), `# batch 1: 15 commands, not sent\n${recorded}`);
  const readme = readFileSync(join(ROOT, "veneers/typescript/README.md"), "utf8");
  ok(readme.includes(`\`\`\`text\n# batch 1: 15 commands, not sent\n${recorded}\`\`\``), "as the README shows");
  equal(s.counters.crossings, 0);
  equal(await total.get(), 0n);
  const last = explained.last() ?? "";
  match(
    last,
    /^# batch 1: 16 commands, \d+ calls run, fuel \d+, answered in [\d.]+ us; sent by the claim at here of `/,
  );
  const [head] = last.split("\n");
  ok(head?.endsWith("of `cell[int].get`, recorded at here"), head);
  ok(last.endsWith("\nflush # wants @1 to @2, @11\n"), last);
  equal(explained.batches().length, 1);
  equal(explained.accounts[0]?.commands, 16);
  // A claim whose place is not known has that of its call, and a flush its own.
  db.fetch("eve");
  await s.flush();
  match(explained.batches()[1] ?? "", /; sent by the call at here$/);
  await s.transaction(() => db.fetch("eve").visits());
  match(explained.batches()[2] ?? "", /; sent by the call at here$/);
  explained.end();
  await db.fetch("eve").visits();
  equal(explained.batches().length, 3);
  await s.close();
});

test("the server measures the batches of which it is asked", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const explained = await explain(s);
  const db = s.lookup("database", DataBase);
  await db.fetch("eve").visits();
  equal(explained.profileOfLast(), null);
  explained.profile();
  await db.fetch("eve").visits();
  const profile = explained.profileOfLast();
  ok(profile);
  const lines = (explained.last() ?? "").split("\n");
  match(lines[0] ?? "", /, at the server [\d.]+ us,/);
  match(lines[2] ?? "", /^@1 := h\d+\.fetch\("eve"\) {2}# [\d.]+ us, 1 calls, fuel 1/);
  match(lines[3] ?? "", /^@2 := @1\.visits\(\) {2}# [\d.]+ us, 1 calls, fuel 1/);
  deepEqual([profile.runs, profile.rest, profile.entries.map(({ calls }) => calls)], [1, null, [1, 1]]);
  const sum = profile.entries.reduce((sum, { nanoseconds }) => sum + nanoseconds, 0);
  ok(profile.nanoseconds >= sum && sum > 0, `${profile.nanoseconds} ns, ${sum} ns`);
  s.foreach(db.users(), () => {
    throws(() => explained.profile(false), bf.MisuseError);
  });
  explained.profile(false);
  await s.flush();
  equal(explained.profileOfLast(), null);
  await s.close();
  throws(() => explained.profile(), bf.ClosedError);
});

test("a long batch is shown from its begin and says what is missing", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, db] = await watched(server);
  const explained = await explain(s);
  // More than one piece is sent before the batch ends.
  for (let n = 0; n < 200; n++) db.newUser(`user ${n}`);
  const told = explained.batch().split("\n");
  equal(told.length, 203);
  equal(told[1], "@1 := lookup database: DataBase");
  equal(told[201], '@201 := @1.new_user("user 199")');
  const long = "x".repeat(2000);
  for (let n = 0; n < 50; n++) db.newUser(long + n);
  const all = explained.batch();
  match(all, /\n# \d+ more bytes, which are not kept\n$/);
  ok(all.length < EXPLAINED_BYTES + 2000);
  await s.flush();
  deepEqual(
    explained.advice().map(({ text }) => text),
    [
      "`DataBase.new_user` was recorded 250 times or more at here in one batch: a `foreach` or `while` is recorded " +
        "and sent once",
    ],
  );
  await s.close();
});

test("what was sent before it was watched is missing, and results have their names all the same", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, db] = await watched(server);
  for (let n = 0; n < 200; n++) db.newUser(`user ${n}`);
  const explained = await explain(s);
  const lines = explained.batch().split("\n");
  match(lines[1] ?? "", /^# \d+ bytes before, which were not watched$/);
  equal(lines.at(-2), '@201 := @1.new_user("user 199")');
  await s.flush();
  match(
    explained.last() ?? "",
    /\n# \d+ bytes before, [^]*\n@201 := @1\.new_user\("user 199"\)\nflush # wants @1 to @201\n$/,
  );
  await s.close();
});

test("claims that cross again and again are named", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, db, at] = await watched(server);
  const explained = await explain(s);
  const [a, b, c] = [db.fetch("ann"), db.fetch("bob"), db.fetch("eve")];
  at("one");
  await a.visits();
  at("two");
  await b.visits();
  const apart = explained.advice();
  equal(apart.length, 1);
  equal(
    apart[0]?.text,
    "the claims at one and two crossed one after the other, after 8 commands or fewer each: record " +
      "`DataElem.visits` before the first claim; if it needs the claimed value, pass it the promise",
  );
  at("three");
  for (let n = 0; n < 5; n++) await c.visits();
  const again = explained.advice();
  equal(
    again[0]?.text,
    "5 of the last 7 batches ended with the claim of `DataElem.visits` at three, after 8 commands or fewer: record " +
      "the calls of all rounds before the first claim, or have the server loop with `foreach`, `while` or a procedure " +
      "and bring the values back as rows of a table",
  );
  // A claim that is the end of much work, and a flush, are nothing to change.
  for (let n = 0; n < 40; n++) {
    for (let i = 0; i < 20; i++) db.fetch("eve").touch();
    await s.flush();
  }
  deepEqual(explained.advice(), []);
  equal(explained.accounts.length, 32);
  await s.close();
});

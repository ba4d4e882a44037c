// Sessions of Node: lost connections, tokens, keys, handles, transactions, live batches, deadlines.

import { deepEqual, equal, match, ok, rejects, throws } from "node:assert/strict";
import { getEventListeners } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";

import * as bf from "bifrost-veneer";

import { flushed } from "./encode.js";
import { scripted } from "./scripted.js";
import { ROOT, Server } from "./server.js";
import { sizes } from "./size.js";
import { connect as connectAuctions, House, TooLow } from "../samples/auctions/bifrost_stubs.js";
import * as vectors from "./stubs/vectors/bifrost_stubs.js";
import { connect, Counter, INTERFACE, Item, NotFound, Probe } from "./stubs/conformance/bifrost_stubs.js";

const PROGRAM = "cases/programs/conformance.theta";
const TCP = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];

async function soon<T>(promise: PromiseLike<T>): Promise<[T | Error, number]> {
  const start = performance.now();
  const outcome = await Promise.resolve(promise).catch((error: unknown) => error as Error);
  return [outcome, performance.now() - start];
}

/** Checks that a promise ends with this end of the session within a second. */
async function ends(promise: PromiseLike<unknown>, by: string): Promise<void> {
  const [error, ms] = await soon(promise);
  ok(error instanceof bf.ClosedError, String(error));
  equal(error.by, by);
  ok(ms < 1000, `${ms} ms`);
}

test("a procedure that is called like a function names its method", async () => {
  await using server = await Server.serve(PROGRAM);
  await using s = await connect(server.urls[0] as string);
  const next = bf.procedure(s, "next", [bf.Int], bf.Int, (n) => n.add(1));
  throws(() => (next as unknown as (n: number) => void)(10), /called with its method `call`/);
  equal(await next.call(10), 11n);
});

test("a server that is killed", async () => {
  const server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  equal(await p.sameInt(1), 1n);
  const waiting = p.endless().claim();
  await s
    .wait(0)
    .claim({ signal: AbortSignal.timeout(50) })
    .catch(() => undefined);
  const over = server.end();
  await ends(waiting, "connection");
  await over;
  await ends(p.sameInt(2), "connection");
  await ends(s.close(), "connection").catch(() => undefined);
  ok(s.isClosed);
});

test("a connection that is cut, and a server that says nothing", async () => {
  await using server = await Server.serve(PROGRAM, ...TCP);
  const { port } = new URL((server.urls[1] as string).replace("tcp:", "http:"));
  const { connect: dial } = await import("node:net");
  const sockets: Socket[] = [];
  let deaf = false;
  const proxy = createServer((from) => {
    const to = dial(Number(port), "127.0.0.1");
    sockets.push(from, to);
    from.on("error", () => undefined);
    to.on("error", () => undefined);
    from.on("data", (bytes: Buffer) => to.write(bytes));
    to.on("data", (bytes: Buffer) => deaf || from.write(bytes));
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = `tcp://127.0.0.1:${(proxy.address() as { port: number }).port}`;
  const s = await connect(address);
  const p = s.lookup("probe", Probe);
  equal(await p.sameInt(1), 1n);
  const waiting = p.sameInt(2).claim();
  for (const socket of sockets) socket.destroy();
  await ends(waiting, "connection");
  // An answer that does not come in time ends the session.
  const patient = await connect(address, { timeout: 200 });
  const q = patient.lookup("probe", Probe);
  equal(await q.sameInt(1), 1n);
  deaf = true;
  const [late] = await soon(q.sameInt(2));
  match(String(late), /has not answered within 200 ms/);
  const [never] = await soon(connect(address, { timeout: 200 }));
  match(String(never), /has not answered within 200 ms/);
  // A deadline of one claim ends nothing.
  deaf = false;
  const third = await connect(address);
  const r = third.lookup("probe", Probe);
  await r.resolve();
  deaf = true;
  const value = r.sameInt(3);
  await rejects(value.claim({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  ok(!third.isClosed);
  proxy.close();
  for (const socket of sockets) socket.destroy();
});

test("a time without end is long, and is let go", async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error): unknown => warnings.push(warning);
  process.on("warning", warn);
  const { signal } = new AbortController();
  const s = await scripted(INTERFACE, [flushed([{ int: "2" }])], { timeout: Infinity, signal });
  equal(getEventListeners(signal, "abort").length, 0);
  equal(await s.value(bf.Int, 1).add(1), 2n);
  s[Symbol.dispose]();
  process.off("warning", warn);
  deepEqual(warnings, []);
  const fired = AbortSignal.abort(new Error("given up"));
  await rejects(scripted(INTERFACE, [], { signal: fired }), /given up/);
  await rejects(scripted(INTERFACE, [], { timeout: 1 }), /has not answered within 1 ms/);
});

test("transactions and waits outside their bounds", async () => {
  const s = await scripted(INTERFACE, [flushed([{ bool: false }])]);
  const client = 1n << 127n;
  const wrong: bf.TransactionOptions[] = [
    ...[-1, 0.5, NaN, 65536].map((tries) => ({ tries })),
    ...[-1n, 1n << 128n].map((client) => ({ batch: { client, number: 1n } })),
    ...[-1n, 1n << 64n].map((number) => ({ batch: { client, number } })),
  ];
  for (const options of wrong)
    await rejects(
      s.transaction(() => undefined, options),
      RangeError,
    );
  equal(s.counters.crossings, 0);
  equal(await s.wait(NaN), false);
  s[Symbol.dispose]();
});

test("nobody is there, and addresses that are none", async () => {
  for (const address of ["unix:///nowhere/at/all", "tcp://127.0.0.1:1"]) {
    await ends(connect(address), "connection");
    await rejects(connect(address), bf.ConnectError);
  }
  for (const address of ["", "http://x", "tcp://x", "unix://x", "tcp://x:0", "ws://x#sha256-1", "shm:///x"]) {
    await rejects(connect(address), TypeError, address);
  }
  await rejects(connect("http://x"), /ws:\/\/, wss:\/\/ or trader:\/\/ was expected/);
  await rejects(connect("quic://x:1"), /has no QUIC; have the server listen at tls:\/\/ or ws:\/\//);
  await rejects(connect(`unix:///${"x".repeat(110)}`), /too long/);
});

test("a token is shown to a server that asks for it", async () => {
  await using server = await Server.serve(PROGRAM, "--listen", "tcp://127.0.0.1:0", "--token", "open sesame");
  const [unix, tcp] = server.urls as [string, string];
  await (await connect(unix)).close();
  for (const token of [undefined, "wrong"]) {
    const [error, ms] = await soon(connect(tcp, token === undefined ? {} : { token }));
    ok(error instanceof bf.ConnectError, String(error));
    deepEqual([error.name, error.by, error.error], ["ConnectError", "server", "BadToken"]);
    ok(ms < 1000);
  }
  const s = await connect(tcp, { token: "open sesame", name: "test" });
  equal(await s.lookup("probe", Probe).sameInt(1), 1n);
  await s.close();
});

test("keys and authorities of servers", async () => {
  await using server = await Server.serve(
    PROGRAM,
    "--listen",
    "tls://127.0.0.1:0",
    "--listen",
    "wss://127.0.0.1:0",
    "--anonymous-loopback",
  );
  const [, tls, wss] = server.urls as [string, string, string];
  match(tls, /#sha256-/);
  for (const address of [tls, wss]) {
    const s = await connect(address);
    equal(await s.lookup("probe", Probe).sameInt(1), 1n);
    await s.close();
    const other = address.replace(/#sha256-./, (pin) => pin.slice(0, -1) + (pin.endsWith("A") ? "B" : "A"));
    await rejects(connect(other), /has another key/);
    // It has signed its own certificate.
    await rejects(connect(address.replace(/#.*/, "")), bf.ConnectError);
  }
  await rejects(connect(tls, { authorities: "x" }), /contradict/);
});

test("another interface at the server", async () => {
  await using server = await Server.serve("examples/database/database.theta");
  const s = await vectors.connect(server.urls[0] as string);
  const db = s.lookup("database", vectors.DataBase);
  ok((await db.fetch("eve").visits()) >= 0n);
  const own = INTERFACE.digest;
  ok(own !== vectors.INTERFACE.digest);
  // Stubs of another module are refused.
  const [error] = await soon(s.lookup("database", Probe).sameInt(1));
  ok(error instanceof bf.MisuseError || error instanceof bf.MissingError, String(error));
  await s.close();
  // The conformance stubs find nothing of theirs here, but the greeting works.
  const other = await connect(server.urls[0] as string);
  const [missing] = await soon(other.lookup("database", Probe).sameInt(1));
  ok(missing instanceof bf.MissingError, String(missing));
  await other.close().catch(() => undefined);
});

test("a million dropped stubs leave nothing", { timeout: 240_000 }, async () => {
  await using server = await Server.serve(PROGRAM, "--set", "limits.handles_max=8");
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  await p.resolve();
  let before = 0;
  for (let batch = 0; batch < 200; batch++) {
    await s.batch(() => {
      for (let i = 0; i < 5000; i++) p.fresh();
    });
    if (batch === 40) before = process.memoryUsage().heapUsed;
  }
  const grown = (process.memoryUsage().heapUsed - before) / 1e6;
  ok(grown < 30, `${grown} MB`);
  equal(s.counters.calls >= 1_000_000, true);
  equal(s.$r.handles.size, 1);
  equal(s.exceptions().errors.length, 0);
  await s.close();
});

test("stubs that nobody has are given back", async () => {
  ok(globalThis.gc, "run with --expose-gc");
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  await p.resolve();
  for (let round = 0; round < 50 && (round < 5 || s.$r.frees.length === 0); round++) {
    for (let i = 0; i < 200; i++) p.fresh();
    await s.flush();
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  ok(s.$r.frees.length > 0, "handles are to be given back");
  const held = s.$r.handles.size;
  await p.sameInt(1);
  ok(s.$r.handles.size < held, "and are, with the next batch");
  await s.close();
});

test("batches overlap: requests use each other's results", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  const counter = p.counter();
  const work = async (n: number): Promise<bigint> => {
    const first = await p.sameInt(n);
    // `counter` may be under way here.
    const name = await counter.name();
    return first + BigInt(name.length);
  };
  deepEqual(await Promise.all([1, 2, 3].map(work)), [8n, 9n, 10n]);
  // Batches that are sent without waiting.
  const values: bf.Int[] = [];
  let last: bf.Int = p.sameInt(0);
  for (let i = 0; i < 40; i++) {
    s.sendBatch();
    last = last.add(1);
    values.push(last);
  }
  equal(await last, 40n);
  deepEqual((await Promise.all(values)).slice(0, 3), [1n, 2n, 3n]);
  await s.close();
});

test("a commit names unseen failures", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  p.counter().add(1);
  const lost = p.item("nobody");
  const error = await s.commit().then(
    () => null,
    (error: unknown) => error,
  );
  ok(error instanceof bf.UnseenError, String(error));
  ok(error.errors[0] instanceof NotFound);
  deepEqual(error.errors[0].values, ["nobody", 4n]);
  equal(await p.counter().value(), 0n, "the transaction is undone");
  // A failure that was told prevents nothing.
  p.counter().add(1);
  await rejects(p.item("nobody").name().claim(), NotFound);
  await s.commit();
  equal(await p.counter().value(), 1n);
  await rejects(lost.resolve(), NotFound);
  await s.close();
});

test("a batch is a transaction, and a named batch is done once", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, other] = [await connect(server.urls[0] as string), await connect(server.urls[0] as string)];
  const counters = [s, other].map((one) => one.lookup("counter", Counter)) as [Counter, Counter];
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) => {
      const session = [s, other][i % 2] as bf.Session;
      return session.transaction(() => (counters[i % 2] as Counter).add(1));
    }),
  );
  deepEqual(
    results.map(Number).sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
  const batch = { client: 0x1234_5678_9abc_def0_1234_5678_9abc_def0n, number: 1n };
  const once = (session: bf.Session, counter: Counter): Promise<bigint> =>
    session.transaction(() => counter.add(100), { batch, tries: 3 });
  equal(await once(s, counters[0]), 120n);
  equal(await once(other, counters[1]), 120n);
  // A failure aborts it, and a body that throws.
  const p = s.lookup("probe", Probe);
  const failed = await s
    .transaction(() => {
      p.counter().add(1);
      p.item("nobody");
    })
    .catch((error: unknown) => error);
  ok(failed instanceof bf.UnseenError, String(failed));
  await rejects(
    s.transaction(() => {
      p.counter().add(1);
      throw new RangeError("not a failure of the test");
    }),
    RangeError,
  );
  await rejects(
    s.transaction(() => {
      void p.sameInt(1).claim();
    }),
    bf.MisuseError,
  );
  equal(await counters[0].value(), 120n);
  deepEqual(
    await s
      .transaction(() => ({ a: p.sameInt(1), b: [p.sameString("x"), p.counter()] }))
      .then(({ a, b: [x] }) => [a, x]),
    [1n, "x"],
  );
  await Promise.all([s.close(), other.close()]);
});

test("a live batch shows each change", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, writer] = [await connect(server.urls[0] as string), await connect(server.urls[0] as string)];
  const [shown, counter] = [s.lookup("counter", Counter), writer.lookup("counter", Counter)];
  const seen: bigint[] = [];
  const write = async (): Promise<void> => {
    counter.add(1);
    await writer.commit();
  };
  for await (const [value, name] of s.live(() => [shown.value(), shown.name()] as const)) {
    equal(name, "counter");
    seen.push(value);
    if (value === 3n) break;
    await write();
  }
  deepEqual(seen, [0n, 1n, 2n, 3n]);
  equal(await shown.value(), 3n, "the session goes on");
  await Promise.all([s.close(), writer.close()]);
});

test("names of the root directory, and `using`", async () => {
  await using server = await Server.serve(PROGRAM);
  await using s = await connect(server.urls[0] as string);
  const root = bf.callOf(s, INTERFACE, INTERFACE.routines.indexOf("root"), bf.Directory);
  const names = await bf.collect(root.list(), [bf.Str, bf.Str], (name, type) => [name, type]);
  deepEqual(names.sort(), [
    ["counter", "Counter"],
    ["probe", "Probe"],
  ]);
  equal(await root.lookup("counter").as(Item).name(), "counter");
  await rejects(root.lookup("nothing").resolve(), NotFound);
  // The names of this server are not its clients' to change.
  const refused = await root.insert("again", s.lookup("counter", Counter)).catch((error: unknown) => error);
  ok(refused instanceof bf.RefusedError && refused.error === "NotAllowed", String(refused));
});

test("the runtime is as small as it says", async () => {
  const folder = join(ROOT, "veneers/typescript");
  const { runtime, all } = await sizes("tests/size/page.ts", folder);
  const readme = readFileSync(join(folder, "README.md"), "utf8");
  const said = [...readme.matchAll(/([\d.]+) kB/g)].map(([, kB]) => 1000 * Number(kB));
  equal(said.length, 2, "the README says two sizes");
  for (const [at, bytes] of [runtime, all].entries()) {
    const most = said[at] as number;
    ok(bytes <= most && bytes > most - 600, `${bytes} bytes, but the README says ${most}`);
  }
});

test("actors answer and are sent to", async () => {
  await using server = await Server.serve("examples/auctions/auctions.theta");
  await using s = await connectAuctions(server.urls[0] as string);
  const lamp = s.lookup("house", House).open("lamp", 10);
  const [first, second] = [lamp.bid(12), lamp.bid(20)];
  lamp.send.bid(70);
  const price = lamp.price();
  deepEqual([await first, await second, await price], [1n, 2n, 70n]);
  const low = await lamp.bid(11).catch((error: unknown) => error);
  ok(low instanceof TooLow);
  deepEqual(low.values, [70n]);
  // Nobody is told of a message that fails.
  lamp.send.bid(1);
  equal(await lamp.price(), 70n);
});

test("a session is left", async () => {
  await using server = await Server.serve(PROGRAM);
  const [s, other] = [await connect(server.urls[0] as string), await connect(server.urls[0] as string)];
  s.lookup("counter", Counter).add(7);
  void s.commit();
  s[Symbol.dispose]();
  ok(s.isClosed);
  await ends(s.lookup("probe", Probe).sameInt(1), "client");
  for await (const value of other.live(() => other.lookup("counter", Counter).value())) if (value === 7n) break;
  await other.close();
});

test("many results are mapped again", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string);
  const p = s.lookup("probe", Probe);
  const items = Array.from({ length: 16_400 }, () => p.fresh());
  equal(s.counters.crossings, 1);
  const names = items.map((item) => item.name());
  equal(s.counters.crossings, 2);
  for (const name of names) equal(await name, "fresh");
  equal(s.counters.crossings, 3);
  for (const item of items) item[Symbol.dispose]();
  await s.flush();
  equal(s.$r.handles.size, 1);
  equal(await p.sameInt(1), 1n);
  await s.close();
});

test("futures are mapped again live", async () => {
  await using server = await Server.serve(PROGRAM);
  const s = await connect(server.urls[0] as string, { remapFutures: 100 });
  const p = s.lookup("probe", Probe);
  let sum = p.sameInt(0);
  for (let i = 1; i <= 1000; i++) sum = sum.add(i);
  equal(await sum, 500_500n);
  ok(s.counters.crossings >= 10, `${s.counters.crossings} crossings`);
  await s.close();
});

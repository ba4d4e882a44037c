// Services that stay: a server is lost by `kill -9`, by a stop or in order, and another one goes on; a run that may
// not be repeated is not, named batches over one store run once, and new servers are used.

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectNet, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import type { Options } from "bifrost-veneer";
import { ImportError, LostError, RUNS_MAX, Service, serverOf } from "bifrost-veneer/service";

import { connect, DataBase, NotFound } from "../samples/database/bifrost_stubs.js";
import { program, ROOT, Server } from "./server.js";
import { Exporter, HOST, TCP, until, urlOf } from "./traders.js";

const PROGRAM = "examples/database/database.theta";

/** How often a server is killed by one test. */
const KILLS = Number(process.env["BIFROST_KILLS"] ?? 3);

/** The longest time until a service goes on with another server, in milliseconds. */
const BACK_MS = 5_000;

const serviceOf = (url: string, timeout: number, options: Options = {}): Service<DataBase> =>
  new Service(url, DataBase, { timeout, ...options });

const visitsOf = (service: Service<DataBase>, user: string): Promise<bigint> =>
  service.run((_, db) => db.fetch(user).visits());

/** A visit, by a named batch; the book shows it. */
async function count(service: Service<DataBase>, user: string): Promise<bigint> {
  return service.runNamed((_, db) => {
    const elem = db.fetch(user);
    elem.touch();
    return elem.visits();
  });
}

const addressOf = (service: Service<DataBase>): string => service.server?.address ?? "";

/** The error of a promise. */
async function errorOf(promise: PromiseLike<unknown>): Promise<Error> {
  const error = await promise.then(
    (value) => new Error(`it has the value ${String(value)}`),
    (error: unknown) => error,
  );
  ok(error instanceof Error, String(error));
  return error;
}

/** Kills a server, and waits without the event loop until its last thread has closed all sockets. */
function killNow({ pid }: Server): void {
  const { status } = spawnSync("kill", ["-KILL", String(pid)]);
  equal(status, 0);
  const isOver = (): boolean =>
    readFileSync(`/proc/${pid}/status`, "utf8").includes("State:\tZ") && readdirSync(`/proc/${pid}/task`).length <= 1;
  for (const start = performance.now(); !isOver();) ok(performance.now() - start < 20_000, "a server does not end");
}

test("only a run that did not begin is begun again", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using exporter = await Exporter.at(trader);
  const servers = await Promise.all([0, 1, 2, 3, 4].map(() => Server.serve(PROGRAM, ...TCP)));
  for (const server of servers) await exporter.database("database", [server.urls[1] as string]);
  await using service = serviceOf(urlOf(trader, "prefer=first"), 3_000);
  equal(await service.run((_, db) => db.newUser("zoe").visits()), 0n);
  const used = (): Server => servers.find((server) => server.urls[1] === addressOf(service)) as Server;

  // Lost between two runs, by a kill and in order: nothing was sent, and the body is called once.
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    const lost = used();
    await lost.die(signal);
    let calls = 0;
    const name = await service.run((_, db) => {
      calls += 1;
      return db.newUser("zoe").name();
    });
    deepEqual([name, calls], ["zoe", 1], signal);
    ok(addressOf(service) !== lost.urls[1]);
  }

  // The answer does not come: nobody knows, and a read is not run again either.
  const silent = used();
  await silent.stop();
  let calls = 0;
  const unanswered = await errorOf(
    service.run((_, db) => {
      calls += 1;
      return db.fetch("zoe").visits();
    }),
  );
  ok(unanswered instanceof LostError, String(unanswered));
  deepEqual([unanswered.ran, service.ran(unanswered), calls], ["unknown", "unknown", 1]);
  match(unanswered.message, /nobody knows if the run was done: .*has not answered within 3000 ms/);
  silent.kill("SIGCONT");

  // A part was answered.
  calls = 0;
  const begun = await errorOf(
    service.run(async (session, db) => {
      calls += 1;
      await db.newUser("una").visits();
      const { address } = serverOf(session) as { address: string };
      await servers.find((server) => server.urls[1] === address)?.die("SIGKILL");
      return db.fetch("una").visits();
    }),
  );
  ok(begun instanceof LostError, String(begun));
  deepEqual([begun.ran, calls], ["began", 1]);
  match(begun.message, /a part of the run was done/);

  // A failure of the body is no loss, and the next run does not commit what it has left.
  await service.run(async (session, db) => {
    db.newUser("ida");
    await session.commit();
  });
  const before = addressOf(service);
  const failed = await errorOf(
    service.run(async (_, db) => {
      db.fetch("ida").touch();
      await db.fetch("nobody").visits();
    }),
  );
  ok(failed instanceof NotFound, String(failed));
  equal(service.ran(failed), "began");
  const own = new Error("of the program");
  const thrown = service.run((_, db) => {
    db.fetch("ida").touch();
    throw own;
  });
  equal(await errorOf(thrown), own);
  deepEqual([addressOf(service), await visitsOf(service, "ida")], [before, 0n]);

  // Nobody is left: nothing has run.
  await Promise.all(servers.map((server) => server.end()));
  const none = await errorOf(visitsOf(service, "ida"));
  ok(none instanceof ImportError, String(none));
  deepEqual([none.failure, service.ran(none)], ["no_server", "no"]);
});

test("a server that is lost before a run has sent anything costs no run, over each transport", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using exporter = await Exporter.at(trader);
  const listen = ["tcp", "tls", "ws"].flatMap((scheme) => ["--listen", `${scheme}://127.0.0.1:0`]);
  const servers = await Promise.all([0, 1, 2].map(() => Server.serve(PROGRAM, ...listen, "--anonymous-loopback")));
  const schemes = ["unix", "tcp", "tls", "ws"];
  const export_ = async ({ urls }: Server): Promise<void> => {
    for (const [at, scheme] of schemes.entries()) {
      await exporter.database("database", [urls[at] as string], `scheme=${scheme}&host=${HOST}`);
    }
  };
  const [first, second, third] = servers as [Server, Server, Server];
  await export_(first);
  const services = schemes.map((scheme) => serviceOf(urlOf(trader, `scheme=${scheme}&prefer=first`), 5_000));
  for (const service of services) equal(await visitsOf(service, "eve"), 0n);
  await export_(second);
  // Between two runs; no event of the loss was taken when the runs begin.
  killNow(first);
  const runs = services.map(async (service, at) => {
    let calls = 0;
    const run = service.run((_, db) => {
      calls += 1;
      return db.fetch("eve").visits();
    });
    deepEqual([await run, calls], [0n, 1], schemes[at]);
    equal(addressOf(service), second.urls[at]);
  });
  await Promise.all(runs);
  await export_(third);
  // In a run: the body is called again.
  let begun = 0;
  const interrupted = services.map(async (service, at) => {
    let calls = 0;
    const run = service.run(async (session, db) => {
      calls += 1;
      begun += 1;
      if (calls === 1) await until("the end of the session", () => session.isClosed);
      return db.fetch("eve").visits();
    });
    deepEqual([await run, calls], [0n, 2], schemes[at]);
    equal(addressOf(service), third.urls[at]);
  });
  await until("all runs", () => begun === services.length);
  await second.die("SIGKILL");
  await Promise.all(interrupted);
  for (const service of services) await service.close();
  await Promise.all(servers.map((server) => server.end()));
});

test("named batches run once over kills of their servers and of a trader", async () => {
  const folder = await mkdtemp(join(tmpdir(), "bifrost-ts-"));
  const traders = [await Server.trader(), await Server.trader()] as const;
  const urls = traders.map((trader) => trader.urls[0] as string);
  const serve = (name: number): Promise<Server> => {
    const own = ["--listen", `unix://${folder}/${name}`, "--store", `${folder}/store`];
    const exported = ["--export", "database:DataBase", ...urls.flatMap((url) => ["--trader", url])];
    return Server.start(program, "serve", ...own, ...exported, join(ROOT, PROGRAM));
  };
  let server = await serve(0);
  const service = serviceOf("trader:///DataBase?prefer=random", 20_000, { traders: urls });
  let [acknowledged, over, longest] = [0n, false, 0];
  const work = async (): Promise<void> => {
    await service.runNamed((_, db) => db.newUser("zoe").visits());
    while (!over) {
      const start = performance.now();
      const visits = await count(service, "zoe");
      // A batch that is lost or done twice would be another number.
      equal(visits, acknowledged + 1n);
      acknowledged = visits;
      longest = Math.max(longest, performance.now() - start);
    }
  };
  const worker = work();
  const more = async (count: bigint): Promise<void> => {
    const from = acknowledged;
    await Promise.race([until(`${count} batches`, () => acknowledged >= from + count), worker]);
  };
  try {
    for (let kill = 1; kill <= KILLS; kill++) {
      await more(5n);
      await server.end();
      if (kill === 2) await traders[0].die("SIGKILL");
      server = await serve(kill);
    }
    await more(5n);
    over = true;
    await worker;
    const session = await connect(server.urls[0] as string);
    equal(await session.lookup("database", DataBase).fetch("zoe").visits(), acknowledged);
    await session.close();
  } finally {
    over = true;
    await worker.finally(() => service.close()).catch(() => undefined);
    await Promise.all([server, ...traders].map((one) => one.end()));
    await rm(folder, { recursive: true });
  }
  // The server has to start again, and a busy machine takes its time.
  ok(longest < 3 * BACK_MS, `a batch has taken ${longest} ms`);
});

test("a server that is stopped is left for another of its store", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using exporter = await Exporter.at(trader);
  const folder = await mkdtemp(join(tmpdir(), "bifrost-ts-"));
  const serve = (): Promise<Server> => Server.serve(PROGRAM, ...TCP, "--store", `${folder}/store`);
  const first = await serve();
  await exporter.database("database", [first.urls[1] as string], "number=1&store=twins");
  await using service = serviceOf(urlOf(trader, "prefer=min(number)"), 10_000);
  await service.runNamed((_, db) => db.newUser("zoe").visits());
  equal(await count(service, "zoe"), 1n);
  await first.stop();
  const visited = count(service, "zoe");
  const other = (async () => {
    // The store has one server at a time.
    await new Promise((resolve) => setTimeout(resolve, 500));
    await first.die("SIGKILL");
    const second = await serve();
    await exporter.database("database", [second.urls[1] as string], "number=2&store=twins");
    return second;
  })();
  const start = performance.now();
  equal(await visited, 2n);
  await using second = await other;
  ok(performance.now() - start < 10_000 + BACK_MS);
  equal(addressOf(service), second.urls[1]);
  // The name is the caller's: a batch that an earlier process has sent is not done again.
  const batch = { client: 7n, number: 1n };
  for (let time = 0; time < 2; time++) {
    await service.runTransaction(
      (_, db) => {
        db.fetch("zoe").touch();
      },
      { batch },
    );
  }
  equal(await visitsOf(service, "zoe"), 3n);
  await first.end();
  await rm(folder, { recursive: true });
});

test("a named batch is not sent to another store", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using exporter = await Exporter.at(trader);
  await using first = await Server.serve(PROGRAM, ...TCP);
  await using second = await Server.serve(PROGRAM, ...TCP);
  for (const [server, store] of [
    [first, "one"],
    [second, "two"],
  ] as const) {
    await exporter.database("database", [server.urls[1] as string], `store=${store}`);
  }
  await using service = serviceOf(urlOf(trader, "prefer=first"), 2_000);
  const make = (): Promise<void> =>
    service.run(async (session, db) => {
      db.newUser("zoe");
      await session.commit();
    });
  await make();
  equal(addressOf(service), first.urls[1]);
  await first.stop();
  const error = await errorOf(count(service, "zoe"));
  ok(error instanceof LostError, String(error));
  deepEqual([error.ran, error.search instanceof ImportError], ["unknown", true]);
  match(error.message, /nobody knows if the run was done: .*; cannot import `DataBase`/);
  // The next run is another one, and may have any server.
  await make();
  equal(addressOf(service), second.urls[1]);
});

test("new servers are used when they come", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using exporter = await Exporter.at(trader);
  const servers = await Promise.all([0, 1, 2].map(() => Server.serve(PROGRAM, ...TCP)));
  const [first, second, third] = servers.map((server) => server.urls[1]) as [string, string, string];
  await exporter.database("database", [first], "tier=2");
  await using service = serviceOf(urlOf(trader, "prefer=min(tier)"), 5_000);
  const uses = (address: string): Promise<void> =>
    until(`the server at ${address}`, async () => {
      await service.run((session) => session.flush());
      return addressOf(service) === address;
    });
  await uses(first);
  // One that is preferred, while the first one lives.
  const preferred = await exporter.database("database", [second], "tier=1");
  await uses(second);
  // One that is not preferred is not used, until that in use is withdrawn.
  await exporter.database("database", [third], "tier=3");
  await preferred.withdraw();
  await uses(first);
  await Promise.all(servers.map((server) => server.end()));
});

/** Passes greeting and look-up of each client to a server, and ends the connection at the next words. */
async function broken(server: string): Promise<{ address: string; ended: () => number; close: () => void }> {
  let ended = 0;
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const to = connectNet(Number(/\d+$/.exec(server)?.[0]), "127.0.0.1");
    let exchanges = 0;
    for (const socket of [client, to]) sockets.add(socket.on("error", () => undefined));
    client.on("data", (bytes: Buffer) => {
      exchanges += 1;
      if (exchanges <= 2) to.write(bytes);
      else {
        ended += 1;
        client.destroy();
        to.destroy();
      }
    });
    to.on("data", (bytes: Buffer) => client.write(bytes));
    client.on("close", () => to.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = `tcp://127.0.0.1:${(proxy.address() as { port: number }).port}`;
  const close = (): void => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address, ended: () => ended, close };
}

test("a batch that ends each server is not sent for ever", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, ...TCP);
  await using exporter = await Exporter.at(trader);
  const { address, ended, close } = await broken(server.urls[1] as string);
  await exporter.database("database", [address], "store=one");
  await using service = serviceOf(urlOf(trader), 5_000);
  const error = await errorOf(count(service, "bob"));
  ok(error instanceof LostError, String(error));
  deepEqual([error.ran, error.search, ended()], ["unknown", undefined, RUNS_MAX]);
  // A batch without a name is sent once.
  const plain = await errorOf(visitsOf(service, "bob"));
  deepEqual([service.ran(plain), ended()], ["unknown", RUNS_MAX + 1]);
  close();
});

test("a service is used by one task at a time, and until it is closed", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, ...TCP);
  await using exporter = await Exporter.at(trader);
  await exporter.database("database", [server.urls[1] as string]);
  const service = serviceOf(urlOf(trader), 5_000);
  equal(service.server, undefined);
  const running = visitsOf(service, "eve");
  await rejects(visitsOf(service, "eve"), /a run of this service is under way: await it first/);
  equal(await running, 0n);
  // A session that the body has ended itself is no loss: the next run has another one.
  await service.run((session) => {
    session[Symbol.dispose]();
  });
  equal(await visitsOf(service, "eve"), 0n);
  // What a run has recorded and not sent is sent at the end.
  await service.run((session, db) => {
    db.fetch("eve").touch();
    void session.commit();
  });
  await service.close();
  const session = await connect(server.urls[0] as string);
  equal(await session.lookup("database", DataBase).fetch("eve").visits(), 1n);
  await session.close();
  await rejects(visitsOf(service, "eve"), /the service is closed/);
  // A search under way ends, too.
  const hanging = serviceOf(urlOf(trader, "region=nowhere"), 20_000);
  const start = performance.now();
  const search = errorOf(visitsOf(hanging, "eve"));
  await new Promise((resolve) => setTimeout(resolve, 100));
  await hanging.close();
  match((await search).message, /the service is closed/);
  ok(performance.now() - start < 5_000);
});

test("the book shows a function that runs", () => {
  const [, shown] = /```ts\n([^]*?)```/.exec(readFileSync(join(ROOT, "docs/book/services.md"), "utf8")) ?? [];
  ok(shown && readFileSync(join(ROOT, "veneers/typescript/tests/service.test.ts"), "utf8").includes(shown), shown);
});

// Imports through traders: the preferred server, addresses and traders that do not answer, mistakes, tokens, keys.

import { deepEqual, equal, match, ok, rejects, throws } from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import type { Options } from "bifrost-veneer";
import { findOffers, ImportError, importService, serverOf, Service, TRADERS_MAX } from "bifrost-veneer/service";

import { connect, DataBase } from "../samples/database/bifrost_stubs.js";
import { program, Server } from "./server.js";
import { Exporter, HOST, NOBODY, Silent, TCP, until, urlOf } from "./traders.js";

const PROGRAM = "examples/database/database.theta";

/** Imports, and returns the address of the server. */
async function addressOf(url: string, options: Options = {}): Promise<string> {
  const [session] = await importService(url, DataBase, options);
  const { address } = serverOf(session) ?? { address: "" };
  await session.close();
  return address;
}

/** Imports, and returns the text of the error and the milliseconds that it took. */
async function failure(url: string, options: Options = {}): Promise<[text: string, ms: number]> {
  const start = performance.now();
  const error = await addressOf(url, { timeout: 2_500, ...options }).then(
    (address) => new Error(`${address} was imported`),
    (error: Error) => error,
  );
  return [error.message, performance.now() - start];
}

test("an import finds the preferred server of those that export themselves", async () => {
  await using trader = await Server.trader();
  const serve = (tier: number): Promise<Server> => {
    const properties = ["--property", "region=eu", "--property", `tier=${tier}`];
    const exported = ["--export", "database:DataBase", "--trader", trader.urls[0] as string, ...properties];
    return Server.serve(PROGRAM, ...TCP, ...exported);
  };
  const [first, second] = await Promise.all([serve(1), serve(2)]);
  await using exporter = await Exporter.at(trader);
  await until("two offers", async () => (await exporter.count("tier>0")) === 2);
  for (const [prefer, server] of [
    ["min(tier)", first],
    ["max(tier)", second],
  ] as const) {
    const url = urlOf(trader, `region=eu&prefer=${prefer}`);
    const [session, db] = await importService(url, DataBase);
    const imported = serverOf(session);
    equal(imported?.name, "database");
    // The local address comes first.
    equal(imported.address, server.urls[0]);
    equal(imported.offer.properties.get("region"), "eu");
    const { crossings } = session.counters;
    db.newUser("zoe").touch();
    equal(await db.fetch("zoe").visits(), 1n);
    equal(session.counters.crossings, crossings + 1, "the object was looked up before");
    await session.close();
    // `connect` of the stubs takes the URL, too; it looks nothing up.
    const direct = await connect(url);
    const name = serverOf(direct)?.name ?? "";
    equal(await direct.lookup(name, DataBase).fetch("eve").name(), "eve");
    await direct.close();
  }
  const [none] = await failure(urlOf(trader, "region=us"));
  match(none, /cannot import `DataBase`: no trader knows an offer that matches/);
  const plain = await connect(first.urls[0] as string);
  equal(serverOf(plain), undefined);
  await plain.close();
  await Promise.all([first.end(), second.end()]);
});

test("addresses are tried until one answers", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, ...TCP);
  await using exporter = await Exporter.at(trader);
  using silent = await Silent.listen();
  const [unix, tcp] = server.urls as [string, string];
  // One that nobody listens at, one that is silent, and one that answers; the local one comes first.
  await exporter.database("database", [NOBODY, silent.address, tcp], "of=several");
  await exporter.database("database", [NOBODY, unix], `of=local&host=${HOST}`);
  await exporter.database("database", [silent.address], "of=silent");
  await exporter.database("database", [unix], "of=elsewhere&host=another");
  await exporter.database("database", ["rex://127.0.0.1:1"], "of=rex");
  const start = performance.now();
  equal(await addressOf(urlOf(trader, "of=several")), tcp);
  const took = performance.now() - start;
  ok(took >= 250, `the silent one is waited for: ${took} ms`);
  ok(took < 4_500, `${took} ms is the patience with one address`);
  equal(await addressOf(urlOf(trader, "of=local")), unix);
  const [why, ms] = await failure(urlOf(trader, "of=silent"));
  match(why, /no server of 1 offers was reached; tcp:\S+: (it has not answered|\S+ did not answer within 2500 ms)$/);
  ok(ms >= 2_400 && ms < 8_000, `${ms} ms`);
  match((await failure(urlOf(trader, "of=elsewhere")))[0], /no trader knows an offer/);
  match((await failure(urlOf(trader, "of=rex")))[0], /no offer has an address that this process can use/);
});

test("traders are asked until one answers", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, ...TCP);
  await using exporter = await Exporter.at(trader);
  const [, tcp] = server.urls as [string, string];
  await exporter.database("database", [tcp]);
  using silent = await Silent.listen();
  // One that is gone, and one that is stopped: it takes the connection, and hangs.
  const hanging = await Server.trader();
  await hanging.stop();
  const traders = [NOBODY, silent.address, hanging.urls[0] as string, trader.urls[0] as string];
  try {
    process.env["BIFROST_TRADER"] = traders.join(", ");
    const start = performance.now();
    equal(await addressOf("trader:///DataBase"), tcp);
    ok(performance.now() - start < 4_900, "nobody waits for the end of their patience");
    delete process.env["BIFROST_TRADER"];
    equal(await addressOf("trader:///DataBase", { traders }), tcp);
    const [why] = await failure("trader:///DataBase", { traders: [NOBODY] });
    match(why, /cannot import `DataBase`: no trader has answered; tcp:\/\/127.0.0.1:1: connect ECONNREFUSED/);
    const error = await importService("trader:///DataBase", DataBase, { traders: [NOBODY], timeout: 300 }).catch(
      (error: unknown) => error,
    );
    ok(error instanceof ImportError);
    deepEqual([error.service, error.failure, error.attempts.length], ["DataBase", "no_trader", 1]);
    // A signal ends a search.
    const signal = AbortSignal.timeout(100);
    await rejects(importService("trader:///DataBase", DataBase, { traders: [silent.address], signal }), {
      name: "TimeoutError",
    });
  } finally {
    delete process.env["BIFROST_TRADER"];
    await hanging.end();
  }
});

test("a server that hangs keeps no process", async () => {
  using silent = await Silent.listen();
  await using server = await Server.serve(PROGRAM, ...TCP);
  // Those that keep the process alive.
  const sockets = (): number => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
  const before = sockets();
  const url = silent.address;
  await rejects(connect(url, { timeout: 100 }), /^ConnectError: the server has not answered within 100 ms/);
  const own = new AbortController();
  setTimeout(() => {
    own.abort(new RangeError("own"));
  }, 20);
  await rejects(connect(url, { signal: own.signal }), RangeError);
  const session = await connect(server.urls[1] as string, { timeout: 1_000 });
  equal(sockets(), before + 1);
  await server.stop();
  await rejects(session.lookup("database", DataBase).fetch("eve").visits().claim(), /has not answered within 1000 ms/);
  equal(sockets(), before);
});

test("a program can choose among the offers", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using exporter = await Exporter.at(trader);
  for (const tier of [0, 1, 2]) await exporter.database(`n${tier}`, ["tcp://192.0.2.1:1"], `tier=${tier}`);
  const url = urlOf(trader, "tier>0&prefer=max(tier)");
  const names = async (most: number): Promise<string[]> =>
    (await findOffers(url, DataBase, most)).map(({ name }) => name);
  deepEqual([await names(0), await names(1)], [["n2", "n1"], ["n2"]]);
  deepEqual(await findOffers(urlOf(trader, "tier>7")), []);
  await rejects(findOffers(`trader+${NOBODY}/DataBase`), /no trader has answered; tcp:\/\/127.0.0.1:1: /);
  // Two traders, one of which is silent: its answer is not waited for.
  using silent = await Silent.listen();
  const start = performance.now();
  const traders = [silent.address, trader.urls[0] as string];
  equal((await findOffers("trader:///DataBase", null, 0, { traders })).length, 3);
  ok(performance.now() - start < 3_500);
});

test("mistakes are told at once", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, ...TCP);
  await using exporter = await Exporter.at(trader);
  await exporter.database("nothing", [server.urls[1] as string], "of=nothing");
  const timeout = 30_000;
  const table = [
    ["trader://t", "names no service"],
    ["trader+tcp://t:port/DataBase", '"tcp://t:port" is no address'],
    ["trader://t/DataBase#sha256-x", "a pin is sha256-"],
    ["trader+rex://t/DataBase", "is no URL of a trader"],
    ["trader:///DataBase", "the URL names no trader, and BIFROST_TRADER is not set"],
    [urlOf(trader, "region!eu"), "at byte 0 of the query"],
  ] as const;
  for (const [url, why] of table) {
    ok((await failure(url, { timeout }))[0].includes(why), url);
    await rejects(connect(url), TypeError, url);
    throws(() => new Service(url, DataBase), TypeError, url);
  }
  const many = Array.from({ length: TRADERS_MAX + 1 }, () => NOBODY);
  const [tooMany] = await failure("trader:///DataBase", { traders: many });
  match(tooMany, /the option `traders` names 17 traders; at most 16 are asked/);
  // Neither waits for the end of its time: a server that is no trader, and one without the object.
  const [noTrader, ms] = await failure(`trader+${server.urls[0] as string}?service=DataBase`, { timeout });
  match(noTrader, /no trader has answered; unix:\S+: the trader: /);
  const [noObject, more] = await failure(urlOf(trader, "of=nothing"), { timeout });
  match(noObject, /the server does not have the object: .*NoSuchName/);
  ok(ms + more < 15_000, `${ms} ms, ${more} ms`);
});

test("a server with another interface is left out", async () => {
  const other = `
DataBase = type   size () returns (int)   end DataBase
module sizes exports new_other
  Other = class implements DataBase   size () returns (int) return (0) end size   end Other
  new_other () returns (DataBase) return (Other{}) end new_other
end sizes
setup () root().insert("database", new_other()) end setup
`;
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, ...TCP);
  await using exporter = await Exporter.at(trader);
  const theta = join(server.folder, "other.theta");
  writeFileSync(theta, other);
  await promisify(execFile)(program, ["veneer", theta, "-o", server.folder]);
  const json = readFileSync(join(server.folder, "bifrost_stubs.interface.json"), "utf8");
  await exporter.database("database", [NOBODY], "tier=1", json);
  match((await failure(urlOf(trader)))[0], /no trader knows an offer that matches/);
  // A client without stubs takes any.
  deepEqual([(await findOffers(urlOf(trader))).length, (await findOffers(urlOf(trader), DataBase)).length], [1, 0]);
  await exporter.database("database", [server.urls[1] as string], "tier=2");
  equal(await addressOf(urlOf(trader, "prefer=min(tier)")), server.urls[1]);
});

test("each token is for its own server", async () => {
  const theirs = ["--listen", "tcp://127.0.0.1:0", "--token", "trader-token", "--trust-addresses"];
  await using trader = await Server.trader(...theirs);
  await using server = await Server.serve(PROGRAM, "--listen", "tls://127.0.0.1:0", "--token", "server-token");
  await using exporter = await Exporter.at(trader);
  const tls = server.urls[1] as string;
  await exporter.database("database", [tls]);
  const url = `trader+${trader.urls[1] as string}/DataBase`;
  equal(await addressOf(url, { token: "server-token", traderToken: "trader-token" }), tls);
  process.env["BIFROST_TRADER_TOKEN"] = "trader-token";
  equal(await addressOf(url, { token: "server-token" }), tls);
  delete process.env["BIFROST_TRADER_TOKEN"];
  // Neither stands for the other, and both faults name their place at once.
  const timeout = 30_000;
  const [ours, ms] = await failure(url, { token: "trader-token", traderToken: "trader-token", timeout });
  ok(ours.includes(`; ${tls}: `) && ours.includes("BadToken"), ours);
  const [other, more] = await failure(url, { token: "server-token", timeout });
  ok(other.includes(`; ${trader.urls[1] as string}: `) && other.includes("BadToken"), other);
  ok(ms + more < 15_000, `${ms} ms, ${more} ms`);
});

test("a token is not shown where others could read it", async () => {
  await using trader = await Server.trader("--trust-addresses");
  await using server = await Server.serve(PROGRAM, "--listen", "tcp://127.0.0.1:0", "--token", "secret");
  await using exporter = await Exporter.at(trader);
  const near = server.urls[1] as string;
  // The same server under an address that is not known to be of this machine.
  await exporter.database("database", [near.replace("127.0.0.1", "0.0.0.0")], "region=far");
  await exporter.database("database", [near], "region=near");
  const [why] = await failure(urlOf(trader, "region=far"), { token: "secret", timeout: 30_000 });
  match(why, /asks for the token, which is not shown without encryption/);
  equal(await addressOf(urlOf(trader, "region=near"), { token: "secret" }), near);
});

test("a trader over TLS is known by its pin, and one over a websocket by its address", async () => {
  const listen = ["--listen", "tls://127.0.0.1:0", "--listen", "ws://127.0.0.1:0", "--anonymous-loopback"];
  await using trader = await Server.trader(...listen, "--trust-addresses");
  await using server = await Server.serve(PROGRAM, "--listen", "ws://127.0.0.1:0", "--anonymous-loopback");
  await using exporter = await Exporter.at(trader);
  const [, ws] = server.urls as [string, string];
  await exporter.database("database", [ws], "region=eu");
  const [, tls, web] = trader.urls as [string, string, string];
  const [place, pin] = tls.slice("tls://".length).split("#") as [string, string];
  equal(await addressOf(`trader://${place}/DataBase?region=eu#${pin}`, { authorities: "no certificate" }), ws);
  const wrong = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
  for (const url of [`trader://${place}/DataBase#${wrong}`, `trader://${place}/DataBase`]) {
    const [why, ms] = await failure(url, { timeout: 30_000 });
    match(why, /no trader has answered; tls:/);
    if (url.includes(wrong)) ok(why.includes(pin), why);
    ok(ms < 10_000, `${url}: ${ms} ms`);
  }
  equal(await addressOf("trader:///DataBase", { traders: [web] }), ws);
});

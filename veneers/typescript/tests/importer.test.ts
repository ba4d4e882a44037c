// The parts of imports without input and output: URLs, queries, the states of an importer, moves of a watch.

import { deepEqual, equal, match, ok, throws } from "node:assert/strict";
import { test } from "node:test";

import { Importer, type ImporterOptions, nextAfter, TIMES } from "../src/service/importer.js";
import { addressesOf, type Offer, offerOf } from "../src/service/offer.js";
import { QUERY_BYTES_MAX, QUERY_TERMS_MAX, readQuery } from "../src/service/query.js";
import { addressList, isTrader, parseTraderUrl, SERVICE_BYTES_MAX, URL_BYTES_MAX } from "../src/service/url.js";
import { ATTEMPTS_MAX, type Attempt, ImportError } from "../src/service/errors.js";
import { noteAttempt } from "../src/service/search.js";
import { chooseOther, KNOWN_MAX, remember } from "../src/service/watch.js";

const PIN = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

test("URLs name a trader, a service and a query", () => {
  const table = [
    ["trader://t.example/DataBase", "tls://t.example:7450", "DataBase", ""],
    [
      `trader://t.example:1/DataBase?region=eu&prefer=min(load)#${PIN}`,
      `tls://t.example:1#${PIN}`,
      "DataBase",
      "region=eu&prefer=min(load)",
    ],
    ["trader://[::1]/Box%5Bint%5D?a^=b", "tls://[::1]:7450", "Box[int]", "a^=b"],
    ["trader://[::1]:9/Store?load<0.5", "tls://[::1]:9", "Store", "load<0.5"],
    ["trader+tcp://127.0.0.1/Store", "tcp://127.0.0.1:7450", "Store", ""],
    ["trader+tcp://127.0.0.1:0/Store?a=1", "tcp://127.0.0.1:0", "Store", "a=1"],
    ["trader+quic://t:1/Store#sha256-x", "quic://t:1#sha256-x", "Store", ""],
    ["trader+unix:///run/t?service=Store", "unix:///run/t", "Store", ""],
    ["trader+unix:///run/a%20b%3Fc?x=1&service=Store&y=2", "unix:///run/a b?c", "Store", "x=1&y=2"],
    ["trader:///Store?zip='01'", "", "Store", "zip='01'"],
  ] as const;
  for (const [text, trader, service, query] of table) {
    const { prefer, ...url } = parseTraderUrl(text);
    deepEqual(url, { trader, service, query }, text);
    equal(prefer, query.includes("prefer") ? "min(load)" : "", text);
    ok(isTrader(text), text);
  }
  for (const text of ["tls://trader:1", "trader", "traders://x/Y", "unix:///trader://x", ""]) ok(!isTrader(text), text);
  const list = "tls://a:1, tls://b:1\ntcp://c:1,,";
  deepEqual(addressList(list), ["tls://a:1", "tls://b:1", "tcp://c:1"]);
});

test("wrong URLs say what a right one looks like", () => {
  const table = [
    ["tls://t:1/DataBase", "is no URL of a trader: write `trader://host/Service?query`"],
    ["trader", "is no URL of a trader"],
    ["trader+rex://t/DataBase", "is no URL of a trader"],
    ["trader://t", "names no service"],
    ["trader://t/", "names no service: write the type of the object"],
    ["trader://t?a=1", "names no service"],
    ["trader+unix:///run/t?a=1", "names no service"],
    ["trader+unix:///run/t?service=", "names no service"],
    ["trader+unix:///run/t?service=A&service=B", "`service` is there twice"],
    ["trader+unix://run/t?service=A", "write three slashes"],
    ["trader+unix:///run/%zz?service=A", "is no absolute path"],
    ["trader+unix:///run/%00?service=A", "is no absolute path"],
    ["trader+tcp:///DataBase", "names no host"],
    ["trader+quic:///DataBase", "write `trader+quic://host:port/Service`"],
    ["trader+tcp://t/DataBase#sha256-x", "other traders have no certificate"],
    ["trader+unix:///t?service=A#sha256-x", "other traders have no certificate"],
    ["trader:///DataBase#sha256-x", "the URL names no trader"],
    ["trader://t/a b", "at byte 12"],
    ["trader://t/a\u0007", "at byte 12"],
    ["trader://t/a/b", "is no name of a type"],
    ["trader://t/a%0Ab", "is no name of a type"],
    ["trader://t/a%", "is no name of a type"],
    ["trader://t/a%ff", "is no name of a type"],
    [`trader://t/${"s".repeat(SERVICE_BYTES_MAX + 1)}`, "is no name of a type"],
    [`trader://t/${"s".repeat(URL_BYTES_MAX)}`, `it may have ${URL_BYTES_MAX}`],
    ["trader://t/A?region!eu", "at byte 0 of the query"],
    ["trader://t/A?a=1&prefer=best", "at byte 4 of the query"],
    ["trader+unix:///t?service=A&b?1", "at byte 0 of the query"],
  ] as const;
  for (const [text, expected] of table) {
    throws(
      () => parseTraderUrl(text),
      (error) => error instanceof TypeError && error.message.includes(expected),
      text,
    );
  }
  equal(parseTraderUrl(`trader://t/${"s".repeat(SERVICE_BYTES_MAX)}`).service.length, SERVICE_BYTES_MAX);
});

test("mistakes of queries name their place and a remedy", () => {
  const table = [
    ["region", "0 of the query: `region` compares with nothing; write one of `= != < <= > >= ^=` behind the name"],
    ["a=1&&b=2", "4 of the query: `` does not begin with the name of a property; write `name=value`"],
    ["a=1&=2", "4 of the query: `=2` does not begin with the name of a property"],
    ["ä=1", "0 of the query: `ä=1` does not begin with the name of a property"],
    ["a=ä&b=%2", "7 of the query: the `%` begins no escape of a text; write `%25` for the sign itself"],
    ["a='x", "0 of the query: `'x` begins with a quote and does not end with one; write a quote on both sides"],
    ["a<99999999999999999999", "0 of the query: `99999999999999999999` is beyond the numbers of its type"],
    ["a=1.0e999", "0 of the query: `1.0e999` is beyond the numbers of its type"],
    ["prefer=best", "0 of the query: `prefer=best` is no order; write `prefer=` and `first`, `random`, `spread`"],
    ["prefer<first", "0 of the query: `prefer<first` is no order"],
    ["prefer=first&prefer=first", "13 of the query: `prefer` is there twice; leave one out"],
  ] as const;
  for (const [text, expected] of table) {
    throws(
      () => readQuery(text),
      (error) => error instanceof TypeError && error.message.startsWith(`at byte ${expected}`),
      text,
    );
  }
  const rights = ["", "a==", "a<'=b'", "load%3C%3D0.5", "a=-9223372036854775808", "a=007", "_x.y-z^=b", "a=1e5"];
  for (const text of rights) equal(readQuery(text), "", text);
  for (const order of ["first", "random", "spread", "min(a.b)", "max(load)"]) {
    equal(readQuery(`a=1&prefer=${order}&b=2`), order);
  }
});

test("bytes and comparisons of queries are bounded", () => {
  const terms = (count: number): string => Array.from({ length: count }, () => "a=1").join("&");
  readQuery(`${terms(QUERY_TERMS_MAX)}&prefer=first`);
  throws(() => readQuery(terms(QUERY_TERMS_MAX + 1)), /at byte 64 .* `trader.query_terms_max` allows 16 comparisons/);
  const long = (bytes: number): string => `a=${"ä".repeat((bytes - 2) / 2)}`;
  readQuery(long(QUERY_BYTES_MAX));
  throws(() => readQuery(long(QUERY_BYTES_MAX + 2)), /it has 1026 bytes, and `trader.query_bytes_max` is 1024/);
});

function offer(name: string, addresses: readonly string[], properties: Readonly<Record<string, string>> = {}): Offer {
  const [names, values] = [Object.keys(properties), Object.values(properties)];
  const listed = { id: 1n, service: "Store", digest: "", name, addresses, names, values, load: -1, doubtful: false };
  return offerOf(listed);
}

test("properties have the types of their texts", () => {
  const texts = { a: "1", b: "-20", c: "1.5", d: "true", e: "'1'", f: "007", g: "-0", h: "'x", i: "1e5", j: "" };
  const { properties, load } = offer("a", [], texts);
  const values = [1n, -20n, 1.5, true, "1", "007", "-0", "'x", "1e5", ""];
  deepEqual([...properties.values()], values);
  equal(load, undefined);
});

test("local addresses are for the same machine, and come first", () => {
  const all = ["tls://a:1", "tcp://a:2", "unix:///a", "shm:///a", "rex+unix:///a"];
  const here = offer("a", all, { host: "h" });
  const known = ["tcp", "tls", "unix"];
  deepEqual(addressesOf(here, "h", known), ["unix:///a", "tls://a:1", "tcp://a:2"]);
  deepEqual(addressesOf(here, "g", known), ["tls://a:1", "tcp://a:2"]);
  deepEqual(addressesOf(here, "", ["shm"]), []);
  deepEqual(addressesOf(offer("a", all), "", known), ["tls://a:1", "tcp://a:2"]);
});

/** An importer with a clock of the test. */
class Machine {
  now = 0;
  readonly importer: Importer;

  constructor(traders: number, change: Partial<ImporterOptions> = {}, random = (): number => 0.5) {
    const schemes = ["unix", "tls", "tcp"];
    const options = { ...TIMES, timeoutMs: Infinity, host: "", schemes, ...change };
    this.importer = new Importer(options, traders, random, 0);
  }

  actions(): string[] {
    const all: string[] = [];
    for (;;) {
      const action = this.importer.poll(this.now);
      if (!action) return all;
      if (action.kind === "ask") all.push(`ask ${action.id} of ${action.trader}`);
      else if (action.kind === "dial") all.push(`dial ${action.id} ${action.address}`);
      else if (action.kind === "cancel") all.push(`cancel ${action.id}`);
      else if (action.kind === "use") all.push(`use ${action.id} ${action.offer.name} ${action.address}`);
      else all.push(`fail ${action.failure}${action.failure === "no_server" ? ` ${action.offers}` : ""}`);
    }
  }

  found(ask: number, offers: readonly Offer[]): string[] {
    this.importer.found(ask, offers, this.now);
    return this.actions();
  }

  opened(id: number): string[] {
    this.importer.opened(id);
    return this.actions();
  }

  dialFailed(id: number): string[] {
    this.importer.dialFailed(id, this.now);
    return this.actions();
  }

  lost(...loss: Parameters<typeof nextAfter>): string[] {
    this.importer.lose(nextAfter(...loss), this.now);
    return this.actions();
  }

  next(): string[] {
    const deadline = this.importer.nextDeadline();
    ok(deadline !== null && deadline < Infinity, "a deadline");
    this.now = Math.max(this.now, deadline);
    return this.actions();
  }
}

test("traders are asked one after the other, in any order", () => {
  const machine = new Machine(3);
  const asked = machine.actions();
  equal(asked.length, 1);
  asked.push(...machine.next());
  deepEqual([asked.length, machine.now], [2, 250]);
  // A trader without offers: the next one is asked at once.
  asked.push(...machine.found(1, []));
  deepEqual([asked.length, machine.now], [3, 250]);
  const firsts = new Set(Array.from({ length: 100 }, () => new Machine(3, {}, Math.random).actions()[0]));
  equal(firsts.size, 3);
});

test("addresses are dialled one after the other", () => {
  const machine = new Machine(1, { host: "h" });
  machine.actions();
  const offers = [
    offer("a", ["tls://a:1", "rex://a:2", "unix:///a"], { host: "h" }),
    offer("b", ["tcp://b:1", "unix:///b"], { host: "g" }),
  ];
  deepEqual(machine.found(1, offers), ["dial 1 unix:///a"]);
  deepEqual([machine.next(), machine.now], [["dial 2 tls://a:1"], 250]);
  // A failure has the next one dialled at once.
  deepEqual(machine.dialFailed(1), ["dial 3 tcp://b:1"]);
  deepEqual(machine.opened(2), ["cancel 3", "use 2 a tls://a:1"]);
  equal(machine.importer.offer?.name, "a");
  deepEqual([machine.importer.nextDeadline(), machine.opened(3)], [null, []]);
});

test("all failed is a pause that doubles", () => {
  const machine = new Machine(1, {}, Math.random);
  machine.actions();
  [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000].forEach((most, at) => {
    const round = at + 1;
    deepEqual(machine.found(round, [offer("a", ["tcp://a:1"])]), [`dial ${round} tcp://a:1`]);
    deepEqual(machine.dialFailed(round), []);
    ok(machine.importer.isPausing);
    const start = machine.now;
    deepEqual(machine.next(), [`ask ${round + 1} of 0`]);
    const pause = machine.now - start;
    ok(pause >= most / 2 && pause <= most, `${pause} of ${most}`);
  });
});

test("silence has an end", () => {
  const machine = new Machine(1);
  machine.actions();
  deepEqual([machine.next(), machine.now], [[], 5_000], "the trader does not answer");
  deepEqual(machine.next(), ["ask 2 of 0"]);
  deepEqual(machine.found(1, [offer("a", ["tcp://a:1"])]), [], "it is too late");
  deepEqual(machine.found(2, [offer("a", ["tcp://a:1"])]), ["dial 1 tcp://a:1"]);
  const start = machine.now;
  deepEqual([machine.next(), machine.now], [["cancel 1"], start + 5_000]);
});

test("a search ends with the worst that is known", () => {
  const fail = (offers: readonly Offer[] | null): string => {
    const machine = new Machine(1, { timeoutMs: 700 });
    machine.actions();
    if (offers) {
      machine.found(1, offers);
      machine.dialFailed(1);
    }
    let actions: string[] = [];
    while (actions.length === 0) actions = machine.next();
    deepEqual([machine.now, machine.importer.nextDeadline(), machine.actions()], [700, null, []]);
    return actions[0] as string;
  };
  equal(fail(null), "fail no_trader");
  equal(fail([]), "fail no_offer");
  equal(fail([offer("a", ["rex://a:1"])]), "fail no_address");
  equal(fail([offer("a", ["tcp://a:1"])]), "fail no_server 1");
});

test("after a loss others come first", () => {
  const machine = new Machine(1);
  machine.actions();
  const all = ["a", "b", "c"].map((name) => offer(name, [`tcp://${name}:1`], { store: "s" }));
  machine.found(1, all);
  deepEqual(machine.opened(1), ["use 1 a tcp://a:1"]);
  deepEqual(machine.lost("no", false), ["dial 2 tcp://b:1"]);
  machine.dialFailed(2);
  deepEqual(machine.dialFailed(3), ["ask 2 of 0"]);
  deepEqual(machine.found(2, all), ["dial 4 tcp://a:1"], "the others have just failed");
  machine.opened(4);
  deepEqual(machine.lost("no", true), ["ask 3 of 0"]);
  deepEqual(machine.found(3, all.slice(0, 2)), ["dial 5 tcp://b:1"]);
  deepEqual(machine.dialFailed(5), ["dial 6 tcp://a:1"], "the lost one is the last");
});

test("a named batch stays with its store", () => {
  const machine = new Machine(1);
  machine.actions();
  const all = [
    offer("a", ["tcp://a:1"], { store: "s" }),
    offer("b", ["tcp://b:1"], { store: "t" }),
    offer("c", ["tcp://c:1"], { store: "s" }),
    offer("d", ["tcp://d:1"]),
  ];
  machine.found(1, all);
  machine.opened(1);
  deepEqual(machine.lost("unknown", true), ["dial 2 tcp://c:1"]);
  deepEqual(machine.dialFailed(2), ["ask 2 of 0"]);
  deepEqual(machine.found(2, all), ["dial 3 tcp://a:1"], "the lost one may be there again");
  machine.opened(3);
  machine.importer.releaseStore();
  deepEqual(machine.lost("no", false), ["ask 3 of 0"]);
  deepEqual(machine.found(3, all), ["dial 4 tcp://b:1"]);
  const alone = new Machine(1);
  alone.actions();
  alone.found(1, all.slice(3));
  alone.opened(1);
  deepEqual(alone.lost("began", true), ["fail no_store"]);
});

test("what may not run twice ends the import", () => {
  for (const ran of ["began", "unknown"] as const) {
    const machine = new Machine(1);
    machine.actions();
    machine.found(1, [offer("a", ["tcp://a:1"])]);
    machine.opened(1);
    deepEqual(machine.lost(ran, false), ["fail gave_up"]);
    deepEqual(machine.lost("no", false), []);
  }
});

test("a program can move by itself, and give a search up", () => {
  const machine = new Machine(1);
  machine.actions();
  const [a, b] = ["a", "b"].map((name) => offer(name, [`tcp://${name}:1`])) as [Offer, Offer];
  machine.found(1, [a]);
  machine.opened(1);
  machine.importer.moved(b);
  deepEqual([machine.importer.offer?.name, machine.actions()], ["b", []]);
  // The offer that is lost is the other one, and comes last.
  deepEqual(machine.lost("no", false), ["ask 2 of 0"]);
  deepEqual(machine.found(2, [b, a]), ["dial 2 tcp://a:1"]);
  machine.dialFailed(2);
  machine.dialFailed(3);
  ok(machine.importer.isPausing);
  machine.importer.giveUp();
  deepEqual(machine.actions(), ["fail no_server 2"]);
  ok(!machine.importer.isPausing);
});

test("clients move for a reason only", () => {
  const of = (names: string): Offer[] => [...names].map((name) => offer(name, ["tcp://127.0.0.1:1"]));
  // The offer to which a client of `a` moves, that knows `a` and `b`.
  const moves = (prefer: Parameters<typeof chooseOther>[4], offers: string, all: boolean, before: string): string =>
    chooseOther(of("a")[0] as Offer, of("ab"), { offers: of(offers), all }, of(before), prefer)?.name ?? "";
  // A new one that comes first, and one that does not.
  equal(moves("", "ca", true, "a"), "c");
  equal(moves("", "ac", true, "a"), "");
  // A known one, in any order, in the order of a load, and in a fixed one.
  for (const prefer of ["", "min(load)", "spread", "random"] as const)
    equal(moves(prefer, "ba", true, "a"), "", prefer);
  for (const prefer of ["first", "min(tier)", "max(tier)"] as const) {
    equal(moves(prefer, "ba", true, "a"), "b", prefer);
    equal(moves(prefer, "ab", true, "a"), "", prefer);
  }
  // The one in use is gone; it was not there before; the list is not whole; nobody is left.
  equal(moves("", "b", true, "ab"), "b");
  equal(moves("", "b", true, "b"), "");
  equal(moves("", "b", false, "ab"), "");
  equal(moves("", "", true, "ab"), "");
});

test("only the last failures are listed, one for each place", () => {
  const attempts: Attempt[] = [];
  for (let number = 0; number <= ATTEMPTS_MAX; number++) noteAttempt(attempts, `tcp://h:${number}`, new Error("gone"));
  noteAttempt(attempts, "tcp://h:3", new Error("tcp://h:3: connect ECONNREFUSED"));
  equal(attempts.length, ATTEMPTS_MAX);
  const { message } = new ImportError("Store", "no_server", 2, attempts);
  match(message, /^cannot import `Store`: no server of 2 offers was reached; tcp:\/\/h:1: gone; /);
  match(message, /: gone; tcp:\/\/h:3: connect ECONNREFUSED$/);
  equal(message.split("; ").length, ATTEMPTS_MAX + 1);
});

test("only the last offers are remembered", () => {
  const all = Array.from({ length: KNOWN_MAX + 2 }, (_, at) => offer(`n${at}`, ["tcp://a:1"]));
  const known = remember(remember([], all.slice(0, KNOWN_MAX)), all);
  deepEqual([known.length, known[0]?.name, known.at(-1)?.name], [KNOWN_MAX, "n2", `n${KNOWN_MAX + 1}`]);
});

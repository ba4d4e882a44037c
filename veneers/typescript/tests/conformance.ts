// The cases of `crates/cli/tests/conformance.rs`: what `conformance.theta` offers, in batches. Each runs
// with a server of its own, in Node and in a browser.

import * as bf from "bifrost-veneer";

import { Counter, Everything, Item, Odd, Probe, squares, Third, Zero } from "./stubs/conformance/bifrost_stubs.js";

/** A case, with its session and the server's probe. */
export type Run = (s: bf.Session, p: Probe) => Promise<void>;

/** A case: its name, the settings of its server, and what it does. */
export interface LiveCase {
  readonly name: string;
  readonly settings: readonly string[];
  readonly run: (connect: () => Promise<bf.Session>) => Promise<void>;
}

export const cases: LiveCase[] = [];

function test(name: string, run: Run): void {
  limited(name, [], run);
}

function limited(name: string, settings: readonly string[], run: Run): void {
  cases.push({
    name,
    settings,
    run: async (connect) => {
      const s = await connect();
      try {
        await run(s, s.lookup("probe", Probe));
      } finally {
        s[Symbol.dispose]();
      }
    },
  });
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? `${part}n` : part)) ?? String(value);
}

/** Fails where two values are not equal. */
export function equal(found: unknown, expected: unknown, about = ""): void {
  if (Object.is(found, expected)) return;
  const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
  if (isObject(found) && isObject(expected)) {
    for (const key of new Set([...Object.keys(found), ...Object.keys(expected)])) {
      equal(found[key], expected[key], `${about}.${key}`);
    }
    return;
  }
  throw new Error(`${about} is ${show(found)}, not ${show(expected)}`);
}

export function truth(holds: boolean, about: string): void {
  if (!holds) throw new Error(about);
}

/** The error with which a promise is rejected. */
export async function rejected(promise: PromiseLike<unknown> | (() => unknown)): Promise<Error> {
  try {
    const value = await (typeof promise === "function" ? promise() : promise);
    throw new TypeError(`it is not rejected: ${show(value)}`);
  } catch (error) {
    if (error instanceof TypeError && error.message.startsWith("it is not rejected")) throw error;
    return error as Error;
  }
}

/** The name of the signal that a promise ends in. */
async function signal(promise: PromiseLike<unknown>): Promise<string> {
  const error = await rejected(promise);
  if (!(error instanceof bf.SignalError)) throw error;
  return error.signal;
}

/** The error with which a promise's call was refused. */
async function refusal(promise: PromiseLike<unknown>): Promise<string> {
  const error = await rejected(promise);
  if (!(error instanceof bf.RefusedError)) throw error;
  return error.error;
}

function misuseOf(error: unknown): string {
  const first = error instanceof bf.UnseenError ? (error.errors[0] as unknown) : error;
  if (!(first instanceof bf.MisuseError)) throw first;
  return first.misuse;
}

const crossings = (s: bf.Session): number => s.counters.crossings;

/** The history: rounds and names. */
const history = (s: bf.Session): unknown[] =>
  (s.exceptions().errors as bf.BifrostError[]).map((error) => [
    error.failure.of.call?.rounds ?? [],
    error instanceof bf.SignalError ? error.signal : error.failure.kind,
  ]);

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

test("values come back as they went", async (s, p) => {
  const ints = [0n, 1n, -1n, MIN, MAX, 2n ** 53n].map((v) => [v, p.sameInt(v)] as const);
  const numbers = [0, -1, 2 ** 31, -(2 ** 31), -(2 ** 31) - 1, 2 ** 53 - 1, -(2 ** 53) + 1, 2 ** 32].map(
    (v) => [BigInt(v), p.sameInt(v)] as const,
  );
  const reals = [0, -0, 0.1, Number.MIN_VALUE, Number.MAX_VALUE, Infinity, NaN].map((v) => [v, p.sameReal(v)] as const);
  const bools = [true, false].map((v) => [v, p.sameBool(v)] as const);
  const chars = ["\0", "x", "€", "\ud7ff", "\u{10ffff}"].map((v) => [v, p.sameChar(v)] as const);
  const texts = ["", "a", "1234567", "12345678", 'äß€🦀\0\n"', "long ".repeat(5000), "ß".repeat(63)];
  const strings = texts.map((v) => [v, p.sameString(v)] as const);
  const data = [new Uint8Array(), Uint8Array.of(0), new Uint8Array(8).fill(255), new Uint8Array(100_000).fill(1)];
  const bytes = data.map((v) => [v, p.sameBytes(v)] as const);
  // A value is kept by its stub, and can be a receiver.
  const mine = s.value(bf.Bytes, Uint8Array.of(1, 2));
  const added = mine.concat((bytes[1] as (typeof bytes)[0])[1].concat(Uint8Array.of(1)));
  const length = added.length();
  const [nothing, none] = [p.sameNull(null), p.nothing()];
  equal(crossings(s), 0, "crossings");
  for (const [v, promise] of [...ints, ...numbers, ...reals, ...bools, ...chars, ...strings, ...bytes]) {
    equal(await promise, v);
  }
  equal(await added, Uint8Array.of(1, 2, 0, 1));
  equal(await length, 4n);
  equal(await nothing, null);
  equal(await none, undefined);
  equal(crossings(s), 1, "crossings");
});

test("results of all shapes", async (s, p) => {
  const [quotient, remainder] = p.divide(17, 5);
  const [item, length] = p.itemAndLength("grüße");
  const name = item.name();
  const text = p.all(true, quotient.add(1), 0.5, "ß", name.concat("!"), item);
  equal([await quotient, await remainder, await length], [3n, 2n, 5n]);
  equal(await text, "true 4 0.5 ß grüße! grüße");
  equal(crossings(s), 1);
  // A failed call fails all its results.
  const [no, none] = p.divide(1, 0);
  equal([await signal(no), await signal(none)], ["zero", "zero"]);
  truth((await rejected(no)) instanceof Zero, "its class");
  equal(crossings(s), 2);
});

test("a subtype passes for its supertype", async (s, p) => {
  const counter = s.lookup("counter", Counter);
  const byReference = p.nameOf(counter);
  const item: Item = counter;
  item.rename("other");
  p.addItem(counter);
  const byValue = p.nameOf(item);
  equal([await byReference, await byValue], ["counter", "other"]);
  equal(crossings(s), 1);
  // The server says that an object is what the stub says, or refuses it.
  equal(await refusal(s.lookup("probe", Counter).value()), "WrongType");
});

test("records, oneofs and anys are stubs", async (s, p) => {
  const t = p.tagged();
  const point = t.point(3, 4);
  point.setX(5);
  const labelled = t.labelled(point, "here");
  const [name, x] = [labelled.replaceName("there").name(), labelled.at().x()];
  const same = labelled.at().equal(point);
  const [number, text, nothing] = [t.answer(3), t.answer(12), t.answer(0)];
  const [value, wrong] = [number.valueNumber(), number.valueText()];
  const [isText, shown, nil] = [text.isText(), text.unparse(), nothing.valueNothing()];
  const [sum, none] = [t.sum(t.found(2)), t.sum(t.found(0))];
  const other = t.found(0).valueOr(point).y();
  const total = s.cell(bf.Int, 0);
  s.foreach(t.answers(4), (answer) => {
    total.put(total.get().add(answer.valueNumber()));
  });
  const what = [0, 7, 12].map((n) => t.what(t.thing(n)));
  equal([await name, await x, await same, await isText], ["there", 5n, true, true]);
  equal([await value, await signal(wrong)], [3n, "wrong_tag"]);
  equal([await shown, await nil], ['{text: "12"}', null]);
  equal([await sum, await none, await other, await total.get()], [4n, 0n, 4n, 10n]);
  equal(await Promise.all(what), ["nil", "7", "{x: 12, y: 12}"]);
  equal(crossings(s), 2, "one for all of it, and one for the cell");
});

test("compounds cross by value", async (s, p) => {
  const v = p.values();
  const total = v.total([1, 2n, s.value(bf.Int, 3)]);
  const twice = v.twice([1, 2]).get();
  const nested = v.nested([[1, 2], [], [3]]);
  const distance = v.distance({ name: "ab", from: { x: 1, y: 2 }, to: { x: 4, y: 6n } });
  const shapes = [0, 1, 7].map((n) => v.shape(n).get());
  const areas = [v.area({ tag: "dot", value: { x: 1, y: 2 } }), v.area({ tag: "nothing" }), v.area(v.shape(1))];
  const names = [v.name(0).get(), v.name(5).get()];
  const named = [v.named(undefined), v.named("zoe"), v.named(v.name(4))];
  const family = v.family(2).get();
  const [array, counts, list] = [v.array().get(), v.counts().get(), v.list().get()];
  const point = p.tagged().point(1, 2).get();
  const spots = bf.collect(v.spots(2), [v.spots(0).$types[0], bf.Int], (spot) => [spot, spot.x()]);
  equal([await total, await twice, await nested, await distance], [6n, [2n, 4n], 6n, 207n]);
  equal(await Promise.all(shapes), [
    { tag: "nothing" },
    { tag: "circle", value: 0.5 },
    { tag: "dot", value: { x: 7n, y: 0n } },
  ]);
  equal(await Promise.all(areas), ["{dot: {x: 1, y: 2}}", "{nothing: nil}", "{circle: 0.5}"]);
  equal(await Promise.all(names), [undefined, "5"]);
  equal(await Promise.all(named), ["nobody", "zoe", "4"]);
  equal(await array, [7n, 8n]);
  equal([await list, await point], [["a", "b"], { x: 1n, y: 2n }]);
  equal((await counts).map(([key, spot]) => [key, spot]).sort(), [
    ["one", { x: 1n, y: 1n }],
    ["two", { x: 2n, y: 2n }],
  ]);
  equal(await spots, [
    [{ x: 1n, y: -1n }, 1n],
    [{ x: 2n, y: -2n }, 2n],
  ]);
  equal(crossings(s), 1, "all of it in one crossing");
  const { head, members } = await family;
  equal([await head.name(), await Promise.all(members.map((one) => one.name()))], ["head", ["1", "2"]]);
  equal(await v.members({ head: members[0] as Item, members: [head, head] }), "1,head,head");
  const reject = await rejected(v.reject(head, 3));
  truth(reject instanceof bf.SignalError && reject.signal === "rejected", String(reject));
});

test("iterators of methods, routines and values", async (s, p) => {
  const out = s.cell(bf.Str, "");
  const say = (text: bf.Str): bf.Done => out.put(out.get().concat(text).concat(" "));
  s.foreach(p.numbers(3), (i) => say(i.unparse()));
  s.foreach(p.pairs(2), (i, text) => say(i.unparse().concat("=").concat(text)));
  s.foreach(p.items(), (item) => say(item.name()));
  s.foreach(squares(s, 3), (i) => say(i.unparse()));
  s.foreach(s.value(bf.Int, 7).to(8), (i) => say(i.unparse()));
  s.foreach(p.numbers(0), (i) => say(i.unparse()));
  equal(await out.get(), "1 2 3 1=1 2=2 a b c counter 1 4 9 7 8 ");
  equal(crossings(s), 1);
});

test("signals carry their values", async (s, p) => {
  const [everything, fine, missing] = [p.choose(6), p.choose(4), p.item("zoë")];
  const error = await rejected(everything);
  truth(error instanceof Everything, String(error));
  equal((error as Everything).values, [true, 6n, 0.5, "x", "ß"]);
  const other = await rejected(missing.resolve());
  equal([(other as bf.SignalError).signal, (other as bf.SignalError).values], ["not_found", ["zoë", 4n]]);
  equal(await fine, 4n);
  equal(crossings(s), 1);
});

test("cells of everything", async (s, p) => {
  async function check<S extends bf.Value<unknown, unknown>>(
    type: bf.Type<S>,
    one: bf.Arg<S>,
    two: bf.Arg<S>,
  ): Promise<void> {
    const cell = s.cell(type);
    const [before, empty] = [cell.full(), cell.get()];
    cell.put(one);
    const first = cell.get();
    cell.put(two);
    const [after, second] = [cell.full(), cell.get()];
    equal([await before, await after], [false, true]);
    equal([await first, await second], [one, two]);
    equal(await signal(empty), "not_possible");
  }
  await check(bf.Bool, true, false);
  await check(bf.Int, 1n, MIN);
  await check(bf.Real, 0.5, -0);
  await check(bf.Char, "x", "\u{10ffff}");
  await check(bf.Str, "", "äß€🦀");
  await check(bf.Nil, null, null);
  equal(crossings(s), 6);
  const [item, counter, probe] = [s.cell(Item), s.cell(Counter), s.cell(Probe)];
  probe.put(p);
  counter.put(probe.get().counter());
  item.put(counter.get());
  equal(await item.get().name(), "counter");
  equal(crossings(s), 7);
  // A cell outlives its batch.
  item.put(probe.get().item("a"));
  equal(await item.get().name(), "a");
  equal(crossings(s), 8);
});

test("straight futures take one crossing", async (s, p) => {
  let last = p.itself();
  for (let i = 0; i < 5000; i++) last = last.itself();
  const name = last.counter().name();
  equal(crossings(s), 0);
  equal(await name, "counter");
  // A lookup, 5001 times `itself`, two more.
  equal([crossings(s), s.counters.calls], [1, 5004]);
});

test("a claim flushes once for all promises", async (s, p) => {
  const promises = Array.from({ length: 100 }, (_, i) => p.sameInt(i));
  const sum = promises.reduce<bf.Int>((sum, one) => sum.add(one), s.value(bf.Int, 0));
  equal(promises[7]?.peek(), undefined);
  equal(await promises[50], 50n);
  promises.forEach((promise, i) => {
    equal(promise.peek(), BigInt(i));
  });
  equal(await sum, 4950n);
  equal(crossings(s), 1);
  // A promise that is kept goes as a value.
  equal(await p.sameInt(promises[50] as bf.Int), 50n);
  await s.flush();
  equal(crossings(s), 2, "a flush of nothing does not cross");
});

limited("only what is kept gets a handle", ["limits.handles_max=8"], async (s, p) => {
  await p.resolve();
  // What a scope does not return is given back before it crosses.
  for (let round = 0; round < 5; round++) {
    const kept = await s.batch(() => {
      for (let i = 0; i < 200; i++) p.fresh();
      return Array.from({ length: 7 }, () => p.fresh());
    });
    equal(await Promise.all(kept.map((item) => item.name())), Array(7).fill("fresh"));
    for (const item of kept) item.release();
  }
  // The same object again takes no other one.
  const same = await s.batch(() => Array.from({ length: 100 }, () => p.counter()));
  truth(
    same.every((one) => one.isSame(same[0] as Counter)),
    "one object",
  );
  for (const one of same) one.release();
  const many = Array.from({ length: 9 }, () => p.fresh());
  await s.flush().catch(() => undefined);
  const outcomes = await Promise.allSettled(many.map((item) => item.resolve()));
  truth(
    outcomes.some(({ status }) => status === "rejected"),
    "the limit is kept",
  );
  for (const one of many) one.release();
  equal(await p.sameInt(1), 1n, "and the session goes on");
});

test("the same object is the same handle", async (s, p) => {
  const [a, b, other] = [p.counter(), p.counter(), p.fresh()];
  await s.flush();
  const c = s.lookup("counter", Counter);
  await s.flush();
  truth(a.isSame(b) && a.isSame(c), "the same");
  truth(!a.isSame(other) && !other.isSame(p.fresh()), "another one");
  a.release();
  b.release();
  await s.flush();
  equal(await c.name(), "counter", "it is given back with its last stub only");
  c.release();
  await s.flush();
  equal(await p.counter().name(), "counter");
  equal(misuseOf(await rejected(a.name())), "Released");
});

test("structures nest", async (s, p) => {
  let expected = "";
  for (let i = 1; i <= 5; i++) {
    if (i === 4) break;
    let j = 0;
    while (j < 10) {
      j += 1;
      if (j % 2 === 0) continue;
      if (j > i + 3) break;
      else if (i === 2) expected += "two ";
      else expected += `${i}:${j} `;
    }
  }
  const out = s.cell(bf.Str, "");
  s.foreach(p.numbers(5), (i) => {
    s.if(i.eq(4), () => {
      s.break();
    });
    const j = s.cell(bf.Int, 0);
    s.while(
      () => j.get().lt(10),
      () => {
        j.put(j.get().add(1));
        s.if(j.get().mod(2).eq(0), () => {
          s.continue();
        });
        s.if(j.get().gt(i.add(3)), () => {
          s.break();
        }).else(() => {
          s.if(i.eq(2), () => out.put(out.get().concat("two "))).else(() =>
            out.put(out.get().concat(i.unparse()).concat(":").concat(j.get().unparse()).concat(" ")),
          );
        });
      },
    );
  });
  const [yes, no] = [s.value(bf.Bool, true), s.value(bf.Bool, false)];
  const endless = (): bf.Bool => {
    p.endless();
    return p.sameBool(true);
  };
  const logic = [yes.and(() => no), yes.or(endless), no.and(endless), no.or(() => yes)];
  equal(await out.get(), expected);
  equal(await Promise.all(logic), [false, true, false, true]);
  equal(crossings(s), 1);
  equal(s.exceptions().errors.length, 0);
});

test("handlers get names and values", async (s, p) => {
  const out = s.cell(bf.Str, "");
  const say = (text: bf.Str): bf.Done => out.put(out.get().concat(text).concat(" "));
  s.foreach(p.numbers(8), (i) => {
    s.except(() => {
      s.if(i.eq(8), () => {
        p.item("zoe");
      });
      say(p.choose(i).unparse());
    })
      .when(Third, () => say(p.sameString("third")))
      .when(Odd, (n) => say(n.unparse().concat("!")))
      .when(Everything, (b, i, r, c, text) => say(p.all(b, i, r, c, text, p.item("a"))))
      .others((name) => say(name));
  });
  equal(await out.get(), "1! 2 third 4 5! true 6 0.5 x ß a 7! not_found ");
  equal(crossings(s), 1);
  equal(history(s), [], "what is handled is no exception");
  // What no handler names goes on to the structure around it.
  const seen = s.cell(bf.Int, 0);
  s.except(() => {
    s.except(() => {
      p.choose(3);
      seen.put(1);
    }).whenNamed("odd", [], () => seen.put(2));
    seen.put(3);
  }).others(() => seen.put(seen.get().add(10)));
  equal(await seen.get(), 10n);
});

test("exceptions in loops say the round", async (s, p) => {
  // An exception that nothing handles ends the structure, and the batch goes on behind it.
  const cell = s.cell(bf.Int, 0);
  s.foreach(p.numbers(4), (i) => {
    cell.put(i);
    p.choose(i.add(1));
    p.counter().add(1);
  });
  const [begun, ended] = [cell.get(), p.counter().value()];
  // No stub of the loop is left, so the claim behind it tells, once.
  const error = await rejected(begun);
  truth(error instanceof bf.UnseenError && error.errors[0] instanceof Third, String(error));
  equal([await begun, await ended], [2n, 1n]);
  equal(history(s), [[[2], "third"]]);
  s.clearExceptions();
  s.foreach(p.numbers(4), (i) => {
    s.foreach(p.numbers(2), (j) => {
      p.choose(i.mul(i).mul(2).add(j.sub(1).mul(2)));
    });
  });
  truth((await rejected(s.flush())) instanceof bf.UnseenError, "a flush tells");
  equal(history(s), [[[3, 1], "third"]]);
  const shown = String(s.exceptions().errors[0]);
  truth(shown.includes("Probe.choose") && shown.includes("rounds [3, 1]"), shown);
  equal(crossings(s), 2);
});

test("what depends on a failure says why", async (s, p) => {
  const zoe = p.item("zoe");
  const [name, passed] = [zoe.name(), p.nameOf(zoe)];
  const further = p.sameString(name).length().add(1);
  const fine = p.sameInt(1);
  for (const [promise, argument] of [
    [name, 0],
    [passed, 1],
  ] as const) {
    const error = await rejected(promise);
    truth(error instanceof bf.SignalError && error.signal === "not_found", String(error));
    equal((error as bf.SignalError).failure.of.argument, argument);
    equal((error as bf.SignalError).call, "Probe.item");
  }
  const error = (await rejected(further)) as bf.SignalError;
  equal([error.signal, error.failure.kind, error.via.length], ["not_found", "unhandled", 4]);
  equal(await fine, 1n);
  equal(crossings(s), 1);
  // In a later batch the failed stub is the error-handle.
  const later = (await rejected(zoe.name())) as bf.SignalError;
  equal([later.signal, later.failure.of.argument], ["not_found", 0]);
  equal(crossings(s), 2);
});

test("misuse is a value and the session goes on", async (s, p) => {
  // A claim where the batch cannot end.
  const before = p.sameInt(1);
  const total = s.cell(bf.Int, 0);
  const inside: unknown[] = [];
  s.foreach(p.numbers(3), (i) => {
    for (const claim of [() => before.then(), () => before.claim(), () => s.sendBatch()]) {
      try {
        void claim();
      } catch (error) {
        inside.push(misuseOf(error));
      }
    }
    total.put(total.get().add(i));
  });
  equal(inside, ["OpenStructure", "OpenStructure", "OpenStructure"]);
  equal(await total.get(), 6n, "the structure is not harmed by it");
  equal(await before, 1n);
  equal(crossings(s), 1);
  // A stub that is used after its structure.
  const items: Item[] = [];
  s.foreach(p.items(), (item) => {
    items.push(item);
  });
  equal(misuseOf(await rejected((items[0] as Item).name())), "OutOfScope");
  equal(await p.sameInt(2), 2n);
  // Outside of loops and procedures.
  s.break();
  equal(misuseOf(await rejected(s.flush())), "NoLoop");
  await s.flush();
  // A body that throws: its structure is not sent.
  const count = s.cell(bf.Int, 0);
  const thrown = await rejected(() => {
    s.foreach(p.numbers(3), (i) => {
      count.put(i);
      throw new RangeError("not a failure of the test");
    });
  });
  truth(thrown instanceof RangeError, String(thrown));
  const value = count.get();
  equal(misuseOf(await rejected(value)), "Abandoned");
  equal(await value, 0n);
  // A body that is asynchronous, and a value that is used before it is there.
  const asynchronous = (async () => {
    count.put(1);
  }) as unknown as () => void;
  const wrong = await rejected(() => {
    s.foreach(p.numbers(3), asynchronous);
  });
  truth(wrong instanceof TypeError && wrong.message.includes("async"), String(wrong));
  await rejected(s.flush());
  for (const use of [() => `${value as never}`, () => JSON.stringify({ value }), () => [...(value as never)]]) {
    truth((await rejected(use)) instanceof bf.NotClaimedError, "a value is no text");
  }
  truth((await rejected(() => p.sameInt("1" as never))) instanceof TypeError, "a wrong type");
  truth((await rejected(() => p.sameInt(0.5))) instanceof TypeError, "no integer");
  truth((await rejected(() => p.sameInt(2n ** 63n))) instanceof TypeError, "too large");
  truth((await rejected(() => p.sameString("\ud800"))) instanceof TypeError, "half a pair");
  equal(await p.sameInt(5), 5n);
});

test("procedures are kept by the session", async (s, p) => {
  const label = bf.procedure(s, "label", [bf.Str, bf.Int, Item], bf.Str, (prefix, n, item, self) => {
    s.if(n.lt(0), () => {
      self.return("negative");
    });
    return prefix.concat(n.unparse()).concat(item.name());
  });
  const [one, two] = [label.call("x", 1, p.item("a")), label.call(p.sameString("y"), -2, p.counter())];
  equal([await one, await two], ["x1a", "negative"]);
  equal(crossings(s), 1);
  // By name, in a later batch and in a loop.
  equal(bf.findProcedure(s, "label", [bf.Int], bf.Int), undefined, "other types");
  const found = bf.findProcedure(s, "label", [bf.Str, bf.Int, Item], bf.Str);
  const out = s.cell(bf.Str, "");
  s.foreach(p.numbers(3), (i) => {
    if (found) out.put(out.get().concat(found.call(":", i, p.item("b"))));
  });
  equal(await out.get(), ":1b:2b:3b");
  equal(crossings(s), 2);
  // Recursion.
  const factorial = bf.procedure(s, "factorial", [bf.Int], bf.Int, (n, self) => {
    s.if(n.le(1), () => {
      self.return(1);
    });
    return self.call(n.sub(1)).mul(n);
  });
  const [small, large] = [factorial.call(10), factorial.call(21)];
  equal(await small, 3_628_800n);
  equal(await signal(large), "overflow");
  equal(crossings(s), 3);
  // Without result, and without parameters.
  const touch = bf.procedure(s, "touch", [], bf.Done, () => {
    p.counter().add(5);
  });
  touch.call();
  await touch.call();
  equal(await p.counter().value(), 10n);
});

test("numbers signal what has no result", async (s) => {
  const [least, most, one] = [s.value(bf.Int, MIN), s.value(bf.Int, MAX), s.value(bf.Int, 1)];
  const results = [
    [most.add(1), "overflow"],
    [least.sub(1), "overflow"],
    [most.mul(2), "overflow"],
    [least.div(-1), "overflow"],
    [least.neg(), "overflow"],
    [one.div(0), "zero"],
    [one.mod(0), "zero"],
  ] as const;
  for (const [promise, name] of results) equal(await signal(promise), name);
  equal(await s.value(bf.Real, 1).div(0), Infinity);
  equal(crossings(s), 2);
});

const SMALL = ["limits.batch_commands_max=200", "limits.depth_max=4", "limits.frame_bytes_max=65536"];

limited("what is too long is not sent", SMALL, async (s, p) => {
  await s.flush();
  equal(misuseOf(await rejected(p.sameString("x".repeat(65536)))), "TooLong");
  const count = s.cell(bf.Int, 0);
  await s.flush();
  const before = crossings(s);
  s.foreach(p.numbers(1), () => {
    for (let i = 0; i < 3000; i++) count.put(1);
  });
  equal(misuseOf(await rejected(s.flush())), "TooLong");
  equal(crossings(s), before, "nothing of it crossed");
  // Deeper than the server wants.
  const nest = (depth: number): void => {
    if (depth === 0) count.put(2);
    else {
      s.if(s.value(bf.Bool, true), () => {
        nest(depth - 1);
      });
    }
  };
  nest(5);
  equal(misuseOf(await rejected(s.flush())), "TooDeep");
  equal(await count.get(), 0n);
  nest(4);
  equal(await count.get(), 2n);
  // A straight batch goes in parts instead.
  const parts = crossings(s);
  const all = Array.from({ length: 1000 }, (_, i) => p.sameInt(i));
  equal(await all[999], 999n);
  truth(crossings(s) - parts >= 5 && crossings(s) - parts <= 12, `${crossings(s) - parts} crossings`);
  equal(s.exceptions().errors.length, 3, "one for each of the above");
});

limited("endless batches are ended", ["limits.fuel_max=10000", "limits.batch_time_ms_max=60000"], async (s, p) => {
  s.while(
    () => s.value(bf.Bool, true).eq(true),
    () => p.nothing(),
  );
  const after = p.sameInt(1);
  equal(await refusal(after), "OutOfFuel");
  equal((s.exceptions().errors.at(-1) as bf.RefusedError).error, "OutOfFuel");
  equal(await p.sameInt(2), 2n, "the next batch has its own");
  for (let i = 0; i < 2; i++) {
    s.clearExceptions();
    equal(await refusal(s.commit()), "Doomed", "half of it is stored");
  }
  await s.abort();
  await s.commit();
});

limited(
  "batches take no longer than they may",
  ["limits.fuel_max=1000000000000", "limits.batch_time_ms_max=100"],
  async (s, p) => {
    equal(await refusal(p.endless()), "TimeLimit");
    const round = s.cell(bf.Int, 0);
    s.while(
      () => round.get().ge(0),
      () => p.nothing(),
    );
    equal(await refusal(p.sameInt(1)), "TimeLimit");
  },
);

limited("deep calls fail", ["limits.batch_time_ms_max=60000"], async (_, p) => {
  // Calls that are nested too deeply are a failure that Theta can handle, so they do not end the batch.
  equal(await signal(p.depth(100_000_000)), "failure");
  equal(await p.depth(100), 100n);
});

cases.push({
  name: "messages name objects by the calls that they came from",
  settings: [],
  run: async (connect) => {
    const [s, other] = [await connect(), await connect()];
    const counter = s.lookup("counter", Counter);
    equal(await counter.value(), 0n);
    other.lookup("counter", Counter).add(5);
    await other.commit();
    counter.add(1);
    const error = await rejected(s.commit());
    truth(error instanceof bf.RefusedError && error.isConflict, String(error));
    truth(/has changed `Counter` \(the result of `lookup`/.test(error.message), error.message);
    await Promise.all([s.close(), other.close()]);
  },
});

test("a table of rows is one crossing", async (s, p) => {
  const pairs = bf.collect(p.pairs(3), [bf.Int, bf.Str, bf.Int], (n, text) => [n, text, n.add(1)]);
  equal(crossings(s), 0);
  equal(await pairs, [
    [1n, "1", 2n],
    [2n, "2", 3n],
    [3n, "3", 4n],
  ]);
  equal(crossings(s), 1);
  // Objects are stubs, one for each cell, and the values of a row are known.
  p.addItem(p.counter());
  const items = await bf.collect(p.items(), [Item, bf.Str, bf.Bool], (i) => [i, i.name(), i.is(Counter)]);
  equal(crossings(s), 2);
  const names = items.map(([item]) => item.name());
  equal(
    await Promise.all(names),
    items.map(([, name]) => name),
  );
  equal(crossings(s), 3);
  truth(
    items.some(([, , isCounter]) => isCounter),
    "a counter is among them",
  );
});

test("rows come from structures and procedures", async (s, p) => {
  const table = bf.rows(s, bf.Int, bf.Bool);
  table.push(0, true);
  const odd = bf.procedure(s, "odd", [bf.Int], bf.Done, (n) => {
    table.push(n, false);
  });
  s.foreach(p.numbers(4), (n) => {
    s.if(n.mod(2).eq(0), () => {
      table.push(n.mul(10), true);
    }).else(() => odd.call(n));
  });
  equal(await table, [
    [0n, true],
    [1n, false],
    [20n, true],
    [3n, false],
    [40n, true],
  ]);
  equal(crossings(s), 1);
  // The table is gone, and a procedure that adds to it too.
  equal(await refusal(odd.call(7)), "NoSuchProcedure");
});

test("a table of an earlier batch takes no rows", async (s) => {
  const table = bf.rows(s, bf.Int);
  table.push(1);
  equal(await table, [[1n]]);
  table.push(2);
  // Nobody can claim the row, so the next flush tells it.
  const error = await rejected(s.flush());
  truth(error instanceof bf.UnseenError && error.message.includes("ends with its batch"), String(error));
  equal(await table, [[1n]]);
});

test("a row that fails is told", async (s, p) => {
  const table = bf.collect(p.numbers(6), [bf.Int], (n) => [p.choose(n)]);
  const error = await rejected(table);
  truth(error instanceof bf.UnseenError, String(error));
  equal((error as bf.UnseenError).errors.length, 1);
  // Told once, what was there before is there.
  equal(Array.isArray(await table), true);
});

test("types at run time: objects are seen as what they are", async (s, p) => {
  const number = p.tagged().thing(1);
  const [int, isInt, isItem] = [number.as(bf.Int), number.is(bf.Int), number.is(Item)];
  const counter = p.counter();
  const item: Item = counter;
  const value = item.as(Counter).value();
  const wrong = p.fresh().as(Counter).value();
  equal(crossings(s), 0);
  equal([await int, await isInt, await isItem, await value], [1n, true, false, 0n]);
  equal(await signal(wrong), "wrong_type");
  equal(crossings(s), 1);
  // In a loop, with a handler.
  p.addItem(counter);
  const values = bf.rows(s, bf.Str, bf.Int);
  s.foreach(p.items(), (item) => {
    s.except(() => {
      values.push(item.name(), item.as(Counter).value());
    }).whenNamed("wrong_type", [], () => {
      values.push(item.name(), -1);
    });
  });
  const rows = await values;
  truth(rows.some(([, value]) => value >= 0n) && rows.some(([, value]) => value === -1n), show(rows));
});

test("and by a cell live", async (s, p) => {
  const [yes, no] = [p.sameBool(true), p.sameBool(false)];
  const results = [yes.and(() => no), no.or(() => yes), yes.and(() => true), no.and(() => p.item("nobody").is(Item))];
  equal(await Promise.all(results), [false, true, true, false]);
  equal(crossings(s), 1);
  equal(s.exceptions().errors.length, 0, "what is not needed is not run");
});

test("a wait without changes", async (s, p) => {
  await p.counter().value();
  const [changed, value] = [s.wait(20), p.counter().value()];
  equal([await changed, await value], [false, 0n]);
});

test("rows of 255 columns", async (s) => {
  const table = bf.rows(s, ...Array.from({ length: 255 }, () => bf.Int as bf.Type<bf.Int>));
  table.push(...Array.from({ length: 255 }, (_, i) => i));
  const rows = await table;
  equal([rows.length, rows[0]?.length, rows[0]?.[254]], [1, 255, 254n]);
});

test("commands are sent early", async (s, p) => {
  const all = Array.from({ length: 1000 }, (_, i) => p.sameInt(i));
  truth(s.$r.published >= 4096, "the server runs the begin of the batch");
  equal(await all[999], 999n);
  equal(crossings(s), 1);
});

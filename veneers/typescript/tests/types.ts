// What must not compile. Each line below `@ts-expect-error` is refused by `tsc --strict`; one that is
// accepted is an error itself. Nothing here is run.

import * as bf from "bifrost-veneer";
import { importService, Service } from "bifrost-veneer/service";

import { type Counter, Item, NotFound, Probe, type Tagged } from "./stubs/conformance/bifrost_stubs.js";

export async function refused(s: bf.Session, p: Probe, counter: Counter, tagged: Tagged): Promise<void> {
  const n = p.sameInt(1);
  const b = p.sameBool(true);

  const test = (): bf.Bool => b;
  const nothing = (): void => undefined;
  const later = async (): Promise<undefined> => undefined;

  // Bodies that are asynchronous.
  // @ts-expect-error a body is over when it returns
  s.foreach(p.numbers(3), async (i) => p.sameInt(i));
  // @ts-expect-error a body is over when it returns
  s.if(b, async () => n.add(1));
  // @ts-expect-error a body is over when it returns
  s.while(test, later);
  // @ts-expect-error a condition is over when it returns
  s.while(async () => b, nothing);
  // @ts-expect-error a body is over when it returns
  s.except(async () => undefined);
  // @ts-expect-error a body is over when it returns
  s.except(() => undefined).when(NotFound, async () => undefined);
  // @ts-expect-error a body is over when it returns
  s.except(() => undefined).others(async () => undefined);
  // @ts-expect-error a body is over when it returns
  void s.batch(async () => n);
  // @ts-expect-error a body is over when it returns
  void s.transaction(async () => n);
  // @ts-expect-error a body is over when it returns
  bf.procedure(s, "f", [bf.Int], bf.Int, async (x) => x);

  // A promise is no condition of the host, and no operand.
  // @ts-expect-error the value is at the server
  if (b) n.add(1);
  // @ts-expect-error the value is at the server
  void (n + 1);
  // @ts-expect-error the value is at the server
  void (n < 3);
  // @ts-expect-error iterators are run at the server
  for (const i of p.numbers(3)) void i;
  // @ts-expect-error a promise of JavaScript is no stub
  p.sameInt(Promise.resolve(1n));
  // @ts-expect-error an object cannot be claimed
  const claimed: number = await counter;

  // Arguments of other types.
  // @ts-expect-error a text is no integer
  p.sameInt("1");
  // @ts-expect-error a promise of a text is no integer
  p.sameInt(p.sameString("1"));
  // @ts-expect-error another type of object
  p.nameOf(tagged);
  // @ts-expect-error a supertype is no subtype
  const sub: Counter = p.fresh();
  // @ts-expect-error too few arguments
  p.all(true, 1, 0.5, "c");
  // @ts-expect-error there is no such method
  p.nothingLikeIt();
  // @ts-expect-error a field is missing
  p.values().distance({ name: "x", from: { x: 1, y: 2 } });
  // @ts-expect-error there is no such tag
  p.values().area({ tag: "square", value: 1 });
  // @ts-expect-error the tag has another value
  p.values().area({ tag: "circle", value: "x" });

  // Variables, cells, rows and results have types.
  // @ts-expect-error the iterator yields one value
  s.foreach(p.numbers(3), (i, j) => i.add(j));
  // @ts-expect-error a cell of integers
  s.cell(bf.Int, "x");
  // @ts-expect-error a cell of objects
  s.cell(Item).put(n);
  // @ts-expect-error two columns
  bf.rows(s, bf.Int, bf.Str).push(1);
  // @ts-expect-error a column of texts
  bf.collect(p.numbers(3), [bf.Str], (i) => [i]);
  // @ts-expect-error the exception has two values
  s.except(() => undefined).when(NotFound, (name, count, more) => undefined);
  // @ts-expect-error the result is a bigint
  const number: number = await n;
  // @ts-expect-error the procedure has one parameter
  bf.procedure(s, "g", [bf.Int], bf.Int, (x) => x).call(1, 2);
  // @ts-expect-error the procedure returns an integer
  bf.procedure(s, "h", [], bf.Int, () => "x");

  // And what must compile.
  const kept: bigint = await n;
  const text: string = await p.sameString("x").concat("y");
  const rows: [string, bigint][] = await bf.collect(p.pairs(3), [bf.Str, bf.Int], (i, name) => [name, i]);
  const { a, list } = await s.batch(() => ({ a: n.add(1), list: [b, p.counter()] as const }));
  const results: [bigint, boolean, Counter] = [a, list[0], list[1]];
  const item: Item = counter;
  p.addItem(counter);
  p.nameOf(item);
  s.foreach(p.pairs(3), (i) => i.add(1));
  s.if(true, () => s.break());
  void [claimed, sub, number, kept, text, rows, results];
}

export async function refusedServices(service: Service<Probe>): Promise<void> {
  // @ts-expect-error a built-in type is no service
  await importService("trader:///Int", bf.Int);
  // @ts-expect-error a value is no service
  new Service("trader:///Directory", bf.Directory);
  // @ts-expect-error a body is over when it returns
  await service.runNamed(async (_, p) => p.sameInt(1));
  // @ts-expect-error the result is a bigint
  const number: number = await service.run((_, p) => p.sameInt(1));

  // And what must compile.
  const kept: bigint = await service.run((_, p) => p.sameInt(1));
  const later: string = await service.run(async (_, p) => `${await p.sameInt(1)}`);
  const [one, two]: readonly [bigint, string] = await service.runNamed(
    (_, p) => [p.sameInt(1), p.sameString("x")] as const,
  );
  const [session, object]: [bf.Session, Probe] = await importService("trader:///Probe", Probe);
  void [number, kept, later, one, two, session, object];
}

// The cases of `cases/sessions.yaml`: several sessions at one server.

import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { test } from "node:test";

import * as bf from "bifrost-veneer";

import { Server } from "./server.js";
import { connect, NotFound, Row, Table } from "./stubs/hermitage/bifrost_stubs.js";

const PROGRAM = "cases/programs/hermitage.theta";

/** A session, with the table and its rows. */
class Seat {
  readonly s: bf.Session;
  readonly t: Table;
  readonly one: Row;
  readonly two: Row;

  private constructor(s: bf.Session) {
    this.s = s;
    this.t = s.lookup("table", Table);
    this.one = this.t.row(1);
    this.two = this.t.row(2);
  }

  static async take(url: string): Promise<Seat> {
    const seat = new Seat(await connect(url));
    await seat.s.abort();
    return seat;
  }

  async conflicts(): Promise<void> {
    await rejects(Promise.resolve(this.s.commit()), isRefused("Conflict"));
  }

  async values(): Promise<[bigint, bigint]> {
    const [one, two] = [this.one.value(), this.two.value()];
    return [await one, await two];
  }
}

const isRefused = (name: string) => (error: unknown) => {
  ok(error instanceof bf.RefusedError && error.error === name, String(error));
  return true;
};

/** A test with so many sessions at a server of its own. */
function shared(name: string, count: number, run: (...seats: [Seat, Seat, Seat]) => Promise<void>): void {
  test(name, { timeout: 60_000 }, async () => {
    await using server = await Server.serve(PROGRAM);
    const seats: Seat[] = [];
    for (let i = 0; i < count; i++) seats.push(await Seat.take(server.urls[0] as string));
    await run(...(seats as [Seat, Seat, Seat]));
    for (const { s } of seats) await s.close();
  });
}

shared("g0: write cycles", 2, async (a, b) => {
  a.one.put(11);
  await a.s.flush();
  b.one.put(12);
  await b.s.flush();
  a.two.put(21);
  await a.s.commit();
  b.two.put(22);
  await b.conflicts();
  deepEqual(await b.values(), [11n, 21n]);
});

shared("g1a: aborted reads", 2, async (a, b) => {
  a.one.put(101);
  await a.s.flush();
  equal(await b.one.value(), 10n);
  await a.s.abort();
  equal(await b.one.value(), 10n);
  await b.s.commit();
});

shared("g1b: intermediate reads", 2, async (a, b) => {
  a.one.put(101);
  await a.s.flush();
  equal(await b.one.value(), 10n);
  a.one.put(11);
  await a.s.commit();
  equal(await b.one.value(), 10n);
  await b.conflicts();
  equal(await b.one.value(), 11n);
});

shared("g1c: circular information flow", 2, async (a, b) => {
  a.one.put(11);
  await a.s.flush();
  b.two.put(22);
  await b.s.flush();
  equal(await a.two.value(), 20n);
  equal(await b.one.value(), 10n);
  await a.s.commit();
  await b.conflicts();
  deepEqual(await b.values(), [11n, 20n]);
});

shared("otv: observed transaction vanishes", 3, async (a, b, c) => {
  a.one.put(11);
  a.two.put(19);
  await a.s.flush();
  b.one.put(12);
  await b.s.flush();
  await a.s.commit();
  equal(await c.one.value(), 11n);
  b.two.put(18);
  await b.conflicts();
  equal(await c.two.value(), 19n);
  deepEqual(await c.values(), [11n, 19n]);
  await c.s.commit();
});

shared("pmp: predicate many preceders", 2, async (a, b) => {
  equal(await a.t.withValue(30), 0n);
  b.t.insert(3, 30);
  await b.s.commit();
  equal(await a.t.divisible(3), 0n);
  await a.conflicts();
  equal(await a.t.divisible(3), 1n);
  await a.s.commit();
});

shared("pmp with changes", 2, async (a, b) => {
  const remove = (): void => {
    b.s.foreach(b.t.rows(), (row) => {
      b.s.if(row.value().eq(20), () => {
        b.t.remove(row.id());
      });
    });
  };
  a.s.foreach(a.t.rows(), (row) => {
    row.add(10);
  });
  await a.s.flush();
  remove();
  await b.s.flush();
  await a.s.commit();
  await b.conflicts();
  remove();
  await b.s.commit();
  equal(await b.t.total(), 30n);
});

shared("p4: lost update", 2, async (a, b) => {
  const [first, second] = [a.one.value(), b.one.value()];
  deepEqual([await first, await second], [10n, 10n]);
  a.one.put(first.add(1));
  await a.s.commit();
  b.one.put(second.add(1));
  await rejects(Promise.resolve(b.s.commit()), isRefused("Conflict"));
  // The same again, with the value that is there now.
  b.one.put(b.one.value().add(1));
  await b.s.commit();
  equal(await b.one.value(), 12n);
});

shared("g single: read skew", 2, async (a, b) => {
  equal(await a.one.value(), 10n);
  b.one.put(12);
  b.two.put(18);
  await b.s.commit();
  equal(await a.two.value(), 20n);
  a.two.put(0);
  await a.conflicts();
  deepEqual(await a.values(), [12n, 18n]);
  await a.s.commit();
});

shared("g2 item: write skew", 2, async (a, b) => {
  deepEqual(await a.values(), [10n, 20n]);
  deepEqual(await b.values(), [10n, 20n]);
  a.one.put(11);
  await a.s.flush();
  b.two.put(21);
  await b.s.flush();
  await a.s.commit();
  await b.conflicts();
  equal(await b.t.total(), 31n);
});

shared("g2: anti-dependency cycles", 2, async (a, b) => {
  deepEqual([await a.t.divisible(3), await b.t.divisible(3)], [0n, 0n]);
  a.t.insert(3, 30);
  await a.s.flush();
  b.t.insert(4, 42);
  await b.s.flush();
  await a.s.commit();
  await b.conflicts();
  b.s.if(b.t.divisible(3).eq(0), () => {
    b.t.insert(4, 42);
  });
  await b.s.commit();
  equal(await b.t.divisible(3), 1n);
});

shared("g2: two edges", 3, async (a, b, c) => {
  equal(await a.t.total(), 30n);
  b.two.add(5);
  await b.s.commit();
  equal(await c.t.total(), 35n);
  await c.s.commit();
  a.one.put(0);
  await a.conflicts();
  equal(await a.t.total(), 35n);
});

shared("changes are seen after the commit", 2, async (a, b) => {
  const three = a.t.insert(3, 30);
  await a.s.flush();
  await rejects(b.t.row(3).resolve(), NotFound);
  equal(await b.t.total(), 30n);
  await b.s.commit();
  await a.s.commit();
  const same = b.t.row(3);
  equal(await b.t.total(), 60n);
  same.add(1);
  await b.s.commit();
  equal(await three.value(), 31n);
});

test("changes of different objects do not conflict", { timeout: 60_000 }, async () => {
  await using server = await Server.serve(PROGRAM);
  const sessions = [await connect(server.urls[0] as string), await connect(server.urls[0] as string)];
  const rows = sessions.map((s, at) => s.lookup("table", Table).row(at + 1));
  for (const s of sessions) await s.abort();
  for (const row of rows) row.add(1);
  for (const s of sessions) await s.flush();
  for (const s of sessions) await s.commit();
  for (const s of sessions) {
    equal(await s.lookup("table", Table).total(), 32n);
    await s.close();
  }
});

shared("commands behind a conflict are not reached", 2, async (a, b) => {
  equal(await b.one.value(), 10n);
  a.one.add(1);
  await a.s.commit();
  b.one.add(1);
  const done = Promise.resolve(b.s.commit());
  b.one.add(1);
  const value = b.one.value();
  await rejects(done, isRefused("Conflict"));
  // The failure is that of the commit, from which this one follows.
  await rejects(Promise.resolve(value), isRefused("Conflict"));
  equal(await b.one.value(), 11n);
});

shared("a conflict undoes objects", 2, async (a, b) => {
  equal(await a.t.total(), 30n);
  const three = a.t.insert(3, 1);
  await a.s.flush();
  b.t.insert(3, 2);
  await b.s.commit();
  await a.conflicts();
  await rejects(Promise.resolve(three.value()), isRefused("NoSuchHandle"));
  equal(await a.t.row(3).value(), 2n);
  await a.s.commit();
});

shared("conflicts are run again by the server", 3, async (...seats) => {
  const add = async ({ s, t }: Seat): Promise<void> => {
    await s.transaction(
      () => {
        s.foreach(s.value(bf.Int, 1).to(1000), () => {
          s.foreach(t.rows(), (row) => {
            row.add(1);
          });
        });
        return [];
      },
      { tries: 30 },
    );
  };
  await Promise.all(seats.map(add));
  equal(await seats[0].t.total(), 6030n);
});

shared("a wait is ended by a change", 2, async (a, b) => {
  equal(await a.one.value(), 10n);
  const changed = a.s.wait(60_000);
  const [after, done] = [a.one.value(), a.s.commit()];
  a.s.sendBatch();
  b.one.put(11);
  await b.s.abort();
  b.one.put(12);
  await b.s.commit();
  deepEqual([await changed, await after], [true, 12n]);
  await done;
});

shared("a wait misses no change", 2, async (a, b) => {
  equal(await a.one.value(), 10n);
  b.two.put(21);
  await b.s.commit();
  equal(await a.s.wait(10), false);
  b.one.put(11);
  await b.s.commit();
  equal(await a.s.wait(60_000), true);
  equal(await a.one.value(), 11n);
});

shared("a live batch is run again", 2, async (a, b) => {
  const before = a.s.counters.crossings;
  const rows = () => bf.collect(a.t.rows(), [bf.Int, bf.Int], (row) => [row.id(), row.value()]);
  const seen: (readonly (readonly [bigint, bigint])[])[] = [];
  for await (const view of a.s.live(rows)) {
    if (seen.push(view) === 3) break;
    if (seen.length === 1) b.two.put(22);
    else {
      b.t.insert(3, 30);
      b.t.remove(1);
    }
    await b.s.commit();
  }
  const [first, second, third] = seen.map((view) => view.map(([id, value]) => [Number(id), Number(value)]));
  deepEqual([first, second], [[[1, 10], [2, 20]], [[1, 10], [2, 22]]]); // prettier-ignore
  deepEqual(third, [[2, 22], [3, 30]]); // prettier-ignore
  equal(a.s.counters.crossings, before + 3);
});

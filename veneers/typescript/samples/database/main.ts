// A client of `examples/database/database.theta`.
//
// `bifrost veneer --lang typescript examples/database/database.theta -o samples/database` made the stubs.

import * as bf from "bifrost-veneer";

import { connect, DataBase, DataElem, NotFound, root } from "./bifrost_stubs.js";

const s = await connect(process.env["BIFROST_URL"] ?? "");
const db = s.lookup("database", DataBase);

// Calls are recorded; `await` sends all of them at once and waits for the value.
const eve = db.fetch("eve");
eve.touch();
eve.touch();
console.log(`eve: ${await eve.visits()} visits`);
console.log(`commands: ${s.counters.calls}, crossings: ${s.counters.crossings}`);

// A loop over an iterator of the server. It crosses as a whole; the body runs once, here.
const total = s.cell(bf.Int, 0);
s.foreach(db.users(), (e) => {
  s.if(e.visits().gt(0), () => total.put(total.get().add(e.visits())));
});
console.log(`visits in all: ${await total.get()}`);

// A loop whose state is in a cell at the server.
const round = s.cell(bf.Int, 0);
s.while(
  () => round.get().lt(1000),
  () => {
    eve.touch();
    round.put(round.get().add(1));
  },
);
console.log(`eve: ${await eve.visits()} visits`);

// What goes wrong is told where a value is claimed, and can be handled at the server.
try {
  await db.fetch("zoe").name();
} catch (error) {
  if (error instanceof NotFound) console.log(`zoe: ${error.signal}`);
  else throw error;
}
const found = s.cell(DataElem);
s.except(() => found.put(db.fetch("zoe"))).when(NotFound, () => found.put(db.newUser("zoe")));
console.log(`${await found.get().name()} is there now`);

// A table of all users: one crossing, whatever their number.
for (const [name, visits] of await bf.collect(db.users(), [bf.Str, bf.Int], (e) => [e.name(), e.visits()])) {
  console.log(`${name}: ${visits} visits`);
}

// A struct as argument and a sequence as result: values cross with all their items.
const often = db.matching({ prefix: "e", visits: 2 });
console.log(`often here: ${JSON.stringify(await often.get())}`);

// The root directory has objects of any type. A cast inside a loop makes them what they are.
const names = root(s);
const eves = bf.rows(s, bf.Str, bf.Int);
s.foreach(names.list(), (name) => {
  const object = names.lookup(name);
  s.if(object.is(DataBase), () => {
    eves.push(name, object.as(DataBase).fetch("eve").visits());
  });
});
console.log(`eve's visits, by database: ${(await eves).map(([name, visits]) => `${name} ${visits}`).join(", ")}`);

// Others see what this session has done when it commits. A failure that nobody was told of would
// prevent that; zoe's was told.
await s.commit();
await s.close();

// A client among many of one server: `visitor.mjs NAME TIMES` visits Ann and a person of its own, so many times.
// `veneers/together.sh` runs it beside clients in other languages, over other media.

import { connect, DataBase } from "../samples/database/bifrost_stubs.js";

const [name = "", times = "0"] = process.argv.slice(2);
await using s = await connect(process.env["BIFROST_URL"] ?? "");
const db = s.lookup("database", DataBase);
const own = await s.transaction(() => db.newUser(name));
let last = -1n;
for (let i = 0; i < Number(times); i++) {
  const seen = await s.transaction(() => {
    const ann = db.fetch("ann");
    ann.touch();
    own.touch();
    return ann.visits();
  });
  if (seen <= last) throw new Error(`Ann had ${last} visits, and has ${seen}`);
  last = seen;
}
console.log(`${name}: ${await own.visits()} visits, Ann at least ${last}`);

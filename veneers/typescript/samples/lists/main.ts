// A client of `examples/lists/lists.theta`: the conversation of `client.bifrost`.

import * as bf from "bifrost-veneer";

import { connect, IntList, nth } from "./bifrost_stubs.js";

await using s = await connect(process.env["BIFROST_URL"] ?? "");

// Ten steps along the list, one crossing: every step uses a result that does not exist yet.
const squares = s.lookup("squares", IntList);
let last = squares;
for (let step = 0; step < 9; step++) last = last.next();
console.log(`the 10th is ${await last.first()}`);

// How far the list goes is not known here: a WHILE finds out over there.
const at = s.cell(IntList, squares);
const count = s.cell(bf.Int, 0);
s.while(
  () => at.get().notEmpty(),
  () => {
    count.put(count.get().add(1));
    at.put(at.get().next());
  },
);
console.log(`it has ${await count.get()} elements`);

// The same as a routine that the program has.
console.log(`the 10th is ${await nth(s, squares, 10)}`);
try {
  await nth(s, squares, 101);
} catch (error) {
  if (error instanceof bf.SignalError) console.log(`the 101st: ${error.signal}`);
  else throw error;
}

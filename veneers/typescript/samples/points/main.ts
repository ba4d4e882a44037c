// A client of `examples/points/points.theta`: the conversation of `client.bifrost`.

import * as bf from "bifrost-veneer";

import { connect, ListOfInt, Point } from "./bifrost_stubs.js";

await using s = await connect(process.env["BIFROST_URL"] ?? "");

// Swap the coordinates of a point, step by step: one crossing.
const p = s.lookup("home", Point);
const x = p.x();
p.setX(p.y());
p.setY(x);
console.log(`x = ${await p.x()}, y = ${await p.y()}`);

// A procedure is a batch with a name: defined once, called like a routine.
const move = bf.procedure(s, "move", [Point, bf.Int], bf.Done, (point, by) => {
  point.setX(point.x().add(by));
  point.setY(point.y().add(by));
});
move.call(p, 10);
move.call(p, 100);
const [left, top] = await s.batch(() => [p.x(), p.y()] as const);
console.log(`x = ${left}, y = ${top}`);

// The sum of a list, with a WHILE over a cell.
const at = s.cell(ListOfInt, s.lookup("primes", ListOfInt));
const sum = s.cell(bf.Int, 0);
s.while(
  () => at.get().notEmpty(),
  () => {
    sum.put(sum.get().add(at.get().first()));
    at.put(at.get().next());
  },
);
console.log(`sum = ${await sum.get()}`);

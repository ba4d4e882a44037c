// A client of `examples/auctions/auctions.theta`: actors, their requests and messages.

import * as bf from "bifrost-veneer";

import { connect, House, TooLow } from "./bifrost_stubs.js";

await using s = await connect(process.env["BIFROST_URL"] ?? "");

// Two auctions. Their references are used before they are known, and the first two bids run at the
// same time.
const house = s.lookup("house", House);
const lamp = house.open("lamp", 10);
const clock = house.open("clock", 50);
const [first, second] = await s.batch(() => [lamp.bid(12), clock.bid(60)] as const);
console.log(`bids: ${first + second}`);

// A bid that is too low is an exception of the call, and the rest goes on.
const [low, price] = [lamp.bid(11), clock.price()];
try {
  await low;
} catch (error) {
  if (error instanceof TooLow) console.log(`too low: ${error.values[0]} is offered`);
  else throw error;
}
console.log(`the clock: ${await price}`);

// Bids in a loop: all are sent before the first is awaited. Failures are told with their rounds.
s.foreach(s.value(bf.Int, 1).to(5), (n) => lamp.bid(n.mul(5)));
const lampPrice = lamp.price();
await s.flush().catch((error: unknown) => {
  if (!(error instanceof bf.UnseenError)) throw error;
  for (const one of error.errors) console.log(String(one));
});
console.log(`the lamp: ${await lampPrice}`);

// Nobody waits for a message, and messages of a session to an actor arrive in the order in which
// they were sent.
clock.send.bid(70);
clock.send.bid(65);
console.log(`the clock: ${await clock.price()}`);

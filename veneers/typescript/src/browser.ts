// The package `bifrost-veneer` for browsers: websockets only.

import { connectWith } from "./connect.js";
import { type Dial, overSocket, parseAddress, type Socket } from "./connection.js";

export * from "./common.js";

const dial: Dial = (address, _, signal) => {
  const { scheme, pin } = parseAddress(address);
  if (!scheme.startsWith("ws")) throw new TypeError("a browser opens ws:// and wss:// addresses only");
  if (pin) throw new TypeError("a browser cannot compare the keys of servers: leave the pin away");
  return overSocket(new WebSocket(address, "bifrost.1") as unknown as Socket, signal);
};

/** Opens a session; `connect` of a generated module calls it. */
export const connect = connectWith(dial);

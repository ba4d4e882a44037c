// The package `bifrost-veneer` for browsers: websockets only.

import { connectWith } from "./connect.js";
import { type Dial, overSocket, type Socket } from "./connection.js";

export * from "./common.js";

const dial: Dial = async (address, _, signal) => {
  if (!/^wss?:/.test(address)) throw new TypeError("a browser opens ws:// and wss:// addresses only");
  if (address.includes("#")) throw new TypeError("a browser cannot compare the keys of servers: leave the pin away");
  return overSocket(new WebSocket(address, "bifrost.1") as unknown as Socket, signal);
};

/** Opens a session; `connect` of a generated module calls it. */
export const connect = connectWith(dial);

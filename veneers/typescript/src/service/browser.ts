// The module `bifrost-veneer/service` for browsers: traders and servers over websockets.
//
// A page knows no variables, so it names its traders in the option `traders`:
// `importService("trader:///DataBase", DataBase, { traders: ["wss://trader.example/"] })`.

import { connect as connectTo } from "../browser.js";
import type { Remote } from "../stub.js";
import { moduleOn } from "./import.js";
import type { ServiceOf } from "./service.js";

export * from "./common.js";

export const { importService, connect, findOffers, Service } = moduleOn({
  connect: connectTo,
  schemes: ["wss", "ws"],
  host: () => "",
  variable: () => "",
  // A page cannot resolve names.
  isLoopback: (host) => Promise.resolve(host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host)),
  turn: () => new Promise((resolve) => setTimeout(resolve)),
});

/** A service at traders, and a session with one server of it. */
export type Service<S extends Remote> = ServiceOf<S>;

// The module `bifrost-veneer/service` for Node: servers that a trader knows, and services that stay.

import { lookup } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { BlockList, isIPv6 } from "node:net";

import { connect as connectTo } from "../index.js";
import type { Remote } from "../stub.js";
import { moduleOn } from "./import.js";
import type { ServiceOf } from "./service.js";

export * from "./common.js";

/** The file with the identity of a Linux machine's boot. */
const BOOT = "/proc/sys/kernel/random/boot_id";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

export const { importService, connect, findOffers, Service } = moduleOn({
  connect: connectTo,
  schemes: ["unix", "tls", "tcp", "wss", "ws"],
  host() {
    try {
      return readFileSync(BOOT, "utf8").trim();
    } catch {
      return "";
    }
  },
  variable: (name) => process.env[name] ?? "",
  async isLoopback(host) {
    const found = await lookup(host, { all: true }).catch(() => []);
    return found.length > 0 && found.every(({ address }) => loopback.check(address, isIPv6(address) ? "ipv6" : "ipv4"));
  },
  async turn() {
    // The first one may be in the turn that is under way; a socket is closed behind the second one.
    for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
  },
});

/** A service at traders, and a session with one server of it. */
export type Service<S extends Remote> = ServiceOf<S>;

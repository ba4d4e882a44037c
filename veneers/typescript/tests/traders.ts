// Clients of traders under test: exports of any addresses, and waiting for what must come.

import { createServer } from "node:net";
import { readFileSync } from "node:fs";

import type { Session } from "bifrost-veneer";

import { connect, type Lease, Trader } from "../src/service/trader/bifrost_stubs.js";
import { json } from "../samples/database/bifrost_stubs_interface.js";
import type { Server } from "./server.js";

/** The machine, for exports of sockets. */
export const HOST = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();

/** Arguments of a server that listens over TCP, too. */
export const TCP = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];

/** The URL of databases at a trader. */
export const urlOf = (trader: Server, query = ""): string =>
  `trader+${trader.urls[0] as string}?service=DataBase${query && `&${query}`}`;

/** Waits until a condition holds, and fails after this time. */
export async function until(what: string, holds: () => unknown, ms = 20_000): Promise<void> {
  const start = performance.now();
  while (!(await holds())) {
    if (performance.now() - start > ms) throw new Error(`${what}: not within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** An exporter of databases, whose leases are a minute long. */
export class Exporter {
  private readonly session: Session;
  private readonly trader: Trader;

  private constructor(session: Session) {
    this.session = session;
    this.trader = session.lookup("trader", Trader);
  }

  static async at(trader: Server): Promise<Exporter> {
    return new Exporter(await connect(trader.urls[0] as string));
  }

  /** Exports a database with these properties. */
  async database(name: string, addresses: readonly string[], properties = "", interfaceJson = json): Promise<Lease> {
    const digest = this.trader.teach(interfaceJson);
    const lease = this.trader.advertise("DataBase", digest, name, addresses, properties, 60_000);
    return lease.resolve();
  }

  /** Returns the number of offers for this machine. */
  async count(query = ""): Promise<number> {
    const found = await this.trader.find("DataBase", "", query, 0, HOST).get();
    return found.offers.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.session.close();
  }
}

/** An address at which nobody listens. */
export const NOBODY = "tcp://127.0.0.1:1";

/** A place that takes connections and says nothing. */
export class Silent {
  readonly address: string;
  private readonly server: ReturnType<typeof createServer>;

  private constructor(server: ReturnType<typeof createServer>) {
    this.server = server;
    this.address = `tcp://127.0.0.1:${(server.address() as { port: number }).port}`;
  }

  static async listen(): Promise<Silent> {
    const server = createServer((socket) => socket.on("error", () => undefined).unref());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Silent(server);
  }

  [Symbol.dispose](): void {
    this.server.close();
  }
}

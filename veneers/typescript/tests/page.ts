// The tests in a browser: L2 whole, and L3 over websockets. The runner (`chromium.test.ts`) serves this
// page, and starts a server for each live case.

import * as bf from "bifrost-veneer";
import { Service } from "bifrost-veneer/service";

import { DataBase } from "../samples/database/bifrost_stubs.js";
import { cases as live } from "./conformance.js";
import { connect } from "./stubs/conformance/bifrost_stubs.js";
import * as vectors from "./stubs/vectors/bifrost_stubs.js";
import { cases } from "./vectors.js";

declare global {
  /** Starts a server with these settings; returns its address. */
  function serve(program: string, settings: readonly string[]): Promise<string>;
  function endServer(url: string): Promise<void>;
}

/** What failed. */
type Outcome = { readonly passed: number; readonly failed: string[] };

async function run(all: readonly { name: string; run: () => unknown }[]): Promise<Outcome> {
  const failed: string[] = [];
  for (const one of all) {
    try {
      await one.run();
    } catch (error) {
      failed.push(`${one.name}: ${String(error)}`);
    }
  }
  return { passed: all.length - failed.length, failed };
}

const PROGRAM = "cases/programs/conformance.theta";

/** Shows the users of the database, and follows their changes. */
async function database(url: string, changes: number): Promise<string[]> {
  const [s, writer] = await Promise.all([vectors.connect(url), vectors.connect(url)]);
  const list = document.querySelector("#users") as HTMLElement;
  const seen: string[] = [];
  const db = s.lookup("database", vectors.DataBase);
  const eve = writer.lookup("database", vectors.DataBase).fetch("eve");
  let left = changes;
  for await (const rows of s.live(() => bf.collect(db.users(), [bf.Str, bf.Int], (e) => [e.name(), e.visits()]))) {
    const text = rows.map(([name, visits]) => `${name}: ${visits} visits`).join("\n");
    list.textContent = text;
    seen.push(text);
    if (left-- === 0) break;
    eve.touch();
    await writer.commit();
  }
  await Promise.all([s.close(), writer.close()]);
  return seen;
}

Object.assign(globalThis, {
  runVectors: () => run(cases()),
  runLive: () =>
    run(
      live.map(({ name, settings, run }) => ({
        name,
        run: async () => {
          const url = await serve(PROGRAM, settings);
          try {
            await run(() => connect(url));
          } finally {
            await endServer(url);
          }
        },
      })),
    ),
  runDatabase: database,
  /** Visits, by a service at these traders. */
  runService: async (traders: readonly string[]) => {
    await using service = new Service("trader:///DataBase?region=eu", DataBase, { traders, timeout: 20_000 });
    const visits = await service.runNamed((_, db) => {
      const eve = db.fetch("eve");
      eve.touch();
      return eve.visits();
    });
    return `${visits} visits at ${service.server?.address}`;
  },
  /** What the browser cannot open. */
  runRefused: async (url: string) => {
    const refusals: string[] = [];
    for (const address of [
      "unix:///tmp/x",
      "tcp://127.0.0.1:1",
      `${url.replace("ws:", "wss:")}#sha256-${"x".repeat(43)}`,
      url,
    ]) {
      await connect(address, { timeout: 5000 }).then(
        () => refusals.push("opened"),
        (error: unknown) => refusals.push(String(error)),
      );
    }
    return refusals;
  },
});
document.body.dataset["ready"] = "yes";

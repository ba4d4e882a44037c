// The tests in headless Chromium: L2, L3 over websockets, the database with a live batch.

import { deepEqual, equal, match } from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";

import { ROOT, Server } from "./server.js";
import { Exporter } from "./traders.js";

const PAGE = `<!doctype html><meta charset="utf-8"><title>Bifrost</title>
<h1>Users</h1><pre id="users"></pre><script type="module" src="/page.mjs"></script>`;

const executablePath = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(
  (path) => path && existsSync(path),
);

let browser: Browser;
let page: Page;
let origin = "";
const servers = new Map<string, Server>();
const http = createServer((request, response) => {
  const isScript = request.url === "/page.mjs";
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.end(isScript ? readFileSync(join(ROOT, "veneers/typescript/build/browser/tests/page.mjs")) : PAGE);
});

async function serve(program: string, settings: readonly string[], origins = [origin]): Promise<string> {
  const all = [...settings, `websocket.origins=${JSON.stringify(origins)}`].flatMap((setting) => ["--set", setting]);
  const server = await Server.serve(program, "--listen", "ws://127.0.0.1:0", "--anonymous-loopback", ...all);
  const url = server.urls[1] as string;
  servers.set(url, server);
  return url;
}

async function endServer(url: string): Promise<void> {
  await servers.get(url)?.end();
  servers.delete(url);
}

before(async () => {
  if (!executablePath) throw new Error("there is no Chromium: install it, or set CHROMIUM to its path");
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(http.address() as { port: number }).port}`;
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  page = await browser.newPage();
  page.on("pageerror", (error) => {
    console.error("page:", error);
  });
  await page.exposeFunction("serve", serve);
  await page.exposeFunction("endServer", endServer);
  await page.goto(origin);
  await page.waitForSelector("body[data-ready]");
});

after(async () => {
  await browser?.close();
  http.close();
  for (const url of [...servers.keys()]) await endServer(url);
});

type Outcome = { passed: number; failed: string[] };

test("Chromium: every vector", { timeout: 300_000 }, async () => {
  const { passed, failed } = await page.evaluate<Outcome>("runVectors()");
  deepEqual(failed, []);
  equal(passed > 900, true, `${passed} cases`);
});

test("Chromium: the conformance program over websockets", { timeout: 300_000 }, async () => {
  const { passed, failed } = await page.evaluate<Outcome>("runLive()");
  deepEqual(failed, []);
  equal(passed > 25, true, `${passed} cases`);
});

test("Chromium: the database, live", { timeout: 60_000 }, async () => {
  const url = await serve("examples/database/database.theta", []);
  const seen = await page.evaluate<string[]>(`runDatabase(${JSON.stringify(url)}, 3)`);
  const users = (visits: number): string => `ann: 0 visits\nbob: 0 visits\neve: ${visits} visits`;
  deepEqual(seen, [0, 1, 2, 3].map(users));
  equal(await page.textContent("#users"), users(3));
  const screenshot = process.env["BIFROST_SCREENSHOT"];
  if (screenshot) await page.screenshot({ path: screenshot });
});

test("Chromium: a service through a trader", { timeout: 60_000 }, async () => {
  const url = await serve("examples/database/database.theta", []);
  const origins = ["--set", `websocket.origins=${JSON.stringify([origin])}`];
  const listen = ["--listen", "ws://127.0.0.1:0", "--anonymous-loopback", ...origins, "--trust-addresses"];
  await using trader = await Server.trader(...listen);
  await using exporter = await Exporter.at(trader);
  await exporter.database("database", ["unix:///nowhere", url], "region=eu");
  const traders = JSON.stringify(["ws://127.0.0.1:1", trader.urls[1]]);
  equal(await page.evaluate<string>(`runService(${traders})`), `1 visits at ${url}`);
});

test("Chromium: what a page cannot open", { timeout: 60_000 }, async () => {
  const url = await serve("examples/database/database.theta", [], ["https://elsewhere.example"]);
  const refused = await page.evaluate<string[]>(`runRefused(${JSON.stringify(url)})`);
  match(refused[0] as string, /opens ws:\/\/ and wss:\/\/ addresses only/);
  match(refused[1] as string, /opens ws:\/\/ and wss:\/\/ addresses only/);
  match(refused[2] as string, /cannot compare the keys/);
  match(refused[3] as string, /ConnectError/);
});

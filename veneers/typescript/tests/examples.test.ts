// The clients of the examples print what those in Rust print, over real servers and traders.
//
// BIFROST_EXAMPLES is the folder with the programs `thumbnail` and `thumbnail-server`; without it that of BIFROST_BIN.

import { deepEqual, equal, match, ok } from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { program, ROOT, Server } from "./server.js";
import { until } from "./traders.js";

const BUILD = join(ROOT, "veneers/typescript/build/examples");
const PROGRAMS = process.env["BIFROST_EXAMPLES"] ?? dirname(program);

/** The environment without the settings of whoever runs the tests. */
const CLEAN = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BIFROST_")));

interface Said {
  readonly out: string;
  readonly err: string;
  readonly status: number;
}

/** Runs a program. */
function run(file: string, args: readonly string[], variables: Readonly<Record<string, string>> = {}): Promise<Said> {
  return new Promise((resolve) => {
    const child = execFile(file, args, { env: { ...CLEAN, ...variables } }, (_, out, err) => {
      resolve({ out, err, status: child.exitCode ?? -1 });
    });
  });
}

test("the client of the packages prints what the one in Rust prints", async () => {
  const folder = join(ROOT, "examples/packages");
  const client = join(BUILD, "packages/typescript/packages-client.mjs");
  await using server = await Server.serve("examples/packages/packages.theta", "--store", "FOLDER/store");
  const say = async (...args: string[]): Promise<string> => {
    const said = await run(process.execPath, [client, ...args], { BIFROST_URL: server.urls[0] as string });
    deepEqual([said.err, said.status], ["", 0]);
    return said.out;
  };
  let said = await say("import", join(folder, "sample.txt"));
  said += await say("closure", "wget");
  said += await say("dependents", "libgcc-s1");
  equal(said, readFileSync(join(folder, "rust/output.txt"), "utf8"));
  for (const args of [[], ["closure"], ["walk", "wget"]]) {
    const wrong = await run(process.execPath, [client, ...args], { BIFROST_URL: server.urls[0] as string });
    match(wrong.err, /^packages-client import FILE/);
    equal(wrong.status, 1);
  }
});

/** The server of the thumbnails, whose actor is in Rust. */
const THUMBNAILS = join(PROGRAMS, "thumbnail-server");

/** Writes pictures of several sizes. */
function pictures(folder: string, count: number): string[] {
  mkdirSync(folder, { recursive: true });
  return Array.from({ length: count }, (_, at) => {
    const [width, height] = [90 + at, 180 - at];
    const pixels = Uint8Array.from({ length: 3 * width * height }, (_, byte) => (byte * (at + 1)) % 256);
    const file = join(folder, `picture${at}.ppm`);
    writeFileSync(file, Buffer.concat([Buffer.from(`P6 ${width} ${height} 255\n`), pixels]));
    return file;
  });
}

/** Two traders, and two servers that export to both. */
async function thumbnails(): Promise<{ traders: Server[]; servers: Server[]; variables: Record<string, string> }> {
  ok(existsSync(THUMBNAILS), `there is no ${THUMBNAILS}: cargo build -p thumbnails`);
  const trader = (): Promise<Server> => Server.start(THUMBNAILS, "trader", "--listen", "unix://FOLDER/socket");
  const traders = await Promise.all([trader(), trader()]);
  const urls = traders.map(({ urls }) => urls[0] as string);
  const exported = ["--export", "thumbnails:Thumbnails", ...urls.flatMap((url) => ["--trader", url])];
  const theta = join(ROOT, "examples/thumbnails/thumbnails.theta");
  const serve = (): Promise<Server> =>
    Server.start(THUMBNAILS, "serve", "--listen", "unix://FOLDER/socket", ...exported, theta);
  const servers = await Promise.all([serve(), serve()]);
  for (const url of urls) {
    const list = ["trader", "list", "--json", "--trader", url];
    await until("two servers", async () => (await run(THUMBNAILS, list)).out.split("\n").length === 3);
  }
  return { traders, servers, variables: { BIFROST_TRADER: urls.join(",") } };
}

const CLIENT = join(BUILD, "thumbnails/typescript/thumbnail.mjs");

test("the client of the thumbnails prints what the one in Rust prints", async () => {
  const { traders, servers, variables } = await thumbnails();
  const folder = (servers[0] as Server).folder;
  const all = pictures(join(folder, "pictures"), 12);
  const none = join(folder, "none.ppm");
  writeFileSync(none, "no picture");
  const copies = join(folder, "copies");
  const make = async (file: string, ...first: string[]): Promise<[lines: string[], files: Map<string, Buffer>]> => {
    rmSync(copies, { recursive: true, force: true });
    const said = await run(file, [...first, "--side", "48", "-o", copies, ...all, none], variables);
    equal(said.status, 1, "one is no picture");
    const counts = said.err.split("\n").map((line) => /^(\d+) by unix:/.exec(line)?.[1] ?? 0);
    equal(
      counts.reduce((sum: number, count) => sum + Number(count), 0),
      all.length,
      said.err,
    );
    const files = readdirSync(copies).map((name) => [name, readFileSync(join(copies, name))] as const);
    return [said.out.split("\n").sort(), new Map(files)];
  };
  const [lines, files] = await make(process.execPath, CLIENT);
  const [expected, expectedFiles] = await make(join(PROGRAMS, "thumbnail"));
  // Texts of errors are the language's own.
  const isError = (line: string): boolean => line.includes(": error: ");
  const [error] = lines.filter(isError);
  match(error ?? "", /none.ppm: error: .*Thumbnails.shrink signalled no_picture/);
  match(expected.find(isError) ?? "", /none.ppm: error: .*no_picture/);
  const made = lines.filter((line) => !isError(line));
  equal(made.length, all.length + 1);
  deepEqual(
    made,
    expected.filter((line) => !isError(line)),
  );
  deepEqual(files, expectedFiles);
  await Promise.all([...traders, ...servers].map((one) => one.end()));
});

test("a server and a trader that are killed cost no thumbnail", async () => {
  const { traders, servers, variables } = await thumbnails();
  const folder = (servers[1] as Server).folder;
  const all = pictures(join(folder, "pictures"), 60);
  const copies = join(folder, "copies");
  const args = [CLIENT, "--side", "48", "-o", copies, ...all];
  const client = spawn(process.execPath, args, {
    env: { ...CLEAN, ...variables },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => client.once("exit", resolve));
  const lines: string[] = [];
  for await (const line of createInterface(client.stdout)) {
    lines.push(line);
    // While pictures are under way.
    if (lines.length === 10) {
      servers[0]?.kill("SIGKILL");
      traders[0]?.kill("SIGKILL");
    }
  }
  equal(await ended, 0, lines.join("\n"));
  equal(lines.length, all.length);
  equal(readdirSync(copies).length, all.length);
  await Promise.all([...traders, ...servers].map((one) => one.end()));
});

test("a client without a trader says what to do", async () => {
  const folder = join(ROOT, "veneers/typescript/build/none");
  const said = await run(process.execPath, [CLIENT, "-o", folder, "picture.ppm"]);
  equal(said.status, 1);
  match(said.out, /^picture.ppm: error: the URL names no trader, and BIFROST_TRADER is not set/);
  const wrong = await run(process.execPath, [CLIENT, "--side", "many", "picture.ppm"]);
  match(wrong.err, /^thumbnail \[OPTIONS\] PICTURE/);
  rmSync(folder, { recursive: true });
});

// Installs the package in an empty folder, and runs the README's client from there.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const PLACES = `import { connect, DataBase } from "./bifrost_stubs.js";
const s = await connect(process.env["BIFROST_URL"] ?? "", { debug: true });
const db = s.lookup("database", DataBase);
const name = db.fetch("nobody").name();
await name.catch((error) => console.log(String(error)));
await s.close();
`;
const here = resolve(import.meta.dirname, "..");
const program = process.env.BIFROST_BIN;
const folder = mkdtempSync(join(tmpdir(), "bifrost-installed-"));
const run = (command, ...args) =>
  execFileSync(command, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const children = [];
/** Starts a command of the server's program, and waits until it is ready. */
const start = async (...args) => {
  // Variables of the tests are no settings of a server.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BIFROST_")));
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  await new Promise((ready, failed) => {
    child.stdout.once("data", ready);
    child.once("exit", () => failed(new Error(`${args[0]} did not start`)));
  });
};
try {
  const [tarball] = readdirSync(join(here, "build/package"));
  const readme = readFileSync(join(here, "README.md"), "utf8");
  const [client, service] = [/```ts\n([^]*?)```/, /```ts\n(import { Service }[^]*?)```/].map(
    (block) => block.exec(readme)[1],
  );
  const [, output] = /```text\n([^]*?)```/.exec(readme);
  const theta = join(here, "../../examples/database/database.theta");
  writeFileSync(join(folder, "package.json"), '{ "name": "client", "private": true, "type": "module" }\n');
  run("npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", join(here, "build/package", tarball));
  writeFileSync(join(folder, "main.ts"), client);
  writeFileSync(join(folder, "places.ts"), PLACES);
  writeFileSync(join(folder, "service.ts"), service);
  run(program, "veneer", "--lang", "typescript", theta, "-o", ".");
  // As a program of its own: strict, with the types of the package.
  const types = join(here, "node_modules/@types");
  run(
    process.execPath,
    join(here, "node_modules/typescript/bin/tsc"),
    ...["--strict", "--target", "es2022", "--lib", "es2022,esnext.disposable,dom", "--module", "nodenext"],
    ...["--typeRoots", types, "--types", "node", "--skipLibCheck", "main.ts", "places.ts", "service.ts"],
  );
  const trader = `unix://${folder}/trader`;
  await start("trader", "--listen", trader);
  const exported = ["--export", "database:DataBase", "--property", "region=eu", "--trader", trader];
  await start("serve", "--listen", `unix://${folder}/socket`, ...exported, theta);
  const env = { ...process.env, BIFROST_URL: `unix://${folder}/socket` };
  const said = execFileSync(process.execPath, ["main.js"], { cwd: folder, encoding: "utf8", env });
  if (said !== output) throw new Error(`the client prints something else than the README:\n${said}`);
  // The places of calls are those of the program, and none of the package or the stubs.
  const placed = execFileSync(process.execPath, ["places.js"], { cwd: folder, encoding: "utf8", env });
  if (!/^NotFound: DataElem\.name at \S*places\.js:4 .*DataBase\.fetch at \S*places\.js:4 signalled/.test(placed)) {
    throw new Error(`the places of calls are missing: ${placed}`);
  }
  // Through the trader, by `connect` and as a service.
  const through = { ...env, BIFROST_TRADER: trader, BIFROST_URL: "trader:///DataBase" };
  const found = execFileSync(process.execPath, ["places.js"], { cwd: folder, encoding: "utf8", env: through });
  if (found !== placed) throw new Error(`another error through the trader: ${found}`);
  const visits = execFileSync(process.execPath, ["service.js"], { cwd: folder, encoding: "utf8", env: through });
  if (visits !== "eve: 1003 visits, at database\n") throw new Error(`the service prints: ${visits}`);
  console.log("the README's clients run");
} finally {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true, force: true });
}

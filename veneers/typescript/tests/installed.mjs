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
let server;
try {
  const [tarball] = readdirSync(join(here, "build/package"));
  const readme = readFileSync(join(here, "README.md"), "utf8");
  const [, client] = /```ts\n([^]*?)```/.exec(readme);
  const [, output] = /```text\n([^]*?)```/.exec(readme);
  const theta = join(here, "../../examples/database/database.theta");
  writeFileSync(join(folder, "package.json"), '{ "name": "client", "private": true, "type": "module" }\n');
  run("npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", join(here, "build/package", tarball));
  writeFileSync(join(folder, "main.ts"), client);
  writeFileSync(join(folder, "places.ts"), PLACES);
  run(program, "veneer", "--lang", "typescript", theta, "-o", ".");
  // As a program of its own: strict, with the types of the package.
  const types = join(here, "node_modules/@types");
  run(
    process.execPath,
    join(here, "node_modules/typescript/bin/tsc"),
    ...["--strict", "--target", "es2022", "--lib", "es2022,esnext.disposable,dom", "--module", "nodenext"],
    ...["--typeRoots", types, "--types", "node", "--skipLibCheck", "main.ts", "places.ts"],
  );
  // Variables of the tests are no settings of a server.
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BIFROST_")));
  server = spawn(program, ["serve", "--listen", `unix://${folder}/socket`, theta], {
    env: clean,
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise((ready, failed) => {
    server.stdout.once("data", ready);
    server.once("exit", () => failed(new Error("the server did not start")));
  });
  const env = { ...process.env, BIFROST_URL: `unix://${folder}/socket` };
  const said = execFileSync(process.execPath, ["main.js"], { cwd: folder, encoding: "utf8", env });
  if (said !== output) throw new Error(`the client prints something else than the README:\n${said}`);
  // The places of calls are those of the program, and none of the package or the stubs.
  const placed = execFileSync(process.execPath, ["places.js"], { cwd: folder, encoding: "utf8", env });
  if (!/^NotFound: DataElem\.name at \S*places\.js:4 .*DataBase\.fetch at \S*places\.js:4 signalled/.test(placed)) {
    throw new Error(`the places of calls are missing: ${placed}`);
  }
  console.log("the README's client runs");
} finally {
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
}

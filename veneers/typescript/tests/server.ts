// A server of a Theta program as a process, for tests, samples and benches.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** The root of the repository. Bundles are in `build/node/...`. */
export const ROOT = fileURLToPath(new URL("../../../../../", import.meta.url));

/** The program `bifrost`. */
export const program = process.env["BIFROST_BIN"] ?? join(ROOT, "target/debug/bifrost");

/** A server that is ready. */
export class Server {
  /** The addresses, in the order of the arguments; a unix socket is the first. */
  readonly urls: readonly string[];
  readonly folder: string;
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess, urls: readonly string[], folder: string) {
    this.child = child;
    this.urls = urls;
    this.folder = folder;
  }

  /** Serves a program of the repository; `FOLDER` in arguments is a folder of the server's own. */
  static serve(path: string, ...args: string[]): Promise<Server> {
    return Server.start(program, "serve", "--listen", "unix://FOLDER/socket", ...args, join(ROOT, path));
  }

  /** Starts a trader. */
  static trader(...args: string[]): Promise<Server> {
    return Server.start(program, "trader", "--listen", "unix://FOLDER/socket", ...args);
  }

  /** Starts a server by its whole command. */
  static async start(file: string, ...args: string[]): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), "bifrost-ts-"));
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BIFROST_")));
    const child = spawn(
      file,
      args.map((arg) => arg.replaceAll("FOLDER", folder)),
      {
        cwd: folder,
        env: { ...env, XDG_STATE_HOME: folder },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    let out = "";
    let said = "";
    child.stderr.on("data", (bytes: Buffer) => (said += bytes.toString()));
    const ready = await new Promise<string>((resolve, reject) => {
      child.stdout.on("data", (bytes: Buffer) => {
        out += bytes.toString();
        const line = /^ready (.*)\n/.exec(out);
        if (line) resolve(line[1] as string);
      });
      child.on("exit", () => {
        reject(new Error(`the server did not start: ${said}`));
      });
      child.on("error", reject);
    });
    return new Server(child, ready.split(" "), folder);
  }

  /** Ends the server, and waits for its end. */
  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      await this.die(signal);
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The number of the process. */
  get pid(): number {
    return this.child.pid as number;
  }

  /** Sends a signal to the process, which may be gone. */
  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Stops the process, and waits until it has stopped. */
  async stop(): Promise<void> {
    this.kill("SIGSTOP");
    while (!readFileSync(`/proc/${this.pid}/status`, "utf8").includes("State:\tT")) await setTimeout(5);
  }

  /** Ends the process by a signal; its folder stays. */
  async die(signal: NodeJS.Signals): Promise<void> {
    const over = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill(signal);
    await over;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

// L3 of the cases in `cases/generated/`, live: the bytes that the recorders of a case send in its replay go to
// a server in their order, each session over a connection of its own. The answers are those of the file.

import { equal } from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";

import { Greeting } from "../src/recorder/greeting.js";
import { type Stubs } from "../src/recorder/numbers.js";
import { REMAP_FUTURES, REPLY_BYTES_MAX } from "../src/tables.js";
import { hex } from "./commands.js";
import { ROOT, Server } from "./server.js";
import { moves } from "./vectors.js";

const folder = join(ROOT, "cases/generated");

/** A stream to a server, read in pieces of a known length. */
class Stream {
  private readonly socket;
  private come = Buffer.alloc(0);
  private wake: () => void = () => undefined;

  constructor(address: string) {
    this.socket = connect(address.replace("unix://", ""));
    this.socket.on("data", (bytes: Buffer) => {
      this.come = Buffer.concat([this.come, bytes]);
      this.wake();
    });
    this.socket.on("close", () => {
      this.wake();
    });
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** Reads so many bytes; fewer if the stream ends before. */
  async read(length: number): Promise<Uint8Array> {
    while (this.come.length < length && !this.socket.closed) await new Promise<void>((wake) => (this.wake = wake));
    const [bytes, rest] = [this.come.subarray(0, length), this.come.subarray(length)];
    this.come = rest;
    return bytes;
  }

  end(): void {
    this.socket.destroy();
  }
}

/** Greets the server. The digest of nobody is that of another interface, which nothing asks for here. */
async function greet(stream: Stream): Promise<void> {
  const stubs = { digest: "00".repeat(32) } as Stubs;
  const settings = { replyBytesMax: REPLY_BYTES_MAX, remapFutures: REMAP_FUTURES };
  stream.write(new Greeting(stubs, "", "", settings).questions);
  const head = await stream.read(16);
  await stream.read(Number(Buffer.from(head).readBigUInt64LE(8)));
}

const files = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")] as const);
for (const { one, run } of moves(files)) {
  test(`live: ${one.case}`, { timeout: 120_000 }, async () => {
    const settings = (one.set ?? []).flatMap((setting) => ["--set", setting]);
    await using server = await Server.serve(`cases/programs/${one.program}.theta`, ...settings);
    const streams = new Map<string, Stream>();
    for (const session of Object.keys(one.sessions ?? { "": one })) {
      const stream = new Stream(server.urls[0] as string);
      await greet(stream);
      streams.set(session, stream);
    }
    for (const moved of run()) {
      const stream = streams.get(moved.session) as Stream;
      if ("sent" in moved) stream.write(moved.sent);
      else if (moved.answered !== null) equal(hex(await stream.read(moved.answered.length)), hex(moved.answered));
    }
    for (const stream of streams.values()) stream.end();
  });
}

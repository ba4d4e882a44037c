// L3 of the cases in `cases/generated/`, live: the bytes that the recorder sends for each case (those of
// the file, as the replay in `vectors.test.ts` shows) go to a server, whose answers are those of the file.

import { equal } from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";

import { Greeting } from "../src/recorder/greeting.js";
import { type Stubs } from "../src/recorder/numbers.js";
import { REMAP_FUTURES, REPLY_BYTES_MAX } from "../src/tables.js";
import { hex, unhex } from "./commands.js";
import { ROOT, Server } from "./server.js";

const folder = join(ROOT, "cases/generated");

interface Recorded {
  readonly case: string;
  readonly program: string;
  readonly set?: readonly string[];
  readonly crossings: readonly { readonly sent: readonly string[]; readonly answered: string | null }[];
}

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

for (const name of readdirSync(folder).filter((file) => !file.endsWith(".interface.json"))) {
  const one = JSON.parse(readFileSync(join(folder, name), "utf8")) as Recorded;
  test(`live: ${one.case}`, { timeout: 20_000 }, async () => {
    const settings = (one.set ?? []).flatMap((setting) => ["--set", setting]);
    await using server = await Server.serve(`cases/programs/${one.program}.theta`, ...settings);
    const stream = new Stream(server.urls[0] as string);
    await greet(stream);
    for (const { sent, answered } of one.crossings) {
      for (const piece of sent) stream.write(unhex(piece));
      if (answered === null) continue;
      const expected = unhex(answered);
      equal(hex(await stream.read(expected.length)), hex(expected));
    }
    stream.end();
  });
}

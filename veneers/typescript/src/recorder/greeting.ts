// The begin of a session: hello, welcome, and the server's interface if it is another one.

import { badReply, byServer } from "./crossing.js";
import type { Ending } from "./failure.js";
import { Numbers, type Stubs } from "./numbers.js";
import { type Bounds, Recorder, setBound, type Settings } from "./recorder.js";
import { Replies, type Reply } from "./reply.js";
import {
  OP_DESCRIBE,
  OP_ERROR,
  OP_INTERFACE,
  MAGIC_HIGH,
  MAGIC_LOW,
  VERSION,
  OP_WELCOME,
  LIMIT_DEFAULTS,
  LIMIT_PROFILE_ENTRIES,
} from "../tables.js";
import { Words } from "./words.js";

/** No session came of a greeting. */
export class Refusal extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super(ending.text);
    this.ending = ending;
  }
}

/** A session that is being opened. It becomes a `Recorder`. */
export class Greeting {
  /** The bytes to be sent now. */
  questions: Uint8Array;
  /** The digest of the server's interface, once it is known. */
  digest = "";
  private readonly stubs: Stubs;
  private readonly settings: Settings;
  /** A limit of profiles below 0 says that the server makes none. */
  private readonly bounds: Bounds = { ...LIMIT_DEFAULTS, [LIMIT_PROFILE_ENTRIES]: -1 };
  private readonly replies: Replies;
  /** Makes the numbers by the description of the server's interface, if that is another one. */
  numbersBy: ((server: Uint8Array) => Numbers) | null = null;

  /** Begins a session. `name` is the client's name in the server's logs. */
  constructor(stubs: Stubs, token: string, name: string, settings: Settings) {
    this.stubs = stubs;
    this.settings = settings;
    this.replies = new Replies(settings.replyBytesMax);
    const out = new Words(64);
    out.word(MAGIC_LOW, MAGIC_HIGH);
    out.word(VERSION, 0);
    const bytes = Uint8Array.from({ length: 32 }, (_, at) => parseInt(stubs.digest.substr(2 * at, 2), 16));
    for (const half of new Int32Array(bytes.buffer)) {
      out.reserve(1);
      out.i32[out.n++] = half;
    }
    out.string(token);
    out.string(name);
    this.questions = out.slice();
  }

  /** Takes bytes of the server. Returns the recorder when it has answered; null if more are needed. */
  handleBytes(bytes: Uint8Array): Recorder | null {
    let reply: Reply | null;
    try {
      reply = this.replies.next(bytes);
    } catch (error) {
      throw new Refusal(badReply(error));
    }
    if (!reply) return null;
    if (reply.code === OP_ERROR) throw new Refusal(byServer(reply));
    const wrong = (text: string): never => {
      throw new Refusal({ by: "wrong_reply", text: `the server sent an unexpected reply: ${text}` });
    };
    // Each question is asked alone, so nothing can follow its answer.
    if (!this.replies.isEmpty) wrong("more than one reply");
    const { replyBytesMax, remapFutures } = this.settings;
    const recorder = (numbers: Numbers): Recorder =>
      new Recorder(numbers, this.bounds, new Replies(replyBytesMax), remapFutures);
    if (this.digest) {
      return reply.code === OP_INTERFACE && this.numbersBy
        ? recorder(this.numbersBy(reply.json))
        : wrong("an interface was expected");
    }
    if (reply.code !== OP_WELCOME) return wrong("a welcome was expected");
    if (reply.version !== VERSION) {
      const text = `the server has version ${reply.version} of the wire form, this client version ${VERSION}`;
      throw new Refusal({ by: "wrong_reply", text });
    }
    for (const [number, value] of reply.limits) setBound(this.bounds, number, value);
    this.digest = reply.digest;
    if (reply.digest === this.stubs.digest) return recorder(new Numbers(this.stubs));
    const out = new Words(1);
    out.head(OP_DESCRIBE, 0, 0);
    this.questions = out.slice();
    return null;
  }
}

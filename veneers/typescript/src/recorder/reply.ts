// The replies of a server, decoded.
//
// Every reply starts with two words: its code with a number, and the length in bytes of the rest.
// No byte is trusted: `decodeReply` throws `Malformed`, or `Incomplete` if more bytes are needed.

import type { FailurePlace, Plain } from "./failure.js";
import type { Profile } from "./profile.js";
import {
  EXCEPTION_REFUSED as REFUSED,
  EXCEPTION_SIGNAL as SIGNALLED,
  EXCEPTION_UNHANDLED as UNHANDLED,
  FLUSHED_PROFILED,
  OP_ERROR,
  PLACE_BYTES_MAX,
  PLACES_MAX,
  OP_EXCEPTIONS,
  OP_FAREWELL,
  OP_FLUSHED,
  OP_INTERFACE,
  TAG_ABSENT,
  TAG_COMPOUND,
  TAG_EXCEPTION,
  TAG_REF,
  TAG_ROWS,
  OP_WELCOME,
} from "../tables.js";
import { Incomplete, type Items, itemReaders, Reader, unsigned, type Visit } from "./words.js";

/** An exception of a reply. Each kind has some of the parts. */
export interface Exception {
  readonly kind: number;
  readonly call: number;
  readonly rounds: readonly number[];
  readonly name: string;
  readonly values: readonly Plain[];
  readonly places: readonly FailurePlace[];
  readonly more: number;
  readonly argument: number;
  readonly back: number;
  readonly cause: number;
  readonly number: number;
  readonly text: string;
}

/** A reply. */
export type Reply =
  | {
      readonly code: typeof OP_WELCOME;
      readonly version: number;
      readonly session: number;
      readonly digest: string;
      readonly server: string;
      readonly limits: readonly (readonly [number, number])[];
    }
  | {
      readonly code: typeof OP_FLUSHED;
      /** The tag of an outcome says what it is; the type of an object is its `data`. */
      readonly outcomes: readonly Plain[];
      readonly exceptions: readonly Exception[];
      readonly omitted: number;
      readonly calls: number;
      readonly fuel: number;
      /** The profile of the batch, if the session has asked for profiles. */
      readonly profile: Profile | null;
    }
  | { readonly code: typeof OP_INTERFACE; readonly json: Uint8Array }
  | {
      readonly code: typeof OP_EXCEPTIONS;
      readonly list: readonly (readonly [number, Exception])[];
      readonly omitted: number;
    }
  | { readonly code: typeof OP_FAREWELL }
  | { readonly code: typeof OP_ERROR; readonly number: number; readonly position: number; readonly text: string };

type ReadProfile = (reader: Reader) => Profile;

/**
 * The reader of profiles. The module of explanations, which asks for profiles, sets it, so that other
 * programs do not load it; without it such a reply is none.
 */
export const profileReader: { read?: ReadProfile } = {};

const CODES: readonly number[] = [OP_WELCOME, OP_FLUSHED, OP_INTERFACE, OP_EXCEPTIONS, OP_FAREWELL, OP_ERROR];

/**
 * Reads the reply at the front of the words, of which `end` are there. Returns it with its length
 * in 32-bit integers.
 */
export function decodeReply(i32: Int32Array, end: number, bytesMax: number): [Reply, number] {
  const reader = new Reader(i32, 0, end, Math.floor(bytesMax / 4));
  reader.word();
  const { lo, hi } = reader;
  const read = lo === (OP_FLUSHED | (FLUSHED_PROFILED << 8)) ? profileReader.read : undefined;
  reader.check(read !== undefined || CODES.includes(lo));
  const inner = reader.inner();
  const whole = new Reader(i32, inner.at, inner.end, inner.end, 0);
  return [reader.whole(whole, () => body(whole, lo & 255, hi >>> 0, read)), reader.at];
}

/** Reads a list of so many parts. */
const list = <T>(count: number, read: () => T): T[] => {
  const all: T[] = [];
  while (all.length < count) all.push(read());
  return all;
};

function body(reader: Reader, code: number, number: number, readProfile: ReadProfile | undefined): Reply {
  switch (code) {
    case OP_WELCOME: {
      const session = reader.unsigned();
      const at = 4 * reader.take(32);
      const bytes = new Uint8Array(reader.i32.buffer, reader.i32.byteOffset + at, 32);
      const digest = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      const server = reader.string();
      const limits = list(reader.unsigned(), () => {
        reader.word();
        return [reader.lo >>> 0, reader.unsigned()] as const;
      });
      return { code, version: number, session, digest, server, limits };
    }
    case OP_FLUSHED: {
      reader.word();
      const count = reader.lo >>> 0;
      const omitted = reader.hi >>> 0;
      reader.word();
      const calls = reader.lo >>> 0;
      const fuel = reader.hi >>> 0;
      const outcomes = list(number, () => {
        const came = outcome(reader);
        reader.check(came.tag !== TAG_EXCEPTION || came.lo < count);
        return came;
      });
      const exceptions = list(count, () => exception(reader));
      const profile = readProfile?.(reader) ?? null;
      return { code, outcomes, exceptions, omitted, calls, fuel, profile };
    }
    case OP_EXCEPTIONS: {
      const omitted = reader.unsigned();
      return { code, list: list(number, () => [reader.unsigned(), exception(reader)] as const), omitted };
    }
    case OP_ERROR:
      return { code, number, position: reader.unsigned(), text: reader.string() };
  }
  reader.check(number === 0);
  return code === OP_INTERFACE ? { code, json: reader.view().slice() } : { code: OP_FAREWELL };
}

let came: Plain;
const keep: Visit = (tag, lo, hi, data) => {
  came = { tag, lo, hi, data };
};

function outcome(reader: Reader): Plain {
  reader.word();
  const { lo: tag, hi } = reader;
  const number = hi >>> 0;
  reader.check(tag >>> 8 === 0);
  if (tag === TAG_REF) {
    reader.handle();
    return { tag, lo: reader.lo, hi: reader.hi, data: number };
  }
  if (tag === TAG_EXCEPTION) return { tag, lo: number, hi: 0, data: undefined };
  const read = tag === TAG_ROWS && itemReaders[tag];
  if (read) return { tag, lo: 0, hi: 0, data: read(reader, 0, number) };
  reader.check(number === 0);
  if (tag === TAG_ABSENT) return { tag, lo: 0, hi: 0, data: undefined };
  reader.value(tag, keep);
  return came;
}

function exception(reader: Reader): Exception {
  reader.word();
  const { lo, hi } = reader;
  const kind = lo & 255;
  const valueCount = (lo >>> 8) & 255;
  const placeCount = lo >>> 24;
  reader.check((valueCount === 0 && placeCount === 0) || kind === SIGNALLED);
  const rounds = list((lo >>> 16) & 255, () => {
    reader.word();
    reader.check(reader.hi === 0);
    return reader.lo >>> 0;
  });
  const head = { kind, call: hi >>> 0, rounds };
  if (kind === SIGNALLED) {
    const name = reader.string();
    const values = list(valueCount, () => {
      const one = outcome(reader);
      reader.check(![TAG_EXCEPTION, TAG_ABSENT, TAG_ROWS].includes(one.tag));
      return one;
    });
    reader.check(placeCount <= PLACES_MAX);
    const more = placeCount > 0 ? reader.unsigned() : 0;
    return { ...none, ...head, name, values, more, places: list(placeCount, () => place(reader)) };
  }
  reader.word();
  const { lo: low, hi: high } = reader;
  if (kind === UNHANDLED) {
    return { ...none, ...head, argument: low & 0xffffff, back: low >>> 24, cause: high >>> 0 };
  }
  reader.check(kind === REFUSED && high === 0);
  return { ...none, ...head, number: low >>> 0, text: reader.string() };
}

/** The parts that an exception does not have. */
const none = { name: "", values: [], places: [], more: 0, argument: 0, back: 0, cause: 0, number: 0, text: "" };

function place(reader: Reader): FailurePlace {
  reader.word();
  reader.check(reader.hi === 0);
  const line = reader.lo >>> 0;
  const name = (): string => {
    const from = reader.at;
    const text = reader.string();
    reader.check(unsigned(reader.i32[from] as number, reader.i32[from + 1] as number) <= PLACE_BYTES_MAX);
    return text;
  };
  return { line, routine: name(), file: name() };
}

/** Calls a function for each handle among the items of a compound or a table. */
export function eachHandle(of: Items, each: (lo: number, hi: number) => void): void {
  of.each((tag, lo, hi, data) => {
    if (tag === TAG_REF) each(lo, hi);
    else if (tag === TAG_COMPOUND) eachHandle(data as Items, each);
  });
}

/** The buffer that is kept between replies at most, in 32-bit integers. */
const KEPT_MAX = 1 << 18;

/** The bytes of replies, in whatever pieces they come. */
export class Replies {
  private i32 = new Int32Array(1024);
  private length = 0;
  private readonly bytesMax: number;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** True if nothing follows the last reply. */
  get isEmpty(): boolean {
    return this.length === 0;
  }

  /** Takes further bytes; returns the reply at the front, if it is whole. Throws `Malformed`. */
  next(bytes: Uint8Array): Reply | null {
    const needed = this.length + bytes.length;
    if (needed > 4 * this.i32.length) {
      const grown = new Int32Array(Math.max(Math.ceil(needed / 4), 2 * this.i32.length));
      grown.set(this.i32);
      this.i32 = grown;
    }
    const kept = new Uint8Array(this.i32.buffer);
    kept.set(bytes, this.length);
    this.length = needed;
    // Half a word is none.
    const end = (needed >> 3) << 1;
    try {
      const [reply, words] = decodeReply(this.i32, end, this.bytesMax);
      kept.copyWithin(0, 4 * words, needed);
      this.length -= 4 * words;
      // A long reply leaves no large buffer behind.
      if (this.length === 0 && this.i32.length > KEPT_MAX) this.i32 = new Int32Array(1024);
      return reply;
    } catch (error) {
      if (error instanceof Incomplete) return null;
      throw error;
    }
  }
}

// The replies of a server, decoded.
//
// Every reply starts with two words: its code with a number, and the length in bytes of the rest.
// No byte is trusted: `decodeReply` throws `Malformed`, or `Incomplete` if more bytes are needed.

import type { FailurePlace, Plain } from "./failure.js";
import {
  EXCEPTION_REFUSED as REFUSED,
  EXCEPTION_SIGNAL as SIGNALLED,
  EXCEPTION_UNHANDLED as UNHANDLED,
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
import { type Compound, Incomplete, isHandle, Reader, unsigned, type Visit } from "./words.js";

/** A column of a table: the tag of its cells, and its type. */
export type Column = readonly [tag: number, type: number];

/** A table of rows, as it came; checked. */
export class Rows {
  readonly count: number;
  readonly columns: readonly Column[];
  private readonly words: Int32Array;

  constructor(count: number, columns: readonly Column[], words: Int32Array) {
    this.count = count;
    this.columns = columns;
    this.words = words;
  }

  /** Calls a function for each cell, row by row. */
  each(visit: Visit): void {
    const reader = new Reader(this.words, 0, this.words.length);
    for (let row = 0; row < this.count; row++) {
      for (const [tag] of this.columns) cell(reader, tag, visit);
    }
  }

  /** True if both have the same bytes. */
  isSame(other: Rows): boolean {
    const words = other.words;
    return (
      this.count === other.count &&
      `${this.columns}` === `${other.columns}` &&
      words.length === this.words.length &&
      words.every((word, at) => word === this.words[at])
    );
  }
}

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
    }
  | { readonly code: typeof OP_INTERFACE; readonly json: Uint8Array }
  | {
      readonly code: typeof OP_EXCEPTIONS;
      readonly list: readonly (readonly [number, Exception])[];
      readonly omitted: number;
    }
  | { readonly code: typeof OP_FAREWELL }
  | { readonly code: typeof OP_ERROR; readonly number: number; readonly position: number; readonly text: string };

const CODES: readonly number[] = [OP_WELCOME, OP_FLUSHED, OP_INTERFACE, OP_EXCEPTIONS, OP_FAREWELL, OP_ERROR];

/**
 * Reads the reply at the front of the words, of which `end` are there. Returns it with its length
 * in 32-bit integers.
 */
export function decodeReply(i32: Int32Array, end: number, bytesMax: number): [Reply, number] {
  const reader = new Reader(i32, 0, end, Math.floor(bytesMax / 4));
  reader.word();
  const { lo, hi } = reader;
  reader.check(CODES.includes(lo & 255) && lo >>> 8 === 0, "the code of a reply");
  reader.word();
  const length = unsigned(reader.lo, reader.hi);
  reader.check(length % 8 === 0, "a length in whole words");
  reader.take(length);
  const inner = new Reader(i32, 4, reader.at, reader.at, 0);
  try {
    const reply = body(inner, lo, hi >>> 0);
    if (inner.at !== reader.at) inner.bad("a reply no longer than its parts");
    return [reply, reader.at];
  } catch (error) {
    if (error instanceof Incomplete) inner.bad("a reply of the length in its header");
    throw error;
  }
}

function body(reader: Reader, code: number, number: number): Reply {
  const word = (): number => {
    reader.word();
    return unsigned(reader.lo, reader.hi);
  };
  switch (code) {
    case OP_WELCOME: {
      const session = word();
      const at = 4 * reader.take(32);
      const bytes = new Uint8Array(reader.i32.buffer, reader.i32.byteOffset + at, 32);
      const digest = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      const server = reader.string();
      const count = word();
      const limits: [number, number][] = [];
      const from = reader.take(16 * count);
      for (let at = from; at < reader.at; at += 4) {
        const [number, , lo, hi] = reader.i32.subarray(at, at + 4) as unknown as [number, number, number, number];
        limits.push([number >>> 0, unsigned(lo, hi)]);
      }
      return { code, version: number, session, digest, server, limits };
    }
    case OP_FLUSHED: {
      reader.word();
      const count = reader.lo >>> 0;
      const omitted = reader.hi >>> 0;
      reader.word();
      const calls = reader.lo >>> 0;
      const fuel = reader.hi >>> 0;
      const outcomes: Plain[] = [];
      for (let index = 0; index < number; index++) {
        const came = outcome(reader);
        reader.check(came.tag !== TAG_EXCEPTION || came.lo < count, "an exception of the list");
        outcomes.push(came);
      }
      const exceptions: Exception[] = [];
      for (let index = 0; index < count; index++) exceptions.push(exception(reader));
      return { code, outcomes, exceptions, omitted, calls, fuel };
    }
    case OP_INTERFACE:
      reader.check(number === 0, "zeros after the code");
      return { code, json: reader.view().slice() };
    case OP_EXCEPTIONS: {
      const omitted = word();
      const list: [number, Exception][] = [];
      for (let index = 0; index < number; index++) list.push([word(), exception(reader)]);
      return { code, list, omitted };
    }
    case OP_FAREWELL:
      reader.check(number === 0, "zeros after the code");
      return { code };
    default:
      return { code: OP_ERROR, number, position: word(), text: reader.string() };
  }
}

function outcome(reader: Reader): Plain {
  reader.word();
  const { lo: tag, hi: number } = reader;
  reader.check(tag >>> 8 === 0, "zeros after a tag");
  switch (tag) {
    case TAG_REF:
      reader.word();
      reader.check(isHandle(reader.lo, reader.hi), "a handle");
      return { tag, lo: reader.lo, hi: reader.hi, data: number >>> 0 };
    case TAG_EXCEPTION:
      return { tag, lo: number >>> 0, hi: 0, data: undefined };
    case TAG_ROWS:
      return { tag, lo: 0, hi: 0, data: table(reader, number >>> 0) };
  }
  reader.check(number === 0, "zeros after a tag");
  let came: Plain = { tag, lo: 0, hi: 0, data: undefined };
  if (tag !== TAG_ABSENT) reader.value(tag, (tag, lo, hi, data) => (came = { tag, lo, hi, data }));
  return came;
}

function table(reader: Reader, count: number): Rows {
  reader.word();
  const length = unsigned(reader.lo, reader.hi);
  reader.check(length % 8 === 0, "a length in whole words");
  const start = reader.take(length);
  const inner = new Reader(reader.i32, start, reader.at);
  inner.dry = true;
  try {
    inner.word();
    const width = unsigned(inner.lo, inner.hi);
    inner.check(width >= 1 && width <= 255, "a count of columns");
    const columns: Column[] = [];
    for (let at = inner.take(8 * width); at < inner.at; at += 2) {
      const tag = reader.i32[at] as number;
      const good = (tag >= 0 && tag <= 6) || tag === 9 || tag === TAG_COMPOUND;
      inner.check(good, "the tag of a column, and zeros after it");
      columns.push([tag, (reader.i32[at + 1] as number) >>> 0]);
    }
    const from = inner.at;
    for (let row = 0; row < count; row++) {
      for (const [tag] of columns) cell(inner, tag, () => undefined);
    }
    if (inner.at !== reader.at) reader.bad("a table no longer than its cells");
    return new Rows(count, columns, reader.i32.slice(from, inner.at));
  } catch (error) {
    if (error instanceof Incomplete) reader.bad("a table of the length in its header");
    throw error;
  }
}

function cell(reader: Reader, tag: number, visit: Visit): void {
  if (tag !== TAG_REF) return reader.value(tag, visit);
  reader.word();
  reader.check(isHandle(reader.lo, reader.hi), "a handle");
  visit(tag, reader.lo, reader.hi, undefined);
}

function exception(reader: Reader): Exception {
  reader.word();
  const { lo, hi } = reader;
  const kind = lo & 255;
  const valueCount = (lo >>> 8) & 255;
  const placeCount = lo >>> 24;
  reader.check((valueCount === 0 && placeCount === 0) || kind === SIGNALLED, "zeros for the counts");
  const rounds: number[] = [];
  for (let at = reader.take(8 * ((lo >>> 16) & 255)); at < reader.at; at += 2) {
    reader.check(reader.i32[at + 1] === 0, "the number of a round");
    rounds.push((reader.i32[at] as number) >>> 0);
  }
  const values: Plain[] = [];
  const places: FailurePlace[] = [];
  let [name, text, more, argument, back, cause, number] = ["", "", 0, 0, 0, 0, 0];
  switch (kind) {
    case SIGNALLED:
      name = reader.string();
      for (let index = 0; index < valueCount; index++) {
        const came = outcome(reader);
        const good = came.tag !== TAG_EXCEPTION && came.tag !== TAG_ABSENT && came.tag !== TAG_ROWS;
        reader.check(good, "a value of an exception");
        values.push(came);
      }
      if (placeCount > 0) {
        reader.check(placeCount <= PLACES_MAX, "a count of places");
        reader.word();
        more = unsigned(reader.lo, reader.hi);
        for (let index = 0; index < placeCount; index++) places.push(place(reader));
      }
      break;
    case UNHANDLED:
      reader.word();
      argument = reader.lo & 0xffffff;
      back = reader.lo >>> 24;
      cause = reader.hi >>> 0;
      break;
    case REFUSED:
      reader.word();
      reader.check(reader.hi === 0, "the number of an error");
      number = reader.lo >>> 0;
      text = reader.string();
      break;
    default:
      reader.bad("the kind of an exception");
  }
  return { kind, call: hi >>> 0, rounds, name, values, places, more, argument, back, cause, number, text };
}

function place(reader: Reader): FailurePlace {
  reader.word();
  reader.check(reader.hi === 0, "the number of a line");
  const line = reader.lo >>> 0;
  const name = (): string => {
    const from = reader.at;
    const text = reader.string();
    const length = unsigned(reader.i32[from] as number, reader.i32[from + 1] as number);
    reader.check(length <= PLACE_BYTES_MAX, "a name of a place no longer than its limit");
    return text;
  };
  return { line, routine: name(), file: name() };
}

/** Calls a function for each handle among the items of a compound or a table. */
export function eachHandle(of: Compound | Rows, each: (lo: number, hi: number) => void): void {
  of.each((tag, lo, hi, data) => {
    if (tag === TAG_REF) each(lo, hi);
    else if (tag === TAG_COMPOUND) eachHandle(data as Compound, each);
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

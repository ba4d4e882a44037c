// Writing and reading 64-bit words, little-endian, as pairs of 32-bit integers.

import {
  ERROR_BAD_TEXT,
  ERROR_BAD_WORD,
  ERROR_FRAME_TOO_LONG,
  TAG_BOOL,
  TAG_BYTES,
  TAG_CHAR,
  TAG_COMPOUND,
  TAG_INT,
  TAG_NIL,
  TAG_REAL,
  TAG_STRING,
} from "../tables.js";

/** Two to the power of 32. */
export const TWO32 = 4294967296;

/** Half a pair of surrogates, which no text in UTF-8 has. */
const LONE = /\p{Surrogate}/u;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const real = new Float64Array(1);
const realWords = new Int32Array(real.buffer);
if (new Uint8Array(new Int32Array([1]).buffer)[0] !== 1) throw new Error("a little-endian machine is needed");

/** Returns the number of a word without a sign; not exact beyond 2^53. */
export const unsigned = (lo: number, hi: number): number => (hi >>> 0) * TWO32 + (lo >>> 0);

/** True if a reference is a handle. */
export const isHandle = (lo: number, hi: number): boolean => hi > 0 || (hi === 0 && lo !== 0);

/** Returns the integer of a word. */
export const bigintOf = (lo: number, hi: number): bigint =>
  hi === lo >> 31 ? BigInt(lo) : (BigInt(hi) << 32n) | BigInt(lo >>> 0);

/** Returns the real number of a word. */
export function realOf(lo: number, hi: number): number {
  realWords[0] = lo;
  realWords[1] = hi;
  return real[0] as number;
}

/** Bytes that grow, written in words. */
export class Words {
  i32: Int32Array;
  u8: Uint8Array;
  /** The number of 32-bit integers that were written. */
  n = 0;

  constructor(words: number) {
    this.i32 = new Int32Array(2 * words);
    this.u8 = new Uint8Array(this.i32.buffer);
  }

  /** Makes room for more 32-bit integers. */
  reserve(more: number): void {
    const needed = this.n + more;
    if (needed <= this.i32.length) return;
    const grown = new Int32Array(Math.max(needed, 2 * this.i32.length));
    grown.set(this.i32.subarray(0, this.n));
    this.i32 = grown;
    this.u8 = new Uint8Array(grown.buffer);
  }

  word(lo: number, hi: number): void {
    const n = this.n;
    if (n + 2 > this.i32.length) this.reserve(2);
    this.i32[n] = lo;
    this.i32[n + 1] = hi;
    this.n = n + 2;
  }

  /** The first word of a command: code, 24 bits of counts, tags or flags, and a number. */
  head(code: number, flags: number, number: number): void {
    this.word(code | (flags << 8), number | 0);
  }

  real(value: number): void {
    real[0] = value;
    this.word(realWords[0] as number, realWords[1] as number);
  }

  /** A text: its length in bytes, UTF-8, zeros up to a whole word. */
  string(text: string): void {
    const length = text.length;
    // Each UTF-16 unit has at most three bytes.
    this.reserve(4 + Math.ceil((3 * length) / 4));
    const at = 4 * this.n + 8;
    const u8 = this.u8;
    let bytes = 0;
    if (length < 64) {
      for (; bytes < length; bytes++) {
        const code = text.charCodeAt(bytes);
        if (code > 127) break;
        u8[at + bytes] = code;
      }
    }
    if (bytes < length) {
      bytes = encoder.encodeInto(text, u8.subarray(at)).written;
      if (bytes !== length && LONE.test(text)) throw new TypeError("a string has half a pair of surrogates");
    }
    this.end(bytes);
  }

  bytes(bytes: Uint8Array): void {
    this.reserve(4 + (bytes.length >> 2));
    this.u8.set(bytes, 4 * this.n + 8);
    this.end(bytes.length);
  }

  /** Ends a string whose bytes are written behind the place of its length. */
  private end(bytes: number): void {
    const at = 4 * this.n + 8 + bytes;
    const padded = (bytes + 7) & ~7;
    this.u8.fill(0, at, at + padded - bytes);
    this.i32[this.n] = bytes;
    this.i32[this.n + 1] = 0;
    this.n += 2 + (padded >> 2);
  }

  /** A copy of the bytes from a place on. */
  slice(from = 0): Uint8Array {
    return this.u8.slice(4 * from, 4 * this.n);
  }
}

/** Bytes that are no reply. */
export class Malformed extends Error {
  /** The number of the error, and the place in bytes. */
  readonly number: number;
  readonly offset: number;

  constructor(number: number, offset: number) {
    super(`byte ${offset} makes no sense`);
    this.number = number;
    this.offset = offset;
  }
}

/** More bytes are needed; thrown by `Reader.word` and `Reader.take`. */
export class Incomplete extends Error {}

/** One is enough: replies come in many pieces, and each would note its stack. */
const incomplete = new Incomplete();

/** Takes a value: its tag, its word, and for strings, bytes and compounds that in place of the word. */
export type Visit = (tag: number, lo: number, hi: number, data: unknown) => void;

/** A value with items, as it came: a compound or a table. */
export interface Items {
  /** Calls a function for each item. */
  each(visit: Visit): void;
  isSame(other: Items): boolean;
  /** Appends it, as an argument. */
  put(words: Words): void;
}

/** Reads a value with items, which is as deep in others; `count` is the number behind its tag. */
export type ReadItems = (reader: Reader, depth: number, count: number) => Items;

/**
 * The readers of values with items, by tag. The modules of these values add theirs, so that programs
 * without such values do not load them; without its reader such a value is no reply.
 */
export const itemReaders: Record<number, ReadItems | undefined> = {};

/** Reads words from bytes that a peer chose. Places are counted in 32-bit integers. */
export class Reader {
  readonly i32: Int32Array;
  at: number;
  /** The place from which the offsets of mistakes count. */
  readonly base: number;
  readonly end: number;
  /** The place beyond which nothing may be asked for, in 32-bit integers. */
  readonly most: number;
  /** If set, strings are checked only. */
  dry = false;
  /** The references of compounds need not be handles, as in commands. */
  loose = false;

  constructor(i32: Int32Array, at: number, end: number, most = end, base = at) {
    this.i32 = i32;
    this.at = at;
    this.base = base;
    this.end = end;
    this.most = most;
  }

  /** Throws that the last word makes no sense. */
  bad(number = ERROR_BAD_WORD): never {
    throw new Malformed(number, Math.max(0, 4 * (this.at - this.base) - 8));
  }

  check(holds: boolean): void {
    if (!holds) this.bad();
  }

  /** Passes over a word; its halves are at `at - 2` and `at - 1`. */
  word(): void {
    if (this.at + 2 > this.end) throw incomplete;
    this.at += 2;
  }

  get lo(): number {
    return this.i32[this.at - 2] as number;
  }

  get hi(): number {
    return this.i32[this.at - 1] as number;
  }

  /** Reads a word, as a number without a sign. */
  unsigned(): number {
    this.word();
    return unsigned(this.lo, this.hi);
  }

  /** Reads a handle. */
  handle(): void {
    this.word();
    this.check(isHandle(this.lo, this.hi));
  }

  /** Passes over so many bytes, rounded up to words; returns the place where they begin. */
  take(bytes: number): number {
    const start = this.at;
    const size = Math.ceil(bytes / 8) * 2;
    // Refused before the bytes have come.
    if (size > this.most - start) this.bad(ERROR_FRAME_TOO_LONG);
    if (start + size > this.end) throw incomplete;
    this.at = start + size;
    return start;
  }

  /** Passes over a length in whole words, and so many bytes; returns a reader of these. */
  inner(): Reader {
    const length = this.unsigned();
    this.check(length % 8 === 0);
    const reader = new Reader(this.i32, this.take(length), this.at);
    reader.loose = this.loose;
    return reader;
  }

  /** Runs a function that reads all of the bytes of an inner reader. */
  whole<T>(inner: Reader, read: () => T): T {
    try {
      const value = read();
      if (inner.at === this.at) return value;
    } catch (error) {
      if (!(error instanceof Incomplete)) throw error;
    }
    return this.bad();
  }

  /** Reads a byte string, which is not copied. */
  view(): Uint8Array {
    const length = this.unsigned();
    const start = this.take(length);
    const all = new Uint8Array(this.i32.buffer, this.i32.byteOffset + 4 * start, 4 * (this.at - start));
    for (let at = length; at < all.length; at++) this.check(all[at] === 0);
    return all.subarray(0, length);
  }

  string(): string {
    const bytes = this.view();
    const length = bytes.length;
    if (length < 24 || this.dry) {
      // Decoders are slow at short texts.
      let text = "";
      let at = 0;
      for (; at < length; at++) {
        const code = bytes[at] as number;
        if (code > 127) break;
        if (!this.dry) text += String.fromCharCode(code);
      }
      if (at === length) return text;
    }
    try {
      return decoder.decode(bytes);
    } catch {
      return this.bad(ERROR_BAD_TEXT);
    }
  }

  /** Reads the word, the string or the items that a tag announces. */
  value(tag: number, visit: Visit, depth = 1): void {
    if (tag === TAG_STRING) {
      visit(tag, 0, 0, this.string());
      return;
    }
    if (tag === TAG_BYTES) {
      const bytes = this.view();
      visit(tag, 0, 0, this.dry ? bytes : bytes.slice());
      return;
    }
    const read = tag === TAG_COMPOUND && itemReaders[tag];
    if (read) {
      visit(tag, 0, 0, read(this, depth, 0));
      return;
    }
    this.word();
    const { lo, hi } = this;
    const good =
      tag === TAG_INT || tag === TAG_REAL
        ? true
        : tag === TAG_NIL
          ? lo === 0 && hi === 0
          : tag === TAG_BOOL
            ? hi === 0 && lo >>> 0 <= 1
            : tag === TAG_CHAR && hi === 0 && lo >= 0 && lo <= 0x10ffff && !(lo >= 0xd800 && lo <= 0xdfff);
    this.check(good);
    visit(tag, lo, hi, undefined);
  }
}

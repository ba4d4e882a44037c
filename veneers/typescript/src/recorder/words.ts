// Writing and reading 64-bit words, little-endian, as pairs of 32-bit integers.

import {
  COMPOUND_DEPTH_MAX,
  TAG_BOOL,
  TAG_BYTES,
  TAG_CHAR,
  TAG_COMPOUND,
  TAG_INT,
  TAG_NIL,
  TAG_REAL,
  TAG_REF,
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
  readonly number: number;
  readonly offset: number;

  constructor(number: number, offset: number, what: string) {
    super(`at byte ${offset} ${what} was expected`);
    this.number = number;
    this.offset = offset;
  }
}

/** More bytes are needed; thrown by `Reader.word` and `Reader.take`. */
export class Incomplete extends Error {}

/** The items of an object that crosses by value, as they came; checked. */
export class Compound {
  /** The word with type and count, the words of tags, the items. */
  readonly words: Int32Array;

  constructor(words: Int32Array) {
    this.words = words;
  }

  /** The number of its type; -1 if it has that of its place. */
  get type(): number {
    return this.words[0] as number;
  }

  get count(): number {
    return (this.words[1] as number) >>> 0;
  }

  /** Calls a function for each item. */
  each(visit: Visit): void {
    const reader = new Reader(this.words, 0, this.words.length);
    // It was checked when it came.
    reader.loose = true;
    reader.items(visit, 1);
  }
}

/** Takes a value: its tag, its word, and for strings, bytes and compounds that in place of the word. */
export type Visit = (tag: number, lo: number, hi: number, data: unknown) => void;

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

  /** Throws that something else was expected. */
  bad(what: string, number = 32): never {
    throw new Malformed(number, Math.max(0, 4 * (this.at - this.base) - 8), what);
  }

  check(holds: boolean, what: string): void {
    if (!holds) this.bad(what);
  }

  /** Passes over a word; its halves are at `at - 2` and `at - 1`. */
  word(): void {
    if (this.at + 2 > this.end) throw new Incomplete();
    this.at += 2;
  }

  get lo(): number {
    return this.i32[this.at - 2] as number;
  }

  get hi(): number {
    return this.i32[this.at - 1] as number;
  }

  /** Passes over so many bytes, rounded up to words; returns the place where they begin. */
  take(bytes: number): number {
    const start = this.at;
    const size = Math.ceil(bytes / 8) * 2;
    // Refused before the bytes have come.
    if (size > this.most - start) this.bad("a command within the length limit", 34);
    if (start + size > this.end) throw new Incomplete();
    this.at = start + size;
    return start;
  }

  /** Reads a byte string, which is not copied. */
  view(): Uint8Array {
    this.word();
    const length = unsigned(this.lo, this.hi);
    const start = this.take(length);
    const all = new Uint8Array(this.i32.buffer, this.i32.byteOffset + 4 * start, 4 * (this.at - start));
    for (let at = length; at < all.length; at++) this.check(all[at] === 0, "zeros after a string");
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
      return this.bad("a string in UTF-8", 33);
    }
  }

  /** Reads the word, the string or the items that a tag announces. */
  value(tag: number, visit: Visit, depth = 1): void {
    switch (tag) {
      case TAG_STRING: {
        const text = this.string();
        return visit(tag, 0, 0, text);
      }
      case TAG_BYTES: {
        const bytes = this.view();
        return visit(tag, 0, 0, this.dry ? bytes : bytes.slice());
      }
      case TAG_COMPOUND:
        return visit(tag, 0, 0, this.compound(depth));
    }
    this.word();
    const { lo, hi } = this;
    let good = true;
    switch (tag) {
      case TAG_NIL:
        good = lo === 0 && hi === 0;
        break;
      case TAG_BOOL:
        good = hi === 0 && lo >>> 0 <= 1;
        break;
      case TAG_INT:
      case TAG_REAL:
        break;
      case TAG_CHAR:
        good = hi === 0 && lo >= 0 && lo <= 0x10ffff && !(lo >= 0xd800 && lo <= 0xdfff);
        break;
      default:
        this.bad("a tag");
    }
    this.check(good, "a word that its tag allows");
    visit(tag, lo, hi, undefined);
  }

  /** Reads and checks a compound at this depth. */
  compound(depth: number): Compound {
    this.check(depth <= COMPOUND_DEPTH_MAX, "compounds that nest at most 64 levels deep");
    this.word();
    const length = unsigned(this.lo, this.hi);
    this.check(length % 8 === 0 && length > 0, "a length in whole words");
    const start = this.take(length);
    const inner = new Reader(this.i32, start, this.at);
    inner.dry = true;
    inner.loose = this.loose;
    try {
      inner.items((tag, lo, hi) => {
        inner.check(this.loose || tag !== TAG_REF || isHandle(lo, hi), "a handle");
      }, depth);
    } catch (error) {
      if (error instanceof Incomplete) this.bad("a compound of the length in its first word");
      throw error;
    }
    if (inner.at !== this.at) this.bad("a compound no longer than its items");
    return new Compound(this.dry ? this.i32.subarray(start, this.at) : this.i32.slice(start, this.at));
  }

  /** Reads the items of a compound, from its first word on. */
  items(visit: Visit, depth: number): void {
    this.word();
    const count = this.hi >>> 0;
    const tags = this.take(8 * Math.ceil(count / 16));
    const { i32 } = this;
    const rest = count % 16;
    if (rest > 0) {
      const low = i32[this.at - 2] as number;
      const high = i32[this.at - 1] as number;
      const clean =
        rest < 8 ? high === 0 && low >>> (4 * rest) === 0 : rest === 8 ? high === 0 : high >>> (4 * rest - 32) === 0;
      this.check(clean, "no tags beyond the items");
    }
    for (let index = 0; index < count; index++) {
      const tag = ((i32[tags + (index >> 3)] as number) >>> (4 * (index & 7))) & 15;
      if (tag === TAG_REF) {
        this.word();
        visit(tag, this.lo, this.hi, undefined);
      } else {
        this.value(tag, visit, depth + 1);
      }
    }
  }
}

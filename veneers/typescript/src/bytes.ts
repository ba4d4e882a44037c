// Promises of bytes.

import type { Recorder } from "./recorder/recorder.js";
import type { Session } from "./session.js";
import { MISMATCH, putKnown, type Stub, type Type, wrongType } from "./stub.js";
import * as t from "./tables.js";
import { type Bool, builtinMethod, builtinNumbers, Int, Str, Value } from "./values.js";

/** What may be given where bytes are wanted. */
export type BytesArg = Uint8Array | Bytes;

/** A promise of bytes. */
export class Bytes extends Value<Uint8Array, Uint8Array | Bytes> {
  static readonly theta = "bytes";
  static readonly numbersIn = builtinNumbers(t.BUILTIN_BYTES);

  static put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    if (tag >= 0) return tag;
    if (!(value instanceof Uint8Array)) wrongType(value, argument, "a Uint8Array");
    r.batch.bytes(value);
    return t.TAG_BYTES;
  }

  static take(_: Session, tag: number, __: number, ___: number, data: unknown): unknown {
    return tag === t.TAG_BYTES ? data : MISMATCH;
  }

  private method<S extends Stub>(method: number, type: Type<S>, ...args: unknown[]): S {
    return this.$call(builtinMethod(this, t.BUILTIN_BYTES, method), type, ...args);
  }

  length(): Int {
    return this.method(0, Int);
  }

  /** The byte at a position, from 0; signals `bounds`. */
  fetch(at: bigint | number | Int): Int {
    return this.method(1, Int, Int, at);
  }

  concat(other: Uint8Array | Bytes): Bytes {
    return this.method(2, Bytes, Bytes, other);
  }

  /** So many bytes from a position on; signals `bounds`. */
  slice(at: bigint | number | Int, count: bigint | number | Int): Bytes {
    return this.method(3, Bytes, Int, at, Int, count);
  }

  /** Its text in UTF-8; signals `bad_format`. */
  text(): Str {
    return this.method(4, Str);
  }

  eq(other: Uint8Array | Bytes): Bool {
    return this.method(5, this.$session.$bool, Bytes, other);
  }

  ne(other: Uint8Array | Bytes): Bool {
    return this.eq(other).not();
  }

  unparse(): Str {
    return this.method(8, Str);
  }

  hash(): Int {
    return this.method(9, Int);
  }
}

// Promises of bytes.

import type { Recorder } from "./recorder/recorder.js";
import type { Session } from "./session.js";
import { MISMATCH, putKnown, type Stub, type Type, wrongType } from "./stub.js";
import * as t from "./tables.js";
import { type Bool, builtinMethod, builtinNumbers, Int, type IntArg, type IntOf, type StrOf, Value } from "./values.js";

/** What may be given where bytes are wanted. */
export type BytesArg = Uint8Array | BytesOf<bigint> | BytesOf<number>;

/** A promise of bytes, among ints of a type. */
export abstract class BytesOf<N> extends Value<Uint8Array, BytesArg> {
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

  private int(method: number, ...args: unknown[]): IntOf<N> {
    return this.method(method, this.$kin.Int as Type<IntOf<N>>, ...args);
  }

  private same(method: number, ...args: unknown[]): this {
    return this.method(method, this.constructor as unknown as Type<this>, ...args);
  }

  private method<S extends Stub>(method: number, type: Type<S>, ...args: unknown[]): S {
    return this.$call(builtinMethod(this, t.BUILTIN_BYTES, method), type, ...args);
  }

  length(): IntOf<N> {
    return this.int(0);
  }

  /** The byte at a position, from 0; signals `bounds`. */
  fetch(at: IntArg): IntOf<N> {
    return this.int(1, Int, at);
  }

  concat(other: BytesArg): this {
    return this.same(2, Bytes, other);
  }

  /** So many bytes from a position on; signals `bounds`. */
  slice(at: IntArg, count: IntArg): this {
    return this.same(3, Int, at, Int, count);
  }

  /** Its text in UTF-8; signals `bad_format`. */
  text(): StrOf<N> {
    return this.method(4, this.$kin.Str as Type<StrOf<N>>);
  }

  eq(other: BytesArg): Bool {
    return this.method(5, this.$session.$bool, Bytes, other);
  }

  ne(other: BytesArg): Bool {
    return this.eq(other).not();
  }

  unparse(): StrOf<N> {
    return this.method(8, this.$kin.Str as Type<StrOf<N>>);
  }

  hash(): IntOf<N> {
    return this.int(9);
  }
}

/** A promise of bytes. */
export class Bytes extends BytesOf<bigint> {}

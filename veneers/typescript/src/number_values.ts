// Promises whose ints are numbers of JavaScript: the classes of stubs that were made with `--ints number`.

import { type BytesArg, BytesOf } from "./bytes.js";
import { bigintOf, unsigned } from "./recorder/words.js";
import type { Session } from "./session.js";
import { MISMATCH } from "./stub.js";
import { TAG_INT } from "./tables.js";
import {
  type BoolArg,
  type Char,
  IntOf,
  type IntArg,
  type Kin,
  RealOf,
  type RealArg,
  StrOf,
  type StrArg,
} from "./values.js";

/** A promise of an integer of 64 bits, which is a number: the claim of one beyond 2^53 fails. */
export class Int extends IntOf<number> {
  static override take(_: Session, tag: number, lo: number, hi: number): unknown {
    if (tag !== TAG_INT) return MISMATCH;
    const number = hi < 0 ? -unsigned(-lo | 0, lo === 0 ? -hi | 0 : ~hi) : unsigned(lo, hi);
    if (Number.isSafeInteger(number)) return number;
    throw new RangeError(`${bigintOf(lo, hi)} is no safe integer: make the stubs with \`--ints bigint\``);
  }

  override get $kin(): Kin {
    return KIN;
  }
}

/** A promise of a floating-point number, among ints that are numbers. */
export class Real extends RealOf<number> {
  override get $kin(): Kin {
    return KIN;
  }
}

/** A promise of a text, among ints that are numbers. */
export class Str extends StrOf<number> {
  override get $kin(): Kin {
    return KIN;
  }
}

/** A promise of bytes, among ints that are numbers. */
export class Bytes extends BytesOf<number> {
  override get $kin(): Kin {
    return KIN;
  }
}

const KIN: Kin = { Int: Int, Real: Real, Str: Str };

/** What may be given for contents: stubs in place of values. A number is an int or a real there. */
export type Input<V> = V extends boolean
  ? BoolArg
  : V extends number
    ? IntArg | RealArg
    : V extends string
      ? StrArg | Char
      : V extends Uint8Array
        ? BytesArg
        : V extends readonly (infer E)[]
          ? readonly Input<E>[]
          : V extends { readonly tag: infer T }
            ? { readonly [K in keyof V]: K extends "tag" ? T : Input<V[K]> }
            : V extends PromiseLike<unknown> | { release(): void }
              ? V
              : V extends object
                ? { readonly [K in keyof V]: Input<V[K]> }
                : V;

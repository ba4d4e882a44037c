// Promises: stubs of basic values, which are claimed by `await`, and their operators.

import type { CellNumbers, Stubs } from "./recorder/numbers.js";
import type { Recorder } from "./recorder/recorder.js";
import { FUTURE, settle, UNDER_WAY } from "./recorder/slots.js";
import type { Session } from "./session.js";
import { type Iter, MISMATCH, putKnown, Stub, type Type, type TYPES, wrongType } from "./stub.js";
import * as t from "./tables.js";
import type { BytesArg } from "./bytes.js";
import { bigintOf, Reader, realOf, TWO32 } from "./recorder/words.js";

/** Options of a claim. */
export interface ClaimOptions {
  /** Rejects the claim when it fires; the batch is answered all the same. */
  readonly signal?: AbortSignal;
}

/**
 * A value that may not be there yet. `await` claims it: what was recorded crosses, if it is not there.
 * It is no number or text of JavaScript before.
 */
export abstract class Value<V, A = V> extends Stub implements PromiseLike<V> {
  declare readonly [TYPES]: { readonly arg: A; readonly plain: V };
  // Only a stub of this library is one: a promise of JavaScript is not taken for it.
  declare private readonly brand: V;

  /** The way in which the value is read. */
  get $type(): Pick<Type, "take"> {
    return this.constructor as unknown as Type;
  }

  /** Claims the value; `await` calls it. Throws inside a structure. */
  then<R = V, E = never>(
    fulfilled?: ((value: V) => R | PromiseLike<R>) | null,
    rejected?: ((reason: unknown) => E | PromiseLike<E>) | null,
  ): Promise<R | E> {
    return this.claim().then(fulfilled, rejected);
  }

  /** Claims the value, for those who handle only its failure. */
  catch<E>(rejected: (reason: unknown) => E | PromiseLike<E>): Promise<V | E> {
    return this.claim().catch(rejected);
  }

  /** Claims the value, with options. Rejects with the failure of its call. */
  claim(options?: ClaimOptions): Promise<V> {
    return this.$session.$claim(this, () => this.$read(), options?.signal) as Promise<V>;
  }

  /** Returns the value if it is known without crossing; throws if its call is known to have failed. */
  peek(): V | undefined {
    if (this.$tag === FUTURE || this.$tag === UNDER_WAY) return undefined;
    const failure = this.$session.$told(this);
    if (failure) throw this.$session.$error(failure);
    return this.$read() as V;
  }

  /** The classes of the results of operators. */
  get $kin(): Kin {
    return { Int: Int, Real: Real, Str: Str };
  }

  /** Returns the value that is there. */
  $read(): unknown {
    const value = this.$type.take(this.$session, this.$tag, this.$lo, this.$hi, this.$data);
    return value === MISMATCH ? this.$session.$nonsense() : value;
  }
}

/** The classes of promises that operators return: those with ints of one type. */
export interface Kin {
  readonly Int: Type;
  readonly Real: Type;
  readonly Str: Type;
}

/** A value was used as if it were there. */
export class NotClaimedError extends TypeError {
  constructor(use: string) {
    super(`${use}: the value is at the server; claim it first with \`await\`, or use its methods`);
    this.name = "NotClaimedError";
  }
}

// TypeScript does not see these, so that a loop over a stub does not compile either.
for (const [name, use] of [
  ["toString", "a stub has no text"],
  ["valueOf", "a stub has no primitive value"],
  ["toJSON", "a stub has no JSON"],
  [Symbol.toPrimitive, "a stub is no operand"],
  [Symbol.iterator, "a stub cannot be iterated: write `s.foreach(...)`"],
] as const) {
  Object.defineProperty(Value.prototype, name, {
    value(): never {
      throw new NotClaimedError(use);
    },
  });
}

/** Makes the static part of a basic type: its place among the basic types, and its name. */
const basic = (place: number) => (stubs: Stubs) => stubs.basic[place] as readonly [type: number, cell: CellNumbers];

/** Records the call of an operator. */
function operate<S extends Stub>(receiver: Stub, operator: number, type: Type<S>, ...args: unknown[]): S {
  return receiver.$call(receiver.$session.$stubs.operators[operator] as number, type, ...args);
}

/** The outcome of a call without results. */
export class Done extends Value<void> {
  static readonly theta = "null";
  static readonly numbersIn = basic(0);

  constructor(session: Session) {
    super(session);
    // It is not asked for unless it is claimed.
    this.$want = false;
  }

  static put(r: Recorder, value: unknown, argument: number): number {
    return Nil.put(r, value, argument);
  }

  static take(): undefined {
    return undefined;
  }
}

/** A promise of `null`, the one value of Theta's type `null`. */
export class Nil extends Value<null, null | Nil> {
  static readonly theta = "null";
  static readonly numbersIn = basic(0);

  static put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    if (tag >= 0) return tag;
    if (value !== null && value !== undefined) wrongType(value, argument, "null");
    r.batch.word(0, 0);
    return t.TAG_NIL;
  }

  static take(_: Session, tag: number): unknown {
    return tag === t.TAG_NIL ? null : MISMATCH;
  }
}

/** A promise of a truth value. */
export class Bool extends Value<boolean, boolean | Bool> {
  static readonly theta = "bool";
  static readonly numbersIn = basic(1);

  static put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    if (tag >= 0) return tag;
    if (typeof value !== "boolean") wrongType(value, argument, "a boolean");
    r.batch.word(value ? 1 : 0, 0);
    return t.TAG_BOOL;
  }

  static take(_: Session, tag: number, lo: number): unknown {
    return tag === t.TAG_BOOL ? lo !== 0 : MISMATCH;
  }

  not(): Bool {
    return operate(this, t.OPERATOR_BOOL_NOT, Bool);
  }

  eq(other: boolean | Bool): Bool {
    return operate(this, t.OPERATOR_BOOL_EQUAL, Bool, Bool, other);
  }

  ne(other: boolean | Bool): Bool {
    return this.eq(other).not();
  }

  /** True if both hold. The other is computed at the server, and only if this one holds. */
  and(other: () => boolean | Bool): Bool {
    return this.decide(this, other);
  }

  /** True if either holds. The other is computed at the server, and only if this one does not hold. */
  or(other: () => boolean | Bool): Bool {
    return this.decide(this.not(), other);
  }

  private decide(test: Bool, other: () => boolean | Bool): Bool {
    const session = this.$session;
    const result = session.cell(Bool, this);
    session.if(test, () => {
      result.put(other());
    });
    return result.get();
  }
}

/** A promise of an integer of 64 bits, which is of a type of JavaScript when it is claimed. */
export abstract class IntOf<N> extends Value<N, IntArg> {
  static readonly theta = "int";
  static readonly numbersIn = basic(2);

  static put(r: Recorder, value: unknown, argument: number): number {
    if (typeof value === "number" && (value | 0) === value) {
      r.batch.word(value, value >> 31);
      return t.TAG_INT;
    }
    if (typeof value === "number" && Number.isSafeInteger(value)) {
      r.batch.word(value | 0, Math.floor(value / TWO32));
      return t.TAG_INT;
    }
    if (typeof value === "bigint" && BigInt.asIntN(64, value) === value) {
      r.batch.word(Number(BigInt.asIntN(32, value)), Number(value >> 32n));
      return t.TAG_INT;
    }
    const tag = putKnown(r, value, argument);
    return tag >= 0 ? tag : wrongType(value, argument, "a bigint of 64 bits, or a safe integer,");
  }

  static take(_: Session, tag: number, lo: number, hi: number): unknown {
    return tag === t.TAG_INT ? bigintOf(lo, hi) : MISMATCH;
  }

  private with(operator: number, other: IntArg): this {
    return operate(this, operator, this.constructor as unknown as Type<this>, Int, other);
  }

  private test(operator: number, other: IntArg): Bool {
    return operate(this, operator, Bool, Int, other);
  }

  add(other: IntArg): this {
    return this.with(t.OPERATOR_INT_ADD, other);
  }

  sub(other: IntArg): this {
    return this.with(t.OPERATOR_INT_SUB, other);
  }

  mul(other: IntArg): this {
    return this.with(t.OPERATOR_INT_MUL, other);
  }

  /** Divides; signals `zero`. */
  div(other: IntArg): this {
    return this.with(t.OPERATOR_INT_DIV, other);
  }

  /** Returns the remainder; signals `zero`. */
  mod(other: IntArg): this {
    return this.with(t.OPERATOR_INT_MOD, other);
  }

  neg(): this {
    return operate(this, t.OPERATOR_INT_NEGATE, this.constructor as unknown as Type<this>);
  }

  lt(other: IntArg): Bool {
    return this.test(t.OPERATOR_INT_LT, other);
  }

  le(other: IntArg): Bool {
    return this.test(t.OPERATOR_INT_LE, other);
  }

  gt(other: IntArg): Bool {
    return this.test(t.OPERATOR_INT_GT, other);
  }

  ge(other: IntArg): Bool {
    return this.test(t.OPERATOR_INT_GE, other);
  }

  eq(other: IntArg): Bool {
    return this.test(t.OPERATOR_INT_EQUAL, other);
  }

  ne(other: IntArg): Bool {
    return this.eq(other).not();
  }

  /** The integers from this one to a limit. */
  to(limit: IntArg): Iter<[this]> {
    const number = this.$session.$stubs.operators[t.OPERATOR_INT_TO] as number;
    return this.$iter(number, [this.constructor as unknown as Type<this>], Int, limit);
  }

  /** The integers from this one to a limit, in steps. */
  toBy(limit: IntArg, step: IntArg): Iter<[this]> {
    const number = this.$session.$stubs.operators[t.OPERATOR_INT_TO_BY] as number;
    return this.$iter(number, [this.constructor as unknown as Type<this>], Int, limit, Int, step);
  }

  toReal(): RealOf<N> {
    return operate(this, t.OPERATOR_INT_TO_REAL, this.$kin.Real as Type<RealOf<N>>);
  }

  /** Returns its decimal digits. */
  unparse(): StrOf<N> {
    return operate(this, t.OPERATOR_INT_UNPARSE, this.$kin.Str as Type<StrOf<N>>);
  }
}

/** A promise of a floating-point number, among ints of a type. */
export abstract class RealOf<N> extends Value<number, RealArg> {
  static readonly theta = "real";
  static readonly numbersIn = basic(3);

  static put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    if (tag >= 0) return tag;
    if (typeof value !== "number") wrongType(value, argument, "a number");
    r.batch.real(value);
    return t.TAG_REAL;
  }

  static take(_: Session, tag: number, lo: number, hi: number): unknown {
    return tag === t.TAG_REAL ? realOf(lo, hi) : MISMATCH;
  }

  private with(operator: number, other: RealArg): this {
    return operate(this, operator, this.constructor as unknown as Type<this>, Real, other);
  }

  add(other: RealArg): this {
    return this.with(t.OPERATOR_REAL_ADD, other);
  }

  sub(other: RealArg): this {
    return this.with(t.OPERATOR_REAL_SUB, other);
  }

  mul(other: RealArg): this {
    return this.with(t.OPERATOR_REAL_MUL, other);
  }

  div(other: RealArg): this {
    return this.with(t.OPERATOR_REAL_DIV, other);
  }

  neg(): this {
    return operate(this, t.OPERATOR_REAL_NEGATE, this.constructor as unknown as Type<this>);
  }

  lt(other: RealArg): Bool {
    return operate(this, t.OPERATOR_REAL_LT, Bool, Real, other);
  }

  le(other: RealArg): Bool {
    return operate(this, t.OPERATOR_REAL_LE, Bool, Real, other);
  }

  gt(other: RealArg): Bool {
    return operate(this, t.OPERATOR_REAL_GT, Bool, Real, other);
  }

  ge(other: RealArg): Bool {
    return operate(this, t.OPERATOR_REAL_GE, Bool, Real, other);
  }

  eq(other: RealArg): Bool {
    return operate(this, t.OPERATOR_REAL_EQUAL, Bool, Real, other);
  }

  ne(other: RealArg): Bool {
    return this.eq(other).not();
  }

  unparse(): StrOf<N> {
    return operate(this, t.OPERATOR_REAL_UNPARSE, this.$kin.Str as Type<StrOf<N>>);
  }
}

/** A promise of a character: a string of one code point. */
export class Char extends Value<string, string | Char> {
  static readonly theta = "char";
  static readonly numbersIn = basic(4);

  static put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    if (tag >= 0) return tag;
    const code = typeof value === "string" ? value.codePointAt(0) : undefined;
    if (code === undefined || value !== String.fromCodePoint(code) || (code >= 0xd800 && code <= 0xdfff)) {
      return wrongType(value, argument, "a string of one character");
    }
    r.batch.word(code, 0);
    return t.TAG_CHAR;
  }

  static take(_: Session, tag: number, lo: number): unknown {
    return tag === t.TAG_CHAR ? String.fromCodePoint(lo) : MISMATCH;
  }

  eq(other: string | Char): Bool {
    return operate(this, t.OPERATOR_CHAR_EQUAL, Bool, Char, other);
  }

  ne(other: string | Char): Bool {
    return this.eq(other).not();
  }
}

/** A promise of a text, among ints of a type. */
export abstract class StrOf<N> extends Value<string, StrArg> {
  static readonly theta = "string";
  static readonly numbersIn = basic(5);

  static put(r: Recorder, value: unknown, argument: number): number {
    if (typeof value === "string") {
      r.batch.string(value);
      return t.TAG_STRING;
    }
    const tag = putKnown(r, value, argument);
    return tag >= 0 ? tag : wrongType(value, argument, "a string");
  }

  static take(_: Session, tag: number, __: number, ___: number, data: unknown): unknown {
    return tag === t.TAG_STRING ? data : MISMATCH;
  }

  /** Its number of characters. */
  length(): IntOf<N> {
    return operate(this, t.OPERATOR_STRING_LENGTH, this.$kin.Int as Type<IntOf<N>>);
  }

  concat(other: StrArg): this {
    return operate(this, t.OPERATOR_STRING_CONCAT, this.constructor as unknown as Type<this>, Str, other);
  }

  lt(other: StrArg): Bool {
    return operate(this, t.OPERATOR_STRING_LT, Bool, Str, other);
  }

  le(other: StrArg): Bool {
    return operate(this, t.OPERATOR_STRING_LE, Bool, Str, other);
  }

  gt(other: StrArg): Bool {
    return operate(this, t.OPERATOR_STRING_GT, Bool, Str, other);
  }

  ge(other: StrArg): Bool {
    return operate(this, t.OPERATOR_STRING_GE, Bool, Str, other);
  }

  eq(other: StrArg): Bool {
    return operate(this, t.OPERATOR_STRING_EQUAL, Bool, Str, other);
  }

  ne(other: StrArg): Bool {
    return this.eq(other).not();
  }
}

/** A promise of an integer of 64 bits. */
export class Int extends IntOf<bigint> {}

/** A promise of a floating-point number. */
export class Real extends RealOf<bigint> {}

/** A promise of a text. */
export class Str extends StrOf<bigint> {}

/** Returns the numbers of a built-in type. */
export const builtinNumbers =
  (place: number) =>
  (stubs: Stubs): readonly [number, CellNumbers] => {
    const [type, cell] = stubs.builtin[place] as readonly [number, CellNumbers, number];
    return [type, cell];
  };

/** Returns the number of a method of a built-in type. */
export const builtinMethod = (stub: Stub, place: number, method: number): number =>
  (stub.$session.$stubs.builtin[place]?.[2] ?? t.NO_NUMBER) + method;

/** Gives a stub a value that is known already. */
export function known<S extends Stub>(session: Session, type: Type<S>, value: unknown): S {
  const stub = session.$new(type);
  if (value instanceof Stub) throw new TypeError("a value was expected, not a stub");
  const { batch } = session.$r;
  const start = batch.n;
  try {
    session.$r.depth = 0;
    const tag = type.put(session.$r, value, 1);
    const reader = new Reader(batch.i32, start, batch.n);
    // Objects in it are held by their stubs.
    reader.loose = true;
    reader.value(tag, (tag, lo, hi, data) => {
      settle(session.$r, stub, tag, lo, hi, data);
    });
    return stub;
  } finally {
    batch.n = start;
  }
}

/** What may be given where a value of a basic type is wanted. */
export type NilArg = null | Nil;
export type BoolArg = boolean | Bool;
export type IntArg = bigint | number | IntOf<bigint> | IntOf<number>;
export type RealArg = number | RealOf<bigint> | RealOf<number>;
export type CharArg = string | Char;
export type StrArg = string | StrOf<bigint> | StrOf<number>;

/** What may be given for contents: stubs in place of values, and safe integers. */
export type Input<V> = V extends Stub
  ? V
  : V extends bigint
    ? IntArg
    : V extends boolean
      ? BoolArg
      : V extends number
        ? RealArg
        : V extends string
          ? StrArg | Char
          : V extends Uint8Array
            ? BytesArg
            : V extends readonly (infer E)[]
              ? readonly Input<E>[]
              : V extends { readonly tag: infer T }
                ? { readonly [K in keyof V]: K extends "tag" ? T : Input<V[K]> }
                : V extends object
                  ? { readonly [K in keyof V]: Input<V[K]> }
                  : V;

// Stubs: the objects and values of a session as the program has them, and their types.

import { call, callRoutine, type Encoder, putStub, withType } from "./recorder/call.js";
import { misuse } from "./recorder/failure.js";
import type { CellNumbers, Stubs } from "./recorder/numbers.js";
import type { Recorder } from "./recorder/recorder.js";
import { FAILED, FREE, FUTURE, isSame, newObject, Slot, UNDER_WAY } from "./recorder/slots.js";
import type { Iteration } from "./recorder/structures.js";
import { OP_AS, OP_IS, OP_SEND, TAG_REF } from "./tables.js";
import type { Session } from "./session.js";
import type { Bool } from "./values.js";

/** Stands for the types of a stub: `arg`, what stands for it as an argument; `plain`, its claimed value. */
export declare const TYPES: unique symbol;

/** What may be given where a stub is wanted: the stub, or a value. */
export type Arg<S> = S extends { readonly [TYPES]: { readonly arg: infer A } } ? A : S;

/** The value of a stub when it is claimed: of an object the stub itself. */
export type Plain<S> = S extends { readonly [TYPES]: { readonly plain: infer P } } ? P : S;

/** The arguments of several types. */
export type Args<S extends readonly unknown[]> = { [K in keyof S]: Arg<S[K]> };

/** The claimed values of several types. */
export type Plains<S extends readonly unknown[]> = { -readonly [K in keyof S]: Plain<S[K]> };

/** A type of Theta as a value: its class. */
export interface Type<S extends Stub = Stub> extends Encoder {
  new (session: Session): S;
  /** Its name in Theta. */
  readonly theta: string;
  /** Returns its number and those of its cells in a module of stubs. */
  numbersIn(stubs: Stubs): readonly [type: number, cell: CellNumbers];
  /** Returns a value of it that came as a part of a result; `MISMATCH` if it is of another type. */
  take(session: Session, tag: number, lo: number, hi: number, data: unknown): unknown;
}

/** The types of stubs. */
export type Types<S extends readonly Stub[]> = { readonly [K in keyof S]: Type<S[K]> };

/** Says that a value has another type than its heading says. */
export const MISMATCH = Symbol("mismatch");

/** A stub: the result of a recorded call. */
export abstract class Stub extends Slot {
  declare readonly $session: Session;

  constructor(session: Session) {
    super();
    this.$session = session;
  }

  /** Records a call of a method; the arguments are pairs of a type and a value. */
  $call<S extends Stub>(number: number, type: Type<S>, ...args: unknown[]): S {
    const session = this.$session;
    const place = session.$place();
    return session.$take(call(session.$r, session.$admit(), this, number, args, place), type, place);
  }

  /** As `$call`, of a method with several results. */
  $calls<S extends readonly Stub[]>(number: number, types: Types<S>, ...args: unknown[]): S {
    const session = this.$session;
    const place = session.$place();
    const made = call(session.$r, session.$admit(), this, number, args, place);
    return types.map((type) => session.$take(made, type, place)) as unknown as S;
  }

  /** Returns a call of an iterator, which is recorded by `Session.foreach`. */
  $iter<S extends readonly Stub[]>(number: number, types: Types<S>, ...args: unknown[]): Iter<S> {
    return new Iter(this.$session, { receiver: this, method: number }, types, args);
  }

  /** Records a message that nobody awaits. */
  $send(number: number, ...args: unknown[]): void {
    const session = this.$session;
    const place = session.$place();
    const sent = call(session.$r, session.$admit(), this, number, args, place, OP_SEND);
    session.$release(session.$take(sent, session.$done, place));
  }

  /** Gives the stub back: it cannot be used any more. Stubs that nobody has any more are given back later. */
  release(): void {
    this.$session.$release(this);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** Returns what the stub is, for a debugger. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    const states: Record<number, string> = {
      [FUTURE]: "recorded",
      [UNDER_WAY]: "under way",
      [FAILED]: "failed",
      [FREE]: "released",
    };
    return `${this.constructor.name} { ${states[this.$tag] ?? "known"} }`;
  }
}

/** Appends a stub that is an argument; returns -1 for another value. */
export function putKnown(r: Recorder, value: unknown, argument: number): number {
  if (!(value instanceof Stub)) return -1;
  if (value.$session.$r !== r) throw misuse("OtherSession");
  return putStub(r, value, argument);
}

/** Throws that an argument has another type. */
export function wrongType(value: unknown, argument: number, wanted: string): never {
  const kind = value === null ? "null" : typeof value === "object" ? value.constructor.name : typeof value;
  throw new TypeError(`argument ${argument}: ${wanted} was expected, not ${kind}`);
}

/** The numbers of a type and of its cells. */
export type Numbers = readonly [type: number, cell: CellNumbers];

/** The stub of an object. It is no promise: calls on it are recorded at once. */
export abstract class Remote extends Stub {
  static readonly theta: string = "any";
  /** The numbers of a generated class. */
  static readonly numbers: Numbers | undefined;

  static numbersIn(stubs: Stubs): Numbers {
    if (this.numbers) return this.numbers;
    const [type, cell] = stubs.builtin[0] as readonly [number, CellNumbers, number];
    return [type, cell];
  }

  static put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    return tag < 0 ? wrongType(value, argument, `an object of type ${this.theta}`) : tag;
  }

  static take(session: Session, tag: number, lo: number, hi: number, _: unknown): unknown {
    const type = this as unknown as Type<Remote>;
    return tag === TAG_REF ? newObject(session.$r, session.$new(type), lo, hi) : MISMATCH;
  }

  /** Returns the same object as one of another type; if it has another type, `wrong_type` is signalled. */
  as<S extends Stub>(type: Type<S>): S {
    return this.$typed(OP_AS, type, type);
  }

  /** Records a command with a type and this object. */
  $typed<S extends Stub>(code: typeof OP_AS | typeof OP_IS, type: Type, result: Type<S>): S {
    const session = this.$session;
    const [number] = type.numbersIn(session.$stubs);
    const place = session.$place();
    const made = withType(session.$r, session.$admit(), code, this, number, type.theta, place);
    return session.$take(made, result, place);
  }

  /** Returns the test if the object has a type. */
  is(type: Type): Bool {
    return this.$typed(OP_IS, type, this.$session.$bool);
  }

  /** Waits until the object is there; rejects if the call that makes it has failed. Crosses if needed. */
  async resolve(): Promise<this> {
    await this.$session.$claim(this, () => undefined);
    return this;
  }

  /** True if both are known to be the same object. */
  isSame(other: Remote): boolean {
    return isSame(this, other);
  }
}

/** A call of an iterator. It is recorded by `Session.foreach`, once. */
export class Iter<S extends readonly Stub[]> {
  readonly $session: Session;
  readonly $iteration: Iteration;
  readonly $types: Types<S>;
  readonly $args: readonly unknown[];

  constructor(session: Session, iteration: Iteration, types: Types<S>, args: readonly unknown[]) {
    this.$session = session;
    this.$iteration = iteration;
    this.$types = types;
    this.$args = args;
  }
}

/** Records a call of a routine. */
export function callOf<S extends Stub>(
  session: Session,
  stubs: Stubs,
  routine: number,
  type: Type<S>,
  ...args: unknown[]
): S {
  const place = session.$place();
  return session.$take(callRoutine(session.$r, session.$admit(), stubs, routine, args, place), type, place);
}

/** As `callOf`, of a routine with several results. */
export function callsOf<S extends readonly Stub[]>(
  session: Session,
  stubs: Stubs,
  routine: number,
  types: Types<S>,
  ...args: unknown[]
): S {
  const place = session.$place();
  const made = callRoutine(session.$r, session.$admit(), stubs, routine, args, place);
  return types.map((type) => session.$take(made, type, place)) as unknown as S;
}

/** Returns a call of an iterator that is a routine. */
export const iterOf = <S extends readonly Stub[]>(
  session: Session,
  stubs: Stubs,
  routine: number,
  types: Types<S>,
  ...args: unknown[]
): Iter<S> => new Iter(session, { stubs, routine }, types, args);

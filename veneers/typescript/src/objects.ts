// Stubs of the built-in types of objects: cells, tables, contents, directories; procedures.

import { callProcedure, emit, get, putItems, type Encoder } from "./recorder/call.js";
import type { Failure, Plain as Part } from "./recorder/failure.js";
import type { CellNumbers, Stubs } from "./recorder/numbers.js";
import type { Recorder } from "./recorder/recorder.js";
import type { Rows as CameRows } from "./recorder/reply.js";
import { settleValue } from "./recorder/slots.js";
import type { Session } from "./session.js";
import {
  type Arg,
  type Args,
  type Iter,
  MISMATCH,
  type Plains,
  putKnown,
  Remote,
  type Type,
  type Types,
  type TYPES,
  type Stub,
  wrongType,
} from "./stub.js";
import * as t from "./tables.js";
import { type Bool, builtinMethod, builtinNumbers, Done, Int, Nil, Str, Value } from "./values.js";
import { bigintOf, type Compound } from "./recorder/words.js";

/** The stub of an object of any type. As a part of a result it may also be a value. */
export class Any extends Remote {
  declare readonly [TYPES]: { readonly arg: Remote; readonly plain: Any };

  static override take(session: Session, tag: number, lo: number, hi: number, data: unknown): unknown {
    if (tag === t.TAG_REF) return Remote.take.call(this, session, tag, lo, hi, data);
    const stub = session.$new(Any);
    settleValue(session.$r, stub, { tag, lo, hi, data });
    return stub;
  }
}

/** The cells of cells, which no interface has. */
const noCell: CellNumbers = [t.NO_NUMBER, t.NO_NUMBER, t.NO_NUMBER, t.NO_NUMBER];

/** A cell: an object that stores one value, a variable of loops at the server. */
export class Cell<S extends Stub> extends Remote {
  /** The type of its value. */
  readonly $of: Type<S>;

  constructor(session: Session, of: Type<S>) {
    super(session);
    this.$of = of;
  }

  private get numbers(): CellNumbers {
    return this.$of.numbersIn(this.$session.$stubs)[1];
  }

  /** Stores a value. */
  put(value: Arg<S>): Done {
    return this.$call(this.numbers[1], Done, this.$of, value);
  }

  /** Returns its value; signals `not_possible` if it is empty. */
  get(): S {
    return this.$call(this.numbers[3], this.$of);
  }

  /** True if it has a value. */
  full(): Bool {
    return this.$call(this.numbers[2], this.$session.$bool);
  }
}

/** Returns the type of cells of a type. */
export function cellOf<S extends Stub>(of: Type<S>): Type<Cell<S>> {
  class CellOf extends Cell<S> {
    static override readonly theta = `cell[${of.theta}]`;

    static override numbersIn(stubs: Stubs): readonly [number, CellNumbers] {
      return [of.numbersIn(stubs)[1][0], noCell];
    }

    constructor(session: Session) {
      super(session, of);
    }
  }
  return CellOf;
}

/** A table of rows, which structures append to; it comes back whole. */
export class Rows<S extends readonly Stub[]> extends Value<Plains<S>[]> {
  readonly $columns: Types<S>;

  constructor(session: Session, columns: Types<S>) {
    super(session);
    this.$columns = columns;
  }

  override get $type(): Pick<Type, "take"> {
    return { take: (session, tag, _, __, data) => (tag === t.TAG_ROWS ? this.rows(session, data) : MISMATCH) };
  }

  private rows(session: Session, data: unknown): unknown {
    const came = data as CameRows;
    const columns = this.$columns;
    if (came.columns.length !== columns.length) return MISMATCH;
    const rows: unknown[][] = [];
    let row: unknown[] = [];
    let good = true;
    came.each((tag, lo, hi, data) => {
      const cell = (columns[row.length] as Type).take(session, tag, lo, hi, data);
      good &&= cell !== MISMATCH;
      row.push(cell);
      if (row.length === columns.length) {
        rows.push(row);
        row = [];
      }
    });
    return good ? rows : MISMATCH;
  }

  /** Appends a row. In structures and procedures it is appended whenever they come to it. */
  push(...cells: Args<S>): void {
    const session = this.$session;
    const place = session.$place();
    const args = this.$columns.flatMap((type: Type, at: number) => [type, cells[at]]);
    const made = emit(session.$r, session.$admit(), this, args, place);
    session.$release(session.$take(made, Done, place));
  }
}

/** The form of the contents of a type. Parts are named as in the program. */
export type Shape =
  | { readonly kind: "elements"; readonly of: () => Type }
  | { readonly kind: "pairs"; readonly of: () => readonly [Type, Type] }
  | { readonly kind: "fields"; readonly of: () => Readonly<Record<string, Type>> }
  | { readonly kind: "choice"; readonly of: () => Readonly<Record<string, Type>> }
  | { readonly kind: "maybe"; readonly of: () => Type };

/** Reads the contents of an object of a shape. */
function takeContents(session: Session, { kind, of }: Shape, compound: Compound): unknown {
  const parts: Part[] = [];
  compound.each((tag, lo, hi, data) => parts.push({ tag, lo, hi, data }));
  let good = true;
  const part = (type: Type, at: number): unknown => {
    const found = parts[at] ?? { tag: -1, lo: 0, hi: 0, data: undefined };
    const value = type.take(session, found.tag, found.lo, found.hi, found.data);
    good &&= value !== MISMATCH;
    return value;
  };
  let value: unknown;
  switch (kind) {
    case "elements": {
      const type = of();
      value = parts.map((_, at) => part(type, at));
      break;
    }
    case "pairs": {
      const [key, item] = of();
      good = parts.length % 2 === 0;
      value = parts.flatMap((_, at) => (at % 2 === 0 ? [[part(key, at), part(item, at + 1)]] : []));
      break;
    }
    case "fields": {
      const fields = Object.entries(of());
      good = parts.length === fields.length;
      value = Object.fromEntries(fields.map(([name, type], at) => [name, part(type, at)]));
      break;
    }
    case "choice":
    case "maybe": {
      const first = parts[0];
      if (first?.tag !== t.TAG_INT || parts.length !== 2) return MISMATCH;
      const number = bigintOf(first.lo, first.hi);
      if (kind === "maybe") {
        good = number === 0n || number === 1n;
        value = number === 0n ? undefined : part(of(), 1);
        break;
      }
      const [tag, type] = Object.entries(of())[Number(number)] ?? [];
      if (!tag || !type) return MISMATCH;
      const inner = part(type, 1);
      value = type === (Nil as Type) ? { tag } : { tag, value: inner };
    }
  }
  return good ? value : MISMATCH;
}

/** Appends contents that are an argument. */
function putContents(r: Recorder, { kind, of }: Shape, value: unknown, argument: number, theta: string): number {
  const wrong = (): never => wrongType(value, argument, theta);
  if (kind === "elements") {
    const type = of() as Encoder;
    if (!Array.isArray(value)) return wrong();
    return putItems(r, value.length, (at) => type.put(r, value[at], argument));
  }
  if (kind === "maybe") {
    if (value === undefined)
      return putItems(r, 2, (at) => (at === 0 ? Int.put(r, 0, argument) : Nil.put(r, null, argument)));
    const type = of() as Encoder;
    return putItems(r, 2, (at) => (at === 0 ? Int.put(r, 1, argument) : type.put(r, value, argument)));
  }
  if (typeof value !== "object" || value === null) return wrong();
  const entries = Object.entries(of() as Readonly<Record<string, Type>>);
  const object = value as Record<string, unknown>;
  if (kind === "fields") {
    return putItems(r, entries.length, (at) => {
      const [name, type] = entries[at] as [string, Encoder];
      return type.put(r, object[name], argument);
    });
  }
  const index = entries.findIndex(([tag]) => tag === object["tag"]);
  const entry = entries[index];
  if (!entry) return wrong();
  return putItems(r, 2, (at) => (at === 0 ? Int.put(r, index, argument) : entry[1].put(r, object["value"], argument)));
}

/** The contents of an object, as a promise. */
export class Got<V> extends Value<V, never> {
  readonly #of: ContentsType;

  constructor(session: Session, of: ContentsType) {
    super(session);
    this.#of = of;
  }

  override get $type(): Pick<Type, "take"> {
    const { shape } = this.#of;
    return {
      take: (session, tag, _, __, data) =>
        tag === t.TAG_COMPOUND ? takeContents(session, shape, data as Compound) : MISMATCH,
    };
  }
}

interface ContentsType {
  readonly shape: Shape;
}

/** The stub of an object whose contents can be taken: a collection, a record, a struct, a oneof. */
export abstract class Contents<V> extends Remote {
  static readonly shape: Shape;

  /** Takes the contents of the object, when the batch is run. Not inside a structure. */
  get(): Got<V> {
    const session = this.$session;
    const place = session.$place();
    const of = this.constructor as unknown as ContentsType;
    return session.$fill(get(session.$r, session.$admit(), this, place), new Got<V>(session, of), place);
  }
}

/** The stub of an object that a copy is as good as: its contents may be given where it is wanted. */
export abstract class Copied<A, V> extends Contents<V> {
  declare readonly [TYPES]: { readonly arg: A; readonly plain: V };

  static override put(r: Recorder, value: unknown, argument: number): number {
    const tag = putKnown(r, value, argument);
    return tag >= 0 ? tag : putContents(r, (this as unknown as ContentsType).shape, value, argument, this.theta);
  }

  static override take(session: Session, tag: number, _: number, __: number, data: unknown): unknown {
    const { shape } = this as unknown as ContentsType;
    return tag === t.TAG_COMPOUND ? takeContents(session, shape, data as Compound) : MISMATCH;
  }
}

/** The root directory: the names of well-known objects. */
export class Directory extends Remote {
  static override readonly theta = "directory";
  static override readonly numbersIn = builtinNumbers(t.BUILTIN_DIRECTORY);

  private number(method: number): number {
    return builtinMethod(this, t.BUILTIN_DIRECTORY, method);
  }

  /** Signals `not_found`. */
  lookup(name: string | Str): Any {
    return this.$call(this.number(0), Any, Str, name);
  }

  insert(name: string | Str, object: Remote): Done {
    return this.$call(this.number(1), Done, Str, name, Any, object);
  }

  /** Signals `not_found`. */
  remove(name: string | Str): Done {
    return this.$call(this.number(2), Done, Str, name);
  }

  names(): Iter<[Str]> {
    return this.$iter(this.number(3), [Str]);
  }

  /** The names, each with the type of its object. */
  list(): Iter<[Str, Str]> {
    return this.$iter(this.number(4), [Str, Str]);
  }
}

/** A batched procedure, which the session keeps. */
export class Procedure<P extends readonly Stub[], S extends Stub> {
  private readonly session: Session;
  private readonly number: number;
  private readonly params: Types<P>;
  private readonly result: Type<S>;
  /** The reason why its definition was not sent. */
  $refused: Failure | null = null;

  constructor(session: Session, number: number, params: Types<P>, result: Type<S>) {
    this.session = session;
    this.number = number;
    this.params = params;
    this.result = result;
  }

  /** Records a call. */
  call(...values: Args<P>): S {
    const { session } = this;
    const place = session.$place();
    const args = this.params.flatMap((type: Type, at: number) => [type, values[at]]);
    const made = callProcedure(session.$r, session.$admit(), this.number, this.$refused, args, place);
    return session.$take(made, this.result, place);
  }
}

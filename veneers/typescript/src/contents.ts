// Contents: objects that are taken with their items, and those that cross by value.

import { type Compound, get, putItems, readCompound } from "./recorder/compounds.js";
import type { Encoder } from "./recorder/call.js";
import type { Plain as Part } from "./recorder/failure.js";
import type { Recorder } from "./recorder/recorder.js";
import { bigintOf, itemReaders } from "./recorder/words.js";
import type { Session } from "./session.js";
import { MISMATCH, putKnown, Remote, type Type, type TYPES, wrongType } from "./stub.js";
import * as t from "./tables.js";
import { Int, Nil, Value } from "./values.js";

itemReaders[t.TAG_COMPOUND] = readCompound;

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

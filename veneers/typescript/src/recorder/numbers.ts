// The constants of generated code, and the way its numbers become the server's.

import { Failure, misuse, missing } from "./failure.js";
import type { InterfaceJson } from "./mapping.js";

import { NO_NUMBER as NONE } from "../tables.js";

/** The numbers of `cell[T]` and of its methods: type, `put`, `full`, `get`. */
export type CellNumbers = readonly [type: number, put: number, full: number, get: number];

/** The constants of a generated module. */
export interface Stubs {
  /** The digest of the interface that the stubs were made from, in hexadecimal digits. */
  readonly digest: string;
  /** The interface's description. It is needed only for a server with another interface. */
  readonly json: () => Promise<string> | string;
  /** The names of types, each with those of its methods: `Item|name|rename`. */
  readonly types: readonly string[];
  /** The names of routines. */
  readonly routines: readonly string[];
  /** The numbers of `null`, `bool`, `int`, `real`, `char` and `string`, and of their cells. */
  readonly basic: readonly (readonly [type: number, cell: CellNumbers])[];
  /** The numbers of `any`, `directory` and `bytes`, of their cells, and of their first methods. */
  readonly builtin: readonly (readonly [type: number, cell: CellNumbers, first: number])[];
  /** The numbers of the methods behind operators. */
  readonly operators: readonly number[];
}

/** The numbers of a client's interface as numbers of a server's; -1 for what the server lacks. */
export interface Mapping {
  readonly types: readonly number[];
  readonly methods: readonly number[];
  readonly routines: readonly number[];
}

/** The stubs' numbers as the server has them. */
export class Numbers {
  readonly stubs: Stubs;
  /** The description of the server's interface, if that is another one. */
  readonly server: InterfaceJson | null;
  private readonly map: Mapping | null;

  constructor(stubs: Stubs, map: Mapping | null = null, server: InterfaceJson | null = null) {
    this.stubs = stubs;
    this.server = server;
    this.map = map;
  }

  /** Returns the server's number of a method; -1 if it lacks it. */
  method(number: number): number {
    return this.map ? (this.map.methods[number] ?? -1) : number === NONE ? -1 : number;
  }

  /** Returns the server's number of a type; -1 if it lacks it. */
  type(number: number): number {
    return this.map ? (this.map.types[number] ?? -1) : number === NONE ? -1 : number;
  }

  /** Returns the server's number of a routine. Throws a failure if it lacks it. */
  routine(stubs: Stubs, number: number): number {
    if (stubs !== this.stubs) throw misuse("OtherInterface");
    const found = this.map ? (this.map.routines[number] ?? -1) : number;
    if (found < 0) throw missing(this.routineName(number));
    return found;
  }

  /** Returns the server's number of a type. Throws a failure with this name if it lacks it. */
  expectType(number: number, name: string): number {
    const found = this.type(number);
    if (found < 0) throw missing(name);
    return found;
  }

  /** Returns the name of a method: `DataBase.fetch`. */
  methodName(number: number): string {
    for (const type of this.stubs.types) {
      const [name, ...methods] = type.split("|");
      if (number < methods.length) return `${name}.${methods[number]}`;
      number -= methods.length;
    }
    return "?";
  }

  routineName(number: number): string {
    return this.stubs.routines[number] ?? "?";
  }
}

/** Runs a function; returns the failure that it throws. */
export function caught<T>(run: () => T): T | Failure {
  try {
    return run();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

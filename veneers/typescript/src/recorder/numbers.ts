// The constants of generated code, and the way its numbers become the server's.

import { Failure, misuse, missing } from "./failure.js";

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

interface Named {
  readonly name: string;
  readonly names?: readonly string[];
}

interface MethodJson extends Named {
  readonly params?: readonly { readonly type: number }[];
  readonly results?: readonly number[];
  readonly yields?: readonly number[];
}

interface TypeJson extends Named {
  readonly methods?: readonly MethodJson[];
}

/** An interface as its description has it. */
export interface InterfaceJson {
  readonly types: readonly TypeJson[];
  readonly routines: readonly MethodJson[];
}

/** Reads a description. Throws if it is none. */
export function parseInterface(json: string): InterfaceJson {
  const read = JSON.parse(json) as Partial<InterfaceJson>;
  const named = (one: Named): boolean => typeof one.name === "string";
  const { types, routines } = read;
  const isList = (list: readonly Named[] | undefined): boolean => Array.isArray(list) && list.every(named);
  const good = isList(types) && isList(routines) && types?.every(({ methods }) => isList(methods ?? []));
  if (!good) throw new SyntaxError("this is no description of an interface");
  return read as InterfaceJson;
}

/** Returns the heading of a method, with types by name. */
function heading(of: InterfaceJson, method: MethodJson): string {
  const name = (type: number): string => of.types[type]?.name ?? "?";
  const list = (types: readonly number[] = []): string => types.map(name).join();
  return `(${list(method.params?.map((param) => param.type))})${method.yields ? "yields" : ""}(${list(method.yields ?? method.results)})`;
}

/** The numbers of a client's interface as numbers of a server's; -1 for what the server lacks. */
class Mapping {
  readonly types: number[] = [];
  readonly methods: number[] = [];
  readonly routines: number[] = [];

  constructor(client: InterfaceJson, server: InterfaceJson) {
    const types = new Map<string, number>();
    const add = (names: readonly string[], type: number): void => {
      for (const name of names) if (!types.has(name)) types.set(name, type);
    };
    server.types.forEach((type, number) => {
      add([type.name], number);
    });
    // A name of its own comes before others.
    server.types.forEach((type, number) => {
      add(type.names ?? [], number);
    });
    const firsts: number[] = [];
    let next = 0;
    for (const type of server.types) {
      firsts.push(next);
      next += type.methods?.length ?? 0;
    }
    const find = (method: MethodJson, among: readonly MethodJson[] = []): number => {
      const place = among.findIndex((other) => other.name === method.name);
      const found = among[place];
      return found && heading(client, method) === heading(server, found) ? place : -1;
    };
    for (const type of client.types) {
      const theirs = types.get(type.name) ?? -1;
      this.types.push(theirs);
      for (const method of type.methods ?? []) {
        const place = find(method, server.types[theirs]?.methods);
        this.methods.push(place < 0 ? -1 : (firsts[theirs] as number) + place);
      }
    }
    for (const routine of client.routines) this.routines.push(find(routine, server.routines));
  }
}

/** The stubs' numbers as the server has them. */
export class Numbers {
  readonly stubs: Stubs;
  private readonly map: Mapping | null;

  constructor(stubs: Stubs, client?: InterfaceJson, server?: InterfaceJson) {
    this.stubs = stubs;
    this.map = client && server ? new Mapping(client, server) : null;
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

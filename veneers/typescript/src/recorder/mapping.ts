// The numbers of a server with another interface. Loaded when a server has one.

import { readCompound } from "./compounds.js";
import { Refusal } from "./greeting.js";
import { type Mapping, Numbers, type Stubs } from "./numbers.js";
import { TAG_COMPOUND } from "../tables.js";
import { itemReaders } from "./words.js";

/** A type, method or routine by its names. */
interface Named {
  readonly name: string;
  readonly names?: readonly string[];
}

/** A method or routine. */
export interface MethodJson extends Named {
  readonly doc?: string;
  readonly params?: readonly { readonly name: string; readonly type: number }[];
  readonly results?: readonly number[];
  readonly yields?: readonly number[];
  readonly signals?: readonly { readonly name: string; readonly values?: readonly number[] }[];
}

/** A type. */
export interface TypeJson extends Named {
  readonly kind?: string;
  readonly actor?: boolean;
  readonly element?: number;
  readonly fields?: readonly { readonly name: string; readonly type: number }[];
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

/** Returns the numbers of a client's interface as a server has them. */
function mapping(client: InterfaceJson, server: InterfaceJson): Mapping {
  const map = { types: [] as number[], methods: [] as number[], routines: [] as number[] };
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
    map.types.push(theirs);
    for (const method of type.methods ?? []) {
      const place = find(method, server.types[theirs]?.methods);
      map.methods.push(place < 0 ? -1 : (firsts[theirs] as number) + place);
    }
  }
  for (const routine of client.routines) map.routines.push(find(routine, server.routines));
  return map;
}

/** Returns the function that makes the numbers of a server by its description; `client` is the stubs'. */
export function numbersBy(stubs: Stubs, client: InterfaceJson): (server: Uint8Array) => Numbers {
  // Such a server may signal exceptions that the stubs do not know.
  itemReaders[TAG_COMPOUND] = readCompound;
  return (json) => {
    let server: InterfaceJson;
    try {
      server = parseInterface(new TextDecoder("utf-8", { fatal: true }).decode(json));
    } catch (error) {
      const text = `the interface description cannot be read: ${String(error)}`;
      throw new Refusal({ by: "bad_reply", text, cause: error });
    }
    return new Numbers(stubs, mapping(client, server), server);
  };
}

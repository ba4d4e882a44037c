// Sessions without generated stubs.

import { Any } from "../any.js";
import type { Options } from "../connect.js";
import type { Stubs } from "../core.js";
import { Directory } from "../directory.js";
import { command } from "../recorder/call.js";
import { misuse } from "../recorder/failure.js";
import { Refusal } from "../recorder/greeting.js";
import { parseInterface } from "../recorder/mapping.js";
import { Numbers } from "../recorder/numbers.js";
import { LOOKUP_OF } from "../recorder/recorder.js";
import { HANDLE, newObject } from "../recorder/slots.js";
import { collect } from "../rows.js";
import type { Session } from "../session.js";
import { callOf, type Remote } from "../stub.js";
import { NO_NUMBER, OP_LOOKUP } from "../tables.js";
import { Str } from "../values.js";
import { type DynamicNames, type DynamicStubs, makeStubs } from "./stubs.js";

/** An object whose type the compiler does not know: it has the methods of the server's interface. */
export type DynamicObject = Remote & { readonly [method: string]: (...values: readonly unknown[]) => DynamicResult };

/** A result of such a method: an object, a promise, or contents. */
export type DynamicResult = DynamicObject & PromiseLike<unknown>;

/** A session whose stubs are made from the server's interface. */
export interface DynamicSession extends Session {
  /** The classes of types and exceptions, and the functions of routines, by the names that stubs have. */
  readonly stubs: DynamicNames;
  /** Looks a well-known object up without its type: crosses at once, because the answer has the type. */
  find(name: string): Promise<DynamicObject>;
  /** Returns the names of the root directory, each with the type of its object. */
  list(): Promise<[name: string, type: string][]>;
}

/** A client without stubs: the server describes what it has. */
const NO_STUBS: Stubs = {
  digest: "0".repeat(64),
  json: () => {
    throw new TypeError("there are no stubs");
  },
  numbersBy: (server, digest) => {
    try {
      const json = new TextDecoder("utf-8", { fatal: true }).decode(server);
      return new Numbers(makeStubs(parseInterface(json), json, digest));
    } catch (error) {
      const text = `the interface description cannot be read: ${String(error)}`;
      throw new Refusal({ by: "bad_reply", text, cause: error });
    }
  },
  types: [],
  routines: [],
  basic: [],
  builtin: [],
  operators: [],
  signals: () => [],
};

async function find(session: Session, name: string): Promise<DynamicObject> {
  const r = session.$r;
  const place = session.$place();
  const recorded = command(r, session.$admit(), LOOKUP_OF, place, () => {
    if (r.scopes.length > 0) throw misuse("LookupInside");
    r.batch.head(OP_LOOKUP, 0, NO_NUMBER);
    r.batch.string(name);
  });
  const found = session.$take(recorded, Any, place);
  await found.resolve();
  const type = (session.$stubs as DynamicStubs).classes[found.$data as number];
  if (found.$tag !== HANDLE || !type) return found as unknown as DynamicObject;
  const object = newObject(r, session.$new(type), found.$lo, found.$hi);
  found.release();
  return object as unknown as DynamicObject;
}

async function list(session: Session): Promise<[string, string][]> {
  const root = session.$stubs.routines.indexOf("root");
  if (root < 0) return [];
  const names = callOf(session, session.$stubs, root, Directory).list();
  return collect(names, [Str, Str], (name, type) => [name, type]);
}

/** Returns the function that opens sessions without stubs by one that opens sessions with them. */
export const connectBy =
  (connect: (stubs: Stubs, address: string, options?: Options) => Promise<Session>) =>
  async (address: string, options?: Options): Promise<DynamicSession> => {
    const session = await connect(NO_STUBS, address, options);
    return Object.assign(session, {
      stubs: (session.$stubs as DynamicStubs).names,
      find: (name: string) => find(session, name),
      list: () => list(session),
    });
  };

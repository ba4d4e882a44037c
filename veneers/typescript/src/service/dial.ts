// Connection, greeting and look-up of a server that a trader has named.

import { parseAddress } from "../address.js";
import type { Options } from "../connect.js";
import type { Stubs } from "../core.js";
import { BifrostError, ClosedError } from "../errors.js";
import { limit } from "../limit.js";
import type { Session } from "../session.js";
import type { Remote, Type } from "../stub.js";
import { ERROR_BAD_TOKEN } from "../tables.js";
import { FinalError } from "./errors.js";
import type { Offer } from "./offer.js";
import { type Search, trusting } from "./search.js";

/** A type of generated stubs, which can be a service. */
export type ServiceType<S extends Remote> = Type<S> & { readonly module: Stubs };

/** The server of a session that was imported. */
export interface Imported {
  /** The name under which the object is found there. */
  readonly name: string;
  /** The address of the server. */
  readonly address: string;
  readonly offer: Offer;
}

/** A session with an imported server, and the object if one was looked up. */
export interface Found<S extends Remote> {
  readonly session: Session;
  readonly object: S;
  readonly imported: Imported;
}

const imports = new WeakMap<Session, Imported>();

/** Returns the server that a trader has named for a session; undefined if the session was not imported. */
export const serverOf = (session: Session): Imported | undefined => imports.get(session);

/** Ends a session that nobody needs. */
export const drop = ({ session }: { readonly session: Session }): void => {
  session[Symbol.dispose]();
};

/** True if nobody can read the bytes on the way to an address. */
async function isPrivate(search: Search, address: string): Promise<boolean> {
  const { scheme, host } = parseAddress(address);
  return (scheme !== "tcp" && scheme !== "ws") || search.platform.isLoopback(host);
}

/** Greets a server, and shows it the token if it asks for it and nobody else can read it. */
async function greet(search: Search, stubs: Stubs, address: string, options: Options): Promise<Session> {
  const isShown = !options.token || (await isPrivate(search, address));
  const shown = isShown ? options : { ...options, token: "" };
  try {
    return await search.platform.connect(stubs, address, trusting(shown, address));
  } catch (error) {
    const isAsked = error instanceof ClosedError && error.number === ERROR_BAD_TOKEN;
    if (isShown || !isAsked) throw error;
    const why = "which is not shown without encryption to a server that a trader has named";
    const remedy = "it has to be exported with a `tls://` address";
    throw new FinalError(`${address} asks for the token, ${why}: ${remedy}`, { cause: error });
  }
}

/**
 * Connects to the server of an offer at one of its addresses, greets it, and looks the object up, all
 * within this time and until the signal fires. Without a type nothing is looked up.
 */
export async function dial<S extends Remote>(
  search: Search,
  stubs: Stubs,
  type: ServiceType<S> | null,
  offer: Offer,
  address: string,
  signal: AbortSignal,
): Promise<Found<S>> {
  const ms = search.patienceMs;
  const late = limit(ms, `${address} did not answer within ${ms} ms`, signal);
  let session: Session | null = null;
  try {
    session = await greet(search, stubs, address, { ...search.options, signal: late.signal });
    late.signal.throwIfAborted();
    const imported = { name: offer.name, address, offer };
    imports.set(session, imported);
    // Then nobody uses the object.
    if (!type) return { session, object: null as unknown as S, imported };
    const object = session.lookup(offer.name, type);
    await session.$claim(object, () => undefined, late.signal);
    return { session, object, imported };
  } catch (error) {
    if (session) drop({ session });
    if (!session || !(error instanceof BifrostError) || error instanceof ClosedError) throw error;
    throw new FinalError(`the server does not have the object: ${error.message}`, { cause: error });
  } finally {
    late.done();
  }
}

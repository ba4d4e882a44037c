// Offers: the servers of a service, as a trader tells them.

import { type Property, readValue } from "./query.js";

/** An offer: an object of a server that a trader lists. */
export interface Offer {
  /** Its number at the trader. */
  readonly id: bigint;
  /** The type of the object. */
  readonly service: string;
  /** The digest of the server's interface. */
  readonly digest: string;
  /** The name under which the server knows the object. */
  readonly name: string;
  /** The addresses of the server, the best one first. */
  readonly addresses: readonly string[];
  readonly properties: ReadonlyMap<string, Property>;
  /** The load of the server, if it is known. */
  readonly load: number | undefined;
  /** True if the trader may have missed its renewals. */
  readonly doubtful: boolean;
}

/** An offer as the stubs of a trader have it. */
export interface ListedOffer {
  readonly id: bigint;
  readonly service: string;
  readonly digest: string;
  readonly name: string;
  readonly addresses: readonly string[];
  readonly names: readonly string[];
  readonly values: readonly string[];
  readonly load: number;
  readonly doubtful: boolean;
}

/** Makes an offer of its form in the stubs. A value that this version cannot read is shown as its text. */
export function offerOf({ names, values, load, ...listed }: ListedOffer): Offer {
  const read = (name: string, at: number): [string, Property] => {
    const text = values[at] ?? "";
    return [name, readValue(text) ?? text];
  };
  return { ...listed, properties: new Map(names.map(read)), load: load >= 0 ? load : undefined };
}

/** True if two offers are of the same object of the same server. */
export const isSame = (a: Offer, b: Offer): boolean =>
  a.name === b.name && a.service === b.service && String(a.addresses) === String(b.addresses);

/** Returns the text of a property of an offer, if it has that property and it is a string. */
function textOf(offer: Offer, name: string): string | undefined {
  const value = offer.properties.get(name);
  return typeof value === "string" ? value : undefined;
}

/** Returns the store of the offer's server, if it tells one. */
export const storeOf = (offer: Offer): string | undefined => textOf(offer, "store");

/** Returns the scheme of an address; empty if it is none. */
export const schemeOf = (address: string): string => /^([a-z][a-z0-9+]*):\/\/./s.exec(address)?.[1] ?? "";

/** True if an address has a meaning only on the machine of its server. */
const isLocal = (address: string): boolean =>
  schemeOf(address)
    .split("+")
    .some((part) => part === "shm" || part === "unix");

/**
 * Returns the addresses of an offer that a process can use, in the order in which it tries them:
 * local ones of its own machine, then the others as listed.
 */
export function addressesOf(offer: Offer, host: string, schemes: readonly string[]): string[] {
  const known = offer.addresses.filter((address) => schemes.includes(schemeOf(address)));
  const isHere = host !== "" && textOf(offer, "host") === host;
  const local = isHere ? known.filter(isLocal) : [];
  return [...local, ...known.filter((address) => !isLocal(address))];
}

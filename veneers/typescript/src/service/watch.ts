// Watches the traders of a service, so that new servers are used before old ones are lost.
//
// For each trader a session waits in `changes`, and asks again after each change. The watch connects
// to another server for one of these reasons, and the next run takes it:
//
// | reason | server |
// | --- | --- |
// | the first offer is new, and so no run has had the choice | that of the first offer |
// | the query orders offers by a property or by age, and another one is the first now | the same |
// | the offer in use was listed by this trader, and is not any more | the same |
//
// A load alone is no change at a trader, and moves nobody.

import { limit, pause } from "../limit.js";
import type { Session } from "../session.js";
import type { Remote } from "../stub.js";
import { drop, type Found, type Imported } from "./dial.js";
import { addressesOf, isSame, type Offer } from "./offer.js";
import type { Prefer } from "./query.js";
import type { Dialer } from "./searcher.js";
import type { Search } from "./search.js";
import type { Trader } from "./trader/bifrost_stubs.js";
import { TIMES } from "./importer.js";

/** The time of one call of `changes`, in milliseconds. */
const WITHIN_MS = 5_000;

/** The most offers that are remembered as known. */
export const KNOWN_MAX = 256;

/** Returns the known offers and those that are new, at most `KNOWN_MAX`: the last ones. */
export function remember(known: readonly Offer[], offers: readonly Offer[]): readonly Offer[] {
  const fresh = offers.filter((one) => !known.some((before) => isSame(before, one)));
  return [...known, ...fresh].slice(-KNOWN_MAX);
}

/** True if the order names the same best offer for all clients. A load does not: it differs from call to call. */
const isOrdered = (prefer: Prefer): boolean =>
  prefer === "first" || (/^(?:min|max)\(/.test(prefer) && !prefer.endsWith("(load)"));

/** The offers of a trader, and whether they are all. */
export interface Listed {
  readonly offers: readonly Offer[];
  readonly all: boolean;
}

/**
 * Returns the offer whose server is to be used instead of the one in use; null for none. `known` are
 * the offers that were seen at any trader, `before` those that this one has listed the last time.
 */
export function chooseOther(
  inUse: Offer,
  known: readonly Offer[],
  { offers, all }: Listed,
  before: readonly Offer[],
  prefer: Prefer,
): Offer | null {
  const [first] = offers;
  if (!first || first.doubtful || isSame(first, inUse)) return null;
  const has = (some: readonly Offer[], wanted: Offer): boolean => some.some((one) => isSame(one, wanted));
  const isGone = all && has(before, inUse) && !has(offers, inUse);
  return !has(known, first) || isOrdered(prefer) || isGone ? first : null;
}

/** The watch of a service. */
export class Watch<S extends Remote> {
  private readonly search: Search;
  private readonly dialer: Dialer<S>;
  private readonly stop = new AbortController();
  private inUse: Imported;
  /** The offers that were seen at any trader, the last ones at the end. */
  private known: readonly Offer[];
  /** A server for the next run. */
  private ready: Found<S> | null = null;

  /** Starts the watch. `seen` are the offers that the search has had to choose from. */
  constructor(search: Search, dialer: Dialer<S>, inUse: Imported, seen: readonly Offer[]) {
    this.search = search;
    this.dialer = dialer;
    this.inUse = inUse;
    this.known = seen;
    for (let trader = 0; trader < search.traders.length; trader++) void this.watch(trader);
  }

  /** Takes the server for the next run, if there is one. */
  takeReady(): Found<S> | null {
    const { ready } = this;
    this.ready = null;
    return ready;
  }

  /** Notes the server in use. */
  use(imported: Imported): void {
    this.inUse = imported;
    // It was made for another one.
    this.replaceReady(null);
  }

  /** Ends the watch, and its sessions. */
  end(): void {
    this.stop.abort(new Error("the service is closed"));
    this.replaceReady(null);
  }

  private replaceReady(ready: Found<S> | null): void {
    if (this.ready) drop(this.ready);
    this.ready = ready;
  }

  private async watch(trader: number): Promise<void> {
    const { signal } = this.stop;
    const { patienceMs, pauseMsMin, pauseMsMax } = TIMES;
    let ms: number = pauseMsMin;
    while (!signal.aborted) {
      const late = limit(patienceMs, `the trader did not answer within ${patienceMs} ms`, signal);
      try {
        const session = await this.search.session(trader, WITHIN_MS + patienceMs, late.signal);
        late.done();
        const end = (): void => {
          session[Symbol.dispose]();
        };
        signal.addEventListener("abort", end);
        try {
          await this.follow(session, this.search.trader(session), () => {
            ms = pauseMsMin;
          });
        } finally {
          signal.removeEventListener("abort", end);
          end();
        }
      } catch {
        // The next search tells the reason, if it needs this trader.
      } finally {
        late.done();
      }
      await pause(ms, signal);
      ms = Math.min(2 * ms, pauseMsMax);
    }
  }

  /** Follows the changes at a trader until it is lost, refuses, or the watch ends. */
  private async follow(session: Session, trader: Trader, answered: () => void): Promise<never> {
    const { service } = this.search.url;
    let counter = 0n;
    let before: readonly Offer[] = [];
    for (;;) {
      this.stop.signal.throwIfAborted();
      const changes = await trader.changes(service, counter, WITHIN_MS);
      answered();
      if (changes === counter) continue;
      counter = changes;
      const listed = await this.search.find(session, trader, 0);
      await this.consider(listed, before);
      before = listed.offers;
    }
  }

  /** Connects to another server if there is a reason. */
  private async consider(listed: Listed, before: readonly Offer[]): Promise<void> {
    const offer = chooseOther(this.inUse.offer, this.known, listed, before, this.search.url.prefer);
    this.known = remember(this.known, listed.offers);
    if (!offer) return;
    const { signal } = this.stop;
    for (const address of addressesOf(offer, this.search.host, this.search.platform.schemes)) {
      try {
        const found = await this.dialer(offer, address, signal);
        if (signal.aborted) drop(found);
        else this.replaceReady(found);
        return;
      } catch {
        // The next address is tried.
      }
    }
  }
}

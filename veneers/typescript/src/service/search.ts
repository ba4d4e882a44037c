// A search for servers of a service: its settings, and the questions to traders.

import { parseAddress } from "../address.js";
import type { Options } from "../connect.js";
import type { Stubs } from "../core.js";
import { BifrostError, ClosedError, SignalError } from "../errors.js";
import { limit, pause } from "../limit.js";
import type { Session } from "../session.js";
import { ATTEMPTS_MAX, type Attempt, errorOf, FinalError, ImportError } from "./errors.js";
import { TIMES } from "./importer.js";
import { isSame, type Offer, offerOf } from "./offer.js";
import type { Platform } from "./platform.js";
import { INTERFACE, Trader } from "./trader/bifrost_stubs.js";
import { addressList, parseTraderUrl, type TraderUrl } from "./url.js";

/** The most traders of a search. */
export const TRADERS_MAX = 16;

/** The name of the trader's object at its server. */
const TRADER = "trader";

/** The variables with the traders that `trader:///Service` asks, and with the token for them. */
const TRADERS = "BIFROST_TRADER";
const TRADER_TOKEN = "BIFROST_TRADER_TOKEN";

/** The time for which `offers` waits for traders that answer later than the first one. */
const LATE_MS = 1_000;

/** Returns the options for an address: a pin needs no authorities. */
export const trusting = (options: Options, address: string): Options =>
  address.includes("#") ? { ...options, authorities: undefined } : options;

/** Notes the last failure of a place, among the last ones of all. */
export function noteAttempt(attempts: Attempt[], place: string, why: Error): void {
  const before = attempts.findIndex((attempt) => attempt.place === place);
  if (before >= 0) attempts.splice(before, 1);
  attempts.push({ place, why });
  if (attempts.length > ATTEMPTS_MAX) attempts.shift();
}

/** A search by a URL such as `trader://host/DataBase?region=eu`. */
export class Search {
  readonly platform: Platform;
  readonly url: TraderUrl;
  /** The addresses of the traders. */
  readonly traders: readonly string[];
  /** The longest time of the search, in milliseconds. */
  readonly timeoutMs: number;
  /** The longest time that one trader or one server is waited for. */
  readonly patienceMs: number;
  readonly host: string;
  readonly options: Options;
  private readonly stubs: Stubs | null;

  /**
   * Begins a search; with stubs only servers are found whose interface conforms to theirs. Throws a
   * `TypeError` if the URL is none, or there is no trader to ask.
   */
  constructor(platform: Platform, url: string, stubs: Stubs | null, options: Options) {
    this.platform = platform;
    this.url = parseTraderUrl(url);
    this.stubs = stubs;
    this.options = options;
    this.traders = this.url.trader ? [this.url.trader] : (options.traders ?? addressList(platform.variable(TRADERS)));
    if (this.traders.length === 0) {
      const remedy = "write `trader://host/Service`, or set it to the addresses of traders";
      const example = "as in `tls://trader.example:7450`";
      throw new TypeError(`the URL names no trader, and ${TRADERS} is not set: ${remedy}, ${example}`);
    }
    if (this.traders.length > TRADERS_MAX) {
      const name = options.traders ? "the option `traders`" : TRADERS;
      throw new TypeError(`${name} names ${this.traders.length} traders; at most ${TRADERS_MAX} are asked`);
    }
    for (const trader of this.traders) parseAddress(trader);
    this.timeoutMs = options.timeout ?? 30_000;
    this.patienceMs = Math.min(this.timeoutMs, TIMES.patienceMs);
    this.host = platform.host();
  }

  /** Opens a session with a trader, which waits at most this time for each answer. */
  session(trader: number, ms: number, signal: AbortSignal): Promise<Session> {
    const address = this.traders[trader] as string;
    const token = this.options.traderToken ?? this.platform.variable(TRADER_TOKEN);
    const own: Options = { ...this.options, token, timeout: ms, signal };
    return this.platform.connect(INTERFACE, address, trusting(own, address));
  }

  /** Asks a trader. The session ends when the signal fires. */
  async ask(trader: number, most: number, signal: AbortSignal): Promise<Offer[]> {
    const session = await this.session(trader, this.patienceMs, signal);
    const end = (): void => {
      session[Symbol.dispose]();
    };
    signal.addEventListener("abort", end);
    try {
      signal.throwIfAborted();
      return (await this.find(session, this.trader(session), most)).offers;
    } finally {
      signal.removeEventListener("abort", end);
      end();
    }
  }

  /** Returns the trader's object in a session. */
  trader(session: Session): Trader {
    return session.lookup(TRADER, Trader);
  }

  /**
   * Calls `find`, and teaches the trader the client's interface if it does not know it. `all` is true
   * if there are no other offers.
   */
  async find(session: Session, trader: Trader, most: number): Promise<{ offers: Offer[]; all: boolean }> {
    const { service, query } = this.url;
    const { stubs } = this;
    const find = () => trader.find(service, stubs?.digest ?? "", query, most, this.host).get();
    try {
      const found = await find().catch(async (error: unknown) => {
        if (!stubs || !(error instanceof SignalError) || error.signal !== "unknown_interface") throw error;
        session.clearExceptions();
        await trader.teach(await stubs.json());
        return find();
      });
      return { offers: found.offers.map(offerOf), all: !found.more };
    } catch (error) {
      if (!(error instanceof BifrostError) || error instanceof ClosedError) throw error;
      // It is refused, and will be the next time.
      throw new FinalError(`the trader: ${error.message}`, { cause: error });
    }
  }

  /**
   * Asks all traders at once, and returns their offers, each once. Those of the trader that answered
   * first come first, in the order of the query.
   */
  async offers(most: number): Promise<Offer[]> {
    const over = limit(this.patienceMs, `no answer within ${this.patienceMs} ms`, this.options.signal);
    const [offers, attempts]: [Offer[], Attempt[]] = [[], []];
    let answers = 0;
    const end = new AbortController();
    over.signal.addEventListener("abort", () => {
      end.abort(over.signal.reason);
    });
    const questions = this.traders.map(async (place, trader) => {
      try {
        const found = await this.ask(trader, most, end.signal);
        if (end.signal.aborted) return;
        for (const offer of found) if (!offers.some((known) => isSame(known, offer))) offers.push(offer);
        if (answers++ > 0) return;
        // Others have a little time from now on.
        void pause(LATE_MS, end.signal).then(() => {
          end.abort();
        });
      } catch (error) {
        noteAttempt(attempts, place, errorOf(error));
      }
    });
    try {
      await Promise.all(questions);
    } finally {
      end.abort();
      over.done();
    }
    this.options.signal?.throwIfAborted();
    if (answers === 0) throw new ImportError(this.url.service, "no_trader", 0, attempts);
    return offers;
  }
}

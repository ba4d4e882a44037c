// A client's side of an import, as a state machine without input, output or clock.
//
// It asks the traders in random order, the next one after 250 ms, and dials the addresses of the
// offers that they find, the next one after 250 ms. `poll` returns actions; the program that carries
// them out reports their outcomes. Call `poll` until it returns null, after each report and at
// `nextDeadline`. Its rules are those of `crates/trader/src/importer.rs`:
//
//   Searching -- a server answered: use --> Using -- lost: again, same store --> Searching
//     |    ^                                  |
//     |    +-- pause over -- Pausing          +----- lost: give up ------------> Failed
//     +-- all have failed: ----^                                                   ^
//     +-- the time is over --------------------------------------------------------+
//
// The steps of a search, of which the first one that can be done is done:
//
// 1. Dial the next address of the offer under way, then of the next offer.
// 2. Without offers, ask the next trader.
// 3. When nothing is under way, pause: a second at first, doubled each time.
//
// An offer is dialled once in a search, until the next pause. The offer that was lost comes last.

import { addressesOf, isSame, type Offer, storeOf } from "./offer.js";

/** The settings of an importer; times are milliseconds. */
export interface ImporterOptions {
  /** The time before the next trader is asked. */
  readonly askMs: number;
  /** The time before the next address is dialled. */
  readonly dialMs: number;
  /** The time after which a trader, or a server that is dialled, is given up. */
  readonly patienceMs: number;
  /** The first pause, and the longest one. */
  readonly pauseMsMin: number;
  readonly pauseMsMax: number;
  /** The time of a search. */
  readonly timeoutMs: number;
  /** The machine of the client, whose local addresses it can dial; empty if it is not known. */
  readonly host: string;
  /** The schemes of addresses that it can dial. */
  readonly schemes: readonly string[];
}

/** The default times. */
export const TIMES = { askMs: 250, dialMs: 250, patienceMs: 5_000, pauseMsMin: 1_000, pauseMsMax: 30_000 } as const;

/** The step of a client whose server is lost. */
export type Next = "again" | "same_store" | "give_up";

/** The account of a run whose answer is missing: it did not begin, a part was done, nobody knows. */
export type Ran = "no" | "began" | "unknown";

/**
 * Decides about a lost server. Nothing runs twice: only a run that did not begin is begun again, and
 * a named transaction at another server of its store, which knows whether it was done.
 */
export const nextAfter = (ran: Ran, isNamed: boolean): Next =>
  ran === "no" ? "again" : isNamed ? "same_store" : "give_up";

/** The reason why an import has failed. */
export type ImportFailure = "no_trader" | "no_offer" | "no_address" | "no_server" | "gave_up" | "no_store";

/** An action that the program carries out. */
export type Action =
  | { readonly kind: "ask"; readonly id: number; readonly trader: number }
  | { readonly kind: "dial"; readonly id: number; readonly offer: Offer; readonly address: string }
  | { readonly kind: "use"; readonly id: number; readonly offer: Offer; readonly address: string }
  | { readonly kind: "cancel"; readonly id: number }
  | { readonly kind: "fail"; readonly failure: ImportFailure; readonly offers: number };

type Ask = { readonly id: number; readonly until: number };
type Dial = Ask & { readonly offer: Offer; readonly address: string };
type Phase = { readonly kind: "searching" | "failed" | "using" } | { readonly kind: "pausing"; readonly until: number };

/** An import, with the server in use. */
export class Importer {
  /** The offer in use. */
  offer: Offer | null = null;
  private readonly options: ImporterOptions;
  private readonly traders: number;
  private readonly random: () => number;
  private phase: Phase = { kind: "searching" };
  /** The traders that are still to be asked, the next one at the end. */
  private order: number[] = [];
  private asks: Ask[] = [];
  private nextAsk = 0;
  private lastAsk = 0;
  private offers: Offer[] = [];
  /** The offers that were dialled since the last pause, or wait for it. */
  private known: Offer[] = [];
  /** The offer under way, with the addresses that are left. */
  private current: { readonly offer: Offer; readonly left: string[] } | null = null;
  private dials: Dial[] = [];
  private nextDial = 0;
  private lastDial = 0;
  private cancelled: number[] = [];
  private using: Dial | null = null;
  private pauseMs = 0;
  private deadline = 0;
  /** The offer that was lost, which comes last. */
  private lost: Offer | null = null;
  /** The store that an offer must have. */
  private store: string | null = null;
  /** The worst that is known of the search, for its error. */
  private failure: ImportFailure = "no_trader";
  /** The number of offers of a failed search for a server. */
  private count = 0;
  /** True if the failure was returned. */
  private told = false;

  /** Begins a search with so many traders. `random` returns numbers from 0 to 1. */
  constructor(options: ImporterOptions, traders: number, random: () => number, now: number) {
    this.options = options;
    this.traders = traders;
    this.random = random;
    this.beginSearch(now);
  }

  /** Takes an offer as the one in use: the program has connected to its server by itself. */
  moved(offer: Offer): void {
    this.settle();
    this.using = null;
    this.phase = { kind: "using" };
    this.offer = offer;
  }

  /** True while it waits until all traders are asked again: all that was tried has failed. */
  get isPausing(): boolean {
    return this.phase.kind === "pausing";
  }

  /** Ends the search with the worst that is known: no later round can have another end. */
  giveUp(): void {
    this.fail(this.failure);
  }

  /** Lifts the bound to one store, when the batch that needed it is done. */
  releaseStore(): void {
    this.store = null;
  }

  // Reports.

  /** A trader has answered. */
  found(id: number, offers: readonly Offer[], now: number): void {
    if (this.endAsk(id, now)) this.take(offers);
  }

  /** A trader was not reached, or has refused the question. */
  askFailed(id: number, now: number): void {
    this.endAsk(id, now);
  }

  /** A server has answered, and has the object. */
  opened(id: number): void {
    const dial = this.dials.find((one) => one.id === id);
    if (!dial) return;
    this.dials = this.dials.filter((one) => one !== dial);
    this.settle();
    this.phase = { kind: "using" };
    this.offer = dial.offer;
    this.using = dial;
  }

  /** A server was not reached, refuses, or does not have the object. */
  dialFailed(id: number, now: number): void {
    const before = this.dials.length;
    this.dials = this.dials.filter((one) => one.id !== id);
    if (this.dials.length < before) this.nextDial = now;
  }

  /** The server in use is lost, with the next step. */
  lose(next: Next, now: number): void {
    const { offer } = this;
    if (this.phase.kind !== "using" || !offer) return;
    this.using = null;
    this.offer = null;
    if (next === "give_up") {
      this.fail("gave_up");
      return;
    }
    if (next === "same_store") {
      const store = storeOf(offer);
      if (store === undefined) {
        this.fail("no_store");
        return;
      }
      this.store = store;
    }
    const { store } = this;
    if (store !== null) this.offers = this.offers.filter((one) => storeOf(one) === store);
    this.lost = offer;
    this.beginSearch(now);
  }

  // Actions.

  /** Returns the next action, if one is due. */
  poll(now: number): Action | null {
    const id = this.cancelled.pop();
    if (id !== undefined) return { kind: "cancel", id };
    const { phase } = this;
    if (phase.kind === "using") {
      const { using } = this;
      this.using = null;
      return using && { kind: "use", id: using.id, offer: using.offer, address: using.address };
    }
    if (phase.kind === "failed") {
      if (this.told) return null;
      this.told = true;
      return { kind: "fail", failure: this.failure, offers: this.count };
    }
    if (this.deadline <= now) {
      this.fail(this.failure);
      return this.poll(now);
    }
    if (phase.kind === "pausing") {
      if (phase.until > now) return null;
      this.beginRound(now);
    }
    return this.search(now);
  }

  /** Returns the time at which `poll` is to be called next; null if only reports matter. */
  nextDeadline(): number | null {
    const { phase } = this;
    if (phase.kind === "using" || phase.kind === "failed") return null;
    if (phase.kind === "pausing") return Math.min(this.deadline, phase.until);
    const hasAddresses = (this.current?.left.length ?? 0) > 0 || this.offers.length > 0;
    const isDialling = hasAddresses || this.dials.length > 0;
    const times = [...this.asks, ...this.dials].map((one) => one.until);
    if (hasAddresses) times.push(this.nextDial);
    if (!isDialling && this.order.length > 0) times.push(this.nextAsk);
    return Math.min(this.deadline, ...times);
  }

  private beginSearch(now: number): void {
    this.deadline = now + this.options.timeoutMs;
    this.failure = "no_trader";
    this.pauseMs = this.options.pauseMsMin;
    this.told = false;
    this.beginRound(now);
  }

  /** Asks all traders anew. */
  private beginRound(now: number): void {
    this.phase = { kind: "searching" };
    this.order = Array.from({ length: this.traders }, (_, trader) => trader);
    for (let left = this.traders; left > 1; left--) {
      const at = Math.floor(this.random() * left);
      [this.order[left - 1], this.order[at]] = [this.order[at] as number, this.order[left - 1] as number];
    }
    this.known = [...this.offers];
    this.nextAsk = this.nextDial = now;
  }

  /** Ends a question; false if it was given up before. The next trader is asked at once if it found nothing. */
  private endAsk(id: number, now: number): boolean {
    const before = this.asks.length;
    this.asks = this.asks.filter((one) => one.id !== id);
    if (this.asks.length === before) return false;
    this.nextAsk = now;
    return true;
  }

  private take(offers: readonly Offer[]): void {
    if (this.failure === "no_trader") this.failure = "no_offer";
    const { host, schemes } = this.options;
    for (const offer of offers) {
      const isKnown = this.known.some((known) => isSame(known, offer));
      if (isKnown || (this.store !== null && storeOf(offer) !== this.store)) continue;
      this.known.push(offer);
      if (addressesOf(offer, host, schemes).length > 0) this.offers.push(offer);
      else if (this.failure === "no_offer") this.failure = "no_address";
    }
    if (this.offers.length > 0) [this.failure, this.count] = ["no_server", this.known.length];
    const { lost } = this;
    if (lost) this.offers.sort((a, b) => Number(isSame(lost, a)) - Number(isSame(lost, b)));
  }

  /** Ends all that is under way: a server is found, or the search is over. */
  private settle(): void {
    this.cancelled.push(...this.dials.map((dial) => dial.id));
    this.dials = [];
    this.asks = [];
    this.current = null;
  }

  private fail(failure: ImportFailure): void {
    this.failure = failure;
    this.phase = { kind: "failed" };
    this.settle();
    this.told = false;
  }

  private search(now: number): Action | null {
    this.asks = this.asks.filter((ask) => now < ask.until);
    const late = this.dials.find((dial) => dial.until <= now);
    if (late) {
      this.nextDial = now;
      this.dials = this.dials.filter((dial) => dial !== late);
      return { kind: "cancel", id: late.id };
    }
    if (this.dials.length === 0 || this.nextDial <= now) {
      const action = this.dial(now);
      if (action) return action;
    }
    if (this.dials.length > 0 || this.current || this.offers.length > 0) return null;
    if (this.asks.length === 0 || this.nextAsk <= now) {
      const trader = this.order.pop();
      if (trader !== undefined) {
        this.lastAsk += 1;
        this.asks.push({ id: this.lastAsk, until: now + this.options.patienceMs });
        this.nextAsk = now + this.options.askMs;
        return { kind: "ask", id: this.lastAsk, trader };
      }
    }
    if (this.asks.length === 0 && this.order.length === 0) {
      // Not all clients of a server that is gone ask again at the same moment.
      const pause = Math.round((this.pauseMs / 2) * (1 + this.random()));
      this.phase = { kind: "pausing", until: now + pause };
      this.pauseMs = Math.min(2 * this.pauseMs, this.options.pauseMsMax);
    }
    return null;
  }

  /** Dials the next address. */
  private dial(now: number): Action | null {
    for (;;) {
      const { current } = this;
      const address = current?.left.shift();
      if (current && address !== undefined) {
        const { offer } = current;
        this.lastDial += 1;
        const id = this.lastDial;
        this.dials.push({ id, offer, address, until: now + this.options.patienceMs });
        this.nextDial = now + this.options.dialMs;
        return { kind: "dial", id, offer, address };
      }
      this.current = null;
      const offer = this.offers.shift();
      if (!offer) return null;
      this.current = { offer, left: addressesOf(offer, this.options.host, this.options.schemes) };
    }
  }
}

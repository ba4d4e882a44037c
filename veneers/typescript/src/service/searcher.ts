// Carries out the actions of an importer: traders are asked, servers are dialled.
//
//   poll: ask   --> session with the trader, `find`      --> found, askFailed
//   poll: dial  --> connection, greeting, the object     --> opened, dialFailed
//   poll: use   --> returned;   poll: fail --> the error, with the last failure of each place
//
// Questions and connections whose results are not needed any more are ended.

import type { Remote } from "../stub.js";
import { drop, type Found, type Imported } from "./dial.js";
import { type Attempt, errorOf, ImportError, isFinal } from "./errors.js";
import { type Action, Importer, type Next, TIMES } from "./importer.js";
import type { Offer } from "./offer.js";
import { noteAttempt, type Search } from "./search.js";

/** The function that connects to the server of an offer. */
export type Dialer<S extends Remote> = (offer: Offer, address: string, signal: AbortSignal) => Promise<Found<S>>;

/** The state of one search. */
class Round<S extends Remote> {
  readonly attempts: Attempt[] = [];
  /** The traders that will answer the same the next time: not at all. */
  readonly refusing = new Set<number>();
  readonly opened = new Map<number, Found<S>>();
  /** The places that are asked or dialled, and have not answered yet. */
  readonly silent = new Set<string>();
  /** The functions that give up connections which are being opened. */
  readonly dials = new Map<number, () => void>();
  /** The failures of servers since the last pause: those that the next try has too, and others. */
  finals = 0;
  others = 0;
  private readonly end = new AbortController();
  private readonly reports: (() => void)[] = [];
  private wake: (() => void) | null = null;

  /** Fires when the search is over. */
  get over(): AbortSignal {
    return this.end.signal;
  }

  /** Hands in a report. */
  report(report: () => void): void {
    this.reports.push(report);
    this.wake?.();
  }

  /** Waits for a report, at most this time, or until the signal fires; takes one. */
  async wait(ms: number | null, signal: AbortSignal | undefined): Promise<void> {
    if (this.reports.length === 0 && !signal?.aborted) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", wake);
          this.wake = null;
          resolve();
        };
        const timer = ms === null ? undefined : setTimeout(wake, Math.max(0, ms));
        signal?.addEventListener("abort", wake);
        this.wake = wake;
      });
    }
    this.reports.shift()?.();
  }

  /** Ends a connection that is not needed, or is being opened. */
  cancel(id: number): void {
    this.dials.get(id)?.();
    const found = this.opened.get(id);
    this.opened.delete(id);
    if (found) drop(found);
  }

  /** Ends all that is under way. */
  finish(): void {
    this.end.abort(new Error("the search is over"));
    for (const id of [...this.opened.keys(), ...this.dials.keys()]) this.cancel(id);
  }
}

/** A search, and the server that it has found. */
export class Searcher<S extends Remote> {
  readonly search: Search;
  readonly dialer: Dialer<S>;
  /** The offers of the last answers, for a service that looks for new servers. */
  seen: readonly Offer[] = [];
  private readonly importer: Importer;

  constructor(search: Search, dialer: Dialer<S>) {
    const { patienceMs, timeoutMs, host } = search;
    const { schemes } = search.platform;
    this.search = search;
    this.dialer = dialer;
    const options = { ...TIMES, patienceMs, timeoutMs, host, schemes };
    this.importer = new Importer(options, search.traders.length, Math.random, this.now());
  }

  private now(): number {
    return Math.floor(performance.now());
  }

  /** Takes a server as the one in use that was connected to by another way. */
  moved(imported: Imported): void {
    this.importer.moved(imported.offer);
  }

  /** Lifts the bound to one store. */
  releaseStore(): void {
    this.importer.releaseStore();
  }

  /** Finds a server and connects to it; after a loss, as the step says. Not again after an error. */
  async find(lost: Next | null): Promise<Found<S>> {
    const round = new Round<S>();
    const { signal } = this.search.options;
    const { importer } = this;
    if (lost !== null) importer.lose(lost, this.now());
    try {
      for (;;) {
        signal?.throwIfAborted();
        const found = this.act(round);
        if (found) return found;
        if (this.isVain(round)) {
          importer.giveUp();
          continue;
        }
        const until = importer.nextDeadline();
        // A timer may be early by a part of a millisecond.
        await round.wait(until === null ? null : until - this.now(), signal);
      }
    } finally {
      round.finish();
    }
  }

  /** Carries out the actions that are due. Returns the server, when there is one. */
  private act(round: Round<S>): Found<S> | null {
    for (;;) {
      const action = this.importer.poll(this.now());
      if (!action) return null;
      switch (action.kind) {
        case "ask":
          void this.ask(round, action.id, action.trader);
          break;
        case "dial":
          void this.dial(round, action);
          break;
        case "cancel":
          round.cancel(action.id);
          break;
        case "use": {
          const found = round.opened.get(action.id);
          round.opened.delete(action.id);
          if (found) return found;
          break;
        }
        case "fail":
          for (const place of round.silent) {
            const isKnown = round.attempts.some((attempt) => attempt.place === place);
            if (!isKnown) noteAttempt(round.attempts, place, new Error("it has not answered"));
          }
          throw new ImportError(this.search.url.service, action.failure, action.offers, round.attempts);
      }
    }
  }

  /** True if no later round can have another end. */
  private isVain(round: Round<S>): boolean {
    if (round.refusing.size >= this.search.traders.length) return true;
    if (!this.importer.isPausing) return false;
    const { finals, others } = round;
    round.finals = round.others = 0;
    return finals > 0 && others === 0;
  }

  private async ask(round: Round<S>, id: number, trader: number): Promise<void> {
    const place = this.search.traders[trader] as string;
    round.silent.add(place);
    try {
      const offers = await this.search.ask(trader, 0, round.over);
      round.report(() => {
        round.refusing.delete(trader);
        this.seen = offers;
        this.importer.found(id, offers, this.now());
      });
    } catch (thrown) {
      const why = errorOf(thrown);
      round.report(() => {
        if (isFinal(why)) round.refusing.add(trader);
        noteAttempt(round.attempts, place, why);
        this.importer.askFailed(id, this.now());
      });
    } finally {
      round.silent.delete(place);
    }
  }

  private async dial(round: Round<S>, { id, offer, address }: Action & { kind: "dial" }): Promise<void> {
    const controller = new AbortController();
    round.silent.add(address);
    round.dials.set(id, () => {
      controller.abort(new Error(`${address} did not answer within ${this.search.patienceMs} ms`));
    });
    try {
      const found = await this.dialer(offer, address, controller.signal);
      if (controller.signal.aborted) {
        drop(found);
        return;
      }
      round.opened.set(id, found);
      round.report(() => {
        this.importer.opened(id);
      });
    } catch (thrown) {
      const why = errorOf(thrown);
      round.report(() => {
        if (isFinal(why)) round.finals += 1;
        else round.others += 1;
        noteAttempt(round.attempts, address, why);
        this.importer.dialFailed(id, this.now());
      });
    } finally {
      round.dials.delete(id);
      round.silent.delete(address);
    }
  }
}

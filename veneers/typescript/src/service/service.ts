// A service that stays: runs with a server of it, and with another one when that is lost.
//
//   take a newer server, if the watch has one
//     |
//   is the session open? -- no --> search  -- none found --> error
//     |                              ^
//   the body                         |
//     |-- the session is lost ---> `nextAfter`: again, or the error
//     +-- otherwise: its result
//
// Nothing runs twice. A loss is known to have run nothing if the run has sent no byte. A session is
// looked at before a run, so that a server that was lost between two runs costs none of them.

import type { Options } from "../connect.js";
import { BifrostError, RefusedError } from "../errors.js";
import type { BatchName } from "../recorder/transaction.js";
import type { Claimable, Claimed, Session, TransactionOptions } from "../session.js";
import type { Remote } from "../stub.js";
import { ERROR_STORE_FAILED } from "../tables.js";
import { dial, drop, type Found, type Imported, type ServiceType } from "./dial.js";
import { errorOf, LostError } from "./errors.js";
import { type Next, nextAfter, type Ran } from "./importer.js";
import type { Platform } from "./platform.js";
import { Search } from "./search.js";
import { type Dialer, Searcher } from "./searcher.js";
import { Watch } from "./watch.js";

/** The most times that a run is begun: a batch that ends every server must not end all of them. */
export const RUNS_MAX = 16;

/** The counts of a session before a run. */
type Mark = { readonly sent: number; readonly executed: number };

const markOf = ({ $r }: Session): Mark => ({ sent: $r.sent, executed: $r.counters.executed });

/** True for the error of a session that was lost, and that the program has not closed itself. */
function isLoss(error: unknown, session: Session): error is Error {
  const { broken } = session.$r;
  if (!broken || broken.of.ending?.by === "client" || !(error instanceof Error)) return false;
  return (error as Partial<BifrostError>).failure?.root() === broken;
}

/** The losses of one run. */
class Losses {
  count = 0;
  /** The last one, with the worst that is known. */
  private last: { readonly ran: Ran; readonly why: Error } | null = null;

  /** Notes a loss, and returns the worst that is known of the run. */
  note(ran: Ran, why: Error): Ran {
    this.count += 1;
    const before = this.last?.ran ?? "no";
    const worst = before === "no" ? ran : before;
    this.last = { ran: worst, why };
    return worst;
  }

  /** Returns the error of a run that is not begun again. */
  error(): LostError {
    const { ran, why } = this.last as { readonly ran: Ran; readonly why: Error };
    return new LostError(ran, why);
  }

  /** Returns the error of a run for which there is no other server. */
  withoutServer(why: unknown): unknown {
    const { last } = this;
    return last && last.ran !== "no" ? new LostError(last.ran, last.why, errorOf(why)) : why;
  }
}

/**
 * A service at traders, and a session with one server of it.
 *
 * It is used by one task at a time. Objects belong to their session, so they are not kept from one
 * run to the next; changes that a run has not committed are lost with its server. After a run that
 * has failed, its transaction is aborted.
 *
 * | the server is lost, and | then |
 * | --- | --- |
 * | nothing of the run was sent | the body is called again, with another server |
 * | the run is named (`runNamed`) | as above, with a server of the same store |
 * | otherwise | `LostError`, which says what is known |
 *
 * It waits for changes at each trader. A server that is new, or that the query prefers, is used from
 * the next run on. Close it: its connections keep the process alive.
 */
export class ServiceOf<S extends Remote> {
  private readonly search: Search;
  private readonly dialer: Dialer<S>;
  private searcher: Searcher<S> | null = null;
  private current: Found<S> | null = null;
  private watch: Watch<S> | null = null;
  /** The step after the last loss. */
  private lost: Next = "again";
  private isRunning = false;
  private isClosed = false;
  /** Ends searches: when the service is closed, and when the signal of its options fires. */
  private readonly stop = new AbortController();
  private readonly signal: AbortSignal | undefined;
  private readonly stopped: () => void;
  /** The accounts of runs that have failed, by their errors. */
  private readonly accounts = new WeakMap<object, Ran>();
  /** The name of its last batch: 128 random bits, and a number. */
  private batch: BatchName;

  /**
   * Makes a service of a URL such as `trader://host/DataBase?region=eu`, with the settings of a session.
   * `timeout` bounds each search for a server, and each answer. Nothing is connected before the first
   * run. Throws a `TypeError` if the URL is none, or there is no trader to ask.
   */
  constructor(platform: Platform, url: string, type: ServiceType<S>, options: Options) {
    const { signal } = options;
    this.stopped = () => {
      this.stop.abort(signal?.reason);
    };
    signal?.addEventListener("abort", this.stopped);
    if (signal?.aborted) this.stopped();
    this.signal = signal;
    const search = new Search(platform, url, type.module, { ...options, signal: this.stop.signal });
    this.search = search;
    this.dialer = (offer, address, signal) => dial(search, type.module, type, offer, address, signal);
    const random = crypto.getRandomValues(new BigUint64Array(2));
    this.batch = { client: ((random[0] ?? 0n) << 64n) | (random[1] ?? 0n), number: 0n };
  }

  /** The server of the session, if there is one. */
  get server(): Imported | undefined {
    return this.current?.imported;
  }

  /**
   * Calls a body with a session and the object, and returns its result.
   *
   * If the server is lost before anything of the run was sent, the body is called again with another
   * one. If anything was sent, it is not. Rejects with an `ImportError` if there is no server, a
   * `LostError` if it was lost, and else with what the body has thrown.
   */
  run<R>(body: (session: Session, object: S) => R | PromiseLike<R>): Promise<R> {
    return this.begin(async ({ session, object }) => await body(session, object), false);
  }

  /**
   * Runs a batch that is a transaction, as `Session.transaction` does, under a name of its own: if the
   * server is lost, the batch is sent again to another one of the same store, which knows whether it
   * was done. So it is done once, and its answer comes as long as there is a server.
   *
   * Values of the body's result are claimed. Objects in it are not there if the answer is given again.
   */
  runNamed<R extends Claimable>(body: (session: Session, object: S) => R): Promise<Claimed<R>> {
    return this.runTransaction(body);
  }

  /**
   * As `runNamed`, with options, and with the name that they have: so a program that was started again
   * can send a batch that an earlier process has sent.
   */
  runTransaction<R extends Claimable>(
    body: (session: Session, object: S) => R,
    options: TransactionOptions = {},
  ): Promise<Claimed<R>> {
    if (!options.batch) this.batch = { ...this.batch, number: this.batch.number + 1n };
    const how = { ...options, batch: options.batch ?? this.batch };
    return this.begin(({ session, object }) => session.transaction(() => body(session, object), how), true);
  }

  /** Returns what is known of a run by its error: whether anything of it was done. */
  ran(error: unknown): Ran {
    return (typeof error === "object" && error ? this.accounts.get(error) : undefined) ?? "began";
  }

  /** Ends the session as `Session.close` does, and stops waiting for changes at traders. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.signal?.removeEventListener("abort", this.stopped);
    this.stop.abort(new TypeError("the service is closed"));
    this.watch?.end();
    const { current } = this;
    this.current = null;
    await current?.session.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async begin<R>(run: (found: Found<S>) => Promise<R>, isNamed: boolean): Promise<R> {
    if (this.isClosed) throw new TypeError("the service is closed");
    if (this.isRunning) {
      throw new TypeError("a run of this service is under way: await it first, or make a service for each task");
    }
    this.isRunning = true;
    const losses = new Losses();
    try {
      for (;;) {
        const found = await this.ready(losses);
        const mark = markOf(found.session);
        try {
          const result = await run(found);
          if (found.session.isClosed) this.current = null;
          this.releaseStore();
          return result;
        } catch (error) {
          this.judge(losses, found.session, mark, error, isNamed);
        }
      }
    } finally {
      this.isRunning = false;
    }
  }

  /** Sees to it that there is a session. */
  private async ready(losses: Losses): Promise<Found<S>> {
    // Learns if the server has ended the session.
    await this.search.platform.turn();
    // A named batch stays with its store until it is done.
    const newer = this.lost === "again" ? this.watch?.takeReady() : null;
    if (newer && !newer.session.isClosed) {
      if (this.current) drop(this.current);
      this.searcher?.moved(newer.imported);
      this.take(newer);
    }
    if (this.current && !this.current.session.isClosed) return this.current;
    this.current = null;
    try {
      return await this.find();
    } catch (error) {
      const told = losses.withoutServer(error);
      this.account(told, told instanceof LostError ? told.ran : "no");
      throw told;
    }
  }

  /** Searches for a server. */
  private async find(): Promise<Found<S>> {
    // After an error the next search begins anew.
    const { searcher, lost } = this;
    [this.searcher, this.lost] = [null, "again"];
    const next = searcher ?? new Searcher(this.search, this.dialer);
    const found = await next.find(searcher && lost);
    if (this.stop.signal.aborted) drop(found);
    this.stop.signal.throwIfAborted();
    this.watch ??= new Watch(this.search, this.dialer, found.imported, next.seen);
    this.searcher = next;
    return this.take(found);
  }

  private take(found: Found<S>): Found<S> {
    this.watch?.use(found.imported);
    this.current = found;
    return found;
  }

  /** Returns if a run is to be begun again, and else throws its error. */
  private judge(losses: Losses, session: Session, mark: Mark, error: unknown, isNamed: boolean): void {
    if (!isLoss(error, session)) {
      if (session.isClosed) this.current = null;
      else {
        // What is left of the run must not be committed by the next one.
        session.abort();
        session.clearExceptions();
      }
      this.releaseStore();
      const isUnknown = error instanceof RefusedError && error.number === ERROR_STORE_FAILED;
      this.account(error, isUnknown ? "unknown" : "began");
      throw error;
    }
    const { sent, executed } = markOf(session);
    const ran = sent === mark.sent ? "no" : executed > mark.executed ? "began" : "unknown";
    this.current = null;
    // The worst of all losses of this run decides: what an earlier server may have done stays so.
    const next = nextAfter(losses.note(ran, error), isNamed);
    if (next !== "give_up" && losses.count < RUNS_MAX) {
      this.lost = next;
      return;
    }
    this.releaseStore();
    const told = losses.error();
    this.account(told, told.ran);
    throw told;
  }

  private releaseStore(): void {
    this.lost = "again";
    this.searcher?.releaseStore();
  }

  private account(error: unknown, ran: Ran): void {
    if (typeof error === "object" && error) this.accounts.set(error, ran);
  }
}

// The inner half of a session: recording for stubs, the way of bytes, claims, errors. `session.ts` has
// the functions that programs call.

import * as rec from "./recorder/recorder.js";
import type { Connection } from "./connection.js";
import {
  type BifrostError,
  ClosedError,
  loadTexts,
  MissingError,
  MisuseError,
  NotRunError,
  RefusedError,
  SignalError,
  UnseenError,
} from "./errors.js";
import { later } from "./limit.js";
import {
  beginFlush,
  bytesToSend,
  close,
  handleBytes,
  isCrowded,
  isUnanswered,
  lastWords,
  sent,
  waitMs,
} from "./recorder/crossing.js";
import { type Ending, Failure, misuse, type Plain as Part } from "./recorder/failure.js";
import type { Numbers, Stubs as RecorderStubs } from "./recorder/numbers.js";
import { surface, tell } from "./recorder/seen.js";
import { discard, FAILED, FUTURE, newFailed, newResult, release, UNDER_WAY } from "./recorder/slots.js";
import { MISMATCH, Remote, Stub, type Type, type Types } from "./stub.js";
import * as t from "./tables.js";
import { bigintOf, realOf } from "./recorder/words.js";
import { Bool, Done, Value } from "./values.js";

import type { Session } from "./session.js";

/** The constants of a generated module. */
export interface Stubs extends RecorderStubs {
  /** The classes of the program's exceptions. */
  readonly signals: () => readonly SignalType[];
  /** Makes the numbers by the server's description, if there are no stubs before it. */
  readonly numbersBy?: (server: Uint8Array, digest: string) => Numbers;
  /** The address of the module, whose lines are no places of the program. */
  readonly url?: string;
}

/** The class of an exception. */
export interface SignalType<S extends readonly Stub[] = readonly Stub[]> {
  new (failure: Failure, values: readonly unknown[]): SignalError;
  /** Its name in Theta. */
  readonly signal: string;
  /** The types of its values in handlers; by a function, because classes may stand in any order. */
  readonly types: () => Types<S>;
  /** The types of its values in all headings, if there are several. */
  readonly headings?: () => readonly (readonly Type[])[];
}

/** Settings of a session. */
export interface SessionOptions {
  /** The longest time for connecting, and for the answer to each flush, in milliseconds. Default: 30000. */
  readonly timeout?: number;
  /** Notes the places of calls for messages; it costs some microseconds a call. Default: false. */
  readonly debug?: boolean;
}

type Waiter = { readonly batch: number; readonly wake: () => void };

/** A session without the functions that programs call; for stubs and `connect`. */
export abstract class Core {
  readonly $r: rec.Recorder;
  readonly $stubs: Stubs;
  readonly $bool = Bool as Type<Bool>;
  readonly $done = Done as Type<Done>;
  protected readonly connection: Connection;
  protected readonly timeout: number;
  /** Returns the place of a call in the program, if places are noted. */
  $placeOf: ((stubs?: string) => unknown) | undefined;
  /** The stubs of batches that are recorded, innermost last. */
  $scopes: Stub[][] = [];
  protected waiters: Waiter[] = [];
  /** True while a flush is queued as a microtask, or waits for room. */
  $flushing = false;
  protected timer: ReturnType<typeof setTimeout> | undefined;
  protected deadline = 0;
  protected readonly registry: FinalizationRegistry<Part & { readonly told: boolean }>;

  /** Makes the session of a recorder that was greeted over a connection; for `connect`. */
  constructor(recorder: rec.Recorder, connection: Connection, options: SessionOptions) {
    this.$r = recorder;
    this.$stubs = recorder.numbers.stubs as Stubs;
    this.connection = connection;
    this.timeout = options.timeout ?? 30_000;
    this.registry = new FinalizationRegistry(({ tag, lo, hi, data, told }) => {
      discard(recorder, tag, lo, hi, data, told);
    });
    recorder.onHeld = (slot) => {
      const { $tag: tag, $lo: lo, $hi: hi, $data: data, $want: told } = slot;
      this.registry.register(slot, { tag, lo, hi, data, told }, slot);
    };
  }

  // Recording, for stubs.

  /** The place in the program from which the library was called. */
  $place(): unknown {
    return this.$placeOf?.(this.$stubs.url);
  }

  /** Does the work before a command; returns the failure with which it is refused. */
  $admit(): rec.Admission {
    const r = this.$r;
    if (rec.isReady(r)) return null;
    const work = rec.due(r);
    if (work instanceof Failure) return work;
    if (work === "send") this.send();
    else if (work === "flush") {
      if (!isCrowded(r)) {
        beginFlush(r, true);
        this.send();
      } else if (r.futures.length >= r.bounds[t.LIMIT_FUTURES] || r.commands + 1 >= r.bounds[t.LIMIT_BATCH_COMMANDS]) {
        return misuse("UnderWay");
      }
    }
    return null;
  }

  /** Makes a stub, in the innermost scope. */
  $new<S extends Stub>(type: Type<S>): S {
    const stub = new type(this as unknown as Session);
    this.$scopes[this.$scopes.length - 1]?.push(stub);
    return stub;
  }

  /** Makes the stub of a result of the call that was just recorded. */
  $take<S extends Stub>(made: rec.Recorded, type: Type<S>, place: unknown): S {
    const stub = new type(this as unknown as Session);
    if (this.$scopes.length > 0) this.$scopes[this.$scopes.length - 1]?.push(stub);
    return typeof made === "number" ? newResult(this.$r, stub, made, place) : newFailed(this.$r, stub, made);
  }

  /** As `$take`, of a stub that was made. */
  $fill<S extends Stub>(made: rec.Recorded, stub: S, place: unknown): S {
    this.$scopes[this.$scopes.length - 1]?.push(stub);
    return typeof made === "number" ? newResult(this.$r, stub, made, place) : newFailed(this.$r, stub, made);
  }

  $release(stub: Stub): void {
    // A future was never registered.
    if (stub.$tag !== FUTURE) this.registry.unregister(stub);
    release(this.$r, stub);
  }

  // Crossing.

  protected send(): void {
    for (let bytes = bytesToSend(this.$r); bytes.length > 0; bytes = bytesToSend(this.$r)) {
      sent(this.$r);
      this.connection.write(bytes);
    }
    this.watch();
  }

  /** Has the time of the oldest answer watched. */
  protected watch(): void {
    if (this.$r.underWay.length === 0) return;
    this.deadline = Date.now() + this.timeout + waitMs(this.$r);
    this.timer ??= later(this.timeout + waitMs(this.$r), this.late);
  }

  protected readonly late = (): void => {
    this.timer = undefined;
    if (this.$r.underWay.length === 0) return;
    const left = this.deadline - Date.now();
    if (left > 0) this.timer = later(left, this.late);
    else this.end(new Error(`the server has not answered within ${this.timeout} ms`));
  };

  protected end(error: Error | null): void {
    const text = error?.message ?? "the server has closed the connection";
    const ending: Ending = lastWords(this.$r) ?? { by: "connection", text, ...(error ? { cause: error } : {}) };
    this.finish(ending);
  }

  protected finish(ending: Ending): void {
    close(this.$r, ending);
    clearTimeout(this.timer);
    this.connection.close();
    this.wake();
  }

  /** Takes bytes of the server; for `connect`. */
  $bytes(bytes: Uint8Array): void {
    const r = this.$r;
    if (r.broken) return;
    try {
      // Bytes of further answers are kept by the recorder.
      while (handleBytes(r, bytes) && r.underWay.length > 0) bytes = bytes.subarray(0, 0);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.finish(error.of.ending as Ending);
      return;
    }
    if (r.underWay.length > 0) this.deadline = Date.now() + this.timeout + waitMs(r);
    if (this.$flushing && !isCrowded(r)) this.$flushNow();
    this.wake();
  }

  /** Ends the session with the error of its connection; for `connect`. */
  $ended(error: Error | null): void {
    if (!this.$r.broken) this.end(error);
  }

  protected wake(): void {
    if (this.waiters.length === 0) return;
    const { waiters } = this;
    this.waiters = waiters.filter(({ batch }) => !this.$r.broken && isUnanswered(this.$r, batch));
    for (const { batch, wake } of waiters) if (this.$r.broken || !isUnanswered(this.$r, batch)) wake();
  }

  /** Ends the batch at the end of the turn, so that claims of one turn share a crossing. */
  protected flushSoon(): void {
    if (this.$flushing) return;
    this.$flushing = true;
    queueMicrotask(() => {
      if (this.$flushing && !isCrowded(this.$r)) this.$flushNow();
    });
  }

  $flushNow(): void {
    this.$flushing = false;
    if (this.$r.broken) {
      this.wake();
      return;
    }
    if (beginFlush(this.$r, true)) this.send();
    this.wake();
  }

  /** Waits until a batch is answered, or the session has ended. */
  protected answered(batch: number): Promise<void> {
    if (this.$r.broken || !isUnanswered(this.$r, batch)) return Promise.resolve();
    return new Promise((wake) => this.waiters.push({ batch, wake }));
  }

  /** Returns the failure that a batch cannot end here. */
  protected unable(name: string): Failure | null {
    const r = this.$r;
    if (r.broken) return null;
    if (r.scopes.length > 0) return misuse("OpenStructure");
    if (!r.shipping) return null;
    const failure = rec.refuseMisuse(r, name, this.$place(), "InTransaction");
    tell(r, failure);
    return failure;
  }

  /** Ends the batch, and waits for all answers up to it. Throws what prevents it. */
  async $synchronize(name: string): Promise<void> {
    const unable = this.unable(name);
    if (unable) await this.$reject(unable);
    const batch = this.$r.batchNumber;
    const nothing = this.$r.commands === 0 && this.$r.frees.length === 0;
    if (!nothing) {
      this.$r.watcher?.asked(this.$place());
      this.flushSoon();
    }
    await this.answered(nothing ? batch - 1 : batch);
    if (this.$r.broken) await this.$reject(this.$r.broken);
  }

  // Claims, for stubs.

  /** Waits until the knowledge of a stub is there. Null if it is there. */
  $arrives(stub: Stub): Promise<void> | null {
    if (stub.$tag === FUTURE) {
      stub.$want = true;
      const { batchNumber, watcher } = this.$r;
      watcher?.claimed(stub, this.$place());
      this.flushSoon();
      return this.answered(batchNumber);
    }
    return stub.$tag === UNDER_WAY ? this.answered(stub.$hi) : null;
  }

  /** Claims a stub; `read` returns its value. */
  $claim(stub: Stub, read: () => unknown, signal?: AbortSignal): Promise<unknown> {
    const isKnown = stub.$tag !== FUTURE && stub.$tag !== UNDER_WAY;
    const unable = isKnown ? null : this.unable("claim");
    if (unable) {
      // At once, because the structure ends before a rejection is seen.
      throw this.$error(unable);
    }
    const finish = (): unknown => {
      const failure = this.$told(stub);
      return failure ? this.$reject(failure) : read();
    };
    const arrives = this.$arrives(stub);
    if (!signal)
      return arrives
        ? arrives.then(finish)
        : new Promise((resolve) => {
            resolve(finish());
          });
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        reject(signal.reason as Error);
      };
      if (signal.aborted) abort();
      signal.addEventListener("abort", abort, { once: true });
      (arrives ?? Promise.resolve())
        .then(finish)
        .then(resolve, reject)
        .finally(() => {
          signal.removeEventListener("abort", abort);
        });
    });
  }

  /** Tells the failure of a stub that is known, or failures that no other claim can tell. */
  $told(stub: Stub): Failure | null {
    const r = this.$r;
    if (stub.$tag === FUTURE || stub.$tag === UNDER_WAY) return r.broken;
    if (stub.$tag !== FAILED) return surface(r, false);
    const failure = stub.$data as Failure;
    tell(r, failure);
    return failure;
  }

  /** Claims all stubs of a result. Rejects with the failure of the first one that failed. */
  async $claimAll(result: unknown): Promise<unknown> {
    const stubs = stubsIn(result);
    const arriving = stubs.map((stub) => this.$arrives(stub));
    for (const one of arriving) await one;
    for (const stub of stubs) {
      const failure = this.$told(stub);
      if (failure) await this.$reject(failure);
    }
    const read = (part: unknown): unknown => {
      if (part instanceof Stub) return part instanceof Value ? part.$read() : part;
      if (Array.isArray(part)) return part.map(read);
      if (typeof part !== "object" || part === null) return part;
      return Object.fromEntries(Object.entries(part).map(([name, one]) => [name, read(one)]));
    };
    return read(result);
  }

  /** Closes the session, because a result does not have the type of its heading. */
  $nonsense(): never {
    this.finish({ by: "wrong_reply", text: "a result does not have the type of its heading" });
    throw this.$error(this.$r.broken as Failure);
  }

  /** Rejects with the error of a failure, when its text is there. */
  async $reject(failure: Failure): Promise<never> {
    await loadTexts();
    throw this.$error(failure);
  }

  /** Makes an error of a failure: that of the call that failed first. */
  $error(failure: Failure): BifrostError | UnseenError {
    void loadTexts();
    if (failure.kind === "unseen") {
      return new UnseenError(
        failure,
        (failure.of.failures ?? []).map((one) => this.$error(one)),
      );
    }
    const root = failure.root();
    switch (root.kind) {
      case "signal":
        return this.signalError(failure, root);
      case "refused":
        return new RefusedError(failure);
      case "misuse":
        return new MisuseError(failure);
      case "missing":
        return new MissingError(failure);
      case "closed":
        return new ClosedError(failure);
      default:
        return new NotRunError(failure);
    }
  }

  protected signalError(failure: Failure, { of }: Failure): SignalError {
    const came = of.values ?? [];
    for (const type of this.$stubs.signals()) {
      if (type.signal !== of.name) continue;
      for (const heading of type.headings?.() ?? [type.types()]) {
        if (heading.length !== came.length) continue;
        const values = came.map(({ tag, lo, hi, data }, at) => {
          try {
            return (heading[at] as Type).take(this as unknown as Session, tag, lo, hi, data);
          } catch {
            // An int that is no number of JavaScript.
            return MISMATCH;
          }
        });
        if (!values.includes(MISMATCH)) return new type(failure, values);
      }
    }
    return new SignalError(
      failure,
      came.map((part) => plainValue(this as unknown as Session, part)),
    );
  }
}

/** Throws if a body was asynchronous: what it records later would be lost. */
export function checkSync(result: unknown): void {
  const then = typeof result === "object" && result !== null && "then" in result;
  if (then && !(result instanceof Value)) {
    // This error tells it all.
    Promise.resolve(result).catch(() => undefined);
    throw new TypeError("a body that is recorded cannot be async: it is called once, and must be over when it returns");
  }
}

/** Returns the stubs of a result. */
export function stubsIn(result: unknown): Stub[] {
  if (result instanceof Stub) return [result];
  if (typeof result !== "object" || result === null) return [];
  return Object.values(result).flatMap(stubsIn);
}

/** Returns a value of an exception of which the program has no class. */
function plainValue(session: Session, { tag, lo, hi, data }: Part): unknown {
  switch (tag) {
    case t.TAG_REF:
      return Remote.take(session, tag, lo, hi, data);
    case t.TAG_NIL:
      return null;
    case t.TAG_BOOL:
      return lo !== 0;
    case t.TAG_INT:
      return bigintOf(lo, hi);
    case t.TAG_REAL:
      return realOf(lo, hi);
    case t.TAG_CHAR:
      return String.fromCodePoint(lo);
    default:
      return data;
  }
}

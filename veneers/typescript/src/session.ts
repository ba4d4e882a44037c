// A session: one client's connection. Calls are recorded, and cross when a result is awaited.

import * as rec from "./recorder/recorder.js";
import type { Connection } from "./connection.js";
import {
  type BifrostError,
  ClosedError,
  MissingError,
  MisuseError,
  NotRunError,
  RefusedError,
  SignalError,
  UnseenError,
} from "./errors.js";
import { cell, type Encoder, lookup, type Operand, rows } from "./recorder/call.js";
import {
  beginFlush,
  beginFlushFor,
  bytesToSend,
  close,
  handleBytes,
  isCrowded,
  isUnanswered,
  lastWords,
  leave,
  sent,
  waitMs,
} from "./recorder/crossing.js";
import { type Ending, Failure, misuse, type Plain as Part } from "./recorder/failure.js";
import type { Stubs as RecorderStubs } from "./recorder/numbers.js";
import * as procedures from "./recorder/procedure.js";
import { surface, tell, tellSince } from "./recorder/seen.js";
import {
  discard,
  FAILED,
  FUTURE,
  isSame,
  newFailed,
  newResult,
  release,
  type Slot,
  UNDER_WAY,
} from "./recorder/slots.js";
import * as structures from "./recorder/structures.js";
import * as transactions from "./recorder/transaction.js";
import { Any, Cell, Procedure, Rows } from "./objects.js";
import { type Arg, type Args, type Iter, MISMATCH, Stub, type Type, type Types } from "./stub.js";
import * as t from "./tables.js";
import { Bool, Bytes, Char, Done, Int, known, Nil, Real, Str, Value } from "./values.js";
import { Compound } from "./recorder/words.js";

/** The constants of a generated module. */
export interface Stubs extends RecorderStubs {
  /** The classes of the program's exceptions. */
  readonly signals: () => readonly SignalType[];
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

/** The results of a body that is recorded: nothing, or stubs. No promise of JavaScript. */
export type Recordable = void | Stub | Block | boolean | null;

/** The values that a body takes; a body that takes fewer does not change them. */
type Given<S extends readonly Stub[]> = S extends readonly [...infer T] ? T : never;

/** What a batch gives back: stubs, and lists and objects of them. */
export type Claimed<R> = R extends Stub
  ? R extends PromiseLike<infer V>
    ? V
    : R
  : R extends readonly unknown[] | Readonly<Record<string, unknown>>
    ? { -readonly [K in keyof R]: Claimed<R[K]> }
    : R;

/** The results of a batch. */
export type Claimable = void | null | undefined | Stub | readonly Claimable[] | { readonly [name: string]: Claimable };

/** How a transaction is run. */
export interface TransactionOptions {
  /** The greatest number of runs; by default as many as the server allows. */
  readonly tries?: number;
  /** Has the server do the batch once, however often it is sent under this name. */
  readonly batch?: transactions.BatchName;
}

/** A structure that has just ended and may go on with another block. */
export abstract class Block {
  protected readonly session: Session;
  protected readonly ended: structures.Ended;

  constructor(session: Session, ended: structures.Ended) {
    this.session = session;
    this.ended = ended;
  }
}

/** A choice, which may go on with its second block. */
export class If extends Block {
  /** Runs a block at the server if the condition does not hold. Follow the first block with it directly. */
  else<R extends Recordable>(body: () => R): void {
    this.session.$reopen(this.ended, { kind: "else" }, [], body);
  }
}

/** A block whose exceptions are handled, which may go on with handlers. */
export class Except extends Block {
  /** Runs a block at the server when a call signals the exception, with its values. */
  when<S extends readonly Stub[], R extends Recordable>(signal: SignalType<S>, body: (...values: S) => R): Except {
    return this.handle(signal.signal, signal.types(), body as never);
  }

  /** As `when`, of an exception by its name and the types of its values. */
  whenNamed<S extends readonly Stub[], R extends Recordable>(
    name: string,
    types: Types<S>,
    body: (...values: Given<S>) => R,
  ): Except {
    return this.handle(name, types, body as never);
  }

  private handle(name: string, types: readonly Type[], body: (...values: Stub[]) => unknown): Except {
    const { session } = this;
    const values = types.map((type: Type) => type.numbersIn(session.$stubs)[0]);
    return new Except(session, session.$reopen(this.ended, { kind: "when", name, values }, types, body));
  }

  /** Runs a block at the server when a call signals any other exception, with its name. */
  others<R extends Recordable>(body: (name: Str) => R): void {
    const named = body.length > 0;
    this.session.$reopen(this.ended, { kind: "others", named }, named ? [Str] : [], body as never);
  }
}

/** Settings of a session. */
export interface SessionOptions {
  /** The longest time for connecting, and for the answer to each flush, in milliseconds. Default: 30000. */
  readonly timeout?: number;
  /** Notes the places of calls for messages; it costs some microseconds a call. Default: false. */
  readonly debug?: boolean;
}

type Waiter = { readonly batch: number; readonly wake: () => void };

/** A session with a server. `connect` of a generated module opens one. */
export class Session {
  readonly $r: rec.Recorder;
  readonly $stubs: Stubs;
  readonly $bool = Bool as Type<Bool>;
  readonly $done = Done as Type<Done>;
  /** The names of the limits that the server has told, with their values. */
  private readonly connection: Connection;
  private readonly timeout: number;
  private readonly debug: boolean;
  private scopes: Stub[][] = [];
  private waiters: Waiter[] = [];
  /** True while a flush is queued as a microtask, or waits for room. */
  private flushing = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private deadline = 0;
  private readonly registry: FinalizationRegistry<Part & { readonly told: boolean }>;

  /** Makes the session of a recorder that was greeted over a connection; for `connect`. */
  constructor(recorder: rec.Recorder, stubs: Stubs, connection: Connection, options: SessionOptions) {
    this.$r = recorder;
    this.$stubs = stubs;
    this.connection = connection;
    this.timeout = options.timeout ?? 30_000;
    this.debug = options.debug ?? false;
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
    if (!this.debug) return undefined;
    const own = [import.meta.url, this.$stubs.url ?? import.meta.url];
    const lines = (new Error().stack ?? "").split("\n").slice(1);
    const folder = import.meta.url.replace(/[^/]*$/, "");
    const found = lines.find((line) => !own.some((url) => line.includes(url)) && !line.includes(folder));
    return /(?:file:\/\/)?([^\s(]*:\d+):\d+\)?$/.exec(found ?? "")?.[1];
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
    const stub = new type(this);
    this.scopes[this.scopes.length - 1]?.push(stub);
    return stub;
  }

  /** Makes the stub of a result of the call that was just recorded. */
  $take<S extends Stub>(made: rec.Recorded, type: Type<S>, place: unknown): S {
    const stub = new type(this);
    if (this.scopes.length > 0) this.scopes[this.scopes.length - 1]?.push(stub);
    return typeof made === "number" ? newResult(this.$r, stub, made, place) : newFailed(this.$r, stub, made);
  }

  /** As `$take`, of a stub that was made. */
  $fill<S extends Stub>(made: rec.Recorded, stub: S, place: unknown): S {
    this.scopes[this.scopes.length - 1]?.push(stub);
    return typeof made === "number" ? newResult(this.$r, stub, made, place) : newFailed(this.$r, stub, made);
  }

  $release(stub: Stub): void {
    this.registry.unregister(stub);
    release(this.$r, stub);
  }

  /** Returns a value of a type as it crosses. */
  $plain(type: Encoder, value: unknown): [tag: number, lo: number, hi: number, data: unknown] {
    const { batch } = this.$r;
    const start = batch.n;
    try {
      this.$r.depth = 0;
      const tag = type.put(this.$r, value, 1);
      const [lo, hi] = [batch.i32[start] as number, batch.i32[start + 1] as number];
      if (tag === t.TAG_STRING) return [tag, 0, 0, value];
      if (tag === t.TAG_BYTES) return [tag, 0, 0, (value as Uint8Array).slice()];
      if (tag === t.TAG_COMPOUND) return [tag, 0, 0, new Compound(batch.i32.slice(start + 2, batch.n))];
      return [tag, lo, hi, undefined];
    } finally {
      batch.n = start;
    }
  }

  // Crossing.

  private send(): void {
    for (let bytes = bytesToSend(this.$r); bytes.length > 0; bytes = bytesToSend(this.$r)) {
      sent(this.$r);
      this.connection.write(bytes);
    }
    this.watch();
  }

  /** Sends what was flushed, and no commands of the batch that is recorded. */
  private sendFlushed(): void {
    const bytes = this.$r.unsent;
    if (bytes.length > 0) {
      sent(this.$r);
      this.connection.write(bytes);
    }
    this.watch();
  }

  /** Has the time of the oldest answer watched. */
  private watch(): void {
    if (this.$r.underWay.length === 0) return;
    this.deadline = Date.now() + this.timeout + waitMs(this.$r);
    this.timer ??= setTimeout(this.late, this.timeout + waitMs(this.$r));
  }

  private readonly late = (): void => {
    this.timer = undefined;
    if (this.$r.underWay.length === 0) return;
    const left = this.deadline - Date.now();
    if (left > 0) this.timer = setTimeout(this.late, left);
    else this.end(new Error(`the server has not answered within ${this.timeout} ms`));
  };

  private end(error: Error | null): void {
    const text = error?.message ?? "the server has closed the connection";
    const ending: Ending = lastWords(this.$r) ?? { by: "connection", text, ...(error ? { cause: error } : {}) };
    this.finish(ending);
  }

  private finish(ending: Ending): void {
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
    if (this.flushing && !isCrowded(r)) this.flushNow();
    this.wake();
  }

  /** Ends the session with the error of its connection; for `connect`. */
  $ended(error: Error | null): void {
    if (!this.$r.broken) this.end(error);
  }

  private wake(): void {
    if (this.waiters.length === 0) return;
    const { waiters } = this;
    this.waiters = waiters.filter(({ batch }) => !this.$r.broken && isUnanswered(this.$r, batch));
    for (const { batch, wake } of waiters) if (this.$r.broken || !isUnanswered(this.$r, batch)) wake();
  }

  /** Ends the batch at the end of the turn, so that claims of one turn share a crossing. */
  private flushSoon(): void {
    if (this.flushing) return;
    this.flushing = true;
    queueMicrotask(() => {
      if (this.flushing && !isCrowded(this.$r)) this.flushNow();
    });
  }

  private flushNow(): void {
    this.flushing = false;
    if (this.$r.broken) {
      this.wake();
      return;
    }
    if (beginFlush(this.$r, true)) this.send();
    this.wake();
  }

  /** Waits until a batch is answered, or the session has ended. */
  private answered(batch: number): Promise<void> {
    if (this.$r.broken || !isUnanswered(this.$r, batch)) return Promise.resolve();
    return new Promise((wake) => this.waiters.push({ batch, wake }));
  }

  /** Returns the failure that a batch cannot end here. */
  private unable(name: string): Error | null {
    const r = this.$r;
    if (r.broken) return null;
    if (r.scopes.length > 0) return this.$error(misuse("OpenStructure"));
    if (!r.shipping) return null;
    const failure = rec.refuseMisuse(r, name, this.$place(), "InTransaction");
    tell(r, failure);
    return this.$error(failure);
  }

  /** Ends the batch, and waits for all answers up to it. Throws what prevents it. */
  private async synchronize(name: string): Promise<void> {
    const unable = this.unable(name);
    if (unable) throw unable;
    const batch = this.$r.batchNumber;
    const nothing = this.$r.commands === 0 && this.$r.frees.length === 0;
    if (!nothing) this.flushSoon();
    await this.answered(nothing ? batch - 1 : batch);
    if (this.$r.broken) throw this.$error(this.$r.broken);
  }

  // Claims, for stubs.

  /** Waits until the knowledge of a stub is there. Null if it is there. */
  private arrives(stub: Stub): Promise<void> | null {
    if (stub.$tag === FUTURE) {
      stub.$want = true;
      const { batchNumber } = this.$r;
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
      throw unable;
    }
    const finish = (): unknown => {
      const failure = this.$told(stub);
      if (failure) throw failure;
      return read();
    };
    const arrives = this.arrives(stub);
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

  /** Waits until a stub is known; throws its failure. */
  async $know(stub: Stub): Promise<void> {
    await this.$claim(stub, () => undefined);
  }

  /** Tells the failure of a stub that is known, or failures that no other claim can tell. */
  $told(stub: Stub): Error | null {
    const r = this.$r;
    if (stub.$tag !== FAILED) {
      if (stub.$tag === FUTURE || stub.$tag === UNDER_WAY) return r.broken && this.$error(r.broken);
      const lost = surface(r, false);
      return lost && this.$error(lost);
    }
    const failure = stub.$data as Failure;
    tell(r, failure);
    return this.$error(failure);
  }

  /** Closes the session, because a result does not have the type of its heading. */
  $nonsense(): never {
    this.finish({ by: "wrong_reply", text: "a result does not have the type of its heading" });
    throw this.$error(this.$r.broken as Failure);
  }

  /** Makes an error of a failure: that of the call that failed first. */
  $error(failure: Failure): BifrostError | UnseenError {
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

  private signalError(failure: Failure, { of }: Failure): SignalError {
    const came = of.values ?? [];
    for (const type of this.$stubs.signals()) {
      if (type.signal !== of.name) continue;
      for (const heading of type.headings?.() ?? [type.types()]) {
        if (heading.length !== came.length) continue;
        const values = came.map(({ tag, lo, hi, data }, at) => (heading[at] as Type).take(this, tag, lo, hi, data));
        if (!values.includes(MISMATCH)) return new type(failure, values);
      }
    }
    return new SignalError(
      failure,
      came.map((part) => plainValue(this, part)),
    );
  }

  // Structures.

  /** Calls a body whose commands are recorded; a structure that it leaves by an exception is not sent. */
  private record<R>(body: () => R): structures.Ended {
    const depth = this.$r.scopes.length;
    let done = false;
    try {
      checkSync(body());
      done = true;
    } finally {
      if (!done) while (this.$r.scopes.length >= depth && depth > 0) structures.abandon(this.$r);
    }
    return structures.end(this.$r);
  }

  /** Goes on with a block of a structure. */
  $reopen(
    ended: structures.Ended,
    block: structures.Block,
    types: readonly Type[],
    body: (...values: Stub[]) => unknown,
  ): structures.Ended {
    const place = this.$place();
    structures.reopen(this.$r, ended, block, place);
    return this.record(() => body(...this.variables(types, place)));
  }

  private variables(types: readonly Type[], place: unknown): Stub[] {
    return types.map((type) => structures.variable(this.$r, this.$new(type), place));
  }

  private operand(test: boolean | Bool): Operand {
    if (typeof test === "boolean") return { tag: t.TAG_BOOL, lo: test ? 1 : 0, hi: 0, data: undefined };
    checkSync(test);
    if (!(test instanceof Stub)) throw new TypeError("a condition is a boolean at the server: a Bool was expected");
    return test.$session === this ? test : misuse("OtherSession");
  }

  /** Repeats a body at the server while a condition holds. */
  while<R extends Recordable>(condition: () => boolean | Bool, body: () => R): void {
    const place = this.$place();
    structures.open(this.$r, this.$admit(), "while", place);
    this.record(() => {
      structures.condition(this.$r, this.operand(condition()), place);
      return body();
    });
  }

  /** Runs a body at the server if a condition holds. Follow it with `else` for the other case. */
  if<R extends Recordable>(condition: boolean | Bool | (() => boolean | Bool), body: () => R): If {
    const place = this.$place();
    structures.open(this.$r, this.$admit(), "if", place);
    const ended = this.record(() => {
      structures.condition(this.$r, this.operand(typeof condition === "function" ? condition() : condition), place);
      return body();
    });
    return new If(this, ended);
  }

  /** Runs a body at the server for each step of an iterator, with the values that it yields. */
  foreach<S extends readonly Stub[], R extends Recordable>(iterator: Iter<S>, body: (...values: Given<S>) => R): void {
    const place = this.$place();
    const values = this.openLoop(iterator, place, this.$admit());
    this.record(() => body(...(values as unknown as Given<S>)));
  }

  private openLoop<S extends readonly Stub[]>(iterator: Iter<S>, place: unknown, admitted: rec.Admission): S {
    const { $iteration, $types, $args } = iterator;
    const foreign = iterator.$session === this ? null : misuse("OtherSession");
    const iteration: structures.Iteration =
      "method" in $iteration
        ? { receiver: foreign ?? $iteration.receiver, method: $iteration.method }
        : { stubs: foreign ?? $iteration.stubs, routine: $iteration.routine };
    let opened = false;
    const depth = this.$r.scopes.length;
    try {
      const made = structures.foreach(this.$r, admitted, iteration, $args, place);
      opened = true;
      return $types.map((type: Type) => this.$take(made, type, place)) as unknown as S;
    } finally {
      // An argument of another type.
      if (!opened && this.$r.scopes.length > depth) structures.abandon(this.$r);
    }
  }

  /** Leaves the innermost loop at the server. Recording goes on. */
  break(): void {
    structures.jump(this.$r, "break", this.$place());
  }

  /** Goes on with the next round of the innermost loop at the server. Recording goes on. */
  continue(): void {
    structures.jump(this.$r, "continue", this.$place());
  }

  /** Runs a body at the server. Exceptions of its calls go to the handlers that follow. */
  except<R extends Recordable>(body: () => R): Except {
    structures.open(this.$r, this.$admit(), "except", this.$place());
    return new Except(this, this.record(body));
  }

  /**
   * Defines a procedure, which the session keeps. The body is called once, with its parameters and
   * then the procedure itself; it returns the result, or ends runs by `return`.
   */
  procedure<P extends readonly Stub[], S extends Stub>(
    name: string,
    params: Types<P>,
    result: Type<S>,
    body: (...values: [...P, Procedure<P, S>]) => Arg<S> | (S extends Done ? Recordable : never),
  ): Procedure<P, S> {
    const place = this.$place();
    const heading = this.heading(params, result);
    const number = procedures.openProcedure(this.$r, this.$admit(), name, heading, place);
    const made = new Procedure(this, number, params, result);
    let done = false;
    const depth = this.$r.scopes.length;
    try {
      const values = this.variables(params, place);
      const value: unknown = (body as (...values: unknown[]) => unknown)(...values, made);
      checkSync(value);
      if (heading.result >= 0) this.returns(result, value, place);
      done = true;
    } finally {
      if (!done) while (this.$r.scopes.length >= depth) structures.abandon(this.$r);
    }
    made.$refused = procedures.closeProcedure(this.$r);
    return made;
  }

  private heading(params: readonly Type[], result: Type): rec.Heading {
    const number = (type: Type): number => type.numbersIn(this.$stubs)[0];
    return { params: params.map(number), result: result === (Done as Type) ? -1 : number(result) };
  }

  private returns(type: Type, value: unknown, place: unknown): void {
    const foreign = value instanceof Stub && value.$session !== this;
    const operand = foreign ? misuse("OtherSession") : value instanceof Stub ? value : ([type, value] as const);
    procedures.return_(this.$r, operand, place);
  }

  /** Returns a procedure that the session has defined with these types. */
  findProcedure<P extends readonly Stub[], S extends Stub>(
    name: string,
    params: Types<P>,
    result: Type<S>,
  ): Procedure<P, S> | undefined {
    const number = procedures.findProcedure(this.$r, name, this.heading(params, result));
    return number === null ? undefined : new Procedure(this, number, params, result);
  }

  /** Ends a run of the procedure that is defined, with its result. */
  return(): void;
  return<S extends Stub>(type: Type<S>, value: Arg<S>): void;
  return(type?: Type, value?: unknown): void {
    if (type) this.returns(type, value, this.$place());
    else procedures.return_(this.$r, null, this.$place());
  }

  // Objects.

  /** Returns a well-known object. Not inside a structure: look it up before. */
  lookup<S extends Stub>(name: string, type: Type<S>): S {
    const place = this.$place();
    const stubs = "module" in type ? (type.module as Stubs) : null;
    const [number] = type.numbersIn(this.$stubs);
    return this.$take(lookup(this.$r, this.$admit(), stubs, name, number, type.theta, place), type, place);
  }

  /** Makes a stub of a value, so that it can be a receiver: `s.value(Int, 1).to(100)`. */
  value<S extends Stub>(type: Type<S>, value: Arg<S>): S {
    return known(this, type, value);
  }

  /** Makes a cell, with its first value if there is one. */
  cell<S extends Stub>(type: Type<S>, value?: Arg<S>): Cell<S> {
    const place = this.$place();
    const [number] = type.numbersIn(this.$stubs);
    const made = this.$fill(cell(this.$r, this.$admit(), number, type.theta, place), new Cell(this, type), place);
    if (value !== undefined) made.put(value);
    return made;
  }

  /** Makes an empty table of rows with these types of columns. Not inside a structure. */
  rows<S extends readonly Stub[]>(...types: Types<S>): Rows<S> {
    const place = this.$place();
    const columns = types.map((type: Type) => [type.numbersIn(this.$stubs)[0], type.theta] as const);
    return this.$fill(rows(this.$r, this.$admit(), columns, place), new Rows<S>(this, types), place);
  }

  /** Collects a row for each step of an iterator: `s.collect(db.users(), [Str, Int], (e) => [...])`. */
  collect<Y extends readonly Stub[], S extends readonly Stub[]>(
    iterator: Iter<Y>,
    types: Types<S>,
    row: (...values: Given<Y>) => Args<S>,
  ): Rows<S> {
    const table = this.rows<S>(...types);
    this.foreach(iterator, (...values) => {
      const cells: unknown = row(...values);
      checkSync(cells);
      table.push(...(cells as Args<S>));
    });
    return table;
  }

  // Batches and transactions.

  /** Sends what was recorded, and waits until it has run. Rejects with failures that no claim can tell. */
  async flush(): Promise<void> {
    await this.synchronize("flush");
    const failure = surface(this.$r, true);
    if (failure) throw this.$error(failure);
  }

  /** Sends what was recorded without waiting. What is recorded from then on is the next batch. */
  sendBatch(): void {
    const unable = this.unable("send_batch");
    if (unable) throw unable;
    if (!isCrowded(this.$r) && beginFlushFor(this.$r, "send_batch", true, this.$place())) this.send();
    else if (isCrowded(this.$r)) this.flushSoon();
  }

  /**
   * Records a batch, and claims what its body returns. All other stubs that it makes are given back,
   * so only the results cross.
   */
  batch<R extends Claimable>(body: () => R): Promise<Claimed<R>> {
    return this.runBatch(body) as Promise<Claimed<R>>;
  }

  private async runBatch(body: () => unknown): Promise<unknown> {
    const scope: Stub[] = [];
    this.scopes.push(scope);
    let result: unknown;
    try {
      result = body();
      checkSync(result);
    } catch (error) {
      this.close$(scope, new Set());
      throw error;
    }
    const stubs = stubsIn(result);
    this.close$(scope, new Set(stubs));
    for (const stub of stubs) if (stub.$tag === FUTURE) stub.$want = true;
    await this.synchronize("batch");
    const failure = stubs.length === 0 ? surface(this.$r, true) : null;
    if (failure) throw this.$error(failure);
    return this.claimAll(result);
  }

  /** Ends the innermost scope: gives back its stubs but those to be kept. */
  private close$(scope: Stub[], kept: Set<Slot>): void {
    this.scopes = this.scopes.filter((one) => one !== scope);
    for (const stub of scope) {
      if (!kept.has(stub)) this.$release(stub);
      else this.scopes[this.scopes.length - 1]?.push(stub);
    }
  }

  /** Claims all stubs of a result. Rejects with the failure of the first one that failed. */
  private async claimAll(result: unknown): Promise<unknown> {
    const arriving = stubsIn(result).map((stub) => this.arrives(stub));
    for (const one of arriving) await one;
    const read = (part: unknown): unknown => {
      if (part instanceof Stub) {
        const failure = this.$told(part);
        if (failure) throw failure;
        return part instanceof Value ? part.$read() : part;
      }
      if (Array.isArray(part)) return part.map(read);
      if (typeof part !== "object" || part === null) return part;
      return Object.fromEntries(Object.entries(part).map(([name, one]) => [name, read(one)]));
    };
    return read(result);
  }

  /**
   * Commits the transaction. Rejects if it is not: then everything is as it was when it began. Failures
   * that the program was not told of prevent it.
   */
  commit(): PromiseLike<void> {
    const r = this.$r;
    const place = this.$place();
    const admitted = this.$admit();
    if (admitted || transactions.commitDue(r) !== "flush") {
      return this.$take(transactions.commit(r, admitted, place), Done, place);
    }
    const committed = this.synchronize("commit").then(() =>
      this.$take(transactions.commit(r, this.$admit(), place), Done, place),
    );
    // Nobody may be waiting; the failure is told by the next claim then.
    committed.catch(() => undefined);
    return committed;
  }

  /** Aborts the transaction: everything becomes as it was when it began. */
  abort(): Done {
    const place = this.$place();
    return this.$take(transactions.abort(this.$r, this.$admit(), place), Done, place);
  }

  /** Waits at the server until others change what the transaction has read: true; false after this time. */
  wait(milliseconds: number): Bool {
    const place = this.$place();
    const ms = Math.min(Math.max(0, Math.ceil(milliseconds)), 0xffffffff);
    return this.$take(transactions.wait(this.$r, this.$admit(), ms, place), Bool, place);
  }

  /**
   * Records a batch that is a transaction of its own, and claims what its body returns when it is
   * committed. The server repeats it after conflicts; the body is called once. An exception that no
   * structure handles aborts it.
   */
  transaction<R extends Claimable>(body: () => R, options: TransactionOptions = {}): Promise<Claimed<R>> {
    return this.ship(body, options) as Promise<Claimed<R>>;
  }

  private async ship(body: () => unknown, options: TransactionOptions): Promise<unknown> {
    const r = this.$r;
    const place = this.$place();
    do await this.synchronize("transaction");
    while (r.commands > 0 || r.underWay.length > 0);
    const done = new Done(this);
    done.$want = true;
    try {
      transactions.beginTransaction(r, done, options.tries ?? 0, options.batch ?? null, place);
    } catch (error) {
      throw error instanceof Failure ? this.$error(error) : error;
    }
    let result: unknown;
    try {
      result = body();
      checkSync(result);
    } catch (error) {
      transactions.abandonTransaction(r);
      await this.synchronize("transaction").catch(() => undefined);
      transactions.tellTransaction(r);
      throw error;
    }
    for (const stub of stubsIn(result)) if (stub.$tag === FUTURE) stub.$want = true;
    const refusals = transactions.endTransactionBatch(r);
    const arrives = this.arrives(done);
    // Nothing of another task may stand in its batch.
    if (this.flushing) this.flushNow();
    await arrives;
    if (done.$tag === FAILED) tell(r, done.$data as Failure);
    const outcome = done.$tag === FAILED ? (done.$data as Failure) : null;
    const failure = transactions.finishTransaction(r, outcome, refusals, place);
    if (failure) throw this.$error(failure);
    return this.claimAll(result);
  }

  /**
   * Runs a batch again whenever its results may have changed: `for await (const rows of s.live(...))`.
   * The body is called for each run. A failure ends the iteration. Give a live batch a session of its
   * own.
   */
  live<R extends Claimable>(body: () => R): AsyncGenerator<Claimed<R>, void, undefined> {
    return this.runs(body) as AsyncGenerator<Claimed<R>, void, undefined>;
  }

  private async *runs(body: () => unknown): AsyncGenerator<unknown, void, undefined> {
    const r = this.$r;
    let last: Stub[] | null = null;
    let readAt = -1;
    for (;;) {
      if (r.underWay.length > 0) await this.synchronize("live");
      r.batchEnd = null;
      const mark = r.seen.order;
      const waited = readAt === r.ends ? this.wait(0xffffffff) : null;
      const result = body();
      checkSync(result);
      const stubs = stubsIn(result);
      await this.synchronize("live");
      readAt = r.ends;
      const end = r.batchEnd as Failure | null;
      const failed = end ?? (waited?.$tag === FAILED ? (waited.$data as Failure) : null);
      if (failed) {
        tellSince(r, mark);
        const error = this.$error(failed);
        if (!(error instanceof RefusedError) || !OVERTAKEN.includes(error.number)) throw error;
        // The transaction is gone, and so is all that it has read.
        readAt = -1;
        continue;
      }
      let claimed: unknown;
      try {
        claimed = await this.claimAll(result);
      } catch (error) {
        tellSince(r, mark);
        throw error;
      }
      const before = last;
      const same = before?.length === stubs.length && before.every((stub, at) => isSame(stub, stubs[at] as Stub));
      last = stubs;
      if (!same) yield claimed;
    }
  }

  // The session.

  /** Returns all failures up to now, oldest first; the program is told of them. `errors` has them. */
  exceptions(): UnseenError {
    const failures = rec.exceptions(this.$r).map(({ failure }) => failure);
    const omitted = this.$r.historyOmitted;
    return this.$error(new Failure("unseen", { failures, omitted, call: null })) as UnseenError;
  }

  /** Clears the history of failures: those of the calls up to now count as told. */
  clearExceptions(): void {
    if (rec.clearExceptions(this.$r, this.$place())) rec.clearServer(this.$r, this.$admit());
  }

  /** The counts of the session up to now. */
  get counters(): Readonly<rec.Counters> & { readonly batchingFactor: number } {
    const { crossings, calls, executed } = this.$r.counters;
    return { crossings, calls, executed, batchingFactor: crossings === 0 ? 0 : calls / crossings };
  }

  /** True if the session has ended. */
  get isClosed(): boolean {
    return this.$r.broken !== null;
  }

  /** Flushes, and ends the session. Rejects as `flush` does; the session is ended in any case. */
  async close(): Promise<void> {
    try {
      if (!this.$r.broken) await this.flush();
    } finally {
      this[Symbol.dispose]();
    }
  }

  /** Ends the session at once; commands that were recorded are sent, and no answer is waited for. */
  [Symbol.dispose](): void {
    if (leave(this.$r)) {
      this.send();
      this.finish({ by: "client", text: "the session was closed" });
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The errors that end a batch because its transaction is gone. */
const OVERTAKEN: readonly number[] = [t.ERROR_CONFLICT, t.ERROR_TRANSACTION_EXPIRED];

/** Throws if a body was asynchronous: what it records later would be lost. */
function checkSync(result: unknown): void {
  const then = typeof result === "object" && result !== null && "then" in result;
  if (then && !(result instanceof Value)) {
    // This error tells it all.
    Promise.resolve(result).catch(() => undefined);
    throw new TypeError("a body that is recorded cannot be async: it is called once, and must be over when it returns");
  }
}

/** Returns the stubs of a result. */
function stubsIn(result: unknown): Stub[] {
  if (result instanceof Stub) return [result];
  if (typeof result !== "object" || result === null) return [];
  return Object.values(result).flatMap(stubsIn);
}

/** Returns a value of an exception of which the program has no class. */
function plainValue(session: Session, { tag, lo, hi, data }: Part): unknown {
  for (const type of [Nil, Bool, Int, Real, Char, Str, Bytes, Any] as Type[]) {
    const value = type.take(session, tag, lo, hi, data);
    if (value !== MISMATCH) return value;
  }
  return undefined;
}

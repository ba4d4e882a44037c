// A session: one client's connection. Calls are recorded, and cross when a result is awaited.

import * as rec from "./recorder/recorder.js";
import { RefusedError, UnseenError } from "./errors.js";
import { cell, lookup, type Operand, rows } from "./recorder/call.js";
import { beginFlushFor, isCrowded, leave } from "./recorder/crossing.js";
import { Failure, misuse } from "./recorder/failure.js";
import * as procedures from "./recorder/procedure.js";
import { surface, tell, tellSince } from "./recorder/seen.js";
import { FAILED, FUTURE, isSame, type Slot } from "./recorder/slots.js";
import * as structures from "./recorder/structures.js";
import * as transactions from "./recorder/transaction.js";
import { Cell, Procedure, Rows } from "./objects.js";
import { type Arg, type Args, type Iter, Stub, type Type, type Types } from "./stub.js";
import * as t from "./tables.js";
import { Bool, Done, known, Str, Value } from "./values.js";

import { checkSync, Core, stubsIn, type SignalType, type Stubs } from "./core.js";

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

/** A session with a server. `connect` of a generated module opens one. */
export class Session extends Core {
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

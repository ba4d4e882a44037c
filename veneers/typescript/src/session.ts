// A session: one client's connection. Calls are recorded, and cross when a result is awaited.

import * as rec from "./recorder/recorder.js";
import type { UnseenError } from "./errors.js";
import { cell, lookup, type Operand } from "./recorder/call.js";
import { beginFlushFor, isCrowded, leave } from "./recorder/crossing.js";
import { Failure, misuse } from "./recorder/failure.js";
import { surface } from "./recorder/seen.js";
import { FUTURE, type Slot } from "./recorder/slots.js";
import * as structures from "./recorder/structures.js";
import * as ends from "./recorder/ends.js";
import type { BatchName } from "./recorder/transaction.js";
import { Cell } from "./cells.js";
import { type Arg, type Iter, Stub, type Type, type Types } from "./stub.js";
import * as t from "./tables.js";
import { Bool, Done, known, Str } from "./values.js";

import { checkSync, Core, stubsIn, type SignalType, type Stubs } from "./core.js";

/** The results of a body that is recorded: nothing, or stubs. No promise of JavaScript. */
export type Recordable = void | Stub | Block | boolean | null;

/** The values that a body takes; a body that takes fewer does not change them. */
export type Given<S extends readonly Stub[]> = S extends readonly [...infer T] ? T : never;

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
  /** The greatest number of runs, at most 65535; 0, the default, stands for as many as the server allows. */
  readonly tries?: number;
  /**
   * Has the server do the batch once, however often it is sent under this name. Stubs of its body that are
   * not in its result are given back: an answer that is sent again has no objects.
   */
  readonly batch?: BatchName;
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
    return this.record(() => body(...this.$variables(types, place)));
  }

  /** Makes the stubs of variables. */
  $variables(types: readonly Type[], place: unknown): Stub[] {
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

  // Batches and ends.

  /** Sends what was recorded, and waits until it has run. Rejects with failures that no claim can tell. */
  async flush(): Promise<void> {
    await this.$synchronize("flush");
    const failure = surface(this.$r, true);
    if (failure) await this.$reject(failure);
  }

  /** Sends what was recorded without waiting. What is recorded from then on is the next batch. */
  sendBatch(): void {
    const unable = this.unable("send_batch");
    if (unable) throw this.$error(unable);
    const place = this.$place();
    this.$r.watcher?.asked(place);
    if (!isCrowded(this.$r) && beginFlushFor(this.$r, "send_batch", true, place)) this.send();
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
    this.$scopes.push(scope);
    let result: unknown;
    try {
      result = body();
      checkSync(result);
    } catch (error) {
      this.$closeScope(scope, new Set());
      throw error;
    }
    const stubs = stubsIn(result);
    this.$closeScope(scope, new Set(stubs));
    for (const stub of stubs) if (stub.$tag === FUTURE) stub.$want = true;
    await this.$synchronize("batch");
    const failure = stubs.length === 0 ? surface(this.$r, true) : null;
    if (failure) await this.$reject(failure);
    return this.$claimAll(result);
  }

  /** Ends the innermost scope: gives back its stubs but those to be kept. */
  $closeScope(scope: Stub[], kept: Set<Slot>): void {
    this.$scopes = this.$scopes.filter((one) => one !== scope);
    for (const stub of scope) {
      if (!kept.has(stub)) this.$release(stub);
      else this.$scopes[this.$scopes.length - 1]?.push(stub);
    }
  }

  /**
   * Commits the transaction. Rejects if it is not: then everything is as it was when it began. Failures
   * that the program was not told of prevent it.
   */
  commit(): PromiseLike<void> {
    const r = this.$r;
    const place = this.$place();
    const admitted = this.$admit();
    if (admitted || ends.commitDue(r) !== "flush") {
      return this.$take(ends.commit(r, admitted, place), Done, place);
    }
    const committed = this.$synchronize("commit").then(() =>
      this.$take(ends.commit(r, this.$admit(), place), Done, place),
    );
    // Nobody may be waiting; the failure is told by the next claim then.
    committed.catch(() => undefined);
    return committed;
  }

  /** Aborts the transaction: everything becomes as it was when it began. */
  abort(): Done {
    const place = this.$place();
    return this.$take(ends.abort(this.$r, this.$admit(), place), Done, place);
  }

  /** Waits at the server until others change what the transaction has read: true; false after this time. */
  wait(milliseconds: number): Bool {
    const place = this.$place();
    const ms = Math.min(Math.max(0, Math.ceil(milliseconds) || 0), 0xffffffff);
    return this.$take(ends.wait(this.$r, this.$admit(), ms, place), Bool, place);
  }

  /**
   * Records a batch that is a transaction of its own, and claims what its body returns when it is
   * committed. The server repeats it after conflicts; the body is called once. An exception that no
   * structure handles aborts it.
   */
  transaction<R extends Claimable>(body: () => R, options: TransactionOptions = {}): Promise<Claimed<R>> {
    const place = this.$place();
    const shipped = import("./transaction.js").then(({ ship }) => ship(this, body, options, place));
    return shipped as Promise<Claimed<R>>;
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
    const { runs } = await import("./live.js");
    yield* runs(this, body);
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

// The way of a batch to the server, and its answer back; the batches under way.
//
// A flush has these steps: `beginFlush`; the caller sends the bytes; it hands in those of the reply;
// the slots of the futures are filled; failures go to the history and to the account in `seen`. A
// wrong reply closes the session.
//
// Batches overlap: the next one is recorded while others are under way, and may name their results
// if their flush was `kept`. Answers come in order.

import { type CallName, type Ending, Failure, misuse, type Plain } from "./failure.js";
import type { Profile } from "./profile.js";
import {
  ABORT_OF,
  callName,
  COMMIT_OF,
  Futures,
  NAMED,
  type Recorder,
  REFUSED_OF,
  refuseMisuse,
  remember,
  TRANSACTION_OF,
} from "./recorder.js";
import type { Exception, Reply } from "./reply.js";
import { attend, boundUntold, noteAnswered, noteFailure, noteUnseen, tell, unseen } from "./seen.js";
import {
  discard,
  DROPPED,
  dropHandle,
  FAILED,
  HANDLE,
  holdHandle,
  keyOf,
  nameOf,
  settle,
  type Slot,
  UNDER_WAY,
} from "./slots.js";
import { abandon, endFutures, type Sent } from "./structures.js";
import {
  BATCH_ERRORS,
  OP_BYE,
  OP_ERROR,
  OP_FLUSH,
  OP_FLUSHED,
  OP_FREE,
  TAG_ABSENT,
  TAG_COMPOUND,
  TAG_EXCEPTION,
  TAG_NIL,
  TAG_REF,
  TAG_ROWS,
  LIMIT_BATCHES_UNDER_WAY,
  LIMIT_FRAME_BYTES,
  LIMIT_FUTURES,
  ERROR_NAMES,
  ERROR_UNSEEN,
  EXCEPTION_REFUSED as REFUSED,
  EXCEPTION_SIGNAL as SIGNALLED,
} from "../tables.js";
import { eachHandle } from "./reply.js";
import { type Items, Malformed, TWO32 } from "./words.js";

/** Is told of batches; for explanations. */
export interface Watcher {
  /** Bytes of the batch are sent before its end. */
  keep(bytes: Uint8Array): void;
  /** A claim of a future is going to end the batch, or another call of the program, at a place. */
  claimed(slot: Slot, place: unknown): void;
  asked(place: unknown): void;
  /** The batch has ended; these are its last bytes. */
  ended(bytes: Uint8Array, number: number, commands: number, futures: Futures): void;
  /** The batch is answered; with its profile if the answer has one. */
  ran(number: number, calls: number, fuel: number, failures: number, profile: Profile | null): void;
}

/** A batch under way. */
export interface Batch {
  readonly number: number;
  readonly futures: Futures;
  readonly errorHandles: readonly [number, number, Failure][];
  readonly structures: readonly Sent[];
  /** The transactions at its begin and at its end. */
  readonly transactions: readonly [number, number];
  /** The calls up to this position need not be told. */
  forgiven: number;
  /** True if later batches may name its results. */
  kept: boolean;
  /** The number of results that its answer has. */
  readonly wanted: number;
  /** The number of bytes of the session up to its end. */
  readonly endsAt: number;
  readonly waitMs: number;
}

/** The failures of a batch that is answered, which batches recorded before its answer may name. */
export interface Answered {
  readonly batch: number;
  /** The last batch that may name them. */
  readonly until: number;
  readonly failures: Map<number, Failure>;
}

const EMPTY = new Uint8Array(0);

/**
 * Returns the bytes that can be sent now: whole commands, those of flushed batches first. There are
 * no others while a structure is open or a batch that is a transaction is recorded.
 */
export const bytesToSend = (r: Recorder): Uint8Array =>
  r.unsent.length > 0 || r.scopes.length > 0 || r.shipping ? r.unsent : r.batch.slice();

/** Takes the bytes of `bytesToSend` as sent. */
export function sent(r: Recorder): void {
  if (r.unsent.length > 0) {
    r.sent += r.unsent.length;
    r.unsent = EMPTY;
  } else if (r.scopes.length === 0 && !r.shipping) {
    r.watcher?.keep(r.batch.slice());
    r.published += 4 * r.batch.n;
    r.sent += 4 * r.batch.n;
    r.batch.n = 0;
  }
}

/** Closes the session, and returns the failure that every stub without a result has now. */
export function close(r: Recorder, ending: Ending): Failure {
  if (r.broken) return r.broken;
  const failure = new Failure("closed", { ending });
  endFutures(r, 0, failure);
  for (const batch of r.underWay) {
    r.futures = batch.futures;
    endFutures(r, 0, failure);
  }
  r.futures = new Futures();
  r.underWay = [];
  r.answered = [];
  r.unsent = EMPTY;
  r.wanted = 0;
  r.batch.n = 0;
  r.broken = failure;
  attend(r);
  return failure;
}

/**
 * True if a flush has to wait for an answer first: as many batches are under way as may be, or their
 * results and those of this batch are too many.
 */
export const isCrowded = (r: Recorder): boolean =>
  r.underWay.length > 0 &&
  (r.underWay.length >= r.bounds[LIMIT_BATCHES_UNDER_WAY] || r.wanted + r.futures.length > r.bounds[LIMIT_FUTURES]);

/**
 * Ends the batch: records the frees and the flush. False if there is nothing to send; otherwise the
 * batch is under way. Throws a failure if the session is closed, a structure is open, or too many
 * batches are under way.
 */
export function beginFlush(r: Recorder, kept: boolean): boolean {
  if (r.broken) throw r.broken;
  if (r.scopes.length > 0) throw misuse("OpenStructure");
  if (r.frees.length > 0) {
    // The order in which stubs are dropped is no promise; a handle may have come again.
    r.frees.sort((a, b) => a.hi - b.hi || (a.lo >>> 0) - (b.lo >>> 0));
    r.frees = r.frees.filter((held, at) => held.slots === 0 && held !== r.frees[at - 1]);
  }
  if (r.commands === 0 && r.frees.length === 0) return false;
  if (isCrowded(r)) throw misuse("UnderWay");
  appendFrees(r);
  putUnderWay(r, kept);
  attend(r);
  return true;
}

/** Begins a flush for the program's call of this name, which a batch that is a transaction refuses. */
export function beginFlushFor(r: Recorder, name: string, kept: boolean, place: unknown): boolean {
  if (r.shipping && !r.broken && r.scopes.length === 0) {
    const failure = refuseMisuse(r, name, place, "InTransaction");
    tell(r, failure);
    throw failure;
  }
  return beginFlush(r, kept);
}

function appendFrees(r: Recorder): void {
  // Leaves room for the first word.
  const most = Math.max(1, Math.floor(r.bounds[LIMIT_FRAME_BYTES] / 8) - 1);
  for (let at = 0; at < r.frees.length; at += most) {
    const some = r.frees.slice(at, at + most);
    // An answer under way may name a handle again: then the server does not take it back.
    r.batch.head(OP_FREE, r.underWay.length, some.length);
    for (const { lo, hi } of some) r.batch.word(lo, hi);
  }
  for (const { lo, hi } of r.frees) r.handles.delete(keyOf(lo, hi));
  r.frees = [];
}

/** Moves the recorded batch, whose `flush` it appends, among those under way. */
function putUnderWay(r: Recorder, kept: boolean): void {
  const { futures, batch: out, seen, batchNumber: number } = r;
  const { slots } = futures;
  const start = out.n;
  out.word(0, 0);
  let [ranges, wanted, first, count] = [0, 0, 0, 0];
  for (let index = 0; index <= slots.length; index++) {
    const slot = slots[index];
    if (slot) {
      slot.$tag = UNDER_WAY;
      slot.$lo = index + 1;
      slot.$hi = number;
      if (slot.$want) {
        wanted += 1;
        if (count++ === 0) first = index + 1;
        continue;
      }
    }
    if (count > 0) {
      out.word(first, count);
      ranges += 1;
      count = 0;
    }
  }
  // Such a flush ends what the server has kept of earlier batches.
  if (!kept) for (const earlier of r.underWay) earlier.kept = false;
  const flags = kept ? 2 | (Math.min(r.underWay.length, 255) << 8) : 0;
  out.i32[start] = OP_FLUSH | (flags << 8);
  out.i32[start + 1] = ranges;
  const bytes = out.slice();
  r.watcher?.ended(bytes, number, r.commands, futures);
  out.n = 0;
  if (r.unsent.length === 0) r.unsent = bytes;
  else {
    const both = new Uint8Array(r.unsent.length + bytes.length);
    both.set(r.unsent);
    both.set(bytes, r.unsent.length);
    r.unsent = both;
  }
  r.underWay.push({
    number,
    futures,
    errorHandles: r.errorHandles,
    structures: r.structures,
    transactions: [seen.firstTransaction, seen.transaction],
    forgiven: seen.forgiven,
    kept,
    wanted,
    endsAt: r.sent + r.unsent.length,
    waitMs: r.waitMs,
  });
  seen.firstTransaction = seen.transaction;
  seen.forgiven = 0;
  r.wanted += wanted;
  r.futures = new Futures();
  r.errorHandles = [];
  r.structures = [];
  r.waitMs = r.published = r.tables = 0;
  r.counters.crossings += 1;
  r.counters.calls += r.commands;
  r.commands = 0;
  r.batchNumber += 1;
}

/** Finds the reference to a stub that is a result of a batch under way, or returns the failure. */
export function earlierReference(r: Recorder, slot: Slot): Failure | null {
  if (!findBatch(r, slot.$hi)?.kept || !slot.$want) return misuse("UnderWay");
  // -(back x 2^32 + position)
  r.lo = -slot.$lo;
  r.hi = -(r.batchNumber - slot.$hi) - 1;
  return null;
}

const findBatch = (r: Recorder, number: number): Batch | undefined => {
  const first = r.underWay[0];
  return first && r.underWay[number - first.number];
};

/** Notes that the stub of a result of a batch under way was dropped. */
export function dropUnderWay(r: Recorder, position: number, batch: number): void {
  const slots = findBatch(r, batch)?.futures.slots;
  const slot = slots?.[position - 1];
  if (slots && slot) slots[position - 1] = slot.$want ? DROPPED : null;
}

/** True if a batch was not answered yet, by its number. */
export const isUnanswered = (r: Recorder, batch: number): boolean => batch >= (r.underWay[0]?.number ?? r.batchNumber);

/** Returns the milliseconds that the batches may wait for changes of others. */
export const waitMs = (r: Recorder): number => r.underWay.reduce((sum, batch) => sum + batch.waitMs, r.waitMs);

/** Returns the transaction that a call belongs to. */
export function transactionAt(batch: Batch, position: number): number {
  const [first, last] = batch.transactions;
  if (first === last) return last;
  for (let index = position - 2; index >= 0; index--) {
    const made = batch.futures.made[index] ?? 0;
    if (made >= COMMIT_OF && made < NAMED) return (made % TWO32) + 1;
  }
  return first;
}

/** The end of a session because of bytes that are no answer. */
const wrong = (text: string): Ending => ({ by: "wrong_reply", text: `the server sent an unexpected reply: ${text}` });

/** Returns the name of an error. */
export const errorName = (number: number): string => ERROR_NAMES[number as keyof typeof ERROR_NAMES] ?? "error";

/** Returns the ending of an error of the server. */
export const byServer = ({ number, position, text }: Reply & { code: typeof OP_ERROR }): Ending => ({
  by: "server",
  text: `the server ended the session: ${text} (${errorName(number)}, ${number})`,
  number,
  position,
  cause: text,
});

/** Returns the ending of bytes that cannot be read. */
export function badReply(error: unknown): Ending {
  if (!(error instanceof Malformed)) throw error;
  return { by: "bad_reply", text: `the server's reply cannot be read: ${error.message}`, number: error.number };
}

/**
 * Takes bytes of the server, cut anywhere. True if the oldest batch under way has been answered with
 * them; bytes behind the answer are kept. Throws a failure: the session is closed.
 */
export function handleBytes(r: Recorder, bytes: Uint8Array): boolean {
  if (r.broken) throw r.broken;
  let reply: Reply | null;
  try {
    reply = r.replies.next(bytes);
  } catch (error) {
    throw close(r, badReply(error));
  }
  if (!reply) return false;
  if (reply.code === OP_ERROR) throw close(r, byServer(reply));
  if (reply.code !== OP_FLUSHED) throw close(r, wrong("an answer to `flush` was expected"));
  const batch = r.underWay[0];
  if (!batch || batch.endsAt > r.sent) throw close(r, wrong("no reply was expected"));
  r.underWay.shift();
  r.wanted -= batch.wanted;
  const problem = fill(r, batch, reply);
  if (problem !== null) {
    // The stubs that have nothing yet get the failure with which the session is closed.
    r.underWay.unshift(batch);
    throw close(r, wrong(problem));
  }
  r.answered = r.answered.filter((answered) => answered.until > batch.number);
  boundUntold(r);
  attend(r);
  return true;
}

/** Fills the slots of a batch's futures. Returns what is wrong with the reply. */
function fill(r: Recorder, batch: Batch, reply: Reply & { code: typeof OP_FLUSHED }): string | null {
  const { outcomes, omitted } = reply;
  const failures = reply.exceptions.length > 0 || omitted > 0;
  const [errors, byCall, end, endAt] = takeExceptions(r, batch, reply.exceptions, omitted);
  noteAnswered(r, failures);
  r.counters.executed += reply.calls;
  r.watcher?.ran(batch.number, reply.calls, reply.fuel, reply.exceptions.length + omitted, reply.profile);
  let next = 0;
  const { slots, made, places } = batch.futures;
  const notReached = (index: number): Failure =>
    new Failure("not_reached", { cause: end, call: callName(r, batch.futures, index + 1, []) });
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index];
    if (!slot) continue;
    if (!slot.$want) {
      // Its outcome follows from the exceptions.
      const known =
        byCall.get(index + 1) ??
        (index + 1 > endAt ? notReached(index) : omitted > 0 ? new Failure("unseen", { failures: [], omitted }) : null);
      if (known) settle(r, slot, FAILED, 0, 0, known);
      else settle(r, slot, TAG_NIL, 0, 0, undefined);
      continue;
    }
    const outcome = outcomes[next++];
    if (!outcome) return SHORT;
    let { tag, lo, hi, data } = outcome;
    if (tag === TAG_REF) {
      holdHandle(r, lo, hi, made[index], places[index]);
      // The number of its type stays.
      tag = HANDLE;
    } else if (tag === TAG_ROWS || tag === TAG_COMPOUND) {
      const maker = tag === TAG_ROWS ? made[index] : undefined;
      eachHandle(data as Items, (lo, hi) => holdHandle(r, lo, hi, maker, places[index]));
    } else if (tag === TAG_EXCEPTION) {
      const failure = errors[lo];
      if (!failure) return "an exception that is not listed";
      for (const value of failure.of.values ?? []) if (value.tag === TAG_REF) holdHandle(r, value.lo, value.hi);
      [tag, lo, hi, data] = [FAILED, 0, 0, failure];
    } else if (tag === TAG_ABSENT) {
      [tag, lo, hi, data] = [FAILED, 0, 0, notReached(index)];
    }
    if (slot === DROPPED) discard(r, tag, lo, hi, data, false);
    else settle(r, slot, tag, lo, hi, data);
  }
  for (const held of r.signalled.splice(0)) dropHandle(r, held.lo, held.hi);
  return next < outcomes.length ? SHORT : null;
}

const SHORT = "the number of outcomes is not that of the requested futures";

/**
 * Returns the exceptions of a batch as failures, which go into the history, in order and by call;
 * the one that ended the batch, and its position.
 */
function takeExceptions(
  r: Recorder,
  batch: Batch,
  exceptions: readonly Exception[],
  omitted: number,
): [Failure[], Map<number, Failure>, Failure | null, number] {
  const errors: Failure[] = [];
  const byCall = new Map<number, Failure>();
  let end: Failure | null = null;
  let endAt = Infinity;
  r.seen.omitted += omitted;
  for (const exception of exceptions) {
    const { call: position, kind, number } = exception;
    const made = batch.futures.made[position - 1];
    let call: CallName = callName(r, batch.futures, position, exception.rounds);
    let listed: Failure | null = null;
    // A structure that is not run has the position of its first call, and none of its calls is to
    // blame.
    const structure = kind === SIGNALLED ? undefined : batch.structures.find((sent) => sent.position === position);
    if (structure) call = { name: structure.kind, number: position, place: structure.place, rounds: [] };
    let failure: Failure;
    if (kind === SIGNALLED) {
      const { name, places, more } = exception;
      const values = exception.values.map((value) => errorValue(r, value));
      failure = new Failure("signal", { name, values, places, more, call });
    } else if (kind === REFUSED) {
      if (number === ERROR_UNSEEN && made !== undefined) {
        if (made === TRANSACTION_OF) listed = unseen(r, call, Infinity);
        else if (made >= COMMIT_OF && made < ABORT_OF) listed = unseen(r, call, made % TWO32);
      }
      failure = listed ?? new Failure("refused", { number, text: withNames(r, exception.text), call });
    } else {
      const { argument, back, cause } = exception;
      const known =
        back === 0
          ? byCall.get(cause)
          : r.answered.find((answered) => answered.batch === batch.number - back)?.failures.get(cause);
      failure = new Failure("unhandled", {
        argument,
        cause: known?.asCause() ?? errorHandle(batch, position, argument),
        call,
      });
    }
    if (kind === REFUSED && BATCH_ERRORS.includes(number)) {
      end = failure;
      endAt = position;
      r.ends += 1;
      r.batchEnd = end;
    }
    byCall.set(position, failure);
    errors.push(failure);
    // The calls that it stands for are noted.
    if (made === REFUSED_OF) continue;
    if (listed) noteUnseen(r, failure, batch, position);
    else noteFailure(r, failure, batch, position);
    remember(r, failure, batch.number);
  }
  r.historyOmitted += omitted;
  if (byCall.size > 0) r.answered.push({ batch: batch.number, until: r.batchNumber, failures: byCall });
  return [errors, byCall, end, endAt];
}

/** Returns the failure of an argument that the server knows only as the error-handle. */
function errorHandle(batch: Batch, call: number, argument: number): Failure | null {
  const handles = batch.errorHandles.filter(([position]) => position === call);
  const exact = handles.filter(([, of]) => of === argument);
  return (exact.length > 0 ? exact : handles).pop()?.[2] ?? null;
}

/** Returns a text with the names of the handles that it mentions. */
const withNames = (r: Recorder, text: string): string =>
  text.replace(/handle h(\d+)/g, (mention, digits: string) => {
    const handle = digits.length > 19 ? 0n : BigInt(digits);
    return (handle > 0n && handle < 1n << 63n ? nameOf(r, handle) : null) ?? mention;
  });

function errorValue(r: Recorder, value: Plain): Plain {
  const hold = (lo: number, hi: number): void => {
    // It is given back when all stubs of the batch have what they hold.
    r.signalled.push(holdHandle(r, lo, hi));
  };
  if (value.tag === TAG_REF) hold(value.lo, value.hi);
  if (value.tag !== TAG_COMPOUND) return value;
  eachHandle(value.data as Items, hold);
  return { tag: TAG_NIL, lo: 0, hi: 0, data: undefined };
}

/**
 * Ends the session without an answer. False if it is closed already; otherwise the caller sends the
 * bytes and closes the session.
 */
export function leave(r: Recorder): boolean {
  if (r.broken) return false;
  while (r.scopes.length > 0) abandon(r);
  r.shipping = false;
  r.batch.head(OP_BYE, 0, 0);
  return true;
}

/**
 * Looks for the reason that a server gives before it closes a session, in bytes that can still be
 * read when none can be written.
 */
export function lastWords(r: Recorder): Ending | null {
  try {
    const reply = r.replies.next(EMPTY);
    return reply?.code === OP_ERROR ? byServer(reply) : null;
  } catch {
    return null;
  }
}

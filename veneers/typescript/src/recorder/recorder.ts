// The recorder of a client: calls become a batch, the reply becomes knowledge about stubs.
//
// It does no input or output. Bytes go out of it and come into it; `docs/spec/wire.md` has their
// form, `vectors/recorder/` its behaviour. `Recorder` is the type to read first. A stub is a `Slot`.
//
// | file | has |
// | --- | --- |
// | `slots` | the knowledge about stubs, handles |
// | `call` | calls, arguments |
// | `structures`, `procedure` | open structures, definitions of procedures |
// | `crossing` | the way of a batch to the server, its answer, batches under way |
// | `transaction` | commits, batches that are transactions, waits |
// | `seen` | the account of failures |
// | `words`, `reply` | bytes |
//
// A function that records takes an admission: null, or the failure with which the connection
// refuses. It returns the maker of the results, or the failure of a call that was refused.

import { type CallName, Failure, misuse, type Misuse } from "./failure.js";
import { Numbers } from "./numbers.js";
import { Replies } from "./reply.js";
import { attend, clearTold, noteRefusal, recordClear, Seen, tellAll, forgive, serverCleared } from "./seen.js";
import type { Held, Slot } from "./slots.js";
import type { Scope, Sent } from "./structures.js";
import {
  HISTORY_MAX,
  PUBLISH_BYTES,
  LIMIT_BATCHES_UNDER_WAY,
  LIMIT_BATCH_BYTES,
  LIMIT_BATCH_COMMANDS,
  LIMIT_DEFAULTS,
  LIMIT_FRAME_BYTES,
  LIMIT_FUTURES,
} from "../tables.js";
import type { Answered, Batch, Watcher } from "./crossing.js";
import { TWO32, Words } from "./words.js";

/** The maker of a future: a kind, and the number of a method, routine, procedure or transaction. */
export type Maker = number;
export const METHOD = 0;
export const ROUTINE = TWO32;
export const PROCEDURE_CALL = 2 * TWO32;
export const COMMIT_OF = 3 * TWO32;
export const ABORT_OF = 4 * TWO32;
/** The makers behind those with numbers, whose names these are. */
export const NAMED = 5 * TWO32;
const NAMES = "lookup,constant,cell,rows,emit,as,is,get,variable,transaction,wait,refused".split(",");
export const LOOKUP_OF = NAMED;
export const CONSTANT_OF = NAMED + 1;
export const CELL_OF = NAMED + 2;
export const ROWS_OF = NAMED + 3;
export const EMIT_OF = NAMED + 4;
export const AS_OF = NAMED + 5;
export const IS_OF = NAMED + 6;
export const GET_OF = NAMED + 7;
export const VARIABLE_OF = NAMED + 8;
export const TRANSACTION_OF = NAMED + 9;
export const WAIT_OF = NAMED + 10;
export const REFUSED_OF = NAMED + 11;

/** The outcome of recording a call. */
export type Recorded = Maker | Failure;

/** Permission to record, or the failure with which everything is refused. */
export type Admission = Failure | null;

/** The work before the next command: none, send what is there, or flush. */
export type Due = "nothing" | "send" | "flush";

/** Settings of a recorder. */
export interface Settings {
  /** The longest reply that is read, in bytes. */
  readonly replyBytesMax: number;
  /** The number of futures after which a flush is due; never more than the server allows. */
  readonly remapFutures: number;
}

/** The counts of a session up to now. */
export interface Counters {
  /** Batches sent and answered. */
  crossings: number;
  /** Commands sent in them. */
  calls: number;
  /** Calls that the server ran for them; those of loops count each time. */
  executed: number;
}

/** The futures of a batch, by position from 0. */
export class Futures {
  slots: (Slot | null)[] = [];
  made: Maker[] = [];
  /** Has entries only if places are noted. */
  places: unknown[] = [];

  get length(): number {
    return this.slots.length;
  }

  truncate(length: number): void {
    this.slots.length = this.made.length = length;
    if (this.places.length > length) this.places.length = length;
  }
}

/** The limits of a batch, which the server tells, by number. */
export type Bounds = Record<keyof typeof LIMIT_DEFAULTS, number>;

/** Notes a limit that the server tells. Limits that are not known are ignored. */
export function setBound(bounds: Bounds, number: number, value: number): void {
  // References count back in a byte.
  if (number === LIMIT_BATCHES_UNDER_WAY) value = Math.min(Math.max(value, 1), 255);
  if (number in bounds) bounds[number as keyof Bounds] = value;
}

/** An entry of the history. */
export interface Exceptional {
  /** From 1 in the session. */
  readonly batch: number;
  readonly failure: Failure;
}

/** The recorder of one session. */
export class Recorder {
  /** Commands not sent yet. Structures stay here until they are whole. */
  readonly batch = new Words(2048);
  /** Bytes of this batch that were sent. */
  published = 0;
  commands = 0;
  futures = new Futures();
  readonly handles = new Map<number | bigint, Held>();
  /** Handles to give back at the end of this batch. */
  frees: Held[] = [];
  readonly scopes: Scope[] = [];
  /** The reason why the outermost open structure will not be sent. */
  poison: Failure | null = null;
  /** The reason why there is no session any more. */
  broken: Failure | null = null;
  readonly outOfScope = misuse("OutOfScope");
  history: Exceptional[] = [];
  historyOmitted = 0;
  readonly seen = new Seen();
  /** The failed stubs that calls of this batch have as arguments: call, argument, failure. */
  errorHandles: [number, number, Failure][] = [];
  /** The objects of the exceptions of the answer that is read, each held once. */
  signalled: Held[] = [];
  /** The outermost structures of this batch, by position. */
  structures: Sent[] = [];
  /** The tables of this batch, which is not flushed by itself while there are some. */
  tables = 0;
  /** True if the batch is a transaction, which is sent whole. */
  shipping = false;
  shippedFrom = 0;
  waitMs = 0;
  /** The number of times that a transaction ended, or may have. */
  ends = 0;
  /** The last failure that ended a batch. */
  batchEnd: Failure | null = null;
  /** The batches that are not answered, oldest first. */
  underWay: Batch[] = [];
  /** The results that all of them want. */
  wanted = 0;
  /** Bytes of flushed batches that were not sent. */
  unsent: Uint8Array = new Uint8Array(0);
  /** Bytes of the session that were sent. */
  sent = 0;
  answered: Answered[] = [];
  batchNumber = 1;
  /** When either is reached, `due` looks more closely; in 32-bit integers. */
  attentionWords = PUBLISH_BYTES / 4;
  readonly attentionFutures: number;
  /** True if the program has asked for profiles. */
  profiled = false;
  readonly bounds: Bounds;
  readonly numbers: Numbers;
  readonly procedures = new Map<string, [number, Heading]>();
  readonly procedureNames: string[] = [];
  readonly openProcedures: [string, Heading][] = [];
  readonly counters: Counters = { crossings: 0, calls: 0, executed: 0 };
  readonly replies: Replies;
  /** The reference that was looked for last. */
  lo = 0;
  hi = 0;
  /** The depth of the compound that is written. */
  depth = 0;
  /** Explains the session. */
  watcher: Watcher | null = null;
  /** Told when a slot gets knowledge that must be dropped with it. */
  onHeld: ((slot: Slot) => void) | null = null;

  constructor(numbers: Numbers, bounds: Bounds, replies: Replies, remapFutures: number) {
    this.numbers = numbers;
    this.bounds = bounds;
    this.replies = replies;
    // The flush is a command, too: it has a word for every second future at most.
    const ranges = Math.floor(bounds[LIMIT_FRAME_BYTES] / 8) - 1;
    bounds[LIMIT_FUTURES] = Math.max(Math.min(bounds[LIMIT_FUTURES], 2 * ranges), 1);
    const most = Math.min(bounds[LIMIT_FUTURES], Math.floor(bounds[LIMIT_BATCH_COMMANDS] / 2));
    this.attentionFutures = Math.max(1, Math.min(remapFutures, most));
  }
}

/** The types of a procedure, by the client's numbers; a result of -1 is none. */
export interface Heading {
  readonly params: readonly number[];
  readonly result: number;
}

/** True if a command can be recorded at once. Otherwise `due` says what comes first. */
export const isReady = (r: Recorder): boolean =>
  r.batch.n < r.attentionWords && r.futures.slots.length < r.attentionFutures;

/**
 * Returns the work before the next command, if that is one outside structures; or the failure with
 * which it is refused: the session is closed, the open structure was refused, a limit is reached.
 */
export function due(r: Recorder): Due | Failure {
  const refused = r.broken ?? r.poison;
  if (refused) return refused;
  clearTold(r);
  const bytes = r.published + 4 * r.batch.n;
  const futures = r.futures.length;
  if (r.scopes.length > 0 || r.shipping) {
    const over =
      bytes > r.bounds[LIMIT_BATCH_BYTES] ||
      futures >= r.bounds[LIMIT_FUTURES] ||
      r.commands >= r.bounds[LIMIT_BATCH_COMMANDS];
    return over ? misuse("TooLong") : "nothing";
  }
  const remap = r.tables > 0 ? r.bounds[LIMIT_FUTURES] : r.attentionFutures;
  const full =
    futures >= remap ||
    r.commands + 1 >= r.bounds[LIMIT_BATCH_COMMANDS] ||
    bytes + r.bounds[LIMIT_FRAME_BYTES] > r.bounds[LIMIT_BATCH_BYTES];
  return full ? "flush" : 4 * r.batch.n >= PUBLISH_BYTES ? "send" : "nothing";
}

/** Admits a command inside an open structure, where nothing is sent and nothing is due. */
export function admitInside(r: Recorder): Admission {
  if (isReady(r)) return null;
  const work = due(r);
  return work instanceof Failure ? work : null;
}

const unsent = (name: string, place: unknown): CallName => ({ name, number: 0, place, rounds: [] });

/** Makes the failure of a call that was not sent. A stub that was not made stands for the first. */
function notSent(name: string, place: unknown, why: Failure): Failure {
  const first = why.chain().filter((one) => one.kind === "not_sent");
  return new Failure("not_sent", { call: unsent(name, place), cause: first[first.length - 1] ?? why });
}

/**
 * Notes a call, a marker or a structure that cannot be recorded, and returns the failure of its
 * stubs. Inside a structure the outermost one is refused with it, if it is another.
 */
export function refuse(r: Recorder, name: string, place: unknown, why: Failure): Failure {
  // All calls of a refused structure have its failure, which is noted once.
  if (r.poison === why) return why;
  let failure = why;
  if (failure.kind !== "closed") {
    failure = notSent(name, place, failure);
    const outermost = r.scopes[0];
    if (outermost && (outermost.kind !== name || outermost.place !== place)) {
      failure = new Failure("not_sent", { call: unsent(outermost.kind, outermost.place), cause: failure });
    }
    remember(r, failure, r.batchNumber);
    noteRefusal(r, failure);
  }
  if (r.scopes.length > 0) {
    r.poison = failure;
    attend(r);
  }
  return failure;
}

/** Refuses something for a misuse. */
export const refuseMisuse = (r: Recorder, name: string, place: unknown, why: Misuse): Failure =>
  refuse(r, name, place, misuse(why));

export function remember(r: Recorder, failure: Failure, batch: number): void {
  if (r.history.length < HISTORY_MAX) r.history.push({ batch, failure });
  else r.historyOmitted += 1;
}

/** Returns all failures since the history was cleared, oldest first. The program is told of them. */
export function exceptions(r: Recorder): readonly Exceptional[] {
  tellAll(r);
  return r.history;
}

/**
 * Clears the history. True if the server's is to be cleared too: then do the work that is due, and
 * call `clearServer`.
 */
export function clearExceptions(r: Recorder, place: unknown): boolean {
  r.history = [];
  r.historyOmitted = 0;
  forgive(r);
  if (r.shipping) refuseMisuse(r, "history", place, "InTransaction");
  else if (r.scopes.length > 0) refuseMisuse(r, "history", place, "OpenStructure");
  else {
    serverCleared(r);
    return true;
  }
  return false;
}

/** Clears the server's history, as the second half of `clearExceptions`. */
export function clearServer(r: Recorder, admitted: Admission): void {
  if (!admitted) recordClear(r);
}

/** Returns the name of a call, for messages. */
export function madeName(r: Recorder, made: Maker): string {
  if (made >= NAMED) return NAMES[made - NAMED] as string;
  const number = made % TWO32;
  switch (made - number) {
    case METHOD:
      return r.numbers.methodName(number);
    case ROUTINE:
      return r.numbers.routineName(number);
    case PROCEDURE_CALL:
      return r.procedureNames[number] ?? "procedure";
    default:
      return made < ABORT_OF ? "commit" : "abort";
  }
}

/** Returns the name of a call of a batch with these futures. */
export function callName(r: Recorder, futures: Futures, number: number, rounds: readonly number[]): CallName {
  const made = futures.made[number - 1];
  return {
    name: made === undefined ? "?" : madeName(r, made),
    number,
    place: futures.places[number - 1],
    rounds,
  };
}

// The failures that the program was not told of yet, and the points where it is told.
//
// Every failure is untold at first. It is told by a claim that fails with it or with its
// consequence, and by `exceptions`. A failure is lost when no stub is left whose claim would tell it.
//
// | point | tells, as `unseen` |
// | --- | --- |
// | a claim that has a value | lost failures |
// | a flush | lost failures, and calls and structures that were not sent |
// | a commit, a shipped transaction | all untold failures of it; it is not committed |
//
// The server keeps the same account for one bit: any failure since the history was cleared prevents
// a commit. The first command of a batch is `history clear` when all failures before it were told. A
// call of the error-handle before `commit` stands for calls that were not sent.

import { type Batch, transactionAt } from "./crossing.js";
import { type CallName, Failure } from "./failure.js";
import { type Recorder, REFUSED_OF } from "./recorder.js";
import { newResult, release, Slot } from "./slots.js";
import { OP_CALL, OP_HISTORY, HISTORY_MAX, PUBLISH_BYTES, LIMIT_BATCH_COMMANDS } from "../tables.js";

interface Untold {
  readonly failure: Failure;
  readonly order: number;
  readonly transaction: number;
  /** True if it was not sent. */
  readonly refused: boolean;
  /** True if it was inside a structure, whose stubs nobody can claim. */
  readonly inside: boolean;
  /** True if a stub is left that tells it. */
  claimable: boolean;
}

/** The account of failures. */
export class Seen {
  readonly untold = new Map<Failure, Untold>();
  /** The consequences of an untold failure, which are told with it. */
  readonly consequences = new Map<Failure, Failure[]>();
  /** The failures that stubs have. */
  readonly held = new Set<Failure>();
  /** Untold failures beyond those. */
  omitted = 0;
  /** The number of the next failure. */
  order = 0;
  /** True if stubs were dropped or failures came since the lost ones were found. */
  stale = false;
  most = 0;
  /** The transaction being recorded, and that at the begin of the batch. */
  transaction = 0;
  firstTransaction = 0;
  /** True if failures of batches that were answered would prevent a commit. */
  serverUnseen = false;
  /** The calls up to this position need not be told. */
  forgiven = 0;
  /** Calls that were not sent, of the batch that is a transaction. */
  shipped: Failure[] = [];
}

/** Notes that a stub with this failure is gone. */
export function dropped(seen: Seen, failure: Failure): void {
  if (seen.untold.size > 0 && failure.chain().some((one) => seen.untold.has(one))) seen.stale = true;
}

const isAllTold = (seen: Seen): boolean => seen.untold.size === 0 && seen.omitted === 0;

/** True if the program was told of all failures that the server knows of this transaction. */
function allTold(seen: Seen): boolean {
  if (seen.omitted > 0) return false;
  for (const one of seen.untold.values()) if (!one.refused && one.transaction === seen.transaction) return false;
  return true;
}

function tellOne(seen: Seen, failure: Failure): void {
  for (const one of failure.chain()) {
    seen.untold.delete(one);
    for (const consequence of seen.consequences.get(one) ?? []) seen.untold.delete(consequence);
    seen.consequences.delete(one);
  }
}

/** Takes some of the failures out, oldest first. Consequences of others among them are not named. */
function take(seen: Seen, which: (untold: Untold) => boolean): Failure[] {
  const taken = [...seen.untold.values()].filter(which).sort((a, b) => a.order - b.order);
  const named: Failure[] = [];
  for (const { failure } of taken) {
    if (seen.untold.has(failure)) named.push(failure);
    tellOne(seen, failure);
  }
  return named;
}

/** Sets the size at which recording is to be looked at more closely. */
export function attend(r: Recorder): void {
  r.attentionWords = r.broken || r.poison || mustClear(r) ? 0 : PUBLISH_BYTES / 4;
}

function noteUntold(r: Recorder, failure: Failure, transaction: number, refused: boolean, inside: boolean): void {
  const order = r.seen.order++;
  r.seen.untold.set(failure, { failure, order, transaction, refused, inside, claimable: true });
  r.seen.stale = true;
}

/** Keeps the number of lost failures bounded. */
export function boundUntold(r: Recorder): void {
  if (r.seen.untold.size > Math.max(r.seen.most, 2 * HISTORY_MAX)) {
    findLost(r.seen);
    r.seen.most = 2 * r.seen.untold.size;
  }
}

/** Notes a call or structure that was not sent. */
export function noteRefusal(r: Recorder, failure: Failure): void {
  boundUntold(r);
  if (r.shipping) r.seen.shipped.push(failure);
  noteUntold(r, failure, r.seen.transaction, true, r.scopes.length > 0);
}

/** Notes a failure that the server has told of, by the position of its call in its batch. */
export function noteFailure(r: Recorder, failure: Failure, batch: Batch, position: number): void {
  if (position <= batch.forgiven) return;
  const { untold, consequences } = r.seen;
  const causes = failure.chain().filter((one) => one !== failure && untold.has(one));
  const first = causes[causes.length - 1];
  if (first) {
    const known = consequences.get(first);
    if (known) known.push(failure);
    else consequences.set(first, [failure]);
  }
  noteUntold(r, failure, transactionAt(batch, position), false, false);
}

/** Tells the program of a failure, and so of all that it follows from. */
export function tell(r: Recorder, failure: Failure): void {
  if (r.seen.untold.size > 0) {
    tellOne(r.seen, failure);
    attend(r);
  }
}

/** Tells the program of everything. */
export function tellAll(r: Recorder): void {
  r.seen.untold.clear();
  r.seen.consequences.clear();
  r.seen.omitted = 0;
  attend(r);
}

/** Marks the failures of the calls up to now as told, and those that are still to come of them. */
export function forgive(r: Recorder): void {
  tellAll(r);
  r.seen.forgiven = r.futures.length;
  for (const batch of r.underWay) batch.forgiven = Infinity;
}

/** Finds the failures that no stub is left to tell. Keeps as many of them as the history has. */
function findLost(seen: Seen): void {
  if (!seen.stale) return;
  seen.stale = false;
  for (const one of seen.untold.values()) one.claimable = false;
  for (const failure of seen.held) {
    for (const one of failure.chain()) {
      const untold = seen.untold.get(one);
      if (untold) untold.claimable = !untold.inside;
    }
  }
  const lost = [...seen.untold.values()].filter((one) => !one.claimable).sort((a, b) => a.order - b.order);
  for (const one of lost.slice(HISTORY_MAX)) {
    seen.untold.delete(one.failure);
    seen.omitted += 1;
  }
}

const unseenOf = (failures: Failure[], omitted: number, call: CallName | null): Failure | null =>
  failures.length === 0 && omitted === 0 ? null : new Failure("unseen", { failures, omitted, call });

/** Tells of the failures that are lost, and, with `refused`, of all that was not sent. */
export function surface(r: Recorder, refused: boolean): Failure | null {
  const { seen } = r;
  if (isAllTold(seen)) return null;
  findLost(seen);
  // A consequence of a failure that a stub tells is lost all the same: its effects are missing.
  const failures = take(seen, (one) => !one.claimable || (refused && one.refused));
  const omitted = seen.omitted;
  seen.omitted = 0;
  attend(r);
  return unseenOf(failures, omitted, null);
}

/** Returns the failure of a commit or transaction that was refused: it names the unseen ones. */
export function unseen(r: Recorder, call: CallName, through: number): Failure | null {
  const failures = take(r.seen, (one) => one.transaction <= through);
  const omitted = r.seen.omitted;
  r.seen.omitted = 0;
  return unseenOf(failures, omitted, call);
}

/** As `unseen`, of the transaction being recorded. */
export const unseenNow = (r: Recorder, call: CallName): Failure | null =>
  r.seen.serverUnseen && !allTold(r.seen) ? unseen(r, call, r.seen.transaction) : null;

/** Notes a failure of a commit, which stands for the failures that it names. */
export function noteUnseen(r: Recorder, failure: Failure, batch: Batch, position: number): void {
  noteUntold(r, failure, transactionAt(batch, position), true, false);
}

/** True if the next command is to be `history clear`. */
export const mustClear = (r: Recorder): boolean =>
  r.seen.serverUnseen &&
  r.commands === 0 &&
  r.scopes.length === 0 &&
  !r.shipping &&
  // Failures of batches under way are not told yet.
  r.underWay.length === 0 &&
  allTold(r.seen);

/** Records `history clear`, if it is due. */
export function clearTold(r: Recorder): void {
  if (mustClear(r)) recordClear(r);
}

/** Records `history clear`. */
export function recordClear(r: Recorder): void {
  r.batch.head(OP_HISTORY, 1, 0);
  r.commands += 1;
  serverCleared(r);
}

/** Notes that the server's history is cleared with the next command. */
export function serverCleared(r: Recorder): void {
  r.seen.serverUnseen = false;
  attend(r);
}

/** True if calls that were not sent prevent the commit of the transaction being recorded. */
function isPrevented(seen: Seen): boolean {
  for (const one of seen.untold.values()) if (one.refused && one.transaction === seen.transaction) return true;
  return false;
}

/** True if a flush is due before a commit is recorded. */
export const commitNeedsFlush = (r: Recorder): boolean =>
  isPrevented(r.seen)
    ? // The call and the commit belong into one batch.
      r.futures.length + 2 > r.attentionFutures || r.commands + 3 > r.bounds[LIMIT_BATCH_COMMANDS]
    : // Told in the middle of a batch, whose own failures must not be cleared with them.
      r.seen.serverUnseen && allTold(r.seen);

/** Makes sure that a commit is refused if any failure was not seen, and only then. */
export function beforeCommit(r: Recorder, place: unknown): void {
  if (isPrevented(r.seen)) {
    r.batch.head(OP_CALL, 0, 0);
    r.batch.word(0, 0);
    r.commands += 1;
    release(r, newResult(r, new Slot(), REFUSED_OF, place));
  } else clearTold(r);
}

/** Ends the transaction at the current place of recording; returns its number. */
export const nextTransaction = (r: Recorder): number => r.seen.transaction++;

/** Notes that a batch was answered. */
export function noteAnswered(r: Recorder, failures: boolean): void {
  r.seen.serverUnseen ||= failures;
  r.seen.stale = true;
}

/** Takes out the calls of the batch that is a transaction that were not sent. */
export function takeShippedRefusals(r: Recorder): Failure[] {
  const refusals = r.seen.shipped;
  r.seen.shipped = [];
  for (const failure of refusals) tell(r, failure);
  return refusals;
}

/** Tells the program of all failures from this one on. */
export function tellSince(r: Recorder, order: number): void {
  take(r.seen, (one) => one.order >= order);
  attend(r);
}

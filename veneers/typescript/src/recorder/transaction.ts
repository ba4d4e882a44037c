// Batches that are transactions.
//
// Such a batch takes these steps: a flush, `beginTransaction`, calls,
// `endTransactionBatch`, a flush, `finishTransaction`. Nothing can be flushed in between.

import { type CallName, Failure, misuse } from "./failure.js";
import { type Recorder, TRANSACTION_OF } from "./recorder.js";
import { clearTold, surface, takeShippedRefusals, tellSince, unseenNow } from "./seen.js";
import { newResult, type Slot } from "./slots.js";
import { OP_ABORT, OP_TRANSACTION } from "../tables.js";

/** The name of a batch that is a transaction: 128 bits of its client, and a growing number. */
export interface BatchName {
  readonly client: bigint;
  readonly number: bigint;
}

const transactionName = (place: unknown): CallName => ({ name: "transaction", number: 1, place, rounds: [] });

/**
 * Begins a batch that is a transaction, whose outcome the slot has. The caller has flushed. Throws a
 * failure: failures of which the program was not told, or a misuse.
 */
export function beginTransaction(
  r: Recorder,
  slot: Slot,
  tries: number,
  batch: BatchName | null,
  place: unknown,
): void {
  if (r.broken) throw r.broken;
  if (r.commands > 0 || r.underWay.length > 0) throw misuse("UnderWay");
  const failure = surface(r, true) ?? unseenNow(r, transactionName(place));
  if (failure) throw failure;
  clearTold(r);
  r.ends += 1;
  r.batch.head(OP_TRANSACTION, (batch ? 1 : 0) | (tries << 8), 0);
  if (batch) {
    for (const word of [batch.client, batch.client >> 64n, batch.number]) {
      r.batch.word(Number(BigInt.asIntN(32, word)), Number(BigInt.asIntN(32, word >> 32n)));
    }
  }
  r.commands += 1;
  r.shipping = true;
  newResult(r, slot, TRANSACTION_OF, place);
  r.shippedFrom = r.seen.order;
}

/** Has the server refuse a batch that is a transaction: none has an `abort`. */
function refuseBatch(r: Recorder): void {
  r.batch.head(OP_ABORT, 0, 0);
  r.commands += 1;
}

/** Ends the recording of the batch; returns the calls that were not sent, for which it is refused. */
export function endTransactionBatch(r: Recorder): Failure[] {
  r.shipping = false;
  const refusals = takeShippedRefusals(r);
  if (refusals.length > 0) refuseBatch(r);
  return refusals;
}

/** Ends the recording of a batch that was left by an exception. Flush, then `tellTransaction`. */
export function abandonTransaction(r: Recorder): void {
  r.shipping = false;
  takeShippedRefusals(r);
  refuseBatch(r);
  // The exception tells that nothing of the batch was done. Later commands are a batch of their own.
  r.shippedFrom = r.seen.order;
}

/** Tells the program of the failures of the last batch that was a transaction. */
export const tellTransaction = (r: Recorder): void => {
  tellSince(r, r.shippedFrom);
};

/** Returns the outcome of a transaction whose batch was answered: null, or why nothing was done. */
export function finishTransaction(
  r: Recorder,
  outcome: Failure | null,
  refusals: readonly Failure[],
  place: unknown,
): Failure | null {
  if (refusals.length === 0 && !outcome) return null;
  // Nothing of it was done, and so no failure of it is left to be told.
  tellTransaction(r);
  return refusals.length === 0
    ? outcome
    : new Failure("unseen", { failures: refusals, omitted: 0, call: transactionName(place) });
}

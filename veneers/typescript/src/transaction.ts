// Batches that are transactions; loaded with the first one.

import { checkSync, stubsIn } from "./core.js";
import { Failure } from "./recorder/failure.js";
import { tell } from "./recorder/seen.js";
import { FAILED, FUTURE } from "./recorder/slots.js";
import * as transactions from "./recorder/transaction.js";
import type { Session, TransactionOptions } from "./session.js";
import type { Stub } from "./stub.js";
import { Done } from "./values.js";

/** Records a batch that is a transaction, and claims the result of its body when it is committed. */
export async function ship(
  session: Session,
  body: () => unknown,
  options: TransactionOptions,
  place: unknown,
): Promise<unknown> {
  const r = session.$r;
  const { tries = 0, batch = null } = options;
  if (!Number.isInteger(tries) || tries < 0 || tries > 0xffff) {
    throw new RangeError("a transaction is tried from 0 (as the server likes) to 65535 times");
  }
  if (
    batch &&
    (BigInt.asUintN(128, batch.client) !== batch.client || BigInt.asUintN(64, batch.number) !== batch.number)
  ) {
    throw new RangeError("a client has 128 bits, and the number of a batch 64");
  }
  do await session.$synchronize("transaction");
  while (r.commands > 0 || r.underWay.length > 0);
  const done = new Done(session);
  done.$want = true;
  try {
    transactions.beginTransaction(r, done, tries, batch, place);
  } catch (error) {
    if (error instanceof Failure) return session.$reject(error);
    throw error;
  }
  const scope: Stub[] = [];
  // An answer that is sent again has no objects, so those that nobody wants must not be asked for.
  if (batch) session.$scopes.push(scope);
  let result: unknown;
  try {
    result = body();
    checkSync(result);
  } catch (error) {
    session.$closeScope(scope, new Set());
    transactions.abandonTransaction(r);
    await session.$synchronize("transaction").catch(() => undefined);
    transactions.tellTransaction(r);
    throw error;
  }
  const stubs = stubsIn(result);
  session.$closeScope(scope, new Set(stubs));
  for (const stub of stubs) if (stub.$tag === FUTURE) stub.$want = true;
  const refusals = transactions.endTransactionBatch(r);
  r.watcher?.asked(place);
  const arrives = session.$arrives(done);
  // Nothing of another task may stand in its batch.
  if (session.$flushing) session.$flushNow();
  await arrives;
  const outcome = done.$tag === FAILED ? (done.$data as Failure) : null;
  if (outcome) tell(r, outcome);
  const failure = transactions.finishTransaction(r, outcome, refusals, place);
  return failure ? session.$reject(failure) : session.$claimAll(result);
}

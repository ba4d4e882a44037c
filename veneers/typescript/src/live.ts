// Live batches; loaded with the first one.

import { checkSync, stubsIn } from "./core.js";
import type { Failure } from "./recorder/failure.js";
import { tellSince } from "./recorder/seen.js";
import { FAILED, isSame } from "./recorder/slots.js";
import type { Session } from "./session.js";
import type { Stub } from "./stub.js";
import { ERROR_CONFLICT, ERROR_TRANSACTION_EXPIRED } from "./tables.js";

/** The errors that end a batch because its transaction is gone. */
const OVERTAKEN: readonly (number | undefined)[] = [ERROR_CONFLICT, ERROR_TRANSACTION_EXPIRED];

/** Runs a batch again and again; gives each result that differs from the one before. */
export async function* runs(session: Session, body: () => unknown): AsyncGenerator<unknown, void, undefined> {
  const r = session.$r;
  let last: Stub[] | null = null;
  let readAt = -1;
  for (;;) {
    if (r.underWay.length > 0) await session.$synchronize("live");
    r.batchEnd = null;
    const mark = r.seen.order;
    const waited = readAt === r.ends ? session.wait(0xffffffff) : null;
    const result = body();
    checkSync(result);
    const stubs = stubsIn(result);
    await session.$synchronize("live");
    readAt = r.ends;
    const end = r.batchEnd as Failure | null;
    const failed = end ?? (waited?.$tag === FAILED ? (waited.$data as Failure) : null);
    if (failed) {
      tellSince(r, mark);
      if (failed.root().kind !== "refused" || !OVERTAKEN.includes(failed.root().of.number)) {
        await session.$reject(failed);
      }
      // The transaction is gone, and so is all that it has read.
      readAt = -1;
      continue;
    }
    let claimed: unknown;
    try {
      claimed = await session.$claimAll(result);
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

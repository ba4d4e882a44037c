// The ends of transactions: commits, aborts; and waits.

import { Failure, misuse } from "./failure.js";
import {
  ABORT_OF,
  type Admission,
  COMMIT_OF,
  type Due,
  type Recorded,
  type Recorder,
  refuse,
  WAIT_OF,
} from "./recorder.js";
import { beforeCommit, commitNeedsFlush, nextTransaction } from "./seen.js";
import { OP_ABORT, OP_COMMIT, OP_WAIT, LIMIT_WAIT_MS } from "../tables.js";

/** Returns the work that a commit needs before it is recorded, or the failure that it cannot be here. */
export function commitDue(r: Recorder): Due | Failure {
  if (r.scopes.length > 0) return misuse("OpenStructure");
  if (r.shipping) return misuse("InTransaction");
  return commitNeedsFlush(r) ? "flush" : "nothing";
}

function ending(r: Recorder, admitted: Admission, name: string, place: unknown, record: () => Recorded): Recorded {
  let refused = admitted;
  if (!refused) {
    const work = commitDue(r);
    if (work instanceof Failure) refused = work;
  }
  if (refused) return refuse(r, name, place, refused);
  const made = record();
  r.commands += 1;
  return made;
}

/** Records the commit of the transaction. Do the work of `commitDue` before it. */
export const commit = (r: Recorder, admitted: Admission, place: unknown): Recorded =>
  ending(r, admitted, "commit", place, () => {
    beforeCommit(r, place);
    r.ends += 1;
    r.batch.head(OP_COMMIT, 0, 0);
    return COMMIT_OF + nextTransaction(r);
  });

/** Records the abort of the transaction. */
export const abort = (r: Recorder, admitted: Admission, place: unknown): Recorded =>
  ending(r, admitted, "abort", place, () => {
    r.ends += 1;
    r.batch.head(OP_ABORT, 0, 0);
    return ABORT_OF + nextTransaction(r);
  });

/** Records a wait of at most so many milliseconds for changes of others. */
export const wait = (r: Recorder, admitted: Admission, ms: number, place: unknown): Recorded =>
  ending(r, admitted, "wait", place, () => {
    const least = Math.min(ms, r.bounds[LIMIT_WAIT_MS]);
    r.waitMs += least;
    r.batch.head(OP_WAIT, 0, least);
    return WAIT_OF;
  });

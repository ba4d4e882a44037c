// Batched procedures: a batch with a name, kept by the session.
//
// The steps: `openProcedure`, a variable for each parameter, the body, `return_` with the result,
// `closeProcedure`.

import { type Encoder, expectReference, recordPlain } from "./call.js";
import { Failure, missing, misuse } from "./failure.js";
import {
  type Admission,
  admitInside,
  type Heading,
  PROCEDURE_CALL,
  type Recorded,
  type Recorder,
  refuse,
  refuseMisuse,
} from "./recorder.js";
import { end, inProcedure, mark, openWith } from "./structures.js";
import {
  MARKER_BYTES,
  OP_CALL_PROCEDURE,
  OP_PROCEDURE,
  OP_RETURN,
  TAG_COMPOUND,
  LIMIT_FRAME_BYTES,
} from "../tables.js";
import { Slot } from "./slots.js";

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

/** Opens the definition of a procedure; returns the number that it will have. Always opens a scope. */
export function openProcedure(
  r: Recorder,
  admitted: Admission,
  name: string,
  heading: Heading,
  place: unknown,
): number {
  const number = r.procedureNames.length;
  const nested = r.scopes.length > 0;
  const params = heading.params.map((type) => r.numbers.type(type));
  const result = heading.result < 0 ? -1 : r.numbers.type(heading.result);
  const lacks = params.some((type) => type < 0) || (heading.result >= 0 && result < 0);
  openWith(r, "procedure", place, admitted, (out) => {
    out.head(OP_PROCEDURE, Math.min(params.length, 255), result);
    out.string(name);
    for (const type of params.slice(0, 255)) out.word(Math.max(0, type), 0);
  });
  r.openProcedures.push([name, heading]);
  const tooLong = bytesOf(name) + MARKER_BYTES > r.bounds[LIMIT_FRAME_BYTES];
  const wrong = nested ? misuse("NestedProcedure") : lacks ? missing(name) : tooLong ? misuse("TooLong") : null;
  if (wrong) refuse(r, name, place, wrong);
  return number;
}

/** Ends the definition; returns the reason if it is not sent. */
export function closeProcedure(r: Recorder): Failure | null {
  const refused = r.broken ?? r.poison;
  const defined = r.openProcedures.pop();
  if (end(r).length > 0 && defined) {
    r.procedures.set(defined[0], [r.procedureNames.push(defined[0]) - 1, defined[1]]);
  }
  return refused;
}

/** Returns the number of a procedure that the session has defined with this heading; null if none. */
export function findProcedure(r: Recorder, name: string, heading: Heading): number | null {
  const known = r.procedures.get(name);
  return known && `${known[1].params}:${known[1].result}` === `${heading.params}:${heading.result}` ? known[0] : null;
}

/**
 * Ends a run of the procedure being defined, with its result if it has one: a stub, or an encoder
 * with a value that is none. Refused outside a procedure.
 */
export function return_(r: Recorder, value: Slot | Failure | readonly [Encoder, unknown] | null, place: unknown): void {
  if (!inProcedure(r)) {
    refuseMisuse(r, "return", place, "NoProcedure");
    return;
  }
  if (value === null) {
    mark(r, (out) => {
      out.head(OP_RETURN, 0, 0);
    });
    return;
  }
  const start = r.batch.n;
  // A stub of another session comes before the failure of a refused structure.
  const refused = value instanceof Failure ? value : admitInside(r);
  const write = (): void => {
    if (value instanceof Failure) throw value;
    if (value instanceof Slot) {
      if (refused) throw refused;
      expectReference(r, value, place);
      r.batch.head(OP_RETURN, 1, 0);
      r.batch.word(r.lo, r.hi);
      return;
    }
    const at = r.batch.n;
    r.batch.head(OP_RETURN, 1, 0);
    r.depth = 0;
    const tag = value[0].put(r, value[1], 1);
    if (tag === TAG_COMPOUND && refused) throw refused;
    (r.batch.i32[at] as number) |= tag << 16;
    const kept = !r.poison && !r.broken;
    if (kept && 4 * (r.batch.n - at) > r.bounds[LIMIT_FRAME_BYTES]) throw misuse("TooLong");
  };
  try {
    write();
    if (r.poison || r.broken) r.batch.n = start;
    else r.commands += 1;
  } catch (error) {
    r.batch.n = start;
    if (!(error instanceof Failure)) throw error;
    refuse(r, "return", place, error.kind === "misuse" && refused ? refused : error);
  }
}

/** Records a call of a batched procedure. `refused` is the failure of a definition that was not sent. */
export const callProcedure = (
  r: Recorder,
  admitted: Admission,
  procedure: number,
  refused: Failure | null,
  args: readonly unknown[],
  place: unknown,
): Recorded => {
  const number = (): number => {
    if (refused) throw refused;
    return procedure;
  };
  return recordPlain(
    r,
    admitted,
    OP_CALL_PROCEDURE,
    number,
    PROCEDURE_CALL + (refused ? 0xffffffff : procedure),
    args,
    place,
  );
};

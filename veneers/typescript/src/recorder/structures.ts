// Control structures that are open while their blocks are recorded, and that go to the server when
// they are whole.
//
// `open` opens a structure, `end` ends the innermost one, and `reopen` goes on with another block of
// one that has just ended: it takes the end marker back. A structure in which a call or marker is
// refused leaves nothing in the batch.

import { type Operand, operandReference, recordMethod, recordPlain } from "./call.js";
import { Failure, misuse } from "./failure.js";
import { caught, type Stubs } from "./numbers.js";
import {
  type Admission,
  admitInside,
  type Recorded,
  type Recorder,
  refuse,
  refuseMisuse,
  ROUTINE,
  VARIABLE_OF,
} from "./recorder.js";
import { attend } from "./seen.js";
import { DROPPED, FAILED, newResult, settle, type Slot } from "./slots.js";
import {
  OP_BREAK,
  OP_CALL,
  OP_CALL_ROUTINE,
  OP_CONTINUE,
  OP_DO,
  OP_ELSE,
  OP_END_EXCEPT,
  OP_END_FOREACH,
  OP_END_IF,
  OP_END_PROCEDURE,
  OP_END_WHILE,
  OP_EXCEPT,
  OP_FOREACH,
  OP_IF,
  OP_OTHERS,
  OP_THEN,
  OP_WHEN,
  OP_WHILE,
  LIMIT_DEPTH,
} from "../tables.js";
import type { Words } from "./words.js";

/** The kinds of structures. */
export type Kind = "while" | "if" | "foreach" | "except" | "procedure";

const BEGIN: Readonly<Record<string, number>> = { while: OP_WHILE, if: OP_IF, except: OP_EXCEPT };
const END: Readonly<Record<Kind, number>> = {
  while: OP_END_WHILE,
  if: OP_END_IF,
  foreach: OP_END_FOREACH,
  except: OP_END_EXCEPT,
  procedure: OP_END_PROCEDURE,
};

/** A further block of a structure. */
export type Block =
  | { readonly kind: "else" }
  /** The values of the exception are variables, by the client's numbers of their types. */
  | { readonly kind: "when"; readonly name: string; readonly values: readonly number[] }
  /** Named if the exception's name is a variable. */
  | { readonly kind: "others"; readonly named: boolean };

/** A call of an iterator: of a method of a receiver, or of a routine of stubs or another session. */
export type Iteration =
  | { readonly receiver: Operand; readonly method: number }
  | { readonly stubs: Stubs | Failure; readonly routine: number };

/** An open structure. */
export interface Scope {
  readonly kind: Kind;
  readonly place: unknown;
  readonly batchStart: number;
  readonly futuresStart: number;
  readonly commandsStart: number;
  /** The number of the batch that it starts in. */
  readonly batch: number;
}

/** An outermost structure of a batch, for messages. */
export interface Sent {
  /** The first position behind its begin marker, by which the server refuses it. */
  readonly position: number;
  readonly kind: Kind;
  readonly place: unknown;
}

/** A structure that has just ended and may go on with another block. */
export interface Ended extends Scope {
  readonly published: number;
  /** The length of the batch after its end marker; 0 for one that was refused. */
  readonly length: number;
}

const isLoop = (kind: Kind): boolean => kind === "while" || kind === "foreach";

/** True if the innermost loop, within the innermost procedure, is open. */
function inLoop(r: Recorder): boolean {
  for (let at = r.scopes.length - 1; at >= 0; at--) {
    const { kind } = r.scopes[at] as Scope;
    if (kind === "procedure") return false;
    if (isLoop(kind)) return true;
  }
  return false;
}

export const inProcedure = (r: Recorder): boolean => r.scopes.some((scope) => scope.kind === "procedure");

/** Opens a structure. Always opens a scope, to be ended. */
export function open(r: Recorder, admitted: Admission, kind: "while" | "if" | "except", place: unknown): void {
  openWith(r, kind, place, admitted, (out) => {
    out.head(BEGIN[kind] as number, 0, 0);
  });
}

/** Opens a structure; `marker` appends its first marker. */
export function openWith(
  r: Recorder,
  kind: Kind,
  place: unknown,
  admitted: Admission,
  marker: (out: Words) => void,
): void {
  r.scopes.push({
    kind,
    place,
    batchStart: r.batch.n,
    futuresStart: r.futures.length,
    commandsStart: r.commands,
    batch: r.batchNumber,
  });
  const refused = admitted ?? (r.scopes.length > r.bounds[LIMIT_DEPTH] ? misuse("TooDeep") : null);
  if (refused) refuse(r, kind, place, refused);
  mark(r, marker);
}

/** Opens a loop over an iterator and records the iterator's call. Always opens a scope, to be ended. */
export function foreach(
  r: Recorder,
  admitted: Admission,
  iteration: Iteration,
  args: readonly unknown[],
  place: unknown,
): Recorded {
  const method = "method" in iteration;
  // A constant receiver is recorded before the marker, because the call must follow it.
  let found: Failure | null = null;
  if (!admitted && method && !(iteration.receiver instanceof Failure)) {
    const { receiver } = iteration;
    const failed = caught(() => {
      operandReference(r, receiver, place);
    });
    if (failed instanceof Failure) found = failed;
  }
  const { lo, hi } = r;
  openWith(r, "foreach", place, admitted, (out) => {
    out.head(OP_FOREACH, 0, 0);
  });
  if (method) {
    const foreign = iteration.receiver instanceof Failure ? iteration.receiver : null;
    const refused = foreign ?? admitInside(r) ?? admitted ?? found;
    r.lo = lo;
    r.hi = hi;
    return recordMethod(r, OP_CALL, iteration.method, refused, args, place);
  }
  const number = (): number => {
    if (iteration.stubs instanceof Failure) throw iteration.stubs;
    return r.numbers.routine(iteration.stubs, iteration.routine);
  };
  return recordPlain(r, admitInside(r), OP_CALL_ROUTINE, number, ROUTINE + iteration.routine, args, place);
}

/** Appends the marker between the condition of the innermost loop or choice and its block. */
export function condition(r: Recorder, test: Operand, place: unknown): void {
  const code = r.scopes[r.scopes.length - 1]?.kind === "while" ? OP_DO : OP_THEN;
  // A stub of another session comes before the failure of a refused structure.
  const refused = test instanceof Failure ? test : admitInside(r);
  const failed =
    refused ??
    caught(() => {
      operandReference(r, test, place);
    });
  if (failed instanceof Failure) refuse(r, "condition", place, failed);
  else {
    mark(r, (out) => {
      out.head(code, 0, 0);
      out.word(r.lo, r.hi);
    });
  }
}

/** Leaves a round of the innermost loop. Refused outside loops. */
export function jump(r: Recorder, kind: "break" | "continue", place: unknown): void {
  if (inLoop(r)) {
    mark(r, (out) => {
      out.head(kind === "break" ? OP_BREAK : OP_CONTINUE, 0, 0);
    });
  } else refuseMisuse(r, kind, place, "NoLoop");
}

/** Makes a slot that of a number that the last marker has taken. */
export const variable = <S extends Slot>(r: Recorder, slot: S, place: unknown): S =>
  newResult(r, slot, VARIABLE_OF, place);

/** Appends a marker, unless the structure will not be sent. */
export function mark(r: Recorder, marker: (out: Words) => void): void {
  if (!r.poison && !r.broken) {
    marker(r.batch);
    r.commands += 1;
  }
}

/** Gives the stubs of futures from a position on a failure. */
export function endFutures(r: Recorder, start: number, failure: Failure): void {
  const { slots } = r.futures;
  for (let index = start; index < slots.length; index++) {
    const slot = slots[index];
    slots[index] = null;
    if (slot && slot !== DROPPED) settle(r, slot, FAILED, 0, 0, failure);
  }
}

/** Ends the innermost structure. If it was refused, nothing of the outermost one remains. */
export function end(r: Recorder): Ended {
  const innermost = r.scopes[r.scopes.length - 1];
  if (innermost) {
    mark(r, (out) => {
      out.head(END[innermost.kind], 0, 0);
    });
  }
  const scope = r.scopes.pop() ?? {
    kind: "if",
    place: undefined,
    batchStart: 0,
    futuresStart: r.futures.length,
    commandsStart: 0,
    batch: 0,
  };
  const ended = { ...scope, batch: r.batchNumber, published: r.published };
  if (!innermost) return { ...ended, length: 0 };
  endFutures(r, scope.futuresStart, r.poison ?? r.outOfScope);
  if (r.poison) {
    if (scope.batch === r.batchNumber) {
      r.batch.n = scope.batchStart;
      r.futures.truncate(scope.futuresStart);
      r.commands = scope.commandsStart;
      r.errorHandles = r.errorHandles.filter(([position]) => position <= scope.futuresStart);
    }
    if (r.scopes.length === 0) {
      r.poison = null;
      attend(r);
    }
    return { ...ended, length: 0 };
  }
  if (r.scopes.length === 0) {
    const position = scope.futuresStart + 1;
    const last = r.structures[r.structures.length - 1];
    // A structure that went on with another block is one with its first.
    if (!last || last.position < position) r.structures.push({ position, kind: scope.kind, place: scope.place });
  }
  return { ...ended, length: r.batch.n };
}

/**
 * Takes back the end marker of a structure that has just ended, so that it goes on with another
 * block. Always opens a scope; if the structure cannot go on, it is one that will not be sent.
 */
export function reopen(r: Recorder, ended: Ended, block: Block, place: unknown): void {
  const { kind, length } = ended;
  const adjacent =
    ended.batch === r.batchNumber && ended.published === r.published && length > 0 && length === r.batch.n;
  if (adjacent) {
    // The end marker is one word.
    r.batch.n -= 2;
    r.commands -= 1;
    const { batchStart, futuresStart, commandsStart, batch } = ended;
    r.scopes.push({ kind, place, batchStart, futuresStart, commandsStart, batch });
  } else {
    const [batchStart, futuresStart, commandsStart] = [r.batch.n, r.futures.length, r.commands];
    r.scopes.push({ kind, place, batchStart, futuresStart, commandsStart, batch: r.batchNumber });
    if (length > 0 || ended.batch !== r.batchNumber) refuseMisuse(r, block.kind, place, "NotAdjacent");
    else if (!r.poison) {
      // Its first block was refused and is in the history; the others go the same way.
      r.poison = misuse("Abandoned");
      attend(r);
    }
  }
  mark(r, (out) => {
    if (block.kind === "when") {
      out.head(OP_WHEN, block.values.length, 0);
      out.string(block.name);
      // A type that the server lacks has number 0 there.
      for (const type of block.values) out.word(Math.max(0, r.numbers.type(type)), 0);
    } else if (block.kind === "others") out.head(OP_OTHERS, block.named ? 1 : 0, 0);
    else out.head(OP_ELSE, 0, 0);
  });
}

/** Ends the innermost structure, whose block was left by an exception: it is refused. */
export function abandon(r: Recorder): void {
  const scope = r.scopes[r.scopes.length - 1];
  if (scope) {
    refuseMisuse(r, scope.kind, scope.place, "Abandoned");
    if (scope.kind === "procedure") r.openProcedures.pop();
  }
  end(r);
}

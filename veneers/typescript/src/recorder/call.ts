// Recording calls: receivers, arguments, and the commands that are no structures.
//
// Each function takes the admission that the caller got, and returns the maker of the results, whose
// slots the caller makes with `newResult`; or the failure of a call that was refused, of which it
// makes slots with `newFailed`.

import { earlierReference } from "./crossing.js";
import { Failure, misuse, type Plain } from "./failure.js";
import { caught, type Stubs } from "./numbers.js";
import {
  type Admission,
  AS_OF,
  CELL_OF,
  CONSTANT_OF,
  IS_OF,
  LOOKUP_OF,
  madeName,
  type Maker,
  METHOD,
  type Recorded,
  type Recorder,
  refuse,
  ROUTINE,
} from "./recorder.js";
import { FAILED, FREE, FUTURE, HANDLE, newResult, release, Slot, UNDER_WAY } from "./slots.js";
import {
  ARGUMENTS_MAX,
  OP_AS,
  OP_CALL,
  OP_CALL_ROUTINE,
  OP_CELL,
  OP_CONSTANT,
  OP_IS,
  OP_LOOKUP,
  TAG_BYTES,
  TAG_COMPOUND,
  TAG_REF,
  TAG_STRING,
  TAG_ROWS,
  LIMIT_FRAME_BYTES,
} from "../tables.js";
import type { Items, Words } from "./words.js";

/** The way in which arguments of a type are written. */
export interface Encoder {
  /**
   * Appends an argument of the call that is recorded, and returns its tag. `argument` counts from 1.
   * Throws a failure that refuses the call, or an error for a value of another type.
   */
  put(r: Recorder, value: unknown, argument: number): number;
}

/** A receiver or condition: a stub, a value, or the failure with which the call is refused. */
export type Operand = Slot | Plain | Failure;

/**
 * Records a call of a method, by its number in the stubs. The arguments are pairs of an encoder and
 * a value.
 */
export function call(
  r: Recorder,
  admitted: Admission,
  receiver: Slot,
  method: number,
  args: readonly unknown[],
  place: unknown,
  code = OP_CALL,
): Recorded {
  if (!admitted) {
    const { $tag: tag, $lo: lo, $hi: hi } = receiver;
    if (tag === FUTURE) {
      r.lo = -lo;
      r.hi = -1;
    } else if (tag === HANDLE) {
      r.lo = lo;
      r.hi = hi;
    } else {
      const found = reference(r, receiver, place);
      if (found) admitted = found;
    }
  }
  return recordMethod(r, code, method, admitted, args, place);
}

/** Records a method's call of the reference that was found, unless that failed. */
export function recordMethod(
  r: Recorder,
  code: number,
  method: number,
  refused: Failure | null,
  args: readonly unknown[],
  place: unknown,
): Recorded {
  const made = METHOD + method;
  if (!refused) {
    const number = r.numbers.method(method);
    if (number < 0) refused = caught(() => r.numbers.expectType(NaN, r.numbers.methodName(method))) as Failure;
    else {
      refused = recordTo(r, code, number, args);
      if (!refused) return made;
    }
  }
  return refuseCall(r, made, place, refused);
}

/** Refuses a call. */
export function refuseCall(r: Recorder, made: Maker, place: unknown, why: Failure): Failure {
  // The next call takes its position, and has other arguments.
  const position = r.futures.length + 1;
  while (r.errorHandles[r.errorHandles.length - 1]?.[0] === position) r.errorHandles.pop();
  return refuse(r, madeName(r, made), place, why);
}

/** Records a command with the reference that was found as receiver. */
export function recordTo(r: Recorder, code: number, number: number, args: readonly unknown[]): Failure | null {
  const start = r.batch.n;
  r.batch.word(code, number);
  r.batch.word(r.lo, r.hi);
  return record(r, start, code, args);
}

/** Records a call without receiver. `number` throws a failure if there is none. */
export function recordPlain(
  r: Recorder,
  admitted: Admission,
  code: number,
  number: () => number,
  made: Maker,
  args: readonly unknown[],
  place: unknown,
): Recorded {
  let refused = admitted;
  if (!refused) {
    const found = caught(number);
    if (found instanceof Failure) refused = found;
    else {
      const start = r.batch.n;
      r.batch.word(code, found);
      refused = record(r, start, code, args);
      if (!refused) return made;
    }
  }
  return refuseCall(r, made, place, refused);
}

/**
 * Puts the arguments behind the words that are there already from `start` on, and the tags into the
 * first of them. Leaves nothing of a call that cannot be recorded.
 */
function record(r: Recorder, start: number, code: number, args: readonly unknown[]): Failure | null {
  const { batch } = r;
  const count = args.length >> 1;
  try {
    if (count > ARGUMENTS_MAX) throw misuse("TooLong");
    const tagsAt = batch.n;
    for (let more = count - 4; more > 0; more -= 16) batch.word(0, 0);
    let tags = 0;
    for (let index = 0; index < count; index++) {
      r.depth = 0;
      const tag = (args[2 * index] as Encoder).put(r, args[2 * index + 1], index + 1);
      if (index < 4) tags |= tag << (4 * index);
      else (batch.i32[tagsAt + ((index - 4) >> 3)] as number) |= tag << (4 * ((index - 4) & 7));
    }
    if (4 * (batch.n - start) > r.bounds[LIMIT_FRAME_BYTES]) throw misuse("TooLong");
    batch.i32[start] = code | (count << 8) | (tags << 16);
    r.commands += 1;
    return null;
  } catch (error) {
    batch.n = start;
    if (error instanceof Failure) return error;
    throw error;
  }
}

/** Records a call of a routine, by the number that `stubs` give it. */
export const callRoutine = (
  r: Recorder,
  admitted: Admission,
  stubs: Stubs,
  routine: number,
  args: readonly unknown[],
  place: unknown,
): Recorded =>
  recordPlain(r, admitted, OP_CALL_ROUTINE, () => r.numbers.routine(stubs, routine), ROUTINE + routine, args, place);

/** Records a command; `write` throws the failure with which it is refused. */
export function command(r: Recorder, admitted: Admission, made: Maker, place: unknown, write: () => void): Recorded {
  let refused = admitted;
  if (!refused) {
    const failure = caught(write);
    if (!(failure instanceof Failure)) {
      r.commands += 1;
      return made;
    }
    refused = failure;
  }
  return refuseCall(r, made, place, refused);
}

/** Records the lookup of a well-known object. Refused inside a structure. */
export const lookup = (
  r: Recorder,
  admitted: Admission,
  stubs: Stubs | null,
  name: string,
  type: number,
  typeName: string,
  place: unknown,
): Recorded =>
  command(r, admitted, LOOKUP_OF, place, () => {
    if (stubs && stubs !== r.numbers.stubs) throw misuse("OtherInterface");
    if (r.scopes.length > 0) throw misuse("LookupInside");
    const start = r.batch.n;
    r.batch.head(OP_LOOKUP, 0, r.numbers.expectType(type, typeName));
    r.batch.string(name);
    if (4 * (r.batch.n - start) > r.bounds[LIMIT_FRAME_BYTES]) {
      r.batch.n = start;
      throw misuse("TooLong");
    }
  });

/** Records the making of an empty cell, by the type of its values. */
export const cell = (r: Recorder, admitted: Admission, type: number, typeName: string, place: unknown): Recorded =>
  command(r, admitted, CELL_OF, place, () => {
    r.batch.head(OP_CELL, 0, r.numbers.expectType(type, `cell of ${typeName}`));
  });

/** Records that an object is seen as one of another type, or the test if it is one: `OP_AS` or `OP_IS`. */
export const withType = (
  r: Recorder,
  admitted: Admission,
  code: typeof OP_AS | typeof OP_IS,
  object: Slot,
  type: number,
  typeName: string,
  place: unknown,
): Recorded =>
  command(r, admitted, code === OP_AS ? AS_OF : IS_OF, place, () => {
    const number = r.numbers.expectType(type, typeName);
    expectReference(r, object, place);
    r.batch.head(code, 0, number);
    r.batch.word(r.lo, r.hi);
  });

/** Returns the reason why a stub cannot be used at all: its call was never sent. */
function unusable(slot: Slot): Failure | null {
  if (slot.$tag !== FAILED) return slot.$tag === FREE ? misuse("Released") : null;
  const failure = slot.$data as Failure;
  return failure.kind === "not_sent" || failure.kind === "misuse" ? failure : null;
}

/** Notes a stub whose call failed as an argument of the next call, which the server cannot know. */
function noteErrorHandle(r: Recorder, slot: Slot, argument: number): void {
  if (slot.$tag === FAILED) {
    r.errorHandles.push([r.futures.length + 1, argument, (slot.$data as Failure).asCause()]);
  }
}

/** Returns the value that a slot has. */
export const plainOf = ({ $tag: tag, $lo: lo, $hi: hi, $data: data }: Slot): Plain => ({ tag, lo, hi, data });

/** Appends a value, whose tag stands elsewhere. */
export function putPlain(words: Words, { tag, lo, hi, data }: Plain): number {
  if (tag === TAG_STRING) words.string(data as string);
  else if (tag === TAG_BYTES) words.bytes(data as Uint8Array);
  else if (tag === TAG_COMPOUND) (data as Items).put(words);
  else words.word(lo, hi);
  return tag;
}

/** Finds a reference to a stub, for a marker or a receiver; a value is recorded as a constant. */
export function expectReference(r: Recorder, slot: Slot, place: unknown): void {
  const failure = reference(r, slot, place);
  if (failure) throw failure;
}

/** As `expectReference`, with the failure as its result. */
export function reference(r: Recorder, slot: Slot, place: unknown): Failure | null {
  const { $tag: tag } = slot;
  if (tag === FUTURE || tag === HANDLE) {
    r.lo = tag === FUTURE ? -slot.$lo : slot.$lo;
    r.hi = tag === FUTURE ? -1 : slot.$hi;
    return null;
  }
  const failure = unusable(slot);
  if (failure) return failure;
  if (tag === UNDER_WAY) return earlierReference(r, slot);
  if (tag === FAILED || tag === TAG_ROWS) {
    // The error-handle of Bogle and Liskov 1994, 7.1.
    noteErrorHandle(r, slot, 0);
    r.lo = r.hi = 0;
    return null;
  }
  return constant(r, plainOf(slot), place);
}

/** Records a constant for one use, and finds its reference. Returns the failure of one that is too long. */
function constant(r: Recorder, value: Plain, place: unknown): Failure | null {
  const start = r.batch.n;
  r.batch.head(OP_CONSTANT, value.tag, 0);
  putPlain(r.batch, value);
  if (4 * (r.batch.n - start) > r.bounds[LIMIT_FRAME_BYTES]) {
    r.batch.n = start;
    return misuse("TooLong");
  }
  r.commands += 1;
  const slot = newResult(r, new Slot(), CONSTANT_OF, place);
  r.lo = -slot.$lo;
  r.hi = -1;
  release(r, slot);
  return null;
}

/** Finds a reference to an operand. Throws a failure. */
export function operandReference(r: Recorder, operand: Operand, place: unknown): void {
  if (operand instanceof Failure) throw operand;
  if (operand instanceof Slot) expectReference(r, operand, place);
  else if (operand.tag === TAG_COMPOUND) throw misuse("Untyped");
  else {
    const failure = constant(r, operand, place);
    if (failure) throw failure;
  }
}

/** Appends a stub that is an argument, and returns its tag. */
export function putStub(r: Recorder, slot: Slot, argument: number): number {
  const { $tag: tag, $lo: lo, $hi: hi } = slot;
  if (tag === FUTURE) r.batch.word(-lo, -1);
  else if (tag === HANDLE) r.batch.word(lo, hi);
  else {
    const failure = unusable(slot) ?? (tag === UNDER_WAY ? earlierReference(r, slot) : null);
    if (failure) throw failure;
    if (tag === UNDER_WAY) r.batch.word(r.lo, r.hi);
    else if (tag === FAILED || tag === TAG_ROWS) {
      noteErrorHandle(r, slot, argument);
      r.batch.word(0, 0);
    } else return putPlain(r.batch, plainOf(slot));
  }
  return TAG_REF;
}

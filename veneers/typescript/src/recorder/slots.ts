// The slots: the knowledge about each stub.
//
// A slot is a future of the batch being recorded, a handle, a value or a failure. One stub holds it,
// which `release` gives back.

import type { Failure, Plain } from "./failure.js";
import { dropUnderWay } from "./crossing.js";
import { madeName, type Maker, type Recorder } from "./recorder.js";
import { eachHandle } from "./reply.js";
import { dropped } from "./seen.js";
import { TAG_BYTES, TAG_COMPOUND, TAG_REF, TAG_STRING, TAG_ROWS } from "../tables.js";
import { type Items, TWO32 } from "./words.js";

// The states of a slot: the tags of values, and these.
export const HANDLE = TAG_REF;
export const FAILED = 7;
export const UNDER_WAY = 12;
export const FUTURE = 13;
export const FREE = 14;

/**
 * The knowledge about a stub. Stubs are slots: their methods are the program's, so these names begin
 * with `$`.
 */
export class Slot {
  /** The tag of a value, or one of the states. */
  declare $tag: number;
  /**
   * The word of a value, the position of a future, a handle. Of a result under way: the position,
   * and the number of the batch.
   */
  declare $lo: number;
  declare $hi: number;
  /** What fits into no word: a text, bytes, a compound, a table, a failure. */
  declare $data: unknown;
  /** False for a call whose outcome follows from the exceptions of its batch. */
  declare $want: boolean;

  constructor() {
    // Faster than fields with initial values.
    this.$tag = FREE;
    this.$lo = 0;
    this.$hi = 0;
    this.$data = undefined;
    this.$want = true;
  }
}

/** Stands for a stub that was dropped while its batch was under way. */
export const DROPPED = new Slot();

/** A handle that the session holds. */
export interface Held {
  readonly lo: number;
  readonly hi: number;
  /** The number of slots that hold it; 0 if it is to be given back. */
  slots: number;
  /** The call that made the first of them: its name in messages. */
  readonly made: Maker | undefined;
  readonly place: unknown;
}

/** Returns the key of a handle in the table of handles. */
export const keyOf = (lo: number, hi: number): number | bigint =>
  hi < 0x200000 ? hi * TWO32 + (lo >>> 0) : (BigInt(hi) << 32n) | BigInt(lo >>> 0);

/** Counts a further holder of a handle. */
export function holdHandle(r: Recorder, lo: number, hi: number, made?: Maker, place?: unknown): Held {
  const key = keyOf(lo, hi);
  let held = r.handles.get(key);
  if (!held) r.handles.set(key, (held = { lo, hi, slots: 0, made, place }));
  held.slots += 1;
  return held;
}

export function dropHandle(r: Recorder, lo: number, hi: number): void {
  const held = r.handles.get(keyOf(lo, hi));
  if (!held) return;
  held.slots -= 1;
  if (held.slots === 0) r.frees.push(held);
}

/** Calls a function for each object among the values of the exception. */
export function eachObject(failure: Failure, each: (lo: number, hi: number) => void): void {
  for (const value of failure.of.values ?? []) if (value.tag === TAG_REF) each(value.lo, value.hi);
}

/** Changes the knowledge in a future's slot. What is in `data` counts as held by it. */
export function settle(r: Recorder, slot: Slot, tag: number, lo: number, hi: number, data: unknown): void {
  slot.$tag = tag;
  slot.$lo = lo;
  slot.$hi = hi;
  slot.$data = data;
  if (tag === FAILED) {
    const failure = data as Failure;
    // A call that nobody asks for tells nothing.
    if (slot.$want && failure.held++ === 0) r.seen.held.add(failure);
  }
  if (r.onHeld && (tag === HANDLE || tag >= FAILED)) r.onHeld(slot);
}

/** Gives a slot a value, and holds the objects in it. */
export function settleValue(r: Recorder, slot: Slot, value: Plain): void {
  const { tag, lo, hi, data } = value;
  if (tag === TAG_COMPOUND) eachHandle(data as Items, (lo, hi) => holdHandle(r, lo, hi));
  settle(r, slot, tag, lo, hi, data);
}

/** Ends knowledge that no stub has any more. */
export function discard(r: Recorder, tag: number, lo: number, hi: number, data: unknown, told: boolean): void {
  if (tag === HANDLE) dropHandle(r, lo, hi);
  else if (tag === TAG_ROWS || tag === TAG_COMPOUND) {
    eachHandle(data as Items, (lo, hi) => {
      dropHandle(r, lo, hi);
    });
  } else if (tag === FAILED) {
    const failure = data as Failure;
    eachObject(failure, (lo, hi) => {
      dropHandle(r, lo, hi);
    });
    if (told && --failure.held === 0) r.seen.held.delete(failure);
    dropped(r.seen, failure);
  }
}

/** Gives a stub back. Its slot is free; a further release does nothing. */
export function release(r: Recorder, slot: Slot): void {
  if (slot.$tag === FREE) return;
  const { $tag: tag, $lo: lo, $hi: hi, $data: data } = slot;
  slot.$tag = FREE;
  slot.$data = undefined;
  if (tag === FUTURE) {
    if (r.futures.slots[lo - 1] === slot) r.futures.slots[lo - 1] = null;
  } else if (tag === UNDER_WAY) dropUnderWay(r, lo, hi);
  else discard(r, tag, lo, hi, data, slot.$want);
}

/** Makes a slot that of a result of the call that was recorded last. */
export function newResult<S extends Slot>(r: Recorder, slot: S, made: Maker, place: unknown): S {
  const { futures } = r;
  slot.$tag = FUTURE;
  slot.$lo = futures.slots.push(slot);
  futures.made.push(made);
  if (place !== undefined) futures.places[slot.$lo - 1] = place;
  return slot;
}

/** Makes a slot that of a result of a call that was refused. */
export function newFailed<S extends Slot>(r: Recorder, slot: S, failure: Failure): S {
  settle(r, slot, FAILED, 0, 0, failure);
  return slot;
}

/** Makes a slot for a further stub of an object that the session has a handle for. */
export function newObject<S extends Slot>(r: Recorder, slot: S, lo: number, hi: number): S {
  holdHandle(r, lo, hi);
  settle(r, slot, HANDLE, lo, hi, undefined);
  return slot;
}

/** True if two stubs are known to have the same result. Failures are never the same. */
export function isSame(one: Slot, other: Slot): boolean {
  if (one.$tag !== other.$tag || one.$tag === FAILED || one.$tag >= UNDER_WAY) return false;
  switch (one.$tag) {
    case TAG_STRING:
      return one.$data === other.$data;
    case TAG_ROWS:
    case TAG_COMPOUND:
      return (one.$data as Items).isSame(other.$data as Items);
    case TAG_BYTES:
      return isEqual(one.$data as Uint8Array, other.$data as Uint8Array);
    default:
      return one.$lo === other.$lo && one.$hi === other.$hi;
  }
}

export const isEqual = (one: Int32Array | Uint8Array, other: Int32Array | Uint8Array): boolean =>
  one.length === other.length && (one as Uint8Array).every((part, at) => part === other[at]);

/** Returns the name of a handle in messages: the call that the object came from. */
export function nameOf(r: Recorder, handle: bigint): string | null {
  const held = r.handles.get(handle < 1n << 53n ? Number(handle) : handle);
  if (held?.made === undefined) return null;
  const at = held.place === undefined ? "" : ` at ${String(held.place)}`;
  return `the result of \`${madeName(r, held.made)}\`${at}`;
}

// Compounds: objects that cross by value, with their items.

import { command, expectReference } from "./call.js";
import { misuse } from "./failure.js";
import { type Admission, GET_OF, type Recorded, type Recorder } from "./recorder.js";
import { isEqual, type Slot } from "./slots.js";
import { COMPOUND_DEPTH_MAX, OP_GET, TAG_COMPOUND, TAG_REF } from "../tables.js";
import { isHandle, type Items, Reader, type Visit, type Words } from "./words.js";

/** The items of an object that crosses by value, as they came; checked. */
export class Compound implements Items {
  /** The word with type and count, the words of tags, the items. */
  readonly words: Int32Array;

  constructor(words: Int32Array) {
    this.words = words;
  }

  /** The number of its type; -1 if it has that of its place. */
  get type(): number {
    return this.words[0] as number;
  }

  get count(): number {
    return (this.words[1] as number) >>> 0;
  }

  each(visit: Visit): void {
    const reader = new Reader(this.words, 0, this.words.length);
    // It was checked when it came.
    reader.loose = true;
    readItems(reader, visit, 1);
  }

  isSame(other: Compound): boolean {
    return isEqual(this.words, other.words);
  }

  put(words: Words): void {
    const items = this.words;
    words.word(4 * items.length, 0);
    words.reserve(items.length);
    words.i32.set(items, words.n);
    words.n += items.length;
  }
}

/** Reads and checks a compound at this depth; for `itemReaders`. */
export function readCompound(reader: Reader, depth: number): Compound {
  reader.check(depth <= COMPOUND_DEPTH_MAX);
  const inner = reader.inner();
  inner.dry = true;
  const start = inner.at;
  reader.check(inner.end > start);
  reader.whole(inner, () => {
    readItems(
      inner,
      (tag, lo, hi) => {
        inner.check(inner.loose || tag !== TAG_REF || isHandle(lo, hi));
      },
      depth,
    );
  });
  const { i32, at } = reader;
  return new Compound(reader.dry ? i32.subarray(start, at) : i32.slice(start, at));
}

/** Reads the items of a compound, from its first word on. */
function readItems(reader: Reader, visit: Visit, depth: number): void {
  reader.word();
  const count = reader.hi >>> 0;
  const tags = reader.take(8 * Math.ceil(count / 16));
  const { i32 } = reader;
  const tagAt = (index: number): number => ((i32[tags + (index >> 3)] as number) >>> (4 * (index & 7))) & 15;
  for (let index = count; index % 16 > 0; index++) reader.check(tagAt(index) === 0);
  for (let index = 0; index < count; index++) {
    const tag = tagAt(index);
    if (tag === TAG_REF) {
      reader.word();
      visit(tag, reader.lo, reader.hi, undefined);
    } else reader.value(tag, visit, depth + 1);
  }
}

/** Appends a compound with the type of its place, whose items `item` appends, each with its tag. */
export function putItems(r: Recorder, count: number, item: (index: number) => number): number {
  if (++r.depth > COMPOUND_DEPTH_MAX) throw misuse("ValueTooDeep");
  const { batch } = r;
  const start = batch.n;
  batch.word(0, 0);
  batch.word(-1, count);
  for (let more = count; more > 0; more -= 16) batch.word(0, 0);
  for (let index = 0; index < count; index++) {
    const tag = item(index);
    (batch.i32[start + 4 + (index >> 3)] as number) |= tag << (4 * (index & 7));
  }
  batch.i32[start] = 4 * (batch.n - start - 2);
  r.depth -= 1;
  return TAG_COMPOUND;
}

/** Records that the contents of an object are taken. Refused inside a structure. */
export const get = (r: Recorder, admitted: Admission, object: Slot, place: unknown): Recorded =>
  command(r, admitted, GET_OF, place, () => {
    expectReference(r, object, place);
    if (r.scopes.length > 0) throw misuse("ContentsInside");
    r.batch.head(OP_GET, 0, 0);
    r.batch.word(r.lo, r.hi);
  });

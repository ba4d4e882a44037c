// Tables of rows, which structures append to.

import { command, recordTo, reference, refuseCall } from "./call.js";
import { Failure, misuse } from "./failure.js";
import { type Admission, EMIT_OF, type Recorded, type Recorder, ROWS_OF } from "./recorder.js";
import { FAILED, FUTURE, isEqual, type Slot } from "./slots.js";
import { ARGUMENTS_MAX, OP_EMIT, OP_ROWS, TAG_BYTES, TAG_COMPOUND, TAG_EXCEPTION, TAG_REF } from "../tables.js";
import { type Items, Reader, type Visit } from "./words.js";

/** A column of a table: the tag of its cells, and its type. */
export type Column = readonly [tag: number, type: number];

/** A table of rows, as it came; checked. */
export class Rows implements Items {
  readonly count: number;
  readonly columns: readonly Column[];
  private readonly words: Int32Array;

  constructor(count: number, columns: readonly Column[], words: Int32Array) {
    this.count = count;
    this.columns = columns;
    this.words = words;
  }

  /** Calls a function for each cell, row by row. */
  each(visit: Visit): void {
    readCells(new Reader(this.words, 0, this.words.length), this.count, this.columns, visit);
  }

  /** True if both have the same bytes. */
  isSame(other: Rows): boolean {
    return this.count === other.count && `${this.columns}` === `${other.columns}` && isEqual(this.words, other.words);
  }

  /** A table is no argument. */
  put(): void {
    throw misuse("EndedTable");
  }
}

/** Reads and checks a table; for `itemReaders`. */
export function readRows(reader: Reader, _: number, count: number): Rows {
  const inner = reader.inner();
  inner.dry = true;
  return reader.whole(inner, () => {
    const width = inner.unsigned();
    inner.check(width >= 1 && width <= 255);
    const columns: Column[] = [];
    for (let at = inner.take(8 * width); at < inner.at; at += 2) {
      const tag = reader.i32[at] as number;
      inner.check((tag >= TAG_REF && tag < TAG_EXCEPTION) || tag === TAG_BYTES || tag === TAG_COMPOUND);
      columns.push([tag, (reader.i32[at + 1] as number) >>> 0]);
    }
    const from = inner.at;
    readCells(inner, count, columns, () => undefined);
    return new Rows(count, columns, reader.i32.slice(from, inner.at));
  });
}

function readCells(reader: Reader, count: number, columns: readonly Column[], visit: Visit): void {
  for (let row = 0; row < count; row++) {
    for (const [tag] of columns) {
      if (tag === TAG_REF) {
        reader.handle();
        visit(tag, reader.lo, reader.hi, undefined);
      } else reader.value(tag, visit);
    }
  }
}

/** Records the making of an empty table, by the types of its columns. Refused inside a structure. */
export function rows(
  r: Recorder,
  admitted: Admission,
  types: readonly (readonly [type: number, name: string])[],
  place: unknown,
): Recorded {
  const made = command(r, admitted, ROWS_OF, place, () => {
    if (r.scopes.length > 0) throw misuse("TableInside");
    if (types.length === 0 || types.length > ARGUMENTS_MAX) throw misuse("TooLong");
    const columns = types.map(([type, name]) => r.numbers.expectType(type, name));
    r.batch.head(OP_ROWS, columns.length, 0);
    for (const column of columns) r.batch.word(column, 0);
  });
  if (!(made instanceof Failure)) r.tables += 1;
  return made;
}

/** Records a row of a table. Its one result is nil. */
export function emit(
  r: Recorder,
  admitted: Admission,
  table: Slot,
  cells: readonly unknown[],
  place: unknown,
): Recorded {
  let refused = admitted;
  if (!refused) {
    refused = table.$tag === FUTURE || table.$tag === FAILED ? reference(r, table, place) : misuse("EndedTable");
    refused ??= recordTo(r, OP_EMIT, 0, cells);
    if (!refused) return EMIT_OF;
  }
  return refuseCall(r, EMIT_OF, place, refused);
}

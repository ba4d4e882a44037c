// Tables of rows: the results of loops, in one crossing.

import { checkSync } from "./core.js";
import { emit, readRows, rows as recordRows, type Rows as CameRows } from "./recorder/rows.js";
import { itemReaders } from "./recorder/words.js";
import type { Given, Session } from "./session.js";
import { type Args, type Iter, MISMATCH, type Plains, type Stub, type Type, type Types } from "./stub.js";
import { TAG_ROWS } from "./tables.js";
import { Done, Value } from "./values.js";

itemReaders[TAG_ROWS] = readRows;

/** A table of rows, which structures append to; it comes back whole. */
export class Rows<S extends readonly Stub[]> extends Value<Plains<S>[]> {
  readonly $columns: Types<S>;

  constructor(session: Session, columns: Types<S>) {
    super(session);
    this.$columns = columns;
  }

  override get $type(): Pick<Type, "take"> {
    return { take: (session, tag, _, __, data) => (tag === TAG_ROWS ? this.rows(session, data) : MISMATCH) };
  }

  private rows(session: Session, data: unknown): unknown {
    const came = data as CameRows;
    const columns = this.$columns;
    if (came.columns.length !== columns.length) return MISMATCH;
    const rows: unknown[][] = [];
    let row: unknown[] = [];
    let good = true;
    came.each((tag, lo, hi, data) => {
      const cell = (columns[row.length] as Type).take(session, tag, lo, hi, data);
      good &&= cell !== MISMATCH;
      row.push(cell);
      if (row.length === columns.length) {
        rows.push(row);
        row = [];
      }
    });
    return good ? rows : MISMATCH;
  }

  /** Appends a row. In structures and procedures it is appended whenever they come to it. */
  push(...cells: Args<S>): void {
    const session = this.$session;
    const place = session.$place();
    const args = this.$columns.flatMap((type: Type, at: number) => [type, cells[at]]);
    const made = emit(session.$r, session.$admit(), this, args, place);
    session.$release(session.$take(made, Done, place));
  }
}

/** Makes an empty table of rows with these types of columns. Not inside a structure. */
export function rows<S extends readonly Stub[]>(session: Session, ...types: Types<S>): Rows<S> {
  const place = session.$place();
  const columns = types.map((type: Type) => [type.numbersIn(session.$stubs)[0], type.theta] as const);
  return session.$fill(recordRows(session.$r, session.$admit(), columns, place), new Rows<S>(session, types), place);
}

/** Collects a row for each step of an iterator: `bf.collect(db.users(), [bf.Str, bf.Int], (e) => [...])`. */
export function collect<Y extends readonly Stub[], S extends readonly Stub[]>(
  iterator: Iter<Y>,
  types: Types<S>,
  row: (...values: Given<Y>) => Args<S>,
): Rows<S> {
  const session = iterator.$session;
  const table = rows<S>(session, ...types);
  session.foreach(iterator, (...values) => {
    const cells: unknown = row(...values);
    checkSync(cells);
    table.push(...(cells as Args<S>));
  });
  return table;
}

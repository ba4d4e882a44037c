// Stubs of objects of any type.

import { readCompound } from "./recorder/compounds.js";
import { settleValue } from "./recorder/slots.js";
import { itemReaders } from "./recorder/words.js";
import type { Session } from "./session.js";
import { Remote, type TYPES } from "./stub.js";
import * as t from "./tables.js";

itemReaders[t.TAG_COMPOUND] = readCompound;

/** The stub of an object of any type. As a part of a result it may also be a value. */
export class Any extends Remote {
  declare readonly [TYPES]: { readonly arg: Remote; readonly plain: Any };

  static override take(session: Session, tag: number, lo: number, hi: number, data: unknown): unknown {
    if (tag === t.TAG_REF) return Remote.take.call(this, session, tag, lo, hi, data);
    const stub = session.$new(Any);
    settleValue(session.$r, stub, { tag, lo, hi, data });
    return stub;
  }
}

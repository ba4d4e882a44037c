// Cells: the variables of loops at the server.

import type { CellNumbers, Stubs } from "./recorder/numbers.js";
import type { Session } from "./session.js";
import { type Arg, Remote, type Stub, type Type } from "./stub.js";
import { NO_NUMBER } from "./tables.js";
import { type Bool, Done } from "./values.js";

/** The cells of cells, which no interface has. */
const noCell: CellNumbers = [NO_NUMBER, NO_NUMBER, NO_NUMBER, NO_NUMBER];

/** A cell: an object that stores one value, a variable of loops at the server. */
export class Cell<S extends Stub> extends Remote {
  /** The type of its value. */
  readonly $of: Type<S>;

  constructor(session: Session, of: Type<S>) {
    super(session);
    this.$of = of;
  }

  private get numbers(): CellNumbers {
    return this.$of.numbersIn(this.$session.$stubs)[1];
  }

  /** Stores a value. */
  put(value: Arg<S>): Done {
    return this.$call(this.numbers[1], Done, this.$of, value);
  }

  /** Returns its value; signals `not_possible` if it is empty. */
  get(): S {
    return this.$call(this.numbers[3], this.$of);
  }

  /** True if it has a value. */
  full(): Bool {
    return this.$call(this.numbers[2], this.$session.$bool);
  }
}

/** Returns the type of cells of a type. */
export function cellOf<S extends Stub>(of: Type<S>): Type<Cell<S>> {
  class CellOf extends Cell<S> {
    static override readonly theta = `cell[${of.theta}]`;

    static override numbersIn(stubs: Stubs): readonly [number, CellNumbers] {
      return [of.numbersIn(stubs)[1][0], noCell];
    }

    constructor(session: Session) {
      super(session, of);
    }
  }
  return CellOf;
}

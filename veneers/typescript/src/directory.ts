// The root directory of a server.

import { Any } from "./any.js";
import { type Iter, Remote } from "./stub.js";
import * as t from "./tables.js";
import { builtinMethod, builtinNumbers, type Done, Str } from "./values.js";

/** The root directory: the names of well-known objects. */
export class Directory extends Remote {
  static override readonly theta = "directory";
  static override readonly numbersIn = builtinNumbers(t.BUILTIN_DIRECTORY);

  private number(method: number): number {
    return builtinMethod(this, t.BUILTIN_DIRECTORY, method);
  }

  /** Signals `not_found`. */
  lookup(name: string | Str): Any {
    return this.$call(this.number(0), Any, Str, name);
  }

  insert(name: string | Str, object: Remote): Done {
    return this.$call(this.number(1), this.$session.$done, Str, name, Any, object);
  }

  /** Signals `not_found`. */
  remove(name: string | Str): Done {
    return this.$call(this.number(2), this.$session.$done, Str, name);
  }

  names(): Iter<[Str]> {
    return this.$iter(this.number(3), [Str]);
  }

  /** The names, each with the type of its object. */
  list(): Iter<[Str, Str]> {
    return this.$iter(this.number(4), [Str, Str]);
  }
}

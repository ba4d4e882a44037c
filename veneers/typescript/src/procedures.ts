// Batched procedures, which the session keeps.

import { checkSync } from "./core.js";
import { type Failure, misuse } from "./recorder/failure.js";
import * as procedures from "./recorder/procedure.js";
import type { Heading } from "./recorder/recorder.js";
import { abandon } from "./recorder/structures.js";
import type { Recordable, Session } from "./session.js";
import { type Arg, type Args, Stub, type Type, type Types } from "./stub.js";
import { Done } from "./values.js";

/** An object that is a function, so that a call of it can say what to write. */
class Callable {
  constructor() {
    const told = (): never => {
      throw new TypeError("a procedure is called with its method `call`: f.call(1, 2)");
    };
    return Object.setPrototypeOf(told, new.target.prototype) as Callable;
  }
}

/** A batched procedure. */
export class Procedure<P extends readonly Stub[], S extends Stub> extends Callable {
  private readonly session: Session;
  private readonly number: number;
  private readonly params: Types<P>;
  private readonly result: Type<S>;
  /** The reason why its definition was not sent. */
  $refused: Failure | null = null;

  constructor(session: Session, number: number, params: Types<P>, result: Type<S>) {
    super();
    this.session = session;
    this.number = number;
    this.params = params;
    this.result = result;
  }

  /** Records a call. */
  call(...values: Args<P>): S {
    const { session } = this;
    const place = session.$place();
    const args = this.params.flatMap((type: Type, at: number) => [type, values[at]]);
    const made = procedures.callProcedure(session.$r, session.$admit(), this.number, this.$refused, args, place);
    return session.$take(made, this.result, place);
  }

  /** Ends the run of the procedure, in its body, with its result. */
  return(...result: S extends Done ? [] : [value: Arg<S>]): void {
    this.$return(result.length > 0, result[0]);
  }

  /** Records the end of a run, with a result or without. */
  $return(has: boolean, value: unknown): void {
    const { session } = this;
    const stub = value instanceof Stub ? value : null;
    const foreign = stub && stub.$session !== session ? misuse("OtherSession") : null;
    const operand = has ? (foreign ?? stub ?? ([this.result, value] as const)) : null;
    procedures.return_(session.$r, operand, session.$place());
  }
}

/**
 * Defines a procedure, which the session keeps. The body is called once, with its parameters and
 * then the procedure itself; it returns the result, or ends runs by `return` of the procedure.
 */
export function procedure<P extends readonly Stub[], S extends Stub>(
  session: Session,
  name: string,
  params: Types<P>,
  result: Type<S>,
  body: (...values: [...P, Procedure<P, S>]) => Arg<S> | (S extends Done ? Recordable : never),
): Procedure<P, S> {
  const r = session.$r;
  const place = session.$place();
  const heading = headingOf(session, params, result);
  const number = procedures.openProcedure(r, session.$admit(), name, heading, place);
  const made = new Procedure(session, number, params, result);
  let done = false;
  const depth = r.scopes.length;
  try {
    const values = session.$variables(params, place);
    const value: unknown = (body as (...values: unknown[]) => unknown)(...values, made);
    checkSync(value);
    if (heading.result >= 0) made.$return(true, value);
    done = true;
  } finally {
    if (!done) while (r.scopes.length >= depth) abandon(r);
  }
  made.$refused = procedures.closeProcedure(r);
  return made;
}

function headingOf(session: Session, params: readonly Type[], result: Type): Heading {
  const number = (type: Type): number => type.numbersIn(session.$stubs)[0];
  return { params: params.map(number), result: result === (Done as Type) ? -1 : number(result) };
}

/** Returns a procedure that the session has defined with these types. */
export function findProcedure<P extends readonly Stub[], S extends Stub>(
  session: Session,
  name: string,
  params: Types<P>,
  result: Type<S>,
): Procedure<P, S> | undefined {
  const number = procedures.findProcedure(session.$r, name, headingOf(session, params, result));
  return number === null ? undefined : new Procedure(session, number, params, result);
}

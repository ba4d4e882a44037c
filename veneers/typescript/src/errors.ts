// The errors that programs catch. Each is made afresh for its claim, so its stack is that of the claim.

import { errorName } from "./recorder/crossing.js";
import type { CallName, Failure, FailurePlace, Misuse } from "./recorder/failure.js";

/** Returns the text of a failure: a short one before the module of texts is there. */
let textOf = (failure: Failure): string => {
  const { kind, of } = failure.root();
  const why = of.ending?.text ?? of.text ?? of.misuse ?? of.name ?? kind;
  return of.call ? `${of.call.name}: ${why}` : why;
};
let loading: Promise<void> | undefined;

/** Has the errors from now on texts by a function. */
export function setTexts(of: (failure: Failure) => string): void {
  textOf = of;
  loading = Promise.resolve();
}

/** Loads the module of texts, if it is not there; without it errors have short texts. */
export const loadTexts = (): Promise<void> =>
  (loading ??= import("./texts.js").then(
    ({ textOf }) => {
      setTexts(textOf);
    },
    () => undefined,
  ));

/** An error of a session or of a call. */
export class BifrostError extends Error {
  /** What failed, and why: the claimed call first. */
  readonly failure: Failure;
  /** The calls between the one that was claimed and the one that failed, nearest first. */
  readonly via: readonly string[];
  /** The failed call: `DataBase.fetch`; empty if it is not known. */
  readonly call: string;

  constructor(failure: Failure, options?: ErrorOptions) {
    super(textOf(failure), options);
    this.name = new.target.name;
    this.failure = failure;
    const chain = failure.kind === "unseen" ? [failure] : failure.chain();
    this.via = chain.slice(0, -1).map((one) => nameOfCall(one.of.call));
    this.call = chain[chain.length - 1]?.of.call?.name ?? "";
  }
}

/** A call signalled an exception. Generated modules have a class below it for each exception. */
export class SignalError extends BifrostError {
  /** The exception's name in Theta. */
  readonly signal: string;
  /** Its values; objects are stubs. */
  readonly values: readonly unknown[];
  /** The places in the server's program where a `failure` arose and passed, if they are shown. */
  readonly places: readonly FailurePlace[];

  constructor(failure: Failure, values: readonly unknown[]) {
    super(failure);
    const { of } = failure.root();
    this.signal = of.name as string;
    this.values = values;
    this.places = of.places ?? [];
  }
}

/** The server refused a call, the structure around it, or the rest of the batch. */
export class RefusedError extends BifrostError {
  /** The error's number and name; see `docs/spec/wire.md`. */
  readonly number: number;
  readonly error: string;

  constructor(failure: Failure) {
    super(failure);
    this.number = failure.root().of.number as number;
    this.error = errorName(this.number);
  }

  /** True if other transactions have conflicted with this one, which can be tried again. */
  get isConflict(): boolean {
    return this.error === "Conflict";
  }
}

/** A call was not run, and the server did not say why. */
export class NotRunError extends BifrostError {}

/** The client refused a call, or the structure around it: nothing of it was sent. */
export class MisuseError extends BifrostError {
  readonly misuse: Misuse;

  constructor(failure: Failure) {
    super(failure);
    this.misuse = failure.root().of.misuse as Misuse;
  }
}

/** The server does not have the method, or has it with another heading. */
export class MissingError extends BifrostError {}

/** Failures that the program was not told of before; `errors` has them, oldest first. */
export class UnseenError extends AggregateError {
  readonly failure: Failure;
  /** The number of failures beyond `errors`. */
  readonly omitted: number;

  constructor(failure: Failure, errors: readonly Error[]) {
    super(errors, textOf(failure));
    this.name = "UnseenError";
    this.failure = failure;
    this.omitted = failure.of.omitted as number;
  }
}

/** The session has ended: all its stubs say so. */
export class ClosedError extends BifrostError {
  /** The side that ended it. */
  readonly by: "client" | "connection" | "server" | "bad_reply" | "wrong_reply";
  /** The number of the server's error, if it gave one, and its name. */
  readonly number: number | undefined;
  readonly error: string | undefined;

  constructor(failure: Failure) {
    const { ending } = failure.root().of;
    super(failure, ending?.cause instanceof Error ? { cause: ending.cause } : undefined);
    this.by = ending?.by ?? "client";
    this.number = ending?.number;
    this.error = ending?.number === undefined ? undefined : errorName(ending.number);
  }
}

/** There is no session: nobody answers, or the server has refused. */
export class ConnectError extends ClosedError {}

/** Returns the name of a call with its place and its rounds. */
export function nameOfCall(call: CallName | null | undefined): string {
  if (!call) return "";
  const at = call.place === undefined ? "" : ` at ${String(call.place)}`;
  const { rounds } = call;
  const some = rounds.length > 1 ? `, rounds [${rounds.join(", ")}]` : rounds.length > 0 ? `, round ${rounds[0]}` : "";
  return call.name + at + some;
}

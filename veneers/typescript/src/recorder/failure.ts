// The failures of calls, structures and sessions.
//
// A `Failure` is the reason why a stub has no result. The account of told failures knows one by its
// identity, so one failure is one object. Errors that programs catch are made of it, a fresh one for
// each claim: see `errors.ts`.

import { type MISUSE_NAMES, CAUSES_MAX } from "../tables.js";

/** The name of a misuse. */
export type Misuse = (typeof MISUSE_NAMES)[keyof typeof MISUSE_NAMES];

/** The kinds of failures. */
export type FailureKind =
  "signal" | "unhandled" | "refused" | "not_reached" | "not_sent" | "unseen" | "misuse" | "missing" | "closed";

/** A call, for messages. */
export interface CallName {
  /** `DataBase.fetch`; `?` when it is not known. */
  readonly name: string;
  /** Its number in its batch, from 1; 0 if it was not sent. */
  readonly number: number;
  /** The place where the program made it, if places are noted. */
  readonly place: unknown;
  /** The round of each loop around it, outermost first. */
  readonly rounds: readonly number[];
}

/** A place in the server's program at which a failure arose or passed. */
export interface FailurePlace {
  readonly routine: string;
  /** Empty if it is not known. */
  readonly file: string;
  /** From 1; 0 if it is not known. */
  readonly line: number;
}

/** A value as it crosses: its tag, its word, and the part that fits into no word. */
export interface Plain {
  readonly tag: number;
  readonly lo: number;
  readonly hi: number;
  readonly data: unknown;
}

/** The reason why a session ended. */
export interface Ending {
  readonly by: "client" | "connection" | "server" | "bad_reply" | "wrong_reply";
  readonly text: string;
  /** Of an error of the server. */
  readonly number?: number;
  /** The command of the session that is to blame, from 1; 0 for none. */
  readonly position?: number;
  /** The error of the connection. */
  readonly cause?: unknown;
}

/** The parts of a failure. Each kind has some of them. */
interface Parts {
  readonly call?: CallName | null;
  readonly cause?: Failure | null;
  /** Of a signal; of what the server lacks. */
  readonly name?: string;
  readonly values?: readonly Plain[];
  readonly places?: readonly FailurePlace[];
  readonly more?: number;
  /** Of an unhandled argument: 0 is the receiver. */
  readonly argument?: number;
  /** Of a refusal. */
  readonly number?: number;
  readonly text?: string;
  /** Of unseen failures. */
  readonly failures?: readonly Failure[];
  readonly omitted?: number;
  readonly misuse?: Misuse;
  readonly ending?: Ending;
}

/** The reason why a stub has no result. */
export class Failure {
  readonly kind: FailureKind;
  readonly of: Parts;
  /** The number of stubs that have it and may tell it. */
  held = 0;

  constructor(kind: FailureKind, of: Parts) {
    this.kind = kind;
    this.of = of;
  }

  /** The failure that this one follows from. */
  get cause(): Failure | null {
    return (this.kind === "unseen" ? this.of.failures?.[0] : this.of.cause) ?? null;
  }

  /** This failure and all that it follows from. */
  chain(): Failure[] {
    const all: Failure[] = [];
    all.push(this);
    for (let one = this.cause; one; one = one.cause) all.push(one);
    return all;
  }

  /** The failure that started it. */
  root(): Failure {
    const all = this.chain();
    return all[all.length - 1] ?? this;
  }

  /** This failure as the cause of another one; beyond 16 the root stands for all between. */
  asCause(): Failure {
    return this.chain().length > CAUSES_MAX ? this.root() : this;
  }
}

/** Makes the failure of a misuse. */
export const misuse = (name: Misuse): Failure => new Failure("misuse", { misuse: name });

/** Makes the failure of a method, routine or type that the server lacks. */
export const missing = (name: string): Failure => new Failure("missing", { name });

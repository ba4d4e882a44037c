// The errors of imports and of services that stay.

import { ClosedError } from "../errors.js";
import { ERROR_BAD_TOKEN } from "../tables.js";
import type { ImportFailure, Ran } from "./importer.js";

/** The most failures that an `ImportError` lists: the last one of each place. */
export const ATTEMPTS_MAX = 8;

/** A trader or server that was tried, with its last failure. */
export interface Attempt {
  /** Its address. */
  readonly place: string;
  readonly why: Error;
}

const FAILURES: Readonly<Record<Exclude<ImportFailure, "no_server">, string>> = {
  no_trader: "no trader has answered",
  no_offer: "no trader knows an offer that matches",
  no_address: "no offer has an address that this process can use",
  gave_up: "the server is lost, and the batch must not run a second time",
  no_store: "the server is lost, and its offer names no store that another server could share",
};

/** No server was imported. Nothing has run. */
export class ImportError extends Error {
  /** The service. */
  readonly service: string;
  /** The step that failed. */
  readonly failure: ImportFailure;
  /** The places that were tried, each with its last failure; the last `ATTEMPTS_MAX`. */
  readonly attempts: readonly Attempt[];

  constructor(service: string, failure: ImportFailure, offers: number, attempts: readonly Attempt[]) {
    const step = failure === "no_server" ? `no server of ${offers} offers was reached` : FAILURES[failure];
    const list = attempts.map(({ place, why }) => {
      // Some errors name their address themselves.
      const own = `${place}: `;
      return `; ${own}${why.message.startsWith(own) ? why.message.slice(own.length) : why.message}`;
    });
    super(`cannot import \`${service}\`: ${step}${list.join("")}`);
    this.name = "ImportError";
    this.service = service;
    this.failure = failure;
    this.attempts = attempts;
  }
}

const SAID: Readonly<Record<Ran, string>> = {
  no: "nothing of the run was done",
  began: "a part of the run was done",
  unknown: "nobody knows if the run was done",
};

/** The server of a service is lost, and the run must not be begun again. */
export class LostError extends Error {
  /** The account of the run: whether anything of it was done. */
  readonly ran: Ran;
  /** The reason why no other server could be asked, for a named run. */
  readonly search: Error | undefined;

  /** `why` is the end of the session. */
  constructor(ran: Ran, why: Error, search?: Error) {
    super(`the server is lost, and ${SAID[ran]}: ${why.message}${search ? `; ${search.message}` : ""}`, { cause: why });
    this.name = "LostError";
    this.ran = ran;
    this.search = search;
  }
}

/** A failure that the next try has too: a refusal, or a server of another kind. */
export class FinalError extends Error {}

/** The codes of Node for faults of TLS: of its own, and those of certificates. */
const TLS_CODES = /^(?:ERR_(?:TLS|SSL|OSSL)|ERROR_IN_|(?!E)[A-Z]+_)/;

/** True for a failure that the next try has too. */
export function isFinal(why: Error): boolean {
  if (why instanceof FinalError || why instanceof TypeError) return true;
  if (!(why instanceof ClosedError)) return false;
  if (why.by === "server") return why.number === ERROR_BAD_TOKEN;
  if (why.by === "wrong_reply") return true;
  const { code, syscall } = (why.cause ?? {}) as { code?: unknown; syscall?: unknown };
  // A file of certificates that cannot be read is a setting.
  return syscall === "open" || (typeof code === "string" && TLS_CODES.test(code));
}

/** Returns an error of anything that was thrown. */
export const errorOf = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

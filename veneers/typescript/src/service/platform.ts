// The functions that differ between Node and browsers, and times that end by a signal.

import type { Options } from "../connect.js";
import type { Stubs } from "../core.js";
import type { Session } from "../session.js";

/** The functions of Node or of a browser that imports need. */
export interface Platform {
  /** Opens a session with a server at an address that is none of a trader's URL. */
  connect(stubs: Stubs, address: string, options: Options): Promise<Session>;
  /** The schemes of servers that it can reach. */
  readonly schemes: readonly string[];
  /** Returns the identity of this machine's boot, whose local addresses it can use; empty if there is none. */
  host(): string;
  /** Returns a variable of the environment; empty if it is not set. */
  variable(name: string): string;
  /** True if all addresses of a host are of this machine. */
  isLoopback(host: string): Promise<boolean>;
  /** Waits until the events that have happened by now are known: a connection that has ended. */
  turn(): Promise<void>;
}

/** A signal that fires after a time, or with another one, until it is let go. */
export interface Limit {
  readonly signal: AbortSignal;
  /** Lets the timer and the other signal go. */
  done(): void;
}

/** Makes a signal that fires after this time with this text, or with the other signal. */
export function limit(ms: number, text: string, other: AbortSignal | undefined): Limit {
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort(other?.reason);
  };
  const timer = setTimeout(() => {
    controller.abort(new Error(text));
  }, ms);
  if (other?.aborted) abort();
  else other?.addEventListener("abort", abort, { once: true });
  return {
    signal: controller.signal,
    done() {
      clearTimeout(timer);
      other?.removeEventListener("abort", abort);
    },
  };
}

/** Waits for a time, or until the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    signal.addEventListener("abort", over);
    if (signal.aborted) over();
  });
}

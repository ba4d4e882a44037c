// The functions that differ between Node and browsers.

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

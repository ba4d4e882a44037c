// The package `bifrost-veneer/dynamic` for Node: sessions without generated stubs.

import { connectBy } from "./dynamic/session.js";
import { connect as connectWith } from "./index.js";

export type { DynamicObject, DynamicResult, DynamicSession } from "./dynamic/session.js";
export type { DynamicNames } from "./dynamic/stubs.js";

/** Opens a session with a server, whose stubs are made from the server's interface. */
export const connect = connectBy(connectWith);

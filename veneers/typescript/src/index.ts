// The package `bifrost-veneer` for Node.

import { connectWith } from "./connect.js";
import { dial } from "./node.js";

export * from "./common.js";

/** Opens a session; `connect` of a generated module calls it. */
export const connect = connectWith(dial);

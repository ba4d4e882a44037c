// The package `bifrost-veneer` for Node.

import { type Options, connectWith } from "./connect.js";
import { setTexts } from "./errors.js";
import { dial } from "./node.js";
import type { Stubs } from "./core.js";
import type { Session } from "./session.js";
import { textOf } from "./texts.js";

export * from "./common.js";

const open = connectWith(dial);

/** Opens a session; `connect` of a generated module calls it. */
export async function connect(stubs: Stubs, address: string, options: Options = {}): Promise<Session> {
  // There is no reason to load them later.
  setTexts(textOf);
  if (!/^trader[+:]/.test(address)) return open(stubs, address, options);
  const service = await import("./service/index.js");
  return service.connect(stubs, address, options);
}

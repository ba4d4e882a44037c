// Sessions with a script in place of a server.

import * as bf from "bifrost-veneer";

import * as t from "../src/tables.js";
import { welcome } from "./encode.js";

/** The time before an answer, in milliseconds. */
const ANSWER_MS = 10;

/** Opens a session with a script, which gives one of these answers to all that is written after the greeting. */
export function scripted(
  stubs: bf.Stubs,
  answers: readonly Uint8Array[],
  options: bf.Options = {},
): Promise<bf.Session> {
  const left = [welcome(stubs.digest, [[t.LIMIT_PROFILE_ENTRIES, 4]]), ...answers].values();
  let listener: bf.Listener | undefined;
  const connection: bf.Connection = {
    listen: (user) => (listener = user),
    write: () => {
      const { value: answer } = left.next();
      if (answer) setTimeout(() => listener?.bytes(answer), ANSWER_MS);
    },
    close: () => undefined,
  };
  return bf.over(stubs, connection, options);
}

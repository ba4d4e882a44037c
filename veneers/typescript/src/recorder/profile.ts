// Profiles: the time of a batch, and the cost of each of its commands, which the server measures.

import { LIMIT_PROFILE_ENTRIES, OP_PROFILE, PROFILE_COMMAND, PROFILE_REST, PROFILE_STRUCTURE } from "../tables.js";
import { misuse } from "./failure.js";
import type { Admission, Recorder } from "./recorder.js";
import type { Reader } from "./words.js";

/** The cost of a command, a structure, or several of them. Times are nanoseconds. */
export interface Cost {
  readonly nanoseconds: number;
  readonly calls: number;
  readonly fuel: number;
  readonly fetches: number;
  readonly objects: number;
}

/** The cost of one command outside structures, or of one structure, by its first position. */
export interface ProfileEntry extends Cost {
  readonly call: number;
  readonly structure: boolean;
}

/** The time of a whole batch, and the objects that were fetched for it. */
export interface Totals {
  readonly nanoseconds: number;
  readonly fetches: number;
  readonly objects: number;
  /** The number of times that the batch was run. */
  readonly runs: number;
}

/** A profile: the time and the fetches of a batch, and the cost of its commands. */
export interface Profile extends Totals {
  readonly entries: readonly ProfileEntry[];
  /** The commands without an entry, and their cost. */
  readonly rest: (Cost & { readonly omitted: number }) | null;
}

/** Reads the profile at the end of a reply; for `profileReader`. */
export function readProfile(reader: Reader): Profile {
  const pair = (): [number, number] => {
    reader.word();
    return [reader.lo >>> 0, reader.hi >>> 0];
  };
  const cost = (): Cost => {
    const [low, high] = pair();
    const [calls, fuel] = pair();
    const [fetches, objects] = pair();
    return { nanoseconds: high * 2 ** 32 + low, calls, fuel, fetches, objects };
  };
  const [low, high] = pair();
  const [fetches, objects] = pair();
  const [runs, zero] = pair();
  reader.check(zero === 0);
  const [count, omitted] = pair();
  const entries: ProfileEntry[] = [];
  while (entries.length < count) {
    const [kind, call] = pair();
    reader.check(call > 0 && (kind === PROFILE_COMMAND || kind === PROFILE_STRUCTURE));
    entries.push({ call, structure: kind === PROFILE_STRUCTURE, ...cost() });
  }
  let rest: Profile["rest"] = null;
  if (omitted > 0) {
    const [kind, call] = pair();
    reader.check(kind === PROFILE_REST && call === 0);
    rest = { omitted, ...cost() };
  }
  return { nanoseconds: high * 2 ** 32 + low, fetches, objects, runs, entries, rest };
}

/**
 * Checks a program's wish for the profiles of its batches, or for no more of them. True if it changes
 * anything: then do the work that is due, and call `profile`. Throws the failure; nothing has changed
 * then.
 */
export function profileDue(r: Recorder, on: boolean): boolean {
  if (r.broken) throw r.broken;
  if (r.scopes.length > 0) throw misuse("OpenStructure");
  if (r.shipping) throw misuse("InTransaction");
  if (r.bounds[LIMIT_PROFILE_ENTRIES] < 0) throw misuse("NoProfiles");
  return on !== r.profiled;
}

/** Has the server measure this batch and all later ones, or no more, as the second half of `profileDue`. */
export function profile(r: Recorder, admitted: Admission, on: boolean): void {
  if (admitted) throw admitted;
  r.batch.head(OP_PROFILE, Number(on), 0);
  r.commands += 1;
  r.profiled = on;
}

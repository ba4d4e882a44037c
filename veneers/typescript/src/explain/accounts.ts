// Accounts of batches, and advice that saves crossings; `crates/recorder/src/explain.rs` has the same.

import type { Watcher } from "../recorder/crossing.js";
import type { Profile, Totals } from "../recorder/profile.js";
import { COMMIT_OF, type Futures, madeName, type Maker, type Recorder, REFUSED_OF } from "../recorder/recorder.js";
import type { Slot } from "../recorder/slots.js";
import { totalsText } from "./costs.js";
import { Kept } from "./explainer.js";

/** The number of batches whose accounts are kept. */
export const ACCOUNTS = 32;
/** The number of calls of a batch that are counted by their places. */
export const LOOKED_AT = 512;
/** The number of times that a place has to repeat a call before it is told. */
const REPEATED = 64;
/** The most places of calls that are counted. */
const PLACES = 16;
/** A batch of so many commands or fewer has hardly been worth its crossing. */
const FEW = 8;
/** The number of batches that have to end at one claim before it is told. */
const AGAIN = 3;

/** A result that was claimed: its call, the places of the call and of the claim, if they are known. */
interface Claim {
  readonly made: Maker;
  readonly recorded: unknown;
  readonly place: unknown;
}

/** The work of the server for a batch. */
export interface Ran {
  /** Calls; those of loops count each time. */
  readonly calls: number;
  readonly fuel: number;
  readonly failures: number;
  /** The time of the batch and its fetches, if the answer has a profile. */
  readonly totals: Totals | null;
}

/** The account of a batch that was sent. */
export interface Account {
  /** Its number in the session, from 1. */
  readonly number: number;
  readonly commands: number;
  /** The work of the server for it, if it has answered. */
  ran: Ran | null;
  /** The time up to the answer, in milliseconds. */
  took: number | null;
  /** The claim that sent it, or the place of another call that did; null for a limit. */
  readonly cause: Claim | { readonly place: unknown } | null;
  /** A call that one place repeated, and how often. */
  readonly repeated: readonly [made: Maker, place: unknown, times: number] | null;
}

/** Something to write otherwise; `text` says what. */
export interface Advice {
  readonly kind: "claim_again" | "claims_apart" | "repeated";
  /** The call that was claimed or repeated. */
  readonly call: string;
  /** The place of the claim or of the repeated call; of two claims the second. */
  readonly place: unknown;
  /** The place of the first of two claims. */
  readonly first?: unknown;
  /** The batches that ended with the claim, or the times that the call was repeated. */
  readonly times?: number;
  readonly text: string;
}

/** Returns the call that one place has made most often, if it has very often. */
function repeatedCall({ made, places }: Futures): Account["repeated"] {
  if (made.length < REPEATED) return null;
  const counts: [Maker, unknown, number][] = [];
  for (let at = 0; at < Math.min(made.length, LOOKED_AT); at++) {
    const found = counts.find(([maker, place]) => maker === made[at] && place === places[at]);
    if (found) found[2] += 1;
    else if (counts.length < PLACES) counts.push([made[at] as Maker, places[at], 1]);
  }
  const calls = counts.filter(([maker, , times]) => maker < COMMIT_OF && times >= REPEATED);
  return calls.sort((one, other) => other[2] - one[2])[0] ?? null;
}

/** Watches a recorder: keeps the bytes and the accounts of its last batches. */
export class Accounts implements Watcher {
  readonly list: Account[] = [];
  /** The part of the batch that was sent before its end. */
  sent = new Kept();
  /** The last batch, and its profile if the answer has come and has one. */
  last = new Kept();
  profile: Profile | null = null;
  private readonly r: Recorder;
  private cause: Account["cause"] = null;
  private readonly begun = new Map<number, number>();

  constructor(r: Recorder) {
    this.r = r;
  }

  keep(bytes: Uint8Array): void {
    this.sent.keep(bytes);
  }

  claimed(slot: Slot, place: unknown): void {
    const { made, places } = this.r.futures;
    this.cause ??= { made: made[slot.$lo - 1] ?? REFUSED_OF, recorded: places[slot.$lo - 1], place };
  }

  asked(place: unknown): void {
    this.cause ??= { place };
  }

  ended(bytes: Uint8Array, number: number, commands: number, futures: Futures): void {
    this.keep(bytes);
    [this.last, this.sent] = [this.sent, new Kept()];
    const account = { number, commands, ran: null, took: null, cause: this.cause, repeated: repeatedCall(futures) };
    this.cause = this.profile = null;
    if (this.list.push(account) > ACCOUNTS) this.list.shift();
    this.begun.set(number, performance.now());
  }

  ran(number: number, calls: number, fuel: number, failures: number, profile: Profile | null): void {
    const account = this.list.find((one) => one.number === number);
    const begun = this.begun.get(number);
    this.begun.delete(number);
    if (!account) return;
    if (account === this.list[this.list.length - 1]) this.profile = profile;
    const totals = profile && {
      nanoseconds: profile.nanoseconds,
      fetches: profile.fetches,
      objects: profile.objects,
      runs: profile.runs,
    };
    account.ran = { calls, fuel, failures, totals };
    if (begun !== undefined) account.took = performance.now() - begun;
  }

  /** Returns an account in words. */
  line({ number, commands, ran, took, cause }: Account): string {
    let line = `batch ${number}: ${commands} commands`;
    if (!ran) line += ", not answered";
    else {
      line += `, ${ran.calls} calls run, fuel ${ran.fuel}`;
      if (ran.failures > 0) line += `, ${ran.failures} failures`;
      if (ran.totals) line += `, at the server ${totalsText(ran.totals)}`;
    }
    if (took !== null) line += `, answered in ${(1000 * took).toFixed(1)} us`;
    if (!cause) return line;
    const at = cause.place === undefined ? "" : ` at ${String(cause.place)}`;
    if (!("made" in cause)) return `${line}; sent by the call${at}`;
    const recorded = cause.recorded === undefined ? "" : `, recorded at ${String(cause.recorded)}`;
    return `${line}; sent by the claim${at} of \`${madeName(this.r, cause.made)}\`${recorded}`;
  }

  /**
   * Returns what would have saved crossings in the last batches, each once; the most frequent first.
   * It compares places and numbers of commands. It cannot know if a program needs a value before it
   * makes the next call.
   */
  advice(): Advice[] {
    // The place of an `await` is not known: the place of the call whose result it was stands for it.
    const claimOf = ({ cause, commands }: Account): readonly [place: unknown, made: Maker] | null =>
      cause && "made" in cause && commands <= FEW ? [cause.place ?? cause.recorded, cause.made] : null;
    const claims: { place: unknown; made: Maker; batches: number }[] = [];
    for (const account of this.list) {
      const claim = claimOf(account);
      if (!claim) continue;
      const known = claims.find((one) => one.place === claim[0]);
      if (known) known.batches += 1;
      else claims.push({ place: claim[0], made: claim[1], batches: 1 });
    }
    const again = claims.filter(({ batches }) => batches >= AGAIN).sort((a, b) => b.batches - a.batches);
    const all: Advice[] = again.map(({ place, made, batches }) => {
      const call = madeName(this.r, made);
      const text =
        `${batches} of the last ${this.list.length} batches ended with the claim of \`${call}\` at ${String(place)}, ` +
        `after ${FEW} commands or fewer: record the calls of all rounds before the first claim, or have the server ` +
        "loop with `foreach`, `while` or a procedure and bring the values back as rows of a table";
      return { kind: "claim_again", call, place, times: batches, text };
    });
    const isAgain = (place: unknown): boolean => again.some((one) => one.place === place);
    this.list.forEach((account, at) => {
      const [one, other] = [at > 0 ? claimOf(this.list[at - 1] as Account) : null, claimOf(account)];
      if (!one || !other || one[0] === other[0] || (isAgain(one[0]) && isAgain(other[0]))) return;
      const [first, place, call] = [one[0], other[0], madeName(this.r, other[1])];
      const text =
        `the claims at ${String(first)} and ${String(place)} crossed one after the other, after ${FEW} commands or ` +
        `fewer each: record \`${call}\` before the first claim; if it needs the claimed value, pass it the promise`;
      if (!all.some((known) => known.text === text)) all.push({ kind: "claims_apart", call, place, first, text });
    });
    for (const { repeated } of this.list) {
      if (!repeated) continue;
      const [made, place, times] = repeated;
      if (all.some((known) => known.kind === "repeated" && known.place === place)) continue;
      const call = madeName(this.r, made);
      const text =
        `\`${call}\` was recorded ${times} times or more at ${String(place)} in one batch: a \`foreach\` or \`while\` ` +
        "is recorded and sent once";
      all.push({ kind: "repeated", call, place, times, text });
    }
    return all;
  }
}

// The decoder of commands, which a client does not need, and commands and replies as JSON.

import { type Command, readCommand } from "../src/explain/commands.js";
import { type Compound, readCompound } from "../src/recorder/compounds.js";
import { type Profile, readProfile } from "../src/recorder/profile.js";
import { type Exception, profileReader, type Reply } from "../src/recorder/reply.js";
import type { Rows } from "../src/recorder/rows.js";
import type { FailurePlace, Plain } from "../src/recorder/failure.js";
import * as t from "../src/tables.js";
import { bigintOf, Incomplete, itemReaders, Malformed, Reader, realOf, unsigned } from "../src/recorder/words.js";

itemReaders[t.TAG_COMPOUND] = readCompound;
profileReader.read = readProfile;

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte, at) => (at > 0 && at % 8 === 0 ? " " : "") + byte.toString(16).padStart(2, "0")).join("");

export function unhex(text: string): Uint8Array {
  const digits = text.replaceAll(" ", "");
  return Uint8Array.from({ length: digits.length / 2 }, (_, at) => parseInt(digits.substr(2 * at, 2), 16));
}

export function wordsOf(bytes: Uint8Array): Int32Array {
  const words = new Int32Array(Math.ceil(bytes.length / 8) * 2);
  new Uint8Array(words.buffer).set(bytes);
  return words;
}

/** A real as Rust writes it for debugging. */
function realText(value: number): string {
  if (Object.is(value, -0)) return "-0.0";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

export function value({ tag, lo, hi, data }: Plain): Json {
  switch (tag) {
    case t.TAG_REF:
      return { ref: Number(bigintOf(lo, hi)) };
    case t.TAG_NIL:
      return { nil: null };
    case t.TAG_BOOL:
      return { bool: lo !== 0 };
    case t.TAG_INT:
      return { int: String(bigintOf(lo, hi)) };
    case t.TAG_REAL:
      return { real: realText(realOf(lo, hi)) };
    case t.TAG_CHAR:
      return { char: String.fromCodePoint(lo) };
    case t.TAG_STRING:
      return { string: data as string };
    case t.TAG_BYTES:
      return { bytes: hex(data as Uint8Array).replaceAll(" ", "") };
    case t.TAG_COMPOUND: {
      const compound = data as Compound;
      const items: Json[] = [];
      compound.each((tag, lo, hi, data) => items.push(value({ tag, lo, hi, data })));
      return { compound: { type: compound.type === -1 ? null : compound.type, items } };
    }
    default:
      throw new Error(`there is no tag ${tag}`);
  }
}

const place = (p: FailurePlace): Json => ({ routine: p.routine, file: p.file, line: p.line });

function outcome(one: Plain): Json {
  switch (one.tag) {
    case t.TAG_REF:
      return { handle: Number(bigintOf(one.lo, one.hi)), type: one.data as number };
    case t.TAG_EXCEPTION:
      return { exception: one.lo };
    case t.TAG_ABSENT:
      return "absent";
    case t.TAG_ROWS: {
      const rows = one.data as Rows;
      const cells: Json[] = [];
      let at = 0;
      rows.each((tag, lo, hi, data) => {
        const [, type] = rows.columns[at++ % rows.columns.length] as readonly [number, number];
        cells.push(outcome({ tag, lo, hi, data: tag === t.TAG_REF ? type : data }));
      });
      return { rows: { columns: rows.columns as unknown as Json, cells } };
    }
    default:
      return value(one);
  }
}

function exception(e: Exception): Json {
  const head = { call: e.call, iterations: [...e.rounds] };
  if (e.kind === t.EXCEPTION_SIGNAL) {
    const signal: Record<string, Json> = { name: e.name, values: e.values.map(outcome) };
    if (e.places.length > 0) {
      signal["places"] = e.places.map(place);
      signal["more_places"] = e.more;
    }
    return { ...head, signal };
  }
  if (e.kind === t.EXCEPTION_REFUSED) return { ...head, refused: { number: e.number, text: e.text } };
  const unhandled: Record<string, Json> = { argument: e.argument, cause: e.cause };
  if (e.back > 0) unhandled["back"] = e.back;
  return { ...head, unhandled };
}

/** A profile as the vectors have it. */
export function profileJson(profile: Profile | null): Record<string, Json> | null {
  if (!profile) return null;
  const { entries, rest, ...totals } = profile;
  const listed = entries.map(({ structure, ...entry }) => (structure ? { ...entry, structure } : entry));
  return { ...totals, entries: listed, ...(rest && { rest: { ...rest } }) };
}

export function reply(r: Reply): Json {
  switch (r.code) {
    case t.OP_WELCOME:
      return {
        welcome: {
          version: r.version,
          session: r.session,
          digest: r.digest,
          server: r.server,
          limits: r.limits as unknown as Json,
        },
      };
    case t.OP_FLUSHED: {
      const profile = profileJson(r.profile);
      return {
        flushed: {
          outcomes: r.outcomes.map(outcome),
          exceptions: r.exceptions.map(exception),
          omitted: r.omitted,
          calls: r.calls,
          fuel: r.fuel,
          ...(profile && { profile }),
        },
      };
    }
    case t.OP_INTERFACE:
      return { interface: new TextDecoder().decode(r.json) };
    case t.OP_EXCEPTIONS:
      return { exceptions: { list: r.list.map(([batch, e]) => [batch, exception(e)]), omitted: r.omitted } };
    case t.OP_FAREWELL:
      return "farewell";
    case t.OP_ERROR:
      return { error: { number: r.number, position: r.position, text: r.text } };
  }
}

/** A command of the decoder as JSON. */
function jsonOf(part: unknown): Json {
  if (typeof part === "bigint") return Number(part);
  if (Array.isArray(part)) return part.map(jsonOf);
  if (typeof part !== "object" || part === null) return part as Json;
  if ("lo" in part) return value(part as Plain);
  return Object.fromEntries(Object.entries(part).map(([name, one]) => [name, jsonOf(one)]));
}

/** Reads one command. Throws `Malformed` or `Incomplete`. */
export function command(reader: Reader): Json {
  const read = readCommand(reader) as Partial<Command> | string;
  if (typeof read === "string") return read;
  const hello = "hello" in read && read.hello;
  if (hello) return { hello: { ...hello, digest: hex(hello.digest).replaceAll(" ", "") } };
  const json = jsonOf(read) as Record<string, Json>;
  const free = json["free"] as { handles: Json; unanswered: number } | undefined;
  return free?.unanswered === 0 ? { free: free.handles } : json;
}

/** Reads all commands of the bytes. */
export function commands(bytes: Uint8Array): Json[] {
  const words = wordsOf(bytes);
  const all: Json[] = [];
  let at = 0;
  while (at < words.length) {
    const rest = words.slice(at);
    const reader = new Reader(rest, 0, rest.length, 1 << 18);
    all.push(command(reader));
    at += reader.at;
  }
  return all;
}

export { Incomplete, Malformed, unsigned };

// The decoder of commands, which a client does not need, and commands and replies as JSON.

import { type Compound, readCompound } from "../src/recorder/compounds.js";
import type { Exception, Reply } from "../src/recorder/reply.js";
import type { Rows } from "../src/recorder/rows.js";
import type { FailurePlace, Plain } from "../src/recorder/failure.js";
import * as t from "../src/tables.js";
import { bigintOf, Incomplete, itemReaders, Malformed, Reader, realOf, unsigned } from "../src/recorder/words.js";

itemReaders[t.TAG_COMPOUND] = readCompound;

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
    case t.OP_FLUSHED:
      return {
        flushed: {
          outcomes: r.outcomes.map(outcome),
          exceptions: r.exceptions.map(exception),
          omitted: r.omitted,
          calls: r.calls,
          fuel: r.fuel,
        },
      };
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

const PLAIN: Readonly<Record<number, string>> = {
  [t.OP_DESCRIBE]: "describe",
  [t.OP_COMMIT]: "commit",
  [t.OP_ABORT]: "abort",
  [t.OP_BYE]: "bye",
  [t.OP_WHILE]: "while",
  [t.OP_END_WHILE]: "end_while",
  [t.OP_IF]: "if",
  [t.OP_ELSE]: "else",
  [t.OP_END_IF]: "end_if",
  [t.OP_FOREACH]: "foreach",
  [t.OP_END_FOREACH]: "end_foreach",
  [t.OP_BREAK]: "break",
  [t.OP_CONTINUE]: "continue",
  [t.OP_EXCEPT]: "except",
  [t.OP_END_EXCEPT]: "end_except",
  [t.OP_END_PROCEDURE]: "end_procedure",
};

const TRACE = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Reads one command. Throws `Malformed` or `Incomplete`. */
export function command(reader: Reader): Json {
  reader.loose = true;
  reader.word();
  const code = reader.lo & 255;
  const flags = reader.lo >>> 8;
  const number = reader.hi >>> 0;
  const optional = (type: number): Json => (type === 0xffffffff ? null : type);
  const reference = (): number => {
    reader.word();
    return Number(bigintOf(reader.lo, reader.hi));
  };
  const bare = (): void => {
    // This check has the place of the command in Rust.
    if (flags !== 0 || number !== 0) throw new Malformed(32, 0);
  };
  const types = (count: number): Json => {
    const all: Json[] = [];
    for (let at = reader.take(8 * count); at < reader.at; at += 2) {
      reader.check(reader.i32[at + 1] === 0 && reader.i32[at] !== -1);
      all.push((reader.i32[at] as number) >>> 0);
    }
    return all;
  };
  const one = (tag: number): Json => {
    if (tag === t.TAG_REF) return { ref: reference() };
    let read: Json = null;
    reader.value(tag, (tag, lo, hi, data) => (read = value({ tag, lo, hi, data })));
    return read;
  };
  const args = (): Json[] => {
    const count = flags & 255;
    const tags = flags >>> 8;
    if (count === 0) {
      reader.check(tags === 0);
      return [];
    }
    reader.check(count >= 4 || tags >>> (4 * count) === 0);
    const more = reader.take(8 * Math.ceil(Math.max(0, count - 4) / 16));
    if (count > 4 && (count - 4) % 16 > 0) {
      const tail = bigintOf(reader.i32[reader.at - 2] as number, reader.i32[reader.at - 1] as number);
      const clean = BigInt.asUintN(64, tail) >> BigInt(4 * ((count - 4) % 16)) === 0n;
      reader.check(clean);
    }
    return Array.from({ length: count }, (_, index) => {
      const rest = index - 4;
      return one(
        index < 4
          ? (tags >>> (4 * index)) & 15
          : ((reader.i32[more + (rest >> 3)] as number) >>> (4 * (rest & 7))) & 15,
      );
    });
  };
  const plain = PLAIN[code];
  if (plain) {
    bare();
    return plain;
  }
  switch (code) {
    case t.OP_HELLO: {
      reader.check(reader.lo === t.MAGIC_LOW && reader.hi === t.MAGIC_HIGH);
      reader.word();
      const [version, traced] = [reader.lo >>> 0, reader.hi];
      reader.check(traced === 0 || traced === 1);
      const at = reader.take(32);
      const digest = hex(new Uint8Array(reader.i32.buffer, 4 * at, 32)).replaceAll(" ", "");
      const hello: Record<string, Json> = { version, digest, token: reader.string(), client: reader.string() };
      if (traced === 1) {
        const trace = reader.string();
        reader.check(TRACE.test(trace));
        hello["trace"] = trace;
      }
      return { hello };
    }
    case t.OP_CALL:
    case t.OP_SEND: {
      const receiver = reference();
      return { [code === t.OP_CALL ? "call" : "send"]: { method: number, receiver, args: args() } };
    }
    case t.OP_CALL_ROUTINE:
      return { call_routine: { routine: number, args: args() } };
    case t.OP_CALL_PROCEDURE:
      return { call_procedure: { procedure: number, args: args() } };
    case t.OP_LOOKUP:
      reader.check(flags === 0);
      return { lookup: { name: reader.string(), expected: optional(number) } };
    case t.OP_CONSTANT:
      reader.check(number === 0 && flags <= 255);
      reader.check(flags !== t.TAG_REF);
      return { constant: one(flags) };
    case t.OP_CELL:
      reader.check(flags === 0);
      return { cell: { element: number } };
    case t.OP_ROWS:
      reader.check(number === 0 && flags >= 1 && flags <= 255);
      return { rows: { columns: types(flags) } };
    case t.OP_EMIT: {
      const rows = reference();
      const values = args();
      reader.check(number === 0);
      return { emit: { rows, values } };
    }
    case t.OP_AS:
    case t.OP_IS:
      reader.check(flags === 0);
      return { [code === t.OP_AS ? "as" : "is"]: { type: number, object: reference() } };
    case t.OP_GET:
      bare();
      return { get: { object: reference() } };
    case t.OP_FREE: {
      reader.check(flags <= 255);
      const handles: Json[] = [];
      for (let at = reader.take(8 * number); at < reader.at; at += 2) {
        handles.push(Number(bigintOf(reader.i32[at] as number, reader.i32[at + 1] as number)));
      }
      return { free: flags === 0 ? handles : { handles, unanswered: flags } };
    }
    case t.OP_FLUSH: {
      const [keeps, unanswered] = [(flags & 2) !== 0, flags >>> 8];
      const good = (flags & 0xfc) === 0 && unanswered <= 255 && (keeps || unanswered === 0);
      reader.check(good);
      const wanted: Json[] = [];
      let next = 1;
      for (let at = reader.take(8 * number); at < reader.at; at += 2) {
        const [first, count] = [(reader.i32[at] as number) >>> 0, (reader.i32[at + 1] as number) >>> 0];
        reader.check(first >= next && count > 0 && first + count - 1 <= 0xffffffff);
        next = first + count + 1;
        wanted.push([first, count]);
      }
      const flush: Record<string, Json> = { wanted, quiet: (flags & 1) !== 0 };
      if (keeps) flush["kept"] = unanswered;
      return { flush };
    }
    case t.OP_HISTORY:
      reader.check(number === 0 && flags <= 1);
      return flags === 1 ? "clear_history" : "history";
    case t.OP_TRANSACTION: {
      reader.check(number === 0 && (flags & 255) <= 1);
      let batch: Json = null;
      if ((flags & 1) === 1) {
        const word = (): bigint => {
          reader.word();
          return BigInt.asUintN(64, bigintOf(reader.lo, reader.hi));
        };
        const client = word() | (word() << 64n);
        batch = { client: client.toString(16).padStart(32, "0"), number: Number(word()) };
      }
      return { transaction: { tries: flags >>> 8, batch } };
    }
    case t.OP_WAIT:
      reader.check(flags === 0);
      return { wait: { ms: number } };
    case t.OP_DO:
      bare();
      return { do: { test: reference() } };
    case t.OP_THEN:
      bare();
      return { then: { test: reference() } };
    case t.OP_WHEN: {
      reader.check(number === 0 && flags <= 255);
      const name = reader.string();
      return { when: { name, values: types(flags) } };
    }
    case t.OP_OTHERS:
      reader.check(number === 0 && flags <= 1);
      return { others: { named: flags === 1 } };
    case t.OP_PROCEDURE: {
      reader.check(flags <= 255);
      const name = reader.string();
      return { procedure: { name, params: types(flags), result: optional(number) } };
    }
    case t.OP_RETURN: {
      reader.check(number === 0);
      if (flags === 0) return { return: null };
      reader.check((flags & 255) === 1 && flags >>> 16 === 0);
      return { return: one(flags >>> 8) };
    }
    default:
      return reader.bad();
  }
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

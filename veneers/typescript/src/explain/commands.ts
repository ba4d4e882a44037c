// The commands of clients, decoded: for explanations, and for tests.
//
// Every command starts with a word: its code, three bytes of flags, and a number. No byte is trusted.

import type { Plain } from "../recorder/failure.js";
import { bigintOf, Malformed, type Reader } from "../recorder/words.js";
import * as t from "../tables.js";

/** A command without parts. */
export type Bare = (typeof BARE)[keyof typeof BARE] | "history" | "clear_history";

/** A command with parts: an object with its name. References are numbers with a sign. */
export type Command =
  | { hello: { version: number; digest: Uint8Array; token: string; client: string; trace?: string } }
  | { call: { method: number; receiver: bigint; args: Plain[] } }
  | { send: { method: number; receiver: bigint; args: Plain[] } }
  | { call_routine: { routine: number; args: Plain[] } }
  | { call_procedure: { procedure: number; args: Plain[] } }
  | { lookup: { name: string; expected: number | null } }
  | { constant: Plain }
  | { cell: { element: number } }
  | { rows: { columns: number[] } }
  | { emit: { rows: bigint; values: Plain[] } }
  | { as: { type: number; object: bigint } }
  | { is: { type: number; object: bigint } }
  | { get: { object: bigint } }
  | { free: { handles: bigint[]; unanswered: number } }
  | { flush: { wanted: [first: number, count: number][]; quiet: boolean; kept?: number } }
  | { transaction: { tries: number; batch: { client: string; number: bigint } | null } }
  | { wait: { ms: number } }
  | { profile: { on: boolean } }
  | { do: { test: bigint } }
  | { then: { test: bigint } }
  | { when: { name: string; values: number[] } }
  | { others: { named: boolean } }
  | { procedure: { name: string; params: number[]; result: number | null } }
  | { return: Plain | null };

const BARE = {
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
} as const;

/** The trace context of W3C. */
const TRACE = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Reads one command. Throws `Malformed` or `Incomplete`. */
export function readCommand(reader: Reader): Command | Bare {
  reader.loose = true;
  reader.word();
  const code = reader.lo & 255;
  const flags = reader.lo >>> 8;
  const number = reader.hi >>> 0;
  const optional = (type: number): number | null => (type === t.NO_NUMBER ? null : type);
  const reference = (): bigint => {
    reader.word();
    return bigintOf(reader.lo, reader.hi);
  };
  const bare = (): void => {
    // This check has the place of the command in Rust.
    if (flags !== 0 || number !== 0) throw new Malformed(t.ERROR_BAD_WORD, 0);
  };
  const types = (count: number): number[] => {
    const all: number[] = [];
    for (let at = reader.take(8 * count); at < reader.at; at += 2) {
      reader.check(reader.i32[at + 1] === 0 && reader.i32[at] !== -1);
      all.push((reader.i32[at] as number) >>> 0);
    }
    return all;
  };
  const one = (tag: number): Plain => {
    if (tag === t.TAG_REF) {
      reader.word();
      return { tag, lo: reader.lo, hi: reader.hi, data: undefined };
    }
    let read: Plain | undefined;
    reader.value(tag, (tag, lo, hi, data) => (read = { tag, lo, hi, data }));
    return read as unknown as Plain;
  };
  const args = (): Plain[] => {
    const count = flags & 255;
    const tags = flags >>> 8;
    if (count === 0) {
      reader.check(tags === 0);
      return [];
    }
    reader.check(count >= 4 || tags >>> (4 * count) === 0);
    const more = reader.take(8 * Math.ceil(Math.max(0, count - 4) / 16));
    const tagAt = (index: number): number =>
      index < 4 ? tags >>> (4 * index) : (reader.i32[more + ((index - 4) >> 3)] as number) >>> (4 * ((index - 4) & 7));
    for (let index = count; index > 4 && (index - 4) % 16 > 0; index++) reader.check((tagAt(index) & 15) === 0);
    return Array.from({ length: count }, (_, index) => one(tagAt(index) & 15));
  };
  const plain = BARE[code as keyof typeof BARE] as Bare | undefined;
  if (plain) {
    bare();
    return plain;
  }
  switch (code) {
    case t.OP_HELLO: {
      reader.check(reader.lo === t.MAGIC_LOW && reader.hi === t.MAGIC_HIGH);
      reader.word();
      const [version, traced] = [reader.lo >>> 0, reader.hi];
      reader.check(traced === 0 || traced === t.HELLO_TRACED);
      const at = reader.take(32);
      const digest = new Uint8Array(reader.i32.buffer, reader.i32.byteOffset + 4 * at, 32).slice();
      const hello = { version, digest, token: reader.string(), client: reader.string() };
      if (traced === 0) return { hello };
      const trace = reader.string();
      reader.check(TRACE.test(trace));
      return { hello: { ...hello, trace } };
    }
    case t.OP_CALL: {
      const receiver = reference();
      return { call: { method: number, receiver, args: args() } };
    }
    case t.OP_SEND: {
      const receiver = reference();
      return { send: { method: number, receiver, args: args() } };
    }
    case t.OP_CALL_ROUTINE:
      return { call_routine: { routine: number, args: args() } };
    case t.OP_CALL_PROCEDURE:
      return { call_procedure: { procedure: number, args: args() } };
    case t.OP_LOOKUP:
      reader.check(flags === 0);
      return { lookup: { name: reader.string(), expected: optional(number) } };
    case t.OP_CONSTANT:
      reader.check(number === 0 && flags <= 255 && flags !== t.TAG_REF);
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
      reader.check(flags === 0);
      return { as: { type: number, object: reference() } };
    case t.OP_IS:
      reader.check(flags === 0);
      return { is: { type: number, object: reference() } };
    case t.OP_GET:
      bare();
      return { get: { object: reference() } };
    case t.OP_FREE: {
      reader.check(flags <= 255);
      const handles: bigint[] = [];
      for (let at = reader.take(8 * number); at < reader.at; at += 2) {
        handles.push(bigintOf(reader.i32[at] as number, reader.i32[at + 1] as number));
      }
      return { free: { handles, unanswered: flags } };
    }
    case t.OP_FLUSH: {
      const [keeps, unanswered] = [(flags & t.FLUSH_KEPT) !== 0, flags >>> 8];
      reader.check((flags & 0xfc) === 0 && unanswered <= 255 && (keeps || unanswered === 0));
      const wanted: [number, number][] = [];
      let next = 1;
      for (let at = reader.take(8 * number); at < reader.at; at += 2) {
        const [first, count] = [(reader.i32[at] as number) >>> 0, (reader.i32[at + 1] as number) >>> 0];
        reader.check(first >= next && count > 0 && first + count - 1 <= 0xffffffff);
        next = first + count + 1;
        wanted.push([first, count]);
      }
      const quiet = (flags & t.FLUSH_QUIET) !== 0;
      return { flush: keeps ? { wanted, quiet, kept: unanswered } : { wanted, quiet } };
    }
    case t.OP_HISTORY:
      reader.check(number === 0 && flags <= t.HISTORY_CLEAR);
      return flags === t.HISTORY_CLEAR ? "clear_history" : "history";
    case t.OP_TRANSACTION: {
      reader.check(number === 0 && (flags & 255) <= t.TRANSACTION_NAMED);
      const tries = flags >>> 8;
      if ((flags & 255) !== t.TRANSACTION_NAMED) return { transaction: { tries, batch: null } };
      const word = (): bigint => BigInt.asUintN(64, reference());
      const client = (word() | (word() << 64n)).toString(16).padStart(32, "0");
      return { transaction: { tries, batch: { client, number: word() } } };
    }
    case t.OP_PROFILE:
      reader.check(number === 0 && flags <= t.PROFILE_ON);
      return { profile: { on: flags === t.PROFILE_ON } };
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
      reader.check(number === 0 && flags <= t.OTHERS_NAMED);
      return { others: { named: flags === t.OTHERS_NAMED } };
    case t.OP_PROCEDURE: {
      reader.check(flags <= 255);
      const name = reader.string();
      return { procedure: { name, params: types(flags), result: optional(number) } };
    }
    case t.OP_RETURN:
      reader.check(number === 0);
      if (flags === 0) return { return: null };
      reader.check((flags & 255) === 1 && flags >>> 16 === 0);
      return { return: one(flags >>> 8) };
    default:
      return reader.bad();
  }
}

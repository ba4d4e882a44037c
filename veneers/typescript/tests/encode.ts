// Replies as bytes, from the JSON of scripts.

import { putPlain } from "../src/recorder/call.js";
import { Compound, putItems } from "../src/recorder/compounds.js";
import type { Plain } from "../src/recorder/failure.js";
import type { Recorder } from "../src/recorder/recorder.js";
import * as t from "../src/tables.js";
import { Words } from "../src/recorder/words.js";
import { type Json, unhex } from "./commands.js";

export type Fields = Record<string, Json>;

export const int = (number: bigint): Plain => ({
  tag: t.TAG_INT,
  lo: Number(BigInt.asIntN(32, number)),
  hi: Number(BigInt.asIntN(32, number >> 32n)),
  data: undefined,
});

const real = new Float64Array(1);
const realWords = new Int32Array(real.buffer);

/** Returns a value that `commands.value` has written. */
export function valueOf(json: Json): Plain {
  const [kind, value] = Object.entries(json as Fields)[0] as [string, Json];
  const made = (tag: number, lo = 0, data: unknown = undefined): Plain => ({ tag, lo, hi: 0, data });
  switch (kind) {
    case "nil":
      return made(t.TAG_NIL);
    case "bool":
      return made(t.TAG_BOOL, value ? 1 : 0);
    case "int":
      return int(BigInt(value as string));
    case "real":
      real[0] = value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value);
      return { tag: t.TAG_REAL, lo: realWords[0] as number, hi: realWords[1] as number, data: undefined };
    case "char":
      return made(t.TAG_CHAR, (value as string).codePointAt(0));
    case "string": {
      const long = value as { text: string; times: number };
      return made(t.TAG_STRING, 0, typeof value === "string" ? value : long.text.repeat(long.times));
    }
    case "bytes":
      return made(t.TAG_BYTES, 0, unhex(value as string));
    case "compound": {
      const { type, items } = value as { type: number | null; items: Json[] };
      const batch = new Words(64);
      putItems({ batch, depth: 0 } as unknown as Recorder, items.length, (index) => {
        const item = items[index] as Fields;
        return putPlain(
          batch,
          "ref" in item ? { ...int(BigInt(item["ref"] as number)), tag: t.TAG_REF } : valueOf(item),
        );
      });
      const words = new Int32Array(batch.slice(2).buffer);
      words[0] = type ?? -1;
      return made(t.TAG_COMPOUND, 0, new Compound(words));
    }
    default:
      throw new Error(`there are no values of kind ${kind}`);
  }
}

function outcome(out: Words, json: Json): void {
  if (json === "absent") {
    out.head(t.TAG_ABSENT, 0, 0);
    return;
  }
  const fields = json as Fields;
  if ("handle" in fields) {
    out.head(t.TAG_REF, 0, (fields["type"] as number | undefined) ?? 7);
    putPlain(out, int(BigInt(fields["handle"] as number)));
  } else if ("rows" in fields) {
    const { columns, cells } = fields["rows"] as unknown as { columns: [number, number][]; cells: Json[] };
    const start = out.n;
    out.head(t.TAG_ROWS, 0, cells.length / columns.length);
    out.word(0, 0);
    out.word(columns.length, 0);
    for (const [tag, type] of columns) out.head(tag, 0, type);
    for (const cell of cells) {
      const handle = (cell as Fields)["handle"];
      putPlain(out, handle === undefined ? valueOf(cell) : int(BigInt(handle as number)));
    }
    out.i32[start + 2] = 4 * (out.n - start - 4);
  } else if ("exception" in fields) out.head(t.TAG_EXCEPTION, 0, fields["exception"] as number);
  else {
    const value = valueOf(json);
    out.head(value.tag, 0, 0);
    putPlain(out, value);
  }
}

const PLACE_BYTES_MAX = 255;

function exception(out: Words, fields: Fields): void {
  const rounds = (fields["iterations"] ?? []) as number[];
  const signal = fields["signal"] as Fields | undefined;
  const unhandled = fields["unhandled"] as Fields | undefined;
  const values = (signal?.["values"] ?? []) as Json[];
  const places = ((signal?.["places"] ?? []) as Fields[]).slice(0, 32);
  const kind = signal ? 0 : unhandled ? 1 : 2;
  out.word(kind | (values.length << 8) | (rounds.length << 16) | (places.length << 24), fields["call"] as number);
  for (const round of rounds) out.word(round, 0);
  if (signal) {
    out.string(signal["name"] as string);
    for (const value of values) outcome(out, value);
    if (places.length > 0) {
      const cut = ((signal["places"] ?? []) as Json[]).length - places.length;
      out.word(((signal["more_places"] ?? 0) as number) + cut, 0);
      for (const place of places) {
        out.word(place["line"] as number, 0);
        out.string((place["routine"] as string).slice(0, PLACE_BYTES_MAX));
        out.string((place["file"] as string).slice(0, PLACE_BYTES_MAX));
      }
    }
  } else if (unhandled) {
    const back = (unhandled["back"] ?? 0) as number;
    out.word(((unhandled["argument"] as number) & 0xffffff) | (back << 24), unhandled["cause"] as number);
  } else {
    const { number, text } = fields["refused"] as { number: number; text: string };
    out.word(number, 0);
    out.string(text);
  }
}

/** Begins a reply; returns the function that ends it. */
function begin(out: Words, code: number, number: number): () => void {
  out.head(code, 0, number);
  out.word(0, 0);
  const body = out.n;
  return () => {
    out.i32[body - 2] = 4 * (out.n - body);
  };
}

export function flushed(
  outcomes: readonly Json[],
  exceptions: readonly Json[] = [],
  omitted = 0,
  calls = 0,
  fuel = 0,
  profile?: Fields,
): Uint8Array {
  const out = new Words(64);
  const end = begin(out, profile ? t.OP_FLUSHED | (t.FLUSHED_PROFILED << 8) : t.OP_FLUSHED, outcomes.length);
  out.word(exceptions.length, omitted);
  out.word(calls, fuel);
  for (const one of outcomes) outcome(out, one);
  for (const one of exceptions) exception(out, one as Fields);
  if (profile) putProfile(out, profile);
  end();
  return out.slice();
}

function putProfile(out: Words, profile: Fields): void {
  const of = (fields: Fields, name: string): number => fields[name] as number;
  const time = (fields: Fields): void => {
    const nanoseconds = of(fields, "nanoseconds");
    out.word(nanoseconds % 2 ** 32, Math.floor(nanoseconds / 2 ** 32));
  };
  const cost = (fields: Fields): void => {
    time(fields);
    out.word(of(fields, "calls"), of(fields, "fuel"));
    out.word(of(fields, "fetches"), of(fields, "objects"));
  };
  const entries = profile["entries"] as Fields[];
  const rest = profile["rest"] as Fields | undefined;
  time(profile);
  out.word(of(profile, "fetches"), of(profile, "objects"));
  out.word(of(profile, "runs"), 0);
  out.word(entries.length, rest ? of(rest, "omitted") : 0);
  for (const entry of entries) {
    out.word(entry["structure"] ? t.PROFILE_STRUCTURE : t.PROFILE_COMMAND, of(entry, "call"));
    cost(entry);
  }
  if (rest) {
    out.word(t.PROFILE_REST, 0);
    cost(rest);
  }
}

export function welcome(
  digest: string,
  limits: readonly [number, number][],
  session = 1,
  server = "script",
): Uint8Array {
  const out = new Words(64);
  const end = begin(out, t.OP_WELCOME, t.VERSION);
  out.word(session, 0);
  const bytes = new Int32Array(unhex(digest).buffer);
  for (let at = 0; at < 8; at += 2) out.word(bytes[at] as number, bytes[at + 1] as number);
  out.string(server);
  out.word(limits.length, 0);
  for (const [number, value] of limits) {
    out.word(number, 0);
    putPlain(out, int(BigInt(value)));
  }
  end();
  return out.slice();
}

export function interfaceReply(json: string): Uint8Array {
  const out = new Words(64);
  const end = begin(out, t.OP_INTERFACE, 0);
  out.string(json);
  end();
  return out.slice();
}

export function reply(json: Json): Uint8Array {
  const out = new Words(64);
  if (json === "farewell") begin(out, t.OP_FAREWELL, 0);
  else if (json === "welcome") return welcome("00".repeat(32), [], 1, "");
  else if (json === "interface") return interfaceReply("{}");
  else {
    const fields = json as Fields;
    if ("bytes" in fields) return unhex(fields["bytes"] as string);
    if ("welcome" in fields) {
      const { digest, limits, session, server } = fields["welcome"] as unknown as {
        digest: string;
        limits: [number, number][];
        session: number;
        server: string;
      };
      return welcome(digest, limits, session, server);
    }
    if ("interface" in fields) return interfaceReply(fields["interface"] as string);
    if ("exceptions" in fields) {
      const { list, omitted } = fields["exceptions"] as { list: [number, Fields][]; omitted: number };
      const end = begin(out, t.OP_EXCEPTIONS, list.length);
      out.word(omitted, 0);
      for (const [batch, one] of list) {
        out.word(batch, 0);
        exception(out, one);
      }
      end();
      return out.slice();
    }
    if ("error" in fields) {
      const { number, position, text } = fields["error"] as { number: number; position: number; text: string };
      const end = begin(out, t.OP_ERROR, number);
      out.word(position, 0);
      out.string(text);
      end();
    } else {
      const of = fields["flushed"] as Fields;
      const list = (name: string): Json[] => (of[name] ?? []) as Json[];
      const number = (name: string): number => (of[name] ?? 0) as number;
      const profile = of["profile"] as Fields | undefined;
      return flushed(list("outcomes"), list("exceptions"), number("omitted"), number("calls"), number("fuel"), profile);
    }
  }
  return out.slice();
}
